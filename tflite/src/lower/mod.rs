//! From operators of the file to operations of the HAL.
//!
//! [`Import`] holds what is known about the whole graph, [`Lower`] is one operator on its way. The
//! families of operators are in modules of their own; [`Lower::run`] is the table that leads there.

mod arithmetic;
mod basic_lstm;
mod batch;
mod bidirectional;
mod blockwise;
mod branches;
mod channels;
mod control;
mod convolution;
mod custom;
mod detection;
pub(crate) mod extension;
mod fit;
mod import;
mod infer;
mod inline;
mod integer_lstm;
mod loops;
mod normalization;
mod open_shapes;
mod packed;
mod program;
mod quantization;
mod recurrent;
mod reduction;
mod route;
mod shape;
mod slicing;
mod stablehlo;
mod table;
mod transposed;
mod values;
mod variables;

use nnburst_hal::{OperandType, OperationType};

pub(crate) use batch::batched_inputs;
pub(crate) use import::Import;
pub(crate) use route::lower_all;

use crate::error::ImportError;
use crate::flatbuffer::FormatError;
use crate::graph::{Builder, is_open};
use crate::operand::operand_of;
use crate::schema::options::{Fields, OptionsKind};
use crate::schema::{Builtin, Graph, Operator, Tensor};

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

    fn builtin(&self) -> Builtin {
        self.import.file.codes[self.op.code].builtin
    }

    /// The options, which are of this type.
    fn options(&self, kind: OptionsKind) -> Lowered<Fields<'a>> {
        Ok(self.op.options.of(kind)?)
    }

    /// The tensor of an argument, if it is there and more than an empty stand-in.
    fn optional_tensor(&self, argument: usize) -> Option<usize> {
        let index = self.op.inputs.get(argument).copied().flatten()?;
        let is_left_out = self.import.is_empty(index) && self.may_lack(argument);
        (!is_left_out).then_some(index)
    }

    /// Returns whether an argument without elements is one that is left out. Else it is a value.
    fn may_lack(&self, argument: usize) -> bool {
        match self.builtin() {
            // What it holds is the shape of a scalar, unless the options have another.
            Builtin::Reshape => argument == 1,
            Builtin::TransposeConv | Builtin::Conv3dTranspose => argument > 2,
            Builtin::Conv2d
            | Builtin::DepthwiseConv2d
            | Builtin::Conv3d
            | Builtin::FullyConnected
            | Builtin::Svdf
            | Builtin::Rnn
            | Builtin::UnidirectionalSequenceRnn
            | Builtin::BidirectionalSequenceRnn
            | Builtin::Lstm
            | Builtin::UnidirectionalSequenceLstm
            | Builtin::BidirectionalSequenceLstm => argument > 0,
            Builtin::Custom => true,
            _ => false,
        }
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
            // None are a scalar's, or those of an input of which nothing is known.
            let known = match inferred {
                Some([]) if !self.takes_unknown_ranks() => Some(vec![1]),
                _ => inferred.map(<[u32]>::to_vec),
            };
            return Ok(self.inferred(result).or(known).unwrap_or_default());
        }
        if let Some(dims) = self.instead_of_files(result) {
            return Ok(dims);
        }
        Ok(match (tensor.shape.as_slice(), inferred) {
            // A scalar is one element in one dimension here.
            ([], Some([])) => vec![1],
            ([], Some(inferred)) => inferred.to_vec(),
            ([], None) if tensor.has_rank => vec![1],
            ([], None) => self.inferred(result).unwrap_or_default(),
            (shape, _) => shape.to_vec(),
        })
    }

    /// Returns whether there are inputs of which not even the number of dimensions is known.
    fn takes_unknown_ranks(&self) -> bool {
        let values = self.op.inputs.iter().flatten().filter_map(|&it| self.import.values[it]);
        values.into_iter().any(|value| {
            let operand = self.import.builder.operand(value);
            operand.dimensions.is_empty() && !operand.kind.is_scalar()
        })
    }

    /// The extents of a result where they follow from what is known, whatever the file says of
    /// them: those of what converters make of a shape are often not even possible, and the
    /// interpreter reads none but of inputs and constants.
    fn instead_of_files(&self, result: usize) -> Option<Vec<u32>> {
        let is_given = self.output_tensor(result).ok()?.is_shape_given;
        // What a loop gives may have another shape than what it was given.
        let is_kept = is_given || self.builtin() == Builtin::While;
        let dims = (!is_kept).then(|| self.known_result(result))??;
        (!is_open(&dims)).then_some(dims)
    }

    /// Returns whether the file says of a result's extents that they may be others.
    fn is_example(&self, result: usize) -> bool {
        let tensor = self.output_tensor(result);
        tensor.is_ok_and(|it| it.signature.contains(&0) && !it.is_shape_given)
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

    /// The code of the activation that the interpreter fuses: TANH and SIGN_BIT change nothing
    /// there but in layers with weights of their own for each output.
    fn fused(&self, code: i8) -> i8 {
        match self.builtin() {
            Builtin::Add
            | Builtin::Sub
            | Builtin::Mul
            | Builtin::Div
            | Builtin::AveragePool2d
            | Builtin::MaxPool2d
            | Builtin::L2Pool2d
            | Builtin::Conv2d
            | Builtin::DepthwiseConv2d
            | Builtin::TransposeConv
            | Builtin::Conv3d
            | Builtin::Conv3dTranspose
                if matches!(code, 4 | 5) =>
            {
                0
            }
            _ => code,
        }
    }

    /// The code of a fused activation as a constant operand.
    fn activation(&mut self, code: i8) -> Lowered<u32> {
        match self.fused(code) {
            code @ 0..=3 => Ok(self.builder().int(i32::from(code))),
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
