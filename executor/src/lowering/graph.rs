//! A model's graphs as the plan keeps them: operands, operations, and constants.

use std::sync::Arc;

use nnburst_hal::{Budget, Model, Operand, OperandLifeTime, OperandType, Operation, Subgraph};
use nnburst_kernels::tensor::AlignedBytes;

use super::constant::{Constant, Reader};
use crate::lowering::{CompileError, Control};

/// One graph of a model. Indices in it have been checked.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) operands: Vec<Operand>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    /// Constants, by operand.
    pub(crate) constants: Vec<Option<Constant>>,
    /// The readers of each operand.
    readers: Vec<Readers>,
}

#[derive(Clone, Copy, Debug)]
enum Readers {
    None,
    /// This operation alone, once.
    One(usize),
    /// Several, or whoever runs the graph.
    Several,
}

/// The main graph, and behind it the graphs that IF and WHILE refer to; and what reads those of
/// their constants that are not read yet.
///
/// With packed weights at hand, what refers to memories is wholly in those, and nobody looks at its
/// bytes: some of the weights' stand for them.
pub(crate) fn graphs(
    model: &Model,
    weights: Option<&Arc<AlignedBytes>>,
    budget: Option<&Arc<Budget>>,
    control: &Control<'_>,
) -> Result<(Vec<Graph>, Reader), CompileError> {
    let mut reader = Reader::new(model, weights, budget);
    let graphs = std::iter::once(&model.main)
        .chain(&model.referenced)
        .map(|subgraph| Graph::new(model, &mut reader, subgraph, control))
        .collect::<Result<_, _>>()?;
    Ok((graphs, reader))
}

/// Position of the main graph.
pub(crate) const MAIN: usize = 0;

impl Graph {
    fn new(
        model: &Model,
        reader: &mut Reader,
        subgraph: &Subgraph,
        control: &Control<'_>,
    ) -> Result<Self, CompileError> {
        let count = subgraph.operands.len();
        let check = |indexes: &[u32], what: &str| -> Result<Vec<usize>, CompileError> {
            let known = |&index: &u32| {
                Some(index as usize).filter(|&index| index < count).ok_or_else(|| {
                    CompileError::Model(format!("{what} names operand {index} of {count}"))
                })
            };
            indexes.iter().map(known).collect()
        };
        for operation in &subgraph.operations {
            check(&operation.inputs, "an operation's input")?;
            check(&operation.outputs, "an operation's output")?;
        }
        let outputs = check(&subgraph.output_indexes, "the graph's outputs")?;
        let mut readers = vec![Readers::None; count];
        for (at, operation) in subgraph.operations.iter().enumerate() {
            for &input in &operation.inputs {
                let readers = &mut readers[input as usize];
                *readers = match readers {
                    Readers::None => Readers::One(at),
                    _ => Readers::Several,
                };
            }
        }
        outputs.iter().for_each(|&output| readers[output] = Readers::Several);
        let constants = subgraph
            .operands
            .iter()
            .zip(&readers)
            .enumerate()
            .map(|(index, (operand, readers))| {
                control.check()?;
                let only = match *readers {
                    Readers::One(at) => subgraph.operations.get(at).map(|reader| reader.kind),
                    _ => None,
                };
                reader.constant(model, index, operand, only)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            operands: subgraph.operands.clone(),
            operations: subgraph.operations.clone(),
            inputs: check(&subgraph.input_indexes, "the graph's inputs")?,
            outputs,
            constants,
            readers,
        })
    }

    /// The operation that alone reads an operand, and nobody outside the graph does.
    pub(crate) fn only_reader(&self, operand: u32) -> Option<usize> {
        match self.readers.get(operand as usize) {
            Some(&Readers::One(operation)) => Some(operation),
            _ => None,
        }
    }

    /// The same, and which of its inputs that operand is.
    pub(crate) fn only_reader_of(&self, operand: usize) -> Option<(usize, usize)> {
        let operand = u32::try_from(operand).ok()?;
        let operation = self.only_reader(operand)?;
        let inputs = &self.operations.get(operation)?.inputs;
        Some((operation, inputs.iter().position(|&input| input == operand)?))
    }

    /// The graph that an operand of type SUBGRAPH stands for.
    pub(crate) fn referenced(&self, operand: usize, graphs: usize) -> Option<usize> {
        let operand = self.operands.get(operand)?;
        let is_graph =
            operand.kind == OperandType::Subgraph && operand.lifetime == OperandLifeTime::Subgraph;
        let index = (operand.location.offset as usize).checked_add(1)?;
        (is_graph && index < graphs).then_some(index)
    }
}
