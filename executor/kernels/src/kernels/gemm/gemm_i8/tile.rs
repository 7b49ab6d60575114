//! The loop of a tile: the same for every instruction set.

use super::kernel::{Results, Run};
use crate::simd::dot::Dot;
use crate::simd::requantise::{Channels, RequantiseSimd};
use crate::simd::vector_i32::{FloatChannels, I32Simd};

/// From the accumulators of a tile to bytes. Beside the tile and no part of [`Dot`], as it is made
/// for the rows of a run and for the registers that the tile leaves.
///
/// The methods are always inlined, into functions that state the instruction set.
pub(super) trait Epilogue: Dot {
    /// The most rows of a tile of one vector: 6, 12 or 16. Six accumulators are too few to hide the
    /// latency of a product where it is several cycles and two begin in each.
    const TALLEST: usize;

    /// The constants of a panel's columns, as far as they are worth keeping from tile to tile; of
    /// results that are bytes.
    type Constants<const VECTORS: usize>: Copy;

    /// # Safety
    /// Scalings are padded to whole panels.
    unsafe fn constants<const VECTORS: usize>(self, run: &Run) -> Self::Constants<VECTORS>;

    /// Requantises accumulators and stores them, but for columns that the run doesn't have.
    ///
    /// # Safety
    /// As many rows from `row` on as there are accumulators are the run's, and scalings are padded
    /// to whole panels.
    unsafe fn store<const ROWS: usize, const VECTORS: usize>(
        self,
        run: &Run,
        scaling: &Channels,
        row: usize,
        constants: &Self::Constants<VECTORS>,
        sums: [[Self::Sums; VECTORS]; ROWS],
    );
}

/// An instruction set whose tiles keep the multipliers of their columns, and store vector by
/// vector.
pub(super) trait KeepsMultipliers: Dot {}

impl<D: KeepsMultipliers> Epilogue for D {
    const TALLEST: usize = 6;

    type Constants<const VECTORS: usize> = [<D::Sums as RequantiseSimd>::Multipliers; VECTORS];

    #[inline(always)]
    unsafe fn constants<const VECTORS: usize>(self, run: &Run) -> Self::Constants<VECTORS> {
        // SAFETY: as the caller promises.
        unsafe { multipliers::<D, VECTORS>(self, run) }
    }

    #[inline(always)]
    unsafe fn store<const ROWS: usize, const VECTORS: usize>(
        self,
        run: &Run,
        _: &Channels,
        row: usize,
        by: &Self::Constants<VECTORS>,
        sums: [[D::Sums; VECTORS]; ROWS],
    ) {
        // SAFETY: as the caller promises.
        unsafe { store_by::<D, ROWS, VECTORS>(run, row, by, &sums) };
    }
}

/// Requantises accumulators by multipliers and stores them vector by vector.
///
/// # Safety
/// As for [`Epilogue::store`].
#[inline(always)]
pub(super) unsafe fn store_by<D: Dot, const ROWS: usize, const VECTORS: usize>(
    run: &Run,
    row: usize,
    by: &[<D::Sums as RequantiseSimd>::Multipliers; VECTORS],
    sums: &[[D::Sums; VECTORS]; ROWS],
) {
    let lanes = D::Sums::LANES;
    unrolled!(2: v < VECTORS, {
        let columns = run.columns.saturating_sub(v * lanes).min(lanes);
        // SAFETY: as the caller promises; what is stored keeps within the columns.
        unsafe {
            unrolled!(16: r < ROWS, {
                let at = run.output.add((row + r) * run.stride + v * lanes);
                sums[r][v].stored(&by[v]).store_bytes(at, columns);
            });
        }
    });
}

/// The multipliers of a panel's columns.
///
/// # Safety
/// Scalings are padded to whole panels.
#[inline(always)]
pub(super) unsafe fn multipliers<D: Dot, const VECTORS: usize>(
    isa: D,
    run: &Run,
) -> [<D::Sums as RequantiseSimd>::Multipliers; VECTORS] {
    let (isa, scaling) = (isa.vectors(), &run.results.requantisation());
    // SAFETY: as the caller promises.
    unsafe {
        let mut by = [D::Sums::multipliers(isa, scaling, 0); VECTORS];
        unrolled!(2: v < VECTORS, {
            by[v] = D::Sums::multipliers(isa, scaling, v * D::Sums::LANES);
        });
        by
    }
}

