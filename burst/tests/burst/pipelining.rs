//! Several requests in flight, deadlines, and what is given up.

use std::time::{Duration, Instant};

use nnburst_burst::testing::AddOne;
use nnburst_burst::{BurstController, ControllerOptions, SubmitError};
use nnburst_hal::{BurstOptions, ErrorStatus, ExecutionOptions, Memory, TimePoint};

use crate::remote::{Driver, Model};
use crate::support::{HANG, bytes, memory};

fn options(depth: u32) -> ControllerOptions {
    ControllerOptions {
        burst: BurstOptions { extended: true, depth, ..BurstOptions::default() },
        ..ControllerOptions::default()
    }
}

fn open(driver: &Driver, depth: u32) -> BurstController {
    BurstController::configure(driver.model(), &options(depth), Some(driver.watch())).unwrap()
}

fn frames(burst: &mut BurstController, count: u8) -> (Vec<nnburst_burst::BurstFrame>, Vec<Memory>) {
    let mut outputs = Vec::new();
    let frames = (0..count).map(|index| {
        let (input, output) = (memory(&[index; 4]), memory(&[0; 4]));
        let request = AddOne::request(&input, &output, 4);
        outputs.push(output);
        burst.frame(&request, &ExecutionOptions::default()).unwrap()
    });
    let frames = frames.collect();
    (frames, outputs)
}

#[test]
fn frames_in_flight_are_answered_in_order() {
    let driver = Driver::spawn(&Model { pause: Duration::from_micros(200), ..Model::default() });
    let mut burst = open(&driver, 4);
    assert_eq!(burst.depth(), 4);
    let (mut waiting, outputs) = frames(&mut burst, 4);
    let elements: Vec<_> = waiting.iter().map(|frame| frame.packet().to_vec()).collect();
    for _ in 0..50 {
        for frame in waiting.drain(..) {
            burst.try_submit(frame).map_err(|rejected| rejected.why).unwrap();
        }
        assert_eq!(burst.in_flight(), 4);
        for elements in &elements {
            let frame = burst.wait().unwrap();
            // The limits, last but one, say where it was sent.
            let end = elements.len() - 2;
            assert_eq!(frame.packet()[..end], elements[..end], "oldest first");
            assert_eq!(frame.answer().unwrap().status, ErrorStatus::None);
            waiting.push(frame);
        }
        assert!(burst.wait().is_none(), "nothing is in flight");
    }
    for (index, output) in (1..).zip(&outputs) {
        assert_eq!(bytes(output), [index; 4]);
    }
    assert!(burst.stats().queueing.max() > 0, "the later ones waited for the earlier");
}

#[test]
fn a_full_burst_hands_the_frame_back() {
    // The driver executes nothing before it is told to.
    let (go, told) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let model = AddOne::with(|model| {
        model.before = Some(Box::new(move || told.lock().unwrap().recv_timeout(HANG).unwrap()));
    });
    let mut burst = BurstController::configure(&*model, &options(2), None).unwrap();
    let (frames, _outputs) = frames(&mut burst, 3);
    let mut refused = 0;
    for frame in frames {
        match burst.try_submit(frame) {
            Ok(()) => {}
            Err(rejected) => {
                assert_eq!(rejected.why, SubmitError::Busy { depth: 2 });
                refused += 1;
            }
        }
    }
    assert_eq!((refused, burst.in_flight()), (1, 2));
    assert!(burst.poll().is_none(), "not answered yet");
    let soon = Instant::now() + Duration::from_millis(1);
    assert!(burst.wait_until(soon).is_none(), "nor in a millisecond");
    assert_eq!(burst.in_flight(), 2, "it goes on");
    (0..2).for_each(|_| go.send(()).unwrap());
    let later = Instant::now() + HANG;
    assert!(burst.wait_until(later).is_some() && burst.wait_until(later).is_some());
}

