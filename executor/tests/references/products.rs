//! Convolutions and dense layers: every type, layout, window and activation, sizes around those of
//! vectors, bytes at their ends, NaN and infinities; in every kernel form.

use nnburst_executor::testing::TestRng;
use nnburst_hal::{ChannelQuant, ExtraParams, Operand, OperandType as T, OperationType as Op};

use crate::arithmetic::{Fixed, activation, fixed};
use crate::model::{Arg, Out, compute_all, seeds};
use crate::tensors::{SIZES, clamped, is_byte, near, number, values, zero_point};

/// Depths of products, of which no conformance case has more than a handful.
const DEPTHS: [u32; 11] = [1, 7, 8, 15, 16, 17, 63, 64, 65, 576, 4608];

/// A product of windows by filters, with all its parameters; a dense layer is a window of one
/// pixel.
#[derive(Clone, Debug)]
struct Product {
    op: Op,
    /// Input, weights, bias.
    kinds: [T; 3],
    nchw: bool,
    /// Batches, height, width, channels.
    input: [i64; 4],
    outputs: i64,
    filter: [i64; 2],
    stride: [i64; 2],
    dilation: [i64; 2],
    /// Top, bottom, left, right.
    pads: [i64; 4],
    /// 1 is SAME, 2 is VALID: then `pads` follow from it.
    implicit: Option<i32>,
    /// Of a grouped convolution.
    groups: i64,
    activation: i32,
    /// Bytes at the ends of their range only; for floats, some NaN and infinities.
    extreme: bool,
}

const TYPES: [[T; 3]; 6] = [
    [T::TensorFloat32, T::TensorFloat32, T::TensorFloat32],
    [T::TensorFloat16, T::TensorFloat16, T::TensorFloat16],
    [T::TensorQuant8Asymm, T::TensorQuant8Asymm, T::TensorInt32],
    [T::TensorQuant8Asymm, T::TensorQuant8SymmPerChannel, T::TensorInt32],
    [T::TensorQuant8AsymmSigned, T::TensorQuant8AsymmSigned, T::TensorInt32],
    [T::TensorQuant8AsymmSigned, T::TensorQuant8SymmPerChannel, T::TensorInt32],
];

fn position(dims: [i64; 4], at: [i64; 4]) -> usize {
    let whole = dims.iter().zip(at).fold(0, |sum, (&extent, at)| sum * extent + at);
    usize::try_from(whole).unwrap()
}

/// In the layout of the operand.
fn laid_out([n, h, w, c]: [i64; 4], nchw: bool) -> [i64; 4] {
    if nchw { [n, c, h, w] } else { [n, h, w, c] }
}

impl Product {
    fn reach(&self, axis: usize) -> i64 {
        (self.filter[axis] - 1) * self.dilation[axis] + 1
    }

    /// Works out the paddings that a code stands for, and the extents of the output.
    fn resolve(&mut self) -> Option<[i64; 4]> {
        let [n, h, w, _] = self.input;
        if self.op == Op::TransposeConv2d {
            let spread = |axis: usize, extent: i64| {
                let pads = self.pads[2 * axis] + self.pads[2 * axis + 1];
                (extent - 1) * self.stride[axis] + self.filter[axis] - pads
            };
            let out = [n, spread(0, h), spread(1, w), self.outputs];
            return (out[1] > 0 && out[2] > 0).then_some(out);
        }
        let mut out = [0; 2];
        for (axis, extent) in [(0, h), (1, w)] {
            let (reach, stride) = (self.reach(axis), self.stride[axis]);
            match self.implicit {
                Some(1) => {
                    let wanted = (extent + stride - 1) / stride;
                    let total = ((wanted - 1) * stride + reach - extent).max(0);
                    self.pads[2 * axis] = total / 2;
                    self.pads[2 * axis + 1] = total - total / 2;
                }
                Some(_) => self.pads[2 * axis..2 * axis + 2].fill(0),
                None => {}
            }
            let room = extent + self.pads[2 * axis] + self.pads[2 * axis + 1] - reach;
            if room < 0 {
                return None;
            }
            out[axis] = room / stride + 1;
        }
        Some([n, out[0], out[1], self.outputs])
    }

    fn filter_dims(&self) -> Vec<i64> {
        let ([fh, fw], c) = (self.filter, self.input[3]);
        match self.op {
            Op::DepthwiseConv2d => vec![1, fh, fw, self.outputs],
            Op::FullyConnected => vec![self.outputs, c],
            _ => vec![self.outputs, fh, fw, c / self.groups],
        }
    }