/// The tile of a single window, as wide as its panel is: at most `MOST` vectors.
///
/// # Safety
/// As for [`super::kernel::Microkernel::run`], but there is one window.
#[inline(always)]
pub(super) unsafe fn one<D: Epilogue, const MOST: usize>(isa: D, run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the width of the tile alone.
    unsafe {
        match run.columns.div_ceil(D::Sums::LANES) {
            4.. if MOST >= 4 => tile::<D, 1, 4, 4, true>(isa, run, &isa.constants(run), 0),
            3 if MOST >= 3 => tile::<D, 1, 3, 3, true>(isa, run, &isa.constants(run), 0),
            2 if MOST >= 2 => tile::<D, 1, 2, 2, true>(isa, run, &isa.constants(run), 0),
            _ => tile::<D, 1, 1, 1, true>(isa, run, &isa.constants(run), 0),
        }
    }
}

/// All tiles of a run, as wide as its panel is: at most `MOST` vectors, one or two.
///
/// # Safety
/// As for [`super::kernel::Microkernel::run`].
#[inline(always)]
pub(super) unsafe fn tiles<D: Epilogue, const MOST: usize>(isa: D, run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the width of tiles alone.
    unsafe {
        match run.columns.div_ceil(D::Sums::LANES) {
            2.. if MOST >= 2 => of_width::<D, 2>(isa, run),
            _ => of_width::<D, 1>(isa, run),
        }
    }
}

/// All tiles of a run whose panel is so many vectors wide.
///
/// # Safety
/// As for [`tiles`].
#[inline(always)]
pub(super) unsafe fn of_width<D: Epilogue, const VECTORS: usize>(isa: D, all: &Run) {
    // SAFETY: as the caller promises, line by line.
    unsafe {
        // Once for all tiles: behind a store the compiler would load it again (with AVX2 up to 20 %
        // of the time).
        let constants = &isa.constants::<VECTORS>(all);
        let mut run = *all;
        loop {
            line::<D, VECTORS>(isa, &run, constants);
            if run.lines == 1 {
                return;
            }
            run = run.next_line();
        }
    }
}

/// The tiles of a run's first line.
///
/// # Safety
/// As for [`tiles`].
#[inline(always)]
unsafe fn line<D: Epilogue, const VECTORS: usize>(
    isa: D,
    run: &Run,
    constants: &D::Constants<VECTORS>,
) {
    // SAFETY: as the caller promises; each arm differs in the height of tiles alone. Rows are
    // there.
    unsafe {
        match run.rows {
            2 | 3 => overlapping::<D, 2, VECTORS>(isa, run, constants),
            4 | 5 => overlapping::<D, 4, VECTORS>(isa, run, constants),
            7 if VECTORS == 4 => halves::<D, 7>(isa, run),
            8.. if VECTORS == 2 && D::TALLEST == 16 => eights::<D, VECTORS>(isa, run, constants),
            // Flipping bits that need no flipping is every second vector instruction with one
            // product per word, and one of five with four. Ice Lake, whose products are no slower
            // than that, takes 0.86 to 0.96 of the time without.
            12.. if VECTORS == 1 && D::TALLEST >= 12 => match run.flip {
                0 => tall::<D, VECTORS, false>(isa, run, constants),
                _ => tall::<D, VECTORS, true>(isa, run, constants),
            },
            _ => match run.flip {
                0 if D::TALLEST >= 12 => {
                    sixes_and_fours::<D, VECTORS, false>(isa, run, constants);
                }
                _ => sixes_and_fours::<D, VECTORS, true>(isa, run, constants),
            },
        }
    }
}

