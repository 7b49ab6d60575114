//! From operations to stages.
//!
//! A stage takes as many operations as can be lowered with the shapes and values known. What needs
//! a value that isn't known ends the stage; lowering goes on at run time, from the state kept in
//! it, when the steps so far have computed that value.

use std::collections::HashMap;
use std::sync::Arc;

use nnburst_hal::OperationType;
use nnburst_kernels::tensor::shape::merge;
use nnburst_kernels::tensor::{OpError, poll};

use super::stage::{LoopTail, Stage, Tail, note_polls};
use crate::lowering::builder::{DynamicDraft, Reason, Stop};
use crate::lowering::context::Context;
use crate::lowering::draft::{Draft, DraftPlace};
use crate::lowering::pieces::keep_short_whole;
use crate::lowering::state::{State, Storage, ValueId};
use crate::lowering::step::DynamicTarget;
use crate::lowering::{CompileError, Control, OpBuilder};
use crate::plan::layout::ArenaLayout;
use crate::plan::passes::attention::attend;
use crate::plan::passes::compose::compose;
use crate::plan::passes::elements::join_elements;
use crate::plan::passes::fold::fold;
use crate::plan::passes::fuse::fuse;
use crate::plan::passes::join::{drop_borders, join, share, view};
use crate::plan::passes::normalise::normalise;
use crate::plan::passes::sequence::sequence;

/// The end of an operation's lowering.
pub(super) enum Next {
    /// Lowered.
    Done,
    /// It is an IF whose branch is known; the operations of this graph come next.
    Enter { graph: usize, inputs: Vec<ValueId>, outputs: Vec<ValueId> },
    /// It is a WHILE.
    Loop(LoopDraft),
    /// Lowering it takes more than is known.
    Stop(Stop),
}

/// A WHILE before the arena is laid out.
pub(super) struct LoopDraft {
    pub(super) condition: usize,
    pub(super) body: usize,
    pub(super) inputs: Vec<(DraftPlace, Vec<u32>)>,
    pub(super) outputs: Vec<DynamicTarget>,
}

/// Lowers from `state` until the end or until a value is needed; `control` is looked at before each
/// operation.
pub(crate) fn lower(
    context: &Context,
    mut state: State,
    control: &Control<'_>,
) -> Result<Stage, CompileError> {
    let mut draft = Draft::default();
    let mut lowered = 0usize;
    while let Some(frame) = state.frames.last_mut() {
        let graph = frame.graph;
        let Some(operation) = context.graphs[graph].operations.get(frame.next) else {
            leave(context, &mut state, &mut draft)?;
            continue;
        };
        control.check()?;
        lowered += 1;
        if lowered > context.operation_limit || state.values.len() > context.value_limit {
            let values = state.values.len();
            let what =
                format!("branches within branches make {lowered} operations, {values} values");
            return Err(CompileError::Model(what));
        }
        let index = frame.next;
        let map = Arc::clone(&frame.map);
        let mark = (draft.steps.len(), draft.outputs.len(), draft.local_count());
        let before: Vec<_> = operation
            .outputs
            .iter()
            .map(|&operand| map[operand as usize])
            .map(|value| (value, state.values[value].clone()))
            .collect();
        let constants = &context.graphs[graph];
        let lent = context.lend_constants(constants, operation, &map, &mut state)?;
        let mut builder = OpBuilder {
            context,
            graph,
            operation,
            index,
            map: &map,
            state: &mut state,
            draft: &mut draft,
            absorbed: Vec::new(),
            instead: Vec::new(),
        };
        let _claim = builder.claim_lowering()?;
        let next = context.packs.during(graph, index, || lower_one(&mut builder))?;
        if let Some(error) = context.packs.take_failure() {
            return Err(error.into());
        }
        let absorbed = match next {
            Next::Done => builder.absorbed,
            _ => Vec::new(),
        };
        let charges = context
            .take_back_constants(constants, operation, &map, &mut state, &lent, &absorbed)?;
        draft.claims.extend(charges);
        poll::halted()?;
        match next {
            Next::Done => {
                let outputs: Vec<_> = before.iter().map(|&(value, _)| value).collect();
                let folded = fold(operation.kind, &outputs, &mut state, &mut draft, mark.0, mark.2);
                // What a poll ended says nothing of the operation.
                poll::halted()?;
                folded.map_err(|error| {
                    let name = operation.kind.name();
                    CompileError::Operation { index, name, error }
                })?;
                draft.absorbed.extend(absorbed.iter().map(|&input| (graph, index, input)));
                advance(&mut state);
            }
            Next::Enter { graph, inputs, outputs } => {
                advance(&mut state);
                state.enter(&context.graphs, graph, &inputs, &outputs);
            }
            Next::Loop(tail) => {
                advance(&mut state);
                return end_at_loop(context, state, draft, index, tail);
            }
            Next::Stop(Stop(Reason::Error(error))) => {
                let name = operation.kind.name();
                return Err(CompileError::Operation { index, name, error });
            }
            Next::Stop(Stop(Reason::NoMemory(error))) => return Err(error.into()),
            Next::Stop(Stop(Reason::Value(value))) => {
                draft.rewind(mark.0, mark.1);
                for (value, info) in before {
                    state.values[value] = info;
                }
                return end_at_value(context, state, draft, value);
            }
            Next::Stop(Stop(Reason::Dynamic(dynamic))) => {
                draft.rewind(mark.0, mark.1);
                advance(&mut state);
                return end_at_dynamic(context, state, draft, *dynamic);
            }
        }
    }
    improve(context, &mut draft);
    let layout = draft.lay_out(state.slots);
    finish(context, draft, &layout, Tail::End, None)
}

