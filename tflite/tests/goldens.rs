//! Runs every model of the shared folder on the executor, states and all, and compares with the
//! goldens.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

mod common;
#[path = "common/run.rs"]
mod once;

use std::path::Path;

use nnburst_executor::{CompileOptions, Plan};
use nnburst_hal::OperandType;
use nnburst_tflite::{Imported, TensorInfo};
use serde_json::Value;

/// How far outputs may be from their goldens.
struct Bound {
    /// In the integers of quantised outputs.
    steps: u32,
    /// Absolute, for floating point.
    real: f32,
}

/// A dense layer of integers is rounded once by TFLite and twice by NNAPI, hence is a step off now
/// and then, which a sigmoid behind it magnifies to 2.5 of its own; everything else is exact.
fn bound(name: &str) -> Bound {
    match name {
        "dtln_lstm_int8" => Bound { steps: 3, real: 0.0 },
        "hello_world_int8" => Bound { steps: 1, real: 0.0 },
        _ => Bound { steps: 0, real: 1e-5 },
    }
}

#[test]
fn models_equal_their_goldens() {
    let Some(models) = common::models() else { return };
    for (name, entry) in models.entries() {
        let imported = Imported::open(models.path(&entry["file"])).unwrap();
        let plan = Plan::compile(&imported.model, &CompileOptions::default()).unwrap();
        for case in entry["cases"].as_array().unwrap() {
            // Hybrid models: widened, their weights give these.
            let wide = &case["outputs_float_weights"];
            let wanted = if wide.is_null() { &case["outputs"] } else { wide };
            let got = run(&plan, &imported, &models.root, case);
            let label = format!("{name} {}", case["name"]);
            for (index, (got, file)) in got.iter().zip(wanted.as_array().unwrap()).enumerate() {
                let want = std::fs::read(models.path(file)).unwrap();
                assert_eq!(got.len(), want.len(), "{label}");
                let worst = compare(&imported.outputs[index], got, &want);
                println!("{label} output {index}: {worst:?}");
                let bound = bound(&name);
                assert!(
                    worst.steps <= bound.steps && worst.real <= bound.real,
                    "{label}: {worst:?}"
                );
            }
        }
    }
}

/// Steps through a case, its state kept between; the outputs, one step's after the other's.
fn run(plan: &Plan, imported: &Imported, root: &Path, case: &Value) -> Vec<Vec<u8>> {
    let steps = usize::try_from(case["steps"].as_u64().unwrap_or(1)).unwrap();
    let files = case["inputs"].as_array().unwrap();
    let inputs: Vec<Vec<u8>> = files
        .iter()
        .map(|file| std::fs::read(root.join(file.as_str().unwrap())).unwrap())
        .collect();
    let mut states: Vec<Vec<u8>> =
        imported.states.iter().map(|state| state.initial.clone()).collect();
    let mut gathered = vec![Vec::new(); imported.outputs.len()];
    let mut session = plan.session();
    for step in 0..steps {
        let parts = inputs.iter().zip(&imported.inputs).map(|(bytes, info)| {
            let size = info.byte_len().unwrap();
            &bytes[step * size..(step + 1) * size]
        });
        let (outputs, next) =
            once::run(&mut session, imported, &parts.collect::<Vec<_>>(), &states);
        states = next;
        for (all, output) in gathered.iter_mut().zip(outputs) {
            all.extend(output);
        }
    }
    gathered
}

#[derive(Debug, Default)]
struct Worst {
    steps: u32,
    real: f32,
}

fn compare(info: &TensorInfo, got: &[u8], want: &[u8]) -> Worst {
    let mut worst = Worst::default();
    match info.kind {
        OperandType::TensorFloat32 => {
            let floats = |bytes: &[u8]| -> Vec<f32> {
                bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
            };
            for (got, want) in floats(got).into_iter().zip(floats(want)) {
                // A NaN is as far off as can be.
                let apart = (got - want).abs();
                worst.real = if apart.is_nan() { f32::INFINITY } else { worst.real.max(apart) };
            }
        }
        OperandType::TensorQuant8Asymm => {
            let pairs = got.iter().zip(want).map(|(got, want)| u32::from(got.abs_diff(*want)));
            worst.steps = pairs.max().unwrap_or(0);
        }
        _ => {
            let apart = |(got, want): (&u8, &u8)| got.cast_signed().abs_diff(want.cast_signed());
            worst.steps = got.iter().zip(want).map(apart).map(u32::from).max().unwrap_or(0);
        }
    }
    worst
}
