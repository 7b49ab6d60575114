use nnburst_hal::{Model, OperandType};

use super::*;
use crate::{Case, Expected, Value};

fn case(name: &str, kind: OperandType, expected: Vec<u8>) -> Case {
    let count = u32::try_from(expected.len() / kind.element_bytes().unwrap()).unwrap();
    Case {
        spec: String::new(),
        name: name.to_owned(),
        model: Model::default(),
        inputs: Vec::new(),
        outputs: vec![Expected {
            kind,
            dimensions: vec![count],
            bytes: expected,
            is_ignored: false,
        }],
        expect_failure: false,
        is_relaxed: false,
        min_version: None,
        multinomial_tolerance: 0.0,
    }
}

#[test]
fn tolerances_are_those_of_the_reference() {
    let float = |value: f32| value.to_le_bytes().to_vec();
    let cases = [
        ("float, close", case("a", OperandType::TensorFloat32, float(1.0)), float(1.000_009), true),
        ("float, off", case("a", OperandType::TensorFloat32, float(1.0)), float(1.000_02), false),
        ("nan", case("a", OperandType::TensorFloat32, float(1.0)), float(f32::NAN), false),
        ("quant, one off", case("a", OperandType::TensorQuant8Asymm, vec![7]), vec![8], true),
        ("quant, two off", case("a", OperandType::TensorQuant8Asymm, vec![7]), vec![9], false),
        ("mobilenet", case("mobilenet", OperandType::TensorQuant8Asymm, vec![7]), vec![10], true),
        ("signed", case("a", OperandType::TensorQuant8AsymmSigned, vec![0]), vec![255], true),
        ("unsigned", case("a", OperandType::TensorQuant8Asymm, vec![0]), vec![255], false),
        ("bool", case("a", OperandType::TensorBool8, vec![1]), vec![0], false),
    ];
    for (what, case, bytes, passes) in cases {
        assert_eq!(case.compare(0, &[1], &bytes).is_ok(), passes, "{what}");
    }
    let relaxed = Case { is_relaxed: true, ..case("a", OperandType::TensorFloat32, float(1.0)) };
    assert!(relaxed.compare(0, &[1], &float(1.009)).is_ok());
}

#[test]
fn the_first_wrong_value_is_named() {
    let case = case("a", OperandType::TensorQuant8Asymm, vec![1, 2, 3, 4]);
    let error = case.compare(0, &[4], &[1, 9, 3, 9]).unwrap_err();
    assert_eq!(error.to_string(), "output 0 element 1 is 9, expected 2 within 1; 2 of 4 are wrong");
    assert!(matches!(case.compare(0, &[2, 2], &[1, 2, 3, 4]), Err(Mismatch::Shape { .. })));
    assert!(matches!(case.compare(0, &[4], &[1, 2, 3]), Err(Mismatch::Length { .. })));
    assert!(matches!(case.compare(1, &[4], &[]), Err(Mismatch::NoSuchOutput { output: 1 })));
}

#[test]
fn draws_are_judged_by_their_distribution() {
    let logits: Vec<u8> = [0.0f32, 0.0].iter().flat_map(|logit| logit.to_le_bytes()).collect();
    let draws = |ones: usize| {
        let draws = (0..100).map(|at| i32::from(at < ones));
        draws.flat_map(i32::to_le_bytes).collect::<Vec<u8>>()
    };
    let mut case = case("a", OperandType::TensorInt32, draws(0));
    case.multinomial_tolerance = 0.05;
    case.inputs =
        vec![Value { kind: OperandType::TensorFloat32, dimensions: vec![1, 2], bytes: logits }];
    assert!(case.compare(0, &[100], &draws(52)).is_ok());
    assert!(matches!(case.compare(0, &[100], &draws(60)), Err(Mismatch::Distribution { .. })));
}
