//! Windows of one line: words of neighbouring taps of sixteen channels.
//!
//! ```text
//!   pixels x, x + 1, x + 2, x + 3 ──interleaved──► lane c: four taps of channel c
//!   weights (w0, w1, w2, w3), (w4, ..) ► output x;  (0, w0, w1, w2), (w3, ..) ► output x + 1
//! ```
//!
//! A word is loaded once for four windows.

#![cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "AVX-512 has these windows"))]

use std::marker::PhantomData;

use super::line::{GENERAL, Job, NEGATIVE, POSITIVE, Word};
use super::{LANES, Strip};
use crate::simd::requantise::Quick;

/// Windows that share words.
pub(super) const NEIGHBOURS: usize = 4;

/// Words that the taps of so many neighbours take.
pub(super) const fn words(taps: usize, per_word: usize) -> usize {
    (taps + NEIGHBOURS - 1).div_ceil(per_word)
}

/// The windows of a strip, whose lines are taps.
///
/// # Safety
/// As for [`Job::run`].
#[inline(always)]
pub(super) unsafe fn windows<W: Word>(isa: W::Isa, s: &Strip) {
    // SAFETY: as the caller promises; each arm differs in how sums become bytes alone.
    unsafe {
        match s.scaling.quick {
            Some(Quick { negative: false }) => W::apart::<Row<W, POSITIVE>>(isa, s),
            Some(Quick { negative: true }) => W::apart::<Row<W, NEGATIVE>>(isa, s),
            None => W::apart::<Row<W, GENERAL>>(isa, s),
        }
    }
}

/// A whole strip.
struct Row<W, const FINISH: u8>(PhantomData<W>);

impl<W: Word, const FINISH: u8> Job for Row<W, FINISH> {
    type Isa = W::Isa;

    #[inline(always)]
    unsafe fn run(isa: W::Isa, s: &Strip) {
        // SAFETY: sixteen channels.
        let (order, finish) = (W::order(isa), unsafe { W::finish(isa, &s.scaling) });
        for time in 0..s.times {
            let input = s.input.wrapping_add(time * s.next_input);
            let output = s.output.wrapping_add(time * s.next_output);
            let mut x = 0;
            while x < s.count {
                // The last four overlap those before; fewer are computed one by one.
                let four = s.count >= NEIGHBOURS;
                let at = if four { x.min(s.count - NEIGHBOURS) } else { x };
                let from = input.wrapping_add(at * s.step);
                let to = output.wrapping_add(at * s.out_step);
                // SAFETY: windows of the strip, and their outputs.
                unsafe {
                    if four {
                        let sums = Self::sums::<NEIGHBOURS>(isa, s, &order, from);
                        W::store::<FINISH, NEIGHBOURS>(&finish, &s.scaling, sums, to, s.out_step);
                    } else {
                        let sums = Self::sums::<1>(isa, s, &order, from);
                        W::store::<FINISH, 1>(&finish, &s.scaling, sums, to, s.out_step);
                    }
                }
                x += if four { NEIGHBOURS } else { 1 };
            }
        }
    }
}

impl<W: Word, const FINISH: u8> Row<W, FINISH> {
    /// The sums of neighbouring windows, of which the first begins there.
    ///
    /// # Safety
    /// As for [`Job::run`]; the strip has these windows.
    #[inline(always)]
    unsafe fn sums<const PIXELS: usize>(
        isa: W::Isa,
        s: &Strip,
        order: &W::Order,
        from: *const u8,
    ) -> [W::Sums; PIXELS] {
        // Pixels that the windows cover, and the words all of whose taps are there.
        let covered = s.taps + PIXELS - 1;
        let (whole, rest) = (covered / W::LINES, covered % W::LINES);
        // SAFETY: a block of weights has a line of bias; pixels of the windows.
        unsafe {
            let mut sums = [W::sums(isa, s.weights); PIXELS];
            for word in 0..whole {
                let first = from.wrapping_add(word * W::LINES * s.line);
                let taps = W::lines(isa, order, first, s.line, W::LINES);
                Self::add(isa, s, taps, word, &mut sums);
            }
            if rest > 0 {
                let first = from.wrapping_add(whole * W::LINES * s.line);
                let taps = W::lines(isa, order, first, s.line, rest);
                Self::add(isa, s, taps, whole, &mut sums);
            }
            sums
        }
    }

    /// Adds the products of a word with the weights of each window.
    ///
    /// # Safety
    /// There is such a word.
    #[inline(always)]
    unsafe fn add<const PIXELS: usize>(
        isa: W::Isa,
        s: &Strip,
        taps: W,
        word: usize,
        sums: &mut [W::Sums; PIXELS],
    ) {
        let words = words(s.taps, W::LINES);
        for part in 0..W::PARTS {
            unrolled!(4: p < PIXELS, {
                let line = 1 + (part * NEIGHBOURS + p) * words + word;
                // SAFETY: behind the bias a line for each part, window and word.
                let weights = unsafe { W::weights(isa, s.weights.add(line * LANES)) };
                sums[p] = taps.dot(weights, sums[p]);
            });
        }
    }
}
