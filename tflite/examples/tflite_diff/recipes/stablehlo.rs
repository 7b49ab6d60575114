//! Operators of STABLEHLO, windows of any rank, and what is stored and looked up sparsely.

use nnburst_tflite::TensorKind::{self, Bool, Float32, Int8, Int16, Int32, Int64, Uint8};
use nnburst_tflite::testing::Value;

use super::{at, rank};
use crate::net::{Net, ValueRange, byte, flag, int};

const NUMBERS: &[TensorKind] = &[Float32, Int8, Uint8, Int16, Int32, Int64];

fn longs(slot: usize, values: &[i32]) -> (usize, Value) {
    (slot, Value::longs(&values.iter().map(|&value| i64::from(value)).collect::<Vec<_>>()))
}

fn many(net: &mut Net, count: i32, low: i32, high: i32) -> Vec<i32> {
    (0..count).map(|_| net.random.within(low, high)).collect()
}

pub(super) fn elementwise(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[NUMBERS, &[Bool]].concat());
    let shape = net.shape((1, 4));
    let a = net.plain_input(kind, &shape);
    let b = net.plain_input(kind, &shape);
    let output = net.file.tensor("out", kind, &shape);
    net.operator(name, &[a, b], &[output], 0, Vec::new());
}

pub(super) fn bits(net: &mut Net, name: &'static str) {
    let shifts = name == "STABLEHLO_SHIFT_LEFT";
    let kind = match shifts {
        true => net.kind(&[Int8, Int16, Int32]),
        false => net.kind(&[Bool, Int8, Int16, Int32, Int64]),
    };
    let shape = net.shape((1, 4));
    let a = net.plain_input(kind, &shape);
    let b = net.plain_input(kind, &shape);
    if shifts {
        // C++ does not say what places beyond an integer do.
        let places = net.inputs.last_mut().map_or(&mut [][..], Vec::as_mut_slice);
        let width = places.len() / usize::try_from(shape.iter().product::<i32>()).unwrap_or(1);
        for (at, byte) in places.iter_mut().enumerate() {
            *byte = if at % width == 0 { *byte % 8 } else { 0 };
        }
    }
    let output = net.file.tensor("out", kind, &shape);
    net.operator(name, &[a, b], &[output], 0, Vec::new());
}

/// A graph that combines two numbers by one operator.
fn body(net: &mut Net, kind: TensorKind, name: Option<&str>) {
    net.file.next_graph();
    let a = net.file.input("a", kind, &[]);
    let b = net.file.input("b", kind, &[]);
    match name {
        Some(name) => {
            let result = net.file.tensor("result", kind, &[]);
            net.file.operator(name, &[a, b], &[result]);
            net.file.outputs(&[result]);
        }
        None => net.file.outputs(&[b]),
    }
}

pub(super) fn scatter(net: &mut Net, name: &'static str) {
    let kind = net.kind(NUMBERS);
    let shape = net.shape((1, 3));
    let own = rank(&shape);
    // Positions for the first dimensions; windows have the others, or ones of 1 for all.
    let depth = net.random.within(1, own);
    let count = net.random.within(1, 4);
    let place = usize::try_from(depth).unwrap_or(1);
    let window: Vec<i32> = shape[place..].iter().map(|&it| net.random.within(1, it)).collect();
    let input = net.plain_input(kind, &shape);
    net.span = ValueRange(0.0, 1.0);
    let indices = net.plain_input(Int32, &[count, depth]);
    net.span = ValueRange(-4.0, 4.0);
    let updates = net.plain_input(kind, &[&[count][..], &window].concat());
    let output = net.file.tensor("out", kind, &shape);
    let firsts: Vec<i32> = (0..depth).collect();
    let fields = vec![
        flag(0, false),
        longs(1, &(1..=own - depth).collect::<Vec<_>>()),
        longs(2, &firsts),
        longs(3, &firsts),
        (4, Value::I64(1)),
        flag(5, false),
        int(6, 1),
    ];
    let tensors = [input, indices, updates];
    net.file.operator_with_second(name, &tensors, &[output], 7, fields);
    net.file.outputs(&[output]);
    let how = [
        None,
        Some("STABLEHLO_ADD"),
        Some("STABLEHLO_MULTIPLY"),
        Some("STABLEHLO_MINIMUM"),
        Some("STABLEHLO_MAXIMUM"),
    ];
    let how = net.random.pick(&how);
    body(net, kind, how);
}

