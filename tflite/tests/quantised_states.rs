//! SVDF of integers, and SVDF and RNN on the fly, step by step, against the plain definitions.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/run.rs"]
mod once;
#[path = "common/plan.rs"]
mod plan;

use nnburst_tflite::testing::{TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, Route, TensorKind};

const BATCHES: usize = 2;
const DEPTH: usize = 5;
const FILTERS: usize = 6;
const MEMORY: usize = 4;
const RANK: usize = 2;
const UNITS: usize = FILTERS / RANK;

/// Integers from `-size` to `size`.
fn values(count: usize, size: i32, seed: u32) -> Vec<i32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        i32::try_from(state >> 8).unwrap() % (2 * size + 1) - size
    };
    (0..count).map(|_| next()).collect()
}

fn bytes8(values: &[i32]) -> Vec<u8> {
    values.iter().map(|&value| i8::try_from(value).unwrap().cast_unsigned()).collect()
}

fn bytes16(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|&value| i16::try_from(value).unwrap().to_le_bytes()).collect()
}

fn shape(extents: &[usize]) -> Vec<i32> {
    extents.iter().map(|&extent| i32::try_from(extent).unwrap()).collect()
}

/// The layer with inputs and states of a type, and weights over time of another.
fn layer(kind: TensorKind, time_kind: TensorKind, time: &[u8], bias: &[u8]) -> TfliteFile {
    let mut file = TfliteFile::new();
    let is_float = kind == TensorKind::Float32;
    let x = file.input("x", kind, &shape(&[BATCHES, DEPTH]));
    let features = bytes8(&values(FILTERS * DEPTH, 127, 1));
    let features =
        file.constant("features", TensorKind::Int8, &shape(&[FILTERS, DEPTH]), &features);
    file.quantize(features, &[0.01], &[0], 0);
    let time = file.constant("time", time_kind, &shape(&[FILTERS, MEMORY]), time);
    file.quantize(time, &[if is_float { 0.02 } else { 0.0001 }], &[0], 0);
    let bias_kind = if is_float { kind } else { TensorKind::Int32 };
    let bias = file.constant("bias", bias_kind, &shape(&[UNITS]), bias);
    let state_kind = if is_float { kind } else { TensorKind::Int16 };
    let state = file.tensor("state", state_kind, &shape(&[BATCHES, FILTERS * MEMORY]));
    file.variable(state);
    let y = file.tensor("y", kind, &shape(&[BATCHES, UNITS]));
    if !is_float {
        file.quantize(x, &[0.05], &[-7], 0);
        file.quantize(state, &[0.002], &[0], 0);
        file.quantize(y, &[0.3], &[-20], 0);
    }
    let options = vec![(0, Value::I32(i32::try_from(RANK).unwrap())), (1, Value::I8(1))];
    file.operator_with("SVDF", &[x, features, time, bias, state], &[y], 6, options);
    file.outputs(&[y]);
    file
}

/// The results of one run after the other.
fn run(file: &TfliteFile, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let options = ImportOptions { extension: true, ..ImportOptions::default() };
    let imported = Imported::from_bytes_with(&file.build(), options).unwrap();
    assert!(imported.routes.iter().all(|route| matches!(route, Route::Extension(_))));
    let mut session = plan::compile(&imported).unwrap().session();
    let mut states: Vec<Vec<u8>> = imported.states.iter().map(|it| it.initial.clone()).collect();
    let mut results = Vec::new();
    for input in inputs {
        let (mut outputs, next) = once::run(&mut session, &imported, &[input], &states);
        states = next;
        results.push(outputs.remove(0));
    }
    results
}

