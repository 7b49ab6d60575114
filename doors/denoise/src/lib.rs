//! Takes the noise out of speech with the DTLN pair of networks, one block of sound at a time.
//!
//! ```text
//!   128 samples ─► window of 512 ─ rfft ─► magnitudes ─► first network ─► mask
//!                                   │ phases                               │
//!                                   └────────── irfft(spectrum x mask) ◄───┘
//!                                                  │
//!                  128 samples ◄─ overlap-add ◄─ second network
//! ```
//!
//! A [`Denoiser`] is what an audio callback owns: [`Denoiser::push`] takes a block and gives one,
//! without allocating. Each network has a burst and a frame of its own, and its state goes from
//! frame to frame without being copied.
//!
//! ```no_run
//! use nnburst::{BurstOptions, Device};
//! use nnburst_denoise::{BLOCK, Denoiser};
//!
//! let device = Device::spawn("nnburst-cpu")?;
//! let mut denoiser =
//!     Denoiser::open(&device, "dtln_1.tflite", "dtln_2.tflite", &BurstOptions::default())?;
//! let (heard, mut clean) = ([0.0; BLOCK], [0.0; BLOCK]);
//! denoiser.push(&heard, &mut clean)?; // what was heard three blocks before
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst::hal::tflite_extension;
use nnburst::{Burst, BurstOptions, CallOptions, Device, Frame, PrepareOptions, RuntimeError};
use nnburst_tflite::{ImportError, ImportOptions, Imported};
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

/// Samples of a block: 8 ms at 16 kHz.
pub const BLOCK: usize = 128;

/// The duration of a block.
pub const BLOCK_TIME: Duration = Duration::from_millis(8);

/// Samples that the networks see at a time.
pub const WINDOW: usize = 512;

/// By how many blocks what comes out lies behind what goes in.
pub const DELAY: usize = WINDOW / BLOCK - 1;

/// Frequencies of a window.
const BINS: usize = WINDOW / 2 + 1;

/// Why sound could not be cleaned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DenoiseError {
    /// A model can't be read.
    #[error("{}: {error}", .path.display())]
    Import {
        /// Its file.
        path: PathBuf,
        /// Why.
        error: ImportError,
    },
    /// A device refused or failed.
    #[error("{0}")]
    Runtime(#[from] RuntimeError),
    /// The models are no DTLN pair.
    #[error("{0}")]
    NoPair(String),
    /// A transform refused its buffers.
    #[error("transform: {0}")]
    Transform(#[from] realfft::FftError),
}

/// Both networks with their states, and the sound between them.
pub struct Denoiser {
    mask: Network,
    speech: Network,
    /// The last samples heard.
    window: [f32; WINDOW],
    /// The next samples, with the parts that later blocks add to them.
    sum: [f32; WINDOW],
    transform: Transform,
    /// The time that a block may take.
    limit: Duration,
}

impl Denoiser {
    /// Makes both models ready and opens a burst for each. A block takes [`BLOCK_TIME`] at most, or
    /// the timeout of `options` for sound that is not live.
    ///
    /// # Errors
    /// See [`DenoiseError`].
    pub fn open(
        device: &Device,
        first: impl AsRef<Path>,
        second: impl AsRef<Path>,
        options: &BurstOptions,
    ) -> Result<Self, DenoiseError> {
        Ok(Self {
            mask: Network::open(device, first.as_ref(), BINS, options)?,
            speech: Network::open(device, second.as_ref(), WINDOW, options)?,
            window: [0.0; WINDOW],
            sum: [0.0; WINDOW],
            transform: Transform::new(),
            limit: options.timeout.unwrap_or(BLOCK_TIME),
        })
    }

    /// Takes a block and gives the one that was heard [`DELAY`] blocks before, silence at first.
    ///
    /// A sample that is no number counts as silence: it would stay in the networks' state.
    ///
    /// # Errors
    /// [`DenoiseError::Runtime`] where the device fails, or does not answer in time
    /// (`MISSED_DEADLINE_TRANSIENT`). What this block adds to the sound is then missing: `clean` has
    /// what the blocks before it added, and the next may be given.
    pub fn push(
        &mut self,
        heard: &[f32; BLOCK],
        clean: &mut [f32; BLOCK],
    ) -> Result<(), DenoiseError> {
        let end = Instant::now() + self.limit;
        self.hear(heard);
        let speech = self.speech_of_window(end);
        self.add(speech.as_ref().ok(), clean);
        speech.map(drop)
    }

    /// Takes a block that is of no use any more, without running the networks: the next ones are
    /// heard in its context.
    pub fn skip(&mut self, heard: &[f32; BLOCK]) {
        self.hear(heard);
        self.add(None, &mut [0.0; BLOCK]);
    }

    fn hear(&mut self, heard: &[f32; BLOCK]) {
        self.window.copy_within(BLOCK.., 0);
        for (to, &sample) in self.window[WINDOW - BLOCK..].iter_mut().zip(heard) {
            *to = if sample.is_finite() { sample } else { 0.0 };
        }
    }

    fn speech_of_window(&mut self, end: Instant) -> Result<[f32; WINDOW], DenoiseError> {
        let (mut magnitudes, mut mask) = ([0.0; BINS], [0.0; BINS]);
        self.transform.forward(&self.window, &mut magnitudes)?;
        self.mask.run(&magnitudes, &mut mask, end)?;
        let (mut masked, mut speech) = ([0.0; WINDOW], [0.0; WINDOW]);
        self.transform.inverse(&mask, &mut masked)?;
        self.speech.run(&masked, &mut speech, end)?;
        Ok(speech)
    }

    /// Adds the speech of a window, and takes the samples that no later one adds to.
    fn add(&mut self, speech: Option<&[f32; WINDOW]>, clean: &mut [f32; BLOCK]) {
        self.sum.copy_within(BLOCK.., 0);
        self.sum[WINDOW - BLOCK..].fill(0.0);
        for (sum, sample) in self.sum.iter_mut().zip(speech.into_iter().flatten()) {
            *sum += sample;
        }
        clean.copy_from_slice(&self.sum[..BLOCK]);
    }

    /// Forgets all that was heard.
    ///
    /// # Errors
    /// [`DenoiseError::Runtime`] where the frames can't be written.
    pub fn reset(&mut self) -> Result<(), DenoiseError> {
        (self.window, self.sum) = ([0.0; WINDOW], [0.0; WINDOW]);
        self.mask.reset()?;
        self.speech.reset()
    }
}

impl std::fmt::Debug for Denoiser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Denoiser").finish_non_exhaustive()
    }
}

