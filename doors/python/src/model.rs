//! Models as Python objects: .tflite files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nnburst_tflite::{Contents, FileTensor, ImportOptions, Imported, ModelFile};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use sha2::{Digest, Sha256};

use crate::dtype;
use crate::error::{Error, OrRaise};

/// A .tflite file.
#[pyclass(name = "Model", frozen, module = "nnburst")]
pub(crate) struct PyModel {
    file: Arc<OpenFile>,
}

/// The code of custom operators in the format's `BuiltinOperator`.
const CUSTOM: i32 = 32;

/// Tensors by their names in a signature.
type NamedTensors = Vec<(String, usize)>;

/// A file with the shapes that its inputs were given.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: Mutex<Shaped>,
    pub(crate) contents: Contents,
}

#[derive(Debug)]
struct Shaped {
    file: ModelFile,
    resized: Vec<(Input, Vec<u32>)>,
}

/// An input of a model.
#[derive(Debug, PartialEq, Eq, FromPyObject)]
enum Input {
    Index(usize),
    Name(String),
}

impl OpenFile {
    fn new(file: ModelFile) -> Result<Self, Error> {
        let contents = file.contents()?;
        Ok(Self { file: Mutex::new(Shaped { file, resized: Vec::new() }), contents })
    }

    /// Imports the file for a device with the extension of TFLite's operators, or without; with
    /// `keep_tensors` all that operators compute is an output.
    pub(crate) fn import(&self, extension: bool, keep_tensors: bool) -> Result<Imported, Error> {
        let contents = &self.contents;
        let shared_variables = contents.signatures.iter().any(|it| it.graph != contents.graph);
        let options = ImportOptions {
            extension,
            file_types: true,
            keep_tensors,
            shared_variables,
            ..ImportOptions::default()
        };
        Ok(self.lock().file.import(options)?)
    }

    /// For each tensor, whether it has no dimension. Of the outputs of custom operators the file
    /// often says nothing, and those of TFLite have at least one.
    pub(crate) fn scalars(&self) -> Vec<bool> {
        let is_empty = |tensor: &FileTensor| tensor.shape.is_empty();
        let mut scalars: Vec<_> = self.contents.tensors.iter().map(is_empty).collect();
        let custom = self.contents.operators.iter().filter(|operator| operator.code == CUSTOM);
        for &output in custom.flat_map(|operator| &operator.outputs) {
            if let Some(scalar) = scalars.get_mut(output) {
                *scalar = false;
            }
        }
        scalars
    }

    /// The sha-256 of the file, of the graph, and of the shapes that its inputs were given.
    pub(crate) fn digest(&self) -> Result<[u8; 32], Error> {
        let shaped = self.lock();
        let mut digest = Sha256::new_with_prefix(shaped.file.bytes()?);
        digest.update(format!("{} {:?}", self.contents.graph, shaped.resized));
        Ok(digest.finalize().into())
    }

    fn lock(&self) -> MutexGuard<'_, Shaped> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PyModel {
    pub(crate) fn file(&self) -> Arc<OpenFile> {
        Arc::clone(&self.file)
    }

    fn infos(&self, tensors: &[usize]) -> Vec<TensorInfo> {
        let tensor = |&index: &usize| {
            let tensor = self.file.contents.tensors.get(index)?.clone();
            Some(TensorInfo { index, tensor })
        };
        tensors.iter().filter_map(tensor).collect()
    }
}

