//! Tiles of 6 by 16 with `vpmaddwd` on 16-bit differences: exact, where the byte form would
//! saturate.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm_set1_epi8, _mm_xor_si128, _mm256_add_epi32, _mm256_cvtepu8_epi16,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_storeu_si256, _mm256_sub_epi16, _mm256_sub_epi32,
};

use super::kernel::{Bytes, Encoding, Kernel, Run};
use super::scalar;
use super::tile::{Sums, one, tiles};
use crate::simd::requantise::Channels;
use crate::simd::requantise::avx2::Lanes;
use crate::simd::vector_i32::{I32Simd, I32x8};

pub(super) const KERNEL: Kernel = Kernel {
    columns: 2 * LANES,
    lanes: LANES,
    encoding: Encoding::Differences,
    signed: false,
    few: None,
    encode,
    sums: scalar::no_sums,
    run,
    single,
};

const LANES: usize = 8;

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
    unsafe { tiles::<__m256i, 2>(run) };
}

#[target_feature(enable = "avx2")]
unsafe fn single(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { one::<__m256i, 2>(run) };
}

impl Sums for __m256i {
    const LANES: usize = LANES;
    const SUMS_WINDOWS: bool = false;

    /// Differences are signed in memory already.
    type Flip = ();
    type Word = Self;
    type Weights = Self;
    type Finish<const VECTORS: usize> = [Lanes; VECTORS];

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn splat(x: i32) -> Self {
        // SAFETY: as the caller promises.
        unsafe { _mm256_set1_epi32(x) }
    }

    #[inline(always)]
    unsafe fn flip(_: u8) {}

    #[inline(always)]
    unsafe fn word(from: *const u8, (): ()) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::splat(from.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn weights(from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::load(from) }
    }

    #[inline(always)]
    unsafe fn same_weights(word: i32) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::splat(word) }
    }

    #[inline(always)]
    fn with_products(self, word: Self, weights: Self) -> Self {
        // SAFETY: sums are proof of the instruction set.
        unsafe { _mm256_add_epi32(self, _mm256_madd_epi16(word, weights)) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: sums are proof of the instruction set.
        unsafe { _mm256_sub_epi32(self, other) }
    }

    #[inline(always)]
    unsafe fn finish<const VECTORS: usize>(scaling: &Channels) -> [Lanes; VECTORS] {
        // SAFETY: as the caller promises.
        unsafe {
            let mut by = [I32x8::multipliers(scaling, 0); VECTORS];
            unrolled!(2: v < VECTORS, { by[v] = I32x8::multipliers(scaling, v * LANES) });
            by
        }
    }

    #[inline(always)]
    unsafe fn store<const ROWS: usize, const VECTORS: usize>(
        run: &Run,
        row: usize,
        by: &[Lanes; VECTORS],
        sums: [[Self; VECTORS]; ROWS],
    ) {
        unrolled!(2: v < VECTORS, {
            let columns = run.columns.saturating_sub(v * LANES).min(LANES);
            // SAFETY: as the caller promises; what is stored keeps within the columns.
            unsafe {
                unrolled!(7: r < ROWS, {
                    let at = run.output.add((row + r) * run.stride + v * LANES);
                    I32x8(sums[r][v]).stored(&by[v]).store_bytes(at, columns);
                });
            }
        });
    }
}
