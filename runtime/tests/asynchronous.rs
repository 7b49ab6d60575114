//! Bursts that are awaited, in executors of three kinds: one written here, tokio's, and an event
//! loop that knows descriptors alone.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

#[path = "common/driver.rs"]
mod driver;

use std::future::Future;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use driver::Driver;
use nix::poll::{PollFd, PollFlags, poll};
use nnburst::{
    AsyncBurst, BurstOptions, CallOptions, Compilation, Device, Frame, FrameFuture, Partitioning,
    PrepareOptions, RuntimeError, Wait, builtin,
};
use tokio::io::unix::AsyncFd;

/// What this binary does when it is started as a driver.
#[test]
fn child_main() {
    driver::serve_if_asked();
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor there is.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn open(compilation: &Compilation, depth: u32) -> AsyncBurst {
    let options = BurstOptions { wait: Wait::Block, depth, ..BurstOptions::default() };
    AsyncBurst::new(compilation.burst(&options).unwrap()).unwrap()
}

fn frame(compilation: &Compilation, value: f32) -> Frame {
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[value]).unwrap();
    frame.write(1, &[1f32]).unwrap();
    frame
}

fn check((frame, result): (Frame, Result<(), RuntimeError>), value: f32) {
    result.unwrap();
    assert_eq!(frame.read::<f32>(0).unwrap(), [value + 1.0]);
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn frames_are_awaited_without_a_thread_for_each() {
    let driver = Driver::start();
    let compilation = driver.compile();
    let burst = open(&compilation, 1);
    check(block_on(burst.compute(frame(&compilation, 0.0))), 0.0);
    let before = threads();
    for value in 0..1000u16 {
        let value = f32::from(value);
        check(block_on(burst.compute(frame(&compilation, value))), value);
    }
    // Tests beside this one have threads of theirs.
    assert!(threads() < before + 20, "{before} threads became {}", threads());
    assert_eq!(burst.with(|burst| burst.stats().unwrap().executions()), 1001);
}

/// Waits for all, whoever is first.
struct All(Vec<Option<Pin<Box<FrameFuture>>>>, Vec<f32>);

impl Future for All {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self(futures, values) = &mut *self;
        for (slot, value) in futures.iter_mut().zip(values) {
            let Some(future) = slot else { continue };
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                check(output, *value);
                *slot = None;
            }
        }
        if futures.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn what_goes_beyond_the_depth_is_queued_and_what_is_dropped_delays_nobody() {
    let driver = Driver::start();
    let compilation = driver.compile();
    for depth in [1, 4] {
        let burst = open(&compilation, depth);
        let values: Vec<f32> = (0..20u8).map(f32::from).collect();
        let send = |value: &f32| Some(Box::pin(burst.compute(frame(&compilation, *value))));
        let mut futures: Vec<_> = values.iter().map(send).collect();
        for dropped in [0, 3, 19] {
            futures[dropped] = None;
        }
        // The last ones first: their tasks have to be woken all the same.
        futures.reverse();
        block_on(All(futures, values.into_iter().rev().collect()));
    }
}

#[test]
fn the_task_of_a_dropped_future_hands_its_place_on() {
    let driver = Driver::start();
    let compilation = driver.compile();
    let burst = open(&compilation, 2);
    driver.stop();
    let mut first = Box::pin(burst.compute(frame(&compilation, 1.0)));
    let second = burst.compute(frame(&compilation, 2.0));
    let waiting = std::thread::spawn(move || block_on(second));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(first);
    driver.go_on();
    check(waiting.join().unwrap(), 2.0);
}

#[test]
fn tokio_needs_nothing_else() {
    let driver = Driver::start();
    let compilation = driver.compile();
    for threads in [1, 2] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .unwrap();
        let burst = open(&compilation, 2);
        runtime.block_on(async {
            let tasks: Vec<_> = (0..4u16)
                .map(|task| {
                    let (burst, compilation) = (burst.clone(), compilation.clone());
                    tokio::spawn(async move {
                        for step in 0..50 {
                            let value = f32::from(100 * task + step);
                            check(burst.compute(frame(&compilation, value)).await, value);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

#[test]
fn the_descriptor_serves_loops_without_wakers() {
    let driver = Driver::start();
    let compilation = driver.compile();
    let burst = open(&compilation, 1);
    let mut context = Context::from_waker(Waker::noop());
    for value in 0..50u8 {
        let value = f32::from(value);
        let mut future = pin!(burst.compute(frame(&compilation, value)));
        let output = loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                break output;
            }
            let mut ready = [PollFd::new(burst.as_fd(), PollFlags::POLLIN)];
            assert_eq!(poll(&mut ready, 60_000u16).unwrap(), 1, "no end within a minute");
        };
        check(output, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // SAFETY: the descriptor is that of the burst, which lives longer.
        let fd = unsafe { AsyncFd::register(burst.as_fd()) }.unwrap();
        let mut future = pin!(burst.compute(frame(&compilation, 7.0)));
        while future.as_mut().poll(&mut context).is_pending() {
            fd.readable().await.unwrap().clear_ready();
        }
    });
}

#[test]
fn death_and_missed_deadlines_end_the_wait() {
    let driver = Driver::start();
    let compilation = driver.compile();
    let burst = open(&compilation, 1);
    check(block_on(burst.compute(frame(&compilation, 1.0))), 1.0);
    let call = CallOptions { timeout: Some(Duration::ZERO), ..CallOptions::default() };
    let (_, result) = block_on(burst.compute_with(frame(&compilation, 2.0), &call));
    assert!(result.unwrap_err().is_deadline_missed());
    driver.stop();
    let underway = burst.compute(frame(&compilation, 3.0));
    let queued = burst.compute(frame(&compilation, 4.0));
    let waiting = std::thread::spawn(move || [block_on(underway), block_on(queued)]);
    drop(driver);
    for (_, result) in waiting.join().unwrap() {
        assert!(result.unwrap_err().is_device_lost());
    }
}

#[test]
fn calls_behind_a_frame_that_was_given_up_wait_for_the_driver() {
    let driver = Driver::start();
    let compilation = driver.compile();
    let mut context = Context::from_waker(Waker::noop());
    for depth in [1, 2] {
        let burst = open(&compilation, depth);
        check(block_on(burst.compute(frame(&compilation, 1.0))), 1.0);
        driver.stop();
        let call = CallOptions { timeout: Some(Duration::from_millis(5)), ..Default::default() };
        for value in 0..depth {
            let late = frame(&compilation, f32::from(u8::try_from(value).unwrap()));
            let mut late = pin!(burst.compute_with(late, &call));
            // The driver says nothing, so nobody is woken; the time is the executor's business.
            let (_, result) = loop {
                if let Poll::Ready(output) = late.as_mut().poll(&mut context) {
                    break output;
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            assert!(result.unwrap_err().is_deadline_missed());
        }
        let mut behind: Vec<_> =
            [3.0, 4.0, 5.0].map(|value| Box::pin(burst.compute(frame(&compilation, value)))).into();
        for future in &mut behind {
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        let waiting = std::thread::spawn(move || behind.into_iter().map(block_on).collect());
        driver.go_on();
        let outputs: Vec<_> = waiting.join().unwrap();
        for (output, value) in outputs.into_iter().zip([3.0, 4.0, 5.0]) {
            check(output, value);
        }
    }
}

#[test]
fn models_over_several_devices_and_in_this_process_are_awaited_alike() {
    let model = builtin::model("add1").unwrap();
    let embedded = Device::embedded("nnburst-cpu").unwrap();
    let here = embedded.compile(&model, PrepareOptions::default()).unwrap();
    let options = nnburst::CompileOptions {
        partitioning: Some(Partitioning::WithFallback),
        ..nnburst::CompileOptions::default()
    };
    let planned = nnburst::compile_among(&model, &[embedded], &options).unwrap();
    for compilation in [here, planned] {
        let burst = open(&compilation, 2);
        let values: Vec<f32> = (0..10u8).map(f32::from).collect();
        let send = |value: &f32| Some(Box::pin(burst.compute(frame(&compilation, *value))));
        let futures = values.iter().map(send).collect();
        block_on(All(futures, values));
    }
}
