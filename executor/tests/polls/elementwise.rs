//! Operations of single elements and of rows.

use nnburst_hal::{OperandType as T, OperationType as Op};

use crate::single::{A, Single, f, of, sees_a_stop, tensor};

/// Operations whose result has the shape of what goes in, with what else they take.
#[test]
fn operations_of_single_elements_and_lines_stop_within() {
    let side = [1u32, 1, 4096, 2048];
    let (half, byte, signed) = (T::TensorFloat16, T::TensorQuant8Asymm, T::TensorQuant8AsymmSigned);
    let (real, int, truth) = (T::TensorFloat32, T::TensorInt32, T::TensorBool8);
    let two = |kind: T| vec![of(kind, &side), of(kind, &side)];
    let sum = |kind: T| vec![of(kind, &side), of(kind, &[2048]), A::I(0)];
    let cases = [
        (Op::Relu, real, vec![]),
        (Op::Relu6, byte, vec![]),
        (Op::Abs, real, vec![]),
        (Op::Exp, half, vec![]),
        (Op::Log, real, vec![]),
        (Op::Sin, half, vec![]),
        (Op::Neg, int, vec![]),
        (Op::Floor, real, vec![]),
        (Op::Logistic, real, vec![]),
        (Op::Tanh, half, vec![]),
        (Op::HardSwish, real, vec![]),
        (Op::Elu, real, vec![A::F(1.0)]),
        (Op::LogicalNot, truth, vec![]),
        (Op::Softmax, real, vec![A::F(1.0)]),
        (Op::LogSoftmax, real, vec![A::F(1.0), A::I(3)]),
        (Op::L2Normalization, real, vec![]),
        (Op::L2Normalization, half, vec![A::I(2)]),
    ];
    for (kind, type_of, more) in cases {
        let mut operands = vec![of(type_of, &side)];
        operands.extend(more);
        sees_a_stop(kind.name(), &Single::new(kind, &operands, &[tensor(type_of, &side)]));
    }
    let cases = [
        (Op::Add, real, sum(real)),
        (Op::Mul, half, sum(half)),
        (Op::Sub, int, sum(int)),
        (Op::Add, byte, sum(byte)),
        (Op::Mul, signed, vec![of(signed, &side), of(signed, &side), A::I(0)]),
        (Op::Div, real, sum(real)),
        (Op::Pow, real, two(real)),
        (Op::Maximum, byte, two(byte)),
        (Op::Minimum, int, two(int)),
        (Op::Prelu, half, vec![of(half, &side), of(half, &[2048])]),
        // Short spans, of which there are many.
        (Op::Add, real, vec![f(&[1, 4096, 2048, 1]), f(&[1, 1, 2048, 1]), A::I(0)]),
    ];
    for (kind, type_of, operands) in cases {
        let dims = match &operands[0] {
            A::In(_, dims) => dims.clone(),
            _ => side.to_vec(),
        };
        let mut output = tensor(type_of, &dims);
        output.scale *= if kind == Op::Mul { 2.0 } else { 1.0 };
        sees_a_stop(kind.name(), &Single::new(kind, &operands, &[output]));
    }
    let cases = [
        (Op::Equal, truth, two(real)),
        (Op::Less, truth, two(byte)),
        (Op::LogicalAnd, truth, two(truth)),
        (Op::Select, int, vec![of(truth, &side), of(int, &side), of(int, &side)]),
        (Op::Cast, half, vec![f(&side)]),
        (Op::Quantize, byte, vec![f(&side)]),
        (Op::Dequantize, real, vec![of(byte, &side)]),
    ];
    for (kind, type_of, operands) in cases {
        sees_a_stop(kind.name(), &Single::new(kind, &operands, &[tensor(type_of, &side)]));
    }
}
