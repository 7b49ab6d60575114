//! Running a plan: scratch memory, specialisations, and the shapes that came out.

mod arguments;
mod bands;
mod handoff;
mod loops;
mod roofline;
mod runner;
mod sync;
mod team;
mod warm;
mod warm_up;

use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::{OutputShape, View, ViewMut};

use crate::lowering::context::Context;
use crate::lowering::graph::MAIN;
use crate::lowering::{CompileError, Control, RunError};
use crate::plan::{Plan, Stage};
use arguments::Sink;
use nnburst_kernels::simd::FloatMode;
use nnburst_kernels::tensor::NoMemory;
use nnburst_kernels::tensor::poll;
use nnburst_kernels::tensor::poll::Halt;
pub use roofline::{Bandwidth, Ceilings, Peak};
use runner::Runner;
use team::Team;
use warm::Warmth;
use warm_up::WarmUp;

/// An input of an execution.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The optional input is left out.
    NoValue,
    /// A value.
    Value {
        /// Its elements; more bytes than they take are fine.
        bytes: View<'a>,
        /// Empty: the model's extents. Else these replace the model's unknown ones.
        dimensions: &'a [u32],
    },
}

impl<'a> Input<'a> {
    /// A value of the shape that the model declares.
    pub fn new(bytes: View<'a>) -> Self {
        Self::Value { bytes, dimensions: &[] }
    }
}

/// An output of an execution.
#[derive(Clone, Copy, Debug)]
pub enum Output<'a> {
    /// Computed, but not wanted.
    NoValue,
    /// Memory for it; more than needed is fine, bytes behind the value stay as they are.
    Buffer {
        /// The memory.
        bytes: ViewMut<'a>,
        /// Empty: the model's extents. Else these replace the model's unknown ones.
        dimensions: &'a [u32],
    },
}

impl<'a> Output<'a> {
    /// Memory for an output of whatever shape it has.
    pub fn new(bytes: ViewMut<'a>) -> Self {
        Self::Buffer { bytes, dimensions: &[] }
    }
}

/// The time one step took, in the order of execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// Position of the operation in its graph.
    pub index: usize,
    /// Name of the operation.
    pub name: &'static str,
    /// Kernel, form and shape.
    pub label: crate::lowering::Label,
    /// Bytes of its operands, each read or written once.
    pub bytes: usize,
    /// The time that it took.
    pub time: Duration,
}

/// Memory for one execution of a [`Plan`] at a time, and what was learnt from those before.
#[derive(Debug)]
pub struct Session {
    context: Arc<Context>,
    runner: Runner,
    /// True if there are steps to share, or may be.
    shares: bool,
    /// Helpers, from the first run on.
    team: Option<Team>,
    warmth: Warmth,
    /// True if a warm-up run does what a run does, and nothing else.
    warms_up: bool,
}

/// The instructions of a run: its control, who helps, and where the times of its steps go.
#[derive(Debug)]
struct Orders<'a> {
    control: &'a Control<'a>,
    team: Option<&'a mut Team>,
    times: Option<&'a mut Vec<StepTime>>,
    warm_up: Option<WarmUp<'a>>,
}

impl Orders<'_> {
    /// Returns whether steps are timed or traced, or not quite taken.
    #[inline]
    fn is_watched(&self) -> bool {
        self.warm_up.is_some() || self.times.is_some() || nnburst_hal::is_traced()
    }

    /// Returns whether the run may go on.
    #[inline]
    fn check(&mut self) -> Result<(), Halt> {
        if let Some(warm_up) = &mut self.warm_up
            && (warm_up.is_over)()
        {
            return Err(Halt::Stopped);
        }
        self.control.check()
    }
}

impl Plan {
    /// Scratch memory for one execution at a time.
    pub fn session(&self) -> Session {
        Session::new(self)
    }

    /// As [`Plan::session`], with all the memory that is known to be needed: [`Session::run`] asks
    /// for it again where it could not be had.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn try_session(&self) -> Result<Session, NoMemory> {
        let mut session = self.session();
        session.take_memory()?;
        Ok(session)
    }
}

