//! Operators whose results are as long as values say, and those that sort into places.

use nnburst_tflite::TensorKind::{
    self, Bool, Complex64, Float32, Int8, Int16, Int32, Int64, Uint8,
};
use nnburst_tflite::testing::Value;

use super::{STORED, at, rank};
use crate::net::{Net, ValueRange, byte, int};

/// A tensor whose extents are known at run time, as converters write it.
fn open(net: &mut Net, kind: TensorKind, signature: &[i32]) -> i32 {
    let example: Vec<i32> = signature.iter().map(|&extent| extent.max(1)).collect();
    let tensor = net.file.tensor("out", kind, &example);
    net.file.tensor_fields(tensor, vec![(7, Value::ints(signature))]);
    tensor
}

/// An input of these integers.
fn given(net: &mut Net, shape: &[i32], values: &[i32]) -> i32 {
    let tensor = net.file.input("given", Int32, shape);
    net.inputs.push(values.iter().flat_map(|value| value.to_le_bytes()).collect());
    tensor
}

/// An input of these integers, or a constant.
fn known(net: &mut Net, shape: &[i32], values: &[i32]) -> i32 {
    match net.random.flag() {
        true => given(net, shape, values),
        false => net.file.int_constant("known", shape, values),
    }
}

fn many(net: &mut Net, count: i32, low: i32, high: i32) -> Vec<i32> {
    (0..count).map(|_| net.random.within(low, high)).collect()
}

/// Gives tensors of a stored type one scale.
fn share(net: &mut Net, kind: TensorKind, tensors: &[i32]) {
    if STORED.contains(&kind) {
        tensors.iter().for_each(|&tensor| net.fix(tensor, 0.5, 0));
    }
}

pub(super) fn places(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Bool, Float32, Int32, Int64, Int8, Uint8]);
    let shape = net.shape((1, 4));
    let input = net.plain_input(kind, &shape);
    let count = usize::try_from(shape.iter().product::<i32>()).unwrap_or(1);
    let mut bytes = net.inputs.pop().unwrap_or_default();
    let width = bytes.len() / count;
    for element in bytes.chunks_exact_mut(width) {
        if net.random.flag() {
            element.fill(0);
        }
    }
    net.inputs.push(bytes);
    let output = open(net, Int64, &[-1, rank(&shape)]);
    net.operator(name, &[input], &[output], 85, Vec::new());
}

pub(super) fn unique(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16, Int32, Int64]);
    let count = net.random.within(1, 20);
    net.span = ValueRange(-0.5, 0.5);
    let input = net.plain_input(kind, &[count]);
    let output = open(net, kind, &[-1]);
    share(net, kind, &[input, output]);
    let index = net.random.pick(&[Int32, Int64]);
    let places = net.file.tensor("places", index, &[count]);
    let code = if index == Int32 { 2 } else { 4 };
    net.operator(name, &[input], &[output, places], 80, vec![byte(0, code)]);
}

pub(super) fn range(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int64]);
    let step: i32 = net.random.pick(&[-3, -1, 1, 2]);
    let first = net.random.within(-9, 9);
    let last = first + step.signum() * net.random.below(20);
    let bytes = |value: i32| match kind {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        Float32 => (value as f32).to_le_bytes().to_vec(),
        Int64 => i64::from(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    let inputs = [first, last, step].map(|value| {
        if net.random.below(3) == 0 {
            return net.file.constant("bound", kind, &[], &bytes(value));
        }
        net.inputs.push(bytes(value));
        net.file.input("bound", kind, &[])
    });
    let output = open(net, kind, &[-1]);
    net.operator(name, &inputs, &[output], 73, Vec::new());
}

pub(super) fn fill(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int64, Bool, Int8, Int16]);
    let shape = net.shape((1, 4));
    let extents = known(net, &[rank(&shape)], &shape);
    let value = net.plain_input(kind, &[]);
    let output = open(net, kind, &vec![-1; shape.len()]);
    share(net, kind, &[value, output]);
    net.operator(name, &[extents, value], &[output], 68, Vec::new());
}

/// SHAPE and RANK.
pub(super) fn extents(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Int64, Bool]);
    let shape = net.shape((1, 6));
    let input = net.plain_input(kind, &shape);
    if name == "RANK" {
        let output = net.file.tensor("out", Int32, &[]);
        net.operator(name, &[input], &[output], 86, Vec::new());
        return;
    }
    let to = net.random.pick(&[Int32, Int64]);
    let output = net.file.tensor("out", to, &[rank(&shape)]);
    let code = if to == Int32 { 2 } else { 4 };
    net.operator(name, &[input], &[output], 55, vec![byte(0, code)]);
}

