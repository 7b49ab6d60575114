//! SOFTMAX along an axis.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::kernels::softmax_f32::Softmax;
use nnburst_kernels::kernels::transcendental_f32::{Function, Map};
use nnburst_kernels::tensor::quant::fixed::{exp_negative, one_over_one_plus};
use nnburst_kernels::tensor::quant::{BranchlessMultiplier, Multiplier, rdbpot, srdhm};
use nnburst_kernels::tensor::{In, OpError, Out, Quantised, Real, poll};

use super::Op;
use super::support::{compiled, dispatch, plain};
use crate::lowering::recipe::Recipe;
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static SOFTMAX: Op = Op { lower };

/// Source: NNAPI `SOFTMAX`, since HAL 1.0; the axis since 1.2.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    if input.shape.rank() > 4 {
        return Err(
            OpError::input(0, format!("{:?} is of more than 4 extents", input.shape)).into()
        );
    }
    let beta = op.f32(1)?;
    if beta.is_nan() || beta <= 0.0 {
        return Err(OpError::input(1, format!("beta {beta} is not positive")).into());
    }
    let axis = if op.has_input(2) { op.i32(2)? } else { -1 };
    let axis = input.shape.axis(axis)?;
    op.set_output(0, input.shape.clone())?;
    dispatch!(input.kind, 0, real: real(op, axis, beta), byte: byte(op, axis, beta))
}

/// `exp(beta * (x - max)) / sum`.
pub(super) fn real<T: Real>(op: &mut OpBuilder<'_>, axis: usize, beta: f32) -> Lowered {
    let shape = op.input(0)?.shape;
    let (outer, count, inner) = shape.around(axis);
    if inner == 1
        && op.input_kind(0)? == OperandType::TensorFloat32
        && let Some(softmax) = Softmax::new(op.isa(), count, beta)
    {
        let label = Label { form: softmax.isa(), ..plain("softmax_f32", &shape, 0) };
        op.emit(label, move |io| softmax.compute(io.input(0), io.output(0)));
        op.recipe(Recipe::Softmax { columns: count, beta });
        return Ok(());
    }
    let exp = Map::new(op.isa(), Function::Exp);
    let label = Label { form: exp.isa(), ..plain("softmax_real", &shape, 0) };
    let isa = op.isa();
    op.emit_with_scratch(label, count * 4, move |mut io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let row = io.scratch_slice::<f32>();
        for line in poll::each(0..outer * inner, 16) {
            let first = line / inner * count * inner + line % inner;
            let mut max = f32::NEG_INFINITY;
            for (start, chunk) in chunks(row) {
                poll::work(chunk.len() * 4)?;
                let from = input.slice(first + start * inner..input.len());
                isa.run(Widen { from, step: inner, row: chunk, max: &mut max });
            }
            let mut sum = 0.0;
            for (_, chunk) in chunks(row) {
                poll::work(chunk.len() * 10)?;
                isa.run(Distances { row: chunk, max, beta });
                exp.apply(chunk);
                // One by one: in lanes the last bits would be others than the reference's.
                sum = chunk.iter().fold(sum, |sum, x| sum + x);
            }
            for (start, chunk) in chunks(row) {
                poll::work(chunk.len() * 4)?;
                let to = output.slice(first + start * inner..output.len());
                isa.run(Shares { row: chunk, sum, to, step: inner });
            }
        }
        Ok(())
    });
    Ok(())
}

/// Parts of a row between which a run may be stopped, and where they start.
fn chunks(row: &mut [f32]) -> impl Iterator<Item = (usize, &mut [f32])> {
    row.chunks_mut(poll::CHUNK).enumerate().map(|(at, chunk)| (at * poll::CHUNK, chunk))
}

/// Maxima that are kept side by side: two vectors, as one alone waits for each comparison.
const MAXIMA: usize = 32;

/// Elements that are divided at a time.
const LANES: usize = 16;

/// Elements that lie `step` apart as floats, and their maximum.
struct Widen<'a, T> {
    from: In<'a, T>,
    step: usize,
    row: &'a mut [f32],
    max: &'a mut f32,
}

