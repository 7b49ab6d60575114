//! DEPTH_TO_SPACE, SPACE_TO_DEPTH, BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND: blocks of pixels moved
//! to and from channels and batches.

use std::ops::Range;

use nnburst_kernels::kernels::pieces::copy_pieces;
use nnburst_kernels::tensor::{Element, OpError, Out, Tensor, poll, quantised_range};

use super::Op;
use super::strided::{Strided, signed};
use super::support::{Image, by_width, compiled, same_quantisation};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static DEPTH_TO_SPACE: Op = Op { lower: lower_depth_to_space };
pub(super) static SPACE_TO_DEPTH: Op = Op { lower: lower_space_to_depth };
pub(super) static BATCH_TO_SPACE_ND: Op = Op { lower: lower_batch_to_space };
pub(super) static SPACE_TO_BATCH_ND: Op = Op { lower: lower_space_to_batch };

/// A split axis: `(extent, stride in the input)`, coarse part first.
type Split = Vec<(usize, isize)>;

/// Elements between neighbours along `[batch, y, x, channel]` of an image in its layout.
fn steps(image: &Image) -> [isize; 4] {
    let Image { height, width, channels, .. } = *image;
    let (batch, pixels) = (signed(height * width * channels), height * width);
    if image.is_nchw() {
        [batch, signed(width), 1, signed(pixels)]
    } else {
        [batch, signed(width * channels), signed(channels), 1]
    }
}

/// Walks the output in its own layout, each of its axes being one or more steps in the input.
fn emit(op: &mut OpBuilder<'_>, nchw: bool, [batch, y, x, channel]: [Split; 4]) -> Lowered {
    let order = if nchw { [batch, channel, y, x] } else { [batch, y, x, channel] };
    Strided::new(0, order.into_iter().flatten()).emit(op, 0)
}

fn input(op: &OpBuilder<'_>, layout: usize) -> Lowered<(Tensor, Image)> {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let image = Image::of(0, &input.shape, op.nchw(layout)?)?;
    Ok((input, image))
}

/// `out[n, h*b+i, w*b+j, c] = in[n, h, w, (i*b+j)*C' + c]`.
///
/// Source: NNAPI `DEPTH_TO_SPACE`, since HAL 1.0.
fn lower_depth_to_space(op: &mut OpBuilder<'_>) -> Lowered {
    let (_, from) = input(op, 2)?;
    let block = op.extent(1, 1)?;
    let channels = block.checked_mul(block).filter(|area| from.channels % area == 0);
    let Some(channels) = channels.map(|area| from.channels / area) else {
        let what = format!("{} channels in blocks of {block} squared", from.channels);
        return Err(OpError::input(1, what).into());
    };
    let extents = [from.batches, from.height * block, from.width * block, channels];
    op.set_output(0, Image::new(extents, from.is_nchw()).shape()?)?;
    let [batch, y, x, channel] = steps(&from);
    let row = signed(block * channels) * channel;
    emit(
        op,
        from.is_nchw(),
        [
            vec![(from.batches, batch)],
            vec![(from.height, y), (block, row)],
            vec![(from.width, x), (block, signed(channels) * channel)],
            vec![(channels, channel)],
        ],
    )
}

/// The inverse of DEPTH_TO_SPACE.
///
/// Source: NNAPI `SPACE_TO_DEPTH`, since HAL 1.0.
fn lower_space_to_depth(op: &mut OpBuilder<'_>) -> Lowered {
    let (_, from) = input(op, 2)?;
    let block = op.extent(1, 1)?;
    if from.height % block != 0 || from.width % block != 0 {
        let what = format!("{} by {} in blocks of {block}", from.height, from.width);
        return Err(OpError::input(1, what).into());
    }
    let (height, width) = (from.height / block, from.width / block);
    let channels = from.channels * block * block;
    op.set_output(0, Image::new([from.batches, height, width, channels], from.is_nchw()).shape()?)?;
    let [batch, y, x, channel] = steps(&from);
    emit(
        op,
        from.is_nchw(),
        [
            vec![(from.batches, batch)],
            vec![(height, y * signed(block))],
            vec![(width, x * signed(block))],
            vec![(block, y), (block, x), (from.channels, channel)],
        ],
    )
}

