//! One worker under supervision, and the outcome: which process failed, and how.
//!
//! | outcome | when, the first that holds |
//! |---|---|
//! | CRASH driver | the driver's process ended and the suite didn't end it, after whatever calls |
//! | CRASH client | the worker ended by a signal or without a result |
//! | HANG | no step for the patience, or the work's time and 20 s more passed |
//! | FAILURE, SKIPPED, SUCCESS | the worker says so |

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::driver::{End, StderrTail, TestedDriver};
use super::proc::{Usage, signal_name, threads_of};
use crate::error::MltsError;
use crate::protocol::{JOB, Job, MARK, Via, WorkerEvent};

/// The time between two looks at the processes.
const LOOK: Duration = Duration::from_millis(20);
const SAMPLE: Duration = Duration::from_millis(100);
/// Looks at the pipe of a worker that has ended: a process that it left may hold it open.
const FEW_LOOKS: u32 = 5;
const LAST_LOOKS: u32 = 50;
/// A process that uses less of a processor than this stands still.
const STILL: f64 = 0.1;
/// Beyond the planned time of a piece of work.
const GRACE: Duration = Duration::from_secs(20);
/// A driver of one client has this long to end after it, before it is ended.
const PARTING: Duration = Duration::from_secs(2);

/// The program that workers are: its command, without the job.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<String>,
}

/// The outcome of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
    Hang,
    Crash,
    Skipped,
    /// The user stopped the run.
    Aborted,
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Failure => "FAILURE",
            Self::Hang => "HANG",
            Self::Crash => "CRASH",
            Self::Skipped => "SKIPPED",
            Self::Aborted => "ABORTED",
        }
    }
}

/// The outcome of a piece of work.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) process: Option<String>,
    pub(crate) reason: String,
    /// The result of a success, or the failing case.
    pub(crate) value: Value,
    /// Finished parts of the result, also where the work failed later.
    pub(crate) parts: BTreeMap<String, Value>,
    pub(crate) seconds: f64,
    pub(crate) steps: u64,
    /// The largest resident memory and the processor time of driver and worker.
    pub(crate) driver: Usage,
    pub(crate) client: Usage,
    pub(crate) threads: String,
    pub(crate) stderr: String,
}

/// Called where a worker has come to a point.
pub(crate) type OnReady<'a> = &'a mut dyn FnMut(&str, &mut TestedDriver, &mut Child);

/// The limits of a piece of work, and who looks on.
pub(crate) struct Supervision<'a> {
    /// The time without a step that is a hang.
    pub(crate) patience: Duration,
    /// The planned time.
    pub(crate) planned: Duration,
    pub(crate) abort: &'a AtomicBool,
    /// Called where the worker has come to a point that it was to report.
    pub(crate) on_ready: Option<OnReady<'a>>,
}

/// Runs a job in a worker.
///
/// # Errors
/// The worker can't be started.
pub(crate) fn supervise(
    program: &Program,
    mut job: Job,
    driver: &mut TestedDriver,
    supervision: Supervision<'_>,
) -> Result<Ended, MltsError> {
    let (via, socket) = driver.connection()?;
    job.via = via;
    job.driver_pid = driver.pid();
    let mut worker = Worker::start(program, &job, driver, socket)?;
    worker.watch(driver, supervision)
}

/// A worker's process and what it has reported.
struct Worker {
    child: Child,
    events: Receiver<String>,
    stderr: StderrTail,
    /// Kept until the worker has read it.
    _job: tempfile::NamedTempFile,
    is_in_worker: bool,
    begun: Instant,
    steps: u64,
    moved: Instant,
    gaps: Vec<f64>,
    call: Option<String>,
    parts: BTreeMap<String, Value>,
    result: Option<WorkerEvent>,
    driver: Usage,
    client: Usage,
    /// Processor seconds of driver and worker when the last step was seen.
    cpu_at_step: [f64; 2],
    sampled: Instant,
}

impl Worker {
    fn start(
        program: &Program,
        job: &Job,
        driver: &TestedDriver,
        socket: Option<std::os::fd::OwnedFd>,
    ) -> Result<Self, MltsError> {
        let failed = || MltsError::system("starting a worker");
        let mut file = tempfile::NamedTempFile::new().map_err(failed())?;
        serde_json::to_writer(&mut file, job).map_err(|error| failed()(error.into()))?;
        std::io::Write::flush(&mut file).map_err(failed())?;
        let mut command = Command::new(&program.path);
        command.args(&program.args).env(JOB, file.path());
        if let Some(dir) = driver.dir() {
            command.env("NNBURST_SERVICE_DIR", dir);
        }
        let stdin = socket.map_or_else(Stdio::null, Stdio::from);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        // As for the driver's process: the coordinator ends it.
        command.process_group(0);
        let mut child = command.spawn().map_err(failed())?;
        let stderr = StderrTail::default();
        stderr.follow(&mut child);
        let (sender, events) = channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let now = Instant::now();
        let is_in_worker = matches!(job.via, Via::Own);
        let cpu_at_step = [driver.usage().map_or(0.0, |usage| usage.cpu_s), 0.0];
        Ok(Self {
            child,
            events,
            stderr,
            _job: file,
            is_in_worker,
            begun: now,
            steps: 0,
            moved: now,
            gaps: Vec::new(),
            call: None,
            parts: BTreeMap::new(),
            result: None,
            driver: Usage::default(),
            client: Usage::default(),
            cpu_at_step,
            sampled: now,
        })
    }

