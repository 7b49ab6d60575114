//! Loops whose variables change their shapes, branches of different shapes, and tensors without
//! elements. What is expected here is what the interpreter gives.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/plan.rs"]
mod plan;

use nnburst_executor::{Control, Input, Output};
use nnburst_hal::{View, ViewMut};
use nnburst_tflite::testing::{TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, TensorKind};

const F32: TensorKind = TensorKind::Float32;
const I32: TensorKind = TensorKind::Int32;

/// The shapes and values of a file's outputs, with the extension or without it.
fn run(file: &TfliteFile, inputs: &[&[u8]], extension: bool) -> Vec<(Vec<u32>, Vec<f32>)> {
    let options = ImportOptions { extension, ..ImportOptions::default() };
    let imported = Imported::from_bytes_with(&file.build(), options).unwrap();
    let plan = plan::compile(&imported).unwrap();
    let mut session = plan.session();
    let mut outputs = vec![vec![0u8; 256]; imported.outputs.len()];
    let given: Vec<_> = inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
    let taken: Vec<_> = outputs.iter_mut().map(|it| Output::new(ViewMut::of(it))).collect();
    session.run(&given, &taken, &Control::default()).unwrap();
    drop(taken);
    let shapes = session.output_shapes().iter().map(|shape| shape.dimensions.clone());
    let floats = |bytes: &[u8], shape: &[u32]| {
        let count: u32 = shape.iter().product();
        let (floats, _) = bytes.as_chunks();
        let floats = floats.iter().map(|&bytes| f32::from_le_bytes(bytes));
        floats.take(count as usize).collect()
    };
    outputs
        .iter()
        .zip(shapes)
        .map(|(bytes, shape)| (shape.clone(), floats(bytes, &shape)))
        .collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What a loop makes of the variable `x`: adds operators, and gives the tensor of the result.
type Body = fn(&mut TfliteFile, i32) -> i32;

/// A loop of so many iterations over a counter and a matrix of two columns, which begins as a
/// constant of these rows. As converters do, the file has the shapes of one row, and says that the
/// number of rows may change.
fn loop_over(first: &[[f32; 2]], iterations: i32, body: Body) -> TfliteFile {
    let rows = i32::try_from(first.len()).unwrap();
    let mut file = TfliteFile::new();
    let count = file.int_constant("first", &[], &[0]);
    let x = match rows {
        0 => file.tensor("none", F32, &[0, 2]),
        _ => file.float_constant("x", &[rows, 2], first.as_flattened()),
    };
    let (last, y) = (file.tensor("last", I32, &[]), matrix(&mut file));
    let graphs = vec![(0, Value::I32(1)), (1, Value::I32(2))];
    file.operator_with("WHILE", &[count, x], &[last, y], 93, graphs);
    let negative = matrix(&mut file);
    file.operator("NEG", &[y], &[negative]);
    file.outputs(&[negative]);

    file.next_graph();
    let count = file.input("i", I32, &[]);
    matrix_input(&mut file);
    let limit = file.int_constant("limit", &[], &[iterations]);
    let goes_on = file.tensor("goes on", TensorKind::Bool, &[]);
    file.operator("LESS", &[count, limit], &[goes_on]);
    file.outputs(&[goes_on]);

    file.next_graph();
    let count = file.input("i", I32, &[]);
    let x = matrix_input(&mut file);
    let (one, next) = (file.int_constant("one", &[], &[1]), file.tensor("next", I32, &[]));
    file.operator("ADD", &[count, one], &[next]);
    let y = body(&mut file, x);
    file.outputs(&[next, y]);
    file
}

fn matrix(file: &mut TfliteFile) -> i32 {
    let tensor = file.tensor("matrix", F32, &[1, 2]);
    file.tensor_fields(tensor, vec![(7, Value::ints(&[-1, 2]))]);
    tensor
}

fn matrix_input(file: &mut TfliteFile) -> i32 {
    let tensor = file.input("x", F32, &[1, 2]);
    file.tensor_fields(tensor, vec![(7, Value::ints(&[-1, 2]))]);
    tensor
}

fn appended(file: &mut TfliteFile, x: i32) -> i32 {
    let (row, y) = (file.float_constant("row", &[1, 2], &[1.0, 2.0]), matrix(file));
    file.operator_with("CONCATENATION", &[x, row], &[y], 10, vec![(0, Value::I32(0))]);
    y
}

fn doubled(file: &mut TfliteFile, x: i32) -> i32 {
    let y = matrix(file);
    let twice = matrix(file);
    file.operator("ADD", &[x, x], &[twice]);
    file.operator_with("CONCATENATION", &[x, twice], &[y], 10, vec![(0, Value::I32(0))]);
    y
}

/// All rows but the first.
fn cut(file: &mut TfliteFile, x: i32) -> i32 {
    let [begin, size] = [[1, 0], [-1, -1]].map(|it| file.int_constant("place", &[2], &it));
    let y = matrix(file);
    file.operator("SLICE", &[x, begin, size], &[y]);
    y
}

/// The rows as a vector, which is another rank, and back.
fn flattened(file: &mut TfliteFile, x: i32) -> i32 {
    let [flat, wide] = [&[-1][..], &[-1, 2]].map(|shape| {
        let rank = i32::try_from(shape.len()).unwrap();
        file.int_constant("shape", &[rank], shape)
    });
    let [vector, joined] = [(); 2].map(|()| file.tensor("vector", F32, &[1]));
    let y = matrix(file);
    file.operator("RESHAPE", &[x, flat], &[vector]);
    file.operator_with("CONCATENATION", &[vector; 2], &[joined], 10, vec![(0, Value::I32(0))]);
    file.operator("RESHAPE", &[joined, wide], &[y]);
    y
}

#[test]
fn variables_of_loops_change_their_shapes() {
    let rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    /// What it shows, rows at first, iterations, what each makes of them, and rows at last.
    type Case<'a> = (&'a str, usize, i32, Body, &'a [[f32; 2]]);
    let cases: [Case<'_>; 7] = [
        ("a row each time", 1, 2, appended, &[[1.0, 2.0]; 3]),
        ("of no rows at first", 0, 2, appended, &[[1.0, 2.0]; 2]),
        ("no iteration, no rows", 0, 0, appended, &[]),
        ("no iteration", 2, 0, appended, &[[1.0, 2.0], [3.0, 4.0]]),
        ("twice as many", 1, 2, doubled, &[[1.0, 2.0], [2.0, 4.0], [2.0, 4.0], [4.0, 8.0]]),
        ("fewer", 3, 2, cut, &[[5.0, 6.0]]),
        ("by way of another rank", 1, 1, flattened, &[[1.0, 2.0]; 2]),
    ];
    for (what, first, iterations, body, want) in cases {
        let file = loop_over(&rows[..first], iterations, body);
        for extension in [false, true] {
            let results = run(&file, &[], extension);
            let negative: Vec<f32> = want.as_flattened().iter().map(|it| -it).collect();
            let shape = vec![u32::try_from(want.len()).unwrap(), 2];
            assert_eq!(results, [(shape, negative)], "{what}, extension {extension}");
        }
    }
}

/// The file says of both branches that they give one row, and nothing of what may change.
#[test]
fn branches_give_shapes_of_their_own() {
    let mut file = TfliteFile::new();
    let condition = file.input("condition", TensorKind::Bool, &[]);
    let x = file.input("x", F32, &[2, 2]);
    let y = file.tensor("y", F32, &[1, 2]);
    let graphs = vec![(0, Value::I32(1)), (1, Value::I32(2))];
    file.operator_with("IF", &[condition, x], &[y], 92, graphs);
    file.outputs(&[y]);
    for body in [doubled, cut] {
        file.next_graph();
        let x = file.input("x", F32, &[1, 2]);
        let y = body(&mut file, x);
        file.outputs(&[y]);
    }
    let x = bytes(&[1.0, 2.0, 3.0, 4.0]);
    for extension in [false, true] {
        let twice = vec![1.0, 2.0, 3.0, 4.0, 2.0, 4.0, 6.0, 8.0];
        assert_eq!(run(&file, &[&[1], &x], extension), [(vec![4, 2], twice)]);
        assert_eq!(run(&file, &[&[0], &x], extension), [(vec![1, 2], vec![3.0, 4.0])]);
    }
}

/// A filter of three rows over two, without padding.
#[test]
fn windows_beyond_the_image_give_nothing() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 2, 4, 1]);
    let filter = file.float_constant("filter", &[1, 3, 3, 1], &[1.0; 9]);
    let bias = file.float_constant("bias", &[1], &[0.0]);
    let y = file.tensor("y", F32, &[1, 0, 2, 1]);
    let steps = vec![(0, Value::I8(1)), (1, Value::I32(1)), (2, Value::I32(1))];
    file.operator_with("CONV_2D", &[x, filter, bias], &[y], 1, steps);
    let sum = file.tensor("sum", F32, &[1, 2, 1]);
    let axis = file.int_constant("axis", &[1], &[1]);
    file.operator("SUM", &[y, axis], &[sum]);
    file.outputs(&[y, sum]);
    let x = bytes(&[1.0; 8]);
    let want = [(vec![1, 0, 2, 1], Vec::new()), (vec![1, 2, 1], vec![0.0; 2])];
    assert_eq!(run(&file, &[&x], true), want);
}

#[test]
fn tensors_may_have_no_elements() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 2]);
    let none = file.tensor("none", F32, &[0, 2]);
    let [joined, zeros] = [&[1, 2][..], &[2]].map(|shape| file.tensor("y", F32, shape));
    let axis = file.int_constant("axis", &[1], &[0]);
    file.operator_with("CONCATENATION", &[none, x], &[joined], 10, vec![(0, Value::I32(0))]);
    file.operator("SUM", &[none, axis], &[zeros]);
    let (still, nothing) = (file.tensor("still", F32, &[0, 2]), file.int_constant("", &[0], &[]));
    file.operator("NEG", &[none], &[still]);
    let same = file.tensor("same", F32, &[1, 2]);
    file.operator("MEAN", &[x, nothing], &[same]);
    file.outputs(&[joined, zeros, still, same]);
    let x = [3.0, 4.0];
    let results = run(&file, &[&bytes(&x)], true);
    let want = [
        (vec![1, 2], x.to_vec()),
        (vec![2], vec![0.0; 2]),
        (vec![0, 2], Vec::new()),
        (vec![1, 2], x.to_vec()),
    ];
    assert_eq!(results, want);
}
