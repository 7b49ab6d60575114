//! From operators of the file to operations of the HAL.
//!
//! [`Import`] holds what is known about the whole graph, [`Lower`] is one operator on its way. The
//! families of operators are in modules of their own; [`Lower::run`] is the table that leads there.

mod arithmetic;
mod blockwise;
mod control;
mod convolution;
mod custom;
mod detection;
pub(crate) mod extension;
mod infer;
mod inline;
mod integer_lstm;
mod normalization;
mod packed;
mod program;
mod quantization;
mod recurrent;
mod reduction;
mod route;
mod shape;
mod slicing;
mod table;
mod values;

use std::cell::OnceCell;
use std::collections::HashMap;

use nnburst_hal::{Operand, OperandLifeTime, OperandType, OperationType};

pub(crate) use route::lower_all;

use crate::error::ImportError;
use crate::flatbuffer::FormatError;
use crate::graph::{Builder, Mark};
use crate::model::ImportOptions;
use crate::operand::operand_of;
use crate::registry::CustomOperators;
use crate::schema::options::{Fields, OptionsKind};
use crate::schema::{File, Graph, Operator, Tensor, TensorKind};

/// Why an operator did not become operations.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The file is broken.
    Format(FormatError),
    /// The HAL has nothing for it, or this crate doesn't.
    Unsupported(String),
}

impl From<FormatError> for Refusal {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Unsupported(why)
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self::Unsupported(why.to_owned())
    }
}

impl From<Refusal> for ImportError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Format(error) => error.into(),
            Refusal::Unsupported(why) => Self::Interface(why),
        }
    }
}

/// The result of lowering an operator.
pub(crate) type Lowered<T = ()> = Result<T, Refusal>;

/// Constants that the import computes are kept small: they are shapes and indexes.
const MAX_MADE_ELEMENTS: usize = 1 << 24;

/// A tensor that is kept from one invocation to the next.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tensor: usize,
    /// The operand that brings the value in.
    pub(crate) input: u32,
    /// The name of a variable that operators know by one.
    pub(crate) name: Option<String>,
}

/// A variable that operators know by its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variable {
    /// The operand that holds its value by now.
    pub(crate) value: Option<u32>,
    /// The constant that it starts with.
    initial: Option<Initial>,
}

/// The value that a variable starts with.
#[derive(Clone, Debug)]
struct Initial {
    operand: Operand,
    bytes: Vec<u8>,
}

/// A graph on its way from the file to the HAL.
#[derive(Debug)]
pub(crate) struct Import<'a> {
    pub(crate) file: &'a File<'a>,
    pub(crate) graph: &'a Graph<'a>,
    pub(crate) builder: Builder,
    /// The operand that holds each tensor's value by now.
    pub(crate) values: Vec<Option<u32>>,
    /// In the order of first use.
    pub(crate) states: Vec<State>,
    /// Integers that turned out to be constants.
    folded: HashMap<usize, Vec<i64>>,
    /// Constants that were widened to FLOAT32, by tensor.
    widened: HashMap<usize, u32>,
    /// Constants in types of the extension, by tensor.
    wide: HashMap<usize, u32>,
    /// The names of variables, by the tensor of their handle.
    pub(crate) handles: HashMap<usize, String>,
    /// Variables with a name.
    pub(crate) variables: HashMap<String, Variable>,
    /// The operations that may be used.
    pub(crate) options: ImportOptions,
    /// The custom operators that the program imports itself.
    pub(crate) customs: Option<&'a CustomOperators>,
    /// The number of graphs that this one is within.
    pub(crate) depth: usize,
    /// Whether any layer has floats and compressed weights, once somebody asked.
    has_hybrid: OnceCell<bool>,
    /// True if other operators of the file, which are not imported, may change variables, too.
    pub(crate) is_part: bool,
}

/// The state of an import between two operators.
#[derive(Clone, Debug)]
pub(crate) struct ImportMark {
    builder: Mark,
    values: Vec<Option<u32>>,
    states: usize,
}

