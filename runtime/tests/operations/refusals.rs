//! What is said of a graph that can't be.

use nnburst::hal::Operand;
use nnburst::{ModelBuilder, ResultCode};

/// What `build` says of a graph with one thing wrong.
fn refusal(wrong: impl FnOnce(&mut ModelBuilder)) -> String {
    let mut graph = ModelBuilder::new();
    wrong(&mut graph);
    let error = graph.build().unwrap_err();
    assert_eq!(error.code(), ResultCode::BadData);
    error.to_string()
}

#[test]
fn what_is_wrong_is_told_with_operation_and_operand() {
    let x = || Operand::float32([1, 4, 4, 2]);
    let bytes = || Operand::quant8([1, 4, 4, 2], 0.5, 1);

    let error = refusal(|graph| {
        let (a, b) = (graph.input(x()), graph.input(bytes()));
        graph.add(a, b).done();
    });
    assert_eq!(
        error,
        "operation 0 (ADD): b (input 1) is TENSOR_QUANT8_ASYMM; it has to be TENSOR_FLOAT32"
    );

    let error = refusal(|graph| {
        let (a, b) = (graph.input(bytes()), graph.input(bytes()));
        graph.add(a, b).done();
    });
    assert!(error.contains("ADD") && error.contains("`quantized`"), "{error}");

    let error = refusal(|graph| {
        let input = graph.input(x());
        let filter = graph.tensor_f32(vec![3, 1, 1, 5], &[0.0; 15]);
        let bias = graph.tensor_f32(vec![3], &[0.0; 3]);
        let before = graph.relu(input).done();
        graph.conv_2d(before, filter, bias).done();
    });
    assert!(error.starts_with("operation 1 (CONV_2D): "), "{error}");
    let want = "operation 1 (CONV_2D): filter (input 1): a filter of [3, 1, 1, 5] for 2 channels";
    assert_eq!(error, want);

    let error = refusal(|graph| {
        let input = graph.input(x());
        graph.cast(input).done();
    });
    assert!(error.contains("CAST") && error.contains("`to`"), "{error}");

    let error = refusal(|graph| {
        let input = graph.input(x());
        graph.pad_v2(input, [[0, 0]; 4], 1).done();
    });
    assert!(error.contains("value (input 2) is an integer; it has to be FLOAT32"), "{error}");

    let error = refusal(|graph| {
        let outer = graph.input(x());
        graph.subgraph(|graph| {
            graph.relu(outer).done();
        });
    });
    assert!(error.contains("graph 1, operation 0 (RELU)"), "{error}");
    assert!(error.contains("another graph"), "{error}");

    let mut other = ModelBuilder::new();
    let foreign = other.input(x());
    let error = refusal(|graph| {
        let input = graph.input(x());
        graph.mul(input, foreign).done();
    });
    assert!(error.contains("MUL") && error.contains("another model"), "{error}");
}
