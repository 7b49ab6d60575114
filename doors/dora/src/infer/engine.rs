//! A model on a device, with its burst and the frame that messages go through.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nnburst::hal::{OperandType, tflite_extension};
use nnburst::{
    Burst, BurstOptions, Caching, CallOptions, CompileOptions, Device, Finished, Frame,
    RuntimeError, Wait, compile_for,
};
use nnburst_doors_common::{DoorOptions, make_cache_dir};
use nnburst_tflite::{ImportError, ImportOptions, Imported, TensorInfo};
use sha2::{Digest, Sha256};

use super::memory::States;
use super::settings::{ModelSettings, StateIndices};

/// Why a model is not to be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// Its file can't be read or mapped.
    #[error("{}: {error}", .path.display())]
    Import {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: ImportError,
    },
    /// The file can't be read for the token of the cache, or its directory can't be made.
    #[error("{}: {error}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It takes more, or less, than a message has.
    #[error(
        "{}: {} inputs are no states ({}), expected one; the option states names others",
        .path.display(), .inputs.len(), .inputs.join(", ")
    )]
    Inputs {
        /// The model's path.
        path: PathBuf,
        /// The inputs' names.
        inputs: Vec<String>,
    },
    /// The option `states` is at odds with the model.
    #[error("option states: {input}-{output}: {why}")]
    State {
        /// The pair's input.
        input: usize,
        /// The pair's output.
        output: usize,
        /// The reason.
        why: String,
    },
    /// The device refused or failed.
    #[error("{0}")]
    Runtime(#[from] RuntimeError),
}

/// The inputs and outputs of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelArguments {
    /// The input that takes the message.
    pub(crate) input: TensorInfo,
    pub(crate) input_index: usize,
    /// The outputs that are no states.
    pub(crate) outputs: Vec<TensorInfo>,
    output_indices: Vec<usize>,
    states: Vec<StateIndices>,
    /// The states before the first frame.
    pub(crate) initial: States,
}

/// A model on a device. One message is on its way at a time.
pub(crate) struct CompiledModel {
    burst: Burst,
    /// `None` while it is on its way.
    frame: Option<Frame>,
    pub(crate) signature: ModelArguments,
    /// The bytes of the outputs and of the states after the last message.
    pub(crate) outputs: Vec<Vec<u8>>,
    pub(crate) states: States,
    /// The driver's share of the last message's time, where it reports one.
    pub(crate) time_in_driver: Option<Duration>,
}

/// The burst's options: its ends sleep unless they are told how to wait. Frames that come over dora
/// are some tenths of a millisecond on their way, and as irregular; to poll for them takes more
/// processor time than it saves of an age.
fn waiting(options: &DoorOptions) -> BurstOptions {
    let burst = options.burst();
    let wait = if burst.wait == Wait::Auto { Wait::Block } else { burst.wait };
    BurstOptions { wait, ..burst }
}

impl CompiledModel {
    /// Compiles a model for a device and opens a burst.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub(crate) fn open(
        device: &Device,
        options: &DoorOptions,
        model: &ModelSettings,
    ) -> Result<Self, EngineError> {
        let path = &model.path;
        let extension = device.extensions()?.iter().any(|it| it.name == tflite_extension::NAME);
        let import = ImportOptions { extension, ..ImportOptions::default() };
        let imported = Imported::open_with(path, import)
            .map_err(|error| EngineError::Import { path: path.clone(), error })?;
        let signature = ModelArguments::of(&imported, model)?;
        let mut graph = imported.model;
        graph.relax_computation_float32_to_float16 |= options.relaxed;
        let caching = match &options.cache_dir {
            Some(dir) => {
                let of_dir = |error| EngineError::File { path: dir.clone(), error };
                make_cache_dir(dir).map_err(of_dir)?;
                Some(Caching { dir: dir.clone(), token: token(path, options)? })
            }
            None => None,
        };
        let compile = CompileOptions { caching, ..CompileOptions::default() };
        let compilation = compile_for(&graph, std::slice::from_ref(device), &compile)?;
        let burst = compilation.burst(&waiting(options))?;
        Ok(Self {
            frame: Some(burst.frame()?),
            burst,
            outputs: vec![Vec::new(); signature.outputs.len()],
            states: signature.initial.clone(),
            signature,
            time_in_driver: None,
        })
    }

    /// The frame, to write the message into; `None` while an earlier one is on its way.
    pub(crate) fn frame(&mut self) -> Option<&mut Frame> {
        self.frame.as_mut()
    }

    /// Sends the message to the driver, with the states of its source. With a `limit` the driver
    /// has to answer within that time.
    ///
    /// # Errors
    /// The device refused it.
    pub(crate) fn submit(
        &mut self,
        states: &States,
        limit: Option<Duration>,
    ) -> Result<(), RuntimeError> {
        let Some(mut frame) = self.frame.take() else {
            return Err(RuntimeError::Argument("a message is on its way".into()));
        };
        for (place, state) in self.signature.states.iter().zip(states) {
            if let Err(error) = frame.write_bytes(place.input, state) {
                self.frame = Some(frame);
                return Err(error);
            }
        }
        let call = CallOptions { timeout: limit, ..CallOptions::default() };
        self.burst.try_submit_with(frame, &call).map_err(|unsubmitted| {
            self.frame = Some(unsubmitted.frame);
            unsubmitted.error
        })
    }

    /// Waits for the message until a moment; reads its outputs. `None` while it is on its way.
    pub(crate) fn wait_until(&mut self, end: Instant) -> Option<Result<(), RuntimeError>> {
        let Finished { frame, result } = self.burst.wait_until(end)?;
        let read = result.and_then(|()| self.read(&frame));
        self.frame = Some(frame);
        Some(read)
    }

    fn read(&mut self, frame: &Frame) -> Result<(), RuntimeError> {
        self.time_in_driver = frame.time_in_driver();
        let states = self.signature.states.iter().map(|state| state.output);
        let places = self.outputs.iter_mut().zip(self.signature.output_indices.iter().copied());
        for (bytes, index) in places.chain(self.states.iter_mut().zip(states)) {
            let view = frame.output(index)?;
            bytes.resize(view.len(), 0);
            view.copy_to_slice(bytes);
        }
        Ok(())
    }
}

