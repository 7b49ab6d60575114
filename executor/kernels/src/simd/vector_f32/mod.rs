//! Vectors of floats, so that one loop serves every instruction set.
//!
//! A kernel is an [`F32Kernel`]: its loop, for vectors of any width. [`F32Simd::run`] compiles it
//! for those of one instruction set, and tables of forms name it with each. All methods are always
//! inlined there, so that what is left of them are the instructions themselves.
//!
//! What a form does by other steps than the rest stays in files of its own.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::F32x8;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::F32x16;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::F32x4;

/// A loop that is written once.
pub(crate) trait F32Kernel {
    /// The type of its work.
    type Work;

    /// Must be `#[inline(always)]`, and call nothing that isn't.
    ///
    /// # Safety
    /// As the work says; the machine has the vectors' instruction set.
    unsafe fn run<V: F32Simd>(work: &Self::Work);
}

/// A vector of floats.
///
/// Whoever makes one vouches that the machine has the instruction set; what exists can be computed
/// with. Addresses need no alignment.
pub(crate) trait F32Simd: Copy {
    /// Floats of a vector.
    const LANES: usize;

    /// Runs a kernel as compiled for the instruction set.
    ///
    /// # Safety
    /// The machine has it; as for the kernel.
    unsafe fn run<K: F32Kernel>(work: &K::Work);

    /// # Safety
    /// The machine has the instruction set.
    unsafe fn splat(x: f32) -> Self;

    /// One number in all lanes of another vector.
    #[inline(always)]
    fn filled(self, x: f32) -> Self {
        // SAFETY: this vector is proof of the instruction set.
        unsafe { Self::splat(x) }
    }

    /// # Safety
    /// A vector is readable; the machine has the instruction set.
    unsafe fn load(from: *const f32) -> Self;

    /// The first `count` floats, at most a vector of them, and zeros.
    ///
    /// # Safety
    /// They are readable; the machine has the instruction set.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;

    /// Twice a vector of the upper halves of floats: those at even and those at odd places.
    ///
    /// # Safety
    /// They are readable; the machine has the instruction set.
    unsafe fn load_halves(from: *const u16) -> [Self; 2];

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

    fn add(self, other: Self) -> Self;

    fn sub(self, other: Self) -> Self;

    fn mul(self, other: Self) -> Self;

    fn div(self, other: Self) -> Self;

    /// The product with `factor` and then the sum with `addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// NaN stays NaN.
    fn clamp(self, low: Self, high: Self) -> Self;

    /// To the nearest integer, halves to the even one.
    fn round(self) -> Self;

    /// `2^self` for integers below 128; of less than -126 it may be `2^-126`.
    fn power_of_two(self) -> Self;

    /// The product with `2^n` for whole `n` from -252 to 254, rounded once. The vector's numbers
    /// are about 1.
    fn scaled(self, n: Self) -> Self;

    /// `-|self|`.
    fn negative(self) -> Self;

    /// `|self|` with another's signs.
    fn with_signs(self, of: Self) -> Self;

    /// These numbers where the sign of `of` is set, elsewhere the others.
    fn where_negative(self, of: Self, others: Self) -> Self;

    /// With another number in a lane.
    fn with_lane(self, lane: usize, x: f32) -> Self;

    /// The sum of the lanes of each.
    fn sums(four: [Self; 4]) -> [f32; 4];
}

/// The forms of a kernel, best first, the plain one last.
macro_rules! forms {
    ($kernel:ty, $scalar:expr) => {
        $crate::simd::forms_of!(vector_f32::F32Simd, [F32x16, F32x8, F32x4], $kernel, $scalar)
    };
}
pub(crate) use forms;

#[cfg(test)]
mod tests;
