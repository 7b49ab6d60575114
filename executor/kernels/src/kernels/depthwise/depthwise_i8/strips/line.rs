//! The loop over a strip: the same for every instruction set.

use std::marker::PhantomData;

use super::{LANES, Strip};
use crate::simd::requantise::{Channels, Quick};

/// The requantisation of accumulators: no result is below the zero point, some are, or multipliers
/// are of any kind.
pub(super) const POSITIVE: u8 = 0;
pub(super) const NEGATIVE: u8 = 1;
pub(super) const GENERAL: u8 = 2;

/// Some lines of a column of the image, or of a window's weights: of sixteen channels, in
/// registers. It is laid out for this kernel, as each instruction set's dot product wants its
/// lines: hence beside it, and no part of [`Dot`](crate::simd::dot::Dot). The methods are always
/// inlined, into functions that state the instruction set.
pub(super) trait Word: Copy {
    /// The proof of the instruction set.
    type Isa: Copy;
    /// A sum for each channel.
    type Sums: Copy;
    /// The permutation of lines that are loaded.
    type Order: Copy;
    /// The constants of the requantisation.
    type Finish: Copy;

    /// Lines of a word.
    const LINES: usize;
    /// Products for each word: two where weights are split.
    const PARTS: usize;
    /// True if [`Quick`] multipliers have a way of their own.
    const QUICK: bool;
    /// True if the products of a tile come before the requantisation of the one before it, so that
    /// neither waits for the other: for machines with registers for the sums of both.
    const AHEAD: bool;

    /// Runs a job as compiled for the instruction set.
    ///
    /// # Safety
    /// As for the job.
    unsafe fn apart<J: Job<Isa = Self::Isa>>(isa: Self::Isa, s: &Strip);

    fn order(isa: Self::Isa) -> Self::Order;

    /// # Safety
    /// There are sixteen channels.
    unsafe fn finish(isa: Self::Isa, scaling: &Channels) -> Self::Finish;

    /// # Safety
    /// There are sixteen numbers.
    unsafe fn sums(isa: Self::Isa, from: *const i32) -> Self::Sums;

    /// # Safety
    /// There are sixteen words.
    unsafe fn weights(isa: Self::Isa, from: *const i32) -> Self;

    /// `count` lines of the image, `line` bytes apart; what stands in the place of others is
    /// arbitrary.
    ///
    /// # Safety
    /// Sixteen channels of so many lines are readable.
    unsafe fn lines(
        isa: Self::Isa,
        order: &Self::Order,
        from: *const u8,
        line: usize,
        count: usize,
    ) -> Self;

    /// Weights of the window below: each a line further down, the first what the word before loses.
    fn lowered(self, before: Option<Self>) -> Self;

    /// Adds the products with weights.
    fn dot(self, weights: Self, sums: Self::Sums) -> Self::Sums;

    /// Writes the results of neighbouring windows, `step` bytes apart.
    ///
    /// # Safety
    /// They are writable, and the channels are there. But for [`GENERAL`] all of them are quick.
    unsafe fn store<const FINISH: u8, const PIXELS: usize>(
        finish: &Self::Finish,
        scaling: &Channels,
        sums: [Self::Sums; PIXELS],
        to: *mut u8,
        step: usize,
    );
}

/// A part of the work that is a function of its own.
pub(super) trait Job {
    /// The proof of the instruction set.
    type Isa;

    /// # Safety
    /// The strip's input is readable, weights and scaling are there, its output is writable.
    unsafe fn run(isa: Self::Isa, s: &Strip);
}

