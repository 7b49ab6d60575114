//! The request pads of `nnbinference`: `tensor_%u` with the output tensors, `mask` with masks.
//!
//! Tensors have the caps `other/tensors` of NNStreamer, one memory of a buffer for each output.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gst::glib;
use gst::prelude::*;
use nnburst::hal::OperandType;
use nnburst_tflite::TensorInfo;

use crate::CAT;

/// The contents of a pad's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tensors,
    Mask,
}

/// A request pad.
#[derive(Debug)]
pub(super) struct SidePad {
    pub(super) pad: gst::Pad,
    pub(super) kind: Kind,
    /// The streaming thread holds it while it pushes, so a flush must not take it.
    state: Mutex<State>,
}

/// The sticky events that are yet to be sent.
#[derive(Debug, Default)]
struct State {
    has_started: bool,
    has_segment: bool,
    /// Downstream has ended.
    is_over: bool,
}

/// The templates of the request pads.
pub(super) fn templates() -> impl Iterator<Item = Result<gst::PadTemplate, glib::BoolError>> {
    let tensors = gst::Caps::builder("other/tensors").field("format", "static").build();
    let mask = gst::Caps::builder("video/x-raw").field("format", "GRAY8").build();
    [("tensor_%u", tensors), ("mask", mask)].into_iter().map(|(name, caps)| {
        gst::PadTemplate::new(name, gst::PadDirection::Src, gst::PadPresence::Request, &caps)
    })
}

impl SidePad {
    pub(super) fn new(pad: gst::Pad, kind: Kind) -> Self {
        Self { pad, kind, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a buffer, after the events that go before it. Nothing happens where nobody listens.
    ///
    /// # Errors
    /// What downstream returned, but for the end of its stream, a flush and a missing link.
    pub(super) fn push(
        &self,
        caps: impl FnOnce() -> Option<gst::Caps>,
        buffer: gst::Buffer,
        main: &Main<'_>,
    ) -> Result<(), gst::FlowError> {
        let mut state = self.state();
        if state.is_over || !self.pad.is_linked() {
            return Ok(());
        }
        if !state.has_started {
            let Some(caps) = caps() else { return Ok(()) };
            let id = format!("{}/{}", main.stream_id, self.pad.name());
            let start = gst::event::StreamStart::builder(&id);
            let start = match main.group {
                Some(group) => start.group_id(group).build(),
                None => start.build(),
            };
            self.pad.push_event(start);
            self.pad.push_event(gst::event::Caps::new(&caps));
            state.has_started = true;
        }
        if !state.has_segment {
            self.pad.push_event(gst::event::Segment::new(main.segment));
            state.has_segment = true;
        }
        match self.pad.push(buffer) {
            Ok(_) | Err(gst::FlowError::NotLinked | gst::FlowError::Flushing) => Ok(()),
            Err(gst::FlowError::Eos) => {
                state.is_over = true;
                Ok(())
            }
            Err(error) => {
                gst::warning!(CAT, obj = self.pad, "downstream returned {error}");
                Err(error)
            }
        }
    }

    /// Forwards an event of the main stream, or takes note of it.
    pub(super) fn event(&self, event: &gst::Event) {
        match event.type_() {
            // From another thread, while a push may be waiting for it.
            gst::EventType::FlushStart => {
                self.pad.push_event(event.clone());
            }
            gst::EventType::Segment => self.state().has_segment = false,
            gst::EventType::Eos => {
                if !self.state().has_started {
                    // An end needs a beginning.
                    let id = format!("nnburst/{}", self.pad.name());
                    self.pad.push_event(gst::event::StreamStart::new(&id));
                }
                self.pad.push_event(event.clone());
            }
            gst::EventType::FlushStop => {
                {
                    let mut state = self.state();
                    (state.has_segment, state.is_over) = (false, false);
                }
                self.pad.push_event(event.clone());
            }
            gst::EventType::Gap if self.state().has_segment => {
                self.pad.push_event(event.clone());
            }
            _ => {}
        }
    }

    /// Has the next buffer begin a new stream, with other caps perhaps.
    pub(super) fn restart(&self) {
        *self.state() = State::default();
    }
}

/// The properties of the main stream that pads take over.
pub(super) struct Main<'a> {
    pub(super) stream_id: &'a str,
    pub(super) group: Option<gst::GroupId>,
    pub(super) segment: &'a gst::Segment,
}

/// The caps of the tensors; `None` where a type has no name in NNStreamer, or a shape is unknown.
pub(super) fn tensor_caps(outputs: &[TensorInfo], framerate: gst::Fraction) -> Option<gst::Caps> {
    let types: Option<Vec<_>> = outputs.iter().map(|output| type_name(output.kind)).collect();
    let shapes: Option<Vec<_>> = outputs.iter().map(dimensions).collect();
    Some(
        gst::Caps::builder("other/tensors")
            .field("format", "static")
            .field("num_tensors", i32::try_from(outputs.len()).ok()?)
            .field("types", types?.join(","))
            .field("dimensions", shapes?.join(","))
            .field("framerate", framerate)
            .build(),
    )
}

/// A buffer with one memory for each tensor.
pub(super) fn tensor_buffer(outputs: &[Vec<u8>]) -> gst::Buffer {
    let mut buffer = gst::Buffer::new();
    if let Some(buffer) = buffer.get_mut() {
        for output in outputs {
            buffer.append_memory(gst::Memory::from_slice(output.clone()));
        }
    }
    buffer
}

fn type_name(kind: OperandType) -> Option<&'static str> {
    match kind {
        OperandType::TensorFloat32 => Some("float32"),
        OperandType::TensorFloat16 => Some("float16"),
        OperandType::TensorInt32 => Some("int32"),
        OperandType::TensorQuant8Asymm | OperandType::TensorBool8 => Some("uint8"),
        OperandType::TensorQuant8AsymmSigned | OperandType::TensorQuant8Symm => Some("int8"),
        OperandType::TensorQuant16Symm => Some("int16"),
        OperandType::TensorQuant16Asymm => Some("uint16"),
        _ => None,
    }
}

/// The extents with the innermost first, as NNStreamer writes them.
fn dimensions(output: &TensorInfo) -> Option<String> {
    if output.dims.contains(&0) {
        return None;
    }
    let extents = output.dims.iter().rev().map(u32::to_string);
    Some(extents.collect::<Vec<_>>().join(":"))
}

#[cfg(test)]
mod tests {
    use nnburst_tflite::TensorKind;

    use super::*;

    #[test]
    fn caps_of_tensors_are_those_of_nnstreamer() {
        gst::init().unwrap();
        let output = |kind, dims: &[u32]| TensorInfo {
            tensor: 0,
            name: String::new(),
            kind,
            file_kind: TensorKind::Float32,
            dims: dims.to_vec(),
            scale: 1.0,
            zero_point: 0,
        };
        let outputs = [
            output(OperandType::TensorFloat32, &[1, 10, 4]),
            output(OperandType::TensorQuant8Asymm, &[1, 1001]),
        ];
        let caps = tensor_caps(&outputs, gst::Fraction::new(30, 1)).unwrap();
        let caps = caps.to_string();
        for part in ["num_tensors=(int)2", "types=(string)\"float32\\,uint8\"", "30/1"] {
            assert!(caps.contains(part), "{part} in {caps}");
        }
        assert!(caps.contains("4:10:1") && caps.contains("1001:1"), "{caps}");
        let unknown = [output(OperandType::TensorFloat32, &[1, 0])];
        assert!(tensor_caps(&unknown, gst::Fraction::new(0, 1)).is_none());
    }
}
