//! The conformance suite's checks of a burst, against a driver in a process of its own.
//!
//! The client here is a bare one: it writes elements into the queue as it likes.

use std::time::Duration;

use nnburst_burst::packet::{
    BurstAnswer, BurstPool, BurstRequest, Dialect, RequestDatum, RequestItem, ResultDatum,
    deserialize_request, serialize_request,
};
use nnburst_burst::testing::{AddOne, BareClient, Hooked, unusable_queues_are_refused};
use nnburst_burst::{BurstController, BurstError, ControllerOptions, Fallback};
use nnburst_fmq::{Consumer, Producer, Queue, Wait};
use nnburst_hal::{
    BurstTerms, ErrorStatus, ExecutionOptions, MeasureTiming, Memory, Request, Timing,
};

use crate::remote::{Driver, Model};
use crate::support::{HANG, bytes, memory};

/// A bare client of a driver, its memories, and what the driver makes of them.
struct Bare {
    client: BareClient,
    input: Memory,
    output: Memory,
}

impl Bare {
    fn open(driver: &Driver, result_elements: usize) -> Self {
        let (input, output) = (memory(&[9; 16]), memory(&[0; 16]));
        let request = AddOne::request(&input, &output, 16);
        Self { client: BareClient::open(driver.model(), &request, result_elements), input, output }
    }

    fn works(&mut self) {
        self.client.works();
        assert_eq!(bytes(&self.output), [10; 16]);
    }
}

#[test]
fn every_element_removed_added_or_replaced_is_refused_and_survived() {
    let driver = Driver::spawn(&Model::default());
    let mut bare = Bare::open(&driver, 1024);
    bare.client.survives_every_mutation();
    bare.works();
}

#[test]
fn a_malformed_packet_fails_generally_and_a_bad_request_is_an_invalid_argument() {
    let driver = Driver::spawn(&Model::default());
    let mut bare = Bare::open(&driver, 1024);
    let sentinel = RequestDatum::default();
    assert_eq!(bare.client.answer(&[sentinel]).status, ErrorStatus::GeneralFailure);
    let mut truncated = bare.client.valid();
    truncated.pop();
    assert_eq!(bare.client.answer(&truncated).status, ErrorStatus::GeneralFailure);

    bare.client.survives_unknown_slots();
    // Places outside of the memory.
    for (offset, length) in [(0, 17), (1, 16), (u32::MAX, 16), (16, 0)] {
        let mut request = AddOne::request(&bare.input, &bare.output, length);
        request.outputs[0].location.offset = offset;
        let (mut packet, pools) = (Vec::new(), [BurstPool::Slot(0), BurstPool::Slot(1)]);
        let options = ExecutionOptions::default();
        serialize_request(&request, &pools, &options, Dialect::Android, &mut packet).unwrap();
        let status = bare.client.answer(&packet).status;
        assert_eq!(status, ErrorStatus::InvalidArgument, "{length} bytes at {offset}");
    }
    bare.works();
}

#[test]
fn an_argument_removed_is_an_invalid_argument() {
    let driver = Driver::spawn(&Model::default());
    let options = ControllerOptions::default();
    let mut burst =
        BurstController::configure(driver.model(), &options, Some(driver.watch())).unwrap();
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let whole = AddOne::request(&input, &output, 4);
    for side in ["input", "output"] {
        let mut request = whole.clone();
        if side == "input" { &mut request.inputs } else { &mut request.outputs }.pop();
        let how = ExecutionOptions { measure: MeasureTiming::Yes, ..ExecutionOptions::default() };
        let failure = burst.execute(&request, &how).expect("no fallback").unwrap_err();
        assert_eq!(failure.error.status, ErrorStatus::InvalidArgument, "{side}");
        assert_eq!(failure.output_shapes, [], "{side}");
        // Known, unknown, and known again.
        for memory in [&input, &memory(&[0]), &input] {
            burst.free_memory(memory);
        }
        burst.execute(&whole, &how).unwrap().unwrap();
    }
}

#[test]
fn freeing_known_unknown_and_freed_slots_is_harmless() {
    let driver = Driver::spawn(&Model::default());
    let mut bare = Bare::open(&driver, 1024);
    bare.works();
    for slot in [0, 5, 0, -1, i32::MIN, i32::MAX] {
        bare.client.context().free_memory(slot);
    }
    bare.works();
    let asked = bare.client.asked();
    assert_eq!(asked, [vec![0, 1], vec![0]], "once for both, once for the freed one");
    bare.client.survives_freeing_in_flight();
    bare.works();
}

#[test]
fn an_answer_longer_than_its_queue_is_a_failure_without_shapes() {
    let driver = Driver::spawn(&Model { extra_shapes: 3, ..Model::default() });
    let mut bare = Bare::open(&driver, 8);
    let valid = bare.client.valid();
    for _ in 0..3 {
        bare.client.refuses(&valid, "2 + 4 * 3 elements into 8");
    }
    // Eight elements hold what two outputs say.
    let driver = Driver::spawn(&Model { extra_shapes: 1, ..Model::default() });
    let mut bare = Bare::open(&driver, 8);
    assert_eq!(bare.client.answer(&valid).output_shapes.len(), 2);

    // The controller's view: a failure, and no fallback.
    let driver = Driver::spawn(&Model { extra_shapes: 9, ..Model::default() });
    let options = ControllerOptions { queue_elements: 20, ..ControllerOptions::default() };
    let mut burst = BurstController::configure(driver.model(), &options, None).unwrap();
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    let failure = burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::GeneralFailure);
    assert_eq!(failure.output_shapes, []);
}

