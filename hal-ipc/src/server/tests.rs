//! Codes that name nothing, straight over a socket: no client of ours can send them.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nnburst_hal::testing::{ReluDriver, relu_model, relu_request};
use nnburst_hal::{
    Amounts, Budget, Device, ErrorStatus, ExecutionOptions, ExecutionPreference, MeasureTiming,
    Model, OperandLifeTime, OperandType, OperationType, PrepareOptions, Priority,
};

use super::{Peer, Service};
use crate::limits::{ServiceLimits, UserLimits};
use crate::socket::{Socket, greet};
use crate::wire::{
    self, CacheBody, CallRef, DescriptorsOut, Failure, Kind, ModelRef, RequestBody, Verdict,
};

/// What a service answers to a call.
fn answer(message: &[u8]) -> Result<(), Failure> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let device: Arc<dyn Device> = Arc::new(ReluDriver);
    let service = Service::new("codes", move |_: &Peer| Arc::clone(&device));
    let serving = std::thread::spawn(move || service.serve(theirs.into()));
    let socket = Socket::new(OwnedFd::from(ours), 1 << 20).unwrap();
    greet(&socket, std::time::Duration::from_secs(60)).unwrap();
    socket.send(Kind::Call, 7, [message, &[]], &[]).unwrap();
    let budget = Budget::root("test", Amounts::UNLIMITED);
    let frame = loop {
        let frame = socket.receive(&budget).unwrap();
        if frame.kind == Kind::Answer {
            break frame;
        }
    };
    assert_eq!(frame.id, 7);
    drop(socket);
    serving.join().unwrap();
    wire::decode_all(&frame.payload).unwrap()
}

#[test]
fn a_service_managers_socket_is_not_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let device: Arc<dyn Device> = Arc::new(ReluDriver);
    let service = Service::new("managed", move |_: &Peer| Arc::clone(&device));
    let socket = UnixListener::bind(dir.path().join("managed.sock")).unwrap();
    let _serving = service.listen_on(socket.into()).unwrap();
    let refused = service.take_over(dir.path()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
    assert!(refused.to_string().contains("a service manager made"), "{refused}");
}

