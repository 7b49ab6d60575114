//! A model's time, step by step, beside this machine's roofline.
//!
//! A profile runs the plan in this process, without any device, queue or socket: what is measured
//! is the arithmetic alone. [`Ceilings`] says how fast it could be.

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use nnburst_executor::{Bandwidth, Ceilings, Label, Peak, StepTime, Words};
use nnburst_executor::{
    CompileOptions, Control, ExtensionRegistry, Input, Isa, Output, Plan, RunError, Session,
    TfliteExecutor,
};
use nnburst_hal::{HalError, Model, View, ViewMut, tflite_extension};

use crate::driver::DriverOptions;
use crate::error::{Result, RuntimeError};
use crate::settings::Settings;

/// The time of one execution, by its steps.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The time that compiling the model to a plan took.
    pub prepare: Duration,
    /// The median of whole executions, no clock read in between.
    pub whole: Duration,
    /// The steps in their order, each with the median of its times.
    pub steps: Vec<StepTime>,
}

/// Measures what this core can do, with the instruction sets that kernels are allowed here.
///
/// # Errors
/// The environment asks for an instruction set that this machine lacks.
pub fn ceilings() -> Result<Ceilings> {
    let isa = Isa::from_environment().map_err(|error| RuntimeError::Model(error.to_string()))?;
    Ok(Ceilings::measure(isa))
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many runs, one at least.
    Runs(usize),
    /// For so long, one run at least.
    Time(Duration),
}

impl Extent {
    fn each(self, mut run: impl FnMut() -> Result<()>) -> Result<()> {
        let (start, mut count) = (Instant::now(), 0usize);
        loop {
            run()?;
            count += 1;
            let is_over = match self {
                Self::Runs(runs) => count >= runs,
                Self::Time(time) => start.elapsed() >= time,
            };
            if is_over {
                return Ok(());
            }
        }
    }
}

impl Profile {
    /// Runs `model` on `inputs` (the bytes of each) as it is, first to warm up, and then step by
    /// step, computed as a driver of these options would: so often each time, or for so long.
    ///
    /// # Errors
    /// The model is invalid or beyond the executor; the inputs are too few or too short.
    pub fn of(
        model: &Model,
        inputs: &[Vec<u8>],
        driver: &DriverOptions,
        extent: Extent,
    ) -> Result<Self> {
        let start = Instant::now();
        let bf16 = driver.bf16 || Settings::of_process().bf16;
        let mut extensions = ExtensionRegistry::default();
        extensions.register(tflite_extension::NAME, Arc::new(TfliteExecutor));
        let threads = driver.threads;
        let options = CompileOptions { threads, bf16, extensions, ..CompileOptions::default() };
        let plan = Plan::compile(model, &options).map_err(refused)?;
        let prepare = start.elapsed();
        let (mut session, control) = (plan.session(), Control::default());
        let inputs: Vec<_> = inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
        let mut buffers = output_buffers(model);
        fit(&mut session, &inputs, &mut buffers, &control)?;
        let outputs: Vec<_> =
            buffers.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
        let mut whole = Vec::new();
        // The first ones warm up.
        for _ in 0..2 {
            whole.clear();
            extent.each(|| {
                let start = Instant::now();
                session.run(&inputs, &outputs, &control).map_err(refused)?;
                whole.push(start.elapsed());
                Ok(())
            })?;
        }
        let mut times: Vec<Vec<Duration>> = Vec::new();
        let mut steps = Vec::new();
        extent.each(|| {
            steps = session.profile(&inputs, &outputs, &control).map_err(refused)?;
            times.resize(steps.len(), Vec::new());
            times.iter_mut().zip(&steps).for_each(|(times, step)| times.push(step.time));
            Ok(())
        })?;
        for (step, times) in steps.iter_mut().zip(&mut times) {
            step.time = median(times);
        }
        Ok(Self { prepare, whole: median(&mut whole), steps })
    }
}

/// Room for each output whose bytes the model tells.
fn output_buffers(model: &Model) -> Vec<Vec<u8>> {
    let size = |&index: &u32| {
        let operand = model.main.operands.get(usize::try_from(index).ok()?)?;
        operand.data_size()
    };
    let indexes = model.main.output_indexes.iter();
    indexes.map(|index| vec![0; size(index).unwrap_or(0)]).collect()
}

/// Gives outputs of open shapes, and of an extension's types, the room that an execution asks for.
fn fit(
    session: &mut Session,
    inputs: &[Input<'_>],
    buffers: &mut [Vec<u8>],
    control: &Control<'_>,
) -> Result<()> {
    loop {
        let outputs: Vec<_> =
            buffers.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
        let short = match session.run(inputs, &outputs, control) {
            Ok(()) => return Ok(()),
            Err(RunError::InsufficientSize { index, needed, given }) if given < needed => {
                (index, needed)
            }
            Err(error) => return Err(refused(error)),
        };
        let (index, needed) = short;
        let buffer =
            buffers.get_mut(index).ok_or_else(|| refused("an output that is not there"))?;
        buffer.try_reserve_exact(needed).map_err(refused)?;
        buffer.resize(needed, 0);
    }
}

fn refused(error: impl std::fmt::Display) -> RuntimeError {
    HalError::failure(error.to_string()).into()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_a_network_is_timed() {
        let model = crate::builtin::model("add1").unwrap();
        let options = DriverOptions::default();
        for extent in [Extent::Runs(3), Extent::Time(Duration::from_millis(2))] {
            let inputs = [vec![0; 4], vec![0; 4]];
            let profile = Profile::of(&model, &inputs, &options, extent).unwrap();
            assert_eq!(profile.steps.len(), model.main.operations.len());
            assert!(profile.steps.iter().all(|step| step.bytes > 0 && step.time > Duration::ZERO));
            assert!(profile.whole > Duration::ZERO);
        }
        let short = Profile::of(&model, &[], &options, Extent::Runs(3));
        assert!(short.is_err(), "no input");
    }
}