/// Fewer steps and less memory for the same bits.
fn improve(context: &Context, draft: &mut Draft) {
    if context.apart {
        return;
    }
    drop_borders(draft);
    compose(draft, context.isa);
    normalise(draft, context.isa, context.threads);
    attend(draft, context.isa, context.threads, context.budget.as_ref());
    fuse(draft, context.threads);
    view(draft);
    join(draft);
    join_elements(draft, context.isa, context.threads);
    keep_short_whole(&mut draft.steps);
    share(draft);
    sequence(draft);
    // Passes end early where the work is to end; whoever lays the draft out notices.
}

fn advance(state: &mut State) {
    if let Some(frame) = state.frames.last_mut() {
        frame.next += 1;
    }
}

fn lower_one(builder: &mut OpBuilder<'_>) -> Result<Next, CompileError> {
    let result = match builder.kind() {
        OperationType::If => super::control_flow::lower_if(builder),
        OperationType::While => super::control_flow::lower_while(builder),
        OperationType::Extension(code) => {
            builder.context.extension(code, builder).map(|()| Next::Done)
        }
        OperationType::OemOperation if builder.context.extensions.oem().is_some() => {
            builder.context.oem(builder).map(|()| Next::Done)
        }
        kind => {
            let unsupported = CompileError::Unsupported { index: builder.index, kind };
            let op = crate::ops::op(kind).ok_or(unsupported)?;
            (op.lower)(builder).map(|()| Next::Done)
        }
    };
    Ok(result.unwrap_or_else(Next::Stop))
}

/// The graph on top is done: copies outputs that no operation of it wrote.
fn leave(context: &Context, state: &mut State, draft: &mut Draft) -> Result<(), CompileError> {
    let Some(frame) = state.frames.pop() else { return Ok(()) };
    let graph = &context.graphs[frame.graph];
    let mut operands = HashMap::new();
    if !frame.copies.is_empty() {
        for (&value, operand) in frame.map.iter().zip(&graph.operands) {
            operands.entry(value).or_insert(operand);
        }
    }
    for (from, to) in frame.copies {
        let operand = operands.get(&from);
        let Some(operand) = operand else { continue };
        let fail = |what: String| {
            CompileError::Model(format!("an output of graph {}: {what}", frame.graph))
        };
        let Some(shape) = state.values[from].shape.clone() else {
            return Err(fail("nothing computes it".to_owned()));
        };
        let source = DraftPlace::of(&state.values[from], operand.kind, &context.types);
        let value = &mut state.values[to];
        if value.declared.iter().any(|declared| !merge(declared, &shape)) {
            return Err(fail(format!("is of {shape:?}, declared as {:?}", value.declared)));
        }
        if let Some(output) = value.output {
            draft.know_output(output, &shape, source.len());
        }
        if let Storage::Unset = value.storage {
            value.storage = Storage::Local(draft.add_local(source.len()));
        }
        value.shape = Some(shape);
        let target = DraftPlace::of(value, operand.kind, &context.types);
        draft.copy(graph.operations.len(), "copy", source, target);
    }
    Ok(())
}

/// Gives everything that later stages may read its place in this stage's arena.
fn keep(context: &Context, state: &mut State, draft: &mut Draft, extra: &[ValueId]) -> ArenaLayout {
    let mut needed = vec![false; state.values.len()];
    for frame in &state.frames {
        let operations = &context.graphs[frame.graph].operations;
        for operation in operations.get(frame.next..).unwrap_or_default() {
            for &operand in &operation.inputs {
                needed[frame.map[operand as usize]] = true;
            }
        }
        frame.copies.iter().for_each(|&(from, _)| needed[from] = true);
    }
    extra.iter().for_each(|&value| needed[value] = true);
    let locals =
        state.values.iter().zip(&needed).filter_map(|(value, &needed)| match value.storage {
            Storage::Local(local) if needed => Some(local),
            _ => None,
        });
    draft.kept.extend(locals);
    improve(context, draft);
    let slot = state.slots;
    state.slots += 1;
    let layout = draft.lay_out(slot);
    for value in &mut state.values {
        // What is within may be gone by the next stage.
        value.border = None;
        if let Storage::Local(local) = value.storage {
            let (slot, offset) = layout.home(local);
            value.storage = Storage::Arena { slot, offset };
        }
    }
    layout
}

