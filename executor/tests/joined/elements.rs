//! Functions of elements, joined and apart.

use nnburst_hal::{Operand, OperandType, OperationType as Op};

use crate::net::{Net, compare, floats};

/// A constant of one element.
fn one(net: &mut Net, value: f32) -> u32 {
    let like = Operand::tensor(OperandType::TensorFloat32, vec![1]);
    net.constant(like, &value.to_le_bytes())
}

/// GELU as it is written by hand: what is read several times, by one number and with a function.
fn gelu(net: &mut Net, x: u32) -> u32 {
    let none = net.int(0);
    let [half, cubes, root, unit] = [0.5, 0.044_715, 0.797_884_6, 1.0].map(|x| one(net, x));
    let square = net.op(Op::Mul, &[x, x, none]);
    let cube = net.op(Op::Mul, &[square, x, none]);
    let scaled = net.op(Op::Mul, &[cube, cubes, none]);
    let sum = net.op(Op::Add, &[x, scaled, none]);
    let inner = net.op(Op::Mul, &[root, sum, none]);
    let tanh = net.op(Op::Tanh, &[inner]);
    let more = net.op(Op::Add, &[tanh, unit, none]);
    let halves = net.op(Op::Mul, &[x, half, none]);
    net.op(Op::Mul, &[halves, more, none])
}

#[test]
fn a_function_of_many_operators_is_one_step_with_the_same_bits() {
    for extents in [vec![3], vec![2, 40], vec![1, 9, 700], vec![4096], vec![450, 1000]] {
        let mut net = Net::new(floats());
        let x = net.input(&extents);
        let y = gelu(&mut net, x);
        let model = net.model(&[y]);
        compare(&format!("gelu of {extents:?}"), &model, |isa, kernels, _| {
            assert_eq!(kernels, ["elements_f32"], "{isa:?}");
        });
    }
}

#[test]
fn quotients_and_choices_are_joined() {
    for extents in [vec![5], vec![3, 70], vec![300, 130]] {
        let mut net = Net::new(floats());
        let (x, y) = (net.input(&extents), net.input(&extents));
        let (none, two) = (net.int(0), one(&mut net, 2.0));
        let columns = net.weights(&[*extents.last().unwrap()]);
        let quotient = net.op(Op::Div, &[x, y, none]);
        let greater = net.op(Op::Maximum, &[quotient, columns]);
        let less = net.op(Op::Minimum, &[two, greater]);
        let inverse = net.op(Op::Div, &[two, less, none]);
        let model = net.model(&[inverse]);
        compare(&format!("choices of {extents:?}"), &model, |isa, kernels, _| {
            assert_eq!(kernels, ["elements_f32"], "{isa:?}");
        });
    }
}

#[test]
fn factors_and_shifts_of_columns_are_repeated() {
    for [rows, columns] in [[1, 1], [7, 3], [128, 128], [3, 1500], [2, 4097]] {
        let mut net = Net::new(floats());
        let (x, more) = (net.input(&[rows, columns]), net.input(&[rows, columns]));
        let none = net.int(0);
        let (factors, shifts) = (net.weights(&[columns]), net.weights(&[1, columns]));
        let sum = net.op(Op::Add, &[x, more, none]);
        let scaled = net.op(Op::Mul, &[factors, sum, none]);
        let moved = net.op(Op::Sub, &[shifts, scaled, none]);
        let y = net.op(Op::Logistic, &[moved]);
        let model = net.model(&[y]);
        compare(&format!("columns of {rows} by {columns}"), &model, |isa, kernels, _| {
            let steps = if columns > 4096 { 4 } else { 1 };
            assert_eq!(kernels.len(), steps, "{isa:?}: {kernels:?}");
        });
    }
}

#[test]
fn what_others_read_too_stays() {
    let mut net = Net::new(floats());
    let x = net.input(&[2, 30]);
    let (none, relu) = (net.int(0), net.int(1));
    let shown = net.op(Op::Mul, &[x, x, none]);
    let more = net.op(Op::Add, &[shown, x, none]);
    let last = net.op(Op::Tanh, &[more]);
    let activated = net.op(Op::Add, &[last, x, relu]);
    let model = net.model(&[shown, activated]);
    compare("shown", &model, |isa, kernels, _| {
        assert_eq!(kernels, ["binary_f32", "elements_f32", "binary_f32"], "{isa:?}");
    });
}

#[test]
fn rows_and_other_lengths_end_a_run() {
    let mut net = Net::new(floats());
    let (x, by) = (net.input(&[6, 20]), net.input(&[6, 1]));
    let none = net.int(0);
    let square = net.op(Op::Mul, &[by, by, none]);
    let half = net.op(Op::Tanh, &[square]);
    let scaled = net.op(Op::Mul, &[x, half, none]);
    let sum = net.op(Op::Add, &[scaled, x, none]);
    let y = net.op(Op::Logistic, &[sum]);
    let model = net.model(&[y]);
    compare("rows", &model, |isa, kernels, _| {
        assert_eq!(kernels, ["elements_f32", "binary_f32", "elements_f32"], "{isa:?}");
    });
}
