//! Bursts: one session of their own, and each memory mapped once.

use std::sync::Arc;
use std::time::Duration;

use nnburst_burst::packet::{BurstAnswer, BurstPool, BurstRequest};
use nnburst_burst::{BurstExecutor, SlotCache};
use nnburst_executor::Session;
use nnburst_hal::{
    AllowUnspecifiedOutput, ErrorStatus, HalError, Memory, RequestPool, Resource, Result, Timing,
};

use crate::compiled::Compiled;
use crate::execution::{self, Pool, Pools};

/// Requests with a larger pool get no warm-up run: that would take as much memory once more.
const STAGE: usize = 1 << 20;

/// A memory behind a slot.
#[derive(Debug)]
struct Mapped {
    memory: Memory,
    pool: Pool,
}

/// Executes the frames of one burst.
#[derive(Debug)]
pub(crate) struct CpuBurst {
    compiled: Arc<Compiled>,
    session: Box<Session>,
    /// An error: the client told a memory that can't be mapped.
    slots: SlotCache<Result<Mapped>>,
    last: LastPools,
    /// The memory that warm-up runs read and write in place of every pool.
    stage: Option<Pool>,
}

/// The pools of the last frame, for the next that has the same: counting handles up and down costs
/// as much as a small model. Nothing is kept once one of the slots is freed, nor of driver-managed
/// buffers.
#[derive(Debug, Default)]
struct LastPools {
    /// True if the rest says something.
    is_known: bool,
    pools: Vec<BurstPool>,
    memories: Vec<RequestPool>,
    /// The driver-managed buffers, by their place among the pools.
    buffers: Vec<Option<Pool>>,
}

impl LastPools {
    fn forget(&mut self) {
        self.is_known = false;
        self.memories.clear();
        self.buffers.clear();
    }
}

impl CpuBurst {
    pub(crate) fn new(compiled: Arc<Compiled>) -> Result<Self> {
        let (session, slots) = (compiled.kept_session()?, SlotCache::new());
        Ok(Self { compiled, session, slots, last: LastPools::default(), stage: None })
    }

    fn run(&mut self, received: &mut BurstRequest) -> Result<Timing> {
        self.compiled.client().count_execution()?;
        let began = self.compiled.clock(&received.options);
        self.compiled.check_deadline(&received.options, Duration::ZERO)?;
        let pools = &received.pools;
        if !(self.last.is_known && self.last.pools == *pools) {
            self.last.forget();
            self.find(pools).inspect_err(|_| self.last.forget())?;
            self.set_stage(pools);
        }
        self.with_pools(received, |this, BurstRequest { request, pools, options, .. }| {
            let found = Found { slots: &this.slots, buffers: &this.last.buffers, pools };
            let (compiled, session) = (&this.compiled, &mut this.session);
            execution::run(compiled, session, request, &found, options, began)
        })
    }

    /// Has the request checked with the pools that were found, and does something with it.
    fn with_pools<R>(
        &mut self,
        received: &mut BurstRequest,
        act: impl FnOnce(&mut Self, &BurstRequest) -> Result<R>,
    ) -> Result<R> {
        received.request.pools.clear();
        // Not while it runs: after a panic the pools are with the request.
        self.last.is_known = false;
        std::mem::swap(&mut received.request.pools, &mut self.last.memories);
        let request = &received.request;
        let checked = execution::check(&self.compiled, request, AllowUnspecifiedOutput::Yes);
        let ran = checked.and_then(|()| act(self, received));
        std::mem::swap(&mut received.request.pools, &mut self.last.memories);
        self.last.is_known = self.last.buffers.iter().all(Option::is_none);
        if !self.last.is_known {
            self.last.forget();
        }
        ran
    }

    /// Has memory for warm-up runs as large as any of the pools, if it can be had. Pools that are
    /// new are no steady state: this may allocate.
    fn set_stage(&mut self, pools: &[BurstPool]) {
        let size = |pool: &BurstPool| match *pool {
            BurstPool::Slot(slot) => Some(self.slots.get(slot)?.as_ref().ok()?.pool.len()),
            BurstPool::Token(_) => None,
        };
        let largest = pools.iter().map(size).try_fold(0, |most, size| Some(most.max(size?)));
        match largest.filter(|&size| self.compiled.keeps_warm() && size <= STAGE) {
            None => self.stage = None,
            Some(size) if self.stage.as_ref().is_some_and(|stage| stage.len() >= size) => {}
            Some(size) => {
                self.stage = None;
                self.stage = self.new_stage(size as u64).ok();
            }
        }
    }

