//! The parts of the .tflite format that an import needs, read into structures that can't be wrong.
//!
//! Names, slots and meanings are those of the format's public schema, version 3. What training
//! tools leave behind (min and max of a quantisation) isn't read.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod flexbuffer;
mod notes;
mod operators;
pub(crate) mod options;
mod sparsity;
mod tensor;

use std::ops::Range;

pub(crate) use flexbuffer::FlexMap;
pub use notes::{MetadataEntry, Signature, SignatureTensor};
pub(crate) use operators::Builtin;
pub(crate) use sparsity::{Sparsity, SparsityLevel};
pub(crate) use tensor::Tensor;
pub use tensor::TensorKind;

use crate::file_bytes::FileBytes;
use crate::flatbuffer::{Budget, Field, FormatError, Problem, Table};

const IDENTIFIER: [u8; 4] = *b"TFL3";

/// A .tflite file.
#[derive(Debug)]
pub(crate) struct File<'a> {
    pub(crate) bytes: &'a FileBytes,
    pub(crate) description: String,
    pub(crate) codes: Vec<OperatorCode>,
    pub(crate) graphs: Vec<Graph<'a>>,
    /// The one that is executed, an index.
    pub(crate) entry: usize,
    /// The same without the shapes that follow from what graphs other than the entry are given;
    /// empty where there are none.
    pub(crate) opened: Vec<Graph<'a>>,
    /// The place of each buffer's bytes in the file; empty where it has none.
    pub(crate) buffers: Vec<Range<usize>>,
}

/// The operator of an entry of the graph.
#[derive(Clone, Debug)]
pub(crate) struct OperatorCode {
    pub(crate) builtin: Builtin,
    /// The name of a custom operator.
    pub(crate) custom: Option<String>,
    pub(crate) version: i32,
}

impl OperatorCode {
    pub(crate) fn name(&self) -> String {
        match (self.builtin, &self.custom) {
            (Builtin::Custom, Some(name)) => format!("CUSTOM {name}"),
            (Builtin::Unknown(code), _) => format!("operator {code}"),
            (builtin, _) => builtin.name().to_owned(),
        }
    }
}

/// A graph of operators in execution order.
#[derive(Clone, Debug)]
pub(crate) struct Graph<'a> {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) operators: Vec<Operator<'a>>,
}

/// One operator of a graph. Its tensors exist.
#[derive(Clone, Debug)]
pub(crate) struct Operator<'a> {
    /// An index into the file's codes, in range.
    pub(crate) code: usize,
    /// `None` where an optional one is left out.
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) outputs: Vec<usize>,
    /// Tensors whose quantisation describes values inside the operator.
    pub(crate) intermediates: Vec<Option<usize>>,
    pub(crate) options: options::OperatorOptions<'a>,
    /// Those of operators whose options the first union has no room for.
    pub(crate) options_2: options::OperatorOptions<'a>,
    /// The options of a custom operator, in a format of its own.
    pub(crate) custom: &'a [u8],
}

const BUFFERS: Field = Field::new(4, "Model.buffers");

impl<'a> File<'a> {
    /// Reads and verifies a file. Tables live as long as the budget that watches over them.
    pub(crate) fn parse(bytes: &'a FileBytes, budget: &'a Budget) -> Result<Self, FormatError> {
        const VERSION: Field = Field::new(0, "Model.version");
        const CODES: Field = Field::new(1, "Model.operator_codes");
        const SUBGRAPHS: Field = Field::new(2, "Model.subgraphs");
        const DESCRIPTION: Field = Field::new(3, "Model.description");

        let root = Table::root(bytes, budget, IDENTIFIER)?;
        let version = root.scalar(VERSION, 0u32)?;
        if version != 3 {
            return Err(VERSION.fails(Problem::OutOfRange {
                value: i64::from(version),
                min: 3,
                max: 3,
            }));
        }
        let buffers = root.tables(BUFFERS, |table| read_buffer(bytes, &table))?;
        let codes = root.tables(CODES, |table| read_code(&table))?;
        let mut graphs =
            root.tables(SUBGRAPHS, |table| read_graph(bytes, &table, codes.len(), buffers.len()))?;
        graphs.iter_mut().for_each(|graph| take_negated_types(graph, &codes));
        if graphs.is_empty() {
            return Err(SUBGRAPHS.fails(Problem::Missing));
        }
        let description = root.string(DESCRIPTION)?.unwrap_or_default();
        Ok(Self { bytes, description, codes, graphs, entry: 0, opened: Vec::new(), buffers })
    }