#[test]
fn what_is_forgotten_never_reaches_the_next() {
    let driver = Driver::spawn(&Model { pause: Duration::from_millis(10), ..Model::default() });
    let mut burst = open(&driver, 3);
    for round in 0..5 {
        let (mut frames, outputs) = frames(&mut burst, 3);
        let mut last = frames.pop().unwrap();
        for frame in frames {
            burst.try_submit(frame).map_err(|rejected| rejected.why).unwrap();
        }
        burst.forget();
        assert_eq!(burst.in_flight(), 0);
        assert!(burst.poll().is_none());
        let answer = burst.execute_frame(&mut last).unwrap();
        assert_eq!(answer.status, ErrorStatus::None, "round {round}");
        assert_eq!(bytes(&outputs[2]), [3; 4], "its own answer, not a late one");
    }
}

#[test]
fn the_memories_of_what_is_forgotten_keep_their_slots_until_it_is_answered() {
    let driver = Driver::spawn(&Model { pause: Duration::from_millis(30), ..Model::default() });
    let mut burst = open(&driver, 2);
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    let frame = burst.frame(&request, &ExecutionOptions::default()).unwrap();
    let weak = [input.downgrade(), output.downgrade()];
    drop((request, input, output));
    burst.try_submit(frame).map_err(|rejected| rejected.why).unwrap();
    burst.forget();
    assert!(weak.iter().all(|memory| memory.upgrade().is_some()), "the driver is at work on them");
    let (input, output) = (memory(&[7; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
    assert_eq!(bytes(&output), [8; 4]);
    assert!(weak.iter().all(|memory| memory.upgrade().is_none()), "answered, hence gone");
}

#[test]
fn a_slot_used_anew_is_the_new_memory() {
    let driver = Driver::spawn(&Model::default());
    let mut burst = open(&driver, 1);
    let output = memory(&[0; 4]);
    for value in 0..30 {
        let input = memory(&[value; 4]);
        let request = AddOne::request(&input, &output, 4);
        burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
        assert_eq!(bytes(&output), [value + 1; 4]);
    }
    let asked = driver.asked();
    assert_eq!(asked[0], [0, 1]);
    // A third one where a memory was still being lent when its user let go of it.
    let few = asked[1..].iter().all(|slots| slots == &[0] || slots == &[2]);
    assert!(few, "the same slots again and again: {asked:?}");
}

#[test]
fn a_deadline_travels_and_a_late_request_is_not_executed() {
    let driver = Driver::spawn(&Model::default());
    let mut burst = open(&driver, 1);
    assert!(burst.is_extended());
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    // A call that waits doesn't even send it.
    let late = ExecutionOptions { deadline: Some(TimePoint::now()), ..ExecutionOptions::default() };
    let failure = burst.execute(&request, &late).unwrap().unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::MissedDeadlineTransient);
    assert_eq!((burst.stats().executions(), burst.stats().missed_deadlines), (0, 0));

    let mut frame = burst.frame(&request, &late).unwrap();
    burst.try_submit(frame).unwrap();
    frame = burst.wait().unwrap();
    assert_eq!(frame.answer().unwrap().status, ErrorStatus::MissedDeadlineTransient);
    assert_eq!(bytes(&output), [0; 4]);
    assert_eq!(burst.stats().missed_deadlines, 1);
    for deadline in [Some(TimePoint::after(Duration::from_secs(3600))), None] {
        assert!(frame.set_deadline(deadline));
        assert_eq!(burst.execute_frame(&mut frame).unwrap().status, ErrorStatus::None);
    }
}

#[test]
fn a_driver_of_the_original_protocol_gets_the_original_protocol() {
    let driver = Driver::spawn(&Model::default());
    let options = ControllerOptions {
        burst: BurstOptions { depth: 8, ..BurstOptions::default() },
        ..ControllerOptions::default()
    };
    let mut burst =
        BurstController::configure(driver.model(), &options, Some(driver.watch())).unwrap();
    assert_eq!((burst.is_extended(), burst.depth()), (false, 1));
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    let mut frame = burst.frame(&request, &ExecutionOptions::default()).unwrap();
    assert!(!frame.set_deadline(Some(TimePoint::now())), "and that is said");
    assert_eq!(frame.packet().len(), 10, "without limits");
    // No deadline travels: the driver executes what the client has given up.
    burst.try_submit(frame).unwrap();
    assert_eq!(burst.wait().unwrap().answer().unwrap().status, ErrorStatus::None);
}
