//! The class of `nnbdenoise`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::*;
use gst_base::subclass::base_transform::GenerateOutputSuccess;
use gst_base::subclass::prelude::*;
use nnburst::BurstOptions;
use nnburst_denoise::{BLOCK, BLOCK_TIME, DELAY, DenoiseError, Denoiser};
use nnburst_doors_common::Supervised;

use super::aligned::AlignedSound;
use super::properties::{self, DenoiseProperties};
use crate::element::{self, add_latency, lock, report_refused_caps};
use crate::restartable::Restartable;
use crate::{CAT, log};

/// Samples in a second.
const RATE: u64 = 16_000;

/// The state of an element. `stream` is held while a block is computed; no other lock is.
#[derive(Debug, Default)]
pub struct Denoise {
    settings: Mutex<DenoiseProperties>,
    stream: Mutex<Option<DenoiseStream>>,
    /// Ends the wait for the driver, on a flush or a change of state.
    interrupt: AtomicBool,
    /// Figures, each for itself: `Relaxed`.
    blocks: AtomicU64,
    misses: AtomicU64,
    driver_pid: AtomicU32,
}

/// The state from READY to PAUSED and back.
#[derive(Debug)]
struct DenoiseStream {
    driver: Restartable<Denoiser>,
    sound: AlignedSound,
    /// The time stamp of the sound's first sample.
    start: Option<gst::ClockTime>,
    /// Buffers to be pushed.
    ready: VecDeque<gst::Buffer>,
    /// True if the networks are to forget what they heard, once the block on its way is back.
    is_stale: bool,
}

/// The longest wait for the driver between two looks at whether the wait is to end.
const LOOK: Duration = Duration::from_millis(10);

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

    fn constructed(&self) {
        self.parent_constructed();
        report_refused_caps(&*self.obj(), |_| CAPS.clone());
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        element::set_property(&*self.obj(), spec, || lock(&self.settings).set(spec.name(), value));
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        element::property(spec, || match spec.name() {
            "blocks" => Some(self.blocks.load(Ordering::Relaxed).to_value()),
            "misses" => Some(self.misses.load(Ordering::Relaxed).to_value()),
            "driver-pid" => Some(self.driver_pid.load(Ordering::Relaxed).to_value()),
            name => lock(&self.settings).get(name),
        })
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
            let always = |name, direction| {
                gst::PadTemplate::new(name, direction, gst::PadPresence::Always, &CAPS)
            };
            let both =
                [always("sink", gst::PadDirection::Sink), always("src", gst::PadDirection::Src)];
            both.into_iter().flatten().collect()
        });
        &TEMPLATES
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

static CAPS: LazyLock<gst::Caps> = LazyLock::new(|| {
    gst::Caps::builder("audio/x-raw")
        .field("format", "F32LE")
        .field("rate", 16_000)
        .field("channels", 1)
        .field("layout", "interleaved")
        .build()
});

impl BaseTransformImpl for Denoise {
    const MODE: gst_base::subclass::BaseTransformMode =
        gst_base::subclass::BaseTransformMode::NeverInPlace;
    const PASSTHROUGH_ON_SAME_CAPS: bool = false;
    const TRANSFORM_IP_ON_PASSTHROUGH: bool = false;

    fn start(&self) -> Result<(), gst::ErrorMessage> {
        self.set_interrupted(false);
        let settings = lock(&self.settings).clone();
        let options = settings
            .options()
            .map_err(|error| gst::error_msg!(gst::ResourceError::Settings, ("{error}")))?;
        let [first, second] = settings
            .models()
            .map_err(|error| gst::error_msg!(gst::ResourceError::NotFound, ("{error}")))?;
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
        let driver = Restartable::new(supervised, &*self.obj());
        *lock(&self.stream) = Some(DenoiseStream {
            driver,
            sound: AlignedSound::new(),
            start: None,
            ready: VecDeque::new(),
            is_stale: false,
        });
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
        if answered && direction == gst::PadDirection::Src {
            add_latency(query, latency_of_line());
        }
        answered
    }

    fn sink_event(&self, event: gst::Event) -> bool {
        match event.view() {
            // What comes next is another stream: the end of this one first.
            gst::EventView::Eos(_) | gst::EventView::Segment(_) => self.push_drained(),
            gst::EventView::FlushStart(_) => self.set_interrupted(true),
            gst::EventView::FlushStop(_) => {
                self.set_interrupted(false);
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
        if stream.sound.given() == 0 && stream.start.is_none() {
            stream.start = buffer.pts();
        }
        let mut out = Vec::with_capacity(samples.len() + BLOCK);
        let first = stream.sound.given();
        let DenoiseStream { driver, sound, is_stale, .. } = stream;
        sound.push(&samples, &mut |block| self.clean(driver, is_stale, block), &mut out);
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
    fn clean(
        &self,
        driver: &mut Restartable<Denoiser>,
        is_stale: &mut bool,
        block: &[f32; BLOCK],
    ) -> Option<[f32; BLOCK]> {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        let cleaned = driver.get().map(|denoiser| {
            if std::mem::take(is_stale) {
                *is_stale = !self.reset(denoiser);
            }
            self.push(denoiser, block)
        });
        if let Some(Ok(clean)) = cleaned {
            return Some(clean);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        match cleaned {
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

    /// Waits for a block to be clean, but no longer once interrupted: it is on its way then.
    fn push(
        &self,
        denoiser: &mut Denoiser,
        block: &[f32; BLOCK],
    ) -> Result<[f32; BLOCK], DenoiseError> {
        let mut clean = [0.0; BLOCK];
        if denoiser.is_busy() {
            // One that was given up: what it adds to the sound is lost with it.
            denoiser.poll(&mut clean).transpose()?;
        }
        denoiser.try_submit(block)?;
        loop {
            if let Some(done) = denoiser.wait_until(&mut clean, Instant::now() + LOOK) {
                return done.map(|()| clean);
            }
            // Relaxed: the flag hands nothing over.
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(DenoiseError::Busy);
            }
        }
    }

    /// Has the networks forget what they heard; false if a block is still on its way to them.
    fn reset(&self, denoiser: &mut Denoiser) -> bool {
        if denoiser.is_busy()
            && let Some(Err(error)) = denoiser.poll(&mut [0.0; BLOCK])
        {
            gst::debug!(CAT, imp = self, "the block before a flush: {error}");
        }
        match denoiser.reset() {
            Err(DenoiseError::Busy) => return false,
            Err(error) => gst::warning!(CAT, imp = self, "resetting the networks: {error}"),
            Ok(()) => {}
        }
        true
    }

    fn set_interrupted(&self, is_interrupted: bool) {
        // Relaxed: the flag hands nothing over, and the wait looks at it again and again.
        self.interrupt.store(is_interrupted, Ordering::Relaxed);
    }

    /// Queues what the networks hold back, and begins a new sound.
    fn drain(&self, stream: &mut DenoiseStream) {
        let (first, mut out) = (stream.sound.given(), Vec::new());
        let DenoiseStream { driver, sound, is_stale, .. } = &mut *stream;
        sound.drain(&mut |block| self.clean(driver, is_stale, block), &mut out);
        stream.queue(first, &out);
        (stream.start, stream.is_stale) = (None, true);
    }

    /// Pushes what the networks hold back.
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

impl DenoiseStream {
    /// Queues samples, of which the first is the sound's `first`.
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
        (self.sound, self.start, self.is_stale) = (AlignedSound::new(), None, true);
        self.ready.clear();
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
