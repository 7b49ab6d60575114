//! Executions of every kind: results, shapes, timing, refusals.

use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::*;

use crate::support::*;

const ALL: &str = CPU;

#[test]
fn every_kind_gives_the_same_bytes_shapes_and_sane_times() {
    let embedded = driver(ALL).device();
    let served = served(ALL);
    let devices: [(_, &dyn Device); 2] =
        [("embedded", embedded.as_ref()), ("served", &served.device)];
    for (what, device) in devices {
        let model = prepare(device, add_one(&[2, 3])).unwrap();
        let model = model.as_ref();
        let input = floats(&[0.0, 1.0, 2.5, -1.0, 1e30, -0.0]);
        let want = [1.0, 2.0, 3.5, 0.0, 1e30, 1.0];
        for measure in [MeasureTiming::No, MeasureTiming::Yes] {
            let options = ExecutionOptions { measure, ..ExecutionOptions::default() };
            let check = |kind: &str, output: &Memory, outcome: ExecutionOutcome| {
                assert_eq!(as_floats(output), want, "{what}, {kind}");
                assert_eq!(outcome.output_shapes.len(), 1, "{what}, {kind}");
                assert_eq!(outcome.output_shapes[0].dimensions, [2, 3], "{what}, {kind}");
                assert!(outcome.output_shapes[0].is_sufficient, "{what}, {kind}");
                check_timing(outcome.timing, measure);
            };
            let output = floats(&[9.0; 6]);
            let outcome = model.execute_synchronously(&request(&input, &output), options).unwrap();
            check("synchronous", &output, outcome);

            let output = floats(&[9.0; 6]);
            let outcome = execute_async(model, &request(&input, &output), options).unwrap();
            check("asynchronous", &output, outcome);

            let output = floats(&[9.0; 6]);
            let info = execute_fenced(model, &request(&input, &output), options).unwrap();
            assert_eq!(as_floats(&output), want, "{what}, fenced");
            check_timing(info.launched, measure);
            check_timing(info.fenced, measure);

            let mut burst =
                BurstController::configure(model, &ControllerOptions::default(), None).unwrap();
            for _ in 0..3 {
                let output = floats(&[9.0; 6]);
                let outcome = burst.execute(&request(&input, &output), &options).unwrap().unwrap();
                check("burst", &output, outcome);
            }
        }
    }
}

fn check_timing(timing: Timing, measure: MeasureTiming) {
    match measure {
        MeasureTiming::No => assert_eq!(timing, Timing::NONE),
        MeasureTiming::Yes => {
            assert!(timing.time_on_device <= timing.time_in_driver, "{timing:?}");
            assert!(timing.time_in_driver < u64::MAX, "{timing:?}");
        }
    }
}

#[test]
fn a_wrong_request_is_refused_alike_by_every_kind() {
    let served = served(ALL);
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let good = request(&input, &output);
    let mut cases = Vec::new();
    let mut case = |what: &'static str, change: &dyn Fn(&mut Request)| {
        let mut request = good.clone();
        change(&mut request);
        cases.push((what, request));
    };
    case("no input", &|r| r.inputs.clear());
    case("no output", &|r| r.outputs.clear());
    case("one input too many", &|r| r.inputs.push(argument(0, 8)));
    case("one output too many", &|r| r.outputs.push(argument(1, 8)));
    case("a pool that isn't there", &|r| r.inputs[0].location.pool_index = 2);
    case("past the end of the pool", &|r| r.outputs[0].location.offset = 4);
    case("past 32 bits", &|r| r.outputs[0].location.offset = u32::MAX);
    case("an input that is too short", &|r| r.inputs[0].location.length = 4);
    case("another extent", &|r| r.inputs[0].dimensions = vec![3]);
    case("another rank", &|r| r.inputs[0].dimensions = vec![1, 2]);
    case("no value, but a place", &|r| r.inputs[0].has_no_value = true);
    case("token 0", &|r| r.pools[0] = RequestPool::Token(0));
    case("a token of nobody", &|r| r.pools[0] = RequestPool::Token(9));
    let options = ExecutionOptions { measure: MeasureTiming::Yes, ..ExecutionOptions::default() };
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    for (what, request) in &cases {
        let check = |kind: &str, result: ExecutionResult| {
            let failure = result.unwrap_err();
            let status = failure.error.status;
            assert_eq!(status, ErrorStatus::InvalidArgument, "{what}, {kind}: {failure}");
            assert!(failure.output_shapes.is_empty(), "{what}, {kind}");
        };
        check("synchronous", model.execute_synchronously(request, options));
        check("asynchronous", execute_async(model.as_ref(), request, options));
        let fenced = model.execute_fenced(request.clone(), Vec::new(), options, None);
        let status = fenced.map(drop).unwrap_err().status;
        assert_eq!(status, ErrorStatus::InvalidArgument, "{what}, fenced");
        check("burst", burst.execute(request, &options).unwrap());
    }
    model.execute_synchronously(&good, options).unwrap();
    burst.execute(&good, &options).unwrap().unwrap();
    assert_eq!(as_floats(&output), [2.0, 3.0]);
}

