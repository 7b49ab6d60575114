//! Layers with weights, windows and rows.

use nnburst_tflite::TensorKind::{
    self, Float16, Float32, Int2, Int4, Int8, Int16, Int32, Int64, Uint8,
};
use nnburst_tflite::testing::Value;

use crate::net::{Net, ValueRange, byte, flag, int};

/// Weights of 8 bits or less as a constant, per tensor or per channel; and their scales.
pub(super) fn weights(
    net: &mut Net,
    shape: &[i32],
    dimension: i32,
    kind: TensorKind,
    each: bool,
) -> i32 {
    let mut bytes = match kind {
        Int4 => packed(net, shape, 4),
        Int2 => packed(net, shape, 2),
        _ => net.bytes(kind, shape),
    };
    if kind == Int8 {
        // Vectors of the interpreter's hybrid kernels overflow at -128; converters don't make it.
        bytes.iter_mut().filter(|byte| **byte == 0x80).for_each(|byte| *byte = 0x81);
    }
    let tensor = net.file.constant("weights", kind, shape, &bytes);
    let channels = if each { shape[usize::try_from(dimension).unwrap_or(0)] } else { 1 };
    let scales: Vec<f32> = (0..channels).map(|_| net.random.real(0.002, 0.02)).collect();
    let zero = if kind == Uint8 { net.random.within(100, 150) } else { 0 };
    let zeros: Vec<i64> = scales.iter().map(|_| i64::from(zero)).collect();
    net.file.quantize(tensor, &scales, &zeros, dimension);
    tensor
}

/// Integers of so many bits, the first of each byte lowest.
fn packed(net: &mut Net, shape: &[i32], bits: usize) -> Vec<u8> {
    let count = shape.iter().product::<i32>().unsigned_abs() as usize;
    let mut bytes = vec![0; count.div_ceil(8 / bits)];
    for at in 0..count {
        let value = u8::try_from(net.random.below(1 << bits)).unwrap_or(0);
        bytes[at * bits / 8] |= value << (at * bits % 8);
    }
    bytes
}

/// Weights of floats as a constant.
fn float_weights(net: &mut Net, shape: &[i32]) -> i32 {
    let bytes = net.bytes(Float32, shape);
    net.file.constant("weights", Float32, shape, &bytes)
}

/// A bias: INT32 beside 8 bits; beside 16 bits INT64 or, now and then, INT32.
fn bias(net: &mut Net, kind: TensorKind, count: i32) -> i32 {
    let kind = match kind {
        Float32 => Float32,
        Int16 if net.random.below(4) != 0 => Int64,
        _ => Int32,
    };
    net.bias_code = if kind == Int64 { 4 } else { 2 };
    net.span = ValueRange(-60.0, 60.0);
    let bytes = net.bytes(kind, &[count]);
    net.span = ValueRange(-4.0, 4.0);
    net.file.constant("bias", kind, &[count], &bytes)
}

pub(super) fn fully_connected(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16]);
    let (rows, depth, units) =
        (net.random.within(1, 4), net.random.within(1, 70), net.random.within(1, 9));
    let input = net.input(kind, &[rows, depth]);
    let is_hybrid = kind == Float32;
    let own = match kind {
        Uint8 => Uint8,
        Float32 => net.random.pick(&[Int8, Int8, Int4, Int2]),
        _ => Int8,
    };
    let each = net.random.flag() && own != Uint8;
    if is_hybrid {
        net.label = if each { "hybrid per channel".into() } else { "hybrid".into() };
        if own != Int8 {
            net.label.push_str(&format!(" {}", own.name()));
        }
    } else if each {
        net.label.push_str(" per channel");
    }
    let filter = weights(net, &[units, depth], 0, own, each);
    let bias = if net.random.flag() { bias(net, kind, units) } else { -1 };
    let output = net.result(kind, &[rows, units]);
    let mut fields = vec![byte(0, net.random.below(4))];
    if bias >= 0 && kind == Int16 {
        fields.push(byte(4, net.bias_code));
    }
    if is_hybrid && net.random.flag() {
        fields.push(flag(3, true));
    }
    net.operator(name, &[input, filter, bias], &[output], 8, fields);
}

