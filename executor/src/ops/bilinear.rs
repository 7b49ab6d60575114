//! Interpolation between the four neighbours of each place.

use std::ops::Range;

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::bilinear_f32;
pub(super) use nnburst_kernels::kernels::bilinear_f32::Tap;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::quant::round_up_small;
use nnburst_kernels::tensor::rows::{Port, Rows};
use nnburst_kernels::tensor::{Element, In, OpError, Out, Quantised, Real, Shape, poll};

use super::pixel_groups;
use super::support::{Image, compiled, dispatch, plain};
use crate::lowering::{Label, Lowered, OpBuilder};

/// An image, what it is brought to, and where the lines and columns of that lie in it.
#[derive(Clone, Debug)]
pub(super) struct Taps {
    pub(super) from: Image,
    pub(super) to: Image,
    pub(super) rows: Vec<Tap>,
    pub(super) columns: Vec<Tap>,
}

/// Adds the step. Of bytes, the stored values are interpolated and rounded to nearest; the
/// reference truncates, which is off by up to one, and the expected values of its own tests are
/// the rounded ones.
pub(super) fn emit(op: &mut OpBuilder<'_>, taps: Taps) -> Lowered {
    if op.input(0)?.kind == OperandType::TensorFloat32 && taps.lanes() >= PIXEL {
        return pixels(op, taps);
    }
    dispatch!(op.input(0)?.kind, 0, real: real(op, taps), byte: byte(op, taps))
}

fn real<T: Real>(op: &mut OpBuilder<'_>, taps: Taps) -> Lowered {
    step(op, taps, T::to_f32, T::from_f32)
}

/// Pixel by pixel, of so many floats that each is worth a vector or a part of one.
fn pixels(op: &mut OpBuilder<'_>, taps: Taps) -> Lowered {
    let (shape, pixel, count) = (taps.to.shape()?, taps.lanes() * size_of::<f32>(), taps.lines());
    let Taps { from, to, rows, columns } = taps;
    let work = to.width * to.channels;
    let bilinear = bilinear_f32::Bilinear::new(op.isa(), to.channels, from.width, columns)
        .map_err(OpError::rule)?;
    let label = Label { form: bilinear.isa(), ..plain("bilinear_f32", &shape, operations(&shape)) };
    op.emit_bands(label, 0, count, move |io, lines| {
        let (input, output) = (io.input_rows(0), io.output_rows(0));
        for line in lines {
            poll::work(work)?;
            let (image, tap) = (line / to.height * from.height, rows[line % to.height]);
            let tap = Tap { first: image + tap.first, second: image + tap.second, ..tap };
            bilinear.compute(tap, input, line, output)?;
        }
        Ok(())
    });
    op.rows(&[(Port::Input(0), Some(pixel)), (Port::Output, Some(pixel))]);
    Ok(())
}

/// Eight multiplications and three sums for each element.
fn operations(shape: &Shape) -> u64 {
    11 * shape.elements() as u64
}

/// As unsigned bytes, with halves up in single precision: the interpreter's definition too.
fn byte<T: Quantised>(op: &mut OpBuilder<'_>, taps: Taps) -> Lowered {
    #[expect(clippy::cast_precision_loss, reason = "a byte")]
    let read = |q: T| (q.to_i32() + T::TO_UNSIGNED) as f32;
    let write = |y| T::from_i32(round_up_small(y) - T::TO_UNSIGNED);
    // Lines that are spread are kept for the next line of the result.
    let is_tall = taps.to.height >= 2 * taps.from.height && taps.to.channels > FEW;
    if taps.to.is_nchw() || is_tall {
        return step(op, taps, read, write);
    }
    let shape = taps.to.shape()?;
    let label = compiled(op.isa(), "resize_bilinear", &shape, operations(&shape));
    let blend = move |around: [T; 4], weights: [f32; 2]| write(blended(around.map(read), weights));
    pixel_groups::emit(op, label, [taps.from, taps.to], taps.rows, &taps.columns, blend)
}

