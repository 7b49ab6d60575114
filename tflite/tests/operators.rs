//! Operators one by one: what each becomes. Every import validates its model, so types and shapes
//! are right too.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

use nnburst_hal::OperationType::{self, *};
use nnburst_tflite::testing::{Fields, NONE, TfliteFile, Value};
use nnburst_tflite::{ImportError, Imported, TensorKind};

const F32: TensorKind = TensorKind::Float32;
const I8: TensorKind = TensorKind::Int8;
const U8: TensorKind = TensorKind::Uint8;
const I32: TensorKind = TensorKind::Int32;

fn import(file: &TfliteFile) -> Imported {
    Imported::from_bytes(&file.build()).unwrap()
}

fn kinds(imported: &Imported) -> Vec<OperationType> {
    imported.model.main.operations.iter().map(|operation| operation.kind).collect()
}

/// One operator over an input, with constants made by `build`, and a result of this shape.
struct Case {
    what: &'static str,
    name: &'static str,
    input: (TensorKind, &'static [i32]),
    output: (TensorKind, &'static [i32]),
    arguments: fn(&mut TfliteFile, i32) -> Vec<i32>,
    options: Options,
    want: &'static [OperationType],
}

/// Number in the union, and fields.
type Options = (u8, fn() -> Fields);

const NO_OPTIONS: Options = (0, Vec::new);

fn one(_: &mut TfliteFile, x: i32) -> Vec<i32> {
    vec![x]
}

fn float_cases() -> Vec<Case> {
    let case = Case {
        what: "",
        name: "",
        input: (F32, &[1, 2, 3]),
        output: (F32, &[1, 2, 3]),
        arguments: one,
        options: NO_OPTIONS,
        want: &[],
    };
    vec![
        Case { what: "direct", name: "RSQRT", want: &[Rsqrt], ..case },
        Case { what: "negated floor", name: "CEIL", want: &[Neg, Floor, Neg], ..case },
        Case { what: "product with itself", name: "SQUARE", want: &[Mul], ..case },
        Case {
            what: "difference, then its square",
            name: "SQUARED_DIFFERENCE",
            arguments: |_, x| vec![x, x],
            want: &[Sub, Mul],
            ..case
        },
        Case {
            what: "quotient, then its floor",
            name: "FLOOR_DIV",
            arguments: |_, x| vec![x, x],
            want: &[Div, Floor],
            ..case
        },
        Case {
            what: "integers divide downwards",
            name: "FLOOR_DIV",
            input: (I32, &[4]),
            output: (I32, &[4]),
            arguments: |_, x| vec![x, x],
            want: &[Div],
            ..case
        },
        Case {
            what: "parts get an extent and are joined",
            name: "PACK",
            output: (F32, &[1, 2, 2, 3]),
            arguments: |_, x| vec![x, x],
            options: (59, || vec![(1, Value::I32(1))]),
            want: &[Reshape, Reshape, Concatenation],
            ..case
        },
        Case {
            what: "one slope for all",
            name: "LEAKY_RELU",
            options: (75, || vec![(0, Value::F32(0.1))]),
            want: &[Prelu],
            ..case
        },
        Case {
            what: "an axis is inserted",
            name: "EXPAND_DIMS",
            output: (F32, &[1, 1, 2, 3]),
            arguments: |file, x| vec![x, file.int_constant("axis", &[1], &[1])],
            want: &[Reshape],
            ..case
        },
        Case {
            what: "size as height and width",
            name: "RESIZE_BILINEAR",
            input: (F32, &[1, 2, 3, 4]),
            output: (F32, &[1, 5, 6, 4]),
            arguments: |file, x| vec![x, file.int_constant("size", &[2], &[5, 6])],
            options: (15, || vec![(3, Value::I8(1))]),
            want: &[ResizeBilinear],
        },
        Case {
            what: "a new axis needs a reshape",
            name: "STRIDED_SLICE",
            output: (F32, &[1, 1, 3]),
            arguments: |file, x| {
                let begin = file.int_constant("begin", &[3], &[0, 0, 1]);
                let end = file.int_constant("end", &[3], &[0, 0, 2]);
                let strides = file.int_constant("strides", &[3], &[1, 1, 1]);
                vec![x, begin, end, strides]
            },
            options: (32, || {
                let (first, second) = (Value::I32(1), Value::I32(2));
                vec![(0, first.clone()), (1, first), (3, second)]
            }),
            want: &[StridedSlice, Reshape],
            ..case
        },
        Case {
            what: "indexes of two dimensions become one",
            name: "GATHER_ND",
            output: (F32, &[2, 3]),
            arguments: |file, x| vec![x, file.int_constant("at", &[2, 2], &[0, 1, 0, 0])],
            want: &[Split, Mul, Mul, Add, Reshape, Gather, Reshape],
            ..case
        },
        Case {
            what: "mirrored borders are gathered",
            name: "MIRROR_PAD",
            output: (F32, &[1, 4, 5]),
            arguments: |file, x| vec![x, file.int_constant("pads", &[3, 2], &[0, 0, 1, 1, 1, 1])],
            want: &[Gather, Gather],
            ..case
        },
        Case {
            what: "backwards is gathered",
            name: "REVERSE_V2",
            arguments: |file, x| vec![x, file.int_constant("axes", &[1], &[-1])],
            want: &[Gather],
            ..case
        },
    ]
}

fn quantized_cases() -> Vec<Case> {
    let case = Case {
        what: "",
        name: "",
        input: (I8, &[2, 4]),
        output: (I8, &[2, 4]),
        arguments: one,
        options: NO_OPTIONS,
        want: &[],
    };
    vec![
        Case {
            what: "integers to integers",
            name: "QUANTIZE",
            output: (U8, &[2, 4]),
            want: &[Dequantize, Quantize],
            ..case
        },
        Case {
            what: "a result with other than the fixed parameters",
            name: "LOGISTIC",
            want: &[Dequantize, Logistic, Quantize],
            ..case
        },
        Case {
            what: "a mean into another scale",
            name: "MEAN",
            output: (I8, &[2]),
            arguments: |file, x| vec![x, file.int_constant("axes", &[1], &[-1])],
            want: &[Dequantize, Mean, Quantize],
            ..case
        },
        Case {
            what: "division has no quantised form",
            name: "DIV",
            arguments: |_, x| vec![x, x],
            want: &[Dequantize, Dequantize, Div, Quantize],
            ..case
        },
        Case {
            what: "a product finer than the result",
            name: "MUL",
            arguments: |_, x| vec![x, x],
            want: &[Mul],
            ..case
        },
        Case {
            what: "scales per output need a convolution",
            name: "FULLY_CONNECTED",
            output: (I8, &[2, 3]),
            arguments: |file, x| {
                let weights = file.constant("weights", I8, &[3, 4], &[1; 12]);
                file.quantize(weights, &[0.5, 0.25, 0.125], &[0, 0, 0], 0);
                vec![x, weights, NONE]
            },
            want: &[Reshape, Conv2d, Reshape],
            ..case
        },
    ]
}

#[test]
fn operators_become_these_operations() {
    for case in float_cases().into_iter().chain(quantized_cases()) {
        let mut file = TfliteFile::new();
        let x = file.input("x", case.input.0, case.input.1);
        let arguments = (case.arguments)(&mut file, x);
        let y = file.tensor("y", case.output.0, case.output.1);
        for (tensor, kind, scale, zero) in [(x, case.input.0, 0.5, 3), (y, case.output.0, 0.75, 5)]
        {
            if matches!(kind, TensorKind::Int8 | TensorKind::Uint8) {
                file.quantize(tensor, &[scale], &[zero], 0);
            }
        }
        let (options, fields) = case.options;
        file.operator_with(case.name, &arguments, &[y], options, fields());
        file.outputs(&[y]);
        assert_eq!(kinds(&import(&file)), case.want, "{}: {}", case.name, case.what);
    }
}

#[test]
fn integer_svdf_keeps_a_float_state() {
    let mut file = TfliteFile::new();
    let x = file.input("x", I8, &[1, 2]);
    let features = file.constant("features", I8, &[4, 2], &[1; 8]);
    let time = file.constant("time", TensorKind::Int16, &[4, 3], &[1; 24]);
    let bias = file.int_constant("bias", &[4], &[7; 4]);
    let state = file.tensor("state", TensorKind::Int16, &[1, 12]);
    file.variable(state);
    let y = file.tensor("y", I8, &[1, 4]);
    for (tensor, scale) in
        [(x, 0.5), (features, 0.25), (time, 0.125), (bias, 0.5), (state, 0.1), (y, 1.0)]
    {
        file.quantize(tensor, &[scale], &[0], 0);
    }
    let options = vec![(0, Value::I32(1)), (1, Value::I8(1))];
    file.operator_with("SVDF", &[x, features, time, bias, state], &[y], 6, options);
    file.outputs(&[y]);
    let imported = import(&file);
    assert_eq!(kinds(&imported), [Dequantize, Dequantize, Svdf, Quantize]);
    assert_eq!(imported.states[0].info.kind, nnburst_hal::OperandType::TensorFloat32);
    assert_eq!(imported.states[0].initial.len(), 48);
}

#[test]
fn unequal_parts_are_slices_and_equal_ones_a_split() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[5, 2]);
    let sizes = file.int_constant("sizes", &[2], &[2, -1]);
    let axis = file.int_constant("axis", &[], &[0]);
    let parts = [file.tensor("a", F32, &[2, 2]), file.tensor("b", F32, &[3, 2])];
    file.operator("SPLIT_V", &[x, sizes, axis], &parts);
    let unpacked = [file.tensor("c", F32, &[2]), file.tensor("d", F32, &[2])];
    file.operator_with("UNPACK", &[parts[0]], &unpacked, 64, vec![(1, Value::I32(0))]);
    file.outputs(&[parts[1], unpacked[0], unpacked[1]]);
    assert_eq!(kinds(&import(&file)), [Slice, Slice, Split, Reshape, Reshape]);
}

