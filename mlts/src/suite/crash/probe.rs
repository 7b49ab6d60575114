//! The other client beside a test: a process that a thread of the coordinator supervises.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::TestRun;
use crate::protocol::Task;
use crate::report::{CrashReport, Probe};
use crate::run::{OnReady, Outcome, Supervision, TestedDriver, supervise};

/// The longest time without a right answer for a client beside a test.
const GAP_MS: f64 = 250.0;

pub(super) fn judge_probe(row: &mut CrashReport) {
    let Some(probe) = row.probe else { return };
    // Clients of one user share what the user may have: at its limit all of them are refused.
    let is_pressed = matches!(row.id.as_str(), "c16" | "c17");
    let failed = if probe.failed > 0 {
        format!("{} of {} calls of another client failed", probe.failed, probe.calls)
    } else if is_pressed {
        return;
    } else if probe.refused > 0 {
        format!("{} of {} calls of another client were refused", probe.refused, probe.calls)
    } else if probe.longest_gap_ms > GAP_MS + 50.0 {
        format!("another client had no answer for {:.0} ms, at most {GAP_MS}", probe.longest_gap_ms)
    } else {
        return;
    };
    if row.outcome == "SUCCESS" {
        Outcome::Failure.name().clone_into(&mut row.outcome);
        row.process = Some("driver".to_owned());
        row.reason = failed;
    }
}

/// The other client, in a thread that supervises it.
pub(super) struct Prober {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Option<Probe>>,
}

impl Prober {
    /// Starts it, where the driver serves several clients, and waits until it has measured itself
    /// undisturbed.
    pub(super) fn start(run: &TestRun<'_>, driver: &TestedDriver) -> Option<Self> {
        if !run.target.is_shared() {
            return None;
        }
        let mut driver = driver.attach();
        let stop = Arc::new(AtomicBool::new(false));
        let abort = Arc::clone(&stop);
        let program = run.context.program.clone();
        let job = run.context.job(run.target, Task::Crash(run.work("probe", &[])));
        let patience = run.context.patience;
        let (measured, is_measured) = channel();
        let thread = std::thread::spawn(move || {
            let planned = Duration::from_secs(3600);
            // A coordinator that has waited long enough doesn't listen any more.
            let mut on_ready = |_: &str, _: &mut TestedDriver, _: &mut Child| {
                let _ = measured.send(());
            };
            let on_ready: OnReady<'_> = &mut on_ready;
            let supervision =
                Supervision { patience, planned, abort: &abort, on_ready: Some(on_ready) };
            let ended = supervise(&program, job, &mut driver, supervision).ok()?;
            let mut probe: Probe = ended
                .parts
                .get("probe")
                .and_then(|value| serde_json::from_value(value.clone()).ok())?;
            // One that didn't last to the end has failed once more.
            probe.failed += u64::from(ended.outcome != Outcome::Aborted);
            Some(probe)
        });
        // One that never begins is a matter of the test's result.
        let _ = is_measured.recv_timeout(patience);
        Some(Self { stop, thread })
    }

    pub(super) fn finish(self) -> Probe {
        // Relaxed: a switch, nothing is handed over.
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().flatten().unwrap_or_default()
    }
}
