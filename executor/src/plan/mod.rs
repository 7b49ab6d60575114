//! From a model to a plan: graphs, stages of steps, arenas.
//!
//! ```text
//!   Model ─graph─► Graph ─lower─► Stage { steps, arena, tail } ─► Stage ... (the session's)
//!                    operations: ops/    memory: arena
//! ```

mod arena;
mod control_flow;
mod layout;
mod lower;
mod passes;
mod snapshot;
mod stage;

use std::collections::HashSet;
use std::sync::Arc;

use nnburst_hal::{Budget, Model, OperationType, Version, validate_model_polled, vlog};
use nnburst_kernels::kernels::Precision;
use nnburst_kernels::simd::FloatMode;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::packed::Packs;
use nnburst_kernels::tensor::{AlignedBytes, poll};

pub(crate) use lower::lower;
pub use snapshot::Snapshot;
pub(crate) use stage::{LoopTail, Stage, Tail};

use crate::lowering::context::Context;
use crate::lowering::extension::Types;
use crate::lowering::graph::{self, MAIN};
use crate::lowering::state::{ArgumentShape, State};
use crate::lowering::{CompileError, Control, ExtensionRegistry, Label};

/// The most threads that work on one execution: every one has scratch of its own, and no step has
/// pieces for more.
pub const MAX_THREADS: usize = 64;

/// The options of a compilation.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Threads that work on one execution, of at most [`MAX_THREADS`]; results don't depend on it.
    pub threads: usize,
    /// The best instruction set to use; `None` is `NNBURST_ISA`, or else the best of the machine.
    pub isa: Option<Isa>,
    /// The executors of extensions' operations.
    pub extensions: ExtensionRegistry,
    /// Most bytes that a stage of the plan may take between inputs and outputs: a few bytes of
    /// shapes must not eat the machine.
    pub arena_limit: usize,
    /// Leaves operations that break a rule of theirs (shapes that don't fit, values out of range)
    /// to the runs, which fail: so the reference has it, whose preparation looks at types alone.
    pub late_errors: bool,
    /// Lets models that allow relaxed precision have float convolutions and FULLY_CONNECTED
    /// computed of bf16 numbers: of floats only the upper half is kept, rounded, which is 8 bits of
    /// precision; sums stay floats. Products of rows are so where the machine has an instruction
    /// for it (AVX512_BF16), weights of up to four rows on every machine.
    pub bf16: bool,
    /// Leaves every operation a step by itself, and every value memory of its own: slower, with the
    /// same results. For finding out who is to blame for a wrong one.
    pub apart: bool,
    /// The budget that the memory of plan and sessions is charged to, before it is taken:
    /// constants, packed weights, arenas, values whose sizes come with a run, and threads that
    /// share steps. `None`: nobody bounds it.
    pub memory: Option<Arc<Budget>>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            isa: None,
            extensions: ExtensionRegistry::default(),
            // 4 GiB, or all that 32 bits can address.
            arena_limit: usize::try_from(4_u64 << 30).unwrap_or(usize::MAX),
            late_errors: false,
            bf16: false,
            apart: false,
            memory: None,
        }
    }
}

/// The number of operations that a branch which is used in several places may add to those of the
/// model.
const SPARE_OPERATIONS: usize = 1 << 16;

/// A model, compiled. Immutable and shared; each execution at a time needs a
/// [`Session`](crate::Session) of its own.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) context: Arc<Context>,
    /// The first stage, where the model alone says enough.
    pub(crate) first: Option<Arc<Stage>>,
}

impl Plan {
    /// Compiles a model. Constants are copied; the model and its pools need not stay. What is not
    /// valid for HAL 1.3 is refused, so that operations can rely on types, counts and quantisation.
    ///
    /// # Errors
    /// The model breaks a rule, an operation isn't implemented, or a constant can't be read. What
    /// depends on the request (shapes that the model leaves open, values that are no constants) is
    /// found by [`Session::run`](crate::Session::run).
    pub fn compile(model: &Model, options: &CompileOptions) -> Result<Self, CompileError> {
        Self::compile_under(model, options, &Control::default())
    }

    /// As [`Plan::compile`], until `control` says to end: it is polled before each constant that is
    /// copied and each operation that is compiled, and every millisecond or so while weights are
    /// packed, constants folded and steps and memory laid out.
    ///
    /// # Errors
    /// As for [`Plan::compile`], [`CompileError::Stopped`] and [`CompileError::DeadlineMissed`].
    pub fn compile_under(
        model: &Model,
        options: &CompileOptions,
        control: &Control<'_>,
    ) -> Result<Self, CompileError> {
        Self::compile_with(model, options, Packs::default(), None, control)
    }

