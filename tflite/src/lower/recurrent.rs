//! Recurrent layers. Their states are variable tensors in the file, which the operator changes in
//! place; in NNAPI an operation takes the old state and gives the new one, and the model's inputs
//! and outputs carry it from one execution to the next.

use nnburst_hal::{OperandType, OperationType};

use super::{Lower, Lowered};
use crate::schema::TensorKind;
use crate::schema::options;

/// The places of arguments of the LSTM family; the same in the file and in NNAPI up to the states.
pub(super) mod lstm {
    /// Input, forget, cell and output gate, from the input.
    pub(in crate::lower) const WEIGHTS: std::ops::RangeInclusive<usize> = 1..=8;
    pub(in crate::lower) const PEEPHOLE: std::ops::RangeInclusive<usize> = 9..=11;
    pub(in crate::lower) const BIASES: std::ops::RangeInclusive<usize> = 12..=15;
    pub(in crate::lower) const PROJECTION: usize = 16;
    pub(in crate::lower) const PROJECTION_BIAS: usize = 17;
    pub(in crate::lower) const OUTPUT_STATE: usize = 18;
    pub(in crate::lower) const CELL_STATE: usize = 19;
    /// Of the file; NNAPI has them behind its scalars.
    pub(in crate::lower) const LAYER_NORM: std::ops::RangeInclusive<usize> = 20..=23;
}

/// Clips and the activation, which all LSTMs have.
pub(super) struct LstmOptions {
    pub(super) activation: i8,
    pub(super) cell_clip: f32,
    pub(super) proj_clip: f32,
}

impl Lower<'_, '_> {
    /// Weights of a float layer, or an omitted operand.
    fn optional_weights(&mut self, argument: usize, input: u32, rank: usize) -> Lowered<u32> {
        if self.has(argument) {
            return self.weights(argument, input);
        }
        let kind = self.kind(input);
        Ok(self.builder().omitted(kind, rank))
    }

    /// Activations of recurrent operations have the codes of the file, and RELU1 is none of them.
    fn recurrent_activation(&mut self, code: i8) -> Lowered<u32> {
        match code {
            0 | 1 | 3 | 4 => Ok(self.builder().int(i32::from(code))),
            code => Err(format!("NNAPI has no recurrent activation {code}").into()),
        }
    }

    /// Arguments 0 to 17 of an LSTM, those of one direction: weights, peepholes, biases,
    /// projection.
    fn gate_arguments(&mut self, input: u32) -> Lowered<Vec<u32>> {
        let mut inputs = vec![input];
        for argument in lstm::WEIGHTS {
            inputs.push(self.optional_weights(argument, input, 2)?);
        }
        for argument in lstm::PEEPHOLE.chain(lstm::BIASES) {
            inputs.push(self.optional_weights(argument, input, 1)?);
        }
        inputs.push(self.optional_weights(lstm::PROJECTION, input, 2)?);
        inputs.push(self.optional_weights(lstm::PROJECTION_BIAS, input, 1)?);
        Ok(inputs)
    }

    fn layer_norm_arguments(&mut self, input: u32) -> Lowered<Vec<u32>> {
        lstm::LAYER_NORM.map(|argument| self.optional_weights(argument, input, 1)).collect()
    }

    fn clips(&mut self, options: &LstmOptions) -> Lowered<[u32; 3]> {
        let activation = self.recurrent_activation(options.activation)?;
        let cell_clip = self.builder().float(options.cell_clip);
        let proj_clip = self.builder().float(options.proj_clip);
        Ok([activation, cell_clip, proj_clip])
    }

    fn float_input(&mut self, what: &str) -> Lowered<u32> {
        let input = self.input(0)?;
        match self.tensor(0)?.kind {
            TensorKind::Float32 => Ok(input),
            kind => {
                Err(format!("NNAPI's {what} is for floating point, this one is {}", kind.name())
                    .into())
            }
        }
    }

    pub(super) fn lstm(&mut self) -> Lowered {
        use options::lstm as o;
        let options = self.options(o::KIND)?;
        if options.byte(o::KERNEL_TYPE)? != 0 {
            return self.basic_lstm(options.byte(o::ACTIVATION)?);
        }
        let clips = LstmOptions {
            activation: options.byte(o::ACTIVATION)?,
            cell_clip: options.float(o::CELL_CLIP)?,
            proj_clip: options.float(o::PROJ_CLIP)?,
        };
        let input = self.float_input("LSTM")?;
        let mut inputs = self.gate_arguments(input)?;
        let output_state = self.input(lstm::OUTPUT_STATE)?;
        let cell_state = self.input(lstm::CELL_STATE)?;
        inputs.extend([output_state, cell_state]);
        inputs.extend(self.clips(&clips)?);
        if self.has(*lstm::LAYER_NORM.end()) {
            inputs.extend(self.layer_norm_arguments(input)?);
        }
        let dims = self.known_dims(output_state)?;
        let cell_dims = self.known_dims(cell_state)?;
        let gates = if self.has(*lstm::WEIGHTS.start()) { 4 } else { 3 };
        let scratch_dims = match cell_dims.as_slice() {
            &[batch, units] => units.checked_mul(gates).map(|width| vec![batch, width]),
            _ => None,
        };
        let scratch_dims =
            scratch_dims.ok_or_else(|| format!("its cell state is {cell_dims:?}"))?;
        let scratch = self.builder().temporary(OperandType::TensorFloat32, scratch_dims);
        let next_output = self.next_state(lstm::OUTPUT_STATE)?;
        let next_cell = self.next_state(lstm::CELL_STATE)?;
        let output = self.output(0, Some(&dims))?;
        let outputs = [scratch, next_output, next_cell, output];
        self.emit(OperationType::Lstm, &inputs, &outputs);
        Ok(())
    }

