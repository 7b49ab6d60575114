//! The operations: one file per operation or close family.
//!
//! Types, counts and versions are data in `hal`; the rest of an operation is one row here and one
//! function in its file, which checks ranks and axes, states the output shapes and emits steps.

mod activation;
mod concatenation;
mod conv;
mod conv_2d;
mod depthwise_conv_2d;
mod elementwise;
mod fully_connected;
mod mean;
mod pad;
mod pool;
mod quantize;
mod reshape;
mod softmax;
pub(crate) mod support;

use nnburst_hal::OperationType;

use crate::plan::{Lowered, OpBuilder};

/// An operation: how it becomes steps.
#[derive(Debug)]
pub(crate) struct Op {
    /// Checks the operands, states the outputs' shapes, emits steps.
    pub(crate) lower: fn(&mut OpBuilder<'_>) -> Lowered,
}

/// The operation of this kind, if it is implemented. IF, WHILE and extensions are the plan's own.
pub(crate) fn op(kind: OperationType) -> Option<&'static Op> {
    Some(match kind {
        OperationType::Add => &elementwise::ADD,
        OperationType::AveragePool2d => &pool::AVERAGE_POOL_2D,
        OperationType::Concatenation => &concatenation::CONCATENATION,
        OperationType::Conv2d => &conv_2d::CONV_2D,
        OperationType::DepthwiseConv2d => &depthwise_conv_2d::DEPTHWISE_CONV_2D,
        OperationType::Dequantize => &quantize::DEQUANTIZE,
        OperationType::FullyConnected => &fully_connected::FULLY_CONNECTED,
        OperationType::MaxPool2d => &pool::MAX_POOL_2D,
        OperationType::Mean => &mean::MEAN,
        OperationType::Mul => &elementwise::MUL,
        OperationType::Pad => &pad::PAD,
        OperationType::PadV2 => &pad::PAD_V2,
        OperationType::Quantize => &quantize::QUANTIZE,
        OperationType::Relu => &activation::RELU,
        OperationType::Relu1 => &activation::RELU1,
        OperationType::Relu6 => &activation::RELU6,
        OperationType::Reshape => &reshape::RESHAPE,
        OperationType::Softmax => &softmax::SOFTMAX,
        OperationType::Sub => &elementwise::SUB,
        _ => return None,
    })
}
