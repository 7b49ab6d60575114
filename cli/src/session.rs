//! One compiled model on one device, called in one mode, frame after frame.

use std::time::{Duration, Instant};

use nnburst::hal::{ExecutionOutcome, Model, Request, Timing};
use nnburst::{
    Argument, Burst, BurstOptions, Compilation, Device, DriverOptions, Frame, REFERENCE,
    RuntimeError, Wait,
};

use crate::args::{Engine, Hint, ModeArg, WaitArg};
use crate::failure::Failure;
use crate::source::{CarriedState, ModelSource};

/// The device that is used where none is named.
pub(crate) const DEFAULT_DRIVER: &str = "nnburst-cpu";

/// Returns the options of a driver of this program.
pub(crate) fn driver_options(threads: u16, hint: Option<Hint>) -> DriverOptions {
    let bf16 = hint == Some(Hint::Bf16);
    DriverOptions { threads: usize::from(threads), bf16, ..DriverOptions::default() }
}

/// Finds the device that the options name, starting its process where it has one of its own.
pub(crate) fn open_device(engine: &Engine) -> Result<Device, Failure> {
    let options = driver_options(engine.threads, engine.hint);
    let name = match (&engine.device, engine.mode) {
        (Some(name), _) => name.clone(),
        (None, ModeArg::Inproc) => "embedded".to_owned(),
        (None, _) => format!("spawn:{DEFAULT_DRIVER}"),
    };
    let device = match name.split_once(':') {
        Some(("spawn", driver)) => Device::spawn_with(driver, &options)?,
        _ if name == "embedded" => Device::embedded_with(DEFAULT_DRIVER, &options)?,
        _ => match name.strip_prefix("embedded:") {
            Some(driver) => Device::embedded_with(driver, &options)?,
            None if engine.threads != 1 => {
                return Err(Failure::usage(format!(
                    "--threads {}: how {name} computes was settled when it was started",
                    engine.threads
                )));
            }
            None if name == REFERENCE => Device::reference(),
            None => Device::connect(&name)?,
        },
    };
    if engine.mode == ModeArg::Inproc && !device.is_embedded() {
        return Err(Failure::usage(format!(
            "--mode inproc runs in this process, {name} doesn't; use --device embedded"
        )));
    }
    Ok(device)
}

/// As [`open_device`], for a model: where the options leave the device open, a service that takes
/// all of it, as the library would choose, before a driver that is started for the occasion.
pub(crate) fn open_device_for(model: &Model, engine: &Engine) -> Result<Device, Failure> {
    let is_open = engine.device.is_none()
        && engine.mode != ModeArg::Inproc
        && engine.threads == 1
        && engine.hint.is_none();
    if is_open && let Some(device) = nnburst::served_device(model) {
        return Ok(device);
    }
    open_device(engine)
}

/// The times of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// From before the call until the outputs are there.
    pub(crate) latency: Duration,
    /// The driver's share, where it was measured.
    pub(crate) driver: Option<Duration>,
}

/// The path of requests to the device.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) compilation: Compilation,
    mode: ModeArg,
    burst: Option<Burst>,
    /// The time that a call may take.
    deadline: Option<Duration>,
}

impl Caller {
    pub(crate) fn new(compilation: Compilation, engine: &Engine) -> Result<Self, RuntimeError> {
        let mode = engine.mode;
        let burst = match mode {
            ModeArg::Burst => Some(open_burst(&compilation, engine)?),
            _ => None,
        };
        Ok(Self { compilation, mode, burst, deadline: engine.deadline })
    }

