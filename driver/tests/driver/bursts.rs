//! Bursts over a socket; the conformance suite's checks of them (`ValidateBurst`) on a driver in a
//! process of its own.

use std::time::Duration;

use nnburst_burst::testing::{BareClient, unusable_queues_are_refused};
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::*;
use nnburst_hal_ipc::{Counts, WorkKind};

use crate::budgets::square;
use crate::processes::{connect, spawned, start};
use crate::support::*;

#[test]
fn memories_that_come_and_go_use_slots_anew() {
    let served = served(CPU);
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    let options = ExecutionOptions::default();
    let output = floats(&[0.0; 2]);
    for round in 0..20u8 {
        let value = f32::from(round);
        let input = floats(&[value, -value]);
        burst.execute(&request(&input, &output), &options).unwrap().unwrap();
        assert_eq!(as_floats(&output), [value + 1.0, 1.0 - value], "a slot used anew");
    }
}

#[test]
fn buffers_deadlines_and_frames_travel_in_bursts() {
    let served = served(CPU);
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    let role = BufferRole { model_index: 0, io_index: 0, frequency: 1.0 };
    let models = [std::sync::Arc::clone(&model)];
    let buffer = served.device.allocate(&BufferDesc::default(), &models, &[], &[role]).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    let input = floats(&[1.0, 2.0]);
    let request = Request {
        inputs: vec![argument(0, 8)],
        outputs: vec![argument(1, 0)],
        pools: vec![RequestPool::Memory(input), RequestPool::Token(buffer.token())],
    };
    let mut frame = burst.frame(&request, &ExecutionOptions::default()).unwrap();
    for _ in 0..3 {
        let answer = burst.execute_frame(&mut frame).unwrap();
        assert_eq!(answer.status, ErrorStatus::None);
        assert_eq!(answer.output_shapes[0].dimensions, [2]);
    }
    let copy = floats(&[0.0; 2]);
    buffer.copy_to(&copy).unwrap();
    assert_eq!(as_floats(&copy), [2.0, 3.0]);
    let missed =
        ExecutionOptions { deadline: Some(TimePoint::now()), ..ExecutionOptions::default() };
    assert!(burst.execute(&request, &missed).unwrap().is_err());
    let loop_timeout = Some(Duration::from_secs(1));
    let options = ExecutionOptions { loop_timeout, ..ExecutionOptions::default() };
    burst.execute(&request, &options).unwrap().unwrap();
}

#[test]
fn several_bursts_and_threads_share_a_model() {
    let served = served(CPU);
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u8 {
            let model = model.as_ref();
            scope.spawn(move || {
                let options = ControllerOptions::default();
                let mut burst = BurstController::configure(model, &options, None).unwrap();
                for round in 0..50u8 {
                    let value = f32::from(thread) * 100.0 + f32::from(round);
                    let (input, output) = (floats(&[value; 2]), floats(&[0.0; 2]));
                    let request = request(&input, &output);
                    burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
                    assert_eq!(as_floats(&output), [value + 1.0; 2]);
                }
            });
        }
    });
}

/// The parts of an input of eight values.
const PARTS: usize = 4;

/// An input cut into parts: an answer tells the shape of each.
fn split() -> Model {
    let operand = |dimension, lifetime| tensor(OperandType::TensorFloat32, &[dimension], lifetime);
    let scalar = |offset| {
        let mut operand = Operand::scalar(OperandType::Int32);
        operand.lifetime = OperandLifeTime::ConstantCopy;
        operand.location = DataLocation { pool_index: 0, offset, length: 4 };
        operand
    };
    let mut operands = vec![operand(8, OperandLifeTime::SubgraphInput), scalar(0), scalar(4)];
    operands.extend((0..PARTS).map(|_| operand(2, OperandLifeTime::SubgraphOutput)));
    let values = [0, PARTS as u32].map(u32::to_le_bytes).concat();
    model(operands, OperationType::Split, values)
}

/// A request of [`split`], and the memories of its parts.
fn split_request() -> (Request, Vec<Memory>) {
    let input = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let parts: Vec<_> = (0..PARTS).map(|_| floats(&[0.0; 2])).collect();
    let pools = std::iter::once(&input).chain(&parts).cloned().map(RequestPool::Memory).collect();
    let outputs = (1..).map(|pool| argument(pool, 8)).take(PARTS).collect();
    (Request { inputs: vec![argument(0, 32)], outputs, pools }, parts)
}

#[test]
fn every_mutation_of_a_packet_is_refused_and_survived() {
    let spawned = spawned();
    let model = prepare(spawned.device(), add_one(&[2, 3])).unwrap();
    let (input, output) = (floats(&[1.0; 6]), floats(&[0.0; 6]));
    // With its shapes, so that packets have elements of every kind.
    let mut whole = request(&input, &output);
    whole.inputs[0].dimensions = vec![2, 3];
    whole.outputs[0].dimensions = vec![2, 3];
    BareClient::open(model.as_ref(), &whole, 1024).survives_every_mutation();
    assert_eq!(as_floats(&output), [2.0; 6]);

    let model = prepare(spawned.device(), split()).unwrap();
    let (request, parts) = split_request();
    BareClient::open(model.as_ref(), &request, 1024).survives_every_mutation();
    assert_eq!(as_floats(&parts[3]), [7.0, 8.0]);
}

