//! The whole import: file in, model out.

use std::fs::File as OsFile;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nnburst_hal::tflite_extension::{self, ExtensionType};
use nnburst_hal::{
    ExtensionNameAndPrefix, Memory, MemoryError, Model, Operand, OperandLifeTime, OperandType,
    OperationType, Subgraph, Version, operation_since, validate_model,
};

use crate::flatbuffer::{Budget, FormatError};
use crate::lower::{self, Import, Lower, Refusal};
use crate::schema::{File, Operator, Tensor, TensorKind};

/// The operations that a model may use beside NNAPI's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Those of the vendor extension `dev.nnburst.tflite`, for what NNAPI has not or computes
    /// otherwise. Only devices that list the extension take the model.
    pub extension: bool,
    /// Widens compressed weights to FLOAT32 where TFLite would quantise activations on the fly.
    pub widened_hybrid: bool,
}

/// The operations that an operator became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// NNAPI's, with TFLite's results.
    Nnapi,
    /// The extension's, for this reason.
    Extension(String),
}

/// An operator that has no place in a HAL model, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedOperator {
    /// Its place in the file's graph.
    pub index: usize,
    /// Its name in the format, such as `PACK`.
    pub name: String,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for UnsupportedOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "operator {} {}: {}", self.index, self.name, self.why)
    }
}

/// Why a file did not become a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file can't be read.
    #[error("reading the model: {0}")]
    Io(#[from] std::io::Error),
    /// The file is broken, or no .tflite file.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The model's inputs or outputs can't be those of a HAL model.
    #[error("{0}")]
    Interface(String),
    /// Operators without a place in a HAL model; all of them are listed.
    #[error("{} operators can't be mapped; {}", operators.len(), first(operators))]
    Unsupported {
        /// In the order of the file.
        operators: Vec<UnsupportedOperator>,
    },
    /// The memory for the constants can't be had.
    #[error("memory for the model's constants: {0}")]
    Memory(#[from] MemoryError),
}

fn first(operators: &[UnsupportedOperator]) -> String {
    operators.first().map(ToString::to_string).unwrap_or_default()
}

/// An input, output or state of the model, as the file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Its name in the file.
    pub name: String,
    /// The type in the model.
    pub kind: OperandType,
    /// The type in the file; it differs from `kind` where 64-bit integers became 32-bit ones.
    pub file_kind: TensorKind,
    /// Extents; 0 where one is unknown. A scalar has one extent of 1.
    pub dims: Vec<u32>,
    /// Quantisation scale; 0 for types without one.
    pub scale: f32,
    /// The stored value that stands for 0.
    pub zero_point: i32,
}

impl TensorInfo {
    fn new(tensor: &Tensor, operand: &Operand) -> Self {
        Self {
            name: tensor.name.clone(),
            kind: operand.kind,
            file_kind: tensor.kind,
            dims: operand.dimensions.clone(),
            scale: operand.scale,
            zero_point: operand.zero_point,
        }
    }

    /// Bytes of the value; `None` where the shape is not fully known.
    pub fn byte_len(&self) -> Option<usize> {
        let operand = Operand::tensor(self.kind, self.dims.clone());
        let Some(kind) = ExtensionType::of_operand(self.kind) else { return operand.data_size() };
        operand.element_count()?.checked_mul(usize::try_from(kind.element_bytes()).ok()?)
    }
}

/// A value that is kept from one execution to the next: what the output gives, the input takes
/// next.
#[derive(Clone, Debug, PartialEq)]
pub struct StatePair {
    /// Index into the model's inputs.
    pub input: usize,
    /// Index into the model's outputs.
    pub output: usize,
    /// Its properties.
    pub info: TensorInfo,
    /// The value before the first execution, and after a reset.
    pub initial: Vec<u8>,
}

/// A model that came out of a .tflite file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The model. Its inputs and outputs are those of the file in their order, then the states.
    pub model: Model,
    /// The file's inputs.
    pub inputs: Vec<TensorInfo>,
    /// The file's outputs.
    pub outputs: Vec<TensorInfo>,
    /// The states, in the order in which the graph uses them.
    pub states: Vec<StatePair>,
    /// The file's own description.
    pub description: String,
    /// For each operation of the model the operator it stems from, as an index into `operators`.
    pub sources: Vec<usize>,
    /// The names of the file's operators.
    pub operators: Vec<String>,
    /// The way that each operator went.
    pub routes: Vec<Route>,
}