    /// Executes a frame and says what that took; the frame comes back in any case.
    pub(crate) fn call(&mut self, frame: &mut Option<Frame>) -> Result<Sample, RuntimeError> {
        let mut execution = self.compilation.execution().measure(true);
        if let Some(deadline) = self.deadline {
            execution = execution.timeout(deadline);
        }
        let Some(mut taken) = frame.take() else {
            return Err(RuntimeError::State("there is no frame to compute".into()));
        };
        let started = Instant::now();
        let result = match (&mut self.burst, self.mode) {
            (Some(burst), _) if self.deadline.is_some() => {
                // The packet that a frame keeps has no deadline.
                let outcome = burst.compute_request(taken.request(), &execution.options());
                let sample = outcome.map(|outcome| Sample {
                    latency: started.elapsed(),
                    driver: driver_time(outcome.timing),
                });
                *frame = Some(taken);
                return sample;
            }
            (Some(burst), _) => burst.compute(&mut taken),
            (None, ModeArg::Async) => {
                let result;
                (taken, result) = execution.start(taken)?.wait();
                result
            }
            (None, ModeArg::Fenced) => {
                let result;
                (taken, result) = execution.start_fenced(taken, Vec::new())?.wait();
                result
            }
            (None, _) => execution.compute(&mut taken),
        };
        let sample = Sample { latency: taken.latency(), driver: taken.time_in_driver() };
        *frame = Some(taken);
        result?;
        Ok(sample)
    }

    /// Executes a request of the caller's making.
    pub(crate) fn call_request(
        &mut self,
        request: &Request,
        loop_timeout: Option<Duration>,
    ) -> Result<ExecutionOutcome, RuntimeError> {
        let mut execution = self.compilation.execution();
        if let Some(deadline) = self.deadline {
            execution = execution.timeout(deadline);
        }
        if let Some(timeout) = loop_timeout {
            execution = execution.loop_timeout(timeout);
        }
        match (&mut self.burst, self.mode) {
            (Some(burst), _) => burst.compute_request(request, &execution.options()),
            (None, ModeArg::Async) => execution.start_request(request.clone())?.wait(),
            (None, ModeArg::Fenced) => {
                execution.start_fenced_request(request.clone(), Vec::new(), None)?.wait()
            }
            (None, _) => execution.compute_request(request),
        }
    }

    /// Returns the parts of the real-time profile that were refused.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.burst.as_ref().map(|burst| burst.warnings().to_vec()).unwrap_or_default()
    }
}

/// The driver's share as it tells it over the ordinary interface, in microseconds.
fn driver_time(timing: Timing) -> Option<Duration> {
    (timing != Timing::NONE).then_some(Duration::from_micros(timing.time_in_driver))
}

fn open_burst(compilation: &Compilation, engine: &Engine) -> Result<Burst, RuntimeError> {
    let (ours, theirs) = match *engine.cpus.as_slice() {
        [] => (Vec::new(), Vec::new()),
        [both] => (vec![both], vec![both]),
        [ours, theirs, ..] => (vec![ours], vec![theirs]),
    };
    let options = BurstOptions {
        wait: match engine.wait() {
            WaitArg::Spin => Wait::Spin,
            WaitArg::Adaptive => Wait::Adaptive,
            WaitArg::Block => Wait::Block,
        },
        cpus: ours,
        driver_cpus: theirs,
        realtime: engine.realtime,
        ..BurstOptions::default()
    };
    compilation.burst(&options)
}

/// Bytes of room for an output whose size the model leaves open, at first and at most.
const OPEN_BYTES: usize = 1 << 16;
const MOST_OPEN_BYTES: usize = 1 << 30;

/// A frame for a model, with so many bytes of room where it leaves an output's size open.
fn frame_of(compilation: &Compilation, open_bytes: usize) -> Result<Frame, Failure> {
    if compilation.output_bytes().iter().all(Option::is_some) {
        return Ok(compilation.frame()?);
    }
    let inputs = compilation.input_bytes().iter().enumerate().map(|(number, &bytes)| {
        let argument = bytes.map(|length| Argument { dimensions: Vec::new(), length });
        argument.ok_or_else(|| {
            Failure::usage(format!("input {number} has no known size; give it with --shape"))
        })
    });
    let outputs = compilation.output_bytes().iter().map(|&bytes| {
        let length = bytes.unwrap_or(open_bytes);
        Argument { dimensions: Vec::new(), length }
    });
    Ok(compilation
        .frame_with(&inputs.collect::<Result<Vec<_>, _>>()?, &outputs.collect::<Vec<_>>())?)
}

