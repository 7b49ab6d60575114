//! A driver whose model adds one to each byte of its input: as little work as a burst can carry.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nnburst_fmq::Descriptor;
use nnburst_hal::{
    Access, BurstCallback, BurstContext, BurstOptions, DataLocation, ErrorStatus,
    ExecutionCallback, ExecutionFailure, ExecutionOptions, ExecutionOutcome, ExecutionResult,
    FencedExecution, HalError, Mapping, MeasureTiming, Memory, OutputShape, PreparedModel, Request,
    RequestArgument, RequestPool, Result, Timing, View, ViewMut,
};

use crate::packet::{BurstAnswer, BurstPool, BurstRequest};
use crate::{BurstExecutor, BurstServer, SlotCache};

/// A prepared model with one input and one output of equally many bytes, `[1, n]`.
///
/// Its bursts map each memory once and allocate nothing per frame. What a request gets wrong is
/// `INVALID_ARGUMENT`, as the HAL demands.
pub struct AddOne {
    this: Weak<Self>,
    /// The least time of an execution.
    pub pause: Duration,
    /// Number of outputs that an answer reports beyond the one there is: for answers too long for
    /// their queue.
    pub extra_shapes: usize,
    /// `true` if bursts go through [`PreparedModel::execute_synchronously`].
    pub plain: bool,
    /// Called before each execution in a burst, on the burst's thread.
    pub before: Option<Box<dyn Fn() + Send + Sync>>,
    /// The body of [`BurstExecutor::keep_warm`].
    pub idle: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    /// The body of [`BurstExecutor::warm_up`], with a request and with the question whether another
    /// has come.
    pub warm_up: Option<Box<WarmUpFn>>,
}

/// See [`AddOne::warm_up`].
pub type WarmUpFn = dyn Fn(&Request, &mut dyn FnMut() -> bool) + Send + Sync;

impl std::fmt::Debug for AddOne {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddOne").field("pause", &self.pause).finish_non_exhaustive()
    }
}

impl AddOne {
    /// The model.
    pub fn new() -> Arc<Self> {
        Self::with(|_| {})
    }

    /// The model, with some of its fields changed.
    pub fn with(change: impl FnOnce(&mut Self)) -> Arc<Self> {
        Arc::new_cyclic(|this| {
            let this = Weak::clone(this);
            let pause = Duration::ZERO;
            let mut model = Self {
                this,
                pause,
                extra_shapes: 0,
                plain: false,
                before: None,
                idle: None,
                warm_up: None,
            };
            change(&mut model);
            model
        })
    }

    /// A request on `bytes` bytes at the start of two memories.
    pub fn request(input: &Memory, output: &Memory, bytes: u32) -> Request {
        let argument = |pool_index| RequestArgument {
            has_no_value: false,
            location: DataLocation { pool_index, offset: 0, length: bytes },
            dimensions: vec![1, bytes],
        };
        Request {
            inputs: vec![argument(0)],
            outputs: vec![argument(1)],
            pools: vec![RequestPool::Memory(input.clone()), RequestPool::Memory(output.clone())],
        }
    }

    fn burst_server(
        &self,
        callback: Arc<dyn BurstCallback>,
        [requests, results]: [Descriptor; 2],
        options: &BurstOptions,
    ) -> Result<BurstServer> {
        let gone = || HalError::failure("the model is going");
        let this = self.this.upgrade().ok_or_else(gone)?;
        if self.plain {
            return BurstServer::for_prepared_model(callback, requests, results, this, options);
        }
        let executor = Box::new(AddOneExecutor { model: this, mappings: SlotCache::new() });
        BurstServer::create(callback, requests, results, executor, options, None)
    }

    /// Checks input and output and adds.
    fn run<'m>(
        &self,
        inputs: &[RequestArgument],
        outputs: &[RequestArgument],
        pool: impl Fn(u32) -> Option<&'m Mapping>,
    ) -> Option<u32> {
        let ([input], [output]) = (inputs, outputs) else { return None };
        let bytes = input.location.length;
        let shaped = |argument: &RequestArgument| {
            let shape = argument.dimensions.as_slice();
            argument.location.length == bytes && (shape == [1, bytes] || shape.is_empty())
        };
        if bytes == 0 || ![input, output].into_iter().all(|a| shaped(a) && !a.has_no_value) {
            return None;
        }
        let range = |location: DataLocation| {
            let start = usize::try_from(location.offset).ok()?;
            Some(start..start.checked_add(usize::try_from(bytes).ok()?)?)
        };
        let from = pool(input.location.pool_index)?.view(range(input.location)?)?;
        let to = pool(output.location.pool_index)?.view_mut(range(output.location)?)?;
        add_one(from, to);
        pause(self.pause);
        Some(bytes)
    }
}

