//! The integer LSTM of interpreters: 8-bit inputs, weights and output, 16-bit gates and cell state.
//!
//! NNAPI's QUANTIZED_LSTM has the same arithmetic, for one step at a time. So the sequence is taken
//! apart, each step is one operation, and the outputs are joined again:
//!
//! ```text
//!   [B, T, I] ─SPLIT─► T × [B, 1, I] ─RESHAPE─► [B, I] ─QUANTIZED_LSTM─► [B, O] ─RESHAPE─► CONCAT
//!                                                 state ─►──┘ └──►─ state of the next step
//! ```
//!
//! Without layer normalisation the gates are 16-bit numbers with 12 fraction bits, which is an
//! intermediate scale of 2^-12, and the biases belong to the products of the inputs; with it the
//! file says the scales. The zero point of the hidden state changes its sign on the way, see
//! `step_constants`.
//!
//! QUANTIZED_LSTM has to add the biases where there is no layer normalisation, as its documentation
//! says and the reference forgets; with that, results are those of the interpreter, bit for bit. An
//! own operation for the whole sequence would save the split and little else.

use nnburst_hal::{Operand, OperandType, OperationType};

use super::recurrent::{LstmOptions, lstm};
use super::{Lower, Lowered, int_of};
use crate::operand::operand_of;

/// Steps that a sequence is taken apart into.
const MAX_STEPS: u32 = 4096;
/// The scale of gates that no layer normalisation rescales: 3 integer bits, 12 fraction bits.
const GATE_SCALE: f32 = 1.0 / 4096.0;

impl Lower<'_, '_> {
    pub(super) fn integer_lstm(&mut self, options: &LstmOptions, time_major: bool) -> Lowered {
        if options.activation != 4 {
            return Err("QUANTIZED_LSTM has TANH as its only activation".into());
        }
        let input = self.input(0)?;
        let dims = self.known_dims(input)?;
        let &[first, second, depth] = dims.as_slice() else {
            return Err(format!("its input has the shape {dims:?}").into());
        };
        let (time_axis, steps, batch) =
            if time_major { (0, first, second) } else { (1, second, first) };
        if steps > MAX_STEPS {
            return Err(format!("{steps} steps are more than {MAX_STEPS}").into());
        }
        let constants = self.step_constants(options)?;
        let mut output_state = self.input(lstm::OUTPUT_STATE)?;
        let mut cell_state = self.input(lstm::CELL_STATE)?;
        let state_dims = self.known_dims(output_state)?;
        let cell_dims = self.known_dims(cell_state)?;
        let units = state_dims.last().copied().unwrap_or(0);
        let (mut sequence_dims, mut part_dims) = (dims.clone(), dims);
        (sequence_dims[2], part_dims[2]) = (units, units);
        part_dims[time_axis] = 1;
        let output = self.output(0, Some(&sequence_dims))?;
        // The interpreter stores states as results, whatever scale these have.
        let is_alike = self.same_quantization(output_state, output);
        let sequence = match is_alike {
            Err(_) if self.import.options.extension => {
                self.builder().like(output_state, sequence_dims)
            }
            _ => is_alike.map(|()| output)?,
        };
        let mut parts = Vec::new();
        for (step, x) in self.time_steps(input, time_axis, steps)?.into_iter().enumerate() {
            let x = self.reshaped(x, vec![batch, depth])?;
            let last = step + 1 == steps as usize;
            let (next_output, next_cell) = if last {
                (self.next_state(lstm::OUTPUT_STATE)?, self.next_state(lstm::CELL_STATE)?)
            } else {
                let output = self.builder().like(output_state, state_dims.clone());
                (output, self.builder().like(cell_state, cell_dims.clone()))
            };
            let y = self.builder().like(sequence, state_dims.clone());
            let mut inputs = vec![x];
            inputs.extend(&constants.before_states);
            inputs.extend([output_state, cell_state]);
            inputs.extend(&constants.after_states);
            self.emit(OperationType::QuantizedLstm, &inputs, &[next_output, next_cell, y]);
            let part =
                if steps == 1 { sequence } else { self.builder().like(y, part_dims.clone()) };
            self.reshape_into(y, part)?;
            parts.push(part);
            (output_state, cell_state) = (next_output, next_cell);
        }
        if steps > 1 {
            parts.push(self.builder().int(int_of(time_axis)?));
            self.emit(OperationType::Concatenation, &parts, &[sequence]);
        }
        if sequence != output {
            self.import.reinterpret_into(sequence, output);
        }
        Ok(())
    }

    /// The input of each step, with an extent of 1 where time was.
    fn time_steps(&mut self, input: u32, axis: usize, steps: u32) -> Lowered<Vec<u32>> {
        if steps == 1 {
            return Ok(vec![input]);
        }
        let mut dims = self.import.builder.dims(input).to_vec();
        dims[axis] = 1;
        let parts: Vec<u32> =
            (0..steps).map(|_| self.builder().like(input, dims.clone())).collect();
        let axis = self.builder().int(int_of(axis)?);
        let count = self.builder().int(int_of(parts.len())?);
        self.emit(OperationType::Split, &[input, axis, count], &parts);
        Ok(parts)
    }

