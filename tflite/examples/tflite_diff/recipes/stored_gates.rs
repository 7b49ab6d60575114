//! LSTMs of stored values: of 8 bits with a cell of 16, and those with the BASIC kernel.

use nnburst_tflite::TensorKind::{self, Float32, Int8, Int16, Int32, Uint8};
use nnburst_tflite::testing::Value;

use crate::net::{Net, ValueRange, byte, flag};

const NO_TENSOR: i32 = -1;

/// The scales of cells, gates and coefficients.
const CELL_SCALE: f32 = 1.0 / 2048.0;
const GATE_SCALE: f32 = 1.0 / 4096.0;

/// A constant of small numbers with a scale.
fn stored(net: &mut Net, kind: TensorKind, shape: &[i32], most: i32, scale: f32) -> i32 {
    let count: i32 = shape.iter().product();
    let mut bytes = Vec::new();
    for _ in 0..count {
        let value = net.random.within(-most, most).to_le_bytes();
        bytes.extend(match kind {
            Int8 => &value[..1],
            Int16 => &value[..2],
            _ => &value[..],
        });
    }
    let tensor = net.file.constant("stored", kind, shape, &bytes);
    net.file.quantize(tensor, &[scale], &[0], 0);
    tensor
}

/// A tensor with a quantisation.
fn quantised(net: &mut Net, kind: TensorKind, shape: &[i32], scale: f32, zero_point: i64) -> i32 {
    let tensor = net.file.tensor("quantised", kind, shape);
    net.file.quantize(tensor, &[scale], &[zero_point], 0);
    tensor
}

pub(super) fn lstm(net: &mut Net, name: &'static str) {
    let [batch, steps, depth, units] = [3, 4, 20, 8].map(|most| net.random.within(1, most));
    let [has_input_gate, has_peephole, is_projected, is_normal] = [0; 4].map(|_| net.random.flag());
    let outputs = match is_projected && net.random.flag() {
        true => net.random.within(1, 6),
        false => units,
    };
    net.label = match (is_projected, is_normal) {
        (true, true) => "INT8 projected, normalised",
        (true, false) => "INT8 projected",
        (false, true) => "INT8 normalised",
        (false, false) => "INT8",
    }
    .to_owned();
    let is_first = net.random.flag();
    let rows = if is_first { [steps, batch] } else { [batch, steps] };
    let mut inputs = vec![net.input(Int8, &[rows[0], rows[1], depth])];
    for width in [depth, outputs] {
        for gate in 0..4 {
            let scale = net.random.real(0.001, 0.02);
            let is_there = gate > 0 || has_input_gate;
            inputs.push(match is_there {
                true => stored(net, Int8, &[units, width], 127, scale),
                false => NO_TENSOR,
            });
        }
    }
    // The interpreter weighs as many cells as there are outputs, not as many as there are weights.
    let has_peephole = has_peephole && outputs == units;
    for gate in 0..3 {
        let is_there = has_peephole && (gate > 0 || has_input_gate);
        inputs.push(match is_there {
            true => stored(net, Int16, &[units], 32767, 1e-5),
            false => NO_TENSOR,
        });
    }
    for gate in 0..4 {
        let is_there = gate > 0 || has_input_gate;
        inputs.push(match is_there {
            true => stored(net, Int32, &[units], 20000, 1e-4),
            false => NO_TENSOR,
        });
    }
    let projection = net.random.real(0.002, 0.02);
    inputs.push(match is_projected {
        true => stored(net, Int8, &[outputs, units], 127, projection),
        false => NO_TENSOR,
    });
    let has_bias = is_projected && net.random.flag();
    inputs.push(match has_bias {
        true => stored(net, Int32, &[outputs], 5000, 1e-4),
        false => NO_TENSOR,
    });
    let (scale, zero) = (net.random.real(0.004, 0.01), net.random.within(-30, 30));
    let (hidden, hidden_zero) = match is_projected {
        true => (net.random.real(0.004, 0.01), net.random.within(-30, 30)),
        false => (scale, zero),
    };
    let state = quantised(net, Int8, &[batch, outputs], scale, i64::from(zero));
    let cell = quantised(net, Int16, &[batch, units], CELL_SCALE, 0);
    net.file.variable(state);
    net.file.variable(cell);
    inputs.extend([state, cell]);
    for gate in 0..4 {
        let is_there = is_normal && (gate > 0 || has_input_gate);
        inputs.push(match is_there {
            true => stored(net, Int16, &[units], 32767, 1.0 / 32768.0),
            false => NO_TENSOR,
        });
    }
    let mut inner = Vec::new();
    for _ in 0..4 {
        let scale = if is_normal { net.random.real(1e-4, 1e-3) } else { GATE_SCALE };
        inner.push(quantised(net, Int16, &[], scale, 0));
    }
    inner.push(quantised(net, Int8, &[], hidden, i64::from(hidden_zero)));
    let output = quantised(net, Int8, &[rows[0], rows[1], outputs], scale, i64::from(zero));
    let clip = |is_clipped: bool, most: f32| if is_clipped { most } else { 0.0 };
    let (cell_clip, own_clip) = (clip(net.random.flag(), 4.0), clip(net.random.flag(), 0.5));
    let fields = vec![
        byte(0, 4),
        (1, Value::F32(cell_clip)),
        (2, Value::F32(own_clip)),
        flag(3, is_first),
        flag(4, false),
    ];
    net.operator(name, &inputs, &[output], 71, fields);
    net.file.operator_fields(vec![(8, Value::ints(&inner))]);
}

