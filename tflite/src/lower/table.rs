//! The table of operators and the functions that lower them.

use nnburst_hal::OperationType;

use super::{Lower, Lowered};
use crate::schema::Builtin;
use crate::schema::options;

/// Small files can ask for large constants many times over; this is where it ends.
const MAX_MADE_BYTES: usize = 1 << 28;

impl Lower<'_, '_> {
    /// Lowers the operator.
    pub(crate) fn run(&mut self) -> Lowered {
        if self.import.builder.made.len() > MAX_MADE_BYTES {
            return Err(
                format!("the constants made before it exceed {MAX_MADE_BYTES} bytes").into()
            );
        }
        let code = &self.import.file.codes[self.op.code];
        match code.builtin {
            Builtin::Conv2d => self.conv_2d(),
            Builtin::DepthwiseConv2d => self.depthwise_conv_2d(),
            Builtin::TransposeConv => self.transpose_conv(),
            Builtin::FullyConnected => self.fully_connected(),
            Builtin::BatchMatmul => self.batch_matmul(),
            Builtin::AveragePool2d => self.pool(OperationType::AveragePool2d),
            Builtin::MaxPool2d => self.pool(OperationType::MaxPool2d),
            Builtin::L2Pool2d => self.pool(OperationType::L2Pool2d),
            builtin => match self.run_elementwise(builtin) {
                Some(lowered) => lowered,
                None => self.run_structural(builtin),
            },
        }
    }

    fn run_elementwise(&mut self, builtin: Builtin) -> Option<Lowered> {
        use OperationType as To;
        Some(match builtin {
            Builtin::Add => self.binary(To::Add, options::add::KIND, options::add::ACTIVATION),
            Builtin::Sub => self.binary(To::Sub, options::sub::KIND, options::sub::ACTIVATION),
            Builtin::Mul => self.binary(To::Mul, options::mul::KIND, options::mul::ACTIVATION),
            Builtin::Div => self.binary(To::Div, options::div::KIND, options::div::ACTIVATION),
            Builtin::AddN => self.add_n(),
            Builtin::FloorDiv => self.floor_div(),
            Builtin::FloorMod => self.floor_mod(),
            Builtin::SquaredDifference => self.squared_difference(),
            Builtin::Square => self.square(),
            Builtin::Maximum => self.plain_binary(To::Maximum),
            Builtin::Minimum => self.plain_binary(To::Minimum),
            Builtin::Pow => self.plain_binary(To::Pow),
            Builtin::Prelu => self.plain_binary(To::Prelu),
            Builtin::Less => self.plain_binary(To::Less),
            Builtin::LessEqual => self.plain_binary(To::LessEqual),
            Builtin::Greater => self.plain_binary(To::Greater),
            Builtin::GreaterEqual => self.plain_binary(To::GreaterEqual),
            Builtin::Equal => self.plain_binary(To::Equal),
            Builtin::NotEqual => self.plain_binary(To::NotEqual),
            Builtin::LogicalAnd => self.plain_binary(To::LogicalAnd),
            Builtin::LogicalOr => self.plain_binary(To::LogicalOr),
            Builtin::LogicalNot => self.unary(To::LogicalNot),
            Builtin::Abs => self.unary(To::Abs),
            Builtin::Neg => self.unary(To::Neg),
            Builtin::Exp => self.unary(To::Exp),
            Builtin::Log => self.unary(To::Log),
            Builtin::Sin => self.unary(To::Sin),
            Builtin::Sqrt => self.unary(To::Sqrt),
            Builtin::Rsqrt => self.unary(To::Rsqrt),
            Builtin::Floor => self.unary(To::Floor),
            Builtin::Ceil => self.ceil(),
            Builtin::Cos => self.cos(),
            Builtin::Relu => self.unary(To::Relu),
            Builtin::Relu6 => self.unary(To::Relu6),
            Builtin::ReluN1To1 => self.unary(To::Relu1),
            Builtin::Relu0To1 => self.relu_0_to_1(),
            Builtin::LeakyRelu => self.leaky_relu(),
            Builtin::Elu => self.elu(),
            Builtin::HardSwish => self.unary(To::HardSwish),
            Builtin::Logistic => self.unary(To::Logistic),
            Builtin::Tanh => self.unary(To::Tanh),
            Builtin::Select | Builtin::SelectV2 => self.select(),
            Builtin::Quantize => self.quantize(),
            Builtin::Dequantize => self.dequantize(),
            Builtin::Cast => self.cast(),
            _ => return None,
        })
    }

