//! Operators of each element, of pairs of them, and reductions.

use nnburst_tflite::TensorKind::{self, Bool, Float32, Int8, Int16, Int32, Int64, Uint8};
use nnburst_tflite::testing::Value;

use super::{STORED, pair, rank};
use crate::net::{Net, ValueRange, byte, flag};

pub(super) fn unary(net: &mut Net, name: &'static str, kinds: &[TensorKind]) {
    let kind = net.kind(kinds);
    let shape = net.shape((1, 5));
    let input = net.plain_input(kind, &shape);
    net.quantise(input, kind);
    let is_curve = matches!(name, "LOGISTIC" | "TANH" | "HARD_SWISH" | "ELU" | "EXP" | "GELU");
    if is_curve && kind != Int16 && net.random.below(3) == 0 {
        let scale = net.random.scale(1e-9, 30.0);
        net.quantise_by(input, kind, scale);
    }
    let output = net.result(kind, &shape);
    // Curves of bytes are tables, whatever the result's zero point is, and the scale of TANH.
    let is_odd = matches!(kind, Int8 | Uint8) && net.random.below(4) == 0;
    match (name, kind) {
        ("LOGISTIC", Int8 | Uint8) if is_odd => net.quantise_by(output, kind, 1.0 / 256.0),
        ("TANH", Int8 | Uint8) if is_odd => {}
        ("LOGISTIC", Int8) => net.fix(output, 1.0 / 256.0, -128),
        ("LOGISTIC", Uint8) => net.fix(output, 1.0 / 256.0, 0),
        ("TANH", Int8) => net.fix(output, 1.0 / 128.0, 0),
        ("TANH", Uint8) => net.fix(output, 1.0 / 128.0, 128),
        ("LOGISTIC" | "TANH", Int16) => net.fix(output, 1.0 / 32768.0, 0),
        _ => {}
    }
    let (union, fields) = match name {
        "LEAKY_RELU" => (75, vec![(0, Value::F32(net.random.real(-0.5, 0.9)))]),
        "GELU" => (116, vec![flag(0, net.random.flag())]),
        _ => (0, Vec::new()),
    };
    net.operator(name, &[input], &[output], union, fields);
}

pub(super) fn positive(net: &mut Net, name: &'static str, kinds: &[TensorKind]) {
    let kind = net.kind(kinds);
    net.span = ValueRange(0.01, 4.0);
    let shape = net.shape((1, 4));
    let input = net.plain_input(kind, &shape);
    let zero = if kind == Int8 { -128 } else { 0 };
    let scale = net.random.real(0.001, 0.05);
    net.fix(input, scale, zero);
    let last = net.inputs.len() - 1;
    if kind == Int16 {
        net.inputs[last].as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair[1] &= 0x7f);
    }
    let output = net.result(kind, &shape);
    net.operator(name, &[input], &[output], 0, Vec::new());
}

/// Powers that their type holds.
pub(super) fn power(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32]);
    let [a, b, wide] = pair(net, 4);
    net.span = if kind == Float32 { ValueRange(0.1, 4.0) } else { ValueRange(-1.0, 1.0) };
    let base = net.plain_input(kind, &a);
    net.span = if kind == Float32 { ValueRange(-3.0, 3.0) } else { ValueRange(0.0, 1.0) };
    let exponent = net.plain_input(kind, &b);
    let output = net.file.tensor("out", kind, &wide);
    net.operator(name, &[base, exponent], &[output], 56, Vec::new());
}

/// A sum of several tensors of one shape.
pub(super) fn add_n(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32]);
    let shape = net.shape((1, 5));
    let inputs: Vec<i32> =
        (0..net.random.within(2, 5)).map(|_| net.plain_input(kind, &shape)).collect();
    let output = net.file.tensor("out", kind, &shape);
    net.operator(name, &inputs, &[output], 82, Vec::new());
}

pub(super) fn binary(net: &mut Net, name: &'static str, kinds: &[TensorKind]) {
    let kind = net.kind(kinds);
    let [mut a, mut b, wide] = pair(net, if kind == Int16 { 4 } else { 5 });
    if name == "ATAN2" {
        (a, b) = (wide.clone(), wide.clone());
    }
    if name == "RIGHT_SHIFT" {
        net.span = ValueRange(0.0, 1.0);
    }
    let first = net.input(kind, &a);
    if matches!(name, "DIV" | "FLOOR_DIV" | "FLOOR_MOD") && kind != Uint8 {
        net.span = ValueRange(1.0, 4.0);
    }
    let second = net.input(kind, &b);
    if kind == Uint8 && name == "DIV" {
        net.fix(second, 0.02, 0);
        let last = net.inputs.len() - 1;
        net.inputs[last].iter_mut().for_each(|byte| *byte |= 1);
    }
    let compares = name.contains("LESS") || name.contains("GREATER") || name.contains("EQUAL");
    let output = if compares {
        net.file.tensor("out", Bool, &wide)
    } else if matches!(name, "MAXIMUM" | "MINIMUM" | "BITWISE_XOR" | "RIGHT_SHIFT") {
        net.moved(&[first, second], kind, &wide)
    } else {
        net.result(kind, &wide)
    };
    let activation = net.random.below(6);
    let is_whole = matches!(kind, Int64);
    let union = match name {
        "ADD" => 11,
        "SUB" => 28,
        "MUL" => 21,
        "DIV" => 29,
        _ => 0,
    };
    let mut fields = Vec::new();
    if union != 0 && !is_whole {
        fields.push(byte(0, activation));
    }
    if matches!(name, "ADD" | "SUB") && kind == Int16 {
        fields.push(flag(1, false));
    }
    net.operator(name, &[first, second], &[output], union, fields);
}

