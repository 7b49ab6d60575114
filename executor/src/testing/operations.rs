//! How each operation of a graph of chance is made, with its shape rule.

use nnburst_hal::{OperandType, OperationType as Op};

use super::graph::{Element, Make, Maker, Value};

type Made = Option<(Op, Vec<u32>, Vec<Value>)>;

/// Every maker. Some are there twice: what is computed with SIMD deserves more tries.
pub(super) const TABLE: &[Make] = &[
    unary,
    unary,
    binary,
    binary,
    binary_constant,
    binary_constant,
    conv_2d,
    conv_2d,
    conv_2d,
    depthwise,
    depthwise,
    grouped,
    transpose_conv,
    fully_connected,
    fully_connected,
    pool,
    pool,
    reshape,
    transpose,
    transpose,
    slice,
    strided_slice,
    pad,
    concatenation,
    split,
    tile,
    expand_dims,
    squeeze,
    shuffle,
    gather,
    softmax,
    mean,
    reduce,
    arg,
    convert,
    convert,
    compare,
    select,
    topk,
    space_to_depth,
    depth_to_space,
    space_to_batch,
    resize,
    prelu,
];

/// A picture of few pixels.
fn image(m: &mut Maker<'_>) -> Option<Value> {
    let kind = m.element.kind();
    m.pick(|v| v.rank() == 4 && v.kind == kind && !matches!(v.kind, OperandType::TensorInt32))
}

/// The four extents of an image in either layout: batches, height, width, channels.
fn extents(value: &Value, nchw: bool) -> Option<[u32; 4]> {
    match (value.dims.as_slice(), nchw) {
        (&[n, h, w, c], false) | (&[n, c, h, w], true) => Some([n, h, w, c]),
        _ => None,
    }
}

fn laid_out([n, h, w, c]: [u32; 4], nchw: bool) -> Vec<u32> {
    if nchw { vec![n, c, h, w] } else { vec![n, h, w, c] }
}

fn signed(values: &[u32]) -> Vec<i32> {
    values.iter().map(|value| value.cast_signed()).collect()
}

/// Extent of a window's output with explicit padding; `None` where the window doesn't fit.
fn slid(input: u32, pads: u32, filter: u32, stride: u32) -> Option<u32> {
    Some((input + pads).checked_sub(filter)? / stride + 1)
}

/// A quantisation for products of so many terms, where the type has one.
fn product_of(m: &mut Maker<'_>, x: &Value, weights: &Value, terms: u32) -> Value {
    let (_, zero_point) = m.quantisation();
    #[expect(clippy::cast_precision_loss, reason = "few terms")]
    let spread = m.chance.one_of(&[1.5f32, 8.0, 40.0]) * (terms as f32).sqrt();
    x.rescaled(x.scale * weights.scale * spread, zero_point)
}

