//! The body of the fuzz target: valid random models with random values.

use nnburst_hal::{OperandLifeTime, View, ViewMut};

use super::graph::{Element, random_model};
use super::test_rng::TestRng;
use crate::{CompileOptions, Control, Input, Output, Plan};

/// Makes a model of the bytes, puts random numbers where axes, shapes, indexes and sizes stand, and
/// random extents where shapes are declared; compiles it and runs it twice, the values having
/// changed in between. Anything but a panic or a fault will do.
///
/// Gives whether the second run computed something.
pub fn fuzz_hostile_values(bytes: &[u8]) -> bool {
    let rng = &mut TestRng::of_bytes(bytes);
    let element = *Element::ALL.get(rng.below(Element::ALL.len())).unwrap_or(&Element::Float32);
    let mut random = random_model(rng, element, 4);
    if rng.once_in(2) {
        random = random.with_constants_as_inputs();
    }
    let sizes: Vec<usize> = random.outputs().iter().map(|(_, size)| *size).collect();
    let graph = &random.model.main;
    let dimensions: Vec<Vec<u32>> = graph
        .input_indexes
        .iter()
        .filter_map(|&index| graph.operands.get(index as usize))
        .map(|operand| operand.dimensions.clone())
        .collect();
    if rng.once_in(2) {
        random = random.with_unknown_shapes();
    }
    let extents = random.model.main.operands.len();
    if rng.once_in(3)
        && let Some(operand) = random.model.main.operands.get_mut(rng.below(extents))
    {
        let at = rng.below(operand.dimensions.len());
        if let Some(extent) = operand.dimensions.get_mut(at) {
            *extent = rng.one_of(&[0, 1, 3, 255, 65_535, 65_536, 1 << 20, u32::MAX]);
        }
    }
    if rng.once_in(2) {
        for operand in &random.model.main.operands {
            let start = operand.location.offset as usize;
            let end = start + operand.location.length as usize;
            if operand.lifetime == OperandLifeTime::ConstantCopy
                && rng.once_in(6)
                && let Some(value) = random.model.operand_values.get_mut(start..end)
            {
                spoil(value, rng);
            }
        }
    }
    let options = CompileOptions { arena_limit: 1 << 20, ..CompileOptions::default() };
    let Ok(plan) = Plan::compile(&random.model, &options) else { return false };
    let mut session = plan.session();
    let mut buffers: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0; size.max(1)]).collect();
    let mut computed = false;
    for _ in 0..2 {
        let inputs: Vec<Input<'_>> = random
            .inputs
            .iter()
            .zip(&dimensions)
            .map(|(bytes, dimensions)| Input::Value { bytes: View::of(bytes), dimensions })
            .collect();
        let outputs: Vec<Output<'_>> =
            buffers.iter_mut().map(|buffer| Output::new(ViewMut::of(buffer))).collect();
        computed = session.run(&inputs, &outputs, &Control::default()).is_ok();
        for value in &mut random.inputs {
            if rng.once_in(2) {
                spoil(value, rng);
            }
        }
    }
    computed
}

/// Puts a number that index computations go wrong on somewhere into a value.
fn spoil(value: &mut [u8], rng: &mut TestRng) {
    const EDGES: [i32; 13] =
        [0, 1, -1, 2, -2, 7, 65_535, 65_536, 0x7fff_0000, i32::MAX, i32::MIN, -8, 1 << 20];
    let at = rng.below(value.len() / 4) * 4;
    if let Some(element) = value.get_mut(at..at + 4) {
        element.copy_from_slice(&rng.one_of(&EDGES).to_le_bytes());
    } else if let Some(byte) = value.first_mut() {
        *byte = u8::MAX;
    }
}
