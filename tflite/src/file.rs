//! A .tflite file in memory, from which models are imported: all of it, or some of its operators.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File as OsFile;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use nnburst_hal::{Memory, Model, Operand, OperandLifeTime, Version, validate_model};

use crate::contents::Contents;
use crate::entry::Entry;
use crate::error::ImportError;
use crate::file_bytes::FileBytes;
use crate::finish::{Parts, extensions};
use crate::flatbuffer::Budget;
use crate::list_items;
use crate::lower::{Import, batched_inputs, lower_all};
use crate::model::{ImportOptions, Imported};
use crate::packed_files;
use crate::registry::CustomOperators;
use crate::reshape::{open_graphs, reshape};
use crate::schema::{File, Graph};

/// A .tflite file in memory.
///
/// ```no_run
/// use nnburst_tflite::{ImportOptions, ModelFile, PartRequest};
///
/// let file = ModelFile::open("mobilenet.tflite")?;
/// // Operators 3 and 4, as a delegate of an interpreter has them.
/// let shapes = [(7, vec![1, 112, 112, 8])];
/// let request = PartRequest {
///     operators: &[3, 4],
///     shapes: &shapes,
///     inputs: &[7],
///     outputs: &[9],
///     ..PartRequest::default()
/// };
/// let part = file.part(&request, ImportOptions::default())?;
/// assert_eq!(part.inputs[0].tensor, 7);
/// # Ok::<(), nnburst_tflite::ImportError>(())
/// ```
#[derive(Debug)]
pub struct ModelFile {
    bytes: Arc<FileBytes>,
    entry: Entry,
    /// Shapes of inputs that are not the file's.
    resized: Vec<(usize, Vec<u32>)>,
    /// The memory of the bytes that all models share, once one of them has constants.
    pool: Arc<OnceLock<Memory>>,
    customs: CustomOperators,
}

/// Some operators of a file's graph, to become a model of their own. All numbers are indices of
/// that graph.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartRequest<'a> {
    /// The operators in the order of execution, each once.
    pub operators: &'a [usize],
    /// Extents of tensors that hold whatever the file says, such as those of a resized input and
    /// of all that follows from it. An empty shape is that of a scalar; an extent of 0 is unknown.
    pub shapes: &'a [(usize, Vec<u32>)],
    /// The tensors whose values come from outside. Constants and variables, which interpreters
    /// list here too, are left out: constants stay in the file, variables become states.
    pub inputs: &'a [usize],
    /// The tensors whose values are wanted.
    pub outputs: &'a [usize],
    /// True if the shapes of what operators compute are worked out, whatever the file says: where
    /// it leaves extents open ([`FileTensor::signature`](crate::FileTensor::signature)), its shapes
    /// are those of an example.
    pub infer_shapes: bool,
}

