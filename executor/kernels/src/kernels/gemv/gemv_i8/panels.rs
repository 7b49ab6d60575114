//! The loop over panels: the same for every instruction set.

use super::kernel::{COLUMNS, DEPTH, Panels};
use crate::simd::dot::Dot;
use crate::simd::vector_i32::I32Simd;

/// The sums of a panel's columns, in registers, in the order of this kernel's panels: [`DotSums`]
/// for instruction sets with dot products of bytes, pairs of 16-bit products elsewhere. The methods
/// are always inlined, into functions that state the instruction set.
pub(super) trait PanelSums: Copy {
    /// The proof of the instruction set.
    type Isa: Copy;
    /// Four bytes of the row, for every column.
    type Word: Copy;
    /// The bits that are flipped in them.
    type Flip: Copy;

    /// The words at a time, with sums of their own, that registers have room for where a row meets
    /// one or two panels: 2 or 4.
    const CHAINS: usize;

    fn zero(isa: Self::Isa) -> Self;

    fn flip(isa: Self::Isa, flip: u8) -> Self::Flip;

    /// # Safety
    /// The word is readable, at any alignment.
    unsafe fn word(isa: Self::Isa, from: *const u32, flip: Self::Flip) -> Self::Word;

    /// Adds the products with a line of weights.
    ///
    /// # Safety
    /// The line is there.
    unsafe fn with_products(self, isa: Self::Isa, word: Self::Word, line: *const i8) -> Self;

    /// The sums of both.
    fn plus(self, isa: Self::Isa, other: Self) -> Self;

    /// Stores them, what each starts with added.
    ///
    /// # Safety
    /// There is one for each column at both.
    unsafe fn store(self, isa: Self::Isa, start: *const i32, to: *mut i32);
}

/// One sum per column, by dot products of bytes.
#[derive(Clone, Copy)]
pub(super) struct DotSums<D: Dot, const VECTORS: usize>([D::Sums; VECTORS]);

impl<D: Dot, const VECTORS: usize> PanelSums for DotSums<D, VECTORS> {
    type Isa = D;
    type Word = D::Word;
    type Flip = D::Flip;

    const CHAINS: usize = if VECTORS == 1 { 4 } else { 2 };

    #[inline(always)]
    fn zero(isa: D) -> Self {
        Self([D::Sums::splat(isa.vectors(), 0); VECTORS])
    }

    #[inline(always)]
    fn flip(isa: D, flip: u8) -> D::Flip {
        isa.flip(flip)
    }

    #[inline(always)]
    unsafe fn word(isa: D, from: *const u32, flip: D::Flip) -> D::Word {
        // SAFETY: as the caller promises.
        unsafe { isa.word(from.cast(), flip) }
    }

    #[inline(always)]
    unsafe fn with_products(mut self, isa: D, word: D::Word, line: *const i8) -> Self {
        for (v, sums) in self.0.iter_mut().enumerate() {
            let part = line.wrapping_add(v * D::Sums::LANES * DEPTH);
            // SAFETY: a part of the line.
            *sums = isa.dot(*sums, word, unsafe { isa.words(part.cast()) });
        }
        self
    }

    #[inline(always)]
    fn plus(mut self, _: D, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(sums, others)| *sums = sums.add(others));
        self
    }

    #[inline(always)]
    unsafe fn store(self, isa: D, start: *const i32, to: *mut i32) {
        for (v, sums) in self.0.into_iter().enumerate() {
            let at = v * D::Sums::LANES;
            // SAFETY: as the caller promises, so many columns each.
            unsafe { sums.add(D::Sums::load(isa.vectors(), start.add(at))).store(to.add(at)) };
        }
    }
}

/// Bytes of a line: a word of each column of a panel.
const LINE: usize = COLUMNS * DEPTH;

/// Lines of weights of some panels.
#[derive(Clone, Copy)]
struct Lines {
    /// The first of the panels.
    panel: usize,
    weights: *const i8,
    /// Bytes from the lines of a word to those of the next.
    step: usize,
}

/// All panels by `ROWS` rows at a time, in groups of `SIDE` panels whose lines lie in turns. A row
/// by itself meets up to eight panels at a time: their weights are read one after the other.
/// More rows meet up to four, which are in L1 from the second time on.
///
/// # Safety
/// As for [`super::kernel::GemvKernel::run`].
#[inline(always)]
pub(super) unsafe fn panels<S: PanelSums, const SIDE: usize, const ROWS: usize>(
    isa: S::Isa,
    all: &Panels,
) {
    for first in (0..all.panels).step_by(SIDE) {
        let together = SIDE.min(all.panels - first);
        let group = all.weights.wrapping_add(first * all.words * LINE);
        let mut at = 0;
        while at < together {
            let (panel, weights) = (first + at, group.wrapping_add(at * LINE));
            let lines = &Lines { panel, weights, step: together * LINE };
            // SAFETY: panels that are there.
            unsafe {
                at += match together - at {
                    8.. if SIDE >= 8 && ROWS == 1 => some::<S, 8, ROWS>(isa, all, lines),
                    4.. if SIDE >= 4 => some::<S, 4, ROWS>(isa, all, lines),
                    2.. if SIDE >= 2 => some::<S, 2, ROWS>(isa, all, lines),
                    _ => some::<S, 1, ROWS>(isa, all, lines),
                };
            }
        }
    }
}

