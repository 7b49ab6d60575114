//! The compute primitives, each with a plain scalar reference and SIMD variants beside it.
//!
//! A primitive has one function type and a table of variants; the plan takes the best one that the
//! machine has and the user allows, tests and benches run them all. No intrinsics outside this
//! crate.
//!
//! ```text
//!   gemm/           gemm_f32, gemm_i8: tiles of rows and of packed panels of weights
//!                   pack: rows into panels; product_f32: GEMM or GEMV, as suits the rows;
//!                   attention_f32: products of queries, keys and values, by blocks of rows
//!   gemv/           gemv_f32, gemv_i8: few rows, weights streamed once; gemv_blocks_i4: weights of
//!                   4 bits with a scale for each block
//!   convolution/    patches, windows: a convolution's implicit matrix; padded: a small image with
//!                   its padding; lines: rows of outputs;
//!                   chain: convolutions one behind the other, some rows at a time
//!   depthwise/      depthwise_f32, depthwise_i8: channels in lanes
//!   elementwise/    binary_f32, add_i8, mul_i8: sums and products; byte_table: functions of a
//!                   byte; round_once_i8, round_twice_i8: accumulators as bytes;
//!                   transcendental_f32: sigmoid, tanh, exp; layer_norm_f32: rows over their
//!                   deviation; row_sums_f32, softmax_f32: rows, four at a time; bilinear: lines
//!                   between lines and pixels; quantize_f32: floats as integers;
//!                   block_permutation: elements that change places in
//!                   small blocks; plain: auto-vectorised loops; pieces: copies of few bytes
//!                   each; spans: rows that have a stride;
//!                   short_rows: several in one block; repeated_rows: all beside the same one;
//!                   gathered_rows: rows by their number
//!   pool/           pool_f32, max_pool_i8: windows of an image; pool_windows: where they lie
//!   recurrent/      gates_i16: inputs of quantised gates; svdf_f32: the memory of a filter
//!   transform/      fft_f64: discrete Fourier transforms of rows
//!   roofline        peak arithmetic and memory bandwidth of one core, for profiles
//! ```

pub mod roofline;

mod gemm {
    pub mod attention_f32;
    pub mod gemm_f32;
    pub mod gemm_i8;
    pub mod pack;
    pub mod product_f32;
}
mod gemv {
    pub mod gemv_blocks_i4;
    pub mod gemv_f32;
    pub mod gemv_i8;
}
mod convolution {
    pub mod chain;
    pub mod lines;
    mod padded;
    pub mod patches;
    pub mod windows;
}
mod depthwise {
    pub mod depthwise_f32;
    pub mod depthwise_i8;
}
mod elementwise {
    pub mod add_i8;
    pub mod bilinear;
    pub mod binary_f32;
    pub mod block_permutation;
    pub mod byte_table;
    mod four_rows;
    pub mod gathered_rows;
    pub mod layer_norm_f32;
    pub mod mul_i8;
    pub mod pieces;
    pub mod plain;
    pub mod quantize_f32;
    pub mod repeated_rows;
    pub mod round_once_i8;
    pub mod round_twice_i8;
    pub mod row_sums_f32;
    pub mod short_rows;
    pub mod softmax_f32;
    pub mod spans;
    pub mod transcendental_f32;
}
mod pool {
    pub mod max_pool_i8;
    pub mod pool_f32;
    pub mod pool_windows;
}
mod recurrent {
    pub mod gates_i16;
    pub mod svdf_f32;
}
mod transform {
    pub mod fft_f64;
}

pub use convolution::{chain, lines, patches, windows};
pub use depthwise::{depthwise_f32, depthwise_i8};
pub use elementwise::{
    add_i8, bilinear, binary_f32, block_permutation, byte_table, gathered_rows, layer_norm_f32,
    mul_i8, pieces, plain, quantize_f32, repeated_rows, round_once_i8, round_twice_i8,
    row_sums_f32, short_rows, softmax_f32, spans, transcendental_f32,
};
pub use gemm::{attention_f32, gemm_f32, gemm_i8, pack, product_f32};
pub use gemv::{gemv_blocks_i4, gemv_f32, gemv_i8};
pub use pool::{max_pool_i8, pool_f32, pool_windows};
pub use recurrent::{gates_i16, svdf_f32};
pub use transform::fft_f64;

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
