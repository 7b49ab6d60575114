//! Conditions on ranks and quantisation, and the quirks of the reference that were decided.

use super::*;
use crate::types::{ChannelQuant, ExtraParams, Version};
use crate::validate::operation_since;

/// The first version that takes an operation of these operands, or the rule that it breaks.
fn since(kind: OperationType, inputs: &[Operand], outputs: &[Operand]) -> Result<Version, String> {
    let operands: Vec<Operand> = inputs.iter().chain(outputs).cloned().collect();
    let count = |len| u32::try_from(len).unwrap();
    let (first, end) = (count(inputs.len()), count(operands.len()));
    let operation =
        Operation { kind, inputs: (0..first).collect(), outputs: (first..end).collect() };
    let graph = Subgraph { operands, ..Subgraph::default() };
    operation_since(&operation, &graph).map_err(|rule| rule.to_string())
}

fn tensor(kind: T, dimensions: &[u32]) -> Operand {
    Operand::tensor(kind, dimensions.to_vec())
}

fn quant(kind: T, scale: f32, zero_point: i32) -> Operand {
    tensor(kind, &[1, 1, 1, 1]).with_quantization(scale, zero_point)
}

fn q8(scale: f32) -> Operand {
    quant(T::TensorQuant8Asymm, scale, 0)
}

fn scalars(kinds: &[T]) -> Vec<Operand> {
    kinds.iter().map(|&kind| Operand::scalar(kind)).collect()
}

#[test]
fn conditions_on_scales() {
    let activation = Operand::scalar(T::Int32);
    let mul =
        |output| since(OperationType::Mul, &[q8(0.5), q8(0.5), activation.clone()], &[q8(output)]);
    assert_eq!(mul(0.26), Ok(Version::V1_0));
    let refused = Err("the condition OutputScaleAboveProduct is not met".to_owned());
    assert_eq!(mul(0.25), refused, "at every version");
    let add = since(OperationType::Add, &[q8(0.5), q8(0.5), activation.clone()], &[q8(0.1)]);
    assert_eq!(add, Ok(Version::V1_0), "ADD has no such rule");
    let signed = || quant(T::TensorQuant8AsymmSigned, 0.5, 0);
    let mul = since(OperationType::Mul, &[signed(), signed(), activation.clone()], &[signed()]);
    assert_eq!(mul, Ok(Version::V1_3), "nor has signed MUL");

    let bias = || tensor(T::TensorInt32, &[1]);
    let conv = |output| {
        let mut inputs = vec![q8(0.5), q8(0.5), bias()];
        inputs.extend(scalars(&[T::Int32; 4]));
        since(OperationType::Conv2d, &inputs, &[q8(output)])
    };
    assert_eq!(conv(0.26), Ok(Version::V1_0));
    assert_eq!(
        conv(0.25),
        Ok(Version::V1_2),
        "the rule as documented, not as the reference reads it"
    );
    let connected = |output| {
        let q8 = |scale| Operand { dimensions: vec![1, 1], ..q8(scale) };
        let inputs = [q8(0.5), q8(0.5), bias(), activation.clone()];
        since(OperationType::FullyConnected, &inputs, &[q8(output)])
    };
    assert_eq!(connected(0.26), Ok(Version::V1_0));
    assert_eq!(connected(0.1), Ok(Version::V1_2));
    let concatenation = |other| {
        let inputs = [q8(0.5), q8(other), activation.clone()];
        since(OperationType::Concatenation, &inputs, &[q8(0.5)])
    };
    assert_eq!(concatenation(0.5), Ok(Version::V1_0));
    assert_eq!(concatenation(0.4), Ok(Version::V1_2));
    let pad = |zero_point| {
        let input = quant(T::TensorQuant8Asymm, 0.5, zero_point);
        since(OperationType::Pad, &[input.clone(), tensor(T::TensorInt32, &[4, 2])], &[input])
    };
    assert_eq!((pad(0), pad(3)), (Ok(Version::V1_1), Ok(Version::V1_2)));
}

