//! Quantised operators whose scales NNAPI has nothing for: results are the interpreter's.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/file.rs"]
mod file;
#[path = "common/plan.rs"]
mod plan;

use nnburst_tflite::testing::{Fields, TfliteFile, Value};
use nnburst_tflite::{Route, TensorKind};

use TensorKind::{Bool, Float32, Int8, Int16, Uint8};

/// A scale and a zero point.
type Scale = (f32, i64);

/// Some bytes.
const BYTES: [i8; 12] = [-128, -100, -50, -1, 0, 1, 3, 7, 50, 99, 100, 127];

/// The only result of a file, whose operator goes to the extension.
fn run(file: &TfliteFile, inputs: &[Vec<u8>]) -> Vec<u8> {
    let imported = file::import(file).unwrap();
    assert!(imported.routes.iter().all(|route| matches!(route, Route::Extension(_))));
    file::outputs(&imported, inputs, 0).unwrap().remove(0)
}

fn bytes(values: &[i8]) -> Vec<u8> {
    values.iter().map(|value| value.cast_unsigned()).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// An operator on a row of signed bytes.
fn unary(name: &str, row: &[i8], from: Scale, to: Scale, options: (u8, Fields)) -> Vec<i8> {
    let mut file = TfliteFile::new();
    let shape = [1, i32::try_from(row.len()).unwrap()];
    let (x, y) = (file.input("x", Int8, &shape), file.tensor("y", Int8, &shape));
    file.quantize(x, &[from.0], &[from.1], 0);
    file.quantize(y, &[to.0], &[to.1], 0);
    file.operator_with(name, &[x], &[y], options.0, options.1);
    file.outputs(&[y]);
    run(&file, &[bytes(row)]).into_iter().map(u8::cast_signed).collect()
}

fn softmax(beta: f32) -> (u8, Fields) {
    (9, vec![(0, Value::F32(beta))])
}

#[test]
fn curves_of_bytes_are_tables_of_floats() {
    let none = || (0, Vec::new());
    let steps = [-128, -110, -109, -108, -107, -106, 127];
    let steep = unary("LOGISTIC", &steps, (4.213_629, -108), (1.0 / 256.0, -128), none());
    assert_eq!(steep, [-128, -128, -124, 0, 124, 127, 127]);
    let moved = unary("LOGISTIC", &steps, (0.5, -108), (1.0 / 256.0, -100), none());
    assert_eq!(moved, [-100, -31, -3, 28, 59, 87, 127]);
    let flat = unary("LOGISTIC", &BYTES, (1e-8, -8), (1.0 / 256.0, -128), none());
    assert_eq!(flat, [0; 12]);
    let tanh = unary("TANH", &BYTES, (0.05, -8), (0.007_820_313, 0), none());
    assert_eq!(tanh, [-128, -128, -124, 43, 49, 54, 64, 81, 127, 127, 127, 127]);
}

/// Where fixed point has no bits for a scale, the interpreter's kernels of floats are the measure.
#[test]
fn shares_of_tiny_scales_are_alike() {
    let shares = unary("SOFTMAX", &BYTES, (1e-8, -8), (1.0 / 256.0, -128), softmax(1.0));
    assert_eq!(shares, [-107; 12]);
    let first = unary("SOFTMAX", &[1, 2, 3, 4], (0.05, 0), (1.0 / 256.0, -128), softmax(-1.0));
    assert_eq!(first, [-59, -62, -66, -69]);
    let logs = unary("LOG_SOFTMAX", &BYTES, (1e-8, -8), (1.0 / 16.0, 127), (0, Vec::new()));
    assert_eq!(logs, [87; 12]);
    let steep = unary("LOG_SOFTMAX", &[126, 127], (23.322_691, 48), (1.0 / 16.0, 127), (0, vec![]));
    assert_eq!(steep, [-128, 127], "a step is more than fixed point holds");
}

#[test]
fn shares_of_floats_take_any_factor() {
    let mut file = TfliteFile::new();
    let (x, y) = (file.input("x", Float32, &[1, 4]), file.tensor("y", Float32, &[1, 4]));
    let (union, fields) = softmax(0.0);
    file.operator_with("SOFTMAX", &[x], &[y], union, fields);
    file.outputs(&[y]);
    assert_eq!(run(&file, &[floats(&[1.0, 2.0, 3.0, 4.0])]), floats(&[0.25; 4]));
}

/// What is stored moves, whatever it stands for.
#[test]
fn values_are_selected_as_they_are_stored() {
    for name in ["SELECT", "SELECT_V2"] {
        let mut file = TfliteFile::new();
        let condition = file.input("condition", Bool, &[1, 4]);
        let [a, b] = ["a", "b"].map(|name| file.input(name, Uint8, &[1, 4]));
        let y = file.tensor("y", Uint8, &[1, 4]);
        for (tensor, scale, zero_point) in [(a, 0.1, 3), (b, 0.2, 1), (y, 0.05, 2)] {
            file.quantize(tensor, &[scale], &[zero_point], 0);
        }
        file.operator(name, &[condition, a, b], &[y]);
        file.outputs(&[y]);
        let inputs = [vec![1, 0, 0, 1], vec![1, 2, 3, 4], vec![5, 6, 7, 8]];
        assert_eq!(run(&file, &inputs), [1, 6, 7, 4], "{name}");
    }
}

/// As of calibrations that saw one value alone. C++ leaves open what the interpreter computes.
#[test]
fn differences_of_a_tiny_scale_are_those_of_x86() {
    let mut file = TfliteFile::new();
    let [a, b] = ["a", "b"].map(|name| file.input(name, Int8, &[1, 8]));
    let y = file.tensor("y", Int8, &[1, 8]);
    for (tensor, scale) in [(a, 1.0), (b, 1.0), (y, 1e-7)] {
        file.quantize(tensor, &[scale], &[0], 0);
    }
    file.operator("SUB", &[a, b], &[y]);
    file.outputs(&[y]);
    let inputs = [[-128, -5, -1, 0, 1, 2, 50, 127], [-7, -5, -1, 0, 3, 2, 50, -128]];
    assert_eq!(run(&file, &inputs.map(|row| bytes(&row))), bytes(&[-1, 1, 1, 1, -1, 1, 1, 1]));
}

/// As converters write them where a slope or a weight is 0.
#[test]
fn constants_of_the_scale_0_are_zeros() {
    for (name, options, want) in [("MUL", 21, [0, 0, 0, 0]), ("ADD", 11, [-300, 5, 0, 700])] {
        let mut file = TfliteFile::new();
        let x = file.input("x", Int16, &[1, 4]);
        let zeros = file.constant("zeros", Int16, &[4], &[0; 8]);
        let y = file.tensor("y", Int16, &[1, 4]);
        for (tensor, scale) in [(x, 0.25), (zeros, 0.0), (y, 0.25)] {
            file.quantize(tensor, &[scale], &[0], 0);
        }
        file.operator_with(name, &[x, zeros], &[y], options, vec![]);
        file.outputs(&[y]);
        let imported = file::import(&file).unwrap();
        let words = |words: [i16; 4]| words.iter().flat_map(|it| it.to_le_bytes()).collect();
        let results = file::outputs(&imported, &[words([-300, 5, 0, 700])], 0).unwrap();
        assert_eq!(results, [words(want)], "{name}");
    }
}

/// As of networks that were trained for integers and stay ones of floats.
#[test]
fn weights_are_rounded_per_channel_at_import() {
    let mut file = TfliteFile::new();
    let x = file.input("x", Float32, &[1, 2]);
    let weights = [0.3, -0.2, 10.0, 0.26, -0.26, 7.0];
    let weights = file.float_constant("weights", &[3, 2], &weights);
    let [bytes, rounded] = [("bytes", Uint8), ("rounded", Float32)]
        .map(|(name, kind)| file.tensor(name, kind, &[3, 2]));
    let y = file.tensor("y", Float32, &[1, 3]);
    file.quantize(bytes, &[0.5, 0.25, 0.5], &[128, 0, 250], 0);
    file.operator("QUANTIZE", &[weights], &[bytes]);
    file.operator("DEQUANTIZE", &[bytes], &[rounded]);
    file.operator_with("FULLY_CONNECTED", &[x, rounded, -1], &[y], 8, vec![]);
    file.outputs(&[y]);
    let imported = file::import(&file).unwrap();
    assert_eq!(imported.model.main.operations.len(), 1);
    let results = file::outputs(&imported, &[floats(&[1.0, 100.0])], 0).unwrap();
    // [0.5, -0.0], [10.0, 0.25], [-0.5, 2.5]
    assert_eq!(results, [floats(&[0.5, 35.0, 249.5])]);
}

#[test]
fn integers_of_four_bits_are_cut() {
    let mut file = TfliteFile::new();
    let x = file.input("x", Float32, &[1, 5]);
    let nibbles = file.tensor("nibbles", TensorKind::Int4, &[1, 5]);
    let y = file.tensor("y", Float32, &[1, 5]);
    file.quantize(nibbles, &[0.5], &[0], 0);
    file.operator("QUANTIZE", &[x], &[nibbles]);
    file.operator("DEQUANTIZE", &[nibbles], &[y]);
    file.outputs(&[y]);
    let imported = file::import(&file).unwrap();
    let results = file::outputs(&imported, &[floats(&[-100.0, -3.9, 0.2, 1.3, 60.0])], 0);
    assert_eq!(results.unwrap(), [floats(&[-4.0, -4.0, 0.0, 1.5, 3.5])]);
}

#[test]
fn images_of_bytes_are_resized_as_they_are_stored() {
    let mut file = TfliteFile::new();
    let x = file.input("x", Uint8, &[1, 1, 2, 1]);
    let size = file.int_constant("size", &[2], &[1, 4]);
    let y = file.tensor("y", Uint8, &[1, 1, 4, 1]);
    file.quantize(x, &[0.1], &[3], 0);
    file.quantize(y, &[0.2], &[9], 0);
    file.operator_with("RESIZE_BILINEAR", &[x, size], &[y], 15, Vec::new());
    file.outputs(&[y]);
    assert_eq!(run(&file, &[vec![10, 91]]), [10, 51, 91, 91]);
}

/// Tables of ai-edge-quantizer have a scale for each row.
#[test]
fn rows_are_looked_up_by_their_own_scales() {
    let mut file = TfliteFile::new();
    let rows = file.input("rows", TensorKind::Int32, &[3]);
    let table = file.constant("table", Int8, &[2, 2], &bytes(&[1, -2, 3, 4]));
    file.quantize(table, &[0.5, 2.0], &[0, 0], 0);
    let y = file.tensor("y", Float32, &[3, 2]);
    file.operator("EMBEDDING_LOOKUP", &[rows, table], &[y]);
    file.outputs(&[y]);
    let rows = [1i32, 0, 1].map(i32::to_le_bytes).concat();
    assert_eq!(run(&file, &[rows]), floats(&[6.0, 8.0, 0.5, -1.0, 6.0, 8.0]));
}

/// With a zero point, in steps of 1 from 0 to 255, and a float of each product.
#[test]
fn transposed_convolutions_quantise_on_the_fly() {
    for bias in [None, Some(1.0)] {
        let mut file = TfliteFile::new();
        let shape = file.int_constant("shape", &[4], &[1, 1, 9, 1]);
        let filter = file.constant("filter", Int8, &[1, 1, 3, 2], &bytes(&[1, 2, 3, -4, 5, 6]));
        file.quantize(filter, &[0.5], &[0], 0);
        let x = file.input("x", Float32, &[1, 1, 4, 2]);
        let mut inputs = vec![shape, filter, x];
        inputs.extend(bias.map(|bias| file.float_constant("bias", &[1], &[bias])));
        let y = file.tensor("y", Float32, &[1, 1, 9, 1]);
        let fields = vec![(0, Value::I8(1)), (1, Value::I32(2)), (2, Value::I32(2))];
        file.operator_with("TRANSPOSE_CONV", &inputs, &[y], 49, fields);
        file.outputs(&[y]);
        let image = floats(&[0.0, 255.0, 10.0, 3.4, 20.0, 0.4, 100.6, 7.0]);
        let want = [255.0, -510.0, 773.0, 9.0, 44.0, 30.0, 107.5, 137.5, 273.5f32];
        let want = want.map(|sum| sum + bias.unwrap_or(0.0));
        assert_eq!(run(&file, &[image]), floats(&want), "{bias:?}");
    }
}
