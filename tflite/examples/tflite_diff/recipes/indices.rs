//! Operators that look up, choose and order.

use nnburst_tflite::TensorKind::{Bool, Float32, Int8, Int16, Int32, Int64, Uint8};

use super::{pair, rank};
use crate::net::{Net, ValueRange, byte, int};

/// Indices below an extent, as an input of INT32 or INT64.
fn indices(net: &mut Net, shape: &[i32], extent: i32) -> i32 {
    let kind = net.random.pick(&[Int32, Int64]);
    let tensor = net.file.input("indices", kind, shape);
    let count: i32 = shape.iter().product();
    let mut bytes = Vec::new();
    for _ in 0..count {
        let index = net.random.below(extent);
        match kind {
            Int64 => bytes.extend(i64::from(index).to_le_bytes()),
            _ => bytes.extend(index.to_le_bytes()),
        }
    }
    net.inputs.push(bytes);
    tensor
}

pub(super) fn gather(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16, Int32, Int64, Bool]);
    let shape = net.shape((1, 4));
    let axis = net.random.below(rank(&shape));
    let place = usize::try_from(axis).unwrap_or(0);
    let own = net.shape((0, 2));
    let input = net.plain_input(kind, &shape);
    let indices = indices(net, &own, shape[place]);
    let extents = [&shape[..place], &own, &shape[place + 1..]].concat();
    let output = net.moved(&[input], kind, &extents);
    net.operator(name, &[input, indices], &[output], 23, vec![int(0, axis)]);
}

pub(super) fn gather_nd(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int32, Int64]);
    let shape = net.shape((1, 3));
    let depth = net.random.within(1, rank(&shape));
    let place = usize::try_from(depth).unwrap_or(0);
    let count = net.random.within(1, 4);
    let least = shape[..place].iter().copied().min().unwrap_or(1);
    let rows = [&[count], &shape[place..]].concat();
    if name == "GATHER_ND" {
        let input = net.plain_input(kind, &shape);
        let indices = indices(net, &[count, depth], least);
        let output = net.moved(&[input], kind, &rows);
        net.operator(name, &[input, indices], &[output], 0, Vec::new());
    } else {
        let mut bytes = Vec::new();
        for _ in 0..count * depth {
            bytes.extend(net.random.below(least).to_le_bytes());
        }
        let indices = net.file.input("indices", Int32, &[count, depth]);
        net.inputs.push(bytes);
        let updates = net.plain_input(kind, &rows);
        let extents = net.ints(&shape);
        let output = net.moved(&[updates], kind, &shape);
        net.operator(name, &[indices, updates, extents], &[output], 0, Vec::new());
    }
}

pub(super) fn select(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16, Int32, Int64, Bool]);
    let [a, b, wide] = pair(net, 4);
    let (own, first, second) =
        if name == "SELECT" { (&wide, &wide, &wide) } else { (&b, &a, &wide) };
    let condition = net.plain_input(Bool, own);
    let (first, second) = (net.plain_input(kind, first), net.plain_input(kind, second));
    let output = net.moved(&[first, second], kind, &wide);
    net.operator(name, &[condition, first, second], &[output], 0, Vec::new());
}

pub(super) fn top_k(net: &mut Net, name: &'static str) {
    let shape = net.shape((1, 3));
    let last = shape.len() - 1;
    if name == "TOPK_V2" {
        let kind = net.kind(&[Float32, Int8, Uint8, Int16, Int32, Int64]);
        net.span = ValueRange(-1.0, 1.0);
        let k = net.random.within(1, shape[last]);
        let input = net.plain_input(kind, &shape);
        let mut extents = shape;
        extents[last] = k;
        let values = net.moved(&[input], kind, &extents);
        let places = net.file.tensor("places", Int32, &extents);
        let k = net.file.int_constant("k", &[], &[k]);
        net.operator(name, &[input, k], &[values, places], 0, Vec::new());
        return;
    }
    let kind = net.kind(&[Float32, Int8, Uint8, Int32]);
    let axis = net.random.below(rank(&shape));
    let place = usize::try_from(axis).unwrap_or(0);
    let input = net.input(kind, &shape);
    let mut extents = shape;
    extents.remove(place);
    let to = net.random.pick(&[Int32, Int64]);
    let output = net.file.tensor("out", to, &extents);
    let axis = net.file.int_constant("axis", &[], &[axis]);
    let union = if name == "ARG_MAX" { 40 } else { 57 };
    let code = if to == Int32 { 2 } else { 4 };
    net.operator(name, &[input, axis], &[output], union, vec![byte(0, code)]);
}

pub(super) fn one_hot(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int64, Bool]);
    let own = net.shape((1, 2));
    let depth = net.random.within(1, 6);
    let indices = indices(net, &own, 7);
    let depth_tensor = net.file.int_constant("depth", &[], &[depth]);
    let (on, off) = (net.plain_input(kind, &[]), net.plain_input(kind, &[]));
    let axis = net.random.within(-1, rank(&own) - 1);
    let mut extents = own;
    let place = usize::try_from(axis).unwrap_or(extents.len());
    extents.insert(place, depth);
    let output = net.file.tensor("out", kind, &extents);
    net.operator(name, &[indices, depth_tensor, on, off], &[output], 61, vec![int(0, axis)]);
}
