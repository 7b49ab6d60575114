//! The class of `nnbinference`: properties, caps, events and queries.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::subclass::base_transform::GenerateOutputSuccess;
use gst_base::subclass::prelude::*;
use nnburst_doors_common::Supervised;

use super::pads::{self, Kind, SidePad};
use super::properties::{self, InferenceProperties, Live};
use super::qos::Qos;
use super::stats::Stats;
use super::stream::InferenceStream;
use crate::allocator::MemfdAllocator;
use crate::element::{self, add_latency, lock, report_refused_caps};
use crate::engine::Engine;
use crate::{CAT, log};
use nnburst_pictures::{Decoder, Normalisation, PictureInput, PictureModel};

/// The runs of the model before the stream, whose longest is the latency that is reported first.
const WARM_UP_RUNS: u32 = 3;

/// The state of an element. The streaming thread holds `stream` for as long as a frame takes. All
/// other locks are held for moments only, so properties and queries never wait for the driver.
#[derive(Default)]
pub struct Inference {
    settings: Mutex<InferenceProperties>,
    stream: Mutex<Option<InferenceStream>>,
    /// The picture that the model in `settings` takes; `None` until somebody asks.
    picture: Mutex<Option<PictureInput>>,
    pads: Mutex<Vec<Arc<SidePad>>>,
    allocator: MemfdAllocator,
    pub(super) stats: Stats,
    pub(super) qos: Qos,
    /// Set while waits are to end: during a flush, and on the way to READY.
    pub(super) interrupt: AtomicBool,
}

#[glib::object_subclass]
impl ObjectSubclass for Inference {
    const NAME: &'static str = "NnburstInference";
    type Type = super::Inference;
    type ParentType = gst_base::BaseTransform;
}

impl ObjectImpl for Inference {
    fn properties() -> &'static [glib::ParamSpec] {
        properties::specs()
    }

    fn constructed(&self) {
        self.parent_constructed();
        report_refused_caps(&*self.obj(), |element| element.imp().caps());
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        element::set_property(&*self.obj(), spec, || {
            lock(&self.settings).set(spec.name(), value)?;
            if matches!(spec.name(), "model-file" | "model") {
                *lock(&self.picture) = None;
            }
            Some(())
        });
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        element::property(spec, || match spec.name() {
            "latency-p50" => Some(self.stats.quantile(0.5).to_value()),
            "latency-p99" => Some(self.stats.quantile(0.99).to_value()),
            "frames" => Some(self.stats.frames().to_value()),
            "inferred" => Some(self.stats.inferred().to_value()),
            "dropped" => Some(self.stats.dropped().to_value()),
            "driver-pid" => Some(self.stats.driver_pid().to_value()),
            name => lock(&self.settings).get(name),
        })
    }
}

impl GstObjectImpl for Inference {}

impl ElementImpl for Inference {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Neural network inference",
                "Filter/Analyzer/Video",
                "Runs a .tflite model on each frame, through a driver of the Neural Networks HAL",
                env!("CARGO_PKG_NAME"),
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let always = |name, direction| {
                gst::PadTemplate::new(name, direction, gst::PadPresence::Always, &TEMPLATE_CAPS)
            };
            let main =
                [always("sink", gst::PadDirection::Sink), always("src", gst::PadDirection::Src)];
            main.into_iter().chain(pads::templates()).flatten().collect()
        });
        &TEMPLATES
    }

    fn request_new_pad(
        &self,
        template: &gst::PadTemplate,
        name: Option<&str>,
        _caps: Option<&gst::Caps>,
    ) -> Option<gst::Pad> {
        let mut pads = lock(&self.pads);
        let (kind, name) = match (template.name_template(), name) {
            ("mask", _) => (Kind::Mask, "mask".to_owned()),
            (_, Some(name)) => (Kind::Tensors, name.to_owned()),
            (_, None) => {
                let taken = |name: &str| pads.iter().any(|side| side.pad.name() == name);
                let name = (0..=pads.len()).map(|at| format!("tensor_{at}"));
                (Kind::Tensors, name.into_iter().find(|name| !taken(name))?)
            }
        };
        if pads.iter().any(|side| side.pad.name() == name) {
            return None; // there is one of that name already
        }
        let pad = gst::Pad::builder_from_template(template).name(name).build();
        if self.obj().current_state() > gst::State::Ready {
            pad.set_active(true).ok()?;
        }
        self.obj().add_pad(&pad).ok()?;
        pads.push(Arc::new(SidePad::new(pad.clone(), kind)));
        Some(pad)
    }

    fn release_pad(&self, pad: &gst::Pad) {
        // Before the lock: a push that is under way ends with this.
        let _ = pad.set_active(false);
        lock(&self.pads).retain(|side| side.pad != *pad);
        let _ = self.obj().remove_pad(pad);
    }

    fn change_state(
        &self,
        transition: gst::StateChange,
    ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        if transition == gst::StateChange::PausedToReady {
            // The streaming thread, which the parent waits for, must not wait for the driver.
            self.set_interrupted(true);
        }
        self.parent_change_state(transition)
    }
}

