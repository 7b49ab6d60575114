//! AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D: windows over height and width.

use std::ops::Range;

use nnburst_hal::FusedActivation;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::quant::{activation_range, clamp_real, real_activation_range};
use nnburst_kernels::tensor::rows::Port;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Quantised, Real, poll};

use super::mean::divide_round;
use super::support::{Axis, Image, Window, by_real, dispatch, same_quantisation};
use super::{Op, conv};
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static AVERAGE_POOL_2D: Op = Op { lower: |op| lower(op, Kind::Average) };
pub(super) static MAX_POOL_2D: Op = Op { lower: |op| lower(op, Kind::Max) };
pub(super) static L2_POOL_2D: Op = Op { lower: |op| lower(op, Kind::L2) };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Average,
    Max,
    L2,
}

/// A pooling with its operands read.
#[derive(Clone, Copy, Debug)]
struct Pool {
    kind: Kind,
    input: Image,
    output: Image,
    vertical: Axis,
    horizontal: Axis,
    activation: FusedActivation,
}

/// Padding never takes part: averages divide by the elements that are really there.
///
/// Source: NNAPI `AVERAGE_POOL_2D`, `MAX_POOL_2D`, `L2_POOL_2D` (float alone), since HAL 1.0; NCHW
/// since 1.2; signed since 1.3.
fn lower(op: &mut OpBuilder<'_>, kind: Kind) -> Lowered {
    let input = op.input(0)?;
    let explicit = op.input_count() >= 10;
    let (window, next) = Window::read(op, 1, explicit)?;
    let (filter_w, filter_h) = (op.extent(next, 1)?, op.extent(next + 1, 1)?);
    let activation = op.fused_activation(next + 2)?;
    let nchw = op.nchw(next + 3)?;
    let image = Image::of(0, &input.shape, nchw)?;
    let (vertical, horizontal) = window.axes(&image, filter_h, filter_w)?;
    let output =
        Image::new([image.batches, vertical.output, horizontal.output, image.channels], nchw);
    op.set_output(0, output.shape()?)?;
    let pool = Pool { kind, input: image, output, vertical, horizontal, activation };
    if kind == Kind::L2 {
        return by_real!(input.kind, real(op, pool));
    }
    dispatch!(input.kind, 0, real: real(op, pool), byte: byte(op, pool))
}

impl Pool {
    /// Lines of the output, those of all images.
    fn lines(&self) -> usize {
        self.output.batches * self.output.height
    }

    fn label(&self, kernel: &'static str) -> Result<Label, OpError> {
        let window = self.vertical.filter.saturating_mul(self.horizontal.filter);
        let (height, width) = (self.vertical.filter, self.horizontal.filter);
        conv::label(kernel, &self.input, &self.output, height, width, window)
    }
}

/// Folds the elements of every window of some lines, and finishes each fold with the number of
/// elements in it: as many channels side by side as lie side by side in memory, and of these as
/// many as registers hold from the first element of the window to the last.
struct Windows<'a, T, S, F, G> {
    pool: &'a Pool,
    lines: Range<usize>,
    input: In<'a, T>,
    output: Out<'a, T>,
    /// Elements from pixel to pixel of both.
    steps: (usize, usize),
    first: S,
    fold: F,
    finish: G,
}

impl<T: Element, S: Copy, F: Fn(S, T) -> S, G: Fn(S, usize) -> T> Loop for Windows<'_, T, S, F, G> {
    #[inline(always)]
    fn run(self) {
        self.each::<true>();
    }

    #[inline(always)]
    fn run_scalar(self) {
        self.each::<false>();
    }
}