/// Between four pixels: those above and below on the left, then on the right, with the weights of
/// the one below and of the right side.
#[inline(always)]
fn blended([a, b, c, d]: [f32; 4], [v, u]: [f32; 2]) -> f32 {
    a * (1.0 - v) * (1.0 - u) + b * v * (1.0 - u) + c * (1.0 - v) * u + d * v * u
}

fn step<T: Element>(
    op: &mut OpBuilder<'_>,
    taps: Taps,
    read: impl Fn(T) -> f32 + Send + Sync + 'static,
    write: impl Fn(f32) -> T + Send + Sync + 'static,
) -> Lowered {
    let (isa, shape) = (op.isa(), taps.to.shape()?);
    let label = compiled(isa, "resize_bilinear", &shape, operations(&shape));
    let (is_nchw, pixel) = (taps.to.is_nchw(), taps.lanes() * size_of::<T>());
    let (scratch, count) = (BUFFERS * taps.room() * size_of::<f32>(), taps.lines());
    op.emit_bands(label, scratch, count, move |mut io, lines| {
        let (input, output) = (io.input_rows(0), io.output_rows(0));
        let (scratch, read, write) = (io.scratch_slice(), &read, &write);
        isa.run(Bilinear { taps: &taps, lines, input, output, scratch, read, write });
        Ok(())
    });
    if !is_nchw {
        op.rows(&[(Port::Input(0), Some(pixel)), (Port::Output, Some(pixel))]);
    }
    Ok(())
}

impl Taps {
    /// Channels that lie side by side.
    fn lanes(&self) -> usize {
        if self.to.is_nchw() { 1 } else { self.to.channels }
    }

    /// Lines of the output, those of all images, and of all channels that don't lie side by side.
    fn lines(&self) -> usize {
        self.to.batches * self.to.channels / self.lanes() * self.to.height
    }

    /// Columns of the output that are computed at a time: what is kept of them stays in the first
    /// cache.
    fn strip(&self) -> usize {
        (STRIP / self.lanes()).clamp(1, self.to.width)
    }

    /// Elements of a strip, in whole blocks.
    fn room(&self) -> usize {
        (self.strip() * self.lanes()).next_multiple_of(BLOCK)
    }
}

/// Pixels of fewer floats are brought side by side.
const PIXEL: usize = 3;

/// Pixels of more bytes take less time where their lines are spread, if a line serves several.
const FEW: usize = 8;

/// Elements of a line that are computed at a time.
const STRIP: usize = 1024;

/// Elements that are computed side by side.
const BLOCK: usize = 64;

/// What of a strip is kept: of two lines the elements on either side, and the weights.
const BUFFERS: usize = 5;

/// Some lines of the output. Lines of the input are first spread over the columns of the output, so
/// that what is left is one loop over elements that lie side by side, however few channels there
/// are.
struct Bilinear<'a, T, R, W> {
    taps: &'a Taps,
    lines: Range<usize>,
    input: Rows<In<'a, T>>,
    output: Rows<Out<'a, T>>,
    scratch: &'a mut [f32],
    read: R,
    write: W,
}