impl<'a> Import<'a> {
    pub(crate) fn new(file: &'a File<'a>, graph: &'a Graph<'a>) -> Self {
        Self {
            file,
            graph,
            builder: Builder::default(),
            values: vec![None; graph.tensors.len()],
            states: Vec::new(),
            folded: HashMap::new(),
            widened: HashMap::new(),
            wide: HashMap::new(),
            handles: HashMap::new(),
            variables: HashMap::new(),
            options: ImportOptions::default(),
            customs: None,
            depth: 0,
            has_hybrid: OnceCell::new(),
            is_part: false,
        }
    }

    /// The state of now, for [`Import::rewind`].
    pub(crate) fn mark(&self) -> ImportMark {
        ImportMark {
            builder: self.builder.mark(),
            values: self.values.clone(),
            states: self.states.len(),
        }
    }

    /// Takes back all that an operator has made since.
    pub(crate) fn rewind(&mut self, mark: &ImportMark) {
        self.builder.rewind(mark.builder);
        self.values.clone_from(&mark.values);
        self.states.truncate(mark.states);
        let operands = self.builder.graph.operands.len();
        let stays = |operand: u32| (operand as usize) < operands;
        self.widened.retain(|_, operand| stays(*operand));
        self.wide.retain(|_, operand| stays(*operand));
    }

    /// Makes operands of the graph's inputs, in their order.
    pub(crate) fn add_inputs(&mut self) -> Result<Vec<u32>, String> {
        let mut inputs = Vec::new();
        for &index in &self.graph.inputs {
            let tensor = &self.graph.tensors[index];
            let operand = match self.options.file_types {
                true => self.own_operand(tensor)?,
                false => operand_of(tensor)?,
            };
            let mut operand = operand.with_lifetime(OperandLifeTime::SubgraphInput);
            if operand.dimensions.is_empty() {
                // A scalar: tensors of the HAL have a dimension at least.
                operand.dimensions.push(1);
            }
            let input = self.builder.add(operand);
            if self.values[index].replace(input).is_some() {
                return Err(format!("tensor {:?} is two inputs", tensor.name));
            }
            inputs.push(input);
        }
        Ok(inputs)
    }

    /// The operand that holds a tensor's value.
    pub(crate) fn value(&mut self, index: usize) -> Lowered<u32> {
        if let Some(value) = self.values[index] {
            return Ok(value);
        }
        let tensor = &self.graph.tensors[index];
        let value = if let Some(values) = self.folded.get(&index) {
            let values = narrow(tensor, values)?;
            self.builder.int_tensor(&values, shape_of_constant(tensor))
        } else if self.file.range(tensor).is_some() {
            self.constant(index)?
        } else if tensor.is_variable {
            return self.add_state(index, operand_of(tensor)?);
        } else {
            return Err(format!("nothing writes tensor {:?} before it is read", tensor.name).into());
        };
        self.values[index] = Some(value);
        Ok(value)
    }

    /// Makes a variable an input of the model, of the type that its operator wants.
    fn add_state(&mut self, index: usize, operand: Operand) -> Lowered<u32> {
        let tensor = &self.graph.tensors[index];
        if !tensor.is_variable || self.file.range(tensor).is_some() {
            return Err(
                format!("state {:?} is no variable that starts at zero", tensor.name).into()
            );
        }
        if operand.data_size().is_none() {
            return Err(format!("state {:?} has no fixed shape", tensor.name).into());
        }
        let input = self.builder.add(operand.with_lifetime(OperandLifeTime::SubgraphInput));
        self.states.push(State { tensor: index, input, name: None });
        self.values[index] = Some(input);
        Ok(input)
    }

    /// The operand of a constant of the file.
    fn constant(&mut self, index: usize) -> Lowered<u32> {
        let tensor = &self.graph.tensors[index];
        if tensor.kind == TensorKind::Int64 {
            let values = self.ints(index)?;
            let values = narrow(tensor, &values)?;
            return Ok(self.builder.int_tensor(&values, shape_of_constant(tensor)));
        }
        let operand = operand_of(tensor)?;
        self.constant_as(index, operand)
    }

