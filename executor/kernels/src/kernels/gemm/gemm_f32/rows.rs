//! The loop of a tile: the same for every instruction set, and for elements that are pairs of bf16.

use super::tile::{AHEAD, ROWS_PER_BASE, TileStack, bases, further};
use crate::simd::vector_f32::{F32Lanes, F32Simd};
use crate::simd::{fetch, fetch_l1};

/// Products of an element and a line of weights, with what this kernel's panels have of an
/// instruction set besides [`F32Simd`]: half vectors, and elements that are pairs of bf16. A value
/// proves that the machine has the instruction set. The methods are always inlined, into functions
/// that state it.
pub(super) trait Products: Copy {
    /// Vectors of sums and of weights.
    type Whole: F32Simd;
    /// Vectors half as wide, for a last one that is no wider; the same where there are none.
    type Half: F32Simd;
    /// True if each product is rounded before it is added, and the bias is added last.
    const ORDERED: bool = false;
    /// True if large tiles take two elements of depth at a time. Twelve products keep two units
    /// busy for six cycles, in which a core that computes for another thread as well begins fewer
    /// instructions than one element takes; going on costs two elements no more than one.
    const PAIRED: bool = false;

    fn whole(self) -> <Self::Whole as F32Simd>::Isa;

    fn half(self) -> <Self::Half as F32Simd>::Isa;

    /// Adds the products of an element of a row and a vector of weights.
    ///
    /// # Safety
    /// The element is readable.
    #[inline(always)]
    unsafe fn add(self, x: *const f32, weights: Self::Whole, sums: Self::Whole) -> Self::Whole {
        // SAFETY: as the caller promises.
        let x = Self::Whole::splat(self.whole(), unsafe { x.read_unaligned() });
        if Self::ORDERED { x.mul(weights).add(sums) } else { x.mul_add(weights, sums) }
    }

    /// The same of a half vector.
    ///
    /// # Safety
    /// The element is readable.
    #[inline(always)]
    unsafe fn add_half(self, x: *const f32, weights: Self::Half, sums: Self::Half) -> Self::Half {
        // SAFETY: as the caller promises.
        let x = Self::Half::splat(self.half(), unsafe { x.read_unaligned() });
        if Self::ORDERED { x.mul(weights).add(sums) } else { x.mul_add(weights, sums) }
    }
}

/// The same products, each rounded before it is added.
#[derive(Clone, Copy)]
pub(super) struct Ordered<P>(pub(super) P);

impl<P: Products> Products for Ordered<P> {
    type Whole = P::Whole;
    type Half = P::Half;
    const ORDERED: bool = true;
    const PAIRED: bool = P::PAIRED;

    #[inline(always)]
    fn whole(self) -> <Self::Whole as F32Simd>::Isa {
        self.0.whole()
    }

    #[inline(always)]
    fn half(self) -> <Self::Half as F32Simd>::Isa {
        self.0.half()
    }
}

/// As many floats as a panel is wide: some vectors, and half of one more with `HALF`. A line of
/// weights, or the sums of one row.
#[derive(Clone, Copy)]
struct Line<P: Products, const WHOLE: usize, const HALF: bool> {
    whole: [P::Whole; WHOLE],
    /// Zeros without `HALF`.
    half: P::Half,
}

impl<P: Products, const WHOLE: usize, const HALF: bool> Line<P, WHOLE, HALF> {
    const LANES: usize = P::Whole::LANES;
    const COLUMNS: usize = WHOLE * Self::LANES + if HALF { P::Half::LANES } else { 0 };

    #[inline(always)]
    fn zeros(isa: P) -> Self {
        Self {
            whole: [P::Whole::splat(isa.whole(), 0.0); WHOLE],
            half: P::Half::splat(isa.half(), 0.0),
        }
    }

    /// # Safety
    /// The line is readable.
    #[inline(always)]
    unsafe fn load(isa: P, from: *const f32) -> Self {
        let mut line = Self::zeros(isa);
        // SAFETY: as the caller promises.
        unsafe {
            for (v, vector) in line.whole.iter_mut().enumerate() {
                *vector = P::Whole::load(isa.whole(), from.add(v * Self::LANES));
            }
            if HALF {
                line.half = P::Half::load(isa.half(), from.add(WHOLE * Self::LANES));
            }
        }
        line
    }