#[test]
fn an_output_that_is_too_small_tells_its_shape() {
    let served = served(ALL);
    let model = prepare(&served.device, add_one(&[2, 3])).unwrap();
    let (input, output) = (floats(&[0.0; 6]), memory(&[0; 23]));
    let request = request(&input, &output);
    let options = ExecutionOptions { measure: MeasureTiming::Yes, ..ExecutionOptions::default() };
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    let results = [
        ("synchronous", model.execute_synchronously(&request, options)),
        ("asynchronous", execute_async(model.as_ref(), &request, options)),
        ("burst", burst.execute(&request, &options).unwrap()),
    ];
    for (kind, result) in results {
        let failure = result.unwrap_err();
        assert_eq!(failure.error.status, ErrorStatus::OutputInsufficientSize, "{kind}");
        let shape = OutputShape { dimensions: vec![2, 3], is_sufficient: false };
        assert_eq!(failure.output_shapes, [shape], "{kind}");
    }
    let error = execute_fenced(model.as_ref(), &request, options).unwrap_err();
    assert_eq!(error.status, ErrorStatus::OutputInsufficientSize, "fenced");
}

#[test]
fn shapes_that_the_model_leaves_open_come_from_the_request() {
    let served = served(ALL);
    let model = prepare(&served.device, add_one_to(&[0, 2], &[0, 0])).unwrap();
    for rows in [1u32, 3, 2] {
        let count = rows as usize * 2;
        let (input, output) = (floats(&vec![4.0; count]), floats(&vec![0.0; count]));
        let mut request = request(&input, &output);
        request.inputs[0].dimensions = vec![rows, 2];
        let outcome = model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        assert_eq!(outcome.output_shapes[0].dimensions, [rows, 2]);
        assert_eq!(as_floats(&output), vec![5.0; count]);
        let fenced = model.execute_fenced(request, Vec::new(), ExecutionOptions::default(), None);
        let status = fenced.map(drop).unwrap_err().status;
        assert_eq!(status, ErrorStatus::InvalidArgument, "fenced outputs have known shapes");
    }
}

#[test]
fn deadlines_that_have_passed_are_missed() {
    let served = served(ALL);
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let request = request(&input, &output);
    let passed =
        ExecutionOptions { deadline: Some(TimePoint::now()), ..ExecutionOptions::default() };
    let status = |result: ExecutionResult| result.unwrap_err().error.status;
    let persistent = ErrorStatus::MissedDeadlinePersistent;
    assert_eq!(status(model.execute_synchronously(&request, passed)), persistent);
    let (callback, words) = tell();
    model.execute(request.clone(), passed, callback).unwrap();
    assert_eq!(status(words.recv_timeout(HUNG).unwrap()), persistent, "by callback alone");
    let fenced = model.execute_fenced(request.clone(), Vec::new(), passed, None);
    assert_eq!(fenced.map(drop).unwrap_err().status, persistent);
    let never = ExecutionOptions {
        deadline: Some(TimePoint { nanoseconds: u64::MAX }),
        ..ExecutionOptions::default()
    };
    model.execute_synchronously(&request, never).unwrap();

    let options = |deadline| PrepareOptions { deadline, ..PrepareOptions::default() };
    let (callback, words) = tell();
    let deadline = options(Some(TimePoint::now()));
    served
        .device
        .prepare_model(add_one(&[2]), deadline, CacheHandles::default(), callback)
        .unwrap();
    let word: Result<std::sync::Arc<dyn PreparedModel>> = words.recv_timeout(HUNG).unwrap();
    assert_eq!(word.map(drop).unwrap_err().status, persistent);
    prepare_with(&served.device, add_one(&[2]), options(never.deadline)).unwrap();
}