#[test]
fn an_answer_longer_than_its_queue_is_a_failure_without_shapes() {
    let spawned = spawned();
    let model = prepare(spawned.device(), split()).unwrap();
    let (request, parts) = split_request();
    let mut small = BareClient::open(model.as_ref(), &request, 8);
    for _ in 0..3 {
        small.refuses(&small.valid(), "2 + 2 * 4 elements into 8");
    }
    assert_eq!(as_floats(&parts[3]), [7.0, 8.0], "it was executed");
    // A controller sees a failure, and no reason to take the ordinary path: 7 elements there, 8
    // back.
    let deep = prepare(spawned.device(), add_one(&[1, 1, 1, 1])).unwrap();
    let options = ControllerOptions { queue_elements: 7, ..ControllerOptions::default() };
    let mut burst = BurstController::configure(deep.as_ref(), &options, None).unwrap();
    let one = crate::support::request(&floats(&[1.0]), &floats(&[0.0]));
    let failure = burst.execute(&one, &ExecutionOptions::default()).unwrap().unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::GeneralFailure);
    assert_eq!(failure.output_shapes, []);

    let mut large = BareClient::open(model.as_ref(), &split_request().0, 16);
    assert_eq!(large.works().output_shapes.len(), PARTS);
}

#[test]
fn bytes_that_carry_nothing_are_zero_in_every_answer() {
    let spawned = spawned();
    let model = prepare(spawned.device(), split()).unwrap();
    let mut client = BareClient::open(model.as_ref(), &split_request().0, 1024);
    for _ in 0..3 {
        assert_eq!(client.answers_with_sanitised_padding(), PARTS);
    }
}

#[test]
fn slots_that_are_unknown_or_freed_are_invalid_or_asked_for_again() {
    let spawned = spawned();
    let model = prepare(spawned.device(), add_one(&[2])).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let mut client = BareClient::open(model.as_ref(), &request(&input, &output), 1024);
    client.survives_unknown_slots();
    client.survives_freeing_in_flight();
    assert_eq!(as_floats(&output), [2.0, 3.0]);
}

#[test]
fn an_argument_removed_is_an_invalid_argument_without_fallback() {
    let spawned = spawned();
    let model = prepare(spawned.device(), add_one(&[2])).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let whole = request(&input, &output);
    let measured = ExecutionOptions { measure: MeasureTiming::Yes, ..ExecutionOptions::default() };
    for side in ["input", "output"] {
        let mut request = whole.clone();
        if side == "input" { &mut request.inputs } else { &mut request.outputs }.pop();
        let failure = burst.execute(&request, &measured).expect("no fallback").unwrap_err();
        assert_eq!(failure.error.status, ErrorStatus::InvalidArgument, "{side}");
        assert_eq!(failure.output_shapes, [], "{side}");
        for memory in [&input, &floats(&[0.0]), &input] {
            burst.free_memory(memory);
        }
        let timing = burst.execute(&whole, &measured).unwrap().unwrap().timing;
        assert!(timing.time_on_device <= timing.time_in_driver && timing != Timing::NONE);
    }
}

#[test]
fn queues_that_can_not_be_used_open_no_burst() {
    let spawned = spawned();
    unusable_queues_are_refused(prepare(spawned.device(), add_one(&[2])).unwrap().as_ref());
}

