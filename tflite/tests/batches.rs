//! Networks made for one request that compute several at once.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

mod common;
#[path = "common/plan.rs"]
mod plan;
#[path = "common/run.rs"]
mod run;

use nnburst_hal::OperandType;
use nnburst_tflite::testing::{Fields, TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, ModelFile, TensorInfo, TensorKind};

const F32: TensorKind = TensorKind::Float32;

fn with_batch(batch: u32) -> ImportOptions {
    ImportOptions { extension: true, batch, ..ImportOptions::default() }
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The outputs for inputs, in a session of their own.
fn outputs(imported: &Imported, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut session = plan::compile(imported).unwrap().session();
    run::run(&mut session, imported, inputs, &[]).0
}

/// A convolution, the shape of one request written as numbers, and dense layers.
fn classifier() -> Vec<u8> {
    let mut file = TfliteFile::new();
    let image = file.input("image", F32, &[1, 4, 4, 2]);
    let filter: Vec<f32> = (0u8..54).map(|at| f32::from(at) / 64.0 - 0.25).collect();
    let filter = file.float_constant("filter", &[3, 3, 3, 2], &filter);
    let bias = file.float_constant("bias", &[3], &[0.5, -0.25, 0.0]);
    let conv = file.tensor("conv", F32, &[1, 4, 4, 3]);
    let same = vec![(0, Value::I8(0)), (1, Value::I32(1)), (2, Value::I32(1))];
    file.operator_with("CONV_2D", &[image, filter, bias], &[conv], 1, same);
    let shape = file.int_constant("shape", &[2], &[1, 48]);
    let flat = file.tensor("flat", F32, &[1, 48]);
    file.operator("RESHAPE", &[conv, shape], &[flat]);
    let weights: Vec<f32> = (0u8..240).map(|at| f32::from(at % 17) / 16.0 - 0.5).collect();
    let weights = file.float_constant("weights", &[5, 48], &weights);
    let dense = file.tensor("dense", F32, &[1, 5]);
    file.operator_with("FULLY_CONNECTED", &[flat, weights, -1], &[dense], 8, Vec::new());
    let offsets = file.float_constant("offsets", &[1, 5], &[1.0, 0.0, -1.0, 0.5, 0.25]);
    let moved = file.tensor("moved", F32, &[1, 5]);
    file.operator_with("ADD", &[dense, offsets], &[moved], 11, Vec::new());
    let scores = file.tensor("scores", F32, &[1, 5]);
    file.operator_with("SOFTMAX", &[moved], &[scores], 9, vec![(0, Value::F32(1.0))]);
    file.outputs(&[scores, dense]);
    file.build()
}

#[test]
fn requests_of_a_batch_have_the_results_of_one_by_one() {
    let file = ModelFile::from_bytes(classifier());
    let single = file.import(with_batch(0)).unwrap();
    let batched = file.import(with_batch(3)).unwrap();
    let dims = |infos: &[TensorInfo]| infos.iter().map(|it| it.dims.clone()).collect::<Vec<_>>();
    assert_eq!(dims(&batched.inputs), [[3, 4, 4, 2]]);
    assert_eq!(dims(&batched.outputs), [[3, 5], [3, 5]]);
    let pictures: Vec<f32> = (0u16..96).map(|at| f32::from(at * 37 % 101) / 50.0 - 1.0).collect();
    let all = outputs(&batched, &[&bytes_of(&pictures)]);
    for (request, picture) in pictures.chunks_exact(32).enumerate() {
        let alone = outputs(&single, &[&bytes_of(picture)]);
        for (all, alone) in all.iter().zip(&alone) {
            let part = &all[request * alone.len()..][..alone.len()];
            assert_close(OperandType::TensorFloat32, part, alone).unwrap();
        }
    }
}

/// A file of one operator on `x` of a shape, with an argument of integers.
fn one_operator(
    name: &str,
    [from, to]: [&[i32]; 2],
    argument: &[i32],
    (kind, fields): (u8, Fields),
) -> Vec<u8> {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, from);
    let argument =
        file.int_constant("argument", &[i32::try_from(argument.len()).unwrap()], argument);
    let y = file.tensor("y", F32, to);
    file.operator_with(name, &[x, argument], &[y], kind, fields);
    file.outputs(&[y]);
    file.build()
}

