//! The driver's process: started for a piece of work, watched, killed, started again.

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;
use nnburst::hal::process::open_pidfd;

use super::proc::{Usage, signal_name};
use crate::error::MltsError;
use crate::protocol::Via;
use crate::sys::limit_data;
use crate::target::{How, Target};

/// The time that a program has to serve.
const START: Duration = Duration::from_secs(10);
/// The time that a service has to come back by itself.
const RETURN: Duration = Duration::from_secs(5);
/// Bytes of standard error that are kept.
const TAIL: usize = 64 << 10;
const SERVICE_DIR: &str = "NNBURST_SERVICE_DIR";

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With exit code 0.
    Good,
    /// By a signal, or with another code: in words.
    Bad(String),
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match (status.signal(), status.code()) {
            (Some(signal), _) => Self::Bad(signal_name(signal)),
            (None, Some(0)) => Self::Good,
            (None, code) => Self::Bad(format!("exit code {}", code.unwrap_or(-1))),
        }
    }
}

/// A driver's process, or the place where it would be.
#[derive(Debug)]
pub(crate) struct TestedDriver {
    target: Target,
    child: Option<Child>,
    /// The process where it is not a child of this one, and what its end is noticed by: the entry
    /// in `/proc` is a zombie's as soon as its first thread has ended, while others still serve.
    other: Option<u32>,
    watch: Option<OwnedFd>,
    /// The directory of services that the program serves in.
    dir: Option<PathBuf>,
    stderr: StderrTail,
    /// The socket for the worker that is started next.
    socket: Option<OwnedFd>,
    end: Option<End>,
    /// True from when the suite itself kills the process.
    pub(crate) is_killed: bool,
    /// From starting the program until it answered.
    pub(crate) start_time: Duration,
}

impl TestedDriver {
    /// Starts the driver, or finds it.
    ///
    /// # Errors
    /// [`MltsError::Unreachable`].
    pub(crate) fn start(target: &Target) -> Result<Self, MltsError> {
        let mut driver = Self {
            target: target.clone(),
            child: None,
            other: None,
            watch: None,
            dir: None,
            stderr: StderrTail::default(),
            socket: None,
            end: None,
            is_killed: false,
            start_time: Duration::ZERO,
        };
        driver.launch()?;
        Ok(driver)
    }