    /// The bytes of a constant of the file as an operand that the caller describes.
    fn constant_as(&mut self, index: usize, mut operand: Operand) -> Lowered<u32> {
        let tensor = &self.graph.tensors[index];
        operand.dimensions = shape_of_constant(tensor);
        let data = self.file.data(tensor).unwrap_or_default();
        if let Some(bytes) = packed::unpacked(tensor, data)? {
            return Ok(self.builder.made_constant(operand, &bytes));
        }
        let range = self.file.range(tensor).unwrap_or_default();
        if operand.data_size() != Some(range.len()) {
            return Err(format!(
                "tensor {:?} is {}{:?} and has {} bytes",
                tensor.name,
                tensor.kind.name(),
                tensor.shape,
                range.len()
            )
            .into());
        }
        match (u32::try_from(range.start), u32::try_from(range.len())) {
            (Ok(offset), Ok(length)) if u32::try_from(range.end).is_ok() => {
                Ok(self.builder.file_constant(operand, offset, length))
            }
            // Beyond what a location of the HAL can say; copied to where it can.
            _ => {
                let bytes = self.file.data(tensor).unwrap_or_default();
                Ok(self.builder.made_constant(operand, bytes))
            }
        }
    }

    /// The integers of a constant, of the file or computed.
    fn ints(&self, index: usize) -> Lowered<Vec<i64>> {
        if let Some(values) = self.folded.get(&index) {
            return Ok(values.clone());
        }
        let tensor = &self.graph.tensors[index];
        let data = self.file.data(tensor).filter(|_| self.is_constant(index));
        let Some(data) = data else {
            return Err(format!("tensor {:?} is not a constant", tensor.name).into());
        };
        let values: Vec<i64> = match tensor.kind {
            TensorKind::Int32 => data
                .as_chunks()
                .0
                .iter()
                .map(|&bytes| i64::from(i32::from_le_bytes(bytes)))
                .collect(),
            TensorKind::Int64 => {
                data.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect()
            }
            kind => {
                return Err(
                    format!("tensor {:?} is {}, not integers", tensor.name, kind.name()).into()
                );
            }
        };
        let wanted = tensor
            .shape
            .iter()
            .try_fold(1usize, |count, &extent| count.checked_mul(usize::try_from(extent).ok()?));
        if wanted != Some(values.len()) {
            return Err(format!(
                "tensor {:?} has the shape {:?} and {} elements",
                tensor.name,
                tensor.shape,
                values.len()
            )
            .into());
        }
        Ok(values)
    }

    /// Returns whether a tensor's value is a constant, of the file or computed.
    fn is_constant(&self, index: usize) -> bool {
        let constant = |value| self.builder.operand(value).is_constant();
        match self.values[index] {
            Some(value) => constant(value),
            None => {
                self.folded.contains_key(&index)
                    || self.file.range(&self.graph.tensors[index]).is_some()
            }
        }
    }

    /// A copy of a value, for outputs that are inputs, constants or outputs already.
    pub(crate) fn copy(&mut self, value: u32) -> Lowered<u32> {
        let operand = self.builder.operand(value);
        let (kind, dims) = (operand.kind, operand.dimensions.clone());
        if kind.is_extension() {
            return Ok(self.cast(value, kind));
        }
        let copy = self.builder.like(value, dims.clone());
        match kind {
            // The only operation that takes these as they are.
            OperandType::TensorInt32
            | OperandType::TensorBool8
            | OperandType::TensorQuant16Symm => {
                self.builder.op(OperationType::Cast, &[value], &[copy]);
            }
            _ => {
                let shape = signed(&dims)?;
                let shape = self.builder.ints(&shape);
                self.builder.op(OperationType::Reshape, &[value, shape], &[copy]);
            }
        }
        Ok(copy)
    }
}

/// The extents of a constant: a scalar has one element in one dimension.
fn shape_of_constant(tensor: &Tensor) -> Vec<u32> {
    if tensor.shape.is_empty() { vec![1] } else { tensor.shape.clone() }
}

