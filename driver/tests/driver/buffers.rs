//! Driver-managed buffers.

use std::sync::Arc;

use nnburst_hal::*;

use crate::support::*;

fn role(model_index: u32) -> BufferRole {
    BufferRole { model_index, io_index: 0, frequency: 1.0 }
}

fn with_token(pools: &[RequestPool; 2]) -> Request {
    let argument = |at: u32| match &pools[at as usize] {
        RequestPool::Token(_) => argument(at, 0),
        RequestPool::Memory(memory) => argument(at, memory.size()),
    };
    Request { inputs: vec![argument(0)], outputs: vec![argument(1)], pools: pools.to_vec() }
}

/// Executes synchronously, asynchronously and behind no fence, which must end alike.
fn by_every_kind(
    model: &Arc<dyn PreparedModel>,
    request: &Request,
) -> std::result::Result<(), ErrorStatus> {
    let options = ExecutionOptions::default();
    let status = |result: ExecutionResult| {
        result.map(drop).map_err(|failure| {
            assert!(failure.output_shapes.is_empty(), "{failure}");
            failure.error.status
        })
    };
    let synchronous = status(model.execute_synchronously(request, options));
    assert_eq!(status(execute_async(model.as_ref(), request, options)), synchronous);
    let fenced = execute_fenced(model.as_ref(), request, options);
    assert_eq!(fenced.map(drop).map_err(|error| error.status), synchronous);
    synchronous
}

#[test]
fn a_buffer_carries_a_value_from_one_model_to_another() {
    let served = served(CPU);
    let models: Vec<_> = (0..2).map(|_| prepare(&served.device, add_one(&[2])).unwrap()).collect();
    let desc = BufferDesc::default();
    let buffer = served.device.allocate(&desc, &models, &[role(1)], &[role(0)]).unwrap();
    assert_ne!(buffer.token(), 0);
    let token = RequestPool::Token(buffer.token());
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let write = with_token(&[RequestPool::Memory(input), token.clone()]);
    let read = with_token(&[token, RequestPool::Memory(output.clone())]);
    let run = |model: &Arc<dyn PreparedModel>, request: &Request| by_every_kind(model, request);
    let invalid = Err(ErrorStatus::InvalidArgument);
    assert_eq!(run(&models[1], &read), Err(ErrorStatus::GeneralFailure), "nothing written yet");
    assert_eq!(run(&models[1], &write), invalid, "not an output of that model");
    assert_eq!(run(&models[0], &read), invalid, "not an input of that model");
    assert_eq!(run(&models[0], &write), Ok(()));
    assert_eq!(run(&models[1], &read), Ok(()));
    assert_eq!(as_floats(&output), [3.0, 4.0]);

    let copy = floats(&[0.0; 2]);
    buffer.copy_to(&copy).unwrap();
    assert_eq!(as_floats(&copy), [2.0, 3.0]);
    buffer.copy_from(&floats(&[7.0, 8.0]), &[]).unwrap();
    assert_eq!(run(&models[1], &read), Ok(()));
    assert_eq!(as_floats(&output), [8.0, 9.0]);

    let mut wrong_shape = read.clone();
    wrong_shape.inputs[0].dimensions = vec![3];
    assert_eq!(run(&models[1], &wrong_shape), invalid);
    let token = buffer.token();
    drop(buffer);
    eventually("the token is free", || run(&models[1], &read) == invalid);
    let allocate = || served.device.allocate(&desc, &models, &[role(1)], &[role(0)]).unwrap();
    // A client's hold ends before the buffer itself does.
    let mut again = allocate();
    eventually("the most recently freed token is given out first", || {
        again = allocate();
        again.token() == token
    });
    assert_eq!(run(&models[1], &read), Err(ErrorStatus::GeneralFailure), "and holds nothing");
}

#[test]
fn copies_that_do_not_fit_leave_a_buffer_unwritten() {
    let served = served(CPU);
    let models = [prepare(&served.device, add_one(&[2])).unwrap()];
    let buffer = served.device.allocate(&BufferDesc::default(), &models, &[role(0)], &[]).unwrap();
    let good = floats(&[1.0, 2.0]);
    let status = |result: Result<()>| result.unwrap_err().status;
    assert_eq!(status(buffer.copy_to(&good)), ErrorStatus::GeneralFailure, "nothing written");
    for size in [4, 12] {
        buffer.copy_from(&good, &[2]).unwrap();
        let wrong = memory(&vec![0; size]);
        assert_eq!(status(buffer.copy_to(&wrong)), ErrorStatus::InvalidArgument, "{size}");
        assert_eq!(status(buffer.copy_from(&wrong, &[2])), ErrorStatus::InvalidArgument, "{size}");
        assert_eq!(status(buffer.copy_to(&good)), ErrorStatus::GeneralFailure, "unwritten");
    }
    for dimensions in [vec![3], vec![0], vec![1, 2]] {
        let copied = buffer.copy_from(&good, &dimensions);
        assert_eq!(status(copied), ErrorStatus::InvalidArgument, "{dimensions:?}");
    }
}