/// A product with a scale, rounded twice: as a fraction of 31 bits, then by its power of two.
fn scaled(x: i32, scale: f64) -> i32 {
    let power = scale.log2().floor() + 1.0;
    let fraction = (scale / power.exp2() * 2f64.powi(31)).round();
    #[expect(clippy::cast_possible_truncation, reason = "both fit")]
    let (fraction, shift) = (fraction as i64, -(power as i32));
    let product = i64::from(x) * fraction;
    let nudge = if product >= 0 { 1 << 30 } else { 1 - (1 << 30) };
    let high = (product + nudge) / (1i64 << 31);
    let half = 1i64 << (shift - 1);
    let size = (high.abs() + half) >> shift;
    i32::try_from(if high < 0 { -size } else { size }).unwrap()
}

#[test]
fn integers_are_those_of_the_reference_kernel() {
    let time = values(FILTERS * MEMORY, 2_000, 2);
    let bias = values(UNITS, 3_000_000, 3);
    let bias_bytes: Vec<u8> = bias.iter().flat_map(|value| value.to_le_bytes()).collect();
    let file = layer(TensorKind::Int8, TensorKind::Int16, &bytes16(&time), &bias_bytes);
    let features = values(FILTERS * DEPTH, 127, 1);
    let steps: Vec<Vec<i32>> = (4..10).map(|seed| values(BATCHES * DEPTH, 127, seed)).collect();
    let inputs: Vec<Vec<u8>> = steps.iter().map(|step| bytes8(step)).collect();
    let results = run(&file, &inputs);
    let scale =
        |factors: [f32; 3]| f64::from(factors[0]) * f64::from(factors[1]) / f64::from(factors[2]);
    let mut memory = [0; BATCHES * FILTERS * MEMORY];
    let mut distinct = std::collections::BTreeSet::new();
    for (step, result) in steps.iter().zip(&results) {
        for batch in 0..BATCHES {
            let mut sums = [0; UNITS];
            for filter in 0..FILTERS {
                let dot: i32 = (0..DEPTH)
                    .map(|at| features[filter * DEPTH + at] * (step[batch * DEPTH + at] + 7))
                    .sum();
                let own = (batch * FILTERS + filter) * MEMORY;
                let line = &mut memory[own..own + MEMORY];
                line.rotate_left(1);
                let newest = scaled(dot, scale([0.05, 0.01, 0.002]));
                line[MEMORY - 1] = newest.clamp(-32_768, 32_767);
                let products = line.iter().zip(&time[filter * MEMORY..]).map(|(a, b)| a * b);
                sums[filter / RANK] += products.sum::<i32>();
            }
            for (unit, sum) in sums.iter().enumerate() {
                let whole = sum + bias[unit];
                let want = (scaled(whole, scale([0.002, 0.0001, 0.3])) - 20).clamp(-128, 127);
                let found = result[batch * UNITS + unit].cast_signed();
                assert_eq!(i32::from(found), want, "{batch} {unit}");
                distinct.insert(found);
            }
        }
    }
    assert!(distinct.len() > 8, "{distinct:?}");
}

#[test]
fn floats_are_quantised_on_the_fly() {
    let time = values(FILTERS * MEMORY, 127, 2);
    let bias = [0.5, -0.25, 0.125f32];
    let bias_bytes: Vec<u8> = bias.iter().flat_map(|value| value.to_le_bytes()).collect();
    let file = layer(TensorKind::Float32, TensorKind::Int8, &bytes8(&time), &bias_bytes);
    let features = values(FILTERS * DEPTH, 127, 1);
    let real = |value: i32| f64::from(value) / 37.0;
    let steps: Vec<Vec<i32>> = (4..10).map(|seed| values(BATCHES * DEPTH, 100, seed)).collect();
    #[expect(clippy::cast_possible_truncation, reason = "FLOAT32 is what is given")]
    let inputs: Vec<Vec<u8>> = steps
        .iter()
        .map(|step| step.iter().flat_map(|&value| (real(value) as f32).to_le_bytes()).collect())
        .collect();
    let results = run(&file, &inputs);
    let mut memory = [0.0; BATCHES * FILTERS * MEMORY];
    for (step, result) in steps.iter().zip(&results) {
        let result: Vec<f32> =
            result.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        for batch in 0..BATCHES {
            let row = &step[batch * DEPTH..(batch + 1) * DEPTH];
            let most = row.iter().map(|value| value.abs()).max().unwrap();
            let steps_of = |value: i32| (f64::from(value) * 127.0 / f64::from(most)).round();
            let mut sums = [0.0; UNITS];
            for filter in 0..FILTERS {
                let dot: f64 = (0..DEPTH)
                    .map(|at| f64::from(features[filter * DEPTH + at]) * steps_of(row[at]))
                    .sum();
                let own = (batch * FILTERS + filter) * MEMORY;
                let line = &mut memory[own..own + MEMORY];
                line.rotate_left(1);
                line[MEMORY - 1] = dot * 0.01 * real(most) / 127.0;
                let products = line.iter().zip(&time[filter * MEMORY..]);
                sums[filter / RANK] += products.map(|(a, &b)| a * f64::from(b) * 0.02).sum::<f64>();
            }
            for (unit, sum) in sums.iter().enumerate() {
                let want = (sum + f64::from(bias[unit])).max(0.0);
                let found = f64::from(result[batch * UNITS + unit]);
                assert!((found - want).abs() < 1e-4 * (1.0 + want), "{found} for {want}");
            }
        }
    }
}

