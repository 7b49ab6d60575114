//! A served driver whose process is stopped: calls with a limit end by it, and all goes on when the
//! driver does.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on panics")]

#[path = "common/driver.rs"]
mod driver;

use std::time::{Duration, Instant};

use driver::Driver;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nnburst::hal::{ExecutionOptions, Operand, PrepareOptions, TimePoint};
use nnburst::{
    Burst, BurstOptions, CallOptions, Compilation, CompileOptions, Frame, ModelBuilder,
    RuntimeError, Wait, builtin, compile_for, within,
};

const SOON: Duration = Duration::from_millis(20);

/// What this binary does when it is started as a driver.
#[test]
fn child_main() {
    driver::serve_if_asked();
}

fn missed<T>(what: &str, result: Result<T, RuntimeError>) {
    match result {
        Err(error) => assert!(error.is_deadline_missed(), "{what}: {error}"),
        Ok(_) => panic!("{what}: answered by a driver that is stopped"),
    }
}

fn open(compilation: &Compilation, wait: Wait) -> Burst {
    compilation.burst(&BurstOptions { wait, ..BurstOptions::default() }).unwrap()
}

/// Has a frame computed by a call, and looks at what came out.
fn adds(frame: &mut Frame, value: f32, compute: impl FnOnce(&mut Frame)) {
    frame.write(0, &[value]).unwrap();
    frame.write(1, &[1f32]).unwrap();
    compute(frame);
    assert_eq!(frame.read::<f32>(0).unwrap(), [value + 1.0]);
}