pub(super) fn gather(net: &mut Net, name: &'static str) {
    let kind = net.kind(NUMBERS);
    let shape = net.shape((1, 3));
    let own = rank(&shape);
    let depth = net.random.within(1, own);
    let count = net.random.within(1, 4);
    let sizes: Vec<i32> = shape
        .iter()
        .zip(0..)
        .map(|(&it, axis)| if axis == 0 { 1 } else { net.random.within(1, it) })
        .collect();
    let input = net.plain_input(kind, &shape);
    let index_kind = net.random.pick(&[Int32, Int64]);
    let indices = net.plain_input(index_kind, &[count, depth]);
    let result = [&[count][..], &sizes[1..]].concat();
    let output = net.file.tensor("out", kind, &result);
    let fields = vec![
        longs(0, &(1..own).collect::<Vec<_>>()),
        longs(1, &[0]),
        longs(2, &(0..depth).collect::<Vec<_>>()),
        (3, Value::I64(1)),
        longs(4, &sizes),
    ];
    net.file.operator_with_second(name, &[input, indices], &[output], 16, fields);
    net.file.outputs(&[output]);
}

pub(super) fn pad(net: &mut Net, name: &'static str) {
    let kind = net.kind(NUMBERS);
    let shape = net.shape((1, 4));
    let own = rank(&shape);
    let input = net.plain_input(kind, &shape);
    let filler = net.plain_input(kind, &[]);
    let between = many(net, own, 0, 2);
    if name == "DILATE" {
        let steps: Vec<i32> = between.iter().map(|&gap| gap + 1).collect();
        let result: Vec<i32> =
            shape.iter().zip(&steps).map(|(&it, &by)| (it - 1) * by + 1).collect();
        let output = net.file.tensor("out", kind, &result);
        let steps = net.ints(&steps);
        net.operator(name, &[input, steps, filler], &[output], 0, Vec::new());
        return;
    }
    let low = many(net, own, -2, 3);
    let mut high = many(net, own, -2, 3);
    let mut result = Vec::new();
    for axis in 0..own {
        let wide = (at(&shape, axis) - 1) * (at(&between, axis) + 1) + 1 + at(&low, axis);
        let place = usize::try_from(axis).unwrap_or(0);
        high[place] = high[place].max(1 - wide);
        result.push(wide + high[place]);
    }
    let output = net.file.tensor("out", kind, &result);
    let fields = vec![longs(0, &low), longs(1, &high), longs(2, &between)];
    net.file.operator_with_second(name, &[input, filler], &[output], 10, fields);
    net.file.outputs(&[output]);
}

pub(super) fn window(net: &mut Net, name: &'static str) {
    let kind = net.kind(NUMBERS);
    net.span = ValueRange(-1.0, 1.0);
    let shape = net.shape((1, 4));
    let own = rank(&shape);
    let is_plain = name == "REDUCE_WINDOW";
    let (mut sizes, mut result) = (Vec::new(), Vec::new());
    let (strides, dilations) = (many(net, own, 1, 2), many(net, own, 1, 2));
    let bases = if is_plain { vec![1; shape.len()] } else { many(net, own, 1, 2) };
    let padding = if is_plain { vec![0; 2 * shape.len()] } else { many(net, 2 * own, 0, 2) };
    for axis in 0..own {
        let borders = at(&padding, 2 * axis) + at(&padding, 2 * axis + 1);
        let wide = (at(&shape, axis) - 1) * at(&bases, axis) + 1 + borders;
        let most = (wide - 1) / at(&dilations, axis) + 1;
        let size = net.random.within(1, most.min(3));
        let reach = (size - 1) * at(&dilations, axis) + 1;
        sizes.push(size);
        result.push((wide - reach) / at(&strides, axis) + 1);
    }
    let input = net.plain_input(kind, &shape);
    let first = net.plain_input(kind, &[]);
    let output = net.file.tensor("out", kind, &result);
    if is_plain {
        let mut tensors = vec![input, first];
        for list in [&sizes, &strides, &dilations] {
            let bytes: Vec<u8> = list.iter().flat_map(|&it| i64::from(it).to_le_bytes()).collect();
            tensors.push(net.file.constant("list", Int64, &[own], &bytes));
        }
        let how = net.random.within(1, 6);
        net.file.operator_with_second(name, &tensors, &[output], 20, vec![int(0, how)]);
        net.file.outputs(&[output]);
        return;
    }
    let fields = vec![
        longs(0, &sizes),
        longs(1, &strides),
        longs(2, &bases),
        longs(3, &dilations),
        longs(4, &padding),
        int(5, 1),
    ];
    net.file.operator_with_second(name, &[input, first], &[output], 13, fields);
    net.file.outputs(&[output]);
    let how = [
        "STABLEHLO_ADD",
        "STABLEHLO_MULTIPLY",
        "STABLEHLO_MINIMUM",
        "STABLEHLO_MAXIMUM",
        "ADD",
        "MAXIMUM",
    ];
    let how = net.random.pick(&how);
    body(net, kind, Some(how));
}

