//! The sound of one instance: in at the host's rate, out at the same rate and a constant time
//! later.
//!
//! ```text
//!   host's rate       48 kHz only     16 kHz
//!   ──► dry, delayed ──────────────────────────────────────────────────────────┐
//!    └► low-pass, every third ─► blocks of 128 ─► worker ─► blocks ─► three ───► mix ─►
//!                                                     (or dry ones)  for one
//! ```
//!
//! Everything happens sample by sample, so that the host's way to cut the sound into calls changes
//! nothing. A block that is complete goes to the worker, which has [`BUDGET`] for it: then the
//! block is taken, clean or not. In place of one that isn't ready the sound passes as it was heard:
//! `mix` turns to the dry sound within a block and back, without a click, and the delay stays what
//! it is.

use std::time::Instant;

use nnburst_denoise::{BLOCK, DELAY};

use crate::link::{Block, RunLink, Taken};
use crate::pace::{Pace, has_realtime_threads};
use crate::resample::{self, Down, FACTOR, Up};

/// The blocks that the worker has for one: it is a thread of ordinary priority, and a host may
/// bring as much at once.
const BUDGET: usize = 2;

/// Blocks between one that is complete and the one that is taken for what comes next.
const BEHIND: usize = BUDGET + 1;

/// The delay at 16 kHz, in samples: the window of the networks, a block, and the worker's time.
const DELAY_16K: usize = (DELAY + BEHIND) * BLOCK;

/// The times that a wait polls before it looks at the clock.
const POLLS: u32 = 64;

/// A rate of the host's that the plugin works at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// That of the networks.
    Hz16000,
    /// Three times that.
    Hz48000,
}

impl Rate {
    pub(crate) fn from_hz(hz: u64) -> Option<Self> {
        match hz {
            16_000 => Some(Self::Hz16000),
            48_000 => Some(Self::Hz48000),
            _ => None,
        }
    }

    fn hz(self) -> u32 {
        match self {
            Self::Hz16000 => 16_000,
            Self::Hz48000 => 48_000,
        }
    }

    /// By how many samples what comes out lies behind what goes in.
    pub(crate) const fn latency(self) -> usize {
        match self {
            Self::Hz16000 => DELAY_16K,
            Self::Hz48000 => DELAY_16K * FACTOR + resample::DELAY,
        }
    }
}

/// The values of the control ports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Controls {
    /// The share of the clean sound, 0 to 1.
    pub(crate) wet: f32,
    /// The most that is taken of the noise, in decibels; 100 and more for all.
    pub(crate) limit_db: f32,
}

/// The largest limit.
pub(crate) const NO_LIMIT_DB: f32 = 100.0;

impl Controls {
    /// The weight of the clean sound; values that are none count as the defaults.
    fn weight(self) -> f32 {
        let wet = if self.wet.is_nan() { 1.0 } else { self.wet.clamp(0.0, 1.0) };
        if self.limit_db.is_nan() || self.limit_db >= NO_LIMIT_DB {
            return wet;
        }
        wet * (1.0 - 10.0f32.powf(-self.limit_db.max(0.0) / 20.0))
    }
}

/// A line that delays by as many samples as it is long.
#[derive(Clone, Debug)]
struct DelayLine {
    samples: Box<[f32]>,
    at: usize,
}

impl DelayLine {
    fn new(length: usize) -> Self {
        Self { samples: vec![0.0; length].into(), at: 0 }
    }

    fn exchange(&mut self, sample: f32) -> f32 {
        let before = std::mem::replace(&mut self.samples[self.at], sample);
        self.at = (self.at + 1) % self.samples.len();
        before
    }

    fn clear(&mut self) {
        self.samples.fill(0.0);
    }
}

/// One channel between the blocks.
#[derive(Clone, Debug)]
struct Channel {
    dry: DelayLine,
    dry_16k: DelayLine,
    down: Down,
    up: Up,
    /// The sample at 16 kHz, for hosts at that rate.
    now: f32,
}

/// The sound of one instance.
#[derive(Debug)]
pub(crate) struct SoundStream<const CHANNELS: usize> {
    rate: Rate,
    link: RunLink<CHANNELS>,
    pace: Pace,
    channels: [Channel; CHANNELS],
    /// The block that is being filled, the one that is being played, and the place in both.
    filling: Block<CHANNELS>,
    playing: Option<Block<CHANNELS>>,
    at: usize,
    /// Blocks that are complete.
    complete: u64,
    /// 0 to 2: samples at 48 kHz since the last one at 16 kHz.
    phase: usize,
    /// The weight of the clean sound as the controls have it.
    target: f32,
    /// The weight as it is now, on its way there; `None` before the first sample.
    weight: Option<f32>,
    misses: u64,
    /// False where nobody is at the other end: in a forked child.
    has_worker: bool,
}

