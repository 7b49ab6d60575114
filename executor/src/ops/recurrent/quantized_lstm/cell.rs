//! The cell: from the gates and its state to the next state and the output.
//!
//! All that is done to every unit alike runs over rows of the cell's own memory, whole vectors
//! long, in loops that are compiled for the machine's instruction set; what lies behind the units
//! means nothing and goes nowhere.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::gates_i16::LANES;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::quant::fixed::tanh;
use nnburst_kernels::tensor::{In, OpError, poll};

use super::super::curves::{self, Curve};
use super::super::lstm_cell::extents_2d;
use super::super::quantized_16bit_lstm::saturate;
use super::gate::{Extents, Gate};
use super::operands::{
    CELL, CELL_CLIP, CELL_STATE, FORGET, HIDDEN_SCALE, HIDDEN_ZERO_POINT, INPUT, INPUT_TO, OUTPUT,
    OUTPUT_STATE, RECURRENT_TO, check, clip,
};
use super::products::Products;
use super::projection::Projection;
use crate::lowering::{Io, Lowered, OpBuilder};

#[derive(Debug)]
pub(crate) struct Cell {
    pub(super) batch: usize,
    pub(super) units: usize,
    pub(super) outputs: usize,
    pub(super) products: Products,
    isa: Isa,
    /// Without an input gate it is one minus the forget gate.
    gates: [Option<Gate>; 4],
    /// The cell state's scale is two to this power.
    power: i32,
    limit: (i32, i32),
    hidden: Multiplier,
    hidden_zero_point: i32,
    projection: Option<Projection>,
    /// Of the state, where there is a table for its scale.
    tanh: Option<Curve>,
}

impl Cell {
    pub(super) fn new(op: &OpBuilder<'_>) -> Lowered<Self> {
        let [batch, width] = extents_2d(op, 0)?;
        let units = extents_2d(op, INPUT_TO + FORGET)?[0];
        let outputs = extents_2d(op, RECURRENT_TO + FORGET)?[1];
        if width == 0 || units == 0 || outputs == 0 {
            let what = format!("{width} inputs, {units} units, {outputs} outputs");
            return Err(OpError::rule(what).into());
        }
        let (x, h, c) = (op.input(0)?, op.input(OUTPUT_STATE)?, op.input(CELL_STATE)?);
        check(op, 0, OperandType::TensorQuant8AsymmSigned, &[batch, width])?;
        check(op, OUTPUT_STATE, OperandType::TensorQuant8AsymmSigned, &[batch, outputs])?;
        check(op, CELL_STATE, OperandType::TensorQuant16Symm, &[batch, units])?;
        let power = power_of_two(c.scale)?;
        let coupled = !op.has_input(INPUT_TO + INPUT);
        let (extents, scales) = (Extents { width, units, outputs }, [x.scale, h.scale]);
        let mut gates = [const { None }; 4];
        for (index, gate) in gates.iter_mut().enumerate() {
            if !(index == INPUT && coupled) {
                *gate = Some(Gate::new(op, index, extents, scales, power)?);
            }
        }
        let projection = Projection::new(op, units, outputs)?;
        if projection.is_none() && outputs != units {
            let what = format!("without a projection {outputs} outputs must be the {units} units");
            return Err(OpError::rule(what).into());
        }
        let limit = clip(op, CELL_CLIP, c.scale, i32::from(i16::MAX))?;
        Ok(Self {
            batch,
            units,
            outputs,
            products: Products::new(op, &gates, extents, [x.zero_point, h.zero_point]),
            isa: op.isa(),
            gates,
            power,
            limit: limit.map_or((-32_768, 32_767), |clip| (-clip, clip)),
            hidden: Multiplier::new(f64::from(2f32.powi(-30) / op.f32(HIDDEN_SCALE)?)),
            hidden_zero_point: hidden_zero_point(op)?,
            projection,
            tanh: curves::tanh(power + 15),
        })
    }

