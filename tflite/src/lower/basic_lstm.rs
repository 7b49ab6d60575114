//! LSTM with the BASIC kernel, whose gates share one matrix over the input and the result before.
//!
//! ```text
//!   x, before ──CONCATENATION──► FULLY_CONNECTED ──SPLIT──► input, fresh, forget, output
//!   state' = LOGISTIC(input) TANH(fresh) + LOGISTIC(forget) state
//!   y = LOGISTIC(output) TANH(state')
//! ```
//!
//! That of bytes is the extension's LSTM, else NNAPI's QUANTIZED_16BIT_LSTM, which has a matrix for
//! each gate, and meets entry
//! `k` of a row, whose first columns are named recurrent, with entry `k` of input and result
//! before.

use nnburst_hal::{ExtensionCode, OperandType, OperationType, tflite_extension};

use super::{Lower, Lowered};
use crate::operand::operand_of;
use crate::registry::PREFIX;
use crate::schema::{Builtin, TensorKind};

const BEFORE: usize = 1;
const WEIGHTS: usize = 2;
const BIAS: usize = 3;
const STATE: usize = 4;

impl Lower<'_, '_> {
    /// The results are `[batch, units]` and the next state; what else the file names is room to
    /// work in.
    pub(super) fn basic_lstm(&mut self, activation: i8) -> Lowered {
        if !matches!(activation, 0 | 4) {
            return Err(format!("a BASIC kernel with activation {activation}").into());
        }
        let x = self.input(0)?;
        let (before, state) = (self.input(BEFORE)?, self.input(STATE)?);
        let (depth, dims) = (self.known_dims(x)?, self.known_dims(state)?);
        let (&[batch, depth], &[_, units]) = (depth.as_slice(), dims.as_slice()) else {
            return Err(format!("its input is {depth:?}, its state {dims:?}").into());
        };
        let results = match self.tensor(0)?.kind {
            TensorKind::Float32 => self.basic_lstm_of_floats([x, before, state], batch, units)?,
            TensorKind::Uint8 => self.basic_lstm_of_bytes([x, before, state], depth, units)?,
            kind => return Err(format!("a BASIC kernel of {}", kind.name()).into()),
        };
        self.keep(results)
    }

    /// Lets the result and the state be the next ones where the file has variables for them.
    fn keep(&mut self, results: [u32; 2]) -> Lowered {
        for (argument, result) in [BEFORE, STATE].into_iter().zip(results) {
            if self.tensor(argument)?.is_variable {
                let next = self.next_state(argument)?;
                self.reshape_into(result, next)?;
            }
        }
        Ok(())
    }

    /// That of bytes as the extension's operation.
    pub(super) fn basic_lstm_by_extension(&mut self) -> Lowered {
        let (tensor, bias) = (self.tensor(0)?, self.tensor(BIAS)?);
        if tensor.kind != TensorKind::Uint8 {
            return Err(format!("a BASIC kernel of {}", tensor.kind.name()).into());
        }
        let mut inputs = Vec::new();
        for argument in [0, BEFORE, WEIGHTS] {
            inputs.push(self.input(argument)?);
        }
        let scale = bias.quantization.scales.first().copied();
        let scale = scale.ok_or("its biases have no scale")?;
        let (index, operand) = (self.tensor_index(BIAS)?, operand_of(bias)?);
        inputs.push(self.import.constant_as(index, operand.with_quantization(scale, 0))?);
        inputs.push(self.input(STATE)?);
        let number = u16::try_from(Builtin::Lstm.number()).unwrap_or(u16::MAX);
        let about = tflite_extension::operation(number);
        inputs.extend(self.option_operands(about.ok_or("the extension has no LSTM")?)?);
        inputs.push(self.builder().int(0));
        let results = [self.output(0, None)?, self.output(1, None)?];
        let code = ExtensionCode { prefix: PREFIX, number };
        self.emit(OperationType::Extension(code), &inputs, &results);
        self.keep(results)
    }

