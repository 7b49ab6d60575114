//! The operations that HAL 1.1 introduced, in the order of their codes.

use super::rows::*;

operations! {
    pub(super) static OPERATIONS;

    BatchToSpaceNd {} [
        V1_1: TF32 TI32 [LAYOUT] => TF32;
        V1_2: TF16 TI32 [LAYOUT] => TF16;
        V1_1: TQ8 TI32 [LAYOUT] => TQ8;
        V1_3: TQ8S TI32 [LAYOUT] => TQ8S;
    ];
    Div { zero_sized: true, ranks: Ranks::PairUpTo4 } [
        V1_1: TF32*2 I32 => TF32;
        V1_2: TF16*2 I32 => TF16;
        V1_3: TQ8S*2 I32 => TQ8S;
        V1_3: TI32*2 I32 => TI32;
    ];
    Mean { ranks: Ranks::InputUpTo4 } [
        V1_1: TF32 TI32 I32 => TF32;
        V1_2: TF16 TI32 I32 => TF16;
        V1_1: TQ8 TI32 I32 => TQ8;
        V1_3: TQ8S TI32 I32 => TQ8S;
    ];
    Pad { ranks: Ranks::InputUpTo4 } [
        V1_1: TF32 TI32 => TF32;
        V1_2: TF16 TI32 => TF16;
        V1_1: TQ8 TI32 => TQ8, ZeroPoint0Before1_2;
        V1_3: TQ8S TI32 => TQ8S;
    ];
    SpaceToBatchNd {} [
        V1_1: TF32 TI32*2 [LAYOUT] => TF32;
        V1_2: TF16 TI32*2 [LAYOUT] => TF16;
        V1_1: TQ8 TI32*2 [LAYOUT] => TQ8, ZeroPoint0Before1_2;
        V1_3: TQ8S TI32*2 [LAYOUT] => TQ8S;
    ];
    Squeeze { ranks: Ranks::InputUpTo4, omittable: &[1] } [
        V1_1: TF32 TI32 => TF32;
        V1_2: TF16 TI32 => TF16;
        V1_1: TQ8 TI32 => TQ8;
        V1_3: TQ8S TI32 => TQ8S;
    ];
    StridedSlice { ranks: Ranks::InputUpTo4 } [
        V1_1: TF32 TI32*3 I32*3 => TF32;
        V1_2: TF16 TI32*3 I32*3 => TF16;
        V1_1: TQ8 TI32*3 I32*3 => TQ8;
        V1_3: TQ8S TI32*3 I32*3 => TQ8S;
    ];
    Sub { zero_sized: true, ranks: Ranks::PairUpTo4 } [
        V1_1: TF32*2 I32 => TF32;
        V1_2: TF16*2 I32 => TF16;
        V1_2: TQ8*2 I32 => TQ8;
        V1_3: TQ8S*2 I32 => TQ8S;
        V1_3: TI32*2 I32 => TI32;
    ];
    Transpose { zero_sized: true, ranks: Ranks::InputUpTo4, omittable: &[1] } [
        V1_1: TF32 TI32 => TF32;
        V1_2: TF16 TI32 => TF16;
        V1_1: TQ8 TI32 => TQ8;
        V1_3: TQ8S TI32 => TQ8S;
    ];
}
