//! The packet of the last request that came without a frame: the same one, when it comes again, is
//! not written anew.
//!
//! Applications make the same request over and over, maybe with two or three memories in turn. Its
//! arguments tell whether it is the same; of its pools those that are others than last time are
//! exchanged in the packet. Memories are told apart by their ids, which no other memory ever has,
//! so nothing is kept alive for this.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nnburst_hal::{ExecutionOptions, MeasureTiming, Request, RequestArgument, RequestPool};

use super::BurstFrame;
use crate::packet::Dialect;

/// Storage for requests without a frame, and what the packet in it says.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) frame: BurstFrame,
    /// Another one whenever the packet says something else; nothing where it says nothing of sense.
    written: Option<LastRequest>,
    inputs: Vec<RequestArgument>,
    outputs: Vec<RequestArgument>,
    pools: Vec<PoolId>,
    measure: MeasureTiming,
    loop_timeout: Option<Duration>,
}

/// Stands for the request that a burst executed last; see
/// [`BurstController::last_request`](super::BurstController::last_request).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRequest(u64);

impl LastRequest {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only uniqueness matters, nothing is handed over.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The identity of a pool, without keeping it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolId {
    Memory(u64),
    Token(u32),
}

impl PoolId {
    fn of(pool: &RequestPool) -> Self {
        match pool {
            RequestPool::Memory(memory) => Self::Memory(memory.id()),
            RequestPool::Token(token) => Self::Token(*token),
        }
    }
}

impl Scratch {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            frame: BurstFrame::new(dialect),
            written: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            pools: Vec::new(),
            measure: MeasureTiming::No,
            loop_timeout: None,
        }
    }

    /// Returns whether the packet says this, but for the deadline and which pools they are.
    pub(super) fn says(&self, request: &Request, options: &ExecutionOptions) -> bool {
        self.written.is_some()
            && self.pools.len() == request.pools.len()
            && self.measure == options.measure
            && self.loop_timeout == options.loop_timeout
            && self.inputs == request.inputs
            && self.outputs == request.outputs
    }

    /// Returns whether the packet has this pool at this place.
    pub(super) fn has_pool(&self, at: usize, pool: &RequestPool) -> bool {
        self.pools.get(at).is_some_and(|known| *known == PoolId::of(pool))
    }

    /// Takes note that the packet has this pool at this place now.
    pub(super) fn note_pool(&mut self, at: usize, pool: &RequestPool) {
        if let Some(known) = self.pools.get_mut(at) {
            *known = PoolId::of(pool);
            self.written = Some(LastRequest::new());
        }
    }

    /// Takes note that the packet was written from this.
    pub(super) fn note(&mut self, request: &Request, options: &ExecutionOptions) {
        self.inputs.clone_from(&request.inputs);
        self.outputs.clone_from(&request.outputs);
        self.pools.clear();
        self.pools.extend(request.pools.iter().map(PoolId::of));
        self.measure = options.measure;
        self.loop_timeout = options.loop_timeout;
        self.written = Some(LastRequest::new());
    }

    /// The packet says nothing any more.
    pub(super) fn forget(&mut self) {
        self.written = None;
    }

    pub(super) fn written(&self) -> Option<LastRequest> {
        self.written
    }
}
