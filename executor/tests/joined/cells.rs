//! Steps of QUANTIZED_LSTM.

use nnburst_hal::{DataLocation, Operand, OperandLifeTime, OperandType, OperationType as Op};

use crate::net::{Net, compare, signed, some_bytes};

/// Operands of a QUANTIZED_LSTM on either side of its states.
struct Gates {
    ahead: Vec<u32>,
    behind: Vec<u32>,
    units: u32,
}

impl Net {
    /// The operands of a QUANTIZED_LSTM behind its input, but for its states.
    fn gates(&mut self, [width, units]: [u32; 2], seed: u32) -> Gates {
        let weights = |net: &mut Self, seed, width| {
            let kind = OperandType::TensorQuant8Symm;
            let operand = Operand::tensor(kind, vec![units, width]).with_quantization(0.0005, 0);
            let bytes = some_bytes(&operand, seed);
            net.constant(operand, &bytes)
        };
        let missing = |net: &mut Self, kind| {
            let scale = if kind == OperandType::TensorInt32 { 0.0 } else { 0.5 };
            let operand = Operand::tensor(kind, vec![0]).with_quantization(scale, 0);
            net.add(operand.with_lifetime(OperandLifeTime::NoValue))
        };
        let (mut ahead, mut behind) = (Vec::new(), Vec::new());
        ahead.extend((0..4).map(|gate| weights(self, seed + gate, width)));
        ahead.extend((0..4).map(|gate| weights(self, seed + gate + 40, units)));
        ahead.extend((0..3).map(|_| missing(self, OperandType::TensorQuant16Symm)));
        ahead.extend(
            (0..4).map(|gate| self.ints(&[units], &vec![gate * 300 - 500; units as usize])),
        );
        ahead.push(missing(self, OperandType::TensorQuant8Symm));
        ahead.push(missing(self, OperandType::TensorInt32));
        behind.extend((0..4).map(|_| missing(self, OperandType::TensorQuant16Symm)));
        let mut float =
            |x: f32| self.constant(Operand::scalar(OperandType::Float32), &x.to_le_bytes());
        behind.extend([0.0, 0.0].map(&mut float));
        behind.extend([2f32.powi(-12); 4].map(&mut float));
        behind.push(self.int(0));
        behind.push(
            self.constant(Operand::scalar(OperandType::Float32), &2f32.powi(-7).to_le_bytes()),
        );
        Gates { ahead, behind, units }
    }

    /// Hidden state, cell state and output behind a step.
    fn lstm(&mut self, x: u32, gates: &Gates, [h, c]: [u32; 2]) -> [u32; 3] {
        let inputs = [&[x], &gates.ahead[..], &[h, c], &gates.behind[..]].concat();
        let cell = self.graph.operands[c as usize].clone();
        let cell = Operand {
            dimensions: Vec::new(),
            lifetime: OperandLifeTime::TemporaryVariable,
            ..cell
        };
        let like = Operand { dimensions: Vec::new(), ..self.like.clone() };
        let outputs = [like.clone(), Operand { location: DataLocation::default(), ..cell }, like];
        let outputs = outputs.map(|output| self.add(output));
        self.operate(Op::QuantizedLstm, &inputs, &outputs);
        outputs
    }

    /// States to begin with, of two batches.
    fn states(&mut self, gates: &Gates) -> [u32; 2] {
        let cell = Operand::tensor(OperandType::TensorQuant16Symm, vec![2, gates.units]);
        let bytes: Vec<u8> = (0..4 * gates.units).map(|i| (i * 37).to_le_bytes()[0]).collect();
        let cell = self.constant(cell.with_quantization(2f32.powi(-11), 0), &bytes);
        [self.input(&[2, gates.units]), cell]
    }
}

#[test]
fn steps_of_a_cell_whose_inputs_are_there_are_one() {
    /// Steps of a net of two batches.
    fn check_steps(what: &str, steps: usize, make: impl Fn(&mut Net) -> Vec<u32>) {
        let mut net = Net::new(signed());
        let outputs = make(&mut net);
        let model = net.model(&outputs);
        compare(what, &model, |isa, kernels, _| {
            let found = kernels.iter().filter(|&&kernel| kernel == "quantized_lstm").count();
            assert_eq!(found, steps, "{what}, {isa:?}: {kernels:?}");
        });
    }
    /// Outputs of a layer, and its last states.
    fn layer(net: &mut Net, xs: &[u32], of: impl Fn(usize) -> Gates) -> Vec<u32> {
        let first = of(0);
        let mut states = net.states(&first);
        let mut outputs = Vec::new();
        for (at, &x) in xs.iter().enumerate() {
            let [h, c, y] = net.lstm(x, &of(at), states);
            states = [h, c];
            outputs.push(y);
        }
        outputs.extend(states);
        outputs
    }
    let again = |gates: &Gates| Gates {
        ahead: gates.ahead.clone(),
        behind: gates.behind.clone(),
        units: gates.units,
    };
    check_steps("parts of one tensor", 1, |net| {
        let x = net.input(&[10, 7]);
        let (xs, gates) = (net.split(x, 0, 5), net.gates([7, 20], 1));
        layer(net, &xs, |_| again(&gates))
    });
    check_steps("a layer behind a layer", 2, |net| {
        let xs: Vec<u32> = (0..6).map(|_| net.input(&[2, 9])).collect();
        let (one, two) = (net.gates([9, 16], 1), net.gates([16, 5], 9));
        let outputs = layer(net, &xs, |_| again(&one));
        layer(net, &outputs[..6], |_| again(&two))
    });
    check_steps("an input that is the step before's output", 4, |net| {
        let (x, gates) = (net.input(&[2, 12]), net.gates([12, 12], 1));
        let mut states = net.states(&gates);
        let mut last = x;
        for _ in 0..4 {
            let [h, c, y] = net.lstm(last, &gates, states);
            (states, last) = ([h, c], y);
        }
        vec![last]
    });
    check_steps("weights of their own", 3, |net| {
        let xs: Vec<u32> = (0..3).map(|_| net.input(&[2, 9])).collect();
        let gates: Vec<Gates> = (0..3).map(|at| net.gates([9, 8], at * 3 + 1)).collect();
        layer(net, &xs, |at| again(&gates[at]))
    });
}