    fn watch(
        &mut self,
        driver: &mut TestedDriver,
        mut supervision: Supervision<'_>,
    ) -> Result<Ended, MltsError> {
        let cpu_before = driver.usage().map_or(0.0, |usage| usage.cpu_s);
        let end = loop {
            let is_open = self.take_events(driver, &mut supervision);
            if self.sampled.elapsed() >= SAMPLE {
                self.sample(driver);
            }
            if supervision.abort.load(Ordering::Relaxed) {
                break self.ended(Outcome::Aborted, None, "stopped by the user", driver);
            }
            if self.result.is_some() {
                break self.parted(driver);
            }
            if let Some(end) = driver.ended().filter(|_| !driver.is_killed) {
                if end == End::Good && self.is_dead() {
                    // The driver of one client ends with it; what the client wrote comes first.
                    let mut looks = 0;
                    while looks < LAST_LOOKS && self.take_events(driver, &mut supervision) {
                        looks += 1;
                    }
                    if self.result.is_some() {
                        break self.parted(driver);
                    }
                    break self.worker_gone(driver);
                }
                // What the worker reported before counts, and what it saw; so does the driver's
                // end.
                let mut looks = 0;
                while looks < FEW_LOOKS
                    && self.result.is_none()
                    && self.take_events(driver, &mut supervision)
                {
                    looks += 1;
                }
                break self.driver_crash(&end, driver);
            }
            if !is_open {
                break self.worker_gone(driver);
            }
            if let Some(why) = self.hang(&supervision) {
                break self.hung(&why, driver);
            }
        };
        let mut end = end;
        // A worker that has reported its result ends at once; another is ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        end.driver.cpu_s = (self.driver.cpu_s - cpu_before).max(0.0);
        Ok(end)
    }