/// Weights for an input: of its own type, or signed per tensor.
fn weights_like(m: &mut Maker<'_>, x: &Value, dims: Vec<u32>) -> Value {
    let weights = x.of(dims);
    let zero_point = m.chance.one_of(&[128, 0, 255, 77]);
    weights.rescaled(m.chance.one_of(&[0.01f32, 0.5, 0.003]), zero_point)
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

fn activation(m: &mut Maker<'_>) -> u32 {
    let code = m.chance.one_of(&[0, 0, 1, 2, 3]);
    m.int(code)
}

fn numbers(m: &mut Maker<'_>, values: &[u32]) -> Vec<u32> {
    values.iter().map(|value| m.int(value.cast_signed())).collect()
}

fn unary(m: &mut Maker<'_>) -> Made {
    let smooth =
        [Op::Relu, Op::Relu1, Op::Relu6, Op::Logistic, Op::Tanh, Op::HardSwish, Op::Abs, Op::Neg];
    let x = m.pick(|_| true)?;
    let at = m.chance.below(smooth.len() + 1);
    let kind = smooth.get(at).copied();
    let kind = match kind {
        Some(kind) => kind,
        None if x.kind == OperandType::TensorBool8 => Op::LogicalNot,
        None => Op::Elu,
    };
    let mut out = x.of(x.dims.clone());
    out = match kind {
        Op::Logistic => out.rescaled(1.0 / 256.0, 0),
        Op::Tanh => out.rescaled(1.0 / 128.0, 128),
        Op::HardSwish => {
            let (scale, zero_point) = m.quantisation();
            out.rescaled(scale, zero_point)
        }
        _ => out,
    };
    if kind == Op::Elu {
        let alpha = m.float(x.kind, 1.0);
        return Some((kind, vec![x.operand, alpha], vec![out]));
    }
    Some((kind, vec![x.operand], vec![out]))
}

/// The shape two shapes broadcast to.
fn broadcast(a: &[u32], b: &[u32]) -> Option<Vec<u32>> {
    let rank = a.len().max(b.len());
    let at = |dims: &[u32], axis: usize| {
        (axis + dims.len()).checked_sub(rank).and_then(|axis| dims.get(axis)).copied().unwrap_or(1)
    };
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (x, y) if x == y || y == 1 => Some(x),
            (1, y) => Some(y),
            _ => None,
        })
        .collect()
}

fn arithmetic(m: &mut Maker<'_>, a: &Value, b: &Value, b_operand: u32) -> Made {
    let dims = broadcast(&a.dims, &b.dims)?;
    let kinds = [Op::Add, Op::Sub, Op::Mul, Op::Maximum, Op::Minimum];
    let kind = *kinds.get(m.chance.below(kinds.len()))?;
    let mut out = a.of(dims);
    if kind == Op::Mul {
        out = product_of(m, &out, b, 1);
    } else if m.chance.once_in(2) {
        let (scale, zero_point) = m.quantisation();
        out = out.rescaled(scale, zero_point);
    }
    let mut inputs = vec![a.operand, b_operand];
    if matches!(kind, Op::Add | Op::Sub | Op::Mul) {
        let activation = if a.kind == OperandType::TensorInt32 { m.int(0) } else { activation(m) };
        inputs.push(activation);
    }
    Some((kind, inputs, vec![out]))
}

fn binary(m: &mut Maker<'_>) -> Made {
    let a = m.pick(|v| v.rank() <= 4 && v.kind != OperandType::TensorBool8)?;
    let b =
        m.pick(|v| v.kind == a.kind && broadcast(&v.dims, &a.dims).is_some() && v.rank() <= 4)?;
    arithmetic(m, &a, &b, b.operand)
}

fn binary_constant(m: &mut Maker<'_>) -> Made {
    let a = m.pick(|v| v.rank() <= 4 && v.kind != OperandType::TensorBool8)?;
    let skip = m.chance.below(a.rank());
    let dims: Vec<u32> =
        a.dims.iter().skip(skip).map(|&n| if m.chance.once_in(3) { 1 } else { n }).collect();
    let (scale, zero_point) = m.quantisation();
    let b = a.of(dims).rescaled(scale, zero_point);
    let constant = m.weights(&b);
    arithmetic(m, &a, &b, constant)
}

