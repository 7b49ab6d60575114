//! Convolutions of volumes, and transforms of planes.

use nnburst_tflite::TensorKind::{Complex64, Float32};
use nnburst_tflite::testing::Value;

use crate::net::{Net, byte, int};

/// One axis of a convolution.
struct Axis {
    input: i32,
    filter: i32,
    stride: i32,
    dilation: i32,
    output: i32,
}

impl Axis {
    fn new(net: &mut Net, is_valid: bool) -> Self {
        let (filter, stride) = (net.random.within(1, 3), net.random.within(1, 2));
        let dilation = if stride == 1 { net.random.within(1, 2) } else { 1 };
        let reach = (filter - 1) * dilation + 1;
        let input = net.random.within(reach, 6);
        let output = if is_valid { (input - reach) / stride + 1 } else { (input - 1) / stride + 1 };
        Self { input, filter, stride, dilation, output }
    }
}

pub(super) fn convolution(net: &mut Net, name: &'static str) {
    Float32.name().clone_into(&mut net.label);
    let is_valid = net.random.flag();
    let axes = [0; 3].map(|_| Axis::new(net, is_valid));
    let [batch, channels, outputs] = [2, 5, 9].map(|most| net.random.within(1, most));
    let around = |extents: [i32; 3], last: &[i32]| [&extents[..], last].concat();
    let small = around([&axes[0], &axes[1], &axes[2]].map(|axis| axis.output), &[outputs]);
    let large = around([&axes[0], &axes[1], &axes[2]].map(|axis| axis.input), &[channels]);
    let filter =
        around([&axes[0], &axes[1], &axes[2]].map(|axis| axis.filter), &[channels, outputs]);
    let (small, large) = ([&[batch], &small[..]].concat(), [&[batch], &large[..]].concat());
    let weights = net.bytes(Float32, &filter);
    let weights = net.file.constant("filter", Float32, &filter, &weights);
    let fields = vec![
        byte(0, i32::from(is_valid)),
        int(1, axes[0].stride),
        int(2, axes[2].stride),
        int(3, axes[1].stride),
        byte(4, net.random.below(6)),
        int(5, axes[0].dilation),
        int(6, axes[2].dilation),
        int(7, axes[1].dilation),
    ];
    let with_bias = |net: &mut Net, mut inputs: Vec<i32>, count: i32| {
        if net.random.flag() {
            let bias = net.bytes(Float32, &[count]);
            inputs.push(net.file.constant("bias", Float32, &[count], &bias));
        }
        inputs
    };
    let (inputs, extents) = match name {
        "CONV_3D" => {
            let input = net.plain_input(Float32, &large);
            (with_bias(net, vec![input, weights], outputs), small)
        }
        _ => {
            let shape = net.ints(&large);
            let input = net.plain_input(Float32, &small);
            (with_bias(net, vec![shape, weights, input], channels), large)
        }
    };
    let output = net.file.tensor("out", Float32, &extents);
    net.operator(name, &inputs, &[output], 106, fields);
}

pub(super) fn transform(net: &mut Net, name: &'static str) {
    Float32.name().clone_into(&mut net.label);
    let mut shape = net.shape((2, 4));
    let points = [2, 4, 8, 16];
    let [rows, columns] = [net.random.pick(&points), net.random.pick(&points)];
    let input = net.plain_input(Float32, &shape);
    let sizes = net.ints(&[rows, columns]);
    let last = shape.len() - 2;
    shape[last..].copy_from_slice(&[rows, columns / 2 + 1]);
    let output = net.file.tensor("out", Complex64, &shape);
    net.operator(name, &[input, sizes], &[output], 0, Vec::<(usize, Value)>::new());
}
