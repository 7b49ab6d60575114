//! The loop over panels: the same for every instruction set.

use super::kernel::{COLUMNS, DEPTH, Panels};

/// The sums of a panel's columns, in registers.
///
/// Whoever makes them vouches that the machine has the instruction set. The methods are always
/// inlined, into functions that state it.
pub(super) trait Sums: Copy {
    /// Four bytes of the row, for every column.
    type Word: Copy;

    /// # Safety
    /// The machine has the instruction set.
    unsafe fn zero() -> Self;

    /// # Safety
    /// The machine has the instruction set.
    unsafe fn word(x: u32) -> Self::Word;

    /// Adds the products with a line of weights.
    ///
    /// # Safety
    /// The line is there.
    unsafe fn with_products(self, word: Self::Word, line: *const i8) -> Self;

    /// Stores them, what each starts with added.
    ///
    /// # Safety
    /// There is one for each column at both.
    unsafe fn store(self, start: *const i32, to: *mut i32);
}

/// All panels, `SIDE` of them at a time: so many that the latency of a product is hidden. They meet
/// `ROWS` rows at a time, then those that are left, and are in L1 from the second time
/// on.
///
/// # Safety
/// As for [`super::kernel::GemvKernel::run`].
#[inline(always)]
pub(super) unsafe fn panels<S: Sums, const SIDE: usize, const ROWS: usize>(panels: &Panels) {
    let whole = panels.panels / SIDE * SIDE;
    // SAFETY: panels that are there.
    unsafe {
        for first in (0..whole).step_by(SIDE) {
            some::<S, SIDE, ROWS>(panels, first);
        }
        match panels.panels - whole {
            3 => some::<S, 3, ROWS>(panels, whole),
            2 => some::<S, 2, ROWS>(panels, whole),
            1 => some::<S, 1, ROWS>(panels, whole),
            _ => {}
        }
    }
}

/// All rows.
///
/// # Safety
/// As for the panels; there are `COUNT` of them from `first` on.
#[inline(always)]
unsafe fn some<S: Sums, const COUNT: usize, const ROWS: usize>(panels: &Panels, first: usize) {
    let whole = panels.rows / ROWS * ROWS;
    // SAFETY: rows that are there.
    unsafe {
        for row in (0..whole).step_by(ROWS) {
            tile::<S, COUNT, ROWS>(panels, first, row);
        }
        for row in whole..panels.rows {
            tile::<S, COUNT, 1>(panels, first, row);
        }
    }
}

/// # Safety
/// As for the panels; there are `ROWS` rows from `row` on.
#[inline(always)]
unsafe fn tile<S: Sums, const COUNT: usize, const ROWS: usize>(
    panels: &Panels,
    first: usize,
    row: usize,
) {
    let (line, words) = (COLUMNS * DEPTH, panels.words);
    let weights = panels.weights.wrapping_add(first * words * line);
    let rows = panels.row.wrapping_add(row * words);
    // SAFETY: words of the rows, and a line of each panel for each of them.
    unsafe {
        let mut sums = [[S::zero(); COUNT]; ROWS];
        for word in 0..words {
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = S::word(*rows.add(row * words + word));
                for (at, sums) in sums.iter_mut().enumerate() {
                    *sums = sums.with_products(x, weights.add((at * words + word) * line));
                }
            }
        }
        for (at, sums) in sums.into_iter().enumerate() {
            for (panel, sums) in sums.into_iter().enumerate() {
                let column = (first + panel) * COLUMNS;
                let to = panels.sums.add((row + at) * panels.panels * COLUMNS + column);
                sums.store(panels.start.add(column), to);
            }
        }
    }
}
