//! Figures of a prepared model's executions, for people who watch the service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use nnburst_hal::{ErrorStatus, HalError, LatencyRecorder, ModelFigures, Priority};

/// The counters of a model. Nothing is handed over through them, so every access is relaxed.
#[derive(Debug)]
pub(crate) struct Figures {
    prepared: Instant,
    failures: AtomicU64,
    missed_deadlines: AtomicU64,
    queue_depth: AtomicU32,
    times: LatencyRecorder,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            prepared: Instant::now(),
            failures: AtomicU64::new(0),
            missed_deadlines: AtomicU64::new(0),
            queue_depth: AtomicU32::new(0),
            times: LatencyRecorder::default(),
        }
    }
}

impl Figures {
    pub(crate) fn look(&self, priority: Priority, memory_bytes: u64) -> ModelFigures {
        ModelFigures {
            priority,
            failures: self.failures.load(Relaxed),
            missed_deadlines: self.missed_deadlines.load(Relaxed),
            queue_depth: self.queue_depth.load(Relaxed),
            memory_bytes,
            age: self.prepared.elapsed(),
            times: self.times.snapshot(),
        }
    }
}

/// An execution that was asked for; it counts among those that wait until it is dropped. Of a
/// client in this process, whom nobody watches, nothing is counted and no clock is looked at.
#[derive(Debug)]
pub(crate) struct Asked(Option<(Arc<Figures>, Instant)>);

impl Asked {
    pub(crate) fn new(figures: Option<&Arc<Figures>>) -> Self {
        Self(figures.map(|figures| {
            figures.queue_depth.fetch_add(1, Relaxed);
            (Arc::clone(figures), Instant::now())
        }))
    }

    /// Fences are behind it: from now on it is in the driver's hands.
    pub(crate) fn begin(&mut self) {
        if let Some((_, began)) = &mut self.0 {
            *began = Instant::now();
        }
    }

    /// It ended, with this error or well.
    pub(crate) fn end(self, error: Option<&HalError>) {
        let Some((figures, began)) = &self.0 else { return };
        figures.times.record(began.elapsed());
        let Some(error) = error else { return };
        figures.failures.fetch_add(1, Relaxed);
        if let ErrorStatus::MissedDeadlineTransient | ErrorStatus::MissedDeadlinePersistent =
            error.status
        {
            figures.missed_deadlines.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some((figures, _)) = &self.0 {
            figures.queue_depth.fetch_sub(1, Relaxed);
        }
    }
}
