//! Accumulators to stored values: multiply, round twice, add the zero point, clamp; lane by lane.
//!
//! The vector forms give the very bits of [`Multiplier::apply`]. They are inlined into the kernels
//! whose accumulators they finish.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

use crate::memory::AlignedBytes;
use crate::quant::Multiplier;

/// How each output channel is brought to stored values.
#[derive(Debug)]
pub(crate) struct Scaling {
    /// Per channel, padded: fractions, then left shifts, then right shifts.
    lines: AlignedBytes,
    padded: usize,
    pub(crate) zero_point: i32,
    pub(crate) low: i32,
    pub(crate) high: i32,
}

/// Part of a [`Scaling`]: pointers to the first of some channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channels {
    pub(super) fraction: *const i32,
    pub(super) left: *const i32,
    pub(super) right: *const i32,
    pub(super) zero_point: i32,
    pub(super) low: i32,
    pub(super) high: i32,
}

impl Scaling {
    /// For `channels` channels; a single multiplier serves all. Reading is safe up to the next multiple of
    /// 64 channels.
    pub(crate) fn new(
        multipliers: &[Multiplier],
        channels: usize,
        zero_point: i32,
        (low, high): (i32, i32),
    ) -> Self {
        let padded = channels.next_multiple_of(64);
        let mut lines = AlignedBytes::zeroed(padded * 12);
        let all = lines.typed_mut::<i32>();
        for channel in 0..channels {
            let one = multipliers
                .get(channel)
                .or_else(|| multipliers.first())
                .copied()
                .unwrap_or_default();
            all[channel] = one.fraction;
            all[padded + channel] = one.shift.max(0);
            all[2 * padded + channel] = (-one.shift).max(0);
        }
        Self { lines, padded, zero_point, low, high }
    }

    /// From `channel` on.
    pub(crate) fn from(&self, channel: usize) -> Channels {
        let lines = self.lines.typed::<i32>();
        let line = |at: usize| lines[(at * self.padded + channel).min(lines.len())..].as_ptr();
        Channels {
            fraction: line(0),
            left: line(1),
            right: line(2),
            zero_point: self.zero_point,
            low: self.low,
            high: self.high,
        }
    }
}

impl Channels {
    /// The stored value of an accumulator, for plain code.
    ///
    /// # Safety
    /// There is such a channel.
    #[inline(always)]
    pub(super) unsafe fn stored(&self, accumulator: i32, channel: usize) -> i32 {
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
