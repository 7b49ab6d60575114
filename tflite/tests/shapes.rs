//! Inputs with other shapes than the file's, types of inputs and outputs, and packed labels.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/plan.rs"]
mod plan;

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use nnburst_executor::{Control, Input, Output};
use nnburst_hal::tflite_extension::ExtensionType;
use nnburst_hal::{OperandType, OperationType, View, ViewMut};
use nnburst_tflite::testing::{Fields, TfliteFile, Value, write};
use nnburst_tflite::{ImportOptions, Imported, ModelFile, TensorInfo, TensorKind};

const F32: TensorKind = TensorKind::Float32;

/// The outputs for inputs, each with its size in bytes.
fn run(imported: &Imported, inputs: &[&[u8]], sizes: &[usize]) -> Vec<Vec<u8>> {
    let given: Vec<_> = inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
    let mut outputs: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0; size]).collect();
    let taken: Vec<_> = outputs.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
    plan::compile(imported).unwrap().session().run(&given, &taken, &Control::default()).unwrap();
    drop(taken);
    outputs
}

fn same_padding(strides: i32, activation: usize) -> Fields {
    let mut fields = vec![(0, Value::I8(0)), (1, Value::I32(strides)), (2, Value::I32(strides))];
    if activation == 0 {
        fields.extend([(3, Value::I32(2)), (4, Value::I32(2))]);
    }
    fields
}

/// A network whose tensors follow from the size of its image: convolution, pooling, padding,
/// joining, a mean and a dense layer, with the arithmetic on its shape that converters leave.
fn network() -> TfliteFile {
    let mut file = TfliteFile::new();
    let image = file.input("image", F32, &[1, 8, 8, 2]);
    let filter = file.float_constant("filter", &[3, 3, 3, 2], &[0.125; 54]);
    let bias = file.float_constant("bias", &[3], &[0.5; 3]);
    let conv = file.tensor("conv", F32, &[1, 4, 4, 3]);
    file.operator_with("CONV_2D", &[image, filter, bias], &[conv], 1, same_padding(2, 3));
    let pooled = file.tensor("pooled", F32, &[1, 4, 4, 3]);
    file.operator_with("MAX_POOL_2D", &[conv], &[pooled], 5, same_padding(1, 0));
    let joined = file.tensor("joined", F32, &[1, 4, 4, 6]);
    let axis = vec![(0, Value::I32(3))];
    file.operator_with("CONCATENATION", &[conv, pooled], &[joined], 10, axis);
    let borders = file.int_constant("borders", &[4, 2], &[0, 0, 1, 1, 0, 1, 0, 0]);
    let padded = file.tensor("padded", F32, &[1, 6, 5, 6]);
    file.operator("PAD", &[joined, borders], &[padded]);
    // [batch, height * width, 6], the product written as -1.
    let shape = file.tensor("shape", TensorKind::Int32, &[4]);
    file.operator("SHAPE", &[padded], &[shape]);
    let [zero, one] = [0, 1].map(|at| file.int_constant("at", &[1], &[at]));
    let batch = file.tensor("batch", TensorKind::Int32, &[1]);
    let fields = vec![(4, Value::I32(0))];
    file.operator_with("STRIDED_SLICE", &[shape, zero, one, one], &[batch], 32, fields);
    let rest = file.int_constant("rest", &[2], &[-1, 6]);
    let wanted = file.tensor("wanted", TensorKind::Int32, &[3]);
    file.operator_with("CONCATENATION", &[batch, rest], &[wanted], 10, vec![(0, Value::I32(0))]);
    let rows = file.tensor("rows", F32, &[1, 30, 6]);
    file.operator("RESHAPE", &[padded, wanted], &[rows]);
    let axes = file.int_constant("axes", &[1], &[1]);
    let mean = file.tensor("mean", F32, &[1, 6]);
    file.operator_with("MEAN", &[rows, axes], &[mean], 27, Vec::new());
    file.outputs(&[mean, rows]);
    file
}

