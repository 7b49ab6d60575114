//! Conformance cases of the project's own, which always run: a dozen operations with values written
//! by hand, in every mode and every derived form of `nnburst vts`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::process::Command;

use nnburst::hal::{Model, Operand};
use nnburst::{ModelBuilder, OperandId};
use nnburst_conformance::{Case, write_file};

/// The bytes of values.
fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn case(
    name: &str,
    inputs: &[Vec<u8>],
    outputs: &[Vec<u8>],
    build: impl FnOnce(&mut ModelBuilder) -> OperandId,
) -> Case {
    let mut graph = ModelBuilder::new();
    let output = build(&mut graph);
    graph.output(output);
    let model: Model = graph.build().unwrap();
    Case::of_values("own", name, model, inputs.to_vec(), outputs.to_vec())
}

fn cases() -> Vec<Case> {
    let mut all = elementwise();
    all.extend(windows());
    all.extend(shapes());
    all.extend(quantised());
    all.extend(control_flow());
    all
}

fn elementwise() -> Vec<Case> {
    let (a, b) = (f32s(&[1.0, -2.0, 3.0, 0.5]), f32s(&[10.0, 20.0]));
    vec![
        case("add", &[a.clone(), b.clone()], &[f32s(&[11.0, 18.0, 13.0, 20.5])], |graph| {
            let a = graph.input(Operand::float32([2, 2]));
            let b = graph.input(Operand::float32([2]));
            graph.add(a, b).done()
        }),
        case("mul_relu", &[a.clone(), b], &[f32s(&[10.0, 0.0, 30.0, 10.0])], |graph| {
            let a = graph.input(Operand::float32([2, 2]));
            let b = graph.input(Operand::float32([2]));
            graph.mul(a, b).relu().done()
        }),
        case("relu", &[a], &[f32s(&[1.0, 0.0, 3.0, 0.5])], |graph| {
            let a = graph.input(Operand::float32([2, 2]));
            graph.relu(a).done()
        }),
    ]
}

fn windows() -> Vec<Case> {
    // Rows of 3 from 1 to 9.
    let picture: Vec<f32> = (1u8..=9).map(f32::from).collect();
    let picture = [f32s(&picture)];
    let square = || Operand::float32([1, 3, 3, 1]);
    vec![
        // Each output is the sum of a window's diagonal, plus 1.
        case("conv_2d", &picture, &[f32s(&[7.0, 9.0, 13.0, 15.0])], |graph| {
            let input = graph.input(square());
            let filter =
                graph.constant_of(Operand::float32([1, 2, 2, 1]), &[1.0f32, 0.0, 0.0, 1.0]);
            let bias = graph.constant_of(Operand::float32([1]), &[1.0f32]);
            graph.conv_2d(input, filter, bias).done()
        }),
        case("depthwise_conv_2d", &picture, &[f32s(&[5.0, 8.0])], |graph| {
            let input = graph.input(square());
            let filter = graph.constant_of(Operand::float32([1, 3, 1, 1]), &[0.0f32, 1.0, 0.0]);
            let bias = graph.constant_of(Operand::float32([1]), &[1.0f32]);
            let rows = graph.depthwise_conv_2d(input, filter, bias).done();
            // Of 5, 6, 7 the first, and the largest plus the bias of before.
            let first = graph.slice(rows, vec![0, 0, 0, 0], vec![1, 1, 1, 1]).done();
            let one = graph.constant_of(Operand::float32([1]), &[1.0f32]);
            let largest = graph.max_pool_2d(rows, (3, 1)).done();
            let largest = graph.add(largest, one).done();
            graph.concatenation(vec![first, largest], 2).done()
        }),
        case("max_pool_2d", &picture, &[f32s(&[5.0, 6.0, 8.0, 9.0])], |graph| {
            let input = graph.input(square());
            graph.max_pool_2d(input, 2).done()
        }),
        case("average_pool_2d", &picture, &[f32s(&[3.0, 4.0, 6.0, 7.0])], |graph| {
            let input = graph.input(square());
            graph.average_pool_2d(input, 2).done()
        }),
        case("fully_connected", &[f32s(&[1.0, 2.0])], &[f32s(&[5.5, -0.5, 2.0])], |graph| {
            let input = graph.input(Operand::float32([1, 2]));
            let weights =
                graph.constant_of(Operand::float32([3, 2]), &[1.0f32, 2.0, 1.0, -1.0, 0.0, 0.5]);
            let bias = graph.constant_of(Operand::float32([3]), &[0.5f32, 0.5, 1.0]);
            graph.fully_connected(input, weights, bias).done()
        }),
    ]
}

