//! A running `nnbinference`: what happens to a frame.

use std::time::Instant;

use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::*;
use gst_video::prelude::*;
use nnburst_doors_common::Supervised;

use super::imp::Inference;
use super::pads::{Kind, Main, tensor_buffer, tensor_caps};
use super::properties::{Drop, Live};
use crate::CAT;
use crate::allocator::{FdSpan, shared};
use crate::engine::{Engine, EngineError, Picture};
use crate::restartable::Restartable;
use crate::results::{self, Report};
use nnburst_pictures::{Decoder, PictureSize, Results};

/// The state from READY to PAUSED and back. The streaming thread has it.
#[derive(Debug)]
pub(super) struct InferenceStream {
    driver: Restartable<Engine>,
    decoder: Decoder,
    labels: Vec<String>,
    /// Type and shape of each output, for messages.
    outputs: Vec<String>,
    reads_in_place: bool,
    pub(super) info: Option<gst_video::VideoInfo>,
    /// Frames to go until the next inference.
    until_next: u32,
    /// The last results, for frames without inference.
    last: Option<Results>,
    /// The frame that the driver computes.
    pending: Option<Pending>,
}

/// The arrival of a frame.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u64,
    at: Instant,
}

/// A frame on its way through the driver.
#[derive(Debug)]
struct Pending {
    arrival: Arrival,
    pts: Option<gst::ClockTime>,
    /// Its results are of no use any more: there was a flush.
    is_discarded: bool,
    /// Keeps its memory from being filled anew while the driver reads it.
    _buffer: gst::Buffer,
}

impl InferenceStream {
    pub(super) fn new(
        mut supervised: Supervised<Engine>,
        element: &impl IsA<gst::Element>,
        decoder: Decoder,
        labels: Vec<String>,
    ) -> Self {
        let engine = supervised.get().ok();
        let outputs = engine.as_ref().map(|engine| engine.model.describe_outputs());
        let reads_in_place = engine.is_some_and(|engine| engine.reads_in_place());
        Self {
            driver: Restartable::new(supervised, element),
            decoder,
            labels,
            outputs: outputs.unwrap_or_default(),
            reads_in_place,
            info: None,
            until_next: 0,
            last: None,
            pending: None,
        }
    }

    /// Returns whether the model reads pixels where upstream wrote them.
    pub(super) fn reads_in_place(&self) -> bool {
        self.reads_in_place
    }

    /// Forgets what came before a flush.
    pub(super) fn reset(&mut self) {
        (self.until_next, self.last) = (0, None);
        if let Some(pending) = &mut self.pending {
            pending.is_discarded = true;
        }
        if let Some(engine) = self.driver.get() {
            engine.reset();
        }
    }

    /// Ends what goes on beside the stream.
    pub(super) fn close(self) {
        self.driver.close();
    }
}

/// The outcome of a frame.
enum Verdict {
    /// It has results of its own.
    Fresh,
    /// It has none, and those of an earlier frame hold.
    Stale,
    /// It has none.
    Without,
}

impl Inference {
    /// Runs the model on a frame if it is due, and attaches results.
    ///
    /// # Errors
    /// What came from a request pad; there is no stream.
    pub(super) fn process(&self, mut buffer: gst::Buffer) -> Result<gst::Buffer, gst::FlowError> {
        let arrival = Arrival { number: self.stats.count_frame(), at: Instant::now() };
        let live = self.live();
        let mut guard = self.stream();
        let Some(stream) = guard.as_mut() else { return Err(gst::FlowError::Flushing) };
        let verdict = self.verdict(stream, &buffer, live, arrival)?;
        let is_stale = matches!(verdict, Verdict::Stale);
        if let (Verdict::Fresh | Verdict::Stale, Some(results)) = (verdict, &stream.last)
            && let Some(size) = stream
                .info
                .as_ref()
                .map(|info| PictureSize { width: info.width(), height: info.height() })
        {
            results::attach(buffer.make_mut(), results, &stream.labels, size, is_stale);
        }
        Ok(buffer)
    }

