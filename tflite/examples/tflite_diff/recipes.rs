//! How a file of each operator is made.

use nnburst_tflite::TensorKind::{self, Bool, Float32, Int8, Int16, Int32, Int64, Uint8};
use nnburst_tflite::testing::Value;

use crate::net::{Net, ValueRange, byte, flag, int};

/// An operator and how a file of it is made.
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&mut Net, &'static str),
}

macro_rules! recipes {
    ($($make:expr => [$($name:literal),*];)*) => {
        /// Every operator, some of them several times.
        pub(crate) const RECIPES: &[Recipe] = &[$($(Recipe { name: $name, make: $make },)*)*];
    };
}

const STORED: &[TensorKind] = &[Int8, Uint8, Int16];

recipes! {
    |net, name| unary(net, name, &[Float32, Int8, Uint8, Int16]) =>
        ["RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "ELU", "LEAKY_RELU"];
    |net, name| unary(net, name, &[Float32, Int8, Int16]) =>
        ["ABS", "EXP", "GELU"];
    |net, name| unary(net, name, &[Float32]) => ["FLOOR", "CEIL", "ROUND", "SIN", "COS", "SQUARE"];
    |net, name| unary(net, name, &[Float32, Int32, Int64]) => ["NEG"];
    |net, name| unary(net, name, &[Float32, Int32]) => ["SIGN"];
    |net, name| unary(net, name, &[Bool]) => ["LOGICAL_NOT"];
    |net, name| positive(net, name, &[Float32, Int8, Int16]) => ["RSQRT", "LOG"];
    |net, name| positive(net, name, &[Float32]) => ["SQRT"];
    |net, name| binary(net, name, &[Float32, Int32, Int64, Int8, Uint8, Int16]) =>
        ["ADD", "SUB", "MUL", "ADD", "SUB", "MUL"];
    |net, name| binary(net, name, &[Float32, Int32, Uint8]) => ["DIV"];
    |net, name| binary(net, name, &[Float32, Int32, Int64, Int8, Uint8, Int16]) =>
        ["MAXIMUM", "MINIMUM"];
    |net, name| binary(net, name, &[Float32, Int32, Int8]) => ["SQUARED_DIFFERENCE"];
    |net, name| binary(net, name, &[Float32, Int32, Int64]) => ["FLOOR_DIV", "FLOOR_MOD"];
    |net, name| binary(net, name, &[Float32]) => ["ATAN2"];
    |net, name| binary(net, name, &[Int32, Int8, Int16]) => ["BITWISE_XOR", "RIGHT_SHIFT"];
    |net, name| binary(net, name, &[Bool]) => ["LOGICAL_AND", "LOGICAL_OR"];
    |net, name| binary(net, name, &[Float32, Int32, Int64, Int8, Uint8, Int16]) =>
        ["LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"];
    prelu => ["PRELU"];
    quantize => ["QUANTIZE", "QUANTIZE"];
    dequantize => ["DEQUANTIZE"];
    cast => ["CAST", "CAST"];
    |net, name| reduce(net, name, &[Float32, Int32, Int64, Int8, Uint8, Int16]) =>
        ["MEAN", "MEAN", "REDUCE_MAX", "REDUCE_MIN"];
    |net, name| reduce(net, name, &[Float32, Int32, Int64]) => ["SUM"];
    |net, name| reduce(net, name, &[Float32, Int32, Int64]) => ["REDUCE_PROD"];
    |net, name| reduce(net, name, &[Bool]) => ["REDUCE_ANY", "REDUCE_ALL"];
    fully_connected => ["FULLY_CONNECTED", "FULLY_CONNECTED", "FULLY_CONNECTED"];
    batch_matmul => ["BATCH_MATMUL", "BATCH_MATMUL"];
    convolution => ["CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTHWISE_CONV_2D"];
    transposed => ["TRANSPOSE_CONV"];
    pool => ["AVERAGE_POOL_2D", "MAX_POOL_2D"];
    softmax => ["SOFTMAX"];
    resize => ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"];
    transpose => ["TRANSPOSE"];
    reshape => ["RESHAPE", "SQUEEZE", "EXPAND_DIMS"];
    slice => ["SLICE"];
    strided_slice => ["STRIDED_SLICE", "STRIDED_SLICE"];
    pad => ["PAD", "PADV2", "MIRROR_PAD"];
    concatenation => ["CONCATENATION", "PACK"];
    split => ["SPLIT", "UNPACK"];
    tile => ["TILE", "BROADCAST_TO"];
    gather => ["GATHER", "GATHER"];
    gather_nd => ["GATHER_ND", "SCATTER_ND"];
    select => ["SELECT_V2", "SELECT"];
    top_k => ["TOPK_V2", "ARG_MAX", "ARG_MIN"];
    cumsum => ["CUMSUM"];
    reverse => ["REVERSE_V2"];
    one_hot => ["ONE_HOT"];
    update => ["DYNAMIC_UPDATE_SLICE"];
}

fn unary(net: &mut Net, name: &'static str, kinds: &[TensorKind]) {
    let kind = net.kind(kinds);
    let shape = net.shape((1, 5));
    let input = net.plain_input(kind, &shape);
    net.quantise(input, kind);
    let output = net.result(kind, &shape);
    match (name, kind) {
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

fn positive(net: &mut Net, name: &'static str, kinds: &[TensorKind]) {
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

impl Net {
    /// Sets a quantisation.
    fn fix(&mut self, tensor: i32, scale: f32, zero_point: i64) {
        self.file.quantize(tensor, &[scale], &[zero_point], 0);
    }
}

/// Two shapes that broadcast, and the wide one.
fn pair(net: &mut Net, most: i32) -> [Vec<i32>; 3] {
    let wide = net.shape((1, most));
    let mut own = [wide.clone(), wide.clone()];
    let which = usize::from(net.random.flag());
    match net.random.below(4) {
        0 => {
            for extent in &mut own[which] {
                if net.random.flag() {
                    *extent = 1;
                }
            }
        }
        1 => {
            let cut = usize::try_from(net.random.below(i32::try_from(wide.len()).unwrap_or(1)));
            own[which].drain(..cut.unwrap_or(0));
        }
        _ => {}
    }
    let [a, b] = own;
    [a, b, wide]
}

fn binary(net: &mut Net, name: &'static str, kinds: &[TensorKind]) {
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
    let activation = net.random.below(4);
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

fn prelu(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8]);
    let shape = net.shape((2, 4));
    let mut slopes = shape.clone();
    slopes[0] = 1;
    let input = net.input(kind, &shape);
    let alpha = net.input(kind, &slopes);
    let output = net.result(kind, &shape);
    net.operator(name, &[input, alpha], &[output], 0, Vec::new());
}

fn quantize(net: &mut Net, name: &'static str) {
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

fn dequantize(net: &mut Net, name: &'static str) {
    let kind = net.kind(STORED);
    let shape = net.shape((1, 4));
    let input = net.input(kind, &shape);
    let output = net.file.tensor("out", Float32, &shape);
    net.operator(name, &[input], &[output], 0, Vec::new());
}

fn cast(net: &mut Net, name: &'static str) {
    let kinds = &[Float32, Int32, Int64, Bool, Int8, Uint8, Int16];
    let (from, to) = (net.random.pick(kinds), net.random.pick(kinds));
    net.label = format!("{}_{}", from.name(), to.name());
    net.span = ValueRange(0.0, 4.0);
    let shape = net.shape((1, 4));
    let input = net.plain_input(from, &shape);
    let output = net.file.tensor("out", to, &shape);
    net.operator(name, &[input], &[output], 0, Vec::new());
}

fn reduce(net: &mut Net, name: &'static str, kinds: &[TensorKind]) {
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
    let input = net.input(kind, &shape);
    let output = if name.contains("MAX") || name.contains("MIN") {
        net.moved(&[input], kind, &extents)
    } else {
        net.result(kind, &extents)
    };
    let axes = net.ints(&axes);
    net.operator(name, &[input, axes], &[output], 27, vec![flag(0, keeps)]);
}

/// Weights of 8 bits as a constant, per tensor or per channel; and their scales.
fn weights(net: &mut Net, shape: &[i32], dimension: i32, kind: TensorKind, each: bool) -> i32 {
    let mut bytes = net.bytes(kind, shape);
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

fn fully_connected(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16]);
    let (rows, depth, units) =
        (net.random.within(1, 4), net.random.within(1, 70), net.random.within(1, 9));
    let input = net.input(kind, &[rows, depth]);
    let is_hybrid = kind == Float32;
    let own = if kind == Uint8 { Uint8 } else { Int8 };
    let each = net.random.flag() && own == Int8;
    if is_hybrid {
        net.label = if each { "hybrid per channel".into() } else { "hybrid".into() };
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

fn batch_matmul(net: &mut Net, name: &'static str) {
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

fn convolution(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Int8, Int16]);
    let is_depthwise = name == "DEPTHWISE_CONV_2D";
    let (height, width) = (net.random.within(4, 9), net.random.within(4, 9));
    let (tall, broad) = (net.random.within(1, 3), net.random.within(1, 3));
    let channels = net.random.within(1, 9);
    let times = net.random.within(1, 2);
    let outputs = if is_depthwise { channels * times } else { net.random.within(1, 9) };
    let (is_same, stride) = (net.random.flag(), net.random.within(1, 2));
    let dilation = if stride == 1 { net.random.within(1, 2) } else { 1 };
    let input = net.input(kind, &[1, height, width, channels]);
    let each = net.random.flag() || is_depthwise;
    let filter = if is_depthwise {
        weights(net, &[1, tall, broad, outputs], 3, Int8, each)
    } else {
        weights(net, &[outputs, tall, broad, channels], 0, Int8, each)
    };
    let bias = bias(net, kind, outputs);
    let extent = |input: i32, filter: i32| {
        let reach = (filter - 1) * dilation + 1;
        if is_same { (input + stride - 1) / stride } else { (input - reach) / stride + 1 }
    };
    let output = net.result(kind, &[1, extent(height, tall), extent(width, broad), outputs]);
    let mut fields = vec![byte(0, i32::from(!is_same)), int(1, stride), int(2, stride)];
    if is_depthwise {
        fields.extend([int(3, times), byte(4, net.random.below(4))]);
        fields.extend([int(5, dilation), int(6, dilation)]);
        net.operator(name, &[input, filter, bias], &[output], 2, fields);
    } else {
        fields.extend([byte(3, net.random.below(4)), int(4, dilation), int(5, dilation)]);
        if kind == Int16 {
            fields.push(byte(6, net.bias_code));
        }
        net.operator(name, &[input, filter, bias], &[output], 1, fields);
    }
}

fn transposed(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Int8, Int16]);
    let (height, width) = (net.random.within(1, 5), net.random.within(1, 5));
    let (filter, stride) = (net.random.within(1, 3), net.random.within(1, 2));
    let (channels, outputs) = (net.random.within(1, 9), net.random.within(1, 5));
    let is_same = net.random.flag();
    let extent = |input: i32| {
        if is_same { input * stride } else { (input - 1) * stride + filter }
    };
    let extents = [1, extent(height), extent(width), outputs];
    let shape = net.ints(&extents);
    let weights = weights(net, &[outputs, filter, filter, channels], 0, Int8, true);
    let input = net.input(kind, &[1, height, width, channels]);
    let bias = bias(net, kind, outputs);
    let output = net.result(kind, &extents);
    let mut fields = vec![byte(0, i32::from(!is_same)), int(1, stride), int(2, stride)];
    if kind == Int16 {
        fields.push(byte(4, net.bias_code));
    }
    net.operator(name, &[shape, weights, input, bias], &[output], 49, fields);
}

fn pool(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16]);
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
    fields.extend([int(3, filter), int(4, filter), byte(5, net.random.below(4))]);
    net.operator(name, &[input], &[output], 5, fields);
}