fn conv_2d(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.chance.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (fh, fw) = (m.chance.between(1, 3), m.chance.between(1, 3));
    let (sw, sh) = (m.chance.between(1, 2), m.chance.between(1, 2));
    let (dw, dh) = (m.chance.between(1, 2), m.chance.between(1, 2));
    let (reach_h, reach_w) = ((fh - 1) * dh + 1, (fw - 1) * dw + 1);
    let mut pad = |reach: u32| m.chance.between(0, reach - 1);
    let [l, r, t, b] = [pad(reach_w), pad(reach_w), pad(reach_h), pad(reach_h)];
    let outputs = m.chance.between(1, 20);
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

fn depthwise(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.chance.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (fh, fw) = (m.chance.between(1, 3), m.chance.between(1, 3));
    let (sw, sh) = (m.chance.between(1, 2), m.chance.between(1, 2));
    let mut pad = |reach: u32| m.chance.between(0, reach - 1);
    let [l, r, t, b] = [pad(fw), pad(fw), pad(fh), pad(fh)];
    let multiplier = m.chance.between(1, 3);
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

fn grouped(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.chance.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let groups = (1..=4).filter(|groups| c % groups == 0).max()?;
    let (fh, fw) = (m.chance.between(1, 3), m.chance.between(1, 3));
    let (sw, sh) = (m.chance.between(1, 2), m.chance.between(1, 2));
    let mut pad = |reach: u32| m.chance.between(0, reach - 1);
    let [l, r, t, b] = [pad(fw), pad(fw), pad(fh), pad(fh)];
    let outputs = groups * m.chance.between(1, 4);
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

fn transpose_conv(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.chance.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (fh, fw) = (m.chance.between(1, 3), m.chance.between(1, 3));
    let (sw, sh) = (m.chance.between(1, 3), m.chance.between(1, 3));
    let outputs = m.chance.between(1, 5);
    let weights = weights_like(m, &x, vec![outputs, fh, fw, c]);
    let filter = m.weights(&weights);
    let bias = bias(m, &x, &weights, outputs);
    let (t, l) = (m.chance.between(0, 1), m.chance.between(0, 1));
    let out_h = ((h - 1) * sh + fh).checked_sub(t)?;
    let out_w = ((w - 1) * sw + fw).checked_sub(l)?;
    let dims = laid_out([n, out_h, out_w, outputs], nchw);
    let out = product_of(m, &x.of(dims), &weights, fh * fw * c);
    let mut inputs = vec![x.operand, filter, bias];
    inputs.extend(numbers(m, &[l, 0, t, 0, sw, sh]));
    inputs.extend([activation(m), m.bool(nchw)]);
    Some((Op::TransposeConv2d, inputs, vec![out]))
}

fn fully_connected(m: &mut Maker<'_>) -> Made {
    let kind = m.element.kind();
    let x = m.pick(|v| v.kind == kind && (2..=4).contains(&v.rank()))?;
    let size = *x.dims.last()?;
    let rows = u32::try_from(x.elements()).ok()? / size;
    let units = m.chance.between(1, 33);
    let weights = weights_like(m, &x, vec![units, size]);
    let filter = m.weights(&weights);
    let bias = bias(m, &x, &weights, units);
    let out = product_of(m, &x.of(vec![rows, units]), &weights, size);
    let activation = activation(m);
    Some((Op::FullyConnected, vec![x.operand, filter, bias, activation], vec![out]))
}

fn pool(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.chance.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (fh, fw) = (m.chance.between(1, 4), m.chance.between(1, 4));
    let (sw, sh) = (m.chance.between(1, 3), m.chance.between(1, 3));
    let mut pad = |reach: u32| m.chance.between(0, reach - 1);
    let [l, r, t, b] = [pad(fw), pad(fw), pad(fh), pad(fh)];
    let dims = [n, slid(h, t + b, fh, sh)?, slid(w, l + r, fw, sw)?, c];
    let kind = if m.chance.once_in(2) { Op::AveragePool2d } else { Op::MaxPool2d };
    let mut inputs = vec![x.operand];
    inputs.extend(numbers(m, &[l, r, t, b, sw, sh, fw, fh]));
    inputs.extend([activation(m), m.bool(nchw)]);
    Some((kind, inputs, vec![x.of(laid_out(dims, nchw))]))
}

fn reshape(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|_| true)?;
    let count = u32::try_from(x.elements()).ok()?;
    let first = (1..=8).filter(|&part| count.is_multiple_of(part)).max()?;
    let dims = if m.chance.once_in(3) {
        vec![1, first, 1, count / first]
    } else {
        vec![first, count / first]
    };
    let mut wanted = signed(&dims);
    if m.chance.once_in(2) {
        let at = m.chance.below(wanted.len());
        *wanted.get_mut(at)? = -1;
    }
    let shape = m.list(&wanted);
    Some((Op::Reshape, vec![x.operand, shape], vec![x.of(dims)]))
}

fn transpose(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| (1..=4).contains(&v.rank()))?;
    let mut axes: Vec<usize> = (0..x.rank()).collect();
    for at in (1..axes.len()).rev() {
        axes.swap(at, m.chance.below(at + 1));
    }
    let dims = axes.iter().filter_map(|&axis| x.dims.get(axis)).copied().collect();
    let axes: Vec<i32> = axes.iter().filter_map(|&axis| i32::try_from(axis).ok()).collect();
    let axes = m.list(&axes);
    Some((Op::Transpose, vec![x.operand, axes], vec![x.of(dims)]))
}

fn slice(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|_| true)?;
    let (mut begins, mut sizes, mut dims) = (Vec::new(), Vec::new(), Vec::new());
    for &extent in &x.dims {
        let begin = m.chance.between(0, extent - 1);
        let size = m.chance.between(1, extent - begin);
        let rest = size == extent - begin && m.chance.once_in(2);
        begins.push(begin.cast_signed());
        sizes.push(if rest { -1 } else { size.cast_signed() });
        dims.push(size);
    }
    let (begins, sizes) = (m.list(&begins), m.list(&sizes));
    Some((Op::Slice, vec![x.operand, begins, sizes], vec![x.of(dims)]))
}

