//! Operations that put elements elsewhere.

use nnburst_hal::OperationType as Op;

use super::super::graph::{Maker, Value};
use super::windows::{extents, image, laid_out};
use super::{Made, axis_of, signed};

pub(super) fn reshape(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|_| true)?;
    let count = u32::try_from(x.elements()).ok()?;
    let first = (1..=8).filter(|&part| count.is_multiple_of(part)).max()?;
    let dims = if m.rng.once_in(3) {
        vec![1, first, 1, count / first]
    } else {
        vec![first, count / first]
    };
    let mut wanted = signed(&dims);
    if m.rng.once_in(2) {
        let at = m.rng.below(wanted.len());
        *wanted.get_mut(at)? = -1;
    }
    let shape = m.list(&wanted);
    Some((Op::Reshape, vec![x.operand, shape], vec![x.of(dims)]))
}

pub(super) fn transpose(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| (1..=4).contains(&v.rank()))?;
    let mut axes: Vec<usize> = (0..x.rank()).collect();
    for at in (1..axes.len()).rev() {
        axes.swap(at, m.rng.below(at + 1));
    }
    let dims = axes.iter().filter_map(|&axis| x.dims.get(axis)).copied().collect();
    let axes: Vec<i32> = axes.iter().filter_map(|&axis| i32::try_from(axis).ok()).collect();
    let axes = m.list(&axes);
    Some((Op::Transpose, vec![x.operand, axes], vec![x.of(dims)]))
}

pub(super) fn slice(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|_| true)?;
    let (mut begins, mut sizes, mut dims) = (Vec::new(), Vec::new(), Vec::new());
    for &extent in &x.dims {
        let begin = m.rng.between(0, extent - 1);
        let size = m.rng.between(1, extent - begin);
        let rest = size == extent - begin && m.rng.once_in(2);
        begins.push(begin.cast_signed());
        sizes.push(if rest { -1 } else { size.cast_signed() });
        dims.push(size);
    }
    let (begins, sizes) = (m.list(&begins), m.list(&sizes));
    Some((Op::Slice, vec![x.operand, begins, sizes], vec![x.of(dims)]))
}

pub(super) fn strided_slice(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let (mut begins, mut ends, mut steps, mut dims) = (vec![], vec![], vec![], vec![]);
    for &extent in &x.dims {
        let step = m.rng.between(1, 3);
        let (low, high) = (m.rng.between(0, extent - 1), extent);
        let count = (high - low).div_ceil(step);
        let (low, high, extent) = (low.cast_signed(), high.cast_signed(), extent.cast_signed());
        if m.rng.once_in(3) {
            // Backwards from the last to the first.
            begins.push(high - 1);
            ends.push(low - 1 - extent);
            steps.push(-step.cast_signed());
        } else {
            begins.push(if m.rng.once_in(2) { low - extent } else { low });
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

pub(super) fn pad(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let (mut paddings, mut dims) = (Vec::new(), Vec::new());
    for &extent in &x.dims {
        let (head, tail) = (m.rng.between(0, 2), m.rng.between(0, 2));
        paddings.extend([head.cast_signed(), tail.cast_signed()]);
        dims.push(extent + head + tail);
    }
    let rank = u32::try_from(x.rank()).ok()?;
    let paddings = m.ints(&paddings, vec![rank, 2]);
    Some((Op::Pad, vec![x.operand, paddings], vec![x.of(dims)]))
}

pub(super) fn concatenation(m: &mut Maker<'_>) -> Made {
    let a = m.pick(|v| v.rank() <= 4)?;
    let (axis, code) = axis_of(m, &a);
    let fits = |v: &Value| {
        let other = |(at, (x, y)): (usize, (&u32, &u32))| at == axis || x == y;
        v.kind == a.kind
            && v.rank() == a.rank()
            && v.dims.iter().zip(&a.dims).enumerate().all(other)
    };
    let mut out = a.of(a.dims.clone());
    let mut inputs = vec![a.operand];
    for _ in 0..m.rng.between(1, 3) {
        // Now and then the same tensor again.
        let b = m.pick(fits)?;
        *out.dims.get_mut(axis)? += b.dims.get(axis)?;
        inputs.push(b.operand);
    }
    if m.rng.once_in(2) {
        let (scale, zero_point) = m.quantisation();
        out = out.rescaled(scale, zero_point);
    }
    inputs.push(m.int(code.max(i32::try_from(axis).ok()?)));
    Some((Op::Concatenation, inputs, vec![out]))
}

pub(super) fn split(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|_| true)?;
    let (axis, code) = axis_of(m, &x);
    let extent = *x.dims.get(axis)?;
    let parts = (1..=3).filter(|&parts| extent.is_multiple_of(parts)).max()?;
    let mut dims = x.dims.clone();
    *dims.get_mut(axis)? = extent / parts;
    let inputs = vec![x.operand, m.int(code), m.int(parts.cast_signed())];
    Some((Op::Split, inputs, (0..parts).map(|_| x.of(dims.clone())).collect()))
}

pub(super) fn tile(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.elements() < 500)?;
    let multiples: Vec<u32> = x.dims.iter().map(|_| m.rng.between(1, 2)).collect();
    let dims = x.dims.iter().zip(&multiples).map(|(extent, times)| extent * times).collect();
    let multiples = m.list(&signed(&multiples));
    Some((Op::Tile, vec![x.operand, multiples], vec![x.of(dims)]))
}

pub(super) fn expand_dims(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() < 4)?;
    let at = m.rng.below(x.rank() + 1);
    let mut dims = x.dims.clone();
    dims.insert(at, 1);
    let axis = m.int(i32::try_from(at).ok()?);
    Some((Op::ExpandDims, vec![x.operand, axis], vec![x.of(dims)]))
}

