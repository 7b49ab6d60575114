//! Work that takes for ever in one step: it ends with its deadline, its client and its process, and
//! others are served beside it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nnburst_hal::*;
use nnburst_hal_ipc::RemoteDevice;

use crate::attack::{Held, Target, report};
use crate::priorities::{begin, chain, ones};
use crate::processes::{ALL, Killed, command, spawned};
use crate::support::*;

/// A RELU, whose result is an output so that a beginning shows, and LOCAL_RESPONSE_NORMALIZATION of
/// its line, each element by all of them: one step that takes a quarter of an hour.
pub(crate) fn endless_step() -> (Model, Request) {
    const EXTENT: u32 = 1 << 19;
    let scalar = |kind, offset| {
        let mut operand = tensor(kind, &[], OperandLifeTime::ConstantCopy);
        operand.location = DataLocation { pool_index: 0, offset, length: 4 };
        operand
    };
    let line = |lifetime| tensor(OperandType::TensorFloat32, &[1, 1, 1, EXTENT], lifetime);
    let first = Operand { number_of_consumers: 1, ..line(OperandLifeTime::SubgraphOutput) };
    let operands = vec![
        line(OperandLifeTime::SubgraphInput),
        first,
        scalar(OperandType::Int32, 0),
        scalar(OperandType::Float32, 4),
        scalar(OperandType::Float32, 8),
        scalar(OperandType::Float32, 12),
        line(OperandLifeTime::SubgraphOutput),
    ];
    let one = 1.0f32.to_le_bytes();
    let values = [EXTENT.to_le_bytes(), one, one, 0.5f32.to_le_bytes()].concat();
    let kind = OperationType::LocalResponseNormalization;
    let mut model = model(operands, kind, values);
    let relu = Operation { kind: OperationType::Relu, inputs: vec![0], outputs: vec![1] };
    model.main.operations =
        vec![relu, Operation { kind, inputs: (1..6).collect(), outputs: vec![6] }];
    model.main.output_indexes = vec![1, 6];
    (model, ones(EXTENT).0)
}

/// LSH_PROJECTION of many items by many functions.
fn endless_hashes() -> (Model, Request) {
    const FUNCTIONS: u32 = 4096;
    const ITEMS: u32 = 1 << 16;
    let mut kind = tensor(OperandType::Int32, &[], OperandLifeTime::ConstantCopy);
    kind.location = DataLocation { pool_index: 0, offset: 0, length: 4 };
    let operands = vec![
        tensor(OperandType::TensorFloat32, &[FUNCTIONS, 32], OperandLifeTime::SubgraphInput),
        tensor(OperandType::TensorInt32, &[ITEMS, 4], OperandLifeTime::SubgraphInput),
        tensor(OperandType::TensorFloat32, &[], OperandLifeTime::NoValue),
        kind,
        tensor(OperandType::TensorInt32, &[FUNCTIONS], OperandLifeTime::SubgraphOutput),
    ];
    let sizes = [FUNCTIONS * 32 * 4, ITEMS * 16, FUNCTIONS * 4];
    let memories = sizes.map(|size| memory(&vec![0; size as usize]));
    let request = Request {
        inputs: vec![argument(0, memories[0].size()), argument(1, memories[1].size())],
        outputs: vec![argument(2, memories[2].size())],
        pools: memories.map(RequestPool::Memory).into(),
    };
    (model(operands, OperationType::LshProjection, 1i32.to_le_bytes().to_vec()), request)
}

/// Launches something endless, and never asks how it went.
fn launch(device: &dyn Device, (model, request): (Model, Request)) -> Arc<dyn PreparedModel> {
    let model = prepare(device, model).unwrap();
    let (callback, words) = tell::<ExecutionResult>();
    std::mem::forget(words);
    model.execute(request, ExecutionOptions::default(), callback).unwrap();
    model
}

/// An attack: connections each of which has the driver compute for ever, in every way.
pub(crate) fn computes_for_ever(socket: &Path) -> Held {
    let begin = |at: usize| {
        let device = RemoteDevice::connect_path(socket).unwrap();
        let work = if at.is_multiple_of(2) { endless_step() } else { endless_hashes() };
        let models: Vec<_> = (0..3).map(|_| launch(&device, work.clone())).collect();
        (device, models)
    };
    let all: Vec<_> = (0..8).map(begin).collect();
    report("computes");
    Box::new(all)
}

#[test]
#[ignore = "only root can start processes of other users"]
fn clients_that_died_over_long_steps_leave_nothing_at_work() {
    let target = Target::start("");
    let attacker = target.attack("computes for ever");
    assert_eq!(attacker.words(), ["computes"]);
    // The good client, whose answers come all the while, sees this beside it.
    std::thread::sleep(Duration::from_secs(1));
    assert!(target.now().threads > target.before().threads);
    drop(attacker);
    target.survives();
}

#[test]
fn a_deadline_ends_a_step_of_any_kind_of_execution() {
    let served = served(ALL);
    for (model, request) in [endless_step(), endless_hashes()] {
        let model = prepare(&served.device, model).unwrap();
        let soon = || {
            let deadline = Some(TimePoint::after(Duration::from_millis(100)));
            ExecutionOptions { deadline, ..ExecutionOptions::default() }
        };
        let missed = |result: ExecutionResult| {
            let status = result.unwrap_err().error.status;
            let known =
                [ErrorStatus::MissedDeadlineTransient, ErrorStatus::MissedDeadlinePersistent];
            assert!(known.contains(&status), "{status}");
        };
        missed(model.execute_synchronously(&request, soon()));
        missed(execute_async(model.as_ref(), &request, soon()));
        let fenced = execute_fenced(model.as_ref(), &request, soon()).unwrap_err();
        missed(Err(fenced.into()));
    }
}

