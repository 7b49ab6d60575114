//! The rows: which models, and what is to be reached.

/// The shared folders that have models, with a manifest each.
pub(super) const FOLDERS: [&str; 3] = ["models", "mlts", "tflite_zoo"];

/// The models that are measured together, and the ratios to TFLite with XNNPACK that are to be
/// reached.
#[derive(Clone, Copy)]
pub(super) struct PeerRow<'a> {
    pub(super) name: &'a str,
    /// Their times are added up.
    pub(super) models: &'a [&'a str],
    pub(super) origin: ModelOrigin,
    pub(super) must: f64,
    pub(super) aim: f64,
    pub(super) what: What,
    /// The targets are not ratios but microseconds.
    pub(super) absolute: bool,
}

/// The source of a row's models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ModelOrigin {
    /// A folder of the shared one, with a manifest of its models.
    Shared(&'static str),
    /// Made with random weights by the example `networks` of `nnburst-tflite`.
    Made,
}

/// The measurement of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// Calls back to back.
    Calls,
    /// The same with inputs below the least normal float.
    Faint,
    /// Calls so many milliseconds apart; ours go through a burst to another process, theirs are
    /// made in their own.
    Paced(f64),
    /// Making it ready: ours afresh or from a cache, theirs the interpreter, its memory and its
    /// delegate.
    Preparing {
        /// Ours from a cache.
        cached: bool,
    },
}

impl What {
    /// Milliseconds from call to call.
    pub(super) fn period_ms(self) -> Option<f64> {
        match self {
            Self::Paced(period) => Some(period),
            _ => None,
        }
    }
}

const fn row(
    name: &'static str,
    models: &'static [&'static str],
    must: f64,
    aim: f64,
) -> PeerRow<'static> {
    let (origin, what) = (ModelOrigin::Shared(FOLDERS[0]), What::Calls);
    PeerRow { name, models, origin, must, aim, what, absolute: false }
}

/// Calls so many milliseconds apart.
const fn paced(
    name: &'static str,
    models: &'static [&'static str],
    period_ms: f64,
) -> PeerRow<'static> {
    PeerRow { what: What::Paced(period_ms), ..row(name, models, 0.7, 0.3) }
}

/// Inputs below the least normal float: no slower than others.
const fn faint(name: &'static str, models: &'static [&'static str]) -> PeerRow<'static> {
    PeerRow { what: What::Faint, ..row(name, models, 0.95, 0.85) }
}

/// Targets in microseconds.
const fn preparing(
    name: &'static str,
    models: &'static [&'static str],
    cached: bool,
    must: f64,
    aim: f64,
) -> PeerRow<'static> {
    PeerRow { what: What::Preparing { cached }, absolute: true, ..row(name, models, must, aim) }
}

const V2_FLOAT: &[&str] = &["mobilenet_v2_1.0_224_float_synthetic"];

/// Rows of networks that nothing here is tuned by: nowhere slower.
macro_rules! others {
    (@row $kind:literal, $numbers:literal, $end:literal) => {
        PeerRow {
            origin: ModelOrigin::Made,
            ..row(concat!("other ", $kind, $numbers), &[concat!($kind, $end)], 1.0, 0.85)
        }
    };
    ($($kind:literal),* $(,)?) => {
        &[$(
            others!(@row $kind, " float", "_float"),
            others!(@row $kind, " uint8", "_uint8"),
            others!(@row $kind, " int8", "_int8"),
            others!(@row $kind, " int8 per tensor", "_int8_per_tensor"),
            others!(@row $kind, " on the fly", "_hybrid"),
        )*]
    };
}

/// Networks of other kinds, in float and as several converters quantise them.
pub(super) const OTHERS: &[PeerRow<'_>] = others![
    "mobilenet_v3",
    "efficientnet_lite",
    "resnet",
    "unet",
    "unet_transposed",
    "ssd",
    "deeplab",
    "yolo",
    "speech",
];