#[test]
fn arithmetic_on_shapes_is_done_at_import() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[2, 3, 4]);
    let shape = file.tensor("shape", I32, &[3]);
    file.operator("SHAPE", &[x], &[shape]);
    let bounds = [0, 1, 1].map(|value| file.int_constant("bound", &[1], &[value]));
    let batch = file.tensor("batch", I32, &[]);
    let shrink = vec![(4, Value::I32(1))];
    let slice = [shape, bounds[0], bounds[1], bounds[2]];
    file.operator_with("STRIDED_SLICE", &slice, &[batch], 32, shrink);
    let rest = file.int_constant("rest", &[], &[-1]);
    let wanted = file.tensor("wanted", I32, &[2]);
    file.operator_with("PACK", &[batch, rest], &[wanted], 59, vec![]);
    let y = file.tensor("y", F32, &[2, 12]);
    file.operator("RESHAPE", &[x, wanted], &[y]);
    file.outputs(&[y]);
    let imported = import(&file);
    assert_eq!(kinds(&imported), [Reshape]);
    assert_eq!(imported.outputs[0].dims, [2, 12]);
}

#[test]
fn shapes_that_the_file_leaves_open_follow_from_the_operators() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[3, 4]);
    let weights = file.float_constant("weights", &[5, 4], &[0.5; 20]);
    let dense = file.tensor("dense", F32, &[]);
    file.operator("FULLY_CONNECTED", &[x, weights, NONE], &[dense]);
    let y = file.tensor("y", F32, &[]);
    file.operator("TANH", &[dense], &[y]);
    file.outputs(&[y]);
    assert_eq!(import(&file).outputs[0].dims, [3, 5]);
}

