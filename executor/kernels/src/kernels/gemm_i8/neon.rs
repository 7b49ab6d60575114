//! Tiles of 6 by 8: widening multiply-adds of 16-bit differences, for machines without dot
//! products.

use core::arch::aarch64::{
    int16x4_t, int16x8x2_t, int32x4_t, vdup_n_u8, vdup_n_u32, vdupq_n_s16, vdupq_n_s32, veor_u8,
    vget_low_s16, vld1_u8, vld1q_s32, vld2q_s16, vmlal_high_lane_s16, vmlal_lane_s16, vmovl_u8,
    vreinterpret_s16_u32, vreinterpretq_s16_s32, vreinterpretq_s16_u16, vst1q_s16, vsubq_s16,
    vsubq_s32, vuzpq_s16,
};

use super::kernel::{Bytes, Encoding, Kernel, Run};
use super::scalar;
use super::tile::{Sums, one, tiles};
use crate::simd::requantise::Channels;
use crate::simd::requantise::neon::Lanes;
use crate::simd::vector_i32::{I32Simd, I32x4x2};

pub(super) const KERNEL: Kernel = Kernel {
    columns: COLUMNS,
    lanes: COLUMNS,
    encoding: Encoding::Differences,
    signed: false,
    few: None,
    encode,
    sums: scalar::no_sums,
    run,
    single,
};

const COLUMNS: usize = 8;

#[target_feature(enable = "neon")]
pub(crate) unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let flip = vdup_n_u8(bytes.flip);
    // Zero points are at most 255, which fits.
    let zero_point = vdupq_n_s16(i16::try_from(bytes.zero_point).unwrap_or(0));
    let whole = count / 8 * 8;
    for at in (0..whole).step_by(8) {
        // SAFETY: eight bytes, and as many differences.
        unsafe {
            let x = vreinterpretq_s16_u16(vmovl_u8(veor_u8(vld1_u8(from.add(at)), flip)));
            vst1q_s16(to.add(at * 2).cast(), vsubq_s16(x, zero_point));
        }
    }
    // SAFETY: the rest.
    unsafe { scalar::encode(from.add(whole), count - whole, bytes, to.add(whole * 2)) };
}

#[target_feature(enable = "neon")]
unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { tiles::<Eight, 1>(run) };
}

#[target_feature(enable = "neon")]
unsafe fn single(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { one::<Eight, 1>(run) };
}

/// Sums of eight columns.
#[derive(Clone, Copy)]
struct Eight([int32x4_t; 2]);

impl Sums for Eight {
    const LANES: usize = COLUMNS;
    const SUMS_WINDOWS: bool = false;

    /// Differences are signed in memory already.
    type Flip = ();
    type Word = int16x4_t;
    /// The first and the second difference of each column's word.
    type Weights = int16x8x2_t;
    type Finish<const VECTORS: usize> = [[Lanes; 2]; VECTORS];

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { [vld1q_s32(from), vld1q_s32(from.add(4))] })
    }

    #[inline(always)]
    unsafe fn splat(x: i32) -> Self {
        // SAFETY: as the caller promises.
        Self([unsafe { vdupq_n_s32(x) }; 2])
    }

    #[inline(always)]
    unsafe fn flip(_: u8) {}

    #[inline(always)]
    unsafe fn word(from: *const u8, (): ()) -> int16x4_t {
        // SAFETY: as the caller promises.
        unsafe { vreinterpret_s16_u32(vdup_n_u32(from.cast::<u32>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn weights(from: *const i32) -> int16x8x2_t {
        // SAFETY: as the caller promises.
        unsafe { vld2q_s16(from.cast()) }
    }

    #[inline(always)]
    unsafe fn same_weights(word: i32) -> int16x8x2_t {
        // SAFETY: as the caller promises.
        unsafe {
            let both = vreinterpretq_s16_s32(vdupq_n_s32(word));
            vuzpq_s16(both, both)
        }
    }

    #[inline(always)]
    fn with_products(self, word: int16x4_t, weights: int16x8x2_t) -> Self {
        let [low, high] = self.0;
        // SAFETY: sums are proof of the instruction set.
        unsafe {
            let low = vmlal_lane_s16::<0>(low, vget_low_s16(weights.0), word);
            let high = vmlal_high_lane_s16::<0>(high, weights.0, word);
            Self([
                vmlal_lane_s16::<1>(low, vget_low_s16(weights.1), word),
                vmlal_high_lane_s16::<1>(high, weights.1, word),
            ])
        }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        // SAFETY: sums are proof of the instruction set.
        Self(unsafe { [vsubq_s32(a, c), vsubq_s32(b, d)] })
    }

    #[inline(always)]
    unsafe fn finish<const VECTORS: usize>(scaling: &Channels) -> [[Lanes; 2]; VECTORS] {
        // SAFETY: as the caller promises.
        unsafe { multipliers(scaling) }
    }

    #[inline(always)]
    unsafe fn store<const ROWS: usize, const VECTORS: usize>(
        run: &Run,
        row: usize,
        by: &[[Lanes; 2]; VECTORS],
        sums: [[Self; VECTORS]; ROWS],
    ) {
        // SAFETY: as the caller promises.
        unsafe { store::<ROWS, VECTORS>(run, row, by, |r, v| sums[r][v].0) };
    }
}

/// Those of a panel's columns.
///
/// # Safety
/// As for [`Sums::finish`].
#[inline(always)]
pub(super) unsafe fn multipliers<const VECTORS: usize>(
    scaling: &Channels,
) -> [[Lanes; 2]; VECTORS] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut by = [I32x4x2::multipliers(scaling, 0); VECTORS];
        unrolled!(2: v < VECTORS, { by[v] = I32x4x2::multipliers(scaling, v * COLUMNS) });
        by
    }
}

/// Brings the sums of a tile to bytes and stores them: of each row and vector of eight columns.
///
/// # Safety
/// As for [`Sums::store`].
#[inline(always)]
pub(super) unsafe fn store<const ROWS: usize, const VECTORS: usize>(
    run: &Run,
    row: usize,
    by: &[[Lanes; 2]; VECTORS],
    sums: impl Fn(usize, usize) -> [int32x4_t; 2],
) {
    unrolled!(2: v < VECTORS, {
        let columns = run.columns.saturating_sub(v * COLUMNS).min(COLUMNS);
        // SAFETY: as the caller promises; what is stored keeps within the columns.
        unsafe {
            unrolled!(7: r < ROWS, {
                let at = run.output.add((row + r) * run.stride + v * COLUMNS);
                I32x4x2(sums(r, v)).stored(&by[v]).store_bytes(at, columns);
            });
        }
    });
}
