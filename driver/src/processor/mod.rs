//! The processor of this process, and executions as the executor asks them to let others go first.
//! [`turns`] has who goes when.

mod sync;
mod turns;

use std::sync::{Arc, PoisonError};

use nnburst_executor::Checkpoint;
use nnburst_hal::process::PerProcess;

pub(crate) use turns::{Processor, Running, User};

impl Processor {
    /// That of this process.
    pub(crate) fn of_process() -> &'static Arc<Self> {
        // A forked child has neither its parent's threads nor what they hold.
        static PROCESSOR: PerProcess<Option<&'static Arc<Processor>>> = PerProcess::new();
        let mut processor = PROCESSOR.get().lock().unwrap_or_else(PoisonError::into_inner);
        processor.get_or_insert_with(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            Box::leak(Box::new(Arc::new(Self::new(u64::try_from(cores).unwrap_or(1)))))
        })
    }
}

impl Checkpoint for Running<'_> {
    fn pass(&self) {
        Running::pass(self);
    }

    fn most_threads(&self) -> usize {
        Running::most_threads(self)
    }

    fn helper(&self) -> Option<Box<dyn Checkpoint + Send + '_>> {
        Some(Box::new(self.beside()))
    }

    fn rest(&self) {
        Running::rest(self);
    }
}
