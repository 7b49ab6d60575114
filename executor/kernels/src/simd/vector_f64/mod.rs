//! Vectors of doubles, for what floats need more digits for on the way.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::F64x8;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::F64x16;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::F64x4;

#[cfg(test)]
mod tests;
