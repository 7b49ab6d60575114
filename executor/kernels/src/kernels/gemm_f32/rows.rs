//! The loop of a tile: the same for every instruction set, and for elements that are pairs of bf16.

use super::tile::{ROWS_PER_BASE, Tile, bases};

/// As many floats as a panel is wide, in registers: a line of weights, or the sums of one row.
///
/// Whoever makes one vouches that the machine has the instruction set. The methods are always
/// inlined, into functions that state it.
pub(super) trait Line: Copy {
    /// Columns of the panel.
    const COLUMNS: usize;

    /// # Safety
    /// The line is readable; the machine has the instruction set.
    unsafe fn load(from: *const f32) -> Self;

    /// Asks for a line of weights that is soon needed. Nothing need be there.
    fn fetch(from: *const f32);

    /// Adds the products of an element and a line of weights.
    ///
    /// # Safety
    /// The element is readable.
    unsafe fn with_products(self, x: *const f32, weights: &Self) -> Self;

    /// Clamps sums and stores those of the tile's columns, in its row `row`.
    ///
    /// # Safety
    /// They are writable.
    unsafe fn store(self, tile: &Tile, row: usize);
}

/// Tiles of up to six rows.
///
/// # Safety
/// As for [`super::panels::Width::run`].
#[inline(always)]
pub(super) unsafe fn six<L: Line>(tile: &Tile) {
    // SAFETY: as the caller promises; each arm differs in the number of rows alone.
    unsafe {
        match tile.rows {
            1 => rows::<L, 1, 2>(tile),
            2 => rows::<L, 2, 2>(tile),
            3 => rows::<L, 3, 2>(tile),
            4 => rows::<L, 4, 2>(tile),
            5 => rows::<L, 5, 2>(tile),
            _ => rows::<L, 6, 2>(tile),
        }
    }
}

/// Tiles of up to twelve rows.
///
/// # Safety
/// As for [`super::panels::Width::run`].
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn twelve<L: Line>(tile: &Tile) {
    // SAFETY: as the caller promises; each arm differs in the number of rows alone.
    unsafe {
        match tile.rows {
            1 => rows::<L, 1, 4>(tile),
            2 => rows::<L, 2, 4>(tile),
            3 => rows::<L, 3, 4>(tile),
            4 => rows::<L, 4, 4>(tile),
            5 => rows::<L, 5, 4>(tile),
            6 => rows::<L, 6, 4>(tile),
            7 => rows::<L, 7, 4>(tile),
            8 => rows::<L, 8, 4>(tile),
            9 => rows::<L, 9, 4>(tile),
            10 => rows::<L, 10, 4>(tile),
            11 => rows::<L, 11, 4>(tile),
            _ => rows::<L, 12, 4>(tile),
        }
    }
}

/// # Safety
/// As for [`six`]; the tile has `COUNT` rows, and `BASES` are as many as they are addressed from.
#[inline(always)]
unsafe fn rows<L: Line, const COUNT: usize, const BASES: usize>(tile: &Tile) {
    // SAFETY: a line of bias.
    let mut sums = [unsafe { L::load(tile.bias) }; COUNT];
    tile.fetch_next_outputs(COUNT, L::COLUMNS);
    for segment in tile.segments() {
        let mut w = segment.weights;
        let mut bases: [*const f32; BASES] = bases(segment.rows, tile.row_stride);
        for _ in 0..tile.len {
            // SAFETY: the segment has `len` lines of weights, and as many elements of each row.
            unsafe {
                let weights = L::load(w);
                L::fetch(w);
                for (row, sums) in sums.iter_mut().enumerate() {
                    let base = bases[row / ROWS_PER_BASE];
                    let x = base.wrapping_add(row % ROWS_PER_BASE * tile.row_stride);
                    *sums = sums.with_products(x, &weights);
                }
            }
            w = w.wrapping_add(L::COLUMNS);
            bases = bases.map(|base| base.wrapping_add(1));
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        // SAFETY: a row of the tile.
        unsafe { sums.store(tile, row) };
    }
}
