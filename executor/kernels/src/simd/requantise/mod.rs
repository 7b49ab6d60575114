//! Accumulators to stored values: multiply, round twice, add the zero point, clamp; lane by lane.
//!
//! The vector variants give the very bits of [`Multiplier::apply`]. They are inlined into the
//! kernels whose accumulators they finish.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;

use super::vector_i32::I32Simd;
use crate::tensor::AlignedBytes;
use crate::tensor::quant::Multiplier;

/// Vectors of accumulators that become stored values.
pub(crate) trait RequantiseSimd: I32Simd {
    /// Multipliers of any kind, one for each lane.
    type Multipliers: Copy;
    /// Multipliers that [`Quick`] speaks of.
    type Quick: Copy;
    /// The range of stored bytes.
    type Narrow: Copy;

    /// # Safety
    /// There are as many channels as lanes from `channel` on.
    unsafe fn multipliers(isa: Self::Isa, channels: &Channels, channel: usize)
    -> Self::Multipliers;

    /// The products, rounded twice.
    fn scaled(self, by: &Self::Multipliers) -> Self;

    /// Returns the stored values of these accumulators.
    fn stored(self, by: &Self::Multipliers) -> Self;

    /// Means something only where all channels are quick.
    ///
    /// # Safety
    /// As for [`RequantiseSimd::multipliers`]; `channel` is a multiple of the lanes.
    unsafe fn quick(isa: Self::Isa, channels: &Channels, channel: usize) -> Self::Quick;

    /// The stored values of these accumulators, read as unsigned bytes but not yet within their
    /// range. Without `NEGATIVE` those below the zero point are arbitrary there.
    fn rounded<const NEGATIVE: bool>(self, by: &Self::Quick) -> Self;

    /// The range that [`RequantiseSimd::store_narrow`] clamps to, of unsigned or of signed bytes.
    fn narrow(isa: Self::Isa, range: (i32, i32)) -> Self::Narrow;

    /// Stores the first `count` lanes of four vectors of unsigned bytes, at most all, clamped to
    /// the range and as signed bytes where that has such.
    ///
    /// # Safety
    /// So many bytes are writable.
    unsafe fn store_narrow(four: [Self; 4], range: &Self::Narrow, to: *mut u8, count: usize);
}

/// The requantisation of each output channel.
#[derive(Debug)]
pub struct Scaling {
    /// Per channel, padded: fractions, left shifts, right shifts; then what [`Quick`] needs:
    /// shifts, those of even channels with the way to the upper half, and per sixteen channels the
    /// addends of the even and of the odd ones, 64 bits each.
    lines: AlignedBytes,
    padded: usize,
    pub(crate) zero_point: i32,
    pub(crate) low: i32,
    pub(crate) high: i32,
    quick: Option<Quick>,
}

/// Part of a [`Scaling`]: pointers to the first of some channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channels {
    pub(crate) fraction: *const i32,
    pub(crate) left: *const i32,
    pub(crate) right: *const i32,
    pub(crate) quick_right: *const i32,
    pub(crate) even_right: *const i32,
    pub(crate) addends: *const i32,
    pub(crate) zero_point: i32,
    pub(crate) low: i32,
    pub(crate) high: i32,
    pub(crate) quick: Option<Quick>,
}

/// The two roundings in one shift of 64 bits, where every channel shifts right by 1 to 22 bits and
/// what is stored is a byte; true of nearly every convolution.
///
/// With the product `P = x * fraction`, the first rounding is `h = floor((P + 2^30) / 2^31)` and
/// the second `floor((h + 2^(r-1)) / 2^r)`, for negative `h` of `h - 1`. Floors of floors are one
/// floor, hence `floor((P + 2^30 + 2^(30+r)) / 2^(31+r))`, where `2^31` less is divided if `x` is
/// negative. (Were `h` 0 in spite of that, as for `x = -1` and a fraction of `2^30`, the quotient
/// would be 0 either way.) The zero point goes into the addend, and the upper half of the 64 bits
/// is shifted by `r - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quick {
    /// True if results below the zero point are stored: where they are not, how negative numbers
    /// are rounded is all the same.
    pub(crate) negative: bool,
}

/// The largest shift for which the zero point, moved by it, leaves room for the product in 64 bits.
const QUICK_SHIFT: i32 = 22;

