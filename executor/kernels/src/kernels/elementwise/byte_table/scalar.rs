//! Rows of bytes, and the variant in plain Rust.

/// Bytes to look up, and where what is found goes: the same place, or one that doesn't overlap.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookUp<'a> {
    pub(super) table: &'a [u8; 256],
    pub(super) input: *const u8,
    pub(super) output: *mut u8,
    pub(super) len: usize,
}

impl LookUp<'_> {
    /// From an element on, which is there or just behind the end.
    #[inline(always)]
    pub(super) fn from(&self, first: usize) -> Self {
        let (input, output) = (self.input.wrapping_add(first), self.output.wrapping_add(first));
        Self { input, output, len: self.len - first, ..*self }
    }
}

pub(super) unsafe fn look_up(row: &LookUp<'_>) {
    for at in 0..row.len {
        // SAFETY: within the row.
        unsafe { *row.output.add(at) = row.table[usize::from(*row.input.add(at))] };
    }
}
