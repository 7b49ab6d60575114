//! Vectors of the instruction sets: kernels over them are written once.
//!
//! ```text
//!   float_mode   how floats are rounded, and that the least numbers are 0
//!   isa          instruction sets; values that prove that the machine has one
//!   kernel       kernels written once, over the vectors of any instruction set
//!   variants     tables of a kernel's variants, of which a plan takes the best
//!   vector_f32   vectors of f32
//!   vector_f64   as many f64, with tables of powers of two
//!   vector_i32   vectors of i32, loaded from and stored as 8-bit integers too
//!   dot          dot products of 8-bit or 16-bit integers, added to vectors of i32
//!   requantise   accumulators to stored values, vectorised and exact
//!   tiles        shapes of the tiles that AMX multiplies bytes by
//!   turn         squares of bytes whose rows become columns
//! ```

/// Repeats a block for `$at` from 0 up to `$count`, at most the number named first, each time with
/// a known `$at`. A loop that the compiler doesn't unroll keeps the array it walks in memory, and
/// with it what the inner loop of a product sums: three times slower.
macro_rules! unrolled {
    (2: $at:ident < $count:expr, $body:block) => { unrolled!(@ $count, $body, $at: 0, 1) };
    (4: $at:ident < $count:expr, $body:block) => { unrolled!(@ $count, $body, $at: 0, 1, 2, 3) };
    (12: $at:ident < $count:expr, $body:block) => {
        unrolled!(@ $count, $body, $at: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    };
    (16: $at:ident < $count:expr, $body:block) => {
        unrolled!(
            @ $count, $body, $at: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        )
    };
    (@ $count:expr, $body:block, $at:ident: $($value:expr),*) => {{$(
        if $value < $count {
            let $at: usize = $value;
            $body
        }
    )*}};
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod dot;
mod float_mode;
mod isa;
mod kernel;
pub mod requantise;
#[cfg(target_arch = "x86_64")]
mod signal_stack;
#[cfg(target_arch = "x86_64")]
pub(crate) mod tiles;
pub mod turn;
mod variants;
pub(crate) mod vector_f32;
pub(crate) mod vector_f64;
pub(crate) mod vector_i32;

pub use float_mode::FloatMode;
#[cfg(target_arch = "x86_64")]
pub(crate) use isa::Amx;
pub use isa::{Avx2, Avx512, Avx512Bf16, Avx512Vbmi, AvxVnni, Isa, IsaError, Neon, NeonDot};
pub(crate) use kernel::{Kernel, Simd};
pub(crate) use variants::{TableRow, rows, variants};
pub use variants::{Variant, Variants};
pub(crate) use vector_f32::HALF_ROOT;

/// Prefetches the cache line at an address into L2. Nothing need be there.
#[inline(always)]
pub fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which faults nowhere; every machine of the architecture has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Prefetches the cache line at an address into L1. Nothing need be there.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn fetch_l1<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