    /// As [`Plan::compile`], with packed weights at hand: constants of the model's memories are
    /// among those.
    fn compile_with(
        model: &Model,
        options: &CompileOptions,
        packs: Packs,
        weights: Option<&Arc<AlignedBytes>>,
        control: &Control<'_>,
    ) -> Result<Self, CompileError> {
        // As in any other program, whatever this thread's has set.
        poll::under(control, || {
            FloatMode::Standard
                .within(|| Self::compile_polled(model, options, packs, weights, control))
        })
    }

    fn compile_polled(
        model: &Model,
        options: &CompileOptions,
        packs: Packs,
        weights: Option<&Arc<AlignedBytes>>,
        control: &Control<'_>,
    ) -> Result<Self, CompileError> {
        for graph in std::iter::once(&model.main).chain(&model.referenced) {
            for (index, operation) in graph.operations.iter().enumerate() {
                let is_oem = operation.kind == OperationType::OemOperation;
                let is_registered = is_oem && options.extensions.oem().is_some();
                if !is_registered && !is_implemented(operation.kind) {
                    return Err(CompileError::Unsupported { index, kind: operation.kind });
                }
            }
        }
        let goes_on = || control.check().is_ok();
        if let Err(error) = validate_model_polled(model, Version::V1_3, &goes_on) {
            control.check()?;
            return Err(error.into());
        }
        let budget = options.memory.as_ref();
        let (graphs, reader) = graph::graphs(model, weights, budget, control)?;
        let operations: usize = graphs.iter().map(|graph| graph.operations.len()).sum();
        let operands: usize = graphs.iter().map(|graph| graph.operands.len()).sum();
        let isa = match options.isa {
            Some(isa) => isa,
            None => Isa::from_environment()?,
        };
        let precision = match model.relax_computation_float32_to_float16 && options.bf16 {
            true => Precision::Bf16,
            false => Precision::Single,
        };
        let extension_names = model
            .extension_name_to_prefix
            .iter()
            .map(|entry| (entry.prefix, entry.name.clone()))
            .collect();
        let mut context = Context {
            graphs,
            reader: Some(reader),
            isa,
            precision,
            threads: options.threads.clamp(1, MAX_THREADS),
            extensions: options.extensions.clone(),
            arena_limit: options.arena_limit,
            apart: options.apart,
            operation_limit: operations.saturating_add(SPARE_OPERATIONS),
            value_limit: operands.saturating_add(16 * SPARE_OPERATIONS),
            extension_names,
            types: Types::of(model, &options.extensions),
            packs: Arc::new(packs.charged_to(budget)),
            weights: weights.cloned(),
            budget: budget.cloned(),
        };
        let first = match context.first_stage(control) {
            Ok(first) => first.map(Arc::new),
            Err(error @ (CompileError::Operation { .. } | CompileError::Model(_)))
                if options.late_errors =>
            {
                tracing::warn!(target: "nnburst::compilation", %error, "every execution will fail");
                None
            }
            Err(error) => return Err(error),
        };
        context.read_rest(&absorbed_in(first.as_deref()))?;
        let steps = first.as_ref().map_or(0, |stage| stage.steps.len());
        // SAFETY: the plan is nobody else's yet, and all its weights are packed.
        unsafe { context.packs.settle() };
        vlog!(CpuExe, "{operations} operations begin with {steps} steps for {isa:?}");
        Ok(Self { context: Arc::new(context), first })
    }

    /// Returns whether shapes and steps are all fixed: runs don't allocate, lock or call the
    /// system.
    pub fn is_static(&self) -> bool {
        is_static(self.first.as_deref())
    }

    /// The budget that its memory and that of its sessions is charged to, where there is one
    /// ([`CompileOptions::memory`]).
    pub fn budget(&self) -> Option<&Arc<Budget>> {
        self.context.budget.as_ref()
    }

    /// The shapes of those outputs of the model, by position, that don't depend on a run.
    pub fn known_outputs(&self) -> impl Iterator<Item = (usize, &[u32])> {
        let outputs = self.first.iter().flat_map(|stage| &stage.outputs);
        outputs.map(|output| (output.index, output.dimensions.as_slice()))
    }

    /// The steps that are known before the first run.
    pub fn labels(&self) -> impl Iterator<Item = (usize, &'static str, &Label)> {
        let steps = self.first.iter().flat_map(|stage| &stage.steps);
        steps.map(|step| (step.index, step.name, &step.label))
    }
}

/// Returns whether a plan that begins with this stage ends with it, too.
fn is_static(first: Option<&Stage>) -> bool {
    first.is_some_and(|stage| matches!(stage.tail, Tail::End))
}

