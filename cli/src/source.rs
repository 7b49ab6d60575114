//! The source of a model: a .tflite file, a folder with one in it, or a built-in network.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nnburst::hal::{Model, Operand, OperandType, tflite_extension};
use nnburst::{Device, builtin};
use nnburst_tflite::{ImportError, ImportOptions, ModelFile, Route, TensorInfo, TensorKind};

use crate::args::{Hint, Hybrid, ImportArgs, ModelArgs};
use crate::failure::{Failure, not_readable};

/// A model, and what is known of it beside.
#[derive(Debug)]
pub(crate) struct ModelSource {
    /// The user's name for it.
    pub(crate) name: String,
    /// Its file and the way in which it was imported, if it has one.
    file: Option<(PathBuf, ImportArgs)>,
    pub(crate) model: Model,
    /// Values that the session keeps from step to step.
    pub(crate) states: Vec<CarriedState>,
    /// Positions among the file's inputs of those that were given a shape without elements, and
    /// which the model has not.
    empty_inputs: Vec<usize>,
    /// The names of inputs and outputs in the file, or in the signature; none of built-in networks.
    input_names: Vec<String>,
    output_names: Vec<String>,
    /// Inputs and outputs that have 64-bit integers in the file, 32-bit ones in the model.
    pub(crate) wide: Wide,
    /// For each operation what it stems from; empty where that says nothing more.
    pub(crate) origins: Vec<String>,
    /// The names of the first output's classes, where the file packs them.
    pub(crate) labels: Option<Vec<String>>,
    /// The time that reading took.
    pub(crate) load: Duration,
}

/// Positions of inputs and outputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wide {
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
}

/// An output's value that an input takes at the next step.
#[derive(Clone, Debug)]
pub(crate) struct CarriedState {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) initial: Vec<u8>,
}

impl ModelSource {
    /// The model that the arguments name; with operations of the extension `dev.nnburst.tflite`
    /// where NNAPI's don't do.
    pub(crate) fn choose(args: &ModelArgs, import: &ImportArgs) -> Result<Self, Failure> {
        match (&args.model, &args.builtin) {
            (Some(path), _) => Self::open(path, import, true),
            (None, Some(name)) => Self::builtin(name),
            (None, None) => Err(Failure::usage("a model or --builtin is needed")),
        }
    }

    /// The same model of NNAPI's operations alone, where it uses the extension and the device has
    /// it not.
    pub(crate) fn instead_for(&self, device: &Device) -> Result<Option<Self>, Failure> {
        let is_plain = self.model.extension_name_to_prefix.is_empty();
        let Some((path, import)) = self.file.as_ref().filter(|_| !is_plain) else {
            return Ok(None);
        };
        let mut extensions = device.extensions()?.into_iter();
        if extensions.any(|it| it.name == tflite_extension::NAME) {
            return Ok(None);
        }
        let mut plain = Self::open(path, import, false)?;
        plain.model.relax_computation_float32_to_float16 =
            self.model.relax_computation_float32_to_float16;
        Ok(Some(plain))
    }

    /// The requests that the model was made to compute at once.
    pub(crate) fn batch(&self) -> u32 {
        self.file.as_ref().map_or(1, |(_, import)| import.batch)
    }

    /// The model at `path`, with operations of the extension or without.
    pub(crate) fn open(path: &Path, import: &ImportArgs, extension: bool) -> Result<Self, Failure> {
        let start = Instant::now();
        let file = if path.is_dir() { path.join("model.tflite") } else { PathBuf::from(path) };
        let name = path.display().to_string();
        let widened_hybrid = import.hybrid == Hybrid::Widened;
        let options = ImportOptions {
            extension,
            widened_hybrid,
            file_types: true,
            batch: import.batch,
            ..ImportOptions::default()
        };
        let failed = |error: ImportError| match error {
            ImportError::Io(error) => not_readable(&file, &error),
            error => Failure::check(format!("{}: {error}", file.display())),
        };
        let mut model_file = ModelFile::open(&file).map_err(failed)?;
        if let Some(key) = &import.signature {
            let file = file.display();
            let unknown = |error| Failure::usage(format!("--signature {key}: {file}: {error}"));
            model_file = model_file.signature(key).map_err(unknown)?;
        }
        for (name, shape) in &import.shape {
            model_file.resize(name, shape).map_err(|error| {
                Failure::usage(format!("--shape {name}: {}: {error}", file.display()))
            })?;
        }
        let imported = model_file.import(options).map_err(failed)?;
        // Broken metadata is no reason not to run a model.
        let labels = model_file.labels(0).unwrap_or_default();
        let load = start.elapsed();
        let wide = Wide { inputs: wide_of(&imported.inputs), outputs: wide_of(&imported.outputs) };
        let empty_inputs = match imported.empty_inputs.is_empty() {
            true => Vec::new(),
            false => {
                let inputs = model_file.contents().map_err(failed)?.inputs;
                let is_empty =
                    |tensor: usize| imported.empty_inputs.iter().any(|info| info.tensor == tensor);
                (0..inputs.len()).filter(|&at| is_empty(inputs[at])).collect()
            }
        };
        let states = imported
            .states
            .into_iter()
            .map(|state| CarriedState {
                input: state.input,
                output: state.output,
                initial: state.initial,
            })
            .collect();
        let origin = |&source: &usize| {
            let operator = imported.operators.get(source).map_or("?", String::as_str);
            match imported.routes.get(source) {
                Some(Route::Extension(why)) => format!("{source} {operator} (extension: {why})"),
                _ => format!("{source} {operator}"),
            }
        };
        let origins = imported.sources.iter().map(origin).collect();
        let file = Some((path.to_owned(), import.clone()));
        let names = |infos: Vec<TensorInfo>| infos.into_iter().map(|info| info.name).collect();
        let (input_names, output_names) = (names(imported.inputs), names(imported.outputs));
        Ok(Self {
            name,
            file,
            model: imported.model,
            states,
            empty_inputs,
            input_names,
            output_names,
            wide,
            origins,
            labels,
            load,
        })
    }