#[test]
fn allocations_that_contradict_themselves_are_refused() {
    let served = served(CPU);
    let device = &served.device;
    let float = prepare(device, add_one(&[2])).unwrap();
    let longer = prepare(device, add_one(&[3])).unwrap();
    let deeper = prepare(device, add_one(&[1, 2])).unwrap();
    let bytes = prepare(device, relu(OperandType::TensorQuant8Asymm, &[2])).unwrap();
    let open = prepare(device, add_one(&[0])).unwrap();
    let foreign = prepare(driver(CPU).device().as_ref(), add_one(&[2])).unwrap();
    let frequency = |frequency| BufferRole { frequency, ..role(0) };
    let io = |io_index| BufferRole { io_index, ..role(0) };
    struct Case<'a> {
        what: &'a str,
        dimensions: &'a [u32],
        models: Vec<&'a Arc<dyn PreparedModel>>,
        inputs: Vec<BufferRole>,
        outputs: Vec<BufferRole>,
        want: ErrorStatus,
    }
    let case = |what, models, inputs, outputs| Case {
        what,
        dimensions: &[],
        models,
        inputs,
        outputs,
        want: ErrorStatus::InvalidArgument,
    };
    let shaped = |what, dimensions, models, inputs| Case {
        dimensions,
        ..case(what, models, inputs, vec![])
    };
    let cases = [
        case("no role", vec![&float], vec![], vec![]),
        case("no model", vec![], vec![role(0)], vec![]),
        case("a foreign model", vec![&foreign], vec![role(0)], vec![]),
        case("no such model", vec![&float], vec![role(1)], vec![]),
        case("no such input", vec![&float], vec![io(1)], vec![]),
        case("no such output", vec![&float], vec![], vec![io(1)]),
        case("frequency 10", vec![&float], vec![frequency(10.0)], vec![]),
        case("frequency 0", vec![&float], vec![], vec![frequency(0.0)]),
        case("frequency -0.5", vec![&float], vec![frequency(-0.5)], vec![]),
        case("frequency NaN", vec![&float], vec![frequency(f32::NAN)], vec![]),
        case("a role twice", vec![&float], vec![role(0), role(0)], vec![]),
        case("types", vec![&float, &bytes], vec![role(0), role(1)], vec![]),
        case("extents", vec![&float, &longer], vec![role(0)], vec![role(1)]),
        case("ranks", vec![&float, &deeper], vec![role(0), role(1)], vec![]),
        shaped("rank of the descriptor", &[1, 2], vec![&float], vec![role(0)]),
        shaped("extent of the descriptor", &[3], vec![&float], vec![role(0)]),
        shaped("unknown extent and a descriptor's rank", &[1, 2], vec![&open], vec![role(0)]),
    ];
    for Case { what, dimensions, models, inputs, outputs, want } in cases {
        let desc = BufferDesc { dimensions: dimensions.to_vec() };
        let models: Vec<_> = models.into_iter().cloned().collect();
        let error = device.allocate(&desc, &models, &inputs, &outputs).map(drop).unwrap_err();
        assert_eq!(error.status, want, "{what}: {error}");
    }
    let desc = BufferDesc { dimensions: vec![2] };
    device.allocate(&desc, &[open], &[role(0)], &[]).unwrap();
}