fn softmax(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16]);
    let shape = net.shape((1, 4));
    let input = net.input(kind, &shape);
    let output = net.file.tensor("out", kind, &shape);
    match kind {
        Int8 => net.fix(output, 1.0 / 256.0, -128),
        Uint8 => net.fix(output, 1.0 / 256.0, 0),
        Int16 => net.fix(output, 1.0 / 32768.0, 0),
        _ => {}
    }
    net.operator(name, &[input], &[output], 9, vec![(0, Value::F32(1.0))]);
}

fn resize(net: &mut Net, name: &'static str) {
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

const ANY: &[TensorKind] = &[Float32, Int8, Uint8, Int16, Int32, Int64];

fn shuffled(net: &mut Net, count: i32) -> Vec<i32> {
    let mut order: Vec<i32> = (0..count).collect();
    for at in (1..order.len()).rev() {
        let other = usize::try_from(net.random.below(i32::try_from(at).unwrap_or(0) + 1));
        order.swap(at, other.unwrap_or(0));
    }
    order
}

fn at(values: &[i32], index: i32) -> i32 {
    values[usize::try_from(index).unwrap_or(0)]
}

fn rank(shape: &[i32]) -> i32 {
    i32::try_from(shape.len()).unwrap_or(0)
}

fn transpose(net: &mut Net, name: &'static str) {
    let kind = net.kind(ANY);
    let shape = net.shape((1, 5));
    let order = shuffled(net, rank(&shape));
    let extents: Vec<i32> = order.iter().map(|&axis| at(&shape, axis)).collect();
    let input = net.plain_input(kind, &shape);
    let output = net.moved(&[input], kind, &extents);
    let order = net.ints(&order);
    net.operator(name, &[input, order], &[output], 0, Vec::new());
}

fn reshape(net: &mut Net, name: &'static str) {
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

fn slice(net: &mut Net, name: &'static str) {
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

fn strided_slice(net: &mut Net, name: &'static str) {
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

fn pad(net: &mut Net, name: &'static str) {
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

fn concatenation(net: &mut Net, name: &'static str) {
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

fn split(net: &mut Net, name: &'static str) {
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

fn tile(net: &mut Net, name: &'static str) {
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

fn gather(net: &mut Net, name: &'static str) {
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

fn gather_nd(net: &mut Net, name: &'static str) {
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

fn select(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16, Int32, Int64, Bool]);
    let [a, b, wide] = pair(net, 4);
    let (own, first, second) =
        if name == "SELECT" { (&wide, &wide, &wide) } else { (&b, &a, &wide) };
    let condition = net.plain_input(Bool, own);
    let (first, second) = (net.plain_input(kind, first), net.plain_input(kind, second));
    let output = net.moved(&[first, second], kind, &wide);
    net.operator(name, &[condition, first, second], &[output], 0, Vec::new());
}

fn top_k(net: &mut Net, name: &'static str) {
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

fn cumsum(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32, Int64]);
    let shape = net.shape((1, 4));
    let axis = net.random.below(rank(&shape));
    let input = net.input(kind, &shape);
    let output = net.result(kind, &shape);
    let axis = net.file.int_constant("axis", &[], &[axis]);
    let fields = vec![flag(0, net.random.flag()), flag(1, net.random.flag())];
    net.operator(name, &[input, axis], &[output], 102, fields);
}

fn reverse(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Uint8, Int8, Int16, Int32, Int64, Bool]);
    let shape = net.shape((1, 4));
    let axis = net.random.below(rank(&shape));
    let input = net.plain_input(kind, &shape);
    let output = net.moved(&[input], kind, &shape);
    let axis = net.ints(&[axis]);
    net.operator(name, &[input, axis], &[output], 0, Vec::new());
}

fn one_hot(net: &mut Net, name: &'static str) {
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

fn update(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Int32, Int64, Bool]);
    let shape = net.shape((1, 4));
    let part: Vec<i32> = shape.iter().map(|&extent| net.random.within(1, extent)).collect();
    let operand = net.plain_input(kind, &shape);
    let update = net.plain_input(kind, &part);
    let starts = net.plain_input(Int32, &[rank(&shape)]);
    let output = net.moved(&[operand, update], kind, &shape);
    net.operator(name, &[operand, update, starts], &[output], 0, Vec::new());
}
