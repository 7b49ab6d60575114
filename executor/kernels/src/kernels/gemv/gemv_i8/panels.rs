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

    fn zero(isa: Self::Isa) -> Self;

    /// # Safety
    /// The word is readable.
    unsafe fn word(isa: Self::Isa, from: *const u32) -> Self::Word;

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

    #[inline(always)]
    fn zero(isa: D) -> Self {
        Self([D::Sums::splat(isa.vectors(), 0); VECTORS])
    }

    #[inline(always)]
    unsafe fn word(isa: D, from: *const u32) -> D::Word {
        // SAFETY: as the caller promises.
        unsafe { isa.word(from.cast(), isa.flip(0)) }
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

/// All panels, `SIDE` of them at a time: so many that the latency of a product is hidden. They meet
/// `ROWS` rows at a time, then those that are left, and are in L1 from the second time
/// on.
///
/// # Safety
/// As for [`super::kernel::GemvKernel::run`].
#[inline(always)]
pub(super) unsafe fn panels<S: PanelSums, const SIDE: usize, const ROWS: usize>(
    isa: S::Isa,
    panels: &Panels,
) {
    let whole = panels.panels / SIDE * SIDE;
    // SAFETY: panels that are there.
    unsafe {
        for first in (0..whole).step_by(SIDE) {
            some::<S, SIDE, ROWS>(isa, panels, first);
        }
        match panels.panels - whole {
            3 => some::<S, 3, ROWS>(isa, panels, whole),
            2 => some::<S, 2, ROWS>(isa, panels, whole),
            1 => some::<S, 1, ROWS>(isa, panels, whole),
            _ => {}
        }
    }
}

/// All rows.
///
/// # Safety
/// As for the panels; there are `COUNT` of them from `first` on.
#[inline(always)]
unsafe fn some<S: PanelSums, const COUNT: usize, const ROWS: usize>(
    isa: S::Isa,
    panels: &Panels,
    first: usize,
) {
    let whole = panels.rows / ROWS * ROWS;
    // SAFETY: rows that are there.
    unsafe {
        for row in (0..whole).step_by(ROWS) {
            tile::<S, COUNT, ROWS>(isa, panels, first, row);
        }
        for row in whole..panels.rows {
            tile::<S, COUNT, 1>(isa, panels, first, row);
        }
    }
}

/// # Safety
/// As for the panels; there are `ROWS` rows from `row` on.
#[inline(always)]
unsafe fn tile<S: PanelSums, const COUNT: usize, const ROWS: usize>(
    isa: S::Isa,
    panels: &Panels,
    first: usize,
    row: usize,
) {
    let (line, words) = (COLUMNS * DEPTH, panels.words);
    let weights = panels.weights.wrapping_add(first * words * line);
    let rows = panels.row.wrapping_add(row * words);
    // SAFETY: words of the rows, and a line of each panel for each of them.
    unsafe {
        let mut sums = [[S::zero(isa); COUNT]; ROWS];
        let mut done = 0;
        if ROWS == 1 {
            // Every other word has sums of its own: each product waits for the one before it.
            let mut others = [S::zero(isa); COUNT];
            done = words / 2 * 2;
            for word in (0..done).step_by(2) {
                let (x, y) = (S::word(isa, rows.add(word)), S::word(isa, rows.add(word + 1)));
                for (at, (sums, others)) in sums[0].iter_mut().zip(&mut others).enumerate() {
                    *sums = sums.with_products(isa, x, weights.add((word * COUNT + at) * line));
                    let next = weights.add(((word + 1) * COUNT + at) * line);
                    *others = others.with_products(isa, y, next);
                }
            }
            for (sums, others) in sums[0].iter_mut().zip(others) {
                *sums = sums.plus(isa, others);
            }
        }
        for word in done..words {
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = S::word(isa, rows.add(row * words + word));
                for (at, sums) in sums.iter_mut().enumerate() {
                    *sums = sums.with_products(isa, x, weights.add((word * COUNT + at) * line));
                }
            }
        }
        for (at, sums) in sums.into_iter().enumerate() {
            for (panel, sums) in sums.into_iter().enumerate() {
                let column = (first + panel) * COLUMNS;
                let to = panels.sums.add((row + at) * panels.panels * COLUMNS + column);
                sums.store(isa, panels.start.add(column), to);
            }
        }
    }
}