impl ModelFile {
    /// Reads a file. The constants of models stay in it: pool 0 of a model is the file itself.
    ///
    /// # Errors
    /// It can't be read, or is no regular file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        let path = path.as_ref();
        // Asked before it is opened, which waits for a writer where it is a FIFO.
        if !std::fs::metadata(path)?.is_file() {
            let why = "a model is a regular file, this is a device, a FIFO or a directory";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why).into());
        }
        let file = OsFile::open(path)?;
        // A file that grows meanwhile is read as long as it was.
        let length = usize::try_from(file.metadata()?.len());
        let length = length.map_err(|_| std::io::Error::from(std::io::ErrorKind::FileTooLarge))?;
        Ok(Self::of(FileBytes::of_file(file, length)))
    }

    /// Takes a file that is in memory already. The constants of its models are in one copy of it.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::of(bytes.into().into())
    }

    pub(crate) fn of(bytes: FileBytes) -> Self {
        Self {
            bytes: Arc::new(bytes),
            entry: Entry::default(),
            resized: Vec::new(),
            pool: Arc::default(),
            customs: CustomOperators::default(),
        }
    }

    /// The same file, of which imports, contents, shapes and labels are those of a signature's
    /// graph. Inputs and outputs have their names in the signature, and the shapes of the file. The
    /// constants of all models lie in one memory.
    ///
    /// # Errors
    /// The file is broken, or has no such signature.
    pub fn signature(&self, key: &str) -> Result<Self, ImportError> {
        let signatures = self.contents()?.signatures;
        Ok(Self {
            bytes: Arc::clone(&self.bytes),
            entry: Entry::of_signature(&signatures, key)?,
            resized: Vec::new(),
            pool: Arc::clone(&self.pool),
            customs: self.customs.clone(),
        })
    }

    /// The bytes of the file: all of it is read with this where it is on disk.
    ///
    /// # Errors
    /// They can't be read, or are no more as many.
    pub fn bytes(&self) -> Result<&[u8], ImportError> {
        let bytes = self.bytes.whole();
        self.read(Ok(bytes))
    }

    /// The bytes of a part of the file, such as a constant
    /// ([`FileTensor::data`](crate::FileTensor::data)); `None` where it has none there.
    ///
    /// # Errors
    /// They can't be read.
    pub fn bytes_at(&self, range: Range<usize>) -> Result<Option<&[u8]>, ImportError> {
        let bytes = self.bytes.get(range);
        self.read(Ok(bytes))
    }

    /// The file on disk, where the model was opened from one.
    pub fn file(&self) -> Option<&OsFile> {
        self.bytes.file()
    }

    /// What was made of the bytes, or why some of them could not be read.
    fn read<T>(&self, made: Result<T, ImportError>) -> Result<T, ImportError> {
        match self.bytes.failure() {
            Some(error) => Err(error.into()),
            None => made,
        }
    }

    /// The contents of the file, whether or not that can be imported.
    ///
    /// # Errors
    /// The file is broken.
    pub fn contents(&self) -> Result<Contents, ImportError> {
        self.read(Contents::read(&self.bytes, self.entry.graph).map_err(ImportError::from))
    }

    /// The names of the classes of an output, where the file packs them (`TFLITE_METADATA` and a
    /// ZIP archive behind the FlatBuffer).
    ///
    /// # Errors
    /// The metadata, or where the file says that it is, is broken.
    pub fn labels(&self, output: usize) -> Result<Option<Vec<String>>, ImportError> {
        let labels = packed_files::labels(&self.bytes, self.entry.graph, output);
        self.read(labels.map_err(ImportError::from))
    }

    /// Gives an input of the file another shape in later imports, where the file leaves it open or
    /// was made for another one. The shapes of what follows from it are worked out at import; where
    /// they depend on values that are known at run time alone, they stay open.
    ///
    /// With an extent of 0 the input has no elements, and the model has no such input
    /// ([`Imported::empty_inputs`](crate::Imported::empty_inputs)).
    ///
    /// # Errors
    /// The file is broken, has no input of this name, or the input has another number of
    /// dimensions.
    pub fn resize(&mut self, input: &str, shape: &[u32]) -> Result<(), ImportError> {
        let budget = Budget::of_file(&self.bytes);
        let file = self.read(self.parsed(&budget))?;
        let graph = entry_of(&file)?;
        let name = |index: usize| {
            self.entry.input_name(index).unwrap_or(graph.tensors[index].name.as_str())
        };
        let mut inputs = graph.inputs.iter().copied();
        let Some(index) = inputs.find(|&index| name(index) == input) else {
            let names = graph.inputs.iter().map(|&index| name(index));
            let names = names.collect::<Vec<_>>().join(", ");
            let why = format!("no input is called {input:?}; there are {names}");
            return Err(ImportError::Interface(why));
        };
        let now = &graph.tensors[index].shape;
        if now.len() != shape.len() && !now.is_empty() {
            let why = format!("input {input:?} has {} dimensions, not {}", now.len(), shape.len());
            return Err(ImportError::Interface(why));
        }
        self.give_shape(index, shape);
        Ok(())
    }

    /// As [`ModelFile::resize`], for an input that is known by its tensor's index
    /// ([`Contents::inputs`]): names may be empty, or the same. The number of dimensions may
    /// change, as interpreters of TFLite allow; operators that need another one are an error of the
    /// import.
    ///
    /// # Errors
    /// The file is broken, or the tensor is no input of it.
    pub fn resize_tensor(&mut self, tensor: usize, shape: &[u32]) -> Result<(), ImportError> {
        let inputs = self.contents()?.inputs;
        if !inputs.contains(&tensor) {
            let why = format!("tensor {tensor} is no input; there are {inputs:?}");
            return Err(ImportError::Interface(why));
        }
        self.give_shape(tensor, shape);
        Ok(())
    }

    fn give_shape(&mut self, input: usize, shape: &[u32]) {
        self.resized.retain(|(known, _)| *known != input);
        self.resized.push((input, shape.to_vec()));
    }

    /// Gives the program's own custom operators to later imports.
    pub fn set_custom_operators(&mut self, operators: CustomOperators) {
        self.customs = operators;
    }

    /// The file's tables, with the graph that is imported.
    fn parsed<'a>(&'a self, budget: &'a Budget) -> Result<File<'a>, ImportError> {
        let mut file = File::parse(&self.bytes, budget)?;
        file.raise_zero_scales();
        Ok(File { entry: self.entry.graph, ..file })
    }

    /// Imports the file's first graph, or that of the signature.
    ///
    /// # Errors
    /// The file is broken, or some of its operators can't be mapped.
    pub fn import(&self, options: ImportOptions) -> Result<Imported, ImportError> {
        self.read(self.import_all(options))
    }

    fn import_all(&self, options: ImportOptions) -> Result<Imported, ImportError> {
        let budget = Budget::of_file(&self.bytes);
        let mut file = self.parsed(&budget)?;
        // By the file's own shapes, as those of other inputs are not known yet.
        if options.extension {
            list_items::write_in_place(&mut file);
        }
        let mut shapes = Cow::Borrowed(&self.resized);
        if options.batch > 1 {
            let batched = batched_inputs(entry_of(&file)?, &self.resized, options.batch)?;
            shapes = Cow::Owned(batched);
        }
        entry_of(&file)?;
        reshape(&mut file, &shapes, false);
        open_graphs(&mut file, &budget)?;
        let graph = entry_of(&file)?;
        let places: Vec<usize> = (0..graph.operators.len()).collect();
        let mut import = Import::new(&file, graph);
        import.options = options;
        import.customs = Some(&self.customs);
        let is_empty = |index: &usize| {
            self.resized.iter().any(|(known, shape)| known == index && shape.contains(&0))
        };
        import.empty_inputs = graph.inputs.iter().copied().filter(is_empty).collect();
        self.finish(import, &places, &budget)
    }

    /// Imports some operators of that graph.
    ///
    /// Variables that the operators use are states, also where none of them changes the value:
    /// other operators of the file may. `sources`, `operators` and `routes` of the result follow
    /// the operators of the request; [`TensorInfo::tensor`](crate::TensorInfo::tensor) says which
    /// tensor an input, output or state is.
    ///
    /// # Errors
    /// The file is broken, the request names what the file has not, or some of the operators
    /// can't be mapped.
    pub fn part(
        &self,
        request: &PartRequest<'_>,
        options: ImportOptions,
    ) -> Result<Imported, ImportError> {
        self.read(self.import_part(request, options))
    }

    fn import_part(
        &self,
        request: &PartRequest<'_>,
        options: ImportOptions,
    ) -> Result<Imported, ImportError> {
        let budget = Budget::of_file(&self.bytes);
        let mut file = self.parsed(&budget)?;
        let graph = entry_of(&file)?.clone();
        file.graphs[self.entry.graph] = select(graph, &file, request)?;
        if options.extension {
            list_items::write_in_place(&mut file);
        }
        reshape(&mut file, request.shapes, request.infer_shapes);
        open_graphs(&mut file, &budget)?;
        let mut import = Import::new(&file, entry_of(&file)?);
        // The shapes of a part are the request's.
        import.options = ImportOptions { batch: 0, ..options };
        import.customs = Some(&self.customs);
        import.is_part = true;
        self.finish(import, request.operators, &budget)
    }

    /// Lowers the operators of `import`, whose indices in the file are `places`.
    fn finish(
        &self,
        mut import: Import<'_>,
        places: &[usize],
        budget: &Budget,
    ) -> Result<Imported, ImportError> {
        let (file, graph) = (import.file, import.graph);
        let inputs = import.add_inputs().map_err(ImportError::Interface)?;
        let routes = lower_all(&mut import, places)?;
        let mut parts = import.finish(inputs, budget)?;
        self.entry.name(&mut parts);
        let pools = self.pools(&parts)?;
        let extension_name_to_prefix = extensions(&parts, &self.customs);
        let operators = graph.operators.iter().map(|op| file.codes[op.code].name()).collect();
        let model = Model {
            main: parts.graph,
            referenced: parts.referenced,
            operand_values: parts.values,
            pools,
            extension_name_to_prefix,
            ..Model::default()
        };
        validate_model(&model, Version::V1_3)
            .map_err(|error| ImportError::Interface(error.to_string()))?;
        Ok(Imported {
            model,
            inputs: parts.inputs,
            empty_inputs: parts.empty_inputs,
            outputs: parts.outputs,
            states: parts.states,
            description: file.description.clone(),
            sources: parts.sources,
            operators,
            routes,
        })
    }

    fn pools(&self, parts: &Parts) -> Result<Vec<Memory>, ImportError> {
        let refers = |operand: &Operand| operand.lifetime == OperandLifeTime::ConstantReference;
        if !parts.graphs().any(|graph| graph.operands.iter().any(refers)) {
            return Ok(Vec::new());
        }
        let mut pools = vec![self.memory()?];
        if !parts.made.is_empty() {
            pools.push(memory_of(&parts.made)?);
        }
        Ok(pools)
    }

    /// The memory of the file's bytes for whoever executes a model.
    fn memory(&self) -> Result<Memory, ImportError> {
        if let Some(memory) = self.pool.get() {
            return Ok(memory.clone());
        }
        let memory = match self.bytes.file() {
            Some(file) => {
                let length = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
                Memory::from_fd(file.as_fd().try_clone_to_owned()?, 0, length, false)?
            }
            None => memory_of(self.bytes.whole())?,
        };
        Ok(self.pool.get_or_init(|| memory).clone())
    }
}

