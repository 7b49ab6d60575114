//! Layers of both directions that quantise on the fly: a layer of one direction each, the second of
//! which takes the steps in reverse.
//!
//! ```text
//!   x ────────────────► layer ───────────────► join
//!   x ── REVERSE_V2 ──► layer ── REVERSE_V2 ──►──┘
//! ```

use nnburst_hal::{ExtensionCode, OperandType, OperationType};

use super::{Lower, Lowered};
use crate::registry::PREFIX;
use crate::schema::Builtin;
use crate::schema::options;

/// What a layer of one direction is made of.
struct Directions {
    layer: Builtin,
    /// For each direction the arguments behind the input, the states among them.
    arguments: [Vec<usize>; 2],
    states: [Vec<usize>; 2],
    auxiliary: usize,
    options: Vec<u32>,
    time_major: bool,
    merge: bool,
    /// True if the interpreter takes the sequence as many times as it has steps, with the state
    /// that the time before left.
    repeats: bool,
}

/// Passes over a sequence that are put one behind the other.
const MAX_PASSES: u32 = 1024;

impl Lower<'_, '_> {
    pub(super) fn bidirectional_on_the_fly(&mut self, builtin: Builtin) -> Lowered {
        let Directions { layer, arguments, states, auxiliary, options, time_major, merge, repeats } =
            match builtin {
                Builtin::BidirectionalSequenceLstm => self.lstm_directions()?,
                _ => self.rnn_directions()?,
            };
        if self.has(auxiliary) {
            return Err("an auxiliary input".into());
        }
        let x = self.input(0)?;
        let dims = self.known_dims(x)?;
        let &[first, second, _] = dims.as_slice() else {
            return Err(format!("its input has the shape {dims:?}").into());
        };
        let passes = if repeats { first } else { 1 };
        if passes > MAX_PASSES {
            return Err(format!("{passes} passes are more than {MAX_PASSES}").into());
        }
        let time = self.builder().ints(&[if time_major { 0 } else { 1 }]);
        let mut results = Vec::new();
        for (backward, (arguments, states)) in arguments.iter().zip(&states).enumerate() {
            let x = if backward == 1 { self.reversed(x, time) } else { x };
            let hidden = self.input(states[0])?;
            let width = self.known_dims(hidden)?.last().copied().unwrap_or(0);
            let mut result = x;
            for _ in 0..passes {
                let mut inputs = vec![x];
                for &argument in arguments {
                    inputs.push(match self.has(argument) {
                        true => self.input(argument)?,
                        false => self.builder().omitted(OperandType::TensorFloat32, 1),
                    });
                }
                inputs.extend(&options);
                let dims = vec![first, second, width];
                result = self.builder().temporary(OperandType::TensorFloat32, dims);
                let mut outputs = vec![result];
                for &state in states {
                    outputs.push(self.next_state(state)?);
                }
                self.emit_extension(layer, inputs, &outputs);
            }
            results.push(if backward == 1 { self.reversed(result, time) } else { result });
        }
        if merge {
            let output = self.output(0, None)?;
            results.push(self.builder().int(2));
            self.emit(OperationType::Concatenation, &results, &[output]);
            return Ok(());
        }
        for (at, result) in results.into_iter().enumerate() {
            self.bind(at, result)?;
        }
        Ok(())
    }

    fn lstm_directions(&mut self) -> Lowered<Directions> {
        use options::bidirectional_lstm as o;
        let fields = self.options(o::KIND)?;
        let time_major = fields.boolean(o::TIME_MAJOR, true)?;
        let options = vec![
            self.builder().int(i32::from(fields.byte(o::ACTIVATION)?)),
            self.builder().float(fields.float(o::CELL_CLIP)?),
            self.builder().float(fields.float(o::PROJ_CLIP)?),
            self.builder().boolean(time_major),
            self.builder().boolean(fields.boolean(o::ASYMMETRIC, false)?),
        ];
        Ok(Directions {
            layer: Builtin::UnidirectionalSequenceLstm,
            arguments: [(1..=17).chain([35, 36]).collect(), (18..=34).chain([37, 38]).collect()],
            states: [vec![35, 36], vec![37, 38]],
            auxiliary: 39,
            options,
            time_major,
            merge: fields.boolean(o::MERGE_OUTPUTS, false)?,
            repeats: false,
        })
    }

    fn rnn_directions(&mut self) -> Lowered<Directions> {
        use options::bidirectional_rnn as o;
        let fields = self.options(o::KIND)?;
        let time_major = fields.boolean(o::TIME_MAJOR, false)?;
        let options = vec![
            self.builder().boolean(time_major),
            self.builder().int(i32::from(fields.byte(o::ACTIVATION)?)),
            self.builder().boolean(fields.boolean(o::ASYMMETRIC, false)?),
        ];
        Ok(Directions {
            layer: Builtin::UnidirectionalSequenceRnn,
            arguments: [(1..=4).collect(), (5..=8).collect()],
            states: [vec![4], vec![8]],
            auxiliary: 9,
            options,
            time_major,
            merge: fields.boolean(o::MERGE_OUTPUTS, false)?,
            repeats: time_major,
        })
    }

    /// The steps from the last to the first.
    fn reversed(&mut self, value: u32, axis: u32) -> u32 {
        let dims = self.import.builder.dims(value).to_vec();
        let reversed = self.builder().like(value, dims);
        self.emit_extension(Builtin::ReverseV2, vec![value, axis], &[reversed]);
        reversed
    }

    /// Adds an operation of the extension, no tensor of which is a scalar.
    fn emit_extension(&mut self, builtin: Builtin, mut inputs: Vec<u32>, outputs: &[u32]) {
        inputs.push(self.builder().int(0));
        let number = u16::try_from(builtin.number()).unwrap_or(u16::MAX);
        let code = ExtensionCode { prefix: PREFIX, number };
        self.emit(OperationType::Extension(code), &inputs, outputs);
    }
}