/// The memory of the file's bytes for whoever executes the model.
enum Backing {
    Descriptor(OwnedFd),
    Copy,
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
        let path = path.as_ref();
        // Asked before it is opened, which waits for a writer where it is a FIFO.
        if !std::fs::metadata(path)?.is_file() {
            let why = "a model is a regular file, this is a device, a FIFO or a directory";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why).into());
        }
        let file = OsFile::open(path)?;
        let mut bytes = Vec::new();
        // A file that grows meanwhile is read as long as it was.
        let length = file.metadata()?.len();
        (&file).take(length).read_to_end(&mut bytes)?;
        Self::import(&bytes, Backing::Descriptor(file.into()), options)
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
        Self::import(bytes, Backing::Copy, options)
    }

    fn import(bytes: &[u8], backing: Backing, options: ImportOptions) -> Result<Self, ImportError> {
        let budget = Budget::of_file(bytes);
        let file = File::parse(bytes, &budget)?;
        let Some(graph) = file.graphs.first() else {
            return Err(ImportError::Interface("the file has no graph".into()));
        };
        let mut import = Import::new(&file, graph);
        import.options = options;
        let inputs = import.add_inputs().map_err(ImportError::Interface)?;
        let routes = lower_all(&mut import)?;
        let parts = import.finish(inputs, &budget)?;
        let pools = pools(bytes, backing, &parts)?;
        let extension_name_to_prefix = extensions(&parts);
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
        Ok(Self {
            model,
            inputs: parts.inputs,
            outputs: parts.outputs,
            states: parts.states,
            description: file.description.clone(),
            sources: parts.sources,
            operators,
            routes,
        })
    }
}

/// Lowers every operator; those that can't be are all reported, not only the first.
fn lower_all(import: &mut Import<'_>) -> Result<Vec<Route>, ImportError> {
    let graph = import.graph;
    let mut unsupported = Vec::new();
    let mut routes = Vec::new();
    for (index, op) in graph.operators.iter().enumerate() {
        import.builder.source = index;
        let why = match import.lower_one(op) {
            Ok(route) => {
                routes.push(route);
                continue;
            }
            Err(Refusal::Format(error)) => return Err(error.into()),
            Err(Refusal::Unsupported(why)) => why,
        };
        let name = import.file.codes[op.code].name();
        unsupported.push(UnsupportedOperator { index, name, why });
        import.assume_outputs(op);
    }
    if unsupported.is_empty() {
        return Ok(routes);
    }
    Err(ImportError::Unsupported { operators: unsupported })
}

/// The table of extensions of a model.
fn extensions(parts: &Parts) -> Vec<ExtensionNameAndPrefix> {
    let extension = ExtensionNameAndPrefix {
        name: tflite_extension::NAME.to_owned(),
        prefix: lower::extension::PREFIX,
    };
    let is_used = parts.graphs().any(|graph| {
        graph.operands.iter().any(|it| it.kind.is_extension())
            || graph.operations.iter().any(|it| matches!(it.kind, OperationType::Extension(_)))
    });
    is_used.then_some(extension).into_iter().collect()
}

/// The result of an import, before memory is found for it.
pub(crate) struct Parts {
    graph: Subgraph,
    referenced: Vec<Subgraph>,
    values: Vec<u8>,
    made: Vec<u8>,
    sources: Vec<usize>,
    inputs: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
    states: Vec<StatePair>,
}

impl Parts {
    /// Every graph of the model.
    fn graphs(&self) -> impl Iterator<Item = &Subgraph> {
        std::iter::once(&self.graph).chain(&self.referenced)
    }
}

impl<'a> Import<'a> {
    /// Lowers an operator to NNAPI's operations where they have TFLite's results, else to the
    /// extension's, if it may be used and has it; else to NNAPI's whatever their results are.
    pub(crate) fn lower_one(&mut self, op: &'a Operator<'a>) -> Result<Route, Refusal> {
        let import = self;
        if !import.options.extension {
            return import.by_nnapi(op).map(|_| Route::Nnapi);
        }
        let mark = import.mark();
        let differs = Lower { import: &mut *import, op }.differs();
        let why = match differs {
            Some(why) => why.to_owned(),
            None => match import.by_nnapi(op) {
                Ok(first) if !(Lower { import: &mut *import, op }).goes_by_floats(first) => {
                    return Ok(Route::Nnapi);
                }
                Ok(_) => "NNAPI computes it in floats".to_owned(),
                Err(Refusal::Unsupported(why)) => why,
                Err(error) => return Err(error),
            },
        };
        import.rewind(&mark);
        let refusal = match (Lower { import: &mut *import, op }).extension() {
            Ok(()) => return Ok(Route::Extension(why)),
            Err(Refusal::Unsupported(refusal)) => refusal,
            Err(error) => return Err(error),
        };
        import.rewind(&mark);
        match import.by_nnapi(op) {
            Err(Refusal::Unsupported(why)) => {
                import.rewind(&mark);
                Err(Refusal::Unsupported(format!("{why}; {refusal}")))
            }
            other => other.map(|_| Route::Nnapi),
        }
    }

    /// Lowers an operator to NNAPI's operations; the place of the first.
    fn by_nnapi(&mut self, op: &'a Operator<'a>) -> Result<usize, Refusal> {
        let first = self.builder.graph.operations.len();
        (Lower { import: &mut *self, op }).run()?;
        if self.options.extension {
            (Lower { import: &mut *self, op }).open_results();
        }
        self.check_operations(first)?;
        Ok(first)
    }

