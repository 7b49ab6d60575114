//! The end of an import: inputs, outputs and states of the model.

use std::collections::BTreeSet;

use nnburst_hal::tflite_extension::ExtensionType;
use nnburst_hal::{
    ExtensionNameAndPrefix, Operand, OperandLifeTime, OperandType, OperationType, Subgraph,
};

use crate::dilate::dilate;
use crate::error::ImportError;
use crate::flatbuffer::Budget;
use crate::lower::{Import, Refusal};
use crate::model::{StatePair, TensorInfo};
use crate::registry::CustomOperators;

/// The table of extensions of a model.
pub(crate) fn extensions(parts: &Parts, customs: &CustomOperators) -> Vec<ExtensionNameAndPrefix> {
    let types = parts.graphs().flat_map(|graph| graph.operands.iter().map(|it| it.kind));
    let types = types.filter_map(|kind| match kind {
        OperandType::Extension(code) => Some(code.prefix),
        _ => None,
    });
    let operations = parts.graphs().flat_map(|graph| graph.operations.iter().map(|it| it.kind));
    let operations = operations.filter_map(|kind| match kind {
        OperationType::Extension(code) => Some(code.prefix),
        _ => None,
    });
    let used: BTreeSet<u16> = types.chain(operations).collect();
    let named = used.into_iter().filter_map(|prefix| {
        let name = customs.extension(prefix)?.to_owned();
        Some(ExtensionNameAndPrefix { name, prefix })
    });
    named.collect()
}

/// The result of an import, before memory is found for it.
pub(crate) struct Parts {
    pub(crate) graph: Subgraph,
    pub(crate) referenced: Vec<Subgraph>,
    pub(crate) values: Vec<u8>,
    pub(crate) made: Vec<u8>,
    pub(crate) sources: Vec<usize>,
    pub(crate) inputs: Vec<TensorInfo>,
    pub(crate) empty_inputs: Vec<TensorInfo>,
    pub(crate) outputs: Vec<TensorInfo>,
    pub(crate) states: Vec<StatePair>,
}

impl Parts {
    /// Every graph of the model.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = &Subgraph> {
        std::iter::once(&self.graph).chain(&self.referenced)
    }
}

