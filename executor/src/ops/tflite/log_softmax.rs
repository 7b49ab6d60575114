//! LOG_SOFTMAX over the last dimension: FLOAT32, and bytes in fixed point.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::quant::{Multiplier, fixed, rdbpot, round_half_away};
use nnburst_kernels::tensor::{OpError, Out, poll};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, refused};
use super::math::{Stored, cut, f32_of, f64_of, low};
use crate::lowering::Lowered;
use crate::ops::softmax::{BYTES, Distant, FEW, ROWS, SideBySide};

/// Bits before the point of differences and of their logarithms.
const DIFFERENCE_BITS: i32 = 5;
/// Bits before the point of sums of powers.
const SUM_BITS: i32 = 12;
/// Bits before the point of results.
const RESULT_BITS: i32 = 4;

pub(super) fn log_softmax(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = (call.arg(0)?, call.result(0)?);
    input.same_kind(&result)?;
    if input.shape.rank() == 0 {
        return Err(OpError::input(0, "is a scalar").into());
    }
    let depth = input.shape.last().copied().unwrap_or(1);
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    let rows = shape.elements() / depth.max(1);
    if input.kind == ElementKind::F32 {
        call.step(&shape, move |io| {
            let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
            for row in poll::each(0..rows, 20 * depth) {
                let values = from.slice(row * depth..(row + 1) * depth);
                let most = values.iter().fold(f32::MIN, f32::max);
                let sum: f32 = values.iter().fold(0.0, |sum, value| sum + (value - most).exp());
                let log = sum.ln();
                let to = to.slice(row * depth..(row + 1) * depth);
                to.fill(values.iter().map(|value| value - most - log));
            }
            Ok(())
        });
        return Ok(());
    }
    let Some(steps) = Steps::of(&input, &result)? else {
        return in_floats(call, &input, &result);
    };
    let powers: [i32; BYTES] = std::array::from_fn(|below| steps.power(below));
    let distances: [i32; BYTES] = std::array::from_fn(|below| steps.distance(below));
    let (isa, side_by_side) = (call.isa(), if depth <= FEW { rows / ROWS } else { 0 });
    let flip = if input.kind == ElementKind::I8 { 0x80 } else { 0 };
    call.step(&shape, move |io| {
        let (from, to) = (io.input::<u8>(0), io.output::<u8>(0));
        for block in poll::each(0..side_by_side, ROWS * (8 + 4 * depth)) {
            let own = block * ROWS * depth..(block + 1) * ROWS * depth;
            let (from, to) = (from.slice(own.clone()), to.slice(own));
            let rows = SideBySide { from, count: depth, flip };
            isa.run(Logarithms { rows, to, steps, powers: &powers, distances: &distances });
        }
        for row in poll::each(side_by_side * ROWS..rows, 2 * BYTES) {
            let own = row * depth..(row + 1) * depth;
            let (from, to) = (from.slice(own.clone()), to.slice(own));
            let row = Distant { from, to, flip, addends: &powers };
            isa.run(RowLogarithms { row, steps, distances: &distances });
        }
        Ok(())
    });
    Ok(())
}

/// The results of one row.
struct RowLogarithms<'a> {
    row: Distant<'a>,
    steps: Steps,
    distances: &'a [i32; BYTES],
}

impl Loop for RowLogarithms<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { row, steps, distances } = self;
        let Some((max, sum)) = row.sum() else { return };
        let log = Steps::log(sum);
        let least = steps.least(log);
        let mut results = [0u8; BYTES];
        for (below, (to, &distance)) in results.iter_mut().zip(distances).enumerate() {
            *to = steps.stored(below, distance, log, least).to_le_bytes()[0];
        }
        row.look_up(max, &results);
    }
}

/// The results of rows side by side: the logarithm of a row by itself takes longer than all else.
struct Logarithms<'a> {
    rows: SideBySide<'a>,
    to: Out<'a, u8>,
    steps: Steps,
    powers: &'a [i32; BYTES],
    distances: &'a [i32; BYTES],
}

impl Loop for Logarithms<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { rows, to, steps, powers, distances } = self;
        let depth = rows.count.min(FEW);
        let columns = rows.distances();
        let mut sums = [0i32; ROWS];
        for column in &columns[..depth] {
            for (&below, sum) in column.iter().zip(&mut sums) {
                *sum = sum.wrapping_add(powers[usize::from(below)]);
            }
        }
        let (mut logs, mut leasts) = ([0; ROWS], [0; ROWS]);
        // In one loop: two are made vectors of, and take twice the time.
        for ((log, least), &sum) in logs.iter_mut().zip(&mut leasts).zip(&sums) {
            *log = Steps::log(sum);
            *least = steps.least(*log);
        }
        for (k, column) in columns[..depth].iter().enumerate() {
            for (row, &below) in column.iter().enumerate() {
                let below = usize::from(below);
                let stored = steps.stored(below, distances[below], logs[row], leasts[row]);
                to.set(row * depth + k, stored.to_le_bytes()[0]);
            }
        }
    }
}

