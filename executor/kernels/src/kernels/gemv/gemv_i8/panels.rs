//! The loop over panels: the same for every instruction set.

use std::cell::Cell;

use super::kernel::{COLUMNS, DEPTH, Panels};
use crate::kernels::round_once_i8::vectors::{Rounding, again};
use crate::kernels::round_once_i8::{PADDING, Row};
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

impl<D: Dot, const VECTORS: usize> DotSums<D, VECTORS> {
    #[inline(always)]
    pub(super) fn vectors(self) -> [D::Sums; VECTORS] {
        self.0
    }
}

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
pub(super) struct Lines {
    /// The first of the panels.
    panel: usize,
    weights: *const i8,
    /// Bytes from the lines of a word to those of the next.
    step: usize,
}

impl Lines {
    /// The first of the panels.
    #[inline(always)]
    pub(super) fn panel(&self) -> usize {
        self.panel
    }
}

/// All panels by `ROWS` rows at a time, in groups of `SIDE` panels whose lines lie in turns. A row
/// by itself meets up to eight panels at a time: their weights are read one after the other.
/// More rows meet up to four, which are in L1 from the second time on.
///
/// # Safety
/// As for [`super::kernel::GemvKernel::run`].
#[inline(always)]
pub(super) unsafe fn panels<S: PanelSums, F: Finish<S>, const SIDE: usize, const ROWS: usize>(
    isa: S::Isa,
    all: &Panels,
    finish: &F,
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
                    8.. if SIDE >= 8 && ROWS == 1 => some::<S, F, 8, ROWS>(isa, all, lines, finish),
                    4.. if SIDE >= 4 => some::<S, F, 4, ROWS>(isa, all, lines, finish),
                    2.. if SIDE >= 2 => some::<S, F, 2, ROWS>(isa, all, lines, finish),
                    _ => some::<S, F, 1, ROWS>(isa, all, lines, finish),
                };
            }
        }
    }
}

/// Whole groups of `SIDE` panels by one row; returns the number of panels.
///
/// # Safety
/// As for the panels.
#[inline(always)]
pub(super) unsafe fn groups<S: PanelSums, F: Finish<S>, const SIDE: usize>(
    isa: S::Isa,
    all: &Panels,
    finish: &F,
) -> usize {
    let whole = all.panels / SIDE * SIDE;
    for panel in (0..whole).step_by(SIDE) {
        let weights = all.weights.wrapping_add(panel * all.words * LINE);
        let lines = &Lines { panel, weights, step: SIDE * LINE };
        // SAFETY: panels that are there.
        unsafe { one::<S, F, SIDE>(isa, all, lines, 0, finish) };
    }
    whole
}

/// `COUNT` panels by all rows; returns their number.
///
/// # Safety
/// As for the panels.
#[inline(always)]
unsafe fn some<S: PanelSums, F: Finish<S>, const COUNT: usize, const ROWS: usize>(
    isa: S::Isa,
    all: &Panels,
    lines: &Lines,
    finish: &F,
) -> usize {
    // One row is known to be one.
    let rows = if ROWS == 1 { 1 } else { all.rows };
    let mut row = 0;
    while row < rows {
        // SAFETY: rows that are there.
        unsafe {
            row += match rows - row {
                4.. if ROWS >= 4 => tile::<S, F, COUNT, 4>(isa, all, lines, row, finish),
                2.. if ROWS >= 2 => tile::<S, F, COUNT, 2>(isa, all, lines, row, finish),
                _ => one::<S, F, COUNT>(isa, all, lines, row, finish),
            };
        }
    }
    COUNT
}

/// `COUNT` panels by one row, with about eight accumulators, as each product waits for the one
/// before it. Returns the number of rows.
///
/// # Safety
/// As for the panels; there is such a row.
#[inline(always)]
unsafe fn one<S: PanelSums, F: Finish<S>, const COUNT: usize>(
    isa: S::Isa,
    all: &Panels,
    lines: &Lines,
    row: usize,
    finish: &F,
) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        if COUNT >= 8 {
            single::<S, F, COUNT, 1>(isa, all, lines, row, finish);
        } else if COUNT >= 4 || S::CHAINS < 4 {
            single::<S, F, COUNT, 2>(isa, all, lines, row, finish);
        } else {
            single::<S, F, COUNT, 4>(isa, all, lines, row, finish);
        }
    }
    1
}

/// `COUNT` panels by one row, `CHAINS` words at a time, each of which has sums of its own.
///
/// # Safety
/// As for the panels; there is such a row.
#[inline(always)]
unsafe fn single<S: PanelSums, F: Finish<S>, const COUNT: usize, const CHAINS: usize>(
    isa: S::Isa,
    all: &Panels,
    lines: &Lines,
    row: usize,
    finish: &F,
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
        finish.finish(isa, all, lines, row, sums);
    }
}

