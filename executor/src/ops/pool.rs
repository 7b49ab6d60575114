//! AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D: windows over height and width.

use std::ops::Range;

use nnburst_hal::{FusedActivation, OperandType};
use nnburst_kernels::kernels::max_pool_i8::MaxPool;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::kernels::pool_f32::{PoolF32, Pooling};
use nnburst_kernels::kernels::pool_windows::PoolWindows;
use nnburst_kernels::simd::Isa;
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
    match (input.kind, kind) {
        (OperandType::TensorFloat32, Kind::Max) => float(op, pool, Pooling::Max),
        (OperandType::TensorFloat32, Kind::Average) => float(op, pool, Pooling::Mean),
        (kind, Kind::L2) => by_real!(kind, real(op, pool)),
        (kind, _) => dispatch!(kind, 0, real: real(op, pool), byte: byte(op, pool)),
    }
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

    /// Calls `act` for windows of some lines that lie beside each other and cover the input alike,
    /// with the places of their first element and of their first result, where pixels are so many
    /// elements apart.
    fn each(
        &self,
        lines: Range<usize>,
        steps: [usize; 2],
        mut act: impl FnMut(usize, usize, PoolWindows) -> Result<(), String>,
    ) -> Result<(), String> {
        let Self { vertical, horizontal, .. } = *self;
        let [step_in, step_out] = steps;
        // Pixels as wide as they lie apart, where channels lie side by side.
        let wide = |image: Image, step| match image.is_nchw() {
            true => image,
            false => Image::new([image.batches, image.height, image.width, step], false),
        };
        let (from, to) = (wide(self.input, step_in), wide(self.output, step_out));
        let lanes = if to.is_nchw() { 1 } else { self.output.channels };
        let beside = horizontal.whole();
        for line in lines {
            let (y, batch) = (line % to.height, line / to.height);
            let rows = vertical.covered(y);
            for channel in (0..self.output.channels).step_by(lanes) {
                let mut x = 0;
                while x < to.width {
                    let columns = horizontal.covered(x);
                    let count = if beside.contains(&x) { beside.end - x } else { 1 };
                    let windows = PoolWindows {
                        rows: rows.len(),
                        columns: columns.len(),
                        line: from.width * step_in,
                        column: step_in,
                        count,
                        distance: horizontal.stride.saturating_mul(step_in),
                        pitch: step_out,
                        lanes,
                    };
                    let first = from.at(batch, rows.start, columns.start, channel);
                    act(first, to.at(batch, y, x, channel), windows)?;
                    x += count;
                }
            }
        }
        Ok(())
    }
}

/// Folds the elements of every window, and finishes each fold with the number of elements in it: as
/// many channels side by side as lie side by side in memory, and of these as many as registers hold
/// from the first element of the window to the last.
struct Windows<'a, T, S, F, G> {
    windows: PoolWindows,
    input: In<'a, T>,
    output: Out<'a, T>,
    first: S,
    fold: F,
    finish: G,
}

impl<T: Element, S: Copy, F: Fn(S, T) -> S, G: Fn(S, usize) -> T> Loop for Windows<'_, T, S, F, G> {
    #[inline(always)]
    fn run(self) {
        // Wide blocks of bytes alone: others are rarer than their code is long.
        match size_of::<T>() == 1 && self.windows.lanes > BLOCK {
            true => self.each::<{ 2 * BLOCK }>(),
            false => self.each::<BLOCK>(),
        }
    }

    #[inline(always)]
    fn run_scalar(self) {
        self.each::<FEW>();
    }
}

