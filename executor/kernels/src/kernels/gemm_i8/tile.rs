//! The loop of a tile: the same for every instruction set.

use super::kernel::Run;
use crate::simd::requantise::Channels;

/// Sums of neighbouring columns of one window, in registers.
///
/// Whoever makes them vouches that the machine has the instruction set; what exists can be computed
/// with. The methods are always inlined, into functions that state it.
pub(super) trait Sums: Copy {
    /// Columns.
    const LANES: usize;
    /// True if windows may be summed by the tile.
    const SUMS_WINDOWS: bool;

    /// What unsigned bytes differ by from those in memory, in all lanes.
    type Flip: Copy;
    /// A word of a window, in all lanes.
    type Word: Copy;
    /// A word of weights for each column.
    type Weights: Copy;
    /// What brings sums of a panel's columns to bytes, as far as that is worth keeping from tile to
    /// tile.
    type Finish<const VECTORS: usize>: Copy;

    /// # Safety
    /// There is one for each column; the machine has the instruction set.
    unsafe fn load(from: *const i32) -> Self;

    /// # Safety
    /// The machine has the instruction set.
    unsafe fn splat(x: i32) -> Self;

    /// # Safety
    /// The machine has the instruction set.
    unsafe fn flip(flip: u8) -> Self::Flip;

    /// # Safety
    /// Four bytes are readable; the machine has the instruction set.
    unsafe fn word(from: *const u8, flip: Self::Flip) -> Self::Word;

    /// # Safety
    /// There is a word for each column; the machine has the instruction set.
    unsafe fn weights(from: *const i32) -> Self::Weights;

    /// The same word for every column.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn same_weights(word: i32) -> Self::Weights;

    /// Adds the products of a word.
    fn with_products(self, word: Self::Word, weights: Self::Weights) -> Self;

    fn sub(self, other: Self) -> Self;

    /// # Safety
    /// Scalings are padded to whole panels; the machine has the instruction set.
    unsafe fn finish<const VECTORS: usize>(scaling: &Channels) -> Self::Finish<VECTORS>;

    /// Brings sums to bytes and stores them, but for columns that the run doesn't have.
    ///
    /// # Safety
    /// As many rows from `row` on as there are sums are the run's, scalings are padded to whole
    /// panels, and the machine has the instruction set.
    unsafe fn store<const ROWS: usize, const VECTORS: usize>(
        run: &Run,
        row: usize,
        finish: &Self::Finish<VECTORS>,
        sums: [[Self; VECTORS]; ROWS],
    );
}

/// The tile of a single window, as wide as its panel is: at most `MOST` vectors.
///
/// # Safety
/// As for [`super::kernel::Kernel::run`], but there is one window.
#[inline(always)]
pub(super) unsafe fn one<S: Sums, const MOST: usize>(run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the width of the tile alone.
    unsafe {
        match run.columns.div_ceil(S::LANES) {
            4.. if MOST >= 4 => tile::<S, 1, 4, 4, false>(run, &S::finish(&run.scaling), 0),
            3 if MOST >= 3 => tile::<S, 1, 3, 3, false>(run, &S::finish(&run.scaling), 0),
            2 if MOST >= 2 => tile::<S, 1, 2, 2, false>(run, &S::finish(&run.scaling), 0),
            _ => tile::<S, 1, 1, 1, false>(run, &S::finish(&run.scaling), 0),
        }
    }
}

/// All tiles of a run, as wide as its panel is: at most `MOST` vectors.
///
/// # Safety
/// As for [`super::kernel::Kernel::run`].
#[inline(always)]
pub(super) unsafe fn tiles<S: Sums, const MOST: usize>(run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the width of tiles alone.
    unsafe {
        match run.columns.div_ceil(S::LANES) {
            4.. if MOST >= 4 => of_width::<S, 4>(run),
            3 if MOST >= 3 => of_width::<S, 3>(run),
            2 if MOST >= 2 => of_width::<S, 2>(run),
            _ => of_width::<S, 1>(run),
        }
    }
}

/// # Safety
/// As for [`tiles`].
#[inline(always)]
unsafe fn of_width<S: Sums, const VECTORS: usize>(run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the height of tiles alone. Rows are
    // there.
    unsafe {
        // Once for all tiles: behind a store the compiler would load it again (with AVX2 up to 20 %
        // of the time).
        let finish = &S::finish::<VECTORS>(&run.scaling);
        match run.rows {
            2 | 3 => overlapping::<S, 2, VECTORS>(run, finish),
            4 | 5 => overlapping::<S, 4, VECTORS>(run, finish),
            7 if VECTORS == 4 && run.factors.is_null() => halves::<S, 7>(run),
            _ if S::SUMS_WINDOWS && !run.factors.is_null() => {
                sixes_and_fours::<S, VECTORS, true>(run, finish);
            }
            _ => sixes_and_fours::<S, VECTORS, false>(run, finish),
        }
    }
}