    fn verdict(
        &self,
        stream: &mut InferenceStream,
        buffer: &gst::Buffer,
        live: Live,
        arrival: Arrival,
    ) -> Result<Verdict, gst::FlowError> {
        let is_empty = buffer.flags().contains(gst::BufferFlags::GAP) || buffer.size() == 0;
        if is_empty {
            return Ok(Verdict::Without);
        }
        if stream.pending.is_some() && !self.collect(stream, live)? {
            // The one before is still on its way.
            self.stats.count_dropped();
            return Ok(Verdict::Stale);
        }
        if stream.until_next > 0 {
            stream.until_next -= 1;
            return Ok(Verdict::Stale);
        }
        let is_late = live.drop == Drop::Late && self.qos.is_late(self.running_time(buffer));
        if is_late {
            self.stats.count_dropped();
            return Ok(Verdict::Without);
        }
        let (pts, is_discarded) = (buffer.pts(), false);
        let pending = Pending { arrival, pts, is_discarded, _buffer: buffer.clone() };
        let submitted = match (stream.info.clone(), stream.driver.get()) {
            (Some(info), Some(engine)) => submit(engine, buffer, &info, live),
            _ => {
                self.stats.count_dropped();
                return Ok(Verdict::Without);
            }
        };
        if let Err(error) = submitted {
            self.failed(stream, error);
            return Ok(Verdict::Without);
        }
        stream.pending = Some(pending);
        stream.until_next = live.interval;
        if live.drop == Drop::Busy {
            return Ok(Verdict::Stale);
        }
        Ok(if self.finish(stream, live)? { Verdict::Fresh } else { Verdict::Without })
    }

    /// Takes the results of the frame on its way if they are there; true if it is no longer on its
    /// way.
    fn collect(&self, stream: &mut InferenceStream, live: Live) -> Result<bool, gst::FlowError> {
        let is_through = stream.driver.get().is_none_or(Engine::is_through);
        if is_through {
            self.finish(stream, live)?;
        }
        Ok(is_through)
    }

    /// Waits for the frame on its way, and reports its results; false if there are none.
    pub(super) fn finish(
        &self,
        stream: &mut InferenceStream,
        live: Live,
    ) -> Result<bool, gst::FlowError> {
        let Some(pending) = &stream.pending else { return Ok(false) };
        let Pending { arrival, pts, is_discarded, .. } = *pending;
        let Some(engine) = stream.driver.get() else {
            stream.pending = None;
            return Ok(false);
        };
        let waited = engine.wait(&self.interrupt);
        if matches!(waited, Err(EngineError::Interrupted)) {
            // The driver may still be reading: the buffer is kept until it is through.
            self.stats.count_dropped();
            return Ok(false);
        }
        stream.pending = None;
        if let Err(error) = waited {
            self.failed(stream, error);
            return Ok(false);
        }
        if is_discarded {
            return Ok(false);
        }
        let Some(engine) = stream.driver.get() else { return Ok(false) };
        let results = stream.decoder.decode(engine.outputs(), live.limits());
        let in_driver = engine.time_in_driver();
        let latency = arrival.at.elapsed();
        self.push_aside(engine, stream.info.as_ref(), &results, pts)?;
        if self.stats.count_inferred(latency) {
            let message = gst::message::Latency::builder().src(&*self.obj()).build();
            let _ = self.obj().post_message(message);
        }
        if live.post_messages {
            let report =
                Report { results: results.clone(), pts, frame: arrival.number, latency, in_driver };
            let structure = results::structure(&report, &stream.labels, &stream.outputs);
            let message = gst::message::Element::builder(structure).src(&*self.obj()).build();
            // It fails while the bus is flushing: nobody listens then.
            let _ = self.obj().post_message(message);
        }
        stream.last = Some(results);
        Ok(true)
    }

