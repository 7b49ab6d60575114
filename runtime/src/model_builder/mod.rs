//! Models by hand: operands and operations in the order of a recipe, checked once at the end.
//!
//! Operands are named by the [`OperandId`] that made them, so an operation can only read what
//! exists already: a graph built this way is in execution order by construction.

mod arguments;
mod call;
mod control_flow;
pub mod operations;
mod recurrent;

use std::sync::atomic::{AtomicU32, Ordering};

use nnburst_hal::{
    Access, DataLocation, Memory, Model, Operand, OperandLifeTime, OperandType, Operation,
    OperationType, Subgraph, Version, validate_model, vlog,
};

pub use control_flow::GraphRef;

use crate::element::Element;
use crate::error::{Result, RuntimeError};

/// An operand of a model that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandId {
    /// The number of the builder that made it.
    model: u32,
    /// In which of its graphs it is: 0 is the main one, others are [`Model::referenced`] from 1.
    graph: u32,
    /// Position among the graph's operands.
    at: u32,
}

/// Builds a [`Model`].
///
/// There is a method for each operation, which takes the operands and numbers that it can't do
/// without; the others have setters, and `done` adds it and gives its output. What an output is
/// follows from the inputs: type, shape and, where the interface fixes it, scale and zero point.
///
/// ```
/// use nnburst::{ModelBuilder, hal::Operand};
///
/// let mut graph = ModelBuilder::new();
/// let picture = graph.input(Operand::float32([1, 32, 32, 3]));
/// let filter = graph.constant_of(Operand::float32([8, 3, 3, 3]), &[0.01f32; 8 * 3 * 3 * 3]);
/// let bias = graph.constant_of(Operand::float32([8]), &[0.0f32; 8]);
/// let features = graph.conv_2d(picture, filter, bias).stride(2).same().relu6().done();
/// let mean = graph.mean(features, [1, 2]).done();
/// let classes = graph.softmax(mean).done();
/// graph.output(classes);
/// assert_eq!(graph.shape(classes), [1, 8]);
/// let model = graph.build()?;
/// assert_eq!(model.main.operations.len(), 3);
/// # Ok::<(), nnburst::RuntimeError>(())
/// ```
///
/// A rule that is broken is told by [`ModelBuilder::build`]: the first one, with operation and
/// operand. Operations that are no methods, such as those of extensions, go in by
/// [`ModelBuilder::operation`].
#[derive(Debug)]
#[must_use]
pub struct ModelBuilder {
    /// Tells its operands from those of other builders.
    number: u32,
    model: Model,
    /// The graph that is being built; 0 is the main one.
    graph: u32,
    /// Bytes of the pool that large constants go to.
    pool: Vec<u8>,
    /// The first rule that was broken; said by `build`.
    broken: Option<String>,
}

/// Constants up to this size live in the model itself, larger ones in a shared memory, so that they
/// cross to the driver as a descriptor. The bound is NNAPI's
/// (`MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES`).
const IMMEDIATE_BYTES: usize = 128;
/// The alignment of small constants.
const COPIED_ALIGNMENT: usize = 4;
/// The alignment of large constants within the pool: at a cache line.
const POOL_ALIGNMENT: usize = 64;

