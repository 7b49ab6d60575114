//! Runs a graph: finds or makes the stages that fit the request, binds memory, takes the steps.
//!
//! Stages form a tree. Its roots are told apart by the arguments' shapes; where a stage ends
//! because what follows depends on a value, its children are told apart by that value or by the
//! shapes that came out. A run walks down one path, and only where the path is new does it compile
//! and allocate.

use std::sync::Arc;
use std::time::Instant;

use nnburst_hal::{Budget, Charge, Layer, OutputShape, Phase, Resource, View, ViewMut, trace_span};
use nnburst_kernels::tensor::shape::merge;
use nnburst_kernels::tensor::{AlignedBytes, NoMemory, Shape, poll};

use super::arguments::{Sink, argument_shape, check_count, fits, input_slot};
use super::bands::run_bands;
use super::loops::Loop;
use super::warm_up::warm_up;
use super::{Input, Orders, Output, StepTime};
use crate::lowering::context::Context;
use crate::lowering::io::{SlotMemory, resolve};
use crate::lowering::state::{ArgumentShape, State, Storage};
use crate::lowering::step::{DynamicTarget, Place, RunWhole, Step, Work};
use crate::lowering::{CompileError, Control, DynamicOutput, Io, RunError};
use crate::plan::{Stage, Tail, lower};

/// Paths kept at each fork; the oldest makes room.
const MAX_VARIANTS: usize = 8;

/// A graph with what was learnt about running it.
#[derive(Debug)]
pub(super) struct Runner {
    graph: usize,
    roots: Vec<Root>,
    slots: Vec<SlotMemory>,
    shapes: Vec<OutputShape>,
    /// The tree that the slots are bound for, if it is a single stage that was run to its end: for
    /// arguments as long, as pipelines and bursts have them frame by frame, its steps are all there
    /// is to do.
    bound: Option<Bound>,
}

/// The tree, and how many arguments its slots begin with.
#[derive(Clone, Copy, Debug)]
struct Bound {
    root: usize,
    inputs: usize,
    outputs: usize,
}

#[derive(Debug)]
struct Root {
    inputs: Vec<ArgumentShape>,
    /// Bytes that each input has at least.
    needed: Vec<usize>,
    omitted_outputs: Vec<bool>,
    node: Node,
}

impl Root {
    fn new(
        context: &Context,
        graph: usize,
        inputs: Vec<ArgumentShape>,
        omitted_outputs: Vec<bool>,
        node: Node,
    ) -> Self {
        let graph = &context.graphs[graph];
        let kinds = graph.inputs.iter().map(|&operand| graph.operands[operand].kind);
        // Types that nobody described have no size; reads are checked in any case.
        let element_bytes = kinds.map(|kind| context.types.element_bytes(kind).unwrap_or(0));
        let needed = inputs.iter().zip(element_bytes).map(|(input, bytes)| input.bytes(bytes));
        Self { needed: needed.collect(), inputs, omitted_outputs, node }
    }
}

/// A stage with its memory and the stages known to follow it.
#[derive(Debug)]
pub(super) struct Node {
    stage: Arc<Stage>,
    arena: AlignedBytes,
    /// The result of the tail.
    made: Vec<AlignedBytes>,
    inner: Option<Box<Loop>>,
    next: Vec<(Guard, Self)>,
    /// What the steps take of a budget, where the stage was compiled for a run.
    _charge: Option<Charge>,
}

/// What the stages behind it were compiled for.
#[derive(Debug, PartialEq, Eq)]
enum Guard {
    Value(Arc<AlignedBytes>),
    Shapes(Vec<Vec<u32>>),
}

/// Bytes of a node, and of each of its steps.
const NODE_BYTES: u64 = 4 << 10;
const STEP_BYTES: u64 = 2 << 10;

impl Node {
    /// Where there is no memory for the arena, the run that comes here tries again and tells.
    fn new(stage: Arc<Stage>, budget: Option<&Arc<Budget>>) -> Self {
        let arena = AlignedBytes::charged(stage.arena_bytes, budget);
        let arena = arena.unwrap_or_else(|_| AlignedBytes::zeroed(0));
        Self { stage, arena, made: Vec::new(), inner: None, next: Vec::new(), _charge: None }
    }

