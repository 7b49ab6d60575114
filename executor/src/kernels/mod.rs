//! The compute primitives, each with a plain scalar reference and SIMD forms beside it.
//!
//! A primitive has one function type and a table of forms; the plan takes the best form that the
//! machine has and the user allows, tests and benches run them all. No intrinsics outside this
//! module.
//!
//! ```text
//!   gemm_f32             tiles of a product: rows where they lie, weights in panels
//!   gemm_i8              tiles of a product over packed panels of both operands
//!   patches              rows of a convolution's implicit matrix; pack turns them into panels
//!   depthwise_f32, _i8   one row of outputs of a 3x3 (or any) window, channels in lanes
//!   lines                convolutions by lines of their outputs, whatever they are of
//!   chain                convolutions one behind the other, some lines at a time
//!   gemv_f32             products of few rows: weights streamed once, many sums side by side
//!   gemv_i8              the same for a row of bytes, sums of 32 bits
//!   gates_i16            what goes into the gates of quantised cells, from both products
//!   product_f32          which of gemm and gemv suits the number of rows
//!   binary_f32           sums and products of rows of floats
//!   add_i8, mul_i8       sums and products of bytes of unlike scales
//!   byte_table           functions of one byte, by a table of all results
//!   simd                 vectors of floats, for loops that are written once
//!   numbers              vectors of 32-bit numbers and their bytes, for the same
//!   plain                loops in plain Rust, compiled for every instruction set
//!   stripe_sum           sums that tell damage, of bytes that are copied on the way
//!   svdf_f32             the memory of a low-rank filter: weighed and shifted in one pass
//!   transcendental_f32   logistic function, hyperbolic tangent and exponential of rows
//!   requantise           accumulators to stored values, vectorised and exact
//!   ceiling              what a core can do at best, for profiles
//! ```

/// Repeats a block for `$at` from 0 up to `$count`, at most the number named first, each time with
/// a known `$at`. A loop that the compiler doesn't unroll keeps the array it walks in memory, and
/// with it what the inner loop of a product sums: three times slower.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! unrolled {
    (2: $at:ident < $count:expr, $body:block) => { unrolled!(@ $count, $body, $at: 0, 1) };
    (4: $at:ident < $count:expr, $body:block) => { unrolled!(@ $count, $body, $at: 0, 1, 2, 3) };
    (7: $at:ident < $count:expr, $body:block) => {
        unrolled!(@ $count, $body, $at: 0, 1, 2, 3, 4, 5, 6)
    };
    (12: $at:ident < $count:expr, $body:block) => {
        unrolled!(@ $count, $body, $at: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    };
    (@ $count:expr, $body:block, $at:ident: $($value:expr),*) => {{$(
        if $value < $count {
            let $at: usize = $value;
            $body
        }
    )*}};
}

/// The forms of a loop that is written once over a trait of vectors, best first, the plain one
/// last: for the vectors of AVX-512, AVX2 and NEON that lie beside the trait.
macro_rules! forms_of {
    ($home:ident::$vectors:ident, [$avx512:ident, $avx2:ident, $neon:ident], $kernel:ty, $scalar:expr) => {{
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        use $crate::kernels::$home::{self, $vectors as _};
        use $crate::kernels::{Form, Isa};
        &[
            #[cfg(target_arch = "x86_64")]
            Form { isa: Isa::Avx512, run: $home::$avx512::run::<$kernel> },
            #[cfg(target_arch = "x86_64")]
            Form { isa: Isa::Avx2, run: $home::$avx2::run::<$kernel> },
            #[cfg(target_arch = "aarch64")]
            Form { isa: Isa::Neon, run: $home::$neon::run::<$kernel> },
            Form { isa: Isa::Scalar, run: $scalar },
        ]
    }};
}
use forms_of;

pub(crate) mod add_i8;
pub(crate) mod binary_f32;
pub(crate) mod byte_table;
pub(crate) mod ceiling;
pub(crate) mod chain;
pub(crate) mod depthwise_f32;
pub(crate) mod depthwise_i8;
#[cfg(target_arch = "aarch64")]
mod dot_neon;
pub(crate) mod gates_i16;
pub(crate) mod gemm_f32;
pub(crate) mod gemm_i8;
pub(crate) mod gemv_f32;
pub(crate) mod gemv_i8;
pub(crate) mod isa;
pub(crate) mod lines;
pub(crate) mod mul_i8;
mod numbers;
pub(crate) mod pack;
pub(crate) mod patches;
pub(crate) mod plain;
pub(crate) mod product_f32;
pub(crate) mod requantise;
mod simd;
pub(crate) mod stripe_sum;
pub(crate) mod svdf_f32;
pub(crate) mod transcendental_f32;
pub(crate) mod windows;

pub use ceiling::{Bandwidth, Ceilings, Peak};
pub use isa::{Isa, IsaError};
pub use stripe_sum::StripeSum;

/// A kernel for one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form<T> {
    pub(crate) isa: Isa,
    pub(crate) run: T,
}

/// What products of floats are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// The floats that they are of.
    Single,
    /// Weights, and rows where there are several, as bf16 (the upper half of a float, rounded),
    /// summed as floats.
    Bf16,
}

/// The best form that is no better than `most`; tables are best first and end with the scalar form,
/// which `Isa::Scalar` and everything else allows.
pub(crate) fn best<T: Copy>(forms: &[Form<T>], most: Isa) -> Form<T> {
    let allowed = |form: &&Form<T>| form.isa <= most && form.isa.detected();
    // The table is never empty: its last row is the scalar form.
    *forms.iter().find(allowed).unwrap_or(&forms[forms.len() - 1])
}

/// The range of results that aren't clamped.
pub(crate) const NO_CLAMP: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

/// Kernels read and write through pointers; this stands between them and what is too short.
pub(crate) fn check_lengths(given: usize, needed: usize) -> Result<(), String> {
    if given >= needed {
        Ok(())
    } else {
        Err(format!("{given} elements where {needed} are needed"))
    }
}

/// Asks for the line at an address, to be in the second cache a little later. Nothing need be
/// there.
#[inline(always)]
pub(crate) fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which faults nowhere; every machine of the architecture has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Every form this machine has, for tests and benches.
#[cfg(test)]
pub(crate) fn detected<T: Copy>(forms: &[Form<T>]) -> impl Iterator<Item = Form<T>> {
    forms.iter().copied().filter(|form| form.isa.detected())
}
