//! A static plan's runs allocate nothing, and take whatever memory they are given.
#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

use nnburst_executor::{CompileOptions, Control, Input, Output, Plan, RunError, Session};
use nnburst_hal::testing::{Calls, CountingAllocator};
use nnburst_hal::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
    View, ViewMut,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_run_allocates_nothing() {
    let model = convolution_and_pooling();
    let plan = Plan::compile(&model, &CompileOptions::default()).unwrap();
    assert!(plan.is_static());
    let mut session = plan.session();
    let input: Vec<u8> = (0..8 * 8 * 3).flat_map(|i: u8| f32::from(i).to_le_bytes()).collect();
    let mut output = vec![0; 4 * 4 * 5 * 4];
    let inputs = [Input::new(View::of(&input))];
    let outputs = [Output::new(ViewMut::of(&mut output))];
    // The first run may size what later ones reuse.
    session.run(&inputs, &outputs, &Control::default()).unwrap();
    let before = CountingAllocator::calls_of_thread();
    for _ in 0..10 {
        session.run(&inputs, &outputs, &Control::default()).unwrap();
        session.warm_up(&inputs, &outputs, &mut || false);
        while session.keep_warm() {}
    }
    assert_eq!(CountingAllocator::calls_of_thread() - before, Calls::default());
    assert_eq!(session.output_shapes()[0].dimensions, [1, 4, 4, 5]);
}

/// Frames lie elsewhere each time, are longer than they need to be, or too short: what a run leaves
/// of its arguments for the next one is no more than their lengths.
#[test]
fn each_run_has_the_memory_that_it_is_given() {
    let plan = Plan::compile(&convolution_and_pooling(), &CompileOptions::default()).unwrap();
    let input =
        |add: f32| (0..8 * 8 * 3).flat_map(|i: u8| (f32::from(i) + add).to_le_bytes()).collect();
    let frames: [Vec<u8>; 3] = [input(0.0), input(1.0), [input(2.0), vec![1; 12]].concat()];
    let full = 4 * 4 * 5 * 4;
    let alone = |frame: &[u8]| {
        let mut output = vec![0; full];
        run(&mut plan.session(), frame, &mut output, &[]).unwrap();
        output
    };
    let want = frames.each_ref().map(|frame| alone(frame));
    assert_ne!(want[0], want[1], "results worth comparing");
    let mut session = plan.session();
    for (frame, room, dimensions) in [
        (0, full, &[][..]),
        (0, full, &[]),
        (1, full, &[]),
        (0, full + 4, &[]),
        (1, full + 4, &[]),
        (2, full, &[]),
        (2, full - 1, &[]),
        (1, full - 1, &[]),
        (1, full, &[1, 8, 8, 3]),
        (0, full, &[]),
        (2, full, &[]),
    ] {
        let mut output = vec![9; room];
        let ran = run(&mut session, &frames[frame], &mut output, dimensions);
        let what = format!("frame {frame}, {room} bytes");
        assert_eq!(ran.is_ok(), room >= full, "{what}: {ran:?}");
        assert_eq!(session.output_shapes()[0].is_sufficient, room >= full, "{what}");
        if room >= full {
            assert_eq!(output[..full], want[frame], "{what}");
            assert!(output[full..].iter().all(|&byte| byte == 9), "{what}: behind the value");
        }
    }
    let mut output = vec![0; full];
    assert!(run(&mut session, &frames[0][..700], &mut output, &[]).is_err(), "a short frame");
    run(&mut session, &frames[1], &mut output, &[]).unwrap();
    assert_eq!(output, want[1]);
}

fn run(
    session: &mut Session,
    frame: &[u8],
    output: &mut [u8],
    dimensions: &[u32],
) -> Result<(), RunError> {
    let inputs = [Input::Value { bytes: View::of(frame), dimensions }];
    session.run(&inputs, &[Output::new(ViewMut::of(output))], &Control::default())
}

/// A 3x3 convolution of 8x8x3 to 5 channels, then 2x2 maxima.
fn convolution_and_pooling() -> Model {
    let mut values = Vec::new();
    let mut operands = Vec::new();
    let mut constant = |operand: Operand, bytes: Vec<u8>| {
        values.resize(values.len().next_multiple_of(4), 0);
        let location = DataLocation {
            pool_index: 0,
            offset: u32::try_from(values.len()).unwrap(),
            length: u32::try_from(bytes.len()).unwrap(),
        };
        values.extend(bytes);
        Operand { location, ..operand.with_lifetime(OperandLifeTime::ConstantCopy) }
    };
    let real =
        |dimensions: &[u32]| Operand::tensor(OperandType::TensorFloat32, dimensions.to_vec());
    let floats =
        |count: u16| (0..count).flat_map(|i| (f32::from(i) / 99.0).to_le_bytes()).collect();
    operands.push(real(&[1, 8, 8, 3]).with_lifetime(OperandLifeTime::SubgraphInput));
    operands.push(constant(real(&[5, 3, 3, 3]), floats(135)));
    operands.push(constant(real(&[5]), floats(5)));
    for value in 0..3i32 {
        operands.push(constant(Operand::scalar(OperandType::Int32), value.to_le_bytes().to_vec()));
    }
    operands.push(real(&[1, 8, 8, 5]));
    operands.push(real(&[1, 4, 4, 5]).with_lifetime(OperandLifeTime::SubgraphOutput));
    let (zero, one, two, hidden) = (3, 4, 5, 6);
    let operation = |kind, inputs: &[u32], outputs: &[u32]| Operation {
        kind,
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
    };
    let mut model = Model {
        main: Subgraph {
            operands,
            operations: vec![
                operation(OperationType::Conv2d, &[0, 1, 2, one, one, one, zero], &[hidden]),
                operation(OperationType::MaxPool2d, &[hidden, two, two, two, two, two, zero], &[7]),
            ],
            input_indexes: vec![0],
            output_indexes: vec![7],
        },
        operand_values: values,
        ..Model::default()
    };
    for operation in &model.main.operations {
        for &input in &operation.inputs {
            model.main.operands[input as usize].number_of_consumers += 1;
        }
    }
    model
}