#[test]
fn what_follows_from_an_input_has_its_shape() {
    let mut file = ModelFile::from_bytes(network().build());
    file.resize("image", &[2, 12, 6, 2]).unwrap();
    for extension in [false, true] {
        let options = ImportOptions { extension, ..ImportOptions::default() };
        let imported = file.import(options).unwrap();
        assert_eq!(imported.inputs[0].dims, [2, 12, 6, 2]);
        assert_eq!(imported.outputs[0].dims, [2, 6]);
        assert_eq!(imported.outputs[1].dims, [2, 8 * 4, 6]);
        let image: Vec<u8> = [1f32; 2 * 12 * 6 * 2].iter().flat_map(|x| x.to_le_bytes()).collect();
        let outputs = run(&imported, &[&image], &[2 * 6 * 4, 2 * 32 * 6 * 4]);
        // The middle of the image: 18 products of an eighth, and the bias.
        let rows: Vec<f32> =
            outputs[1].as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        assert_eq!(rows[(4 + 1) * 6], 18.0 / 8.0 + 0.5);
        assert_eq!(rows[0], 0.0, "the border");
    }
}

/// What converters leave around a dilated convolution of an image of any size.
#[test]
fn borders_that_follow_from_a_shape_are_computed_at_import() {
    const I32: TensorKind = TensorKind::Int32;
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[2, 5]);
    let shape = file.tensor("shape", I32, &[2]);
    file.operator("SHAPE", &[x], &[shape]);
    let zero = file.int_constant("zero", &[], &[0]);
    let less = file.tensor("less", I32, &[2]);
    file.operator_with("SUB", &[zero, shape], &[less], 28, Vec::new());
    let block = file.int_constant("block", &[2], &[4, 4]);
    let missing = file.tensor("missing", I32, &[2]);
    file.operator("FLOOR_MOD", &[less, block], &[missing]);
    let zeros = file.int_constant("zeros", &[2], &[0, 0]);
    let pairs = file.tensor("pairs", I32, &[2, 2]);
    file.operator_with("PACK", &[zeros, missing], &[pairs], 59, Vec::new());
    let mut slice = |from, bounds: [[i32; 2]; 3], shape: &[i32], shrunk| {
        let mut arguments = vec![from];
        arguments.extend(bounds.iter().map(|both| file.int_constant("bounds", &[2], both)));
        let part = file.tensor("part", I32, shape);
        let fields = vec![(4, Value::I32(shrunk))];
        file.operator_with("STRIDED_SLICE", &arguments, &[part], 32, fields);
        part
    };
    // [[0, 0], [2, 3]], the last row first; then the last column of that.
    let borders = slice(pairs, [[-1, 0], [-3, 2], [-1, 1]], &[2, 2], 0);
    let column = slice(borders, [[0, -1], [2, 0], [1, 1]], &[2], 2);
    let more = file.tensor("more", I32, &[2, 2]);
    file.operator_with("PACK", &[column, zeros], &[more], 59, Vec::new());
    let padded = file.tensor("padded", F32, &[7, 5]);
    file.operator("PAD", &[x, borders], &[padded]);
    let y = file.tensor("y", F32, &[10, 5]);
    file.operator("PAD", &[padded, more], &[y]);
    file.outputs(&[y]);
    let file = ModelFile::from_bytes(file.build());
    let x: Vec<u8> = (0..10u8).flat_map(|i| f32::from(i + 1).to_le_bytes()).collect();
    let mut want = vec![vec![0; 200]];
    want[0][5 * 5 * 4..7 * 5 * 4].copy_from_slice(&x);
    for extension in [false, true] {
        let imported = file.import(ImportOptions { extension, ..ImportOptions::default() });
        let imported = imported.unwrap();
        let kinds: Vec<_> = imported.model.main.operations.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [OperationType::Pad; 2]);
        assert_eq!(run(&imported, &[&x], &[200]), want);
    }
}

#[test]
fn an_activation_of_constants_is_computed_too() {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Int32, &[2]);
    let [a, b] = [[3, -9], [4, 4]].map(|values| file.int_constant("constant", &[2], &values));
    let [sum, y] = ["sum", "y"].map(|name| file.tensor(name, TensorKind::Int32, &[2]));
    file.operator_with("ADD", &[a, b], &[sum], 11, vec![(0, Value::I8(1))]);
    file.operator_with("ADD", &[x, sum], &[y], 11, Vec::new());
    file.outputs(&[y]);
    let options = ImportOptions { extension: true, ..ImportOptions::default() };
    let imported = ModelFile::from_bytes(file.build()).import(options).unwrap();
    let bytes = |values: [i32; 2]| values.map(i32::to_le_bytes).concat();
    assert_eq!(run(&imported, &[&bytes([10, 20])], &[8]), [bytes([17, 20])]);
}

