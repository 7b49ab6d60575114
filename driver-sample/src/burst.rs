//! Bursts: one session of their own, and each memory mapped once.

use std::sync::Arc;
use std::time::Instant;

use nnburst_burst::packet::{BurstAnswer, BurstPool, BurstRequest};
use nnburst_burst::{BurstExecutor, SlotCache};
use nnburst_executor::Session;
use nnburst_hal::{
    AllowUnspecifiedOutput, ErrorStatus, HalError, Memory, RequestPool, Result, Timing,
};

use crate::execution::{self, Pool, Pools};
use crate::prepared_model::Compiled;

/// A memory behind a slot.
#[derive(Debug)]
struct Mapped {
    memory: Memory,
    pool: Pool,
}

/// Executes the frames of one burst.
#[derive(Debug)]
pub(crate) struct SampleBurst {
    compiled: Arc<Compiled>,
    session: Session,
    /// `None`: the client told a memory that can't be mapped.
    slots: SlotCache<Option<Mapped>>,
    /// The driver-managed buffers of the frame at hand, by their place among its pools.
    buffers: Vec<Option<Pool>>,
}

impl SampleBurst {
    pub(crate) fn new(compiled: Arc<Compiled>) -> Self {
        let session = compiled.session();
        Self { compiled, session, slots: SlotCache::new(), buffers: Vec::new() }
    }

    fn run(&mut self, received: &mut BurstRequest) -> Result<Timing> {
        let began = Instant::now();
        let BurstRequest { request, pools, options } = received;
        request.pools.clear();
        self.buffers.clear();
        for pool in pools.iter() {
            let (found, buffer) = match *pool {
                BurstPool::Slot(slot) => {
                    let told = self.slots.get(slot).ok_or_else(|| {
                        HalError::invalid(format!("the client has no memory for slot {slot}"))
                    })?;
                    let mapped = told.as_ref().ok_or_else(|| {
                        HalError::failure(format!("the memory of slot {slot} can't be mapped"))
                    })?;
                    (RequestPool::Memory(mapped.memory.clone()), None)
                }
                BurstPool::Token(token) => {
                    let buffer = self.compiled.buffers().find(token)?;
                    (RequestPool::Token(token), Some(Pool::Buffer(buffer)))
                }
            };
            request.pools.push(found);
            self.buffers.push(buffer);
        }
        execution::check(&self.compiled, request, AllowUnspecifiedOutput::Yes)?;
        let found = Found { slots: &self.slots, buffers: &self.buffers, pools };
        execution::run(&self.compiled, &mut self.session, request, &found, options, began)
    }
}

/// The pools of the frame at hand.
struct Found<'a> {
    slots: &'a SlotCache<Option<Mapped>>,
    buffers: &'a [Option<Pool>],
    pools: &'a [BurstPool],
}

impl Pools for Found<'_> {
    #[inline]
    fn pool(&self, index: usize) -> Option<&Pool> {
        match *self.pools.get(index)? {
            BurstPool::Slot(slot) => Some(&self.slots.get(slot)?.as_ref()?.pool),
            BurstPool::Token(_) => self.buffers.get(index)?.as_ref(),
        }
    }
}

impl BurstExecutor for SampleBurst {
    fn is_cached(&self, slot: i32) -> bool {
        self.slots.get(slot).is_some()
    }

    fn add(&mut self, slot: i32, memory: &Memory) {
        let mapped = Pool::map(memory).ok().map(|pool| Mapped { memory: memory.clone(), pool });
        // A slot beyond the limit stays absent.
        let _ = self.slots.insert(slot, mapped);
    }

    fn remove(&mut self, slot: i32) {
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
        // A slot that is freed lets its memory go at once, not with the next frame.
        received.request.pools.clear();
        self.buffers.clear();
    }

    fn keep_warm(&mut self) -> bool {
        self.compiled.keeps_warm() && self.session.keep_warm()
    }
}
