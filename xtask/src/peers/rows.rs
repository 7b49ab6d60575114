//! The rows: which models, and what is to be reached.

/// What is measured together, and the ratios to TFLite with XNNPACK that are to be reached.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Their times are added up.
    pub(super) models: &'static [&'static str],
    pub(super) must: f64,
    pub(super) aim: f64,
    /// Milliseconds from call to call; then ours go through a burst to another process, theirs are made in
    /// their own.
    pub(super) period_ms: Option<f64>,
    /// The targets are not ratios but microseconds.
    pub(super) absolute: bool,
}

const fn row(name: &'static str, models: &'static [&'static str], must: f64, aim: f64) -> Row {
    Row { name, models, must, aim, period_ms: None, absolute: false }
}

const fn paced(name: &'static str, models: &'static [&'static str]) -> Row {
    Row { name, models, must: 0.7, aim: 0.3, period_ms: Some(8.0), absolute: false }
}

/// All rows, as the project's targets name them.
pub(super) const ROWS: &[Row] = &[
    row("mobilenet_v1_1.0_224 float", &["mobilenet_v1_1.0_224_float_synthetic"], 1.10, 0.90),
    row("mobilenet_v2_1.0_224 float", &["mobilenet_v2_1.0_224_float_synthetic"], 1.10, 0.85),
    row("mobilenet_v1_0.25_128 float", &["mobilenet_v1_0.25_128"], 1.10, 0.85),
    row("mobilenet_v1_0.25_128 uint8", &["mobilenet_v1_0.25_128_quant"], 0.60, 0.40),
    row("mobilenet_v2_1.0_224 uint8", &["mobilenet_v2_1.0_224_quant"], 0.60, 0.40),
    row("mobilenet_v1_0.25_128 int8", &["mobilenet_v1_0.25_128_int8"], 1.00, 0.75),
    row("dtln float", &["dtln_float_1", "dtln_float_2"], 1.00, 0.70),
    row("dtln hybrid", &["dtln_quant_1", "dtln_quant_2"], 1.20, 0.80),
    row("asr_lstm float", &["asr_lstm_float_synthetic"], 0.50, 0.30),
    row("kws_svdf float", &["kws_svdf_float_synthetic"], 0.50, 0.30),
    row("mnist_lstm int8", &["mnist_lstm_int8"], 0.20, 0.05),
    row("micro_speech_lstm int8", &["micro_speech_lstm"], 0.20, 0.05),
    row("dtln_lstm int8", &["dtln_lstm_int8"], 0.20, 0.05),
    Row { absolute: true, ..row("add1", &["add1_float"], 1.0, 0.3) },
    paced("add1 paced", &["add1_float"]),
    paced("dtln hybrid 1 paced", &["dtln_quant_1"]),
    paced("dtln float 1 paced", &["dtln_float_1"]),
    paced("mobilenet_v1_0.25_128 float paced", &["mobilenet_v1_0.25_128"]),
];