/// Numbers of segments: in order, or in any, where -1 is none.
pub(super) fn segments(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32]);
    let (count, most) = (net.random.within(1, 8), net.random.within(1, 6));
    let is_sorted = name == "SEGMENT_SUM";
    net.span = if name.ends_with("PROD") { ValueRange(-0.5, 0.5) } else { net.span };
    let mut rows = net.shape((0, 2));
    let data = net.plain_input(kind, &[&[count], &rows[..]].concat());
    let mut ids = many(net, count, -1, most - 1);
    if is_sorted {
        // From 0 on, without gaps.
        ids[0] = 0;
        for at in 1..ids.len() {
            ids[at] = ids[at - 1] + net.random.below(2);
        }
        let ids = given(net, &[count], &ids);
        rows.insert(0, -1);
        let output = open(net, kind, &rows);
        net.operator(name, &[data, ids], &[output], 100, Vec::new());
        return;
    }
    let ids = given(net, &[count], &ids);
    let segments = known(net, &[], &[most]);
    rows.insert(0, -1);
    let output = open(net, kind, &rows);
    net.operator(name, &[data, ids, segments], &[output], 0, Vec::new());
}

pub(super) fn bucketize(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int64]);
    let shape = net.shape((0, 3));
    let mut bounds: Vec<f32> =
        (0..net.random.within(1, 9)).map(|_| net.random.real(-20.0, 20.0)).collect();
    bounds.sort_by(f32::total_cmp);
    let input = net.plain_input(kind, &shape);
    let output = net.file.tensor("out", Int32, &shape);
    net.operator(name, &[input], &[output], 115, vec![(0, Value::floats(&bounds))]);
}

pub(super) fn sparse(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int64, Int8, Uint8]);
    let shape = net.shape((1, 3));
    let count = net.random.within(1, 4);
    // One place a row, in one dimension also as a list.
    let is_list = shape.len() == 1 && net.random.flag();
    let mut indices = Vec::new();
    for _ in 0..count {
        indices.extend(shape.iter().map(|&extent| net.random.below(extent)).collect::<Vec<_>>());
    }
    let own = if is_list { vec![count] } else { vec![count, rank(&shape)] };
    let indices = given(net, &own, &indices);
    let extents = known(net, &[rank(&shape)], &shape);
    let values = if net.random.flag() { vec![count] } else { Vec::new() };
    let (values, default) = (net.plain_input(kind, &values), net.plain_input(kind, &[]));
    let output = open(net, kind, &vec![-1; shape.len()]);
    share(net, kind, &[values, default, output]);
    net.operator(name, &[indices, extents, values, default], &[output], 50, vec![byte(0, 0)]);
}

pub(super) fn reverse_sequence(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Uint8, Int16, Int32, Int64]);
    let shape = net.shape((2, 4));
    let sequence = net.random.below(rank(&shape));
    let batch = (sequence + net.random.within(1, rank(&shape) - 1)) % rank(&shape);
    let input = net.plain_input(kind, &shape);
    let lengths = many(net, at(&shape, batch), 1, at(&shape, sequence));
    let lengths = given(net, &[at(&shape, batch)], &lengths);
    let output = net.moved(&[input], kind, &shape);
    net.operator(name, &[input, lengths], &[output], 87, vec![int(0, sequence), int(1, batch)]);
}

pub(super) fn split(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Uint8, Int8, Int16, Int32, Int64]);
    let mut shape = net.shape((1, 4));
    let axis = net.random.below(rank(&shape));
    let place = usize::try_from(axis).unwrap_or(0);
    let parts = net.random.within(1, 4);
    let mut sizes = many(net, parts, 1, 4);
    shape[place] = sizes.iter().sum();
    let input = net.plain_input(kind, &shape);
    let outputs: Vec<i32> = sizes
        .iter()
        .map(|&size| {
            shape[place] = size;
            net.file.tensor("out", kind, &shape)
        })
        .collect();
    share(net, kind, &outputs);
    share(net, kind, &[input]);
    if net.random.flag() {
        sizes[0] = -1;
    }
    let sizes = net.ints(&sizes);
    let from = net.random.pick(&[axis, axis - rank(&shape)]);
    let axis = net.file.int_constant("axis", &[], &[from]);
    net.operator(name, &[input, sizes, axis], &outputs, 79, vec![int(0, parts)]);
}

/// Rows of a table, in its own type, or stored and made floats.
pub(super) fn embedding(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int8, Uint8]);
    let (rows, count) = (net.random.within(1, 9), net.random.within(1, 5));
    let table = [&[rows], &net.shape((1, 2))[..]].concat();
    let ids = many(net, count, 0, rows - 1);
    let ids = given(net, &[count], &ids);
    let bytes = net.bytes(kind, &table);
    let values = net.file.constant("table", kind, &table, &bytes);
    let is_stored = STORED.contains(&kind);
    if is_stored {
        net.label = format!("hybrid {}", kind.name());
        let scale = net.random.real(0.001, 0.1);
        net.fix(values, scale, 0);
    }
    let result = if is_stored { Float32 } else { kind };
    let output = net.file.tensor("out", result, &[&[count], &table[1..]].concat());
    net.operator(name, &[ids, values], &[output], 0, Vec::new());
}

