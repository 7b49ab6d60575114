//! What is computed of constants alone costs nothing at run time.

use nnburst_executor::{CompileOptions, Control, Input, Output, Plan};
use nnburst_hal::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
    View, ViewMut,
};

/// `x + DEQUANTIZE(weights)`, and the weights as bytes of the model.
fn model(first: OperationType, weights: Operand) -> Model {
    let float =
        |lifetime| Operand::tensor(OperandType::TensorFloat32, vec![4]).with_lifetime(lifetime);
    let mut activation =
        Operand::scalar(OperandType::Int32).with_lifetime(OperandLifeTime::ConstantCopy);
    activation.location = DataLocation { pool_index: 0, offset: 4, length: 4 };
    let mut weights = weights.with_lifetime(OperandLifeTime::ConstantCopy);
    weights.location = DataLocation { pool_index: 0, offset: 0, length: 4 };
    let operation = |kind, inputs, outputs| Operation { kind, inputs, outputs };
    let mut model = Model {
        main: Subgraph {
            operands: vec![
                float(OperandLifeTime::SubgraphInput),
                weights,
                float(OperandLifeTime::TemporaryVariable),
                activation,
                float(OperandLifeTime::SubgraphOutput),
            ],
            operations: vec![
                operation(first, vec![1], vec![2]),
                operation(OperationType::Add, vec![0, 2, 3], vec![4]),
            ],
            input_indexes: vec![0],
            output_indexes: vec![4],
        },
        operand_values: vec![1, 2, 3, 4, 0, 0, 0, 0],
        ..Model::default()
    };
    for operation in &model.main.operations {
        for &input in &operation.inputs {
            model.main.operands[input as usize].number_of_consumers += 1;
        }
    }
    model
}

#[test]
fn widened_weights_are_constants_of_the_plan() {
    let weights =
        Operand::tensor(OperandType::TensorQuant8Asymm, vec![4]).with_quantization(0.5, 2);
    let plan =
        Plan::compile(&model(OperationType::Dequantize, weights), &CompileOptions::default())
            .unwrap();
    let steps: Vec<_> = plan.labels().map(|(_, name, _)| name).collect();
    assert_eq!(steps, ["ADD"], "the DEQUANTIZE ran when the plan was made");
    let x: Vec<u8> = [1.0f32, 1.0, 1.0, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut y = [0; 16];
    plan.session()
        .run(&[Input::new(View::of(&x))], &[Output::new(ViewMut::of(&mut y))], &Control::default())
        .unwrap();
    let y: Vec<f32> = y.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    assert_eq!(y, [0.5, 1.0, 1.5, 2.0]);
}