    /// Compiles the stage that follows from `state`.
    fn compile(context: &Context, state: State, control: &Control<'_>) -> Result<Self, RunError> {
        let budget = context.budget.as_ref();
        let stage = lower(context, state, control)?;
        let steps = u64::try_from(stage.steps.len()).unwrap_or(u64::MAX);
        let bytes = steps.saturating_mul(STEP_BYTES).saturating_add(NODE_BYTES);
        let charge = budget.map(|budget| budget.take(Resource::Memory, bytes)).transpose();
        let charge = charge.map_err(NoMemory::from)?;
        let arena = AlignedBytes::charged(stage.arena_bytes, budget)?;
        let stage = Arc::new(stage);
        Ok(Self { stage, arena, made: Vec::new(), inner: None, next: Vec::new(), _charge: charge })
    }
}

/// Makes what a run needs. Without memory for it, what was kept for other runs makes room first.
fn or_forget<T>(
    kept: &mut Vec<T>,
    mut make: impl FnMut() -> Result<Node, RunError>,
) -> Result<Node, RunError> {
    match make() {
        Err(RunError::NoMemory(_)) if !kept.is_empty() => {
            kept.clear();
            make()
        }
        made => made,
    }
}

/// The state that stays the same during a run.
struct Walk<'r, 's, 'o, 'c> {
    context: &'r Context,
    orders: &'r mut Orders<'c>,
    slots: &'r mut Vec<SlotMemory>,
    shapes: &'r mut [OutputShape],
    sink: &'s mut Sink<'o>,
}

impl Runner {
    pub(super) fn new(context: &Context, graph: usize, first: Option<Arc<Stage>>) -> Self {
        let this = &context.graphs[graph];
        let declared = |&index: &usize| this.operands[index].dimensions.clone();
        let root = |stage| {
            let inputs = this.inputs.iter().map(|i| ArgumentShape::Known(declared(i))).collect();
            let (omitted, budget) = (vec![false; this.outputs.len()], context.budget.as_ref());
            Root::new(context, graph, inputs, omitted, Node::new(stage, budget))
        };
        let shape = |index| OutputShape { dimensions: declared(index), is_sufficient: true };
        Self {
            graph,
            roots: first.map(root).into_iter().collect(),
            slots: Vec::new(),
            shapes: this.outputs.iter().map(shape).collect(),
            bound: None,
        }
    }

    /// Has the memory of the stages that are known.
    pub(super) fn take_memory(&mut self, context: &Context) -> Result<(), NoMemory> {
        for Root { node, .. } in &mut self.roots {
            node.arena.try_grow(node.stage.arena_bytes, context.budget.as_ref())?;
        }
        Ok(())
    }

    /// The scratch memory of the first stage that was run.
    pub(super) fn arena(&self) -> &[u8] {
        self.roots.first().map_or(&[], |root| root.node.arena.as_slice())
    }

    pub(super) fn shapes(&self) -> &[OutputShape] {
        &self.shapes
    }

