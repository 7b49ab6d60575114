//! How each operation of a random graph is made, with its shape rule.

mod moves;
mod windows;

use nnburst_hal::{OperandType, OperationType as Op};

use self::windows::{product_of, weights_like};
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
    windows::conv_2d,
    windows::conv_2d,
    windows::conv_2d,
    windows::depthwise,
    windows::depthwise,
    windows::grouped,
    windows::transpose_conv,
    windows::fully_connected,
    windows::fully_connected,
    windows::pool,
    windows::pool,
    moves::reshape,
    moves::transpose,
    moves::transpose,
    moves::slice,
    moves::strided_slice,
    moves::pad,
    moves::concatenation,
    moves::concatenation,
    moves::concatenation,
    moves::split,
    moves::split,
    moves::tile,
    moves::expand_dims,
    moves::squeeze,
    moves::shuffle,
    moves::gather,
    softmax,
    mean,
    reduce,
    arg,
    convert,
    convert,
    compare,
    select,
    topk,
    moves::space_to_depth,
    moves::depth_to_space,
    moves::space_to_batch,
    moves::resize,
    prelu,
];

fn signed(values: &[u32]) -> Vec<i32> {
    values.iter().map(|value| value.cast_signed()).collect()
}

fn activation(m: &mut Maker<'_>) -> u32 {
    let code = m.rng.one_of(&[0, 0, 1, 2, 3]);
    m.int(code)
}

fn numbers(m: &mut Maker<'_>, values: &[u32]) -> Vec<u32> {
    values.iter().map(|value| m.int(value.cast_signed())).collect()
}

fn unary(m: &mut Maker<'_>) -> Made {
    let smooth =
        [Op::Relu, Op::Relu1, Op::Relu6, Op::Logistic, Op::Tanh, Op::HardSwish, Op::Abs, Op::Neg];
    let x = m.pick(|_| true)?;
    let at = m.rng.below(smooth.len() + 1);
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
    let kind = *kinds.get(m.rng.below(kinds.len()))?;
    let mut out = a.of(dims);
    if kind == Op::Mul {
        out = product_of(m, &out, b, 1);
    } else if m.rng.once_in(2) {
        let (scale, zero_point) = m.quantisation();
        out = out.rescaled(scale, zero_point);
    }
    if matches!(kind, Op::Add | Op::Sub) && a.is_quantised() {
        // Sums have 20 bits more than the wider operand, and results that are finer still are
        // refused.
        let finest = a.scale.max(b.scale) / (1u32 << 19) as f32;
        if out.scale <= finest {
            return None;
        }
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
    let skip = m.rng.below(a.rank());
    let dims: Vec<u32> =
        a.dims.iter().skip(skip).map(|&n| if m.rng.once_in(3) { 1 } else { n }).collect();
    let (scale, zero_point) = m.quantisation();
    let b = a.of(dims).rescaled(scale, zero_point);
    let constant = m.weights(&b);
    arithmetic(m, &a, &b, constant)
}

fn axis_of(m: &mut Maker<'_>, x: &Value) -> (usize, i32) {
    // Twice as often the innermost, along which most kernels work.
    let axis = m.rng.below(x.rank() + 1).min(x.rank().saturating_sub(1));
    let rank = i32::try_from(x.rank()).unwrap_or(0);
    let code = i32::try_from(axis).unwrap_or(0);
    (axis, if m.rng.once_in(2) { code - rank } else { code })
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
    let gone: Vec<bool> = x.dims.iter().map(|_| m.rng.once_in(2)).collect();
    let keep = m.rng.once_in(2);
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
    let kind = *kinds.get(m.rng.below(2))?;
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
    let kind = if m.rng.once_in(2) { Op::Argmax } else { Op::Argmin };
    let out = x.as_kind(OperandType::TensorInt32).of(dims);
    Some((kind, vec![x.operand, m.int(code)], vec![out]))
}

fn topk(m: &mut Maker<'_>) -> Made {
    let x = exact(m)?;
    let extent = *x.dims.last()?;
    let k = m.rng.between(1, extent);
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
    if x.is_quantised() && m.rng.once_in(2) {
        return Some((Op::Dequantize, vec![x.operand], vec![same.as_kind(float)]));
    }
    if x.is_real() && m.element.is_exact() {
        let (scale, zero_point) = m.quantisation();
        let mut out = same.as_kind(OperandType::TensorQuant8Asymm);
        (out.scale, out.zero_point) = (scale, zero_point);
        return Some((Op::Quantize, vec![x.operand], vec![out]));
    }
    let targets = [OperandType::TensorFloat16, OperandType::TensorFloat32];
    let to = *targets.get(m.rng.below(2))?;
    Some((Op::Cast, vec![x.operand], vec![same.as_kind(to)]))
}

fn compare(m: &mut Maker<'_>) -> Made {
    let a = exact(m)?;
    let b =
        m.pick(|v| v.kind == a.kind && v.rank() <= 4 && broadcast(&v.dims, &a.dims).is_some())?;
    let dims = broadcast(&a.dims, &b.dims)?;
    let kinds = [Op::Equal, Op::NotEqual, Op::Less, Op::LessEqual, Op::Greater, Op::GreaterEqual];
    let kind = *kinds.get(m.rng.below(kinds.len()))?;
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

fn prelu(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4 && (v.is_real() || v.is_quantised()))?;
    let alpha = weights_like(m, &x, vec![*x.dims.last()?]);
    let slopes = m.weights(&alpha);
    let (scale, zero_point) = m.quantisation();
    let out = x.of(x.dims.clone()).rescaled(x.scale.max(scale), zero_point);
    Some((Op::Prelu, vec![x.operand, slopes], vec![out]))
}
