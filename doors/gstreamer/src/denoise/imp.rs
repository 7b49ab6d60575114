//! The class of `nnbdenoise`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::*;
use gst_base::subclass::base_transform::GenerateOutputSuccess;
use gst_base::subclass::prelude::*;
use nnburst::BurstOptions;
use nnburst_denoise::{BLOCK, BLOCK_TIME, DELAY, DenoiseError, Denoiser};
use nnburst_doors_common::Supervised;

use super::line::Line;
use super::properties::{self, Settings};
use crate::driver::Driver;
use crate::{CAT, log};

/// Samples in a second.
const RATE: u64 = 16_000;

/// The state of an element. `stream` is held while a block is computed; no other lock is.
#[derive(Debug, Default)]
pub struct Denoise {
    settings: Mutex<Settings>,
    stream: Mutex<Option<Stream>>,
    /// Figures, each for itself: `Relaxed`.
    blocks: AtomicU64,
    misses: AtomicU64,
    driver_pid: AtomicU32,
}

/// What lives from READY to PAUSED and back.
#[derive(Debug)]
struct Stream {
    driver: Driver<Denoiser>,
    line: Line,
    /// The time stamp of the line's first sample.
    start: Option<gst::ClockTime>,
    /// Buffers to be pushed.
    ready: VecDeque<gst::Buffer>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[glib::object_subclass]
impl ObjectSubclass for Denoise {
    const NAME: &'static str = "NnburstDenoise";
    type Type = super::Denoise;
    type ParentType = gst_base::BaseTransform;
}

impl ObjectImpl for Denoise {
    fn properties() -> &'static [glib::ParamSpec] {
        properties::specs()
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        if self.obj().current_state() > gst::State::Ready {
            gst::warning!(CAT, imp = self, "{} can be set in NULL and READY only", spec.name());
        } else if lock(&self.settings).set(spec.name(), value).is_none() {
            gst::error!(CAT, imp = self, "{} can't be set", spec.name());
        }
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "blocks" => self.blocks.load(Ordering::Relaxed).to_value(),
            "misses" => self.misses.load(Ordering::Relaxed).to_value(),
            "driver-pid" => self.driver_pid.load(Ordering::Relaxed).to_value(),
            name => lock(&self.settings).get(name).unwrap_or_else(|| spec.default_value().clone()),
        }
    }
}

impl GstObjectImpl for Denoise {}

impl ElementImpl for Denoise {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Neural network denoiser",
                "Filter/Effect/Audio",
                "Takes the noise out of speech with the DTLN networks",
                env!("CARGO_PKG_NAME"),
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let caps = gst::Caps::builder("audio/x-raw")
                .field("format", "F32LE")
                .field("rate", 16_000)
                .field("channels", 1)
                .field("layout", "interleaved")
                .build();
            let always = |name, direction| {
                gst::PadTemplate::new(name, direction, gst::PadPresence::Always, &caps)
            };
            let both =
                [always("sink", gst::PadDirection::Sink), always("src", gst::PadDirection::Src)];
            both.into_iter().flatten().collect()
        });
        &TEMPLATES
    }
}

impl BaseTransformImpl for Denoise {
    const MODE: gst_base::subclass::BaseTransformMode =
        gst_base::subclass::BaseTransformMode::NeverInPlace;
    const PASSTHROUGH_ON_SAME_CAPS: bool = false;
    const TRANSFORM_IP_ON_PASSTHROUGH: bool = false;

    fn start(&self) -> Result<(), gst::ErrorMessage> {
        let settings = lock(&self.settings).clone();
        let options = settings
            .options()
            .map_err(|error| gst::error_msg!(gst::ResourceError::Settings, ("{error}")))?;
        let [first, second] = settings.models();
        let limit = settings.limit();
        let mut supervised = Supervised::new(options, log::of_door(), move |device, options| {
            let burst = BurstOptions { timeout: Some(limit), ..options.burst() };
            let mut denoiser = Denoiser::open(device, &first, &second, &burst)?;
            // The first executions fault pages in.
            let (silence, mut clean) = ([0.0; BLOCK], [0.0; BLOCK]);
            (0..=DELAY).try_for_each(|_| denoiser.push(&silence, &mut clean))?;
            denoiser.reset()?;
            Ok(denoiser)
        });
        supervised
            .get()
            .map_err(|error| gst::error_msg!(gst::ResourceError::OpenRead, ("{error}")))?;
        let pid = supervised.device().and_then(nnburst::Device::driver_process);
        self.driver_pid.store(pid.unwrap_or(0), Ordering::Relaxed);
        for figure in [&self.blocks, &self.misses] {
            figure.store(0, Ordering::Relaxed);
        }
        let driver = Driver::new(supervised);
        let (line, start, ready) = (Line::new(), None, VecDeque::new());
        *lock(&self.stream) = Some(Stream { driver, line, start, ready });
        Ok(())
    }

    fn stop(&self) -> Result<(), gst::ErrorMessage> {
        let stream = lock(&self.stream).take();
        if let Some(stream) = stream {
            stream.driver.close();
        }
        Ok(())
    }

    fn unit_size(&self, _: &gst::Caps) -> Option<usize> {
        Some(size_of::<f32>())
    }

    fn query(&self, direction: gst::PadDirection, query: &mut gst::QueryRef) -> bool {
        let answered = BaseTransformImplExt::parent_query(self, direction, query);
        if direction == gst::PadDirection::Src
            && answered
            && let gst::QueryViewMut::Latency(latency) = query.view_mut()
        {
            let (is_live, least, most) = latency.result();
            let own = latency_of_line();
            latency.set(is_live, least + own, most.map(|most| most + own));
        }
        answered
    }

