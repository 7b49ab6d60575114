//! The operations: one file per operation or close family.
//!
//! Types, counts and versions are data in `hal`; the rest of an operation is one row in
//! `registry` and one function in its file, which checks ranks and axes, states the output shapes
//! and emits steps.

mod activation;
mod arg;
mod bilinear;
mod binary;
mod blocks;
mod broadcast;
mod byte_blocks;
mod byte_table;
mod byte_test;
mod cast;
mod compare;
mod concatenation;
mod conv;
mod conv_2d;
mod conv_taps;
mod depthwise_conv_2d;
mod detection;
mod elementwise;
mod extremes;
mod farmhash;
mod fill;
mod fully_connected;
mod gather;
mod grouped_conv_2d;
mod laid_out;
mod lsh_projection;
mod mean;
mod normalisation;
mod pad;
mod philox;
mod pool;
mod quantize;
mod random_multinomial;
mod recurrent;
mod reduce;
mod reduction;
mod registry;
mod repeated_block;
mod reshape;
mod resize;
mod select;
mod slice;
mod softmax;
mod sort;
mod squeeze;
mod staged;
mod strided;
pub(crate) mod support;
pub(crate) mod tflite;
mod transpose;
mod transpose_conv_2d;
mod unary;

pub(crate) use self::recurrent::{QuantizedCell, QuantizedSteps};
pub(crate) use self::registry::op;
use crate::lowering::{Lowered, OpBuilder};

/// An operation: how it becomes steps.
#[derive(Debug)]
pub(crate) struct Op {
    /// Checks the operands, states the outputs' shapes, emits steps.
    pub(crate) lower: fn(&mut OpBuilder<'_>) -> Lowered,
}