fn strided_slice(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let (mut begins, mut ends, mut steps, mut dims) = (vec![], vec![], vec![], vec![]);
    for &extent in &x.dims {
        let step = m.chance.between(1, 3);
        let (low, high) = (m.chance.between(0, extent - 1), extent);
        let count = (high - low).div_ceil(step);
        let (low, high, extent) = (low.cast_signed(), high.cast_signed(), extent.cast_signed());
        if m.chance.once_in(3) {
            // Backwards from the last to the first.
            begins.push(high - 1);
            ends.push(low - 1 - extent);
            steps.push(-step.cast_signed());
        } else {
            begins.push(if m.chance.once_in(2) { low - extent } else { low });
            ends.push(high + 5);
            steps.push(step.cast_signed());
        }
        dims.push(count);
    }
    let lists = [m.list(&begins), m.list(&ends), m.list(&steps)];
    let masks = [m.int(0), m.int(0), m.int(0)];
    let inputs = [x.operand].into_iter().chain(lists).chain(masks).collect();
    Some((Op::StridedSlice, inputs, vec![x.of(dims)]))
}

fn pad(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let (mut paddings, mut dims) = (Vec::new(), Vec::new());
    for &extent in &x.dims {
        let (head, tail) = (m.chance.between(0, 2), m.chance.between(0, 2));
        paddings.extend([head.cast_signed(), tail.cast_signed()]);
        dims.push(extent + head + tail);
    }
    let rank = u32::try_from(x.rank()).ok()?;
    let paddings = m.ints(&paddings, vec![rank, 2]);
    Some((Op::Pad, vec![x.operand, paddings], vec![x.of(dims)]))
}

fn axis_of(m: &mut Maker<'_>, x: &Value) -> (usize, i32) {
    let axis = m.chance.below(x.rank());
    let rank = i32::try_from(x.rank()).unwrap_or(0);
    let code = i32::try_from(axis).unwrap_or(0);
    (axis, if m.chance.once_in(2) { code - rank } else { code })
}