#[test]
fn dilated_convolutions_take_images_of_other_sizes() {
    let mut file = TfliteFile::new();
    let image = file.input("image", F32, &[1, 3, 3, 1]);
    let block = file.int_constant("block", &[2], &[2, 2]);
    let borders = file.int_constant("borders", &[2, 2], &[2, 3, 2, 3]);
    // What converters say of sizes that they don't know.
    let [batches, conv] = ["batches", "conv"].map(|name| {
        let tensor = file.tensor(name, F32, &[1, 1, 1, 1]);
        file.tensor_fields(tensor, vec![(7, Value::ints(&[-1, -1, -1, 1]))]);
        tensor
    });
    file.operator("SPACE_TO_BATCH_ND", &[image, block, borders], &[batches]);
    let mut middle = [0.0; 9];
    middle[4] = 1.0;
    let filter = file.float_constant("filter", &[1, 3, 3, 1], &middle);
    let bias = file.float_constant("bias", &[1], &[0.0]);
    let valid = vec![(0, Value::I8(1)), (1, Value::I32(1)), (2, Value::I32(1))];
    file.operator_with("CONV_2D", &[batches, filter, bias], &[conv], 1, valid);
    let crops = file.int_constant("crops", &[2, 2], &[0, 1, 0, 1]);
    let y = file.tensor("y", F32, &[1, 3, 3, 1]);
    file.operator("BATCH_TO_SPACE_ND", &[conv, block, crops], &[y]);
    file.outputs(&[y]);
    let mut file = ModelFile::from_bytes(file.build());
    for dims in [[1, 3, 3, 1], [1, 5, 7, 1], [3, 1, 1, 1]] {
        file.resize("image", &dims).unwrap();
        let count = dims.iter().product::<u32>();
        for extension in [false, true] {
            let options = ImportOptions { extension, ..ImportOptions::default() };
            let imported = file.import(options).unwrap();
            assert_eq!(imported.outputs[0].dims, dims);
            let kinds: Vec<_> = imported.model.main.operations.iter().map(|it| it.kind).collect();
            assert_eq!(kinds, [OperationType::Conv2d]);
            let image: Vec<u8> = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
            assert_eq!(run(&imported, &[&image], &[image.len()]), [image], "{dims:?}");
        }
    }
}

/// Tensors joined along an axis of their own: the result's rank is one more than theirs.
#[test]
fn what_is_packed_of_other_shapes_keeps_its_dimensions() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 2]);
    let turned = file.tensor("turned", F32, &[1, 2]);
    file.operator("NEG", &[x], &[turned]);
    let y = file.tensor("y", F32, &[1, 2, 2]);
    file.operator_with("PACK", &[x, turned], &[y], 59, vec![(1, Value::I32(2))]);
    file.outputs(&[y]);
    let mut file = ModelFile::from_bytes(file.build());
    file.resize("x", &[2, 2]).unwrap();
    for extension in [false, true] {
        let options = ImportOptions { extension, ..ImportOptions::default() };
        let imported = file.import(options).unwrap();
        assert_eq!(imported.outputs[0].dims, [2, 2, 2]);
        let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let [x, y]: [Vec<u8>; 2] =
            [&[1.0, 2.0, 3.0, 4.0][..], &[1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0]].map(bytes);
        assert_eq!(run(&imported, &[&x], &[32]), [y]);
    }
}