#[pymethods]
impl PyModel {
    /// Reads a file.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "as Python gives it")]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = || OpenFile::new(ModelFile::open(&path)?);
        let file = py.detach(read).map_err(|error| error.of_file(&path));
        Ok(Self { file: Arc::new(file.or_raise(py)?) })
    }

    /// Takes the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, content: Vec<u8>) -> PyResult<Self> {
        let read = || OpenFile::new(ModelFile::from_bytes(content));
        Ok(Self { file: Arc::new(py.detach(read).or_raise(py)?) })
    }

    /// The file's own description.
    #[getter]
    fn description(&self) -> &str {
        &self.file.contents.description
    }

    /// The inputs, in their order.
    #[getter]
    fn inputs(&self) -> Vec<TensorInfo> {
        self.infos(&self.file.contents.inputs)
    }

    /// The outputs, in their order.
    #[getter]
    fn outputs(&self) -> Vec<TensorInfo> {
        self.infos(&self.file.contents.outputs)
    }

    /// The number of graphs in the file.
    #[getter]
    fn subgraphs(&self) -> usize {
        self.file.contents.graphs
    }

    /// The graph that is computed: the first one, or that of a signature.
    #[getter]
    fn subgraph(&self) -> usize {
        self.file.contents.graph
    }

    /// The same file, of which the graph of a signature is computed, in the shapes of the file.
    fn signature(&self, py: Python<'_>, key: &str) -> PyResult<Self> {
        let chosen = self.file.lock().file.signature(key);
        let file = chosen.map_err(Error::from).and_then(OpenFile::new);
        Ok(Self { file: Arc::new(file.or_raise(py)?) })
    }

    /// All tensors of the graph, by their index.
    #[getter]
    fn tensors(&self) -> Vec<TensorInfo> {
        self.infos(&(0..self.file.contents.tensors.len()).collect::<Vec<_>>())
    }

    /// The operators in the order of execution: name, input tensors (-1 where one is left out) and
    /// output tensors.
    #[getter]
    fn operators(&self) -> Vec<(String, Vec<i64>, Vec<usize>)> {
        let number = |tensor: &Option<usize>| {
            tensor.and_then(|tensor| i64::try_from(tensor).ok()).unwrap_or(-1)
        };
        let operators = self.file.contents.operators.iter().map(|operator| {
            let inputs = operator.inputs.iter().map(number).collect();
            (operator.name.clone(), inputs, operator.outputs.clone())
        });
        operators.collect()
    }

    /// The signatures: name, inputs and outputs, each as name and tensor, and the number of the
    /// graph that they are of.
    #[getter]
    fn signatures(&self) -> Vec<(String, NamedTensors, NamedTensors, usize)> {
        let tensors = |tensors: &[nnburst_tflite::SignatureTensor]| {
            tensors.iter().map(|tensor| (tensor.name.clone(), tensor.tensor)).collect()
        };
        let signatures =
            self.file.contents.signatures.iter().map(|one| {
                (one.key.clone(), tensors(&one.inputs), tensors(&one.outputs), one.graph)
            });
        signatures.collect()
    }

    /// The names of an output's classes, where the file packs them.
    #[pyo3(signature = (output=0))]
    fn labels(&self, py: Python<'_>, output: usize) -> PyResult<Option<Vec<String>>> {
        self.file.lock().file.labels(output).or_raise(py)
    }

    /// Gives an input another shape in later compilations. It is known by its name, or by its
    /// tensor's index, with which the number of dimensions may change, too.
    fn resize(&self, py: Python<'_>, input: Input, shape: Vec<u32>) -> PyResult<()> {
        let mut shaped = self.file.lock();
        let resized = match &input {
            Input::Index(tensor) => shaped.file.resize_tensor(*tensor, &shape),
            Input::Name(name) => shaped.file.resize(name, &shape),
        };
        resized.or_raise(py)?;
        shaped.resized.retain(|(known, _)| *known != input);
        shaped.resized.push((input, shape));
        Ok(())
    }

    /// The bytes of a constant; `None` for a tensor that is none.
    fn constant<'py>(
        &self,
        py: Python<'py>,
        tensor: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let known = self.file.contents.tensors.get(tensor);
        let Some(range) = known.and_then(|tensor| tensor.data.clone()) else { return Ok(None) };
        let shaped = self.file.lock();
        let bytes = shaped.file.bytes_at(range).map_err(Error::from).or_raise(py)?;
        Ok(bytes.map(|bytes| PyBytes::new(py, bytes)))
    }

    fn __repr__(&self) -> String {
        let Contents { inputs, outputs, operators, .. } = &self.file.contents;
        let (inputs, outputs, operators) = (inputs.len(), outputs.len(), operators.len());
        format!("<nnburst.Model {inputs} inputs, {outputs} outputs, {operators} operators>")
    }
}

/// A tensor as the file describes it.
#[pyclass(frozen, module = "nnburst")]
pub(crate) struct TensorInfo {
    /// The tensor's index in the graph.
    #[pyo3(get)]
    index: usize,
    tensor: FileTensor,
}

#[pymethods]
impl TensorInfo {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.tensor.name
    }

    /// The element type as numpy has it.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("dtype", (dtype::of_file(self.tensor.kind),))
    }

    /// The element type in the words of the format, such as `INT8`.
    #[getter]
    #[pyo3(name = "type")]
    fn kind(&self) -> &'static str {
        self.tensor.kind.name()
    }

    /// The extents; 0 where one is unknown.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.tensor.shape)
    }

    /// The extents, -1 for those that may change.
    #[getter]
    fn shape_signature<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let FileTensor { shape, signature, .. } = &self.tensor;
        let signature = if signature.is_empty() { shape } else { signature };
        let is_open = |extent: u32| extent == 0 && !self.tensor.signature.is_empty();
        let extents =
            signature.iter().map(|&extent| if is_open(extent) { -1 } else { i64::from(extent) });
        PyTuple::new(py, extents.collect::<Vec<_>>())
    }

    /// One quantisation scale, or one per channel; empty where the tensor is not quantised.
    #[getter]
    fn scales(&self) -> Vec<f32> {
        self.tensor.scales.clone()
    }

    /// The stored values that stand for 0, as many as scales.
    #[getter]
    fn zero_points(&self) -> Vec<i64> {
        self.tensor.zero_points.clone()
    }

    /// The dimension that counts channels, where there are several scales.
    #[getter]
    fn channel_dimension(&self) -> i32 {
        self.tensor.channel_dimension
    }

    /// Elements along the last dimension that share a scale, where scales are those of blocks; 0
    /// else.
    #[getter]
    fn block_size(&self) -> i32 {
        self.tensor.block_size
    }

    /// True if the value is kept from one execution to the next.
    #[getter]
    fn is_variable(&self) -> bool {
        self.tensor.is_variable
    }

    /// True if the value lies in the file.
    #[getter]
    fn is_constant(&self) -> bool {
        self.tensor.data.is_some()
    }

    fn __repr__(&self) -> String {
        let FileTensor { name, kind, shape, .. } = &self.tensor;
        format!("<nnburst.TensorInfo {name} {} {shape:?}>", kind.name())
    }
}
