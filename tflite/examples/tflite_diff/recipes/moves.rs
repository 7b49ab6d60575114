//! Operators that move elements.

use nnburst_tflite::TensorKind::{Bool, Float32, Int8, Int16, Int32, Int64, Uint8};
use nnburst_tflite::testing::Value;

use super::{ANY, STORED, at, rank};
use crate::net::{Net, byte, int};

fn shuffled(net: &mut Net, count: i32) -> Vec<i32> {
    let mut order: Vec<i32> = (0..count).collect();
    for at in (1..order.len()).rev() {
        let other = usize::try_from(net.random.below(i32::try_from(at).unwrap_or(0) + 1));
        order.swap(at, other.unwrap_or(0));
    }
    order
}

pub(super) fn transpose(net: &mut Net, name: &'static str) {
    let kind = net.kind(ANY);
    let shape = net.shape((1, 5));
    let order = shuffled(net, rank(&shape));
    let extents: Vec<i32> = order.iter().map(|&axis| at(&shape, axis)).collect();
    let input = net.plain_input(kind, &shape);
    let output = net.moved(&[input], kind, &extents);
    let order = net.ints(&order);
    net.operator(name, &[input, order], &[output], 0, Vec::new());
}

pub(super) fn reshape(net: &mut Net, name: &'static str) {
    let kind = net.kind(ANY);
    let mut shape = net.shape((1, 5));
    let axis = net.random.below(rank(&shape));
    let place = usize::try_from(axis).unwrap_or(0);
    let mut extents = shape.clone();
    let mut fields = Vec::new();
    let mut more = Vec::new();
    let mut union = 0;
    match name {
        "SQUEEZE" => {
            shape[place] = 1;
            extents.remove(place);
            (union, fields) = (30, vec![(0, Value::ints(&[axis]))]);
        }
        "EXPAND_DIMS" => {
            extents.insert(place, 1);
            more.push(net.file.int_constant("axis", &[], &[axis]));
        }
        _ => {
            extents.reverse();
            more.push(net.ints(&extents));
        }
    }
    let input = net.plain_input(kind, &shape);
    let output = net.moved(&[input], kind, &extents);
    more.insert(0, input);
    net.operator(name, &more, &[output], union, fields);
}

pub(super) fn slice(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16, Int32, Int64, Bool]);
    let shape = net.shape((1, 5));
    let begin: Vec<i32> = shape.iter().map(|&extent| net.random.below(extent)).collect();
    let size: Vec<i32> =
        shape.iter().zip(&begin).map(|(&all, &from)| net.random.within(1, all - from)).collect();
    let input = net.plain_input(kind, &shape);
    let output = net.moved(&[input], kind, &size);
    let (begin, size) = (net.ints(&begin), net.ints(&size));
    net.operator(name, &[input, begin, size], &[output], 0, Vec::new());
}

pub(super) fn strided_slice(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16, Int32, Int64, Bool]);
    let shape = net.shape((1, 4));
    let (mut begin, mut end, mut step, mut extents) = (vec![], vec![], vec![], vec![]);
    let mut shrunk = 0;
    for (axis, &extent) in (0..).zip(&shape) {
        let stride = net.random.pick(&[1, 1, 2, -1]);
        let (first, count) = (net.random.below(extent), net.random.within(1, 3));
        if net.random.below(5) == 0 {
            shrunk |= 1 << axis;
            begin.push(first);
            end.push(first + 1);
            step.push(1);
            continue;
        }
        let room = if stride > 0 { (extent - first + stride - 1) / stride } else { first + 1 };
        let count = count.min(room);
        begin.push(first);
        end.push(first + stride * count);
        if stride < 0 && first + stride * count < 0 {
            let last = end.len() - 1;
            end[last] -= extent; // beyond the front
        }
        step.push(stride);
        extents.push(count);
    }
    let input = net.plain_input(kind, &shape);
    let output = net.moved(&[input], kind, &extents);
    let lists = [net.ints(&begin), net.ints(&end), net.ints(&step)];
    let inputs = [input, lists[0], lists[1], lists[2]];
    net.operator(name, &inputs, &[output], 32, vec![int(4, shrunk)]);
}

