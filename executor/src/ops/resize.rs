//! RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR. Indexes and weights along each axis are tables made
//! when the shapes are known; [`super::bilinear`] computes with them.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::pieces::copy_pieces;
use nnburst_kernels::tensor::rows::Port;
use nnburst_kernels::tensor::{Element, OpError, poll};

use super::Op;
use super::bilinear::{self, Tap, Taps};
use super::support::{Image, by_width, compiled, same_quantisation};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static RESIZE_BILINEAR: Op = Op { lower: |op| lower(op, true) };
pub(super) static RESIZE_NEAREST_NEIGHBOR: Op = Op { lower: |op| lower(op, false) };

/// The largest height or width that is computed: single precision tells positions apart up to here,
/// and the tables that are made for each of them stay small.
const MAX_EXTENT: usize = 1 << 22;

/// The positions of the output over those of the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) align_corners: bool,
    pub(super) half_pixel_centers: bool,
}

/// Width comes before height. Sizes are INT32, or factors in float.
///
/// Source: NNAPI `RESIZE_BILINEAR`, since HAL 1.0 (factors and layout since 1.2, corners and
/// centers since 1.3), `RESIZE_NEAREST_NEIGHBOR`, since 1.2.
fn lower(op: &mut OpBuilder<'_>, bilinear: bool) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let flag = |index: usize| if op.has_input(index) { op.bool(index) } else { Ok(false) };
    let from = Image::of(0, &input.shape, flag(3)?)?;
    let grid = Grid { align_corners: flag(4)?, half_pixel_centers: flag(5)? };
    if grid.align_corners && grid.half_pixel_centers {
        return Err(OpError::rule("both aligned corners and half-pixel centers").into());
    }
    let (width, height) = (size(op, 1, from.width)?, size(op, 2, from.height)?);
    if width.max(height) > MAX_EXTENT {
        let what = format!("{width} by {height}, more than {MAX_EXTENT}");
        return Err(OpError::rule(what).into());
    }
    let to = Image::new([from.batches, height, width, from.channels], from.is_nchw());
    op.set_output(0, to.shape()?)?;
    op.claim((width + height).saturating_mul(size_of::<Tap>()))?;
    if bilinear {
        bilinear::emit(op, grid.taps(from, to))
    } else {
        let rows = grid.nearest(from.height, height);
        let columns = grid.nearest(from.width, width);
        by_width!(input.kind, nearest(op, from, to, rows, columns))
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "extents; float casts saturate, and 0 is refused"
)]
fn size(op: &OpBuilder<'_>, index: usize, extent: usize) -> Lowered<usize> {
    if op.input_kind(index)? == OperandType::Int32 {
        return op.extent(index, 1);
    }
    let factor = op.f32(index)?;
    let size = (extent as f32 * factor).floor() as usize;
    if size == 0 {
        return Err(OpError::input(index, format!("{factor} times {extent} leaves nothing")).into());
    }
    Ok(size)
}

impl Grid {
    #[expect(clippy::cast_precision_loss, reason = "extents of an image")]
    fn scale(self, input: usize, output: usize) -> f32 {
        if self.align_corners && output > 1 {
            (input - 1) as f32 / (output - 1) as f32
        } else {
            input as f32 / output as f32
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positions of an image; float casts saturate"
    )]
    fn nearest(self, input: usize, output: usize) -> Vec<usize> {
        let scale = self.scale(input, output);
        let half = if self.half_pixel_centers { 0.5 } else { 0.0 };
        let position = |at: usize| {
            let p = (at as f32 + half) * scale;
            if self.align_corners { p.round() } else { p.floor() }
        };
        (0..output).map(|at| (position(at) as usize).min(input - 1)).collect()
    }

    /// The pixels that those of the output lie between.
    pub(super) fn taps(self, from: Image, to: Image) -> Taps {
        let rows = self.places(from.height, to.height);
        let columns = self.places(from.width, to.width);
        Taps { from, to, rows, columns }
    }

    /// The second position is the one above, not the one behind the first: left of the first center
    /// both are 0 and the weights cancel.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positions of an image; float casts saturate"
    )]
    fn places(self, input: usize, output: usize) -> Vec<Tap> {
        let scale = self.scale(input, output);
        let tap = |at: usize| {
            let p = if self.half_pixel_centers {
                (at as f32 + 0.5) * scale - 0.5
            } else {
                at as f32 * scale
            };
            let low = (p.floor().max(0.0) as usize).min(input - 1);
            let high = (p.ceil().max(0.0) as usize).min(input - 1);
            Tap { first: low, second: high, weight: p - low as f32 }
        };
        (0..output).map(tap).collect()
    }
}

fn nearest<T: Element>(
    op: &mut OpBuilder<'_>,
    from: Image,
    to: Image,
    rows: Vec<usize>,
    columns: Vec<usize>,
) -> Lowered {
    let isa = op.isa();
    let (lanes, planes) = if to.is_nchw() { (1, to.channels) } else { (to.channels, 1) };
    let bytes = lanes * size_of::<T>();
    op.emit(compiled(isa, "resize_nearest", &to.shape()?, 0), move |io: Io<'_>| {
        let (input, output) = (io.input_rows(0), io.output_rows(0));
        let step_in = input.pitch(input.len() / bytes, bytes)?;
        let step = output.pitch(output.len() / bytes, bytes)?;
        for plane in poll::each(0..to.batches * planes, 8) {
            for y in poll::each(0..to.height, 32 + to.width * bytes / 16) {
                let start = (plane * to.height + y) * to.width;
                let again = y > 0 && rows[y] == rows[y - 1];
                let source = (plane * from.height + rows[y]) * from.width;
                if again && step == bytes {
                    let line = |start: usize| start * bytes..(start + to.width) * bytes;
                    let before = output.piece(line(start - to.width)).as_in();
                    output.piece(line(start)).copy_from(before);
                    continue;
                }
                let pieces = columns.iter().enumerate();
                let pieces =
                    pieces.map(|(x, column)| ((source + column) * step_in, (start + x) * step));
                copy_pieces(isa, input.all(), output.all(), bytes, pieces);
            }
        }
        Ok(())
    });
    if !to.is_nchw() {
        op.rows(&[(Port::Input(0), Some(bytes)), (Port::Output, Some(bytes))]);
    }
    Ok(())
}
