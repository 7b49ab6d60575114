//! Drivers that are started when somebody asks for them: `NAME.service` in the directory of services.
//!
//! The file has lines `name = value`; `exec` is the command, split at spaces. It runs in a process group of its own, with
//! nothing on its standard streams and `NNBURST_SERVICE_DIR` as it is here, and has to serve NAME: whoever asked waits for its socket.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nnburst_hal_ipc::{services, socket_path};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::{Result, RuntimeError};

const SUFFIX: &str = ".service";
/// How long a started driver may take to serve.
const PATIENCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(2);

/// The names of all services, those that run and those that can be started, sorted.
pub(crate) fn known(dir: &Path) -> Vec<String> {
    let mut names = services(dir);
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(std::result::Result::ok);
    names.extend(entries.filter_map(|entry| {
        let name = entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned();
        // A name that no socket can have is no service.
        socket_path(dir, &name).ok().map(|_| name)
    }));
    names.sort();
    names.dedup();
    names
}

/// Starts a service that has a file and doesn't run, and waits until it can be reached.
///
/// # Errors
/// [`RuntimeError::Driver`] where the file has no command, or that can't be started or doesn't serve in time.
pub(crate) fn start(dir: &Path, name: &str) -> Result<()> {
    let failed = |why: String| RuntimeError::driver(format!("starting {name}"), why);
    let socket = socket_path(dir, name).map_err(|error| failed(error.to_string()))?;
    let answers = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    let Ok(text) = std::fs::read_to_string(dir.join(format!("{name}{SUFFIX}"))) else {
        return Ok(()); // not to be started by us
    };
    if answers() {
        return Ok(());
    }
    let words =
        command_of(&text).ok_or_else(|| failed("the file has no `exec = COMMAND`".into()))?;
    let (program, arguments) =
        words.split_first().ok_or_else(|| failed("an empty command".into()))?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("NNBURST_SERVICE_DIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("{program}: {error}")))?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if answers() {
            reap(child);
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed(format!("{program} ended: {status}")));
        }
        std::thread::sleep(GLANCE);
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(failed(format!("{program} doesn't serve {} after {PATIENCE:?}", socket.display())))
}

/// What ends the threads that wait for started drivers to end.
static STOP: Mutex<Option<Arc<OwnedFd>>> = Mutex::new(None);

/// Reaps a driver whenever it ends, which is not ours to decide. Where no thread or descriptor is to be had, it
/// stays behind as a zombie until this process ends.
fn reap(mut child: Child) {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    let (Ok(ended), Some(stop)) = (pidfd_open(pid, PidfdFlags::empty()), stop()) else { return };
    let wait = move || {
        let mut watched = [PollFd::new(&ended, PollFlags::IN), PollFd::new(&*stop, PollFlags::IN)];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        if !watched[0].revents().is_empty() {
            let _ = child.wait();
        }
    };
    let _ = std::thread::Builder::new().name("nnburst-reaper".into()).spawn(wait);
}

fn stop() -> Option<Arc<OwnedFd>> {
    let mut stop = STOP.lock().unwrap_or_else(PoisonError::into_inner);
    if stop.is_none() {
        *stop = eventfd(0, EventfdFlags::CLOEXEC).ok().map(Arc::new);
    }
    stop.clone()
}

/// Ends the threads that wait for started drivers to end.
pub(crate) fn stop_reaping() {
    if let Some(stop) = STOP.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // It can only fail if the count is at its end, which wakes the threads as well.
        let _ = rustix::io::write(&*stop, &1u64.to_ne_bytes());
    }
}

fn command_of(text: &str) -> Option<Vec<String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let mut values = lines.filter_map(|line| line.split_once('='));
    let (_, command) = values.find(|(name, _)| name.trim() == "exec")?;
    Some(command.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_and_failures_said() {
        let text = "# exec = no\n exec = /bin/one  --driver two \n";
        assert_eq!(command_of(text).unwrap(), ["/bin/one", "--driver", "two"]);
        assert_eq!(command_of("start = now"), None);
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("b.service", "exec = /no/such/program");
        write("a.service", "nothing");
        write("c.service", "exec = /bin/false");
        assert_eq!(known(dir.path()), ["a", "b", "c"]);
        let error = |name| start(dir.path(), name).unwrap_err().to_string();
        assert!(error("a").contains("no `exec"), "{}", error("a"));
        assert!(error("b").contains("/no/such/program"), "{}", error("b"));
        assert!(error("c").contains("ended"), "{}", error("c"));
        start(dir.path(), "no file").unwrap_err();
        start(dir.path(), "absent").unwrap();
    }
}