    fn run_structural(&mut self, builtin: Builtin) -> Lowered {
        use OperationType as To;
        match builtin {
            Builtin::Reshape | Builtin::Squeeze | Builtin::ExpandDims => self.reshape(builtin),
            Builtin::Transpose => self.transpose(),
            Builtin::Concatenation => self.concatenation(),
            Builtin::Pack => self.pack(),
            Builtin::Unpack => self.unpack(),
            Builtin::Split => self.split(),
            Builtin::SplitV => self.split_v(),
            Builtin::Slice => self.slice(),
            Builtin::StridedSlice => self.strided_slice(),
            Builtin::Pad => self.pad(),
            Builtin::Padv2 => self.pad_v2(),
            Builtin::MirrorPad => self.mirror_pad(),
            Builtin::ReverseV2 => self.reverse(),
            Builtin::Tile => self.tile(),
            Builtin::BroadcastTo => self.broadcast_to(),
            Builtin::Gather => self.gather(),
            Builtin::GatherNd => self.gather_nd(),
            Builtin::EmbeddingLookup => self.embedding_lookup(),
            Builtin::SpaceToDepth => self.space_to_depth(),
            Builtin::DepthToSpace => self.depth_to_space(),
            Builtin::SpaceToBatchNd => self.space_to_batch(),
            Builtin::BatchToSpaceNd => self.batch_to_space(),
            Builtin::Fill => self.fill(),
            Builtin::ZerosLike => self.zeros_like(),
            Builtin::Mean => self.mean(),
            Builtin::Sum => self.reduce(To::ReduceSum),
            Builtin::ReduceProd => self.reduce(To::ReduceProd),
            Builtin::ReduceMax => self.reduce(To::ReduceMax),
            Builtin::ReduceMin => self.reduce(To::ReduceMin),
            Builtin::ReduceAny => self.reduce(To::ReduceAny),
            Builtin::ReduceAll => self.reduce(To::ReduceAll),
            Builtin::ArgMax => self.arg(To::Argmax),
            Builtin::ArgMin => self.arg(To::Argmin),
            Builtin::TopkV2 => self.top_k(),
            Builtin::Softmax => self.softmax(),
            Builtin::LogSoftmax => self.log_softmax(),
            Builtin::L2Normalization => self.l2_normalization(),
            Builtin::LocalResponseNormalization => self.local_response_normalization(),
            Builtin::ResizeBilinear => self.resize(To::ResizeBilinear),
            Builtin::ResizeNearestNeighbor => self.resize(To::ResizeNearestNeighbor),
            Builtin::Lstm => self.lstm(),
            Builtin::UnidirectionalSequenceLstm => self.sequence_lstm(),
            Builtin::BidirectionalSequenceLstm => self.bidirectional_lstm(),
            Builtin::Rnn => self.rnn(),
            Builtin::UnidirectionalSequenceRnn => self.sequence_rnn(),
            Builtin::BidirectionalSequenceRnn => self.bidirectional_rnn(),
            Builtin::Svdf => self.svdf(),
            Builtin::Densify => {
                let dense = self.input(0)?;
                self.bind(0, dense)
            }
            Builtin::StablehloComposite => self.composite(),
            Builtin::If => self.conditional(),
            Builtin::StablehloCase => self.case(),
            Builtin::While => self.repeated(),
            Builtin::CallOnce
            | Builtin::VarHandle
            | Builtin::ReadVariable
            | Builtin::AssignVariable => self.variable(builtin),
            Builtin::Custom => match self.import.file.codes[self.op.code].custom.as_deref() {
                Some(super::detection::NAME) => self.detection_postprocess(),
                // It compares floats with what quantised values stand for, and gives nothing.
                Some("NumericVerify") if self.op.outputs.is_empty() => Ok(()),
                _ => Err("a custom operator".into()),
            },
            _ => Err("NNAPI has no such operation, and none is put together for it".into()),
        }
    }
}