fn concatenation(m: &mut Maker<'_>) -> Made {
    let a = m.pick(|v| v.rank() <= 4)?;
    let (axis, code) = axis_of(m, &a);
    let fits = |v: &Value| {
        let other = |(at, (x, y)): (usize, (&u32, &u32))| at == axis || x == y;
        v.kind == a.kind
            && v.rank() == a.rank()
            && v.dims.iter().zip(&a.dims).enumerate().all(other)
    };
    let b = m.pick(fits)?;
    let mut out = a.of(a.dims.clone());
    *out.dims.get_mut(axis)? += b.dims.get(axis)?;
    if m.chance.once_in(2) {
        let (scale, zero_point) = m.quantisation();
        out = out.rescaled(scale, zero_point);
    }
    let axis = m.int(code.max(i32::try_from(axis).ok()?));
    Some((Op::Concatenation, vec![a.operand, b.operand, axis], vec![out]))
}

fn split(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|_| true)?;
    let (axis, code) = axis_of(m, &x);
    let extent = *x.dims.get(axis)?;
    let parts = (1..=3).filter(|&parts| extent.is_multiple_of(parts)).max()?;
    let mut dims = x.dims.clone();
    *dims.get_mut(axis)? = extent / parts;
    let inputs = vec![x.operand, m.int(code), m.int(parts.cast_signed())];
    Some((Op::Split, inputs, (0..parts).map(|_| x.of(dims.clone())).collect()))
}

fn tile(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.elements() < 500)?;
    let multiples: Vec<u32> = x.dims.iter().map(|_| m.chance.between(1, 2)).collect();
    let dims = x.dims.iter().zip(&multiples).map(|(extent, times)| extent * times).collect();
    let multiples = m.list(&signed(&multiples));
    Some((Op::Tile, vec![x.operand, multiples], vec![x.of(dims)]))
}

fn expand_dims(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() < 4)?;
    let at = m.chance.below(x.rank() + 1);
    let mut dims = x.dims.clone();
    dims.insert(at, 1);
    let axis = m.int(i32::try_from(at).ok()?);
    Some((Op::ExpandDims, vec![x.operand, axis], vec![x.of(dims)]))
}

fn squeeze(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4 && v.dims.contains(&1) && v.elements() > 1)?;
    let at = x.dims.iter().position(|&extent| extent == 1)?;
    let mut dims = x.dims.clone();
    dims.remove(at);
    let axes = m.list(&[i32::try_from(at).ok()?]);
    Some((Op::Squeeze, vec![x.operand, axes], vec![x.of(dims)]))
}

fn shuffle(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let (axis, code) = axis_of(m, &x);
    let extent = *x.dims.get(axis)?;
    let groups = (1..=4).filter(|&groups| extent.is_multiple_of(groups)).max()?;
    let inputs = vec![x.operand, m.int(groups.cast_signed()), m.int(code)];
    Some((Op::ChannelShuffle, inputs, vec![x.of(x.dims.clone())]))
}

fn gather(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let (axis, code) = axis_of(m, &x);
    let extent = *x.dims.get(axis)?;
    let shape = if m.chance.once_in(2) { vec![2, 3] } else { vec![4] };
    let count: u32 = shape.iter().product();
    let indices: Vec<i32> =
        (0..count).map(|_| m.chance.between(0, extent - 1).cast_signed()).collect();
    let mut dims = x.dims.clone();
    dims.splice(axis..=axis, shape.iter().copied());
    let indices = m.ints(&indices, shape);
    Some((Op::Gather, vec![x.operand, m.int(code), indices], vec![x.of(dims)]))
}

fn softmax(m: &mut Maker<'_>) -> Made {
    // Scales that products made tiny are refused.
    let x = m.pick(|v| v.rank() <= 4 && (v.is_real() || v.scale > 1e-3))?;
    let beta = m.float(x.kind, 0.5);
    let (_, code) = axis_of(m, &x);
    let out = x.of(x.dims.clone()).rescaled(1.0 / 256.0, 0);
    Some((Op::Softmax, vec![x.operand, beta, m.int(code)], vec![out]))
}