#[test]
fn a_service_tells_of_every_burst_of_every_client() {
    const DEPTH: u32 = 4;
    let dir = tempfile::tempdir().unwrap();
    let _driver = start("driver", dir.path());
    let device = connect(dir.path());
    let other = start("client", dir.path());
    eventually("the other client is at work", || dir.path().join("ready").exists());

    let model = prepare(&device, add_one(&[1 << 16])).unwrap();
    let deep = BurstOptions { extended: true, depth: DEPTH, ..BurstOptions::default() };
    let options = ControllerOptions { burst: deep, ..ControllerOptions::default() };
    let open = || BurstController::configure(model.as_ref(), &options, None).unwrap();
    let (mut quiet, mut busy) = (open(), open());
    let (input, output) = (memory(&vec![0; 4 << 16]), memory(&vec![0; 4 << 16]));
    let request = request(&input, &output);
    quiet.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
    for _ in 0..2 {
        // A call that waits would not send it.
        let mut late = busy.frame(&request, &ExecutionOptions::default()).unwrap();
        late.set_deadline(Some(TimePoint::now()));
        busy.try_submit(late).map_err(|rejected| rejected.why).unwrap();
        busy.wait().unwrap();
    }

    let client = |pid: u32| {
        let statistics = device.statistics().unwrap();
        assert!(statistics.is_whole, "of the driver's own user");
        statistics.clients.into_iter().find(|client| client.pid == pid.cast_signed()).unwrap()
    };
    let look = |pid: u32| -> Vec<_> {
        let works = client(pid).works;
        works.into_iter().filter(|work| work.kind == WorkKind::Burst).collect()
    };
    let us = std::process::id();
    let mut frames: Vec<_> =
        (0..DEPTH).map(|_| busy.frame(&request, &ExecutionOptions::default()).unwrap()).collect();
    eventually("several requests wait", || {
        for frame in frames.drain(..) {
            busy.try_submit(frame).map_err(|rejected| rejected.why).unwrap();
        }
        let seen = look(us).iter().map(|burst| burst.queue_depth).max();
        frames.extend((0..DEPTH).map(|_| busy.wait().unwrap()));
        seen.is_some_and(|depth| depth >= 2)
    });

    let ours = look(us);
    assert_eq!(ours.len(), 2, "{ours:?}");
    for (burst, seen) in [&quiet, &busy].into_iter().zip(&ours) {
        assert_eq!(seen.model, "Add, 65536 to 65536");
        // The last answer may be out before it is counted.
        let stats = burst.stats();
        assert!(seen.times.count() + 1 >= stats.executions(), "{seen:?}");
        assert_eq!(seen.missed_deadlines, stats.missed_deadlines);
        assert_eq!(seen.priority, Some(Priority::Medium));
        let [p50, p99, p999] = [500, 990, 999].map(|share| seen.times.quantile(share));
        let max = seen.times.longest();
        assert!(p50 <= p99 && p99 <= p999 && p999 <= max && max > Duration::ZERO, "{seen:?}");
        // What the client knows besides: where the time went.
        for part in [&stats.latency, &stats.queueing, &stats.driver, &stats.overhead] {
            assert_eq!(part.len(), stats.executions());
        }
    }
    assert_eq!(ours[1].missed_deadlines, 2);
    assert!(busy.stats().queueing.max() > 0 && quiet.stats().driver.max() > 0);
    let theirs = look(other.0.id());
    assert_eq!(theirs.len(), 3, "{theirs:?}");
    assert!(theirs.iter().all(|burst| burst.times.count() > 3), "{theirs:?}");
    assert_eq!(client(other.0.id()).name, client(us).name, "both are this program");
}

#[test]
fn a_service_tells_the_memory_of_each_model() {
    const SIDE: u32 = 256;
    let served = served(CPU);
    let models = [add_one(&[2]), square(SIDE)];
    let models = models.map(|model| prepare(&served.device, model).unwrap());
    let client = served.device.statistics().unwrap().clients.remove(0);
    let memory: Vec<_> = client.works.iter().map(|work| work.memory_bytes.unwrap()).collect();
    let &[small, large] = memory.as_slice() else { panic!("{client:?}") };
    assert!(small < 4096 && large >= u64::from(SIDE * SIDE * 4), "{memory:?}");
    let all = client.uses.iter().find(|it| it.resource == Resource::Memory.name()).unwrap();
    assert!(small + large < all.used, "{memory:?} of {all:?}");
    assert_eq!(client.waiting_calls, 0);
    drop(models);
}

#[test]
fn a_service_tells_of_executions_outside_bursts_and_of_what_it_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _driver = start("driver", dir.path());
    let device = connect(dir.path());
    let seen = || device.statistics().unwrap();
    let (input, output) = (memory(&[0; 8]), memory(&[0; 8]));
    let request = request(&input, &output);
    let model = prepare(&device, add_one(&[2])).unwrap();
    for _ in 0..3 {
        model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
    }
    let late = ExecutionOptions { deadline: Some(TimePoint::now()), ..Default::default() };
    model.execute_synchronously(&request, late).unwrap_err();
    let wrong = Request::default();
    model.execute_synchronously(&wrong, ExecutionOptions::default()).unwrap_err();

    let client = seen().clients.remove(0);
    let [work] = client.works.as_slice() else { panic!("{client:?}") };
    assert_eq!((work.kind, work.model.as_str()), (WorkKind::Model, "Add, 2 to 2"));
    assert_eq!((work.times.count(), work.failures, work.missed_deadlines), (5, 2, 1));
    assert_eq!((work.queue_depth, work.priority), (0, Some(Priority::Medium)));
    let refused = |counts: &Counts| -> u64 { counts.refused.iter().map(|&(_, count)| count).sum() };
    assert_eq!(refused(&client.counts), 2, "{client:?}");
    let memory = client.uses.iter().find(|it| it.resource == Resource::Memory.name()).unwrap();
    assert!(memory.used > 0 && memory.limit.is_some_and(|limit| limit > memory.used), "{memory:?}");

    // What is gone stays in the sums: of the client, and of the service.
    drop(model);
    eventually("the model is let go", || seen().clients[0].works.is_empty());
    assert_eq!(seen().clients[0].counts.times.count(), 5);
    let second = connect(dir.path());
    drop(device);
    let seen = || second.statistics().unwrap();
    eventually("the client is gone", || seen().clients.len() == 1);
    let counts = seen().counts;
    assert_eq!((counts.times.count(), counts.failures, refused(&counts)), (5, 2, 2));
}