/// Tiles of six rows, the last few of them of four where that computes less again: images of 14 or
/// 7 columns would have 18 or 12 rows of tiles to a line otherwise.
///
/// # Safety
/// As for [`tiles`]; there are six rows at least.
#[inline(always)]
unsafe fn sixes_and_fours<D: Epilogue, const VECTORS: usize, const FLIP: bool>(
    isa: D,
    run: &Run,
    constants: &D::Constants<VECTORS>,
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
        unsafe {
            tile::<D, 6, VECTORS, VECTORS, FLIP>(isa, run, constants, (at * 6).min(run.rows - 6));
        };
    }
    for at in 0..fours {
        let row = (sixes * 6 + at * 4).min(run.rows - 4);
        // SAFETY: as above.
        unsafe { tile::<D, 4, VECTORS, VECTORS, FLIP>(isa, run, constants, row) };
    }
}

/// Tiles of eight rows, and of four for the rest: two vectors of sums for each row.
///
/// # Safety
/// As for [`tiles`]; there are eight rows at least.
#[inline(always)]
unsafe fn eights<D: Epilogue, const VECTORS: usize>(
    isa: D,
    run: &Run,
    constants: &D::Constants<VECTORS>,
) {
    let mut row = 0;
    // SAFETY: as the caller promises; the last tile overlaps the one before.
    unsafe {
        while row + 4 < run.rows {
            let at = row.min(run.rows - 8);
            tile::<D, 8, VECTORS, VECTORS, true>(isa, run, constants, at);
            row += 8;
        }
        if row < run.rows {
            tile::<D, 4, VECTORS, VECTORS, true>(isa, run, constants, run.rows - 4);
        }
    }
}

/// Tiles of sixteen rows where they may be so tall, and of twelve, eight or four for the rest: a
/// word is loaded for each product, and what loads else is shared by as many of them as can be.
///
/// # Safety
/// As for [`tiles`]; there are twelve rows at least.
#[inline(always)]
unsafe fn tall<D: Epilogue, const VECTORS: usize, const FLIP: bool>(
    isa: D,
    run: &Run,
    constants: &D::Constants<VECTORS>,
) {
    let mut row = 0;
    // SAFETY: as the caller promises; the last tile overlaps the one before.
    unsafe {
        while row < run.rows {
            match run.rows - row {
                16.. if D::TALLEST >= 16 => {
                    tile::<D, 16, VECTORS, VECTORS, FLIP>(isa, run, constants, row);
                    row += 16;
                }
                9.. => {
                    let at = row.min(run.rows - 12);
                    tile::<D, 12, VECTORS, VECTORS, FLIP>(isa, run, constants, at);
                    row += 12;
                }
                5.. => {
                    let at = row.min(run.rows - 8);
                    tile::<D, 8, VECTORS, VECTORS, FLIP>(isa, run, constants, at);
                    row += 8;
                }
                _ => {
                    let at = row.min(run.rows - 4);
                    tile::<D, 4, VECTORS, VECTORS, FLIP>(isa, run, constants, at);
                    row += 4;
                }
            }
        }
    }
}

