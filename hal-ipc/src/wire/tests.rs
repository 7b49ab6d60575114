//! Golden bytes, and what becomes of bytes that aren't.

use std::time::Duration;

use nnburst_fmq::{Descriptor, DescriptorData, Grantor};
use nnburst_hal::{
    BufferDesc, BufferRole, BurstFigures, BurstOptions, BurstTerms, DataLocation, ErrorStatus,
    ExecutionOptions, ExecutionOutcome, HalError, LatencyRecorder, Memory, Model, Operand,
    OperandLifeTime, OperandType, Operation, OperationType, OutputShape, PrepareOptions, Priority,
    Request, RequestArgument, RequestPool, Subgraph, TimePoint, Timing,
};
use proptest::prelude::*;

use super::*;
use crate::server::{
    ClientStatistics, Counts, ResourceUse, ServiceStatistics, WorkKind, WorkStatistics,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn greeting_and_header_are_pinned() {
    assert_eq!(
        hex(&greeting(Verdict::TooMany)),
        "4e4e42555253540003000000".to_owned() + "02000000"
    );
    let verdicts = [
        Verdict::Welcome,
        Verdict::OtherVersion,
        Verdict::TooMany,
        Verdict::Succession,
        Verdict::Denied,
    ];
    for (code, verdict) in (0u8..).zip(verdicts) {
        let bytes = greeting(verdict);
        assert_eq!((bytes[12], parse_greeting(&bytes)), (code, Ok((3, verdict))));
    }
    let mut unknown = greeting(Verdict::Denied);
    unknown[12] = 5;
    assert_eq!(parse_greeting(&unknown), Err(WireError::Verdict { code: 5 }));
    let header = Header { bytes: 0x0102, descriptors: 3, kind: Kind::Answer, id: 0x0908_0706 };
    assert_eq!(hex(&header.to_bytes()), "0201000003000200".to_owned() + "0607080900000000");
    assert_eq!(Header::parse(header.to_bytes(), 0x0102), Ok(header));
}

#[test]
fn headers_that_lie_are_refused() {
    let mut bytes = Header { bytes: 9, descriptors: 0, kind: Kind::Call, id: 1 }.to_bytes();
    assert_eq!(Header::parse(bytes, 8), Err(WireError::TooLong { bytes: 9, limit: 8 }));
    bytes[6] = 6;
    assert_eq!(Header::parse(bytes, 9), Err(WireError::Kind { code: 6 }));
    assert_eq!(parse_greeting(b"GET / HTTP/1.1\r\n"), Err(WireError::NotOurs));
}

fn model() -> Model {
    let tensor =
        |lifetime| Operand::tensor(OperandType::TensorFloat32, vec![300]).with_lifetime(lifetime);
    Model {
        main: Subgraph {
            operands: vec![
                tensor(OperandLifeTime::SubgraphInput).with_quantization(0.5, -3),
                tensor(OperandLifeTime::SubgraphOutput),
            ],
            operations: vec![Operation {
                kind: OperationType::Relu,
                inputs: vec![0],
                outputs: vec![1],
            }],
            input_indexes: vec![0],
            output_indexes: vec![1],
        },
        operand_values: vec![7; 5],
        relax_computation_float32_to_float16: true,
        ..Model::default()
    }
}

/// Every message, one a line: name and bytes. To change a line is to change the protocol: raise
/// [`PROTOCOL_VERSION`] with it.
#[test]
fn messages_are_pinned() {
    let made: String = calls()
        .into_iter()
        .chain(answers_and_events())
        .map(|(what, bytes)| format!("{what} {}\n", hex(&bytes)))
        .collect();
    assert_eq!(made, include_str!("golden.txt"));
}

fn calls() -> Vec<(&'static str, Vec<u8>)> {
    let memory = Memory::ashmem(300).unwrap();
    let argument = RequestArgument {
        location: DataLocation { pool_index: 1, offset: 2, length: 3 },
        dimensions: vec![4],
        has_no_value: false,
    };
    let pools = vec![RequestPool::Memory(memory.clone()), RequestPool::Token(5)];
    let request = Request { inputs: vec![argument], outputs: vec![], pools };
    let request = RequestBody::new(&request, &mut DescriptorsOut::default()).unwrap();
    let deadline = Some(TimePoint { nanoseconds: 6 });
    let options = ExecutionOptions { deadline, ..ExecutionOptions::default() };
    let prepare = PrepareOptions::default();
    let model = model();
    let graph = || ModelRef::new(&model, &mut DescriptorsOut::default()).unwrap();
    let body = || DescriptorsOut::default().memory(&memory).unwrap();
    let cache = || CacheBody::new(&Default::default(), &mut DescriptorsOut::default()).unwrap();
    let duration = Some(Duration::new(1, 2));
    let roles = vec![BufferRole { model_index: 1, io_index: 2, frequency: 0.5 }];
    let desc = BufferDesc { dimensions: vec![3] };
    let grantor = Grantor { flags: 0, fd_index: 1, offset: 2, extent: 3 };
    let data = DescriptorData { grantors: vec![grantor], quantum: 24, flags: 1 };
    let queue = Descriptor { data, fds: vec![] };
    let queue = QueueBody::new(&queue, &mut DescriptorsOut::default()).unwrap();
    let call = |call: CallRef<'_>| encode(&call).unwrap();
    vec![
        ("name", call(CallRef::Name)),
        ("statistics", call(CallRef::Statistics)),
        ("interface_version", call(CallRef::InterfaceVersion)),
        ("capabilities", call(CallRef::Capabilities)),
        ("version_string", call(CallRef::VersionString)),
        ("device_type", call(CallRef::DeviceType)),
        ("status", call(CallRef::Status)),
        ("supported_extensions", call(CallRef::SupportedExtensions)),
        ("number_of_cache_files_needed", call(CallRef::NumberOfCacheFilesNeeded)),
        (
            "prepare_model_from_cache",
            call(CallRef::PrepareModelFromCache { deadline, cache: cache(), callback: 9 }),
        ),
        (
            "allocate",
            call(CallRef::Allocate {
                desc,
                models: vec![1],
                input_roles: vec![],
                output_roles: roles,
            }),
        ),
        (
            "execute_synchronously",
            call(CallRef::ExecuteSynchronously { model: 8, request: request.clone(), options }),
        ),
        (
            "execute",
            call(CallRef::Execute { model: 8, request: request.clone(), options, callback: 2 }),
        ),
        (
            "execute_fenced",
            call(CallRef::ExecuteFenced {
                model: 8,
                request,
                wait_for: vec![1],
                options,
                duration,
            }),
        ),
        ("execution_info", call(CallRef::ExecutionInfo { fenced: 3 })),
        ("copy_to", call(CallRef::CopyTo { buffer: 3, destination: body() })),
        (
            "copy_from",
            call(CallRef::CopyFrom { buffer: 3, source: body(), dimensions: vec![1, 2] }),
        ),
        (
            "configure_burst",
            call(CallRef::ConfigureBurst {
                model: 1,
                callback: 2,
                requests: queue.clone(),
                results: queue,
                options: BurstOptions::default(),
            }),
        ),
        ("free_memory", call(CallRef::FreeMemory { burst: 3, slot: -1 })),
        ("burst_figures", call(CallRef::BurstFigures { burst: 3 })),
        ("release", call(CallRef::Release { object: 1000 })),
        ("supported_operations", call(CallRef::SupportedOperations { model: graph() })),
        (
            "prepare_model",
            call(CallRef::PrepareModel {
                model: graph(),
                options: prepare,
                cache: cache(),
                callback: 4,
            }),
        ),
        ("trace", call(CallRef::Trace { file: 1 })),
    ]
}

fn statistics() -> ServiceStatistics {
    let times = LatencyRecorder::default();
    times.record(Duration::from_micros(100));
    let times = times.snapshot();
    let refused = vec![(ErrorStatus::InvalidArgument, 2)];
    let counts = Counts { failures: 2, missed_deadlines: 1, times: times.clone(), refused };
    let resource = "bytes of memory".to_owned();
    let uses = vec![ResourceUse { resource, used: 300, limit: Some(400), refused: 1 }];
    let (model, age) = ("Add, 2 to 2".to_owned(), Duration::from_secs(1));
    let (kind, priority) = (WorkKind::Burst, Some(Priority::Medium));
    let (object, queue_depth, failures, missed_deadlines) = (1, 2, 3, 4);
    let work = WorkStatistics {
        kind,
        object,
        model,
        priority,
        queue_depth,
        memory_bytes: Some(5),
        age,
        failures,
        missed_deadlines,
        times,
    };
    let client = ClientStatistics {
        connection: 1,
        pid: 2,
        uid: 3,
        name: "camera".to_owned(),
        age,
        uses: uses.clone(),
        counts: counts.clone(),
        waiting_calls: 1,
        works: vec![work],
    };
    let (pid, is_whole, clients, left_out) = (1000, true, vec![client], 0);
    ServiceStatistics { pid, age, is_whole, uses, counts, clients, left_out }
}

fn answers_and_events() -> Vec<(&'static str, Vec<u8>)> {
    let output_shapes = vec![OutputShape { dimensions: vec![1, 300], is_sufficient: true }];
    let timing = Timing { time_on_device: 1, time_in_driver: u64::MAX };
    let error = HalError::new(ErrorStatus::InvalidArgument, "no");
    let answer: Result<_, Failure> = Ok(ExecutionOutcome { output_shapes, timing });
    let refusal: Result<(), Failure> = Err(error.clone().into());
    let executed = CallbackEvent::Executed { callback: 7, result: Err(error.into()) };
    vec![
        ("answer:outcome", encode(&answer).unwrap()),
        ("answer:refusal", encode(&refusal).unwrap()),
        ("answer:fence", encode(&FencedBody { object: 1, fence: Some(0) }).unwrap()),
        ("answer:burst", encode(&BurstBody { object: 1, terms: BurstTerms::default() }).unwrap()),
        ("answer:trace", encode(&TraceBody { object: 1 }).unwrap()),
        ("answer:statistics", encode(&statistics()).unwrap()),
        ("answer:figures", encode(&BurstFigures::default()).unwrap()),
        (
            "event:prepared",
            encode(&CallbackEvent::Prepared { callback: 7, result: Ok(8) }).unwrap(),
        ),
        ("event:executed", encode(&executed).unwrap()),
        (
            "question:memories",
            encode(&Question::Memories { callback: 7, slots: vec![-1, 2] }).unwrap(),
        ),
    ]
}

#[test]
fn a_model_arrives_as_it_left() {
    let sent = Model { pools: vec![Memory::ashmem(9).unwrap()], ..model() };
    let mut out = DescriptorsOut::default();
    let call = CallRef::SupportedOperations { model: ModelRef::new(&sent, &mut out).unwrap() };
    let mut bytes = encode(&call).unwrap();
    bytes.extend(&sent.operand_values);
    let fds = out.as_slice().iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    let (call, tail) = decode(&bytes).unwrap();
    let Call::SupportedOperations { model } = call else { panic!("another call: {call:?}") };
    let came = model.into_model(tail.to_vec(), &mut DescriptorsIn::uncharged(fds)).unwrap();
    assert_eq!(came.main, sent.main);
    assert_eq!(came.operand_values, sent.operand_values);
    assert_eq!(came.pools[0].size(), 9);
    assert!(came.relax_computation_float32_to_float16);
}

/// Decodes `bytes` as bincode does, or fails where it does: for want of room too.
fn as_bincode_does<T: DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) {
    let seen = |decoded: Result<(T, usize), bool>| {
        decoded.map(|(message, used)| (format!("{message:?}"), used))
    };
    let ours = |limit| {
        seen(match decode_within(bytes, limit) {
            Ok((message, tail)) => Ok((message, bytes.len() - tail.len())),
            Err(error) => Err(error == DecodeError::LimitExceeded),
        })
    };
    let theirs = |error| matches!(error, bincode::error::DecodeError::LimitExceeded);
    let config = bincode::config::standard().with_limit::<MAX_MESSAGE_BYTES>();
    let decoded = bincode::serde::decode_from_slice(bytes, config).map_err(theirs);
    assert_eq!(ours(MAX_MESSAGE_BYTES), seen(decoded), "{}", hex(bytes));
    let config = bincode::config::standard().with_limit::<60>();
    let decoded = bincode::serde::decode_from_slice(bytes, config).map_err(theirs);
    assert_eq!(ours(60), seen(decoded), "60 bytes of {}", hex(bytes));
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        as_bincode_does::<Call>(&bytes);
        as_bincode_does::<CallbackEvent>(&bytes);
        as_bincode_does::<Question>(&bytes);
        as_bincode_does::<Result<ExecutionOutcome, Failure>>(&bytes);
        as_bincode_does::<(i8, f64, Option<bool>, i64, (), u16, String)>(&bytes);
    }

    #[test]
    fn a_message_with_a_byte_changed_is_what_it_is_to_bincode(
        which in 0usize..64,
        at in 0usize..400,
        to in any::<u8>(),
    ) {
        let calls = calls();
        let mut bytes = calls[which % calls.len()].1.clone();
        as_bincode_does::<Call>(&bytes);
        let at = at % bytes.len();
        bytes[at] = to;
        as_bincode_does::<Call>(&bytes);
        bytes.truncate(at);
        as_bincode_does::<Call>(&bytes);
        as_bincode_does::<ServiceStatistics>(&encode(&statistics()).unwrap());
    }

    #[test]
    fn a_model_with_a_byte_changed_is_refused_or_another_model(at in 0usize..120, to in any::<u8>()) {
        let model = model();
        let mut out = DescriptorsOut::default();
        let call = CallRef::SupportedOperations { model: ModelRef::new(&model, &mut out).unwrap() };
        let mut bytes = encode(&call).unwrap();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok((Call::SupportedOperations { model }, tail)) = decode::<Call>(&bytes) {
            let _ = model.into_model(tail.to_vec(), &mut DescriptorsIn::uncharged(Vec::new()));
        }
    }
}
