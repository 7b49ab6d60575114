//! The model of a step: some operations of a graph, with their operands, as a model of its own.

use std::collections::{BTreeSet, HashMap};

use nnburst_hal::{
    DataLocation, HalError, Model, Operand, OperandLifeTime, OperandType, OperationType, Subgraph,
};

use crate::error::Result;
use crate::graphs::{operand, reference};

/// The steps that make and read the operands of one scope.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// By operand, the step that computes it.
    pub(super) makers: HashMap<u32, usize>,
    /// By operand, the steps that read it.
    pub(super) readers: HashMap<u32, BTreeSet<usize>>,
}

/// A step's model, and which operands of the graph its inputs and outputs are.
#[derive(Debug)]
pub(super) struct StepModel {
    pub(super) model: Model,
    pub(super) inputs: Vec<u32>,
    pub(super) outputs: Vec<u32>,
}

impl StepModel {
    /// The operations of step `step` of a graph.
    ///
    /// Inputs are those of the graph first, then temporaries of other steps, then outputs of the
    /// graph that other steps write; outputs those of the graph, then temporaries that other steps
    /// read.
    pub(super) fn of(
        model: &Model,
        graph: &Subgraph,
        operations: &[usize],
        uses: &Uses,
        step: usize,
    ) -> Result<Self> {
        let mut builder = Builder::new(model, graph, operations, uses, step);
        for &at in operations {
            builder.add(at)?;
        }
        Ok(builder.finish())
    }
}