    /// The product at one output: every tap's input and weight.
    fn sum(&self, x: &[f64], w: &[f64], bias: f64, [n, y, column, o]: [i64; 4]) -> (f64, f64) {
        let [_, height, width, channels] = self.input;
        let dims = laid_out(self.input, self.nchw);
        let group_channels = channels / self.groups;
        let (mut sum, mut size) = (bias, bias.abs());
        for i in 0..self.filter[0] {
            for j in 0..self.filter[1] {
                let (in_y, in_x) = if self.op == Op::TransposeConv2d {
                    // The pixel whose tap lands here, if one does.
                    let (up, left) = (y + self.pads[0] - i, column + self.pads[2] - j);
                    if up % self.stride[0] != 0 || left % self.stride[1] != 0 {
                        continue;
                    }
                    (up / self.stride[0], left / self.stride[1])
                } else {
                    (
                        y * self.stride[0] + i * self.dilation[0] - self.pads[0],
                        column * self.stride[1] + j * self.dilation[1] - self.pads[2],
                    )
                };
                if !(0..height).contains(&in_y) || !(0..width).contains(&in_x) {
                    continue;
                }
                let tap = i * self.filter[1] + j;
                if self.op == Op::DepthwiseConv2d {
                    let c = o / (self.outputs / channels);
                    let at = position(dims, laid_out([n, in_y, in_x, c], self.nchw));
                    let product = x[at] * w[usize::try_from(tap * self.outputs + o).unwrap()];
                    (sum, size) = (sum + product, size + product.abs());
                    continue;
                }
                let first = o / (self.outputs / self.groups) * group_channels;
                for c in 0..group_channels {
                    let at = position(dims, laid_out([n, in_y, in_x, first + c], self.nchw));
                    let taps = self.filter[0] * self.filter[1];
                    let weight = (o * taps + tap) * group_channels + c;
                    let product = x[at] * w[usize::try_from(weight).unwrap()];
                    (sum, size) = (sum + product, size + product.abs());
                }
            }
        }
        (sum, size)
    }

    /// The operands behind activations, weights and bias, in the interface's order.
    fn parameters(&self) -> Vec<Arg> {
        let int = |n: i64| Arg::Int(i32::try_from(n).unwrap());
        if self.op == Op::FullyConnected {
            return vec![Arg::Int(self.activation)];
        }
        let [top, bottom, left, right] = self.pads;
        let mut args = match self.implicit {
            Some(code) => vec![Arg::Int(code)],
            None => [left, right, top, bottom].map(int).to_vec(),
        };
        args.extend([int(self.stride[1]), int(self.stride[0])]);
        match self.op {
            Op::DepthwiseConv2d => args.push(int(self.outputs / self.input[3])),
            Op::GroupedConv2d => args.push(int(self.groups)),
            _ => {}
        }
        args.extend([Arg::Int(self.activation), Arg::Bool(self.nchw)]);
        if !matches!(self.op, Op::GroupedConv2d | Op::TransposeConv2d) {
            args.extend([int(self.dilation[1]), int(self.dilation[0])]);
        }
        args
    }

