//! A part of an interpreter's graph as a model for a device.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use nnburst::hal::CACHE_TOKEN_BYTES;
use nnburst_tflite::{
    Contents, FileOperator, FileTensor, ImportError, ImportOptions, Imported, PartRequest,
    StatePair, TensorInfo, TensorKind,
};
use sha2::{Digest, Sha256};

use crate::host::{Host, Subset};
use crate::model_file::{HostFile, number};

/// The reasons why operators stay with the interpreter, by their index.
pub(crate) type Reasons = BTreeMap<usize, String>;

/// Tells parts apart whose models differ in anything, while this process runs.
pub(crate) type Key = [u8; CACHE_TOKEN_BYTES];

/// The model that all parts of a graph are imported from.
#[derive(Clone, Debug)]
pub(crate) struct GraphModel {
    pub(crate) model: Arc<HostFile>,
    pub(crate) import: ImportOptions,
    /// A hash of what tells the file from others while this process runs.
    identity: Key,
}

/// A part of the graph, imported for the shapes that its tensors have.
#[derive(Debug)]
pub(crate) struct GraphPart {
    pub(crate) source: GraphModel,
    pub(crate) subset: Subset,
    pub(crate) imported: Imported,
    /// The shapes of what comes in.
    shapes: Vec<(usize, Vec<u32>)>,
    /// True if nothing has these shapes yet.
    pub(crate) is_example: bool,
    pub(crate) key: Key,
}

/// A tensor of the host that is copied to an argument of the model, or from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) tensor: usize,
    pub(crate) argument: usize,
    pub(crate) bytes: usize,
}

/// Operators whose results have shapes that follow from values, and the first of these inputs.
const SHAPING: &[(&str, usize)] = &[
    ("BATCH_TO_SPACE_ND", 1),
    ("BROADCAST_TO", 1),
    ("EXPAND_DIMS", 1),
    ("FILL", 0),
    ("MIRROR_PAD", 1),
    ("ONE_HOT", 1),
    ("PAD", 1),
    ("PADV2", 1),
    ("RANGE", 0),
    ("RESHAPE", 1),
    ("RESIZE_BILINEAR", 1),
    ("RESIZE_NEAREST_NEIGHBOR", 1),
    ("SCATTER_ND", 2),
    ("SLICE", 1),
    ("SPACE_TO_BATCH_ND", 1),
    ("SPARSE_TO_DENSE", 1),
    ("STRIDED_SLICE", 1),
    ("TILE", 1),
    ("TOPK_V2", 1),
    ("TRANSPOSE", 1),
    ("UNIQUE", 0),
    ("WHERE", 0),
];

/// The code of custom operators in the format's `BuiltinOperator`.
const CUSTOM: i32 = 32;

impl GraphModel {
    pub(crate) fn new(model: HostFile, import: ImportOptions) -> Self {
        // Reading and hashing all of a file would take as long as compiling it.
        let status = model.file.file().and_then(|file| file.metadata().ok());
        let identity = match status {
            Some(status) => {
                let times =
                    [status.mtime(), status.mtime_nsec(), status.ctime(), status.ctime_nsec()];
                Sha256::digest(format!(
                    "{} {} {} {times:?}",
                    status.dev(),
                    status.ino(),
                    status.len()
                ))
            }
            // In memory, where they can be read.
            None => Sha256::digest(model.file.bytes().unwrap_or_default()),
        };
        Self { model: Arc::new(model), import, identity: identity.into() }
    }

    /// The name of an operator.
    pub(crate) fn name(&self, node: usize) -> &str {
        self.model.contents.operators.get(node).map_or("", |operator| &operator.name)
    }

    /// Returns whether the shapes of a node's tensors may be others than the file's: it leaves some
    /// open, or they follow from values that are computed.
    fn may_differ(&self, node: usize) -> bool {
        let known = |tensor| self.model.contents.tensors.get(tensor);
        let is_open = |tensor: &FileTensor| tensor.signature.contains(&0);
        if self.tensors_of(node).filter_map(known).any(is_open) {
            return true;
        }
        let Some(operator) = self.model.contents.operators.get(node) else { return false };
        let shaping = SHAPING.iter().find(|(name, _)| *name == operator.name);
        let first = shaping.map_or(usize::MAX, |&(_, first)| first);
        let mut inputs = operator.inputs.iter().skip(first).copied().flatten().filter_map(known);
        inputs.any(|tensor| tensor.data.is_none())
    }