    /// Numbers of a row.
    fn padded(&self) -> usize {
        self.units.next_multiple_of(LANES)
    }

    /// Numbers of work memory: gates, states, an input gate or what the state's
    /// function gives, two rows of narrow numbers.
    pub(super) fn work(&self) -> usize {
        self.products.sums() + 4 * self.padded() + self.products.work()
    }

    /// One batch row; `known` are the sums of its products by input, where they were computed
    /// ahead.
    pub(super) fn run(
        &self,
        io: &Io<'_>,
        row: usize,
        known: Option<&[i32]>,
        work: &mut [i32],
    ) -> Result<(), String> {
        let (units, padded) = (self.units, self.padded());
        let (gates, work) = work.split_at_mut(self.products.sums());
        let (cells, work) = work.split_at_mut(padded);
        let (spare, work) = work.split_at_mut(padded);
        let (narrow, work) = work.split_at_mut(padded);
        let (bytes, work) = work.split_at_mut(padded);
        let (narrow, hidden): (&mut [i16], &mut [i8]) =
            (bytemuck::cast_slice_mut(narrow), bytemuck::cast_slice_mut(bytes));
        let (narrow, hidden) = (&mut narrow[..padded], &mut hidden[..padded]);
        self.products.compute(io, row, known, gates, work)?;
        let state = row * units..(row + 1) * units;
        io.input::<i16>(CELL_STATE).slice(state.clone()).copy_to(narrow);
        cells.iter_mut().zip(&*narrow).for_each(|(wide, &c)| *wide = i32::from(c));
        let first = |gate: usize| self.products.first(gate);
        let activate = |gate: usize, gates: &mut [i32], cells: &[i32]| {
            if let Some(parameters) = &self.gates[gate] {
                parameters.activate(io, &mut gates[first(gate)..][..units], &cells[..units]);
            }
        };
        // What follows goes through the units a dozen times.
        poll::work(units * 50)?;
        activate(FORGET, gates, cells);
        activate(INPUT, gates, cells);
        activate(CELL, gates, cells);
        let [f, g, o] = [FORGET, CELL, OUTPUT].map(|gate| first(gate)..first(gate) + padded);
        let i = match self.gates[INPUT] {
            Some(_) => &gates[..padded],
            None => {
                spare.iter_mut().zip(&gates[f.clone()]).for_each(|(i, f)| *i = 32_767 - f);
                &*spare
            }
        };
        let (f, g, power) = (&gates[f], &gates[g], 30 + self.power);
        self.isa.run(Update { cells, narrow, f, i, g, power, limit: self.limit });
        io.output::<i16>(1).slice(state).copy_from(In::of(narrow));
        activate(OUTPUT, gates, cells);
        for (t, &c) in spare.iter_mut().zip(&*narrow) {
            let curve = |curve| curves::at(curve, c);
            *t = i32::from(self.tanh.map_or_else(|| tanh(c, self.power + 15), curve));
        }
        let (multiplier, zero_point) = (self.hidden, self.hidden_zero_point);
        self.isa.run(Hide { o: &gates[o], t: spare, hidden, multiplier, zero_point });
        self.put(io, row, &hidden[..units]);
        Ok(())
    }

    /// The output, which is the next state too.
    fn put(&self, io: &Io<'_>, row: usize, hidden: &[i8]) {
        let range = row * self.outputs..(row + 1) * self.outputs;
        let [state, output] = [0, 2].map(|to| io.output::<i8>(to).slice(range.clone()));
        match &self.projection {
            None => state.copy_from(In::of(hidden)),
            Some(projection) => {
                let outputs = 0..self.outputs;
                state.fill(
                    poll::each(outputs, 16)
                        .map(|at| projection.output(io, at, hidden, self.hidden_zero_point)),
                );
            }
        }
        output.copy_from(state.as_in());
    }
}