pub(super) fn squeeze(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4 && v.dims.contains(&1) && v.elements() > 1)?;
    let at = x.dims.iter().position(|&extent| extent == 1)?;
    let mut dims = x.dims.clone();
    dims.remove(at);
    let axes = m.list(&[i32::try_from(at).ok()?]);
    Some((Op::Squeeze, vec![x.operand, axes], vec![x.of(dims)]))
}

pub(super) fn shuffle(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let (axis, code) = axis_of(m, &x);
    let extent = *x.dims.get(axis)?;
    let groups = (1..=4).filter(|&groups| extent.is_multiple_of(groups)).max()?;
    let inputs = vec![x.operand, m.int(groups.cast_signed()), m.int(code)];
    Some((Op::ChannelShuffle, inputs, vec![x.of(x.dims.clone())]))
}

pub(super) fn gather(m: &mut Maker<'_>) -> Made {
    let x = m.pick(|v| v.rank() <= 4)?;
    let (axis, code) = axis_of(m, &x);
    let extent = *x.dims.get(axis)?;
    let shape = if m.rng.once_in(2) { vec![2, 3] } else { vec![4] };
    let count: u32 = shape.iter().product();
    let indices: Vec<i32> =
        (0..count).map(|_| m.rng.between(0, extent - 1).cast_signed()).collect();
    let mut dims = x.dims.clone();
    dims.splice(axis..=axis, shape.iter().copied());
    let indices = m.ints(&indices, shape);
    Some((Op::Gather, vec![x.operand, m.int(code), indices], vec![x.of(dims)]))
}

pub(super) fn space_to_depth(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.rng.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let block = (1..=3).filter(|block| h % block == 0 && w % block == 0).max()?;
    let dims = laid_out([n, h / block, w / block, c * block * block], nchw);
    let inputs = vec![x.operand, m.int(block.cast_signed()), m.bool(nchw)];
    Some((Op::SpaceToDepth, inputs, vec![x.of(dims)]))
}

pub(super) fn depth_to_space(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.rng.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let block = (1..=3).filter(|block| c.is_multiple_of(block * block)).max()?;
    let dims = laid_out([n, h * block, w * block, c / (block * block)], nchw);
    let inputs = vec![x.operand, m.int(block.cast_signed()), m.bool(nchw)];
    Some((Op::DepthToSpace, inputs, vec![x.of(dims)]))
}

pub(super) fn space_to_batch(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.rng.once_in(4));
    let [n, h, w, c] = extents(&x, nchw)?;
    let (bh, bw) = (m.rng.between(1, 3), m.rng.between(1, 3));
    let (top, left) = (m.rng.between(0, 1), m.rng.between(0, 1));
    let bottom = (h + top).next_multiple_of(bh) - h - top;
    let right = (w + left).next_multiple_of(bw) - w - left;
    let dims = [n * bh * bw, (h + top + bottom) / bh, (w + left + right) / bw, c];
    let block = m.list(&signed(&[bh, bw]));
    let paddings = m.ints(&signed(&[top, bottom, left, right]), vec![2, 2]);
    let inputs = vec![x.operand, block, paddings, m.bool(nchw)];
    Some((Op::SpaceToBatchNd, inputs, vec![x.of(laid_out(dims, nchw))]))
}

pub(super) fn resize(m: &mut Maker<'_>) -> Made {
    let (x, nchw) = (image(m)?, m.rng.once_in(4));
    let [n, _, _, c] = extents(&x, nchw)?;
    let (h, w) = (m.rng.between(1, 8), m.rng.between(1, 8));
    let kind = if m.rng.once_in(2) { Op::ResizeBilinear } else { Op::ResizeNearestNeighbor };
    let inputs = vec![x.operand, m.int(w.cast_signed()), m.int(h.cast_signed()), m.bool(nchw)];
    Some((kind, inputs, vec![x.of(laid_out([n, h, w, c], nchw))]))
}
