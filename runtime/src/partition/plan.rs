//! From the walk to a plan: each step's model made ready, each value that moves between steps with
//! a home.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use nnburst_hal::{
    Access, DataLocation, HalError, Memory, Model, Operand, OperandLifeTime, Operation, Subgraph,
};

use super::step_model::{StepModel, Uses};
use super::walk::{RawStep, ScopedOperand, Walk, graph_of, has_value};
use crate::device::Device;
use crate::error::{Result, RuntimeError};
use crate::graphs::operand;
use crate::planned::{Branch, ExecutionStep, Home, LoopStep, Plan, Step, StepValue};
use crate::prepare::Preparation;

/// Values in the arena start at a cache line.
const ALIGNMENT: u64 = 64;

/// Makes the steps of a walk ready.
///
/// # Errors
/// `GENERAL_FAILURE` where a value between two steps has no known size; what a device answered.
pub(super) fn finish(
    model: &Arc<Model>,
    walk: &Walk,
    devices: &[Device],
    preparation: &Preparation<'_>,
) -> Result<Plan> {
    let mut planner = Planner::new(model, walk)?;
    let uses = uses(model, walk);
    let mut steps = Vec::with_capacity(walk.steps.len());
    for (at, raw) in walk.steps.iter().enumerate() {
        steps.push(match raw {
            RawStep::Goto(target) => Step::Goto(*target),
            RawStep::Execution { scope, device, operations } => {
                let graph = planner.graph(*scope)?;
                let part = StepModel::of(model, graph, operations, &uses[*scope], at)?;
                let device = devices.get(*device).ok_or_else(lost_track)?;
                let source = walk.scopes.get(*scope).and_then(|scope| scope.graph);
                planner.execution(*scope, part, device, preparation, (source, operations))?
            }
            RawStep::If { scope, operation, branches, otherwise } => {
                planner.branch(*scope, *operation, *branches, *otherwise)?
            }
            RawStep::While { scope, operation, condition, body, body_at, exit } => {
                planner.repeat(*scope, *operation, [*condition, *body], [*body_at, *exit])?
            }
        });
    }
    planner.finish(steps)
}

/// Returns the makers and readers of values, per scope.
fn uses(model: &Model, walk: &Walk) -> Vec<Uses> {
    let mut uses: Vec<Uses> = walk.scopes.iter().map(|_| Uses::default()).collect();
    for (at, step) in walk.steps.iter().enumerate() {
        let (scope, operations) = match step {
            RawStep::Goto(_) => continue,
            RawStep::Execution { scope, operations, .. } => (*scope, operations.as_slice()),
            RawStep::If { scope, operation, .. } | RawStep::While { scope, operation, .. } => {
                (*scope, std::slice::from_ref(operation))
            }
        };
        let graph = walk.scopes.get(scope).and_then(|scope| graph_of(model, scope.graph));
        let (Some(graph), Some(uses)) = (graph, uses.get_mut(scope)) else { continue };
        for operation in operations.iter().filter_map(|&at| graph.operations.get(at)) {
            for &input in &operation.inputs {
                uses.readers.entry(input).or_default().insert(at);
            }
            for &output in &operation.outputs {
                uses.makers.insert(output, at);
            }
        }
    }
    uses
}

struct Planner<'a> {
    model: &'a Arc<Model>,
    walk: &'a Walk,
    slots: Vec<StepValue>,
    known: HashMap<ScopedOperand, usize>,
    arena_bytes: u64,
    /// The bytes of constants that go into control flow.
    constants: Vec<u8>,
}

impl<'a> Planner<'a> {
    fn new(model: &'a Arc<Model>, walk: &'a Walk) -> Result<Self> {
        let mut planner = Self {
            model,
            walk,
            slots: Vec::new(),
            known: HashMap::new(),
            arena_bytes: 0,
            constants: Vec::new(),
        };
        let main = &model.main;
        let arguments = [(&main.input_indexes, true), (&main.output_indexes, false)];
        for (indexes, is_input) in arguments {
            for (position, &operand) in indexes.iter().enumerate() {
                let home = if is_input { Home::Input(position) } else { Home::Output(position) };
                planner.add(ScopedOperand { scope: 0, operand }, home)?;
            }
        }
        Ok(planner)
    }

