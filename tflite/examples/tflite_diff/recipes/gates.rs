//! LSTMs, and layers of both directions.

use nnburst_tflite::TensorKind::{Float32, Int8};
use nnburst_tflite::testing::Value;

use super::layers::weights;
use crate::net::{Net, ValueRange, byte, flag};

const NO_TENSOR: i32 = -1;

/// Extents of a layer.
#[derive(Clone, Copy, Debug)]
struct Extents {
    batch: i32,
    depth: i32,
    units: i32,
    outputs: i32,
}

/// The parts that a layer may lack.
#[derive(Clone, Copy, Debug)]
struct Parts {
    is_hybrid: bool,
    input_gate: bool,
    peephole: bool,
    projection: bool,
}

/// Weights of floats, or of bytes.
fn matrix(net: &mut Net, shape: &[i32], parts: Parts) -> i32 {
    if parts.is_hybrid {
        return weights(net, shape, 0, Int8, false);
    }
    floats(net, shape)
}

fn floats(net: &mut Net, shape: &[i32]) -> i32 {
    net.span = ValueRange(-1.0, 1.0);
    let bytes = net.bytes(Float32, shape);
    net.span = ValueRange(-4.0, 4.0);
    net.file.constant("floats", Float32, shape, &bytes)
}

/// Weights, peepholes, biases and the projection of a direction.
fn direction(net: &mut Net, of: Extents, parts: Parts) -> Vec<i32> {
    let Extents { depth, units, outputs, .. } = of;
    let mut tensors = Vec::new();
    for width in [depth, outputs] {
        for gate in 0..4 {
            let is_there = gate > 0 || parts.input_gate;
            let own = if is_there { matrix(net, &[units, width], parts) } else { NO_TENSOR };
            tensors.push(own);
        }
    }
    for gate in 0..3 {
        let is_there = parts.peephole && (gate > 0 || parts.input_gate);
        tensors.push(if is_there { matrix(net, &[units], parts) } else { NO_TENSOR });
    }
    for gate in 0..4 {
        let is_there = gate > 0 || parts.input_gate;
        tensors.push(if is_there { floats(net, &[units]) } else { NO_TENSOR });
    }
    tensors.push(if parts.projection { matrix(net, &[outputs, units], parts) } else { NO_TENSOR });
    let has_bias = parts.projection && net.random.flag();
    tensors.push(if has_bias { floats(net, &[outputs]) } else { NO_TENSOR });
    tensors
}

fn states(net: &mut Net, of: Extents) -> Vec<i32> {
    let state = |width: &i32| {
        let state = net.file.tensor("state", Float32, &[of.batch, *width]);
        net.file.variable(state);
        state
    };
    [of.outputs, of.units].iter().map(state).collect()
}

pub(super) fn lstm(net: &mut Net, name: &'static str) {
    let [batch, steps, depth, units, outputs] =
        [3, 4, 20, 6, 5].map(|most| net.random.within(1, most));
    let parts = Parts {
        is_hybrid: net.random.flag(),
        input_gate: net.random.flag(),
        peephole: net.random.flag(),
        projection: net.random.flag(),
    };
    net.label = if parts.is_hybrid { "hybrid" } else { "FLOAT32" }.into();
    let of =
        Extents { batch, depth, units, outputs: if parts.projection { outputs } else { units } };
    let is_both = name == "BIDIRECTIONAL_SEQUENCE_LSTM";
    let is_merged = is_both && net.random.flag();
    // The interpreter writes beyond its states where batches come first and directions are merged.
    let is_first = is_merged || net.random.flag();
    let rows = match name {
        "LSTM" => vec![batch],
        _ if is_first => vec![steps, batch],
        _ => vec![batch, steps],
    };
    let mut inputs = vec![net.input(Float32, &[&rows[..], &[depth]].concat())];
    for _ in 0..if is_both { 2 } else { 1 } {
        inputs.extend(direction(net, of, parts));
    }
    for _ in 0..if is_both { 2 } else { 1 } {
        inputs.extend(states(net, of));
    }
    match name {
        "LSTM" => {}
        _ if is_both => inputs.extend([NO_TENSOR; 9]),
        _ => {
            let is_normal = net.random.flag();
            for gate in 0..4 {
                let is_there = is_normal && (gate > 0 || parts.input_gate);
                inputs.push(if is_there { floats(net, &[units]) } else { NO_TENSOR });
            }
        }
    }
    let widths = match (is_both, is_merged) {
        (true, true) => vec![2 * of.outputs],
        (true, false) => vec![of.outputs; 2],
        _ => vec![of.outputs],
    };
    let results: Vec<i32> =
        widths.iter().map(|&it| net.result(Float32, &[&rows[..], &[it]].concat())).collect();
    let (cell, projected) = (net.random.pick(&[0.0, 1.0]), net.random.pick(&[0.0, 0.8]));
    let mut fields = vec![byte(0, 4), (1, Value::F32(cell)), (2, Value::F32(projected))];
    let is_asymmetric = net.random.flag();
    let union = match name {
        "LSTM" => {
            fields.push(flag(4, is_asymmetric));
            14
        }
        _ if is_both => {
            fields.extend([flag(3, is_merged), flag(4, is_first), flag(5, is_asymmetric)]);
            69
        }
        _ => {
            fields.extend([flag(3, is_first), flag(4, is_asymmetric)]);
            71
        }
    };
    net.operator(name, &inputs, &results, union, fields);
}

pub(super) fn bidirectional_rnn(net: &mut Net, name: &'static str) {
    let [batch, steps, depth, units] = [3, 4, 20, 6].map(|most| net.random.within(1, most));
    let is_hybrid = net.random.flag();
    net.label = if is_hybrid { "hybrid" } else { "FLOAT32" }.into();
    let parts = Parts { is_hybrid, input_gate: true, peephole: false, projection: false };
    let (is_first, is_merged) = (net.random.flag(), net.random.flag());
    let rows = if is_first { [steps, batch] } else { [batch, steps] };
    let mut inputs = vec![net.input(Float32, &[&rows[..], &[depth]].concat())];
    for _ in 0..2 {
        inputs.push(matrix(net, &[units, depth], parts));
        inputs.push(matrix(net, &[units, units], parts));
        inputs.push(floats(net, &[units]));
        let state = net.file.tensor("state", Float32, &[batch, units]);
        net.file.variable(state);
        inputs.push(state);
    }
    inputs.extend([NO_TENSOR; 3]);
    let widths = if is_merged { vec![2 * units] } else { vec![units; 2] };
    let results: Vec<i32> =
        widths.iter().map(|&it| net.result(Float32, &[&rows[..], &[it]].concat())).collect();
    let activation = net.random.pick(&[0, 1, 4]);
    let is_asymmetric = net.random.flag();
    let fields =
        vec![flag(0, is_first), byte(1, activation), flag(2, is_merged), flag(3, is_asymmetric)];
    net.operator(name, &inputs, &results, 70, fields);
}