impl<T: Element, R: Fn(T) -> f32, W: Fn(f32) -> T> Loop for Bilinear<'_, T, R, W> {
    #[inline(always)]
    fn run(self) {
        let Self { taps, lines, input, output, scratch, read, write } = self;
        let (lanes, strip, room) = (taps.lanes(), taps.strip(), taps.room());
        let (from, to) = (&taps.from, &taps.to);
        let mut buffers = scratch.chunks_exact_mut(room);
        let mut buffer = || buffers.next().unwrap_or_default();
        let weights = buffer();
        let mut spread = [Spread::new(buffer(), buffer()), Spread::new(buffer(), buffer())];
        for start in (0..to.width).step_by(strip) {
            let columns = &taps.columns[start..to.width.min(start + strip)];
            let pixels = weights.chunks_exact_mut(lanes);
            pixels.zip(columns).for_each(|(pixel, tap)| pixel.fill(tap.weight));
            spread.iter_mut().for_each(|spread| spread.line = None);
            for line in lines.clone() {
                if poll::work(room * 8).is_err() {
                    return;
                }
                let (plane, tap) = (line / to.height, taps.rows[line % to.height]);
                let Tap { first: top, second: bottom, weight: v } = tap;
                let wanted = [top, bottom].map(|row| plane * from.height + row);
                let above = match wanted.map(|wanted| spread[1].line == Some(wanted)) {
                    [true, _] => 1,
                    _ if spread[0].line == Some(wanted[0]) => 0,
                    // What is left of the line before is rather kept for below.
                    [_, is_below] => usize::from(!is_below),
                };
                let below = if top == bottom { above } else { 1 - above };
                for (at, wanted) in [above, below].into_iter().zip(wanted) {
                    let start = wanted * from.width;
                    spread[at].fill(wanted, input, start, columns, lanes, &read);
                }
                let at = (line * to.width + start) * lanes;
                let place = at..at + columns.len() * lanes;
                between([&spread[above], &spread[below]], v, weights, output, place, &write);
            }
        }
    }
}

/// A strip of a line of the input: for each element of the output the one on its left and the one
/// on its right.
struct Spread<'a> {
    left: &'a mut [f32],
    right: &'a mut [f32],
    /// The number of the row.
    line: Option<usize>,
}

impl<'a> Spread<'a> {
    fn new(left: &'a mut [f32], right: &'a mut [f32]) -> Self {
        Self { left, right, line: None }
    }

    #[inline(always)]
    fn fill<T: Element>(
        &mut self,
        line: usize,
        input: Rows<In<'_, T>>,
        start: usize,
        columns: &[Tap],
        lanes: usize,
        read: impl Fn(T) -> f32,
    ) {
        if self.line.replace(line) == Some(line) {
            return;
        }
        let pixels = self.left.chunks_exact_mut(lanes).zip(self.right.chunks_exact_mut(lanes));
        for ((left, right), &Tap { first, second, .. }) in pixels.zip(columns) {
            for (pixel, column) in [(left, first), (right, second)] {
                let at = (start + column) * lanes;
                let from = input.piece(at..at + lanes).iter();
                pixel.iter_mut().zip(from).for_each(|(to, x)| *to = read(x));
            }
        }
    }
}

/// A strip of a line of the output, from the lines above and below it, of which the second weighs
/// `v`. Behind its end whatever is there is computed as well, and left out.
#[inline(always)]
fn between<T: Element>(
    [above, below]: [&Spread<'_>; 2],
    v: f32,
    weights: &[f32],
    output: Rows<Out<'_, T>>,
    place: Range<usize>,
    write: impl Fn(f32) -> T,
) {
    fn blocks(of: &[f32]) -> impl Iterator<Item = &[f32; BLOCK]> {
        of.as_chunks().0.iter()
    }
    let left = blocks(above.left).zip(blocks(below.left));
    let right = blocks(above.right).zip(blocks(below.right));
    let places = place.clone().step_by(BLOCK).zip(blocks(weights));
    for ((at, us), ((a, b), (c, d))) in places.zip(left.zip(right)) {
        let mut ys = [T::default(); BLOCK];
        for (k, y) in ys.iter_mut().enumerate() {
            *y = write(blended([a[k], b[k], c[k], d[k]], [v, us[k]]));
        }
        let (mut done, count) = (0, BLOCK.min(place.end - at));
        if count == BLOCK && output.left(at) >= BLOCK {
            output.all().set_block(output.place(at), ys);
            continue;
        }
        while done < count {
            let here = (count - done).min(output.left(at + done));
            let to = output.piece(at + done..at + done + here);
            to.copy_from(In::of(&ys[done..done + here]));
            done += here;
        }
    }
}
