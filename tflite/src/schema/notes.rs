//! The notes in a file beside its graphs: signatures, and metadata by name.

use std::ops::Range;

use super::{Graph, within};
use crate::flatbuffer::{Field, FormatError, Table};

/// A way to call one of the file's graphs, with names for its inputs and outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its name, such as `serving_default`.
    pub key: String,
    /// The graph, an index.
    pub graph: usize,
    /// The inputs, in no particular order.
    pub inputs: Vec<SignatureTensor>,
    /// The outputs, in no particular order.
    pub outputs: Vec<SignatureTensor>,
}

/// An input or output of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureTensor {
    /// Its name within the signature; the tensor's own may differ.
    pub name: String,
    /// The tensor, an index of the signature's graph.
    pub tensor: usize,
}

/// Bytes that the file carries under a name, such as `TFLITE_METADATA`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataEntry {
    /// The name.
    pub name: String,
    /// The place of the bytes in the file; empty where there are none.
    pub range: Range<usize>,
}

pub(super) fn signatures(
    root: &Table<'_>,
    graphs: &[Graph<'_>],
) -> Result<Vec<Signature>, FormatError> {
    const SIGNATURES: Field = Field::new(7, "Model.signature_defs");
    const INPUTS: Field = Field::new(0, "SignatureDef.inputs");
    const OUTPUTS: Field = Field::new(1, "SignatureDef.outputs");
    const KEY: Field = Field::new(2, "SignatureDef.signature_key");
    const GRAPH: Field = Field::new(4, "SignatureDef.subgraph_index");
    const NAME: Field = Field::new(0, "TensorMap.name");
    const TENSOR: Field = Field::new(1, "TensorMap.tensor_index");
    root.tables(SIGNATURES, |table| {
        let graph = within(GRAPH, i64::from(table.scalar(GRAPH, 0u32)?), graphs.len())?;
        let tensors = graphs.get(graph).map_or(0, |graph| graph.tensors.len());
        let read = |entry: Table<'_>| {
            let tensor = i64::from(entry.scalar(TENSOR, 0u32)?);
            Ok(SignatureTensor {
                name: entry.string(NAME)?.unwrap_or_default(),
                tensor: within(TENSOR, tensor, tensors)?,
            })
        };
        Ok(Signature {
            key: table.string(KEY)?.unwrap_or_default(),
            graph,
            inputs: table.tables(INPUTS, read)?,
            outputs: table.tables(OUTPUTS, read)?,
        })
    })
}

pub(super) fn metadata(
    root: &Table<'_>,
    buffers: &[Range<usize>],
) -> Result<Vec<MetadataEntry>, FormatError> {
    let entries = metadata_buffers(root)?.into_iter().map(|(name, buffer)| {
        let buffer = within(METADATA_BUFFER, buffer.into(), buffers.len())?;
        Ok(MetadataEntry { name, range: buffers.get(buffer).cloned().unwrap_or_default() })
    });
    entries.collect()
}

const METADATA_BUFFER: Field = Field::new(1, "Metadata.buffer");

/// The names under which the file carries bytes, and the numbers of their buffers.
pub(super) fn metadata_buffers(root: &Table<'_>) -> Result<Vec<(String, u32)>, FormatError> {
    const METADATA: Field = Field::new(6, "Model.metadata");
    const NAME: Field = Field::new(0, "Metadata.name");
    root.tables(METADATA, |table| {
        Ok((table.string(NAME)?.unwrap_or_default(), table.scalar(METADATA_BUFFER, 0u32)?))
    })
}
