//! The conformance suite's checks of a burst, against a driver in a process of its own.
//!
//! The client here is a bare one: it writes elements into the queue as it likes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nnburst_burst::packet::{
    BurstAnswer, BurstPool, BurstRequest, Dialect, RequestDatum, RequestItem, ResultDatum,
    deserialize_answer, deserialize_request, serialize_request,
};
use nnburst_burst::testing::{AddOne, Hooked};
use nnburst_burst::{BurstController, BurstError, ControllerOptions, Fallback};
use nnburst_fmq::{Consumer, Producer, Queue, Wait};
use nnburst_hal::{
    BurstCallback, BurstContext, BurstOptions, DataLocation, ErrorStatus, ExecutionOptions,
    HalError, MeasureTiming, Memory, Request, Result, Timing,
};

use crate::remote::{Driver, Model};
use crate::support::{bytes, memory};

/// Memories by slot; a slot may be out of order.
#[derive(Default)]
struct Table(Mutex<Vec<Memory>>);

impl BurstCallback for Table {
    fn memories(&self, slots: &[i32]) -> Result<Vec<Memory>> {
        let table = self.0.lock().unwrap();
        let memory = |&slot: &i32| table.get(usize::try_from(slot).ok()?).cloned();
        let known: Option<Vec<_>> = slots.iter().map(memory).collect();
        known.ok_or_else(|| HalError::invalid("unknown slot"))
    }
}

/// A client without any protection.
struct Bare {
    requests: Producer<RequestDatum>,
    results: Consumer<ResultDatum>,
    context: Arc<dyn BurstContext>,
    input: Memory,
    output: Memory,
}

impl Bare {
    fn open(driver: &Driver, result_elements: usize) -> Self {
        let requests = Queue::builder(1024).event_flag(true).create().unwrap();
        let results = Queue::builder(result_elements).event_flag(true).create().unwrap();
        let (input, output) = (memory(&[9; 16]), memory(&[0; 16]));
        let table = Table(Mutex::new(vec![input.clone(), output.clone()]));
        let queues = [requests.descriptor().unwrap(), results.descriptor().unwrap()];
        // The polling window of the suite is 0.
        let polling_window = Some(Duration::ZERO);
        let options = BurstOptions { polling_window, ..BurstOptions::default() };
        let context = driver.open(Arc::new(table), &queues, options).unwrap();
        let (requests, results) = (requests.into_producer(), results.into_consumer());
        Self { requests, results, context, input, output }
    }

    /// A valid packet, with measuring.
    fn valid(&self) -> Vec<RequestDatum> {
        let request = AddOne::request(&self.input, &self.output, 16);
        let pools = [BurstPool::Slot(0), BurstPool::Slot(1)];
        let options =
            ExecutionOptions { measure: MeasureTiming::Yes, ..ExecutionOptions::default() };
        let mut packet = Vec::new();
        serialize_request(&request, &pools, &options, Dialect::Android, &mut packet).unwrap();
        packet
    }

    fn exchange(&mut self, packet: &[RequestDatum]) -> Vec<ResultDatum> {
        self.requests.try_write(packet).unwrap();
        self.results.wait_readable(1, Wait::Block.within(Duration::from_secs(10))).unwrap();
        let mut answer = vec![ResultDatum::default(); self.results.available_to_read().unwrap()];
        self.results.try_read(&mut answer).unwrap();
        answer
    }

    fn answer(&mut self, packet: &[RequestDatum]) -> BurstAnswer {
        let mut answer = BurstAnswer::default();
        let elements = self.exchange(packet);
        deserialize_answer(&elements, Dialect::Android, &mut answer).unwrap();
        answer
    }

    /// The packet fails as the suite wants, and the burst goes on.
    fn refuses(&mut self, packet: &[RequestDatum], what: &str) {
        let answer = self.answer(packet);
        assert_ne!(answer.status, ErrorStatus::None, "{what}");
        assert_eq!((answer.output_shapes.len(), answer.timing), (0, Timing::NONE), "{what}");
    }

    fn works(&mut self) {
        let answer = self.answer(&self.valid());
        assert_eq!(answer.status, ErrorStatus::None);
        assert_ne!(answer.timing, Timing::NONE, "it was measured");
        assert_eq!(bytes(&self.output), [10; 16]);
    }
}