/// `COUNT` panels by all rows; returns their number.
///
/// # Safety
/// As for the panels.
#[inline(always)]
unsafe fn some<S: PanelSums, const COUNT: usize, const ROWS: usize>(
    isa: S::Isa,
    all: &Panels,
    lines: &Lines,
) -> usize {
    let whole = if ROWS == 1 { 0 } else { all.rows / ROWS * ROWS };
    // SAFETY: rows that are there.
    unsafe {
        for row in (0..whole).step_by(ROWS) {
            tile::<S, COUNT, ROWS>(isa, all, lines, row);
        }
        for row in whole..all.rows {
            // About eight accumulators, as each product waits for the one before it.
            if COUNT >= 8 {
                single::<S, COUNT, 1>(isa, all, lines, row);
            } else if COUNT >= 4 || S::CHAINS < 4 {
                single::<S, COUNT, 2>(isa, all, lines, row);
            } else {
                single::<S, COUNT, 4>(isa, all, lines, row);
            }
        }
    }
    COUNT
}

/// `COUNT` panels by one row, `CHAINS` words at a time, each of which has sums of its own.
///
/// # Safety
/// As for the panels; there is such a row.
#[inline(always)]
unsafe fn single<S: PanelSums, const COUNT: usize, const CHAINS: usize>(
    isa: S::Isa,
    all: &Panels,
    lines: &Lines,
    row: usize,
) {
    let (mut weights, mut x) = (lines.weights, all.row.wrapping_add(row * all.words));
    let flip = S::flip(isa, all.flip);
    // SAFETY: words of the row, and a line of each panel for each of them.
    unsafe {
        let mut chains = [[S::zero(isa); COUNT]; CHAINS];
        for _ in 0..all.words / CHAINS {
            for sums in &mut chains {
                let word = S::word(isa, x, flip);
                for (at, sums) in sums.iter_mut().enumerate() {
                    *sums = sums.with_products(isa, word, weights.wrapping_add(at * LINE));
                }
                (weights, x) = (weights.wrapping_add(lines.step), x.wrapping_add(1));
            }
        }
        let mut sums = chains[0];
        for others in chains.into_iter().skip(1) {
            for (sums, others) in sums.iter_mut().zip(others) {
                *sums = sums.plus(isa, others);
            }
        }
        for _ in 0..all.words % CHAINS {
            let word = S::word(isa, x, flip);
            for (at, sums) in sums.iter_mut().enumerate() {
                *sums = sums.with_products(isa, word, weights.wrapping_add(at * LINE));
            }
            (weights, x) = (weights.wrapping_add(lines.step), x.wrapping_add(1));
        }
        store(isa, all, lines, row, sums);
    }
}

/// `COUNT` panels by `ROWS` rows.
///
/// # Safety
/// As for the panels; there are so many rows from `row` on.
#[inline(always)]
unsafe fn tile<S: PanelSums, const COUNT: usize, const ROWS: usize>(
    isa: S::Isa,
    all: &Panels,
    lines: &Lines,
    row: usize,
) {
    let (mut weights, mut x) = (lines.weights, all.row.wrapping_add(row * all.words));
    let flip = S::flip(isa, all.flip);
    // SAFETY: words of the rows, and a line of each panel for each of them.
    unsafe {
        let mut rows = [[S::zero(isa); COUNT]; ROWS];
        for _ in 0..all.words {
            for (row, sums) in rows.iter_mut().enumerate() {
                let word = S::word(isa, x.wrapping_add(row * all.words), flip);
                for (at, sums) in sums.iter_mut().enumerate() {
                    *sums = sums.with_products(isa, word, weights.wrapping_add(at * LINE));
                }
            }
            (weights, x) = (weights.wrapping_add(lines.step), x.wrapping_add(1));
        }
        for (at, sums) in rows.into_iter().enumerate() {
            store(isa, all, lines, row + at, sums);
        }
    }
}

/// Stores the sums of a row.
///
/// # Safety
/// As for the panels; there is such a row.
#[inline(always)]
unsafe fn store<S: PanelSums, const COUNT: usize>(
    isa: S::Isa,
    all: &Panels,
    lines: &Lines,
    row: usize,
    sums: [S; COUNT],
) {
    let first = lines.panel * COLUMNS;
    let (start, to) = (all.start.wrapping_add(first), all.sums.wrapping_add(first));
    let to = to.wrapping_add(row * all.panels * COLUMNS);
    for (at, sums) in sums.into_iter().enumerate() {
        let at = at * COLUMNS;
        // SAFETY: columns of panels that are there.
        unsafe { sums.store(isa, start.wrapping_add(at), to.wrapping_add(at)) };
    }
}