/// Two block extents, `(height, width)`.
fn block_of(op: &OpBuilder<'_>) -> Lowered<(usize, usize)> {
    let block = op.i32s(1)?;
    if let &[height, width] = &block[..]
        && let (Ok(height), Ok(width)) = (usize::try_from(height), usize::try_from(width))
        && height > 0
        && width > 0
        && height.checked_mul(width).is_some()
    {
        return Ok((height, width));
    }
    Err(OpError::input(1, format!("{block:?} is no block of two extents")).into())
}

/// `out[m, h*bh+i, w*bw+j, c] = in[(i*bw+j)*M + m, h, w, c]`.
///
/// Source: NNAPI `BATCH_TO_SPACE_ND`, since HAL 1.1.
fn lower_batch_to_space(op: &mut OpBuilder<'_>) -> Lowered {
    let (_, from) = input(op, 2)?;
    let (block_h, block_w) = block_of(op)?;
    if from.batches % (block_h * block_w) != 0 {
        let what = format!("{} batches in blocks of {block_h} by {block_w}", from.batches);
        return Err(OpError::input(1, what).into());
    }
    let batches = from.batches / (block_h * block_w);
    let (height, width) = (from.height.saturating_mul(block_h), from.width.saturating_mul(block_w));
    op.set_output(0, Image::new([batches, height, width, from.channels], from.is_nchw()).shape()?)?;
    let [batch, y, x, channel] = steps(&from);
    emit(
        op,
        from.is_nchw(),
        [
            vec![(batches, batch)],
            vec![(from.height, y), (block_h, batch * signed(block_w * batches))],
            vec![(from.width, x), (block_w, batch * signed(batches))],
            vec![(from.channels, channel)],
        ],
    )
}

/// `out[(i*bw+j)*N + n, h, w, c] = padded[n, h*bh+i, w*bw+j, c]`; padding is real zero.
///
/// Source: NNAPI `SPACE_TO_BATCH_ND`, since HAL 1.1.
fn lower_space_to_batch(op: &mut OpBuilder<'_>) -> Lowered {
    let (tensor, from) = input(op, 3)?;
    let (block_h, block_w) = block_of(op)?;
    let paddings = op.i32s(2)?;
    let sides: Vec<usize> =
        paddings.iter().filter_map(|&side| usize::try_from(side).ok()).collect();
    let &[top, bottom, left, right] = &sides[..] else {
        return Err(OpError::input(2, format!("{paddings:?} are no four paddings")).into());
    };
    let (height, width) = (from.height + top + bottom, from.width + left + right);
    if height % block_h != 0 || width % block_w != 0 {
        let what = format!("{height} by {width}, padded, in blocks of {block_h} by {block_w}");
        return Err(OpError::input(1, what).into());
    }
    // Saturated, an impossible extent is refused with the shape.
    let batches = from.batches.saturating_mul(block_h * block_w);
    let extents = [batches, height / block_h, width / block_w, from.channels];
    let to = Image::new(extents, from.is_nchw());
    op.set_output(0, to.shape()?)?;
    let zero = quantised_range(tensor.kind).map_or(0, |_| tensor.zero_point);
    let blocks = Blocks { from, to, block: (block_h, block_w), head: (top, left) };
    by_width!(tensor.kind, emit_blocks(op, blocks, zero))
}

#[derive(Clone, Copy, Debug)]
struct Blocks {
    from: Image,
    to: Image,
    block: (usize, usize),
    /// Padding above and to the left.
    head: (usize, usize),
}

impl Blocks {
    /// The lines of batch `n` that lie within the image, and the pixels of each that do.
    fn within(&self, n: usize) -> [Inside; 2] {
        let Self { from, to, block, head } = *self;
        let place = n / from.batches;
        let offsets = [place / block.1, place % block.1];
        [
            Inside::new(offsets[0], head.0, block.0, from.height, to.height),
            Inside::new(offsets[1], head.1, block.1, from.width, to.width),
        ]
    }
}