#[test]
fn outputs_that_are_inputs_constants_or_repeated_are_copies() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[2]);
    let constant = file.float_constant("c", &[2], &[1.0, 2.0]);
    let y = file.tensor("y", F32, &[2]);
    file.operator("ABS", &[x], &[y]);
    file.outputs(&[y, x, constant, y]);
    let imported = import(&file);
    assert_eq!(kinds(&imported), [Abs, Reshape, Reshape, Reshape]);
    assert_eq!(imported.outputs.len(), 4);
}

#[test]
fn a_state_that_nobody_changes_is_a_constant() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[2]);
    let state = file.tensor("state", F32, &[2]);
    file.variable(state);
    let y = file.tensor("y", F32, &[2]);
    file.operator("ADD", &[x, state], &[y]);
    file.outputs(&[y]);
    let imported = import(&file);
    assert!(imported.states.is_empty());
    assert_eq!(imported.model.main.input_indexes.len(), 1);
}

#[test]
fn scales_per_channel_find_their_dimension() {
    for (what, declared, want) in [("as declared", 3, 3), ("out of range", 17, 3), ("wrong", 1, 3)]
    {
        let mut file = TfliteFile::new();
        let x = file.input("x", I8, &[1, 4, 4, 2]);
        file.quantize(x, &[0.5], &[0], 0);
        let filter = file.constant("filter", I8, &[1, 3, 3, 2], &[1; 18]);
        file.quantize(filter, &[0.5, 0.25], &[0, 0], declared);
        let y = file.tensor("y", I8, &[1, 2, 2, 2]);
        file.quantize(y, &[0.5], &[0], 0);
        let options =
            vec![(0, Value::I8(1)), (1, Value::I32(1)), (2, Value::I32(1)), (3, Value::I32(1))];
        file.operator_with("DEPTHWISE_CONV_2D", &[x, filter, NONE], &[y], 2, options);
        file.outputs(&[y]);
        let imported = import(&file);
        let filter = imported.model.main.operations[0].inputs[1];
        let quant = imported.model.main.operands[filter as usize].channel_quant().unwrap();
        assert_eq!(quant.channel_dim, want, "{what}");
    }
}

#[test]
fn everything_that_can_not_be_mapped_is_reported_at_once() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[2]);
    let [a, b, c] = ["a", "b", "c"].map(|name| file.tensor(name, F32, &[2]));
    file.operator("CUSTOM", &[x], &[a]);
    file.operator("ABS", &[a], &[b]);
    file.operator("ROUND", &[b], &[c]);
    let z = file.tensor("z", I32, &[2]);
    file.operator("EXP", &[z], &[z]);
    file.outputs(&[c]);
    let error = Imported::from_bytes(&file.build()).unwrap_err();
    let ImportError::Unsupported { operators } = error else { unreachable!("{error}") };
    let names: Vec<_> = operators.iter().map(|op| (op.index, op.name.as_str())).collect();
    assert_eq!(names, [(0, "CUSTOM Mystery"), (2, "ROUND"), (3, "EXP")]);
}