impl<T: Real> Loop for Widen<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { from, step, row, max } = self;
        // The lanes' own maxima would take longer than a short row does.
        if row.len() < MAXIMA / 2 {
            for (k, x) in row.iter_mut().enumerate() {
                *x = from.get(k * step).to_f32();
                *max = larger(*max, *x);
            }
            return;
        }
        let (blocks, rest) = row.as_chunks_mut::<MAXIMA>();
        let done = blocks.len() * MAXIMA;
        let mut most = [*max; MAXIMA];
        for (at, block) in blocks.iter_mut().enumerate() {
            *block = match step {
                1 => from.block::<MAXIMA>(at * MAXIMA).map(T::to_f32),
                _ => std::array::from_fn(|k| from.get((at * MAXIMA + k) * step).to_f32()),
            };
            most.iter_mut().zip(block).for_each(|(most, x)| *most = larger(*most, *x));
        }
        for (k, x) in rest.iter_mut().enumerate() {
            *x = from.get((done + k) * step).to_f32();
            most[k] = larger(most[k], *x);
        }
        // Half by half: one after the other takes as long as a row of a hundred.
        let mut count = MAXIMA;
        while count > 1 {
            count /= 2;
            (0..count).for_each(|at| most[at] = larger(most[at], most[at + count]));
        }
        *max = most[0];
    }
}

/// The larger number, the first where the second is none: one instruction, where `f32::max` is
/// three.
#[inline(always)]
fn larger(most: f32, x: f32) -> f32 {
    if x > most { x } else { most }
}

/// From numbers to `beta` times their distance from the largest.
struct Distances<'a> {
    row: &'a mut [f32],
    max: f32,
    beta: f32,
}

impl Loop for Distances<'_> {
    #[inline(always)]
    fn run(self) {
        self.row.iter_mut().for_each(|x| *x = (*x - self.max) * self.beta);
    }
}

/// Each number's share of the sum, `step` elements apart.
struct Shares<'a, T> {
    row: &'a [f32],
    sum: f32,
    to: Out<'a, T>,
    step: usize,
}

impl<T: Real> Loop for Shares<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { row, sum, to, step } = self;
        let (blocks, rest) = row.as_chunks::<LANES>();
        let done = blocks.len() * LANES;
        for (at, block) in blocks.iter().enumerate() {
            let shares = block.map(|x| T::from_f32(x / sum));
            match step {
                1 => to.set_block(at * LANES, shares),
                _ => shares
                    .into_iter()
                    .enumerate()
                    .for_each(|(k, x)| to.set((at * LANES + k) * step, x)),
            }
        }
        for (k, x) in rest.iter().enumerate() {
            to.set((done + k) * step, T::from_f32(x / sum));
        }
    }
}

/// The reference's fixed-point arithmetic; `exp` depends on the distance to the largest byte alone
/// and is a table of 256.
fn byte<T: Quantised>(op: &mut OpBuilder<'_>, axis: usize, beta: f32) -> Lowered {
    let (input, output) = (op.input(0)?, op.output(0)?);
    let fixed = output.scale.to_bits() == (1.0f32 / 256.0).to_bits()
        && output.zero_point == -T::TO_UNSIGNED;
    if !fixed {
        let what = format!("scale {} and zero point {}", output.scale, output.zero_point);
        return Err(OpError::output(0, what + ", must be 1/256 and the smallest value").into());
    }
    fixed_byte(op, axis, &exponentials(input.scale, beta)?, T::FLIP)
}