    fn graph(&self, scope: usize) -> Result<&'a Subgraph> {
        let scope = self.walk.scopes.get(scope).ok_or_else(lost_track)?;
        graph_of(self.model, scope.graph).ok_or_else(lost_track)
    }

    fn operation(&self, scope: usize, at: usize) -> Result<(&'a Subgraph, &'a Operation)> {
        let graph = self.graph(scope)?;
        Ok((graph, graph.operations.get(at).ok_or_else(lost_track)?))
    }

    fn add(&mut self, value: ScopedOperand, home: Home) -> Result<usize> {
        let operand = operand(self.graph(value.scope)?, value.operand).ok_or_else(lost_track)?;
        self.slots.push(StepValue { operand: operand.clone(), home });
        self.known.insert(value, self.slots.len() - 1);
        Ok(self.slots.len() - 1)
    }

    /// The slot of a value, made at its first mention.
    fn slot(&mut self, scope: usize, index: u32) -> Result<usize> {
        let value = ScopedOperand { scope, operand: index };
        if let Some(&slot) = self.known.get(&value) {
            return Ok(slot);
        }
        let operand = operand(self.graph(scope)?, index).ok_or_else(lost_track)?;
        let home = match operand.lifetime {
            OperandLifeTime::TemporaryVariable => self.room(operand)?,
            OperandLifeTime::ConstantCopy => self.constant(operand)?,
            OperandLifeTime::ConstantReference => self.pool(operand)?,
            OperandLifeTime::SubgraphInput | OperandLifeTime::SubgraphOutput => Home::Bound,
            OperandLifeTime::NoValue | OperandLifeTime::Subgraph => Home::Nowhere,
        };
        self.add(value, home)
    }

    fn slots(&mut self, scope: usize, indexes: &[u32]) -> Result<Vec<usize>> {
        indexes.iter().map(|&index| self.slot(scope, index)).collect()
    }

    /// Room in the arena for a value.
    fn room(&mut self, operand: &Operand) -> Result<Home> {
        let bytes = crate::extensions::data_size(operand, self.model).ok_or_else(|| {
            HalError::failure(format!(
                "a {} of shape {:?} goes from step to step, and its size is not known",
                operand.kind, operand.dimensions
            ))
        })?;
        let offset = self.arena_bytes;
        let length = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.arena_bytes = offset.saturating_add(length).next_multiple_of(ALIGNMENT);
        match (u32::try_from(offset), u32::try_from(length)) {
            (Ok(offset), Ok(length)) => Ok(Home::Arena { offset, length }),
            _ => Err(HalError::failure("the values between steps exceed 4 GiB").into()),
        }
    }

    fn constant(&mut self, operand: &Operand) -> Result<Home> {
        let start = usize::try_from(operand.location.offset).unwrap_or(usize::MAX);
        let length = usize::try_from(operand.location.length).unwrap_or(usize::MAX);
        let bytes = start
            .checked_add(length)
            .and_then(|end| self.model.operand_values.get(start..end))
            .ok_or_else(lost_track)?;
        self.constants.resize(self.constants.len().next_multiple_of(4), 0);
        let offset = u32::try_from(self.constants.len()).map_err(|_| lost_track())?;
        self.constants.extend_from_slice(bytes);
        Ok(Home::Constant { offset, length: operand.location.length })
    }

    fn pool(&self, operand: &Operand) -> Result<Home> {
        let DataLocation { pool_index, offset, length } = operand.location;
        let index = usize::try_from(pool_index).unwrap_or(usize::MAX);
        let memory = self.model.pools.get(index).ok_or_else(lost_track)?.clone();
        Ok(Home::Pool { memory, offset, length })
    }

    fn execution(
        &mut self,
        scope: usize,
        part: StepModel,
        device: &Device,
        preparation: &Preparation<'_>,
        operations: (Option<usize>, &[usize]),
    ) -> Result<Step> {
        // A step of which nobody reads a result needn't be made.
        if part.outputs.is_empty() {
            return Ok(Step::Nothing);
        }
        let inputs = self.slots(scope, &part.inputs)?;
        let outputs = self.slots(scope, &part.outputs)?;
        let prepared = preparation.prepare(device, &part.model, Some(operations))?;
        let (device, model) = (device.clone(), Arc::new(part.model));
        let on_reference = OnceLock::new();
        let step = ExecutionStep { device, model, prepared, inputs, outputs, on_reference };
        Ok(Step::Execution(Box::new(step)))
    }

    fn branch(
        &mut self,
        scope: usize,
        at: usize,
        branches: [usize; 2],
        otherwise: usize,
    ) -> Result<Step> {
        let (_, operation) = self.operation(scope, at)?;
        let condition = operation.inputs.first().ok_or_else(lost_track)?;
        let condition = self.slot(scope, *condition)?;
        let given = operation.inputs.get(3..).unwrap_or_default();
        let mut bind = |inner: usize| -> Result<Vec<(usize, usize)>> {
            let graph = self.graph(inner)?;
            let mut pairs = self.pairs(inner, &graph.input_indexes, scope, given)?;
            pairs.extend(self.pairs(inner, &graph.output_indexes, scope, &operation.outputs)?);
            Ok(pairs)
        };
        let [yes, no] = branches;
        let bindings = [bind(yes)?, bind(no)?];
        Ok(Step::If(Branch { condition, bindings, otherwise }))
    }

    fn repeat(
        &mut self,
        scope: usize,
        at: usize,
        [condition, body]: [usize; 2],
        [body_at, exit]: [usize; 2],
    ) -> Result<Step> {
        let (_, operation) = self.operation(scope, at)?;
        let (condition_graph, body_graph) = (self.graph(condition)?, self.graph(body)?);
        let variables = self.slots(scope, operation.inputs.get(2..).unwrap_or_default())?;
        let results = self.slots(scope, &operation.outputs)?;
        let verdict = *condition_graph.output_indexes.first().ok_or_else(lost_track)?;
        let verdict_operand = operand(condition_graph, verdict).ok_or_else(lost_track)?;
        let verdict = (self.slot(condition, verdict)?, self.room(verdict_operand)?);
        let mut buffers = Vec::new();
        for &index in &body_graph.output_indexes {
            let operand = operand(body_graph, index).ok_or_else(lost_track)?;
            buffers.push([self.room(operand)?, self.room(operand)?]);
        }
        Ok(Step::While(Box::new(LoopStep {
            variables,
            results,
            condition_inputs: self.slots(condition, &condition_graph.input_indexes)?,
            verdict,
            body_inputs: self.slots(body, &body_graph.input_indexes)?,
            body_outputs: self.slots(body, &body_graph.output_indexes)?,
            buffers,
            body_at,
            exit,
        })))
    }

    /// Pairs the slots of an inner graph with those of the outer one that they stand for.
    fn pairs(
        &mut self,
        inner: usize,
        inner_indexes: &[u32],
        outer: usize,
        outer_indexes: &[u32],
    ) -> Result<Vec<(usize, usize)>> {
        let outer_graph = self.graph(outer)?;
        inner_indexes
            .iter()
            .zip(outer_indexes)
            .filter(|&(_, &index)| has_value(outer_graph, index))
            .map(|(&to, &from)| Ok((self.slot(inner, to)?, self.slot(outer, from)?)))
            .collect()
    }

    fn finish(self, steps: Vec<Step>) -> Result<Plan> {
        let constants = if self.constants.is_empty() {
            None
        } else {
            let size = u64::try_from(self.constants.len()).unwrap_or(u64::MAX);
            let memory = Memory::ashmem(size)?;
            let mapping = memory.map(Access::ReadWrite)?;
            if let Some(view) = mapping.view_mut(0..mapping.len()) {
                view.copy_from_slice(&self.constants);
            }
            Some(memory)
        };
        Ok(Plan {
            model: Arc::clone(self.model),
            steps,
            slots: self.slots,
            constants,
            arena_bytes: self.arena_bytes,
        })
    }
}

/// A valid model has everything that its graphs refer to.
fn lost_track() -> RuntimeError {
    HalError::invalid("the model refers to what it doesn't have").into()
}