/// 64-bit integers as 32-bit ones. The greatest and least stand for "to the end" in slices, hence
/// saturate.
fn narrow(tensor: &Tensor, values: &[i64]) -> Lowered<Vec<i32>> {
    let narrow = |&value: &i64| match value {
        i64::MAX => Ok(i32::MAX),
        i64::MIN => Ok(i32::MIN),
        value => i32::try_from(value).map_err(|_| {
            Refusal::from(format!("tensor {:?} holds {value}, beyond 32 bits", tensor.name))
        }),
    };
    values.iter().map(narrow).collect()
}

/// Known extents as the integers that operations take; -1 stands for one unknown extent.
pub(crate) fn signed(dims: &[u32]) -> Lowered<Vec<i32>> {
    if dims.iter().filter(|&&extent| extent == 0).count() > 1 {
        return Err(format!("the shape {dims:?} has several unknown extents").into());
    }
    let extent = |&extent: &u32| match extent {
        0 => Ok(-1),
        extent => i32::try_from(extent)
            .map_err(|_| Refusal::from(format!("the extent {extent} is beyond 31 bits"))),
    };
    dims.iter().map(extent).collect()
}

/// One operator being lowered.
#[derive(Debug)]
pub(crate) struct Lower<'i, 'a> {
    pub(crate) import: &'i mut Import<'a>,
    pub(crate) op: &'a Operator<'a>,
}