/// Bytes of a scale that fixed point has no bits for, which ends the process of the interpreter's
/// reference kernel: by floats, as its other kernel, in the order of its operations.
fn in_floats(call: &mut OperatorCall<'_, '_>, input: &Arg, result: &Arg) -> Lowered {
    let depth = input.shape.last().copied().unwrap_or(1).max(1);
    let rows = input.shape.elements() / depth;
    let (scale, to, zero_point) = (input.scale, result.scale, result.zero_point);
    let (min, max) = result.kind.range();
    by_kind!(input.kind, [I8 i8, U8 u8], T => call.step(&input.shape, move |io| {
        let (from, output) = (io.input::<T>(0), io.output::<T>(0));
        for row in poll::each(0..rows, 20 * depth) {
            let values = from.slice(row * depth..(row + 1) * depth);
            let most = values.iter().map(T::wide).max().unwrap_or(0);
            let power = |value: T| (-scale * f32_of(most - value.wide())).exp();
            let sum = values.iter().fold(0.0f32, |sum, value| sum + power(value));
            let least = (scale * f32_of(most) + sum.ln()) / to;
            let output = output.slice(row * depth..(row + 1) * depth);
            output.fill(values.iter().map(|value| {
                let real = scale / to * f32_of(value.wide()) - least;
                let stored = round_half_away(real.round_ties_even()).saturating_add(zero_point);
                T::stored(stored.clamp(min, max))
            }));
        }
        Ok(())
    }));
    Ok(())
}

/// What depends on the scales.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// From differences of stored values to fixed point, and back.
    to_fixed: Multiplier,
    from_fixed: Multiplier,
    /// Differences below are nothing.
    least: i32,
    zero_point: i32,
    range: (i32, i32),
}

impl Steps {
    /// `None` where the input's scale is too small.
    fn of(input: &Arg, result: &Arg) -> Result<Option<Self>, OpError> {
        let range = result.kind.range();
        if !matches!(input.kind, ElementKind::I8 | ElementKind::U8) {
            return Err(refused(0, input.kind));
        }
        if result.scale.to_bits() != (16.0f32 / 256.0).to_bits() || result.zero_point != range.1 {
            let what = format!("has scale {} and zero point {}", result.scale, result.zero_point);
            return Err(OpError::output(0, what));
        }
        let one = 1i64 << (31 - DIFFERENCE_BITS);
        let real = (f64::from(input.scale) * f64_of(one)).min(f64::from(i32::MAX));
        if real <= 1.0 {
            return Ok(None);
        }
        let to_fixed = Multiplier::new(real);
        let unit = f64_of(1i64 << (31 - to_fixed.shift.clamp(0, 31)));
        let from_fixed = Multiplier::new(unit / f64::from(to_fixed.fraction));
        let most = f64_of((1i64 << DIFFERENCE_BITS) - 1) * f64_of(one);
        let radius = most / f64_of(1i64 << to_fixed.shift.clamp(0, 31));
        let least = -low(cut(radius.floor()));
        Ok(Some(Self { to_fixed, from_fixed, least, zero_point: result.zero_point, range }))
    }

    /// The power of a value so far below the largest, as what is added up.
    fn power(&self, below: usize) -> i32 {
        if -integer(below) < self.least {
            return 0;
        }
        rdbpot(fixed::exp_negative(self.distance(below), DIFFERENCE_BITS), SUM_BITS)
    }

    /// The distance of such a value in fixed point.
    fn distance(&self, below: usize) -> i32 {
        self.to_fixed.apply(-integer(below))
    }

    /// The logarithm of a sum of powers.
    #[inline(always)]
    fn log(sum: i32) -> i32 {
        fixed::log_from_one(sum, SUM_BITS, DIFFERENCE_BITS)
    }

    /// The difference from which on results are the least.
    #[inline(always)]
    fn least(&self, log: i32) -> i32 {
        self.from_fixed.apply(i32::MIN.wrapping_add(log)).max(self.least - 1)
    }

    /// The result for a value so far below the largest, and at this distance.
    #[inline(always)]
    fn stored(&self, below: usize, distance: i32, log: i32, least: i32) -> i32 {
        let (min, max) = self.range;
        if -integer(below) <= least {
            return min;
        }
        let shift = 31 - DIFFERENCE_BITS - RESULT_BITS;
        let real = rdbpot(distance.wrapping_sub(log), shift);
        real.saturating_add(self.zero_point).clamp(min, max)
    }
}

/// A difference of two bytes.
#[inline(always)]
fn integer(below: usize) -> i32 {
    i32::try_from(below).unwrap_or(255)
}