/// The next state, wide and narrow, from the one before.
struct Update<'a> {
    cells: &'a mut [i32],
    narrow: &'a mut [i16],
    f: &'a [i32],
    i: &'a [i32],
    g: &'a [i32],
    /// What the products of `i` and `g` are shifted by.
    power: i32,
    limit: (i32, i32),
}

impl Loop for Update<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { cells, narrow, f, i, g, power, limit } = self;
        let rows =
            cells.as_chunks_mut::<LANES>().0.iter_mut().zip(narrow.as_chunks_mut::<LANES>().0);
        let gates = f.as_chunks::<LANES>().0.iter().zip(i.as_chunks::<LANES>().0);
        let gates = gates.zip(g.as_chunks::<LANES>().0);
        for ((cells, narrow), ((f, i), g)) in rows.zip(gates) {
            for lane in 0..LANES {
                // Lanes behind the units hold whatever was there before.
                let kept = shifted(f[lane].wrapping_mul(cells[lane]), 15);
                let next = kept.wrapping_add(shifted(i[lane].wrapping_mul(g[lane]), power));
                cells[lane] = next.clamp(limit.0, limit.1);
                narrow[lane] = saturate(cells[lane]);
            }
        }
    }
}

/// The hidden values, from the output gate and what the state's function gave.
struct Hide<'a> {
    o: &'a [i32],
    t: &'a [i32],
    hidden: &'a mut [i8],
    multiplier: Multiplier,
    zero_point: i32,
}

impl Loop for Hide<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { o, t, hidden, multiplier, zero_point } = self;
        let rows = o.as_chunks::<LANES>().0.iter().zip(t.as_chunks::<LANES>().0);
        for (hidden, (o, t)) in hidden.as_chunks_mut::<LANES>().0.iter_mut().zip(rows) {
            for lane in 0..LANES {
                let m = multiplier.apply(o[lane].wrapping_mul(t[lane]));
                // Minus: the projection adds it back, so it has the opposite of the usual sign.
                let m = m.saturating_sub(zero_point).clamp(-128, 127);
                #[expect(clippy::cast_possible_truncation, reason = "clamped")]
                let byte = m as i8;
                hidden[lane] = byte;
            }
        }
    }
}

/// [`nnburst_kernels::tensor::quant::rdbpot`] of a product of 16-bit numbers, by 1 to 30.
#[inline(always)]
fn shifted(product: i32, power: i32) -> i32 {
    // At most 2^30 and 2^29.
    let magnitude = product.wrapping_abs().wrapping_add(1 << (power - 1)) >> power;
    if product < 0 { -magnitude } else { magnitude }
}

/// What stands for 0 in the hidden state, which is of signed bytes.
fn hidden_zero_point(op: &OpBuilder<'_>) -> Lowered<i32> {
    let zero_point = op.i32(HIDDEN_ZERO_POINT)?;
    if (-128..=127).contains(&zero_point) {
        Ok(zero_point)
    } else {
        let what = format!("is {zero_point}, no zero point of signed bytes");
        Err(OpError::input(HIDDEN_ZERO_POINT, what).into())
    }
}

/// The exponent of a cell state's scale.
fn power_of_two(scale: f32) -> Result<i32, OpError> {
    let power = scale.log2();
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
    let rounded = power.round() as i32;
    if (power - power.round()).abs() < 1e-3 && (-24..=-9).contains(&rounded) {
        Ok(rounded)
    } else {
        let what = format!("has a scale of {scale}, not a power of two of at most 2^-9");
        Err(OpError::input(CELL_STATE, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nnburst_kernels::tensor::quant::rdbpot;

    #[test]
    fn products_are_shifted_as_the_reference_rounds() {
        let numbers = [-32_768, -32_767, -12_345, -1, 0, 1, 2, 181, 30_000, 32_767];
        for a in numbers {
            for b in numbers {
                for power in 1..=30 {
                    assert_eq!(shifted(a * b, power), rdbpot(a * b, power), "{a} {b} {power}");
                }
            }
        }
    }
}