/// Windows of `SIDE` lines and columns, up to `PIXELS` at a time; `WORDS` words hold the lines of
/// one window and of the one below.
///
/// # Safety
/// As for [`Job::run`].
#[inline(always)]
pub(super) unsafe fn strip<W: Word, const SIDE: usize, const WORDS: usize, const PIXELS: usize>(
    isa: W::Isa,
    s: &Strip,
) {
    // SAFETY: as the caller promises; each arm differs in how sums become bytes alone.
    unsafe {
        match (s.two, s.scaling.quick) {
            (true, _) if !W::QUICK => sharing::<W, SIDE, WORDS, PIXELS, 2, GENERAL>(isa, s),
            (false, _) if !W::QUICK => sharing::<W, SIDE, WORDS, PIXELS, 1, GENERAL>(isa, s),
            (true, Some(Quick { negative: false })) => {
                sharing::<W, SIDE, WORDS, PIXELS, 2, POSITIVE>(isa, s);
            }
            (true, Some(Quick { negative: true })) => {
                sharing::<W, SIDE, WORDS, PIXELS, 2, NEGATIVE>(isa, s);
            }
            (false, Some(Quick { negative: false })) => {
                sharing::<W, SIDE, WORDS, PIXELS, 1, POSITIVE>(isa, s);
            }
            (false, Some(Quick { negative: true })) => {
                sharing::<W, SIDE, WORDS, PIXELS, 1, NEGATIVE>(isa, s);
            }
            (true, None) => W::apart::<Line<W, SIDE, WORDS, 2, 1, 0, GENERAL>>(isa, s),
            (false, None) => W::apart::<Line<W, SIDE, WORDS, 1, 1, 0, GENERAL>>(isa, s),
        }
    }
}

/// Neighbours share columns of the image unless they are too far apart, or too few.
///
/// # Safety
/// As for [`strip`].
#[inline(always)]
unsafe fn sharing<
    W: Word,
    const SIDE: usize,
    const WORDS: usize,
    const PIXELS: usize,
    const ROWS: usize,
    const FINISH: u8,
>(
    isa: W::Isa,
    s: &Strip,
) {
    // SAFETY: as the caller promises; each arm differs in how windows share columns alone.
    unsafe {
        match s.step {
            _ if s.count < PIXELS => W::apart::<Line<W, SIDE, WORDS, ROWS, 1, 0, FINISH>>(isa, s),
            step if step == s.tap => {
                W::apart::<Line<W, SIDE, WORDS, ROWS, PIXELS, 1, FINISH>>(isa, s);
            }
            step if step == 2 * s.tap => {
                W::apart::<Line<W, SIDE, WORDS, ROWS, PIXELS, 2, FINISH>>(isa, s);
            }
            _ => W::apart::<Line<W, SIDE, WORDS, ROWS, 1, 0, FINISH>>(isa, s),
        }
    }
}

/// A whole strip, `ROWS` lines of outputs, `PIXELS` windows at a time that lie `STEP` taps apart.
/// What all tiles need is loaded once: behind a store the compiler would load it again.
struct Line<
    W,
    const SIDE: usize,
    const WORDS: usize,
    const ROWS: usize,
    const PIXELS: usize,
    const STEP: usize,
    const FINISH: u8,
>(PhantomData<W>);

impl<
    W: Word,
    const SIDE: usize,
    const WORDS: usize,
    const ROWS: usize,
    const PIXELS: usize,
    const STEP: usize,
    const FINISH: u8,