    /// Memory of so many bytes, charged to the client.
    fn new_stage(&self, size: u64) -> Result<Pool> {
        let Some(budget) = self.compiled.client().budget() else {
            return Pool::map(&Memory::ashmem(size)?);
        };
        let charge = budget.take_all(&[(Resource::Memory, size), (Resource::Descriptors, 1)])?;
        Pool::map(&Memory::ashmem(size)?.charged_to(budget, charge))
    }

    /// Looks up the pools of a frame.
    fn find(&mut self, pools: &[BurstPool]) -> Result<()> {
        for pool in pools {
            let (found, buffer) = match *pool {
                BurstPool::Slot(slot) => {
                    let told = self.slots.get(slot).ok_or_else(|| {
                        HalError::invalid(format!("the client has no memory for slot {slot}"))
                    })?;
                    let mapped = told.as_ref().map_err(|error| {
                        let reason = &error.reason;
                        let reason = format!("the memory of slot {slot} can't be mapped: {reason}");
                        HalError::new(error.status, reason)
                    })?;
                    (RequestPool::Memory(mapped.memory.clone()), None)
                }
                BurstPool::Token(token) => {
                    let buffer = self.compiled.buffers().find(self.compiled.id(), token)?;
                    (RequestPool::Token(token), Some(Pool::Buffer(buffer)))
                }
            };
            self.last.memories.push(found);
            self.last.buffers.push(buffer);
        }
        self.last.pools.clear();
        self.last.pools.extend_from_slice(pools);
        Ok(())
    }
}

/// The pools of the frame at hand.
struct Found<'a> {
    slots: &'a SlotCache<Result<Mapped>>,
    buffers: &'a [Option<Pool>],
    pools: &'a [BurstPool],
}

impl Pools for Found<'_> {
    #[inline]
    fn pool(&self, index: usize) -> Option<&Pool> {
        match *self.pools.get(index)? {
            BurstPool::Slot(slot) => Some(&self.slots.get(slot)?.as_ref().ok()?.pool),
            BurstPool::Token(_) => self.buffers.get(index)?.as_ref(),
        }
    }
}

/// Memory of the driver's own in place of all pools.
struct Stage<'a>(&'a Pool);

impl Pools for Stage<'_> {
    #[inline]
    fn pool(&self, _: usize) -> Option<&Pool> {
        Some(self.0)
    }
}

impl BurstExecutor for CpuBurst {
    fn is_cached(&self, slot: i32) -> bool {
        // What there was no room for is asked for again: there may be room by now.
        let is_kept = |told: &Result<Mapped>| match told {
            Ok(_) => true,
            Err(error) => error.status != ErrorStatus::ResourceExhaustedTransient,
        };
        self.slots.get(slot).is_some_and(is_kept)
    }

    fn add(&mut self, slot: i32, memory: &Memory) {
        self.last.forget();
        let mapped = Pool::map(memory).map(|pool| Mapped { memory: memory.clone(), pool });
        // A slot beyond the limit stays absent.
        let _ = self.slots.insert(slot, mapped);
    }

    fn remove(&mut self, slot: i32) {
        // A slot that is freed lets its memory go at once, not with the next frame.
        self.last.forget();
        self.slots.remove(slot);
    }

    fn execute(&mut self, received: &mut BurstRequest, answer: &mut BurstAnswer) {
        match self.run(received) {
            Ok(timing) => {
                answer.status = ErrorStatus::None;
                answer.timing = timing;
                execution::copy_shapes(self.session.output_shapes(), &mut answer.output_shapes);
            }
            Err(error) => {
                answer.fail(error.status);
                if error.status == ErrorStatus::OutputInsufficientSize {
                    execution::copy_shapes(self.session.output_shapes(), &mut answer.output_shapes);
                }
            }
        }
    }

    fn warm_up(
        &mut self,
        received: &mut BurstRequest,
        answer: &mut BurstAnswer,
        is_over: &mut dyn FnMut() -> bool,
    ) {
        if !(self.last.is_known && self.last.pools == received.pools) {
            return;
        }
        let Some(stage) = self.stage.take() else { return };
        let warm_ups = self.with_pools(received, |this, received| {
            execution::warm_up(&mut this.session, &received.request, &Stage(&stage), is_over)
        });
        self.stage = Some(stage);
        if warm_ups.is_ok() {
            execution::copy_shapes(self.session.output_shapes(), &mut answer.output_shapes);
        }
    }

    fn keep_warm(&mut self) -> bool {
        self.compiled.keeps_warm() && self.session.keep_warm()
    }
}