/// Shares in 256ths, whatever the result's scale: TFLite's reference does not look at that of
/// UINT8. With `flip`, bytes are unsigned: distances are the same.
pub(super) fn fixed_byte(
    op: &mut OpBuilder<'_>,
    axis: usize,
    table: &Exponentials,
    flip: u8,
) -> Lowered {
    let input = op.input(0)?;
    let (exps, addends) = (table.map(|of| of.exp.unwrap_or(0)), table.map(|of| of.addend));
    let (outer, count, inner) = input.shape.around(axis);
    let isa = op.isa();
    let label = compiled(isa, "softmax_byte", &input.shape, 0);
    let shares = move |from: In<'_, u8>, to: Out<'_, u8>| {
        let shares = ByteShares { from, to, flip, exps: &exps, addends: &addends };
        match from.len() {
            0..BYTES => isa.run(shares),
            _ => isa.run(LongByteShares(shares)),
        }
    };
    if inner == 1 {
        let many = if (1..=FEW).contains(&count) { outer / ROWS * ROWS } else { 0 };
        op.emit(label, move |io| {
            let (input, output) = (io.input::<u8>(0), io.output::<u8>(0));
            for first in poll::each((0..many).step_by(ROWS), ROWS * (16 + 4 * count)) {
                let places = first * count..(first + ROWS) * count;
                let (from, to) = (input.slice(places.clone()), output.slice(places));
                isa.run(FewShares { rows: SideBySide { from, count, flip }, to, exps: &exps });
            }
            for line in poll::each(many..outer, 256) {
                let places = line * count..(line + 1) * count;
                shares(input.slice(places.clone()), output.slice(places));
            }
            Ok(())
        });
        return Ok(());
    }
    op.emit_with_scratch(label, 2 * count, move |mut io| {
        let (input, output) = (io.input::<u8>(0), io.output::<u8>(0));
        let (row, results) = io.scratch_slice::<u8>()[..2 * count].split_at_mut(count);
        for line in poll::each(0..outer * inner, 256) {
            let start = line / inner * count * inner + line % inner;
            let bytes = poll::each(row.iter_mut().enumerate(), 4);
            bytes.for_each(|(k, q)| *q = input.get(start + k * inner));
            shares(In::of(row), Out::of(results));
            let results = poll::each(results.iter().enumerate(), 4);
            results.for_each(|(k, y)| output.set(start + k * inner, *y));
        }
        Ok(())
    });
    Ok(())
}

/// The numbers that a byte may be, and distances between them.
pub(super) const BYTES: usize = 256;

/// The shares of a row of fewer than 256 bytes: looked up one by one, scaled in vectors.
struct ByteShares<'a> {
    from: In<'a, u8>,
    to: Out<'a, u8>,
    /// Bits that make a byte unsigned.
    flip: u8,
    /// By the distance to the largest byte: the exponential, and the same with the bits of sums.
    exps: &'a [i32; BYTES],
    addends: &'a [i32; BYTES],
}

/// The distance of a byte to the largest of its row.
#[inline(always)]
fn distance(max: u8, q: u8) -> usize {
    usize::from(max.wrapping_sub(q))
}

/// The factor of exponentials whose sum that is: the product's upper half, rounded, and what is
/// shifted out of it.
#[inline(always)]
fn share_of(sum: i32) -> BranchlessMultiplier {
    let leading = sum.leading_zeros().cast_signed();
    let scaled = sum.wrapping_shl(leading.unsigned_abs()).wrapping_sub(i32::MIN);
    let fraction = one_over_one_plus(scaled);
    BranchlessMultiplier::from(Multiplier { fraction, shift: leading - 12 - 23 })
}

impl Loop for ByteShares<'_> {
    #[inline(always)]
    fn run(self) {
        /// Shares that are computed at a time.
        const BLOCK: usize = 32;
        let Self { from, to, flip, exps, .. } = self;
        let (mut bytes, mut values) = ([0u8; BYTES], [0u32; BYTES]);
        let count = from.len().min(bytes.len());
        from.copy_to(&mut bytes[..count]);
        let bytes = &bytes[..count];
        // Distances are those of the bytes as they lie.
        let max = largest(from, flip).unwrap_or(0) ^ flip;
        let mut sum = 0u32;
        for (value, q) in values.iter_mut().zip(bytes) {
            *value = exps[distance(max, *q)].cast_unsigned();
            // The bits of sums, as in the table of addends: to look those up takes as long again.
            sum += (*value + (1 << 11)) >> 12;
        }
        let (share, mut shares) = (ShortShare::of(sum), [0u8; BYTES]);
        let blocks = shares.chunks_exact_mut(BLOCK).zip(values.chunks_exact(BLOCK));
        for (to, values) in blocks.take(count.div_ceil(BLOCK)) {
            for (to, &value) in to.iter_mut().zip(values) {
                *to = share.apply(value) ^ flip;
            }
        }
        to.copy_from(In::of(&shares[..count]));
    }
}