/// The parts of complex numbers.
pub(super) fn complex(net: &mut Net, name: &'static str) {
    net.label = "COMPLEX64".into();
    let shape = net.shape((1, 4));
    let bytes = net.bytes(Float32, &[shape.iter().product(), 2]);
    let input = net.file.input("in", Complex64, &shape);
    net.inputs.push(bytes);
    if name == "MUL" {
        let more = net.bytes(Float32, &[shape.iter().product(), 2]);
        let factor = net.file.input("factor", Complex64, &shape);
        net.inputs.push(more);
        let output = net.file.tensor("out", Complex64, &shape);
        return net.operator(name, &[input, factor], &[output], 21, vec![byte(0, 0)]);
    }
    let output = net.file.tensor("out", Float32, &shape);
    net.operator(name, &[input], &[output], 0, Vec::new());
}

/// The same bytes in another type, with or without an extent for what the types' widths differ by.
pub(super) fn bitcast(net: &mut Net, name: &'static str) {
    let pairs = [
        (Float32, Int32, 0),
        (Int32, Float32, 0),
        (Int64, Int32, 2),
        (Int32, Int8, 4),
        (Int16, Uint8, 2),
        (Int8, Uint8, 0),
        (Int32, Int64, -2),
        (Uint8, Int16, -2),
    ];
    let (from, to, more) = net.random.pick(&pairs);
    net.label = format!("{} to {}", from.name(), to.name());
    let mut shape = net.shape((1, 3));
    let mut extents = shape.clone();
    match more {
        1.. => extents.push(more),
        0 => {}
        _ => shape.push(-more),
    }
    let input = net.plain_input(from, &shape);
    let output = net.file.tensor("out", to, &extents);
    net.operator(name, &[input], &[output], 0, Vec::new());
}

/// The shape that two shapes broadcast to.
pub(super) fn broadcast(net: &mut Net, name: &'static str) {
    net.kind(&[Int32]);
    let [a, b, wide] = super::pair(net, 5);
    let inputs = [a, b].map(|shape| given(net, &[rank(&shape)], &shape));
    let output = net.file.tensor("out", Int32, &[rank(&wide)]);
    net.operator(name, &inputs, &[output], 0, Vec::new());
}

/// A variable that is written, then read.
pub(super) fn variable(net: &mut Net, _: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int64]);
    let shape = net.shape((1, 3));
    let input = net.plain_input(kind, &shape);
    let handle = net.file.tensor("handle", TensorKind::Resource, &[]);
    let name = vec![(0, Value::text("")), (1, Value::text("kept"))];
    net.file.operator_with("VAR_HANDLE", &[], &[handle], 111, name);
    net.file.operator_with("ASSIGN_VARIABLE", &[handle, input], &[], 113, Vec::new());
    let output = net.file.tensor("out", kind, &shape);
    net.operator("READ_VARIABLE", &[handle], &[output], 112, Vec::new());
}

/// The attributes of a composite: a map without entries.
fn no_attributes() -> Value {
    let map = nnburst_tflite::testing::flex_map(&[]);
    Value::Vector(1, map)
}

/// A composite, whose decomposition is computed, or a case of such graphs.
pub(super) fn graphs(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32]);
    let shape = net.shape((1, 3));
    let index = if name == "STABLEHLO_CASE" { vec![net.random.within(0, 1)] } else { Vec::new() };
    let mut inputs: Vec<i32> = index.iter().map(|&index| given(net, &[], &[index])).collect();
    let is_case = !inputs.is_empty();
    inputs.push(net.plain_input(kind, &shape));
    let output = net.file.tensor("out", kind, &shape);
    let (union, fields) = match is_case {
        true => (23, vec![(0, Value::ints(&[1, 2]))]),
        false => {
            let none = vec![(0, Value::text("some.negation")), int(1, 1), (2, no_attributes())];
            (21, none)
        }
    };
    net.file.operator_with_second(name, &inputs, &[output], union, fields);
    net.file.outputs(&[output]);
    for own in if is_case { &["NEG", "MUL"][..] } else { &["NEG"] } {
        net.file.next_graph();
        let x = net.file.input("x", kind, &shape);
        let y = net.file.tensor("y", kind, &shape);
        let inputs = if *own == "NEG" { vec![x] } else { vec![x, x] };
        net.file.operator_with(own, &inputs, &[y], if *own == "NEG" { 42 } else { 21 }, Vec::new());
        net.file.outputs(&[y]);
    }
}
