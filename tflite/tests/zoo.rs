//! Runs every network of the shared folder of networks that NNAPI's operations alone cannot say,
//! with the vendor extension, and compares with the goldens of TFLite's reference kernels: integers
//! exactly, floats within 1e-4 and as much of the value.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

mod common;

use std::path::Path;
use std::sync::Arc;

use nnburst_executor::{
    CompileOptions, Control, ExtensionRegistry, Input, Output, Plan, TfliteExecutor,
};
use nnburst_hal::{View, ViewMut, tflite_extension};
use nnburst_tflite::{ImportOptions, Imported, TensorKind};
use serde_json::Value;

/// Networks whose goldens are not TFLite's results: its reference kernels read no scales of blocks,
/// and give zeros. `tests/blockwise.rs` holds such layers against their definition.
const WITHOUT_GOLDEN: &[&str] = &["qwen_fc_blockwise_quantized"];

#[test]
fn networks_equal_their_goldens() {
    let Some(zoo) = common::folder("tflite_zoo") else { return };
    let mut failures = Vec::new();
    for (name, entry) in zoo.entries() {
        let ran = run(&zoo.path(&entry["file"]), &zoo.root, &entry);
        match (ran, WITHOUT_GOLDEN.contains(&name.as_str())) {
            (Ok(()), false) => {}
            (Err(why), true) if why.contains("not 0") => {}
            (ran, _) => failures.push(format!("{name}: {ran:?}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn options() -> CompileOptions {
    let mut extensions = ExtensionRegistry::default();
    extensions.register(tflite_extension::NAME, Arc::new(TfliteExecutor));
    CompileOptions { extensions, ..CompileOptions::default() }
}

/// Runs the cases of a network; what keeps it from equalling its goldens.
fn run(file: &Path, root: &Path, entry: &Value) -> Result<(), String> {
    let with = ImportOptions { extension: true, ..ImportOptions::default() };
    let imported = Imported::open_with(file, with).map_err(|error| error.to_string())?;
    let plan = Plan::compile(&imported.model, &options()).map_err(|error| error.to_string())?;
    for case in entry["cases"].as_array().unwrap() {
        let read = |list: &Value| -> Vec<Vec<u8>> {
            let files = list.as_array().unwrap().iter();
            files.map(|file| std::fs::read(root.join(file.as_str().unwrap())).unwrap()).collect()
        };
        let (inputs, wanted) = (read(&case["inputs"]), read(&case["outputs"]));
        let mut outputs: Vec<Vec<u8>> = wanted.iter().map(|bytes| vec![0; bytes.len()]).collect();
        let given: Vec<_> = inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
        let taken: Vec<_> =
            outputs.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
        let ran = plan.session().run(&given, &taken, &Control::default());
        ran.map_err(|error| error.to_string())?;
        drop(taken);
        for (index, (got, want)) in outputs.iter().zip(&wanted).enumerate() {
            compare(imported.outputs[index].file_kind, got, want)
                .map_err(|why| format!("{} output {index}: {why}", case["name"]))?;
        }
    }
    Ok(())
}

fn compare(kind: TensorKind, got: &[u8], want: &[u8]) -> Result<(), String> {
    if kind != TensorKind::Float32 {
        let apart = got.iter().zip(want).filter(|(got, want)| got != want).count();
        return if apart == 0 { Ok(()) } else { Err(format!("{apart} bytes of {}", want.len())) };
    }
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    };
    let (got, want) = (floats(got), floats(want));
    let is_near = |&(got, want): &(&f32, &f32)| {
        (got - want).abs() <= 1e-4 + 1e-4 * want.abs() || got.to_bits() == want.to_bits()
    };
    match got.iter().zip(&want).find(|pair| !is_near(pair)) {
        None => Ok(()),
        Some((got, want)) => Err(format!("{got}, not {want}")),
    }
}