fn end_at_value(
    context: &Context,
    mut state: State,
    mut draft: Draft,
    value: ValueId,
) -> Result<Stage, CompileError> {
    // The value is an input of the operation that comes next, so its type is found there.
    let place = state.frames.last().and_then(|frame| {
        let operand = frame.map.iter().position(|&known| known == value)?;
        let kind = context.graphs[frame.graph].operands[operand].kind;
        Some(DraftPlace::of(&state.values[value], kind, &context.types))
    });
    let layout = keep(context, &mut state, &mut draft, &[value]);
    let place = layout.place(place.unwrap_or(DraftPlace::Omitted));
    finish(context, draft, &layout, Tail::Value { value, place }, Some(state))
}

fn end_at_dynamic(
    context: &Context,
    mut state: State,
    mut draft: Draft,
    dynamic: DynamicDraft,
) -> Result<Stage, CompileError> {
    let DynamicDraft { step, run, outputs } = dynamic;
    draft.steps.push(step);
    let layout = keep(context, &mut state, &mut draft, &[]);
    take_slots(&mut state, &outputs);
    let mut stage = finish(context, draft, &layout, Tail::End, Some(state))?;
    if let Some(step) = stage.steps.pop() {
        stage.tail = Tail::Dynamic { step, run, outputs };
    }
    Ok(stage)
}

fn end_at_loop(
    context: &Context,
    mut state: State,
    mut draft: Draft,
    index: usize,
    tail: LoopDraft,
) -> Result<Stage, CompileError> {
    for (place, _) in &tail.inputs {
        if let &DraftPlace::Local { local, .. } = place {
            draft.kept.push(local);
        }
    }
    let layout = keep(context, &mut state, &mut draft, &[]);
    take_slots(&mut state, &tail.outputs);
    let LoopDraft { condition, body, inputs, outputs } = tail;
    let inputs = inputs.into_iter().map(|(place, dims)| (layout.place(place), dims)).collect();
    let tail = LoopTail { index, condition, body, inputs, outputs };
    finish(context, draft, &layout, Tail::Loop(tail), Some(state))
}

/// Temporaries that come with a shape of their own get a slot each, in order.
fn take_slots(state: &mut State, targets: &[DynamicTarget]) {
    for target in targets {
        if target.output.is_none() {
            state.values[target.value].storage = Storage::Slot(state.slots);
            state.slots += 1;
        }
    }
}

fn finish(
    context: &Context,
    draft: Draft,
    layout: &ArenaLayout,
    tail: Tail,
    state: Option<State>,
) -> Result<Stage, CompileError> {
    poll::halted()?;
    let (needed, limit) = (layout.bytes, context.arena_limit);
    if needed > limit {
        return Err(CompileError::TooLarge { needed, limit });
    }
    if context.packs.missed() {
        return Err(CompileError::Cache);
    }
    let Draft { steps, outputs, absorbed, claims, .. } = draft;
    let mut steps: Vec<_> = steps.into_iter().map(|step| layout.step(step)).collect();
    note_polls(&mut steps);
    for step in &steps {
        let label = &step.label;
        tracing::debug!(
            operation = step.index,
            name = step.name,
            kernel = label.kernel,
            form = ?label.form,
            shape = %label.shape,
            "lowered"
        );
    }
    let (arena_bytes, arena_slot) = (layout.bytes, layout.slot);
    Ok(Stage { steps, arena_bytes, arena_slot, outputs, tail, state, absorbed, _claims: claims })
}

impl Context {
    /// Lowers an operation of an extension, if somebody executes it.
    fn extension(
        &self,
        code: nnburst_hal::ExtensionCode,
        builder: &mut OpBuilder<'_>,
    ) -> Result<(), Stop> {
        let name = self.extension_names.iter().find(|(prefix, _)| *prefix == code.prefix);
        let executor = name.and_then(|(_, name)| self.extensions.get(name));
        let Some(executor) = executor else {
            let what = match name {
                Some((_, name)) => format!("nobody executes operations of the extension {name}"),
                None => format!("no extension has the prefix {}", code.prefix),
            };
            return Err(OpError::rule(what).into());
        };
        Arc::clone(executor).lower(code.number, builder)
    }

    /// Lowers an OEM operation, if somebody executes it.
    fn oem(&self, builder: &mut OpBuilder<'_>) -> Result<(), Stop> {
        let executor = self.extensions.oem().cloned();
        let executor = executor.ok_or_else(|| OpError::rule("nobody executes OEM operations"))?;
        executor.lower(0, builder)
    }
}
