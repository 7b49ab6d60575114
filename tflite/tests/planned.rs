//! Plans of networks whose layers go to the extension: what lies between its operations is fused,
//! aliased and computed in place as between NNAPI's.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

use std::sync::Arc;

use nnburst_executor::{
    CompileOptions, Control, ExtensionRegistry, Input, Output, Plan, TfliteExecutor,
};
use nnburst_hal::{View, ViewMut, tflite_extension};
use nnburst_tflite::testing::TfliteFile;
use nnburst_tflite::{ImportOptions, Imported, Route, TensorKind};

const I8: TensorKind = TensorKind::Int8;

/// An image that is resized, a RESHAPE, a LOGISTIC, another RESHAPE, and a MEAN.
fn network() -> Imported {
    let mut file = TfliteFile::new();
    let x = file.input("x", I8, &[1, 8, 8, 4]);
    let wide = file.tensor("wide", I8, &[1, 64, 64, 4]);
    let flat = file.tensor("flat", I8, &[64, 256]);
    let gate = file.tensor("gate", I8, &[64, 256]);
    let image = file.tensor("image", I8, &[1, 64, 64, 4]);
    let mean = file.tensor("mean", I8, &[1, 4]);
    for tensor in [x, wide, flat] {
        file.quantize(tensor, &[0.05], &[-3], 0);
    }
    for tensor in [gate, image, mean] {
        file.quantize(tensor, &[1.0 / 256.0], &[-128], 0);
    }
    let size = file.int_constant("size", &[2], &[64, 64]);
    file.operator_with("RESIZE_BILINEAR", &[x, size], &[wide], 15, Vec::new());
    let shape = file.int_constant("shape", &[2], &[64, 256]);
    file.operator("RESHAPE", &[wide, shape], &[flat]);
    file.operator("LOGISTIC", &[flat], &[gate]);
    let shape = file.int_constant("shape", &[4], &[1, 64, 64, 4]);
    file.operator("RESHAPE", &[gate, shape], &[image]);
    let axes = file.int_constant("axes", &[2], &[1, 2]);
    file.operator_with("MEAN", &[image, axes], &[mean], 27, Vec::new());
    file.outputs(&[mean]);
    let options = ImportOptions { extension: true, ..ImportOptions::default() };
    Imported::from_bytes_with(&file.build(), options).unwrap()
}

fn plan(imported: &Imported, apart: bool, arena_limit: usize) -> Option<Plan> {
    let mut extensions = ExtensionRegistry::default();
    extensions.register(tflite_extension::NAME, Arc::new(TfliteExecutor));
    let options = CompileOptions { apart, arena_limit, extensions, ..CompileOptions::default() };
    Plan::compile(&imported.model, &options).ok()
}

fn kernels(plan: &Plan) -> Vec<&'static str> {
    plan.labels().map(|(_, _, label)| label.kernel).collect()
}

fn run(plan: &Plan) -> Vec<u8> {
    let input: Vec<u8> = (0..=255).collect();
    let mut output = vec![0; 4];
    let outputs = [Output::new(ViewMut::of(&mut output))];
    plan.session().run(&[Input::new(View::of(&input))], &outputs, &Control::default()).unwrap();
    output
}

/// The least arena in KiB that a plan does with.
fn least_kib(imported: &Imported, apart: bool) -> usize {
    (1..).find(|kib| plan(imported, apart, kib << 10).is_some()).unwrap()
}

#[test]
fn steps_beside_those_of_the_extension_are_aliased_and_in_place() {
    let imported = network();
    let goes_there = |route: &&Route| matches!(route, Route::Extension(_));
    assert_eq!(imported.routes.iter().filter(goes_there).count(), 3);
    // No copy for a RESHAPE, and the LOGISTIC where its operand is: an image of 16 KiB is all that
    // there is at a time.
    let [joined, apart] = [false, true].map(|apart| plan(&imported, apart, 1 << 24).unwrap());
    assert_eq!(kernels(&joined).len(), 3, "{:?}", kernels(&joined));
    assert!(kernels(&joined).iter().filter(|kernel| kernel.starts_with("tflite_")).count() >= 1);
    assert!(least_kib(&imported, false) < 24);
    assert!(least_kib(&imported, true) >= 32);
    assert_eq!(run(&joined), run(&apart));
}