    fn basic_lstm_of_floats(
        &mut self,
        [x, before, state]: [u32; 3],
        batch: u32,
        units: u32,
    ) -> Lowered<[u32; 2]> {
        let (weights, bias) = (self.weights(WEIGHTS, x)?, self.input(BIAS)?);
        let floats = OperandType::TensorFloat32;
        let width = self.known_dims(weights)?.last().copied().unwrap_or(0);
        let all = units.checked_mul(4).ok_or_else(|| format!("it has {units} units"))?;
        let joined = self.builder().temporary(floats, vec![batch, width]);
        let sums = self.builder().temporary(floats, vec![batch, all]);
        let (axis, none) = (self.builder().int(1), self.no_activation());
        self.emit(OperationType::Concatenation, &[x, before, axis], &[joined]);
        self.emit(OperationType::FullyConnected, &[joined, weights, bias, none], &[sums]);
        let mut value = || self.builder().temporary(floats, vec![batch, units]);
        let gates = [value(), value(), value(), value()];
        let active = [value(), value(), value(), value()];
        let [fresh, kept, shown] = [value(), value(), value()];
        let count = self.builder().int(4);
        self.emit(OperationType::Split, &[sums, axis, count], &gates);
        for (at, (gate, active)) in gates.into_iter().zip(active).enumerate() {
            let kind = if at == 1 { OperationType::Tanh } else { OperationType::Logistic };
            self.emit(kind, &[gate], &[active]);
        }
        let [input, candidate, forget, output] = active;
        let y = self.output(0, Some(&[batch, units]))?;
        let next = self.output(1, Some(&[batch, units]))?;
        self.emit(OperationType::Mul, &[input, candidate, none], &[fresh]);
        self.emit(OperationType::Mul, &[forget, state, none], &[kept]);
        self.emit(OperationType::Add, &[fresh, kept, none], &[next]);
        self.emit(OperationType::Tanh, &[next], &[shown]);
        self.emit(OperationType::Mul, &[output, shown, none], &[y]);
        Ok([y, next])
    }

    fn basic_lstm_of_bytes(
        &mut self,
        [x, before, state]: [u32; 3],
        depth: u32,
        units: u32,
    ) -> Lowered<[u32; 2]> {
        let (weights, bias) = (self.tensor(WEIGHTS)?, self.tensor(BIAS)?);
        let (Some(rows), Some(biases)) =
            (self.import.file.data(weights), self.import.file.data(bias))
        else {
            return Err("its weights are no constants".into());
        };
        let own = units as usize;
        let width = own.saturating_add(depth as usize);
        let bytes = own.checked_mul(4).and_then(|rows| rows.checked_mul(width));
        if own == 0 || bytes != Some(rows.len()) || own.checked_mul(16) != Some(biases.len()) {
            return Err(format!("its weights are {:?}", weights.shape).into());
        }
        let scale = bias.quantization.scales.first().copied();
        let scale = scale.ok_or("its biases have no scale")?;
        let mut parts: [Vec<u32>; 3] = Default::default();
        // In the file input, fresh, forget, output; in NNAPI the second and third change places.
        for gate in [0, 2, 1, 3] {
            let rows = rows[gate * own * width..(gate + 1) * own * width].chunks_exact(width);
            let (recurrent, input): (Vec<&[u8]>, Vec<&[u8]>) =
                rows.map(|row| row.split_at(own)).unzip();
            let mut operand = operand_of(weights)?;
            operand.dimensions = vec![units, depth];
            parts[0].push(self.builder().made_constant(operand.clone(), &input.concat()));
            operand.dimensions = vec![units, units];
            parts[1].push(self.builder().made_constant(operand, &recurrent.concat()));
            let mut operand = operand_of(bias)?;
            operand.dimensions = vec![units];
            operand.scale = scale;
            let biases = &biases[gate * 4 * own..(gate + 1) * 4 * own];
            parts[2].push(self.builder().made_constant(operand, biases));
        }
        let mut inputs = vec![x];
        inputs.extend(parts.concat());
        inputs.extend([state, before]);
        let (y, next) = (self.output(0, None)?, self.output(1, None)?);
        self.emit(OperationType::Quantized16bitLstm, &inputs, &[next, y]);
        Ok([y, next])
    }
}
