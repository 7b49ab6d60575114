//! A model on a device, with the burst and the frames that pictures go through.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nnburst::hal::tflite_extension;
use nnburst::{
    Burst, Caching, CallOptions, CompileOptions, Device, Finished, Frame, RuntimeError, compile_for,
};
use nnburst_doors_common::{DoorOptions, make_cache_dir};
use sha2::{Digest, Sha256};

use crate::allocator::FdSpan;
use nnburst_pictures::{ModelError, Normalisation, PictureModel, PixelTables};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The model can't be used.
    #[error("{}: {error}", .path.display())]
    Model {
        /// Its file.
        path: PathBuf,
        /// Why.
        error: ModelError,
    },
    /// The file can't be read for the token of the cache.
    #[error("{}: {error}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The device refused or failed.
    #[error("{0}")]
    Runtime(#[from] RuntimeError),
    /// A buffer is shorter than its caps say.
    #[error("the buffer is too short for a picture of its caps")]
    ShortBuffer,
    /// The wait was interrupted by a flush or a change of state.
    #[error("interrupted")]
    Interrupted,
}

/// A picture for a model.
pub(crate) enum Picture<'a> {
    /// In memory that the driver maps.
    InPlace(FdSpan),
    /// To be copied; `stride` is the distance of rows in bytes.
    Copied { plane: &'a [u8], stride: usize },
}

/// A model on a device. One picture is on its way at a time.
pub(crate) struct Engine {
    burst: Burst,
    /// The frame whose input lies where upstream wrote it.
    in_place: Option<Frame>,
    /// The frame that pictures are copied into.
    copied: Option<Frame>,
    /// The frame that was submitted last.
    route: Route,
    /// The result of the picture that came back, until it is waited for.
    finished: Option<Result<(), RuntimeError>>,
    pub(crate) model: PictureModel,
    pixels: PixelTables,
    /// The bytes of the outputs of the last picture.
    outputs: Vec<Vec<u8>>,
    /// The driver's share of the last picture's time, where it reports one.
    time_in_driver: Option<Duration>,
    /// The values of a row.
    scratch: Vec<u8>,
    pub(crate) warnings: Vec<String>,
    /// True if states are to have their first values before the next picture.
    is_new: bool,
}

/// The frame that a picture goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    InPlace,
    Copied,
}

/// The longest wait for the driver between two looks at whether the wait is to end.
const LOOK: Duration = Duration::from_millis(10);