impl<T: Element, S: Copy, F: Fn(S, T) -> S, G: Fn(S, usize) -> T> Windows<'_, T, S, F, G> {
    /// Every window; by blocks of many lanes where there are vectors.
    #[inline(always)]
    fn each<const VECTORS: bool>(&self) {
        let Pool { input, output, vertical, horizontal, .. } = *self.pool;
        let channels = output.channels;
        let lanes = if output.is_nchw() { 1 } else { channels };
        let (step_in, step_out) = self.steps;
        // Pixels as wide as they lie apart, where channels lie side by side.
        let wide = |image: Image, step| match image.is_nchw() {
            true => image,
            false => Image::new([image.batches, image.height, image.width, step], false),
        };
        let (from, to) = (wide(input, step_in), wide(output, step_out));
        let beside = horizontal.whole();
        for line in self.lines.clone() {
            let (y, batch) = (line % to.height, line / to.height);
            let rows = vertical.covered(y);
            // Of short lines all at once, else pixel by pixel.
            let window = rows.len().saturating_mul(horizontal.filter).min(MANY);
            let pixel_ns = window.saturating_mul(lanes) / 4 + 4;
            let is_short = pixel_ns.saturating_mul(to.width) <= poll::CHUNK;
            let at_once = if is_short { to.width } else { 1 };
            for channel in (0..channels).step_by(lanes) {
                let first = from.at(batch, rows.start, 0, channel);
                let result = to.at(batch, y, 0, channel);
                let mut x = 0;
                while x < to.width {
                    if (x == 0 || at_once == 1) && poll::work(pixel_ns * at_once).is_err() {
                        return;
                    }
                    let columns = horizontal.covered(x);
                    let window = Covered {
                        first: first + columns.start * step_in,
                        result: result + x * step_out,
                        rows: rows.len(),
                        columns: columns.len(),
                        line: from.width * step_in,
                        column: step_in,
                        lanes,
                    };
                    if !VECTORS {
                        x += 1;
                        (0..lanes).step_by(FEW).for_each(|lane| self.block::<FEW>(&window, lane));
                        continue;
                    }
                    if beside.contains(&x) {
                        let most = beside.end - x;
                        let taken = match size_of::<S>() {
                            1 => self.pixels::<BLOCK>(&window, most),
                            _ => self.pixels::<{ BLOCK / 2 }>(&window, most),
                        };
                        if taken > 0 {
                            x += taken;
                            continue;
                        }
                    }
                    x += 1;
                    // Of bytes a vector holds a block; of wider ones half a block takes half the
                    // time.
                    if size_of::<S>() > 1 && lanes <= BLOCK / 2 {
                        self.block::<{ BLOCK / 2 }>(&window, 0);
                        continue;
                    }
                    for lane in (0..lanes).step_by(BLOCK) {
                        self.block::<BLOCK>(&window, lane);
                    }
                }
            }
        }
    }
}

/// The places of one window's elements, and its result.
struct Covered {
    first: usize,
    result: usize,
    rows: usize,
    columns: usize,
    /// Elements from line to line and from column to column.
    line: usize,
    column: usize,
    /// Elements that lie side by side.
    lanes: usize,
}

