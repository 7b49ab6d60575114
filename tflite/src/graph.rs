//! Builds the graph of a HAL model: operands, constants and operations.
//!
//! Constants of the file stay where they are and are referred to in pool 0. What the import makes
//! itself travels with the model while it is small, and in pool 1 else, as the HAL's own runtime
//! does.

use std::collections::HashMap;

use nnburst_hal::{
    ChannelQuant, DataLocation, ExtraParams, Operand, OperandLifeTime, OperandType, Operation,
    OperationType, Subgraph,
};

use crate::file_bytes::FileBytes;
use crate::operand::is_quantized;

/// The pool that is the file.
const FILE_POOL: u32 = 0;
/// The pool of constants that the import made.
const MADE_POOL: u32 = 1;
/// Constants up to this size travel within the model.
const MAX_COPY: usize = 128;
/// Constants in a pool start at multiples of this, so that any kernel can read them in place.
const POOL_ALIGN: usize = 64;

/// A graph in the making.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    /// Operands and operations; which of them come in and go out is said at the end.
    pub(crate) graph: Subgraph,
    /// The operator of the file that each operation stems from.
    pub(crate) sources: Vec<usize>,
    /// The values of constants that travel within the model.
    pub(crate) values: Vec<u8>,
    /// The bytes of the pool of made constants.
    pub(crate) made: Vec<u8>,
    /// Constants by type, shape and bytes: the scalars of a model are few, and repeat.
    known: HashMap<(OperandType, Vec<u32>, Vec<u8>), u32>,
    /// The operator that is being lowered.
    pub(crate) source: usize,
    /// Graphs that operations refer to.
    pub(crate) referenced: Vec<Subgraph>,
    /// Graphs in the making around the one that is being made.
    outer: Vec<OuterGraph>,
    /// Operations made so far, those of all graphs and those that were taken back included, and
    /// tensors of graphs that were entered.
    pub(crate) work: usize,
}

/// A graph that waits for one that it refers to.
#[derive(Debug)]
struct OuterGraph {
    graph: Subgraph,
    sources: Vec<usize>,
    known: HashMap<(OperandType, Vec<u32>, Vec<u8>), u32>,
}

/// The lengths of a builder's parts at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    operands: usize,
    operations: usize,
    values: usize,
    made: usize,
    referenced: usize,
}

