//! A driver's process that is stopped: it neither answers nor dies.

use std::time::Duration;

use nnburst_burst::testing::AddOne;
use nnburst_burst::{BurstController, BurstError, ControllerOptions};
use nnburst_hal::testing::{continue_process, stop_process};
use nnburst_hal::{BurstOptions, ErrorStatus, ExecutionOptions, TimePoint};

use crate::remote::{Driver, Model};
use crate::support::{bytes, memory};

fn soon() -> Option<TimePoint> {
    Some(TimePoint::after(Duration::from_millis(20)))
}

/// Calls that end by their deadlines while the driver is stopped, in a burst that goes on when the
/// driver does.
fn calls_are_bounded(window: Duration, extended: bool, depth: u32) {
    let driver = Driver::spawn(&Model::default());
    let polling_window = Some(window);
    let burst = BurstOptions { extended, depth, polling_window, ..BurstOptions::default() };
    let options = ControllerOptions { polling_window, burst, ..ControllerOptions::default() };
    let mut burst =
        BurstController::configure(driver.model(), &options, Some(driver.watch())).unwrap();
    let what = format!("{window:?}, extended: {extended}, {depth} in flight");

    let of = |length: u8| (memory(&vec![length; length.into()]), memory(&vec![0; length.into()]));
    let ((first_in, first_out), (second_in, second_out)) = (of(4), of(8));
    let first = AddOne::request(&first_in, &first_out, 4);
    let second = AddOne::request(&second_in, &second_out, 8);
    let unbounded = ExecutionOptions::default();
    let mut frame = burst.frame(&first, &unbounded).unwrap();
    assert_eq!(burst.execute_frame(&mut frame).unwrap().output_shapes[0].dimensions, [1, 4]);
    burst.execute(&second, &unbounded).unwrap().unwrap();

    stop_process(driver.id()).unwrap();
    // The first is in flight when it is given up, as many as the burst carries; later ones are not
    // even sent.
    for _ in 0..depth + 2 {
        frame.set_deadline(soon());
        let error = burst.execute_frame(&mut frame).map(|_| ()).unwrap_err();
        assert_eq!(error, BurstError::DeadlineMissed, "{what}");
    }
    let bounded = ExecutionOptions { deadline: soon(), ..unbounded };
    let failure = burst.execute(&second, &bounded).unwrap().unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::MissedDeadlineTransient, "{what}");
    let last = burst.last_request().unwrap();
    let missed = burst.execute_last(last, soon()).unwrap().map(|_| ());
    assert_eq!(missed.unwrap_err(), BurstError::DeadlineMissed, "{what}");
    assert_eq!(burst.closed(), None, "{what}");

    continue_process(driver.id()).unwrap();
    for _ in 0..3 {
        // The answers that are late are those of other shapes.
        let outcome = burst.execute(&second, &unbounded).unwrap().unwrap();
        assert_eq!(outcome.output_shapes[0].dimensions, [1, 8], "{what}");
        frame.set_deadline(None);
        let answer = burst.execute_frame(&mut frame).unwrap();
        assert_eq!(answer.status, ErrorStatus::None, "{what}");
        assert_eq!(answer.output_shapes[0].dimensions, [1, 4], "{what}");
    }
    assert_eq!((bytes(&first_out), bytes(&second_out)), (vec![5; 4], vec![9; 8]), "{what}");
}

#[test]
fn calls_end_by_their_deadline_and_the_burst_goes_on_when_the_driver_does() {
    for window in [Duration::ZERO, Duration::from_millis(2), Duration::MAX] {
        calls_are_bounded(window, true, 1);
        calls_are_bounded(window, true, 3);
    }
    calls_are_bounded(Duration::from_millis(2), false, 1);
}