    fn sink_event(&self, event: gst::Event) -> bool {
        match event.view() {
            // What comes next is another stream: the end of this one first.
            gst::EventView::Eos(_) | gst::EventView::Segment(_) => self.push_drained(),
            gst::EventView::FlushStop(_) => {
                if let Some(stream) = lock(&self.stream).as_mut() {
                    stream.forget();
                }
            }
            _ => {}
        }
        self.parent_sink_event(event)
    }

    fn submit_input_buffer(
        &self,
        is_discont: bool,
        buffer: gst::Buffer,
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        let mut guard = lock(&self.stream);
        let Some(stream) = guard.as_mut() else { return Err(gst::FlowError::Flushing) };
        if is_discont || buffer.flags().contains(gst::BufferFlags::DISCONT) {
            self.drain(stream);
        }
        let mut samples = Vec::new();
        {
            let map = buffer.map_readable().map_err(|_| gst::FlowError::Error)?;
            samples.extend(map.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        if stream.line.given() == 0 && stream.start.is_none() {
            stream.start = buffer.pts();
        }
        let mut out = Vec::with_capacity(samples.len() + BLOCK);
        let first = stream.line.given();
        let Stream { driver, line, .. } = stream;
        line.push(&samples, &mut |block| self.clean(driver, block), &mut out);
        stream.queue(first, &out);
        Ok(gst::FlowSuccess::Ok)
    }

    fn generate_output(&self) -> Result<GenerateOutputSuccess, gst::FlowError> {
        let next = lock(&self.stream).as_mut().and_then(|stream| stream.ready.pop_front());
        Ok(next.map_or(GenerateOutputSuccess::NoOutput, GenerateOutputSuccess::Buffer))
    }
}

impl Denoise {
    /// Cleans a block; `None` where there is no driver, or it is too slow.
    fn clean(&self, driver: &mut Driver<Denoiser>, block: &[f32; BLOCK]) -> Option<[f32; BLOCK]> {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        let mut clean = [0.0; BLOCK];
        let pushed = driver.get().map(|denoiser| denoiser.push(block, &mut clean));
        if let Some(Ok(())) = pushed {
            return Some(clean);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        match pushed {
            Some(Err(DenoiseError::Runtime(error))) if error.is_device_lost() => {
                self.driver_pid.store(0, Ordering::Relaxed);
                driver.restart(&*self.obj(), error, |element, pid| {
                    element.imp().driver_pid.store(pid.unwrap_or(0), Ordering::Relaxed);
                });
            }
            Some(Err(error)) => gst::warning!(CAT, imp = self, "a block goes on as heard: {error}"),
            _ => {}
        }
        None
    }

    /// Queues what the line holds back, and begins a new line.
    fn drain(&self, stream: &mut Stream) {
        let (first, mut out) = (stream.line.given(), Vec::new());
        let Stream { driver, line, .. } = &mut *stream;
        line.drain(&mut |block| self.clean(driver, block), &mut out);
        stream.queue(first, &out);
        stream.start = None;
        if let Some(denoiser) = stream.driver.get()
            && let Err(error) = denoiser.reset()
        {
            gst::warning!(CAT, imp = self, "resetting the networks: {error}");
        }
    }

    /// Pushes what the line holds back.
    fn push_drained(&self) {
        let buffers = match lock(&self.stream).as_mut() {
            Some(stream) => {
                self.drain(stream);
                std::mem::take(&mut stream.ready)
            }
            None => return,
        };
        for buffer in buffers {
            // A flush or an error is met again by the event that follows.
            if let Err(error) = self.obj().src_pad().push(buffer) {
                gst::debug!(CAT, imp = self, "the end of the sound: {error}");
            }
        }
    }
}

impl Stream {
    /// Queues samples, of which the first is the line's `first`.
    fn queue(&mut self, first: u64, samples: &[f32]) {
        if samples.is_empty() {
            return;
        }
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let mut buffer = gst::Buffer::from_mut_slice(bytes);
        let end = first + samples.len() as u64;
        if let (Some(buffer), Some(start)) = (buffer.get_mut(), self.start) {
            buffer.set_pts(start + time_of(first));
            buffer.set_duration(time_of(end) - time_of(first));
        }
        if first == 0
            && let Some(buffer) = buffer.get_mut()
        {
            buffer.set_flags(gst::BufferFlags::DISCONT);
        }
        self.ready.push_back(buffer);
    }

    /// Drops all sound after a flush.
    fn forget(&mut self) {
        (self.line, self.start) = (Line::new(), None);
        self.ready.clear();
        if let Some(denoiser) = self.driver.get()
            && let Err(error) = denoiser.reset()
        {
            gst::warning!(CAT, "resetting the networks: {error}");
        }
    }
}

/// The time of so many samples.
fn time_of(samples: u64) -> gst::ClockTime {
    gst::ClockTime::from_nseconds(samples.saturating_mul(1_000_000_000) / RATE)
}

/// A block that fills, and the blocks that the networks hold back.
fn latency_of_line() -> gst::ClockTime {
    let blocks = u64::try_from(DELAY + 1).unwrap_or(u64::MAX);
    gst::ClockTime::from_mseconds(u64::try_from(BLOCK_TIME.as_millis()).unwrap_or(0)) * blocks
}