pub(super) fn basic(net: &mut Net, name: &'static str) {
    let [batch, depth, units] = [3, 16, 8].map(|most| net.random.within(1, most));
    let kind = net.random.pick(&[Float32, Uint8]);
    net.label = format!("{} BASIC", kind.name());
    let is_float = kind == Float32;
    let scaled = |net: &mut Net, tensor: i32, scale: f32, zero: i64| {
        if !is_float {
            net.file.quantize(tensor, &[scale], &[zero], 0);
        }
    };
    net.span = ValueRange(-1.0, 1.0);
    let x = net.plain_input(kind, &[batch, depth]);
    let before = net.plain_input(kind, &[batch, units]);
    let bytes = net.bytes(kind, &[4 * units, depth + units]);
    let weights = net.file.constant("weights", kind, &[4 * units, depth + units], &bytes);
    let scale = net.random.real(0.002, 0.02);
    let bias = match is_float {
        true => {
            let bytes = net.bytes(Float32, &[4 * units]);
            net.file.constant("bias", Float32, &[4 * units], &bytes)
        }
        false => stored(net, Int32, &[4 * units], 20000, scale / 128.0),
    };
    let state_kind = if is_float { Float32 } else { Int16 };
    let state = net.plain_input(state_kind, &[batch, units]);
    let results = [units, units, depth + units, 4 * units];
    let mut outputs = Vec::new();
    for (at, width) in results.into_iter().enumerate() {
        let own = match at {
            1 | 3 => state_kind,
            _ => kind,
        };
        outputs.push(net.file.tensor("result", own, &[batch, width]));
    }
    for tensor in [x, before, outputs[0], outputs[2]] {
        scaled(net, tensor, 1.0 / 128.0, 128);
    }
    let zero_point = i64::from(net.random.within(100, 150));
    scaled(net, weights, scale, zero_point);
    for tensor in [state, outputs[1]] {
        scaled(net, tensor, CELL_SCALE, 0);
    }
    scaled(net, outputs[3], GATE_SCALE, 0);
    net.operator(
        name,
        &[x, before, weights, bias, state],
        &outputs,
        14,
        vec![byte(0, 4), byte(3, 1)],
    );
    net.file.outputs(&outputs[..2]);
}
