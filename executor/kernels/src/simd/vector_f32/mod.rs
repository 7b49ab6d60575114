//! Vectors of floats; what those of doubles, as many, do for them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod together;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::F32x8;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::F32x16;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::F32x4;

use half::f16;

use super::Simd;

/// The bits of `sqrt(1/2)`.
pub(crate) const HALF_ROOT: i32 = 0x3f35_04f3;

/// Functions of each lane of a vector, or of several vectors that go the same way together: in a
/// long function of one vector each instruction waits for the one before it, and a core doesn't
/// look ahead far enough to find as much as it could compute meanwhile.
///
/// All methods are always inlined, so that nothing is left of them but the instructions.
pub(crate) trait F32Lanes: Copy {
    /// As many doubles.
    type F64: F64Simd<F32 = Self>;

    /// One number in all lanes of other vectors.
    fn filled(self, x: f32) -> Self;

    fn add(self, other: Self) -> Self;

    fn sub(self, other: Self) -> Self;

    fn mul(self, other: Self) -> Self;

    fn div(self, other: Self) -> Self;

    /// The product with `factor` and then the sum with `addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// These numbers where they are larger than the others, elsewhere the others: also where one is
    /// NaN, or both are 0.
    fn larger(self, other: Self) -> Self;

    /// These numbers where they are smaller than the others, elsewhere the others, as of `larger`.
    fn smaller(self, other: Self) -> Self;

    /// NaN stays NaN.
    fn clamp(self, low: Self, high: Self) -> Self;

    /// To the nearest integer, halves to the even one.
    fn round(self) -> Self;

    /// `2^self` for integers below 128; of less than -126 it may be `2^-126`.
    fn power_of_two(self) -> Self;

    /// The product with `2^n` for whole `n` from -252 to 254, rounded once. The vector's numbers
    /// are about 1.
    fn scaled(self, n: Self) -> Self;

    /// Whole `n`, and the numbers over `2^n`, which are from `sqrt(1/2)` to `sqrt(2)`; of positive
    /// numbers that are neither subnormal nor infinite. Of others both are any numbers.
    fn split(self) -> [Self; 2];

    /// `-|self|`.
    fn negative(self) -> Self;

    /// `|self|` with another's signs.
    fn with_signs(self, of: Self) -> Self;

    /// These numbers where the sign of `of` is set, elsewhere the others.
    fn where_negative(self, of: Self, others: Self) -> Self;

    /// These numbers where `a` is less than `b`, elsewhere the others.
    fn where_less(self, a: Self, b: Self, others: Self) -> Self;

    /// Returns whether a lane is less than `low`, above `high` or no number.
    fn is_any_outside(self, low: f32, high: f32) -> bool;
}

/// A vector of floats.
///
/// It is made with a proof of the instruction set, and is one itself. Addresses need no alignment.
/// All methods are always inlined, so that nothing is left of them but the instructions.
pub(crate) trait F32Simd: F32Lanes {
    /// The proof of the instruction set.
    type Isa: Simd;

    /// Floats of a vector.
    const LANES: usize;

    /// The instruction set that the vector proves.
    fn isa(self) -> Self::Isa;

    /// One number in all lanes.
    fn splat(isa: Self::Isa, x: f32) -> Self;

    /// # Safety
    /// A vector is readable.
    unsafe fn load(isa: Self::Isa, from: *const f32) -> Self;

    /// The first `count` floats, at most a vector of them, and zeros.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn load_first(isa: Self::Isa, from: *const f32, count: usize) -> Self;

    /// Twice a vector of the upper halves of floats: those at even and those at odd places.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn load_halves(isa: Self::Isa, from: *const u16) -> [Self; 2];

    /// As many FLOAT16 numbers, subnormal ones as well.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn load_f16(isa: Self::Isa, from: *const f16) -> Self;

    /// # Safety
    /// A vector is writable.
    unsafe fn store(self, to: *mut f32);

    /// Stores the first `count` floats, at most all.
    ///
    /// # Safety
    /// They are writable.
    unsafe fn store_first(self, to: *mut f32, count: usize);

    /// Stores the second of the first `count` floats, at least one of them, and those behind it.
    ///
    /// # Safety
    /// They are writable.
    unsafe fn store_from_second(self, to: *mut f32, count: usize);

    /// The first `count` lanes, and those of `others` behind them.
    fn first_or(self, count: usize, others: Self) -> Self;

    /// With another number in a lane.
    fn with_lane(self, lane: usize, x: f32) -> Self;

    /// The sum of the lanes of each.
    fn sums(four: [Self; 4]) -> [f32; 4];

    /// The sum of the lanes of each: the upper half is added to the lower one until a lane is left.
    fn folded(four: [Self; 4]) -> [f32; 4];

    /// The largest lane of each.
    fn largest(four: [Self; 4]) -> [f32; 4];
}

/// As many doubles as floats have lanes, in several registers.
///
/// All methods are always inlined, so that nothing is left of them but the instructions.
pub(crate) trait F64Simd: Copy {
    /// The floats.
    type F32: F32Lanes<F64 = Self>;

    /// Floats as doubles.
    fn widen(floats: Self::F32) -> Self;

    /// The nearest floats.
    fn narrow(self) -> Self::F32;

    /// One number in all lanes of another vector.
    fn filled(self, x: f64) -> Self;

    fn sub(self, other: Self) -> Self;

    fn mul(self, other: Self) -> Self;

    /// The product with `factor` and then the sum with `addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// [`PowerTable::at`] of the bits of each lane.
    fn powers(self, table: &PowerTable) -> Self;
}

/// Powers of two at each 32nd between 1 and 2.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct PowerTable {
    /// The upper halves of the bits, and the lower ones.
    pub(super) halves: [[u32; 32]; 2],
}

impl PowerTable {
    /// The table of the bits of `2^(i / 32)`, less `i` 32nds of a step of the exponent.
    #[expect(clippy::cast_possible_truncation, reason = "halves")]
    pub(crate) const fn new(bits: [u64; 32]) -> Self {
        let mut halves = [[0; 32]; 2];
        let mut at = 0;
        while at < 32 {
            halves[0][at] = (bits[at] >> 32) as u32;
            halves[1][at] = bits[at] as u32;
            at += 1;
        }
        Self { halves }
    }

    /// `2^(n / 32)` of an integer in the lowest bits, where that is a normal number; else any.
    #[inline(always)]
    pub(crate) fn at(&self, n: u64) -> f64 {
        let [high, low] = self.halves.map(|half| u64::from(half[(n & 31) as usize]));
        f64::from_bits((high << 32 | low).wrapping_add(n << 47))
    }
}

#[cfg(test)]
mod tests;