    /// Shapes of tensors with larger extents in place of those that are open and 1; `None` where
    /// there are none. The first of several counts requests, for which one is as good as many.
    fn enlarged(&self, mut shapes: Vec<(usize, Vec<u32>)>) -> Option<Vec<(usize, Vec<u32>)>> {
        /// All of a tensor's that are enlarged, multiplied.
        const ELEMENTS: u32 = 1 << 16;
        let mut is_enlarged = false;
        for (tensor, shape) in &mut shapes {
            let signature = &self.model.contents.tensors.get(*tensor)?.signature;
            let first = usize::from(shape.len() > 1);
            let extents = shape.iter_mut().zip(signature).skip(first);
            let mut open: Vec<_> =
                extents.filter(|(extent, open)| (**extent, **open) == (1, 0)).collect();
            let each = ELEMENTS.ilog2().checked_div(u32::try_from(open.len()).ok()?);
            for (extent, _) in &mut open {
                **extent = 1 << each?;
                is_enlarged = true;
            }
        }
        is_enlarged.then_some(shapes)
    }

    /// Returns whether a tensor has no dimension. Of the outputs of custom operators the file often
    /// says nothing, and those of TFLite have at least one.
    pub(crate) fn is_scalar(&self, tensor: usize) -> bool {
        let Contents { tensors, operators, .. } = &self.model.contents;
        let is_custom =
            |operator: &FileOperator| operator.code == CUSTOM && operator.outputs.contains(&tensor);
        tensors.get(tensor).is_some_and(|known| known.shape.is_empty())
            && !operators.iter().any(is_custom)
    }

    /// Tensors that a node reads, then those that it writes.
    pub(crate) fn tensors_of(&self, node: usize) -> impl Iterator<Item = usize> {
        let operator = self.model.contents.operators.get(node);
        let inputs = operator.into_iter().flat_map(|operator| operator.inputs.iter().flatten());
        let outputs = operator.into_iter().flat_map(|operator| &operator.outputs);
        inputs.chain(outputs).copied()
    }
}

impl GraphPart {
    /// Imports the nodes of a subset for the shapes that what comes in has now, from which the
    /// others follow.
    ///
    /// Of a file that leaves extents open those are 1 until inputs are resized, which may be too
    /// few for a window. Then larger ones say whether the nodes can be taken.
    ///
    /// # Errors
    /// The operators that are in the way, with the reason of each.
    pub(crate) fn choose(
        source: &GraphModel,
        host: &Host,
        subset: &Subset,
    ) -> Result<Self, Reasons> {
        Self::import(source, host, subset).or_else(|reasons| {
            let enlarged = source.enlarged(shapes_of(host, &subset.inputs));
            let part = enlarged.map(|shapes| Self::import_for(source, host, subset, shapes));
            let part = part.and_then(Result::ok).ok_or(reasons)?;
            Ok(Self { is_example: true, ..part })
        })
    }

    /// The same for the shapes that there are.
    fn import(source: &GraphModel, host: &Host, subset: &Subset) -> Result<Self, Reasons> {
        Self::import_for(source, host, subset, shapes_of(host, &subset.inputs))
    }

    fn import_for(
        source: &GraphModel,
        host: &Host,
        subset: &Subset,
        shapes: Vec<(usize, Vec<u32>)>,
    ) -> Result<Self, Reasons> {
        let Subset { nodes: operators, inputs, outputs } = subset;
        // The host's shapes of the rest are the file's until kernels are prepared.
        let infer_shapes = operators.iter().any(|&node| source.may_differ(node));
        let request = PartRequest { operators, shapes: &shapes, inputs, outputs, infer_shapes };
        let imported = source.model.file.part(&request, source.import);
        let imported = imported.map_err(|error| reasons(&error, subset))?;
        let key = key(source, source.identity, subset, &shapes);
        let (source, subset) = (source.clone(), subset.clone());
        let part = Self { source, subset, imported, shapes, is_example: false, key };
        let in_the_way = part.unfit_arguments(host);
        if in_the_way.is_empty() { Ok(part) } else { Err(in_the_way) }
    }

    /// Imports the same nodes where what comes in has other shapes now; `None` where they are
    /// those of this part.
    ///
    /// # Errors
    /// As for [`GraphPart::import`].
    pub(crate) fn reshaped(&self, host: &Host) -> Result<Option<Self>, Reasons> {
        if shapes_of(host, &self.subset.inputs) == self.shapes {
            return Ok(None);
        }
        Self::import(&self.source, host, &self.subset).map(Some)
    }

    /// Tells the part from all others that there ever are, by the bytes of the file: for a cache.
    /// `None` where they can't be read any more.
    pub(crate) fn lasting_key(&self) -> Option<Key> {
        let digest = Sha256::digest(self.source.model.file.bytes().ok()?).into();
        Some(key(&self.source, digest, &self.subset, &self.shapes))
    }

