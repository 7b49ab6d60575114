//! The interface of a variant: panels of weights, and the function that multiplies rows by them.

use super::floats::FloatRow;
use crate::kernels::round_once_i8::Row;

/// Columns of a panel.
pub(super) const COLUMNS: usize = 16;
/// Elements of depth that lie side by side.
pub(super) const DEPTH: usize = 4;

/// Rows by all panels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panels {
    /// `words` lines of 64 bytes per panel, those of [`GemvKernel::side`] panels in turns.
    pub(super) weights: *const i8,
    /// Four bytes each, at any alignment; one row behind the other.
    pub(super) row: *const u32,
    /// The bits that are flipped when a byte of a row is read: what comes out is shifted up by 128
    /// unless the kernel takes it signed.
    pub(super) flip: u8,
    pub(super) rows: usize,
    pub(super) words: usize,
    /// The initial accumulators of each row, [`COLUMNS`] per panel.
    pub(super) start: *const i32,
    /// As many for each row.
    pub(super) sums: *mut i32,
    /// From the sums of one row to those of the next: of all panels that there are.
    pub(super) row_sums: usize,
    pub(super) panels: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct GemvKernel {
    /// # Safety
    /// Weights, rows and sums are as large as [`Panels`] says; the machine has the instruction set.
    pub(super) run: unsafe fn(&Panels),
    /// The same of one row: a small function, as much of it is spent on the way in.
    ///
    /// # Safety
    /// As for `run`.
    pub(super) single: unsafe fn(&Panels),
    /// The same, where the sums become bytes before they leave registers, if there is such a
    /// function. [`Panels::sums`] is work memory.
    ///
    /// # Safety
    /// As for `run`; the bytes' row ends in the last panel, and has [`MOST_CHANNELS`] at most.
    ///
    /// [`MOST_CHANNELS`]: crate::kernels::round_once_i8::vectors::MOST_CHANNELS
    pub(super) rounded: Option<unsafe fn(&Panels, &Row)>,
    /// The same, where they become floats.
    ///
    /// # Safety
    /// As for `run`; the floats' row ends in the last panel.
    pub(super) floats: Option<unsafe fn(&Panels, &FloatRow)>,
    /// True if the row's bytes are taken as signed.
    pub(super) signed: bool,
    /// The panels that are summed side by side. Their lines lie in turns, so that weights are read
    /// from the first to the last.
    pub(super) side: usize,
}

impl GemvKernel {
    /// The number that the row's bytes are shifted up by; flipping that bit does it.
    pub(super) const fn shift(&self) -> u8 {
        if self.signed { 0 } else { 0x80 }
    }
}

impl Panels {
    /// Those from `panel` on, the first of a group, by the first row alone.
    pub(super) fn behind(&self, panel: usize) -> Self {
        Self {
            weights: self.weights.wrapping_add(panel * self.words * COLUMNS * DEPTH),
            rows: 1,
            start: self.start.wrapping_add(panel * COLUMNS),
            sums: self.sums.wrapping_add(panel * COLUMNS),
            panels: self.panels - panel,
            ..*self
        }
    }
}
