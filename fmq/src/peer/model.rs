//! [`PeerWatch`] for loom: a peer that dies when the model says so.

use std::sync::Arc;

use crate::interrupt::{Interrupts, Signal, Watching};

/// Watches a peer of the model's; see the native one.
#[derive(Clone, Debug)]
pub struct PeerWatch {
    signal: Arc<Signal>,
}

impl PeerWatch {
    /// A peer that lives.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a peer is not a value with a default")]
    pub fn new() -> Self {
        Self { signal: Arc::new(Signal::new()) }
    }

    /// The peer dies, and the watching thread learns of it.
    pub fn die(&self) {
        self.signal.raise();
    }

    /// Returns whether the peer is gone.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.signal.is_raised()
    }

    pub(crate) fn attach(&self, interrupts: &mut Interrupts) {
        interrupts.set_death(&self.signal, Arc::new(Nobody));
    }
}

/// In a model nobody forks.
#[derive(Debug)]
struct Nobody;

impl Watching for Nobody {
    fn follow_fork(&self) -> bool {
        true
    }
}
