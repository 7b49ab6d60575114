//! Files that tools pack into a model: a ZIP archive behind the FlatBuffer, and the metadata
//! `TFLITE_METADATA`, a FlatBuffer of its own, that says which of them are the labels of an output.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;
use std::io::Read;

use flate2::read::DeflateDecoder;

use crate::file_bytes::FileBytes;
use crate::flatbuffer::{Budget, Field, FormatError, Table};
use crate::schema::metadata_range;

/// The name of the metadata that describes inputs, outputs and packed files.
const METADATA: &str = "TFLITE_METADATA";
const IDENTIFIER: [u8; 4] = *b"M001";
/// The most bytes of a packed file that becomes larger when it is read.
const MOST_BYTES: u64 = 4 << 20;
/// The packed file has a line for each element along the last axis of a tensor.
const AXIS_LABELS: i8 = 2;

/// The names of the classes of an output of a graph; `None` where the file packs none for it.
///
/// # Errors
/// The metadata is broken.
pub(crate) fn labels(
    bytes: &FileBytes,
    graph: usize,
    output: usize,
) -> Result<Option<Vec<String>>, FormatError> {
    let range = metadata_range(bytes, METADATA)?;
    let Some(metadata) = range.and_then(|range| bytes.get(range)) else { return Ok(None) };
    let metadata = FileBytes::from(metadata.to_vec());
    let Some(name) = labels_file(&metadata, graph, output)? else { return Ok(None) };
    let file = packed_file(bytes.whole(), &name);
    let text = file.as_deref().and_then(|text| std::str::from_utf8(text).ok());
    Ok(text.map(|text| text.trim_end().lines().map(|line| line.trim().to_owned()).collect()))
}

/// The name of the packed file with the labels of an output of a graph.
fn labels_file(
    metadata: &FileBytes,
    graph: usize,
    output: usize,
) -> Result<Option<String>, FormatError> {
    const GRAPHS: Field = Field::new(3, "ModelMetadata.subgraph_metadata");
    const OUTPUTS: Field = Field::new(3, "SubGraphMetadata.output_tensor_metadata");
    const FILES: Field = Field::new(6, "TensorMetadata.associated_files");
    const NAME: Field = Field::new(0, "AssociatedFile.name");
    const TYPE: Field = Field::new(2, "AssociatedFile.type");
    const LOCALE: Field = Field::new(3, "AssociatedFile.locale");
    let budget = Budget::of_file(metadata);
    let root = Table::root(metadata, &budget, IDENTIFIER)?;
    let graphs = root.tables(GRAPHS, |graph| {
        graph.tables(OUTPUTS, |tensor| {
            tensor.tables(FILES, |file| {
                let is_labels = file.scalar(TYPE, 0i8)? == AXIS_LABELS;
                let is_plain = file.string(LOCALE)?.is_none_or(|locale| locale.is_empty());
                Ok(file.string(NAME)?.filter(|_| is_labels && is_plain))
            })
        })
    })?;
    let files = graphs.into_iter().nth(graph).and_then(|outputs| outputs.into_iter().nth(output));
    Ok(files.into_iter().flatten().flatten().next())
}

/// The bytes of a file in the ZIP archive at the end of `bytes`, which is stored as it is or
/// deflated.
fn packed_file<'a>(bytes: &'a [u8], name: &str) -> Option<Cow<'a, [u8]>> {
    const STORED: usize = 0;
    const DEFLATED: usize = 8;
    const END: [u8; 4] = *b"PK\x05\x06";
    const END_BYTES: usize = 22;
    const ENTRY: [u8; 4] = *b"PK\x01\x02";
    const FILE: [u8; 4] = *b"PK\x03\x04";
    // The end record stands before a comment of 65,535 bytes at most.
    let first = bytes.len().saturating_sub(END_BYTES.saturating_add(0xFFFF));
    let tail = bytes.get(first..)?;
    let end = first.checked_add(tail.windows(END.len()).rposition(|window| window == END)?)?;
    let (size, offset) = (word(bytes, end, 12)?, word(bytes, end, 16)?);
    // Offsets count from the archive's start, which is the file's unless tools put more before it.
    let shift = end.checked_sub(size)?.checked_sub(offset)?;
    let mut at = shift.checked_add(offset)?;
    while bytes.get(at..at.checked_add(4)?)? == ENTRY {
        let method = half(bytes, at, 10)?;
        let length = word(bytes, at, 20)?;
        let (names, extra, comment) =
            (half(bytes, at, 28)?, half(bytes, at, 30)?, half(bytes, at, 32)?);
        let start = at.checked_add(46)?;
        let found = bytes.get(start..start.checked_add(names)?)?;
        if found == name.as_bytes() && matches!(method, STORED | DEFLATED) {
            let local = shift.checked_add(word(bytes, at, 42)?)?;
            if bytes.get(local..local.checked_add(4)?)? != FILE {
                return None;
            }
            let header = 30usize.checked_add(half(bytes, local, 26)?)?;
            let data = local.checked_add(header.checked_add(half(bytes, local, 28)?)?)?;
            let packed = bytes.get(data..data.checked_add(length)?)?;
            return match method {
                STORED => Some(Cow::Borrowed(packed)),
                _ => inflated(packed).map(Cow::Owned),
            };
        }
        at = start.checked_add(names)?.checked_add(extra)?.checked_add(comment)?;
    }
    None
}

/// The bytes of a deflated file; `None` if it is broken or becomes too large.
fn inflated(packed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let decoder = DeflateDecoder::new(packed);
    let count = decoder.take(MOST_BYTES.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    (u64::try_from(count).ok()? <= MOST_BYTES).then_some(bytes)
}

/// Two bytes at an offset from `at`.
fn half(bytes: &[u8], at: usize, offset: usize) -> Option<usize> {
    let at = at.checked_add(offset)?;
    let half: [u8; 2] = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(usize::from(u16::from_le_bytes(half)))
}

/// Four bytes at an offset from `at`.
fn word(bytes: &[u8], at: usize, offset: usize) -> Option<usize> {
    let at = at.checked_add(offset)?;
    let word: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(word)).ok()
}