    /// Takes what has come; false once the worker's pipe is closed.
    fn take_events(
        &mut self,
        driver: &mut TestedDriver,
        supervision: &mut Supervision<'_>,
    ) -> bool {
        let mut line = self.events.recv_timeout(LOOK);
        loop {
            match line {
                Ok(text) => self.take(&text, driver, supervision),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
            line = self.events.recv_timeout(Duration::ZERO);
        }
    }

    fn take(&mut self, line: &str, driver: &mut TestedDriver, supervision: &mut Supervision<'_>) {
        let event = line.strip_prefix(MARK).and_then(|text| serde_json::from_str(text).ok());
        match event {
            None => {}
            Some(WorkerEvent::Pulse { steps, call }) => {
                self.call = call;
                if steps != self.steps {
                    let done = crate::num::real_u64(steps.saturating_sub(self.steps));
                    self.gaps.push(self.moved.elapsed().as_secs_f64() / done);
                    self.steps = steps;
                    self.move_on();
                }
            }
            Some(WorkerEvent::Part { name, value }) => {
                self.parts.insert(name, value);
                self.move_on();
            }
            Some(WorkerEvent::Ready { what }) => {
                self.move_on();
                if let Some(on_ready) = &mut supervision.on_ready {
                    on_ready(&what, driver, &mut self.child);
                    // The time that this took is not the worker's.
                    self.move_on();
                }
            }
            Some(end) => self.result = Some(end),
        }
    }

    fn move_on(&mut self) {
        self.moved = Instant::now();
        self.cpu_at_step = [self.driver.cpu_s, self.client.cpu_s];
    }

    fn sample(&mut self, driver: &TestedDriver) {
        self.sampled = Instant::now();
        let keep = |most: &mut Usage, now: Usage| {
            most.rss_mib = most.rss_mib.max(now.rss_mib);
            most.threads = most.threads.max(now.threads);
            most.fds = most.fds.max(now.fds);
            most.cpu_s = now.cpu_s;
        };
        if let Some(now) = driver.usage() {
            keep(&mut self.driver, now);
        }
        if let Some(now) = Usage::of(self.child.id()) {
            keep(&mut self.client, now);
        }
    }

    /// Why the worker counts as hung, if it does.
    fn hang(&self, supervision: &Supervision<'_>) -> Option<String> {
        let typical = Duration::from_secs_f64(20.0 * crate::num::median(&self.gaps));
        let patience = supervision.patience.max(typical);
        let still = self.moved.elapsed();
        if still > patience {
            let call = self.call.as_deref().unwrap_or("no call of the driver");
            let steps = self.steps;
            return Some(format!(
                "no step for {:.1} s after {steps} steps, in {call}",
                still.as_secs_f64()
            ));
        }
        let planned = supervision.planned;
        let is_over = self.begun.elapsed() > planned + GRACE.max(patience);
        is_over.then(|| format!("not over {GRACE:?} after its planned {planned:?}"))
    }

    /// A worker that has reported: the driver's end is looked at before the result is believed.
    fn parted(&mut self, driver: &mut TestedDriver) -> Ended {
        // A worker that failed stays connected for a moment: a driver that has ended by then has
        // not done so because its client left.
        let has_failed = matches!(self.result, Some(WorkerEvent::Failed { .. }));
        if has_failed && driver.has_one_client() && !driver.is_killed {
            let end = driver.wait(crate::worker::CONNECTED / 2);
            if let Some(end) = end {
                return self.driver_crash(&end, driver);
            }
        }
        // The connection of a driver of one client ends with the worker.
        let _ = self.child.wait();
        if !driver.is_killed {
            let end = if driver.has_one_client() { driver.wait(PARTING) } else { driver.ended() };
            if let Some(end @ End::Bad(_)) = end {
                return self.driver_crash(&end, driver);
            }
            if end.is_some() && !driver.has_one_client() {
                return self.driver_crash(&End::Good, driver);
            }
        }
        match self.result.take() {
            Some(WorkerEvent::Done { value }) => {
                let mut end = self.ended(Outcome::Success, None, "", driver);
                end.value = value;
                end
            }
            Some(WorkerEvent::Failed { reason, detail }) => {
                let mut end = self.ended(Outcome::Failure, None, &reason, driver);
                end.value = detail;
                end
            }
            Some(WorkerEvent::Skipped { reason }) => {
                self.ended(Outcome::Skipped, None, &reason, driver)
            }
            _ => self.ended(Outcome::Failure, None, "the worker reported nothing", driver),
        }
    }

    fn driver_crash(&mut self, end: &End, driver: &TestedDriver) -> Ended {
        let how = match end {
            End::Good => "exit code 0 while in use",
            End::Bad(how) => how,
        };
        let mut reason = format!("the driver's process ended: {how}");
        if let Some(WorkerEvent::Failed { reason: seen, .. }) = &self.result {
            reason = format!("{reason}; the client saw: {seen}");
        }
        let mut ended = self.ended(Outcome::Crash, Some("driver"), &reason, driver);
        // What was answered before stays answered.
        if let Some(WorkerEvent::Done { value }) = self.result.take() {
            ended.value = value;
        }
        ended
    }

    /// The worker's pipe is closed and there was no result.
    fn worker_gone(&mut self, driver: &mut TestedDriver) -> Ended {
        let status = self.child.wait();
        // The death of the driver may be what ended it.
        if let Some(end @ End::Bad(_)) = driver.wait(Duration::from_millis(200))
            && !driver.is_killed
        {
            return self.driver_crash(&end, driver);
        }
        let how = match status {
            Ok(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => signal_name(signal),
                (None, code) => format!("exit code {} without a result", code.unwrap_or(-1)),
            },
            Err(error) => error.to_string(),
        };
        let reason = format!("the worker's process ended: {how}");
        let process = if self.is_in_worker { "driver (embedded)" } else { "client" };
        self.ended(Outcome::Crash, Some(process), &reason, driver)
    }

    /// Returns whether the worker has ended by itself, or is just about to.
    fn is_dead(&mut self) -> bool {
        const PATIENCE: Duration = Duration::from_millis(200);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Ok(Some(_)) = self.child.try_wait() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    fn hung(&mut self, why: &str, driver: &mut TestedDriver) -> Ended {
        self.sample(driver);
        let client = self.child.id();
        let seconds = self.moved.elapsed().as_secs_f64().max(0.001);
        let [_, client_before] = self.cpu_at_step;
        let client_is_still = (self.client.cpu_s - client_before) / seconds < STILL;
        let process = if self.is_in_worker {
            "driver (embedded)"
        } else if self.call.is_some() && client_is_still {
            // It sits in one call and does nothing but wait.
            "driver"
        } else {
            "client"
        };
        let mut end = self.ended(Outcome::Hang, Some(process), why, driver);
        end.threads = format!("worker:\n{}", threads_of(client));
        if let Some(pid) = driver.pid() {
            end.threads = format!("{}\ndriver:\n{}", end.threads, threads_of(pid));
        }
        if driver.dir().is_some() || driver.pid().is_some() {
            driver.is_killed = true;
        }
        end
    }

    fn ended(
        &mut self,
        outcome: Outcome,
        process: Option<&str>,
        reason: &str,
        driver: &TestedDriver,
    ) -> Ended {
        let has_ended = outcome == Outcome::Crash;
        let mut stderr = driver.stderr_tail(has_ended);
        let own = self.stderr.text(has_ended);
        if !own.is_empty() {
            stderr = format!("{stderr}{own}");
        }
        Ended {
            outcome,
            process: process.map(str::to_owned),
            reason: reason.to_owned(),
            value: Value::Null,
            parts: std::mem::take(&mut self.parts),
            seconds: self.begun.elapsed().as_secs_f64(),
            steps: self.steps,
            driver: self.driver,
            client: self.client,
            threads: String::new(),
            stderr,
        }
    }
}
