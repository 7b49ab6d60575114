//! Vectors of 32-bit integers that come from 8-bit ones, or accumulate products of them, and go
//! back to such.

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

use super::Simd;
use super::vector_f32::{F32Lanes, F32Simd};

/// A vector of integers. They wrap.
///
/// It is made with a proof of the instruction set, and is one itself. Addresses need no alignment.
/// All methods are always inlined, so that nothing is left of them but the instructions.
pub(crate) trait I32Simd: Copy {
    /// The proof of the instruction set.
    type Isa: Simd;

    /// Integers of a vector.
    const LANES: usize;

    /// The instruction set that the vector proves.
    fn isa(self) -> Self::Isa;

    /// One number in all lanes.
    fn splat(isa: Self::Isa, x: i32) -> Self;

    /// One number in all lanes of another vector.
    #[inline(always)]
    fn filled(self, x: i32) -> Self {
        Self::splat(self.isa(), x)
    }

    /// # Safety
    /// A vector is readable.
    unsafe fn load(isa: Self::Isa, from: *const i32) -> Self;

    /// # Safety
    /// A vector is writable.
    unsafe fn store(self, to: *mut i32);

    /// As many bytes as there are lanes, unsigned once the bits of `flip` are flipped.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn bytes(isa: Self::Isa, from: *const u8, flip: u8) -> Self;

    /// The first `count` of them, at most all; the other lanes are arbitrary.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn first_bytes(isa: Self::Isa, from: *const u8, count: usize, flip: u8) -> Self;

    /// The same of signed bytes, read as such.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn first_signed_bytes(isa: Self::Isa, from: *const u8, count: usize) -> Self;

    /// Stores the lowest byte of the first `count` lanes, at most all.
    ///
    /// # Safety
    /// They are writable.
    unsafe fn store_bytes(self, to: *mut u8, count: usize);

    /// The first `count` of as many signed 16-bit integers as there are lanes, at most all; the
    /// other lanes are arbitrary.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn first_words(isa: Self::Isa, from: *const i16, count: usize) -> Self;

    /// Stores the lower half of the first `count` lanes, at most all.
    ///
    /// # Safety
    /// They are writable.
    unsafe fn store_words(self, to: *mut i16, count: usize);

    fn add(self, other: Self) -> Self;

    fn sub(self, other: Self) -> Self;

    fn mul(self, other: Self) -> Self;

    /// The sum with the products of numbers that fit 16 bits. Of `factors` the upper halves are 0,
    /// whatever the sign.
    fn mul_add_16(self, numbers: Self, factors: Self) -> Self;

    /// The bits of `other` that are not set here.
    fn missing(self, other: Self) -> Self;

    /// The first `count` numbers; the other lanes are 0.
    fn first(self, count: usize) -> Self;

    fn shift_left<const BITS: i32>(self) -> Self;

    /// Shifts copies of the sign in, by less than 32 bits.
    fn shift_right(self, bits: Self) -> Self;

    fn clamp(self, low: Self, high: Self) -> Self;

    /// The products with as many floats, rounded to the nearest integers within `range`; and how
    /// far they were from the nearest integers, as the bits of floats above 0, those of NaN above
    /// all.
    ///
    /// # Safety
    /// As many floats as lanes are readable.
    unsafe fn nearest_products(self, factors: *const f32, range: (f32, f32)) -> [Self; 2];

    /// The lanes as floats: a vector of them, which is the one from `at` vectors of floats on.
    fn floats(self, at: usize) -> <Self::Isa as Simd>::F32;

    /// The whole parts of floats that 32 bits hold: of the first vector of them, and of the second
    /// where there are two of floats to one of integers.
    fn whole_parts(floats: [<Self::Isa as Simd>::F32; 2]) -> Self;

