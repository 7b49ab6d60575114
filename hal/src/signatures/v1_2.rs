//! The operations that HAL 1.2 introduced, in the order of their codes.

use super::rows::*;

operations! {
    pub(super) static OPERATIONS;

    Abs {} [
        V1_2: TF32 => TF32;
        V1_2: TF16 => TF16;
        V1_3: TI32 => TI32;
    ];
    Argmax {} [
        V1_2: TF16 I32 => TI32;
        V1_2: TF32 I32 => TI32;
        V1_2: TI32 I32 => TI32;
        V1_2: TQ8 I32 => TI32;
        V1_2: TQ8S I32 => TI32;
    ];
    Argmin {} [
        V1_2: TF16 I32 => TI32;
        V1_2: TF32 I32 => TI32;
        V1_2: TI32 I32 => TI32;
        V1_2: TQ8 I32 => TI32;
        V1_2: TQ8S I32 => TI32;
    ];
    AxisAlignedBboxTransform { zero_sized: true } [
        V1_2: TF32*2 TI32 TF32 => TF32;
        V1_2: TF16*2 TI32 TF16 => TF16;
        V1_2: TQ16 TQ8 TI32 TQ16 => TQ16;
        V1_2: TQ16 TQ8S TI32 TQ16 => TQ16;
    ];
    BidirectionalSequenceLstm {
        omittable: &[
            1, 5, 9, 10, 11, 12, 16, 17, 18, 22, 26, 27, 28, 29, 33, 34, 39, 40, 41, 42, 43, 44,
            45, 46, 47, 53, 54, 55, 56, 57, 58, 59, 60,
        ],
    } [
        V1_2: TF32*48 I32 F32*2 BOOL*2 TF32*8 => TF32*2;
        V1_2: TF32*48 I32 F32*2 BOOL*2 TF32*8 => TF32;
        V1_3: TF32*48 I32 F32*2 BOOL*2 TF32*8 => TF32*6;
        V1_3: TF32*48 I32 F32*2 BOOL*2 TF32*8 => TF32*5;
        V1_2: TF16*48 I32 F16*2 BOOL*2 TF16*8 => TF16*2;
        V1_2: TF16*48 I32 F16*2 BOOL*2 TF16*8 => TF16;
        V1_3: TF16*48 I32 F16*2 BOOL*2 TF16*8 => TF16*6;
        V1_3: TF16*48 I32 F16*2 BOOL*2 TF16*8 => TF16*5;
    ];
    BidirectionalSequenceRnn { omittable: &[9, 10, 11] } [
        V1_2: TF32*12 I32 BOOL*2 => TF32;
        V1_2: TF32*12 I32 BOOL*2 => TF32*2;
        V1_3: TF32*12 I32 BOOL*2 => TF32*3;
        V1_3: TF32*12 I32 BOOL*2 => TF32*4;
        V1_2: TF16*12 I32 BOOL*2 => TF16;
        V1_2: TF16*12 I32 BOOL*2 => TF16*2;
        V1_3: TF16*12 I32 BOOL*2 => TF16*3;
        V1_3: TF16*12 I32 BOOL*2 => TF16*4;
    ];
    BoxWithNmsLimit { zero_sized: true } [
        V1_2: TF32*2 TI32 F32 I32*2 F32*3 => TF32*2 TI32*2;
        V1_2: TF16*2 TI32 F16 I32*2 F16*3 => TF16*2 TI32*2;
        V1_2: TQ8 TQ16 TI32 F32 I32*2 F32*3 => TQ8 TQ16 TI32*2;
        V1_3: TQ8S TQ16 TI32 F32 I32*2 F32*3 => TQ8S TQ16 TI32*2;
    ];
    Cast { ranks: Ranks::SameShape } [
        V1_2: TF16 => TF16;
        V1_2: TF16 => TF32;
        V1_2: TF16 => TI32;
        V1_2: TF16 => TQ8;
        V1_2: TF32 => TF16;
        V1_2: TF32 => TF32;
        V1_2: TF32 => TI32;
        V1_2: TF32 => TQ8;
        V1_2: TI32 => TF16;
        V1_2: TI32 => TF32;
        V1_2: TI32 => TI32;
        V1_2: TI32 => TQ8;
        V1_2: TQ8 => TF16;
        V1_2: TQ8 => TF32;
        V1_2: TQ8 => TI32;
        V1_2: TQ8 => TQ8;
        V1_3: TB8 => TB8;
        V1_3: TQ16 => TQ16;
        V1_3: TQ16Y => TQ16Y;
        V1_3: TQ8S => TQ8S;
        V1_3: TQ8Y => TQ8Y;
    ];
    ChannelShuffle { ranks: Ranks::InputUpTo4 } [
        V1_2: TF16 I32*2 => TF16;
        V1_2: TF32 I32*2 => TF32;
        V1_2: TQ8 I32*2 => TQ8;
        V1_3: TQ8S I32*2 => TQ8S;
    ];
    DetectionPostprocessing {} [
        V1_2: TF32*3 F32*4 BOOL I32*3 F32*2 BOOL => TF32*2 TI32*2;
        V1_2: TF16*3 F16*4 BOOL I32*3 F16*2 BOOL => TF16*2 TI32*2;
    ];
    Equal {} [
        V1_2: TB8*2 => TB8;
        V1_2: TF16*2 => TB8;
        V1_2: TF32*2 => TB8;
        V1_2: TI32*2 => TB8;
        V1_2: TQ8*2 => TB8;
        V1_3: TQ8S*2 => TB8;
    ];
    Exp {} [
        V1_2: TF32 => TF32;
        V1_2: TF16 => TF16;
    ];
    ExpandDims {} [
        V1_2: TF16 I32 => TF16;
        V1_2: TF32 I32 => TF32;
        V1_2: TI32 I32 => TI32;
        V1_2: TQ8 I32 => TQ8;
        V1_3: TQ8S I32 => TQ8S;
    ];
    Gather {} [
        V1_2: TF16 I32 TI32 => TF16;
        V1_2: TF32 I32 TI32 => TF32;
        V1_2: TI32 I32 TI32 => TI32;
        V1_2: TQ8 I32 TI32 => TQ8;
        V1_3: TQ8S I32 TI32 => TQ8S;
    ];
    GenerateProposals {} [
        V1_2: TF32*4 F32*2 I32*2 F32*2 BOOL => TF32*2 TI32;
        V1_2: TF16*4 F16*2 I32*2 F16*2 BOOL => TF16*2 TI32;
        V1_2: TQ8*2 TQ16Y TQ16 F32*2 I32*2 F32*2 BOOL => TQ8 TQ16 TI32;
        V1_3: TQ8S*2 TQ16Y TQ16 F32*2 I32*2 F32*2 BOOL => TQ8S TQ16 TI32;
    ];
    Greater {} [
        V1_2: TB8*2 => TB8;
        V1_2: TF16*2 => TB8;
        V1_2: TF32*2 => TB8;
        V1_2: TI32*2 => TB8;
        V1_2: TQ8*2 => TB8;
        V1_3: TQ8S*2 => TB8;
    ];
    GreaterEqual {} [
        V1_2: TB8*2 => TB8;
        V1_2: TF16*2 => TB8;
        V1_2: TF32*2 => TB8;
        V1_2: TI32*2 => TB8;
        V1_2: TQ8*2 => TB8;
        V1_3: TQ8S*2 => TB8;
    ];
    GroupedConv2d { channel_dim: Some(0) } [
        V1_2: TF32*3 I32*5 BOOL => TF32;
        V1_2: TF32*3 I32*8 BOOL => TF32;
        V1_2: TF16*3 I32*5 BOOL => TF16;
        V1_2: TF16*3 I32*8 BOOL => TF16;
        V1_2: TQ8*2 TI32 I32*5 BOOL => TQ8;
        V1_2: TQ8*2 TI32 I32*8 BOOL => TQ8;
        V1_2: TQ8 TQ8C TI32 I32*5 BOOL => TQ8;
        V1_2: TQ8 TQ8C TI32 I32*8 BOOL => TQ8;
        V1_3: TQ8S*2 TI32 I32*5 BOOL => TQ8S;
        V1_3: TQ8S*2 TI32 I32*8 BOOL => TQ8S;
        V1_3: TQ8S TQ8C TI32 I32*5 BOOL => TQ8S;
        V1_3: TQ8S TQ8C TI32 I32*8 BOOL => TQ8S;
    ];
    HeatmapMaxKeypoint {} [
        V1_2: TF32*2 BOOL => TF32*2;
        V1_2: TF16*2 BOOL => TF16*2;
        V1_2: TQ8 TQ16 BOOL => TQ8 TQ16;
        V1_3: TQ8S TQ16 BOOL => TQ8S TQ16;
    ];
    InstanceNormalization {} [
        V1_2: TF32 F32*3 BOOL => TF32;
        V1_2: TF16 F16*3 BOOL => TF16;
    ];
    Less {} [
        V1_2: TB8*2 => TB8;
        V1_2: TF16*2 => TB8;
        V1_2: TF32*2 => TB8;
        V1_2: TI32*2 => TB8;
        V1_2: TQ8*2 => TB8;
        V1_3: TQ8S*2 => TB8;
    ];
    LessEqual {} [
        V1_2: TB8*2 => TB8;
        V1_2: TF16*2 => TB8;
        V1_2: TF32*2 => TB8;
        V1_2: TI32*2 => TB8;
        V1_2: TQ8*2 => TB8;
        V1_3: TQ8S*2 => TB8;
    ];
    Log {} [
        V1_2: TF32 => TF32;
        V1_2: TF16 => TF16;
    ];
    LogicalAnd {} [
        V1_2: TB8*2 => TB8;
    ];
    LogicalNot {} [
        V1_2: TB8 => TB8;
    ];
    LogicalOr {} [
        V1_2: TB8*2 => TB8;
    ];
    LogSoftmax {} [
        V1_2: TF32 F32 I32 => TF32;
        V1_2: TF16 F16 I32 => TF16;
    ];
    Maximum {} [
        V1_2: TF16*2 => TF16;
        V1_2: TF32*2 => TF32;
        V1_2: TI32*2 => TI32;
        V1_2: TQ8*2 => TQ8;
        V1_3: TQ8S*2 => TQ8S;
    ];
    Minimum {} [
        V1_2: TF16*2 => TF16;
        V1_2: TF32*2 => TF32;
        V1_2: TI32*2 => TI32;
        V1_2: TQ8*2 => TQ8;
        V1_3: TQ8S*2 => TQ8S;
    ];
    Neg {} [
        V1_2: TF32 => TF32;
        V1_2: TF16 => TF16;
        V1_2: TI32 => TI32;
    ];
    NotEqual {} [
        V1_2: TB8*2 => TB8;
        V1_2: TF16*2 => TB8;
        V1_2: TF32*2 => TB8;
        V1_2: TI32*2 => TB8;
        V1_2: TQ8*2 => TB8;
        V1_3: TQ8S*2 => TB8;
    ];
    PadV2 { ranks: Ranks::InputUpTo4 } [
        V1_2: TF32 TI32 F32 => TF32;
        V1_2: TF16 TI32 F16 => TF16;
        V1_2: TQ8 TI32 I32 => TQ8;
        V1_3: TQ8S TI32 I32 => TQ8S;
    ];
    Pow {} [
        V1_2: TF16*2 => TF16;
        V1_2: TF32*2 => TF32;
    ];
    Prelu {} [
        V1_2: TF16*2 => TF16;
        V1_2: TF32*2 => TF32;
        V1_2: TQ8*2 => TQ8;
        V1_3: TQ8S*2 => TQ8S;
    ];
    Quantize { zero_sized: true } [
        V1_2: TF32 => TQ8;
        V1_3: TF32 => TQ8S;
        V1_2: TF16 => TQ8;
        V1_3: TF16 => TQ8S;
    ];
    Quantized16bitLstm {} [
        V1_2: TQ8*9 TI32*4 TQ16Y TQ8 => TQ16Y TQ8;
    ];
    RandomMultinomial {} [
        V1_2: TF32 I32 TI32 => TI32;
        V1_2: TF16 I32 TI32 => TI32;
    ];
    ReduceAll { ranks: Ranks::InputUpTo4 } [
        V1_2: TB8 TI32 BOOL => TB8;
    ];
    ReduceAny { ranks: Ranks::InputUpTo4 } [
        V1_2: TB8 TI32 BOOL => TB8;
    ];
    ReduceMax { ranks: Ranks::InputUpTo4 } [
        V1_2: TF16 TI32 BOOL => TF16;
        V1_2: TF32 TI32 BOOL => TF32;
        V1_2: TQ8 TI32 BOOL => TQ8;
        V1_3: TQ8S TI32 BOOL => TQ8S;
    ];
    ReduceMin { ranks: Ranks::InputUpTo4 } [
        V1_2: TF16 TI32 BOOL => TF16;
        V1_2: TF32 TI32 BOOL => TF32;
        V1_2: TQ8 TI32 BOOL => TQ8;
        V1_3: TQ8S TI32 BOOL => TQ8S;
    ];
    ReduceProd { ranks: Ranks::InputUpTo4 } [
        V1_2: TF16 TI32 BOOL => TF16;
        V1_2: TF32 TI32 BOOL => TF32;
    ];
    ReduceSum { ranks: Ranks::InputUpTo4 } [
        V1_2: TF16 TI32 BOOL => TF16;
        V1_2: TF32 TI32 BOOL => TF32;
    ];
    RoiAlign { zero_sized: true } [
        V1_2: TF32*2 TI32 I32*2 F32*2 I32*2 BOOL => TF32;
        V1_2: TF16*2 TI32 I32*2 F16*2 I32*2 BOOL => TF16;
        V1_2: TQ8 TQ16 TI32 I32*2 F32*2 I32*2 BOOL => TQ8;
        V1_3: TQ8S TQ16 TI32 I32*2 F32*2 I32*2 BOOL => TQ8S;
    ];
    RoiPooling {} [
        V1_2: TF32*2 TI32 I32*2 F32*2 BOOL => TF32;
        V1_2: TF16*2 TI32 I32*2 F16*2 BOOL => TF16;
        V1_2: TQ8 TQ16 TI32 I32*2 F32*2 BOOL => TQ8;
        V1_3: TQ8S TQ16 TI32 I32*2 F32*2 BOOL => TQ8S;
    ];
    Rsqrt {} [
        V1_2: TF32 => TF32;
        V1_2: TF16 => TF16;
    ];
    Select {} [
        V1_2: TB8 TF16*2 => TF16;
        V1_2: TB8 TF32*2 => TF32;
        V1_2: TB8 TI32*2 => TI32;
        V1_2: TB8 TQ8*2 => TQ8;
        V1_2: TB8 TQ8S*2 => TQ8S;
    ];
    Sin {} [
        V1_2: TF32 => TF32;
        V1_2: TF16 => TF16;
    ];
    Slice { zero_sized: true } [
        V1_2: TF16 TI32*2 => TF16;
        V1_2: TF32 TI32*2 => TF32;
        V1_2: TI32*3 => TI32;
        V1_2: TQ8 TI32*2 => TQ8;
        V1_3: TQ8S TI32*2 => TQ8S;
    ];
    Split {} [
        V1_2: TF16 I32*2 => TF16*ANY_NUMBER;
        V1_2: TF32 I32*2 => TF32*ANY_NUMBER;
        V1_2: TI32 I32*2 => TI32*ANY_NUMBER;
        V1_2: TQ8 I32*2 => TQ8*ANY_NUMBER;
        V1_3: TQ8S I32*2 => TQ8S*ANY_NUMBER;
    ];
    Sqrt {} [
        V1_2: TF32 => TF32;
        V1_2: TF16 => TF16;
    ];
    Tile {} [
        V1_2: TF16 TI32 => TF16;
        V1_2: TF32 TI32 => TF32;
        V1_2: TI32*2 => TI32;
        V1_2: TQ8 TI32 => TQ8;
        V1_3: TQ8S TI32 => TQ8S;
    ];
    TopkV2 {} [
        V1_2: TF16 I32 => TF16 TI32;
        V1_2: TF32 I32 => TF32 TI32;
        V1_2: TI32 I32 => TI32*2;
        V1_2: TQ8 I32 => TQ8 TI32;
        V1_3: TQ8S I32 => TQ8S TI32;
    ];
    TransposeConv2d { zero_sized: true, channel_dim: Some(0) } [
        V1_2: TF32*3 TI32 I32*4 BOOL => TF32;
        V1_2: TF32*3 I32*7 BOOL => TF32;
        V1_2: TF16*3 TI32 I32*4 BOOL => TF16;
        V1_2: TF16*3 I32*7 BOOL => TF16;
        V1_2: TQ8*2 TI32*2 I32*4 BOOL => TQ8;
        V1_2: TQ8*2 TI32 I32*7 BOOL => TQ8;
        V1_2: TQ8 TQ8C TI32*2 I32*4 BOOL => TQ8;
        V1_2: TQ8 TQ8C TI32 I32*7 BOOL => TQ8;
        V1_3: TQ8S*2 TI32*2 I32*4 BOOL => TQ8S;
        V1_3: TQ8S*2 TI32 I32*7 BOOL => TQ8S;
        V1_3: TQ8S TQ8C TI32*2 I32*4 BOOL => TQ8S;
        V1_3: TQ8S TQ8C TI32 I32*7 BOOL => TQ8S;
    ];
    UnidirectionalSequenceLstm { omittable: &[1, 5, 9, 10, 11, 12, 16, 17, 24, 25, 26, 27] } [
        V1_2: TF32*20 I32 F32*2 BOOL TF32*4 => TF32;
        V1_3: TF32*20 I32 F32*2 BOOL TF32*4 => TF32*3;
        V1_2: TF16*20 I32 F16*2 BOOL TF16*4 => TF16;
        V1_3: TF16*20 I32 F16*2 BOOL TF16*4 => TF16*3;
    ];
    UnidirectionalSequenceRnn {} [
        V1_2: TF32*5 I32*2 => TF32;
        V1_3: TF32*5 I32*2 => TF32*2;
        V1_2: TF16*5 I32*2 => TF16;
        V1_3: TF16*5 I32*2 => TF16*2;
    ];
    ResizeNearestNeighbor { zero_sized: true } [
        V1_2: TF32 I32*2 BOOL [ALIGN_CORNERS HALF_PIXEL] => TF32;
        V1_2: TF32 F32*2 BOOL [ALIGN_CORNERS HALF_PIXEL] => TF32;
        V1_2: TF16 I32*2 BOOL [ALIGN_CORNERS HALF_PIXEL] => TF16;
        V1_2: TF16 F16*2 BOOL [ALIGN_CORNERS HALF_PIXEL] => TF16;
        V1_2: TQ8 I32*2 BOOL [ALIGN_CORNERS HALF_PIXEL] => TQ8;
        V1_2: TQ8 F32*2 BOOL [ALIGN_CORNERS HALF_PIXEL] => TQ8;
        V1_3: TQ8S I32*2 BOOL [ALIGN_CORNERS HALF_PIXEL] => TQ8S;
        V1_3: TQ8S F32*2 BOOL [ALIGN_CORNERS HALF_PIXEL] => TQ8S;
    ];
}
