//! What is put together from several operations computes what the one operator means.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/run.rs"]
mod once;

use nnburst_executor::{CompileOptions, Plan};
use nnburst_tflite::testing::{Fields, NONE, TfliteFile, Value};
use nnburst_tflite::{Imported, TensorKind};

/// One operator over a FLOAT32 input of 0, 1, 2 and so on, less `shift`.
struct Case {
    what: &'static str,
    name: &'static str,
    input: &'static [i32],
    shift: f32,
    output: &'static [i32],
    arguments: fn(&mut TfliteFile, i32) -> Vec<i32>,
    options: (u8, fn() -> Fields),
    want: &'static [f32],
}

const CASE: Case = Case {
    what: "",
    name: "",
    input: &[2, 3],
    shift: 0.0,
    output: &[2, 3],
    arguments: |_, x| vec![x],
    options: (0, Vec::new),
    want: &[],
};

fn indexed() -> Vec<Case> {
    vec![
        Case {
            what: "borders without the border",
            name: "MIRROR_PAD",
            output: &[2, 7],
            arguments: |file, x| vec![x, file.int_constant("pads", &[2, 2], &[0, 0, 2, 2])],
            want: &[2., 1., 0., 1., 2., 1., 0., 5., 4., 3., 4., 5., 4., 3.],
            ..CASE
        },
        Case {
            what: "borders with the border",
            name: "MIRROR_PAD",
            output: &[3, 5],
            arguments: |file, x| vec![x, file.int_constant("pads", &[2, 2], &[1, 0, 1, 1])],
            options: (77, || vec![(0, Value::I8(1))]),
            want: &[0., 0., 1., 2., 2., 0., 0., 1., 2., 2., 3., 3., 4., 5., 5.],
            ..CASE
        },
        Case {
            what: "along two axes",
            name: "REVERSE_V2",
            arguments: |file, x| vec![x, file.int_constant("axes", &[2], &[0, -1])],
            want: &[5., 4., 3., 2., 1., 0.],
            ..CASE
        },
        Case {
            what: "indexes of two dimensions",
            name: "GATHER_ND",
            output: &[3],
            arguments: |file, x| vec![x, file.int_constant("at", &[3, 2], &[1, 2, 0, 0, 1, 0])],
            want: &[5., 0., 3.],
            ..CASE
        },
        Case {
            what: "indexes of one dimension",
            name: "GATHER_ND",
            output: &[1, 3],
            arguments: |file, x| vec![x, file.int_constant("at", &[1, 1], &[1])],
            want: &[3., 4., 5.],
            ..CASE
        },
        Case {
            what: "a scalar index",
            name: "GATHER",
            output: &[2],
            arguments: |file, x| vec![x, file.int_constant("at", &[], &[2])],
            options: (23, || vec![(0, Value::I32(1))]),
            want: &[2., 5.],
            ..CASE
        },
        Case {
            what: "a row and a new axis",
            name: "STRIDED_SLICE",
            output: &[1, 2],
            arguments: |file, x| {
                let begin = file.int_constant("begin", &[3], &[-1, 0, 2]);
                let end = file.int_constant("end", &[3], &[0, 0, 0]);
                vec![x, begin, end, file.int_constant("strides", &[3], &[1, 1, -1])]
            },
            options: (32, || vec![(3, Value::I32(2)), (4, Value::I32(1))]),
            want: &[5., 4.],
            ..CASE
        },
        Case {
            what: "the last column behind an ellipsis",
            name: "STRIDED_SLICE",
            output: &[2],
            arguments: |file, x| {
                let begin = file.int_constant("begin", &[2], &[0, -1]);
                let end = file.int_constant("end", &[2], &[0, 0]);
                vec![x, begin, end, file.int_constant("strides", &[2], &[1, 1])]
            },
            options: (32, || vec![(2, Value::I32(1)), (4, Value::I32(2))]),
            want: &[2., 5.],
            ..CASE
        },
        Case {
            what: "rows repeated",
            name: "BROADCAST_TO",
            input: &[3],
            output: &[2, 3],
            arguments: |file, x| vec![x, file.int_constant("shape", &[2], &[2, 3])],
            want: &[0., 1., 2., 0., 1., 2.],
            ..CASE
        },
        Case {
            what: "a scalar of a file that knows no ranks",
            name: "SQUEEZE",
            input: &[1],
            output: &[],
            shift: 7.0,
            want: &[-7.],
            ..CASE
        },
        Case {
            what: "the only element",
            name: "UNPACK",
            input: &[1],
            output: &[],
            shift: 7.0,
            options: (64, || vec![(0, Value::I32(1))]),
            want: &[-7.],
            ..CASE
        },
        Case {
            what: "stacked behind",
            name: "PACK",
            input: &[3],
            output: &[3, 2],
            arguments: |_, x| vec![x, x],
            options: (59, || vec![(1, Value::I32(-1))]),
            want: &[0., 0., 1., 1., 2., 2.],
            ..CASE
        },
        Case {
            what: "cropped",
            name: "BATCH_TO_SPACE_ND",
            input: &[4, 1, 1, 1],
            output: &[1, 2, 1, 1],
            arguments: |file, x| {
                let block = file.int_constant("block", &[2], &[2, 2]);
                vec![x, block, file.int_constant("crops", &[2, 2], &[0, 0, 1, 0])]
            },
            want: &[1., 3.],
            ..CASE
        },
    ]
}