impl Session {
    pub(crate) fn new(plan: &Plan) -> Self {
        let runner = Runner::new(&plan.context, MAIN, plan.first.clone());
        let first = plan.first.as_deref();
        let shares = plan.context.threads > 1 && first.is_none_or(Stage::may_share);
        let warmth = Warmth::new(plan.context.packs.in_order());
        // What operations of drivers' own do beside computing is not ours to repeat.
        let warms_up =
            plan.context.extension_names.is_empty() && plan.context.extensions.oem().is_none();
        let context = Arc::clone(&plan.context);
        Self { context, runner, shares, team: None, warmth, warms_up }
    }

    /// Has the memory that is known to be needed.
    pub(crate) fn take_memory(&mut self) -> Result<(), NoMemory> {
        self.runner.take_memory(&self.context)
    }

    /// Touches a few lines of the weights and the memory that the next run will use, to have them
    /// in near caches when it comes; `false` ends a round, after which some time may pass. It takes
    /// a small part of a microsecond, and neither allocates nor locks nor calls the system. Weights
    /// that are packed at run time are left out.
    pub fn keep_warm(&mut self) -> bool {
        self.warmth.touch(self.runner.arena())
    }

    /// Takes the steps of a run of these shapes, as far as they are known, for what it does to code
    /// and caches alone: of steps that are cut in bands the first band, those that take long in one
    /// piece not at all. What the outputs hold then means nothing. Looks between steps, hence every
    /// 20 microseconds or so, whether it `is_over`. Like a run it neither allocates nor locks nor
    /// calls the system; models with operations of extensions get no warm-up runs.
    pub fn warm_up(
        &mut self,
        inputs: &[Input<'_>],
        outputs: &[Output<'_>],
        is_over: &mut dyn FnMut() -> bool,
    ) {
        if !self.warms_up {
            return;
        }
        let control = &Control::default();
        let warm_up = Some(WarmUp { is_over });
        let mut orders = Orders { control, team: None, times: None, warm_up };
        let mut sink = Sink::Given(outputs);
        let ran = FloatMode::Flushed
            .within(|| self.runner.run(&self.context, inputs, &mut sink, &mut orders));
        // What fails with values that mean nothing would do so each time, and make words of it.
        self.warms_up = matches!(ran, Ok(()) | Err(RunError::Stopped));
    }

    /// Executes the plan. Where the plan is static this neither allocates nor locks nor calls the
    /// system. Floats below 2^-126 count as 0, and rounding is to the nearest, whatever
    /// the thread's program has set ([`FloatMode::Flushed`]).
    ///
    /// # Errors
    /// See [`RunError`]; outputs may then be partly written.
    pub fn run(
        &mut self,
        inputs: &[Input<'_>],
        outputs: &[Output<'_>],
        control: &Control<'_>,
    ) -> Result<(), RunError> {
        self.run_with(inputs, outputs, control, None)
    }

    /// Executes the plan and tells how long each step took.
    ///
    /// # Errors
    /// As for [`Session::run`].
    pub fn profile(
        &mut self,
        inputs: &[Input<'_>],
        outputs: &[Output<'_>],
        control: &Control<'_>,
    ) -> Result<Vec<StepTime>, RunError> {
        let mut times = Vec::new();
        self.run_with(inputs, outputs, control, Some(&mut times))?;
        Ok(times)
    }

    fn run_with(
        &mut self,
        inputs: &[Input<'_>],
        outputs: &[Output<'_>],
        control: &Control<'_>,
        times: Option<&mut Vec<StepTime>>,
    ) -> Result<(), RunError> {
        if self.team.is_none() && self.shares {
            let size = self.context.threads.min(team::cores());
            self.team = Some(Team::new(size, self.context.budget.as_ref()));
        }
        let mut orders = Orders { control, team: self.team.as_mut(), times, warm_up: None };
        let mut sink = Sink::Given(outputs);
        let run = || self.runner.run(&self.context, inputs, &mut sink, &mut orders);
        poll::under(control, || FloatMode::Flushed.within(run))?;
        match &self.context.weights {
            Some(weights) if weights.is_corrupt() => Err(CompileError::Cache.into()),
            _ => Ok(()),
        }
    }

    /// The outputs' shapes after the last run, where it succeeded or ended with
    /// [`RunError::InsufficientSize`]; extents that stayed unknown are 0.
    pub fn output_shapes(&self) -> &[OutputShape] {
        self.runner.shapes()
    }
}
