//! The file that an interpreter's graph was read from.
//!
//! ```text
//!   names and constants of tensors ─► the mapping that they lie in
//!        │ a file from its first byte ─► the file itself, opened again: weights are not copied
//!        └ any other memory ─► searched backwards for the file's beginning, and copied
//! ```
//!
//! A delegate gets structs that the interpreter made of the file, not the file. But the interpreter
//! copies neither names nor constants, so their addresses lie in the file. What is found is
//! compared with the structs, address by address, before it is used.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use nnburst_tflite::{Contents, ImportError, ModelFile, TensorKind};

use crate::host::{Host, HostTensor};
use crate::maps::{Mapping, OwnMemory};

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    #[error("the memory of this process can't be read: {0}")]
    Memory(#[from] std::io::Error),
    #[error("the model is not found in memory; name its file by the option `model`")]
    NotFound,
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: ImportError },
    #[error("{}: not the interpreter's model: {why}", .path.display())]
    Another { path: PathBuf, why: Difference },
    #[error("the graph is neither the first of its file nor that of a signature: {0}")]
    OtherGraph(Difference),
}

/// A difference between a file's graph and the interpreter's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Difference {
    #[error("it has {file} tensors, the interpreter {host}")]
    Tensors { file: usize, host: usize },
    #[error("tensor {index} {name} has another type")]
    Type { index: usize, name: String },
    #[error("the value of tensor {index} {name} lies elsewhere")]
    Place { index: usize, name: String },
    #[error("tensor {index} {name} is another")]
    Name { index: usize, name: String },
    #[error("operator {0} is another")]
    Operator(usize),
    #[error("its bytes are others")]
    Bytes,
}

/// A model's file with what it holds.
#[derive(Debug)]
pub(crate) struct HostFile {
    pub(crate) file: ModelFile,
    pub(crate) contents: Contents,
}

impl HostFile {
    fn of(file: ModelFile) -> Result<Self, ImportError> {
        Ok(Self { contents: file.contents()?, file })
    }

    /// The model of an interpreter's graph; `named` is its file where the user gave it.
    ///
    /// # Errors
    /// [`FindError`].
    pub(crate) fn find(host: &Host, named: Option<&Path>) -> Result<Self, FindError> {
        let tensors = host.tensors();
        if let Some(path) = named {
            return Self::named(path, host, &tensors);
        }
        let anchors = Anchors::of(&tensors, &Mapping::all()?).ok_or(FindError::NotFound)?;
        if anchors.mapping.offset == 0
            && let Some(path) = anchors.mapping.file()
            && let Ok(model) = ModelFile::open(path).and_then(Self::of)
            // Not replaced before it was opened.
            && anchors.mapping.file().is_some()
        {
            let base = anchors.mapping.range.start;
            return model.with_graph(host, &tensors, Some(base)).map_err(FindError::OtherGraph);
        }
        Self::in_memory(&anchors, host, &tensors)
    }

    fn named(path: &Path, host: &Host, tensors: &[HostTensor]) -> Result<Self, FindError> {
        let path = || path.to_owned();
        let model = ModelFile::open(path()).and_then(Self::of);
        let model = model.map_err(|error| FindError::File { path: path(), error })?;
        let another = |why| FindError::Another { path: path(), why };
        let pairs = tensors.iter().zip(&model.contents.tensors);
        let base = pairs
            .filter(|(tensor, _)| tensor.is_constant)
            .find_map(|(tensor, known)| tensor.data.checked_sub(known.data.as_ref()?.start));
        let model = model.with_graph(host, tensors, base).map_err(another)?;
        if let Some(base) = base {
            let bytes = model.file.bytes();
            let bytes = bytes.map_err(|error| FindError::File { path: path(), error })?;
            let end = base.saturating_add(bytes.len());
            if OwnMemory::open()?.read(base..end).ok().as_deref() != Some(bytes) {
                return Err(another(Difference::Bytes));
            }
        }
        Ok(model)
    }

    /// The model in memory that is no file's mapping: where the file ends nobody knows, so that
    /// what is copied may be longer.
    fn in_memory(
        anchors: &Anchors,
        host: &Host,
        tensors: &[HostTensor],
    ) -> Result<Self, FindError> {
        let memory = OwnMemory::open()?;
        let mapping = &anchors.mapping.range;
        let mut difference = None;
        for start in beginnings(&memory, mapping.start..anchors.range.start)? {
            let known = anchors.range.end - start;
            // Tables behind the last constant are no longer than what is before it, by far.
            let mut end = anchors.range.end.saturating_add(known.max(LEAST_BEHIND));
            loop {
                end = end.min(mapping.end);
                let model = Self::of(ModelFile::from_bytes(memory.read(start..end)?));
                match model.map(|model| model.with_graph(host, tensors, Some(start))) {
                    Ok(Ok(model)) => return Ok(model),
                    Ok(Err(why)) => difference = Some(why),
                    Err(_) if end < mapping.end => {
                        end = end.saturating_add(end - start);
                        continue;
                    }
                    Err(_) => {}
                }
                break;
            }
        }
        Err(difference.map_or(FindError::NotFound, FindError::OtherGraph))
    }

    /// The same with the graph of the interpreter's: the first one, or that of a signature. `base`
    /// is where the file's first byte lies.
    ///
    /// # Errors
    /// How the first one differs.
    fn with_graph(
        self,
        host: &Host,
        tensors: &[HostTensor],
        base: Option<usize>,
    ) -> Result<Self, Difference> {
        let Err(why) = self.compare(host, tensors, base) else { return Ok(self) };
        let mut others = self.contents.signatures.iter().filter_map(|signature| {
            let of_signature = self.file.signature(&signature.key).and_then(Self::of).ok()?;
            of_signature.compare(host, tensors, base).is_ok().then_some(of_signature)
        });
        others.next().ok_or(why)
    }