fn computed() -> Vec<Case> {
    vec![
        Case {
            what: "upwards",
            name: "CEIL",
            shift: 2.5,
            want: &[-2., -1., 0., 1., 2., 3.],
            ..CASE
        },
        Case {
            what: "downwards",
            name: "FLOOR_DIV",
            shift: 3.0,
            arguments: |file, x| vec![x, file.float_constant("two", &[1], &[2.0])],
            want: &[-2., -1., -1., 0., 0., 1.],
            ..CASE
        },
        Case {
            what: "with the sign of the divisor",
            name: "FLOOR_MOD",
            shift: 3.0,
            arguments: |file, x| vec![x, file.float_constant("two", &[1], &[2.0])],
            want: &[1., 0., 1., 0., 1., 0.],
            ..CASE
        },
        Case {
            what: "broadcast",
            name: "SQUARED_DIFFERENCE",
            arguments: |file, x| vec![x, file.float_constant("row", &[3], &[1.0, 1.0, 4.0])],
            want: &[1., 0., 4., 4., 9., 1.],
            ..CASE
        },
        Case {
            what: "sums",
            name: "ADD_N",
            arguments: |_, x| vec![x, x, x],
            want: &[0., 3., 6., 9., 12., 15.],
            ..CASE
        },
        Case {
            what: "clamped",
            name: "RELU_0_TO_1",
            shift: 1.0,
            want: &[0., 0., 1., 1., 1., 1.],
            ..CASE
        },
        Case {
            what: "one slope",
            name: "LEAKY_RELU",
            shift: 3.0,
            options: (75, || vec![(0, Value::F32(0.5))]),
            want: &[-1.5, -1., -0.5, 0., 1., 2.],
            ..CASE
        },
        Case { what: "cosine", name: "COS", input: &[1], output: &[1], want: &[1.], ..CASE },
        Case {
            what: "a matrix that is not transposed",
            name: "BATCH_MATMUL",
            output: &[2, 2],
            arguments: |file, x| {
                vec![x, file.float_constant("m", &[3, 2], &[1., 0., 0., 1., 1., 1.])]
            },
            want: &[2., 3., 8., 9.],
            ..CASE
        },
        Case {
            what: "8-bit weights under a real input",
            name: "FULLY_CONNECTED",
            output: &[2, 1],
            arguments: |file, x| {
                let weights = file.constant("w", TensorKind::Int8, &[1, 3], &[2, 4, 0xFE]);
                file.quantize(weights, &[0.5], &[0], 0);
                vec![x, weights, NONE]
            },
            want: &[0., 6.],
            ..CASE
        },
    ]
}

#[test]
fn decompositions_compute_what_the_operator_means() {
    for case in indexed().into_iter().chain(computed()) {
        let mut file = TfliteFile::new();
        let x = file.input("x", TensorKind::Float32, case.input);
        let arguments = (case.arguments)(&mut file, x);
        let y = file.tensor("y", TensorKind::Float32, case.output);
        file.operator_with(case.name, &arguments, &[y], case.options.0, case.options.1());
        file.outputs(&[y]);
        let imported = Imported::from_bytes(&file.build()).unwrap();
        let plan = Plan::compile(&imported.model, &CompileOptions::default()).unwrap();
        let count: i32 = case.input.iter().product();
        let input = (0..count)
            .flat_map(|i| (f32::from(i16::try_from(i).unwrap()) - case.shift).to_le_bytes());
        let input: Vec<u8> = input.collect();
        let (outputs, _) = once::run(&mut plan.session(), &imported, &[&input], &[]);
        let got: Vec<f32> =
            outputs[0].as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        assert_eq!(got, case.want, "{}: {}", case.name, case.what);
    }
}

#[test]
fn parts_of_different_sizes_follow_each_other() {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Float32, &[2, 3]);
    let sizes = file.int_constant("sizes", &[2], &[1, -1]);
    let axis = file.int_constant("axis", &[], &[1]);
    let parts = [[2, 1], [2, 2]].map(|shape| file.tensor("part", TensorKind::Float32, &shape));
    file.operator("SPLIT_V", &[x, sizes, axis], &parts);
    file.outputs(&parts);
    let imported = Imported::from_bytes(&file.build()).unwrap();
    let plan = Plan::compile(&imported.model, &CompileOptions::default()).unwrap();
    let input: Vec<u8> =
        [0.0f32, 1., 2., 3., 4., 5.].iter().flat_map(|x| x.to_le_bytes()).collect();
    let (outputs, _) = once::run(&mut plan.session(), &imported, &[&input], &[]);
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    };
    assert_eq!(floats(&outputs[0]), [0., 3.]);
    assert_eq!(floats(&outputs[1]), [1., 2., 4., 5.]);
}

#[test]
fn an_integer_bias_may_come_with_the_request() {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Uint8, &[1, 2]);
    let bias = file.input("bias", TensorKind::Int32, &[1]);
    let weights = file.constant("w", TensorKind::Uint8, &[1, 2], &[3, 5]);
    let y = file.tensor("y", TensorKind::Uint8, &[1, 1]);
    file.quantize(x, &[0.5], &[1], 0);
    file.quantize(weights, &[0.5], &[2], 0);
    file.quantize(bias, &[0.25], &[0], 0);
    file.quantize(y, &[0.5], &[0], 0);
    file.operator_with("FULLY_CONNECTED", &[x, weights, bias], &[y], 8, Vec::new());
    file.outputs(&[y]);
    let imported = Imported::from_bytes(&file.build()).unwrap();
    let plan = Plan::compile(&imported.model, &CompileOptions::default()).unwrap();
    let run = |bias: i32| {
        let inputs: [&[u8]; 2] = [&[11, 21], &bias.to_le_bytes()];
        once::run(&mut plan.session(), &imported, &inputs, &[]).0[0][0]
    };
    // (10 * 1 + 20 * 3 + bias) steps of a quarter, in steps of a half.
    assert_eq!([run(0), run(30)], [35, 50]);
}
