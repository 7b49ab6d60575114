//! The quickest road through a burst: arguments that are pointers, carried by a frame that keeps
//! its packet.

use nnburst::{Argument, Burst, RuntimeError};

use super::call::{ArgumentPlace, Call};
use super::kept::Framed;
use crate::compiled::Compiled;
use crate::error::Result;

impl Call {
    /// Runs by a frame, in a burst where the device has one; `None` where a frame can't carry the
    /// call: an argument lies in a memory, an output's shape is open, or the call has options of
    /// its own.
    pub(super) fn run_framed(
        &mut self,
        ready: &Compiled,
        burst: Option<&mut Burst>,
    ) -> Option<Result<()>> {
        if self.has_options() || ready.has_open_output {
            return None;
        }
        if !self.framed.as_ref().is_some_and(|framed| framed.fits(self)) {
            self.framed = Some(Framed::new(self, ready)?);
        }
        let framed = self.framed.as_mut()?;
        let written = self.inputs.iter().enumerate().try_for_each(|(at, input)| {
            let ArgumentPlace::Pointer { bytes, length } = &input.source else { return Ok(()) };
            let view = framed.frame.input(at)?;
            view.copy_from(bytes.view(usize::try_from(*length).unwrap_or(0)));
            Ok::<(), RuntimeError>(())
        });
        let computed = written.and_then(|()| match burst {
            Some(burst) => burst.compute(&mut framed.frame),
            None => ready.compilation.execution().compute(&mut framed.frame),
        });
        if let Err(error) = computed {
            return Some(self.settle(ready, Err(error)));
        }
        for (at, output) in self.outputs.iter().enumerate() {
            let ArgumentPlace::Pointer { bytes, length } = &output.source else { continue };
            if let Ok(view) = framed.frame.output(at) {
                bytes.view_mut(usize::try_from(*length).unwrap_or(0)).copy_from(view);
            }
        }
        Some(Ok(()))
    }
}

impl Framed {
    fn new(call: &Call, ready: &Compiled) -> Option<Self> {
        let inputs: Vec<_> = call
            .inputs
            .iter()
            .map(|input| argument(&input.source, &input.dimensions))
            .collect::<Option<_>>()?;
        let outputs: Vec<_> = call
            .outputs
            .iter()
            .map(|output| argument(&output.source, &output.dimensions))
            .collect::<Option<_>>()?;
        let frame = ready.compilation.frame_with(&inputs, &outputs).ok()?;
        Some(Self { frame, inputs, outputs })
    }

    /// Returns whether the call's arguments are those that the frame was made for.
    fn fits(&self, call: &Call) -> bool {
        let inputs = call.inputs.iter().zip(&self.inputs);
        let outputs = call.outputs.iter().zip(&self.outputs);
        inputs.into_iter().all(|(given, made)| fits(&given.source, &given.dimensions, made))
            && outputs.into_iter().all(|(given, made)| fits(&given.source, &given.dimensions, made))
    }
}

/// Room for an argument; `None` for one that lies in a memory.
fn argument<P>(source: &ArgumentPlace<P>, dimensions: &[u32]) -> Option<Argument> {
    let length = match source {
        ArgumentPlace::Omitted => 0,
        ArgumentPlace::Pointer { length, .. } => usize::try_from(*length).ok()?,
        ArgumentPlace::Unset | ArgumentPlace::Memory { .. } => return None,
    };
    Some(Argument { dimensions: dimensions.to_vec(), length })
}

fn fits<P>(source: &ArgumentPlace<P>, dimensions: &[u32], made: &Argument) -> bool {
    let length = match source {
        ArgumentPlace::Omitted => 0,
        ArgumentPlace::Pointer { length, .. } => usize::try_from(*length).unwrap_or(usize::MAX),
        ArgumentPlace::Unset | ArgumentPlace::Memory { .. } => return false,
    };
    // Element by element: an empty slice may lie where nothing is mapped, and the C library's
    // masked comparison of no bytes there costs 80 ns on some processors.
    length == made.length && dimensions.iter().eq(&made.dimensions)
}
