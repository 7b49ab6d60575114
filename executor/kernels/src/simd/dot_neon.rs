//! The dot product instruction of aarch64.

use core::arch::aarch64::{int8x16_t, int32x4_t};
use core::arch::asm;

/// Each lane of `sum` plus the products of four bytes of `a` by four of `b`. In assembly, since the
/// intrinsic is younger than the compilers that this is built with.
#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(crate) fn dot(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: reads and writes the three registers alone.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}