pub(super) fn pad(net: &mut Net, name: &'static str) {
    let kind = net.kind(ANY);
    let is_mirror = name == "MIRROR_PAD";
    let shape = net.shape((1, 4));
    let mut pads = Vec::new();
    let mut extents = Vec::new();
    for &extent in &shape {
        let most = if is_mirror { extent - 1 } else { 3 };
        let (head, tail) = (net.random.within(0, most), net.random.within(0, most));
        pads.extend([head, tail]);
        extents.push(extent + head + tail);
    }
    let input = net.plain_input(kind, &shape);
    let table = net.file.int_constant("pads", &[rank(&shape), 2], &pads);
    let mut inputs = vec![input, table];
    let mut moved = vec![input];
    if name == "PADV2" {
        let bytes = net.bytes(kind, &[1]);
        let value = net.file.constant("value", kind, &[1], &bytes);
        inputs.push(value);
        moved.push(value);
    }
    let output = net.moved(&moved, kind, &extents);
    let (union, fields) =
        if is_mirror { (77, vec![byte(0, net.random.below(2))]) } else { (0, Vec::new()) };
    net.operator(name, &inputs, &[output], union, fields);
}

pub(super) fn concatenation(net: &mut Net, name: &'static str) {
    let kind = net.kind(ANY);
    let is_pack = name == "PACK";
    let shape = net.shape((1, 4));
    let count = net.random.within(2, 4);
    let axis = net.random.below(rank(&shape) + i32::from(is_pack));
    let place = usize::try_from(axis).unwrap_or(0);
    let mut extents = shape.clone();
    let mut inputs = Vec::new();
    if is_pack {
        extents.insert(place, count);
    } else {
        extents[place] = 0;
    }
    for _ in 0..count {
        let mut own = shape.clone();
        if !is_pack {
            own[place] = net.random.within(1, 5);
            extents[place] += own[place];
        }
        inputs.push(net.plain_input(kind, &own));
    }
    let output = net.moved(&inputs, kind, &extents);
    let (union, fields) =
        if is_pack { (59, vec![int(0, count), int(1, axis)]) } else { (10, vec![int(0, axis)]) };
    net.operator(name, &inputs, &[output], union, fields);
}

pub(super) fn split(net: &mut Net, name: &'static str) {
    let kind = net.kind(ANY);
    let mut shape = net.shape((1, 4));
    let axis = net.random.below(rank(&shape));
    let place = usize::try_from(axis).unwrap_or(0);
    let count = net.random.within(1, 3);
    let is_split = name == "SPLIT";
    let mut part = shape.clone();
    if is_split {
        shape[place] *= count;
    } else {
        shape[place] = count;
        part.remove(place);
    }
    let input = net.plain_input(kind, &shape);
    let outputs: Vec<i32> = (0..count).map(|_| net.file.tensor("out", kind, &part)).collect();
    if STORED.contains(&kind) {
        for &tensor in outputs.iter().chain([&input]) {
            net.fix(tensor, 0.5, 0);
        }
    }
    if is_split {
        let axis = net.file.int_constant("axis", &[], &[axis]);
        net.operator(name, &[axis, input], &outputs, 35, vec![int(0, count)]);
    } else {
        net.operator(name, &[input], &outputs, 64, vec![int(0, count), int(1, axis)]);
    }
}

pub(super) fn tile(net: &mut Net, name: &'static str) {
    let kind = net.kind(ANY);
    let mut shape = net.shape((1, 4));
    let times: Vec<i32> = shape.iter().map(|_| net.random.within(1, 3)).collect();
    let list = if name == "TILE" {
        times.clone()
    } else {
        for (extent, &times) in shape.iter_mut().zip(&times) {
            if times > 1 {
                *extent = 1;
            }
        }
        shape.iter().zip(&times).map(|(&extent, &times)| extent * times).collect()
    };
    let extents: Vec<i32> =
        shape.iter().zip(&times).map(|(&extent, &times)| extent * times).collect();
    let input = net.plain_input(kind, &shape);
    let output = net.moved(&[input], kind, &extents);
    let list = net.ints(&list);
    net.operator(name, &[input, list], &[output], 0, Vec::new());
}

pub(super) fn reverse(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Uint8, Int8, Int16, Int32, Int64, Bool]);
    let shape = net.shape((1, 4));
    let axis = net.random.below(rank(&shape));
    let input = net.plain_input(kind, &shape);
    let output = net.moved(&[input], kind, &shape);
    let axis = net.ints(&[axis]);
    net.operator(name, &[input, axis], &[output], 0, Vec::new());
}

pub(super) fn update(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Int32, Int64, Bool]);
    let shape = net.shape((1, 4));
    let part: Vec<i32> = shape.iter().map(|&extent| net.random.within(1, extent)).collect();
    let operand = net.plain_input(kind, &shape);
    let update = net.plain_input(kind, &part);
    let starts = net.plain_input(Int32, &[rank(&shape)]);
    let output = net.moved(&[operand, update], kind, &shape);
    net.operator(name, &[operand, update, starts], &[output], 0, Vec::new());
}
