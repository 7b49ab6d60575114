//! The description of a file: what it holds, whether or not that can be imported.

use std::ops::Range;

use crate::file_bytes::FileBytes;
use crate::flatbuffer::{Budget, FormatError};
use crate::schema::options::call_once;
use crate::schema::{Builtin, File, MetadataEntry, Operator, Signature, Tensor, TensorKind};

/// The contents of a .tflite file. Tensors and operators are those of one of its graphs: the first,
/// or that of a signature ([`ModelFile::signature`](crate::ModelFile::signature)).
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The file's own description.
    pub description: String,
    /// The number of graphs.
    pub graphs: usize,
    /// The graph that tensors and operators are of, an index.
    pub graph: usize,
    /// The tensors, by their index.
    pub tensors: Vec<FileTensor>,
    /// The graph's inputs, as indices of tensors.
    pub inputs: Vec<usize>,
    /// The graph's outputs, as indices of tensors.
    pub outputs: Vec<usize>,
    /// The operators in the order of execution.
    pub operators: Vec<FileOperator>,
    /// The ways to call the file's graphs.
    pub signatures: Vec<Signature>,
    /// Bytes that the file carries under a name.
    pub metadata: Vec<MetadataEntry>,
    /// True if no other graph uses variables with a name, but to initialise those of this one
    /// (CALL_ONCE).
    pub has_own_variables: bool,
}

/// A tensor as the file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct FileTensor {
    /// Its name.
    pub name: String,
    /// The place in the file of its name; empty where it has none.
    pub name_range: Range<usize>,
    /// The type of its elements.
    pub kind: TensorKind,
    /// Extents; 0 where one is unknown. Empty for a scalar.
    pub shape: Vec<u32>,
    /// Extents of which those that may change are 0; empty where none may.
    pub signature: Vec<u32>,
    /// One quantisation scale, or one per channel; empty where the tensor is not quantised.
    pub scales: Vec<f32>,
    /// The stored values that stand for 0, as many as scales, or none.
    pub zero_points: Vec<i64>,
    /// The dimension that counts channels, where there are several scales.
    pub channel_dimension: i32,
    /// Elements along the last dimension that share a scale, where scales are those of blocks; 0
    /// else.
    pub block_size: i32,
    /// The place in the file of the value of a constant.
    pub data: Option<Range<usize>>,
    /// True if the value is kept from one execution to the next.
    pub is_variable: bool,
}

/// An operator as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOperator {
    /// Its number in the format's `BuiltinOperator`; 32 for custom operators.
    pub code: i32,
    /// Its name, such as `PACK`; that of a custom operator stands behind `CUSTOM`.
    pub name: String,
    /// The version of its semantics.
    pub version: i32,
    /// The input tensors; `None` where an optional one is left out.
    pub inputs: Vec<Option<usize>>,
    /// The output tensors.
    pub outputs: Vec<usize>,
}

impl Contents {
    pub(crate) fn read(bytes: &FileBytes, graph: usize) -> Result<Self, FormatError> {
        let budget = Budget::of_file(bytes);
        let mut file = File::parse(bytes, &budget)?;
        let (signatures, metadata) = file.notes(&budget)?;
        let graphs = file.graphs.len();
        let has_own_variables = has_own_variables(&file, &signatures, graph)?;
        // The reader gives no file without a graph, and no signature without its own.
        let (number, graph) = (graph, file.graphs.swap_remove(graph.min(graphs - 1)));
        let tensors = graph.tensors.into_iter().map(|tensor| FileTensor::new(tensor, &file));
        let tensors = tensors.collect();
        let operators = graph.operators.into_iter().map(|operator| {
            let code = &file.codes[operator.code];
            FileOperator {
                code: code.builtin.number(),
                name: code.name(),
                version: code.version,
                inputs: operator.inputs,
                outputs: operator.outputs,
            }
        });
        let operators = operators.collect();
        Ok(Self {
            description: file.description,
            graphs,
            graph: number,
            tensors,
            inputs: graph.inputs,
            outputs: graph.outputs,
            operators,
            signatures,
            metadata,
            has_own_variables,
        })
    }
}

fn has_own_variables(
    file: &File<'_>,
    signatures: &[Signature],
    graph: usize,
) -> Result<bool, FormatError> {
    let mut initialising = Vec::new();
    for operator in file.graphs.get(graph).into_iter().flat_map(|graph| &graph.operators) {
        if file.codes[operator.code].builtin == Builtin::CallOnce {
            let options = operator.options.of(call_once::KIND)?;
            initialising.extend(usize::try_from(options.int(call_once::GRAPH, 0)?));
        }
    }
    let others = file.graphs.iter().enumerate();
    // What callers can run by a name is more than initialising.
    let is_named = |at: usize| signatures.iter().any(|signature| signature.graph == at);
    let only_initialises = |at: usize| initialising.contains(&at) && !is_named(at);
    let mut others = others.filter(|&(at, _)| at != graph && !only_initialises(at));
    // A handle may also be given to a graph.
    let uses = |operator: &Operator<'_>| {
        use Builtin::{AssignVariable, ReadVariable, VarHandle};
        matches!(file.codes[operator.code].builtin, VarHandle | ReadVariable | AssignVariable)
    };
    Ok(!others.any(|(_, graph)| graph.operators.iter().any(uses)))
}

impl FileTensor {
    fn new(tensor: Tensor, file: &File<'_>) -> Self {
        let data = file.range(&tensor);
        Self {
            name: tensor.name,
            name_range: tensor.name_range,
            kind: tensor.kind,
            shape: tensor.shape,
            signature: tensor.signature,
            block_size: tensor.quantization.blockwise.map_or(0, |blockwise| blockwise.block),
            scales: tensor.quantization.scales,
            zero_points: tensor.quantization.zero_points,
            channel_dimension: tensor.quantization.dimension,
            data,
            is_variable: tensor.is_variable,
        }
    }
}