/// The longest rows of which some are computed side by side.
pub(super) const FEW: usize = 16;

/// The rows that are.
pub(super) const ROWS: usize = 16;

/// [`ROWS`] rows of `count` bytes, [`FEW`] at most: a row by itself waits for its sum, and longer
/// for what is made of that.
#[derive(Clone, Copy)]
pub(super) struct SideBySide<'a> {
    pub(super) from: In<'a, u8>,
    pub(super) count: usize,
    /// Bits that make a byte unsigned.
    pub(super) flip: u8,
}

impl SideBySide<'_> {
    /// The distance of each byte to the largest of its row: by place in the row, then by row.
    #[inline(always)]
    pub(super) fn distances(self) -> [[u8; ROWS]; FEW] {
        let Self { from, count, flip } = self;
        let mut columns = [[0u8; ROWS]; FEW];
        let mut most = [0u8; ROWS];
        for (k, column) in columns.iter_mut().take(count).enumerate() {
            for (row, (q, most)) in column.iter_mut().zip(&mut most).enumerate() {
                *q = from.get(row * count + k) ^ flip;
                *most = (*most).max(*q);
            }
        }
        for column in columns.iter_mut().take(count) {
            column.iter_mut().zip(&most).for_each(|(q, most)| *q = most - *q);
        }
        columns
    }
}

/// The shares of rows side by side.
struct FewShares<'a> {
    rows: SideBySide<'a>,
    to: Out<'a, u8>,
    exps: &'a [i32; BYTES],
}

impl Loop for FewShares<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { rows, to, exps } = self;
        let SideBySide { count, flip, .. } = rows;
        let distances = rows.distances();
        let mut values = [[0u32; ROWS]; FEW];
        let values = &mut values[..count.min(FEW)];
        let mut sums = [0u32; ROWS];
        for (column, distances) in values.iter_mut().zip(&distances) {
            for ((value, &distance), sum) in column.iter_mut().zip(distances).zip(&mut sums) {
                *value = exps[usize::from(distance)].cast_unsigned();
                *sum += (*value + (1 << 11)) >> 12;
            }
        }
        // A number of each row at a time, for vectors.
        let mut leading = [0u32; ROWS];
        leading.iter_mut().zip(&sums).for_each(|(to, sum)| *to = sum.leading_zeros());
        let mut scaled = [0i32; ROWS];
        for ((scaled, &sum), &leading) in scaled.iter_mut().zip(&sums).zip(&leading) {
            *scaled = ShortShare::scaled(sum, leading);
        }
        let mut fractions = [0u32; ROWS];
        for (fraction, &scaled) in fractions.iter_mut().zip(&scaled) {
            *fraction = one_over_one_plus(scaled).cast_unsigned();
        }
        let (mut addends, mut shifts) = ([0u64; ROWS], [0u64; ROWS]);
        for ((addend, shift), &leading) in addends.iter_mut().zip(&mut shifts).zip(&leading) {
            let (own, by) = ShortShare::rounding(leading);
            (*addend, *shift) = (own, u64::from(by));
        }
        for (k, column) in values.iter().enumerate() {
            let mut shares = [0; ROWS];
            for (row, share) in shares.iter_mut().enumerate() {
                let product = u64::from(column[row]) * u64::from(fractions[row]);
                let of = (product + addends[row]) >> (shifts[row] & 63);
                *share = of.min(255) as u8 ^ flip;
            }
            for (row, share) in shares.into_iter().enumerate() {
                to.set(row * count + k, share);
            }
        }
    }
}

/// The multiplier of [`share_of`] for sums of fewer than 256 exponentials, none of which is below
/// 0: both of its roundings are one shift then, as in requantisation.
#[derive(Clone, Copy, Debug)]
struct ShortShare {
    fraction: u32,
    addend: u64,
    shift: u32,
}

impl ShortShare {
    #[inline(always)]
    fn of(sum: u32) -> Self {
        let leading = sum.leading_zeros();
        let fraction = one_over_one_plus(Self::scaled(sum, leading)).cast_unsigned();
        let (addend, shift) = Self::rounding(leading);
        Self { fraction, addend, shift }
    }