impl Imported {
    /// Imports a file. The model's constants stay in it: pool 0 of the model is the file itself,
    /// mapped by whoever executes the model, so that no weight is copied and all processes share
    /// one page cache.
    ///
    /// # Errors
    /// The file can't be read or is broken, or some of its operators can't be mapped.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        Self::open_with(path, ImportOptions::default())
    }

    /// As [`Imported::open`], with the operations that `options` name.
    ///
    /// # Errors
    /// As there.
    pub fn open_with(path: impl AsRef<Path>, options: ImportOptions) -> Result<Self, ImportError> {
        ModelFile::open(path)?.import(options)
    }

    /// Imports a file that is in memory already. Its constants are copied into a memory of their
    /// own.
    ///
    /// # Errors
    /// The file is broken, or some of its operators can't be mapped.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ImportError> {
        Self::from_bytes_with(bytes, ImportOptions::default())
    }

    /// As [`Imported::from_bytes`], with the operations that `options` name.
    ///
    /// # Errors
    /// As there.
    pub fn from_bytes_with(bytes: &[u8], options: ImportOptions) -> Result<Self, ImportError> {
        ModelFile::from_bytes(bytes).import(options)
    }
}

/// The graph that is imported.
fn entry_of<'f, 'a>(file: &'f File<'a>) -> Result<&'f Graph<'a>, ImportError> {
    let graph = file.graphs.get(file.entry);
    graph.ok_or_else(|| ImportError::Interface("the file has no graph".into()))
}

