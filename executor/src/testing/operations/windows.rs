//! Products and windows: operations with weights, and pooling.

use nnburst_hal::{OperandType, OperationType as Op};

use super::super::graph::{Maker, Value};
use super::{Made, activation, numbers};

/// A picture of few pixels.
pub(super) fn image(m: &mut Maker<'_>) -> Option<Value> {
    let kind = m.element.kind();
    m.pick(|v| v.rank() == 4 && v.kind == kind && !matches!(v.kind, OperandType::TensorInt32))
}

/// The four extents of an image in either layout: batches, height, width, channels.
pub(super) fn extents(value: &Value, nchw: bool) -> Option<[u32; 4]> {
    match (value.dims.as_slice(), nchw) {
        (&[n, h, w, c], false) | (&[n, c, h, w], true) => Some([n, h, w, c]),
        _ => None,
    }
}

pub(super) fn laid_out([n, h, w, c]: [u32; 4], nchw: bool) -> Vec<u32> {
    if nchw { vec![n, c, h, w] } else { vec![n, h, w, c] }
}

/// Extent of a window's output with explicit padding; `None` where the window doesn't fit.
fn slid(input: u32, pads: u32, filter: u32, stride: u32) -> Option<u32> {
    Some((input + pads).checked_sub(filter)? / stride + 1)
}

/// A quantisation for products of so many terms, where the type has one. Products of products have
/// tiny scales, which some operations refuse: they stay above.
pub(super) fn product_of(m: &mut Maker<'_>, x: &Value, weights: &Value, terms: u32) -> Value {
    let (_, zero_point) = m.quantisation();
    #[expect(clippy::cast_precision_loss, reason = "few terms")]
    let spread = m.rng.one_of(&[1.5f32, 8.0, 40.0]) * (terms as f32).sqrt();
    x.rescaled((x.scale * weights.scale * spread).max(1e-6), zero_point)
}

/// Weights for an input: of its own type, or signed per tensor.
pub(super) fn weights_like(m: &mut Maker<'_>, x: &Value, dims: Vec<u32>) -> Value {
    let weights = x.of(dims);
    let zero_point = m.rng.one_of(&[128, 0, 255, 77]);
    weights.rescaled(m.rng.one_of(&[0.01f32, 0.5, 0.003]), zero_point)
}

fn bias(m: &mut Maker<'_>, x: &Value, weights: &Value, count: u32) -> u32 {
    if x.is_quantised() {
        let scale = x.scale * weights.scale;
        let like = Value { scale, ..x.as_kind(OperandType::TensorInt32).of(vec![count]) };
        m.weights(&like)
    } else {
        let like = x.of(vec![count]);
        m.weights(&like)
    }
}

pub(super) fn conv_2d(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.rng.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (fh, fw) = (m.rng.between(1, 3), m.rng.between(1, 3));
    let (sw, sh) = (m.rng.between(1, 2), m.rng.between(1, 2));
    let (dw, dh) = (m.rng.between(1, 2), m.rng.between(1, 2));
    let (reach_h, reach_w) = ((fh - 1) * dh + 1, (fw - 1) * dw + 1);
    let mut pad = |reach: u32| m.rng.between(0, reach - 1);
    let [l, r, t, b] = [pad(reach_w), pad(reach_w), pad(reach_h), pad(reach_h)];
    let outputs = m.rng.between(1, 20);
    let weights = weights_like(m, &x, vec![outputs, fh, fw, c]);
    let filter = m.weights(&weights);
    let bias = bias(m, &x, &weights, outputs);
    let dims = [n, slid(h, t + b, reach_h, sh)?, slid(w, l + r, reach_w, sw)?, outputs];
    let out = product_of(m, &x.of(laid_out(dims, nchw)), &weights, fh * fw * c);
    let mut inputs = vec![x.operand, filter, bias];
    inputs.extend(numbers(m, &[l, r, t, b, sw, sh]));
    inputs.extend([activation(m), m.bool(nchw)]);
    inputs.extend(numbers(m, &[dw, dh]));
    Some((Op::Conv2d, inputs, vec![out]))
}