struct Builder<'a> {
    whole: &'a Model,
    graph: &'a Subgraph,
    uses: &'a Uses,
    step: usize,
    part: Model,
    /// By operand of the graph, its index in the part.
    moved: HashMap<u32, u32>,
    pools: HashMap<u32, u32>,
    /// Referenced graphs use the model's values and pools where they are, so these must stay.
    keeps_all: bool,
    graph_inputs: Vec<u32>,
    temporary_inputs: Vec<u32>,
    output_inputs: Vec<u32>,
    graph_outputs: Vec<u32>,
    temporary_outputs: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(
        whole: &'a Model,
        graph: &'a Subgraph,
        operations: &[usize],
        uses: &'a Uses,
        step: usize,
    ) -> Self {
        let mut inputs = operations
            .iter()
            .filter_map(|&at| graph.operations.get(at))
            .flat_map(|operation| &operation.inputs);
        let keeps_all = inputs.any(|&index| reference(graph, index).is_some());
        let part = Model {
            main: Subgraph::default(),
            referenced: if keeps_all { whole.referenced.clone() } else { Vec::new() },
            operand_values: if keeps_all { whole.operand_values.clone() } else { Vec::new() },
            pools: if keeps_all { whole.pools.clone() } else { Vec::new() },
            relax_computation_float32_to_float16: whole.relax_computation_float32_to_float16,
            extension_name_to_prefix: Vec::new(),
        };
        Self {
            whole,
            graph,
            uses,
            step,
            part,
            moved: HashMap::new(),
            pools: HashMap::new(),
            keeps_all,
            graph_inputs: Vec::new(),
            temporary_inputs: Vec::new(),
            output_inputs: Vec::new(),
            graph_outputs: Vec::new(),
            temporary_outputs: Vec::new(),
        }
    }

    fn add(&mut self, at: usize) -> Result<()> {
        let operation = self.graph.operations.get(at).ok_or_else(missing)?;
        let mut moved = operation.clone();
        for input in &mut moved.inputs {
            *input = self.move_over(*input)?;
            let index = usize::try_from(*input).unwrap_or(usize::MAX);
            if let Some(operand) = self.part.main.operands.get_mut(index) {
                operand.number_of_consumers = operand.number_of_consumers.saturating_add(1);
            }
        }
        for output in &mut moved.outputs {
            *output = self.move_over(*output)?;
        }
        self.part.main.operations.push(moved);
        Ok(())
    }

    fn move_over(&mut self, index: u32) -> Result<u32> {
        if let Some(&moved) = self.moved.get(&index) {
            return Ok(moved);
        }
        let whole = operand(self.graph, index).ok_or_else(missing)?;
        let mut operand = Operand { number_of_consumers: 0, ..whole.clone() };
        let is_ours = self.uses.makers.get(&index) == Some(&self.step);
        match whole.lifetime {
            OperandLifeTime::SubgraphInput => self.graph_inputs.push(index),
            OperandLifeTime::SubgraphOutput if is_ours => self.graph_outputs.push(index),
            OperandLifeTime::SubgraphOutput => self.output_inputs.push(index),
            OperandLifeTime::TemporaryVariable if !is_ours => self.temporary_inputs.push(index),
            OperandLifeTime::TemporaryVariable if self.is_read_elsewhere(index) => {
                self.temporary_outputs.push(index);
            }
            OperandLifeTime::ConstantCopy if !self.keeps_all => {
                operand.location = self.copy_value(whole.location)?;
            }
            OperandLifeTime::ConstantReference if !self.keeps_all => {
                operand.location = self.refer(whole.location)?;
            }
            _ => {}
        }
        let moved = u32::try_from(self.part.main.operands.len()).map_err(|_| missing())?;
        self.part.main.operands.push(operand);
        self.moved.insert(index, moved);
        Ok(moved)
    }

    fn is_read_elsewhere(&self, index: u32) -> bool {
        let readers = self.uses.readers.get(&index);
        readers.is_some_and(|readers| readers.iter().any(|&reader| reader != self.step))
    }

    fn copy_value(&mut self, location: DataLocation) -> Result<DataLocation> {
        let start = usize::try_from(location.offset).unwrap_or(usize::MAX);
        let length = usize::try_from(location.length).unwrap_or(usize::MAX);
        let end = start.checked_add(length).ok_or_else(missing)?;
        let bytes = self.whole.operand_values.get(start..end).ok_or_else(missing)?;
        let values = &mut self.part.operand_values;
        values.resize(values.len().next_multiple_of(4), 0);
        let offset = u32::try_from(values.len()).map_err(|_| missing())?;
        values.extend_from_slice(bytes);
        Ok(DataLocation { offset, ..location })
    }

    fn refer(&mut self, location: DataLocation) -> Result<DataLocation> {
        let pool_index = match self.pools.get(&location.pool_index) {
            Some(&moved) => moved,
            None => {
                let index = usize::try_from(location.pool_index).unwrap_or(usize::MAX);
                let pool = self.whole.pools.get(index).ok_or_else(missing)?;
                let moved = u32::try_from(self.part.pools.len()).map_err(|_| missing())?;
                self.part.pools.push(pool.clone());
                self.pools.insert(location.pool_index, moved);
                moved
            }
        };
        Ok(DataLocation { pool_index, ..location })
    }

    fn finish(mut self) -> StepModel {
        let inputs = [self.graph_inputs, self.temporary_inputs, self.output_inputs].concat();
        let outputs = [self.graph_outputs, self.temporary_outputs].concat();
        let moved = |indexes: &[u32]| -> Vec<u32> {
            indexes.iter().filter_map(|index| self.moved.get(index).copied()).collect()
        };
        let main = &mut self.part.main;
        (main.input_indexes, main.output_indexes) = (moved(&inputs), moved(&outputs));
        for (indexes, lifetime) in [
            (main.input_indexes.clone(), OperandLifeTime::SubgraphInput),
            (main.output_indexes.clone(), OperandLifeTime::SubgraphOutput),
        ] {
            for index in indexes {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                if let Some(operand) = main.operands.get_mut(index) {
                    operand.lifetime = lifetime;
                }
            }
        }
        self.part.extension_name_to_prefix = self
            .whole
            .extension_name_to_prefix
            .iter()
            .filter(|entry| uses_prefix(&self.part, entry.prefix))
            .cloned()
            .collect();
        StepModel { model: self.part, inputs, outputs }
    }
}

/// Returns whether anything in a model is of the extension with this prefix.
fn uses_prefix(model: &Model, prefix: u16) -> bool {
    std::iter::once(&model.main).chain(&model.referenced).any(|graph| {
        let mut operands = graph.operands.iter();
        let mut operations = graph.operations.iter();
        operands.any(
            |operand| matches!(operand.kind, OperandType::Extension(code) if code.prefix == prefix),
        ) || operations
            .any(|one| matches!(one.kind, OperationType::Extension(code) if code.prefix == prefix))
    })
}

fn missing() -> crate::error::RuntimeError {
    HalError::invalid("the model refers to what it doesn't have").into()
}
