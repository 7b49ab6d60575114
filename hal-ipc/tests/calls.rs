//! Every call and callback through a socket, against a driver that does little.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a test that stumbles fails"
)]

mod common;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::*;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nnburst_hal::*;
use nnburst_hal_ipc::{RemoteDevice, ServiceLimits, Serving};

struct Rig {
    device: RemoteDevice,
    objects: Arc<AtomicUsize>,
    serving: Option<Serving>,
    _dir: tempfile::TempDir,
}

fn rig() -> Rig {
    rig_with(ServiceLimits::default())
}

fn rig_with(limits: ServiceLimits) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let (service, objects) = service(limits);
    let serving = service.listen(dir.path()).unwrap();
    let device = RemoteDevice::connect_path(&serving.path()).unwrap();
    Rig { device, objects, serving: Some(serving), _dir: dir }
}

#[test]
fn queries_are_answered() {
    let Rig { device, .. } = &rig();
    assert_eq!(device.name(), "add-one");
    assert_eq!(device.capabilities(), AddOneDevice::default().capabilities());
    assert_eq!(device.version_string().unwrap(), "1+1");
    assert_eq!(device.device_type().unwrap(), DeviceType::Cpu);
    assert_eq!(device.status().unwrap(), DeviceStatus::Available);
    assert_eq!(
        device.supported_extensions().unwrap_err(),
        HalError::failure("no extensions today")
    );
    assert_eq!(device.number_of_cache_files_needed().unwrap(), CacheFiles { model: 1, data: 2 });
    assert_eq!(device.supported_operations(&model()).unwrap(), [true], "constants arrive");
}

#[test]
fn a_preparation_ends_with_one_word_on_every_path() {
    let rig = rig();
    struct Case {
        what: &'static str,
        model: Model,
        launch: Option<ErrorStatus>,
        end: Option<ErrorStatus>,
    }
    let refused = Some(ErrorStatus::InvalidArgument);
    let cases = [
        Case { what: "good", model: model(), launch: None, end: None },
        Case { what: "refused", model: Model::default(), launch: refused, end: refused },
        Case {
            what: "forgotten by the driver",
            model: Model { relax_computation_float32_to_float16: true, ..model() },
            launch: None,
            end: Some(ErrorStatus::GeneralFailure),
        },
    ];
    for Case { what, model, launch, end } in cases {
        let (callback, words) = tell();
        let launched = rig.device.prepare_model(
            model,
            PrepareOptions::default(),
            CacheHandles::default(),
            callback,
        );
        assert_eq!(launched.err().map(|error| error.status), launch, "{what}");
        let word = words.recv_timeout(HUNG).unwrap();
        assert_eq!(word.err().map(|error| error.status), end, "{what}");
        assert!(
            words.recv_timeout(HUNG).is_err(),
            "{what}: the callback is dropped after one word"
        );
    }
    let (callback, words) = tell();
    let launched = rig.device.prepare_model_from_cache(None, CacheHandles::default(), callback);
    assert_eq!(launched.unwrap_err(), HalError::failure("nothing is cached"));
    assert!(words.recv_timeout(HUNG).unwrap().is_err());
}

#[test]
fn cache_files_arrive_in_order() {
    let rig = rig();
    let files =
        [Memory::ashmem(8).unwrap(), Memory::ashmem(8).unwrap(), Memory::ashmem(8).unwrap()];
    let mut fds = files.iter().map(|file| file.fd().try_clone_to_owned().unwrap());
    let cache = CacheHandles {
        model: vec![fds.next().unwrap()],
        data: fds.collect(),
        token: [9; CACHE_TOKEN_BYTES],
    };
    wait_for_prepared_model(|callback| {
        rig.device.prepare_model(model(), PrepareOptions::default(), cache, callback)
    })
    .unwrap();
    let contents: Vec<_> = files.iter().map(|file| content(file)[..2].to_vec()).collect();
    assert_eq!(contents, [[0, 0], [9, 9], [9, 9]]);
}

#[test]
fn executions_of_every_kind_give_the_same_bytes() {
    let rig = rig();
    let model = prepare(&rig.device, model()).unwrap();
    let (input, output) = (memory(&[1, 2, 3]), memory(&[0; 3]));
    let request = request(&input, &output);
    let options = ExecutionOptions::default();
    let check = |what, outcome: ExecutionOutcome| {
        assert_eq!(content(&output), [2, 3, 4], "{what}");
        assert_eq!(outcome.output_shapes[0].dimensions, [3], "{what}");
        assert_eq!(outcome.timing, Timing { time_on_device: 3, time_in_driver: 4 }, "{what}");
        output.map(Access::ReadWrite).unwrap().view_mut(0..3).unwrap().copy_from_slice(&[0; 3]);
    };
    check("synchronous", model.execute_synchronously(&request, options).unwrap());

    let (callback, words) = tell();
    model.execute(request.clone(), options, callback).unwrap();
    check("asynchronous", words.recv_timeout(HUNG).unwrap().unwrap());
    assert!(words.recv_timeout(HUNG).is_err(), "one word");

    let fence = EventFd::from_value_and_flags(1, EfdFlags::EFD_CLOEXEC).unwrap().into();
    let duration = Some(Duration::from_nanos(1_000_000_005));
    let fenced = model.execute_fenced(request, vec![fence], options, duration).unwrap();
    let signal = fenced.sync_fence.unwrap();
    let mut fds = [PollFd::new(signal.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::NONE).unwrap(), 1);
    assert_eq!(content(&output), [2, 3, 4]);
    let info = fenced.callback.execution_info().unwrap();
    assert_eq!(info.launched, Timing { time_on_device: 1, time_in_driver: 2 });
    assert_eq!(info.fenced, Timing::NONE);
}