#[test]
fn a_buffer_of_unknown_extents_takes_every_shape_that_fits() {
    let served = served(CPU);
    let models: Vec<_> =
        (0..2).map(|_| prepare(&served.device, add_one_to(&[0, 2], &[0, 2])).unwrap()).collect();
    let desc = BufferDesc::default();
    let buffer = served.device.allocate(&desc, &models, &[role(1)], &[role(0)]).unwrap();
    let token = RequestPool::Token(buffer.token());
    for rows in [3u32, 1, 7] {
        let values: Vec<f32> = (0..rows * 2).map(|value| value as f32).collect();
        let (input, output) = (floats(&values), floats(&vec![0.0; values.len()]));
        let mut write = with_token(&[RequestPool::Memory(input), token.clone()]);
        write.inputs[0].dimensions = vec![rows, 2];
        let run = |model: &Arc<dyn PreparedModel>, request: &Request| {
            model.execute_synchronously(request, ExecutionOptions::default())
        };
        run(&models[0], &write).unwrap();
        // The shape of the content is that of the last write, and no other.
        let mut read = with_token(&[token.clone(), RequestPool::Memory(output.clone())]);
        read.inputs[0].dimensions = vec![rows, 2];
        let outcome = run(&models[1], &read).unwrap();
        assert_eq!(outcome.output_shapes[0].dimensions, [rows, 2]);
        let want: Vec<f32> = values.iter().map(|value| value + 2.0).collect();
        assert_eq!(as_floats(&output), want);
        read.inputs[0].dimensions = vec![rows + 1, 2];
        let failure = run(&models[1], &read).unwrap_err();
        assert_eq!(failure.error.status, ErrorStatus::InvalidArgument, "another shape");

        let copy = floats(&vec![0.0; values.len()]);
        buffer.copy_to(&copy).unwrap();
        assert_eq!(as_floats(&copy)[0], 1.0);
        let status = |result: Result<()>| result.unwrap_err().status;
        let longer = floats(&vec![0.0; values.len() + 1]);
        assert_eq!(status(buffer.copy_to(&longer)), ErrorStatus::InvalidArgument);
        buffer.copy_from(&copy, &[rows, 2]).unwrap();
        for (what, dimensions) in
            [("none", vec![]), ("an open one", vec![0, 2]), ("another", vec![rows, 3])]
        {
            let copied = buffer.copy_from(&copy, &dimensions);
            assert_eq!(status(copied), ErrorStatus::InvalidArgument, "{what}");
        }
        assert_eq!(status(buffer.copy_to(&copy)), ErrorStatus::GeneralFailure, "unwritten");
    }
    // More than any buffer holds.
    let huge = floats(&vec![0.0; (17 << 20) + 1]);
    let copied = buffer.copy_from(&huge, &[(17 << 20) / 2, 2]).unwrap_err();
    assert_eq!(copied.status, ErrorStatus::GeneralFailure);
}

#[test]
fn a_buffer_may_be_read_twice_but_not_written_beside() {
    let served = served(CPU);
    let float = OperandType::TensorFloat32;
    let operands = vec![
        tensor(float, &[2], OperandLifeTime::SubgraphInput),
        tensor(float, &[2], OperandLifeTime::SubgraphInput),
        Operand {
            location: DataLocation { pool_index: 0, offset: 0, length: 4 },
            ..tensor(OperandType::Int32, &[], OperandLifeTime::ConstantCopy)
        },
        tensor(float, &[2], OperandLifeTime::SubgraphOutput),
    ];
    let models =
        [prepare(&served.device, model(operands, OperationType::Add, vec![0; 4])).unwrap()];
    let input = |io_index| BufferRole { model_index: 0, io_index, frequency: 1.0 };
    let desc = BufferDesc::default();
    let buffer =
        served.device.allocate(&desc, &models, &[input(0), input(1)], &[input(0)]).unwrap();
    buffer.copy_from(&floats(&[1.0, 2.0]), &[2]).unwrap();
    let output = floats(&[0.0; 2]);
    let pools = vec![RequestPool::Token(buffer.token()), RequestPool::Memory(output.clone())];
    let whole = |pool| argument(pool, 0);
    let mut request =
        Request { inputs: vec![whole(0), whole(0)], outputs: vec![argument(1, 8)], pools };
    let options = ExecutionOptions::default();
    models[0].execute_synchronously(&request, options).unwrap();
    assert_eq!(as_floats(&output), [2.0, 4.0]);
    request.outputs = vec![whole(0)];
    let by_every_kind = [
        models[0].execute_synchronously(&request, options).map(drop).map_err(|f| f.error.status),
        execute_async(models[0].as_ref(), &request, options).map(drop).map_err(|f| f.error.status),
        execute_fenced(models[0].as_ref(), &request, options).map(drop).map_err(|e| e.status),
    ];
    assert_eq!(by_every_kind[..2], [Err(ErrorStatus::InvalidArgument); 2], "input and output");
    assert!(by_every_kind[2].is_err());
    buffer.copy_to(&output).unwrap();
}
