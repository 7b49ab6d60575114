//! Models: graphs of operations over operands, with their constants.

use serde::{Deserialize, Serialize};

use super::codes::OperationType;
use super::operand::Operand;
use crate::memory::Memory;

/// One step of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The operation's type.
    pub kind: OperationType,
    /// Operand indexes, in the operation's order of arguments.
    pub inputs: Vec<u32>,
    /// Operand indexes.
    pub outputs: Vec<u32>,
}

/// A graph: operands, operations in execution order, and which operands come in and go out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subgraph {
    /// The values.
    pub operands: Vec<Operand>,
    /// Producers before consumers.
    pub operations: Vec<Operation>,
    /// Operand indexes of the inputs, in argument order.
    pub input_indexes: Vec<u32>,
    /// Operand indexes of the outputs, in argument order.
    pub output_indexes: Vec<u32>,
}

/// A model as a driver gets it.
///
/// Serialisation leaves out the pools: they are file descriptors and travel beside the bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Model {
    /// The graph that is executed.
    pub main: Subgraph,
    /// Graphs that IF and WHILE refer to; no cycles.
    pub referenced: Vec<Subgraph>,
    /// The bytes of CONSTANT_COPY operands.
    pub operand_values: Vec<u8>,
    /// The memories of CONSTANT_REFERENCE operands.
    #[serde(skip)]
    pub pools: Vec<Memory>,
    /// Permission, not duty, to compute FLOAT32 with the range and precision of FLOAT16.
    pub relax_computation_float32_to_float16: bool,
    /// The extensions the model uses, one prefix each.
    pub extension_name_to_prefix: Vec<ExtensionNameAndPrefix>,
}

/// The prefix that stands for an extension within a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtensionNameAndPrefix {
    /// Reverse domain name of the extension.
    pub name: String,
    /// The high 16 bits of its types in this model; not 0.
    pub prefix: u16,
}

/// An extension that a driver supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Reverse domain name.
    pub name: String,
    /// Its operand types.
    pub operand_types: Vec<ExtensionOperandType>,
}

/// An operand type of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtensionOperandType {
    /// Number within the extension: the low 16 bits of the operand type.
    pub number: u16,
    /// Tensor or scalar.
    pub is_tensor: bool,
    /// Bytes of an element.
    pub byte_size: u32,
}
