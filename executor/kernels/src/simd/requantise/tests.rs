//! The vector variants against the reference function.

use super::*;

const EXTREMES: [i32; 14] =
    [0, 1, -1, 2, -2, 3, -3, 1 << 30, -(1 << 30), i32::MAX, i32::MIN, i32::MIN + 1, 12345, -98765];

#[test]
fn every_lane_is_the_reference() {
    let multipliers: Vec<Multiplier> = (-31..=12)
        .flat_map(|shift| {
            [1 << 30, (1 << 30) + 1, 1_518_500_250, i32::MAX, 0]
                .map(|fraction| Multiplier { fraction, shift })
        })
        .collect();
    for (zero_point, (low, high)) in
        [(0, (-128, 127)), (128, (0, 255)), (3, (i32::MIN / 4, i32::MAX / 4))]
    {
        for group in multipliers.chunks(16) {
            let scaling = Scaling::new(group, 16, zero_point, low, high);
            let channels = scaling.from(0);
            let mut accumulators = EXTREMES.to_vec();
            accumulators
                .extend((0..200).map(|i: i32| i.wrapping_mul(2_654_435_761u32.cast_signed())));
            for accumulator in accumulators {
                let want: [i32; 16] = std::array::from_fn(|lane| {
                    // SAFETY: sixteen channels.
                    unsafe { channels.stored(accumulator, lane) }
                });
                #[cfg(target_arch = "x86_64")]
                check_x86(&channels, accumulator, want);
                #[cfg(target_arch = "aarch64")]
                check_neon(&channels, accumulator, want);
                assert_eq!(want.len(), 16);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn check_x86(channels: &Channels, accumulator: i32, want: [i32; 16]) {
    use core::arch::x86_64::{_mm256_set1_epi32, _mm512_set1_epi32};
    if crate::simd::Avx512::detect().is_some() {
        // SAFETY: the machine has it; sixteen channels; a vector is sixteen numbers.
        let got: [i32; 16] = unsafe {
            std::mem::transmute(
                avx512::Avx512Lanes::load(channels, 0).stored(_mm512_set1_epi32(accumulator)),
            )
        };
        assert_eq!(got, want, "avx512 {accumulator} by {channels:?}");
    }
    if crate::simd::Avx2::detect().is_some() {
        for first in [0, 8] {
            // SAFETY: the machine has it; eight channels from `first` on; a vector is eight
            // numbers.
            let got: [i32; 8] = unsafe {
                let lanes = avx2::Avx2Lanes::load(channels, first);
                std::mem::transmute(lanes.stored(_mm256_set1_epi32(accumulator)))
            };
            assert_eq!(got, want[first..first + 8], "avx2 {accumulator}");
        }
    }
}

#[cfg(target_arch = "aarch64")]
fn check_neon(channels: &Channels, accumulator: i32, want: [i32; 16]) {
    use core::arch::aarch64::vdupq_n_s32;
    for first in [0, 4, 8, 12] {
        // SAFETY: the machine has it; four channels from `first` on; a vector is four numbers.
        let got: [i32; 4] = unsafe {
            let lanes = neon::NeonLanes::load(channels, first);
            std::mem::transmute(lanes.stored(vdupq_n_s32(accumulator)))
        };
        assert_eq!(got, want[first..first + 4], "neon {accumulator}");
    }
}
