//! The compute primitives, each with a plain scalar reference and SIMD variants beside it.
//!
//! A primitive has one function type and a table of variants; the plan takes the best one that the
//! machine has and the user allows, tests and benches run them all. No intrinsics outside this
//! crate.
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
//!   add_i8, mul_i8       sums and products of quantised tensors of different scales
//!   byte_table           functions of one byte, by a table of all results
//!   plain                loops in plain Rust, compiled for every instruction set
//!   roofline             peak arithmetic and memory bandwidth of one core, for profiles
//!   spans                element by element over tensors whose rows have a stride
//!   stripe_sum           checksums of bytes that are copied on the way
//!   svdf_f32             the memory of a low-rank filter: weighed and shifted in one pass
//!   transcendental_f32   logistic function, hyperbolic tangent and exponential of rows
//! ```

pub mod add_i8;
pub mod binary_f32;
pub mod byte_table;
pub mod chain;
pub mod depthwise_f32;
pub mod depthwise_i8;
pub mod gates_i16;
pub mod gemm_f32;
pub mod gemm_i8;
pub mod gemv_f32;
pub mod gemv_i8;
pub mod lines;
pub mod mul_i8;
pub mod pack;
pub mod patches;
pub mod plain;
pub mod product_f32;
pub mod roofline;
pub mod spans;
pub mod stripe_sum;
pub mod svdf_f32;
pub mod transcendental_f32;
pub mod windows;

/// The precision of float GEMMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The floats that they are of.
    Single,
    /// Weights, and rows where there are several, as bf16 (the upper half of a float, rounded),
    /// summed as floats.
    Bf16,
}

/// The range of results that aren't clamped.
pub const NO_CLAMP: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);