    /// The variables with a name, which no tensor of the interpreter holds.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &StatePair> {
        self.imported.states.iter().filter(|state| state.variable.is_some())
    }

    /// The variables that are tensors of the interpreter.
    fn tensor_states(&self) -> impl Iterator<Item = &StatePair> {
        self.imported.states.iter().filter(|state| state.variable.is_none())
    }

    /// The tensors that the model takes, the variables among them.
    pub(crate) fn inputs(&self) -> Vec<Transfer> {
        let states = self.tensor_states().map(|state| (state.input, &state.info));
        transfers(self.imported.inputs.iter().enumerate().chain(states))
    }

    /// The tensors that the model gives, the variables among them.
    pub(crate) fn outputs(&self) -> Vec<Transfer> {
        let states = self.tensor_states().map(|state| (state.output, &state.info));
        transfers(self.imported.outputs.iter().enumerate().chain(states))
    }

    /// Operators at arguments that can't be copied between the interpreter and the model.
    fn unfit_arguments(&self, host: &Host) -> Reasons {
        let mut reasons = Reasons::new();
        let Imported { inputs, outputs, .. } = &self.imported;
        let arguments = inputs.iter().chain(self.tensor_states().map(|state| &state.info));
        let arguments = arguments.map(|info| (info, unfit(info)));
        let results = outputs.iter().map(|info| (info, unfit(info).or_else(|| other(host, info))));
        for (info, why) in arguments.chain(results) {
            if let Some(why) = why {
                let uses = |node: &&usize| {
                    self.source.tensors_of(**node).any(|tensor| tensor == info.tensor)
                };
                let users = self.subset.nodes.iter().filter(uses);
                reasons.extend(users.map(|&node| (node, why.clone())));
                if reasons.is_empty() {
                    reasons = all(&self.subset, &why);
                }
            }
        }
        reasons
    }
}

/// Why a tensor can't be copied as it is.
fn unfit(info: &TensorInfo) -> Option<String> {
    let TensorInfo { name, file_kind, dims, .. } = info;
    match (info.byte_len(), element_bytes(info)) {
        (None, _) if dims.contains(&0) => {
            Some(format!("{name} has no elements, or a shape that is known at run time alone"))
        }
        (None, _) => Some(format!("the shape of {name} is known at run time alone")),
        (Some(0), _) => Some(format!("{name} has no elements")),
        (Some(bytes), Some(expected)) if bytes != expected => {
            Some(format!("{} of {name} is a {} on this device", file_kind.name(), info.kind))
        }
        _ => None,
    }
}

/// Why the interpreter can't hold a result, whose type its own operator would have changed.
fn other(host: &Host, info: &TensorInfo) -> Option<String> {
    let (theirs, ours) = (host.tensor(info.tensor)?.kind, number(info.file_kind)?);
    let TensorInfo { name, file_kind, .. } = info;
    (theirs != ours).then(|| format!("{name} is no {} in the interpreter", file_kind.name()))
}

/// Bytes of the tensor as the interpreter has it; `None` where its type has no fixed size.
fn element_bytes(info: &TensorInfo) -> Option<usize> {
    use TensorKind as Kind;
    let each = match info.file_kind {
        Kind::Bool | Kind::Int8 | Kind::Uint8 => 1,
        Kind::Float16 | Kind::Bfloat16 | Kind::Int16 | Kind::Uint16 => 2,
        Kind::Float32 | Kind::Int32 | Kind::Uint32 => 4,
        Kind::Float64 | Kind::Int64 | Kind::Uint64 | Kind::Complex64 => 8,
        _ => return None,
    };
    let mut extents = info.dims.iter().map(|&extent| usize::try_from(extent).ok());
    extents.try_fold(each, |bytes: usize, extent| bytes.checked_mul(extent?))
}

fn transfers<'a>(arguments: impl Iterator<Item = (usize, &'a TensorInfo)>) -> Vec<Transfer> {
    let transfer = |(argument, info): (usize, &TensorInfo)| Transfer {
        tensor: info.tensor,
        argument,
        bytes: info.byte_len().unwrap_or(0),
    };
    arguments.map(transfer).collect()
}

/// The shapes of tensors that are no constants.
fn shapes_of(host: &Host, tensors: &[usize]) -> Vec<(usize, Vec<u32>)> {
    let shape = |&index: &usize| {
        let tensor = host.tensor(index)?;
        (!tensor.is_constant).then_some((index, tensor.dims))
    };
    tensors.iter().filter_map(shape).collect()
}

/// The operators that an error of the import is about: all, where it doesn't say.
fn reasons(error: &ImportError, subset: &Subset) -> Reasons {
    match error {
        ImportError::Unsupported { operators } => {
            operators.iter().map(|operator| (operator.index, operator.why.clone())).collect()
        }
        other => all(subset, &other.to_string()),
    }
}

fn all(subset: &Subset, why: &str) -> Reasons {
    subset.nodes.iter().map(|&node| (node, why.to_owned())).collect()
}

fn key(source: &GraphModel, of_file: Key, subset: &Subset, shapes: &[(usize, Vec<u32>)]) -> Key {
    let mut hash = Sha256::new();
    hash.update(env!("CARGO_PKG_VERSION"));
    hash.update(of_file);
    hash.update(format!("{} {:?}", source.model.contents.graph, source.import));
    // Their text says where one list ends.
    hash.update(format!("{subset:?} {shapes:?}"));
    hash.finalize().into()
}
