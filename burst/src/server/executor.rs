//! Executors of a burst's requests: [`BurstExecutor`], and the one for any prepared model.

use std::sync::Arc;

use nnburst_hal::{ErrorStatus, Memory, PreparedModel, RequestPool};

use super::cache::SlotCache;
use crate::packet::{BurstAnswer, BurstPool, BurstRequest};

/// Executes the requests of one burst and keeps what it needs per slot. Only the burst's thread
/// calls it.
pub trait BurstExecutor: Send {
    /// Returns whether something is kept for `slot`.
    fn is_cached(&self, slot: i32) -> bool;

    /// Keeps what it needs of `memory` for `slot`, for instance a mapping. A memory that can't be
    /// used, or a slot beyond its limits, is left out: requests with it then fail.
    fn add(&mut self, slot: i32, memory: &Memory);

    /// Drops what is kept for `slot`, if anything.
    fn remove(&mut self, slot: i32);

    /// Executes a request, whose content the client chose: nothing of it has been held against the
    /// model.
    ///
    /// `request` is the executor's to change; it is written anew for every packet. `answer` comes
    /// as a failure without shapes. An absent slot is `INVALID_ARGUMENT`.
    ///
    /// To keep the burst free of allocations, write into what is there:
    /// [`BurstAnswer::output_shapes`] keeps its elements and their dimensions from call to call
    /// while their number stays.
    fn execute(&mut self, request: &mut BurstRequest, answer: &mut BurstAnswer);

    /// Touches a little of what the next request will need, so that it is in near caches when that
    /// comes: weights that nobody reads for some milliseconds are pushed out by whatever else the
    /// machine does.
    ///
    /// Called only while the burst's thread polls and there is no request: every millisecond, and
    /// then again and again until it returns `false`, there being nothing left, or a request comes.
    /// That waits for a call which has begun, so one takes a small part of a microsecond; it
    /// neither allocates nor locks nor calls the system.
    fn keep_warm(&mut self) -> bool {
        false
    }

    /// Does what [`execute`](Self::execute) did with the same request, the last one, for what that
    /// does to code and caches alone: in memory of its own, with no effect that anybody could see.
    /// Ends when `is_over` tells that somebody waits, so it asks every few microseconds. What
    /// stands in `answer` goes nowhere.
    ///
    /// Called when [`keep_warm`](Self::keep_warm) has nothing left, after requests that were
    /// executed with success in two milliseconds at most. It neither allocates nor locks nor calls
    /// the system.
    fn warm_up(
        &mut self,
        request: &mut BurstRequest,
        answer: &mut BurstAnswer,
        is_over: &mut dyn FnMut() -> bool,
    ) {
        let _ = (request, answer, is_over);
    }
}

/// Runs requests through [`PreparedModel::execute_synchronously`] and keeps the memories' handles.
///
/// It works for every prepared model. One that wants its memory mapped once, and nothing allocated
/// per frame, brings a [`BurstExecutor`] of its own.
pub struct PreparedModelExecutor {
    model: Arc<dyn PreparedModel>,
    memories: SlotCache<Memory>,
}

impl PreparedModelExecutor {
    /// An executor for `model`.
    pub fn new(model: Arc<dyn PreparedModel>) -> Self {
        Self { model, memories: SlotCache::new() }
    }
}

impl std::fmt::Debug for PreparedModelExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedModelExecutor").field("memories", &self.memories).finish()
    }
}

impl BurstExecutor for PreparedModelExecutor {
    fn is_cached(&self, slot: i32) -> bool {
        self.memories.get(slot).is_some()
    }

    fn add(&mut self, slot: i32, memory: &Memory) {
        // A slot beyond the limit stays absent, as promised.
        let _ = self.memories.insert(slot, memory.clone());
    }

    fn remove(&mut self, slot: i32) {
        self.memories.remove(slot);
    }

    fn execute(&mut self, received: &mut BurstRequest, answer: &mut BurstAnswer) {
        let BurstRequest { request, pools, options, .. } = received;
        request.pools.clear();
        for pool in pools {
            request.pools.push(match *pool {
                BurstPool::Token(token) => RequestPool::Token(token),
                BurstPool::Slot(slot) => match self.memories.get(slot) {
                    Some(memory) => RequestPool::Memory(memory.clone()),
                    None => return answer.fail(ErrorStatus::InvalidArgument),
                },
            });
        }
        match self.model.execute_synchronously(request, *options) {
            Ok(outcome) => {
                answer.status = ErrorStatus::None;
                answer.output_shapes = outcome.output_shapes;
                answer.timing = outcome.timing;
            }
            Err(failure) => {
                answer.fail(failure.error.status);
                answer.output_shapes = failure.output_shapes;
            }
        }
        // The memories are the cache's to hold, or a freed slot would keep its memory until the
        // next packet.
        request.pools.clear();
    }
}