    /// Makes the operands that all steps share: arguments 1 to 17, and 20 to 31.
    fn step_constants(&mut self, options: &LstmOptions) -> Lowered<StepConstants> {
        let mut before_states = Vec::new();
        for argument in lstm::WEIGHTS {
            before_states.push(self.integer_weights(argument)?);
        }
        for argument in lstm::PEEPHOLE {
            before_states.push(self.optional_of(argument, OperandType::TensorQuant16Symm)?);
        }
        for argument in lstm::BIASES {
            before_states.push(self.optional_of(argument, OperandType::TensorInt32)?);
        }
        let projection = self.integer_weights(lstm::PROJECTION)?;
        before_states.push(projection);
        before_states.push(self.projection_bias(projection)?);

        let mut after_states = Vec::new();
        for argument in lstm::LAYER_NORM {
            after_states.push(self.optional_of(argument, OperandType::TensorQuant16Symm)?);
        }
        let normalized = self.has(*lstm::LAYER_NORM.end());
        let proj_clip = self.projection_clip(options, projection)?;
        let mut scalars = vec![options.cell_clip, proj_clip];
        for gate in 0..4 {
            scalars.push(if normalized { self.intermediate(gate)?.scale } else { GATE_SCALE });
        }
        let hidden = self.intermediate(4)?;
        after_states.extend(scalars.into_iter().map(|value| self.builder().float(value)));
        // QUANTIZED_LSTM subtracts the zero point of the hidden state where a zero point is added,
        // and adds it back before the projection, as the interpreter does where there is one;
        // where there is none, it means the usual sign.
        let is_projected = self.has(lstm::PROJECTION);
        let sign = if is_projected { 1 } else { -1 };
        after_states.push(self.builder().int(sign * hidden.zero_point));
        after_states.push(self.builder().float(hidden.scale));
        Ok(StepConstants { before_states, after_states })
    }

    /// Symmetric weights, or an omitted operand.
    fn integer_weights(&mut self, argument: usize) -> Lowered<u32> {
        let Some(index) = self.optional_tensor(argument) else {
            return Ok(self.builder().omitted(OperandType::TensorQuant8Symm, 2));
        };
        let value = self.symmetric(index)?;
        match self.kind(value) {
            OperandType::TensorQuant8Symm => Ok(value),
            kind => Err(format!("input {argument} is {kind}, not symmetric constants").into()),
        }
    }

    /// The bias of the projection: zeros where there is none, for without one QUANTIZED_LSTM takes
    /// the hidden state's zero point for 0.
    fn projection_bias(&mut self, projection: u32) -> Lowered<u32> {
        if !self.has(lstm::PROJECTION) || self.has(lstm::PROJECTION_BIAS) {
            return self.optional_of(lstm::PROJECTION_BIAS, OperandType::TensorInt32);
        }
        let outputs = self.known_dims(projection)?[0];
        let bytes = vec![0; 4 * outputs as usize];
        let operand = Operand::tensor(OperandType::TensorInt32, vec![outputs]);
        Ok(self.builder().made_constant(operand, &bytes))
    }

    /// The clip of the projection. QUANTIZED_LSTM counts it in steps of the weights' scale, the
    /// interpreter in steps of the output's, and what is less than one of them is none.
    fn projection_clip(&mut self, options: &LstmOptions, projection: u32) -> Lowered<f32> {
        if !self.has(lstm::PROJECTION) {
            return Ok(options.proj_clip);
        }
        let state = self.input(lstm::OUTPUT_STATE)?;
        let own = self.import.builder.operand(state).scale;
        let weights = self.import.builder.operand(projection).scale;
        let steps = (options.proj_clip / own).clamp(0.0, 127.0).floor();
        Ok(if steps > 0.0 { (steps + 0.5) * weights } else { 0.0 })
    }

    fn optional_of(&mut self, argument: usize, kind: OperandType) -> Lowered<u32> {
        if self.has(argument) { self.input(argument) } else { Ok(self.builder().omitted(kind, 1)) }
    }

    /// The quantisation of a value inside the operator.
    fn intermediate(&self, index: usize) -> Lowered<Operand> {
        let tensor = self.op.intermediates.get(index).copied().flatten();
        let tensor = tensor.ok_or_else(|| format!("its intermediate {index} is missing"))?;
        let tensor = &self.import.graph.tensors[tensor];
        if tensor.quantization.scales.is_empty() {
            return Err(format!("its intermediate {index} has no scale").into());
        }
        Ok(operand_of(tensor)?)
    }
}

/// Operands that every step of a sequence reads.
struct StepConstants {
    before_states: Vec<u32>,
    after_states: Vec<u32>,
}
