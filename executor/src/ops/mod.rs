//! The operations: one file per operation or close family.
//!
//! Types, counts and versions are data in `hal`; the rest of an operation is one row here and one
//! function in its file, which checks ranks and axes, states the output shapes and emits steps.

mod activation;
mod arg;
mod bilinear;
mod binary;
mod blocks;
mod byte_table;
mod cast;
mod compare;
mod concatenation;
mod conv;
mod conv_2d;
mod conv_taps;
mod depthwise_conv_2d;
mod detection;
mod elementwise;
mod farmhash;
mod fill;
mod fully_connected;
mod gather;
mod grouped_conv_2d;
mod lsh_projection;
mod mean;
mod normalisation;
mod pad;
mod pool;
mod quantize;
mod random_multinomial;
mod recurrent;
mod reduce;
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
mod transpose;
mod transpose_conv_2d;
mod unary;

use nnburst_hal::OperationType;

pub(crate) use self::recurrent::{QuantizedCell, QuantizedSteps};
use crate::lowering::{Lowered, OpBuilder};

/// An operation: how it becomes steps.
#[derive(Debug)]
pub(crate) struct Op {
    /// Checks the operands, states the outputs' shapes, emits steps.
    pub(crate) lower: fn(&mut OpBuilder<'_>) -> Lowered,
}

/// The operation of this kind; `None` for those that a plan lowers itself: IF, WHILE, and what
/// extensions and OEMs compute.
///
/// A `match` rather than a map: an operation without a row does not compile.
pub(crate) fn op(kind: OperationType) -> Option<&'static Op> {
    Some(match kind {
        OperationType::Abs => &unary::ABS,
        OperationType::Add => &elementwise::ADD,
        OperationType::Argmax => &arg::ARGMAX,
        OperationType::Argmin => &arg::ARGMIN,
        OperationType::AveragePool2d => &pool::AVERAGE_POOL_2D,
        OperationType::AxisAlignedBboxTransform => &detection::AXIS_ALIGNED_BBOX_TRANSFORM,
        OperationType::BatchToSpaceNd => &blocks::BATCH_TO_SPACE_ND,
        OperationType::BidirectionalSequenceLstm => &recurrent::BIDIRECTIONAL_SEQUENCE_LSTM,
        OperationType::BidirectionalSequenceRnn => &recurrent::BIDIRECTIONAL_SEQUENCE_RNN,
        OperationType::BoxWithNmsLimit => &detection::BOX_WITH_NMS_LIMIT,
        OperationType::Cast => &cast::CAST,
        OperationType::ChannelShuffle => &transpose::CHANNEL_SHUFFLE,
        OperationType::Concatenation => &concatenation::CONCATENATION,
        OperationType::Conv2d => &conv_2d::CONV_2D,
        OperationType::DepthToSpace => &blocks::DEPTH_TO_SPACE,
        OperationType::DepthwiseConv2d => &depthwise_conv_2d::DEPTHWISE_CONV_2D,
        OperationType::Dequantize => &quantize::DEQUANTIZE,
        OperationType::DetectionPostprocessing => &detection::DETECTION_POSTPROCESSING,
        OperationType::Div => &binary::DIV,
        OperationType::Elu => &unary::ELU,
        OperationType::EmbeddingLookup => &gather::EMBEDDING_LOOKUP,
        OperationType::Equal => &compare::EQUAL,
        OperationType::Exp => &unary::EXP,
        OperationType::ExpandDims => &squeeze::EXPAND_DIMS,
        OperationType::Fill => &fill::FILL,
        OperationType::Floor => &unary::FLOOR,
        OperationType::FullyConnected => &fully_connected::FULLY_CONNECTED,
        OperationType::Gather => &gather::GATHER,
        OperationType::GenerateProposals => &detection::GENERATE_PROPOSALS,
        OperationType::Greater => &compare::GREATER,
        OperationType::GreaterEqual => &compare::GREATER_EQUAL,
        OperationType::GroupedConv2d => &grouped_conv_2d::GROUPED_CONV_2D,
        OperationType::HardSwish => &byte_table::HARD_SWISH,
        OperationType::HashtableLookup => &gather::HASHTABLE_LOOKUP,
        OperationType::HeatmapMaxKeypoint => &detection::HEATMAP_MAX_KEYPOINT,
        OperationType::InstanceNormalization => &normalisation::INSTANCE_NORMALIZATION,
        OperationType::L2Pool2d => &pool::L2_POOL_2D,
        OperationType::L2Normalization => &normalisation::L2_NORMALIZATION,
        OperationType::Less => &compare::LESS,
        OperationType::LessEqual => &compare::LESS_EQUAL,
        OperationType::LocalResponseNormalization => &normalisation::LOCAL_RESPONSE_NORMALIZATION,
        OperationType::Log => &unary::LOG,
        OperationType::LogSoftmax => &normalisation::LOG_SOFTMAX,
        OperationType::LogicalAnd => &compare::LOGICAL_AND,
        OperationType::LogicalNot => &compare::LOGICAL_NOT,
        OperationType::LogicalOr => &compare::LOGICAL_OR,
        OperationType::Logistic => &byte_table::LOGISTIC,
        OperationType::LshProjection => &lsh_projection::LSH_PROJECTION,
        OperationType::Lstm => &recurrent::LSTM,
        OperationType::MaxPool2d => &pool::MAX_POOL_2D,
        OperationType::Maximum => &binary::MAXIMUM,
        OperationType::Mean => &mean::MEAN,
        OperationType::Minimum => &binary::MINIMUM,
        OperationType::Mul => &elementwise::MUL,
        OperationType::Neg => &unary::NEG,
        OperationType::NotEqual => &compare::NOT_EQUAL,
        OperationType::Pad => &pad::PAD,
        OperationType::PadV2 => &pad::PAD_V2,
        OperationType::Pow => &binary::POW,
        OperationType::Prelu => &binary::PRELU,
        OperationType::Quantize => &quantize::QUANTIZE,
        OperationType::Quantized16bitLstm => &recurrent::QUANTIZED_16BIT_LSTM,
        OperationType::QuantizedLstm => &recurrent::QUANTIZED_LSTM,
        OperationType::RandomMultinomial => &random_multinomial::RANDOM_MULTINOMIAL,
        OperationType::Rank => &fill::RANK,
        OperationType::ReduceAll => &reduce::REDUCE_ALL,
        OperationType::ReduceAny => &reduce::REDUCE_ANY,
        OperationType::ReduceMax => &reduce::REDUCE_MAX,
        OperationType::ReduceMin => &reduce::REDUCE_MIN,
        OperationType::ReduceProd => &reduce::REDUCE_PROD,
        OperationType::ReduceSum => &reduce::REDUCE_SUM,
        OperationType::Relu => &activation::RELU,
        OperationType::Relu1 => &activation::RELU1,
        OperationType::Relu6 => &activation::RELU6,
        OperationType::Reshape => &reshape::RESHAPE,
        OperationType::ResizeBilinear => &resize::RESIZE_BILINEAR,
        OperationType::ResizeNearestNeighbor => &resize::RESIZE_NEAREST_NEIGHBOR,
        OperationType::Rnn => &recurrent::RNN,
        OperationType::RoiAlign => &detection::ROI_ALIGN,
        OperationType::RoiPooling => &detection::ROI_POOLING,
        OperationType::Rsqrt => &unary::RSQRT,
        OperationType::Select => &select::SELECT,
        OperationType::Sin => &unary::SIN,
        OperationType::Slice => &slice::SLICE,
        OperationType::Softmax => &softmax::SOFTMAX,
        OperationType::SpaceToBatchNd => &blocks::SPACE_TO_BATCH_ND,
        OperationType::SpaceToDepth => &blocks::SPACE_TO_DEPTH,
        OperationType::Split => &slice::SPLIT,
        OperationType::Sqrt => &unary::SQRT,
        OperationType::Squeeze => &squeeze::SQUEEZE,
        OperationType::StridedSlice => &slice::STRIDED_SLICE,
        OperationType::Sub => &elementwise::SUB,
        OperationType::Svdf => &recurrent::SVDF,
        OperationType::Tanh => &byte_table::TANH,
        OperationType::Tile => &slice::TILE,
        OperationType::TopkV2 => &arg::TOPK_V2,
        OperationType::Transpose => &transpose::TRANSPOSE,
        OperationType::TransposeConv2d => &transpose_conv_2d::TRANSPOSE_CONV_2D,
        OperationType::UnidirectionalSequenceLstm => &recurrent::UNIDIRECTIONAL_SEQUENCE_LSTM,
        OperationType::UnidirectionalSequenceRnn => &recurrent::UNIDIRECTIONAL_SEQUENCE_RNN,
        OperationType::If
        | OperationType::While
        | OperationType::OemOperation
        | OperationType::Extension(_) => return None,
    })
}
