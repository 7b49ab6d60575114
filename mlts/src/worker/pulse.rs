//! A worker's sign of life: steps done, and the call that it sits in.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::protocol::{MARK, WorkerEvent};

/// The time between two reports.
const EVERY: Duration = Duration::from_millis(200);

/// Steps done and calls under way, reported by a thread of its own. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    steps: AtomicU64,
    /// Calls under way, by number; the first is the oldest.
    calls: Mutex<Vec<(u64, &'static str)>>,
    next: AtomicU64,
}

impl Pulse {
    /// Starts the reports.
    pub(crate) fn start() -> Self {
        let pulse = Self::default();
        let reporter = pulse.clone();
        std::thread::spawn(move || {
            loop {
                reporter.report();
                std::thread::sleep(EVERY);
            }
        });
        pulse
    }

    /// Counts a step.
    pub(crate) fn step(&self) {
        // Relaxed: a count, nothing is handed over.
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs a call of the driver, and counts it.
    pub(crate) fn during<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> T {
        // Relaxed: a number that is given once.
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.calls().push((id, name));
        let result = call();
        self.calls().retain(|(known, _)| *known != id);
        self.step();
        result
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Vec<(u64, &'static str)>> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) {
        let call = self.calls().first().map(|(_, name)| (*name).to_owned());
        send(&WorkerEvent::Pulse { steps: self.0.steps.load(Ordering::Relaxed), call });
    }
}

/// The pipe to the coordinator: a descriptor of its own, as the program may hold the lock of its
/// standard output for as long as it runs.
static PIPE: OnceLock<Option<Mutex<File>>> = OnceLock::new();

/// Writes an event. A coordinator that is gone ends the worker.
pub(crate) fn send(event: &WorkerEvent) {
    let Ok(text) = serde_json::to_string(event) else { return };
    let pipe = PIPE.get_or_init(|| {
        let copy = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
        Some(Mutex::new(File::from(copy)))
    });
    let Some(pipe) = pipe else { end() };
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    // A line of the program's own may be unfinished.
    if pipe.write_all(format!("\n{MARK}{text}\n").as_bytes()).is_err() {
        end();
    }
}

#[expect(clippy::exit, reason = "a worker without a coordinator has nobody to report to")]
fn end() -> ! {
    std::process::exit(1)
}
