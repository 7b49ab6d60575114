//! SIMD kernels of neural networks, and the tensors that they work on: the lower layers of
//! `nnburst-executor`.
//!
//! ```text
//!   kernels/   {gemm, gemv, depthwise, ...}: scalar reference, variants per instruction set, tests
//!   simd/      vectors of all instruction sets, requantisation on top, `Isa`
//!   tensor/    shapes, elements, views, quantisation parameters, memory, errors
//! ```
//!
//! Imports point down this list only. A kernel is a table of variants, of which the best that the
//! machine has and the user allows is chosen once, when a model is compiled; the upper layers call
//! kernels through these tables. The interface follows the needs of the executor and of nobody
//! else.
//!
//! ```
//! use nnburst_kernels::simd::Isa;
//! use nnburst_kernels::tensor::{AlignedBytes, Shape};
//!
//! let shape = Shape::new([2, 3])?;
//! let bytes = AlignedBytes::zeroed(shape.elements() * size_of::<f32>());
//! assert_eq!(bytes.typed::<f32>(), [0.0; 6]);
//! assert!(Isa::best() >= Isa::Scalar);
//! # Ok::<(), nnburst_kernels::tensor::OpError>(())
//! ```

#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, unused_imports, unused_macros, reason = "scalar variants need no vectors")
)]

pub mod tensor;

#[macro_use]
pub mod simd;

pub mod kernels;

/// Fingerprint of this crate's sources, a part of the executor's.
pub const FINGERPRINT: u64 = include!(concat!(env!("OUT_DIR"), "/fingerprint.rs"));
