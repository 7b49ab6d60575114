//! Models and photos from beside the workspace, through a burst to a driver of its own, against
//! their goldens.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that can't go on panics, and says how far off models are"
)]

mod common;

use std::path::Path;

use common::{json, path, run, shared, text};
use serde_json::Value;

/// Every case of every model in one process a model: the files one after the other, with a reset
/// between.
#[test]
fn every_model_gives_its_goldens() {
    let Some(models) = shared("models") else { return };
    let manifest = json(&std::fs::read_to_string(models.join("manifest.json")).unwrap());
    let mut compared = 0;
    for (name, model) in manifest["models"].as_object().unwrap() {
        let Some(file) = model["file"].as_str() else {
            println!("{name} is no single model: see the denoise crate");
            continue;
        };
        compared += 1;
        let cases = model["cases"].as_array().unwrap();
        let each = cases[0]["steps"].as_u64().unwrap_or(1);
        assert!(cases.iter().all(|case| case["steps"].as_u64().unwrap_or(1) <= each * 2), "{name}");
        let dir = tempfile::tempdir().unwrap();
        // Cases of unequal length can't share a rhythm of resets.
        let equal = cases.iter().all(|case| case["steps"].as_u64().unwrap_or(1) == each);
        let groups: Vec<&[Value]> = if equal { vec![cases] } else { cases.chunks(1).collect() };
        for group in groups {
            let steps = group[0]["steps"].as_u64().unwrap_or(1);
            let got = run_cases(&models, dir.path(), &models.join(file), group, steps);
            for (at, got) in got.iter().enumerate() {
                check(&models, name, model, group, at, got);
            }
        }
    }
    assert!(compared >= 27, "only {compared} models");
}

/// The outputs of cases run one after the other, the state set back in front of each.
fn run_cases(models: &Path, dir: &Path, model: &Path, cases: &[Value], steps: u64) -> Vec<Vec<u8>> {
    let (all, every) = ((steps * cases.len() as u64).to_string(), steps.to_string());
    let inputs: Vec<String> = (0..files(&cases[0], "inputs").len())
        .map(|at| {
            let path = dir.join(format!("in{at}.bin"));
            std::fs::write(&path, gather(models, cases, "inputs", at)).unwrap();
            format!("{at}={}", path.display())
        })
        .collect();
    let mut args = vec!["run", path(model), "--steps", &all, "--reset-every", &every];
    args.extend(["--output", path(dir)]);
    args.extend(inputs.iter().flat_map(|input| ["--input", input]));
    let output = run(&args);
    assert!(output.status.success(), "{}: {}", model.display(), text(&output.stderr));
    let outputs = 0..files(&cases[0], "outputs").len();
    outputs.map(|at| std::fs::read(dir.join(format!("out{at}.bin"))).unwrap()).collect()
}

/// One argument of all cases, one after the other.
fn gather(models: &Path, cases: &[Value], which: &str, at: usize) -> Vec<u8> {
    let file = |case: &Value| std::fs::read(models.join(&files(case, which)[at])).unwrap();
    cases.iter().flat_map(file).collect()
}

fn check(models: &Path, name: &str, model: &Value, cases: &[Value], at: usize, got: &[u8]) {
    let kind = model["outputs"][at]["type"].as_str().unwrap();
    let golden = |which: &str| gather(models, cases, which, at);
    // A hybrid model is computed with its weights widened, or as the interpreter does: there are
    // goldens for both.
    let is_hybrid = cases[0]["outputs_float_weights"].is_array();
    let mut worst = difference(kind, got, &golden("outputs"));
    let mut with = "";
    if is_hybrid {
        let wide = difference(kind, got, &golden("outputs_float_weights"));
        if wide < worst {
            (worst, with) = (wide, ", its weights widened");
        }
    }
    println!("{name}: output {at} ({kind}) is off by {worst:e} at most{with}");
    assert!(worst <= tolerance(name, model, at), "{name}: output {at} is off by {worst}");
    for (case, got) in cases.iter().zip(got.chunks(got.len() / cases.len())) {
        if let (0, Some(class)) = (at, case["top5"][0]["index"].as_u64()) {
            assert_eq!(best(kind, got) as u64, class, "{name}: the class of {}", case["name"]);
        }
    }
}

fn files(case: &Value, which: &str) -> Vec<String> {
    let list = case[which].as_array().unwrap();
    list.iter().map(|file| file.as_str().unwrap().to_owned()).collect()
}

/// Quantised outputs are exact, but for what TFLite rounds once and NNAPI twice, in dense layers;
/// behind one, the sigmoid of `dtln_lstm_int8` makes three steps of one. Floats may be off by what
/// the sums' order makes, or by as much as the interpreter's own fast kernels are.
fn tolerance(name: &str, model: &Value, output: usize) -> f64 {
    match (model["outputs"][output]["type"].as_str().unwrap(), name) {
        ("FLOAT32", _) => {
            let peers = model["xnnpack_vs_reference_max_abs"][output].as_f64().unwrap();
            let is_hybrid = model["cases"][0]["outputs_float_weights"].is_array();
            if is_hybrid { 1e-5 } else { peers.max(1e-5) }
        }
        (_, "dtln_lstm_int8") => 3.0,
        (_, "hello_world_int8") => 1.0,
        _ => 0.0,
    }
}

/// Which value is the largest.
fn best(kind: &str, bytes: &[u8]) -> usize {
    let values = values(kind, bytes);
    (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b]).then(b.cmp(&a))).unwrap()
}

/// The largest difference of two raw tensors, in the type's own units.
fn difference(kind: &str, got: &[u8], want: &[u8]) -> f64 {
    assert_eq!(got.len(), want.len());
    let pairs = values(kind, got).into_iter().zip(values(kind, want));
    // A NaN is as far off as can be.
    let apart = pairs.map(|(got, want)| (got - want).abs());
    apart.map(|x| if x.is_nan() { f64::INFINITY } else { x }).fold(0.0, f64::max)
}

fn values(kind: &str, bytes: &[u8]) -> Vec<f64> {
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
