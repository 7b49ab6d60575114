//! Vectors of the instruction sets: loops over them are written once.
//!
//! ```text
//!   isa          what instruction sets there are, and which the machine has
//!   floats       vectors of f32
//!   numbers      vectors of i32, and the 8-bit and 16-bit integers that they are loaded from
//!   requantise   accumulators to stored values, vectorised and exact
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
        use $crate::simd::$home::{self, $vectors as _};
        use $crate::simd::{Form, Isa};
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
pub(crate) use forms_of;

#[cfg(target_arch = "aarch64")]
pub(crate) mod dot_neon;
mod isa;
pub mod requantise;
pub(crate) mod vector_f32;
pub(crate) mod vector_i32;

pub use isa::{Isa, IsaError};

/// A kernel for one instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Form<T> {
    /// The instruction set.
    pub isa: Isa,
    /// The kernel, or a table of its functions.
    pub run: T,
}

/// The best form that is no better than `most`; tables are best first and end with the scalar form,
/// which `Isa::Scalar` and everything else allows.
pub(crate) fn best<T: Copy>(forms: &[Form<T>], most: Isa) -> Form<T> {
    let allowed = |form: &&Form<T>| form.isa <= most && form.isa.detected();
    // The table is never empty: its last row is the scalar form.
    *forms.iter().find(allowed).unwrap_or(&forms[forms.len() - 1])
}

/// Asks for the line at an address, to be in L2 a little later. Nothing need be
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