pub(super) fn batch_matmul(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Int16]);
    let mut batch = net.shape((0, 2));
    let (rows, depth, columns) =
        (net.random.within(1, 5), net.random.within(1, 40), net.random.within(1, 5));
    let (adj_x, adj_y) = (net.random.flag(), net.random.flag());
    let with = |batch: &[i32], ends: [i32; 2]| [batch, &ends].concat();
    let a = with(&batch, if adj_x { [depth, rows] } else { [rows, depth] });
    let output = with(&batch, [rows, columns]);
    if net.random.below(3) == 0 {
        batch.iter_mut().for_each(|extent| *extent = 1);
    }
    let b = with(&batch, if adj_y { [columns, depth] } else { [depth, columns] });
    let (first, second) = (net.input(kind, &a), net.input(kind, &b));
    let output = net.result(kind, &output);
    let fields = vec![flag(0, adj_x), flag(1, adj_y)];
    net.operator(name, &[first, second], &[output], 101, fields);
}

pub(super) fn convolution(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Int8, Int16, Float32]);
    let is_depthwise = name == "DEPTHWISE_CONV_2D";
    let (height, width) = (net.random.within(5, 9), net.random.within(5, 9));
    let (tall, broad) = (net.random.within(1, 5), net.random.within(1, 5));
    let (batches, depth) = (net.random.within(1, 3), net.random.within(1, 9));
    let groups = if is_depthwise || net.random.flag() { 1 } else { net.random.within(2, 4) };
    let channels = depth * groups;
    let times = net.random.within(1, 2);
    let outputs = if is_depthwise { channels * times } else { net.random.within(1, 40) };
    let outputs = (outputs + groups - 1) / groups * groups;
    let (is_same, stride) = (net.random.flag(), net.random.within(1, 2));
    let is_dilated = stride == 1 && tall.max(broad) <= 3 && net.random.flag();
    let dilation = if is_dilated { 2 } else { 1 };
    let input = net.input(kind, &[batches, height, width, channels]);
    // Of groups on the fly the interpreter takes no other weights.
    let is_hybrid = kind == Float32 && net.random.below(3) != 0;
    let each = net.random.flag() || is_depthwise || (is_hybrid && groups > 1);
    if is_hybrid {
        net.label = if each { "hybrid per channel".into() } else { "hybrid".into() };
    }
    if groups > 1 {
        net.label.push_str(" in groups");
    }
    let (shape, dimension) = match is_depthwise {
        true => ([1, tall, broad, outputs], 3),
        false => ([outputs, tall, broad, depth], 0),
    };
    let filter = match kind == Float32 && !is_hybrid {
        true => float_weights(net, &shape),
        false => weights(net, &shape, dimension, Int8, each),
    };
    let bias = bias(net, kind, outputs);
    let extent = |input: i32, filter: i32| {
        let reach = (filter - 1) * dilation + 1;
        if is_same { (input + stride - 1) / stride } else { (input - reach) / stride + 1 }
    };
    let extents = [batches, extent(height, tall), extent(width, broad), outputs];
    let output = net.result(kind, &extents);
    let mut fields = vec![byte(0, i32::from(!is_same)), int(1, stride), int(2, stride)];
    if is_depthwise {
        fields.extend([int(3, times), byte(4, net.random.below(6))]);
        fields.extend([int(5, dilation), int(6, dilation)]);
        net.operator(name, &[input, filter, bias], &[output], 2, fields);
    } else {
        fields.extend([byte(3, net.random.below(6)), int(4, dilation), int(5, dilation)]);
        if kind == Int16 {
            fields.push(byte(6, net.bias_code));
        }
        net.operator(name, &[input, filter, bias], &[output], 1, fields);
    }
}