    fn check(mut self, rng: &mut TestRng) -> bool {
        let Some(out) = self.resolve() else { return false };
        let [input_kind, weight_kind, bias_kind] = self.kinds;
        let is_byte = is_byte(input_kind);
        let (zp_in, zp_w) = (zero_point(rng, input_kind), zero_point(rng, weight_kind));
        let scale = if is_byte { rng.one_of(&[0.5, 0.02, 1.0, 0.007_843]) } else { 0.0 };
        let per_channel = weight_kind == T::TensorQuant8SymmPerChannel;
        let weight_scale = if is_byte && !per_channel { 0.013 } else { 0.0 };
        let dims = laid_out(self.input, self.nchw);
        let x = values(rng, input_kind, &dims, (scale, zp_in), self.extreme);
        let filter = self.filter_dims();
        // An infinite weight times the zeros of the padding is NaN or left out, as the form likes.
        let extreme = self.extreme && is_byte;
        let mut w = values(rng, weight_kind, &filter, (weight_scale, zp_w), extreme);
        let scales: Vec<f32> = (0..self.outputs)
            .map(|_| if per_channel { rng.one_of(&[0.013, 0.001, 0.2]) } else { weight_scale })
            .collect();
        if let (true, Arg::Other(operand, _)) = (per_channel, &mut w.arg) {
            let channel_dim = if self.op == Op::DepthwiseConv2d { 3 } else { 0 };
            operand.extra_params =
                ExtraParams::ChannelQuant(ChannelQuant { scales: scales.clone(), channel_dim });
        }
        let (bias, biases) = self.bias(rng, bias_kind, scale * weight_scale);
        // A result that mostly stays within the range, and multipliers that are often above 1.
        let depth: i64 = filter.iter().product::<i64>() / self.outputs.max(1);
        let typical = rng.one_of(&[0.3f32, 40.0, 900.0]) * (depth.max(1) as f32).sqrt();
        let out_scale = if is_byte { scale * 0.013 * typical } else { 0.0 };
        let zp_out = zero_point(rng, input_kind);
        let mut args = vec![x.arg, w.arg, bias];
        args.extend(self.parameters());
        let (out_dims, count) = if self.op == Op::FullyConnected {
            (vec![number(out[0] * out[1] * out[2]), number(out[3])], out.iter().product::<i64>())
        } else {
            let dims = laid_out(out, self.nchw).map(number).to_vec();
            (dims, out.iter().product())
        };
        let mut want = vec![(0.0, 0.0); usize::try_from(count).unwrap()];
        for n in 0..out[0] {
            for y in 0..out[1] {
                for column in 0..out[2] {
                    for o in 0..out[3] {
                        let bias = biases[usize::try_from(o).unwrap()];
                        let (sum, size) = self.sum(&x.numbers, &w.numbers, bias, [n, y, column, o]);
                        let multiplier = || {
                            multiplier(
                                per_channel,
                                scale,
                                scales[usize::try_from(o).unwrap()],
                                out_scale,
                            )
                        };
                        let value = if is_byte {
                            let range = activation(self.activation, input_kind, out_scale, zp_out);
                            let y = multiplier().times(sum as i64) + i64::from(zp_out);
                            y.clamp(range.0, range.1) as f64
                        } else {
                            clamped(self.activation, sum)
                        };
                        let at = position(
                            laid_out(out, self.nchw),
                            laid_out([n, y, column, o], self.nchw),
                        );
                        want[at] = (value, size);
                    }
                }
            }
        }
        let outs = [Out(input_kind, out_scale, zp_out)];
        compute_all(self.op, &args, &outs, want.len().max(8), |what, values| {
            assert_eq!(values[0].dims, out_dims, "{what}: {self:?}");
            near(&values[0], input_kind, &want)
                .unwrap_or_else(|why| panic!("{what}: {why}: {self:?}"));
        });
        true
    }

    fn bias(&self, rng: &mut TestRng, kind: T, scale: f32) -> (Arg, Vec<f64>) {
        let count = number(self.outputs);
        if kind != T::TensorInt32 {
            let bias = values(rng, kind, &[self.outputs], (0.0, 0), false);
            return (bias.arg, bias.numbers);
        }
        let biases: Vec<i32> =
            (0..count).map(|_| rng.between(0, 20_000).cast_signed() - 10_000).collect();
        let operand = Operand::tensor(kind, vec![count]).with_quantization(scale, 0);
        let bytes = biases.iter().flat_map(|b| b.to_le_bytes()).collect();
        (Arg::Other(operand, bytes), biases.into_iter().map(f64::from).collect())
    }
}

/// Scales of whole tensors are multiplied in f32, those of channels in f64 (see
/// `channel_multiplier`).
fn multiplier(per_channel: bool, input: f32, weights: f32, output: f32) -> Fixed {
    let product = if per_channel {
        f64::from(input) * f64::from(weights)
    } else {
        f64::from(input * weights)
    };
    fixed(product / f64::from(output))
}

/// Windows of any shape over images of few pixels and many or few channels.
fn window_at_random(rng: &mut TestRng, op: Op) -> Product {
    let size = |rng: &mut TestRng| i64::from(rng.one_of(&SIZES));
    let (mut channels, mut outputs, mut groups) = (size(rng), size(rng), 1);
    match op {
        Op::DepthwiseConv2d => outputs = channels * i64::from(rng.one_of(&[1, 1, 2, 3, 5])),
        Op::GroupedConv2d => {
            // More than become a step each, now and then.
            groups = if rng.once_in(8) { 70 } else { i64::from(rng.between(1, 6)) };
            channels = groups * i64::from(rng.one_of(&[1, 2, 3, 8, 17]));
            outputs = groups * i64::from(rng.one_of(&[1, 2, 5, 16]));
        }
        _ => {}
    }
    let mut upto = |low: u32, high: u32| i64::from(rng.between(low, high));
    let input = [upto(1, 2), upto(1, 9), upto(1, 9), channels];
    // The window that has kernels of its own, often.
    let filter = if upto(0, 2) == 0 { [3, 3] } else { [upto(1, 4), upto(1, 4)] };
    // Longer than a transposed convolution's filter and its result, too.
    let longest = if op == Op::TransposeConv2d { 9 } else { 3 };
    let stride = [upto(1, longest), upto(1, longest)];
    let mut dilation = [upto(1, 3), upto(1, 3)];
    if matches!(op, Op::GroupedConv2d | Op::TransposeConv2d) {
        dilation = [1, 1];
    }
    let reach = [0, 1].map(|axis: usize| (filter[axis] - 1) * dilation[axis] + 1);
    let mut pad = |axis: usize| upto(0, number(reach[axis] - 1));
    let pads = [pad(0), pad(0), pad(1), pad(1)];
    Product {
        op,
        kinds: TYPES[rng.below(TYPES.len())],
        nchw: rng.once_in(4),
        input,
        outputs,
        filter,
        stride,
        dilation,
        pads,
        implicit: [None, None, Some(1), Some(2)]
            [if op == Op::TransposeConv2d { 0 } else { rng.below(4) }],
        groups,
        activation: rng.one_of(&[0, 1, 2, 3]),
        extreme: rng.once_in(3),
    }
}