impl<T: Element, S: Copy, F: Fn(S, T) -> S, G: Fn(S, usize) -> T> Windows<'_, T, S, F, G> {
    /// Every window, by blocks of `N` lanes where they don't read beyond the input.
    #[inline(always)]
    fn each<const N: usize>(&self) {
        let PoolWindows { rows, columns, count, distance, lanes, .. } = self.windows;
        let window_ns = (rows * columns).min(MANY).saturating_mul(lanes) / 4 + 4;
        let at_once = (poll::CHUNK / window_ns).max(1);
        for start in (0..count).step_by(at_once) {
            let end = count.min(start + at_once);
            if poll::work(window_ns.saturating_mul(end - start)).is_err() {
                return;
            }
            let last = self.place(rows.saturating_sub(1), columns.saturating_sub(1));
            let left = self.input.len().checked_sub(last + N.max(lanes));
            let there = match lanes < FEW && distance > N / 2 {
                true => 0,
                false => left.map_or(0, |left| left / distance.max(1) + 1),
            };
            let whole = start..there.clamp(start, end);
            self.blocks::<N>(whole.clone());
            for window in whole.end..end {
                self.at_end(window);
            }
        }
    }

    /// Elements from the first of a window to another.
    fn place(&self, row: usize, column: usize) -> usize {
        row * self.windows.line + column * self.windows.column
    }

    /// Windows of which whole blocks may be read.
    #[inline(always)]
    fn blocks<const N: usize>(&self, range: Range<usize>) {
        let PoolWindows { distance, pitch, lanes, .. } = self.windows;
        // Several windows at the places that a block holds: those are stored that results are of.
        let side = if distance <= N / 2 { (N - lanes) / distance.max(1) + 1 } else { 1 };
        let is_together = side == 1 || distance == lanes && pitch == lanes;
        for lane in (0..lanes).step_by(N) {
            // Rather a whole block that overlaps the one before.
            let lane = lane.min(lanes.saturating_sub(N));
            for window in range.clone().step_by(side) {
                let side = side.min(range.end - window);
                let ys = self.folded::<N>(window * distance + lane);
                let to = window * pitch + lane;
                if side * lanes >= N {
                    self.output.set_block(to, ys);
                } else if is_together {
                    self.put(to, &ys, side * lanes);
                } else {
                    for at in 0..side {
                        self.put(to + at * pitch, &ys[at * distance..], lanes);
                    }
                }
            }
        }
    }

    /// A window in the smallest blocks, or one lane after the other. Cold: few of an image are left
    /// for it.
    #[cold]
    #[inline(never)]
    fn at_end(&self, window: usize) {
        let PoolWindows { rows, columns, distance, pitch, lanes, .. } = self.windows;
        if lanes >= FEW {
            return self.blocks::<FEW>(window..window + 1);
        }
        for lane in 0..lanes {
            let mut sum = self.first;
            for row in poll::each(0..rows, 4) {
                for column in poll::each(0..columns, 4) {
                    let at = window * distance + self.place(row, column) + lane;
                    sum = (self.fold)(sum, self.input.get(at));
                }
            }
            self.output.set(window * pitch + lane, (self.finish)(sum, rows * columns));
        }
    }

    /// The results of a window whose first elements are at `first`, and of those beside it.
    #[inline(always)]
    fn folded<const N: usize>(&self, first: usize) -> [T; N] {
        let PoolWindows { rows, columns, .. } = self.windows;
        let mut sums = [self.first; N];
        let many = rows * columns > MANY;
        for row in 0..rows {
            // Long windows are reported line by line; of others the pixel was.
            if many && poll::work(columns * N / 4).is_err() {
                break;
            }
            for column in 0..columns {
                let xs = self.input.block::<N>(first + self.place(row, column));
                sums.iter_mut().zip(&xs).for_each(|(sum, &x)| *sum = (self.fold)(*sum, x));
            }
        }
        let mut ys = [T::default(); N];
        ys.iter_mut().zip(&sums).for_each(|(y, &sum)| *y = (self.finish)(sum, rows * columns));
        ys
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

    /// Stores `lanes` elements, from `N` to twice as many: as many twice, the second time those up
    /// to the last. A call of `memcpy` takes as long as a window of two pixels.
    #[inline(always)]
    fn store<const N: usize>(&self, to: usize, ys: &[T], lanes: usize) {
        let ys = In::of(ys);
        self.output.set_block(to, ys.block::<N>(0));
        self.output.set_block(to + lanes - N, ys.block::<N>(lanes - N));
    }
}

/// Lanes that are folded side by side: loops of sixteen are unrolled before they become vectors,
/// and don't then.
const BLOCK: usize = 32;

/// Lanes that aren't worth a block.
const FEW: usize = 4;

/// Elements of windows that are long.
const MANY: usize = 1 << 12;