/// What the steps of a plan read of packed weights alone, by graph, operation and input. Of a plan
/// that is not fixed nothing counts: what is compiled at run time may need any constant.
fn absorbed_in(first: Option<&Stage>) -> HashSet<(usize, usize, usize)> {
    let first = first.filter(|_| is_static(first));
    first.iter().flat_map(|stage| stage.absorbed.iter().copied()).collect()
}

impl Context {
    /// The first stage of the main graph, if the model declares every input's shape.
    fn first_stage(&self, control: &Control<'_>) -> Result<Option<Stage>, CompileError> {
        let main = &self.graphs[MAIN];
        let mut inputs = Vec::new();
        for &operand in &main.inputs {
            let operand = &main.operands[operand];
            let known = self.types.is_scalar(operand.kind)
                || !operand.dimensions.is_empty() && !operand.dimensions.contains(&0);
            if !known {
                return Ok(None);
            }
            inputs.push(ArgumentShape::Known(operand.dimensions.clone()));
        }
        let outputs = vec![false; main.outputs.len()];
        let state = State::new(&self.graphs, MAIN, &inputs, &outputs)
            .map_err(|error| CompileError::Model(error.to_string()))?;
        lower(self, state, control).map(Some)
    }
}

/// Returns whether the executor computes operations of this kind. Those of extensions depend on the
/// registry, as OEM operations do, which count as none.
pub fn is_implemented(kind: OperationType) -> bool {
    match kind {
        OperationType::If | OperationType::While | OperationType::Extension(_) => true,
        kind => crate::ops::op(kind).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use nnburst_hal::{Operand, OperandLifeTime, OperandType, Operation, Subgraph, TimePoint};

    use super::*;
    use crate::lowering::Checkpoint;

    /// RELUs one behind the other.
    fn chain(count: u32) -> Model {
        let operand = |at| {
            let lifetime = match at {
                0 => OperandLifeTime::SubgraphInput,
                at if at == count => OperandLifeTime::SubgraphOutput,
                _ => OperandLifeTime::TemporaryVariable,
            };
            let tensor = Operand::tensor(OperandType::TensorFloat32, vec![2]);
            Operand { number_of_consumers: u32::from(at < count), ..tensor.with_lifetime(lifetime) }
        };
        let relu =
            |at| Operation { kind: OperationType::Relu, inputs: vec![at], outputs: vec![at + 1] };
        let main = Subgraph {
            operands: (0..=count).map(operand).collect(),
            operations: (0..count).map(relu).collect(),
            input_indexes: vec![0],
            output_indexes: vec![count],
        };
        Model { main, ..Model::default() }
    }

    #[test]
    fn results_of_single_elements_take_the_memory_of_their_operands() {
        let arena = |apart| {
            let options = CompileOptions { apart, ..CompileOptions::default() };
            let plan = Plan::compile(&chain(20), &options);
            plan.ok().and_then(|plan| plan.first).map(|first| first.arena_bytes)
        };
        assert_eq!((arena(true), arena(false)), (Some(128), Some(64)));
    }

    /// Lets a number of operations pass, and then something happens.
    #[derive(Debug)]
    struct After {
        passed: AtomicUsize,
        stop: AtomicBool,
        deadline: TimePoint,
    }

    /// Behind the operands of `chain(20)`, among its operations.
    const LAST: usize = 30;

    impl Checkpoint for After {
        fn pass(&self) {
            if self.passed.fetch_add(1, Ordering::Relaxed) == LAST {
                self.stop.store(true, Ordering::Relaxed);
                std::thread::sleep(self.deadline.remaining());
            }
        }
    }

    #[test]
    fn compiling_ends_between_operations_when_told_to_or_too_late() {
        let model = chain(20);
        let after = || After {
            passed: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            deadline: TimePoint::after(Duration::from_millis(20)),
        };
        let compile = |after: &After, control: &Control<'_>| {
            let compiled = Plan::compile_under(&model, &CompileOptions::default(), control);
            (compiled.map(drop), after.passed.load(Ordering::Relaxed))
        };
        let stopping = after();
        let control = Control {
            checkpoint: Some(&stopping),
            stop: Some(&stopping.stop),
            ..Control::default()
        };
        let (stopped, passed) = compile(&stopping, &control);
        assert_eq!((stopped, passed), (Err(CompileError::Stopped), LAST + 1));
        let late = after();
        let deadline = Some(late.deadline);
        let control = Control { checkpoint: Some(&late), deadline, ..Control::default() };
        assert_eq!(compile(&late, &control).0, Err(CompileError::DeadlineMissed));
        assert_eq!(compile(&late, &Control::default()).0, Ok(()));
    }
}
