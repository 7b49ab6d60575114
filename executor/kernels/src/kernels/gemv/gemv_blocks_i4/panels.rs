//! The loop over panels: the same for every instruction set.

use super::kernel::{BlockPanels, COLUMNS, LINE};

/// The sums of a block for a panel's columns, in registers. The methods are always inlined, into
/// functions that state the instruction set.
pub(super) trait BlockSums: Copy {
    /// The proof of the instruction set.
    type Isa: Copy;
    /// Four bytes of the row, for every column.
    type Word: Copy;
    /// The totals of a panel's columns.
    type Totals: Copy;

    /// The same for all columns.
    fn start(isa: Self::Isa, start: i32) -> Self;

    /// # Safety
    /// The word is readable, at any alignment.
    unsafe fn word(isa: Self::Isa, from: *const u32) -> Self::Word;

    /// Adds the products of the first word and the lower halves of a line, and of the second word
    /// and the upper halves.
    ///
    /// # Safety
    /// The line is there.
    unsafe fn with_products(self, isa: Self::Isa, words: [Self::Word; 2], line: *const u8) -> Self;

    fn zero(isa: Self::Isa) -> Self::Totals;

    /// The totals plus these sums as floats times the scales, each rounded.
    ///
    /// # Safety
    /// There is a scale for each column.
    unsafe fn add_to(self, totals: Self::Totals, scales: *const f32) -> Self::Totals;

    /// # Safety
    /// There is room for each column.
    unsafe fn store(isa: Self::Isa, totals: Self::Totals, to: *mut f32);
}

/// All panels, `SIDE` of them at a time: so many that the latency of a product is hidden.
///
/// # Safety
/// As for [`super::kernel::BlocksKernel::run`].
#[inline(always)]
pub(super) unsafe fn panels<S: BlockSums, const SIDE: usize>(isa: S::Isa, all: &BlockPanels) {
    let whole = all.panels / SIDE * SIDE;
    // SAFETY: panels that are there.
    unsafe {
        for first in (0..whole).step_by(SIDE) {
            group::<S, SIDE>(isa, all, first);
        }
        match all.panels - whole {
            3 if SIDE > 3 => group::<S, 3>(isa, all, whole),
            2 if SIDE > 2 => group::<S, 2>(isa, all, whole),
            1 if SIDE > 1 => group::<S, 1>(isa, all, whole),
            _ => {}
        }
    }
}

/// # Safety
/// As for the panels; there are `COUNT` of them from `first` on.
#[inline(always)]
unsafe fn group<S: BlockSums, const COUNT: usize>(isa: S::Isa, all: &BlockPanels, first: usize) {
    let lines = first * all.blocks * (all.lines + 1);
    let (mut weights, mut x) = (all.weights.wrapping_add(lines * LINE), all.row.cast::<u32>());
    // SAFETY: words of the row; for each two of them, and for each block, a line of each panel.
    unsafe {
        let mut totals = [S::zero(isa); COUNT];
        for block in 0..all.blocks {
            let mut sums = [S::start(isa, *all.starts.add(block)); COUNT];
            for _ in 0..all.lines {
                let words = [S::word(isa, x), S::word(isa, x.wrapping_add(1))];
                for (at, sums) in sums.iter_mut().enumerate() {
                    *sums = sums.with_products(isa, words, weights.wrapping_add(at * LINE));
                }
                (weights, x) = (weights.wrapping_add(COUNT * LINE), x.wrapping_add(2));
            }
            for (at, (totals, sums)) in totals.iter_mut().zip(sums).enumerate() {
                *totals = sums.add_to(*totals, weights.wrapping_add(at * LINE).cast());
            }
            weights = weights.wrapping_add(COUNT * LINE);
        }
        for (at, totals) in totals.into_iter().enumerate() {
            S::store(isa, totals, all.totals.wrapping_add((first + at) * COLUMNS));
        }
    }
}