/// One bad element per arm.
fn bad_elements() -> [RequestDatum; 7] {
    let location = DataLocation::default();
    let (has_no_value, dimensions) = (false, 10);
    [
        RequestItem::PacketInformation { packet_size: 10, inputs: 10, outputs: 10, pools: 10 },
        RequestItem::InputOperand { has_no_value, location, dimensions },
        RequestItem::InputDimension(0),
        RequestItem::OutputOperand { has_no_value, location, dimensions },
        RequestItem::OutputDimension(0),
        RequestItem::PoolIdentifier(i32::MAX),
        RequestItem::MeasureTiming(true),
    ]
    .map(RequestDatum::new)
}

fn both_dimensions(a: &RequestDatum, b: &RequestDatum) -> bool {
    let kind = |datum: &RequestDatum| match datum.item() {
        Some(RequestItem::InputDimension(_)) => 1,
        Some(RequestItem::OutputDimension(_)) => 2,
        _ => 0,
    };
    kind(a) != 0 && kind(a) == kind(b)
}

#[test]
fn every_element_removed_added_or_replaced_is_refused_and_survived() {
    let driver = Driver::spawn(&Model::default());
    let mut bare = Bare::open(&driver, 1024);
    bare.works();
    let valid = bare.valid();
    for at in 0..valid.len() {
        let mut packet = valid.clone();
        packet.remove(at);
        // The last element taken away with all others would leave nothing to send.
        bare.refuses(&packet, &format!("element {at} removed"));
    }
    for (kind, bad) in bad_elements().into_iter().enumerate() {
        for at in 0..=valid.len() {
            let mut packet = valid.clone();
            packet.insert(at, bad);
            bare.refuses(&packet, &format!("bad element {kind} added at {at}"));
        }
        for at in 0..valid.len() {
            if valid[at] == bad || both_dimensions(&valid[at], &bad) {
                continue;
            }
            let mut packet = valid.clone();
            packet[at] = bad;
            bare.refuses(&packet, &format!("element {at} replaced by bad element {kind}"));
        }
    }
    bare.works();
}

#[test]
fn a_malformed_packet_fails_generally_and_a_bad_request_is_an_invalid_argument() {
    let driver = Driver::spawn(&Model::default());
    let mut bare = Bare::open(&driver, 1024);
    let sentinel = RequestDatum::default();
    assert_eq!(bare.answer(&[sentinel]).status, ErrorStatus::GeneralFailure);
    let mut truncated = bare.valid();
    truncated.pop();
    assert_eq!(bare.answer(&truncated).status, ErrorStatus::GeneralFailure);

    // Slots of all kinds that no client has.
    for slot in [-1, i32::MIN, 2, 4096, i32::MAX] {
        let mut packet = bare.valid();
        let at = packet.len() - 2;
        packet[at] = RequestDatum::new(RequestItem::PoolIdentifier(slot));
        assert_eq!(bare.answer(&packet).status, ErrorStatus::InvalidArgument, "slot {slot}");
    }
    // Places outside of the memory.
    for (offset, length) in [(0, 17), (1, 16), (u32::MAX, 16), (16, 0)] {
        let mut request = AddOne::request(&bare.input, &bare.output, length);
        request.outputs[0].location.offset = offset;
        let (mut packet, pools) = (Vec::new(), [BurstPool::Slot(0), BurstPool::Slot(1)]);
        let options = ExecutionOptions::default();
        serialize_request(&request, &pools, &options, Dialect::Android, &mut packet).unwrap();
        let status = bare.answer(&packet).status;
        assert_eq!(status, ErrorStatus::InvalidArgument, "{length} bytes at {offset}");
    }
    bare.works();
}

#[test]
fn an_argument_removed_is_an_invalid_argument() {
    let driver = Driver::spawn(&Model::default());
    let options = ControllerOptions::default();
    let mut burst = BurstController::configure(&driver, &options, Some(driver.watch())).unwrap();
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
        bare.context.free_memory(slot);
    }
    bare.works();
    assert_eq!(driver.asked(), [vec![0, 1], vec![0]], "once for both, once for the freed one");
}