/// RNN of one step, and of a sequence in either order of its axes.
fn recurrent(time_major: Option<bool>, is_asymmetric: bool) -> TfliteFile {
    let mut file = TfliteFile::new();
    let steps = RNN_STEPS;
    let (dims, results) = match time_major {
        None => (vec![BATCHES, DEPTH], vec![BATCHES, UNITS]),
        Some(true) => (vec![steps, BATCHES, DEPTH], vec![steps, BATCHES, UNITS]),
        Some(false) => (vec![BATCHES, steps, DEPTH], vec![BATCHES, steps, UNITS]),
    };
    let kind = TensorKind::Float32;
    let x = file.input("x", kind, &shape(&dims));
    let weights = bytes8(&values(UNITS * DEPTH, 127, 1));
    let weights = file.constant("weights", TensorKind::Int8, &shape(&[UNITS, DEPTH]), &weights);
    file.quantize(weights, &[0.01], &[0], 0);
    let own = bytes8(&values(UNITS * UNITS, 127, 2));
    let own = file.constant("own", TensorKind::Int8, &shape(&[UNITS, UNITS]), &own);
    file.quantize(own, &[0.005], &[0], 0);
    let bias = file.float_constant("bias", &shape(&[UNITS]), &[0.5, -0.25, 0.125]);
    let state = file.tensor("state", kind, &shape(&[BATCHES, UNITS]));
    file.variable(state);
    let y = file.tensor("y", kind, &shape(&results));
    let (name, union, mut options) = match time_major {
        None => ("RNN", 7, vec![(0, Value::I8(4))]),
        Some(first) => {
            let options = vec![(0, Value::I8(i8::from(first))), (1, Value::I8(4))];
            ("UNIDIRECTIONAL_SEQUENCE_RNN", 31, options)
        }
    };
    options.push((options.len(), Value::I8(i8::from(is_asymmetric))));
    file.operator_with(name, &[x, weights, own, bias, state], &[y], union, options);
    file.outputs(&[y]);
    file
}

const RNN_STEPS: usize = 4;

/// A row in steps of its scale: to 127 of the greatest size, or from the least to the greatest.
fn in_steps(row: &[f64], is_asymmetric: bool) -> Vec<f64> {
    let low = row.iter().copied().fold(0.0, f64::min);
    let high = row.iter().copied().fold(0.0, f64::max);
    if is_asymmetric {
        // The difference is one of floats.
        #[expect(clippy::cast_possible_truncation, reason = "FLOAT32 is what is quantised")]
        let [low, high] = [low, high].map(|x| x as f32);
        let scale = f64::from(high - low) / 255.0;
        let [low, high] = [low, high].map(f64::from);
        if scale == 0.0 {
            return vec![0.0; row.len()];
        }
        let (from_low, from_high) = (-128.0 - low / scale, 127.0 - high / scale);
        let is_low = 128.0 + (low / scale).abs() < 127.0 + (high / scale).abs();
        let zero = (if is_low { from_low } else { from_high }).round().clamp(-128.0, 127.0);
        let byte = |x: f64| ((x / scale).round() + zero).clamp(-128.0, 127.0);
        return row.iter().map(|&x| (byte(x) - zero) * scale).collect();
    }
    let scale = high.max(-low) / 127.0;
    row.iter().map(|&x| if scale == 0.0 { 0.0 } else { (x / scale).round() * scale }).collect()
}

