//! The products of input and state by the weights of all gates, and their scaled sums.

use nnburst_kernels::kernels::gates_i16::Gates;
use nnburst_kernels::kernels::gemv_i8::GemvBytes;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, poll};

use super::gate::{Extents, Gate};
use super::operands::{BIAS, INPUT_TO, OUTPUT_STATE, RECURRENT_TO};
use crate::lowering::{Io, OpBuilder};

#[derive(Debug)]
pub(super) struct Products {
    width: usize,
    units: usize,
    outputs: usize,
    /// Of input and state.
    zero_points: [i32; 2],
    /// The gates that have products, and whether their bias comes with them.
    gates: Vec<(usize, bool)>,
    /// By input and by state, where all weights are constant.
    packed: Option<[GemvBytes; 2]>,
    scaled: Gates,
}

impl Products {
    pub(super) fn new(
        op: &OpBuilder<'_>,
        gates: &[Option<Gate>; 4],
        extents: Extents,
        zero_points: [i32; 2],
    ) -> Self {
        let Extents { width, units, outputs } = extents;
        let multipliers = gates.iter().flatten().map(|gate| gate.multipliers);
        let scaled = Gates::new(op.isa(), units, multipliers);
        let there = gates.iter().enumerate();
        // Of normalised gates it comes behind the normalisation.
        let with_bias =
            |(at, gate): (usize, &Option<Gate>)| Some((at, !gate.as_ref()?.is_normalised()));
        let gates = there.filter_map(with_bias).collect();
        let mut products = Self { width, units, outputs, zero_points, gates, packed: None, scaled };
        products.packed = products.pack(op);
        products
    }

    fn pack(&self, op: &OpBuilder<'_>) -> Option<[GemvBytes; 2]> {
        let (mut of_x, mut of_h, mut bias) =
            (Vec::<i8>::new(), Vec::<i8>::new(), Vec::<i32>::new());
        for &(gate, with_bias) in &self.gates {
            of_x.extend_from_slice(op.constant(INPUT_TO + gate)?.typed());
            of_h.extend_from_slice(op.constant(RECURRENT_TO + gate)?.typed());
            if with_bias {
                bias.extend_from_slice(op.constant(BIAS + gate)?.typed());
            } else {
                bias.extend(std::iter::repeat_n(0, self.units));
            }
        }
        let none = vec![0; bias.len()];
        let [zero_of_x, zero_of_h] = self.zero_points;
        Some([
            GemvBytes::new(op.isa(), &of_x, self.width, zero_of_x, &bias)?,
            GemvBytes::new(op.isa(), &of_h, self.outputs, zero_of_h, &none)?,
        ])
    }

    /// The form that was chosen.
    pub(super) fn isa(&self) -> Isa {
        self.packed.as_ref().map_or(Isa::Scalar, |[x, _]| x.isa())
    }

    /// Two for each multiplication.
    pub(super) fn operations(&self, batch: usize) -> u64 {
        (8 * batch * self.units * (self.width + self.outputs)) as u64
    }

    /// Numbers of the scaled sums, a vector more than the gates have units.
    pub(super) fn sums(&self) -> usize {
        self.scaled.row()
    }

    /// Numbers of work memory that [`Products::compute`] takes: both products and the row they are
    /// of.
    pub(super) fn work(&self) -> usize {
        2 * self.sums() + self.width.max(self.outputs)
    }

    /// The products by input alone, of which those of many steps can be computed at once.
    pub(super) fn by_input(&self) -> Option<&GemvBytes> {
        self.packed.as_ref().map(|[by_x, _]| by_x)
    }

    /// One row of the input.
    pub(super) fn input<'a>(&self, io: &Io<'a>, row: usize) -> In<'a, i8> {
        io.input::<i8>(0).slice(row * self.width..(row + 1) * self.width)
    }

    /// Where among the sums those of a gate begin.
    pub(super) fn first(&self, gate: usize) -> usize {
        self.gates.iter().take_while(|&&(at, _)| at < gate).count() * self.units
    }

    /// The scaled sums of one batch row, of 16 bits each: one gate after the other. `known` are
    /// those of the products by input, where they were computed ahead.
    pub(super) fn compute(
        &self,
        io: &Io<'_>,
        row: usize,
        known: Option<&[i32]>,
        sums: &mut [i32],
        work: &mut [i32],
    ) -> Result<(), String> {
        let (from_x, work) = work.split_at_mut(self.sums());
        let (from_h, words) = work.split_at_mut(self.sums());
        match (known, &self.packed) {
            (Some(known), Some([_, by_h])) => {
                by_h.keep(self.state(io, row), words)?;
                by_h.compute(words, 1, from_h)?;
                self.scaled.compute(known, from_h, sums)
            }
            _ => {
                self.multiply(io, row, [from_x, from_h], words)?;
                self.scaled.compute(from_x, from_h, sums)
            }
        }
    }

    fn state<'a>(&self, io: &Io<'a>, row: usize) -> In<'a, i8> {
        io.input::<i8>(OUTPUT_STATE).slice(row * self.outputs..(row + 1) * self.outputs)
    }

    fn multiply(
        &self,
        io: &Io<'_>,
        row: usize,
        [from_x, from_h]: [&mut [i32]; 2],
        words: &mut [i32],
    ) -> Result<(), String> {
        let (x, h) = (self.input(io, row), self.state(io, row));
        if let Some([by_x, by_h]) = &self.packed {
            by_x.keep(x, words)?;
            by_x.compute(words, 1, from_x)?;
            by_h.keep(h, words)?;
            return by_h.compute(words, 1, from_h);
        }
        let products = |q: In<'_, i8>, weights: In<'_, i8>, unit: usize, zero_point: i32| {
            let weights = weights.slice(unit * q.len()..(unit + 1) * q.len()).iter();
            poll::each(q.iter().zip(weights), 2).fold(0i32, |sum, (q, w)| {
                sum.wrapping_add((i32::from(q) - zero_point) * i32::from(w))
            })
        };
        let [zero_of_x, zero_of_h] = self.zero_points;
        let rows = from_x.chunks_exact_mut(self.units).zip(from_h.chunks_exact_mut(self.units));
        for (&(gate, with_bias), (from_x, from_h)) in self.gates.iter().zip(rows) {
            let bias = io.input::<i32>(BIAS + gate);
            let (w_x, w_h) = (io.input(INPUT_TO + gate), io.input(RECURRENT_TO + gate));
            for unit in poll::each(0..self.units, 16) {
                let start = if with_bias { bias.get(unit) } else { 0 };
                from_x[unit] = start.wrapping_add(products(x, w_x, unit, zero_of_x));
                from_h[unit] = products(h, w_h, unit, zero_of_h);
            }
        }
        Ok(())
    }
}
