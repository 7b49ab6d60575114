//! The vendor extension: its types, its operation, and what is wrong with neither.

use nnburst_driver_sample::{FIBONACCI_DRIVER, FIBONACCI_EXTENSION};
use nnburst_hal::*;

use crate::support::*;

const PREFIX: u16 = 3;

fn kind(number: u16) -> OperandType {
    OperandType::Extension(ExtensionCode { prefix: PREFIX, number })
}

/// `EXAMPLE_INT64` and `EXAMPLE_TENSOR_QUANT64_ASYMM`.
const INT64: u16 = 0;
const QUANT64: u16 = 1;

fn quant64(scale: f64, zero_point: i64) -> ExtraParams {
    ExtraParams::Extension([scale.to_le_bytes(), zero_point.to_le_bytes()].concat())
}

fn fibonacci(input: Operand, output: Operand) -> Model {
    let code = ExtensionCode { prefix: PREFIX, number: 0 };
    let operands = vec![
        input.with_lifetime(OperandLifeTime::SubgraphInput),
        output.with_lifetime(OperandLifeTime::SubgraphOutput),
    ];
    let mut model = model(operands, OperationType::Extension(code), Vec::new());
    let name = FIBONACCI_EXTENSION.to_owned();
    model.extension_name_to_prefix = vec![ExtensionNameAndPrefix { name, prefix: PREFIX }];
    model
}

fn int64() -> Operand {
    Operand::tensor(kind(INT64), vec![])
}

fn quantised(dimensions: &[u32]) -> Operand {
    Operand {
        extra_params: quant64(0.5, 10),
        ..Operand::tensor(kind(QUANT64), dimensions.to_vec())
    }
}

fn run(model: &dyn PreparedModel, input: &[u8], bytes: u64) -> (ExecutionResult, Memory) {
    let (input, output) = (memory(input), Memory::ashmem(bytes).unwrap());
    let request = request(&input, &output);
    (model.execute_synchronously(&request, ExecutionOptions::default()), output)
}

#[test]
fn the_extension_is_told_with_its_types() {
    let served = served(FIBONACCI_DRIVER);
    let extensions = served.device.supported_extensions().unwrap();
    validate_extensions(&extensions).unwrap();
    let [extension] = &extensions[..] else { panic!("{extensions:?}") };
    assert_eq!(extension.name, "com.example.fibonacci");
    let types = extension.operand_types.iter();
    let types: Vec<_> = types.map(|kind| (kind.number, kind.is_tensor, kind.byte_size)).collect();
    assert_eq!(types, [(INT64, false, 8), (QUANT64, true, 8)]);
}

#[test]
fn numbers_come_in_types_of_the_extension_and_in_floats() {
    let served = served(FIBONACCI_DRIVER);
    let model = fibonacci(int64(), quantised(&[0]));
    assert_eq!(served.device.supported_operations(&model).unwrap(), [true]);
    let prepared = prepare(&served.device, model).unwrap();
    let (outcome, output) = run(prepared.as_ref(), &6i64.to_le_bytes(), 48);
    assert_eq!(outcome.unwrap().output_shapes[0].dimensions, [6]);
    let mut bytes = [0; 48];
    output.read_at(0, &mut bytes).unwrap();
    let got: Vec<i64> = bytes.as_chunks().0.iter().map(|&x| i64::from_le_bytes(x)).collect();
    // 1 1 2 3 5 8, in steps of a half from 10 on.
    assert_eq!(got, [12, 12, 14, 16, 20, 26]);

    let (outcome, _) = run(prepared.as_ref(), &6i64.to_le_bytes(), 47);
    let failure = outcome.unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::OutputInsufficientSize);
    assert_eq!(failure.output_shapes[0].dimensions, [6]);

    let float = || Operand::tensor(OperandType::TensorFloat32, vec![1]);
    let floats = Operand::tensor(OperandType::TensorFloat32, vec![4]);
    let prepared = prepare(&served.device, fibonacci(float(), floats)).unwrap();
    let (outcome, output) = run(prepared.as_ref(), &4.0f32.to_le_bytes(), 16);
    outcome.unwrap();
    assert_eq!(as_floats(&output), [1.0, 1.0, 2.0, 3.0]);
}

#[test]
fn wrong_types_counts_and_operations_are_not_taken() {
    let served = served(FIBONACCI_DRIVER);
    type Make = Box<dyn Fn() -> Model>;
    let cases: [(&str, Make); 6] = [
        (
            "input type",
            Box::new(|| fibonacci(Operand::scalar(OperandType::Int32), quantised(&[0]))),
        ),
        (
            "output type",
            Box::new(|| fibonacci(int64(), Operand::tensor(OperandType::TensorInt32, vec![0]))),
        ),
        (
            "output without parameters",
            Box::new(|| fibonacci(int64(), Operand::tensor(kind(QUANT64), vec![0]))),
        ),
        (
            "input count",
            Box::new(|| {
                let mut model = fibonacci(int64(), quantised(&[0]));
                model.main.operations[0].inputs = vec![0, 0];
                model.main.operands[0].number_of_consumers = 2;
                model
            }),
        ),
        (
            "unknown operation",
            Box::new(|| {
                let mut model = fibonacci(int64(), quantised(&[0]));
                model.main.operations[0].kind =
                    OperationType::Extension(ExtensionCode { prefix: PREFIX, number: 1 });
                model
            }),
        ),
        (
            "another extension",
            Box::new(|| {
                let mut model = fibonacci(int64(), quantised(&[0]));
                model.extension_name_to_prefix[0].name = "com.example.lucas".to_owned();
                model
            }),
        ),
    ];
    for (what, model) in cases {
        assert_eq!(served.device.supported_operations(&model()).unwrap(), [false], "{what}");
        let refused = prepare(&served.device, model()).map(drop).unwrap_err();
        assert_eq!(refused.status, ErrorStatus::InvalidArgument, "{what}");
    }
    let prepared = prepare(&served.device, fibonacci(int64(), quantised(&[0]))).unwrap();
    for count in [0, -1, i64::MIN, i64::MAX] {
        let (outcome, _) = run(prepared.as_ref(), &count.to_le_bytes(), 64);
        let status = outcome.unwrap_err().error.status;
        assert!(status != ErrorStatus::None, "{count} numbers: {status}");
    }
    let (outcome, _) = run(prepared.as_ref(), &[0; 7], 64);
    assert!(outcome.is_err(), "a scalar cut short");
    let others = crate::support::served("nnapi-sample_all");
    let model = fibonacci(int64(), quantised(&[0]));
    assert_eq!(others.device.supported_operations(&model).unwrap(), [false]);
}