impl Scaling {
    /// For `channels` channels; a single multiplier serves all. Reading is safe up to the next
    /// multiple of 64 channels.
    pub fn new(
        multipliers: &[Multiplier],
        channels: usize,
        zero_point: i32,
        low: i32,
        high: i32,
    ) -> Self {
        let padded = channels.next_multiple_of(64);
        let mut lines = AlignedBytes::zeroed(padded * 28);
        let all = lines.typed_mut::<i32>();
        // Signed bytes are stored as unsigned ones 128 above them.
        let unsigned = zero_point.saturating_add(offset(low));
        let is_byte = low >= -128 && high <= 255 - offset(low);
        let mut quick = is_byte && (0..=255).contains(&unsigned);
        for channel in 0..channels {
            let one = multipliers
                .get(channel)
                .or_else(|| multipliers.first())
                .copied()
                .unwrap_or_default();
            all[channel] = one.fraction;
            all[padded + channel] = one.shift.max(0);
            all[2 * padded + channel] = (-one.shift).max(0);
            if !(-QUICK_SHIFT..0).contains(&one.shift) {
                quick = false;
                continue;
            }
            all[3 * padded + channel] = -one.shift - 1;
            all[4 * padded + channel] = if channel % 2 == 0 { 31 - one.shift } else { 0 };
            let addend = (1i64 << 30) + ((2 * i64::from(unsigned) + 1) << (30 - one.shift));
            let at = channel / 16 * 16 + channel % 2 * 8 + channel % 16 / 2;
            let halves: [i32; 2] = bytemuck::cast(addend);
            all[5 * padded + 2 * at..][..2].copy_from_slice(&halves);
        }
        let quick = quick.then_some(Quick { negative: low < zero_point });
        Self { lines, padded, zero_point, low, high, quick }
    }

    /// The same with other channels: lane `at` has what `channel(at)` has here.
    pub(crate) fn rearranged(&self, lanes: usize, channel: impl Fn(usize) -> usize) -> Self {
        let all = self.lines.typed::<i32>();
        let line = |line: usize, at: usize| all[line * self.padded + channel(at)];
        let of = |at: usize| Multiplier { fraction: line(0, at), shift: line(1, at) - line(2, at) };
        let multipliers: Vec<_> = (0..lanes).map(of).collect();
        Self::new(&multipliers, lanes, self.zero_point, self.low, self.high)
    }

    /// From `channel` on; for [`Quick`] a multiple of 16.
    pub(crate) fn from(&self, channel: usize) -> Channels {
        let lines = self.lines.typed::<i32>();
        let from = |at: usize| lines[at.min(lines.len())..].as_ptr();
        let line = |at: usize| from(at * self.padded + channel);
        Channels {
            fraction: line(0),
            left: line(1),
            right: line(2),
            quick_right: line(3),
            even_right: line(4),
            addends: from(5 * self.padded + 2 * channel),
            zero_point: self.zero_point,
            low: self.low,
            high: self.high,
            quick: self.quick,
        }
    }
}

/// Returns the offset that makes stored values unsigned.
pub(crate) const fn offset(low: i32) -> i32 {
    if low < 0 { 128 } else { 0 }
}

impl Channels {
    /// Those of a panel of 64 at most whose accumulators do not become bytes: readable numbers.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) const fn of_no_bytes() -> Self {
        static ZEROS: [i32; 128] = [0; 128];
        let zeros = ZEROS.as_ptr();
        Self {
            fraction: zeros,
            left: zeros,
            right: zeros,
            quick_right: zeros,
            even_right: zeros,
            addends: zeros,
            zero_point: 0,
            low: 0,
            high: 0,
            quick: None,
        }
    }

    /// The range of stored values.
    pub(crate) const fn range(&self) -> (i32, i32) {
        (self.low, self.high)
    }

    /// Those from `channel` on, for [`Quick`] a multiple of 16.
    pub(crate) const fn skip(&self, channel: usize) -> Self {
        Self {
            fraction: self.fraction.wrapping_add(channel),
            left: self.left.wrapping_add(channel),
            right: self.right.wrapping_add(channel),
            quick_right: self.quick_right.wrapping_add(channel),
            even_right: self.even_right.wrapping_add(channel),
            addends: self.addends.wrapping_add(2 * channel),
            ..*self
        }
    }

    /// The stored value of an accumulator, for plain code.
    ///
    /// # Safety
    /// There is such a channel.
    #[inline(always)]
    pub(crate) unsafe fn stored(&self, accumulator: i32, channel: usize) -> i32 {
        // SAFETY: the caller vouches for the channel.
        let (fraction, left, right) = unsafe {
            (*self.fraction.add(channel), *self.left.add(channel), *self.right.add(channel))
        };
        let y = Multiplier { fraction, shift: left - right }.apply(accumulator);
        y.saturating_add(self.zero_point).clamp(self.low, self.high)
    }
}

#[cfg(test)]
mod tests;
