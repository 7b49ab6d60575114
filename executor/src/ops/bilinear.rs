//! Interpolation between the four neighbours of each place.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::bilinear;
pub(super) use nnburst_kernels::kernels::bilinear::Tap;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::rows::{Port, Rows};
use nnburst_kernels::tensor::{Element, In, OpError, Out, Real, poll};

use super::support::{Image, bad_kind, compiled, plain};
use crate::lowering::{Label, Lowered, OpBuilder};

/// An image, what it is brought to, and where the lines and columns of that lie in it.
#[derive(Clone, Debug)]
pub(super) struct Taps<W = f32> {
    pub(super) from: Image,
    pub(super) to: Image,
    pub(super) rows: Vec<Tap<W>>,
    pub(super) columns: Vec<Tap<W>>,
}

/// Adds the step. Of bytes, the stored values are interpolated and rounded to nearest; the
/// reference truncates, which is off by up to one, and the expected values of its own tests are
/// the rounded ones.
pub(super) fn emit(op: &mut OpBuilder<'_>, taps: Taps) -> Lowered {
    match op.input(0)?.kind {
        OperandType::TensorFloat32 => lines::<bilinear::Floats>(op, "bilinear_f32", taps, 0),
        OperandType::TensorQuant8Asymm => {
            lines::<bilinear::UnsignedBytes>(op, "bilinear_u8", taps, 0)
        }
        OperandType::TensorQuant8AsymmSigned => {
            lines::<bilinear::UnsignedBytes>(op, "bilinear_u8", taps, 0x80)
        }
        OperandType::TensorFloat16 => one_by_one(op, "resize_bilinear", taps, half),
        kind => Err(bad_kind(0, kind).into()),
    }
}

/// Adds the step of a kernel; `flip` makes unsigned bytes of those that it takes as such.
pub(super) fn lines<T: bilinear::Samples>(
    op: &mut OpBuilder<'_>,
    kernel: &'static str,
    taps: Taps<T::Weight>,
    flip: u8,
) -> Lowered {
    let (shape, lanes, count) = (taps.to.shape()?, taps.lanes(), taps.lines());
    let Taps { from, to, rows, columns } = taps;
    op.claim(columns.len().saturating_mul(size_of::<Tap<T::Weight>>()))?;
    let extents = [from.height, from.width];
    let bilinear = bilinear::Bilinear::<T>::new(op.isa(), lanes, extents, rows, &columns, flip)
        .map_err(OpError::rule)?;
    let operations = OPERATIONS * shape.elements() as u64;
    let label = Label { form: bilinear.isa(), ..plain(kernel, &shape, operations) };
    let scratch = bilinear.scratch() * size_of::<u32>();
    op.emit_bands(label, scratch, count, move |mut io, lines| {
        bilinear.compute(lines, io.input_rows(0), io.output_rows(0), io.scratch_slice())
    });
    say_rows::<T::Element>(op, to);
    Ok(())
}

/// Eight multiplications and three sums for each element.
const OPERATIONS: u64 = 11;

/// Pixels may be rows that lie apart, where channels are innermost.
fn say_rows<T>(op: &mut OpBuilder<'_>, to: Image) {
    if !to.is_nchw() {
        let pixel = Some(to.channels * size_of::<T>());
        op.rows(&[(Port::Input(0), pixel), (Port::Output, pixel)]);
    }
}

fn half([a, b, c, d]: [half::f16; 4], [v, u]: [f32; 2]) -> half::f16 {
    let [a, b, c, d] = [a, b, c, d].map(Real::to_f32);
    let (left, right) = (a * (1.0 - v) + b * v, c * (1.0 - v) + d * v);
    Real::from_f32(left * (1.0 - u) + right * u)
}

/// Adds a step for elements that have no kernel. `between` is given those above and below on the
/// left, then on the right, and the weights of the line below and of the column on the right.
pub(super) fn one_by_one<T: Element, W: Copy + Send + Sync + 'static>(
    op: &mut OpBuilder<'_>,
    kernel: &'static str,
    taps: Taps<W>,
    between: impl Fn([T; 4], [W; 2]) -> T + Send + Sync + 'static,
) -> Lowered {
    let (isa, shape, to) = (op.isa(), taps.to.shape()?, taps.to);
    let operations = OPERATIONS * shape.elements() as u64;
    op.emit_bands(compiled(isa, kernel, &shape, operations), 0, taps.lines(), move |io, lines| {
        let (input, output) = (io.input_rows(0), io.output_rows(0));
        for line in lines {
            isa.run(Line { taps: &taps, line, input, output, between: &between });
        }
        Ok(())
    });
    say_rows::<T>(op, to);
    Ok(())
}

/// A line of the output.
struct Line<'a, T, W, F> {
    taps: &'a Taps<W>,
    line: usize,
    input: Rows<In<'a, T>>,
    output: Rows<Out<'a, T>>,
    between: F,
}

impl<T: Element, W: Copy, F: Fn([T; 4], [W; 2]) -> T> Loop for Line<'_, T, W, F> {
    #[inline(always)]
    fn run(self) {
        let Self { taps, line, input, output, between } = self;
        let (lanes, from, to) = (taps.lanes(), &taps.from, &taps.to);
        let (plane, row) = (line / to.height * from.height, taps.rows[line % to.height]);
        let lines = [row.first, row.second].map(|it| (plane + it) * from.width);
        for (x, column) in taps.columns.iter().enumerate() {
            if poll::work(PIXEL_NS * lanes).is_err() {
                return;
            }
            let pixel = |line: usize, column: usize| {
                input.piece((line + column) * lanes..(line + column + 1) * lanes)
            };
            let (a, b) = (pixel(lines[0], column.first), pixel(lines[1], column.first));
            let (c, d) = (pixel(lines[0], column.second), pixel(lines[1], column.second));
            let at = (line * to.width + x) * lanes;
            let pixel = output.piece(at..at + lanes);
            for lane in 0..lanes {
                let around = [a.get(lane), b.get(lane), c.get(lane), d.get(lane)];
                pixel.set(lane, between(around, [row.weight, column.weight]));
            }
        }
    }
}

/// Nanoseconds that an element takes at most, about.
const PIXEL_NS: usize = 16;

impl<W> Taps<W> {
    /// Channels that lie side by side.
    fn lanes(&self) -> usize {
        if self.to.is_nchw() { 1 } else { self.to.channels }
    }

    /// Lines of the output, those of all images, and of all channels that don't lie side by side.
    fn lines(&self) -> usize {
        self.to.batches * self.to.channels / self.lanes() * self.to.height
    }
}