    /// Holds the operations from `first` on against the HAL's signatures: types and ranks that an
    /// operator has in the file need not be among those of its NNAPI namesake.
    fn check_operations(&self, first: usize) -> Result<(), Refusal> {
        let graph = &self.builder.graph;
        for operation in graph.operations.iter().skip(first) {
            let operands = operation.inputs.iter().chain(&operation.outputs);
            if matches!(operation.kind, OperationType::Extension(_)) {
                continue;
            }
            let refers = matches!(operation.kind, OperationType::If | OperationType::While);
            let operands = operands.filter(|_| !refers);
            for kind in operands.map(|&index| self.builder.operand(index).kind) {
                if kind.is_extension() {
                    let why = "NNAPI has no tensors of its types";
                    return Err(Refusal::Unsupported(why.to_owned()));
                }
            }
            operation_since(operation, graph)
                .map_err(|rule| Refusal::Unsupported(format!("{}: {rule}", operation.kind)))?;
        }
        Ok(())
    }

    /// Says which operands are the model's inputs and outputs, and checks that there are some.
    fn finish(mut self, mut inputs: Vec<u32>, budget: &Budget) -> Result<Parts, ImportError> {
        let tensors = &self.graph.tensors;
        let info = |import: &Self, index: usize, operand: u32| {
            TensorInfo::new(&tensors[index], import.builder.operand(operand))
        };
        let input_infos = self.graph.inputs.iter().zip(&inputs);
        let input_infos =
            input_infos.map(|(&index, &operand)| info(&self, index, operand)).collect();
        let mut outputs = Vec::new();
        let mut output_infos = Vec::new();
        for &index in &self.graph.outputs {
            let output = self.output_operand(index)?;
            outputs.push(output);
            output_infos.push(info(&self, index, output));
        }
        let mut states = Vec::new();
        for state in std::mem::take(&mut self.states) {
            let named = state.name.as_ref();
            let now = match named {
                Some(name) => self.variables.get(name).and_then(|variable| variable.value),
                None => self.values[state.tensor],
            };
            let first = named.and_then(|name| self.initial_of(name));
            let Some(now) = now.filter(|&now| now != state.input) else {
                // Nobody changes it, so it is what it was at first for good.
                self.freeze(state.input, first, budget)?;
                continue;
            };
            let mut info = info(&self, state.tensor, state.input);
            info.name = state.name.unwrap_or(info.name);
            let output = self.mark_output(now)?;
            let initial = initial(self.builder.operand(state.input), first, budget)?;
            states.push(StatePair { input: inputs.len(), output: outputs.len(), info, initial });
            inputs.push(state.input);
            outputs.push(output);
        }
        self.builder.count_consumers();
        let mut builder = self.builder;
        if builder.graph.operations.is_empty() || outputs.is_empty() {
            return Err(ImportError::Interface("the graph computes nothing".into()));
        }
        builder.graph.input_indexes = inputs;
        builder.graph.output_indexes = outputs;
        Ok(Parts {
            graph: builder.graph,
            referenced: builder.referenced,
            values: builder.values,
            made: builder.made,
            sources: builder.sources,
            inputs: input_infos,
            outputs: output_infos,
            states,
        })
    }

    fn output_operand(&mut self, index: usize) -> Result<u32, ImportError> {
        let mut value = self.value(index).map_err(interface)?;
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
        self.as_output(value).map_err(interface)
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

    /// Goes on behind an operator that could not be mapped, so that all of them are found.
    fn assume_outputs(&mut self, op: &Operator<'_>) {
        for &index in &op.outputs {
            if self.values[index].is_none() {
                let tensor = &self.graph.tensors[index];
                let assumed = self.own_operand(tensor);
                let assumed = assumed.unwrap_or_else(|_| {
                    Operand::tensor(OperandType::TensorFloat32, tensor.shape.clone())
                });
                self.values[index] = Some(self.builder.add(assumed));
            }
        }
    }
}

fn interface(refusal: Refusal) -> ImportError {
    match refusal {
        Refusal::Format(error) => error.into(),
        Refusal::Unsupported(why) => ImportError::Interface(why),
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

fn pools(bytes: &[u8], backing: Backing, parts: &Parts) -> Result<Vec<Memory>, ImportError> {
    let refers = |operand: &Operand| operand.lifetime == OperandLifeTime::ConstantReference;
    if !parts.graphs().any(|graph| graph.operands.iter().any(refers)) {
        return Ok(Vec::new());
    }
    let file = match backing {
        Backing::Descriptor(fd) => {
            Memory::from_fd(fd, 0, u64::try_from(bytes.len()).unwrap_or(u64::MAX), false)?
        }
        Backing::Copy => memory_of(bytes)?,
    };
    let mut pools = vec![file];
    if !parts.made.is_empty() {
        pools.push(memory_of(&parts.made)?);
    }
    Ok(pools)
}

fn memory_of(bytes: &[u8]) -> Result<Memory, ImportError> {
    let memory = Memory::ashmem(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
    OsFile::from(memory.fd().try_clone_to_owned()?).write_all_at(bytes, 0)?;
    Ok(memory)
}
