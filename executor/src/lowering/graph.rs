//! A model's graphs as the plan keeps them: operands, operations, and constants copied out of the
//! pools.

use std::sync::Arc;

use nnburst_hal::{
    Budget, DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, Subgraph,
};
use nnburst_kernels::tensor::memory::Slab;
use nnburst_kernels::tensor::{AlignedBytes, poll};

use crate::lowering::{CompileError, Control};

/// One graph of a model. Indices in it have been checked.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) operands: Vec<Operand>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    /// The bytes of constants, by operand.
    pub(crate) constants: Vec<Option<Arc<AlignedBytes>>>,
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

/// The main graph, and behind it the graphs that IF and WHILE refer to.
///
/// With packed weights at hand, what refers to memories is wholly in those, and nobody looks at its
/// bytes: some of the weights' stand for them. Bytes of a constant that are read between two polls.
const READ_BYTES: usize = 1 << 20;

pub(crate) fn graphs(
    model: &Model,
    weights: Option<&Arc<AlignedBytes>>,
    budget: Option<&Arc<Budget>>,
    control: &Control<'_>,
) -> Result<Vec<Graph>, CompileError> {
    // One behind the other, since a mapping or a fault per constant takes longer than copying it.
    let mut slab = Slab::charged_to(budget);
    std::iter::once(&model.main)
        .chain(&model.referenced)
        .map(|subgraph| Graph::new(model, weights, &mut slab, subgraph, control))
        .collect()
}

/// Position of the main graph.
pub(crate) const MAIN: usize = 0;

impl Graph {
    fn new(
        model: &Model,
        weights: Option<&Arc<AlignedBytes>>,
        slab: &mut Slab,
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
        let constants = subgraph
            .operands
            .iter()
            .enumerate()
            .map(|(index, operand)| {
                control.check()?;
                constant(model, weights, &mut *slab, index, operand)
            })
            .collect::<Result<_, _>>()?;
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

    /// The graph that an operand of type SUBGRAPH stands for.
    pub(crate) fn referenced(&self, operand: usize, graphs: usize) -> Option<usize> {
        let operand = self.operands.get(operand)?;
        let is_graph =
            operand.kind == OperandType::Subgraph && operand.lifetime == OperandLifeTime::Subgraph;
        let index = (operand.location.offset as usize).checked_add(1)?;
        (is_graph && index < graphs).then_some(index)
    }
}

fn constant(
    model: &Model,
    weights: Option<&Arc<AlignedBytes>>,
    slab: &mut Slab,
    index: usize,
    operand: &Operand,
) -> Result<Option<Arc<AlignedBytes>>, CompileError> {
    let location = operand.location;
    if let (Some(weights), OperandLifeTime::ConstantReference) = (weights, operand.lifetime) {
        let len = location.length as usize;
        // Packed they may be shorter, by half where they are whole steps of a scale.
        let bytes = AlignedBytes::part_of(weights, 0, len).map_or_else(|| slab.untouched(len), Ok);
        return Ok(Some(Arc::new(bytes?)));
    }
    let bytes = match operand.lifetime {
        OperandLifeTime::ConstantCopy => copied(&model.operand_values, location),
        OperandLifeTime::ConstantReference => {
            return referenced(model, slab, index, location).map(Some);
        }
        _ => return Ok(None),
    };
    let bytes = bytes.ok_or_else(|| CompileError::Constant {
        operand: index,
        error: format!(
            "bytes {} and {} more of {} values",
            location.offset,
            location.length,
            model.operand_values.len()
        ),
    })?;
    let mut copy = slab.apart(bytes.len())?;
    copy.as_mut_slice().copy_from_slice(bytes);
    Ok(Some(Arc::new(copy)))
}

fn copied(values: &[u8], location: DataLocation) -> Option<&[u8]> {
    let start = location.offset as usize;
    values.get(start..start.checked_add(location.length as usize)?)
}

fn referenced(
    model: &Model,
    slab: &mut Slab,
    index: usize,
    location: DataLocation,
) -> Result<Arc<AlignedBytes>, CompileError> {
    let pool = model.pools.get(location.pool_index as usize).ok_or_else(|| {
        CompileError::Constant { operand: index, error: format!("no pool {}", location.pool_index) }
    })?;
    let end = u64::from(location.offset) + u64::from(location.length);
    if end > pool.size() {
        // Before the length sizes an allocation.
        return Err(CompileError::Constant {
            operand: index,
            error: format!("ends at byte {end} of a pool of {}", pool.size()),
        });
    }
    let mut bytes = slab.zeroed(location.length as usize)?;
    let mut offset = u64::from(location.offset);
    for chunk in bytes.as_mut_slice().chunks_mut(READ_BYTES) {
        let read = pool.read_at(offset, chunk);
        read.map_err(|error| CompileError::memory(index, &error))?;
        offset += chunk.len() as u64;
        poll::work(chunk.len() / 4).or_else(|_| poll::halted())?;
    }
    Ok(Arc::new(bytes))
}