    /// Sends tensors and masks to whoever asked for them.
    fn push_aside(
        &self,
        engine: &Engine,
        info: Option<&gst_video::VideoInfo>,
        results: &Results,
        pts: Option<gst::ClockTime>,
    ) -> Result<(), gst::FlowError> {
        let pads = self.side_pads();
        if pads.is_empty() {
            return Ok(());
        }
        let obj = self.obj();
        let start = obj.sink_pad().sticky_event::<gst::event::StreamStart>(0);
        let stream_id = start.as_ref().map(|event| event.stream_id().to_owned());
        let segment = obj.segment();
        let main = Main {
            stream_id: stream_id.as_deref().unwrap_or("nnburst"),
            group: start.as_ref().and_then(|event| event.group_id()),
            segment: &segment,
        };
        let framerate = info.map_or_else(|| gst::Fraction::new(0, 1), |info| info.fps());
        for side in &pads {
            let buffer = match (side.kind, results) {
                (Kind::Tensors, _) => Some(tensor_buffer(engine.outputs())),
                (Kind::Mask, Results::Mask(mask)) => results::mask_buffer(mask),
                (Kind::Mask, _) => None,
            };
            let Some(mut buffer) = buffer else { continue };
            buffer.make_mut().set_pts(pts);
            let caps = || match results {
                Results::Mask(mask) if side.kind == Kind::Mask => {
                    results::mask_caps(mask, framerate)
                }
                _ => tensor_caps(&engine.model.outputs, framerate),
            };
            side.push(caps, buffer, &main)?;
        }
        Ok(())
    }

    /// Handles the failure of an inference. A dead driver is restarted beside the stream.
    fn failed(&self, stream: &mut InferenceStream, error: EngineError) {
        self.stats.count_dropped();
        let error = match error {
            EngineError::Interrupted => return,
            EngineError::Runtime(error) => error,
            other => {
                gst::element_imp_warning!(self, gst::StreamError::Failed, ("{other}"));
                return;
            }
        };
        if error.is_deadline_missed() {
            gst::debug!(CAT, imp = self, "given up after max-latency");
        } else if error.is_device_lost() {
            self.stats.set_driver_pid(None);
            let obj = self.obj();
            stream.driver.restart(&*obj, error, |element, pid| {
                element.imp().stats.set_driver_pid(pid);
            });
        } else {
            gst::element_imp_warning!(self, gst::StreamError::Failed, ("{error}"));
        }
    }

    fn running_time(&self, buffer: &gst::Buffer) -> Option<gst::ClockTime> {
        let segment = self.obj().segment();
        segment.downcast_ref::<gst::ClockTime>()?.to_running_time(buffer.pts())
    }
}

/// Sends a frame to the driver: where it lies if the driver can read it there.
fn submit(
    engine: &mut Engine,
    buffer: &gst::Buffer,
    info: &gst_video::VideoInfo,
    live: Live,
) -> Result<(), EngineError> {
    let limit = live.limit();
    if engine.reads_in_place()
        && buffer.n_memory() == 1
        && let Some(shared) = packed(buffer, info, engine)
    {
        return engine.submit(Picture::InPlace(shared), limit);
    }
    let frame = gst_video::VideoFrameRef::from_buffer_ref_readable(buffer, info)
        .map_err(|_| EngineError::ShortBuffer)?;
    let plane = frame.plane_data(0).map_err(|_| EngineError::ShortBuffer)?;
    let stride = usize::try_from(frame.plane_stride().first().copied().unwrap_or(0));
    let stride = stride.map_err(|_| EngineError::ShortBuffer)?;
    engine.submit(Picture::Copied { plane, stride }, limit)
}

/// The memory of a frame whose rows follow each other without padding, as the model's do; `None`
/// of others.
fn packed(buffer: &gst::BufferRef, info: &gst_video::VideoInfo, engine: &Engine) -> Option<FdSpan> {
    let (offset, stride) = match buffer.meta::<gst_video::VideoMeta>() {
        Some(meta) => (*meta.offset().first()?, *meta.stride().first()?),
        None => (*info.offset().first()?, *info.stride().first()?),
    };
    let picture = &engine.model.picture;
    if usize::try_from(stride) != Ok(picture.row_bytes()) {
        return None;
    }
    let end = picture.row_bytes().checked_mul(picture.rows())?.checked_add(offset)?;
    let mut shared = shared(buffer.peek_memory(0)).filter(|_| end <= buffer.size())?;
    shared.offset = shared.offset.checked_add(u64::try_from(offset).ok()?)?;
    Some(shared)
}
