//! LSTM on the fly and with the BASIC kernel, against the plain definitions.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/run.rs"]
mod once;
#[path = "common/plan.rs"]
mod plan;

use nnburst_tflite::testing::{TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, Route, TensorKind};

const F32: TensorKind = TensorKind::Float32;
const DEPTH: usize = 5;
const UNITS: usize = 4;
const OUTPUTS: usize = 3;
const STEPS: usize = 3;

/// Integers from `-size` to `size`.
fn values(count: usize, size: i32, seed: u32) -> Vec<i32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        i32::try_from(state >> 8).unwrap() % (2 * size + 1) - size
    };
    (0..count).map(|_| next()).collect()
}

/// Small numbers, none of which is half a step.
fn reals(count: usize, seed: u32) -> Vec<f64> {
    values(count, 101, seed).into_iter().map(|value| f64::from(value) / 137.0).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "FLOAT32 is what is given")]
fn floats(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

fn bytes(values: &[f64]) -> Vec<u8> {
    floats(values).into_iter().flat_map(f32::to_le_bytes).collect()
}

fn shape(extents: &[usize]) -> Vec<i32> {
    extents.iter().map(|&extent| i32::try_from(extent).unwrap()).collect()
}

const SCALE: f32 = 0.004;

/// A constant of bytes that stand for numbers.
fn weights(file: &mut TfliteFile, extents: &[usize], seed: u32) -> i32 {
    let stored = values(extents.iter().product(), 127, seed);
    let stored: Vec<u8> =
        stored.into_iter().map(|value| i8::try_from(value).unwrap().cast_unsigned()).collect();
    let tensor = file.constant("weights", TensorKind::Int8, &shape(extents), &stored);
    file.quantize(tensor, &[SCALE], &[0], 0);
    tensor
}

fn weight(extents: [usize; 2], seed: u32, row: usize) -> Vec<f64> {
    let all = values(extents[0] * extents[1], 127, seed);
    let row = all[row * extents[1]..(row + 1) * extents[1]].iter();
    row.map(|&value| f64::from(value) * f64::from(SCALE)).collect()
}

/// A row in 127 steps to the greatest size.
fn in_steps(row: &[f64]) -> Vec<f64> {
    let size = row.iter().map(|x| x.abs()).fold(0.0, f64::max);
    let scale = if size == 0.0 { 1.0 } else { size / 127.0 };
    row.iter().map(|x| (x / scale).round() * scale).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The tensors of a direction: weights, peepholes, biases and the projection.
fn direction(file: &mut TfliteFile, seed: u32) -> Vec<i32> {
    let mut tensors: Vec<i32> =
        (0..4).map(|gate| weights(file, &[UNITS, DEPTH], seed + gate)).collect();
    tensors.extend((4..8).map(|gate| weights(file, &[UNITS, OUTPUTS], seed + gate)));
    tensors.extend((8..11).map(|gate| weights(file, &[UNITS], seed + gate)));
    for gate in 11..15 {
        let bias = floats(&reals(UNITS, seed + gate));
        tensors.push(file.float_constant("bias", &shape(&[UNITS]), &bias));
    }
    tensors.push(weights(file, &[OUTPUTS, UNITS], seed + 15));
    let bias = floats(&reals(OUTPUTS, seed + 16));
    tensors.push(file.float_constant("bias", &shape(&[OUTPUTS]), &bias));
    tensors
}

fn states(file: &mut TfliteFile) -> [i32; 2] {
    [OUTPUTS, UNITS].map(|width| {
        let state = file.tensor("state", F32, &shape(&[1, width]));
        file.variable(state);
        state
    })
}

/// The results of a direction.
fn plain(x: &[f64], seed: u32, backward: bool) -> Vec<Vec<f64>> {
    let (mut hidden, mut cell) = (vec![0.0; OUTPUTS], vec![0.0; UNITS]);
    let mut results = vec![Vec::new(); STEPS];
    for step in 0..STEPS {
        let step = if backward { STEPS - 1 - step } else { step };
        let row = in_steps(&x[step * DEPTH..(step + 1) * DEPTH]);
        let before = in_steps(&hidden);
        let sum = |gate: usize, unit: usize, peephole: Option<(u32, f64)>| {
            let at = seed + u32::try_from(gate).unwrap();
            let peephole = peephole
                .map_or(0.0, |(place, cell)| weight([1, UNITS], seed + place, 0)[unit] * cell);
            reals(UNITS, at + 11)[unit]
                + dot(&weight([UNITS, DEPTH], at, unit), &row)
                + dot(&weight([UNITS, OUTPUTS], at + 4, unit), &before)
                + peephole
        };
        let mut weighed = Vec::new();
        for (unit, cell) in cell.iter_mut().enumerate() {
            let input = logistic(sum(0, unit, Some((8, *cell))));
            let forget = logistic(sum(1, unit, Some((9, *cell))));
            *cell = forget * *cell + input * sum(2, unit, None).tanh();
            let output = logistic(sum(3, unit, Some((10, *cell))));
            weighed.push(output * cell.tanh());
        }
        let row = in_steps(&weighed);
        let bias = reals(OUTPUTS, seed + 16);
        let project = |at: usize| bias[at] + dot(&weight([OUTPUTS, UNITS], seed + 15, at), &row);
        hidden = (0..OUTPUTS).map(project).collect();
        results[step].clone_from(&hidden);
    }
    results
}

fn run(file: &TfliteFile, inputs: &[Vec<u8>]) -> (Imported, Vec<Vec<u8>>) {
    let options = ImportOptions { extension: true, ..ImportOptions::default() };
    let imported = Imported::from_bytes_with(&file.build(), options).unwrap();
    let mut session = plan::compile(&imported).unwrap().session();
    let states: Vec<Vec<u8>> = imported.states.iter().map(|it| it.initial.clone()).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let (outputs, _) = once::run(&mut session, &imported, &inputs, &states);
    (imported, outputs)
}

fn near(found: &[u8], want: &[f64]) {
    let found: Vec<f32> = found.as_chunks().0.iter().map(|&it| f32::from_le_bytes(it)).collect();
    assert_eq!(found.len(), want.len());
    for (found, want) in found.iter().zip(want) {
        assert!((f64::from(*found) - want).abs() < 1e-4, "{found} for {want}");
    }
}

const NO_TENSOR: i32 = -1;

#[test]
fn gates_and_projections_are_quantised_on_the_fly() {
    let x = reals(STEPS * DEPTH, 1);
    let mut file = TfliteFile::new();
    let mut inputs = vec![file.input("x", F32, &shape(&[1, STEPS, DEPTH]))];
    inputs.extend(direction(&mut file, 100));
    inputs.extend(states(&mut file));
    inputs.extend([NO_TENSOR; 4]);
    let y = file.tensor("y", F32, &shape(&[1, STEPS, OUTPUTS]));
    let options = vec![(0, Value::I8(4)), (3, Value::I8(0))];
    file.operator_with("UNIDIRECTIONAL_SEQUENCE_LSTM", &inputs, &[y], 71, options);
    file.outputs(&[y]);
    let (imported, outputs) = run(&file, &[bytes(&x)]);
    assert!(matches!(imported.routes[..], [Route::Extension(_)]));
    near(&outputs[0], &plain(&x, 100, false).concat());
}

#[test]
fn the_second_direction_takes_the_steps_in_reverse() {
    let x = reals(STEPS * DEPTH, 2);
    for merge in [false, true] {
        let mut file = TfliteFile::new();
        let mut inputs = vec![file.input("x", F32, &shape(&[STEPS, 1, DEPTH]))];
        inputs.extend(direction(&mut file, 100));
        inputs.extend(direction(&mut file, 200));
        inputs.extend(states(&mut file));
        inputs.extend(states(&mut file));
        inputs.extend([NO_TENSOR; 9]);
        let widths = if merge { vec![2 * OUTPUTS] } else { vec![OUTPUTS; 2] };
        let results: Vec<i32> =
            widths.iter().map(|&it| file.tensor("y", F32, &shape(&[STEPS, 1, it]))).collect();
        let options = vec![(0, Value::I8(4)), (3, Value::I8(i8::from(merge))), (4, Value::I8(1))];
        file.operator_with("BIDIRECTIONAL_SEQUENCE_LSTM", &inputs, &results, 69, options);
        file.outputs(&results);
        let (imported, outputs) = run(&file, &[bytes(&x)]);
        assert!(matches!(imported.routes[..], [Route::Extension(_)]));
        let (forward, backward) = (plain(&x, 100, false), plain(&x, 200, true));
        if merge {
            let rows = forward.iter().zip(&backward).map(|(a, b)| [&a[..], b].concat());
            near(&outputs[0], &rows.collect::<Vec<_>>().concat());
        } else {
            near(&outputs[0], &forward.concat());
            near(&outputs[1], &backward.concat());
        }
    }
}

#[test]
fn gates_that_share_a_matrix_are_told_apart() {
    let mut file = TfliteFile::new();
    let width = DEPTH + UNITS;
    let x = file.input("x", F32, &shape(&[1, DEPTH]));
    let before = file.input("before", F32, &shape(&[1, UNITS]));
    let matrix = reals(4 * UNITS * width, 3);
    let bias = reals(4 * UNITS, 4);
    let own = file.float_constant("w", &shape(&[4 * UNITS, width]), &floats(&matrix));
    let biases = file.float_constant("b", &shape(&[4 * UNITS]), &floats(&bias));
    let state = file.input("state", F32, &shape(&[1, UNITS]));
    let results: Vec<i32> =
        [UNITS, UNITS, width, 4 * UNITS].map(|it| file.tensor("y", F32, &shape(&[1, it]))).to_vec();
    let options = vec![(0, Value::I8(4)), (3, Value::I8(1))];
    file.operator_with("LSTM", &[x, before, own, biases, state], &results, 14, options);
    file.outputs(&results[..2]);
    let given = [reals(DEPTH, 5), reals(UNITS, 6), reals(UNITS, 7)];
    let (_, outputs) = run(&file, &given.each_ref().map(|it| bytes(it)));
    let joined = [&given[0][..], &given[1]].concat();
    let sum = |gate: usize, unit: usize| {
        let row = gate * UNITS + unit;
        bias[row] + dot(&matrix[row * width..(row + 1) * width], &joined)
    };
    let mut want = [Vec::new(), Vec::new()];
    for (unit, kept) in given[2].iter().enumerate() {
        let fresh = logistic(sum(0, unit)) * sum(1, unit).tanh();
        let next = fresh + logistic(sum(2, unit)) * kept;
        want[0].push(logistic(sum(3, unit)) * next.tanh());
        want[1].push(next);
    }
    near(&outputs[0], &want[0]);
    near(&outputs[1], &want[1]);
}

/// Those of bytes are near those of the numbers that the bytes stand for.
#[test]
fn gates_of_bytes_share_a_matrix_too() {
    let mut file = TfliteFile::new();
    let width = DEPTH + UNITS;
    let bytes = |values: &[i32]| -> Vec<u8> {
        values.iter().map(|&value| u8::try_from(value + 128).unwrap()).collect()
    };
    let byte = |file: &mut TfliteFile, tensor: i32, scale: f32| {
        file.quantize(tensor, &[scale], &[128], 0);
        tensor
    };
    let uint8 = TensorKind::Uint8;
    let x = file.input("x", uint8, &shape(&[1, DEPTH]));
    let before = file.input("before", uint8, &shape(&[1, UNITS]));
    let (x, before) = (byte(&mut file, x, 1.0 / 128.0), byte(&mut file, before, 1.0 / 128.0));
    let matrix = values(4 * UNITS * width, 100, 3);
    let own = file.constant("w", uint8, &shape(&[4 * UNITS, width]), &bytes(&matrix));
    let own = byte(&mut file, own, 1.0 / 64.0);
    let bias = values(4 * UNITS, 4000, 4);
    let biases = file.int_constant("b", &shape(&[4 * UNITS]), &bias);
    file.quantize(biases, &[1.0 / 8192.0], &[0], 0);
    let state = file.input("state", TensorKind::Int16, &shape(&[1, UNITS]));
    file.quantize(state, &[1.0 / 2048.0], &[0], 0);
    let y = file.tensor("y", uint8, &shape(&[1, UNITS]));
    let y = byte(&mut file, y, 1.0 / 128.0);
    let next = file.tensor("next", TensorKind::Int16, &shape(&[1, UNITS]));
    file.quantize(next, &[1.0 / 2048.0], &[0], 0);
    let room = [width, 4 * UNITS].map(|it| file.tensor("room", uint8, &shape(&[1, it])));
    let options = vec![(0, Value::I8(4)), (3, Value::I8(1))];
    let results = [y, next, room[0], room[1]];
    file.operator_with("LSTM", &[x, before, own, biases, state], &results, 14, options);
    file.outputs(&results[..2]);
    let (first, second, kept) = (values(DEPTH, 100, 5), values(UNITS, 100, 6), 1500);
    let states = [i16::to_le_bytes(kept); UNITS].concat();
    let (_, outputs) = run(&file, &[bytes(&first), bytes(&second), states]);
    let joined = [&first[..], &second].concat();
    for unit in 0..UNITS {
        let sum = |gate: usize| {
            let row = gate * UNITS + unit;
            let row_of_matrix = matrix[row * width..(row + 1) * width].iter();
            let products = row_of_matrix.zip(&joined).map(|(w, x)| w * x).sum::<i32>();
            f64::from(bias[row] + products) / 8192.0
        };
        let fresh = logistic(sum(0)) * sum(1).tanh();
        let next = fresh + logistic(sum(2)) * f64::from(kept) / 2048.0;
        let want = logistic(sum(3)) * next.tanh();
        let found = (f64::from(outputs[0][unit]) - 128.0) / 128.0;
        assert!((found - want).abs() < 0.02, "{unit}: {found} for {want}");
        let [low, high] = [outputs[1][2 * unit], outputs[1][2 * unit + 1]];
        let found = f64::from(i16::from_le_bytes([low, high])) / 2048.0;
        assert!((found - next).abs() < 0.01, "{unit}: {found} for {next}");
    }
}
