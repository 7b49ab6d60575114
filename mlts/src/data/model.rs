//! Models in memory: from a file or built in, with the tensors that a caller feeds and gets.

use std::path::Path;

use nnburst::hal::{Model, Operand, OperandType, OperationType, tflite_extension};
use nnburst_tflite::{ImportError, ImportOptions, Imported};

use super::manifest::ModelEntry;

/// Why a model is not run.
#[derive(Debug)]
pub(crate) enum LoadFailure {
    /// It has operators that NNAPI has no place for, or none that the importer knows.
    Skipped(String),
    /// Its file is broken.
    Broken(String),
}

/// A model that is ready to be compiled.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) model: Model,
    /// Inputs that take the value of an output at the next step, and their first values.
    pub(crate) states: Vec<FedBackState>,
    /// For each operation the operator of the file that it stems from.
    pub(crate) origins: Vec<String>,
}

/// A value that is kept from step to step.
#[derive(Clone, Debug)]
pub(crate) struct FedBackState {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) initial: Vec<u8>,
}

impl Loaded {
    /// Reads the model of an entry, with operations of the extension `dev.nnburst.tflite` where
    /// NNAPI has none or computes otherwise than TFLite, if `extension` is true.
    pub(crate) fn open(
        entry: &ModelEntry,
        relaxed: bool,
        extension: bool,
    ) -> Result<Self, LoadFailure> {
        let mut loaded = match &entry.file {
            Some(file) => Self::read(file, extension)?,
            None => {
                let model = nnburst::builtin::model(&entry.id);
                let model = model.map_err(|error| LoadFailure::Broken(error.to_string()))?;
                Self { model, states: Vec::new(), origins: Vec::new() }
            }
        };
        loaded.model.relax_computation_float32_to_float16 |= relaxed;
        Ok(loaded)
    }

    fn read(file: &Path, extension: bool) -> Result<Self, LoadFailure> {
        let options = ImportOptions { extension, ..ImportOptions::default() };
        let imported = Imported::open_with(file, options).map_err(|error| match error {
            ImportError::Unsupported { .. } | ImportError::Interface(_) => {
                LoadFailure::Skipped(format!("not imported: {error}"))
            }
            error => LoadFailure::Broken(error.to_string()),
        })?;
        let states = imported.states.into_iter();
        let states = states
            .map(|state| FedBackState {
                input: state.input,
                output: state.output,
                initial: state.initial,
            })
            .collect();
        let origin = |&source: &usize| {
            let operator = imported.operators.get(source).map_or("?", String::as_str);
            format!("{source} {operator}")
        };
        let origins = imported.sources.iter().map(origin).collect();
        Ok(Self { model: imported.model, states, origins })
    }

    /// Returns whether the model has operations beside NNAPI's.
    pub(crate) fn uses_extension(&self) -> bool {
        !self.model.extension_name_to_prefix.is_empty()
    }

    /// Positions of the inputs that the caller feeds.
    pub(crate) fn inputs(&self) -> Vec<usize> {
        let is_state = |at: &usize| self.states.iter().any(|state| state.input == *at);
        (0..self.model.main.input_indexes.len()).filter(|at| !is_state(at)).collect()
    }

    /// Positions of the outputs that the caller gets.
    pub(crate) fn outputs(&self) -> Vec<usize> {
        let is_state = |at: &usize| self.states.iter().any(|state| state.output == *at);
        (0..self.model.main.output_indexes.len()).filter(|at| !is_state(at)).collect()
    }

    /// The operand of an input.
    pub(crate) fn input(&self, position: usize) -> Option<&Operand> {
        operand(&self.model, &self.model.main.input_indexes, position)
    }

    /// The operand of an output.
    pub(crate) fn output(&self, position: usize) -> Option<&Operand> {
        operand(&self.model, &self.model.main.output_indexes, position)
    }

    /// The name and the operand types of an operation.
    pub(crate) fn operation(&self, index: usize) -> Option<(String, Vec<String>)> {
        let operation = self.model.main.operations.get(index)?;
        let types = operation.inputs.iter().chain(&operation.outputs).filter_map(|&at| {
            let operand = self.model.main.operands.get(usize::try_from(at).ok()?)?;
            operand.kind.name().starts_with("TENSOR_").then(|| operand.kind.name().to_owned())
        });
        let mut types: Vec<_> = types.collect();
        types.sort();
        types.dedup();
        Some((operation_name(operation.kind), types))
    }

    /// The shapes of an operation's tensors: `1x8x8x2 2x3x3x2 2 -> 1x8x8x2`.
    pub(crate) fn shapes(&self, index: usize) -> String {
        let Some(operation) = self.model.main.operations.get(index) else { return String::new() };
        let of = |indexes: &[u32]| {
            let shapes = indexes.iter().filter_map(|&at| {
                let operand = self.model.main.operands.get(usize::try_from(at).ok()?)?;
                let sides: Vec<_> = operand.dimensions.iter().map(u32::to_string).collect();
                operand.kind.name().starts_with("TENSOR_").then(|| sides.join("x"))
            });
            shapes.collect::<Vec<_>>().join(" ")
        };
        format!("{} -> {}", of(&operation.inputs), of(&operation.outputs))
    }

    /// Values for every fed input, the same for the same seed: floats of -1 to 1, integers from the
    /// lowest bits (so that indices stay small).
    pub(crate) fn random_inputs(&self, seed: u64) -> Vec<Vec<u8>> {
        let mut random = Random(seed);
        let operands = self.inputs().into_iter().filter_map(|at| self.input(at));
        operands.map(|operand| random_value(operand, &mut random)).collect()
    }
}

/// NNAPI's name of an operation, or the extension's with its mark: `tflite:RFFT2D`.
fn operation_name(kind: OperationType) -> String {
    let known = match kind {
        OperationType::Extension(code) => tflite_extension::operation(code.number),
        _ => None,
    };
    known.map_or_else(|| kind.to_string(), |known| format!("tflite:{}", known.name))
}

fn operand<'a>(model: &'a Model, indexes: &[u32], position: usize) -> Option<&'a Operand> {
    let index = usize::try_from(*indexes.get(position)?).ok()?;
    model.main.operands.get(index)
}

/// Random bytes for an operand of known shape.
pub(crate) fn random_value(operand: &Operand, random: &mut Random) -> Vec<u8> {
    let size = operand.data_size().unwrap_or(0);
    match operand.kind {
        OperandType::TensorFloat32 | OperandType::Float32 => {
            (0..size / 4).flat_map(|_| random.unit().to_le_bytes()).collect()
        }
        OperandType::TensorInt32 | OperandType::Int32 => {
            (0..size / 4).flat_map(|_| random.below(2).to_le_bytes()).collect()
        }
        OperandType::TensorBool8 => (0..size).map(|_| random.byte() & 1).collect(),
        OperandType::TensorFloat16 => (0..size / 2)
            .flat_map(|_| nnburst::f16::from_f32(random.unit()).to_le_bytes())
            .collect(),
        _ => (0..size).map(|_| random.byte()).collect(),
    }
}

/// The bytes of a file.
pub(crate) fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A generator of random numbers that a seed repeats (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 where that is 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() >> 33).unwrap_or(0).checked_rem(bound).unwrap_or(0)
    }

    /// An index below `bound`; 0 where that is 0.
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        let bound = u32::try_from(bound).unwrap_or(u32::MAX);
        usize::try_from(self.below(bound)).unwrap_or(0)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }

    /// A multiple of 1/128 from -1 to 1.
    pub(crate) fn unit(&mut self) -> f32 {
        f32::from(self.byte()) / 128.0 - 1.0
    }
}