    /// As [`TestedDriver::start`]; a service that was killed has a while to come back.
    ///
    /// # Errors
    /// [`MltsError::Unreachable`].
    pub(crate) fn start_again(target: &Target) -> Result<Self, MltsError> {
        let begun = Instant::now();
        loop {
            let started = Self::start(target);
            let waits = matches!(target.how, How::Served { .. });
            if started.is_ok() || !waits || begun.elapsed() > RETURN {
                return started;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// As [`TestedDriver::start`], with a process that may have so many descriptors.
    ///
    /// # Errors
    /// [`MltsError::Unreachable`], also where the program can't serve with so few.
    pub(crate) fn start_with_descriptors(
        target: &Target,
        descriptors: u64,
    ) -> Result<Self, MltsError> {
        let mut target = target.clone();
        if let How::Command { argv } | How::Service { argv, .. } = &mut target.how {
            // The shell's limit holds for the program that takes its place.
            let shell = ["sh", "-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"")];
            argv.splice(0..0, shell.map(str::to_owned));
        }
        Self::start(&target)
    }

    /// Limits the process's data to so many bytes more than it has now: what it may write to and
    /// nobody else sees, not what it has only reserved.
    pub(crate) fn limit_memory(&self, more: u64) -> std::io::Result<()> {
        let pid = self.process().ok_or(Errno::ESRCH)?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmData:"));
        let kib = kib.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let limit = kib.unwrap_or(0).saturating_mul(1024).saturating_add(more);
        Ok(limit_data(pid, limit)?)
    }

    /// The same service for another client; its process stays with `self`.
    pub(crate) fn attach(&self) -> Self {
        Self {
            target: self.target.clone(),
            child: None,
            other: self.pid(),
            watch: self.process().and_then(watch),
            dir: self.dir.clone(),
            stderr: self.stderr.clone(),
            socket: None,
            end: None,
            is_killed: false,
            start_time: Duration::ZERO,
        }
    }

    /// Starts the driver once more, after its process has ended; or waits until whoever started it
    /// does so.
    pub(crate) fn restart(&mut self) -> Result<(), MltsError> {
        self.reap();
        self.end = None;
        self.is_killed = false;
        let old = self.other.take();
        let begun = Instant::now();
        loop {
            let mut launched = self.launch();
            if launched.is_ok() && old.is_some() && self.other == old {
                // Its socket takes connections until its last thread has ended.
                let why = "the old process has not ended yet".to_owned();
                let target = self.target.name.clone();
                launched = Err(MltsError::Unreachable { target, why });
            }
            let waits = matches!(self.target.how, How::Served { .. });
            if launched.is_ok() || !waits || begun.elapsed() > RETURN {
                return launched;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn launch(&mut self) -> Result<(), MltsError> {
        let begun = Instant::now();
        let unreachable =
            |why: String| MltsError::Unreachable { target: self.target.name.clone(), why };
        match &self.target.how {
            How::Embedded { .. } | How::Library { .. } => {}
            How::Command { argv } => {
                let pair = UnixStream::pair();
                let (ours, theirs) = pair.map_err(|error| unreachable(error.to_string()))?;
                let mut command = program(argv).map_err(unreachable)?;
                let child = command.stdin(OwnedFd::from(theirs)).spawn();
                let mut child = child.map_err(|error| unreachable(error.to_string()))?;
                self.stderr.follow(&mut child);
                self.child = Some(child);
                self.socket = Some(ours.into());
            }
            How::Service { argv, instance } => {
                let dir = match &self.dir {
                    Some(dir) => dir.clone(),
                    None => private_dir().map_err(|error| unreachable(error.to_string()))?,
                };
                let socket = dir.join(format!("{instance}.sock"));
                // What a killed service left is no sign of a new one.
                let _ = std::fs::remove_file(&socket);
                let mut command = program(argv).map_err(unreachable)?;
                // Open and silent: a program may serve until there is no more input.
                let child = command.stdin(Stdio::piped()).env(SERVICE_DIR, &dir).spawn();
                let mut child = child.map_err(|error| unreachable(error.to_string()))?;
                self.stderr.follow(&mut child);
                let served = wait_for(&socket, &mut child);
                self.child = Some(child);
                self.dir = Some(dir);
                served.map_err(|why| MltsError::Unreachable {
                    target: self.target.name.clone(),
                    why,
                })?;
            }
            How::Served { instance } => {
                let dir = nnburst_hal_ipc::service_dir();
                let dir = dir.map_err(|error| unreachable(error.to_string()))?;
                let socket = dir.join(format!("{instance}.sock"));
                let failed = |error| unreachable(format!("{}: {error}", socket.display()));
                let stream = UnixStream::connect(&socket).map_err(failed)?;
                let peer = getsockopt(&stream, sockopt::PeerCredentials);
                let peer = peer.map_err(|errno| failed(errno.into()))?;
                self.other = u32::try_from(peer.pid()).ok();
                self.watch = watch(Pid::from_raw(peer.pid()));
            }
        }
        self.start_time = begun.elapsed();
        Ok(())
    }

    /// The way of the next worker to the driver. A driver of one client is started anew for the
    /// second.
    pub(crate) fn connection(&mut self) -> Result<(Via, Option<OwnedFd>), MltsError> {
        Ok(match &self.target.how {
            How::Embedded { .. } | How::Library { .. } => (Via::Own, None),
            How::Service { .. } | How::Served { .. } => (Via::Name { dir: self.dir.clone() }, None),
            How::Command { .. } => {
                if self.socket.is_none() {
                    self.stop();
                    self.restart()?;
                }
                (Via::Stdin, self.socket.take())
            }
        })
    }

    /// Returns whether the process serves one client and ends with it.
    pub(crate) fn has_one_client(&self) -> bool {
        matches!(self.target.how, How::Command { .. })
    }

    /// The directory that the worker finds the service in, where it is the suite's own.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// The number of the process, where the driver has one of its own.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id).or(self.other)
    }

    /// Resources of the process.
    pub(crate) fn usage(&self) -> Option<Usage> {
        Usage::of(self.pid()?)
    }

    /// The end of the process; `None` while it lives, or where there is none.
    pub(crate) fn ended(&mut self) -> Option<End> {
        if self.end.is_none() {
            if let Some(child) = &mut self.child {
                self.end = child.try_wait().ok().flatten().map(End::of);
            } else if let Some(pid) = self.other {
                let is_gone = match &self.watch {
                    Some(watch) => has_ended(watch, Duration::ZERO),
                    None => Usage::of(pid).is_none(),
                };
                self.end = is_gone.then(|| End::Bad("it ended".to_owned()));
            }
        }
        self.end.clone()
    }

    /// Waits for the end of the process, as long as `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<End> {
        let begun = Instant::now();
        while self.ended().is_none() && begun.elapsed() < patience && self.pid().is_some() {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.ended()
    }

    /// Sends a signal that the test plans.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let ends = !matches!(signal, Signal::SIGSTOP | Signal::SIGCONT);
        self.is_killed |= ends;
        if let Some(pid) = self.process() {
            // A process that is gone already is noticed by `ended`.
            let _ = kill(pid, signal);
        }
    }

    /// Sends a signal that the test plans until the process has ended: a handler of the program's
    /// own may return from the first one.
    pub(crate) fn kill(&mut self, signal: Signal) {
        const PATIENCE: Duration = Duration::from_millis(200);
        const AGAIN: Duration = Duration::from_millis(1);
        let process = self.process().and_then(watch);
        let begun = Instant::now();
        self.signal(signal);
        while self.ended().is_none() && begun.elapsed() < PATIENCE {
            match &process {
                // Readable once the process has ended; the time of that is what callers note.
                Some(process) => {
                    let _ = has_ended(process, AGAIN);
                }
                None => std::thread::sleep(AGAIN),
            }
            self.signal(signal);
        }
    }

    fn process(&self) -> Option<Pid> {
        self.pid().and_then(|pid| Some(Pid::from_raw(i32::try_from(pid).ok()?)))
    }

    /// The last lines on standard error, of a process that has ended all of them.
    pub(crate) fn stderr_tail(&self, has_ended: bool) -> String {
        self.stderr.text(has_ended)
    }

    /// Ends the process, where it is one that the suite started.
    pub(crate) fn stop(&mut self) {
        self.socket = None;
        self.is_killed = true;
        self.reap();
    }

    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only for a process that is gone and reaped.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for TestedDriver {
    fn drop(&mut self) {
        let is_owner = self.child.is_some();
        self.stop();
        if let Some(dir) = self.dir.as_ref().filter(|_| is_owner) {
            // The system empties its folder of temporary files by and by.
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

/// A descriptor that is readable once all threads of a process have ended.
fn watch(process: Pid) -> Option<OwnedFd> {
    open_pidfd(u32::try_from(process.as_raw()).ok()?).ok()
}

/// Returns whether the process behind the descriptor has ended, or does within `patience`.
fn has_ended(process: &OwnedFd, patience: Duration) -> bool {
    let mut ends = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    // Interrupted is not ended; who waits asks again.
    poll(&mut ends, patience).is_ok_and(|ready| ready > 0)
}

fn program(argv: &[String]) -> Result<Command, String> {
    let (program, arguments) = argv.split_first().ok_or("the command is empty")?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    // Ctrl-C on the terminal is for the coordinator, which ends its processes itself.
    command.process_group(0);
    Ok(command)
}

/// A directory of services that no other user can reach.
fn private_dir() -> std::io::Result<PathBuf> {
    let dir = tempfile::Builder::new().prefix("nnburst-mlts-services-").tempdir()?.keep();
    std::fs::remove_dir(&dir)?;
    std::fs::DirBuilder::new().mode(0o700).create(&dir)?;
    Ok(dir)
}

/// Waits until somebody serves on the socket.
fn wait_for(socket: &Path, child: &mut Child) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        if UnixStream::connect(socket).is_ok() {
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("the program ended before it served: {status}"));
        }
        if begun.elapsed() > START {
            return Err(format!("nobody serves on {} after {START:?}", socket.display()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The time in which what a process wrote is read after its end. Others may have its standard error
/// still.
const REST: Duration = Duration::from_secs(1);

/// The end of a process's standard error, read by a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct StderrTail(Arc<(Mutex<Tail>, Condvar)>);

#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    /// Threads that have not come to the end.
    readers: usize,
}

impl StderrTail {
    /// Reads what the child writes until it ends.
    pub(crate) fn follow(&self, child: &mut Child) {
        let Some(mut pipe) = child.stderr.take() else { return };
        self.lock().readers += 1;
        let tail = self.clone();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut chunk) {
                let bytes = &mut tail.lock().bytes;
                bytes.extend(chunk.iter().take(read));
                let excess = bytes.len().saturating_sub(TAIL);
                bytes.drain(..excess);
            }
            tail.lock().readers -= 1;
            tail.0.1.notify_all();
        });
    }

    /// What was read so far; of a process that has ended all of it.
    pub(crate) fn text(&self, has_ended: bool) -> String {
        let patience = if has_ended { REST } else { Duration::ZERO };
        let waited = self.0.1.wait_timeout_while(self.lock(), patience, |tail| tail.readers > 0);
        let tail = waited.unwrap_or_else(PoisonError::into_inner).0;
        let bytes: Vec<u8> = tail.bytes.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn lock(&self) -> MutexGuard<'_, Tail> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