/// The graph that a request describes.
fn select<'a>(
    mut graph: Graph<'a>,
    file: &File<'_>,
    request: &PartRequest<'_>,
) -> Result<Graph<'a>, ImportError> {
    let wrong = |why: String| Err(ImportError::Interface(why));
    let tensors = graph.tensors.len();
    let shaped = request.shapes.iter().map(|(tensor, _)| tensor);
    let mut named = shaped.chain(request.inputs).chain(request.outputs);
    if let Some(tensor) = named.find(|&&tensor| tensor >= tensors) {
        return wrong(format!("there is no tensor {tensor}: the graph has {tensors}"));
    }
    let written: HashSet<usize> =
        graph.operators.iter().flat_map(|operator| &operator.outputs).copied().collect();
    let count = graph.operators.len();
    let mut operators: Vec<Option<_>> = graph.operators.into_iter().map(Some).collect();
    let mut chosen = Vec::new();
    for &index in request.operators {
        match operators.get_mut(index).map(Option::take) {
            Some(Some(operator)) => chosen.push(operator),
            Some(None) => return wrong(format!("operator {index} is named twice")),
            None => {
                return wrong(format!("there is no operator {index}: the graph has {count}"));
            }
        }
    }
    // Without elements constants have no data either.
    let is_fed = |index: usize| {
        let tensor = &graph.tensors[index];
        let is_empty = tensor.shape.contains(&0);
        let is_constant = is_empty && !graph.inputs.contains(&index) && !written.contains(&index);
        !tensor.is_variable && file.range(tensor).is_none() && !is_constant
    };
    graph.inputs = request.inputs.iter().copied().filter(|&tensor| is_fed(tensor)).collect();
    graph.outputs = request.outputs.to_vec();
    graph.operators = chosen;
    Ok(graph)
}

/// A shared memory with these bytes.
pub(crate) fn memory_of(bytes: &[u8]) -> Result<Memory, ImportError> {
    let memory = Memory::ashmem(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
    OsFile::from(memory.fd().try_clone_to_owned()?).write_all_at(bytes, 0)?;
    Ok(memory)
}
