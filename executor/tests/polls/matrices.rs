//! Convolutions, matrix products and pooling.

use nnburst_hal::{Operand, OperandType as T, OperationType as Op};

use crate::single::{A, Single, constant, f, of, sees_a_stop, tensor};

#[test]
fn convolutions_products_and_pools_stop_within() {
    let (real, half, byte, int) =
        (T::TensorFloat32, T::TensorFloat16, T::TensorQuant8Asymm, T::TensorInt32);
    for weights_are_constant in [true, false] {
        for kind in [real, half, byte] {
            let bias_kind = if kind == byte { int } else { kind };
            let weights = |kind: T, dims: &[u32]| match weights_are_constant {
                true => constant(kind, dims),
                false => of(kind, dims),
            };
            let run = |op: Op, image: &[u32], filter: &[u32], more: &[A], out: &[u32]| {
                let mut single = {
                    let bias = filter[if op == Op::DepthwiseConv2d { 3 } else { 0 }];
                    let mut operands =
                        vec![of(kind, image), weights(kind, filter), weights(bias_kind, &[bias])];
                    operands.extend(more.iter().cloned());
                    let output = Operand {
                        scale: if kind == byte { 1.0 } else { 0.0 },
                        ..tensor(kind, out)
                    };
                    Single::new(op, &operands, &[output])
                };
                if kind == byte {
                    let scaled = |operand: &mut Operand| operand.scale = 0.25;
                    single.model.main.operands.get_mut(2).map(scaled);
                }
                let what = format!("{op} of {kind}, constant weights: {weights_are_constant}");
                sees_a_stop(&what, &single);
            };
            let window = [A::I(1), A::I(1), A::I(1)];
            // As large as plain code takes a second for, and kernels some tens of milliseconds.
            let image = [1, 256, 256, 64];
            let conv = [&window[..], &[A::I(0)]].concat();
            run(Op::Conv2d, &image, &[64, 3, 3, 64], &conv, &image);
            let dilated = [&conv[..], &[A::B(false), A::I(3), A::I(2)]].concat();
            run(Op::Conv2d, &image, &[64, 3, 3, 64], &dilated, &image);
            // A single line.
            let line = [1, 1, 1 << 15, 64];
            run(Op::Conv2d, &line, &[64, 1, 3, 64], &conv, &line);
            let depthwise = [&window[..], &[A::I(1), A::I(0)]].concat();
            run(
                Op::DepthwiseConv2d,
                &[1, 512, 512, 64],
                &[1, 5, 5, 64],
                &depthwise,
                &[1, 512, 512, 64],
            );
            run(
                Op::DepthwiseConv2d,
                &[1, 64, 64, 16],
                &[1, 63, 63, 16],
                &depthwise,
                &[1, 64, 64, 16],
            );
            let grouped = [&window[..], &[A::I(2), A::I(0), A::B(false)]].concat();
            run(Op::GroupedConv2d, &image, &[64, 3, 3, 32], &grouped, &image);
            let shape = A::Ints(vec![1, 512, 512, 16]);
            let transposed = [shape, A::I(1), A::I(2), A::I(2), A::I(0), A::B(false)];
            run(
                Op::TransposeConv2d,
                &[1, 256, 256, 16],
                &[16, 3, 3, 16],
                &transposed,
                &[1, 512, 512, 16],
            );
            run(Op::FullyConnected, &[1024, 1024], &[1024, 1024], &[A::I(0)], &[1024, 1024]);
        }
    }
    for (op, kind) in [
        (Op::AveragePool2d, real),
        (Op::MaxPool2d, byte),
        (Op::AveragePool2d, byte),
        (Op::L2Pool2d, half),
    ] {
        let image = [1, 256, 256, 64];
        let numbers = [1, 1, 1, 9, 9, 0].map(A::I);
        let operands = [&[of(kind, &image)], &numbers[..]].concat();
        sees_a_stop(op.name(), &Single::new(op, &operands, &[tensor(kind, &image)]));
    }
    // Few rows, which stream their weights.
    let operands = [f(&[4, 4096]), constant(real, &[4096, 4096]), constant(real, &[4096]), A::I(0)];
    sees_a_stop(
        "FULLY_CONNECTED",
        &Single::new(Op::FullyConnected, &operands, &[tensor(real, &[4, 4096])]),
    );
}
