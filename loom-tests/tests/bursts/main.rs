//! A burst's two ends, handing requests, answers, slots and their own end to each other: the
//! shipped controller and the shipped server, its thread included, over the shipped queue.
//!
//! Tensors are loom's cells: the client writes one before it sends and reads it after the answer,
//! the driver changes it in between, and loom panics where the hand-over doesn't order the three. A
//! memory's size is the number of its tensor, so an executor that is given a wrong memory changes a
//! wrong tensor.
#![cfg(loom)]

mod driver;

use std::time::Duration;

use driver::{MuteDriver, Tensors, memory, options, request};
use loom::thread;
use nnburst_burst::{BurstController, BurstError, BurstFrame, Closed, Fallback};
use nnburst_fmq::PeerWatch;
use nnburst_hal::testing::MockModel;
use nnburst_hal::{ErrorStatus, ExecutionOptions, Memory, TimePoint};

/// Explores a model of two frames, which takes fewer interruptions of a thread than others to be
/// long: two find every weakening that is tried.
fn two_frames(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.min(2));
    builder.check(model);
}

fn open(driver: &MockModel, depth: u32, window: Duration) -> BurstController {
    BurstController::configure(driver, &options(depth, window), None).unwrap()
}

/// So many tensors, and a burst on a driver that adds to them.
fn burst_on(tensors: usize, depth: u32, window: Duration) -> (Tensors, BurstController) {
    let tensors = Tensors::new(tensors);
    let burst = open(&driver::adding_to(&tensors), depth, window);
    (tensors, burst)
}

fn frame(burst: &mut BurstController, memory: &Memory) -> BurstFrame {
    burst.frame(&request(memory), &ExecutionOptions::default()).unwrap()
}

/// The answer is that of a request on this memory.
fn assert_answers(frame: &BurstFrame, memory: &Memory) {
    let answer = frame.answer().unwrap();
    assert_eq!(answer.status, ErrorStatus::None);
    assert_eq!(answer.output_shapes[0].dimensions, [u32::try_from(memory.size()).unwrap()]);
}

fn tensors_are_handed_over(window: Duration) {
    loom::model(move || {
        let (tensors, mut burst) = burst_on(1, 1, window);
        let memory = memory(1);
        let mut frame = frame(&mut burst, &memory);
        tensors.set(1, 5);
        burst.execute_frame(&mut frame).unwrap();
        assert_answers(&frame, &memory);
        assert_eq!(tensors.get(1), 6);
    });
}

#[test]
fn tensors_are_handed_over_while_both_sleep() {
    tensors_are_handed_over(Duration::ZERO);
}

#[test]
fn tensors_are_handed_over_while_both_poll() {
    tensors_are_handed_over(Duration::MAX);
}

#[test]
fn tensors_are_handed_over_while_both_wait_adaptively() {
    tensors_are_handed_over(Duration::from_micros(50));
}

#[test]
fn tensors_are_handed_over_on_one_processor() {
    nnburst_burst::model::share_processor(true);
    for window in [Duration::from_micros(50), Duration::MAX] {
        tensors_are_handed_over(window);
    }
    nnburst_burst::model::share_processor(false);
}

#[test]
fn an_answer_that_comes_after_the_deadline_is_nobody_elses() {
    two_frames(|| {
        let (tensors, mut burst) = burst_on(2, 1, Duration::ZERO);
        let (late, next) = (memory(1), memory(2));
        let mut given_up = frame(&mut burst, &late);
        given_up.set_deadline(Some(TimePoint { nanoseconds: 1 }));
        match burst.execute_frame(&mut given_up) {
            // The driver said that it is late, or the client found out by itself.
            Ok(answer) => assert_eq!(answer.status, ErrorStatus::MissedDeadlineTransient),
            Err(error) => assert_eq!(error, BurstError::DeadlineMissed),
        }
        // The driver may be about to ask for it.
        drop((given_up, late));
        let mut frame = frame(&mut burst, &next);
        burst.execute_frame(&mut frame).unwrap();
        assert_answers(&frame, &next);
        assert_eq!((tensors.get(1), tensors.get(2)), (0, 1));
    });
}

#[test]
fn requests_in_flight_are_answered_in_order() {
    two_frames(|| {
        let (tensors, mut burst) = burst_on(2, 2, Duration::ZERO);
        let memories = [memory(1), memory(2)];
        for memory in &memories {
            let frame = frame(&mut burst, memory);
            burst.try_submit(frame).unwrap();
        }
        for (tensor, memory) in (1..).zip(&memories) {
            assert_answers(&burst.wait().unwrap(), memory);
            assert_eq!(tensors.get(tensor), 1);
        }
        assert!(burst.wait().is_none());
    });
}