/// What of an axis of a batch lies within the image.
struct Inside {
    places: Range<usize>,
    /// The place in the image of the first of them.
    first: usize,
}

impl Inside {
    /// Of `count` places, each `block` behind the one before, `offset` from the start of `head`
    /// places of padding in front of `extent`.
    fn new(offset: usize, head: usize, block: usize, extent: usize, count: usize) -> Self {
        let below = |end: usize| end.saturating_sub(offset).div_ceil(block).min(count);
        let places = below(head)..below(head + extent);
        Self { first: (offset + places.start * block).saturating_sub(head), places }
    }
}

/// Nanoseconds that a line takes beside its pixels, and a pixel beside its bytes, at most.
const LINE_NS: usize = 16;
const PIXEL_NS: usize = 8;

fn emit_blocks<T: Element>(op: &mut OpBuilder<'_>, blocks: Blocks, zero: i32) -> Lowered {
    let Blocks { from, to, block, .. } = blocks;
    // Little endian: the first bytes of the number are the stored element; 0 for real tensors.
    let zero: T = bytemuck::pod_read_unaligned(&zero.to_le_bytes()[..size_of::<T>()]);
    // Channels lie side by side in a pixel, or each in a plane of its own.
    let (planes, depth) = if from.is_nchw() { (from.channels, 1) } else { (1, from.channels) };
    let pixel_bytes = depth * size_of::<T>();
    let line_ns = LINE_NS + to.width.saturating_mul(PIXEL_NS + pixel_bytes / 8);
    let isa = op.isa();
    op.emit(compiled(isa, "space_to_batch", &to.shape()?, 0), move |io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let fill = |part: Out<'_, T>| part.fill(std::iter::repeat_n(zero, part.len()));
        for n in poll::each(0..to.batches, 8) {
            let [lines, pixels] = blocks.within(n);
            let (inside, count) = (pixels.places.start * depth, pixels.places.len());
            for plane in 0..planes {
                for h in poll::each(0..to.height, line_ns) {
                    let start = to.at(n, h, 0, plane);
                    let line = output.slice(start..start + to.width * depth);
                    if !lines.places.contains(&h) || count == 0 {
                        fill(line);
                        continue;
                    }
                    fill(line.slice(0..inside));
                    fill(line.slice(inside + count * depth..line.len()));
                    let y = lines.first + (h - lines.places.start) * block.0;
                    let source = from.at(n % from.batches, y, pixels.first, plane);
                    if block.1 == 1 {
                        let len = count * depth;
                        let own = input.slice(source..source + len);
                        line.slice(inside..inside + len).copy_from(own);
                        continue;
                    }
                    let (source, inside) = (source * size_of::<T>(), inside * size_of::<T>());
                    let pieces = (0..count)
                        .map(|at| (source + at * block.1 * pixel_bytes, inside + at * pixel_bytes));
                    copy_pieces(isa, input.bytes(), line.bytes(), pixel_bytes, pieces);
                }
            }
        }
        Ok(())
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Inside;

    #[test]
    fn places_of_a_batch_within_the_image_are_found() {
        for (head, block, extent) in [(0, 1, 5), (2, 1, 3), (2, 2, 3), (5, 3, 1), (1, 4, 9)] {
            for tail in 0..6usize {
                let count = (head + extent + tail).div_ceil(block);
                for offset in 0..block {
                    let place = |at: usize| (offset + at * block).checked_sub(head);
                    let is_inside = |&at: &usize| place(at).is_some_and(|it| it < extent);
                    let want: Vec<usize> = (0..count).filter(is_inside).collect();
                    let got = Inside::new(offset, head, block, extent, count);
                    let what = format!("{offset} of {block}, {head} + {extent} + {tail}");
                    assert_eq!(got.places.clone().collect::<Vec<_>>(), want, "{what}");
                    if let Some(&first) = want.first() {
                        assert_eq!(Some(got.first), place(first), "{what}");
                    }
                }
            }
        }
    }
}