#[test]
fn an_answer_longer_than_its_queue_is_a_failure_without_shapes() {
    let driver = Driver::spawn(&Model { extra_shapes: 3, ..Model::default() });
    let mut bare = Bare::open(&driver, 8);
    let valid = bare.valid();
    for _ in 0..3 {
        bare.refuses(&valid, "2 + 4 * 3 elements into 8");
    }
    // Eight elements hold what two outputs say.
    let driver = Driver::spawn(&Model { extra_shapes: 1, ..Model::default() });
    let mut bare = Bare::open(&driver, 8);
    assert_eq!(bare.answer(&valid).output_shapes.len(), 2);

    // The controller's view: a failure, and no fallback.
    let driver = Driver::spawn(&Model { extra_shapes: 9, ..Model::default() });
    let options = ControllerOptions { queue_elements: 20, ..ControllerOptions::default() };
    let mut burst = BurstController::configure(&driver, &options, None).unwrap();
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
    let mut burst = BurstController::configure(&driver, &small, None).unwrap();
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
    let valid = bare.valid();
    let mut operands = 0;
    for _ in 0..4 {
        for element in bare.exchange(&valid) {
            let bytes: [u8; 24] = bytemuck::cast(element);
            assert_eq!(bytes[1..8], [0; 7], "between tag and payload");
            if bytes[0] == 1 {
                operands += 1;
                assert_eq!(bytes[9..12], [0; 3], "after isSufficient");
                assert_eq!(bytes[16..24], [0; 8], "after the number of dimensions");
            }
        }
    }
    assert_eq!(operands, 12);
}

#[test]
fn timing_comes_when_it_was_asked_for() {
    let driver = Driver::spawn(&Model { pause: Duration::from_millis(1), ..Model::default() });
    let mut bare = Bare::open(&driver, 1024);
    let mut packet = bare.valid();
    let timing = bare.answer(&packet).timing;
    assert!(timing.time_on_device <= timing.time_in_driver && timing.time_on_device >= 1000);
    let last = packet.len() - 1;
    packet[last] = RequestDatum::new(RequestItem::MeasureTiming(false));
    assert_eq!(bare.answer(&packet).timing, Timing::NONE);
}

#[test]
fn a_panic_in_the_driver_fails_that_request_alone() {
    let driver = Driver::spawn(&Model { panic: true, ..Model::default() });
    let mut bare = Bare::open(&driver, 1024);
    let valid = bare.valid();
    for _ in 0..2 {
        assert_eq!(bare.answer(&valid).status, ErrorStatus::GeneralFailure);
    }
}

#[test]
fn queues_that_can_not_be_used_open_no_burst() {
    let driver = Driver::spawn(&Model::default());
    let good = || Queue::<RequestDatum>::builder(64).event_flag(true).create().unwrap();
    let results = || Queue::<ResultDatum>::builder(64).event_flag(true).create().unwrap();
    let flagless = Queue::<RequestDatum>::builder(64).create().unwrap();
    let narrow = Queue::<u64>::builder(64).event_flag(true).create().unwrap();
    let huge = Queue::<RequestDatum>::builder(1 << 20).event_flag(true).create().unwrap();
    let cases = [
        ("no event flag", flagless.descriptor().unwrap()),
        ("items of another size", narrow.descriptor().unwrap()),
        ("too many elements", huge.descriptor().unwrap()),
        ("no files", {
            let mut descriptor = good().descriptor().unwrap();
            descriptor.fds.clear();
            descriptor
        }),
    ];
    let open = |requests| {
        let queues = [requests, results().descriptor().unwrap()];
        driver.open(Arc::<Table>::default(), &queues, BurstOptions::default())
    };
    for (what, descriptor) in cases {
        let error = open(descriptor).map(drop).unwrap_err();
        assert_eq!(error.status, ErrorStatus::GeneralFailure, "{what}");
    }
    open(good().descriptor().unwrap()).map(drop).unwrap();
}

/// A driver that answers whatever it likes: the ends of the queues in this process.
struct Liar {
    requests: Consumer<RequestDatum>,
    results: Producer<ResultDatum>,
}

/// Opens a controller on a lying driver.
fn liar(options: &ControllerOptions) -> (BurstController, Liar) {
    let hooked = Hooked::default();
    let burst = BurstController::configure(&hooked, options, None).unwrap();
    let [requests, results] = hooked.take_queues().unwrap();
    let requests = Queue::attach(requests).unwrap().into_consumer();
    let results = Queue::attach(results).unwrap().into_producer();
    (burst, Liar { requests, results })
}

impl Liar {
    /// Takes a request, then sends these elements.
    fn answer(&mut self, elements: &[ResultDatum]) -> BurstRequest {
        self.requests.wait_readable(1, Wait::Block.within(Duration::from_secs(10))).unwrap();
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
            // Once that is taken: answers to nothing, which are not the answer to the next request either.
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
