//! The interface of a variant: panels of weights, and the function that multiplies a row by them.

/// Columns of a panel.
pub(super) const COLUMNS: usize = 16;
/// Elements of depth that lie side by side, two to a byte.
pub(super) const DEPTH: usize = 8;
/// Bytes of a line, of weights or of scales.
pub(super) const LINE: usize = COLUMNS * DEPTH / 2;

/// A row by some panels.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPanels {
    /// For each block `lines` lines of weights and one of scales per panel, those of
    /// [`BlocksKernel::side`] panels in turns.
    pub(super) weights: *const u8,
    /// Eight signed bytes for each line of a panel's weights.
    pub(super) row: *const [u32; 2],
    /// For each block what all sums begin with.
    pub(super) starts: *const i32,
    /// [`COLUMNS`] per panel.
    pub(super) totals: *mut f32,
    pub(super) panels: usize,
    pub(super) blocks: usize,
    pub(super) lines: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlocksKernel {
    /// # Safety
    /// Weights, row and totals are as large as [`BlockPanels`] says; the machine has the
    /// instruction set.
    pub(super) run: unsafe fn(&BlockPanels),
    /// The panels that are summed side by side: 1, 2 or 4.
    pub(super) side: usize,
}