/// A block of a tensor at a time, through private memory.
fn add_one(from: View<'_>, to: ViewMut<'_>) {
    let mut block = [0; 256];
    let mut at = 0;
    while at < from.len() {
        let end = at.saturating_add(block.len()).min(from.len());
        let Some(part) = block.get_mut(..end.saturating_sub(at)) else { return };
        if let (Some(from), Some(to)) = (from.slice(at..end), to.slice(at..end)) {
            from.copy_to_slice(part);
            for byte in part.iter_mut() {
                *byte = byte.wrapping_add(1);
            }
            to.copy_from_slice(part);
        }
        at = end;
    }
}

/// Works for so long: a sleep for long pauses, polling for those that a sleep would blur.
fn pause(time: Duration) {
    if time > Duration::from_millis(5) {
        return std::thread::sleep(time);
    }
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn timing(measure: MeasureTiming, start: Instant) -> Timing {
    match measure {
        MeasureTiming::No => Timing::NONE,
        MeasureTiming::Yes => {
            let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            Timing { time_on_device: micros, time_in_driver: micros }
        }
    }
}

impl PreparedModel for AddOne {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        let start = Instant::now();
        let mut mappings = Vec::new();
        for pool in &request.pools {
            match pool {
                RequestPool::Memory(memory) => {
                    mappings.push(memory.map(Access::ReadWrite).map_err(HalError::from)?);
                }
                RequestPool::Token(_) => return Err(HalError::invalid("no buffers here").into()),
            }
        }
        let pool = |index: u32| mappings.get(usize::try_from(index).ok()?);
        let bytes = self
            .run(&request.inputs, &request.outputs, pool)
            .ok_or_else(|| HalError::invalid("one input and one output of equal size, please"))?;
        let shape = OutputShape { dimensions: vec![1, bytes], is_sufficient: true };
        Ok(ExecutionOutcome {
            output_shapes: vec![shape; self.extra_shapes.saturating_add(1)],
            timing: timing(options.measure, start),
        })
    }

    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        let result = self.execute_synchronously(&request, options);
        let launched = match &result {
            Err(ExecutionFailure { error, .. }) => Err(error.clone()),
            Ok(_) => Ok(()),
        };
        callback.notify(result);
        launched
    }

    fn execute_fenced(
        &self,
        _request: Request,
        _wait_for: Vec<std::os::fd::OwnedFd>,
        _options: ExecutionOptions,
        _duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        Err(HalError::failure("no fences here"))
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        let server = self.burst_server(callback, [request_channel, result_channel], &options)?;
        Ok(Arc::new(server))
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// The model in a burst: memories are mapped when their slot is met first.
#[derive(Debug)]
struct AddOneExecutor {
    model: Arc<AddOne>,
    mappings: SlotCache<Mapping>,
}

impl BurstExecutor for AddOneExecutor {
    fn is_cached(&self, slot: i32) -> bool {
        self.mappings.get(slot).is_some()
    }

    fn add(&mut self, slot: i32, memory: &Memory) {
        if let Ok(mapping) = memory.map(Access::ReadWrite) {
            // A slot beyond the limit stays absent.
            let _ = self.mappings.insert(slot, mapping);
        }
    }

    fn remove(&mut self, slot: i32) {
        self.mappings.remove(slot);
    }

    fn execute(&mut self, received: &mut BurstRequest, answer: &mut BurstAnswer) {
        if let Some(before) = &self.model.before {
            before();
        }
        let start = Instant::now();
        let BurstRequest { request, pools, options, .. } = received;
        let pool = |index: u32| match pools.get(usize::try_from(index).ok()?)? {
            BurstPool::Slot(slot) => self.mappings.get(*slot),
            BurstPool::Token(_) => None,
        };
        // Every pool has to be there, used or not.
        let all = (0..).zip(&*pools).all(|(index, _)| pool(index).is_some());
        let ran = if all { self.model.run(&request.inputs, &request.outputs, pool) } else { None };
        let Some(bytes) = ran else { return answer.fail(ErrorStatus::InvalidArgument) };
        answer.status = ErrorStatus::None;
        answer.timing = timing(options.measure, start);
        let shapes = self.model.extra_shapes.saturating_add(1);
        let empty = || OutputShape { dimensions: Vec::new(), is_sufficient: true };
        answer.output_shapes.resize_with(shapes, empty);
        for shape in &mut answer.output_shapes {
            shape.is_sufficient = true;
            shape.dimensions.clear();
            shape.dimensions.extend([1, bytes]);
        }
    }

    fn warm_up(
        &mut self,
        received: &mut BurstRequest,
        _: &mut BurstAnswer,
        is_over: &mut dyn FnMut() -> bool,
    ) {
        if let Some(warm_up) = &self.model.warm_up {
            warm_up(&received.request, is_over);
        }
    }

    fn keep_warm(&mut self) -> bool {
        self.model.idle.as_ref().is_some_and(|idle| idle())
    }
}