#[test]
fn fences_hold_an_execution_back() {
    let served = served(ALL);
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let request = request(&input, &output);
    let options = ExecutionOptions { measure: MeasureTiming::Yes, ..ExecutionOptions::default() };
    let eventfd = |value| -> std::os::fd::OwnedFd {
        EventFd::from_value_and_flags(value, EfdFlags::EFD_CLOEXEC).unwrap().into()
    };
    let signal = |fence: &std::os::fd::OwnedFd| {
        nix::unistd::write(fence, &1u64.to_ne_bytes()).unwrap();
    };
    let share = |fence: &std::os::fd::OwnedFd| fence.try_clone().unwrap();

    let (first, second) = (eventfd(1), eventfd(0));
    let fenced = model
        .execute_fenced(request.clone(), vec![share(&first), share(&second)], options, None)
        .unwrap();
    let not_yet = fenced.callback.execution_info().unwrap_err();
    assert_eq!(not_yet.status, ErrorStatus::GeneralFailure, "before completion");
    assert_eq!(as_floats(&output), [0.0; 2], "not started");
    // A fence of ours waits for a fence of ours.
    let after = model
        .execute_fenced(
            request.clone(),
            vec![share(fenced.sync_fence.as_ref().unwrap())],
            options,
            Some(Duration::from_secs(60)),
        )
        .unwrap();
    std::thread::sleep(Duration::from_millis(20));
    signal(&second);
    assert!(wait(&after.sync_fence.unwrap()));
    assert_eq!(as_floats(&output), [2.0, 3.0]);
    let info = fenced.callback.execution_info().unwrap();
    assert!(info.launched.time_in_driver >= 20_000, "from the call: {info:?}");
    assert!(info.fenced.time_in_driver < info.launched.time_in_driver, "from the fence: {info:?}");

    // Never signalled: the deadline ends it, and with it the fence that waits for it.
    let deadline = Some(TimePoint::after(Duration::from_millis(30)));
    let missing = ExecutionOptions { deadline, ..options };
    let never = eventfd(0);
    let fenced = model.execute_fenced(request.clone(), vec![share(&never)], missing, None).unwrap();
    let fence = fenced.sync_fence.unwrap();
    let after = model.execute_fenced(request.clone(), vec![share(&fence)], options, None).unwrap();
    assert!(!wait(&after.sync_fence.unwrap()), "a fence in error passes it on");
    assert!(!wait(&fence));
    let status = fenced.callback.execution_info().unwrap_err().status;
    assert_eq!(status, ErrorStatus::MissedDeadlineTransient);
    assert_eq!(after.callback.execution_info().unwrap_err().status, ErrorStatus::GeneralFailure);

    // In error from the start.
    let refused = model.execute_fenced(request, vec![fence], options, None);
    assert_eq!(refused.map(drop).unwrap_err().status, ErrorStatus::InvalidArgument);
}

#[test]
fn a_memory_cut_short_costs_its_execution_and_no_more() {
    let served = served(ALL);
    let model = prepare(&served.device, add_one(&[4096])).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(4 * 4096).unwrap();
    let input = Memory::from_fd(file.try_clone().unwrap().into(), 0, 4 * 4096, true).unwrap();
    let output = memory(&[0; 4 * 4096]);
    let request = request(&input, &output);
    let options = ExecutionOptions::default();
    model.execute_synchronously(&request, options).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    burst.execute(&request, &options).unwrap().unwrap();
    file.set_len(0).unwrap();
    let status = |result: ExecutionResult| result.unwrap_err().error.status;
    assert_eq!(status(burst.execute(&request, &options).unwrap()), ErrorStatus::GeneralFailure);
    assert!(model.execute_synchronously(&request, options).is_err());
    let good = memory(&[0; 4 * 4096]);
    let request = crate::support::request(&good, &output);
    burst.execute(&request, &options).unwrap().unwrap();
    model.execute_synchronously(&request, options).unwrap();
}

#[test]
fn requests_run_in_parallel_on_one_model() {
    let served = served(ALL);
    let model = prepare(&served.device, add_one(&[64])).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let model = &model;
            scope.spawn(move || {
                let value = f32::from(thread);
                let (input, output) = (floats(&[value; 64]), floats(&[0.0; 64]));
                for _ in 0..50 {
                    let request = request(&input, &output);
                    model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
                    assert_eq!(as_floats(&output), [value + 1.0; 64]);
                }
            });
        }
    });
}

