//! Operations that move blocks of pixels into batches or channels, and back.

use nnburst_kernels::tensor::{In, OpError};

use super::arg::{Arg, OperatorCall, sizes};
use super::copy::{Axis, Copy, axes, strides};
use super::moves::{fill_with, zero_bytes};
use crate::lowering::Lowered;

pub(super) fn space_to_depth(call: &mut OperatorCall<'_, '_>) -> Lowered {
    channels(call, true)
}

pub(super) fn depth_to_space(call: &mut OperatorCall<'_, '_>) -> Lowered {
    channels(call, false)
}

/// Blocks of pixels as channels of one, or the other way around.
fn channels(call: &mut OperatorCall<'_, '_>, to_depth: bool) -> Lowered {
    let input = call.arg(0)?;
    call.same(&input, 0)?;
    let block = call.count(0, 1)?;
    let &[batches, height, width, depth] = &input.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 4", input.shape)).into());
    };
    let area = block.checked_mul(block).filter(|&it| u32::try_from(it).is_ok());
    let area = area.ok_or_else(|| OpError::rule(format!("a block of {block}")))?;
    let fits = if to_depth {
        height.is_multiple_of(block) && width.is_multiple_of(block)
    } else {
        depth.is_multiple_of(area)
    };
    if !fits {
        return Err(OpError::rule(format!("{:?} by blocks of {block}", input.shape)).into());
    }
    let (rows, columns, own) = if to_depth {
        (height / block, width / block, depth)
    } else {
        (height, width, depth / area)
    };
    // Batch, row, column, row in the block, column in the block, channel.
    let counts = [batches, rows, columns, block, block, own];
    let line = columns * block * own;
    let wide = [rows * block * line, block * line, block * own, line, own, 1];
    let deep = [rows * columns * area * own, columns * area * own, area * own, block * own, own, 1];
    let (wide, deep) = (wide.map(usize::cast_signed), deep.map(usize::cast_signed));
    let (from, to, extents) = if to_depth {
        (wide, deep, [batches, rows, columns, area * own])
    } else {
        (deep, wide, [batches, rows * block, columns * block, own])
    };
    let shape = call.set(0, &extents)?;
    let copy = Copy::new(&axes(&counts, &from, &to), 0, 0, input.kind.bytes());
    call.step(&shape, move |io| copy.run(io.input(0), io.output(0)));
    Ok(())
}

/// Bytes of a copy and its axes, about.
const COPY_BYTES: usize = 256;

/// The most blocks that pixels are spread over.
const MAX_BLOCKS: usize = 1 << 16;

/// The image and the batches of its blocks: what of which lies where.
struct Spread<'a> {
    image: &'a [usize],
    batches: &'a [usize],
    block: &'a [usize],
    /// Borders in front of the image.
    heads: &'a [usize],
}

impl Spread<'_> {
    /// A copy for each place in a block, from the image to the batches or the other way around.
    fn copies(
        &self,
        call: &mut OperatorCall<'_, '_>,
        to_batches: bool,
        width: usize,
    ) -> Lowered<Vec<Copy>> {
        let places = self.block.iter().try_fold(1usize, |all, &block| all.checked_mul(block));
        let places = places.filter(|&places| places <= MAX_BLOCKS);
        let places = places.ok_or_else(|| OpError::rule(format!("blocks of {:?}", self.block)))?;
        call.claim(places * COPY_BYTES)?;
        let (large, small) = (strides(self.image), strides(self.batches));
        let mut copies = Vec::new();
        for place in 0..places {
            let count = self.image[0];
            let mut axes = vec![Axis { count, from: large[0], to: small[0] }];
            let mut first = (0usize, place * count * small[0].unsigned_abs());
            let mut rest = place;
            let mut own = vec![0; self.block.len()];
            for (at, &block) in self.block.iter().enumerate().rev() {
                own[at] = rest % block;
                rest /= block;
            }
            for (at, &block) in self.block.iter().enumerate() {
                let (axis, head, offset) = (at + 1, self.heads[at], own[at]);
                // Entries `low..high` of the batch lie within the image.
                let low = head.saturating_sub(offset).div_ceil(block);
                let end = (self.image[axis] + head).saturating_sub(offset).div_ceil(block);
                let high = end.min(self.batches[axis]);
                let count = high.saturating_sub(low);
                axes.push(Axis {
                    count,
                    from: large[axis].saturating_mul(block.cast_signed()),
                    to: small[axis],
                });
                if count > 0 {
                    first.0 += (low * block + offset - head) * large[axis].unsigned_abs();
                    first.1 += low * small[axis].unsigned_abs();
                }
            }
            for axis in self.block.len() + 1..self.image.len() {
                axes.push(Axis { count: self.image[axis], from: large[axis], to: small[axis] });
            }
            if !to_batches {
                for axis in &mut axes {
                    (axis.from, axis.to) = (axis.to, axis.from);
                }
                first = (first.1, first.0);
            }
            copies.push(Copy::new(&axes, first.0, first.1, width));
        }
        Ok(copies)
    }
}

