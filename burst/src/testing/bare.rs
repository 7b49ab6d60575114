//! A client without any protection: it writes into the queue what elements it likes. With it, the
//! conformance suite's checks of a burst (`ValidateBurst`) run against any driver.
#![expect(clippy::unwrap_used, reason = "a driver that breaks a promise stops the test")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nnburst_fmq::{Consumer, Producer, Queue, Wait};
use nnburst_hal::{
    BurstCallback, BurstContext, BurstOptions, DataLocation, ErrorStatus, ExecutionOptions,
    HalError, MeasureTiming, Memory, PreparedModel, Request, RequestPool, Result, Timing,
};

use crate::packet::{
    BurstAnswer, BurstPool, Dialect, RequestDatum, RequestItem, ResultDatum, deserialize_answer,
    serialize_request,
};

/// A guard against a hang, never a measure of speed.
const HANG: Duration = Duration::from_secs(60);

/// Memories by slot: what a client says that is asked for them.
#[derive(Debug, Default)]
pub struct SlotTable {
    memories: Vec<Memory>,
    asked: Mutex<Vec<Vec<i32>>>,
}

impl SlotTable {
    /// Slots from 0 on.
    pub fn new(memories: impl IntoIterator<Item = Memory>) -> Self {
        Self { memories: memories.into_iter().collect(), asked: Mutex::default() }
    }

    /// The slots that it was asked for so far, question by question.
    pub fn asked(&self) -> Vec<Vec<i32>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl BurstCallback for SlotTable {
    fn memories(&self, slots: &[i32]) -> Result<Vec<Memory>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(slots.to_vec());
        let memory = |&slot: &i32| self.memories.get(usize::try_from(slot).ok()?).cloned();
        let known: Option<Vec<_>> = slots.iter().map(memory).collect();
        known.ok_or_else(|| HalError::invalid("unknown slot"))
    }
}

/// The client's end of a burst of the original protocol, with a request of its own.
pub struct BareClient {
    requests: Producer<RequestDatum>,
    results: Consumer<ResultDatum>,
    context: Arc<dyn BurstContext>,
    table: Arc<SlotTable>,
    valid: Vec<RequestDatum>,
}

impl std::fmt::Debug for BareClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BareClient").field("table", &self.table).finish_non_exhaustive()
    }
}

impl BareClient {
    /// Opens a burst that doesn't poll, as the suite does. The pools of `request`, memories all,
    /// are its slots from 0 on.
    ///
    /// # Panics
    /// If the burst can't be opened.
    pub fn open(model: &dyn PreparedModel, request: &Request, result_elements: usize) -> Self {
        let requests = Queue::builder(1024).event_flag(true).create().unwrap();
        let results = Queue::builder(result_elements).event_flag(true).create().unwrap();
        let memories = request.pools.iter().filter_map(|pool| match pool {
            RequestPool::Memory(memory) => Some(memory.clone()),
            RequestPool::Token(_) => None,
        });
        let table = Arc::new(SlotTable::new(memories));
        let context = model.configure_execution_burst(
            Arc::<SlotTable>::clone(&table),
            requests.descriptor().unwrap(),
            results.descriptor().unwrap(),
            BurstOptions { polling_window: Some(Duration::ZERO), ..BurstOptions::default() },
        );
        Self {
            requests: requests.into_producer(),
            results: results.into_consumer(),
            context: context.unwrap(),
            table,
            valid: packet_of(request),
        }
    }

    /// The driver's end.
    pub fn context(&self) -> &dyn BurstContext {
        &*self.context
    }

    /// The slots that the driver has asked for, question by question.
    pub fn asked(&self) -> Vec<Vec<i32>> {
        self.table.asked()
    }

    /// The packet of its own request, with measuring.
    pub fn valid(&self) -> Vec<RequestDatum> {
        self.valid.clone()
    }

    /// Sends a packet and waits for the answer, element by element.
    ///
    /// # Panics
    /// If none comes.
    pub fn exchange(&mut self, packet: &[RequestDatum]) -> Vec<ResultDatum> {
        self.send(packet);
        self.receive()
    }

    /// Sends a packet.
    ///
    /// # Panics
    /// If the queue has no room for it.
    pub fn send(&mut self, packet: &[RequestDatum]) {
        self.requests.try_write(packet).unwrap();
    }

    /// Waits for an answer, and takes all that is there.
    ///
    /// # Panics
    /// If none comes.
    pub fn receive(&mut self) -> Vec<ResultDatum> {
        self.results.wait_readable(1, Wait::Block.within(HANG)).unwrap();
        let mut answer = vec![ResultDatum::default(); self.results.available_to_read().unwrap()];
        self.results.try_read(&mut answer).unwrap();
        answer
    }

    /// Sends a packet and waits for the answer.
    ///
    /// # Panics
    /// If none comes, or one that is malformed.
    pub fn answer(&mut self, packet: &[RequestDatum]) -> BurstAnswer {
        self.send(packet);
        self.receive_answer()
    }

    fn receive_answer(&mut self) -> BurstAnswer {
        let mut answer = BurstAnswer::default();
        deserialize_answer(&self.receive(), Dialect::Android, &mut answer).unwrap();
        answer
    }

