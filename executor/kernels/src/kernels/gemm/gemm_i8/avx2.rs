//! Tiles of 6 by 16 with `vpmaddwd` on 16-bit differences: exact, where the byte variant would
//! saturate.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_loadu_si128, _mm_set1_epi8,
    _mm_storeu_si128, _mm_xor_si128, _mm256_castsi256_si128, _mm256_cvtepu8_epi16,
    _mm256_extracti128_si256, _mm256_set1_epi16, _mm256_storeu_si256, _mm256_sub_epi16,
};

use super::kernel::{Bytes, Encoding, Microkernel, Run};
use super::scalar;
use super::tile::{multipliers, one, store_by, tiles};
use crate::simd::Avx2;
use crate::simd::requantise::avx2::{Avx2QuickLanes, Narrow};
use crate::simd::requantise::{Channels, Quick};
use crate::simd::vector_i32::{I32x8, store_few};

pub(super) const KERNEL: Microkernel = Microkernel {
    columns: 2 * LANES,
    lanes: LANES,
    encoding: Encoding::Differences,
    signed: false,
    encode,
    sums: scalar::no_sums,
    run,
    single,
};

pub(super) const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(crate) unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let flip = _mm_set1_epi8(bytes.flip.cast_signed());
    // Zero points are at most 255, which fits.
    let zero_point = _mm256_set1_epi16(i16::try_from(bytes.zero_point).unwrap_or(0));
    let whole = count / 16 * 16;
    for at in (0..whole).step_by(16) {
        // SAFETY: sixteen bytes, and as many differences.
        unsafe {
            let x = _mm_xor_si128(_mm_loadu_si128(from.add(at).cast()), flip);
            let x = _mm256_sub_epi16(_mm256_cvtepu8_epi16(x), zero_point);
            _mm256_storeu_si256(to.add(at * 2).cast(), x);
        }
    }
    // SAFETY: the rest.
    unsafe { scalar::encode(from.add(whole), count - whole, bytes, to.add(whole * 2)) };
}

#[target_feature(enable = "avx2")]
unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { tiles::<_, 2>(Avx2::new_unchecked(), run) };
}

#[target_feature(enable = "avx2")]
unsafe fn single(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { one::<_, 2>(Avx2::new_unchecked(), run) };
}

/// The epilogue of an instruction set with vectors of eight sums: constants are loaded for each
/// tile, whose sums leave them no registers.
macro_rules! of_eights {
    ($isa:ident, tallest: $tallest:literal) => {
        impl $crate::kernels::gemm_i8::tile::Epilogue for $isa {
            const TALLEST: usize = $tallest;

            type Constants<const VECTORS: usize> = ();

            #[inline(always)]
            unsafe fn constants<const VECTORS: usize>(self, _: &Run) {}

            #[inline(always)]
            unsafe fn store<const ROWS: usize, const VECTORS: usize>(
                self,
                run: &Run,
                scaling: &$crate::simd::requantise::Channels,
                row: usize,
                (): &(),
                sums: [[$crate::simd::vector_i32::I32x8; VECTORS]; ROWS],
            ) {
                // SAFETY: as the caller promises.
                unsafe { $crate::kernels::gemm_i8::avx2::finish(run, scaling, row, sums) };
            }
        }
    };
}
pub(super) use of_eights;

of_eights!(Avx2, tallest: 6);

/// As [`Epilogue::store`](super::tile::Epilogue::store).
///
/// # Safety
/// As for it.
#[inline(always)]
pub(super) unsafe fn finish<const ROWS: usize, const VECTORS: usize>(
    run: &Run,
    scaling: &Channels,
    row: usize,
    sums: [[I32x8; VECTORS]; ROWS],
) {
    // SAFETY: as the caller promises.
    unsafe {
        match scaling.quick {
            Some(Quick { negative: false }) => {
                quick::<ROWS, VECTORS, false>(run, scaling, row, sums);
            }
            Some(Quick { negative: true }) => {
                quick::<ROWS, VECTORS, true>(run, scaling, row, sums);
            }
            None => {
                // A copy, or the tile's sums would be in memory all the while.
                let mut kept = sums;
                unrolled!(16: r < ROWS, { kept[r] = sums[r] });
                general(run, row, &kept);
            }
        }
    }
}