const fn transformer(name: &'static str, models: &'static [&'static str]) -> PeerRow<'static> {
    PeerRow { origin: ModelOrigin::Made, ..row(name, models, 0.8, 0.7) }
}

/// Transformers, of which the interpreter takes no unsigned bytes.
pub(super) const TRANSFORMERS: &[PeerRow<'_>] = &[
    transformer("transformer vit_tiny float", &["vit_tiny_float"]),
    transformer("transformer vit_tiny int8", &["vit_tiny_int8"]),
    transformer("transformer vit_tiny on the fly", &["vit_tiny_hybrid"]),
    transformer("transformer mobilebert float", &["mobilebert_float"]),
    transformer("transformer mobilebert int8", &["mobilebert_int8"]),
    transformer("transformer mobilebert on the fly", &["mobilebert_hybrid"]),
];

/// Rows of files of one operator each.
macro_rules! operators {
    ($($name:literal),* $(,)?) => {
        &[$(
            PeerRow {
                origin: ModelOrigin::Made,
                ..row(concat!("operators ", $name), &[concat!("operator_", $name)], 1.0, 0.85)
            },
        )*]
    };
}

/// Operators that go through the extension, or next to those that do: nowhere slower.
pub(super) const OPERATORS: &[PeerRow<'_>] = operators![
    "conv_16x8",
    "conv_point_16x8",
    "depthwise_16x8",
    "dense_hybrid_1",
    "dense_hybrid_8",
    "matmul_float",
    "matmul_int8",
    "resize_bilinear_float",
    "resize_bilinear_int8",
    "resize_nearest_float",
    "resize_nearest_int8",
    "detection_fast",
    "detection_regular",
];

/// The ratios to be reached by a network that the targets name.
struct Target {
    network: &'static str,
    must: f64,
    aim: f64,
}

const fn target(network: &'static str, must: f64, aim: f64) -> Target {
    Target { network, must, aim }
}

/// The networks that the targets name, in their order.
const TARGETS: &[Target] = &[
    target("mobilenet_v1_1.0_224_float_synthetic", 0.95, 0.90),
    target("mobilenet_v2_1.0_224_float_synthetic", 0.88, 0.83),
    target("mobilenet_v1_0.25_128", 0.80, 0.72),
    target("mobilenet_v1_0.25_128_quant", 0.30, 0.25),
    target("mobilenet_v1_0.5_160_quant", 0.33, 0.25),
    target("mobilenet_v1_0.75_192_quant", 0.32, 0.25),
    target("mobilenet_v2_1.0_224_quant", 0.35, 0.28),
    target("mobilenet_v1_0.25_128_int8", 0.50, 0.40),
    target("micro_speech_int8", 0.50, 0.25),
    target("movie_review_float", 0.90, 0.60),
    target("mlperf_tiny_kws_hybrid", 0.70, 0.55),
    target("audio_events_float", 0.85, 0.75),
    target("dtln_quant_1", 0.80, 0.60),
    target("dtln_quant_2", 0.80, 0.60),
    target("mlperf_tiny_resnet8_int8", 0.70, 0.50),
    target("mlperf_tiny_ad_int8", 0.80, 0.60),
    target("deeplabv3_257_float", 0.85, 0.75),
    target("mlperf_tiny_sww_int8", 0.70, 0.50),
    target("mlperf_tiny_kws_int8", 0.85, 0.50),
    target("mlperf_tiny_vww_int8", 0.85, 0.50),
    target("mlperf_tiny_vww_float", 0.85, 0.75),
    target("mlperf_tiny_resnet8_float", 0.85, 0.80),
    target("mlperf_tiny_ad_float", 0.85, 0.80),
    target("mobilenet_v3-small_224_1.0_uint8", 0.20, 0.15),
    target("mobilenet_v3-large-minimalistic_224_1.0_uint8", 0.40, 0.33),
    target("deeplabv3_mnv2_dm05_pascal_quant", 0.50, 0.40),
    target("blazeface_front_float", 0.75, 0.70),
    target("dtln_float_1", 0.68, 0.60),
    target("dtln_float_2", 0.68, 0.60),
    target("asr_lstm_float_synthetic", 0.28, 0.22),
    target("kws_svdf_float_synthetic", 0.32, 0.25),
    target("tts_float", 0.42, 0.35),
    target("lstm_layernorm_float_synthetic", 0.42, 0.35),
    target("mnist_lstm_int8", 0.05, 0.03),
    target("micro_speech_lstm", 0.05, 0.03),
    target("dtln_lstm_int8", 0.05, 0.03),
];

/// The targets of any other network.
const ANY: Target = target("", 0.95, 0.85);

/// The row of a model of `folder`, with its targets.
pub(super) fn any<'a>(folder: &'static str, model: &'a [&'a str; 1]) -> PeerRow<'a> {
    let origin = ModelOrigin::Shared(folder);
    let Target { must, aim, .. } =
        TARGETS.iter().find(|target| target.network == model[0]).unwrap_or(&ANY);
    PeerRow { name: model[0], models: model, origin, ..row("", &[], *must, *aim) }
}