/// 16-bit integers that stand for themselves.
pub(super) fn plain_words(net: &mut Net, name: &'static str) {
    net.label = "INT16 without a scale".into();
    let [a, b, wide] = pair(net, 4);
    let (first, second) = (net.plain_input(Int16, &a), net.plain_input(Int16, &b));
    let output = net.file.tensor("out", Int16, &wide);
    let union = if name == "ADD" { 11 } else { 21 };
    net.operator(name, &[first, second], &[output], union, vec![byte(0, 0)]);
}

/// The slopes of 16-bit values have 8 bits.
pub(super) fn prelu(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16]);
    let shape = net.shape((2, 4));
    let mut slopes = shape.clone();
    slopes[0] = 1;
    let input = net.input(kind, &shape);
    let alpha = net.input(if kind == Int16 { Int8 } else { kind }, &slopes);
    let output = net.result(kind, &shape);
    net.operator(name, &[input, alpha], &[output], 0, Vec::new());
}

pub(super) fn quantize(net: &mut Net, name: &'static str) {
    let from = net.random.pick(&[Float32, Int8, Uint8, Int16]);
    let to = match from {
        Float32 => net.random.pick(STORED),
        Int8 | Uint8 => net.random.pick(&[Int8, Uint8]),
        _ => net.random.pick(&[Int8, Int16]),
    };
    net.label = format!("{}_{}", from.name(), to.name());
    let shape = net.shape((1, 4));
    let input = net.input(from, &shape);
    let output = net.result(to, &shape);
    net.operator(name, &[input], &[output], 0, Vec::new());
}

pub(super) fn dequantize(net: &mut Net, name: &'static str) {
    let kind = net.kind(STORED);
    let shape = net.shape((1, 4));
    let input = net.input(kind, &shape);
    let output = net.file.tensor("out", Float32, &shape);
    net.operator(name, &[input], &[output], 0, Vec::new());
}

pub(super) fn cast(net: &mut Net, name: &'static str) {
    let kinds = &[Float32, Int32, Int64, Bool, Int8, Uint8, Int16];
    let (from, to) = (net.random.pick(kinds), net.random.pick(kinds));
    net.label = format!("{}_{}", from.name(), to.name());
    // Now and then what the result's type has not.
    let most = if net.random.flag() { 4.0 } else { 1e5 };
    net.span = ValueRange(-most, most);
    let shape = net.shape((1, 4));
    let input = net.plain_input(from, &shape);
    let output = net.file.tensor("out", to, &shape);
    net.operator(name, &[input], &[output], 0, Vec::new());
}

pub(super) fn reduce(net: &mut Net, name: &'static str, kinds: &[TensorKind]) {
    let kind = net.kind(kinds);
    if name == "REDUCE_PROD" {
        net.span = ValueRange(-1.0, 1.0);
    }
    let shape = net.shape((2, 4));
    let rank = i32::try_from(shape.len()).unwrap_or(0);
    let mut axes: Vec<i32> = (0..rank).filter(|_| net.random.flag()).collect();
    if axes.is_empty() {
        axes.push(rank - 1);
    }
    let keeps = net.random.flag();
    let mut extents = Vec::new();
    for (axis, &extent) in (0..rank).zip(&shape) {
        match (axes.contains(&axis), keeps) {
            (true, true) => extents.push(1),
            (true, false) => {}
            (false, _) => extents.push(extent),
        }
    }
    let wraps = name == "REDUCE_PROD" && STORED.contains(&kind);
    let wraps = wraps && (kind == Uint8 || net.random.flag());
    if wraps {
        net.label += " without a scale";
    }
    let input = if wraps { net.plain_input(kind, &shape) } else { net.input(kind, &shape) };
    let output = if wraps {
        net.file.tensor("out", kind, &extents)
    } else if name.contains("MAX") || name.contains("MIN") {
        net.moved(&[input], kind, &extents)
    } else {
        net.result(kind, &extents)
    };
    let axes = net.ints(&axes);
    net.operator(name, &[input, axes], &[output], 27, vec![flag(0, keeps)]);
}

pub(super) fn cumsum(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int64]);
    let shape = net.shape((1, 4));
    let axis = net.random.below(rank(&shape));
    let input = net.input(kind, &shape);
    let output = net.result(kind, &shape);
    let axis = net.file.int_constant("axis", &[], &[axis]);
    let fields = vec![flag(0, net.random.flag()), flag(1, net.random.flag())];
    net.operator(name, &[input, axis], &[output], 102, fields);
}