#[test]
fn a_packet_that_does_not_fit_takes_the_ordinary_path() {
    let small = ControllerOptions { queue_elements: 9, ..ControllerOptions::default() };
    let driver = Driver::spawn(&Model::default());
    let mut burst = BurstController::configure(driver.model(), &small, None).unwrap();
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let mut request = AddOne::request(&input, &output, 4);
    let how = ExecutionOptions::default();
    let refused = burst.execute(&request, &how).unwrap_err();
    assert_eq!(refused, Fallback::TooLong { elements: 11, free: 9 });
    request.inputs[0].dimensions.clear();
    request.outputs[0].dimensions.clear();
    burst.execute(&request, &how).unwrap().unwrap();
    assert_eq!(bytes(&output), [2; 4]);
    let nothing = burst.execute(&Request::default(), &how).unwrap().unwrap_err();
    assert_eq!(nothing.error.status, ErrorStatus::InvalidArgument);
}

#[test]
fn bytes_that_carry_nothing_are_zero_in_every_answer() {
    let driver = Driver::spawn(&Model { extra_shapes: 2, ..Model::default() });
    let mut bare = Bare::open(&driver, 1024);
    for _ in 0..4 {
        assert_eq!(bare.client.answers_with_sanitised_padding(), 3);
    }
}

#[test]
fn timing_comes_when_it_was_asked_for() {
    let driver = Driver::spawn(&Model { pause: Duration::from_millis(1), ..Model::default() });
    let mut bare = Bare::open(&driver, 1024);
    let mut packet = bare.client.valid();
    let timing = bare.client.answer(&packet).timing;
    assert!(timing.time_on_device <= timing.time_in_driver && timing.time_on_device >= 1000);
    let last = packet.len() - 1;
    packet[last] = RequestDatum::new(RequestItem::MeasureTiming(false));
    assert_eq!(bare.client.answer(&packet).timing, Timing::NONE);
}

#[test]
fn a_panic_in_the_driver_fails_that_request_alone() {
    let driver = Driver::spawn(&Model { panic: true, ..Model::default() });
    let mut bare = Bare::open(&driver, 1024);
    let valid = bare.client.valid();
    for _ in 0..2 {
        assert_eq!(bare.client.answer(&valid).status, ErrorStatus::GeneralFailure);
    }
}

#[test]
fn queues_that_can_not_be_used_open_no_burst() {
    unusable_queues_are_refused(Driver::spawn(&Model::default()).model());
}

/// A driver that answers whatever it likes: the ends of the queues in this process.
struct Liar {
    requests: Consumer<RequestDatum>,
    results: Producer<ResultDatum>,
}

/// Opens a controller on a lying driver.
fn liar(options: &ControllerOptions) -> (BurstController, Liar) {
    let hooked = Hooked::with(BurstTerms::default());
    let burst = BurstController::configure(hooked.model(), options, None).unwrap();
    let [requests, results] = hooked.take_queues().unwrap();
    let requests = Queue::attach(requests).unwrap().into_consumer();
    let results = Queue::attach(results).unwrap().into_producer();
    (burst, Liar { requests, results })
}

impl Liar {
    /// Takes a request, then sends these elements.
    fn answer(&mut self, elements: &[ResultDatum]) -> BurstRequest {
        self.requests.wait_readable(1, Wait::Block.within(HANG)).unwrap();
        let mut packet = vec![RequestDatum::default(); self.requests.available_to_read().unwrap()];
        self.requests.try_read(&mut packet).unwrap();
        self.results.try_write(elements).unwrap();
        let mut request = BurstRequest::default();
        deserialize_request(&packet, Dialect::Android, &mut request).unwrap();
        request
    }
}

#[test]
fn a_malformed_answer_is_a_failure_without_fallback_and_the_burst_goes_on() {
    let (mut burst, mut liar) = liar(&ControllerOptions::default());
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let mut frame =
        burst.frame(&AddOne::request(&input, &output, 4), &ExecutionOptions::default()).unwrap();
    let malformed = [ResultDatum::default()];
    let mut good = Vec::new();
    let answer = BurstAnswer { status: ErrorStatus::None, ..BurstAnswer::default() };
    nnburst_burst::packet::serialize_answer(&answer, Dialect::Android, &mut good).unwrap();
    let (tell, written) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let good = &good;
        scope.spawn(move || {
            liar.answer(&malformed);
            liar.answer(good);
            // Once that is taken: answers to nothing, which are not the answer to the next request
            // either.
            liar.results.wait_writable(1024, Wait::Spin).unwrap();
            liar.results.try_write(&malformed).unwrap();
            tell.send(()).unwrap();
            liar.answer(good);
        });
        let lied = burst.execute_frame(&mut frame).map(|_| ()).unwrap_err();
        assert!(matches!(lied, BurstError::Malformed(_)), "{lied:?}");
        assert_eq!(burst.closed(), None);
        assert_eq!(burst.execute_frame(&mut frame).unwrap().status, ErrorStatus::None);
        written.recv().unwrap();
        assert_eq!(burst.execute_frame(&mut frame).unwrap().status, ErrorStatus::None);
    });
}
