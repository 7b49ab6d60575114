//! Death on either side while everything waits for something: soon the other side has nothing of it
//! left.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_fmq::PeerWatch;
use nnburst_hal::*;
use nnburst_hal_ipc::{Driver, Peer, RemoteDevice, Service, Serving, service_dir};

use crate::priorities::{chain, ones};
use crate::processes::{ALL, Footprint, Killed, at_rest, connect, start};
use crate::support::*;

const LARGE: u32 = 1 << 20;

/// Serves the driver as if it knew 1.2 alone: the transport waits for its fences.
pub(crate) fn serve_as_v1_2() -> Serving {
    let sample = driver(ALL);
    let device = move |peer: &Peer| v1_2::upgrade(v1_2::downgrade(Driver::device(&sample, peer)));
    Service::new(ALL, device).listen(&service_dir().unwrap()).unwrap()
}

fn never() -> OwnedFd {
    EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap().into()
}

/// A WHILE whose condition is always true.
pub(crate) fn endless() -> Model {
    let float = OperandType::TensorFloat32;
    let (input, output) = (OperandLifeTime::SubgraphInput, OperandLifeTime::SubgraphOutput);
    let graph = |operands: Vec<Operand>, kind, inputs: Vec<u32>, input_indexes| {
        let outputs = vec![operands.len() as u32 - 1];
        let operations = vec![Operation { kind, inputs, outputs: outputs.clone() }];
        Subgraph { operands, operations, input_indexes, output_indexes: outputs }
    };
    let read = |operand: Operand, number_of_consumers| Operand { number_of_consumers, ..operand };
    let state = |lifetime| tensor(float, &[1], lifetime);
    let truth = tensor(OperandType::TensorBool8, &[1], output);
    let condition = vec![read(state(input), 2), truth];
    let body = vec![read(state(input), 1), state(output)];
    let referenced = |offset| {
        let operand = tensor(OperandType::Subgraph, &[], OperandLifeTime::Subgraph);
        let location = DataLocation { pool_index: 0, offset, length: 0 };
        Operand { location, number_of_consumers: 1, ..operand }
    };
    let main = vec![referenced(0), referenced(1), read(state(input), 1), state(output)];
    Model {
        main: graph(main, OperationType::While, vec![0, 1, 2], vec![2]),
        referenced: vec![
            graph(condition, OperationType::GreaterEqual, vec![0, 0], vec![0]),
            graph(body, OperationType::Relu, vec![0], vec![0]),
        ],
        ..Model::default()
    }
}