    pub(crate) fn builtin(name: &str) -> Result<Self, Failure> {
        let start = Instant::now();
        let model = builtin::model(name).map_err(|error| Failure::usage(error.to_string()))?;
        let load = start.elapsed();
        Ok(Self {
            name: name.to_owned(),
            file: None,
            model,
            states: Vec::new(),
            empty_inputs: Vec::new(),
            input_names: Vec::new(),
            output_names: Vec::new(),
            wide: Wide::default(),
            origins: Vec::new(),
            labels: None,
            load,
        })
    }

    /// The model, taken for one that allows relaxed precision where a hint asks for it.
    pub(crate) fn with_hint(mut self, hint: Option<Hint>) -> Self {
        self.model.relax_computation_float32_to_float16 |= hint.is_some();
        self
    }

    /// The inputs that the user feeds: all but the states.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = (usize, &Operand)> {
        let is_state = |at: usize| self.states.iter().any(|state| state.input == at);
        self.operands(&self.model.main.input_indexes).filter(move |&(at, _)| !is_state(at))
    }

    /// The number of each of these inputs in the file.
    pub(crate) fn input_numbers(&self) -> impl Iterator<Item = usize> {
        (0..).filter(|number| !self.empty_inputs.contains(number))
    }

    /// The number in the file of an input that the user knows by that number, or by its name.
    pub(crate) fn input_number(&self, input: &str) -> Option<usize> {
        let numbers = || self.input_numbers().zip(self.inputs());
        let by_name = || {
            let mut names = numbers().zip(&self.input_names);
            names.find_map(|((number, _), name)| (name == input).then_some(number))
        };
        match input.parse::<usize>() {
            Ok(given) => numbers().map(|(number, _)| number).find(|&number| number == given),
            Err(_) => by_name(),
        }
    }

    /// The inputs that the user feeds, as text: each number, with its name where it has one.
    pub(crate) fn input_list(&self) -> String {
        let names = self.input_names.iter().map(Some).chain(std::iter::repeat(None));
        let all = self.input_numbers().zip(self.inputs()).zip(names);
        let shown = all.map(|((number, _), name)| match name {
            Some(name) if !name.is_empty() => format!("{number} ({name})"),
            _ => number.to_string(),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// The name of an output, where it has one.
    pub(crate) fn output_name(&self, number: usize) -> Option<&str> {
        self.output_names.get(number).map(|name| &**name).filter(|name| !name.is_empty())
    }

    /// The outputs that the user gets: all but the states.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (usize, &Operand)> {
        let is_state = |at: usize| self.states.iter().any(|state| state.output == at);
        self.operands(&self.model.main.output_indexes).filter(move |&(at, _)| !is_state(at))
    }

    fn operands<'a>(&'a self, indexes: &'a [u32]) -> impl Iterator<Item = (usize, &'a Operand)> {
        let operands = &self.model.main.operands;
        indexes
            .iter()
            .enumerate()
            .filter_map(|(at, &index)| Some((at, operands.get(usize::try_from(index).ok()?)?)))
    }
}

/// The positions of the 64-bit integers of the file that the model has 32 bits for.
fn wide_of(tensors: &[TensorInfo]) -> Vec<usize> {
    let is_wide = |info: &TensorInfo| {
        info.file_kind == TensorKind::Int64 && info.kind == OperandType::TensorInt32
    };
    let wide = tensors.iter().enumerate().filter(|(_, info)| is_wide(info));
    wide.map(|(at, _)| at).collect()
}
