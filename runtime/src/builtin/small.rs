//! Networks of a handful of operations: they measure the call, not the computing.

use nnburst_hal::{FusedActivation, Model, Operand};

use super::seed::Seed;
use crate::error::Result;
use crate::model_builder::ModelBuilder;

/// `a + b` of two single floats.
pub(super) fn add1() -> Result<Model> {
    let mut graph = ModelBuilder::new();
    let [a, b] = [(); 2].map(|()| graph.input(Operand::float32([1])));
    let sum = graph.add(a, b).done();
    graph.output(sum);
    graph.build()
}

/// `a + b` of two planes of `TENSOR_QUANT8_ASYMM`.
pub(super) fn add_plane_quant() -> Result<Model> {
    let mut graph = ModelBuilder::new();
    let mut plane = |scale, zero| graph.input(Operand::quant8([1, 128, 128, 1], scale, zero));
    let (a, b) = (plane(0.04, 126), plane(0.041, 127));
    let sum = graph.add(a, b).quantized(0.06, 125).done();
    graph.output(sum);
    graph.build()
}

/// One number through dense layers of 16, 16 and 1 units.
pub(super) fn sine() -> Result<Model> {
    let mut seed = Seed::new(3);
    let mut graph = ModelBuilder::new();
    let mut value = graph.input(Operand::float32([1, 1]));
    let layers = [
        (1, 16, FusedActivation::Relu),
        (16, 16, FusedActivation::Relu),
        (16, 1, FusedActivation::None),
    ];
    for (inputs, units, activation) in layers {
        let mut constant = |extents: &[u32], bound| {
            let count = usize::try_from(extents.iter().product::<u32>()).unwrap_or(0);
            graph.constant_of(Operand::float32(extents), &seed.uniform(count, bound))
        };
        let (weights, bias) = (constant(&[units, inputs], 0.8), constant(&[units], 0.1));
        value = graph.fully_connected(value, weights, bias).activation(activation).done();
    }
    graph.output(value);
    graph.build()
}
