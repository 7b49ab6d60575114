//! Models and photos from beside the workspace, through a burst to a driver of its own, against their goldens.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod common;

use std::path::Path;

use common::{json, path, run, shared, text};
use serde_json::Value;

/// Multiply-accumulates of a model that a test may run without optimisation.
const MOST_MACS: u64 = if cfg!(debug_assertions) { 20_000_000 } else { u64::MAX };

#[test]
fn every_model_gives_its_goldens() {
    let Some(models) = shared("models") else { return };
    let manifest = json(&std::fs::read_to_string(models.join("manifest.json")).unwrap());
    for (name, model) in manifest["models"].as_object().unwrap() {
        let Some(file) = model["file"].as_str() else {
            println!("skipped {name}: it is no single model");
            continue;
        };
        if model["macs"].as_u64().is_some_and(|macs| macs > MOST_MACS) {
            println!("skipped {name}: too slow without optimisation");
            continue;
        }
        let case = &model["cases"][0];
        let dir = tempfile::tempdir().unwrap();
        let steps = case["steps"].as_u64().unwrap_or(1).to_string();
        let file = models.join(file);
        let mut args = vec!["run", path(&file), "--steps", &steps, "--output", path(dir.path())];
        let inputs: Vec<_> = files(case, "inputs")
            .iter()
            .enumerate()
            .map(|(at, file)| format!("{at}={}", path(&models.join(file))))
            .collect();
        args.extend(inputs.iter().flat_map(|input| ["--input", input]));
        let output = run(&args);
        if !output.status.success() {
            let error = text(&output.stderr);
            // What isn't supported yet is said; what fails otherwise is wrong.
            assert!(
                error.contains("doesn't take") || error.contains("can't be mapped"),
                "{name}: {error}"
            );
            println!("skipped {name}: {}", error.trim());
            continue;
        }
        // A hybrid model is translated with its weights widened, and has goldens for that.
        let which = if case["outputs_float_weights"].is_array() {
            "outputs_float_weights"
        } else {
            "outputs"
        };
        for (at, want) in files(case, which).iter().enumerate() {
            let got = std::fs::read(dir.path().join(format!("out{at}.bin"))).unwrap();
            let kind = model["outputs"][at]["type"].as_str().unwrap();
            let worst = difference(kind, &got, &std::fs::read(models.join(want)).unwrap());
            println!("{name}: output {at} ({kind}) is off by {worst:e} at most");
            assert!(worst <= tolerance(name, kind), "{name}: output {at} is off by {worst}");
        }
    }
}

fn files(case: &Value, which: &str) -> Vec<String> {
    let list = case[which].as_array().unwrap();
    list.iter().map(|file| file.as_str().unwrap().to_owned()).collect()
}

/// Quantised outputs are exact, but for what TFLite rounds once and NNAPI twice.
fn tolerance(name: &str, kind: &str) -> f64 {
    match kind {
        "FLOAT32" => 1e-5,
        _ if name.starts_with("mobilenet") => 0.0,
        _ => 2.0,
    }
}

/// The largest difference of two raw tensors, in the type's own units.
fn difference(kind: &str, got: &[u8], want: &[u8]) -> f64 {
    assert_eq!(got.len(), want.len());
    let values = |bytes: &[u8]| -> Vec<f64> {
        match kind {
            "FLOAT32" => bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|value| f64::from(f32::from_le_bytes(*value)))
                .collect(),
            "INT8" => bytes.iter().map(|&value| f64::from(value.cast_signed())).collect(),
            _ => bytes.iter().map(|&value| f64::from(value)).collect(),
        }
    };
    let pairs = values(got).into_iter().zip(values(want));
    pairs.map(|(got, want)| (got - want).abs()).fold(0.0, f64::max)
}

#[test]
fn photos_are_classified_as_the_reference_does() {
    let Some(models) = shared("models") else { return };
    let accuracy = models.join("photos/accuracy.json");
    let accuracy = json(&std::fs::read_to_string(accuracy).unwrap());
    let classifiers = accuracy["models"].as_object().unwrap();
    let few = if cfg!(debug_assertions) { 1 } else { usize::MAX };
    for (name, reference) in classifiers.iter().filter(|(name, _)| name.contains("quant")).take(few)
    {
        for (photo, want) in reference["reference_top5"].as_object().unwrap() {
            let got = top5(&models, name, photo);
            assert_eq!(got, *want, "{name}: {photo}");
        }
    }
}

fn top5(models: &Path, name: &str, photo: &str) -> Value {
    let (model, photo) = (models.join(name), models.join("photos").join(photo));
    let out = common::succeed(&["run", path(&model), "--image", path(&photo), "--json"]);
    let report = json(&out);
    let classes = report["top"].as_array().unwrap();
    classes.iter().map(|class| class["index"].clone()).collect()
}