    /// The fraction of a sum above its highest bit.
    #[inline(always)]
    fn scaled(sum: u32, leading: u32) -> i32 {
        (sum << (leading & 31)).cast_signed().wrapping_sub(i32::MIN)
    }

    /// What is added to a product with a sum's fraction, and by how much that is shifted.
    #[inline(always)]
    fn rounding(leading: u32) -> (u64, u32) {
        let right = 35 - leading;
        ((1 << 30) + (1u64 << (30 + right)), 31 + right)
    }

    /// A share in 256ths, 255 at most.
    #[inline(always)]
    fn apply(self, exp: u32) -> u8 {
        let product = u64::from(exp) * u64::from(self.fraction) + self.addend;
        (product >> self.shift).min(255) as u8
    }
}

/// The shares of a longer row: there are no more of them than distances.
struct LongByteShares<'a>(ByteShares<'a>);

impl Loop for LongByteShares<'_> {
    #[inline(always)]
    fn run(self) {
        let ByteShares { from, to, flip, exps, addends } = self.0;
        let row = Distant { from, to, flip, addends };
        let Some((max, sum)) = row.sum() else { return };
        let share = share_of(sum);
        let mut shares = [0u8; BYTES];
        for (to, &exp) in shares.iter_mut().zip(exps) {
            *to = share.apply(exp).clamp(0, 255).to_le_bytes()[0] ^ flip;
        }
        row.look_up(max, &shares);
    }
}

/// A row of bytes whose results depend on their distances to the largest, and on a sum.
#[derive(Clone, Copy)]
pub(super) struct Distant<'a> {
    pub(super) from: In<'a, u8>,
    pub(super) to: Out<'a, u8>,
    /// Bits that make a byte unsigned.
    pub(super) flip: u8,
    /// What is added up of a byte, by its distance.
    pub(super) addends: &'a [i32; BYTES],
}

impl Distant<'_> {
    /// The largest byte as it lies, and the sum; `None` where there is no byte, or the work has to
    /// end.
    #[inline(always)]
    pub(super) fn sum(self) -> Option<(u8, i32)> {
        let Self { from, flip, addends, .. } = self;
        let max = largest(from, flip)? ^ flip;
        let mut sum = 0i32;
        for start in (0..from.len()).step_by(poll::CHUNK) {
            let end = from.len().min(start + poll::CHUNK);
            poll::work(end - start).ok()?;
            let addend = |q| addends[distance(max, q)];
            sum = from.slice(start..end).iter().fold(sum, |sum, q| sum.wrapping_add(addend(q)));
        }
        Some((max, sum))
    }

    /// Looks up the result of each byte by its distance, as far as the work goes on.
    #[inline(always)]
    pub(super) fn look_up(self, max: u8, results: &[u8; BYTES]) {
        /// Bytes that are written at a time.
        const BLOCK: usize = 16;
        let Self { from, to, .. } = self;
        for start in (0..from.len()).step_by(poll::CHUNK) {
            let end = from.len().min(start + poll::CHUNK);
            if poll::work(end - start).is_err() {
                return;
            }
            let whole = start + (end - start) / BLOCK * BLOCK;
            for at in (start..whole).step_by(BLOCK) {
                to.set_block(at, from.block::<BLOCK>(at).map(|q| results[distance(max, q)]));
            }
            (whole..end).for_each(|at| to.set(at, results[distance(max, from.get(at))]));
        }
    }
}

/// The largest of some bytes that `flip` makes unsigned, so made; `None` where there are none, or
/// the work has to end.
#[inline(always)]
fn largest(from: In<'_, u8>, flip: u8) -> Option<u8> {
    const BLOCK: usize = 64;
    let mut most = [from.iter().next()? ^ flip; BLOCK];
    let whole = from.len() / BLOCK * BLOCK;
    for start in (0..whole).step_by(poll::CHUNK) {
        poll::work(poll::CHUNK / 16).ok()?;
        for at in (start..whole.min(start + poll::CHUNK)).step_by(BLOCK) {
            let block = from.block::<BLOCK>(at);
            most.iter_mut().zip(block).for_each(|(most, q)| *most = (*most).max(q ^ flip));
        }
    }
    let mut count = BLOCK;
    while whole > 0 && count > 1 {
        count /= 2;
        (0..count).for_each(|at| most[at] = most[at].max(most[at + count]));
    }
    let rest = from.slice(whole..from.len()).iter();
    Some(rest.fold(most[0], |most, q| most.max(q ^ flip)))
}

