//! A driver that does nothing by itself: the other end of a controller's queues, for a test to
//! play.

use std::sync::{Arc, Mutex, PoisonError};

use nnburst_fmq::Descriptor;
use nnburst_hal::testing::MockModel;
use nnburst_hal::{BurstContext, BurstTerms};

/// A driver that keeps the queues it is given, for the test to do with them what it likes.
#[derive(Debug)]
pub struct Hooked {
    model: MockModel,
    queues: Arc<Mutex<Option<[Descriptor; 2]>>>,
}

struct Quiet(BurstTerms);

impl BurstContext for Quiet {
    fn free_memory(&self, _slot: i32) {}

    fn terms(&self) -> BurstTerms {
        self.0.clone()
    }
}

impl Hooked {
    /// A driver that agrees to `terms`.
    pub fn with(terms: BurstTerms) -> Self {
        let queues: Arc<Mutex<Option<[Descriptor; 2]>>> = Arc::default();
        let taken = Arc::clone(&queues);
        let model = MockModel::new().opening_bursts(move |_, channels, _| {
            *taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(channels);
            Ok(Arc::new(Quiet(terms.clone())))
        });
        Self { model, queues }
    }

    /// The model whose bursts these are.
    pub fn model(&self) -> &MockModel {
        &self.model
    }

    /// The request queue and the result queue of the last burst that was opened, once.
    pub fn take_queues(&self) -> Option<[Descriptor; 2]> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