impl Engine {
    /// Compiles a model for a device and opens a burst.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub(crate) fn open(
        device: &Device,
        options: &DoorOptions,
        path: &Path,
        normalisation: Option<Normalisation>,
    ) -> Result<Self, EngineError> {
        let extension = device.extensions()?.iter().any(|it| it.name == tflite_extension::NAME);
        let model = PictureModel::open(path, extension)
            .map_err(|error| EngineError::Model { path: path.to_owned(), error })?;
        let mut graph = model.model.clone();
        graph.relax_computation_float32_to_float16 |= options.relaxed;
        let mut warnings = Vec::new();
        if let Some(dir) = &options.cache_dir
            && let Err(error) = make_cache_dir(dir)
        {
            warnings.push(format!("nothing is cached: {}: {error}", dir.display()));
        }
        let caching = match &options.cache_dir {
            Some(dir) => Some(Caching { dir: dir.clone(), token: token(path, options)? }),
            None => None,
        };
        let compile = CompileOptions { caching, ..CompileOptions::default() };
        let compilation = compile_for(&graph, std::slice::from_ref(device), &compile)?;
        let burst = compilation.burst(&options.burst())?;
        warnings.extend(burst.warnings().iter().cloned());
        let outputs = vec![Vec::new(); model.outputs.len()];
        let pixels = PixelTables::of(&model.picture, normalisation);
        Ok(Self {
            in_place: Some(burst.frame()?),
            copied: Some(burst.frame()?),
            route: Route::Copied,
            finished: None,
            warnings,
            burst,
            model,
            pixels,
            outputs,
            time_in_driver: None,
            scratch: Vec::new(),
            is_new: true,
        })
    }

    /// Returns whether the model reads pixels where upstream wrote them.
    pub(crate) fn reads_in_place(&self) -> bool {
        self.pixels.are_same() && self.model.states.is_empty()
    }

    /// Executes the model so often on an empty picture, and returns the longest time that took.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub(crate) fn warm_up(&mut self, times: u32) -> Result<Duration, EngineError> {
        let blank =
            vec![0; self.model.picture.row_bytes().saturating_mul(self.model.picture.rows())];
        let never = AtomicBool::new(false);
        let mut longest = Duration::ZERO;
        for _ in 0..times {
            let start = Instant::now();
            let stride = self.model.picture.row_bytes();
            self.submit(Picture::Copied { plane: &blank, stride }, None)?;
            self.wait(&never)?;
            longest = longest.max(start.elapsed());
        }
        self.reset();
        Ok(longest)
    }

    /// Sends a picture to the driver. With a `limit` the driver has to answer within that time.
    /// Memory that is read in place has to keep its contents until the picture is through.
    ///
    /// # Errors
    /// [`EngineError::ShortBuffer`]; [`EngineError::Interrupted`] while an earlier picture is still
    /// on its way; what the device refused.
    pub(crate) fn submit(
        &mut self,
        picture: Picture<'_>,
        limit: Option<Duration>,
    ) -> Result<(), EngineError> {
        if !self.is_through() {
            return Err(EngineError::Interrupted);
        }
        let route = match picture {
            Picture::InPlace(_) => Route::InPlace,
            Picture::Copied { .. } => Route::Copied,
        };
        let Some(mut frame) = self.slot(route).take() else {
            return Err(EngineError::Interrupted);
        };
        if let Err(error) = self.fill(&mut frame, picture) {
            *self.slot(route) = Some(frame);
            return Err(error);
        }
        (self.route, self.finished) = (route, None);
        let call = CallOptions { timeout: limit, ..CallOptions::default() };
        self.burst.try_submit_with(frame, &call).map_err(|unsubmitted| {
            *self.slot(route) = Some(unsubmitted.frame);
            unsubmitted.error.into()
        })
    }

    fn slot(&mut self, route: Route) -> &mut Option<Frame> {
        match route {
            Route::InPlace => &mut self.in_place,
            Route::Copied => &mut self.copied,
        }
    }

    fn fill(&mut self, frame: &mut Frame, picture: Picture<'_>) -> Result<(), EngineError> {
        match picture {
            Picture::InPlace(FdSpan { memory, offset }) => {
                frame.set_input_memory(0, &memory, offset)?;
            }
            Picture::Copied { plane, stride } => {
                let input = frame.input(0)?;
                self.pixels
                    .write(&self.model.picture, plane, stride, input, &mut self.scratch)
                    .ok_or(EngineError::ShortBuffer)?;
            }
        }
        if std::mem::take(&mut self.is_new) {
            for state in &self.model.states {
                frame.write_bytes(state.input, &state.initial)?;
            }
        }
        Ok(())
    }

    /// Returns whether no picture is on its way any more.
    pub(crate) fn is_through(&mut self) -> bool {
        if let Some(finished) = self.burst.poll() {
            self.take_back(finished);
        }
        self.burst.in_flight() == 0
    }

    fn take_back(&mut self, Finished { frame, result }: Finished) {
        *self.slot(self.route) = Some(frame);
        self.finished = Some(result);
    }

    /// Waits until the picture on its way is through, or `interrupt` is set; reads its outputs.
    ///
    /// # Errors
    /// What the driver answered; [`EngineError::Interrupted`], the picture then being on its way
    /// still.
    pub(crate) fn wait(&mut self, interrupt: &AtomicBool) -> Result<(), EngineError> {
        while self.burst.in_flight() > 0 {
            // Relaxed: the flag hands nothing over.
            if interrupt.load(Ordering::Relaxed) {
                return Err(EngineError::Interrupted);
            }
            if let Some(finished) = self.burst.wait_until(Instant::now() + LOOK) {
                self.take_back(finished);
            }
        }
        self.finished.take().unwrap_or(Ok(()))?;
        self.take_outputs()
    }

    fn take_outputs(&mut self) -> Result<(), EngineError> {
        let frame = match self.route {
            Route::InPlace => &mut self.in_place,
            Route::Copied => &mut self.copied,
        };
        let Some(frame) = frame else { return Ok(()) };
        self.time_in_driver = frame.time_in_driver();
        for (at, output) in self.outputs.iter_mut().enumerate() {
            let view = frame.output(at)?;
            output.resize(view.len(), 0);
            view.copy_to_slice(output);
        }
        for state in &self.model.states {
            // The places change hands, nothing is copied.
            frame.exchange(state.output, state.input)?;
        }
        Ok(())
    }

    /// The bytes of the outputs of the last picture.
    pub(crate) fn outputs(&self) -> &[Vec<u8>] {
        &self.outputs
    }

    /// The driver's share of the last picture's time, where it reports one.
    pub(crate) fn time_in_driver(&self) -> Option<Duration> {
        self.time_in_driver
    }

    /// Has the model forget earlier pictures before the next one.
    pub(crate) fn reset(&mut self) {
        self.is_new = true;
    }
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

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("picture", &self.model.picture).finish_non_exhaustive()
    }
}