/// What a byte counts for, by its distance to the largest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exponential {
    /// `None` where it is too small to count.
    exp: Option<i32>,
    /// The same with the bits that sums take.
    addend: i32,
}

/// `exp` of minus 0, 1, ... 255 steps.
type Exponentials = [Exponential; BYTES];

/// The exponentials at a scale.
///
/// # Errors
/// The scale is too small for 26 bits behind the point.
pub(super) fn exponentials(scale: f32, beta: f32) -> Result<Exponentials, OpError> {
    let m = (f64::from(beta) * f64::from(scale) * f64::from(1 << 26)).min(f64::from(i32::MAX));
    let Multiplier { fraction, shift } = Multiplier::new(m);
    if m <= 1.0 {
        return Err(OpError::rule(format!("beta {beta} and scale {scale} are too small")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
    let least = (31.0 * f64::from(1 << 26) / 2f64.powi(shift)).floor() as i32;
    let exp = |distance: i32| {
        (distance <= least).then(|| {
            exp_negative(srdhm((-distance).wrapping_shl(shift.unsigned_abs()), fraction), 5)
        })
    };
    let mut table = [Exponential { exp: None, addend: 0 }; 256];
    for (slot, distance) in table.iter_mut().zip(0..) {
        let exp = exp(distance);
        *slot = Exponential { exp, addend: rdbpot(exp.unwrap_or(0), 12) };
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use nnburst_kernels::simd::Isa;

    use super::*;

    #[test]
    fn shares_of_short_rows_are_those_of_the_multiplier() {
        let table = exponentials(0.07, 1.0).unwrap().map(|of| of.exp.unwrap_or(0));
        for exps in [&table[..1], &table[..9], &table[3..], &table] {
            let sum: u32 = exps.iter().map(|&exp| (exp.cast_unsigned() + (1 << 11)) >> 12).sum();
            let (short, share) = (ShortShare::of(sum), share_of(sum.cast_signed()));
            for exp in table.into_iter().chain([0, 1, i32::MAX]) {
                assert_eq!(
                    i32::from(short.apply(exp.cast_unsigned())),
                    share.apply(exp).clamp(0, 255)
                );
            }
        }
    }

    #[test]
    fn rows_side_by_side_are_those_by_themselves() {
        let table = exponentials(0.07, 1.0).unwrap();
        let (exps, addends) = (table.map(|of| of.exp.unwrap_or(0)), table.map(|of| of.addend));
        for count in 1..=FEW {
            let byte = |at: usize| u8::try_from(at * at * 31 % 251).unwrap();
            let bytes: Vec<u8> = (0..ROWS * count).map(byte).collect();
            let (mut some, mut each) = (vec![0u8; bytes.len()], vec![0u8; bytes.len()]);
            for isa in Isa::all() {
                let (from, to) = (In::of(&bytes), Out::of(&mut some));
                for flip in [0, 0x80] {
                    let rows = SideBySide { from, count, flip };
                    isa.run(FewShares { rows, to, exps: &exps });
                    for (from, to) in bytes.chunks(count).zip(each.chunks_mut(count)) {
                        let (from, to) = (In::of(from), Out::of(to));
                        isa.run(ByteShares { from, to, flip, exps: &exps, addends: &addends });
                    }
                    assert_eq!(to.as_in().to_vec(), each, "{isa:?} {count}");
                }
            }
        }
    }

    #[test]
    fn the_table_starts_at_one_and_falls() {
        let table = exponentials(0.1, 1.0).unwrap();
        assert_eq!(table[0].exp, Some(i32::MAX));
        assert!(table.windows(2).all(|pair| pair[0].exp >= pair[1].exp));
        assert!(exponentials(1e-12, 1.0).is_err());
    }
}