    /// Compares the graph with the interpreter's; `base` is where the file's first byte lies.
    fn compare(
        &self,
        host: &Host,
        tensors: &[HostTensor],
        base: Option<usize>,
    ) -> Result<(), Difference> {
        let known = &self.contents.tensors;
        if known.len() > tensors.len() {
            return Err(Difference::Tensors { file: known.len(), host: tensors.len() });
        }
        // Those of what operators compute are the interpreter's to change.
        let operators = &self.contents.operators;
        let computed: HashSet<usize> =
            operators.iter().flat_map(|operator| &operator.outputs).copied().collect();
        for (index, (known, tensor)) in known.iter().zip(tensors).enumerate() {
            let is_another = number(known.kind).is_some_and(|kind| kind != tensor.kind);
            if is_another && !computed.contains(&index) {
                return Err(Difference::Type { index, name: known.name.clone() });
            }
            // Graphs of several signatures may be alike but for what their tensors are called.
            let name = base.map(|base| base + known.name_range.start);
            let has_name = !known.name_range.is_empty() && tensor.name != 0;
            if has_name && name.is_some_and(|name| name != tensor.name) {
                return Err(Difference::Name { index, name: known.name.clone() });
            }
            let place = base.zip(known.data.as_ref()).map(|(base, data)| base + data.start);
            if tensor.is_constant && place.is_some_and(|place| place != tensor.data) {
                return Err(Difference::Place { index, name: known.name.clone() });
            }
        }
        let nodes = host.execution_plan().unwrap_or_default();
        // Nodes behind those of the file are of delegates that came before.
        for index in nodes.into_iter().filter(|&index| index < self.contents.operators.len()) {
            if !self.is_node(host, index) {
                return Err(Difference::Operator(index));
            }
        }
        Ok(())
    }

    fn is_node(&self, host: &Host, index: usize) -> bool {
        let (Some(known), Ok(node)) = (self.contents.operators.get(index), host.node(index)) else {
            return false;
        };
        let mut outputs = known.outputs.iter().map(|&output| Some(output));
        node.code == known.code
            && node.inputs == known.inputs
            && node.outputs.len() == known.outputs.len()
            && node.outputs.iter().all(|&output| outputs.next() == Some(output))
    }
}

/// The least room for tables behind the last constant.
const LEAST_BEHIND: usize = 1 << 20;

/// The addresses of a graph that lie in its file.
#[derive(Debug)]
struct Anchors {
    mapping: Mapping,
    range: Range<usize>,
}

impl Anchors {
    /// `None` where the graph has neither names nor constants.
    fn of(tensors: &[HostTensor], mappings: &[Mapping]) -> Option<Self> {
        let mut found: BTreeMap<usize, Vec<Range<usize>>> = BTreeMap::new();
        let names = tensors.iter().map(|tensor| tensor.name..tensor.name.saturating_add(1));
        let constants = tensors.iter().filter(|tensor| tensor.is_constant && tensor.bytes > 0);
        let constants =
            constants.map(|tensor| tensor.data..tensor.data.saturating_add(tensor.bytes));
        for range in constants.chain(names) {
            let holds = |mapping: &Mapping| mapping.range.contains(&range.start);
            if let Some(at) = mappings.iter().position(holds) {
                found.entry(at).or_default().push(range);
            }
        }
        // Some may lie elsewhere: an empty name is a constant of the host's program.
        let (at, ranges) = found.into_iter().max_by_key(|(_, ranges)| ranges.len())?;
        let start = ranges.iter().map(|range| range.start).min()?;
        let end = ranges.iter().map(|range| range.end).max()?;
        Some(Self { mapping: mappings.get(at)?.clone(), range: start..end })
    }
}

/// Addresses of a range at which a file may begin, the last first.
fn beginnings(memory: &OwnMemory, range: Range<usize>) -> std::io::Result<Vec<usize>> {
    const CHUNK: usize = 1 << 20;
    let mut found = Vec::new();
    let mut end = range.end;
    while end > range.start && found.len() < MOST_BEGINNINGS {
        let start = end.saturating_sub(CHUNK).max(range.start);
        // The identifier may lie across the end of a chunk.
        let until = end.saturating_add(IDENTIFIER.len() - 1).min(range.end);
        let bytes = memory.read(start..until)?;
        let places = bytes.windows(IDENTIFIER.len()).enumerate().rev();
        let places = places.filter(|(_, window)| *window == IDENTIFIER).map(|(at, _)| start + at);
        found.extend(places.filter_map(|at| at.checked_sub(4).filter(|at| *at >= range.start)));
        end = start;
    }
    Ok(found)
}

/// The bytes of a .tflite file from the fifth on.
const IDENTIFIER: &[u8] = b"TFL3";
/// More are not tried: memory may be full of models.
const MOST_BEGINNINGS: usize = 64;

/// The number of a type in `TfLiteType`, which is not that of the file; `None` for types that
/// neither has a use for here.
pub(crate) fn number(kind: TensorKind) -> Option<i32> {
    Some(match kind {
        TensorKind::Float32 => 1,
        TensorKind::Int32 => 2,
        TensorKind::Uint8 => 3,
        TensorKind::Int64 => 4,
        TensorKind::String => 5,
        TensorKind::Bool => 6,
        TensorKind::Int16 => 7,
        TensorKind::Complex64 => 8,
        TensorKind::Int8 => 9,
        TensorKind::Float16 => 10,
        TensorKind::Float64 => 11,
        _ => return None,
    })
}