impl ModelArguments {
    fn of(imported: &Imported, model: &ModelSettings) -> Result<Self, EngineError> {
        let Imported { inputs, outputs, states, .. } = imported;
        for &pair in &model.states {
            check(pair, inputs, outputs)?;
        }
        let is_state = |index: &usize| model.states.iter().any(|state| state.input == *index);
        let free: Vec<usize> = (0..inputs.len()).filter(|index| !is_state(index)).collect();
        let &[input_index] = free.as_slice() else {
            let name = |&index: &usize| inputs.get(index).map(|input| input.name.clone());
            let inputs = free.iter().filter_map(name).collect();
            return Err(EngineError::Inputs { path: model.path.clone(), inputs });
        };
        let is_result = |index: &usize| model.states.iter().all(|state| state.output != *index);
        let output_indices: Vec<usize> = (0..outputs.len()).filter(is_result).collect();
        let pick = |indices: &[usize], from: &[TensorInfo]| -> Vec<TensorInfo> {
            indices.iter().filter_map(|&index| from.get(index).cloned()).collect()
        };
        let named = model.states.iter().map(|state| inputs.get(state.input).map(zeros));
        let initial = named.map(Option::unwrap_or_default);
        let initial = initial.chain(states.iter().map(|state| state.initial.clone())).collect();
        let variables =
            states.iter().map(|pair| StateIndices { input: pair.input, output: pair.output });
        let mut chosen = pick(&free, inputs);
        Ok(Self {
            input: chosen.swap_remove(0),
            input_index,
            outputs: pick(&output_indices, outputs),
            output_indices,
            states: model.states.iter().copied().chain(variables).collect(),
            initial,
        })
    }
}

/// Checks that an input and an output of the model have the same type and size.
fn check(
    StateIndices { input, output }: StateIndices,
    inputs: &[TensorInfo],
    outputs: &[TensorInfo],
) -> Result<(), EngineError> {
    let wrong = |why: String| EngineError::State { input, output, why };
    let (Some(to), Some(from)) = (inputs.get(input), outputs.get(output)) else {
        let (inputs, outputs) = (inputs.len(), outputs.len());
        return Err(wrong(format!("the model has {inputs} inputs and {outputs} outputs, from 0")));
    };
    if to.kind != from.kind || to.byte_len().is_none() || to.byte_len() != from.byte_len() {
        return Err(wrong(format!(
            "the input is {} {:?}, the output {} {:?}",
            to.kind, to.dims, from.kind, from.dims
        )));
    }
    Ok(())
}

/// The bytes of a tensor whose values are zero.
fn zeros(info: &TensorInfo) -> Vec<u8> {
    let byte = match info.kind {
        OperandType::TensorQuant8Asymm | OperandType::TensorQuant8AsymmSigned => {
            info.zero_point.to_le_bytes()[0]
        }
        _ => 0,
    };
    vec![byte; info.byte_len().unwrap_or_default()]
}

/// The token by which the compilation cache knows a model: a hash of its file and of the options
/// that it is compiled with.
fn token(path: &Path, options: &DoorOptions) -> Result<[u8; 32], EngineError> {
    let file =
        std::fs::read(path).map_err(|error| EngineError::File { path: path.to_owned(), error })?;
    let mut hash = Sha256::new();
    hash.update(file);
    hash.update([u8::from(options.relaxed)]);
    hash.update(options.threads.unwrap_or(1).to_le_bytes());
    Ok(hash.finalize().into())
}