/// Tiles of six rows, the last few of them of four where that computes less again: images of 14 or
/// 7 columns would have 18 or 12 rows of tiles to a line otherwise.
///
/// # Safety
/// As for [`tiles`]; there are six rows at least.
#[inline(always)]
unsafe fn sixes_and_fours<S: Sums, const VECTORS: usize, const SUM: bool>(
    run: &Run,
    finish: &S::Finish<VECTORS>,
) {
    let whole = run.rows / 6;
    let (sixes, fours) = match run.rows % 6 {
        0 => (whole, 0),
        1 | 2 => (whole - 1, 2),
        3 | 4 => (whole, 1),
        _ => (whole + 1, 0),
    };
    for at in 0..sixes {
        // SAFETY: there are six rows or more.
        unsafe { tile::<S, 6, VECTORS, VECTORS, SUM>(run, finish, (at * 6).min(run.rows - 6)) };
    }
    for at in 0..fours {
        let row = (sixes * 6 + at * 4).min(run.rows - 4);
        // SAFETY: as above.
        unsafe { tile::<S, 4, VECTORS, VECTORS, SUM>(run, finish, row) };
    }
}

/// One tile of rows for each half of a panel of four vectors: the lines of images of seven columns
/// would take two tiles of four rows otherwise, an eighth too much, and all sums at once leave no
/// registers for weights.
///
/// # Safety
/// As for [`tiles`]; there are `ROWS` rows.
#[inline(always)]
unsafe fn halves<S: Sums, const ROWS: usize>(run: &Run) {
    for first in [0, 2 * S::LANES] {
        let half = Run {
            weights: run.weights.wrapping_add(first),
            output: run.output.wrapping_add(first),
            columns: run.columns - first,
            scaling: run.scaling.skip(first),
            ..*run
        };
        // SAFETY: as the caller promises, some of the columns.
        unsafe {
            tile::<S, ROWS, 2, 4, false>(&half, &S::finish::<2>(&half.scaling), 0);
        }
    }
}

/// Tiles of `ROWS` rows; the last overlaps the one before rather than being smaller, and computes
/// the same again.
///
/// The tile is no closure: of those the compiler makes functions of their own where they are large,
/// which have the instruction set no more, and there each intrinsic is a call (sixty times slower).
///
/// # Safety
/// As for [`tiles`]; there are so many rows at least.
#[inline(always)]
unsafe fn overlapping<S: Sums, const ROWS: usize, const VECTORS: usize>(
    run: &Run,
    finish: &S::Finish<VECTORS>,
) {
    for row in (0..run.rows).step_by(ROWS) {
        // SAFETY: as the caller promises.
        unsafe {
            tile::<S, ROWS, VECTORS, VECTORS, false>(run, finish, row.min(run.rows - ROWS));
        }
    }
}

/// `ROWS` windows by `VECTORS` vectors of a panel that has `PANEL`. With `SUM` the tile sums its
/// windows itself: one more product per word, in every lane the same.
///
/// # Safety
/// As for [`tiles`]; the windows from `row` on are there.
#[inline(always)]
unsafe fn tile<
    S: Sums,
    const ROWS: usize,
    const VECTORS: usize,
    const PANEL: usize,
    const SUM: bool,
>(
    run: &Run,
    finish: &S::Finish<VECTORS>,
    row: usize,
) {
    // SAFETY: a line of bias, then one of weights for each word of the window's segments; as the
    // caller promises.
    unsafe {
        let (flip, nothing) = (S::flip(run.flip), S::splat(0));
        let mut w = run.weights;
        let mut bias = [nothing; VECTORS];
        unrolled!(4: v < VECTORS, { bias[v] = S::load(w.add(v * S::LANES)) });
        let (mut sums, mut corrections) = ([bias; ROWS], [nothing; ROWS]);
        for segment in 0..run.segment_count {
            let mut x = run.input.add(row * run.step + *run.segments.add(segment));
            for word in 0..run.words {
                let factors = S::same_weights(if SUM { *run.factors.add(word) } else { 0 });
                w = w.add(PANEL * S::LANES);
                let mut line = [factors; VECTORS];
                unrolled!(4: v < VECTORS, { line[v] = S::weights(w.add(v * S::LANES)) });
                unrolled!(7: r < ROWS, {
                    let word = S::word(x.add(r * run.step), flip);
                    if SUM {
                        corrections[r] = corrections[r].with_products(word, factors);
                    }
                    unrolled!(4: v < VECTORS, {
                        sums[r][v] = sums[r][v].with_products(word, line[v]);
                    });
                });
                x = x.add(4);
            }
        }
        if SUM || !run.corrections.is_null() {
            unrolled!(7: r < ROWS, {
                if !SUM {
                    corrections[r] = S::splat(*run.corrections.add(row + r));
                }
                unrolled!(4: v < VECTORS, { sums[r][v] = sums[r][v].sub(corrections[r]) });
            });
        }
        S::store(run, row, finish, sums);
    }
}
