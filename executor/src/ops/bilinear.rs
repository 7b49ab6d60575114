//! Interpolation between the four neighbours of each place.

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::kernels::bilinear;
pub(super) use nnburst_kernels::kernels::bilinear::Tap;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::rows::{Port, Rows};
use nnburst_kernels::tensor::{In, OpError, Out, poll};

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
        OperandType::TensorFloat16 => halves(op, taps),
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

/// Adds a step for elements that have no kernel.
fn halves(op: &mut OpBuilder<'_>, taps: Taps) -> Lowered {
    let (isa, shape, to) = (op.isa(), taps.to.shape()?, taps.to);
    let label = compiled(isa, "resize_bilinear", &shape, OPERATIONS * shape.elements() as u64);
    op.emit_bands(label, 0, taps.lines(), move |io, lines| {
        let (input, output) = (io.input_rows(0), io.output_rows(0));
        for line in lines {
            isa.run(Line { taps: &taps, line, input, output });
        }
        Ok(())
    });
    say_rows::<f16>(op, to);
    Ok(())
}

/// A line of the output.
struct Line<'a> {
    taps: &'a Taps,
    line: usize,
    input: Rows<In<'a, f16>>,
    output: Rows<Out<'a, f16>>,
}

impl Loop for Line<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { taps, line, input, output } = self;
        let (lanes, from, to) = (taps.lanes(), &taps.from, &taps.to);
        let (plane, row) = (line / to.height * from.height, taps.rows[line % to.height]);
        let (lines, v) = ([row.first, row.second].map(|it| (plane + it) * from.width), row.weight);
        for (x, column) in taps.columns.iter().enumerate() {
            if poll::work(ELEMENT_NS * lanes).is_err() {
                return;
            }
            let pixel = |line: usize, column: usize| {
                input.piece((line + column) * lanes..(line + column + 1) * lanes)
            };
            let (a, b) = (pixel(lines[0], column.first), pixel(lines[1], column.first));
            let (c, d) = (pixel(lines[0], column.second), pixel(lines[1], column.second));
            let at = (line * to.width + x) * lanes;
            let (pixel, u) = (output.piece(at..at + lanes), column.weight);
            for lane in 0..lanes {
                let [a, b, c, d] = [a, b, c, d].map(|it| it.get(lane).to_f32());
                let (left, right) = (a * (1.0 - v) + b * v, c * (1.0 - v) + d * v);
                pixel.set(lane, f16::from_f32(left * (1.0 - u) + right * u));
            }
        }
    }
}

/// Nanoseconds that an element takes at most, about.
const ELEMENT_NS: usize = 16;

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