fn windows_at_random(op: Op, count: u64) {
    let (mut compared, seeds) = (0, seeds(count));
    for seed in seeds.clone() {
        let rng = &mut TestRng::of_seed(seed);
        compared += u64::from(window_at_random(rng, op).check(rng));
    }
    assert!(compared > seeds.end / 2, "{compared} of {seeds:?}");
}

#[test]
fn convolutions_of_any_window() {
    windows_at_random(Op::Conv2d, 250);
}

#[test]
fn depthwise_convolutions_of_any_window() {
    windows_at_random(Op::DepthwiseConv2d, 300);
}

#[test]
fn grouped_convolutions_of_any_type() {
    windows_at_random(Op::GroupedConv2d, 120);
}

#[test]
fn transposed_convolutions_of_any_type() {
    windows_at_random(Op::TransposeConv2d, 150);
}

/// A dense layer, or a convolution of one pixel.
fn flat(op: Op, kinds: [T; 3], rows: [i64; 3], depth: i64, outputs: i64) -> Product {
    Product {
        op,
        kinds,
        nchw: false,
        input: [rows[0], rows[1], rows[2], depth],
        outputs,
        filter: [1, 1],
        stride: [1, 1],
        dilation: [1, 1],
        pads: [0; 4],
        implicit: None,
        groups: 1,
        activation: 0,
        extreme: false,
    }
}

#[test]
fn products_of_every_depth() {
    for kinds in TYPES {
        for (at, &depth) in DEPTHS.iter().enumerate() {
            for extreme in [false, true] {
                let rng = &mut TestRng::of_seed(at as u64);
                let outputs = i64::from(rng.one_of(&[1, 3, 16, 17, 33]));
                let rows = [2, i64::from(rng.between(1, 3)), i64::from(rng.between(1, 5))];
                let depth = i64::from(depth);
                let activation = rng.one_of(&[0, 1, 2, 3]);
                let product = flat(Op::Conv2d, kinds, rows, depth, outputs);
                assert!(Product { extreme, activation, ..product }.check(rng));
                if kinds[1] != T::TensorQuant8SymmPerChannel {
                    let product = flat(Op::FullyConnected, kinds, [1, 1, rows[2]], depth, outputs);
                    assert!(Product { extreme, activation, ..product }.check(rng));
                }
            }
        }
    }
}

/// Rows and columns on every side of a tile's edges.
#[test]
fn dense_layers_of_every_shape() {
    for seed in seeds(160) {
        let rng = &mut TestRng::of_seed(seed);
        let kinds = [TYPES[0], TYPES[1], TYPES[2], TYPES[4]][rng.below(4)];
        let [rows, depth, units] = [(); 3].map(|()| i64::from(rng.one_of(&SIZES)));
        let activation = rng.one_of(&[0, 1, 2, 3]);
        let extreme = rng.once_in(4);
        let product = flat(Op::FullyConnected, kinds, [1, 1, rows], depth, units);
        assert!(Product { extreme, activation, ..product }.check(rng));
    }
}

/// A 3x3 window over many channels: depth 576 and 4608 in the shape that networks have.
#[test]
fn deep_windows() {
    for kinds in TYPES {
        for channels in [64, 512] {
            let rng = &mut TestRng::of_seed(channels);
            let product = flat(Op::Conv2d, kinds, [1, 3, 4], channels.cast_signed(), 5);
            let product = Product { filter: [3, 3], implicit: Some(1), stride: [1, 2], ..product };
            assert!(product.check(rng));
        }
    }
}
