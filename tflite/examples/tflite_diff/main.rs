//! Writes files of one operator each, of random types, shapes and attributes, with what our
//! executor makes of random inputs, for a comparison with the interpreter: `cargo xtask
//! tflite-diff`.
//!
//! ```text
//!   cargo run --release -p nnburst-tflite --example tflite_diff -- DIR CASES SEED [OPERATOR ..]
//! ```
//!
//! `DIR` then holds `N.tflite`, `N.inI` and `N.outI` for each case, and `manifest.json` with what
//! they are: operator, type, and why a case was refused.

mod net;
mod recipes;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use net::Net;
use nnburst_executor::{
    CompileOptions, Control, ExtensionRegistry, Input, Output, Plan, TfliteExecutor,
};
use nnburst_hal::{View, ViewMut, tflite_extension};
use nnburst_tflite::{ImportOptions, Imported, Route, TensorInfo};
use recipes::{RECIPES, Recipe};
use serde_json::{Value, json};

/// Room for an output whose size is known when it has run.
const OPEN_BYTES: usize = 1 << 16;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, cases, seed, only @ ..] = args.as_slice() else {
        return Err("usage: tflite_diff DIR CASES SEED [OPERATOR ..]".into());
    };
    let wanted = |it: &&Recipe| only.is_empty() || only.iter().any(|name| name == it.name);
    let recipes: Vec<&Recipe> = RECIPES.iter().filter(wanted).collect();
    if recipes.is_empty() {
        return Err(format!("there are no recipes for {only:?}").into());
    }
    let (folder, cases, seed): (_, u64, u64) = (Path::new(folder), cases.parse()?, seed.parse()?);
    fs::create_dir_all(folder)?;
    let mut entries = Vec::new();
    for case in 0..cases {
        let recipe = recipes[usize::try_from(case)? % recipes.len()];
        let mut net = Net::new(seed.wrapping_mul(1_000_003).wrapping_add(case));
        (recipe.make)(&mut net, recipe.name);
        let file = net.build();
        fs::write(folder.join(format!("{case}.tflite")), &file)?;
        for (at, bytes) in net.inputs.iter().enumerate() {
            fs::write(folder.join(format!("{case}.in{at}")), bytes)?;
        }
        let mut entry = json!({
            "case": case, "operator": recipe.name, "kind": net.label, "inputs": net.inputs.len(),
        });
        match run(&file, &net.inputs) {
            Ok((route, outputs)) => {
                for (at, bytes) in outputs.iter().enumerate() {
                    fs::write(folder.join(format!("{case}.out{at}")), bytes)?;
                }
                entry["route"] = Value::from(route);
                entry["outputs"] = Value::from(outputs.len());
            }
            Err(why) => entry["refused"] = Value::from(why),
        }
        entries.push(entry);
    }
    fs::write(folder.join("manifest.json"), Value::from(entries).to_string())?;
    Ok(())
}

/// The way that the operator went, and the outputs in the file's own types.
fn run(file: &[u8], inputs: &[Vec<u8>]) -> Result<(&'static str, Vec<Vec<u8>>), String> {
    let options = ImportOptions { extension: true, file_types: true, ..ImportOptions::default() };
    let imported = Imported::from_bytes_with(file, options).map_err(|error| error.to_string())?;
    let mut extensions = ExtensionRegistry::default();
    extensions.register(tflite_extension::NAME, Arc::new(TfliteExecutor));
    let options = CompileOptions { extensions, ..CompileOptions::default() };
    let plan = Plan::compile(&imported.model, &options).map_err(|error| error.to_string())?;
    let sizes = imported.outputs.iter().map(|info| info.byte_len().unwrap_or(OPEN_BYTES));
    // States are as the interpreter's are at first, and what becomes of them is not looked at.
    let states = imported.states.iter().map(|state| &state.initial);
    let sizes = sizes.chain(states.clone().map(Vec::len));
    let mut outputs: Vec<Vec<u8>> = sizes.map(|size| vec![0; size]).collect();
    let views: Vec<_> =
        inputs.iter().chain(states).map(|bytes| Input::new(View::of(bytes))).collect();
    let results: Vec<_> = outputs.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
    let mut session = plan.session();
    let ran = session.run(&views, &results, &Control::default());
    ran.map_err(|error| error.to_string())?;
    drop(results);
    outputs.truncate(imported.outputs.len());
    for ((output, info), shape) in
        outputs.iter_mut().zip(&imported.outputs).zip(session.output_shapes())
    {
        let elements: usize = shape.dimensions.iter().map(|&extent| extent as usize).product();
        let known = TensorInfo { dims: vec![1], ..info.clone() };
        output.truncate(elements * known.byte_len().unwrap_or(0));
    }
    let extends = imported.routes.iter().any(|route| matches!(route, Route::Extension(_)));
    Ok((if extends { "extension" } else { "NNAPI" }, outputs))
}