    /// The signatures and the metadata, which an import does without.
    pub(crate) fn notes(
        &self,
        budget: &'a Budget,
    ) -> Result<(Vec<Signature>, Vec<MetadataEntry>), FormatError> {
        let root = Table::root(self.bytes, budget, IDENTIFIER)?;
        Ok((notes::signatures(&root, &self.graphs)?, notes::metadata(&root, &self.buffers)?))
    }

    /// The bytes of a tensor that is a constant.
    pub(crate) fn data(&self, tensor: &Tensor) -> Option<&'a [u8]> {
        self.bytes.get(self.range(tensor)?)
    }

    /// Gives constants of the scale 0, which converters write where all values are 0, the least
    /// scale that there is: interpreters compute with them as with any others, but operands have
    /// scales above 0. Multipliers are 0 either way.
    pub(crate) fn raise_zero_scales(&mut self) {
        let buffers = &self.buffers;
        let is_constant = |it: &Tensor| buffers.get(it.buffer).is_some_and(|it| !it.is_empty());
        let tensors = self.graphs.iter_mut().flat_map(|graph| &mut graph.tensors);
        for tensor in tensors.filter(|tensor| is_constant(tensor)) {
            let scales = tensor.quantization.scales.iter_mut();
            scales.filter(|scale| **scale == 0.0).for_each(|scale| *scale = f32::MIN_POSITIVE);
        }
    }

    /// Returns the place of a constant's bytes in the file; `None` if it has none.
    pub(crate) fn range(&self, tensor: &Tensor) -> Option<Range<usize>> {
        self.buffers.get(tensor.buffer).filter(|range| !range.is_empty()).cloned()
    }
}

/// Returns the place in the file of the bytes that it carries under a name; `None` if it has none
/// of that name. Nothing else of the file is read.
pub(crate) fn metadata_range(
    bytes: &FileBytes,
    name: &str,
) -> Result<Option<Range<usize>>, FormatError> {
    let budget = Budget::of_file(bytes);
    let root = Table::root(bytes, &budget, IDENTIFIER)?;
    let entries = notes::metadata_buffers(&root)?;
    let Some((_, buffer)) = entries.into_iter().find(|(known, _)| known == name) else {
        return Ok(None);
    };
    let buffers = root.tables(BUFFERS, |table| read_buffer(bytes, &table))?;
    Ok(usize::try_from(buffer).ok().and_then(|buffer| buffers.get(buffer).cloned()))
}

fn read_buffer(file: &FileBytes, table: &Table<'_>) -> Result<Range<usize>, FormatError> {
    const DATA: Field = Field::new(0, "Buffer.data");
    const OFFSET: Field = Field::new(1, "Buffer.offset");
    const SIZE: Field = Field::new(2, "Buffer.size");
    // Files beyond 2 GiB keep the bytes behind the FlatBuffer; offsets 0 and 1 mean that they
    // don't.
    let offset = table.scalar(OFFSET, 0u64)?;
    if offset <= 1 {
        return Ok(table.byte_range(DATA)?.unwrap_or_default());
    }
    let start = usize::try_from(offset).ok();
    let size = usize::try_from(table.scalar(SIZE, 0u64)?).ok();
    let range = start.zip(size).and_then(|(start, size)| Some(start..start.checked_add(size)?));
    range
        .filter(|range| range.end <= file.len())
        .ok_or_else(|| OFFSET.fails(Problem::OutOfFile { at: start.unwrap_or(usize::MAX) }))
}

fn read_code(table: &Table<'_>) -> Result<OperatorCode, FormatError> {
    const DEPRECATED: Field = Field::new(0, "OperatorCode.deprecated_builtin_code");
    const CUSTOM: Field = Field::new(1, "OperatorCode.custom_code");
    const VERSION: Field = Field::new(2, "OperatorCode.version");
    const BUILTIN: Field = Field::new(3, "OperatorCode.builtin_code");
    // The first field was a byte; when codes outgrew it, a second one was added. The greater
    // counts.
    let code = i32::from(table.scalar(DEPRECATED, 0i8)?).max(table.scalar(BUILTIN, 0i32)?);
    Ok(OperatorCode {
        builtin: Builtin::from_code(code),
        custom: table.string(CUSTOM)?,
        version: table.scalar(VERSION, 1)?,
    })
}

