//! Writes networks of random weights, each in float and as several converters quantise it, where
//! engines are measured side by side on models that nobody tuned them for, and files of one
//! operator each.
//!
//! ```text
//!   cargo run --release -p nnburst-tflite --example networks -- DIR
//! ```
//!
//! `DIR` then holds a folder for each with `model.tflite`, an input and what our executor makes of
//! it, and a `manifest.json` that names them: what `cargo xtask peers --rows others` measures.

mod kinds;
mod layers;
mod operators;
mod transformers;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use kinds::{KINDS, NUMBERS, TRANSFORMER_NUMBERS, TRANSFORMERS};
use layers::Network;
use nnburst_executor::{
    CompileOptions, Control, ExtensionRegistry, Input, Output, Plan, TfliteExecutor,
};
use nnburst_hal::{View, ViewMut, tflite_extension};
use nnburst_tflite::{ImportOptions, Imported, TensorInfo, TensorKind};
use operators::OPERATORS;
use serde_json::{Map, Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: networks DIR")?;
    let folder = Path::new(&folder);
    let mut models = Map::new();
    let kinds = KINDS.iter().flat_map(|kind| NUMBERS.iter().map(move |numbers| (kind, numbers)));
    let transformers = TRANSFORMERS.iter();
    let transformers = transformers
        .flat_map(|kind| TRANSFORMER_NUMBERS.iter().map(move |numbers| (kind, numbers)));
    for ((kind, make), &(end, numbers)) in kinds.chain(transformers) {
        let name = format!("{kind}_{end}");
        let mut network = Network::new(numbers);
        make(&mut network);
        let entry = write(&folder.join(&name), &name, &network.build())?;
        models.insert(name, entry);
    }
    for (name, make) in OPERATORS {
        let entry = write(&folder.join(name), name, &make())?;
        models.insert((*name).to_owned(), entry);
    }
    fs::write(folder.join("manifest.json"), json!({ "models": models }).to_string())?;
    Ok(())
}

/// Writes a network with an input and its results; what the manifest says of it.
fn write(folder: &Path, name: &str, file: &[u8]) -> Result<Value, Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("model.tflite"), file)?;
    let options = ImportOptions { extension: true, ..ImportOptions::default() };
    let imported = Imported::from_bytes_with(file, options);
    let imported = imported.map_err(|error| format!("{name}: {error}"))?;
    let inputs: Vec<Vec<u8>> = imported.inputs.iter().map(image).collect();
    let mut outputs: Vec<Vec<u8>> = imported.outputs.iter().map(|it| vec![0; bytes(it)]).collect();
    let mut extensions = ExtensionRegistry::default();
    extensions.register(tflite_extension::NAME, Arc::new(TfliteExecutor));
    let options = CompileOptions { extensions, ..CompileOptions::default() };
    let plan =
        Plan::compile(&imported.model, &options).map_err(|error| format!("{name}: {error}"))?;
    let views: Vec<_> = inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
    let results: Vec<_> = outputs.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
    plan.session().run(&views, &results, &Control::default())?;
    let save = |what: &str, all: &[Vec<u8>]| -> Result<Vec<String>, std::io::Error> {
        let names = (0..all.len()).map(|at| format!("{what}{at}"));
        let save = |(file, bytes): (String, &Vec<u8>)| {
            fs::write(folder.join(&file), bytes)?;
            Ok(format!("{name}/{file}"))
        };
        names.zip(all).map(save).collect()
    };
    let about = |all: &[TensorInfo]| -> Vec<Value> {
        all.iter().map(|it| json!({ "type": kind(it), "shape": it.dims })).collect()
    };
    Ok(json!({
        "file": format!("{name}/model.tflite"),
        "inputs": about(&imported.inputs),
        "outputs": about(&imported.outputs),
        "cases": [{ "inputs": save("in", &inputs)?, "outputs": save("out", &outputs)? }],
    }))
}

/// Something like a picture: slopes, and a little noise.
fn image(of: &TensorInfo) -> Vec<u8> {
    let mut noise = 1u32;
    let slopes = (0u8..192).cycle().map(|slope| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [.., last] = noise.to_le_bytes();
        slope + last / 4
    });
    if of.file_kind == TensorKind::Int32 {
        let numbers = slopes.take(bytes(of) / 4).map(i32::from);
        return numbers.flat_map(i32::to_le_bytes).collect();
    }
    if of.file_kind == TensorKind::Float32 {
        let numbers = slopes.take(bytes(of) / 4).map(|byte| f32::from(byte) / 128.0 - 1.0);
        return numbers.flat_map(f32::to_le_bytes).collect();
    }
    slopes.take(bytes(of)).collect()
}

fn bytes(of: &TensorInfo) -> usize {
    of.byte_len().unwrap_or(0)
}

/// The name that the peers' scripts know.
fn kind(of: &TensorInfo) -> &'static str {
    match of.file_kind {
        TensorKind::Float32 => "FLOAT32",
        TensorKind::Uint8 => "UINT8",
        TensorKind::Int32 => "INT32",
        TensorKind::Int16 => "INT16",
        _ => "INT8",
    }
}