/// Axes to reduce, and what is left.
fn reduction(m: &mut Maker<'_>, x: &Value) -> (u32, bool, Vec<u32>) {
    let gone: Vec<bool> = x.dims.iter().map(|_| m.chance.once_in(2)).collect();
    let keep = m.chance.once_in(2);
    let rank = i32::try_from(x.rank()).unwrap_or(0);
    let axes: Vec<i32> =
        gone.iter().zip(0..).filter(|(gone, _)| **gone).map(|(_, axis)| axis - rank).collect();
    let mut dims: Vec<u32> = Vec::new();
    for (&extent, gone) in x.dims.iter().zip(gone) {
        match (gone, keep) {
            (true, true) => dims.push(1),
            (true, false) => {}
            (false, _) => dims.push(extent),
        }
    }
    if dims.is_empty() {
        dims.push(1);
    }
    // A list of no axes can't be a constant of no bytes here; the last axis twice is a list too.
    let axes = if axes.is_empty() { None } else { Some(axes) };
    match axes {
        Some(axes) => (m.list(&axes), keep, dims),
        None => {
            let mut dims = x.dims.clone();
            let last = dims.pop();
            if keep || dims.is_empty() {
                dims.push(1);
            }
            let _ = last;
            (m.list(&[-1, rank - 1]), keep, dims)
        }
    }
}

fn mean(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4 && (v.is_real() || v.is_quantised()))?;
    let (axes, keep, dims) = reduction(m, &x);
    let keep = m.int(i32::from(keep));
    Some((Op::Mean, vec![x.operand, axes, keep], vec![x.of(dims)]))
}

fn reduce(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let (axes, keep, dims) = reduction(m, &x);
    let kinds = match x.kind {
        OperandType::TensorBool8 => [Op::ReduceAll, Op::ReduceAny],
        _ => [Op::ReduceMax, Op::ReduceMin],
    };
    let kind = *kinds.get(m.chance.below(2))?;
    let keep = m.bool(keep);
    Some((kind, vec![x.operand, axes, keep], vec![x.of(dims)]))
}

/// What jumps at small differences is for types without them.
fn exact(m: &mut Maker<'_>) -> Option<Value> {
    if !m.element.is_exact() {
        return None;
    }
    m.pick(|v| v.rank() <= 4 && !v.is_real())
}

fn arg(m: &mut Maker<'_>) -> Made {
    let x = exact(m)?;
    let (axis, code) = axis_of(m, &x);
    let mut dims = x.dims.clone();
    dims.remove(axis);
    if dims.is_empty() {
        dims.push(1);
    }
    let kind = if m.chance.once_in(2) { Op::Argmax } else { Op::Argmin };
    let out = x.as_kind(OperandType::TensorInt32).of(dims);
    Some((kind, vec![x.operand, m.int(code)], vec![out]))
}

fn topk(m: &mut Maker<'_>) -> Made {
    let x = exact(m)?;
    let extent = *x.dims.last()?;
    let k = m.chance.between(1, extent);
    let mut dims = x.dims.clone();
    *dims.last_mut()? = k;
    let values = x.of(dims);
    let indices = values.as_kind(OperandType::TensorInt32);
    Some((Op::TopkV2, vec![x.operand, m.int(k.cast_signed())], vec![values, indices]))
}

/// To and from other types.
fn convert(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let float = match m.element {
        Element::Float16 => OperandType::TensorFloat16,
        _ => OperandType::TensorFloat32,
    };
    let same = x.of(x.dims.clone());
    if x.is_quantised() && m.chance.once_in(2) {
        return Some((Op::Dequantize, vec![x.operand], vec![same.as_kind(float)]));
    }
    if x.is_real() && m.element.is_exact() {
        let (scale, zero_point) = m.quantisation();
        let mut out = same.as_kind(OperandType::TensorQuant8Asymm);
        (out.scale, out.zero_point) = (scale, zero_point);
        return Some((Op::Quantize, vec![x.operand], vec![out]));
    }
    let targets = [OperandType::TensorFloat16, OperandType::TensorFloat32];
    let to = *targets.get(m.chance.below(2))?;
    Some((Op::Cast, vec![x.operand], vec![same.as_kind(to)]))
}