    pub(super) fn sequence_lstm(&mut self) -> Lowered {
        use options::sequence_lstm as o;
        let options = self.options(o::KIND)?;
        if options.boolean(o::DIAGONAL_RECURRENT, false)? {
            return Err("its recurrent weights are diagonals".into());
        }
        let clips = LstmOptions {
            activation: options.byte(o::ACTIVATION)?,
            cell_clip: options.float(o::CELL_CLIP)?,
            proj_clip: options.float(o::PROJ_CLIP)?,
        };
        let time_major = options.boolean(o::TIME_MAJOR, false)?;
        if self.tensor(0)?.kind == TensorKind::Int8 {
            return self.integer_lstm(&clips, time_major);
        }
        let input = self.float_input("UNIDIRECTIONAL_SEQUENCE_LSTM")?;
        let mut inputs = self.gate_arguments(input)?;
        let output_state = self.input(lstm::OUTPUT_STATE)?;
        inputs.extend([output_state, self.input(lstm::CELL_STATE)?]);
        inputs.extend(self.clips(&clips)?);
        inputs.push(self.builder().boolean(time_major));
        inputs.extend(self.layer_norm_arguments(input)?);
        let dims = self.sequence_dims(input, output_state)?;
        let next_output = self.next_state(lstm::OUTPUT_STATE)?;
        let next_cell = self.next_state(lstm::CELL_STATE)?;
        let output = self.output(0, Some(&dims))?;
        let outputs = [output, next_output, next_cell];
        self.emit(OperationType::UnidirectionalSequenceLstm, &inputs, &outputs);
        Ok(())
    }

    /// The first two extents of the input, and the width of the state.
    fn sequence_dims(&self, input: u32, state: u32) -> Lowered<Vec<u32>> {
        let (x, h) = (self.known_dims(input)?, self.known_dims(state)?);
        match (x.as_slice(), h.as_slice()) {
            (&[a, b, _], &[_, width]) => Ok(vec![a, b, width]),
            _ => Err(format!("its input is {x:?}, its state {h:?}").into()),
        }
    }

    pub(super) fn bidirectional_lstm(&mut self) -> Lowered {
        use options::bidirectional_lstm as o;
        let options = self.options(o::KIND)?;
        let clips = LstmOptions {
            activation: options.byte(o::ACTIVATION)?,
            cell_clip: options.float(o::CELL_CLIP)?,
            proj_clip: options.float(o::PROJ_CLIP)?,
        };
        let merge = options.boolean(o::MERGE_OUTPUTS, false)?;
        let time_major = options.boolean(o::TIME_MAJOR, true)?;
        let input = self.float_input("BIDIRECTIONAL_SEQUENCE_LSTM")?;
        let mut inputs = vec![input];
        for direction in [0, 17] {
            for argument in 1..=17 {
                let rank = if (9..=15).contains(&argument) || argument == 17 { 1 } else { 2 };
                inputs.push(self.optional_weights(direction + argument, input, rank)?);
            }
        }
        let states = 35..=38;
        for argument in states.clone() {
            inputs.push(self.input(argument)?);
        }
        inputs.push(self.optional_weights(39, input, 3)?);
        for argument in 40..=47 {
            inputs.push(self.optional_weights(argument, input, 2)?);
        }
        inputs.extend(self.clips(&clips)?);
        inputs.push(self.builder().boolean(merge));
        inputs.push(self.builder().boolean(time_major));
        for _ in 0..8 {
            inputs.push(self.builder().omitted(OperandType::TensorFloat32, 1));
        }
        let mut outputs = vec![self.output(0, None)?];
        if !merge {
            outputs.push(self.output(1, None)?);
        }
        for argument in states {
            outputs.push(self.next_state(argument)?);
        }
        self.emit(OperationType::BidirectionalSequenceLstm, &inputs, &outputs);
        Ok(())
    }

    pub(super) fn rnn(&mut self) -> Lowered {
        use options::rnn as o;
        let activation = self.options(o::KIND)?.byte(o::ACTIVATION)?;
        let input = self.float_input("RNN")?;
        let mut inputs = vec![input];
        for argument in 1..=3 {
            inputs.push(self.weights(argument, input)?);
        }
        let state = self.input(4)?;
        inputs.extend([state, self.recurrent_activation(activation)?]);
        let dims = self.import.builder.dims(state).to_vec();
        let next = self.next_state(4)?;
        let output = self.output(0, Some(&dims))?;
        self.emit(OperationType::Rnn, &inputs, &[next, output]);
        Ok(())
    }

