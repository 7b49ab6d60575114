//! The progress of lowering: values, and the graphs that are being lowered.

use std::collections::HashMap;
use std::sync::Arc;

use nnburst_hal::OperationType;
use nnburst_kernels::tensor::{AlignedBytes, Shape};

use super::graph::Graph;

/// A value of one execution: an operand of the graph, or of a branch of an IF that was taken.
pub(crate) type ValueId = usize;

/// The storage of a value.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// Not computed yet; a temporary.
    Unset,
    /// Left out by the model or the request.
    Omitted,
    /// In the model.
    Constant(Arc<AlignedBytes>),
    /// In the model, and read for as long as the operation is lowered that packs it.
    Unread,
    /// A whole slot: an argument, or what a dynamic operation made.
    Slot(usize),
    /// In an earlier stage's arena.
    Arena { slot: usize, offset: usize },
    /// In the arena of the stage that is being lowered.
    Local(usize),
}

/// The shape and contents of a value, as far as they are known.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) storage: Storage,
    /// `None` until computed.
    pub(crate) shape: Option<Shape>,
    /// What its shape must agree with: as declared by each graph that has it.
    pub(crate) declared: Vec<Vec<u32>>,
    /// The number of the graph output that it is.
    pub(crate) output: Option<usize>,
    /// The activation that reads it alone, where what computes it has applied that already.
    pub(crate) activated: Option<OperationType>,
    /// The value it is made of and the zeros around that.
    pub(crate) border: Option<Border>,
}

/// Another value between borders of zeros.
#[derive(Clone, Debug)]
pub(crate) struct Border {
    /// The value within, as long as its memory is.
    pub(crate) from: ValueId,
    /// Elements at both ends of each axis.
    pub(crate) sides: Box<[(usize, usize)]>,
}

/// A graph that is being lowered: the one of the run, or within it the branch of an IF.
#[derive(Clone, Debug)]
pub(crate) struct GraphFrame {
    pub(crate) graph: usize,
    /// The next operation.
    pub(crate) next: usize,
    /// The value of each operand.
    pub(crate) map: Arc<[ValueId]>,
    /// From value to value: outputs of the graph that are inputs or constants of it.
    pub(crate) copies: Vec<(ValueId, ValueId)>,
}

/// Everything needed to lower on from here.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) values: Vec<Value>,
    pub(crate) frames: Vec<GraphFrame>,
    pub(crate) slots: usize,
    /// Bytes of constants that were computed when the plan was made.
    pub(crate) folded: usize,
    /// Values that were read at run time because an operation's shape depends on them.
    pub(crate) known: HashMap<ValueId, Arc<AlignedBytes>>,
}

/// An argument as lowering sees it: its shape, or that it is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentShape {
    Omitted,
    Known(Vec<u32>),
}

impl ArgumentShape {
    /// Bytes of a value of this shape, whose elements have so many; `usize::MAX` where there is no
    /// such number, which is refused when the shape is lowered.
    pub(crate) fn bytes(&self, of_element: usize) -> usize {
        let Self::Known(dimensions) = self else { return 0 };
        let mut extents = dimensions.iter().map(|&extent| usize::try_from(extent).ok());
        let bytes = extents.try_fold(of_element, |bytes, extent| bytes.checked_mul(extent?));
        bytes.unwrap_or(usize::MAX)
    }
}

impl State {
    /// Before the first operation. Inputs take the first slots, outputs those behind.
    pub(crate) fn new(
        graphs: &[Graph],
        graph: usize,
        inputs: &[ArgumentShape],
        omitted_outputs: &[bool],
    ) -> Result<Self, nnburst_kernels::tensor::OpError> {
        let mut state = Self {
            values: Vec::new(),
            frames: Vec::new(),
            slots: inputs.len() + omitted_outputs.len(),
            folded: 0,
            known: HashMap::new(),
        };
        let main = &graphs[graph];
        let mut inputs_of = Vec::new();
        for (slot, (&operand, shape)) in main.inputs.iter().zip(inputs).enumerate() {
            let (storage, shape) = match shape {
                ArgumentShape::Omitted => (Storage::Omitted, None),
                ArgumentShape::Known(dims) => (Storage::Slot(slot), Some(Shape::from_u32(dims)?)),
            };
            let declared = vec![main.operands[operand].dimensions.clone()];
            inputs_of.push(state.add(Value { shape, declared, ..Value::new(storage) }));
        }
        let mut outputs_of = Vec::new();
        for (index, (&operand, &omitted)) in main.outputs.iter().zip(omitted_outputs).enumerate() {
            let storage =
                if omitted { Storage::Unset } else { Storage::Slot(inputs.len() + index) };
            let declared = vec![main.operands[operand].dimensions.clone()];
            let output = (!omitted).then_some(index);
            outputs_of.push(state.add(Value { declared, output, ..Value::new(storage) }));
        }
        state.enter(graphs, graph, &inputs_of, &outputs_of);
        Ok(state)
    }

    /// Goes on with the operations of `graph`, its inputs and outputs being the given values.
    pub(crate) fn enter(
        &mut self,
        graphs: &[Graph],
        graph: usize,
        inputs: &[ValueId],
        outputs: &[ValueId],
    ) {
        let this = &graphs[graph];
        let mut map: Vec<Option<ValueId>> = vec![None; this.operands.len()];
        for (&operand, &value) in this.inputs.iter().zip(inputs) {
            map[operand].get_or_insert(value);
        }
        for (index, constant) in this.constants.iter().enumerate() {
            if let Some(constant) = constant {
                let shape = Shape::from_u32(&this.operands[index].dimensions).ok();
                let bytes = constant.bytes().cloned();
                let storage = bytes.map_or(Storage::Unread, Storage::Constant);
                let value = Value { shape, ..Value::new(storage) };
                map[index].get_or_insert_with(|| self.add(value));
            }
        }
        let mut copies = Vec::new();
        for (&operand, &value) in this.outputs.iter().zip(outputs) {
            match map[operand] {
                Some(source) => copies.push((source, value)),
                None => {
                    map[operand] = Some(value);
                    let declared = this.operands[operand].dimensions.clone();
                    self.values[value].declared.push(declared);
                }
            }
        }
        let map = map
            .iter()
            .zip(&this.operands)
            .map(|(value, operand)| value.unwrap_or_else(|| self.add(Value::of(operand))))
            .collect();
        self.frames.push(GraphFrame { graph, next: 0, map, copies });
    }

    fn add(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        self.values.len() - 1
    }
}

impl Value {
    fn new(storage: Storage) -> Self {
        let (shape, declared) = (None, Vec::new());
        Self { storage, shape, declared, output: None, activated: None, border: None }
    }

    fn of(operand: &nnburst_hal::Operand) -> Self {
        let omitted = operand.lifetime == nnburst_hal::OperandLifeTime::NoValue;
        let storage = if omitted { Storage::Omitted } else { Storage::Unset };
        Self { declared: vec![operand.dimensions.clone()], ..Self::new(storage) }
    }
}