#[test]
fn shapes_come_with_insufficient_outputs() {
    let rig = rig();
    let model = prepare(&rig.device, model()).unwrap();
    let failure =
        model.execute_synchronously(&Request::default(), ExecutionOptions::default()).unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::OutputInsufficientSize);
    assert_eq!(failure.output_shapes[0].dimensions, [7]);
}

#[test]
fn buffers_are_copied_both_ways_and_belong_to_their_client() {
    let rig = rig();
    let model = prepare(&rig.device, model()).unwrap();
    let desc = BufferDesc::default();
    let buffer = rig.device.allocate(&desc, &[Arc::clone(&model)], &[], &[]).unwrap();
    assert_eq!(buffer.token(), 42);
    buffer.copy_from(&memory(b"wxyz"), &[2, 2]).unwrap();
    let out = memory(b"....");
    buffer.copy_to(&out).unwrap();
    assert_eq!(content(&out), b"wxyz");
    assert_eq!(buffer.copy_to(&memory(b".")).unwrap_err(), HalError::invalid("sizes differ"));

    let with_token =
        |token| Request { pools: vec![RequestPool::Token(token)], ..Request::default() };
    let status = |model: &Arc<dyn PreparedModel>, token| {
        let request = with_token(token);
        model.execute_synchronously(&request, ExecutionOptions::default()).unwrap_err().error.status
    };
    assert_eq!(status(&model, 42), ErrorStatus::OutputInsufficientSize, "reaches the driver");
    assert_eq!(status(&model, 41), ErrorStatus::InvalidArgument, "no such buffer");
    let other = RemoteDevice::connect_path(&rig.serving.as_ref().unwrap().path()).unwrap();
    let others = prepare(&other, common::model()).unwrap();
    assert_eq!(status(&others, 42), ErrorStatus::InvalidArgument, "another client's");
    let refused = other.allocate(&desc, &[model], &[], &[]).map(drop).unwrap_err();
    assert_eq!(refused, HalError::invalid("model 0 is not of this device"));
}

#[test]
fn objects_live_as_long_as_the_client_holds_them() {
    let rig = rig();
    let live = || rig.objects.load(Ordering::SeqCst);
    let model = prepare(&rig.device, model()).unwrap();
    let other = prepare(&rig.device, common::model()).unwrap();
    let buffer = rig.device.allocate(&BufferDesc::default(), &[], &[], &[]).unwrap();
    assert_eq!(live(), 3);
    drop(model);
    eventually("the dropped model is freed", || live() == 2);
    drop(buffer);
    eventually("the dropped buffer is freed", || live() == 1);
    assert_eq!(run(other.as_ref(), &[5]), [6], "the other lives on");
    let path = rig.serving.as_ref().unwrap().path();
    let client = RemoteDevice::connect_path(&path).unwrap();
    let theirs = prepare(&client, common::model()).unwrap();
    assert_eq!(live(), 2);
    drop(client);
    assert_eq!(run(theirs.as_ref(), &[5]), [6], "a model outlives its device object");
    drop(theirs);
    eventually("a client that disconnects leaves nothing", || live() == 1);
}

#[test]
fn threads_share_a_connection() {
    let rig = rig();
    let model = prepare(&rig.device, model()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let model = &model;
            scope.spawn(move || {
                for round in 0..50 {
                    assert_eq!(run(model.as_ref(), &[thread, round]), [thread + 1, round + 1]);
                }
            });
        }
    });
}

#[test]
fn a_panicking_driver_answers_and_goes_on() {
    let rig = rig();
    let model = prepare(&rig.device, model()).unwrap();
    let (input, output) = (memory(&[254]), memory(&[0]));
    let failure = model
        .execute_synchronously(&request(&input, &output), ExecutionOptions::default())
        .unwrap_err();
    assert_eq!(failure.error, HalError::failure("the driver panicked over the call"));
    assert_eq!(run(model.as_ref(), &[1]), [2]);
}