impl Builder {
    /// The state of now, for [`Builder::rewind`].
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            operands: self.graph.operands.len(),
            operations: self.graph.operations.len(),
            values: self.values.len(),
            made: self.made.len(),
            referenced: self.referenced.len(),
        }
    }

    /// Takes back all that was added since.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.graph.operands.truncate(mark.operands);
        self.graph.operations.truncate(mark.operations);
        self.sources.truncate(mark.operations);
        self.values.truncate(mark.values);
        self.made.truncate(mark.made);
        self.referenced.truncate(mark.referenced);
        self.known.retain(|_, index| (*index as usize) < mark.operands);
    }

    /// Begins a graph that the one in the making will refer to.
    pub(crate) fn enter(&mut self) {
        self.outer.push(OuterGraph {
            graph: std::mem::take(&mut self.graph),
            sources: std::mem::take(&mut self.sources),
            known: std::mem::take(&mut self.known),
        });
    }

    /// Ends it and goes on with the one around it; its number among the graphs referred to, if it
    /// is kept.
    pub(crate) fn leave(&mut self, is_kept: bool) -> u32 {
        let number = u32::try_from(self.referenced.len()).unwrap_or(u32::MAX);
        if is_kept {
            self.count_consumers();
        }
        if let Some(OuterGraph { graph, sources, known }) = self.outer.pop() {
            let inner = std::mem::replace(&mut self.graph, graph);
            (self.sources, self.known) = (sources, known);
            if is_kept {
                self.referenced.push(inner);
            }
        }
        number
    }

    /// Adds an operand as it is.
    pub(crate) fn add(&mut self, operand: Operand) -> u32 {
        let index = u32::try_from(self.graph.operands.len()).unwrap_or(u32::MAX);
        self.graph.operands.push(operand);
        index
    }

    /// The operand of an index that this builder gave.
    pub(crate) fn operand(&self, index: u32) -> &Operand {
        &self.graph.operands[index as usize]
    }

    /// The same, to be changed.
    pub(crate) fn operand_mut(&mut self, index: u32) -> &mut Operand {
        &mut self.graph.operands[index as usize]
    }

    /// The extents of an operand.
    pub(crate) fn dims(&self, index: u32) -> &[u32] {
        &self.operand(index).dimensions
    }

    /// Gives an operand that stands for one condition its shape where that is not known.
    pub(crate) fn close(&mut self, index: u32) {
        let operand = self.operand_mut(index);
        if !operand.is_constant() && is_open(&operand.dimensions) {
            operand.dimensions = vec![1];
        }
    }

    /// A temporary of the type and quantisation of another, with extents of its own.
    pub(crate) fn like(&mut self, model: u32, dims: Vec<u32>) -> u32 {
        let model = self.operand(model);
        let operand =
            Operand::tensor(model.kind, dims).with_quantization(model.scale, model.zero_point);
        self.add(operand)
    }

    /// A temporary without quantisation.
    pub(crate) fn temporary(&mut self, kind: OperandType, dims: Vec<u32>) -> u32 {
        self.add(Operand::tensor(kind, dims))
    }

    /// A scalar constant.
    pub(crate) fn int(&mut self, value: i32) -> u32 {
        self.shared(OperandType::Int32, Vec::new(), value.to_le_bytes().to_vec())
    }

    /// A scalar constant.
    pub(crate) fn float(&mut self, value: f32) -> u32 {
        self.shared(OperandType::Float32, Vec::new(), value.to_le_bytes().to_vec())
    }

    /// A scalar constant.
    pub(crate) fn boolean(&mut self, value: bool) -> u32 {
        self.shared(OperandType::Bool, Vec::new(), vec![u8::from(value)])
    }

    /// A constant tensor of one dimension.
    pub(crate) fn ints(&mut self, values: &[i32]) -> u32 {
        let dims = vec![u32::try_from(values.len()).unwrap_or(u32::MAX)];
        self.int_tensor(values, dims)
    }

    /// A constant tensor.
    pub(crate) fn int_tensor(&mut self, values: &[i32], dims: Vec<u32>) -> u32 {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.shared(OperandType::TensorInt32, dims, bytes)
    }

    /// A constant tensor.
    pub(crate) fn float_tensor(&mut self, values: &[f32], dims: Vec<u32>) -> u32 {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.shared(OperandType::TensorFloat32, dims, bytes)
    }

    fn shared(&mut self, kind: OperandType, dims: Vec<u32>, bytes: Vec<u8>) -> u32 {
        let key = (kind, dims, bytes);
        if let Some(&index) = self.known.get(&key) {
            return index;
        }
        let index = self.made_constant(Operand::tensor(kind, key.1.clone()), &key.2);
        self.known.insert(key, index);
        index
    }

    /// A constant whose bytes the import made.
    pub(crate) fn made_constant(&mut self, operand: Operand, bytes: &[u8]) -> u32 {
        let operand = self.place(operand, bytes);
        self.add(operand)
    }

    /// Finds a place for the bytes of a constant.
    pub(crate) fn place(&mut self, operand: Operand, bytes: &[u8]) -> Operand {
        let (store, lifetime, pool_index, align) = if bytes.len() <= MAX_COPY {
            (&mut self.values, OperandLifeTime::ConstantCopy, 0, 4)
        } else {
            (&mut self.made, OperandLifeTime::ConstantReference, MADE_POOL, POOL_ALIGN)
        };
        store.resize(store.len().next_multiple_of(align), 0);
        let at = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let location =
            DataLocation { pool_index, offset: at(store.len()), length: at(bytes.len()) };
        store.extend_from_slice(bytes);
        Operand { lifetime, location, ..operand }
    }

    /// A constant whose bytes lie in the file.
    pub(crate) fn file_constant(&mut self, mut operand: Operand, offset: u32, length: u32) -> u32 {
        operand.lifetime = OperandLifeTime::ConstantReference;
        operand.location = DataLocation { pool_index: FILE_POOL, offset, length };
        self.add(operand)
    }

    /// An omitted optional tensor. Its extents are empty rather than unknown, for HAL 1.0 has no
    /// unknown rank.
    pub(crate) fn omitted(&mut self, kind: OperandType, rank: usize) -> u32 {
        // Types that have a scale have one even where there is no value.
        let scale = if is_quantized(kind) { 1.0 } else { 0.0 };
        let operand = Operand::tensor(kind, vec![0; rank]).with_quantization(scale, 0);
        self.add(operand.with_lifetime(OperandLifeTime::NoValue))
    }

    /// The same constant bytes under another shape; `None` if the operand is no constant.
    pub(crate) fn constant_as(&mut self, index: u32, dims: Vec<u32>) -> Option<u32> {
        let operand = self.operand(index);
        if !operand.is_constant() {
            return None;
        }
        let operand = Operand { dimensions: dims, ..operand.clone() };
        Some(self.add(operand))
    }

    /// Adds an operation.
    pub(crate) fn op(&mut self, kind: OperationType, inputs: &[u32], outputs: &[u32]) {
        self.graph.operations.push(Operation {
            kind,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
        });
        self.sources.push(self.source);
        self.work = self.work.saturating_add(1);
    }

    /// The bytes of a constant; those that stay in the file are looked up there.
    pub(crate) fn bytes<'a>(&'a self, index: u32, file: &'a FileBytes) -> Option<&'a [u8]> {
        let operand = self.operand(index);
        let start = operand.location.offset as usize;
        let range = start..start.checked_add(operand.location.length as usize)?;
        match (operand.lifetime, operand.location.pool_index) {
            (OperandLifeTime::ConstantCopy, _) => self.values.get(range),
            (OperandLifeTime::ConstantReference, FILE_POOL) => file.get(range),
            (OperandLifeTime::ConstantReference, _) => self.made.get(range),
            _ => None,
        }
    }

    /// Removes operations, and operands that nothing else has. Inputs and outputs of the graph are
    /// set already.
    pub(crate) fn remove(&mut self, operations: &[usize], operands: &[u32]) {
        if operations.is_empty() {
            return;
        }
        let mut stays = vec![true; self.graph.operations.len()];
        operations.iter().for_each(|&at| stays[at] = false);
        let (mut of_operations, mut of_sources) = (stays.iter(), stays.iter());
        self.graph.operations.retain(|_| of_operations.next() == Some(&true));
        self.sources.retain(|_| of_sources.next() == Some(&true));
        let mut stays = vec![true; self.graph.operands.len()];
        operands.iter().for_each(|&at| stays[at as usize] = false);
        let mut of_operands = stays.iter();
        self.graph.operands.retain(|_| of_operands.next() == Some(&true));
        let counted = |next: &mut u32, &stays: &bool| {
            let number = *next;
            *next += u32::from(stays);
            Some(number)
        };
        let numbers: Vec<u32> = stays.iter().scan(0, counted).collect();
        let Subgraph { operations, input_indexes, output_indexes, .. } = &mut self.graph;
        let lists = operations.iter_mut().flat_map(|it| [&mut it.inputs, &mut it.outputs]);
        for list in lists.chain([input_indexes, output_indexes]) {
            list.iter_mut().for_each(|index| *index = numbers[*index as usize]);
        }
    }

    /// Counts who reads what, once everything is there.
    pub(crate) fn count_consumers(&mut self) {
        for operation in &self.graph.operations {
            for &input in &operation.inputs {
                if let Some(operand) = self.graph.operands.get_mut(input as usize) {
                    operand.number_of_consumers += 1;
                }
            }
        }
    }
}

/// Returns whether a tensor of these extents has a rank or an extent that is not known.
pub(crate) fn is_open(dims: &[u32]) -> bool {
    dims.is_empty() || dims.contains(&0)
}

/// Scales per channel, as an operand has them.
pub(crate) fn channel_quant(scales: Vec<f32>, channel_dim: usize) -> ExtraParams {
    let channel_dim = u32::try_from(channel_dim).unwrap_or(u32::MAX);
    ExtraParams::ChannelQuant(ChannelQuant { scales, channel_dim })
}
