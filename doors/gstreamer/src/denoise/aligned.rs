//! Sound through blocks: as many samples out as in, aligned with each other.

use std::collections::VecDeque;

use nnburst_denoise::{BLOCK, DELAY};

/// Samples that the networks' output lies behind.
const BEHIND: usize = BLOCK * DELAY;

/// A stream of samples cut into blocks. Whatever becomes of a block, as many samples come out as
/// went in: what the networks give before the first sample is left out, and what they hold back at
/// the end comes with [`AlignedSound::drain`].
#[derive(Debug)]
pub(super) struct AlignedSound {
    /// Samples that are no full block yet.
    waiting: Vec<f32>,
    /// The blocks that the networks hold back, as they were heard.
    heard: VecDeque<[f32; BLOCK]>,
    /// Samples that come before the first one.
    before: usize,
    taken: u64,
    given: u64,
}

/// The cleaning of a block; `None` where that failed.
pub(super) type Clean<'a> = &'a mut dyn FnMut(&[f32; BLOCK]) -> Option<[f32; BLOCK]>;

impl AlignedSound {
    pub(super) fn new() -> Self {
        Self {
            waiting: Vec::with_capacity(BLOCK),
            heard: std::iter::repeat_n([0.0; BLOCK], DELAY).collect(),
            before: BEHIND,
            taken: 0,
            given: 0,
        }
    }

    /// Samples that have come out.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// Takes samples, and appends those that are through to `out`.
    pub(super) fn push(&mut self, samples: &[f32], clean: Clean<'_>, out: &mut Vec<f32>) {
        self.taken += samples.len() as u64;
        self.feed(samples, clean, out);
    }

    fn feed(&mut self, mut samples: &[f32], clean: Clean<'_>, out: &mut Vec<f32>) {
        loop {
            let missing = BLOCK - self.waiting.len();
            let Some((head, rest)) = samples.split_at_checked(missing) else {
                self.waiting.extend_from_slice(samples);
                return;
            };
            self.waiting.extend_from_slice(head);
            samples = rest;
            let mut block = [0.0; BLOCK];
            block.copy_from_slice(&self.waiting);
            self.waiting.clear();
            self.heard.push_back(block);
            let heard = self.heard.pop_front().unwrap_or([0.0; BLOCK]);
            let cleaned = clean(&block).unwrap_or(heard);
            let left_out = self.before.min(BLOCK);
            self.before -= left_out;
            let given = cleaned.get(left_out..).unwrap_or_default();
            self.given += given.len() as u64;
            out.extend_from_slice(given);
        }
    }

    /// Appends what is held back to `out`. The next sample begins a new stream.
    pub(super) fn drain(&mut self, clean: Clean<'_>, out: &mut Vec<f32>) {
        let missing = self.taken - self.given;
        let start = out.len();
        let end = start + usize::try_from(missing).unwrap_or(0);
        while out.len() < end {
            self.feed(&[0.0; BLOCK], clean, out);
        }
        out.truncate(end);
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Networks that only delay.
    fn delay() -> impl FnMut(&[f32; BLOCK]) -> Option<[f32; BLOCK]> {
        let mut held: VecDeque<_> = std::iter::repeat_n([0.0; BLOCK], DELAY).collect();
        move |block| {
            held.push_back(*block);
            held.pop_front()
        }
    }

    #[test]
    fn as_much_comes_out_as_went_in_whatever_the_size_of_buffers() {
        for total in [0u16, 1, 127, 128, 129, 384, 385, 1000, 5000] {
            let sound: Vec<f32> = (0..total).map(f32::from).collect();
            for size in [1, 7, 128, 480, 1024, 8192] {
                let (mut line, mut clean, mut out) = (AlignedSound::new(), delay(), Vec::new());
                for samples in sound.chunks(size) {
                    line.push(samples, &mut clean, &mut out);
                    assert!(out.len() <= sound.len());
                }
                line.drain(&mut clean, &mut out);
                assert_eq!(out, sound, "{total} samples in buffers of {size}");
                assert_eq!((line.given(), line.taken), (0, 0));
            }
        }
    }

    #[test]
    fn blocks_that_fail_are_heard_as_they_were() {
        let sound: Vec<f32> = (0..2000u16).map(f32::from).collect();
        let (mut line, mut out, mut clean) = (AlignedSound::new(), Vec::new(), delay());
        let mut number = 0;
        let mut sometimes = |block: &[f32; BLOCK]| {
            number += 1;
            clean(block).filter(|_| number % 3 != 0)
        };
        line.push(&sound, &mut sometimes, &mut out);
        line.drain(&mut sometimes, &mut out);
        assert_eq!(out, sound);
    }
}