pub(super) fn depthwise(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.rng.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (fh, fw) = (m.rng.between(1, 3), m.rng.between(1, 3));
    let (sw, sh) = (m.rng.between(1, 2), m.rng.between(1, 2));
    let mut pad = |reach: u32| m.rng.between(0, reach - 1);
    let [l, r, t, b] = [pad(fw), pad(fw), pad(fh), pad(fh)];
    let multiplier = m.rng.between(1, 3);
    let outputs = c * multiplier;
    let weights = weights_like(m, &x, vec![1, fh, fw, outputs]);
    let filter = m.weights(&weights);
    let bias = bias(m, &x, &weights, outputs);
    let dims = [n, slid(h, t + b, fh, sh)?, slid(w, l + r, fw, sw)?, outputs];
    let out = product_of(m, &x.of(laid_out(dims, nchw)), &weights, fh * fw);
    let mut inputs = vec![x.operand, filter, bias];
    inputs.extend(numbers(m, &[l, r, t, b, sw, sh, multiplier]));
    inputs.extend([activation(m), m.bool(nchw)]);
    Some((Op::DepthwiseConv2d, inputs, vec![out]))
}

pub(super) fn grouped(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.rng.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let groups = (1..=4).filter(|groups| c % groups == 0).max()?;
    let (fh, fw) = (m.rng.between(1, 3), m.rng.between(1, 3));
    let (sw, sh) = (m.rng.between(1, 2), m.rng.between(1, 2));
    let mut pad = |reach: u32| m.rng.between(0, reach - 1);
    let [l, r, t, b] = [pad(fw), pad(fw), pad(fh), pad(fh)];
    let outputs = groups * m.rng.between(1, 4);
    let weights = weights_like(m, &x, vec![outputs, fh, fw, c / groups]);
    let filter = m.weights(&weights);
    let bias = bias(m, &x, &weights, outputs);
    let dims = [n, slid(h, t + b, fh, sh)?, slid(w, l + r, fw, sw)?, outputs];
    let out = product_of(m, &x.of(laid_out(dims, nchw)), &weights, fh * fw * c / groups);
    let mut inputs = vec![x.operand, filter, bias];
    inputs.extend(numbers(m, &[l, r, t, b, sw, sh, groups]));
    inputs.extend([activation(m), m.bool(nchw)]);
    Some((Op::GroupedConv2d, inputs, vec![out]))
}

pub(super) fn transpose_conv(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.rng.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (fh, fw) = (m.rng.between(1, 3), m.rng.between(1, 3));
    let (sw, sh) = (m.rng.between(1, 3), m.rng.between(1, 3));
    let outputs = m.rng.between(1, 5);
    let weights = weights_like(m, &x, vec![outputs, fh, fw, c]);
    let filter = m.weights(&weights);
    let bias = bias(m, &x, &weights, outputs);
    let (t, l) = (m.rng.between(0, 1), m.rng.between(0, 1));
    let out_h = ((h - 1) * sh + fh).checked_sub(t)?;
    let out_w = ((w - 1) * sw + fw).checked_sub(l)?;
    let dims = laid_out([n, out_h, out_w, outputs], nchw);
    let out = product_of(m, &x.of(dims), &weights, fh * fw * c);
    let mut inputs = vec![x.operand, filter, bias];
    inputs.extend(numbers(m, &[l, 0, t, 0, sw, sh]));
    inputs.extend([activation(m), m.bool(nchw)]);
    Some((Op::TransposeConv2d, inputs, vec![out]))
}

pub(super) fn fully_connected(m: &mut Maker<'_>) -> Made {
    let kind = m.element.kind();
    let x = m.pick(|v| v.kind == kind && (2..=4).contains(&v.rank()))?;
    let size = *x.dims.last()?;
    let rows = u32::try_from(x.elements()).ok()? / size;
    let units = m.rng.between(1, 33);
    let weights = weights_like(m, &x, vec![units, size]);
    let filter = m.weights(&weights);
    let bias = bias(m, &x, &weights, units);
    let out = product_of(m, &x.of(vec![rows, units]), &weights, size);
    let activation = activation(m);
    Some((Op::FullyConnected, vec![x.operand, filter, bias, activation], vec![out]))
}

pub(super) fn pool(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.rng.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (fh, fw) = (m.rng.between(1, 4), m.rng.between(1, 4));
    let (sw, sh) = (m.rng.between(1, 3), m.rng.between(1, 3));
    let mut pad = |reach: u32| m.rng.between(0, reach - 1);
    let [l, r, t, b] = [pad(fw), pad(fw), pad(fh), pad(fh)];
    let dims = [n, slid(h, t + b, fh, sh)?, slid(w, l + r, fw, sw)?, c];
    let kind = if m.rng.once_in(2) { Op::AveragePool2d } else { Op::MaxPool2d };
    let mut inputs = vec![x.operand];
    inputs.extend(numbers(m, &[l, r, t, b, sw, sh, fw, fh]));
    inputs.extend([activation(m), m.bool(nchw)]);
    Some((kind, inputs, vec![x.of(laid_out(dims, nchw))]))
}