#[test]
fn a_service_is_taken_over_and_knows_it() {
    let dir = tempfile::tempdir().unwrap();
    let service = || {
        let device: Arc<dyn Device> = Arc::new(ReluDriver);
        Service::new("one", move |_: &Peer| Arc::clone(&device))
    };
    let first = service().listen(dir.path()).unwrap();
    service().listen(dir.path()).unwrap_err();
    let second = service().take_over(dir.path()).unwrap().accept().unwrap();
    first.succession().wait();
    assert_eq!(first.succession().wait_for_clients(std::time::Duration::ZERO), 0);
    drop(first);
    assert!(second.path().exists(), "it is the second's");
    // A name that nobody has is taken over, too.
    drop(second);
    drop(service().take_over(dir.path()).unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

fn prepare(model: &Model, options: PrepareOptions) -> Vec<u8> {
    let mut fds = DescriptorsOut::default();
    let cache = CacheBody::new(&Default::default(), &mut DescriptorsOut::default()).unwrap();
    let model = ModelRef::new(model, &mut fds).unwrap();
    wire::encode(&CallRef::PrepareModel { model, options, cache, callback: 1 }).unwrap()
}

/// The message with another code where two messages differ by a code alone.
fn with_code([one, other]: [Vec<u8>; 2], code: &[u8]) -> Vec<u8> {
    let mut differ = (0..one.len()).filter(|&at| one[at] != other[at]);
    let at = differ.next().unwrap();
    assert!(differ.next().is_none() && one.len() == other.len(), "they differ by a code");
    [&one[..at], code, &one[at + 1..]].concat()
}

#[test]
fn codes_out_of_range_are_invalid_arguments() {
    let good = relu_model(&[2]);
    let options = |preference, priority| {
        let options = PrepareOptions { preference, priority, deadline: None };
        prepare(&good, options)
    };
    let (quick, slow) = (ExecutionPreference::FastSingleAnswer, ExecutionPreference::LowPower);
    let preferences = [options(quick, Priority::High), options(slow, Priority::High)];
    let priorities = [options(quick, Priority::High), options(quick, Priority::Low)];
    let changed = |change: &dyn Fn(&mut Model)| {
        let mut model = good.clone();
        change(&mut model);
        [&good, &model].map(|model| prepare(model, PrepareOptions::default()))
    };
    let kinds = changed(&|m| m.main.operands[0].kind = OperandType::TensorInt32);
    let lifetimes = changed(&|m| m.main.operands[0].lifetime = OperandLifeTime::NoValue);
    let operations = changed(&|m| m.main.operations[0].kind = OperationType::Tanh);
    let (request, _memory) = relu_request(&[1.0]).unwrap();
    let measures = [MeasureTiming::No, MeasureTiming::Yes].map(|measure| {
        let request = RequestBody::new(&request, &mut DescriptorsOut::default()).unwrap();
        let options = ExecutionOptions { measure, ..ExecutionOptions::default() };
        wire::encode(&CallRef::ExecuteSynchronously { model: 1, request, options }).unwrap()
    });
    assert_eq!(answer(&preferences[0]).map_err(|failure| failure.error), Ok(()), "a good one");
    let signed = |code: i32| wire::encode(&code).unwrap();
    // Types of operands and operations have extensions above them, and no sign.
    let unsigned = |code: i32| wire::encode(&code.cast_unsigned()).unwrap();
    type Encode<'a> = &'a dyn Fn(i32) -> Vec<u8>;
    let cases: [(&str, _, Encode<'_>, &[i32]); 6] = [
        ("execution preference", &preferences, &signed, &[-1, 3]),
        ("priority", &priorities, &signed, &[-1, 3]),
        ("operand type", &kinds, &unsigned, &[16, 9999, 10002]),
        ("operand lifetime", &lifetimes, &signed, &[-1, 7]),
        ("operation", &operations, &unsigned, &[102, 9999, 10001]),
        ("measure timing", &measures, &signed, &[-1, 2]),
    ];
    for (what, messages, encode, codes) in cases {
        for &code in codes {
            let refused = answer(&with_code(messages.clone(), &encode(code))).unwrap_err();
            assert_eq!(refused.error.status, ErrorStatus::InvalidArgument, "{what} {code}");
            let reason = &refused.error.reason;
            assert!(reason.contains(&code.to_string()), "{what} {code}: {reason}");
        }
    }
}

#[test]
fn a_place_comes_back_when_all_that_works_for_its_client_has_ended() {
    let working = Arc::new(Mutex::new(None));
    let device: Arc<dyn Device> = Arc::new(ReluDriver);
    let works = Arc::clone(&working);
    let driver = move |peer: &Peer| {
        *works.lock().unwrap() = Some(peer.clone());
        Arc::clone(&device)
    };
    let service = Service::new("places", driver);
    let user = UserLimits { clients: 1, ..UserLimits::default() };
    service.set_limits(ServiceLimits { user, ..ServiceLimits::default() });
    let connect = || {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let service = service.clone();
        let serving = std::thread::spawn(move || service.serve(theirs.into()));
        let socket = Socket::new(OwnedFd::from(ours), 1 << 20).unwrap();
        let greeted = greet(&socket, std::time::Duration::from_secs(60))
            .is_ok_and(|(_, verdict)| verdict == Verdict::Welcome);
        (greeted, socket, serving)
    };
    let leave = |(greeted, socket, serving): (bool, Socket, JoinHandle<()>)| {
        drop(socket);
        serving.join().unwrap();
        greeted
    };
    let first = connect();
    assert!(first.0);
    assert!(!leave(connect()), "one too many");
    leave(first);
    assert!(!leave(connect()), "the driver works on for the one that left");
    *working.lock().unwrap() = None;
    assert!(leave(connect()));
}