> Job for Line<W, SIDE, WORDS, ROWS, PIXELS, STEP, FINISH>
{
    type Isa = W::Isa;

    #[inline(always)]
    unsafe fn run(isa: W::Isa, s: &Strip) {
        // SAFETY: a block of weights has a line of bias, and one of each word of each column.
        let (bias, first) =
            unsafe { (W::sums(isa, s.weights), W::weights(isa, s.weights.add(LANES))) };
        // What fits signed bytes, and what is left; of the second row of windows a line further
        // down.
        let mut weights = [[[[first; WORDS]; SIDE]; 2]; ROWS];
        for at in 0..W::PARTS * SIDE * WORDS {
            let (part, tap, word) = (at / WORDS / SIDE, at / WORDS % SIDE, at % WORDS);
            // SAFETY: as above; there are as many parts as the variant multiplies.
            let all = unsafe { W::weights(isa, s.weights.add((1 + at) * LANES)) };
            weights[0][part][tap][word] = all;
            if ROWS == 2 {
                let before = (word > 0).then(|| weights[0][part][tap][word - 1]);
                weights[1][part][tap][word] = all.lowered(before);
            }
        }
        // SAFETY: sixteen channels.
        let (order, finish) = (W::order(isa), unsafe { W::finish(isa, &s.scaling) });
        let last = s.count - PIXELS;
        let (mut input, mut output) = (s.input, s.output);
        let (mut time, mut x) = (0, 0);
        // The tile before, and its place, which the first has not: so that sums have one place in
        // the code.
        let (mut before, mut to) = ([[bias; PIXELS]; ROWS], std::ptr::null_mut::<u8>());
        loop {
            let from = input.wrapping_add(x * s.step);
            // SAFETY: windows of the strip, and their outputs.
            unsafe {
                let sums = Self::sums(isa, s, &order, &weights, bias, from);
                if W::AHEAD {
                    if !to.is_null() {
                        Self::store(s, &finish, before, to);
                    }
                    before = sums;
                }
                to = output.wrapping_add(x * s.out_step);
                if !W::AHEAD {
                    Self::store(s, &finish, sums, to);
                }
            }
            // The last tile of a line overlaps the one before.
            if x < last {
                x = (x + PIXELS).min(last);
                continue;
            }
            (time, x) = (time + 1, 0);
            if time == s.times {
                break;
            }
            input = input.wrapping_add(s.next_input);
            output = output.wrapping_add(s.next_output);
        }
        if W::AHEAD {
            // SAFETY: as above.
            unsafe { Self::store(s, &finish, before, to) };
        }
    }
}

impl<
    W: Word,
    const SIDE: usize,
    const WORDS: usize,
    const ROWS: usize,
    const PIXELS: usize,
    const STEP: usize,
    const FINISH: u8,
> Line<W, SIDE, WORDS, ROWS, PIXELS, STEP, FINISH>
{
    /// The sums of a tile's windows, of which the first begins there.
    ///
    /// # Safety
    /// As for [`Job::run`]; the strip has these windows.
    #[inline(always)]
    unsafe fn sums(
        isa: W::Isa,
        s: &Strip,
        order: &W::Order,
        weights: &[[[[W; WORDS]; SIDE]; 2]; ROWS],
        bias: W::Sums,
        from: *const u8,
    ) -> [[W::Sums; PIXELS]; ROWS] {
        let mut sums = [[bias; PIXELS]; ROWS];
        // The loops within are short enough for the compiler to unroll them by itself.
        unrolled!(12: column < (PIXELS - 1) * STEP + SIDE, {
            // Words are enough for two lines of windows: of one the last may have no line, and
            // there may be nothing to read.
            for word in 0..WORDS.min((SIDE + ROWS - 1).div_ceil(W::LINES)) {
                let above = word * W::LINES;
                let first = from.wrapping_add(column * s.tap + above * s.line);
                let count = (SIDE + ROWS - 1 - above).min(W::LINES);
                // SAFETY: a column of a window, or of two.
                let lines = unsafe { W::lines(isa, order, first, s.line, count) };
                for (p, r) in (0..PIXELS * ROWS).map(|at| (at / ROWS, at % ROWS)) {
                    let over = column >= p * STEP && column - p * STEP < SIDE;
                    if over && above < SIDE + r && above + W::LINES > r {
                        for part in 0..W::PARTS {
                            let weights = weights[r][part][column - p * STEP][word];
                            sums[r][p] = lines.dot(weights, sums[r][p]);
                        }
                    }
                }
            }
        });
        sums
    }

    /// Writes the results of a tile's windows.
    ///
    /// # Safety
    /// As for [`Job::run`]; the strip has these windows.
    #[inline(always)]
    unsafe fn store(s: &Strip, finish: &W::Finish, sums: [[W::Sums; PIXELS]; ROWS], to: *mut u8) {
        for (r, sums) in sums.into_iter().enumerate() {
            let to = to.wrapping_add(r * s.out_line);
            // SAFETY: the outputs of the windows.
            unsafe { W::store::<FINISH, PIXELS>(finish, &s.scaling, sums, to, s.out_step) };
        }
    }
}
