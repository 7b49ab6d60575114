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
//! A [`Denoiser`] is what an audio callback owns: [`Denoiser::try_submit`] takes a block and
//! returns at once, [`Denoiser::poll`] gives it when it is clean, and neither allocates, locks nor
//! waits. Who may wait calls [`Denoiser::push`]. Each network has a burst and a frame of its own,
//! and its state goes from frame to frame without being copied.
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

mod models;
mod network;
mod transform;

pub use models::{ModelsError, find_models};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nnburst::{BurstOptions, Device, RuntimeError};
use nnburst_tflite::ImportError;

use network::Network;
use transform::Transform;

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
    /// A block is on its way already.
    #[error("a block is on its way: poll for it before the next one is given")]
    Busy,
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
    underway: Underway,
}

/// The state of the block that was submitted last.
enum Underway {
    Nowhere,
    /// In the first network, until a time at most.
    Mask(Instant),
    /// In the second.
    Speech(Instant),
    Failed(DenoiseError),
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
            underway: Underway::Nowhere,
        })
    }

    /// Takes a block and gives the one that was heard [`DELAY`] blocks before, silence at first.
    ///
    /// A sample that is no number counts as silence: it would stay in the networks' state.
    ///
    /// # Errors
    /// [`DenoiseError::Runtime`] where the device fails, or does not answer in time
    /// (`MISSED_DEADLINE_TRANSIENT`). What this block adds to the sound is then missing: `clean`
    /// has what the blocks before it added, and the next may be given.
    pub fn push(
        &mut self,
        heard: &[f32; BLOCK],
        clean: &mut [f32; BLOCK],
    ) -> Result<(), DenoiseError> {
        if self.is_busy() {
            return Err(DenoiseError::Busy);
        }
        let end = Instant::now() + self.limit;
        self.hear(heard);
        let speech = self.speech_of_window(end);
        self.add(speech.as_ref().ok(), clean);
        speech.map(drop)
    }

    /// Takes a block and returns at once; [`Denoiser::poll`] has it. Allocates and locks nothing,
    /// and makes no system call while the driver polls ([`nnburst::Wait::Spin`]).
    ///
    /// # Errors
    /// [`DenoiseError::Busy`] where the block before has not been polled to its end. What else goes
    /// wrong is for `poll` to say.
    pub fn try_submit(&mut self, heard: &[f32; BLOCK]) -> Result<(), DenoiseError> {
        if self.is_busy() {
            return Err(DenoiseError::Busy);
        }
        let end = Instant::now() + self.limit;
        self.hear(heard);
        let mut magnitudes = [0.0; BINS];
        let forward = self.transform.forward(&self.window, &mut magnitudes);
        let sent = forward.and_then(|()| self.mask.submit(&magnitudes, end));
        self.underway = sent.map_or_else(Underway::Failed, |()| Underway::Mask(end));
        Ok(())
    }

    /// Gives the block that was heard [`DELAY`] blocks before the one submitted, if that is done,
    /// and takes it from one network to the other, if the first is done: to be called now and then.
    /// `None` while it is on its way, or nothing is. Never waits; otherwise as
    /// [`Denoiser::try_submit`].
    ///
    /// # Errors
    /// As for [`Denoiser::push`].
    pub fn poll(&mut self, clean: &mut [f32; BLOCK]) -> Option<Result<(), DenoiseError>> {
        self.advance(clean, None)
    }

    /// As [`Denoiser::poll`], but waits until `time` at most for the block to be done.
    ///
    /// # Errors
    /// As for [`Denoiser::push`].
    pub fn wait_until(
        &mut self,
        clean: &mut [f32; BLOCK],
        time: Instant,
    ) -> Option<Result<(), DenoiseError>> {
        self.advance(clean, Some(time))
    }

    fn advance(
        &mut self,
        clean: &mut [f32; BLOCK],
        time: Option<Instant>,
    ) -> Option<Result<(), DenoiseError>> {
        loop {
            self.underway = match std::mem::replace(&mut self.underway, Underway::Nowhere) {
                Underway::Nowhere => return None,
                Underway::Mask(end) => {
                    let mut mask = [0.0; BINS];
                    let Some(taken) = self.mask.take(&mut mask, time) else {
                        self.underway = Underway::Mask(end);
                        return None;
                    };
                    let sent = taken.and_then(|()| self.submit_speech(&mask, end));
                    sent.map_or_else(Underway::Failed, |()| Underway::Speech(end))
                }
                Underway::Speech(end) => {
                    let mut speech = [0.0; WINDOW];
                    match self.speech.take(&mut speech, time) {
                        None => {
                            self.underway = Underway::Speech(end);
                            return None;
                        }
                        Some(Ok(())) => {
                            self.add(Some(&speech), clean);
                            return Some(Ok(()));
                        }
                        Some(Err(error)) => Underway::Failed(error),
                    }
                }
                Underway::Failed(error) => {
                    self.add(None, clean);
                    return Some(Err(error));
                }
            };
        }
    }

    /// Sends what the first network left of a window's spectrum to the second.
    fn submit_speech(&mut self, mask: &[f32; BINS], end: Instant) -> Result<(), DenoiseError> {
        let mut masked = [0.0; WINDOW];
        self.transform.inverse(mask, &mut masked)?;
        self.speech.submit(&masked, end)
    }

    /// Returns whether a block was submitted and not polled to its end.
    pub fn is_busy(&self) -> bool {
        !matches!(self.underway, Underway::Nowhere)
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
    /// [`DenoiseError::Runtime`] where the frames can't be written, [`DenoiseError::Busy`] while a
    /// block is on its way.
    pub fn reset(&mut self) -> Result<(), DenoiseError> {
        if self.is_busy() {
            return Err(DenoiseError::Busy);
        }
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
