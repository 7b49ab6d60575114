//! A graph on its way from the file to the HAL: its values, states and variables.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

use nnburst_hal::{Operand, OperandLifeTime, OperandType, OperationType};

use super::{Lowered, Refusal, packed, signed};
use crate::graph::{Builder, Mark};
use crate::model::ImportOptions;
use crate::operand::operand_of;
use crate::registry::CustomOperators;
use crate::schema::{File, Graph, Tensor, TensorKind};

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
    pub(super) initial: Option<Initial>,
}

/// The value that a variable starts with.
#[derive(Clone, Debug)]
pub(super) struct Initial {
    pub(super) operand: Operand,
    pub(super) bytes: Vec<u8>,
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
    pub(super) folded: HashMap<usize, Vec<i64>>,
    /// What constants are once they were quantised per channel, by the tensor of the result.
    pub(super) rounded: HashMap<usize, Vec<f32>>,
    /// Constants that were widened to FLOAT32, by tensor.
    pub(super) widened: HashMap<usize, u32>,
    /// Constants in types of the extension, by tensor.
    pub(super) wide: HashMap<usize, u32>,
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
    pub(super) has_hybrid: OnceCell<bool>,
    /// True if shapes follow from what the graph is given, whatever the file says.
    pub(crate) opens: bool,
    /// The number that stands for extents which are not known, while shapes are inferred; else 0.
    pub(super) probe: Cell<u32>,
    /// True while shapes are inferred of inputs without elements, too.
    pub(super) counts_empty: Cell<bool>,
    /// True if other operators of the file, which are not imported, may change variables, too.
    pub(crate) is_part: bool,
    /// Inputs that were given a shape without elements: constants for the model.
    pub(crate) empty_inputs: Vec<usize>,
}