fn shapes() -> Vec<Case> {
    let six = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    vec![
        case(
            "transpose",
            std::slice::from_ref(&six),
            &[f32s(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])],
            |graph| {
                let input = graph.input(Operand::float32([2, 3]));
                graph.transpose(input).done()
            },
        ),
        case("reshape", std::slice::from_ref(&six), std::slice::from_ref(&six), |graph| {
            let input = graph.input(Operand::float32([2, 3]));
            graph.reshape(input, vec![3, 2]).done()
        }),
        case("softmax", &[f32s(&[0.0, 0.0, 0.0, 0.0])], &[f32s(&[0.25; 4])], |graph| {
            let input = graph.input(Operand::float32([1, 4]));
            graph.softmax(input).done()
        }),
    ]
}

fn quantised() -> Vec<Case> {
    // (a - 1) / 2 + (b - 1) / 2, stored as a multiple of 1.
    let sum = case(
        "add_quant8",
        &[vec![1, 3, 5, 255], vec![1, 1, 3, 255]],
        &[vec![0, 1, 3, 254]],
        |graph| {
            let a = graph.input(Operand::quant8([4], 0.5, 1));
            let b = graph.input(Operand::quant8([4], 0.5, 1));
            graph.add(a, b).quantized(1.0, 0).done()
        },
    );
    let bytes =
        case("relu_quant8", &[vec![0, 127, 128, 200]], &[vec![128, 128, 128, 200]], |graph| {
            let input = graph.input(Operand::quant8([4], 0.5, 128));
            graph.relu(input).done()
        });
    vec![sum, bytes]
}

fn control_flow() -> Vec<Case> {
    let branch = |name, flag: u8, want: &[f32]| {
        case(name, &[vec![flag], f32s(&[-1.0, 2.0])], &[f32s(want)], |graph| {
            let flag = graph.input(Operand::bool8([1]));
            let x = graph.input(Operand::float32([2]));
            let then = graph.subgraph(|graph| {
                let x = graph.input(Operand::float32([2]));
                let y = graph.relu(x).done();
                graph.output(y);
            });
            let otherwise = graph.subgraph(|graph| {
                let x = graph.input(Operand::float32([2]));
                let y = graph.add(x, x).done();
                graph.output(y);
            });
            graph.if_else(flag, then, otherwise, &[x])[0]
        })
    };
    vec![branch("if_true", 1, &[0.0, 2.0]), branch("if_false", 0, &[-2.0, 4.0])]
}

#[test]
fn cases_of_our_own_pass_in_every_mode_and_form() {
    let dir = tempfile::tempdir().unwrap();
    let cases = cases();
    write_file(&dir.path().join("own.json.gz"), "own", &cases).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nnburst"));
        let output = command.arg("vts").arg(dir.path()).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said.lines().last().unwrap().to_owned()
    };
    let all = format!("{} passed, 0 failed, 0 skipped", cases.len());
    for mode in ["inproc", "sync", "async", "fenced", "burst"] {
        assert_eq!(run(&["--mode", mode]), all, "{mode}");
    }
    let forms = [
        "--dynamic-shapes",
        "--insufficient-size",
        "--signed-twins",
        "--all-tensors-as-inputs",
        "--all-inputs-as-internal",
        "--device-memory",
    ];
    for form in forms {
        let tally = run(&[form]);
        assert!(tally.contains(" 0 failed, ") && !tally.starts_with("0 passed"), "{form}: {tally}");
    }
}