    pub(super) fn run(
        &mut self,
        context: &Context,
        inputs: &[Input<'_>],
        sink: &mut Sink<'_>,
        orders: &mut Orders<'_>,
    ) -> Result<(), RunError> {
        let outputs_from = inputs.len();
        if let Some(bound) = self.bound
            && let Some(Root { node, .. }) = self.roots.get_mut(bound.root)
            && bind_again(&mut self.slots, bound, node, inputs, sink)
        {
            let (slots, shapes) = (&mut self.slots, &mut self.shapes[..]);
            return Walk { context, orders, slots, shapes, sink }.take_steps(&node.stage);
        }
        self.bound = None;
        let graph = &context.graphs[self.graph];
        check_count("input", inputs.len(), graph.inputs.len())?;
        check_count("output", sink.len(), graph.outputs.len())?;
        for (shape, &operand) in self.shapes.iter_mut().zip(&graph.outputs) {
            tell(&mut shape.dimensions, &graph.operands[operand].dimensions);
            shape.is_sufficient = true;
        }
        let found = self.root(context, inputs, sink, orders)?;
        let Some(at) = found else { return Ok(()) };
        let Some(root) = self.roots.get_mut(at) else { return Ok(()) };
        self.slots.clear();
        for (index, (input, shape)) in inputs.iter().zip(&root.inputs).enumerate() {
            let needed = root.needed.get(index).copied().unwrap_or(0);
            self.slots.push(input_slot(index, input, shape, needed)?);
        }
        for index in 0..graph.outputs.len() {
            self.slots.push(sink.slot(index));
        }
        let is_one_stage = matches!(root.node.stage.tail, Tail::End);
        let (slots, shapes) = (&mut self.slots, &mut self.shapes[..]);
        let mut walk = Walk { context, orders, slots, shapes, sink };
        walk.down(&mut root.node, outputs_from)?;
        let (inputs, outputs) = (inputs.len(), graph.outputs.len());
        self.bound = is_one_stage.then_some(Bound { root: at, inputs, outputs });
        Ok(())
    }

    /// The tree that fits the arguments, compiled if it is new. A warm-up run compiles nothing:
    /// `None` for it then.
    fn root(
        &mut self,
        context: &Context,
        inputs: &[Input<'_>],
        sink: &Sink<'_>,
        orders: &Orders<'_>,
    ) -> Result<Option<usize>, RunError> {
        let graph = &context.graphs[self.graph];
        let fits = |root: &Root| {
            let mut arguments = inputs.iter().zip(&root.inputs).zip(&graph.inputs);
            arguments.all(|((input, known), &operand)| {
                fits(input, known, &graph.operands[operand].dimensions)
            }) && root.omitted_outputs.iter().enumerate().all(|(i, &o)| o == sink.is_omitted(i))
        };
        if let Some(found) = self.roots.iter().position(fits) {
            return Ok(Some(found));
        }
        if orders.warm_up.is_some() {
            return Ok(None);
        }
        let inputs = inputs
            .iter()
            .zip(&graph.inputs)
            .enumerate()
            .map(|(index, (input, &operand))| {
                argument_shape(input, &graph.operands[operand], &context.types)
                    .map_err(|what| RunError::Argument { direction: "input", index, what })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let omitted_outputs: Vec<_> = (0..sink.len()).map(|i| sink.is_omitted(i)).collect();
        let state = State::new(&context.graphs, self.graph, &inputs, &omitted_outputs)
            .map_err(|error| CompileError::Model(error.to_string()))?;
        let node =
            or_forget(&mut self.roots, || Node::compile(context, state.clone(), orders.control))?;
        if self.roots.len() >= MAX_VARIANTS {
            self.roots.remove(0);
        }
        self.roots.push(Root::new(context, self.graph, inputs, omitted_outputs, node));
        Ok(Some(self.roots.len() - 1))
    }
}

impl Walk<'_, '_, '_, '_> {
    /// Runs a stage and those behind it.
    fn down(&mut self, mut node: &mut Node, outputs_from: usize) -> Result<(), RunError> {
        loop {
            let Node { stage, arena, made, inner, next, .. } = node;
            self.bind(stage, arena, outputs_from)?;
            self.take_steps(stage)?;
            if self.orders.warm_up.is_some() {
                return Ok(());
            }
            let guard = match &stage.tail {
                Tail::End => return Ok(()),
                Tail::Value { place, .. } => {
                    let bytes = resolve(place, self.slots).as_view();
                    let found = next.iter().position(|(guard, _)| is_value(guard, bytes));
                    match found {
                        Some(found) => {
                            node = &mut next[found].1;
                            continue;
                        }
                        None => {
                            let budget = self.context.budget.as_ref();
                            let mut copy = AlignedBytes::charged(bytes.len(), budget)?;
                            bytes.copy_to_slice(copy.as_mut_slice());
                            Guard::Value(Arc::new(copy))
                        }
                    }
                }
                Tail::Dynamic { step, run, outputs } => {
                    self.orders.control.check()?;
                    let results = self.timed(step, |io| run.run(io))?;
                    self.take(step, made, outputs, results, outputs_from)?
                }
                Tail::Loop(tail) => {
                    let inner =
                        inner.get_or_insert_with(|| Box::new(Loop::new(self.context, tail)));
                    let results = inner.run(self.context, tail, self.slots, self.orders)?;
                    let step = tail_step(tail.index);
                    self.take(&step, made, &tail.outputs, results, outputs_from)?
                }
            };
            let at = follow(self.context, stage, next, guard, self.orders.control)?;
            node = &mut next[at].1;
        }
    }

    #[inline]
    fn take_steps(&mut self, stage: &Stage) -> Result<(), RunError> {
        let is_watched = self.orders.is_watched();
        for step in &stage.steps {
            if step.polls {
                self.orders.check()?;
            }
            match &step.work {
                Work::Whole(run) if !is_watched => self.whole(step, run.as_ref())?,
                _ => self.step(step)?,
            }
        }
        Ok(())
    }

    /// Tells the shapes that the stage knows, checks room for them, adds its arena.
    fn bind(
        &mut self,
        stage: &Stage,
        arena: &mut AlignedBytes,
        outputs_from: usize,
    ) -> Result<(), RunError> {
        for known in &stage.outputs {
            if let Some(shape) = self.shapes.get_mut(known.index) {
                tell(&mut shape.dimensions, &known.dimensions);
            }
        }
        let mut short = None;
        for known in &stage.outputs {
            self.sink.reserve(known.index, known.bytes, self.context.budget.as_ref())?;
            let slot = self.sink.slot(known.index);
            let error = self.check_output(known.index, &known.dimensions, known.bytes, slot.len);
            short = short.or(error);
            if let Some(bound) = self.slots.get_mut(outputs_from + known.index) {
                *bound = slot;
            }
        }
        if let Some(error) = short {
            return Err(error);
        }
        arena.try_grow(stage.arena_bytes, self.context.budget.as_ref())?;
        if !matches!(stage.tail, Tail::End) || stage.arena_bytes > 0 {
            self.slots.resize(stage.arena_slot, SlotMemory::EMPTY);
            self.slots.push(SlotMemory::of(arena.view_mut()));
        }
        Ok(())
    }

    fn check_output(
        &mut self,
        index: usize,
        dimensions: &[u32],
        needed: usize,
        given: usize,
    ) -> Option<RunError> {
        if let Sink::Given(outputs) = self.sink
            && let Some(Output::Buffer { dimensions: asked, .. }) = outputs.get(index)
            && !nnburst_hal::extends_shape(asked, dimensions)
        {
            let (computed, asked) = (dimensions.to_vec(), asked.to_vec());
            return Some(RunError::OutputShape { index, computed, asked });
        }
        if needed > given && !self.sink.is_omitted(index) {
            if let Some(shape) = self.shapes.get_mut(index) {
                shape.is_sufficient = false;
            }
            return Some(RunError::InsufficientSize { index, needed, given });
        }
        None
    }

    #[inline]
    fn whole(&self, step: &Step, run: &dyn RunWhole) -> Result<(), RunError> {
        let ran = run.run(Io::new(self.slots, step));
        // What a poll inside it ended computed nothing, however it came back.
        poll::halted()?;
        ran.map_err(|what| failed(step, what))
    }

    /// A step of any kind, whoever watches: a function of its own, as nobody does at most times.
    #[inline(never)]
    fn step(&mut self, step: &Step) -> Result<(), RunError> {
        if self.orders.warm_up.is_some() {
            let io = Io::new(self.slots, step);
            return warm_up(step, io).map_err(|what| failed(step, what));
        }
        let _span = trace_span(Layer::Cpu, Phase::Computation, step.name);
        let start = self.orders.times.is_some().then(Instant::now);
        match &step.work {
            Work::Whole(run) => self.whole(step, run.as_ref())?,
            Work::Bands { count, pieces, shared, run } => {
                let team = self.orders.team.as_deref_mut().filter(|_| *shared);
                run_bands(*count, *pieces, self.orders.control, team, |thread, bands| {
                    let io = Io::of_thread(self.slots, step, thread);
                    run.run(io, bands).map_err(|what| failed(step, what))
                })?;
            }
        }
        self.time(step, start);
        Ok(())
    }

    #[inline]
    fn time(&mut self, step: &Step, start: Option<Instant>) {
        if let (Some(times), Some(start)) = (&mut self.orders.times, start) {
            let time = start.elapsed();
            let (index, name, label) = (step.index, step.name, step.label.clone());
            times.push(StepTime { index, name, label, bytes: step.bytes(), time });
        }
    }

    #[inline]
    fn timed<T>(
        &mut self,
        step: &Step,
        run: impl FnOnce(Io<'_>) -> Result<T, String>,
    ) -> Result<T, RunError> {
        let start = self.orders.times.is_some().then(Instant::now);
        let span = trace_span(Layer::Cpu, Phase::Computation, step.name);
        let result = run(Io::new(self.slots, step));
        drop(span);
        self.time(step, start);
        poll::halted()?;
        result.map_err(|what| failed(step, what))
    }

    /// Puts what a tail made where it belongs and says what the following stage depends on.
    fn take(
        &mut self,
        step: &Step,
        kept: &mut Vec<AlignedBytes>,
        targets: &[DynamicTarget],
        made: Vec<DynamicOutput>,
        outputs_from: usize,
    ) -> Result<Guard, RunError> {
        if made.len() != targets.len() {
            let what = format!("made {} outputs of {}", made.len(), targets.len());
            return Err(failed(step, what));
        }
        kept.clear();
        // All shapes are told before any output is found too small: a client then asks once more,
        // not once per output.
        for (target, made) in targets.iter().zip(&made) {
            if let Some(shape) = target.output.and_then(|index| self.shapes.get_mut(index)) {
                shape.dimensions = made.shape.to_u32();
            }
        }
        let budget = self.context.budget.as_ref();
        let mut shapes = Vec::new();
        for (target, made) in targets.iter().zip(made) {
            if let Some(declared) = target.declared.iter().find(|d| !merge(d, &made.shape)) {
                let what = format!("made {:?}, declared as {declared:?}", made.shape);
                return Err(failed(step, what));
            }
            let dimensions = made.shape.to_u32();
            if let Some(index) = target.output {
                let needed = made.bytes.len();
                self.sink.reserve(index, needed, budget)?;
                let slot = self.sink.slot(index);
                if let Some(error) = self.check_output(index, &dimensions, needed, slot.len) {
                    return Err(error);
                }
                self.slots[outputs_from + index] = slot;
                let slot = outputs_from + index;
                let whole = Place::Slot { slot, offset: 0, len: needed, apart: None };
                poll::copy(made.bytes.view(), resolve(&whole, self.slots));
                poll::halted()?;
            } else {
                let mut bytes = made.bytes.charged_to(budget)?;
                self.slots.push(SlotMemory::of(bytes.view_mut()));
                kept.push(bytes);
            }
            shapes.push(dimensions);
        }
        Ok(Guard::Shapes(shapes))
    }
}

/// Puts the memory of other arguments of the same lengths in place of the last run's; `false` where
/// their lengths or shapes are others, and some may have changed places.
#[inline]
fn bind_again(
    slots: &mut [SlotMemory],
    bound: Bound,
    node: &mut Node,
    inputs: &[Input<'_>],
    sink: &Sink<'_>,
) -> bool {
    let Sink::Given(outputs) = sink else { return false };
    if [inputs.len(), outputs.len()] != [bound.inputs, bound.outputs] {
        return false;
    }
    if node.stage.arena_bytes > 0
        && let Some(slot) = slots.get_mut(node.stage.arena_slot)
    {
        *slot = SlotMemory::of(node.arena.view_mut());
    }
    let mut slots = slots.iter_mut();
    let has_inputs = inputs.iter().zip(&mut slots).all(|(input, slot)| match input {
        Input::Value { bytes, dimensions: [] } if bytes.len() == slot.len => {
            *slot = SlotMemory::of_input(*bytes);
            true
        }
        _ => false,
    });
    has_inputs
        && outputs.iter().zip(&mut slots).all(|(output, slot)| match output {
            Output::Buffer { bytes, dimensions: [] } if bytes.len() == slot.len => {
                *slot = SlotMemory::of(*bytes);
                true
            }
            _ => false,
        })
}

/// Replaces extents by others, which mostly are what they were.
#[inline]
fn tell(extents: &mut Vec<u32>, now: &[u32]) {
    if extents != now {
        extents.clear();
        extents.extend_from_slice(now);
    }
}

/// The stage behind `stage` for what the guard says, compiled if it is new.
fn follow(
    context: &Context,
    stage: &Stage,
    known: &mut Vec<(Guard, Node)>,
    guard: Guard,
    control: &Control<'_>,
) -> Result<usize, RunError> {
    if let Some(found) = known.iter().position(|(known, _)| *known == guard) {
        return Ok(found);
    }
    let Some(mut state) = stage.state.clone() else {
        return Err(CompileError::Model("a finished graph goes on".to_owned()).into());
    };
    match (&guard, &stage.tail) {
        (Guard::Value(bytes), Tail::Value { value, .. }) => {
            state.known.insert(*value, Arc::clone(bytes));
        }
        (Guard::Shapes(shapes), Tail::Dynamic { outputs, .. }) => {
            learn(&mut state, outputs, shapes)?;
        }
        (Guard::Shapes(shapes), Tail::Loop(tail)) => learn(&mut state, &tail.outputs, shapes)?,
        _ => {}
    }
    let next = or_forget(known, || Node::compile(context, state.clone(), control))?;
    if known.len() >= MAX_VARIANTS {
        known.remove(0);
    }
    known.push((guard, next));
    Ok(known.len() - 1)
}

fn learn(
    state: &mut State,
    targets: &[DynamicTarget],
    shapes: &[Vec<u32>],
) -> Result<(), CompileError> {
    for (target, dimensions) in targets.iter().zip(shapes) {
        let shape = Shape::from_u32(dimensions);
        let shape = shape.map_err(|error| CompileError::Model(error.to_string()))?;
        let value = &mut state.values[target.value];
        debug_assert!(matches!(value.storage, Storage::Slot(_)));
        value.shape = Some(shape);
    }
    Ok(())
}

fn is_value(guard: &Guard, bytes: View<'_>) -> bool {
    // Compared byte by byte through the view: nobody may promise that the bytes hold still.
    matches!(guard, Guard::Value(known) if known.len() == bytes.len()
        && nnburst_kernels::tensor::In::<u8>::new(bytes).iter().eq(known.as_slice().iter().copied()))
}

fn failed(step: &Step, what: String) -> RunError {
    RunError::Operation { index: step.index, name: step.name, what }
}

/// The name of a WHILE in messages.
fn tail_step(index: usize) -> Step {
    let label = crate::lowering::Label {
        kernel: "while",
        form: nnburst_kernels::simd::Isa::Scalar,
        shape: crate::lowering::Words::default(),
        operations: 0,
    };
    Step {
        index,
        name: "WHILE",
        label,
        inputs: Box::default(),
        outputs: Box::default(),
        scratch: Place::Omitted,
        scratch_share: 0,
        work: Work::whole(|_| Ok(())),
        polls: true,
    }
}

/// A view of a place, to hand to an inner run.
///
/// # Safety
/// The memory of the slots stays mapped for `'a`, and so does the constant of the place.
pub(super) unsafe fn view_of<'a>(place: &Place, slots: &[SlotMemory]) -> View<'a> {
    let view: ViewMut<'_> = resolve(place, slots);
    // SAFETY: as the caller promises.
    unsafe { View::from_raw(view.as_mut_ptr().cast_const(), view.len()) }
}