impl Import<'_> {
    /// Says which operands are the model's inputs and outputs, and checks that there are some.
    pub(crate) fn finish(
        mut self,
        mut inputs: Vec<u32>,
        budget: &Budget,
    ) -> Result<Parts, ImportError> {
        let tensors = &self.graph.tensors;
        let info = |import: &Self, index: usize, operand: u32| {
            TensorInfo::new(index, &tensors[index], import.builder.operand(operand))
        };
        let input_infos = self.model_inputs().zip(&inputs);
        let input_infos =
            input_infos.map(|(index, &operand)| info(&self, index, operand)).collect();
        let empty = |&index: &usize| {
            let tensor = &tensors[index];
            let operand = self.input_operand(tensor).map_err(ImportError::Interface)?;
            Ok(TensorInfo::new(index, tensor, &operand))
        };
        let empty_inputs =
            self.empty_inputs.iter().map(empty).collect::<Result<Vec<_>, ImportError>>()?;
        let mut outputs = Vec::new();
        let mut output_infos = Vec::new();
        for &index in &self.graph.outputs {
            let output = self.output_operand(index)?;
            outputs.push(output);
            output_infos.push(info(&self, index, output));
        }
        for index in self.kept() {
            // One that the model can't give out is left out.
            if let Ok(output) = self.output_operand(index) {
                outputs.push(output);
                output_infos.push(info(&self, index, output));
            }
        }
        let mut states = Vec::new();
        for state in std::mem::take(&mut self.states) {
            let named = state.name.as_ref();
            let now = match named {
                Some(name) => self.variables.get(name).and_then(|variable| variable.value),
                None => self.values[state.tensor],
            };
            let first = named.and_then(|name| self.initial_of(name));
            let is_unchanged = now.is_none_or(|now| now == state.input);
            let is_shared = self.options.shared_variables && named.is_some();
            if is_unchanged && !self.is_part && !is_shared {
                // Nobody changes it, so it is what it was at first for good.
                self.freeze(state.input, first, budget)?;
                continue;
            }
            let now = now.unwrap_or(state.input);
            let mut info = info(&self, state.tensor, state.input);
            info.name = state.name.clone().unwrap_or(info.name);
            let output = self.mark_output(now)?;
            let initial = initial(self.builder.operand(state.input), first, budget)?;
            let (input, variable) = (inputs.len(), state.name);
            states.push(StatePair { input, output: outputs.len(), info, initial, variable });
            inputs.push(state.input);
            outputs.push(output);
        }
        let mut builder = self.builder;
        if builder.graph.operations.is_empty() || outputs.is_empty() {
            return Err(ImportError::Interface("the graph computes nothing".into()));
        }
        builder.graph.input_indexes = inputs;
        builder.graph.output_indexes = outputs;
        dilate(&mut builder, self.file.bytes);
        builder.count_consumers();
        Ok(Parts {
            graph: builder.graph,
            referenced: builder.referenced,
            values: builder.values,
            made: builder.made,
            sources: builder.sources,
            inputs: input_infos,
            empty_inputs,
            outputs: output_infos,
            states,
        })
    }

    /// The tensors that are kept besides the outputs.
    fn kept(&self) -> Vec<usize> {
        if !self.options.keep_tensors {
            return Vec::new();
        }
        let mut seen: BTreeSet<usize> = self.graph.outputs.iter().copied().collect();
        let computed = self.graph.operators.iter().flat_map(|operator| &operator.outputs);
        let has_value = |&index: &usize| self.values[index].is_some();
        computed.copied().filter(has_value).filter(|&index| seen.insert(index)).collect()
    }

    fn output_operand(&mut self, index: usize) -> Result<u32, ImportError> {
        if self.options.extension && self.options.file_types {
            let value = self.own_value(index)?;
            return self.mark_output(value);
        }
        let mut value = self.value(index)?;
        let kind = self.builder.operand(value).kind;
        match ExtensionType::of_operand(kind) {
            // Callers take 32 bits of what the file has 64 of.
            Some(ExtensionType::TensorInt64) => value = self.cast(value, OperandType::TensorInt32),
            Some(other) => {
                return Err(ImportError::Interface(format!("an output is of {other:?}")));
            }
            None => {}
        }
        self.mark_output(value)
    }

    /// The operand as an output of the model; a copy of it if it can't be one.
    fn mark_output(&mut self, value: u32) -> Result<u32, ImportError> {
        Ok(self.as_output(value)?)
    }

    /// The operand as an output of the graph; a copy of it if it can't be one.
    pub(crate) fn as_output(&mut self, value: u32) -> Result<u32, Refusal> {
        let temporary = OperandLifeTime::TemporaryVariable;
        let output = if self.builder.operand(value).lifetime == temporary {
            value
        } else {
            self.copy(value)?
        };
        self.builder.operand_mut(output).lifetime = OperandLifeTime::SubgraphOutput;
        Ok(output)
    }

    /// A state that nobody changes becomes a constant.
    fn freeze(
        &mut self,
        input: u32,
        first: Option<Vec<u8>>,
        budget: &Budget,
    ) -> Result<(), ImportError> {
        let operand = self.builder.operand(input).clone();
        let bytes = initial(&operand, first, budget)?;
        *self.builder.operand_mut(input) = self.builder.place(operand, &bytes);
        Ok(())
    }
}

/// The bytes that a state starts with: its `first` value, or real zero as the interpreter resets
/// variables (the zero point of signed 8-bit tensors, else zeros). Charged thrice: a copy may be
/// made for the model's constants, and another for whoever starts a session.
fn initial(
    operand: &Operand,
    first: Option<Vec<u8>>,
    budget: &Budget,
) -> Result<Vec<u8>, ImportError> {
    let zero = match operand.kind {
        OperandType::TensorQuant8AsymmSigned => {
            i8::try_from(operand.zero_point).unwrap_or(0).cast_unsigned()
        }
        _ => 0,
    };
    let size = operand.data_size().unwrap_or(0);
    if !budget.take(size.saturating_mul(3)) {
        let dims = &operand.dimensions;
        let what = format!("a variable tensor of {dims:?} is too large for a file of this size");
        return Err(ImportError::Interface(what));
    }
    Ok(first.unwrap_or_else(|| vec![zero; size]))
}