    pub(super) fn sequence_rnn(&mut self) -> Lowered {
        use options::sequence_rnn as o;
        let options = self.options(o::KIND)?;
        let activation = options.byte(o::ACTIVATION)?;
        let time_major = options.boolean(o::TIME_MAJOR, false)?;
        let input = self.float_input("UNIDIRECTIONAL_SEQUENCE_RNN")?;
        let mut inputs = vec![input];
        for argument in 1..=3 {
            inputs.push(self.weights(argument, input)?);
        }
        let state = self.input(4)?;
        inputs.extend([state, self.recurrent_activation(activation)?]);
        inputs.push(self.builder().int(i32::from(time_major)));
        let dims = self.sequence_dims(input, state)?;
        let next = self.next_state(4)?;
        let output = self.output(0, Some(&dims))?;
        self.emit(OperationType::UnidirectionalSequenceRnn, &inputs, &[output, next]);
        Ok(())
    }

    pub(super) fn bidirectional_rnn(&mut self) -> Lowered {
        use options::bidirectional_rnn as o;
        let options = self.options(o::KIND)?;
        let activation = options.byte(o::ACTIVATION)?;
        let merge = options.boolean(o::MERGE_OUTPUTS, false)?;
        let time_major = options.boolean(o::TIME_MAJOR, false)?;
        let input = self.float_input("BIDIRECTIONAL_SEQUENCE_RNN")?;
        let mut inputs = vec![input];
        for state in [4, 8] {
            for argument in state - 3..state {
                inputs.push(self.weights(argument, input)?);
            }
            inputs.push(self.input(state)?);
        }
        inputs.push(self.optional_weights(9, input, 3)?);
        inputs.push(self.optional_weights(10, input, 2)?);
        inputs.push(self.optional_weights(11, input, 2)?);
        inputs.push(self.recurrent_activation(activation)?);
        inputs.push(self.builder().boolean(time_major));
        inputs.push(self.builder().boolean(merge));
        let mut outputs = vec![self.output(0, None)?];
        if !merge {
            outputs.push(self.output(1, None)?);
        }
        for state in [4, 8] {
            outputs.push(self.next_state(state)?);
        }
        self.emit(OperationType::BidirectionalSequenceRnn, &inputs, &outputs);
        Ok(())
    }

    pub(super) fn svdf(&mut self) -> Lowered {
        use options::svdf as o;
        let options = self.options(o::KIND)?;
        let rank = options.int(o::RANK, 0)?;
        let activation = options.byte(o::ACTIVATION)?;
        if self.tensor(0)?.kind == TensorKind::Int8 {
            return self.integer_svdf(rank, activation);
        }
        let input = self.float_input("SVDF")?;
        let features = self.weights(1, input)?;
        let mut inputs = vec![input, features, self.weights(2, input)?];
        inputs.push(self.optional_weights(3, input, 1)?);
        inputs.push(self.input(4)?);
        inputs.push(self.builder().int(rank));
        inputs.push(self.recurrent_activation(activation)?);
        let dims = self.svdf_dims(input, features, rank)?;
        let next = self.next_state(4)?;
        let output = self.output(0, Some(&dims))?;
        self.emit(OperationType::Svdf, &inputs, &[next, output]);
        Ok(())
    }

    /// Rows of the input, and one column for so many filters as the rank says.
    fn svdf_dims(&self, input: u32, features: u32, rank: i32) -> Lowered<[u32; 2]> {
        let batch = self.known_dims(input)?.first().copied().unwrap_or(1);
        let filters = self.known_dims(features)?.first().copied().unwrap_or(0);
        let units = u32::try_from(rank).ok().and_then(|rank| filters.checked_div(rank));
        Ok([batch, units.ok_or_else(|| format!("its rank is {rank}"))?])
    }

    /// The 8-bit SVDF of interpreters, with 16-bit state and weights over time, is none of NNAPI's;
    /// it goes by way of FLOAT32, with a state of that type. Results may differ by the rounding of
    /// the 16-bit state.
    fn integer_svdf(&mut self, rank: i32, activation: i8) -> Lowered {
        let input = self.input(0)?;
        let real = self.as_float(input);
        let features = self.weights(1, real)?;
        let mut inputs = vec![real, features, self.float_constant(2)?];
        inputs.push(match self.has(3) {
            true => self.float_constant(3)?,
            false => self.builder().omitted(OperandType::TensorFloat32, 1),
        });
        inputs.push(self.float_state(4)?);
        inputs.push(self.builder().int(rank));
        inputs.push(self.recurrent_activation(activation)?);
        let dims = self.svdf_dims(real, features, rank)?;
        let next = self.next_state(4)?;
        let result = self.builder().temporary(OperandType::TensorFloat32, dims.to_vec());
        self.emit(OperationType::Svdf, &inputs, &[next, result]);
        let output = self.output(0, Some(&dims))?;
        self.emit(OperationType::Quantize, &[result], &[output]);
        Ok(())
    }
}