/// Block extents and pairs of borders, one per spatial dimension.
fn read(call: &OperatorCall<'_, '_>, input: &Arg) -> Lowered<(Vec<usize>, Vec<usize>, Vec<usize>)> {
    let block = sizes(&call.ints(1)?)?;
    let borders = sizes(&call.ints(2)?)?;
    let (pairs, rest) = borders.as_chunks::<2>();
    let fits = rest.is_empty()
        && pairs.len() == block.len()
        && block.len() < input.shape.rank()
        && !block.is_empty()
        && !block.contains(&0);
    if !fits {
        let what = format!("blocks of {block:?} and borders of {borders:?}");
        return Err(OpError::rule(what).into());
    }
    Ok((
        block,
        pairs.iter().map(|&[head, _]| head).collect(),
        pairs.iter().map(|&[_, tail]| tail).collect(),
    ))
}

pub(super) fn space_to_batch(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    call.same(&input, 0)?;
    let (block, heads, tails) = read(call, &input)?;
    let mut extents = input.shape.to_vec();
    for (at, &own) in block.iter().enumerate() {
        let padded = extents[at + 1].saturating_add(heads[at]).saturating_add(tails[at]);
        if !padded.is_multiple_of(own) {
            return Err(OpError::rule(format!("{padded} by blocks of {own}")).into());
        }
        extents[at + 1] = padded / own;
        extents[0] = extents[0].saturating_mul(own);
    }
    let shape = call.set(0, &extents)?;
    let spread = Spread { image: &input.shape, batches: &extents, block: &block, heads: &heads };
    let copies = spread.copies(call, true, input.kind.bytes())?;
    let zero = zero_bytes(&call.result(0)?);
    call.step(&shape, move |io| {
        fill_with(io.output(0), In::of(&zero[..]));
        copies.iter().try_for_each(|copy| copy.run(io.input(0), io.output(0)))
    });
    Ok(())
}

pub(super) fn batch_to_space(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    call.same(&input, 0)?;
    let (block, heads, tails) = read(call, &input)?;
    let mut extents = input.shape.to_vec();
    for (at, &own) in block.iter().enumerate() {
        let whole = extents[at + 1].saturating_mul(own);
        let left = whole.checked_sub(heads[at].saturating_add(tails[at]));
        let fits = extents[0].is_multiple_of(own);
        extents[at + 1] = left
            .filter(|_| fits)
            .ok_or_else(|| OpError::rule(format!("{:?} by blocks of {block:?}", input.shape)))?;
        extents[0] /= own;
    }
    let shape = call.set(0, &extents)?;
    let spread = Spread { image: &extents, batches: &input.shape, block: &block, heads: &heads };
    let copies = spread.copies(call, false, input.kind.bytes())?;
    call.step(&shape, move |io| {
        copies.iter().try_for_each(|copy| copy.run(io.input(0), io.output(0)))
    });
    Ok(())
}
