//! Networks of a handful of operations: they measure the call, not the computing.

use nnburst_hal::{FusedActivation, Model, Operand, OperandType, OperationType};

use super::seed::Seed;
use crate::error::Result;
use crate::model_builder::ModelBuilder;

/// `a + b` of two single floats.
pub(super) fn add1() -> Result<Model> {
    let operand = || Operand::tensor(OperandType::TensorFloat32, vec![1]);
    sum_of_two(operand(), operand(), operand())
}

/// `a + b` of two planes of `TENSOR_QUANT8_ASYMM`.
pub(super) fn add_plane_quant() -> Result<Model> {
    let plane = |scale, zero_point| {
        Operand::tensor(OperandType::TensorQuant8Asymm, vec![1, 128, 128, 1])
            .with_quantization(scale, zero_point)
    };
    sum_of_two(plane(0.04, 126), plane(0.041, 127), plane(0.06, 125))
}

fn sum_of_two(a: Operand, b: Operand, sum: Operand) -> Result<Model> {
    let mut graph = ModelBuilder::new();
    let (a, b) = (graph.input(a), graph.input(b));
    let activation = graph.scalar_i32(FusedActivation::None.code());
    let sum = graph.operation(OperationType::Add, &[a, b, activation], sum);
    graph.output(sum);
    graph.build()
}

/// One number through dense layers of 16, 16 and 1 units.
pub(super) fn sine() -> Result<Model> {
    let mut seed = Seed::new(3);
    let mut graph = ModelBuilder::new();
    let row = |units| Operand::tensor(OperandType::TensorFloat32, vec![1, units]);
    let mut value = graph.input(row(1));
    let layers = [
        (1, 16, FusedActivation::Relu),
        (16, 16, FusedActivation::Relu),
        (16, 1, FusedActivation::None),
    ];
    for (inputs, units, activation) in layers {
        let count = usize::try_from(inputs * units).unwrap_or(0);
        let weights = graph.tensor_f32(vec![units, inputs], &seed.uniform(count, 0.8));
        let bias =
            graph.tensor_f32(vec![units], &seed.uniform(usize::try_from(units).unwrap_or(0), 0.1));
        let activation = graph.scalar_i32(activation.code());
        let inputs = [value, weights, bias, activation];
        value = graph.operation(OperationType::FullyConnected, &inputs, row(units));
    }
    graph.output(value);
    graph.build()
}