/// A part of a shape becomes a number, by a constant without elements, and part of a shape again.
#[test]
fn numbers_taken_from_a_shape_are_scalars_for_any_input() {
    const I32: TensorKind = TensorKind::Int32;
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 6]);
    let shape = file.tensor("shape", I32, &[2]);
    file.operator("SHAPE", &[x], &[shape]);
    let sizes = file.int_constant("sizes", &[2], &[1, 1]);
    let axis = file.int_constant("axis", &[], &[0]);
    let [rows, columns] = ["rows", "columns"].map(|name| file.tensor(name, I32, &[1]));
    file.operator("SPLIT_V", &[shape, sizes, axis], &[rows, columns]);
    let none = file.int_constant("none", &[0], &[]);
    let count = file.tensor("count", I32, &[]);
    file.operator("RESHAPE", &[columns, none], &[count]);
    let two = file.int_constant("two", &[], &[2]);
    let half = file.tensor("half", I32, &[]);
    file.operator("FLOOR_DIV", &[count, two], &[half]);
    let ends = file.tensor("ends", I32, &[2]);
    file.operator_with("PACK", &[half, two], &[ends], 59, vec![(0, Value::I32(2))]);
    let wanted = file.tensor("wanted", I32, &[3]);
    file.operator_with("CONCATENATION", &[rows, ends], &[wanted], 10, Vec::new());
    let y = file.tensor("y", F32, &[1, 3, 2]);
    file.operator("RESHAPE", &[x, wanted], &[y]);
    file.outputs(&[y]);
    let mut file = ModelFile::from_bytes(file.build());
    for dims in [[1, 6], [3, 8]] {
        file.resize("x", &dims).unwrap();
        let options = ImportOptions { extension: true, ..ImportOptions::default() };
        let imported = file.import(options).unwrap();
        assert_eq!(imported.outputs[0].dims, [dims[0], dims[1] / 2, 2]);
    }
}

