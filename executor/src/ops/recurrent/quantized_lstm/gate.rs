//! A gate: behind the scaled sums of its products come peephole, layer normalisation, and its
//! function.

use nnburst_hal::OperandType;
use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::quant::fixed::inverse_sqrt;

use super::super::curves::{self, Curve};
use super::super::quantized_16bit_lstm::saturate;
use super::operands::{
    BIAS, CELL, INPUT_TO, INTERMEDIATE_SCALE, LAYER_NORM, PEEPHOLE, RECURRENT_TO, check,
};
use crate::lowering::{Io, Lowered, OpBuilder};

#[derive(Debug)]
pub(super) struct Gate {
    /// The number of the gate among the four.
    index: usize,
    /// Of the products with input and with state.
    pub(super) multipliers: [Multiplier; 2],
    peephole: Option<Multiplier>,
    layer_norm: Option<LayerNorm>,
    curve: Curve,
}

#[derive(Clone, Copy, Debug)]
struct LayerNorm {
    multiplier: Multiplier,
    /// The value for a variance below 1.
    least: i32,
}

/// Elements of the rows of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    /// Of the input.
    pub(super) width: usize,
    pub(super) units: usize,
    /// Of the output, which is the hidden state.
    pub(super) outputs: usize,
}

impl Gate {
    /// `scales` are those of input and hidden state.
    pub(super) fn new(
        op: &OpBuilder<'_>,
        index: usize,
        extents: Extents,
        scales: [f32; 2],
        cell_power: i32,
    ) -> Lowered<Self> {
        let (Extents { width, units, outputs }, [x_scale, h_scale]) = (extents, scales);
        let weights = OperandType::TensorQuant8Symm;
        check(op, INPUT_TO + index, weights, &[units, width])?;
        check(op, RECURRENT_TO + index, weights, &[units, outputs])?;
        check(op, BIAS + index, OperandType::TensorInt32, &[units])?;
        let scale = op.f32(INTERMEDIATE_SCALE + index)?;
        let multiplier = |weights: usize, of: f32| -> Lowered<Multiplier> {
            Ok(Multiplier::new(f64::from(op.input(weights)?.scale * of / scale)))
        };
        let optional = |input: usize| -> Lowered<bool> {
            let there = input != usize::MAX && op.has_input(input);
            if there {
                check(op, input, OperandType::TensorQuant16Symm, &[units])?;
            }
            Ok(there)
        };
        let peephole = if optional(PEEPHOLE[index])? {
            Some(multiplier(PEEPHOLE[index], 2f32.powi(cell_power))?)
        } else {
            None
        };
        let layer_norm = if optional(LAYER_NORM + index)? {
            let scale = op.input(LAYER_NORM + index)?.scale;
            let mut multiplier = Multiplier::new(f64::from(scale));
            multiplier.shift += 12;
            #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
            let least = ((10_000.0 * scale) as i32).min(1);
            Some(LayerNorm { multiplier, least })
        } else {
            None
        };
        let multipliers =
            [multiplier(INPUT_TO + index, x_scale)?, multiplier(RECURRENT_TO + index, h_scale)?];
        let curve = if index == CELL { curves::gate_tanh() } else { curves::logistic() };
        Ok(Self { index, multipliers, peephole, layer_norm, curve })
    }

    /// Returns whether the bias comes behind a normalisation.
    pub(super) fn is_normalised(&self) -> bool {
        self.layer_norm.is_some()
    }

    /// From the sums of one batch row, of 16 bits, to the gate's values, of as many in `[-1, 1)`.
    pub(super) fn activate(&self, io: &Io<'_>, values: &mut [i32], cell: &[i32]) {
        if let Some(multiplier) = self.peephole {
            let weights = io.input::<i16>(PEEPHOLE[self.index]);
            for ((value, weight), c) in values.iter_mut().zip(weights.iter()).zip(cell) {
                let more = multiplier.apply(i32::from(weight) * c);
                *value = i32::from(saturate(value.saturating_add(more)));
            }
        }
        if let Some(norm) = self.layer_norm {
            norm.apply(io, self.index, values);
        }
        for value in values {
            *value = i32::from(curves::at(self.curve, saturate(*value)));
        }
    }
}

impl LayerNorm {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "means of 16-bit values with ten more bits, and clamped results"
    )]
    fn apply(self, io: &Io<'_>, gate: usize, values: &mut [i32]) {
        let (weights, bias) = (io.input::<i16>(LAYER_NORM + gate), io.input::<i32>(BIAS + gate));
        let count = values.len() as i64;
        let sum: i64 = values.iter().map(|&v| i64::from(v)).sum();
        let squares: i64 = values.iter().map(|&v| i64::from(v) * i64::from(v)).sum();
        let mean = sum * 1024 / count;
        let variance = (squares * ((1 << 20) / count) - mean * mean) / (1 << 20);
        let variance =
            if variance < 1 { self.least } else { i32::try_from(variance).unwrap_or(i32::MAX) };
        let (fraction, shift) = inverse_sqrt(variance);
        let inverse = Multiplier { fraction, shift };
        for (unit, value) in values.iter_mut().enumerate() {
            let centered = i64::from(*value) * 1024 - mean;
            let scaled = inverse.apply(centered as i32);
            let p = i64::from(scaled) * i64::from(weights.get(unit)) + i64::from(bias.get(unit));
            let q = (if p > 0 { p + 512 } else { p - 512 }) / 1024;
            *value = i32::from(saturate(self.multiplier.apply(q as i32)));
        }
    }
}