fn compare(m: &mut Maker<'_>) -> Made {
    let a = exact(m)?;
    let b =
        m.pick(|v| v.kind == a.kind && v.rank() <= 4 && broadcast(&v.dims, &a.dims).is_some())?;
    let dims = broadcast(&a.dims, &b.dims)?;
    let kinds = [Op::Equal, Op::NotEqual, Op::Less, Op::LessEqual, Op::Greater, Op::GreaterEqual];
    let kind = *kinds.get(m.chance.below(kinds.len()))?;
    let out = a.as_kind(OperandType::TensorBool8).of(dims);
    Some((kind, vec![a.operand, b.operand], vec![out]))
}

fn select(m: &mut Maker<'_>) -> Made {
    let condition = m.pick(|v| v.kind == OperandType::TensorBool8)?;
    let a = m.pick(|v| v.kind != OperandType::TensorBool8 && v.dims == condition.dims)?;
    let b = m.pick(|v| v.kind == a.kind && v.dims == condition.dims)?;
    let inputs = vec![condition.operand, a.operand, b.operand];
    Some((Op::Select, inputs, vec![a.of(a.dims.clone())]))
}

fn space_to_depth(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.chance.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let block = (1..=3).filter(|block| h % block == 0 && w % block == 0).max()?;
    let dims = laid_out([n, h / block, w / block, c * block * block], nchw);
    let inputs = vec![x.operand, m.int(block.cast_signed()), m.bool(nchw)];
    Some((Op::SpaceToDepth, inputs, vec![x.of(dims)]))
}

fn depth_to_space(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.chance.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let block = (1..=3).filter(|block| c.is_multiple_of(block * block)).max()?;
    let dims = laid_out([n, h * block, w * block, c / (block * block)], nchw);
    let inputs = vec![x.operand, m.int(block.cast_signed()), m.bool(nchw)];
    Some((Op::DepthToSpace, inputs, vec![x.of(dims)]))
}

fn space_to_batch(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.chance.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (bh, bw) = (m.chance.between(1, 3), m.chance.between(1, 3));
    let (top, left) = (m.chance.between(0, 1), m.chance.between(0, 1));
    let bottom = (h + top).next_multiple_of(bh) - h - top;
    let right = (w + left).next_multiple_of(bw) - w - left;
    let dims = [n * bh * bw, (h + top + bottom) / bh, (w + left + right) / bw, c];
    let block = m.list(&signed(&[bh, bw]));
    let paddings = m.ints(&signed(&[top, bottom, left, right]), vec![2, 2]);
    let inputs = vec![x.operand, block, paddings, m.bool(nchw)];
    Some((Op::SpaceToBatchNd, inputs, vec![x.of(laid_out(dims, nchw))]))
}

fn resize(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.chance.once_in(4));
    let [n, _, _, c] = extents(&x, nchw)?;
    let (h, w) = (m.chance.between(1, 8), m.chance.between(1, 8));
    let kind = if m.chance.once_in(2) { Op::ResizeBilinear } else { Op::ResizeNearestNeighbor };
    let inputs = vec![x.operand, m.int(w.cast_signed()), m.int(h.cast_signed()), m.bool(nchw)];
    Some((kind, inputs, vec![x.of(laid_out([n, h, w, c], nchw))]))
}

fn prelu(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4 && (v.is_real() || v.is_quantised()))?;
    let alpha = weights_like(m, &x, vec![*x.dims.last()?]);
    let slopes = m.weights(&alpha);
    let (scale, zero_point) = m.quantisation();
    let out = x.of(x.dims.clone()).rescaled(x.scale.max(scale), zero_point);
    Some((Op::Prelu, vec![x.operand, slopes], vec![out]))
}