static TEMPLATE_CAPS: LazyLock<gst::Caps> = LazyLock::new(|| {
    gst::Caps::builder("video/x-raw")
        .field("format", gst::List::new(["RGB", "GRAY8"]))
        .field("width", gst::IntRange::new(1, i32::MAX))
        .field("height", gst::IntRange::new(1, i32::MAX))
        .field(
            "framerate",
            gst::FractionRange::new(gst::Fraction::new(0, 1), gst::Fraction::new(i32::MAX, 1)),
        )
        .build()
});

impl BaseTransformImpl for Inference {
    const MODE: gst_base::subclass::BaseTransformMode =
        gst_base::subclass::BaseTransformMode::AlwaysInPlace;
    const PASSTHROUGH_ON_SAME_CAPS: bool = true;
    const TRANSFORM_IP_ON_PASSTHROUGH: bool = true;

    fn start(&self) -> Result<(), gst::ErrorMessage> {
        self.set_interrupted(false);
        self.qos.reset();
        let settings = lock(&self.settings).clone();
        let stream = self.open(&settings)?;
        for side in self.side_pads() {
            side.restart();
        }
        *lock(&self.stream) = Some(stream);
        Ok(())
    }

    fn stop(&self) -> Result<(), gst::ErrorMessage> {
        let stream = lock(&self.stream).take();
        if let Some(stream) = stream {
            stream.close();
        }
        Ok(())
    }

    fn transform_caps(
        &self,
        _direction: gst::PadDirection,
        caps: &gst::Caps,
        filter: Option<&gst::Caps>,
    ) -> Option<gst::Caps> {
        let caps = caps.intersect_with_mode(&self.caps(), gst::CapsIntersectMode::First);
        Some(match filter {
            Some(filter) => filter.intersect_with_mode(&caps, gst::CapsIntersectMode::First),
            None => caps,
        })
    }

    fn set_caps(&self, caps: &gst::Caps, _: &gst::Caps) -> Result<(), gst::LoggableError> {
        let info = gst_video::VideoInfo::from_caps(caps)?;
        if let Some(stream) = lock(&self.stream).as_mut() {
            stream.info = Some(info);
        }
        Ok(())
    }

    fn query(&self, direction: gst::PadDirection, query: &mut gst::QueryRef) -> bool {
        let answered = BaseTransformImplExt::parent_query(self, direction, query);
        if answered && direction == gst::PadDirection::Src {
            add_latency(query, self.latency());
        }
        answered
    }

    fn propose_allocation(
        &self,
        decided: Option<&gst::query::Allocation>,
        query: &mut gst::query::Allocation,
    ) -> Result<(), gst::LoggableError> {
        let reads_in_place =
            lock(&self.stream).as_mut().is_some_and(|stream| stream.reads_in_place());
        if reads_in_place {
            self.offer(&self.allocator, query)
        } else {
            // Pixels are converted on the way to the model: memory that suits downstream is best.
            self.parent_propose_allocation(decided, query)
        }
    }

    fn sink_event(&self, event: gst::Event) -> bool {
        match event.view() {
            gst::EventView::FlushStart(_) => self.set_interrupted(true),
            gst::EventView::FlushStop(_) => {
                self.set_interrupted(false);
                self.qos.reset();
                if let Some(stream) = lock(&self.stream).as_mut() {
                    stream.reset();
                }
            }
            gst::EventView::Eos(_) => self.finish_last(),
            _ => {}
        }
        for side in self.side_pads() {
            side.event(&event);
        }
        self.parent_sink_event(event)
    }

    fn src_event(&self, event: gst::Event) -> bool {
        if let gst::EventView::Qos(qos) = event.view() {
            let (_, _, difference, timestamp) = qos.get();
            self.qos.observe(timestamp, difference);
        }
        self.parent_src_event(event)
    }

    fn generate_output(&self) -> Result<GenerateOutputSuccess, gst::FlowError> {
        match self.take_queued_buffer() {
            Some(buffer) => self.process(buffer).map(GenerateOutputSuccess::Buffer),
            None => Ok(GenerateOutputSuccess::NoOutput),
        }
    }
}

