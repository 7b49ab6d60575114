//! A driver whose tensors loom watches.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::mpsc::Sender;
use nnburst_burst::packet::{
    BurstAnswer, BurstPool, BurstRequest, Dialect, RequestDatum, ResultDatum, serialize_answer,
};
use nnburst_burst::{BurstExecutor, BurstServer, ControllerOptions, SlotCache};
use nnburst_fmq::{Consumer, Descriptor, PeerWatch, Producer, Queue};
use nnburst_hal::testing::MockModel;
use nnburst_hal::{
    BurstContext, BurstOptions, BurstTerms, DataLocation, ErrorStatus, Memory, OutputShape,
    Request, RequestArgument, RequestPool, Timing,
};

/// Elements of either queue: two packets.
const ELEMENTS: usize = 16;

pub(crate) fn options(depth: u32, window: Duration) -> ControllerOptions {
    let polling_window = Some(window);
    ControllerOptions {
        queue_elements: ELEMENTS,
        polling_window,
        burst: BurstOptions { extended: true, depth, polling_window, ..BurstOptions::default() },
    }
}

/// The memory of this tensor.
pub(crate) fn memory(tensor: u64) -> Memory {
    Memory::ashmem(tensor).unwrap()
}

/// Reads and writes the one tensor of a memory.
pub(crate) fn request(memory: &Memory) -> Request {
    let location = DataLocation { pool_index: 0, offset: 0, length: 1 };
    let argument = RequestArgument { has_no_value: false, location, dimensions: Vec::new() };
    let pools = vec![RequestPool::Memory(memory.clone())];
    Request { inputs: vec![argument.clone()], outputs: vec![argument], pools }
}

/// The contents of memories, in cells that loom watches.
#[derive(Clone)]
pub(crate) struct Tensors(Arc<Vec<UnsafeCell<u32>>>);

// SAFETY: loom checks each access to a cell against every other one.
unsafe impl Send for Tensors {}
// SAFETY: as above.
unsafe impl Sync for Tensors {}

impl Tensors {
    /// Numbered from 1.
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new((0..=count).map(|_| UnsafeCell::new(0)).collect()))
    }

    pub(crate) fn get(&self, tensor: usize) -> u32 {
        // SAFETY: loom panics if anybody is writing the cell.
        self.0[tensor].with(|value| unsafe { *value })
    }

    pub(crate) fn set(&self, tensor: usize, value: u32) {
        // SAFETY: loom panics if anybody else is at the cell.
        self.0[tensor].with_mut(|place| unsafe { *place = value });
    }
}

/// Adds one to the tensor of a request.
struct AddOne {
    tensors: Tensors,
    memories: SlotCache<u64>,
    /// Told when the burst's thread drops this.
    ended: Option<Sender<()>>,
}

impl BurstExecutor for AddOne {
    fn is_cached(&self, slot: i32) -> bool {
        self.memories.get(slot).is_some()
    }

    fn add(&mut self, slot: i32, memory: &Memory) {
        self.memories.insert(slot, memory.size()).unwrap();
    }

    fn remove(&mut self, slot: i32) {
        self.memories.remove(slot);
    }

    fn execute(&mut self, request: &mut BurstRequest, answer: &mut BurstAnswer) {
        let [BurstPool::Slot(slot)] = *request.pools else { return };
        let Some(&tensor) = self.memories.get(slot) else { return };
        let at = usize::try_from(tensor).unwrap();
        self.tensors.set(at, self.tensors.get(at) + 1);
        *answer = answer_of(u32::try_from(tensor).unwrap());
    }
}

impl Drop for AddOne {
    fn drop(&mut self) {
        if let Some(ended) = &self.ended {
            ended.send(()).unwrap();
        }
    }
}

/// Its shape says which memory it was.
fn answer_of(tensor: u32) -> BurstAnswer {
    BurstAnswer {
        status: ErrorStatus::None,
        output_shapes: vec![OutputShape { dimensions: vec![tensor], is_sufficient: true }],
        timing: Timing::NONE,
        ..BurstAnswer::default()
    }
}

/// A prepared model whose one burst adds one to these.
pub(crate) fn adding_to(tensors: &Tensors) -> MockModel {
    serving(tensors.clone(), None, None)
}

/// One whose burst learns of this client's death, and says when its thread ends.
pub(crate) fn with_client(client: &PeerWatch, ended: Sender<()>) -> MockModel {
    serving(Tensors::new(0), Some(client.clone()), Some(ended))
}

fn serving(tensors: Tensors, client: Option<PeerWatch>, ended: Option<Sender<()>>) -> MockModel {
    let executor = AddOne { tensors, memories: SlotCache::new(), ended };
    let executor: Mutex<Option<Box<dyn BurstExecutor>>> = Mutex::new(Some(Box::new(executor)));
    MockModel::new().opening_bursts(move |callback, [requests, results], options| {
        let executor = executor.lock().unwrap().take().unwrap();
        let client = client.as_ref();
        let server = BurstServer::create(callback, requests, results, executor, &options, client)?;
        Ok(Arc::new(server))
    })
}

/// A prepared model whose burst serves nobody; its end of the queues is the model check's to play.
pub(crate) struct MuteDriver {
    pub(crate) model: MockModel,
    queues: Arc<Mutex<Option<[Descriptor; 2]>>>,
}

impl MuteDriver {
    pub(crate) fn new() -> Self {
        let queues = Arc::<Mutex<_>>::default();
        let opened = Arc::clone(&queues);
        let model = MockModel::new().opening_bursts(move |_, both, _| {
            *opened.lock().unwrap() = Some(both);
            Ok(Arc::new(Mute))
        });
        Self { model, queues }
    }

    /// The other end of the last burst.
    pub(crate) fn queues(&self) -> Queues {
        let [requests, results] = self.queues.lock().unwrap().take().unwrap();
        Queues {
            requests: Queue::attach(requests).unwrap().into_consumer(),
            results: Queue::attach(results).unwrap().into_producer(),
        }
    }
}

/// The driver's end of a burst, by hand.
pub(crate) struct Queues {
    requests: Consumer<RequestDatum>,
    results: Producer<ResultDatum>,
}

impl Queues {
    /// Answers a request on this tensor.
    pub(crate) fn answer(&mut self, tensor: u32) {
        assert!(self.requests.available_to_read().unwrap() > 0);
        let mut packet = Vec::new();
        serialize_answer(&answer_of(tensor), Dialect::Extended, &mut packet).unwrap();
        self.results.try_write(&packet).unwrap();
    }
}

/// The end of a burst that nobody serves.
struct Mute;

impl BurstContext for Mute {
    fn free_memory(&self, _slot: i32) {}

    fn terms(&self) -> BurstTerms {
        BurstTerms { extended: true, depth: 1, warnings: Vec::new() }
    }
}