pub(super) fn random_bits(net: &mut Net, name: &'static str) {
    let algorithm = net.random.within(0, 2);
    let words = if algorithm < 2 { net.random.within(2, 3) } else { 2 };
    net.label =
        ["default", "Philox", "Threefry"][usize::try_from(algorithm).unwrap_or(0)].to_owned();
    let state = net.file.input("state", TensorKind::Uint64, &[words]);
    let bytes = net.bytes(Int32, &[2 * words]);
    net.inputs.push(bytes);
    let shape = net.shape((1, 3));
    let kind = net.random.pick(&[Int32, Int64, TensorKind::Uint32, TensorKind::Uint64]);
    let next = net.file.tensor("next", TensorKind::Uint64, &[words]);
    let output = net.file.tensor("out", kind, &shape);
    let fields = vec![byte(0, algorithm)];
    net.file.operator_with_second(name, &[state], &[next, output], 19, fields);
    net.file.outputs(&[next, output]);
}

pub(super) fn fake_quant(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32]);
    let shape = net.shape((1, 4));
    let input = net.plain_input(kind, &shape);
    let output = net.file.tensor("out", kind, &shape);
    let (least, most) = (net.random.real(-5.0, 0.0), net.random.real(0.1, 5.0));
    let bits = net.random.within(2, 16);
    let fields = vec![(0, Value::F32(least)), (1, Value::F32(most)), int(2, bits)];
    net.operator(name, &[input], &[output], 58, fields);
}

pub(super) fn sparse_lookup(net: &mut Net, name: &'static str) {
    net.kind(&[Float32]);
    let (lookups, rows) = (net.random.within(1, 6), net.random.within(1, 5));
    let table_shape = [&[rows][..], &net.shape((1, 2))].concat();
    let dense = [net.random.within(1, 3), net.random.within(1, 3), 4];
    let ids: Vec<i32> = many(net, lookups, 0, rows - 1);
    let mut places: Vec<[i32; 3]> =
        (0..lookups).map(|_| dense.map(|extent| net.random.below(extent))).collect();
    places.sort_unstable();
    let bytes = |values: &[i32]| values.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    let ids_tensor = net.file.input("ids", Int32, &[lookups]);
    net.inputs.push(bytes(&ids));
    let places_tensor = net.file.input("places", Int32, &[lookups, 3]);
    net.inputs.push(bytes(&places.concat()));
    let dense_tensor = net.ints(&dense);
    net.span = ValueRange(0.1, 2.0);
    let weights = net.plain_input(Float32, &[lookups]);
    let table = net.plain_input(Float32, &table_shape);
    let result = [&dense[..2], &table_shape[1..]].concat();
    let output = net.file.tensor("out", Float32, &result);
    let tensors = [ids_tensor, places_tensor, dense_tensor, weights, table];
    let combiner = net.random.below(3);
    net.operator(name, &tensors, &[output], 20, vec![byte(0, combiner)]);
}