fn float(op: &mut OpBuilder<'_>, pool: Pool, pooling: Pooling) -> Lowered {
    let kernel = PoolF32::new(op.isa(), pooling, real_activation_range(pool.activation));
    emit::<f32>(op, "pool_f32", kernel.isa(), pool, move |windows, input, output| {
        kernel.compute(windows, input, output)
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a window has fewer than 2^24 elements or is near enough"
)]
fn real<T: Real>(op: &mut OpBuilder<'_>, pool: Pool) -> Lowered {
    let (low, high) = real_activation_range(pool.activation);
    let store = move |y: f32| T::from_f32(clamp_real(y, low, high));
    // One division for all lanes.
    let mean = |sum: f32, count: usize| sum * (1.0 / count.max(1) as f32);
    let add = |sum: f32, x: T| sum + x.to_f32();
    let add_square = |sum: f32, x: T| sum + x.to_f32() * x.to_f32();
    // What is no number is never larger; `f32::max` takes three instructions to find that out.
    let larger = |max: f32, x: T| if x.to_f32() > max { x.to_f32() } else { max };
    let name = "pool_real";
    match pool.kind {
        Kind::Max => folded(op, name, pool, f32::NEG_INFINITY, larger, move |max, _| store(max)),
        Kind::Average => folded(op, name, pool, 0.0, add, move |sum, n| store(mean(sum, n))),
        Kind::L2 => {
            folded(op, name, pool, 0.0, add_square, move |sum, n| store(mean(sum, n).sqrt()))
        }
    }
}

fn byte<T: Quantised>(op: &mut OpBuilder<'_>, pool: Pool) -> Lowered {
    let (input, output) = (op.input(0)?, op.output(0)?);
    same_quantisation(&input, &output)?;
    if pool.vertical.filter.saturating_mul(pool.horizontal.filter) > 1 << 23 {
        return Err(OpError::rule("a window of more than 2^23 elements").into());
    }
    let (low, high) =
        activation_range(pool.activation, input.scale, input.zero_point, T::MIN, T::MAX);
    if pool.kind == Kind::Max {
        let stored = |q: i32| q.to_le_bytes()[0];
        let kernel = MaxPool::new(op.isa(), T::MIN < 0, (stored(low), stored(high)));
        return emit::<u8>(op, "max_pool_i8", kernel.isa(), pool, move |windows, input, output| {
            kernel.compute(windows, input, output)
        });
    }
    let mean = |sum, n| divide_round(sum, i32::try_from(n).unwrap_or(1).max(1));
    let add = |sum: i32, q: T| sum + q.to_i32();
    let store = move |y: i32| T::from_i32(y.max(low).min(high));
    folded(op, "pool_byte", pool, 0, add, move |sum, n| store(mean(sum, n)))
}

/// Emits a fold of the elements of every window, of the first number and one after the other, and
/// what becomes of it with the number of elements.
fn folded<T: Element, S: Copy + Send + Sync + 'static>(
    op: &mut OpBuilder<'_>,
    kernel: &'static str,
    pool: Pool,
    first: S,
    fold: impl Fn(S, T) -> S + Send + Sync + 'static,
    finish: impl Fn(S, usize) -> T + Send + Sync + 'static,
) -> Lowered {
    let isa = op.isa();
    emit::<T>(op, kernel, isa.of_loops(), pool, move |windows, input, output| {
        isa.run(Windows { windows, input, output, first, fold: &fold, finish: &finish });
        Ok(())
    })
}

/// Emits a call for windows beside each other that cover the input alike.
fn emit<T: Element>(
    op: &mut OpBuilder<'_>,
    kernel: &'static str,
    isa: Isa,
    pool: Pool,
    compute: impl Fn(PoolWindows, In<'_, T>, Out<'_, T>) -> Result<(), String> + Send + Sync + 'static,
) -> Lowered {
    let label = Label { form: isa, ..pool.label(kernel)? };
    let Pool { input: from, output: to, .. } = pool;
    let lanes = if to.is_nchw() { 1 } else { to.channels };
    op.emit_bands(label, 0, pool.lines(), move |io, lines| {
        let (input, output) = (io.input_rows(0), io.output_rows(0));
        let pixels =
            |image: Image| image.batches * image.height * image.width * image.channels / lanes;
        let steps = [input.pitch(pixels(from), lanes)?, output.pitch(pixels(to), lanes)?];
        let (input, output) = (input.all(), output.all());
        pool.each(lines, steps, |first, result, windows| {
            let from = first.min(input.len())..input.len();
            let to = result.min(output.len())..output.len();
            compute(windows, input.slice(from), output.slice(to))
        })
    });
    if !to.is_nchw() {
        let pixel = Some(lanes * size_of::<T>());
        op.rows(&[(Port::Input(0), pixel), (Port::Output, pixel)]);
    }
    Ok(())
}