/// A network whose second input is the second output of the call before.
struct Network {
    burst: Burst,
    frame: Frame,
    state_bytes: usize,
}

impl Network {
    fn open(
        device: &Device,
        path: &Path,
        samples: usize,
        burst: &BurstOptions,
    ) -> Result<Self, DenoiseError> {
        let extensions = device.extensions()?;
        let extension = extensions.iter().any(|one| one.name == tflite_extension::NAME);
        let options = ImportOptions { extension, ..ImportOptions::default() };
        let imported = Imported::open_with(path, options)
            .map_err(|error| DenoiseError::Import { path: path.to_owned(), error })?;
        let compilation = device.compile(&imported.model, PrepareOptions::default())?;
        let bytes = |operands: &[nnburst::hal::Operand]| -> Vec<Option<usize>> {
            operands.iter().map(nnburst::hal::Operand::data_size).collect()
        };
        let (inputs, outputs) = (bytes(compilation.inputs()), bytes(compilation.outputs()));
        let [Some(signal), Some(state_bytes)] = inputs[..] else {
            let why = format!("{}: inputs of {inputs:?} bytes", path.display());
            return Err(DenoiseError::NoPair(why));
        };
        if signal != samples * size_of::<f32>() || outputs != inputs {
            let why = format!(
                "{}: inputs of {inputs:?} and outputs of {outputs:?} bytes for {samples} samples",
                path.display()
            );
            return Err(DenoiseError::NoPair(why));
        }
        let burst = compilation.burst(burst)?;
        let frame = burst.frame()?;
        let mut network = Self { burst, frame, state_bytes };
        network.reset()?;
        Ok(network)
    }

    fn run(&mut self, input: &[f32], output: &mut [f32], end: Instant) -> Result<(), DenoiseError> {
        self.frame.write(0, input)?;
        let left = end.saturating_duration_since(Instant::now());
        let call = CallOptions { timeout: Some(left), ..CallOptions::default() };
        self.burst.compute_with(&mut self.frame, &call)?;
        self.frame.read_into(0, output)?;
        Ok(self.frame.exchange(1, 1)?)
    }

    fn reset(&mut self) -> Result<(), DenoiseError> {
        Ok(self.frame.write_bytes(1, &vec![0; self.state_bytes])?)
    }
}

/// Between samples and frequencies; in double precision, as the models were trained.
struct Transform {
    forward: Arc<dyn RealToComplex<f64>>,
    inverse: Arc<dyn ComplexToReal<f64>>,
    samples: Vec<f64>,
    spectrum: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl Transform {
    fn new() -> Self {
        let mut planner = RealFftPlanner::new();
        let (forward, inverse) =
            (planner.plan_fft_forward(WINDOW), planner.plan_fft_inverse(WINDOW));
        let scratch = forward.get_scratch_len().max(inverse.get_scratch_len());
        Self {
            samples: forward.make_input_vec(),
            spectrum: forward.make_output_vec(),
            scratch: vec![Complex::default(); scratch],
            forward,
            inverse,
        }
    }

    /// Keeps the spectrum and gives its magnitudes.
    fn forward(
        &mut self,
        window: &[f32; WINDOW],
        magnitudes: &mut [f32; BINS],
    ) -> Result<(), DenoiseError> {
        for (to, &from) in self.samples.iter_mut().zip(window) {
            *to = f64::from(from);
        }
        let Self { forward, samples, spectrum, scratch, .. } = self;
        forward.process_with_scratch(samples, spectrum, scratch)?;
        for (to, from) in magnitudes.iter_mut().zip(spectrum) {
            *to = narrow(from.norm());
        }
        Ok(())
    }

    /// The kept spectrum under a mask, as samples.
    fn inverse(
        &mut self,
        mask: &[f32; BINS],
        samples: &mut [f32; WINDOW],
    ) -> Result<(), DenoiseError> {
        for (bin, &share) in self.spectrum.iter_mut().zip(mask) {
            *bin *= f64::from(share) / WINDOW as f64;
        }
        let Self { inverse, samples: wide, spectrum, scratch, .. } = self;
        inverse.process_with_scratch(spectrum, wide, scratch)?;
        for (to, &from) in samples.iter_mut().zip(wide.iter()) {
            *to = narrow(from);
        }
        Ok(())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the networks compute in single precision")]
fn narrow(x: f64) -> f32 {
    x as f32
}