/// Executes for ever, in every way there is, behind fences that nobody signals too; until it is
/// killed.
pub(crate) fn be_a_client_that_waits() {
    let device = RemoteDevice::connect(ALL).unwrap();
    let loops = device.interface_version() >= Version::V1_3;
    let (graph, (long, _memories)) = match loops {
        true => (endless(), (request(&floats(&[1.0]), &floats(&[0.0])), None)),
        false => {
            let (request, memories) = ones(LARGE);
            (chain(4000, LARGE), (request, Some(memories)))
        }
    };
    let low = PrepareOptions { priority: Priority::Low, ..PrepareOptions::default() };
    let model = prepare(&device, graph.clone()).unwrap();
    let held_up = prepare_with(&device, graph, low).unwrap();
    let options =
        ExecutionOptions { loop_timeout: Some(MAX_LOOP_TIMEOUT), ..ExecutionOptions::default() };
    let in_background = |work: Box<dyn FnOnce() + Send>| drop(std::thread::spawn(work));
    for model in [&model, &held_up] {
        let (callback, words) = tell::<ExecutionResult>();
        std::mem::forget(words);
        model.execute(long.clone(), options, callback).unwrap();
    }
    for wait_for in [vec![], vec![never()], vec![never(), never()], vec![never()], vec![never()]] {
        let (model, request) = (Arc::clone(&model), long.clone());
        in_background(Box::new(move || {
            drop(model.execute_fenced(request, wait_for, options, None).map(std::mem::forget));
        }));
    }
    let (also, request) = (Arc::clone(&model), long.clone());
    in_background(Box::new(move || drop(also.execute_synchronously(&request, options))));
    let extended = ControllerOptions::default();
    let mut burst = BurstController::configure(model.as_ref(), &extended, None).unwrap();
    in_background(Box::new(move || drop(burst.execute(&long, &options))));
    // Whatever waits, others of this client are answered.
    for _ in 0..20 {
        assert_eq!(device.status().unwrap(), DeviceStatus::Available);
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::write(service_dir().unwrap().join("ready"), "").unwrap();
    std::thread::sleep(HUNG * 10);
}

#[test]
fn a_client_killed_while_everything_of_it_waits_leaves_nothing_in_the_driver() {
    for role in ["driver", "driver-1.2"] {
        let dir = tempfile::tempdir().unwrap();
        let driver = start(role, dir.path());
        let pid = driver.0.id();
        let before = at_rest(pid, dir.path());
        let mut client = start("waiting", dir.path());
        eventually("the client waits", || dir.path().join("ready").exists());
        let during = Footprint::of(pid);
        assert!(during.threads >= before.threads + 4, "{role}: it is at work: {during:?}");
        client.now();
        eventually(role, || Footprint::of(pid) == before);
        prepare(&connect(dir.path()), add_one(&[1])).unwrap();
    }
}

/// Uses a driver for as long as it lives, lets go of everything, and does it again with the next.
pub(crate) fn be_a_client_of_many() {
    let device = RemoteDevice::connect(ALL).unwrap();
    let ready = service_dir().unwrap().join("ready");
    for round in 0.. {
        let Ok(model) = prepare(&device, add_one(&[1024])) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let (input, output) = (floats(&[1.0; 1024]), floats(&[0.0; 1024]));
        let request = request(&input, &output);
        let extended = ControllerOptions::default();
        let watch = PeerWatch::connection(device.peer_watch_fd().unwrap()).unwrap();
        let burst = BurstController::configure(model.as_ref(), &extended, Some(watch));
        let Ok(mut burst) = burst else { continue };
        let (callback, _words) = tell();
        let options = ExecutionOptions::default();
        let _ = model.execute_fenced(request.clone(), vec![never()], options, None);
        let _ = model.execute(request.clone(), options, callback);
        std::fs::write(&ready, round.to_string()).unwrap();
        while let Ok(Ok(_)) = burst.execute(&request, &options) {
            if model.execute_synchronously(&request, options).is_err() {
                break;
            }
        }
    }
}

#[test]
fn drivers_killed_under_load_leave_nothing_in_their_client_and_their_name_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    let mut driver = start("driver", dir.path());
    drop(connect(dir.path()));
    let client = start("client of many", dir.path());
    let mut counts = Vec::new();
    for _ in 0..8 {
        eventually("the client is at work", || ready.exists());
        // The burst's own memories come with its first frames.
        std::thread::sleep(Duration::from_millis(30));
        counts.push(Footprint::of(client.0.id()));
        std::fs::remove_file(&ready).unwrap();
        driver.0.kill().unwrap();
        // At once, as a service manager does it: threads of the dead one may still hold its socket.
        let next = start("driver", dir.path());
        let Killed(dead) = &mut std::mem::replace(&mut driver, next);
        dead.wait().unwrap();
    }
    eventually("the client is at work", || ready.exists());
    assert!(driver.0.try_wait().unwrap().is_none(), "the last one serves");
    let most = |count: fn(&Footprint) -> usize| counts.iter().map(count).max().unwrap();
    let (threads, descriptors) = (most(|f| f.threads), most(|f| f.descriptors));
    let maps = most(|f| f.shared_maps);
    // Ready again: the ninth driver's objects are there, and those of the eight before are not.
    eventually("no more than there was", || {
        let now = Footprint::of(client.0.id());
        now.threads <= threads && now.descriptors <= descriptors && now.shared_maps <= maps
    });
    let first = &counts[0];
    assert!(threads <= first.threads + 2 && descriptors <= first.descriptors + 8, "{counts:?}");
    assert!(maps <= first.shared_maps + 4, "{counts:?}");
}