    /// Prefetches a line of weights that is soon needed. Nothing need be there.
    #[inline(always)]
    fn fetch(from: *const f32) {
        for at in (0..Self::COLUMNS).step_by(16) {
            fetch_l1(from.wrapping_add(AHEAD + at));
        }
    }

    /// Adds the products of an element and a line of weights.
    ///
    /// # Safety
    /// The element is readable.
    #[inline(always)]
    unsafe fn with_products(mut self, isa: P, x: *const f32, weights: &Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            for (sums, &weights) in self.whole.iter_mut().zip(&weights.whole) {
                *sums = isa.add(x, weights, *sums);
            }
            if HALF {
                self.half = isa.add_half(x, weights.half, self.half);
            }
        }
        self
    }

    /// The sums of two lines.
    #[inline(always)]
    fn plus(mut self, other: &Self) -> Self {
        for (sums, &others) in self.whole.iter_mut().zip(&other.whole) {
            *sums = sums.add(others);
        }
        if HALF {
            self.half = self.half.add(other.half);
        }
        self
    }

    /// Clamps sums and stores them as a row of outputs, all of whose columns the tiles have.
    ///
    /// # Safety
    /// They are writable.
    #[inline(always)]
    unsafe fn store(self, all: &TileStack, output: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe {
            for (v, sums) in self.whole.into_iter().enumerate() {
                let y = sums.clamp(sums.filled(all.low), sums.filled(all.high));
                y.store(output.wrapping_add(v * Self::LANES));
            }
            if HALF {
                let y = self.half.clamp(self.half.filled(all.low), self.half.filled(all.high));
                y.store(output.wrapping_add(WHOLE * Self::LANES));
            }
        }
    }

    /// The same of those columns that the tiles have.
    ///
    /// # Safety
    /// They are writable.
    #[inline(always)]
    unsafe fn store_columns(self, all: &TileStack, output: *mut f32) {
        // SAFETY: no more columns than there are.
        unsafe {
            for (v, sums) in self.whole.into_iter().enumerate() {
                let first = v * Self::LANES;
                let columns = all.columns.saturating_sub(first).min(Self::LANES);
                let y = sums.clamp(sums.filled(all.low), sums.filled(all.high));
                y.store_first(output.wrapping_add(first), columns);
            }
            if HALF {
                let first = WHOLE * Self::LANES;
                let columns = all.columns.saturating_sub(first).min(P::Half::LANES);
                let y = self.half.clamp(self.half.filled(all.low), self.half.filled(all.high));
                y.store_first(output.wrapping_add(first), columns);
            }
        }
    }
}

/// Where a tile begins: its rows, its outputs, and what is asked for meanwhile.
#[derive(Clone, Copy)]
struct Place {
    input: *const f32,
    output: *mut f32,
    ahead: *const f32,
}

impl Place {
    #[inline(always)]
    fn first(all: &TileStack) -> Self {
        Self { input: all.input, output: all.output, ahead: all.ahead }
    }

    /// So many rows below.
    #[inline(always)]
    fn below(self, all: &TileStack, rows: usize) -> Self {
        Self {
            input: self.input.wrapping_add(rows * all.row_stride),
            output: self.output.wrapping_add(rows * all.stride),
            ..self
        }
    }
}

/// Tiles of up to three rows for each of the `BASES` that they are addressed from.
///
/// # Safety
/// As for [`super::panels::Width::run`].
#[inline(always)]
pub(super) unsafe fn tiles<
    P: Products,
    const WHOLE: usize,
    const HALF: bool,
    const BASES: usize,
>(
    isa: P,
    all: &TileStack,
) {
    let mut at = Place::first(all);
    for tile in 0..all.heights.tiles {
        let count = all.heights.rows_of(tile);
        // SAFETY: as the caller promises; each arm differs in the number of rows alone.
        unsafe {
            at.ahead = match count {
                1 => rows::<P, WHOLE, HALF, 1, BASES>(isa, all, at),
                2 => rows::<P, WHOLE, HALF, 2, BASES>(isa, all, at),
                3 => rows::<P, WHOLE, HALF, 3, BASES>(isa, all, at),
                4 => rows::<P, WHOLE, HALF, 4, BASES>(isa, all, at),
                5 => rows::<P, WHOLE, HALF, 5, BASES>(isa, all, at),
                7 if BASES == 4 => rows::<P, WHOLE, HALF, 7, BASES>(isa, all, at),
                8 if BASES == 4 => rows::<P, WHOLE, HALF, 8, BASES>(isa, all, at),
                9 if BASES == 4 => rows::<P, WHOLE, HALF, 9, BASES>(isa, all, at),
                10 if BASES == 4 => rows::<P, WHOLE, HALF, 10, BASES>(isa, all, at),
                11 if BASES == 4 => rows::<P, WHOLE, HALF, 11, BASES>(isa, all, at),
                12 if BASES == 4 => rows::<P, WHOLE, HALF, 12, BASES>(isa, all, at),
                _ => rows::<P, WHOLE, HALF, 6, BASES>(isa, all, at),
            };
        }
        at = at.below(all, count);
    }
}