    /// Stores the first `count` lanes, at most all, as [`FloatChannels::float`] gives them.
    ///
    /// # Safety
    /// A vector of each of the channels' numbers is readable, and so many floats are writable.
    #[inline(always)]
    unsafe fn store_floats(self, channels: &FloatChannels, to: *mut f32, count: usize) {
        let (isa, lanes) = (self.isa(), <Self::Isa as Simd>::F32::LANES);
        let low = <Self::Isa as Simd>::F32::splat(isa, channels.range.0);
        let high = low.filled(channels.range.1);
        // SAFETY: as the caller promises.
        unsafe {
            let numbers = self.sub(Self::load(isa, channels.offsets));
            unrolled!(2: at < Self::LANES / lanes, {
                let factors = F32Simd::load(isa, channels.factors.add(at * lanes));
                let addends = F32Simd::load(isa, channels.addends.add(at * lanes));
                let x = numbers.floats(at).mul(factors).mul(low.filled(channels.factor));
                let x = x.add(addends).clamp(low, high);
                x.store_first(to.wrapping_add(at * lanes), lanes_of(at, count, lanes));
            });
        }
    }

    /// The greater ones, read as unsigned numbers.
    fn max_unsigned(self, other: Self) -> Self;

    /// Returns whether a lane reaches that of `limit`, read as unsigned numbers.
    fn any_reaches_unsigned(self, limit: Self) -> bool;
}

/// What makes floats of accumulators, one of each channel: pointers to the first of some channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatChannels {
    /// Taken off the accumulators.
    pub(crate) offsets: *const i32,
    pub(crate) factors: *const f32,
    /// The second factor of all channels.
    pub(crate) factor: f32,
    pub(crate) addends: *const f32,
    /// The bounds of what is stored; NaN is kept.
    pub(crate) range: (f32, f32),
}

impl FloatChannels {
    /// Those from `channel` on.
    pub(crate) const fn skip(&self, channel: usize) -> Self {
        Self {
            offsets: self.offsets.wrapping_add(channel),
            factors: self.factors.wrapping_add(channel),
            addends: self.addends.wrapping_add(channel),
            ..*self
        }
    }

    /// The float of an accumulator: each operation rounds.
    ///
    /// # Safety
    /// The channel is there.
    #[expect(clippy::cast_precision_loss, reason = "as vectors convert accumulators")]
    pub(crate) unsafe fn float(&self, accumulator: i32, channel: usize) -> f32 {
        // SAFETY: as the caller promises.
        let (offset, factor, addend) = unsafe {
            (*self.offsets.add(channel), *self.factors.add(channel), *self.addends.add(channel))
        };
        let (low, high) = self.range;
        let x = accumulator.wrapping_sub(offset) as f32 * factor * self.factor + addend;
        let x = if x < low { low } else { x };
        if x > high { high } else { x }
    }
}

/// The first `count` of eight bytes, the others arbitrary, without a call to copy them.
///
/// # Safety
/// They are readable, and there are fewer than eight.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) unsafe fn load_few(from: *const u8, count: usize) -> u64 {
    // SAFETY: each piece is within the bytes; pieces may overlap.
    unsafe {
        if count >= 4 {
            let last = u64::from(from.add(count - 4).cast::<u32>().read_unaligned());
            return u64::from(from.cast::<u32>().read_unaligned()) | last << (8 * (count - 4));
        }
        (0..count).fold(0, |few, at| few | u64::from(*from.add(at)) << (8 * at))
    }
}

/// The first `count` of eight words, copied to where all eight may be read.
///
/// # Safety
/// They are readable, and there are fewer than eight.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe fn first_of(from: *const i16, count: usize, few: &mut [i16; 8]) -> *const i16 {
    for (at, word) in few.iter_mut().take(count).enumerate() {
        // SAFETY: as the caller promises.
        *word = unsafe { from.add(at).read_unaligned() };
    }
    few.as_ptr()
}

/// Stores the first `count` of eight bytes.
///
/// # Safety
/// They are writable, and there are fewer than eight.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) unsafe fn store_few(bytes: u64, to: *mut u8, count: usize) {
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
pub(crate) const fn lanes_of(at: usize, count: usize, lanes: usize) -> usize {
    let left = count.saturating_sub(at * lanes);
    if left < lanes { left } else { lanes }
}

#[cfg(test)]
mod tests;