#[test]
fn priorities_act_between_the_clients_of_one_user() {
    let first = served(ALL);
    let second = RemoteDevice::connect_path(&first.path()).unwrap();
    let with = |priority| PrepareOptions { priority, ..PrepareOptions::default() };
    let high = prepare_with(&first.device, chain(5, 4), with(Priority::High)).unwrap();
    let low = prepare_with(&second, endless_step().0, with(Priority::Low)).unwrap();
    // However often the lower one is at work, it gives way at its polls.
    let (request, _memories) = ones(4);
    let words = begin(low.as_ref(), &endless_step().1);
    for _ in 0..20 {
        high.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
    }
    assert!(words.try_recv().is_err(), "the lower one is still at work");
}

#[test]
fn higher_priorities_of_another_client_hold_lower_ones_up() {
    const LARGE: u32 = 1 << 20;
    let first = served(ALL);
    let second = RemoteDevice::connect_path(&first.path()).unwrap();
    let with = |priority| PrepareOptions { priority, ..PrepareOptions::default() };
    let high = prepare_with(&first.device, chain(300, LARGE), with(Priority::High)).unwrap();
    let low = prepare_with(&second, chain(2, 4), with(Priority::Low)).unwrap();
    let (done, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (request, _memories) = ones(LARGE);
            while !over.load(Ordering::Relaxed) {
                high.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (request, _memories) = ones(4);
        eventually("the higher one is at work", || done.load(Ordering::Relaxed) > 0);
        // Two steps of four elements take no time by themselves. Each waits for the end of a higher
        // one, or for as long as patience is.
        for _ in 0..4 {
            low.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(done.load(Ordering::Relaxed) >= 2);
}

/// A client whose driver, a process of its own, computes for ever.
#[expect(clippy::print_stdout, reason = "child processes report by their output")]
pub(crate) fn be_a_client_of_a_busy_driver() {
    let driver = spawned();
    let models = [endless_step(), endless_hashes()].map(|work| launch(driver.device(), work));
    println!("\ndriver {}", driver.id());
    std::thread::sleep(HUNG * 10);
    drop(models);
}

#[test]
fn a_spawned_driver_ends_with_its_client_while_it_computes() {
    ends_with_its_client("client of a busy driver");
}

#[test]
fn a_spawned_driver_ends_with_its_client_while_it_compiles() {
    ends_with_its_client("client of a compiling driver");
}

fn ends_with_its_client(role: &str) {
    let mut command = command(role);
    let mut client = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(client.0.stdout.take().unwrap()).lines();
    let driver = lines.find_map(|line| Some(line.unwrap().strip_prefix("driver ")?.to_owned()));
    let process = Path::new("/proc").join(driver.unwrap());
    assert!(process.exists());
    client.now();
    // A process that nobody waits for stays as a zombie where nobody reaps orphans.
    let has_ended = || {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
    };
    eventually("the driver ends", has_ended);
}

/// A chain that takes long to compile.
fn long_chain() -> Model {
    chain(60_000, 4)
}

/// A client whose driver, a process of its own, compiles.
#[expect(clippy::print_stdout, reason = "child processes report by their output")]
pub(crate) fn be_a_client_of_a_compiling_driver() {
    let driver = spawned();
    let (callback, words) = tell::<Result<Arc<dyn PreparedModel>>>();
    let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
    driver.device().prepare_model(long_chain(), options, cache, callback).unwrap();
    assert!(words.try_recv().is_err(), "it compiles");
    println!("\ndriver {}", driver.id());
    std::thread::sleep(HUNG * 10);
}

/// An attack: connections that have models validated and compiled, one after the other.
pub(crate) fn validates_large_models(socket: &Path) -> Held {
    let mut invalid = long_chain();
    invalid.main.operands.last_mut().unwrap().number_of_consumers = 7;
    let begin = |at: usize| {
        let device = RemoteDevice::connect_path(socket).unwrap();
        let model = if at.is_multiple_of(2) { invalid.clone() } else { long_chain() };
        std::thread::spawn(move || {
            loop {
                let _ = prepare(&device, model.clone());
            }
        })
    };
    let all: Vec<_> = (0..6).map(begin).collect();
    report("validates");
    Box::new(all)
}

#[test]
#[ignore = "only root can start processes of other users"]
fn clients_that_died_over_large_models_leave_nothing_at_work() {
    let target = Target::start("");
    let attacker = target.attack("validates large models");
    std::thread::sleep(Duration::from_secs(1));
    drop(attacker);
    target.survives();
}

#[test]
fn lower_priorities_are_prepared_behind_higher_ones() {
    let first = served(ALL);
    let second = RemoteDevice::connect_path(&first.path()).unwrap();
    let with = |priority| PrepareOptions { priority, ..PrepareOptions::default() };
    // A higher priority is at work all the while.
    let busy = prepare_with(&first.device, endless_step().0, with(Priority::High)).unwrap();
    let busy_words = begin(busy.as_ref(), &endless_step().1);
    let launch = |priority| {
        let (callback, words) = tell::<Result<Arc<dyn PreparedModel>>>();
        let cache = CacheHandles::default();
        second.prepare_model(chain(2000, 4), with(priority), cache, callback).unwrap();
        words
    };
    // Between two of its operations the lower one waits for as long as patience is: minutes in all.
    let low = launch(Priority::Low);
    let high = launch(Priority::High);
    high.recv_timeout(HUNG).unwrap().unwrap();
    assert!(low.try_recv().is_err() && busy_words.try_recv().is_err());
}
