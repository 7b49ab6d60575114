//! Recurrent operations.

use nnburst_hal::{Operand, OperandType as T, OperationType as Op};

use crate::single::{A, Single, constant, f, of, sees_a_stop, tensor};

#[test]
fn recurrent_operations_stop_within() {
    let real = T::TensorFloat32;
    for constant_weights in [true, false] {
        let weights = |dims: &[u32]| if constant_weights { constant(real, dims) } else { f(dims) };
        let (units, width) = (1024, 512);
        let rnn = [
            f(&[256, width]),
            weights(&[units, width]),
            weights(&[units, units]),
            weights(&[units]),
            f(&[256, units]),
            A::I(4),
        ];
        let outputs = [tensor(real, &[256, units]), tensor(real, &[256, units])];
        sees_a_stop("RNN", &Single::new(Op::Rnn, &rnn, &outputs));
        let sequence = [
            f(&[1, 512, width]),
            weights(&[units, width]),
            weights(&[units, units]),
            weights(&[units]),
            f(&[1, units]),
            A::I(4),
            A::I(0),
        ];
        let output = [tensor(real, &[1, 512, units])];
        sees_a_stop(
            "SEQUENCE_RNN",
            &Single::new(Op::UnidirectionalSequenceRnn, &sequence, &output),
        );
        let memory = 8;
        let svdf = [
            f(&[256, width]),
            weights(&[units, width]),
            weights(&[units, memory]),
            weights(&[units]),
            f(&[256, memory * units]),
            A::I(1),
            A::I(1),
        ];
        let outputs = [tensor(real, &[256, memory * units]), tensor(real, &[256, units])];
        sees_a_stop("SVDF", &Single::new(Op::Svdf, &svdf, &outputs));
    }
    let byte = T::TensorQuant8Asymm;
    let of_scale =
        |operand: Operand, scale: f32, zero_point: i32| Operand { scale, zero_point, ..operand };
    let (batch, width, units) = (64, 256, 256);
    let mut operands = vec![of(byte, &[batch, width])];
    operands.extend((0..4).map(|_| of(byte, &[units, width])));
    operands.extend((0..4).map(|_| of(byte, &[units, units])));
    operands.extend((0..4).map(|_| of(T::TensorInt32, &[units])));
    operands.extend([of(T::TensorQuant16Symm, &[batch, units]), of(byte, &[batch, units])]);
    let outputs = [
        tensor(T::TensorQuant16Symm, &[batch, units]),
        of_scale(tensor(byte, &[batch, units]), 1.0 / 128.0, 128),
    ];
    let mut lstm = Single::new(Op::Quantized16bitLstm, &operands, &outputs);
    for (at, operand) in lstm.model.main.operands.iter_mut().enumerate() {
        match at {
            0 | 14 => (operand.scale, operand.zero_point) = (1.0 / 128.0, 128),
            9..=12 => operand.scale = 0.5 / 128.0,
            _ => {}
        }
    }
    sees_a_stop("QUANTIZED_16BIT_LSTM", &lstm);
}
