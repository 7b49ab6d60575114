//! A model that came out of a .tflite file, and what is known of it.

use nnburst_hal::tflite_extension::ExtensionType;
use nnburst_hal::{Model, Operand, OperandType};

use crate::schema::{Tensor, TensorKind};

/// The operations that a model may use beside NNAPI's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Those of the vendor extension `dev.nnburst.tflite`, for what NNAPI has not or computes
    /// otherwise. Only devices that list the extension take the model.
    pub extension: bool,
    /// Widens compressed weights to FLOAT32 where TFLite would quantise activations on the fly.
    pub widened_hybrid: bool,
    /// Leaves inputs and outputs of types that NNAPI has not (INT64 and others of the extension)
    /// what they are in the file, where `extension` is set. Else 64-bit integers travel as 32-bit
    /// ones, and other types are refused.
    pub file_types: bool,
    /// Adds an output for each tensor that an operator of the graph computes, in the order of
    /// the operators behind the file's own, as far as the model has it: some become part of
    /// another operation, or are of types that no output has. For looking into a network.
    pub keep_tensors: bool,
    /// Requests that the model computes at once, where the file is made for one: the first extent
    /// of all inputs and outputs, in the order of the requests. Files whose operators may compute
    /// one request from another are refused, as are those with variables. 0 or 1: as in the file.
    pub batch: u32,
    /// Has variables with a name be states, too, where the graph reads or assigns them alone: other
    /// graphs of the file have the same ones, and callers run them in turns
    /// ([`StatePair::variable`]).
    pub shared_variables: bool,
}

/// The operations that an operator became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// NNAPI's, with TFLite's results.
    Nnapi,
    /// The extension's, for this reason.
    Extension(String),
    /// Those that the program adds itself ([`CustomOperators`](crate::CustomOperators)).
    Program,
}

/// An input, output or state of the model, as the file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Its name in the file.
    pub name: String,
    /// Its index among the tensors of the graph that was imported; for a variable with a name, that
    /// of the tensor which takes its value first.
    pub tensor: usize,
    /// The type in the model.
    pub kind: OperandType,
    /// The type in the file; it differs from `kind` where 64-bit integers became 32-bit ones.
    pub file_kind: TensorKind,
    /// Extents; 0 where one is unknown. A scalar has one extent of 1.
    pub dims: Vec<u32>,
    /// Quantisation scale; 0 for types without one.
    pub scale: f32,
    /// The stored value that stands for 0.
    pub zero_point: i32,
}

impl TensorInfo {
    pub(crate) fn new(index: usize, tensor: &Tensor, operand: &Operand) -> Self {
        Self {
            name: tensor.name.clone(),
            tensor: index,
            kind: operand.kind,
            file_kind: tensor.kind,
            dims: operand.dimensions.clone(),
            scale: operand.scale,
            zero_point: operand.zero_point,
        }
    }

    /// Bytes of the value; `None` where the shape is not fully known.
    pub fn byte_len(&self) -> Option<usize> {
        let operand = Operand::tensor(self.kind, self.dims.clone());
        let Some(kind) = ExtensionType::of_operand(self.kind) else { return operand.data_size() };
        operand.element_count()?.checked_mul(usize::try_from(kind.element_bytes()).ok()?)
    }
}

/// A value that is kept from one execution to the next: what the output gives, the input takes
/// next.
#[derive(Clone, Debug, PartialEq)]
pub struct StatePair {
    /// Index into the model's inputs.
    pub input: usize,
    /// Index into the model's outputs.
    pub output: usize,
    /// Its properties.
    pub info: TensorInfo,
    /// The value before the first execution, and after a reset.
    pub initial: Vec<u8>,
    /// The name of a variable that operators know by one, the same in all graphs of the file.
    pub variable: Option<String>,
}

/// A model that came out of a .tflite file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The model. Its inputs and outputs are those of the file, or of the part that was asked for,
    /// in their order, then the states.
    pub model: Model,
    /// The inputs without the states.
    pub inputs: Vec<TensorInfo>,
    /// Inputs of the file that are none of the model: they were given an extent of 0, so that there
    /// is nothing to hand over ([`ModelFile::resize`](crate::ModelFile::resize)).
    pub empty_inputs: Vec<TensorInfo>,
    /// The outputs without the states.
    pub outputs: Vec<TensorInfo>,
    /// The states, in the order in which the graph uses them.
    pub states: Vec<StatePair>,
    /// The file's own description.
    pub description: String,
    /// For each operation of the model the operator it stems from, as an index into `operators`.
    pub sources: Vec<usize>,
    /// The names of the operators that were imported, in the order of execution.
    pub operators: Vec<String>,
    /// The way that each operator went.
    pub routes: Vec<Route>,
}
