//! Executions on the caller's own memory, by a device of this process.

use nnburst_hal::{
    Direction, ExecutionInPlace, ExecutionOptions, Layer, Phase, Timing, View, ViewMut, trace_span,
    vlog,
};

use crate::compilation::Compilation;
use crate::error::{Result, RuntimeError};
use crate::settings::Settings;

/// Executions without a frame: inputs are read and outputs written where the caller has them.
///
/// ```
/// use nnburst::hal::{View, ViewMut};
/// use nnburst::{Device, PrepareOptions, builtin};
///
/// let device = Device::embedded("nnburst-cpu")?;
/// let model = device.compile(&builtin::model("add1")?, PrepareOptions::default())?;
/// let mut in_place = model.in_place().ok_or("a device in another process")?;
/// let ([x, one], mut sum) = ([41f32, 1.0].map(f32::to_le_bytes), [0; 4]);
/// in_place.compute(&[View::of(&x), View::of(&one)], &[ViewMut::of(&mut sum)])?;
/// assert_eq!(f32::from_le_bytes(sum), 42.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InPlace {
    compilation: Compilation,
    execution: Box<dyn ExecutionInPlace>,
}

impl std::fmt::Debug for InPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InPlace").field("compilation", &self.compilation).finish_non_exhaustive()
    }
}

impl Compilation {
    /// Executions on the caller's own memory; `None` where the device is in another process,
    /// several devices share the model, or it leaves the size of an argument open.
    pub fn in_place(&self) -> Option<InPlace> {
        let mut sizes = self.input_bytes().iter().chain(self.output_bytes());
        if !Settings::of_process().synchronous_drivers || sizes.any(Option::is_none) {
            return None;
        }
        let execution = self.prepared().execution_in_place()?;
        Some(InPlace { compilation: self.clone(), execution })
    }
}

impl InPlace {
    /// Executes and waits: a view for each argument of the model, as long as the argument. Views of
    /// outputs overlap with no other, and nobody writes to any of them meanwhile; where somebody
    /// does, the outputs have whatever values.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there are more or fewer, or one is of another length; what the
    /// driver answered. The outputs are then undefined.
    pub fn compute(&mut self, inputs: &[View<'_>], outputs: &[ViewMut<'_>]) -> Result<()> {
        let options = self.compilation.execution().options();
        self.compute_with(inputs, outputs, &options).map(drop)
    }

    /// As [`InPlace::compute`], with options; tells the driver's times where they ask for them.
    ///
    /// # Errors
    /// As for [`InPlace::compute`].
    pub fn compute_with(
        &mut self,
        inputs: &[View<'_>],
        outputs: &[ViewMut<'_>],
        options: &ExecutionOptions,
    ) -> Result<Timing> {
        let Self { compilation, execution } = self;
        let _span = trace_span(Layer::Runtime, Phase::Execution, "compute");
        vlog!(Execution, "compute in place on {}", compilation.first_device());
        let lengths = inputs.iter().map(|view| view.len());
        check(Direction::Input, lengths, compilation.input_bytes())?;
        let lengths = outputs.iter().map(|view| view.len());
        check(Direction::Output, lengths, compilation.output_bytes())?;
        let computed = execution.compute(inputs, outputs, options);
        computed.map_err(|error| compilation.failed(error))
    }
}

/// Holds the lengths of views against those of the model's arguments.
fn check(
    direction: Direction,
    given: impl ExactSizeIterator<Item = usize>,
    wanted: &[Option<usize>],
) -> Result<()> {
    if given.len() != wanted.len() {
        let (given, wanted) = (given.len(), wanted.len());
        let why = format!("{given} {direction}s given, the model has {wanted}");
        return Err(RuntimeError::Argument(why));
    }
    for (at, (given, &wanted)) in given.zip(wanted).enumerate() {
        if Some(given) != wanted {
            let wanted = wanted.unwrap_or_default();
            let why = format!("{direction} {at} takes {wanted} bytes, {given} given");
            return Err(RuntimeError::Argument(why));
        }
    }
    Ok(())
}
