//! The loop over panels: the same for every instruction set.

use super::{COLUMNS, DEPTH, Panels};

/// The sums of a panel's columns, in registers.
///
/// Whoever makes them vouches that the machine has the instruction set. The methods are always inlined, into functions
/// that state it.
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

    /// Adds all of them to numbers in memory.
    ///
    /// # Safety
    /// There is one for each column.
    unsafe fn add_to(self, to: *mut i32);
}

/// All panels, `SIDE` of them at a time: so many that the latency of a product is hidden.
///
/// # Safety
/// As for [`super::Kernel::run`].
#[inline(always)]
pub(super) unsafe fn panels<S: Sums, const SIDE: usize>(panels: &Panels) {
    let whole = panels.panels / SIDE * SIDE;
    // SAFETY: panels that are there.
    unsafe {
        for first in (0..whole).step_by(SIDE) {
            some::<S, SIDE>(panels, first);
        }
        match panels.panels - whole {
            3 => some::<S, 3>(panels, whole),
            2 => some::<S, 2>(panels, whole),
            1 => some::<S, 1>(panels, whole),
            _ => {}
        }
    }
}

/// # Safety
/// As for the panels; there are `COUNT` of them from `first` on.
#[inline(always)]
unsafe fn some<S: Sums, const COUNT: usize>(panels: &Panels, first: usize) {
    let line = COLUMNS * DEPTH;
    let weights = panels.weights.wrapping_add(first * panels.words * line);
    // SAFETY: words of the row, and a line of each panel for each of them.
    unsafe {
        let mut sums = [S::zero(); COUNT];
        for word in 0..panels.words {
            let x = S::word(*panels.row.add(word));
            for (at, sums) in sums.iter_mut().enumerate() {
                *sums = sums.with_products(x, weights.add((at * panels.words + word) * line));
            }
        }
        for (at, sums) in sums.into_iter().enumerate() {
            sums.add_to(panels.sums.add((first + at) * COLUMNS));
        }
    }
}