/// The rows that the project's targets name.
pub(super) const ROWS: &[PeerRow<'_>] = &[
    row("mobilenet_v1_1.0_224 float", &["mobilenet_v1_1.0_224_float_synthetic"], 0.95, 0.90),
    row("mobilenet_v2_1.0_224 float", V2_FLOAT, 0.88, 0.83),
    row("mobilenet_v1_0.25_128 float", &["mobilenet_v1_0.25_128"], 0.80, 0.72),
    row("mobilenet_v1_0.25_128 uint8", &["mobilenet_v1_0.25_128_quant"], 0.30, 0.25),
    row("mobilenet_v2_1.0_224 uint8", &["mobilenet_v2_1.0_224_quant"], 0.35, 0.28),
    row("mobilenet_v1_0.25_128 int8", &["mobilenet_v1_0.25_128_int8"], 0.50, 0.40),
    row("dtln float", &["dtln_float_1", "dtln_float_2"], 0.68, 0.60),
    row("dtln hybrid", &["dtln_quant_1", "dtln_quant_2"], 0.80, 0.60),
    row("asr_lstm float", &["asr_lstm_float_synthetic"], 0.28, 0.22),
    row("kws_svdf float", &["kws_svdf_float_synthetic"], 0.32, 0.25),
    row("mnist_lstm int8", &["mnist_lstm_int8"], 0.05, 0.03),
    row("micro_speech_lstm int8", &["micro_speech_lstm"], 0.05, 0.03),
    row("dtln_lstm int8", &["dtln_lstm_int8"], 0.05, 0.03),
    preparing("mobilenet_v2_1.0_224 float prepared", V2_FLOAT, false, 6e3, 4e3),
    preparing("mobilenet_v2_1.0_224 float from cache", V2_FLOAT, true, 1.5e3, 1e3),
    PeerRow { absolute: true, ..row("add1", &["add1_float"], 1.0, 0.3) },
    faint("dtln float faint", &["dtln_float_1", "dtln_float_2"]),
    faint("mobilenet_v1_0.25_128 float faint", &["mobilenet_v1_0.25_128"]),
    // As sound cards pace them, and cameras.
    paced("add1 paced", &["add1_float"], 8.0),
    paced("dtln hybrid 1 paced", &["dtln_quant_1"], 8.0),
    paced("dtln float 1 paced", &["dtln_float_1"], 8.0),
    PeerRow {
        must: 0.5,
        aim: 0.35,
        ..paced("mobilenet_v1_0.25_128 float paced", &["mobilenet_v1_0.25_128"], 8.0)
    },
    paced("add1 paced 33 ms", &["add1_float"], 33.0),
    paced("dtln hybrid 1 paced 33 ms", &["dtln_quant_1"], 33.0),
    paced("dtln float 1 paced 33 ms", &["dtln_float_1"], 33.0),
    PeerRow {
        must: 0.45,
        aim: 0.35,
        ..paced("mobilenet_v1_0.25_128 float paced 33 ms", &["mobilenet_v1_0.25_128"], 33.0)
    },
];