/// `COUNT` panels by `ROWS` rows; returns their number.
///
/// # Safety
/// As for the panels; there are so many rows from `row` on.
#[inline(always)]
unsafe fn tile<S: PanelSums, F: Finish<S>, const COUNT: usize, const ROWS: usize>(
    isa: S::Isa,
    all: &Panels,
    lines: &Lines,
    row: usize,
    finish: &F,
) -> usize {
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
            finish.finish(isa, all, lines, row + at, sums);
        }
    }
    ROWS
}

/// What becomes of the sums of a row by some panels.
pub(super) trait Finish<S: PanelSums> {
    /// # Safety
    /// As for the panels; there is such a row.
    unsafe fn finish<const COUNT: usize>(
        &self,
        isa: S::Isa,
        all: &Panels,
        lines: &Lines,
        row: usize,
        sums: [S; COUNT],
    );
}

/// They are stored.
pub(super) struct Keep;

impl<S: PanelSums> Finish<S> for Keep {
    #[inline(always)]
    unsafe fn finish<const COUNT: usize>(
        &self,
        isa: S::Isa,
        all: &Panels,
        lines: &Lines,
        row: usize,
        sums: [S; COUNT],
    ) {
        let first = lines.panel * COLUMNS;
        let (start, to) = (all.start.wrapping_add(first), all.sums.wrapping_add(first));
        let to = to.wrapping_add(row * all.row_sums);
        for (at, sums) in sums.into_iter().enumerate() {
            let at = at * COLUMNS;
            // SAFETY: columns of panels that are there.
            unsafe { sums.store(isa, start.wrapping_add(at), to.wrapping_add(at)) };
        }
    }
}

/// They become bytes: the row is the only one.
pub(super) struct RoundOnce<'a, D: Dot> {
    row: &'a Row,
    rounding: Rounding<D::Sums>,
    /// Bits of what is to be computed again, from sums that were kept.
    unsure: Cell<u64>,
}

impl<'a, D: Dot> RoundOnce<'a, D> {
    #[inline(always)]
    pub(super) fn new(isa: D, row: &'a Row) -> Self {
        let rounding = Rounding::new(isa.vectors(), row);
        Self { row, rounding, unsure: Cell::new(0) }
    }

    /// Computes again what is unsure.
    ///
    /// # Safety
    /// As for the panels.
    #[inline(always)]
    pub(super) unsafe fn end(&self, all: &Panels) {
        if self.unsure.get() != 0 {
            // SAFETY: as the caller promises; the sums of what is unsure were kept.
            unsafe { again(self.row, all.sums, 0, self.unsure.get()) };
        }
    }
}

impl<D: Dot, const VECTORS: usize> Finish<DotSums<D, VECTORS>> for RoundOnce<'_, D> {
    #[inline(always)]
    unsafe fn finish<const COUNT: usize>(
        &self,
        isa: D,
        all: &Panels,
        lines: &Lines,
        _: usize,
        sums: [DotSums<D, VECTORS>; COUNT],
    ) {
        let columns = self.row.len - lines.panel * COLUMNS;
        // SAFETY: as the caller promises.
        unsafe {
            if columns >= COUNT * COLUMNS {
                self.blocks(isa, all, lines, sums, COUNT * COLUMNS);
            } else {
                self.blocks(isa, all, lines, sums, columns);
            }
        }
    }
}

impl<D: Dot> RoundOnce<'_, D> {
    /// # Safety
    /// As for [`Finish::finish`]; there are so many columns, at least one.
    #[inline(always)]
    unsafe fn blocks<const COUNT: usize, const VECTORS: usize>(
        &self,
        isa: D,
        all: &Panels,
        lines: &Lines,
        sums: [DotSums<D, VECTORS>; COUNT],
        columns: usize,
    ) {
        let (lanes, first) = (D::Sums::LANES, lines.panel * COLUMNS);
        let vector = |at: usize| {
            let zeros = [D::Sums::splat(isa.vectors(), 0); VECTORS];
            let sums = sums.get(at / VECTORS).map_or(zeros, |sums| sums.0);
            let start = all.start.wrapping_add(first + at * lanes);
            // SAFETY: the vectors of panels that are there.
            sums[at % VECTORS].add(unsafe { D::Sums::load(isa.vectors(), start) })
        };
        unrolled!(4: block < (COUNT * VECTORS).div_ceil(4), {
            let at = block * 4 * lanes;
            if at < columns {
                let count = (columns - at).min(4 * lanes);
                // SAFETY: as the caller promises.
                unsafe {
                    let sums = |v: usize| vector(block * 4 + v);
                    let marks = self.rounding.block(self.row, first + at, count, sums);
                    if marks != 0 {
                        self.unsure.set(self.unsure.get() | marks << ((first + at) / PADDING));
                        for v in 0..(COUNT * VECTORS - block * 4).min(4) {
                            sums(v).store(all.sums.add(first + at + v * lanes));
                        }
                    }
                }
            }
        });
    }
}