    /// Its own request succeeds, and is measured.
    ///
    /// # Panics
    /// If not.
    pub fn works(&mut self) -> BurstAnswer {
        let answer = self.answer(&self.valid());
        assert_eq!(answer.status, ErrorStatus::None);
        assert_ne!(answer.timing, Timing::NONE, "it was measured");
        answer
    }

    /// A packet fails as the suite wants it: a well-formed answer without shapes and timing.
    ///
    /// # Panics
    /// If not, with `what`.
    pub fn refuses(&mut self, packet: &[RequestDatum], what: &str) -> ErrorStatus {
        let answer = self.answer(packet);
        assert_ne!(answer.status, ErrorStatus::None, "{what}");
        assert_eq!((answer.output_shapes.len(), answer.timing), (0, Timing::NONE), "{what}");
        answer.status
    }

    /// Each element of its own packet removed in turn, one of each kind of bad element added at
    /// every place, and each replaced by each: all refused, and its own request works as before.
    ///
    /// # Panics
    /// If not.
    pub fn survives_every_mutation(&mut self) {
        self.works();
        let valid = self.valid();
        for at in 0..valid.len() {
            let mut packet = valid.clone();
            packet.remove(at);
            self.refuses(&packet, &format!("element {at} removed"));
        }
        for (kind, bad) in bad_elements().into_iter().enumerate() {
            for at in 0..=valid.len() {
                let mut packet = valid.clone();
                packet.insert(at, bad);
                self.refuses(&packet, &format!("bad element {kind} added at {at}"));
            }
            for (at, good) in valid.iter().enumerate() {
                if *good == bad || both_dimensions(good, &bad) {
                    continue;
                }
                let mut packet = valid.clone();
                packet.splice(at..=at, [bad]);
                self.refuses(&packet, &format!("element {at} replaced by bad element {kind}"));
            }
        }
        self.works();
    }

    /// Bytes of an answer that carry nothing are zero: those behind `isSufficient` above all.
    /// Returns the number of outputs that were told.
    ///
    /// # Panics
    /// If not.
    pub fn answers_with_sanitised_padding(&mut self) -> usize {
        let mut operands = 0;
        for element in self.exchange(&self.valid()) {
            let bytes: [u8; 24] = bytemuck::cast(element);
            assert_eq!(bytes[1..8], [0; 7], "between tag and payload");
            if bytes[0] == 1 {
                operands += 1;
                assert_eq!(bytes[9..12], [0; 3], "after isSufficient");
                assert_eq!(bytes[16..24], [0; 8], "after the number of dimensions");
            }
        }
        operands
    }

    /// Slots that the client doesn't have are invalid arguments, and freeing slots that are known,
    /// unknown and freed already is harmless.
    ///
    /// # Panics
    /// If not.
    pub fn survives_unknown_slots(&mut self) {
        let valid = self.valid();
        let last_pool = valid.len() - 2;
        for slot in [-1, i32::MIN, 77, 4096, i32::MAX] {
            let mut packet = valid.clone();
            packet.splice(
                last_pool..=last_pool,
                [RequestDatum::new(RequestItem::PoolIdentifier(slot))],
            );
            let status = self.refuses(&packet, &format!("slot {slot}"));
            assert_eq!(status, ErrorStatus::InvalidArgument, "slot {slot}");
            for freed in [0, slot, 0] {
                self.context.free_memory(freed);
            }
            self.works();
        }
    }

    /// Slots that are freed while a request with them is in flight: it is executed all the same,
    /// before or after, on the memories that the client tells when it is asked anew.
    ///
    /// # Panics
    /// If not.
    pub fn survives_freeing_in_flight(&mut self) {
        let valid = self.valid();
        for round in 0..100 {
            self.send(&valid);
            for slot in [0, 1, 0] {
                self.context.free_memory(slot);
            }
            assert_eq!(self.receive_answer().status, ErrorStatus::None, "round {round}");
        }
    }
}

/// Queues that can't be used open no burst, and good ones do after that.
///
/// # Panics
/// If not.
pub fn unusable_queues_are_refused(model: &dyn PreparedModel) {
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
        let results = results().descriptor().unwrap();
        let table = Arc::<SlotTable>::default();
        model.configure_execution_burst(table, requests, results, BurstOptions::default())
    };
    for (what, descriptor) in cases {
        let error = open(descriptor).map(drop).unwrap_err();
        assert_eq!(error.status, ErrorStatus::GeneralFailure, "{what}");
    }
    open(good().descriptor().unwrap()).map(drop).unwrap();
}

/// The packet of a request on slots from 0 on, with measuring.
fn packet_of(request: &Request) -> Vec<RequestDatum> {
    let pools: Vec<_> = (0..).map(BurstPool::Slot).take(request.pools.len()).collect();
    let options = ExecutionOptions { measure: MeasureTiming::Yes, ..ExecutionOptions::default() };
    let mut packet = Vec::new();
    serialize_request(request, &pools, &options, Dialect::Android, &mut packet).unwrap();
    packet
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