fn read_graph<'a>(
    file: &'a FileBytes,
    table: &Table<'a>,
    codes: usize,
    buffers: usize,
) -> Result<Graph<'a>, FormatError> {
    const TENSORS: Field = Field::new(0, "SubGraph.tensors");
    const INPUTS: Field = Field::new(1, "SubGraph.inputs");
    const OUTPUTS: Field = Field::new(2, "SubGraph.outputs");
    const OPERATORS: Field = Field::new(3, "SubGraph.operators");

    let tensors = table.tables(TENSORS, |table| Tensor::read(&table, buffers))?;
    let inputs = indexes(table, INPUTS, tensors.len())?;
    let outputs = indexes(table, OUTPUTS, tensors.len())?;
    let operators =
        table.tables(OPERATORS, |table| read_operator(file, &table, codes, tensors.len()))?;
    Ok(Graph { tensors, inputs, outputs, operators })
}

/// Gives results of NEG the type of what is negated, as the interpreter does whatever the file
/// says: 16-bit values that converters call floats have no scale there, and are 0 behind QUANTIZE.
fn take_negated_types(graph: &mut Graph<'_>, codes: &[OperatorCode]) {
    for operator in &graph.operators {
        let (&[Some(input)], &[output]) = (&operator.inputs[..], &operator.outputs[..]) else {
            continue;
        };
        let is_neg = codes.get(operator.code).is_some_and(|code| code.builtin == Builtin::Neg);
        let kind = graph.tensors.get(input).map(|tensor| tensor.kind);
        let Some(result) = graph.tensors.get_mut(output) else { continue };
        let is_wide = kind == Some(TensorKind::Int16) && result.kind == TensorKind::Float32;
        if is_neg && is_wide {
            result.kind = TensorKind::Int16;
            result.quantization.scales = vec![f32::MIN_POSITIVE];
        }
    }
}

fn read_operator<'a>(
    file: &'a FileBytes,
    table: &Table<'a>,
    codes: usize,
    tensors: usize,
) -> Result<Operator<'a>, FormatError> {
    const CODE: Field = Field::new(0, "Operator.opcode_index");
    const INPUTS: Field = Field::new(1, "Operator.inputs");
    const OUTPUTS: Field = Field::new(2, "Operator.outputs");
    const CUSTOM: Field = Field::new(5, "Operator.custom_options");
    const INTERMEDIATES: Field = Field::new(8, "Operator.intermediates");

    let code = table.scalar(CODE, 0u32)?;
    let code = within(CODE, i64::from(code), codes)?;
    Ok(Operator {
        code,
        inputs: optional_indexes(table, INPUTS, tensors)?,
        outputs: indexes(table, OUTPUTS, tensors)?,
        intermediates: optional_indexes(table, INTERMEDIATES, tensors)?,
        options: options::OperatorOptions::read(table)?,
        options_2: options::OperatorOptions::read_second(table)?,
        custom: table.byte_range(CUSTOM)?.and_then(|range| file.get(range)).unwrap_or_default(),
    })
}

/// An index below `count`.
fn within(field: Field, value: i64, count: usize) -> Result<usize, FormatError> {
    usize::try_from(value).ok().filter(|&index| index < count).ok_or_else(|| {
        let max = i64::try_from(count).unwrap_or(i64::MAX).saturating_sub(1);
        field.fails(Problem::OutOfRange { value, min: 0, max })
    })
}

fn indexes(table: &Table<'_>, field: Field, count: usize) -> Result<Vec<usize>, FormatError> {
    let indexes = table.scalars::<i32>(field)?;
    indexes.into_iter().map(|index| within(field, i64::from(index), count)).collect()
}

/// Indexes where -1 says that there is none.
fn optional_indexes(
    table: &Table<'_>,
    field: Field,
    count: usize,
) -> Result<Vec<Option<usize>>, FormatError> {
    let indexes = table.scalars::<i32>(field)?;
    indexes
        .into_iter()
        .map(|index| match index {
            -1 => Ok(None),
            index => within(field, i64::from(index), count).map(Some),
        })
        .collect()
}