impl<const CHANNELS: usize> SoundStream<CHANNELS> {
    pub(crate) fn new(rate: Rate, link: RunLink<CHANNELS>) -> Self {
        let channel = || Channel {
            dry: DelayLine::new(rate.latency()),
            dry_16k: DelayLine::new(DELAY_16K),
            down: Down::new(),
            up: Up::new(),
            now: 0.0,
        };
        let mut stream = Self {
            rate,
            link,
            pace: Pace::new(rate.hz()),
            channels: std::array::from_fn(|_| channel()),
            filling: [[0.0; BLOCK]; CHANNELS],
            playing: None,
            at: 0,
            complete: 0,
            phase: 0,
            target: 1.0,
            weight: None,
            misses: 0,
            has_worker: true,
        };
        stream.reset();
        stream
    }

    /// Forgets all that was heard.
    pub(crate) fn reset(&mut self) {
        self.link.reset();
        self.pace.reset(has_realtime_threads());
        for channel in &mut self.channels {
            channel.dry.clear();
            channel.dry_16k.clear();
            channel.down.clear();
            channel.up.clear();
        }
        // Silence, until the first block is due.
        self.playing = Some([[0.0; BLOCK]; CHANNELS]);
        (self.at, self.complete, self.phase) = (0, 0, 0);
        (self.weight, self.misses) = (None, 0);
    }

    /// Nobody takes blocks any more.
    pub(crate) fn lose_worker(&mut self) {
        self.has_worker = false;
    }

    /// Ends the worker.
    pub(crate) fn end(&self) {
        self.link.end();
    }

    /// The delay in samples of the host's.
    pub(crate) fn latency(&self) -> usize {
        self.rate.latency()
    }

    /// Blocks that passed as they were heard, but for those while the networks were loaded.
    pub(crate) fn misses(&self) -> u64 {
        self.misses
    }

    /// A call of `run` begins that brings so many samples.
    pub(crate) fn begin(&mut self, samples: usize, controls: Controls) {
        self.pace.begin(samples, Instant::now());
        self.target = controls.weight();
    }

    /// It ends.
    pub(crate) fn end_call(&mut self) {
        self.pace.end(Instant::now());
    }

    /// Takes the next sample of each channel, and gives those that come out.
    pub(crate) fn step(&mut self, heard: [f32; CHANNELS]) -> [f32; CHANNELS] {
        let is_new = match self.rate {
            Rate::Hz16000 => true,
            Rate::Hz48000 => {
                self.phase = (self.phase + 1) % FACTOR;
                for (channel, heard) in self.channels.iter_mut().zip(heard) {
                    channel.down.push(heard);
                }
                self.phase == 0
            }
        };
        if is_new {
            self.step_16k(heard);
        }
        let weight = self.weight.unwrap_or(self.target);
        let mut out = heard;
        for (channel, out) in self.channels.iter_mut().zip(&mut out) {
            let dry = channel.dry.exchange(*out);
            let clean = match self.rate {
                Rate::Hz16000 => channel.now,
                Rate::Hz48000 => channel.up.sample(self.phase),
            };
            // What has no weight has no say, whatever it is.
            *out = match weight {
                0.0 => dry,
                1.0 => clean,
                weight => weight * clean + (1.0 - weight) * dry,
            };
        }
        out
    }

    /// One sample at 16 kHz of each channel.
    fn step_16k(&mut self, heard: [f32; CHANNELS]) {
        if self.at == 0 && self.complete >= BEHIND as u64 {
            self.playing = self.take(self.complete - BEHIND as u64);
        }
        let target = if self.playing.is_some() { self.target } else { 0.0 };
        let step = 1.0 / BLOCK as f32;
        let weight = self.weight.map_or(target, |now| now + (target - now).clamp(-step, step));
        self.weight = Some(weight);
        for (number, (channel, heard)) in self.channels.iter_mut().zip(heard).enumerate() {
            let sample = match self.rate {
                Rate::Hz16000 => heard,
                Rate::Hz48000 => channel.down.sample(),
            };
            let dry = channel.dry_16k.exchange(sample);
            self.filling[number][self.at] = sample;
            let now = self.playing.as_ref().map_or(dry, |playing| playing[number][self.at]);
            channel.now = now;
            if self.rate == Rate::Hz48000 {
                channel.up.push(now);
            }
        }
        self.at += 1;
        if self.at == BLOCK {
            self.at = 0;
            self.complete += 1;
            if self.has_worker {
                self.link.send(&self.filling);
            }
        }
    }

    /// A block that is due, if it is ready within the time that the host has.
    fn take(&mut self, number: u64) -> Option<Block<CHANNELS>> {
        if !self.has_worker {
            return None;
        }
        let was_loaded = self.link.is_loaded();
        let taken = self.wait_for(number);
        if taken.is_none() && was_loaded {
            self.misses += 1;
        }
        taken
    }

    fn wait_for(&mut self, number: u64) -> Option<Block<CHANNELS>> {
        let mut end = None;
        loop {
            for _ in 0..POLLS {
                match self.link.take(number) {
                    Taken::Clean(block) => {
                        self.pace.waited(true);
                        return Some(block);
                    }
                    Taken::Nothing => return None,
                    Taken::NotYet => std::hint::spin_loop(),
                }
            }
            let end = *end.get_or_insert_with(|| self.pace.deadline());
            if end.is_none_or(|end| Instant::now() >= end) {
                self.pace.waited(false);
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