impl Default for ModelBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelBuilder {
    /// An empty model.
    pub fn new() -> Self {
        /// Relaxed: numbers only have to differ, nothing is handed over by them.
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        nnburst_hal::read_vlog_mask();
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            model: Model::default(),
            graph: 0,
            pool: Vec::new(),
            broken: None,
        }
    }

    /// An input of the model, or of the graph that [`ModelBuilder::subgraph`] builds; inputs are
    /// numbered in the order of these calls.
    pub fn input(&mut self, operand: Operand) -> OperandId {
        let id = self.push(operand.with_lifetime(OperandLifeTime::SubgraphInput));
        self.current().input_indexes.push(id.at);
        id
    }

    /// A constant by its little-endian bytes.
    pub fn constant(&mut self, mut operand: Operand, bytes: &[u8]) -> OperandId {
        if operand.data_size() != Some(bytes.len()) {
            let at = self.current().operands.len();
            self.breaks(format!(
                "operand {at}: {} bytes given, the {} of shape {:?} takes {:?}",
                bytes.len(),
                operand.kind,
                operand.dimensions,
                operand.data_size()
            ));
        }
        let copied = bytes.len() <= IMMEDIATE_BYTES;
        let values = if copied { &mut self.model.operand_values } else { &mut self.pool };
        let alignment = if copied { COPIED_ALIGNMENT } else { POOL_ALIGNMENT };
        values.resize(values.len().next_multiple_of(alignment), 0);
        let place = (u32::try_from(values.len()), u32::try_from(bytes.len()));
        values.extend_from_slice(bytes);
        match place {
            (Ok(offset), Ok(length)) => {
                operand.location = DataLocation { pool_index: 0, offset, length };
            }
            _ => self.breaks("the model's constants exceed 4 GiB".into()),
        }
        self.push(operand.with_lifetime(if copied {
            OperandLifeTime::ConstantCopy
        } else {
            OperandLifeTime::ConstantReference
        }))
    }

    /// A constant by values of the type that holds its elements, such as `i8` for
    /// TENSOR_QUANT8_ASYMM_SIGNED.
    pub fn constant_of<T: Element>(&mut self, operand: Operand, values: &[T]) -> OperandId {
        if !T::KINDS.contains(&operand.kind) {
            let at = self.current().operands.len();
            let given = std::any::type_name::<T>();
            self.breaks(format!("operand {at}: a {} is not made of {given}", operand.kind));
        }
        self.constant(operand, bytemuck::cast_slice(values))
    }

    /// A constant tensor of FLOAT32.
    pub fn tensor_f32(&mut self, dimensions: Vec<u32>, values: &[f32]) -> OperandId {
        let operand = Operand::tensor(OperandType::TensorFloat32, dimensions);
        self.constant(operand, bytemuck::cast_slice(values))
    }

    /// A constant vector of INT32.
    pub fn vector_i32(&mut self, values: &[i32]) -> OperandId {
        let extent = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let operand = Operand::tensor(OperandType::TensorInt32, vec![extent]);
        self.constant(operand, bytemuck::cast_slice(values))
    }

    /// An INT32 scalar, such as a stride or a fused activation.
    pub fn scalar_i32(&mut self, value: i32) -> OperandId {
        self.constant(Operand::scalar(OperandType::Int32), &value.to_le_bytes())
    }

    /// A FLOAT32 scalar.
    pub fn scalar_f32(&mut self, value: f32) -> OperandId {
        self.constant(Operand::scalar(OperandType::Float32), &value.to_le_bytes())
    }

    /// A BOOL scalar.
    pub fn scalar_bool(&mut self, value: bool) -> OperandId {
        self.constant(Operand::scalar(OperandType::Bool), &[u8::from(value)])
    }

    /// An input that an operation does without.
    pub fn omitted(&mut self, kind: OperandType) -> OperandId {
        // Nobody reads the scale, but quantised types have to have one.
        let scale = if call::is_quantized(kind) { 1.0 } else { 0.0 };
        let operand = Operand::tensor(kind, Vec::new()).with_quantization(scale, 0);
        self.push(operand.with_lifetime(OperandLifeTime::NoValue))
    }

    /// An operation with one output, whose operand is returned; for those that are no methods.
    pub fn operation(
        &mut self,
        kind: OperationType,
        inputs: &[OperandId],
        output: Operand,
    ) -> OperandId {
        let id = self.push(output.with_lifetime(OperandLifeTime::TemporaryVariable));
        self.push_operation(kind, inputs, vec![id.at]);
        id
    }

    /// An operation with any number of outputs, whose operands are returned in order.
    pub fn operation_with_outputs(
        &mut self,
        kind: OperationType,
        inputs: &[OperandId],
        outputs: impl IntoIterator<Item = Operand>,
    ) -> Vec<OperandId> {
        let ids: Vec<_> = outputs
            .into_iter()
            .map(|output| self.push(output.with_lifetime(OperandLifeTime::TemporaryVariable)))
            .collect();
        self.push_operation(kind, inputs, ids.iter().map(|id| id.at).collect());
        ids
    }

    /// Makes what an operation computed an output of the model, or of the graph that
    /// [`ModelBuilder::subgraph`] builds; outputs are numbered in the order of these calls.
    pub fn output(&mut self, id: OperandId) {
        match self.operand_mut(id) {
            Some(operand) if operand.lifetime == OperandLifeTime::TemporaryVariable => {
                operand.lifetime = OperandLifeTime::SubgraphOutput;
                self.current().output_indexes.push(id.at);
            }
            _ => self.breaks(format!(
                "operand {} can't be an output: no operation of this graph computes it, or it is one already",
                id.at
            )),
        }
    }

    /// The extents of an operand, as far as they are known: 0 is an unknown extent, none at all a
    /// scalar or a tensor of unknown rank. Shapes follow from the operations but where they depend
    /// on values that only a run brings.
    pub fn shape(&self, id: OperandId) -> &[u32] {
        self.operand(id).map_or(&[], |operand| &operand.dimensions)
    }

    /// Allows FLOAT32 to be computed with the range and precision of FLOAT16.
    pub fn relax_float32(&mut self) {
        self.model.relax_computation_float32_to_float16 = true;
    }

    /// The model.
    ///
    /// # Errors
    /// [`RuntimeError::Model`] with the first rule broken, and the operation or operand that breaks
    /// it; [`RuntimeError::Memory`] where the constants find no room.
    pub fn build(mut self) -> Result<Model> {
        if let Some(broken) = self.broken {
            return Err(RuntimeError::Model(broken));
        }
        if self.model.main.output_indexes.is_empty() {
            return Err(RuntimeError::Model("the model has no output".into()));
        }
        if !self.pool.is_empty() {
            let size = u64::try_from(self.pool.len()).unwrap_or(u64::MAX);
            let memory = Memory::ashmem(size)?;
            let mapping = memory.map(Access::ReadWrite)?;
            if let Some(view) = mapping.view_mut(0..mapping.len()) {
                view.copy_from_slice(&self.pool);
            }
            self.model.pools.push(memory);
        }
        validate_model(&self.model, Version::V1_3)
            .map_err(|error| RuntimeError::Model(error.to_string()))?;
        let main = &self.model.main;
        let (operations, operands) = (main.operations.len(), main.operands.len());
        vlog!(Model, "a model of {operations} operations over {operands} operands");
        Ok(self.model)
    }

    fn push(&mut self, operand: Operand) -> OperandId {
        let (model, graph) = (self.number, self.graph);
        let operands = &mut self.current().operands;
        let at = u32::try_from(operands.len()).unwrap_or(u32::MAX);
        operands.push(operand);
        OperandId { model, graph, at }
    }

    fn push_operation(&mut self, kind: OperationType, inputs: &[OperandId], outputs: Vec<u32>) {
        for (position, &id) in inputs.iter().enumerate() {
            match self.operand_mut(id) {
                Some(operand) => operand.number_of_consumers += 1,
                None => self.breaks_at(kind, &format!("input {position} is {}", self.whose(id))),
            }
        }
        let inputs = inputs.iter().map(|id| id.at).collect();
        self.current().operations.push(Operation { kind, inputs, outputs });
    }

    /// Describes the owner of an operand that isn't in the graph being built.
    fn whose(&self, id: OperandId) -> &'static str {
        if id.model == self.number {
            "of another graph, where branches and loops get what they read as inputs"
        } else {
            "of another model"
        }
    }

    /// The graph that is being built.
    fn current(&mut self) -> &mut Subgraph {
        match self.graph.checked_sub(1) {
            Some(at) if (at as usize) < self.model.referenced.len() => {
                &mut self.model.referenced[at as usize]
            }
            _ => &mut self.model.main,
        }
    }

    /// An operand of the graph that is being built.
    fn operand(&self, id: OperandId) -> Option<&Operand> {
        let graph = match self.graph.checked_sub(1) {
            Some(at) => self.model.referenced.get(at as usize)?,
            None => &self.model.main,
        };
        let here = (id.model, id.graph) == (self.number, self.graph);
        here.then(|| graph.operands.get(id.at as usize)).flatten()
    }

    fn operand_mut(&mut self, id: OperandId) -> Option<&mut Operand> {
        let here = (id.model, id.graph) == (self.number, self.graph);
        here.then(|| self.current().operands.get_mut(id.at as usize)).flatten()
    }

    fn kind_of(&self, id: OperandId) -> Option<OperandType> {
        self.operand(id).map(|operand| operand.kind)
    }

    /// The bytes of a small constant.
    fn copied(&self, operand: &Operand) -> Option<&[u8]> {
        let start = operand.location.offset as usize;
        self.model.operand_values.get(start..start.checked_add(operand.location.length as usize)?)
    }

    /// An operand that stands for the output of an operation that could not be added.
    fn unknown(&mut self) -> OperandId {
        self.push(Operand::tensor(OperandType::TensorFloat32, Vec::new()))
    }

    /// Says that the next operation of the graph breaks a rule.
    fn breaks_at(&mut self, kind: OperationType, rule: &str) {
        let (graph, at) = (self.graph, self.current().operations.len());
        let place = if graph == 0 { String::new() } else { format!("graph {graph}, ") };
        self.breaks(format!("{place}operation {at} ({kind}): {rule}"));
    }

    fn breaks(&mut self, rule: String) {
        self.broken.get_or_insert(rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(extent: u32) -> Operand {
        Operand::tensor(OperandType::TensorFloat32, vec![extent])
    }

    #[test]
    fn small_constants_are_copied_and_large_ones_referenced() {
        let mut graph = ModelBuilder::new();
        let input = graph.input(tensor(33));
        let large = graph.tensor_f32(vec![33], &[1.5; 33]);
        let none = graph.scalar_i32(0);
        let sum = graph.operation(OperationType::Add, &[input, large, none], tensor(33));
        graph.output(sum);
        let model = graph.build().unwrap();
        let main = &model.main;
        assert_eq!(main.operands[1].lifetime, OperandLifeTime::ConstantReference);
        assert_eq!(main.operands[2].lifetime, OperandLifeTime::ConstantCopy);
        assert_eq!(main.operands[1].number_of_consumers, 1);
        let mut bytes = [0; 132];
        model.pools[0].read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[..4], 1.5f32.to_le_bytes());
        assert_eq!((main.input_indexes[0], main.output_indexes[0]), (0, 3));
    }

    #[test]
    fn broken_rules_are_said_at_the_end() {
        let mut graph = ModelBuilder::new();
        let input = graph.input(tensor(2));
        graph.output(input);
        let error = graph.build().unwrap_err().to_string();
        assert!(error.contains("operand 0 can't be an output"), "{error}");

        let mut graph = ModelBuilder::new();
        let short = graph.tensor_f32(vec![3], &[0.0; 2]);
        let out = graph.operation(OperationType::Relu, &[short], tensor(3));
        graph.output(out);
        let error = graph.build().unwrap_err().to_string();
        assert!(error.contains("8 bytes given"), "{error}");

        assert!(ModelBuilder::new().build().is_err(), "no output");

        let mut graph = ModelBuilder::new();
        let input = graph.input(tensor(2));
        let out = graph.operation(OperationType::Add, &[input], tensor(2));
        graph.output(out);
        let error = graph.build().unwrap_err().to_string();
        assert!(error.contains("operation 0 (ADD)"), "{error}");

        let mut graph = ModelBuilder::new();
        graph.constant_of(tensor(2), &[1i32, 2]);
        let error = graph.build().unwrap_err().to_string();
        assert!(error.contains("TENSOR_FLOAT32 is not made of i32"), "{error}");
    }
}