#[test]
fn what_may_mix_requests_is_refused() {
    let reducer = |keep: bool| (27, vec![(0, Value::I8(i8::from(keep)))]);
    for (name, shapes, argument, options, why) in [
        ("MEAN", [&[1, 6][..], &[1, 6]], &[0][..], reducer(true), "may compute one of 4"),
        ("GATHER", [&[1, 6], &[2, 6]], &[0, 0], (23, vec![(0, Value::I32(0))]), "may compute one"),
        ("TRANSPOSE", [&[1, 4], &[4, 1]], &[1, 0], (26, Vec::new()), "may compute one of 4"),
        ("RESHAPE", [&[1, 6], &[2, 3]], &[2, 3], (17, Vec::new()), "holds no 4 requests"),
    ] {
        let file = ModelFile::from_bytes(one_operator(name, shapes, argument, options));
        let error = file.import(with_batch(4)).unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
        assert!(file.import(with_batch(1)).is_ok(), "{name} alone");
    }
    let apart = one_operator("MEAN", [&[1, 6], &[1]], &[-1], reducer(false));
    assert!(ModelFile::from_bytes(apart).import(with_batch(4)).is_ok());
    let several = one_operator("MEAN", [&[2, 6], &[2]], &[1], reducer(false));
    let error = ModelFile::from_bytes(several).import(with_batch(4)).unwrap_err().to_string();
    assert!(error.contains("can't hold 4 requests"), "{error}");
}

#[test]
fn shared_networks_compute_batches() {
    let (mut computed, mut refused) = (0, 0);
    for folder in ["models", "mlts", "tflite_zoo"] {
        let Some(models) = common::folder(folder) else { return };
        for (name, entry) in models.entries() {
            // Some entries name files of another folder.
            if !models.path(&entry["file"]).is_file() {
                continue;
            }
            let file = ModelFile::open(models.path(&entry["file"])).unwrap();
            let Ok(batched) = file.import(with_batch(2)) else {
                refused += 1;
                continue;
            };
            let single = file.import(with_batch(0)).unwrap();
            let Some(cases) = entry["cases"].as_array().filter(|_| single.states.is_empty()) else {
                continue;
            };
            let of_case = |at: usize| -> Vec<Vec<u8>> {
                let files = cases[at % cases.len()]["inputs"].as_array().unwrap().iter();
                files.map(|file| std::fs::read(models.path(file)).unwrap()).collect()
            };
            let requests = [of_case(0), of_case(1)];
            let joined =
                (0..requests[0].len()).map(|at| [&requests[0][at][..], &requests[1][at]].concat());
            let joined: Vec<Vec<u8>> = joined.collect();
            let given: Vec<&[u8]> = joined.iter().map(Vec::as_slice).collect();
            let all = outputs(&batched, &given);
            for (request, inputs) in requests.iter().enumerate() {
                let given: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                let alone = outputs(&single, &given);
                for ((all, alone), info) in all.iter().zip(&alone).zip(&single.outputs) {
                    let part = &all[request * alone.len()..][..alone.len()];
                    let close = assert_close(info.kind, part, alone);
                    close.unwrap_or_else(|why| panic!("{name}, request {request}: {why}"));
                }
            }
            computed += 1;
        }
    }
    assert!(computed >= 30, "{computed} networks computed batches, {refused} were refused");
}

/// Integers are equal; floats within 1e-4 and as much of the value, as sums of one row and of
/// several have other orders.
fn assert_close(kind: OperandType, a: &[u8], b: &[u8]) -> Result<(), String> {
    if kind != OperandType::TensorFloat32 {
        return if a == b { Ok(()) } else { Err("integers differ".into()) };
    }
    let floats = |bytes: &[u8]| -> Vec<f32> {
        let each = bytes.chunks_exact(4);
        each.map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
    };
    for (a, b) in floats(a).into_iter().zip(floats(b)) {
        if (a - b).abs() > 1e-4 + 1e-4 * b.abs() {
            return Err(format!("{a} is not {b}"));
        }
    }
    Ok(())
}
