//! Operators whose integers round, wrap and saturate as the interpreter's: results are its own.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/file.rs"]
mod file;
#[path = "common/plan.rs"]
mod plan;

use nnburst_tflite::TensorKind::{self, Bool, Complex64, Float32, Int8, Int16, Int32, Uint8};
use nnburst_tflite::testing::{TfliteFile, Value};

/// A row of values, in the type that they have in the file, and what they stand for.
struct Row {
    kind: TensorKind,
    scale: Option<(f32, i64)>,
    bytes: Vec<u8>,
}

fn row<const N: usize, const M: usize>(
    kind: TensorKind,
    scale: impl Into<Option<(f32, i64)>>,
    values: [[u8; M]; N],
) -> Row {
    Row { kind, scale: scale.into(), bytes: values.concat() }
}

fn words<const N: usize>(values: [i16; N]) -> [[u8; 2]; N] {
    values.map(i16::to_le_bytes)
}

fn bytes<const N: usize>(values: [i8; N]) -> [[u8; 1]; N] {
    values.map(i8::to_le_bytes)
}

fn tensor(file: &mut TfliteFile, row: &Row, elements: i32, is_input: bool) -> i32 {
    let tensor = match is_input {
        true => file.input("x", row.kind, &[1, elements]),
        false => file.tensor("y", row.kind, &[1, elements]),
    };
    if let Some((scale, zero_point)) = row.scale {
        file.quantize(tensor, &[scale], &[zero_point], 0);
    }
    tensor
}

/// Holds an operator's result against what it should be.
fn check(name: &str, options: u8, inputs: &[Row], want: &Row, elements: i32) {
    let mut file = TfliteFile::new();
    let given: Vec<i32> = inputs.iter().map(|row| tensor(&mut file, row, elements, true)).collect();
    let result = tensor(&mut file, want, elements, false);
    file.operator_with(name, &given, &[result], options, vec![(0, Value::I8(0))]);
    file.outputs(&[result]);
    let inputs: Vec<Vec<u8>> = inputs.iter().map(|row| row.bytes.clone()).collect();
    let got = file::outputs(&file::import(&file).unwrap(), &inputs, 0).unwrap().remove(0);
    assert_eq!(got, want.bytes, "{name}");
}

#[test]
fn roots_are_cut_and_negatives_wrap() {
    let x = row(Int8, (0.005_578_54, -128), bytes([-24, 107, -33, -128]));
    let want = row(Int8, (0.004_677_25, -128), bytes([34, 116, 27, -128]));
    check("SQRT", 0, &[x], &want, 4);
    let x = row(Int8, (0.05, -5), bytes([-128, -127, -50, 0, 127]));
    check("NEG", 0, &[x], &row(Int8, (0.03, 7), bytes([-128, 127, 50, 0, -127])), 5);
    let x = row(Int16, (0.05, 0), words([-32768, -500, 1]));
    check("NEG", 0, &[x], &row(Int16, (0.03, 0), words([-32768, 500, -1])), 3);
}

#[test]
fn slopes_of_words_have_bytes() {
    let x = row(Int16, (0.001, 0), words([-30000, -2000, -3, 0, 5, 2000, 30000]));
    let slopes = row(Int8, (0.01, 0), bytes([100, -100, 3, 4, 5, 6, 7]));
    let want = row(Int16, (0.002, 0), words([-15000, 1000, 0, 0, 3, 1000, 15000]));
    check("PRELU", 0, &[x, slopes], &want, 7);
}

#[test]
fn words_without_scales_wrap() {
    let rows = || {
        [
            row(Int16, None, words([30000, -30000, 300, -7])),
            row(Int16, None, words([10000, -10000, 300, 5])),
        ]
    };
    check("ADD", 11, &rows(), &row(Int16, None, words([-25536, 25536, 600, -2])), 4);
    check("MUL", 21, &rows(), &row(Int16, None, words([-23808, -23808, 24464, -35])), 4);
}

#[test]
fn reals_saturate_and_integers_keep_their_low_bits() {
    let values = [300, -300, 40000, -40000, i32::MAX, i32::MIN, 255, -1];
    let x = || row(Int32, None, values.map(i32::to_le_bytes));
    let low = values.map(|value| [value.to_le_bytes()[0]]);
    check("CAST", 0, &[x()], &row(Uint8, None, low), 8);
    check("CAST", 0, &[x()], &row(Int8, None, low), 8);
    let reals = [300.7, -300.7, 3e9, f32::NAN, -0.5, -1.5].map(f32::to_le_bytes);
    let x = || row(Float32, None, reals);
    check("CAST", 0, &[x()], &row(Int8, None, bytes([127, -128, 127, 127, 0, -1])), 6);
    let unsigned = [300, 0, u16::MAX, u16::MAX, 0, 0].map(u16::to_le_bytes);
    check("CAST", 0, &[x()], &row(TensorKind::Uint16, None, unsigned), 6);
}

#[test]
fn an_infinite_constant_is_compared_as_nothing() {
    let mut file = TfliteFile::new();
    let x = file.input("x", Int8, &[1, 3]);
    file.quantize(x, &[0.008], &[-128], 0);
    let infinity = file.constant("infinity", Int8, &[], &[127]);
    file.quantize(infinity, &[f32::INFINITY], &[-128], 0);
    let y = file.tensor("y", Bool, &[1, 3]);
    file.operator("EQUAL", &[x, infinity], &[y]);
    file.outputs(&[y]);
    let imported = file::import(&file).unwrap();
    let got = file::outputs(&imported, &[vec![0x80, 0, 0x7f]], 0).unwrap();
    assert_eq!(got, [[1, 0, 0]]);
}

#[test]
fn complex_numbers_and_truths_are_multiplied() {
    let numbers = |values: [[f32; 2]; 2]| {
        row(
            Complex64,
            None,
            values
                .map(|it| [it[0].to_le_bytes(), it[1].to_le_bytes()].concat())
                .map(|bytes| <[u8; 8]>::try_from(bytes).unwrap()),
        )
    };
    let (a, b) = ([[1.0, 2.0], [3.0, -1.0]], [[3.0, -1.0], [0.0, 1.0]]);
    check("MUL", 21, &[numbers(a), numbers(b)], &numbers([[5.0, 5.0], [1.0, 3.0]]), 2);
    let truths = |values: [u8; 4]| row(Bool, None, values.map(|value| [value]));
    let pair = || [truths([0, 0, 1, 1]), truths([0, 1, 0, 1])];
    check("STABLEHLO_MULTIPLY", 0, &pair(), &truths([0, 0, 0, 1]), 4);
    check("STABLEHLO_ADD", 0, &pair(), &truths([0, 1, 1, 1]), 4);
}