impl<T: Element, S: Copy, F: Fn(S, T) -> S, G: Fn(S, usize) -> T> Windows<'_, T, S, F, G> {
    /// Narrow pixels whose windows are all there, up to `most`: the windows of all places in a line
    /// that a block holds, of which those are stored that results are of. Returns the number of
    /// pixels, 0 where one by one they take no longer.
    #[inline(always)]
    fn pixels<const N: usize>(&self, window: &Covered, most: usize) -> usize {
        let Covered { first, result, rows, columns, line, column: across, lanes } = *window;
        let distance = across.saturating_mul(self.pool.horizontal.stride);
        let last = rows.saturating_sub(1) * line + columns.saturating_sub(1) * across;
        if distance > N / 2 || first + last + N > self.input.len() {
            return 0;
        }
        let count = ((N - lanes) / distance + 1).min(most);
        let ys = self.folded::<N, false>(window, first);
        if distance == lanes && self.steps.1 == lanes {
            let taken = result..result + count * lanes;
            self.output.slice(taken.clone()).copy_from(In::of(&ys[..taken.len()]));
            return count;
        }
        for at in 0..count {
            self.put(result + at * self.steps.1, &ys[at * distance..], lanes);
        }
        count
    }

    /// The lanes from `lane` on, as many as there are up to a block of `N`.
    #[inline(always)]
    fn block<const N: usize>(&self, window: &Covered, lane: usize) {
        let Covered { first, rows, columns, line, column: across, lanes, .. } = *window;
        if lanes < FEW {
            return (lane..lanes).for_each(|lane| self.one(window, lane));
        }
        // Rather a whole block that overlaps the one before.
        let start = lane.min(lanes.saturating_sub(N));
        let last = rows.saturating_sub(1) * line + columns.saturating_sub(1) * across;
        match first + start + last + N <= self.input.len() {
            true => self.fold_block::<N, false>(window, start),
            false => self.block_at_end(window, start),
        }
    }

    /// A block of which not all that is read follows in the input: apart from the others, as blocks
    /// that come from two places go through memory.
    #[cold]
    #[inline(never)]
    fn block_at_end(&self, window: &Covered, start: usize) {
        self.fold_block::<BLOCK, true>(window, start);
    }

    /// The lanes from `start` on. Where there are fewer than a block, what follows in memory is
    /// folded as well and not stored: loops of sixteen elements are unrolled before they become
    /// vectors, and don't then.
    #[inline(always)]
    fn fold_block<const N: usize, const AT_END: bool>(&self, window: &Covered, start: usize) {
        let lanes = window.lanes;
        let ys = self.folded::<N, AT_END>(window, window.first + start);
        let to = window.result + start;
        match lanes {
            _ if lanes >= N => self.output.set_block(to, ys),
            _ => self.put(to, &ys, lanes),
        }
    }

    /// Stores so many elements, fewer than a block.
    #[inline(always)]
    fn put(&self, to: usize, ys: &[T], lanes: usize) {
        match lanes {
            32.. => self.store::<32>(to, ys, lanes),
            16.. => self.store::<16>(to, ys, lanes),
            8.. => self.store::<8>(to, ys, lanes),
            FEW.. => self.store::<FEW>(to, ys, lanes),
            _ => (0..lanes).for_each(|lane| self.output.set(to + lane, ys[lane])),
        }
    }

    /// The results of a window whose first elements are at `first`, and of those beside it.
    #[inline(always)]
    fn folded<const N: usize, const AT_END: bool>(&self, window: &Covered, first: usize) -> [T; N] {
        let Covered { rows, columns, line, column: across, .. } = *window;
        let mut sums = [self.first; N];
        let many = rows * columns > MANY;
        for row in 0..rows {
            // Long windows are reported line by line; of others the pixel was.
            if many && poll::work(columns * BLOCK / 4).is_err() {
                break;
            }
            for column in 0..columns {
                let at = first + row * line + column * across;
                let xs = match AT_END && at + N > self.input.len() {
                    true => self.last_block::<N>(at),
                    false => self.input.block::<N>(at),
                };
                sums.iter_mut().zip(&xs).for_each(|(sum, &x)| *sum = (self.fold)(*sum, x));
            }
        }
        let mut ys = [T::default(); N];
        ys.iter_mut().zip(&sums).for_each(|(y, &sum)| *y = (self.finish)(sum, rows * columns));
        ys
    }

    /// Stores `lanes` elements, from `N` to twice as many: as many twice, the second time those up
    /// to the last. A call of `memcpy` takes as long as a window of two pixels.
    #[inline(always)]
    fn store<const N: usize>(&self, to: usize, ys: &[T], lanes: usize) {
        let ys = In::of(ys);
        self.output.set_block(to, ys.block::<N>(0));
        self.output.set_block(to + lanes - N, ys.block::<N>(lanes - N));
    }

    /// The last elements of the input, fewer than a block.
    fn last_block<const N: usize>(&self, at: usize) -> [T; N] {
        let mut xs = [T::default(); N];
        let left = self.input.slice(at..self.input.len());
        left.copy_to(&mut xs[..left.len()]);
        xs
    }

    #[inline(always)]
    fn one(&self, window: &Covered, lane: usize) {
        let mut sum = self.first;
        for row in poll::each(0..window.rows, 4) {
            for column in poll::each(0..window.columns, 4) {
                let at = window.first + row * window.line + column * window.column + lane;
                sum = (self.fold)(sum, self.input.get(at));
            }
        }
        self.output.set(window.result + lane, (self.finish)(sum, window.rows * window.columns));
    }
}

/// Lanes that are folded side by side.
const BLOCK: usize = 64;