impl Inference {
    fn open(&self, settings: &InferenceProperties) -> Result<InferenceStream, gst::ErrorMessage> {
        let failed = |error: &dyn std::fmt::Display| {
            gst::error_msg!(gst::ResourceError::Settings, ("{error}"))
        };
        let Some(path) = settings.model_file.clone() else {
            return Err(gst::error_msg!(gst::ResourceError::NotFound, ("model-file is not set")));
        };
        let options = settings.options().map_err(|error| failed(&error))?;
        let given = [&settings.mean, &settings.scale, &settings.ranges].map(Option::as_deref);
        let normalisation =
            Normalisation::parse(given[0], given[1], given[2]).map_err(|error| failed(&error))?;
        let labels = match &settings.labels {
            Some(file) => read_labels(Path::new(file)).map_err(|error| failed(&error))?,
            None => Vec::new(),
        };
        let mut longest = std::time::Duration::ZERO;
        let mut supervised = Supervised::new(options, log::of_door(), move |device, options| {
            let mut engine = Engine::open(device, options, Path::new(&path), normalisation)?;
            engine.warm_up(1)?;
            Ok(engine)
        });
        let engine = supervised
            .get()
            .map_err(|error| gst::error_msg!(gst::ResourceError::OpenRead, ("{error}")))?;
        for warning in &engine.warnings {
            gst::warning!(CAT, imp = self, "{warning}");
        }
        longest = longest.max(engine.warm_up(WARM_UP_RUNS).map_err(|error| failed(&error))?);
        let picture = engine.model.picture.clone();
        let outputs = engine.model.outputs.clone();
        *lock(&self.picture) = Some(picture.clone());
        let pid = supervised.device().and_then(nnburst::Device::driver_process);
        self.stats.start(longest, pid);
        let decoder = Decoder::of(&outputs, picture.size());
        Ok(InferenceStream::new(supervised, &*self.obj(), decoder, labels))
    }

    /// The picture that the model takes, read from its file where nobody did that yet.
    fn picture(&self) -> Option<PictureInput> {
        if let Some(picture) = lock(&self.picture).clone() {
            return Some(picture);
        }
        let path = lock(&self.settings).model_file.clone()?;
        // An error is reported when the element starts.
        let picture = PictureModel::open(Path::new(&path), true).ok()?.picture;
        *lock(&self.picture) = Some(picture.clone());
        Some(picture)
    }

    /// The caps that the model takes; those of all models where none is set.
    fn caps(&self) -> gst::Caps {
        self.picture().map_or_else(|| TEMPLATE_CAPS.clone(), |picture| caps_of(&picture))
    }

    pub(super) fn live(&self) -> Live {
        lock(&self.settings).live
    }

    pub(super) fn stream(&self) -> MutexGuard<'_, Option<InferenceStream>> {
        lock(&self.stream)
    }

    /// The request pads. Their list is not held while one of them pushes.
    pub(super) fn side_pads(&self) -> Vec<Arc<SidePad>> {
        lock(&self.pads).clone()
    }

    fn set_interrupted(&self, is_interrupted: bool) {
        // Relaxed: the flag hands nothing over, and the wait looks at it again and again.
        self.interrupt.store(is_interrupted, Ordering::Relaxed);
    }

    /// The latency that this element adds.
    fn latency(&self) -> gst::ClockTime {
        match self.live().drop {
            properties::Drop::Busy => gst::ClockTime::ZERO,
            _ => self.stats.reported(),
        }
    }

    /// Before the end of the stream: the results of the frame that is still on its way.
    fn finish_last(&self) {
        let live = self.live();
        if let Some(stream) = lock(&self.stream).as_mut() {
            let _ = self.finish(stream, live);
        }
    }
}

/// The caps of a model's pictures.
fn caps_of(picture: &PictureInput) -> gst::Caps {
    let side = |side: u32| i32::try_from(side).unwrap_or(i32::MAX);
    gst::Caps::builder("video/x-raw")
        .field("format", if picture.channels == 1 { "GRAY8" } else { "RGB" })
        .field("width", side(picture.width))
        .field("height", side(picture.height))
        .build()
}

/// Bytes of the largest file that is taken for labels.
const LABELS_LIMIT: u64 = 16 << 20;

fn read_labels(path: &Path) -> Result<Vec<String>, String> {
    use std::io::Read;
    let read = || {
        let mut text = String::new();
        std::fs::File::open(path)?.take(LABELS_LIMIT).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    let text = read().map_err(|error| format!("labels {}: {error}", path.display()))?;
    Ok(text.trim_end().lines().map(|line| line.trim().to_owned()).collect())
}

impl std::fmt::Debug for Inference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inference").field("stats", &self.stats).finish_non_exhaustive()
    }
}