/// A shape that follows from the values of an input says nothing at import.
#[test]
fn shapes_known_at_run_time_alone_stay_open_behind_a_resize() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 4]);
    let wanted = file.input("wanted", TensorKind::Int32, &[2]);
    let rows = file.tensor("rows", F32, &[1, 1]);
    file.tensor_fields(rows, vec![(7, Value::ints(&[-1, -1]))]);
    file.operator_with("RESHAPE", &[x, wanted], &[rows], 17, Vec::new());
    let weights = file.float_constant("w", &[1, 2], &[1.0, 10.0]);
    let y = file.tensor("y", F32, &[1, 1]);
    file.tensor_fields(y, vec![(7, Value::ints(&[-1, 1]))]);
    file.operator_with("FULLY_CONNECTED", &[rows, weights], &[y], 8, Vec::new());
    file.outputs(&[y]);
    let mut file = ModelFile::from_bytes(file.build());
    file.resize("x", &[2, 4]).unwrap();
    let options = ImportOptions { extension: true, ..ImportOptions::default() };
    let imported = file.import(options).unwrap();
    let x: Vec<u8> = (0..8u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    let wanted = [4i32, 2].map(i32::to_le_bytes).concat();
    let want: Vec<u8> = [10f32, 32.0, 54.0, 76.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(run(&imported, &[&x, &wanted], &[16]), [want]);
}

#[test]
fn only_inputs_of_the_file_have_other_shapes() {
    let mut file = ModelFile::from_bytes(network().build());
    let why = file.resize("picture", &[1, 2, 2, 2]).unwrap_err().to_string();
    assert_eq!(why, "no input is called \"picture\"; there are image");
    let why = file.resize("image", &[1, 2]).unwrap_err().to_string();
    assert_eq!(why, "input \"image\" has 4 dimensions, not 2");
}

/// As TFLite's interpreter computes with them.
#[test]
fn inputs_without_elements_are_none_of_the_model() {
    let mut file = TfliteFile::new();
    let [rows, more] = ["rows", "more"].map(|name| file.input(name, F32, &[2, 3]));
    let weights = file.float_constant("weights", &[4, 3], &[1.0; 12]);
    let dense = file.tensor("dense", F32, &[2, 4]);
    file.operator("FULLY_CONNECTED", &[rows, weights], &[dense]);
    let both = file.tensor("both", F32, &[4, 3]);
    file.operator_with("CONCATENATION", &[rows, more], &[both], 10, vec![(0, Value::I32(0))]);
    let axis = file.int_constant("axis", &[1], &[0]);
    let sum = file.tensor("sum", F32, &[3]);
    file.operator_with("SUM", &[dense, axis], &[sum], 27, Vec::new());
    file.outputs(&[dense, both, sum]);
    let mut file = ModelFile::from_bytes(file.build());
    file.resize("rows", &[0, 3]).unwrap();
    let options = ImportOptions { extension: true, ..ImportOptions::default() };
    let imported = file.import(options).unwrap();
    let names = |infos: &[TensorInfo]| {
        infos.iter().map(|info| (info.name.clone(), info.dims.clone())).collect::<Vec<_>>()
    };
    assert_eq!(names(&imported.inputs), [("more".to_owned(), vec![2, 3])]);
    assert_eq!(names(&imported.empty_inputs), [("rows".to_owned(), vec![0, 3])]);
    let floats = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let more = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let outputs = run(&imported, &[&more], &[0, 24, 16]);
    assert_eq!(outputs, [Vec::new(), more, floats(&[0.0; 4])]);
}

#[test]
fn shapes_that_operators_cannot_take_are_refused_with_the_reason() {
    let mut file = TfliteFile::new();
    let image = file.input("image", F32, &[1, 8, 8, 2]);
    let filter = file.float_constant("filter", &[3, 3, 3, 2], &[0.125; 54]);
    let bias = file.float_constant("bias", &[3], &[0.5; 3]);
    let conv = file.tensor("conv", F32, &[1, 4, 4, 3]);
    file.operator_with("CONV_2D", &[image, filter, bias], &[conv], 1, same_padding(2, 3));
    let shape = file.int_constant("shape", &[2], &[1, 48]);
    let row = file.tensor("row", F32, &[1, 48]);
    file.operator("RESHAPE", &[conv, shape], &[row]);
    let weights = file.float_constant("weights", &[2, 48], &[1.0; 96]);
    let dense = file.tensor("dense", F32, &[1, 2]);
    file.operator("FULLY_CONNECTED", &[row, weights], &[dense]);
    file.outputs(&[dense]);
    let mut file = ModelFile::from_bytes(file.build());
    for (dims, operator, why) in [
        (&[1, 8, 8, 5][..], "operator 0 CONV_2D", "a filter of shape [3, 3, 3, 2] on an input"),
        (&[1, 16], "operator 0 CONV_2D", "on an input of shape [1, 16]"),
        (&[2, 8, 8, 2], "operator 1 RESHAPE", "shape [2, 4, 4, 3] can't take the shape [1, 48]"),
    ] {
        file.resize_tensor(0, dims).unwrap();
        for extension in [false, true] {
            let options = ImportOptions { extension, ..ImportOptions::default() };
            let refused = file.import(options).unwrap_err().to_string();
            assert!(refused.contains(operator) && refused.contains(why), "{dims:?}: {refused}");
        }
    }
    file.resize_tensor(0, &[1, 7, 8, 2]).unwrap();
    assert!(file.import(ImportOptions::default()).is_ok(), "as many windows");
}

#[test]
fn inputs_are_resized_by_their_tensors_where_names_are_the_same() {
    let mut file = TfliteFile::new();
    let inputs = [0, 1].map(|_| file.input("x", F32, &[2]));
    let outputs = inputs.map(|input| {
        let output = file.tensor("y", F32, &[2]);
        file.operator("NEG", &[input], &[output]);
        output
    });
    file.outputs(&outputs);
    let mut file = ModelFile::from_bytes(file.build());
    let [first, second] = file.contents().unwrap().inputs[..] else { panic!("two inputs") };
    file.resize_tensor(second, &[2, 3]).unwrap();
    let shapes = |file: &ModelFile| {
        let imported = file.import(ImportOptions::default()).unwrap();
        let shapes =
            |infos: Vec<TensorInfo>| infos.into_iter().map(|info| info.dims).collect::<Vec<_>>();
        [imported.inputs, imported.outputs].map(shapes)
    };
    let expected: Vec<Vec<u32>> = vec![vec![2], vec![2, 3]];
    assert_eq!(shapes(&file), [expected.clone(), expected]);
    file.resize_tensor(first, &[5]).unwrap();
    file.resize_tensor(second, &[2]).unwrap();
    let expected: Vec<Vec<u32>> = vec![vec![5], vec![2]];
    assert_eq!(shapes(&file), [expected.clone(), expected]);
    let output = file.contents().unwrap().outputs[0];
    let why = file.resize_tensor(output, &[1]).unwrap_err().to_string();
    assert_eq!(why, format!("tensor {output} is no input; there are [{first}, {second}]"));
}

#[test]
fn integers_of_64_bits_keep_their_type() {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Int64, &[3]);
    let y = file.tensor("y", TensorKind::Int64, &[3]);
    file.operator_with("MUL", &[x, x], &[y], 21, Vec::new());
    file.outputs(&[y]);
    let file = ModelFile::from_bytes(file.build());
    let options = ImportOptions { extension: true, file_types: true, ..ImportOptions::default() };
    let imported = file.import(options).unwrap();
    let kind = |info: &TensorInfo| ExtensionType::of_operand(info.kind);
    assert_eq!(kind(&imported.inputs[0]), Some(ExtensionType::TensorInt64));
    assert_eq!(kind(&imported.outputs[0]), Some(ExtensionType::TensorInt64));
    assert_eq!(imported.outputs[0].byte_len(), Some(24));
    let values = [3_000_000_000i64, -5, 1 << 20];
    let bytes = |values: [i64; 3]| values.map(i64::to_le_bytes).concat();
    let outputs = run(&imported, &[&bytes(values)], &[24]);
    assert_eq!(outputs[0], bytes(values.map(|value| value * value)));
    let narrow = ImportOptions { file_types: false, ..options };
    assert_eq!(file.import(narrow).unwrap().outputs[0].kind, OperandType::TensorInt32);
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A ZIP archive of files that are stored as they are, or deflated, behind `before`.
fn zip(before: &[u8], files: &[(&str, &[u8])], deflated: bool) -> Vec<u8> {
    let (mut out, mut directory) = (before.to_vec(), Vec::new());
    let half = |value: usize| u16::try_from(value).unwrap().to_le_bytes();
    let word = |value: usize| u32::try_from(value).unwrap().to_le_bytes();
    for (name, bytes) in files {
        let offset = out.len();
        let packed = if deflated { deflate(bytes) } else { bytes.to_vec() };
        let sizes = [[0; 4], word(packed.len()), word(bytes.len())].concat();
        let method = half(if deflated { 8 } else { 0 });
        let rest = [half(name.len()), half(0)].concat();
        out.extend([b"PK\x03\x04".as_slice(), &[20, 0, 0, 0], &method, &[0; 4]].concat());
        out.extend([sizes.as_slice(), &rest, name.as_bytes(), &packed].concat());
        let head = [b"PK\x01\x02".as_slice(), &[20, 0, 20, 0, 0, 0], &method, &[0; 4]];
        directory.extend(head.concat());
        directory.extend([sizes.as_slice(), &rest, &[0; 10], &word(offset)].concat());
        directory.extend(name.as_bytes());
    }
    let start = out.len();
    out.extend(&directory);
    let count = half(files.len());
    out.extend([b"PK\x05\x06".as_slice(), &[0; 4], &count, &count].concat());
    out.extend([word(directory.len()), word(start)].concat());
    out.extend([0, 0]);
    out
}

#[test]
fn labels_are_those_that_the_file_packs() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 3]);
    let y = file.tensor("y", F32, &[1, 3]);
    file.operator("ABS", &[x], &[y]);
    file.outputs(&[y]);
    let plain = file.build();
    assert_eq!(ModelFile::from_bytes(plain).labels(0).unwrap(), None);
    let packed = |name: &str, kind: i8| vec![(0, Value::text(name)), (2, Value::I8(kind))];
    let files = [packed("other.txt", 1), packed("labels.txt", 2)];
    let tensor = vec![(6, Value::Tables(vec![files[0].clone(), files[1].clone()]))];
    let graph = vec![(3, Value::Tables(vec![tensor]))];
    let metadata = write(&vec![(3, Value::Tables(vec![graph]))], *b"M001");
    let buffer = file.buffer(&metadata);
    let entry = vec![(0, Value::text("TFLITE_METADATA")), (1, Value::U32(buffer))];
    file.model_fields(vec![(6, Value::Tables(vec![entry]))]);
    let model = file.build();
    let files = [("other.txt", b"no".as_slice()), ("labels.txt", b"cat\n dog \r\nmouse\n")];
    for deflated in [false, true] {
        let bytes = zip(&model, &files, deflated);
        let file = ModelFile::from_bytes(bytes.clone());
        assert_eq!(file.labels(0).unwrap().unwrap(), ["cat", "dog", "mouse"]);
        assert_eq!(file.labels(1).unwrap(), None);
        assert!(file.import(ImportOptions::default()).is_ok());
        // An archive that is cut short or damaged has no labels, and harms nothing.
        for at in model.len()..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xFF;
            for bytes in [bytes[..at].to_vec(), damaged] {
                drop(ModelFile::from_bytes(bytes).labels(0));
            }
        }
    }
    // A small archive that becomes large has none either.
    let large = vec![b'x'; 5 << 20];
    let bytes = zip(&model, &[("labels.txt", &large)], true);
    assert_eq!(ModelFile::from_bytes(bytes).labels(0).unwrap(), None);
}