/// The state of an import between two operators.
#[derive(Clone, Debug)]
pub(crate) struct ImportMark {
    pub(super) builder: Mark,
    pub(super) values: Vec<Option<u32>>,
    pub(super) states: usize,
    handles: HashMap<usize, String>,
    /// The values of variables with a name.
    variables: Vec<(String, Option<u32>)>,
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
            rounded: HashMap::new(),
            widened: HashMap::new(),
            wide: HashMap::new(),
            handles: HashMap::new(),
            variables: HashMap::new(),
            options: ImportOptions::default(),
            customs: None,
            depth: 0,
            has_hybrid: OnceCell::new(),
            opens: false,
            probe: Cell::new(0),
            counts_empty: Cell::new(false),
            is_part: false,
            empty_inputs: Vec::new(),
        }
    }

    /// The state of now, for [`Import::rewind`].
    pub(crate) fn mark(&self) -> ImportMark {
        ImportMark {
            builder: self.builder.mark(),
            values: self.values.clone(),
            states: self.states.len(),
            handles: self.handles.clone(),
            variables: self.variables.iter().map(|(name, it)| (name.clone(), it.value)).collect(),
        }
    }

    /// Takes back all that an operator has made since.
    pub(crate) fn rewind(&mut self, mark: &ImportMark) {
        self.builder.rewind(mark.builder);
        self.values.clone_from(&mark.values);
        self.states.truncate(mark.states);
        self.handles.clone_from(&mark.handles);
        self.variables.values_mut().for_each(|variable| variable.value = None);
        for (name, value) in &mark.variables {
            self.variables.entry(name.clone()).or_default().value = *value;
        }
        let operands = self.builder.graph.operands.len();
        let stays = |operand: u32| (operand as usize) < operands;
        self.widened.retain(|_, operand| stays(*operand));
        self.wide.retain(|_, operand| stays(*operand));
    }

    /// Makes operands of the graph's inputs, in their order, but for those without elements.
    pub(crate) fn add_inputs(&mut self) -> Result<Vec<u32>, String> {
        let mut inputs = Vec::new();
        for index in self.model_inputs().collect::<Vec<_>>() {
            let tensor = &self.graph.tensors[index];
            let operand = self.input_operand(tensor)?;
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

    /// The inputs of the graph that are inputs of the model, in their order.
    pub(crate) fn model_inputs(&self) -> impl Iterator<Item = usize> + '_ {
        let inputs = self.graph.inputs.iter().copied();
        inputs.filter(|index| !self.empty_inputs.contains(index))
    }

    /// An input of the graph in the type that its value travels in.
    pub(crate) fn input_operand(&self, tensor: &Tensor) -> Result<Operand, String> {
        match self.options.file_types {
            true => self.own_operand(tensor),
            false => operand_of(tensor),
        }
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
        } else if self.file.range(tensor).is_some() || self.is_empty(index) {
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
    pub(super) fn add_state(&mut self, index: usize, operand: Operand) -> Lowered<u32> {
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
    pub(super) fn constant(&mut self, index: usize) -> Lowered<u32> {
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
    pub(super) fn constant_as(&mut self, index: usize, mut operand: Operand) -> Lowered<u32> {
        let tensor = &self.graph.tensors[index];
        operand.dimensions = shape_of_constant(tensor);
        // What stays in the file isn't read here.
        let data = packed::is_packed(tensor).then(|| self.file.data(tensor)).flatten();
        let data = data.unwrap_or_default();
        if let Some(bytes) = packed::unpacked(tensor, data)? {
            return Ok(self.builder.made_constant(operand, &bytes));
        }
        let range = self.file.range(tensor).unwrap_or_default();
        // Extents of 0 are known here.
        if operand.data_size().unwrap_or(0) != range.len() {
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
    pub(super) fn ints(&self, index: usize) -> Lowered<Vec<i64>> {
        if let Some(values) = self.folded.get(&index) {
            return Ok(values.clone());
        }
        let tensor = &self.graph.tensors[index];
        let empty = self.is_empty(index).then_some(&[][..]);
        let data = self.file.data(tensor).filter(|_| self.is_constant(index)).or(empty);
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

    /// Returns whether a tensor has no elements, and hence a value though nothing gave it any yet.
    pub(super) fn is_empty(&self, index: usize) -> bool {
        let tensor = &self.graph.tensors[index];
        let is_given = self.values[index].is_some() || self.folded.contains_key(&index);
        tensor.shape.contains(&0)
            && !tensor.is_variable
            && !is_given
            && self.file.range(tensor).is_none()
    }

    /// Returns whether a tensor is a constant without elements.
    pub(super) fn has_no_elements(&self, index: usize) -> bool {
        let is_empty = |value| {
            let operand = self.builder.operand(value);
            operand.is_constant() && operand.dimensions.contains(&0)
        };
        self.values[index].map_or_else(|| self.is_empty(index), is_empty)
    }

    /// Returns whether a tensor's value is a constant, of the file or computed.
    pub(super) fn is_constant(&self, index: usize) -> bool {
        let constant = |value| self.builder.operand(value).is_constant();
        match self.values[index] {
            Some(value) => constant(value),
            None => {
                self.folded.contains_key(&index)
                    || self.file.range(&self.graph.tensors[index]).is_some()
                    || self.is_empty(index)
            }
        }
    }

    /// A copy of a value, for outputs that are inputs, constants or outputs already.
    pub(crate) fn copy(&mut self, value: u32) -> Lowered<u32> {
        let operand = self.builder.operand(value);
        let (kind, dims) = (operand.kind, operand.dimensions.clone());
        let is_empty = operand.is_constant() && dims.contains(&0);
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
            // RESHAPE takes elements, in four dimensions at most.
            _ if is_empty || dims.len() > 4 => {
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
pub(super) fn shape_of_constant(tensor: &Tensor) -> Vec<u32> {
    if tensor.shape.is_empty() { vec![1] } else { tensor.shape.clone() }
}

/// 64-bit integers as 32-bit ones. The greatest and least stand for "to the end" in slices, hence
/// saturate.
pub(super) fn narrow(tensor: &Tensor, values: &[i64]) -> Lowered<Vec<i32>> {
    let narrow = |&value: &i64| match value {
        i64::MAX => Ok(i32::MAX),
        i64::MIN => Ok(i32::MIN),
        value => i32::try_from(value).map_err(|_| {
            Refusal::from(format!("tensor {:?} holds {value}, beyond 32 bits", tensor.name))
        }),
    };
    values.iter().map(narrow).collect()
}