#[test]
fn limits_are_per_client_and_give_way_when_something_is_given_back() {
    let mut limits = ServiceLimits::default();
    limits.connection.models = 1;
    limits.connection.buffers = 1;
    limits.connection.memory_bytes = 10_000;
    limits.connection.message_bytes = 1000;
    let rig = rig_with(limits);
    let status = |result: Result<Arc<dyn PreparedModel>>| result.err().unwrap().status;
    let first = prepare(&rig.device, model()).unwrap();
    assert_eq!(status(prepare(&rig.device, model())), ErrorStatus::ResourceExhaustedTransient);
    let path = rig.serving.as_ref().unwrap().path();
    let other = RemoteDevice::connect_path(&path).unwrap();
    prepare(&other, model()).unwrap();
    drop(first);
    eventually("there is room again", || prepare(&rig.device, model()).is_ok());
    let large = Model { pools: vec![memory(&[0; 20_000])], ..model() };
    eventually("a model that never fits", || {
        status(prepare(&rig.device, large.clone())) == ErrorStatus::ResourceExhaustedPersistent
    });
    let desc = BufferDesc::default();
    let kept = rig.device.allocate(&desc, &[], &[], &[]).unwrap();
    let refused = rig.device.allocate(&desc, &[], &[], &[]).map(drop).unwrap_err();
    assert_eq!(refused.status, ErrorStatus::ResourceExhaustedTransient);
    drop(kept);
}

#[test]
fn connections_are_limited_per_user() {
    let mut limits = ServiceLimits::default();
    limits.user.clients = 1;
    let rig = rig_with(limits);
    let path = rig.serving.as_ref().unwrap().path();
    let refused = RemoteDevice::connect_path(&path).unwrap_err();
    assert_eq!(HalError::from(refused).status, ErrorStatus::ResourceExhaustedTransient);
    drop(rig.device);
    eventually("the place is free again", || RemoteDevice::connect_path(&path).is_ok());
}

#[test]
fn a_stopped_service_fails_what_waits_and_can_be_found_again() {
    let mut rig = rig();
    let model = prepare(&rig.device, model()).unwrap();
    let watch = rig.device.peer_watch_fd().unwrap();
    let path = rig.serving.as_ref().unwrap().path();
    drop(rig.serving.take());
    let error = rig.device.status().unwrap_err();
    assert_eq!(error.status, ErrorStatus::DeviceUnavailable, "{error}");
    let flags = PollFlags::from_bits_retain(libc::POLLRDHUP);
    let mut fds = [PollFd::new(watch.as_fd(), flags)];
    assert_eq!(poll(&mut fds, PollTimeout::NONE).unwrap(), 1, "the watched socket hung up");
    let (callback, words) = tell();
    let (input, output) = (memory(&[1]), memory(&[0]));
    let request = request(&input, &output);
    let launched = model.execute(request, ExecutionOptions::default(), callback);
    assert_eq!(launched.unwrap_err().status, ErrorStatus::DeviceUnavailable);
    assert!(words.recv_timeout(HUNG).unwrap().is_err());

    let (service, _) = service(ServiceLimits::default());
    let serving = service.listen(path.parent().unwrap()).unwrap();
    assert_eq!(rig.device.status().unwrap(), DeviceStatus::Available, "connected again");
    assert_eq!(run(prepare(&rig.device, common::model()).unwrap().as_ref(), &[1]), [2]);
    let failure = model.execute_synchronously(&Request::default(), ExecutionOptions::default());
    let status = failure.unwrap_err().error.status;
    assert_eq!(status, ErrorStatus::DeviceUnavailable, "what died stays dead");
    drop(serving);
}

#[test]
fn a_read_only_file_and_a_memory_used_twice_arrive() {
    let rig = rig();
    let model = prepare(&rig.device, model()).unwrap();
    let whole = memory(&[0, 10, 20, 30]);
    let part = Memory::from_fd(whole.fd().try_clone_to_owned().unwrap(), 1, 2, false).unwrap();
    let output = memory(&[0; 2]);
    model.execute_synchronously(&request(&part, &output), ExecutionOptions::default()).unwrap();
    assert_eq!(content(&output), [11, 21]);
    model.execute_synchronously(&request(&output, &output), ExecutionOptions::default()).unwrap();
    assert_eq!(content(&output), [12, 22]);
    assert!(whole.fd().as_fd().try_clone_to_owned().is_ok());
}

#[test]
fn who_connects_and_says_little_keeps_nobody_out() {
    use std::io::{Read, Write};
    let mut limits = ServiceLimits::default();
    limits.user.clients = 4;
    let rig = rig_with(limits);
    let path = rig.serving.as_ref().unwrap().path();
    let slow = || {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        stream.write_all(b"N").unwrap();
        stream
    };
    let slow: Vec<_> = (0..20).map(|_| slow()).collect();
    let device = RemoteDevice::connect_path(&path).unwrap();
    device.status().unwrap();
    // The oldest were told why, and disconnected.
    let (mut oldest, mut said) = (slow.first().unwrap(), Vec::new());
    let _ = oldest.read_to_end(&mut said);
    assert!(!said.is_empty(), "a refusal");
    device.status().unwrap();
}