/// A model that is called frame after frame, its state kept in between.
#[derive(Debug)]
pub(crate) struct ModelSession {
    caller: Caller,
    frame: Option<Frame>,
    states: Vec<CarriedState>,
    /// Bytes of room for an output whose size the model leaves open.
    open_bytes: usize,
    /// The time that the device took to prepare the model, or to load it.
    pub(crate) compile: Duration,
}

impl ModelSession {
    pub(crate) fn open(
        device: &Device,
        source: &ModelSource,
        engine: &Engine,
    ) -> Result<Self, Failure> {
        let start = Instant::now();
        let compilation = device.compile(&source.model, engine.prepare())?;
        let compile = start.elapsed();
        Self::of(compilation, compile, source, engine)
    }

    /// As [`ModelSession::open`], but the model is loaded from a cache that it was prepared into.
    pub(crate) fn open_cached(
        device: &Device,
        source: &ModelSource,
        engine: &Engine,
    ) -> Result<Self, Failure> {
        let loaded = crate::cached::compile(&source.name, &source.model, device, engine.prepare())?;
        let loaded = loaded.ok_or_else(|| Failure::check("the device caches nothing"))?;
        let (compilation, compile) = loaded;
        Self::of(compilation, compile, source, engine)
    }

    fn of(
        compilation: Compilation,
        compile: Duration,
        source: &ModelSource,
        engine: &Engine,
    ) -> Result<Self, Failure> {
        let frame = frame_of(&compilation, OPEN_BYTES)?;
        let caller = Caller::new(compilation, engine)?;
        let states = source.states.clone();
        let mut session =
            Self { caller, frame: Some(frame), states, open_bytes: OPEN_BYTES, compile };
        session.reset()?;
        Ok(session)
    }

    /// The state as before the first step.
    pub(crate) fn reset(&mut self) -> Result<(), Failure> {
        for at in 0..self.states.len() {
            if let (Some(state), Some(frame)) = (self.states.get(at), &mut self.frame) {
                frame.write_bytes(state.input, &state.initial)?;
            }
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, input: usize, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.frame_mut()?.write_bytes(input, bytes)?)
    }

    pub(crate) fn read(&mut self, output: usize) -> Result<Vec<u8>, Failure> {
        Ok(self.frame_mut()?.read_bytes(output)?)
    }

    /// One call on what was written last.
    pub(crate) fn step(&mut self) -> Result<Sample, Failure> {
        let sample = loop {
            match self.caller.call(&mut self.frame) {
                Err(RuntimeError::OutputTooSmall { .. }) if self.open_bytes < MOST_OPEN_BYTES => {
                    self.grow()?;
                }
                result => break result?,
            }
        };
        for at in 0..self.states.len() {
            if let (Some(state), Some(frame)) = (self.states.get(at), &mut self.frame) {
                // The places change hands, nothing is copied.
                frame.exchange(state.output, state.input)?;
            }
        }
        Ok(sample)
    }

    /// A frame with more room for outputs whose size the model leaves open, and the same inputs.
    fn grow(&mut self) -> Result<(), Failure> {
        self.open_bytes = self.open_bytes.saturating_mul(8);
        let compilation = &self.caller.compilation;
        let mut frame = frame_of(compilation, self.open_bytes)?;
        for at in 0..compilation.inputs().len() {
            if let Some(old) = &mut self.frame {
                let bytes = old.input(at)?.as_view().to_vec();
                frame.write_bytes(at, &bytes)?;
            }
        }
        self.frame = Some(frame);
        Ok(())
    }

    /// The extents of an output that the last call gave.
    pub(crate) fn output_shape(&mut self, output: usize) -> Result<Vec<u32>, Failure> {
        let declared = self.caller.compilation.outputs().get(output);
        let declared = declared.map(|operand| operand.dimensions.clone()).unwrap_or_default();
        let shape = self.frame_mut()?.output_shapes().get(output);
        Ok(shape.map(|shape| shape.dimensions.clone()).unwrap_or(declared))
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.caller.warnings()
    }

    fn frame_mut(&mut self) -> Result<&mut Frame, Failure> {
        self.frame.as_mut().ok_or_else(|| Failure::check("the frame was lost with a failed call"))
    }
}