#[test]
fn a_cancelled_request_leaves_nothing_to_the_next() {
    two_frames(|| {
        let (tensors, mut burst) = burst_on(2, 2, Duration::ZERO);
        let (given_up, next) = (memory(1), memory(2));
        let cancelled = frame(&mut burst, &given_up);
        burst.try_submit(cancelled).unwrap();
        burst.forget();
        // Its last handle but the one that the request keeps: else the slot would go to the next
        // memory.
        drop(given_up);
        let mut frame = frame(&mut burst, &next);
        burst.execute_frame(&mut frame).unwrap();
        assert_answers(&frame, &next);
        assert_eq!((tensors.get(1), tensors.get(2)), (1, 1));
    });
}

/// A memory goes, and another one comes, which may get its slot: the driver never takes one for the
/// other.
fn a_memory_goes_as_another_comes(goes: fn(Memory) -> Option<thread::JoinHandle<()>>) {
    two_frames(move || {
        let (tensors, mut burst) = burst_on(2, 1, Duration::ZERO);
        let (old, new) = (memory(1), memory(2));
        burst.execute(&request(&old), &ExecutionOptions::default()).unwrap().unwrap();
        let elsewhere = goes(old);
        let mut frame = frame(&mut burst, &new);
        burst.execute_frame(&mut frame).unwrap();
        assert_answers(&frame, &new);
        assert_eq!((tensors.get(1), tensors.get(2)), (1, 1));
        if let Some(elsewhere) = elsewhere {
            elsewhere.join().unwrap();
        }
    });
}

#[test]
fn a_slot_used_anew_is_never_the_memory_before() {
    a_memory_goes_as_another_comes(|old| {
        drop(old); // the driver is told, and the slot is free
        None
    });
}

#[test]
fn a_memory_that_goes_elsewhere_while_a_request_is_in_flight_harms_nobody() {
    a_memory_goes_as_another_comes(|old| Some(thread::spawn(move || drop(old))));
}

#[test]
fn teardown_ends_a_listener_that_waits() {
    for window in [Duration::ZERO, Duration::MAX] {
        loom::model(move || drop(burst_on(0, 1, window)));
    }
}

#[test]
fn teardown_lets_the_request_in_flight_end() {
    loom::model(|| {
        let (tensors, mut burst) = burst_on(1, 1, Duration::ZERO);
        let memory = memory(1);
        let frame = frame(&mut burst, &memory);
        burst.try_submit(frame).unwrap();
        drop(burst);
        // Executed or not, nobody is at the tensor any more.
        assert!(tensors.get(1) <= 1);
    });
}

/// A burst on a driver that serves nobody, and may die.
fn on_mute_driver() -> (BurstController, MuteDriver, PeerWatch) {
    let (driver, peer) = (MuteDriver::new(), PeerWatch::new());
    let options = options(1, Duration::ZERO);
    let burst = BurstController::configure(&driver.model, &options, Some(peer.clone())).unwrap();
    (burst, driver, peer)
}

#[test]
fn the_drivers_death_ends_the_wait_for_its_answer() {
    loom::model(|| {
        let (mut burst, _driver, peer) = on_mute_driver();
        let mut frame = frame(&mut burst, &memory(1));
        let dying = thread::spawn(move || peer.die());
        let error = burst.execute_frame(&mut frame).map(|_| ()).unwrap_err();
        let died = Closed::DriverDied;
        let before_or_after =
            [BurstError::NotSent(Fallback::Closed(died)), BurstError::Closed(died)];
        assert!(before_or_after.contains(&error), "{error}");
        dying.join().unwrap();
    });
}

#[test]
fn an_answer_that_came_before_the_drivers_death_counts() {
    loom::model(|| {
        let (mut burst, driver, peer) = on_mute_driver();
        let mut queues = driver.queues();
        let memory = memory(1);
        let frame = frame(&mut burst, &memory);
        burst.try_submit(frame).unwrap();
        let dying = thread::spawn(move || {
            queues.answer(1);
            peer.die();
        });
        assert_answers(&burst.wait().unwrap(), &memory);
        dying.join().unwrap();
    });
}

#[test]
fn the_clients_death_ends_the_listener_by_itself() {
    loom::model(|| {
        let peer = PeerWatch::new();
        let (ended, end) = loom::sync::mpsc::channel();
        let driver = driver::with_client(&peer, ended);
        let burst = open(&driver, 1, Duration::ZERO);
        let dying = thread::spawn(move || peer.die());
        // The executor goes with the thread, while the burst is still held.
        end.recv().unwrap();
        drop(burst);
        dying.join().unwrap();
    });
}
