//! Vectors of 32-bit numbers that come from bytes or sums of them and go back to bytes, so that one
//! loop serves every instruction set: what `simd` is for floats.
//!
//! A kernel is an [`I32Kernel`]: its loop, for vectors of any width. [`I32Simd::run`] compiles it
//! for those of one instruction set, and tables of forms name it with each. All methods are always
//! inlined there.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::I32x8;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::I32x16;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::I32x4x2;

use super::requantise::Channels;

/// A loop that is written once.
pub(crate) trait I32Kernel {
    /// The type of its work.
    type Work;

    /// Must be `#[inline(always)]`, and call nothing that isn't.
    ///
    /// # Safety
    /// As the work says; the machine has the vectors' instruction set.
    unsafe fn run<V: I32Simd>(work: &Self::Work);
}

/// A vector of numbers. They wrap.
///
/// Whoever makes one vouches that the machine has the instruction set; what exists can be computed
/// with. Addresses need no alignment.
pub(crate) trait I32Simd: Copy {
    /// Numbers of a vector.
    const LANES: usize;

    /// Multipliers of any kind, one for each lane.
    type Multipliers: Copy;
    /// Multipliers that [`super::requantise::Quick`] speaks of.
    type Quick: Copy;
    /// The range of stored bytes.
    type Narrow: Copy;

    /// Runs a kernel as compiled for the instruction set.
    ///
    /// # Safety
    /// The machine has it; as for the kernel.
    unsafe fn run<K: I32Kernel>(work: &K::Work);

    /// # Safety
    /// The machine has the instruction set.
    unsafe fn splat(x: i32) -> Self;

    /// # Safety
    /// A vector is readable; the machine has the instruction set.
    unsafe fn load(from: *const i32) -> Self;

    /// # Safety
    /// A vector is writable.
    unsafe fn store(self, to: *mut i32);

    /// As many bytes as there are lanes, unsigned once the bits of `flip` are flipped.
    ///
    /// # Safety
    /// They are readable; the machine has the instruction set.
    unsafe fn bytes(from: *const u8, flip: u8) -> Self;

    /// The first `count` of them, at most all; the other lanes are arbitrary.
    ///
    /// # Safety
    /// They are readable; the machine has the instruction set.
    unsafe fn first_bytes(from: *const u8, count: usize, flip: u8) -> Self;

    /// Stores the lowest byte of the first `count` lanes, at most all.
    ///
    /// # Safety
    /// They are writable.
    unsafe fn store_bytes(self, to: *mut u8, count: usize);

    fn add(self, other: Self) -> Self;

    fn sub(self, other: Self) -> Self;

    fn mul(self, other: Self) -> Self;

    /// The sum with the products of numbers that fit 16 bits. Of `factors` the upper halves are 0,
    /// whatever the sign.
    fn mul_add_16(self, numbers: Self, factors: Self) -> Self;

    fn and(self, other: Self) -> Self;

    /// The first `count` numbers; the other lanes are 0.
    fn first(self, count: usize) -> Self;

    fn shift_left<const BITS: i32>(self) -> Self;

    /// Shifts copies of the sign in, by less than 32 bits.
    fn shift_right(self, bits: Self) -> Self;

    fn clamp(self, low: Self, high: Self) -> Self;

    /// The greater ones, read as unsigned numbers.
    fn max_unsigned(self, other: Self) -> Self;

    /// Returns whether a lane reaches that of `limit`, read as unsigned numbers.
    fn any_reaches_unsigned(self, limit: Self) -> bool;

    /// # Safety
    /// There are as many channels as lanes from `channel` on; the machine has the instruction set.
    unsafe fn multipliers(channels: &Channels, channel: usize) -> Self::Multipliers;

    /// The products, rounded twice.
    fn scaled(self, by: &Self::Multipliers) -> Self;

    /// Returns the stored values of these accumulators.
    fn stored(self, by: &Self::Multipliers) -> Self;

    /// Means something only where all channels are quick.
    ///
    /// # Safety
    /// As for [`I32Simd::multipliers`]; `channel` is a multiple of the lanes.
    unsafe fn quick(channels: &Channels, channel: usize) -> Self::Quick;

    /// What is stored for these sums, read as unsigned bytes but not yet within their range.
    /// Without `NEGATIVE` what lies below the zero point is arbitrary there.
    fn rounded<const NEGATIVE: bool>(self, by: &Self::Quick) -> Self;

    /// # Safety
    /// The machine has the instruction set.
    unsafe fn narrow(channels: &Channels) -> Self::Narrow;

    /// Stores the first `count` lanes of four vectors of unsigned bytes, at most all, as what is
    /// stored for them; they may lie beyond both ends of their range.
    ///
    /// # Safety
    /// So many bytes are writable.
    unsafe fn store_narrow(four: [Self; 4], range: &Self::Narrow, to: *mut u8, count: usize);
}

/// The first `count` of eight bytes, the others arbitrary, without a call to copy them.
///
/// # Safety
/// They are readable, and there are fewer than eight.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe fn load_few(from: *const u8, count: usize) -> u64 {
    // SAFETY: each piece is within the bytes; pieces may overlap.
    unsafe {
        if count >= 4 {
            let last = u64::from(from.add(count - 4).cast::<u32>().read_unaligned());
            return u64::from(from.cast::<u32>().read_unaligned()) | last << (8 * (count - 4));
        }
        (0..count).fold(0, |few, at| few | u64::from(*from.add(at)) << (8 * at))
    }
}

/// Stores the first `count` of eight bytes.
///
/// # Safety
/// They are writable, and there are fewer than eight.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe fn store_few(bytes: u64, to: *mut u8, count: usize) {
    // SAFETY: each piece is within the bytes; pieces may overlap.
    unsafe {
        if count >= 4 {
            let four = |bytes: u64| bytemuck::cast::<u64, [u32; 2]>(bytes)[0];
            to.cast::<u32>().write_unaligned(four(bytes));
            return to
                .add(count - 4)
                .cast::<u32>()
                .write_unaligned(four(bytes >> (8 * (count - 4))));
        }
        for at in 0..count {
            *to.add(at) = (bytes >> (8 * at)).to_le_bytes()[0];
        }
    }
}

/// Of the first `count` lanes of four vectors, how many are lanes of vector `at`, each having
/// `lanes`.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) const fn lanes_of(at: usize, count: usize, lanes: usize) -> usize {
    let left = count.saturating_sub(at * lanes);
    if left < lanes { left } else { lanes }
}

/// The forms of a kernel, best first, the plain one last.
macro_rules! forms {
    ($kernel:ty, $scalar:expr) => {
        $crate::simd::forms_of!(vector_i32::I32Simd, [I32x16, I32x8, I32x4x2], $kernel, $scalar)
    };
}
pub(crate) use forms;

#[cfg(test)]
mod tests;
