//! Kernels that are written once, for vectors of any width.

use super::requantise::RequantiseSimd;
use super::vector_f32::F32Simd;

/// A kernel that is written once.
pub(crate) trait Kernel {
    /// The type of its operands.
    type Work;

    /// Must be `#[inline(always)]`, and call nothing that isn't: what is not inlined loses the
    /// instruction set.
    ///
    /// # Safety
    /// As the work says.
    unsafe fn run<S: Simd>(isa: S, work: &Self::Work);
}

/// An instruction set that kernels written once are compiled for. A value proves that the machine
/// has it.
pub(crate) trait Simd: Copy {
    /// Vectors of floats.
    type F32: F32Simd<Isa = Self>;
    /// Vectors of 32-bit integers.
    type I32: RequantiseSimd<Isa = Self>;

    /// Runs a kernel as compiled for the instruction set: a row of a table of variants, which are
    /// functions without a proof as an argument.
    ///
    /// # Safety
    /// The machine has the instruction set; as for the kernel.
    unsafe fn run<K: Kernel>(work: &K::Work);
}

/// An instruction set, the features that its kernels are compiled with, and its vectors.
macro_rules! simd {
    ($isa:ident, $features:literal, $f32:ident, $i32:ident) => {
        impl Simd for super::$isa {
            type F32 = super::vector_f32::$f32;
            type I32 = super::vector_i32::$i32;

            // By itself where one kernel runs others, too: the compiler's time grows faster than a
            // function does.
            #[inline(never)]
            #[target_feature(enable = $features)]
            unsafe fn run<K: Kernel>(work: &K::Work) {
                // SAFETY: as the caller promises.
                unsafe { K::run(Self::new_unchecked(), work) };
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
simd!(Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma", F32x16, I32x16);
#[cfg(target_arch = "x86_64")]
simd!(Avx2, "avx2,fma,f16c", F32x8, I32x8);
#[cfg(target_arch = "aarch64")]
simd!(Neon, "neon", F32x4, I32x4x2);
