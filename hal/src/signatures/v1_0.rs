//! The operations that HAL 1.0 introduced, in the order of their codes.

use super::rows::*;

operations! {
    pub(super) static OPERATIONS;

    Add { zero_sized: true, ranks: Ranks::PairUpTo4 } [
        V1_0: TF32*2 I32 => TF32;
        V1_2: TF16*2 I32 => TF16;
        V1_0: TQ8*2 I32 => TQ8;
        V1_3: TQ8S*2 I32 => TQ8S;
        V1_3: TI32*2 I32 => TI32;
    ];
    AveragePool2d { zero_sized: true } [
        V1_0: TF32 I32*6 [LAYOUT] => TF32;
        V1_0: TF32 I32*9 [LAYOUT] => TF32;
        V1_2: TF16 I32*6 [LAYOUT] => TF16;
        V1_2: TF16 I32*9 [LAYOUT] => TF16;
        V1_0: TQ8 I32*6 [LAYOUT] => TQ8;
        V1_0: TQ8 I32*9 [LAYOUT] => TQ8;
        V1_3: TQ8S I32*6 [LAYOUT] => TQ8S;
        V1_3: TQ8S I32*9 [LAYOUT] => TQ8S;
    ];
    Concatenation { zero_sized: true, ranks: Ranks::EachTensorUpTo4 } [
        V1_0: TF32*ONE_OR_MORE I32 => TF32;
        V1_2: TF16*ONE_OR_MORE I32 => TF16;
        V1_0: TQ8*ONE_OR_MORE I32 => TQ8, OneQuantizationBefore1_2;
        V1_3: TQ8S*ONE_OR_MORE I32 => TQ8S;
    ];
    Conv2d { zero_sized: true, ranks: Ranks::InputAndFilter4, channel_dim: Some(0) } [
        V1_0: TF32*3 I32*4 [LAYOUT DILATION] => TF32;
        V1_0: TF32*3 I32*7 [LAYOUT DILATION] => TF32;
        V1_2: TF16*3 I32*4 [LAYOUT DILATION] => TF16;
        V1_2: TF16*3 I32*7 [LAYOUT DILATION] => TF16;
        V1_0: TQ8*2 TI32 I32*4 [LAYOUT DILATION] => TQ8, OutputScaleAboveProductBefore1_2;
        V1_0: TQ8*2 TI32 I32*7 [LAYOUT DILATION] => TQ8, OutputScaleAboveProductBefore1_2;
        V1_2: TQ8 TQ8C TI32 I32*4 [LAYOUT DILATION] => TQ8;
        V1_2: TQ8 TQ8C TI32 I32*7 [LAYOUT DILATION] => TQ8;
        V1_3: TQ8S*2 TI32 I32*4 [LAYOUT DILATION] => TQ8S;
        V1_3: TQ8S*2 TI32 I32*7 [LAYOUT DILATION] => TQ8S;
        V1_3: TQ8S TQ8C TI32 I32*4 [LAYOUT DILATION] => TQ8S;
        V1_3: TQ8S TQ8C TI32 I32*7 [LAYOUT DILATION] => TQ8S;
    ];
    DepthwiseConv2d { zero_sized: true, channel_dim: Some(3) } [
        V1_0: TF32*3 I32*5 [LAYOUT DILATION] => TF32;
        V1_0: TF32*3 I32*8 [LAYOUT DILATION] => TF32;
        V1_2: TF16*3 I32*5 [LAYOUT DILATION] => TF16;
        V1_2: TF16*3 I32*8 [LAYOUT DILATION] => TF16;
        V1_0: TQ8*2 TI32 I32*5 [LAYOUT DILATION] => TQ8, OutputScaleAboveProductBefore1_2;
        V1_0: TQ8*2 TI32 I32*8 [LAYOUT DILATION] => TQ8, OutputScaleAboveProductBefore1_2;
        V1_2: TQ8 TQ8C TI32 I32*5 [LAYOUT DILATION] => TQ8;
        V1_2: TQ8 TQ8C TI32 I32*8 [LAYOUT DILATION] => TQ8;
        V1_3: TQ8S*2 TI32 I32*5 [LAYOUT DILATION] => TQ8S;
        V1_3: TQ8S*2 TI32 I32*8 [LAYOUT DILATION] => TQ8S;
        V1_3: TQ8S TQ8C TI32 I32*5 [LAYOUT DILATION] => TQ8S;
        V1_3: TQ8S TQ8C TI32 I32*8 [LAYOUT DILATION] => TQ8S;
    ];
    DepthToSpace {} [
        V1_0: TF32 I32 [LAYOUT] => TF32;
        V1_2: TF16 I32 [LAYOUT] => TF16;
        V1_0: TQ8 I32 [LAYOUT] => TQ8;
        V1_3: TQ8S I32 [LAYOUT] => TQ8S;
    ];
    Dequantize { zero_sized: true, ranks: Ranks::InputUpTo4 } [
        V1_0: TQ8 => TF32;
        V1_2: TQ8 => TF16;
        V1_2: TQ8S => TF32;
        V1_2: TQ8S => TF16;
        V1_2: TQ8Y => TF32;
        V1_2: TQ8Y => TF16;
        V1_2: TQ8C => TF32;
        V1_2: TQ8C => TF16;
    ];
    EmbeddingLookup {} [
        V1_0: TI32 TF32 => TF32;
        V1_2: TI32*2 => TI32;
        V1_2: TI32 TQ8 => TQ8;
        V1_3: TI32 TF16 => TF16;
        V1_3: TI32 TQ8S => TQ8S;
    ];
    Floor { ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 => TF32;
        V1_2: TF16 => TF16;
    ];
    FullyConnected { zero_sized: true, ranks: Ranks::FullyConnected } [
        V1_0: TF32*3 I32 => TF32;
        V1_2: TF16*3 I32 => TF16;
        V1_0: TQ8*2 TI32 I32 => TQ8, OutputScaleAboveProductBefore1_2;
        V1_3: TQ8S*2 TI32 I32 => TQ8S;
    ];
    HashtableLookup {} [
        V1_0: TI32*2 TF32 => TF32 TQ8;
        V1_0: TI32*3 => TI32 TQ8;
        V1_0: TI32*2 TQ8 => TQ8*2;
    ];
    L2Normalization { ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 [AXIS] => TF32, Rank4Before1_2;
        V1_2: TF16 [AXIS] => TF16, Rank4Before1_2;
        V1_2: TQ8 [AXIS] => TQ8, Rank4Before1_2;
        V1_3: TQ8S [AXIS] => TQ8S, Rank4Before1_2;
    ];
    L2Pool2d { zero_sized: true } [
        V1_0: TF32 I32*6 [LAYOUT] => TF32;
        V1_0: TF32 I32*9 [LAYOUT] => TF32;
        V1_2: TF16 I32*6 [LAYOUT] => TF16;
        V1_2: TF16 I32*9 [LAYOUT] => TF16;
    ];
    LocalResponseNormalization { ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 I32 F32*3 [AXIS] => TF32, Rank4Before1_2;
        V1_2: TF16 I32 F16*3 [AXIS] => TF16, Rank4Before1_2;
    ];
    Logistic { zero_sized: true, ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 => TF32;
        V1_2: TF16 => TF16;
        V1_0: TQ8 => TQ8;
        V1_3: TQ8S => TQ8S;
    ];
    LshProjection {} [
        V1_0: TF32 TF16 TF32 I32 => TI32;
        V1_0: TF32*3 I32 => TI32;
        V1_0: TF32 TI32 TF32 I32 => TI32;
        V1_0: TF32 TQ8 TF32 I32 => TI32;
        V1_2: TF16*3 I32 => TI32;
        V1_2: TF16 TF32 TF16 I32 => TI32;
        V1_2: TF16 TI32 TF16 I32 => TI32;
        V1_2: TF16 TQ8 TF16 I32 => TI32;
    ];
    Lstm { omittable: &[1, 5, 9, 10, 11, 12, 16, 17, 23, 24, 25, 26] } [
        V1_0: TF32*20 I32 F32*2 => TF32*4;
        V1_2: TF16*20 I32 F16*2 => TF16*4;
        V1_2: TF32*20 I32 F32*2 TF32*4 => TF32*4;
        V1_2: TF16*20 I32 F16*2 TF16*4 => TF16*4;
    ];
    MaxPool2d { zero_sized: true } [
        V1_0: TF32 I32*6 [LAYOUT] => TF32;
        V1_0: TF32 I32*9 [LAYOUT] => TF32;
        V1_2: TF16 I32*6 [LAYOUT] => TF16;
        V1_2: TF16 I32*9 [LAYOUT] => TF16;
        V1_0: TQ8 I32*6 [LAYOUT] => TQ8;
        V1_0: TQ8 I32*9 [LAYOUT] => TQ8;
        V1_3: TQ8S I32*6 [LAYOUT] => TQ8S;
        V1_3: TQ8S I32*9 [LAYOUT] => TQ8S;
    ];
    Mul { zero_sized: true, ranks: Ranks::PairUpTo4 } [
        V1_0: TF32*2 I32 => TF32;
        V1_2: TF16*2 I32 => TF16;
        V1_0: TQ8*2 I32 => TQ8, OutputScaleAboveProduct;
        V1_3: TQ8S*2 I32 => TQ8S;
        V1_3: TI32*2 I32 => TI32;
    ];
    Relu { zero_sized: true, ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 => TF32;
        V1_2: TF16 => TF16;
        V1_0: TQ8 => TQ8;
        V1_3: TQ8S => TQ8S;
    ];
    Relu1 { zero_sized: true, ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 => TF32;
        V1_2: TF16 => TF16;
        V1_0: TQ8 => TQ8;
        V1_3: TQ8S => TQ8S;
    ];
    Relu6 { zero_sized: true, ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 => TF32;
        V1_2: TF16 => TF16;
        V1_0: TQ8 => TQ8;
        V1_3: TQ8S => TQ8S;
    ];
    Reshape { ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 TI32 => TF32;
        V1_2: TF16 TI32 => TF16;
        V1_0: TQ8 TI32 => TQ8;
        V1_3: TQ8S TI32 => TQ8S;
    ];
    ResizeBilinear { zero_sized: true } [
        V1_0: TF32 I32*2 [LAYOUT ALIGN_CORNERS HALF_PIXEL] => TF32;
        V1_2: TF32 F32*2 [LAYOUT ALIGN_CORNERS HALF_PIXEL] => TF32;
        V1_2: TF16 I32*2 [LAYOUT ALIGN_CORNERS HALF_PIXEL] => TF16;
        V1_2: TF16 F16*2 [LAYOUT ALIGN_CORNERS HALF_PIXEL] => TF16;
        V1_2: TQ8 I32*2 [LAYOUT ALIGN_CORNERS HALF_PIXEL] => TQ8;
        V1_2: TQ8 F32*2 [LAYOUT ALIGN_CORNERS HALF_PIXEL] => TQ8;
        V1_3: TQ8S I32*2 [LAYOUT ALIGN_CORNERS HALF_PIXEL] => TQ8S;
        V1_3: TQ8S F32*2 [LAYOUT ALIGN_CORNERS HALF_PIXEL] => TQ8S;
    ];
    Rnn {} [
        V1_0: TF32*5 I32 => TF32*2;
        V1_2: TF16*5 I32 => TF16*2;
    ];
    Softmax { zero_sized: true, ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 F32 [AXIS] => TF32, Rank2Or4Before1_2;
        V1_2: TF16 F16 [AXIS] => TF16, Rank2Or4Before1_2;
        V1_0: TQ8 F32 [AXIS] => TQ8, Rank2Or4Before1_2;
        V1_3: TQ8S F32 [AXIS] => TQ8S, Rank2Or4Before1_2;
    ];
    SpaceToDepth {} [
        V1_0: TF32 I32 [LAYOUT] => TF32;
        V1_2: TF16 I32 [LAYOUT] => TF16;
        V1_0: TQ8 I32 [LAYOUT] => TQ8;
        V1_3: TQ8S I32 [LAYOUT] => TQ8S;
    ];
    Svdf { omittable: &[3] } [
        V1_0: TF32*5 I32*2 => TF32*2;
        V1_2: TF16*5 I32*2 => TF16*2;
    ];
    Tanh { zero_sized: true, ranks: Ranks::InputUpTo4 } [
        V1_0: TF32 => TF32;
        V1_2: TF16 => TF16;
        V1_2: TQ8 => TQ8;
        V1_3: TQ8S => TQ8S;
    ];
}