/// Submits a frame as soon as the burst has room, and waits for it.
fn follows(burst: &mut Burst, mut frame: Frame) -> Frame {
    loop {
        match burst.try_submit(frame) {
            Ok(()) => break,
            Err(refused) => {
                assert!(matches!(refused.error, RuntimeError::Busy { .. }), "{}", refused.error);
                frame = refused.frame;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let finished = burst.wait_until(Instant::now() + Duration::from_secs(60)).unwrap();
    finished.result.unwrap();
    finished.frame
}

#[test]
fn frames_in_flight_end_by_their_limit_and_others_follow_when_the_driver_goes_on() {
    let driver = Driver::start();
    let compilation = driver.compile();
    let mut burst = open(&compilation, Wait::Block);
    let frame = follows(&mut burst, compilation.frame().unwrap());
    driver.stop();
    let call = CallOptions { timeout: Some(SOON), ..CallOptions::default() };
    burst.try_submit_with(frame, &call).map_err(|refused| refused.error).unwrap();
    let finished = burst.wait_until(Instant::now() + Duration::from_secs(60)).unwrap();
    missed("in flight", finished.result);
    let Err(refused) = burst.try_submit(finished.frame) else { panic!("it owes an answer") };
    assert!(matches!(refused.error, RuntimeError::Busy { .. }), "{}", refused.error);
    driver.go_on();
    let frame = follows(&mut burst, refused.frame);

    // What is forgotten makes room likewise.
    burst.try_submit(frame).map_err(|refused| refused.error).unwrap();
    burst.forget();
    follows(&mut burst, compilation.frame().unwrap());
}

#[test]
fn calls_in_bursts_end_by_their_limit() {
    let driver = Driver::start();
    let compilation = driver.compile();
    let waits = [Wait::Auto, Wait::Spin, Wait::Adaptive, Wait::Block];
    let mut bursts: Vec<_> = waits.iter().map(|&wait| open(&compilation, wait)).collect();
    let limited = BurstOptions { timeout: Some(SOON), ..BurstOptions::default() };
    let mut limited = compilation.burst(&limited).unwrap();
    let mut frame = compilation.frame().unwrap();
    for burst in bursts.iter_mut().chain([&mut limited]) {
        let patient =
            CallOptions { timeout: Some(Duration::from_secs(60)), ..CallOptions::default() };
        adds(&mut frame, 1.0, |frame| burst.compute_with(frame, &patient).unwrap());
    }

    driver.stop();
    for burst in &mut bursts {
        for _ in 0..2 {
            let call = CallOptions { timeout: Some(SOON), ..CallOptions::default() };
            missed("with a limit", burst.compute_with(&mut frame, &call));
            let deadline = Some(TimePoint::after(SOON));
            let options = ExecutionOptions { deadline, ..ExecutionOptions::default() };
            missed("a request", burst.compute_request(frame.request(), &options));
        }
        missed("within", within(SOON, || burst.compute(&mut frame)));
    }
    missed("the burst's own limit", limited.compute(&mut frame));
    missed("opening", within(SOON, || compilation.burst(&BurstOptions::default())));
    driver.go_on();

    for round in 0..3u8 {
        for (at, burst) in bursts.iter_mut().enumerate() {
            let value = f32::from(round) * 10.0 + f32::from(u8::try_from(at).unwrap());
            adds(&mut frame, value, |frame| burst.compute(frame).unwrap());
        }
    }
}

#[test]
fn calls_over_the_connection_end_by_their_limit() {
    let driver = Driver::start();
    let compilation = driver.compile();
    let mut frame = compilation.frame().unwrap();
    adds(&mut frame, 1.0, |frame| compilation.execution().compute(frame).unwrap());

    driver.stop();
    let execution = compilation.execution().timeout(SOON);
    for _ in 0..3 {
        missed("synchronous", execution.compute(&mut frame));
        let pending = execution.start_request(frame.request().clone());
        missed("asynchronous", pending.and_then(nnburst::Pending::wait));
        let pending = execution.start_fenced_request(frame.request().clone(), Vec::new(), None);
        missed("fenced", pending.and_then(nnburst::Pending::wait));
    }
    missed("within", within(SOON, || compilation.execution().compute(&mut frame)));
    driver.go_on();

    adds(&mut frame, 2.0, |frame| compilation.execution().compute(frame).unwrap());
    let pending = compilation.execution().start(frame).unwrap();
    let (mut frame, ended) = pending.wait();
    ended.unwrap();
    adds(&mut frame, 3.0, |frame| compilation.execution().compute(frame).unwrap());
    // Stopped after the launch, it still ends in time.
    let large = Duration::from_secs(60);
    let pending = compilation.execution().timeout(large).start_request(frame.request().clone());
    pending.unwrap().wait().unwrap();
}

#[test]
fn compilations_and_questions_end_by_their_limit() {
    let driver = Driver::start();
    let device = driver.device.clone();
    let add1 = builtin::model("add1").unwrap();
    // More than the socket takes before the driver reads.
    let mut graph = ModelBuilder::new();
    let input = graph.input(Operand::float32([1 << 20]));
    let weights = graph.constant_of(Operand::float32([1 << 20]), &vec![1f32; 1 << 20]);
    let sum = graph.add(input, weights).done();
    graph.output(sum);
    let large = graph.build().unwrap();

    driver.stop();
    let options = CompileOptions { timeout: Some(SOON), ..CompileOptions::default() };
    for model in [&add1, &large, &add1] {
        let deadline = Some(TimePoint::after(SOON));
        let prepare = PrepareOptions { deadline, ..PrepareOptions::default() };
        missed("compile", device.compile(model, prepare));
        missed("compile_for", compile_for(model, std::slice::from_ref(&device), &options));
        missed("questions", within(SOON, || device.supported_operations(model)));
    }
    missed("capabilities", within(SOON, || device.capabilities()));
    driver.go_on();

    device.capabilities().unwrap();
    let compilation = driver.compile();
    let mut frame = compilation.frame().unwrap();
    adds(&mut frame, 1.0, |frame| compilation.execution().compute(frame).unwrap());
    device.compile(&large, PrepareOptions::default()).unwrap();
}

/// More memories than a connection has descriptors, and than a burst has slots.
#[test]
fn a_burst_takes_any_number_of_memories() {
    const MEMORIES: usize = 4200;
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = most.min(8192);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, most).unwrap();
    assert!(wanted > 4600, "only {wanted} descriptors may be open: 4,600 are needed");
    let driver = Driver::start();
    let compilation = driver.compile();
    let mut burst = open(&compilation, Wait::Auto);
    let mut frames: Vec<_> = (0..MEMORIES).map(|_| compilation.frame().unwrap()).collect();
    for (at, frame) in frames.iter_mut().enumerate() {
        adds(frame, f32::from(u16::try_from(at).unwrap()), |frame| burst.compute(frame).unwrap());
    }
    for (at, frame) in frames.iter_mut().enumerate().rev() {
        adds(frame, f32::from(u16::try_from(at).unwrap()), |frame| burst.compute(frame).unwrap());
        adds(frame, 0.5, |frame| compilation.execution().compute(frame).unwrap());
    }
    drop(frames);
    let mut frame = compilation.frame().unwrap();
    adds(&mut frame, 1.0, |frame| burst.compute(frame).unwrap());
}