/// Requantises accumulators and stores them, four vectors at a time: two rows of two, or four of
/// one.
///
/// # Safety
/// As for [`finish`], of channels that are quick.
#[inline(always)]
unsafe fn quick<const ROWS: usize, const VECTORS: usize, const NEGATIVE: bool>(
    run: &Run,
    scaling: &Channels,
    row: usize,
    sums: [[I32x8; VECTORS]; ROWS],
) {
    // SAFETY: as the caller promises; what is stored keeps within the rows and columns.
    unsafe {
        let narrow = Narrow::new(scaling.range());
        let mut lanes = [Avx2QuickLanes::load(scaling, 0); VECTORS];
        unrolled!(2: v < VECTORS, { lanes[v] = Avx2QuickLanes::load(scaling, v * LANES) });
        let mut values = [[sums[0][0].0; VECTORS]; ROWS];
        unrolled!(16: r < ROWS, {
            unrolled!(2: v < VECTORS, { values[r][v] = lanes[v].rounded::<NEGATIVE>(sums[r][v].0) });
        });
        let to = run.output.add(row * run.stride);
        let each = 4 / VECTORS;
        unrolled!(16: r < ROWS, {
            if r.is_multiple_of(each) {
                let at = |v: usize| values[(r + v / VECTORS).min(ROWS - 1)][v % VECTORS];
                let all = narrow.in_order([[at(0), at(1)], [at(2), at(3)]]);
                store::<VECTORS>(all, (ROWS - r).min(each), run, to.wrapping_add(r * run.stride));
            }
        });
    }
}

/// Stores `rows` rows of a panel's columns, at most as many as sixteen or eight of them fill.
///
/// # Safety
/// They are writable.
#[inline(always)]
unsafe fn store<const VECTORS: usize>(all: __m256i, rows: usize, run: &Run, to: *mut u8) {
    let row = |at: usize| to.wrapping_add(at * run.stride);
    // SAFETY: as the caller promises, row by row.
    unsafe {
        let halves = [_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all)];
        if VECTORS == 2 {
            store_sixteen(halves[0], run.columns, row(0));
            if rows == 2 {
                store_sixteen(halves[1], run.columns, row(1));
            }
            return;
        }
        let eights = [
            _mm_cvtsi128_si64(halves[0]),
            _mm_extract_epi64::<1>(halves[0]),
            _mm_cvtsi128_si64(halves[1]),
            _mm_extract_epi64::<1>(halves[1]),
        ];
        unrolled!(4: at < rows, { store_eight(eights[at], run.columns, row(at)) });
    }
}

/// # Safety
/// The columns are writable.
#[inline(always)]
unsafe fn store_sixteen(bytes: __m128i, columns: usize, to: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe {
        if columns >= 2 * LANES {
            return _mm_storeu_si128(to.cast(), bytes);
        }
        store_eight(_mm_cvtsi128_si64(bytes), columns, to);
        store_eight(_mm_extract_epi64::<1>(bytes), columns - LANES, to.wrapping_add(LANES));
    }
}

/// # Safety
/// The columns are writable.
#[inline(always)]
unsafe fn store_eight(bytes: i64, columns: usize, to: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe {
        if columns >= LANES {
            return to.cast::<i64>().write_unaligned(bytes);
        }
        store_few(bytes.cast_unsigned(), to, columns);
    }
}

/// The same as [`quick`] for multipliers of any kind. Rare, so it is kept out of the way of the
/// code around.
///
/// # Safety
/// As for [`finish`], of as many rows as there are accumulators.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
unsafe fn general<const VECTORS: usize>(run: &Run, row: usize, sums: &[[I32x8; VECTORS]]) {
    // SAFETY: as the caller promises.
    unsafe {
        let by = multipliers::<Avx2, VECTORS>(Avx2::new_unchecked(), run);
        for (at, &sums) in sums.iter().enumerate() {
            store_by::<Avx2, 1, VECTORS>(run, row + at, &by, &[sums]);
        }
    }
}