/// One tile of rows for each half of a panel of four vectors: the lines of images of seven columns
/// would take two tiles of four rows otherwise, an eighth too much, and all sums at once leave no
/// registers for weights.
///
/// # Safety
/// As for [`tiles`]; there are `ROWS` rows.
#[inline(always)]
unsafe fn halves<D: Epilogue, const ROWS: usize>(isa: D, run: &Run) {
    for first in [0, 2 * D::Sums::LANES] {
        let half = Run {
            weights: run.weights.wrapping_add(first),
            output: run.output.wrapping_add(first * run.results.element()),
            columns: run.columns - first,
            results: run.results.skip(first),
            ..*run
        };
        // SAFETY: as the caller promises, some of the columns.
        unsafe {
            let constants = &isa.constants::<2>(&half);
            tile::<D, ROWS, 2, 4, true>(isa, &half, constants, 0);
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
unsafe fn overlapping<D: Epilogue, const ROWS: usize, const VECTORS: usize>(
    isa: D,
    run: &Run,
    constants: &D::Constants<VECTORS>,
) {
    for row in (0..run.rows).step_by(ROWS) {
        // SAFETY: as the caller promises.
        unsafe {
            tile::<D, ROWS, VECTORS, VECTORS, true>(isa, run, constants, row.min(run.rows - ROWS));
        }
    }
}

/// `ROWS` windows by `VECTORS` vectors of a panel that has `PANEL`. Without `FLIP` the run's is 0.
///
/// # Safety
/// As for [`tiles`]; the windows from `row` on are there.
#[inline(always)]
unsafe fn tile<
    D: Epilogue,
    const ROWS: usize,
    const VECTORS: usize,
    const PANEL: usize,
    const FLIP: bool,
>(
    isa: D,
    run: &Run,
    constants: &D::Constants<VECTORS>,
    row: usize,
) {
    // SAFETY: a line of bias, then one of weights for each word of the window's segments; as the
    // caller promises.
    unsafe {
        let flip = isa.flip(if FLIP { run.flip } else { 0 });
        let nothing = D::Sums::splat(isa.vectors(), 0);
        let mut w = run.weights;
        let mut bias = [nothing; VECTORS];
        unrolled!(4: v < VECTORS, {
            bias[v] = D::Sums::load(isa.vectors(), w.add(v * D::Sums::LANES));
        });
        let mut sums = [bias; ROWS];
        for segment in 0..run.segment_count + run.rest_count {
            let mut x = run.input.add(row * run.step + *run.segments.add(segment));
            let words = if segment < run.segment_count { run.words } else { 1 };
            for _ in 0..words {
                w = w.add(PANEL * D::Sums::LANES);
                let mut line = [isa.words(w); VECTORS];
                unrolled!(4: v < VECTORS, { line[v] = isa.words(w.add(v * D::Sums::LANES)) });
                unrolled!(16: r < ROWS, {
                    let word = isa.word(x.add(r * run.step), flip);
                    unrolled!(4: v < VECTORS, {
                        sums[r][v] = isa.dot(sums[r][v], word, line[v]);
                    });
                });
                x = x.add(4);
            }
        }
        finish::<D, ROWS, VECTORS>(isa, run, constants, row, sums);
    }
}

/// Stores the accumulators of the windows from `row` on, or the bytes or floats of them.
///
/// # Safety
/// As for [`tiles`]; the windows from `row` on are there.
#[inline(always)]
pub(super) unsafe fn finish<D: Epilogue, const ROWS: usize, const VECTORS: usize>(
    isa: D,
    run: &Run,
    constants: &D::Constants<VECTORS>,
    row: usize,
    mut sums: [[D::Sums; VECTORS]; ROWS],
) {
    // SAFETY: as the caller promises.
    unsafe {
        if !run.corrections.is_null() {
            unrolled!(16: r < ROWS, {
                let correction = D::Sums::splat(isa.vectors(), *run.corrections.add(row + r));
                unrolled!(4: v < VECTORS, { sums[r][v] = sums[r][v].sub(correction) });
            });
        }
        match &run.results {
            Results::Bytes(scaling) => isa.store(run, scaling, row, constants, sums),
            Results::Floats(channels) => store_floats::<D, ROWS, VECTORS>(run, channels, row, sums),
            Results::Sums => unrolled!(16: r < ROWS, {
                let to = run.output.add((row + r) * run.stride).cast::<i32>();
                unrolled!(4: v < VECTORS, { sums[r][v].store(to.add(v * D::Sums::LANES)) });
            }),
        }
    }
}

/// Stores accumulators as floats, but for columns that the run doesn't have.
///
/// # Safety
/// As many rows from `row` on as there are accumulators are the run's, and channels are padded to
/// whole panels.
#[inline(always)]
unsafe fn store_floats<D: Epilogue, const ROWS: usize, const VECTORS: usize>(
    run: &Run,
    channels: &FloatChannels,
    row: usize,
    sums: [[D::Sums; VECTORS]; ROWS],
) {
    let lanes = D::Sums::LANES;
    unrolled!(4: v < VECTORS, {
        let columns = run.columns.saturating_sub(v * lanes).min(lanes);
        let channels = channels.skip(v * lanes);
        // SAFETY: as the caller promises; what is stored keeps within the columns.
        unsafe {
            unrolled!(16: r < ROWS, {
                let to = run.output.add((row + r) * run.stride).cast::<f32>();
                sums[r][v].store_floats(&channels, to.wrapping_add(v * lanes), columns);
            });
        }
    });
}