/// Lanes that aren't worth a block.
const FEW: usize = 4;

/// Elements of windows that are long.
const MANY: usize = 1 << 12;

#[expect(
    clippy::cast_precision_loss,
    reason = "a window has fewer than 2^24 elements or is near enough"
)]
fn real<T: Real>(op: &mut OpBuilder<'_>, pool: Pool) -> Lowered {
    let (low, high) = real_activation_range(pool.activation);
    let label = pool.label("pool_real")?;
    let store = move |y: f32| T::from_f32(clamp_real(y, low, high));
    // One division for all lanes.
    let mean = |sum: f32, count: usize| sum * (1.0 / count.max(1) as f32);
    let add = |sum: f32, x: T| sum + x.to_f32();
    let add_square = |sum: f32, x: T| sum + x.to_f32() * x.to_f32();
    // What is no number is never larger; `f32::max` takes three instructions to find that out.
    let larger = |max: f32, x: T| if x.to_f32() > max { x.to_f32() } else { max };
    match pool.kind {
        Kind::Max => emit(op, label, pool, f32::NEG_INFINITY, larger, move |max, _| store(max)),
        Kind::Average => emit(op, label, pool, 0.0, add, move |sum, n| store(mean(sum, n))),
        Kind::L2 => {
            emit(op, label, pool, 0.0, add_square, move |sum, n| store(mean(sum, n).sqrt()));
        }
    }
    Ok(())
}

fn byte<T: Quantised>(op: &mut OpBuilder<'_>, pool: Pool) -> Lowered {
    let (input, output) = (op.input(0)?, op.output(0)?);
    same_quantisation(&input, &output)?;
    if pool.vertical.filter.saturating_mul(pool.horizontal.filter) > 1 << 23 {
        return Err(OpError::rule("a window of more than 2^23 elements").into());
    }
    let (low, high) =
        activation_range(pool.activation, input.scale, input.zero_point, T::MIN, T::MAX);
    let label = pool.label("pool_byte")?;
    if pool.kind == Kind::Max {
        // As bytes, of which a vector holds four times as many; of signed ones as of unsigned ones,
        // which have the same order.
        let (flip, unsigned) = (T::FLIP, |x: i32| u8::from_i32(x + T::TO_UNSIGNED));
        let (low, high) = (unsigned(low), unsigned(high));
        let larger = move |max: u8, q: u8| max.max(q ^ flip);
        emit(op, label, pool, 0, larger, move |max: u8, _| max.max(low).min(high) ^ flip);
    } else {
        let mean = |sum, n| divide_round(sum, i32::try_from(n).unwrap_or(1).max(1));
        let add = |sum: i32, q: T| sum + q.to_i32();
        let store = move |y: i32| T::from_i32(y.max(low).min(high));
        emit(op, label, pool, 0, add, move |sum, n| store(mean(sum, n)));
    }
    Ok(())
}

fn emit<T: Element, S: Copy + Send + Sync + 'static>(
    op: &mut OpBuilder<'_>,
    label: Label,
    pool: Pool,
    first: S,
    fold: impl Fn(S, T) -> S + Send + Sync + 'static,
    finish: impl Fn(S, usize) -> T + Send + Sync + 'static,
) {
    let isa = op.isa();
    let label = Label { form: isa.of_loops(), ..label };
    let Pool { input: from, output: to, .. } = pool;
    let lanes = if to.is_nchw() { 1 } else { to.channels };
    op.emit_bands(label, 0, pool.lines(), move |io, lines| {
        let (input, output) = (io.input_rows(0), io.output_rows(0));
        let pixels =
            |image: Image| image.batches * image.height * image.width * image.channels / lanes;
        let steps = (input.pitch(pixels(from), lanes)?, output.pitch(pixels(to), lanes)?);
        let (input, output, fold, finish) = (input.all(), output.all(), &fold, &finish);
        isa.run(Windows { pool: &pool, lines, input, output, steps, first, fold, finish });
        Ok(())
    });
    if !to.is_nchw() {
        let pixel = Some(lanes * size_of::<T>());
        op.rows(&[(Port::Input(0), pixel), (Port::Output, pixel)]);
    }
}