pub(super) fn transposed(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Int8, Int16, Float32]);
    let (height, width) = (net.random.within(1, 5), net.random.within(1, 5));
    let (filter, stride) = (net.random.within(1, 3), net.random.within(1, 3));
    let (channels, outputs) = (net.random.within(1, 9), net.random.within(1, 5));
    let is_same = net.random.flag();
    let extent = |input: i32| {
        if is_same { input * stride } else { (input - 1) * stride + filter }
    };
    let (mut rows, mut columns) = (extent(height), extent(width));
    if !is_same {
        // Less than a stride behind the last products there may be the bias alone.
        rows += net.random.below(stride);
        columns += net.random.below(stride);
    }
    let batches = net.random.within(1, 2);
    let extents = [batches, rows, columns, outputs];
    let shape = net.ints(&extents);
    let filters = [outputs, filter, filter, channels];
    let is_hybrid = kind == Float32 && net.random.flag();
    let each = !is_hybrid || net.random.flag();
    if is_hybrid {
        net.label = if each { "hybrid per channel".into() } else { "hybrid".into() };
    }
    let weights = match kind {
        Float32 if !is_hybrid => float_weights(net, &filters),
        _ => weights(net, &filters, 0, Int8, each),
    };
    let input = net.input(kind, &[batches, height, width, channels]);
    let bias = if is_hybrid && net.random.flag() { -1 } else { bias(net, kind, outputs) };
    let output = net.result(kind, &extents);
    let mut fields = vec![byte(0, i32::from(!is_same)), int(1, stride), int(2, stride)];
    if kind == Int16 {
        fields.push(byte(4, net.bias_code));
    }
    if is_hybrid {
        fields.push(byte(3, net.random.below(4)));
    }
    let inputs = [shape, weights, input, bias];
    let inputs = if bias < 0 { &inputs[..3] } else { &inputs };
    net.operator(name, inputs, &[output], 49, fields);
}

pub(super) fn pool(net: &mut Net, name: &'static str) {
    let kinds: &[_] =
        if name == "L2_POOL_2D" { &[Float32] } else { &[Float32, Int8, Uint8, Int16] };
    let kind = net.kind(kinds);
    let (height, width) = (net.random.within(3, 9), net.random.within(3, 9));
    let (filter, stride) = (net.random.within(1, 3), net.random.within(1, 2));
    let channels = net.random.within(1, 9);
    let is_same = net.random.flag();
    let extent = |input: i32| {
        if is_same { (input + stride - 1) / stride } else { (input - filter) / stride + 1 }
    };
    let input = net.plain_input(kind, &[1, height, width, channels]);
    let output = net.moved(&[input], kind, &[1, extent(height), extent(width), channels]);
    let mut fields = vec![byte(0, i32::from(!is_same)), int(1, stride), int(2, stride)];
    fields.extend([int(3, filter), int(4, filter), byte(5, net.random.below(6))]);
    net.operator(name, &[input], &[output], 5, fields);
}

pub(super) fn normalisation(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8]);
    let shape = net.shape((1, 4));
    let input = net.input(kind, &shape);
    let output = net.file.tensor("out", kind, &shape);
    match kind {
        Int8 => net.fix(output, 1.0 / 128.0, 0),
        Uint8 => net.fix(output, 1.0 / 128.0, 128),
        _ => {}
    }
    net.operator(name, &[input], &[output], 12, vec![byte(0, 0)]);
}

pub(super) fn svdf(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8]);
    let is_hybrid = kind == Float32;
    if is_hybrid {
        net.label = "hybrid".into();
    }
    let [batch, depth, units, rank, memory] =
        [3, 20, 5, 3, 6].map(|most| net.random.within(1, most));
    let filters = units * rank;
    let input = net.input(kind, &[batch, depth]);
    let features = weights(net, &[filters, depth], 0, Int8, false);
    let (time_kind, state_kind) = if is_hybrid { (Int8, Float32) } else { (Int16, Int16) };
    let time = net.bytes(time_kind, &[filters, memory]);
    let time = net.file.constant("time", time_kind, &[filters, memory], &time);
    net.fix(time, net_scale(is_hybrid), 0);
    let bias_kind = if is_hybrid { Float32 } else { Int8 };
    let bias = if net.random.flag() { bias(net, bias_kind, units) } else { -1 };
    let state = net.file.tensor("state", state_kind, &[batch, filters * memory]);
    net.file.variable(state);
    if !is_hybrid {
        net.fix(state, 0.0005, 0);
    }
    let output = net.result(kind, &[batch, units]);
    // Of integers the interpreter knows RELU alone.
    let activation = if is_hybrid { net.random.below(2) } else { 1 };
    let mut fields = vec![int(0, rank), byte(1, activation)];
    if is_hybrid && net.random.flag() {
        fields.push(flag(2, true));
    }
    net.operator(name, &[input, features, time, bias, state], &[output], 6, fields);
}