#[test]
fn models_of_every_priority_run_beside_each_other() {
    let served = served(ALL);
    let models: Vec<_> = Priority::ALL
        .iter()
        .map(|&priority| {
            let options = PrepareOptions { priority, ..PrepareOptions::default() };
            prepare_with(&served.device, add_one(&[512]), options).unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for model in &models {
            scope.spawn(move || {
                let (input, output) = (floats(&[1.0; 512]), floats(&[0.0; 512]));
                let request = request(&input, &output);
                for _ in 0..30 {
                    model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
                }
                assert_eq!(as_floats(&output), [2.0; 512]);
            });
        }
    });
}

#[test]
fn a_hardware_buffer_that_is_no_run_of_bytes_is_refused_by_name() {
    let served = served(ALL);
    let handle = |name, size| {
        let fd = Memory::ashmem(64).unwrap().fd().try_clone_to_owned().unwrap();
        Memory::from_handle(name, vec![fd], vec![4, 4, 1, 4], size).unwrap()
    };
    let image = handle("hardware_buffer", 0);
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    let output = floats(&[0.0; 2]);
    let request = request(&image, &output);
    let options = ExecutionOptions::default();
    let refused = |kind: &str, result: ExecutionResult, named: bool| {
        let error = result.unwrap_err().error;
        assert_eq!(error.status, ErrorStatus::GeneralFailure, "{kind}: {error}");
        assert!(!named || error.reason.contains("hardware_buffer"), "{kind}: {error}");
    };
    refused("synchronous", model.execute_synchronously(&request, options), true);
    refused("asynchronous", execute_async(model.as_ref(), &request, options), true);
    let fenced = execute_fenced(model.as_ref(), &request, options).unwrap_err();
    assert_eq!(fenced.status, ErrorStatus::GeneralFailure, "{fenced}");
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    // A packet of a burst answers with a status alone.
    refused("burst", burst.execute(&request, &options).unwrap(), false);

    let mut with_constants = add_one(&[2]);
    with_constants.pools = vec![image];
    let constant = &mut with_constants.main.operands[1];
    constant.lifetime = OperandLifeTime::ConstantReference;
    assert!(prepare(&served.device, with_constants.clone()).is_err(), "its size is unknown");
    // One that lies about its size gets no further.
    with_constants.pools = vec![handle("hardware_buffer", 64)];
    let error = prepare(&served.device, with_constants.clone()).map(drop).unwrap_err();
    assert!(error.reason.contains("hardware_buffer"), "{error}");
    assert_eq!(error.status, ErrorStatus::InvalidArgument);
    let supported = served.device.supported_operations(&with_constants).unwrap();
    assert_eq!(supported, [false], "as preparing has it");

    // A BLOB is bytes like any other.
    with_constants.pools = vec![handle("hardware_buffer_blob", 64)];
    prepare(&served.device, with_constants).unwrap();
}

#[test]
fn a_deadline_ends_an_execution_of_any_kind_between_its_steps() {
    let elements = 1 << 20;
    let status = |run: &dyn Fn(&dyn PreparedModel, &Request, ExecutionOptions) -> ErrorStatus| {
        // A model of its own for each: without a run there is no estimate to refuse it by.
        let served = served(ALL);
        let model = prepare(&served.device, crate::priorities::chain(2000, elements)).unwrap();
        let (request, _memories) = crate::priorities::ones(elements);
        let deadline = Some(TimePoint::after(Duration::from_millis(50)));
        run(model.as_ref(), &request, ExecutionOptions { deadline, ..ExecutionOptions::default() })
    };
    let of = |result: ExecutionResult| result.unwrap_err().error.status;
    let synchronous =
        || status(&|model, request, options| of(model.execute_synchronously(request, options)));
    let asynchronous =
        || status(&|model, request, options| of(execute_async(model, request, options)));
    let fenced = || {
        status(&|model, request, options| {
            execute_fenced(model, request, options).unwrap_err().status
        })
    };
    let burst = || {
        status(&|model, request, options| {
            let extended = ControllerOptions::default();
            let mut burst = BurstController::configure(model, &extended, None).unwrap();
            of(burst.execute(request, &options).unwrap())
        })
    };
    let kinds: [(&str, &dyn Fn() -> ErrorStatus); 4] = [
        ("synchronous", &synchronous),
        ("asynchronous", &asynchronous),
        ("fenced", &fenced),
        ("burst", &burst),
    ];
    for (kind, missed) in kinds {
        // On a machine that had no time for it the deadline passed before the start, which is
        // persistent.
        eventually(kind, || match missed() {
            ErrorStatus::MissedDeadlineTransient => true,
            status => {
                assert_eq!(status, ErrorStatus::MissedDeadlinePersistent, "{kind}");
                false
            }
        });
    }
}