#[test]
fn hidden_states_are_quantised_on_the_fly() {
    let weights = values(UNITS * DEPTH, 127, 1);
    let own = values(UNITS * UNITS, 127, 2);
    // Halves of steps are not met: single and double precision would part there.
    let real = |value: i32| f64::from(value) / 37.0;
    let steps: Vec<Vec<i32>> = (0..2 * u32::try_from(RNN_STEPS).unwrap())
        .map(|at| values(BATCHES * DEPTH, 101, 20 + at))
        .collect();
    for is_asymmetric in [false, true] {
        let mut state = vec![0.0; BATCHES * UNITS];
        let mut want = Vec::new();
        for step in &steps {
            for batch in 0..BATCHES {
                let row: Vec<f64> =
                    step[batch * DEPTH..(batch + 1) * DEPTH].iter().map(|&x| real(x)).collect();
                let row = in_steps(&row, is_asymmetric);
                let state = &mut state[batch * UNITS..(batch + 1) * UNITS];
                let before = in_steps(state, is_asymmetric);
                for unit in 0..UNITS {
                    let mut sum = [0.5, -0.25, 0.125][unit];
                    let own_row = own[unit * UNITS..].iter().zip(&before);
                    sum += own_row.map(|(&w, x)| f64::from(w) * 0.005 * x).sum::<f64>();
                    let weights = weights[unit * DEPTH..].iter().zip(&row);
                    sum += weights.map(|(&w, x)| f64::from(w) * 0.01 * x).sum::<f64>();
                    state[unit] = sum.tanh();
                }
            }
            want.push(state.clone());
        }
        #[expect(clippy::cast_possible_truncation, reason = "FLOAT32 is what is given")]
        let bytes = |values: Vec<i32>| -> Vec<u8> {
            values.into_iter().flat_map(|value| (real(value) as f32).to_le_bytes()).collect()
        };
        for time_major in [None, Some(true), Some(false)] {
            let file = recurrent(time_major, is_asymmetric);
            // Sequences go on where the one before ended.
            let inputs: Vec<Vec<u8>> = match time_major {
                None => steps.iter().map(|step| bytes(step.clone())).collect(),
                Some(true) => steps.chunks(RNN_STEPS).map(|steps| bytes(steps.concat())).collect(),
                Some(false) => steps
                    .chunks(RNN_STEPS)
                    .map(|steps| {
                        let rows = (0..BATCHES).flat_map(|batch| {
                            steps.iter().map(move |it| &it[batch * DEPTH..(batch + 1) * DEPTH])
                        });
                        bytes(rows.collect::<Vec<_>>().concat())
                    })
                    .collect(),
            };
            let results = run(&file, &inputs).concat();
            let results = results.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
            for (at, found) in results.enumerate() {
                let (row, unit) = (at / UNITS, at % UNITS);
                let (step, batch) = match time_major {
                    Some(false) => {
                        let within = row % (BATCHES * RNN_STEPS);
                        let first = row / (BATCHES * RNN_STEPS) * RNN_STEPS;
                        (first + within % RNN_STEPS, within / RNN_STEPS)
                    }
                    _ => (row / BATCHES, row % BATCHES),
                };
                let want = want[step][batch * UNITS + unit];
                let apart = (f64::from(found) - want).abs();
                assert!(apart < 1e-4, "{time_major:?} {is_asymmetric} {at}: {found} for {want}");
            }
        }
    }
}
