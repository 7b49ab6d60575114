//! The operations that HAL 1.3 introduced, in the order of their codes.

use super::rows::*;

operations! {
    pub(super) static OPERATIONS;

    QuantizedLstm { omittable: &[1, 5, 9, 10, 11, 12, 16, 17, 20, 21, 22, 23] } [
        V1_3: TQ8S TQ8Y*8 TQ16Y*3 TI32*4 TQ8Y TI32 TQ8S TQ16Y*5 F32*6 I32 F32 => TQ8S TQ16Y TQ8S;
    ];
    If {} [];
    While {} [];
    Elu {} [
        V1_3: TF32 F32 => TF32;
        V1_3: TF16 F16 => TF16;
    ];
    HardSwish { zero_sized: true } [
        V1_3: TF32 => TF32;
        V1_3: TF16 => TF16;
        V1_3: TQ8 => TQ8;
        V1_3: TQ8S => TQ8S;
    ];
    Fill {} [
        V1_3: TI32 F16 => TF16;
        V1_3: TI32 F32 => TF32;
        V1_3: TI32 I32 => TI32;
    ];
    Rank {} [
        V1_3: TF16 => I32;
        V1_3: TF32 => I32;
        V1_3: TI32 => I32;
        V1_3: TQ8 => I32;
        V1_3: TQ16Y => I32;
        V1_3: TB8 => I32;
        V1_3: TQ8C => I32;
        V1_3: TQ16 => I32;
        V1_3: TQ8Y => I32;
        V1_3: TQ8S => I32;
    ];
}