pub(super) fn rnn(net: &mut Net, name: &'static str) {
    net.label = "hybrid".into();
    let [batch, depth, units, steps] = [3, 20, 6, 5].map(|most| net.random.within(1, most));
    let is_sequence = name != "RNN";
    let is_first = is_sequence && net.random.flag();
    let mut rows = vec![batch];
    if is_sequence {
        rows.insert(usize::from(!is_first), steps);
    }
    let input = net.input(Float32, &[&rows[..], &[depth]].concat());
    let from_input = weights(net, &[units, depth], 0, Int8, false);
    let from_state = weights(net, &[units, units], 0, Int8, false);
    let bias = bias(net, Float32, units);
    let state = net.file.tensor("state", Float32, &[batch, units]);
    net.file.variable(state);
    let output = net.result(Float32, &[&rows[..], &[units]].concat());
    let activation = net.random.pick(&[0, 1, 4]);
    let mut fields = vec![byte(0, activation), flag(1, net.random.flag())];
    if is_sequence {
        let is_asymmetric = net.random.flag();
        fields = vec![flag(0, is_first), byte(1, activation), flag(2, is_asymmetric)];
    }
    let inputs = [input, from_input, from_state, bias, state];
    net.operator(name, &inputs, &[output], if is_sequence { 31 } else { 7 }, fields);
}

/// The scale of weights over time.
fn net_scale(is_hybrid: bool) -> f32 {
    if is_hybrid { 0.01 } else { 0.0001 }
}

pub(super) fn softmax(net: &mut Net, name: &'static str) {
    let is_log = name == "LOG_SOFTMAX";
    let kinds = [Float32, Int8, Uint8, Int16, Float16];
    let kind = net.kind(if is_log { &kinds[..3] } else { &kinds });
    let shape = net.shape((1, 4));
    let input = net.input(kind, &shape);
    if kind != Int16 && net.random.below(3) == 0 {
        // Smaller ones end the process of the interpreter.
        let scale = net.random.scale(2e-8, 30.0);
        net.quantise_by(input, kind, scale);
    }
    let output = net.file.tensor("out", kind, &shape);
    if is_log {
        match kind {
            Int8 => net.fix(output, 1.0 / 16.0, 127),
            Uint8 => net.fix(output, 1.0 / 16.0, 255),
            _ => {}
        }
        net.operator(name, &[input], &[output], 0, Vec::new());
        return;
    }
    match kind {
        Int8 => net.fix(output, 1.0 / 256.0, -128),
        // Of which the interpreter does not look at the scale.
        Uint8 if net.random.below(4) == 0 => net.quantise(output, kind),
        Uint8 => net.fix(output, 1.0 / 256.0, 0),
        Int16 => net.fix(output, 1.0 / 32768.0, 0),
        _ => {}
    }
    let beta = if matches!(kind, Float16 | Float32) {
        net.random.pick(&[1.0, 0.5, 0.0, -1.0])
    } else {
        1.0
    };
    net.operator(name, &[input], &[output], 9, vec![(0, Value::F32(beta))]);
}

pub(super) fn resize(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16]);
    let size = [net.random.within(1, 12), net.random.within(1, 12)];
    let (height, width) = (net.random.within(1, 6), net.random.within(1, 6));
    let channels = net.random.within(1, 5);
    let input = net.plain_input(kind, &[1, height, width, channels]);
    let output = net.moved(&[input], kind, &[1, size[0], size[1], channels]);
    let is_half = net.random.flag();
    let is_aligned = !is_half && net.random.flag();
    let (union, slot) = if name == "RESIZE_BILINEAR" { (15, 2) } else { (74, 0) };
    let size = net.ints(&size);
    let fields = vec![flag(slot, is_aligned), flag(slot + 1, is_half)];
    net.operator(name, &[input, size], &[output], union, fields);
}