impl<'a> Lower<'_, 'a> {
    fn builder(&mut self) -> &mut Builder {
        &mut self.import.builder
    }

    /// The options, which are of this type.
    fn options(&self, kind: OptionsKind) -> Lowered<Fields<'a>> {
        Ok(self.op.options.of(kind)?)
    }

    /// The tensor of an argument, if it is there and more than an empty stand-in.
    fn optional_tensor(&self, argument: usize) -> Option<usize> {
        let index = self.op.inputs.get(argument).copied().flatten()?;
        let tensor = &self.import.graph.tensors[index];
        let empty = tensor.shape.contains(&0)
            && self.import.values[index].is_none()
            && self.import.file.range(tensor).is_none();
        (!empty).then_some(index)
    }

    fn tensor_index(&self, argument: usize) -> Lowered<usize> {
        self.optional_tensor(argument).ok_or_else(|| format!("input {argument} is missing").into())
    }

    fn tensor(&self, argument: usize) -> Lowered<&'a Tensor> {
        let graph: &'a Graph<'a> = self.import.graph;
        Ok(&graph.tensors[self.tensor_index(argument)?])
    }

    fn has(&self, argument: usize) -> bool {
        self.optional_tensor(argument).is_some()
    }

    /// The operand of an argument.
    fn input(&mut self, argument: usize) -> Lowered<u32> {
        let index = self.tensor_index(argument)?;
        self.import.value(index)
    }

    fn kind(&self, operand: u32) -> OperandType {
        self.import.builder.operand(operand).kind
    }

    /// The extents of an operand, where all of them are needed.
    fn known_dims(&self, operand: u32) -> Lowered<Vec<u32>> {
        let dims = self.import.builder.dims(operand);
        if dims.is_empty() || dims.contains(&0) {
            return Err(format!("its input's shape {dims:?} is not fully known").into());
        }
        Ok(dims.to_vec())
    }

    /// The integers of an argument that has to be a constant.
    fn constant_ints(&self, argument: usize) -> Lowered<Vec<i64>> {
        self.import.ints(self.tensor_index(argument)?)
    }

    /// The one integer of an argument that has to be a constant.
    fn constant_int(&self, argument: usize) -> Lowered<i32> {
        match self.constant_ints(argument)?.as_slice() {
            &[value] => i32::try_from(value)
                .map_err(|_| Refusal::from(format!("input {argument} is {value}, beyond 32 bits"))),
            values => {
                Err(format!("input {argument} has {} elements, not one", values.len()).into())
            }
        }
    }

    fn output_tensor(&self, result: usize) -> Lowered<&'a Tensor> {
        let graph: &'a Graph<'a> = self.import.graph;
        let index = self.op.outputs.get(result);
        let index = index.ok_or_else(|| Refusal::from(format!("output {result} is missing")))?;
        Ok(&graph.tensors[*index])
    }

    /// The extents of a result: those of the file, else what the caller knows about the operator.
    /// Old files leave shapes to the interpreter.
    fn result_dims(&self, result: usize, inferred: Option<&[u32]>) -> Lowered<Vec<u32>> {
        let tensor = self.output_tensor(result)?;
        if tensor.is_shape_open {
            let known = inferred.map(|dims| if dims.is_empty() { vec![1] } else { dims.to_vec() });
            return Ok(self.inferred(result).or(known).unwrap_or_default());
        }
        Ok(match (tensor.shape.as_slice(), inferred) {
            // A scalar is one element in one dimension here.
            ([], Some([])) => vec![1],
            ([], Some(inferred)) => inferred.to_vec(),
            ([], None) if tensor.has_rank => vec![1],
            (shape, _) => shape.to_vec(),
        })
    }

    /// The operand of a result; `inferred` are its extents if the file doesn't say.
    fn output(&mut self, result: usize, inferred: Option<&[u32]>) -> Lowered<u32> {
        let mut operand = operand_of(self.output_tensor(result)?)?;
        operand.dimensions = self.result_dims(result, inferred)?;
        let output = self.builder().add(operand);
        self.bind(result, output)?;
        Ok(output)
    }

    /// Says which operand a result is.
    fn bind(&mut self, result: usize, operand: u32) -> Lowered {
        let tensor = self.output_tensor(result)?;
        let index = self.op.outputs[result];
        if self.import.values[index].replace(operand).is_some() {
            return Err(format!("tensor {:?} is written twice", tensor.name).into());
        }
        Ok(())
    }

    /// The operand that a state has from this operator on.
    fn next_state(&mut self, argument: usize) -> Lowered<u32> {
        let index = self.tensor_index(argument)?;
        let tensor = &self.import.graph.tensors[index];
        if !tensor.is_variable {
            return Err(format!("input {argument} is a state, but not a variable tensor").into());
        }
        let now = self.import.value(index)?;
        let dims = self.import.builder.dims(now).to_vec();
        let next = self.builder().like(now, dims);
        self.import.values[index] = Some(next);
        Ok(next)
    }

    fn emit(&mut self, kind: OperationType, inputs: &[u32], outputs: &[u32]) {
        self.builder().op(kind, inputs, outputs);
    }

    /// The code of a fused activation as a constant operand.
    fn activation(&mut self, code: i8) -> Lowered<u32> {
        match code {
            0..=3 => Ok(self.builder().int(i32::from(code))),
            4 => Err("NNAPI can't fuse TANH".into()),
            5 => Err("NNAPI can't fuse SIGN_BIT".into()),
            code => Err(format!("there is no activation {code}").into()),
        }
    }

    fn no_activation(&mut self) -> u32 {
        self.builder().int(0)
    }
}

/// An axis, counted from the end if it is negative, as an index below `rank`.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Lowered<usize> {
    let signed_rank = i64::try_from(rank).unwrap_or(i64::MAX);
    let from_front = if axis < 0 { axis.saturating_add(signed_rank) } else { axis };
    usize::try_from(from_front)
        .ok()
        .filter(|&axis| axis < rank)
        .ok_or_else(|| format!("there is no axis {axis} in {rank} dimensions").into())
}

/// A count that came from extents, as the integer that operations take.
pub(crate) fn int_of(count: usize) -> Lowered<i32> {
    i32::try_from(count).map_err(|_| format!("{count} is beyond 31 bits").into())
}

/// The shape that two operands broadcast to; `None` unless both ranks are known.
pub(crate) fn broadcast(a: &[u32], b: &[u32]) -> Option<Vec<u32>> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let rank = a.len().max(b.len());
    let at = |dims: &[u32], position: usize| {
        (position + dims.len()).checked_sub(rank).map_or(1, |index| dims[index])
    };
    Some((0..rank).map(|i| if at(a, i) == 1 { at(b, i) } else { at(a, i) }).collect())
}
