//! One of both networks, with its state.

use std::path::Path;
use std::time::Instant;

use nnburst::hal::tflite_extension;
use nnburst::{
    Burst, BurstOptions, CallOptions, Device, Finished, Frame, PrepareOptions, Unsubmitted,
};
use nnburst_tflite::{ImportOptions, Imported};

use crate::DenoiseError;

/// A network whose second input is the second output of the call before.
pub(crate) struct Network {
    burst: Burst,
    /// `None` while it is in flight.
    frame: Option<Frame>,
    state_bytes: usize,
}

impl Network {
    pub(crate) fn open(
        device: &Device,
        path: &Path,
        samples: usize,
        burst: &BurstOptions,
    ) -> Result<Self, DenoiseError> {
        let extensions = device.extensions()?;
        let extension = extensions.iter().any(|one| one.name == tflite_extension::NAME);
        let options = ImportOptions { extension, ..ImportOptions::default() };
        let imported = Imported::open_with(path, options)
            .map_err(|error| DenoiseError::Import { path: path.to_owned(), error })?;
        let compilation = device.compile(&imported.model, PrepareOptions::default())?;
        let bytes = |operands: &[nnburst::hal::Operand]| -> Vec<Option<usize>> {
            operands.iter().map(nnburst::hal::Operand::data_size).collect()
        };
        let (inputs, outputs) = (bytes(compilation.inputs()), bytes(compilation.outputs()));
        let [Some(signal), Some(state_bytes)] = inputs[..] else {
            let why = format!("{}: inputs of {inputs:?} bytes", path.display());
            return Err(DenoiseError::NoPair(why));
        };
        if signal != samples * size_of::<f32>() || outputs != inputs {
            let why = format!(
                "{}: inputs of {inputs:?} and outputs of {outputs:?} bytes for {samples} samples",
                path.display()
            );
            return Err(DenoiseError::NoPair(why));
        }
        let burst = compilation.burst(burst)?;
        let frame = Some(burst.frame()?);
        let mut network = Self { burst, frame, state_bytes };
        network.reset()?;
        Ok(network)
    }

    pub(crate) fn run(
        &mut self,
        input: &[f32],
        output: &mut [f32],
        end: Instant,
    ) -> Result<(), DenoiseError> {
        let frame = self.frame.as_mut().ok_or(DenoiseError::Busy)?;
        frame.write(0, input)?;
        self.burst.compute_with(frame, &until(end))?;
        take(frame, output)
    }

    pub(crate) fn submit(&mut self, input: &[f32], end: Instant) -> Result<(), DenoiseError> {
        let mut frame = self.frame.take().ok_or(DenoiseError::Busy)?;
        let written = frame.write(0, input);
        let sent = match written {
            Ok(()) => self.burst.try_submit_with(frame, &until(end)),
            Err(error) => Err(Unsubmitted { frame, error }),
        };
        sent.map_err(|Unsubmitted { frame, error }| {
            self.frame = Some(frame);
            error.into()
        })
    }

    /// Takes the frame in flight, if it is back by `time`, or now without one.
    pub(crate) fn take(
        &mut self,
        output: &mut [f32],
        time: Option<Instant>,
    ) -> Option<Result<(), DenoiseError>> {
        let back = match time {
            Some(time) => self.burst.wait_until(time),
            None => self.burst.poll(),
        };
        let Finished { mut frame, result } = back?;
        let taken = result.map_err(DenoiseError::from).and_then(|()| take(&mut frame, output));
        self.frame = Some(frame);
        Some(taken)
    }

    pub(crate) fn reset(&mut self) -> Result<(), DenoiseError> {
        let frame = self.frame.as_mut().ok_or(DenoiseError::Busy)?;
        Ok(frame.write_bytes(1, &vec![0; self.state_bytes])?)
    }
}

fn until(end: Instant) -> CallOptions {
    let left = end.saturating_duration_since(Instant::now());
    CallOptions { timeout: Some(left), ..CallOptions::default() }
}

/// The output of a frame, whose state becomes the next input.
fn take(frame: &mut Frame, output: &mut [f32]) -> Result<(), DenoiseError> {
    frame.read_into(0, output)?;
    Ok(frame.exchange(1, 1)?)
}