/// The tile at a place; returns what is to be asked for next.
///
/// # Safety
/// As for [`tiles`]; the tile has `COUNT` rows.
#[inline(always)]
unsafe fn rows<
    P: Products,
    const WHOLE: usize,
    const HALF: bool,
    const COUNT: usize,
    const BASES: usize,
>(
    isa: P,
    all: &TileStack,
    at: Place,
) -> *const f32 {
    // SAFETY: a line of bias.
    let bias = unsafe { Line::<P, WHOLE, HALF>::load(isa, all.bias) };
    let start = if P::ORDERED { Line::zeros(isa) } else { bias };
    let mut sums = [start; COUNT];
    let columns = Line::<P, WHOLE, HALF>::COLUMNS;
    all.fetch_next_outputs(at.output, COUNT, columns);
    let mut ahead = at.ahead;
    for segment in all.segments(at.input) {
        let mut w = segment.weights;
        let mut bases: [*const f32; BASES] = bases(segment.rows, all.row_stride);
        let mut left = all.len;
        // SAFETY: the segment has `len` lines of weights, and as many elements of each row.
        unsafe {
            while P::PAIRED && WHOLE >= 2 && COUNT >= 5 && left >= 2 {
                element(isa, all, bases, w, ahead, &mut sums);
                ahead = ahead.wrapping_byte_add(all.ahead_step);
                let second = bases.map(|base| base.wrapping_add(1));
                element(isa, all, second, w.wrapping_add(columns), ahead, &mut sums);
                ahead = ahead.wrapping_byte_add(all.ahead_step);
                w = w.wrapping_add(2 * columns);
                bases = further(bases, 2);
                left -= 2;
            }
            for _ in 0..left {
                element(isa, all, bases, w, ahead, &mut sums);
                ahead = ahead.wrapping_byte_add(all.ahead_step);
                w = w.wrapping_add(columns);
                // With one vector to a row there are registers for every row's address.
                bases = if columns > P::Whole::LANES {
                    further(bases, 1)
                } else {
                    bases.map(|base| base.wrapping_add(1))
                };
            }
        }
    }
    if P::ORDERED {
        sums = sums.map(|sums| sums.plus(&bias));
    }
    // SAFETY: rows of the tile.
    unsafe {
        let row = |row: usize| at.output.wrapping_add(row * all.stride);
        if all.columns < columns {
            for (r, sums) in sums.into_iter().enumerate() {
                sums.store_columns(all, row(r));
            }
        } else {
            // Row by row: a loop's sums would go by way of memory.
            unrolled!(12: r < COUNT, { sums[r].store(all, row(r)) });
        }
    }
    ahead
}

/// Adds the products of an element of each row.
///
/// # Safety
/// The rows' elements are readable, and a line of weights.
#[inline(always)]
unsafe fn element<
    P: Products,
    const WHOLE: usize,
    const HALF: bool,
    const COUNT: usize,
    const BASES: usize,
>(
    isa: P,
    all: &TileStack,
    bases: [*const f32; BASES],
    weights: *const f32,
    ahead: *const f32,
    sums: &mut [Line<P, WHOLE, HALF>; COUNT],
) {
    // SAFETY: as the caller promises.
    unsafe {
        let line = Line::<P, WHOLE, HALF>::load(isa, weights);
        Line::<P, WHOLE, HALF>::fetch(weights);
        // Narrower tiles are bound by what they load as it is.
        if WHOLE >= 2 {
            fetch(ahead);
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            let base = bases[row / ROWS_PER_BASE];
            let x = base.wrapping_add(row % ROWS_PER_BASE * all.row_stride);
            *sums = sums.with_products(isa, x, &line);
        }
    }
}