#[test]
fn conditions_on_ranks() {
    let float = |rank: usize| tensor(T::TensorFloat32, &vec![1; rank]);
    let softmax = |rank| {
        let inputs = [float(rank), Operand::scalar(T::Float32)];
        since(OperationType::Softmax, &inputs, &[float(rank)])
    };
    let versions: Vec<_> = (0..=4).map(|rank| softmax(rank).unwrap()).collect();
    use Version::{V1_0, V1_2};
    assert_eq!(versions, [V1_0, V1_2, V1_0, V1_2, V1_0]);
    assert_eq!(softmax(5), Err("the condition InputUpTo4 on ranks is not met".to_owned()));
    let l2 = |rank| since(OperationType::L2Normalization, &[float(rank)], &[float(rank)]).unwrap();
    assert_eq!([l2(0), l2(3), l2(4)], [V1_2, V1_2, V1_0]);
    let add = |a, b| {
        let inputs = [float(a), float(b), Operand::scalar(T::Int32)];
        since(OperationType::Add, &inputs, &[float(4)]).is_ok()
    };
    assert!(add(4, 1) && add(5, 0) && !add(5, 1) && !add(1, 5));
    let conv = |input, filter| {
        let mut inputs = vec![float(input), float(filter), float(1)];
        inputs.extend(scalars(&[T::Int32; 4]));
        since(OperationType::Conv2d, &inputs, &[float(4)]).is_ok()
    };
    assert!(conv(4, 4) && conv(0, 4) && conv(4, 0) && !conv(3, 4) && !conv(4, 3));
}

#[test]
fn shapes_of_fully_connected_and_cast() {
    let connected = |input: &[u32], weights: &[u32], bias: &[u32]| {
        let float = |shape| tensor(T::TensorFloat32, shape);
        let inputs = [float(input), float(weights), float(bias), Operand::scalar(T::Int32)];
        since(OperationType::FullyConnected, &inputs, &[float(&[1, 1])]).is_ok()
    };
    type Case = (&'static str, &'static [u32], &'static [u32], &'static [u32], bool);
    let cases: [Case; 9] = [
        ("plain", &[2, 3], &[4, 3], &[4], true),
        ("flattened", &[2, 3, 1, 1], &[4, 6], &[4], true),
        ("no whole batch", &[2, 3], &[4, 4], &[4], false),
        ("other units", &[2, 3], &[4, 3], &[5], false),
        ("unknown extents", &[0, 3], &[0, 4], &[5], true),
        ("unknown rank", &[], &[4, 3], &[5], true),
        ("rank 1", &[6], &[4, 6], &[4], false),
        ("rank 5", &[1, 1, 1, 1, 6], &[4, 6], &[4], false),
        ("weights of rank 3", &[2, 3], &[4, 3, 1], &[4], false),
    ];
    for (what, input, weights, bias, fits) in cases {
        assert_eq!(connected(input, weights, bias), fits, "{what}");
    }
    let cast = |input: &[u32], output: &[u32]| {
        let (input, output) = (tensor(T::TensorFloat32, input), tensor(T::TensorInt32, output));
        since(OperationType::Cast, &[input], &[output]).is_ok()
    };
    assert!(cast(&[2, 3], &[2, 3]) && cast(&[2, 3], &[2, 0]) && cast(&[2], &[]) && cast(&[], &[2]));
    assert!(!cast(&[2, 3], &[3, 2]));
}

#[test]
fn channels_of_filters() {
    let conv = |kind, arguments, channel_dim| {
        let mut filter = tensor(T::TensorQuant8SymmPerChannel, &[1, 1, 1, 1]);
        let quant = ChannelQuant { scales: vec![1.0], channel_dim };
        filter.extra_params = ExtraParams::ChannelQuant(quant);
        let mut inputs = vec![q8(1.0), filter, tensor(T::TensorInt32, &[1])];
        inputs.extend(vec![Operand::scalar(T::Int32); arguments]);
        since(kind, &inputs, &[q8(1.0)])
    };
    assert_eq!(conv(OperationType::Conv2d, 4, 0), Ok(Version::V1_2));
    assert_eq!(conv(OperationType::DepthwiseConv2d, 5, 3), Ok(Version::V1_2));
    let refused = Err("the filter's channels are dimension 3, not 0".to_owned());
    assert_eq!(conv(OperationType::Conv2d, 4, 3), refused);
}

#[test]
fn quirks_of_the_reference_as_decided() {
    let signed = || quant(T::TensorQuant8AsymmSigned, 1.0, 0);
    let activation = Operand::scalar(T::Int32);
    let div = since(OperationType::Div, &[signed(), signed(), activation.clone()], &[signed()]);
    assert_eq!(div, Ok(Version::V1_3), "valid; drivers don't support it");
    let div = since(OperationType::Div, &[q8(1.0), q8(1.0), activation], &[q8(1.0)]);
    assert!(div.is_err());
    let dequantize =
        since(OperationType::Dequantize, &[signed()], &[tensor(T::TensorFloat32, &[])]);
    assert_eq!(dequantize, Ok(Version::V1_2), "the type itself needs 1.3");
    let mean = |keep_dims| {
        let inputs = [
            tensor(T::TensorFloat32, &[1]),
            tensor(T::TensorInt32, &[1]),
            Operand::scalar(keep_dims),
        ];
        since(OperationType::Mean, &inputs, &[tensor(T::TensorFloat32, &[1])]).is_ok()
    };
    assert!(mean(T::Int32) && !mean(T::Bool));
}
