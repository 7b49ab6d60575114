//! Drivers that are started when somebody asks for them: `NAME.service` in a directory of
//! configuration.
//!
//! The file has lines `name = value`; `exec` is the command, split at spaces, its program an
//! absolute path. It runs in a process group of its own, with nothing on its standard streams and
//! `NNBURST_SERVICE_DIR` as it is here, and has to serve NAME: whoever asked waits for its socket.
//!
//! Whoever writes such a file runs commands as this user. So they count in the user's own directory
//! and in root's alone, never beside the sockets; file and program must be such that no other user
//! could have changed them.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nnburst_hal::environment;
use nnburst_hal::process::{self, PerProcess, open_pidfd};
use nnburst_hal::trusted::{Owners, TrustError, TrustedDir, trusted_program};
use nnburst_hal_ipc::{is_served, services, socket_path};

use crate::error::{Result, RuntimeError};

const SUFFIX: &str = ".service";
/// The directories in which root configures services for all users, the first one first.
const SYSTEM: [&str; 3] =
    ["/etc/nnburst/services", "/usr/lib/nnburst/services", "/usr/share/nnburst/services"];
/// The time that a started driver may take until it serves.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A directory of `.service` files, and whose it has to be.
struct Configured {
    dir: PathBuf,
    owners: Owners,
}

/// The directories of `.service` files: the user's own, `nnburst/services` in `XDG_CONFIG_HOME` or
/// `~/.config`, then those of the system.
fn configured() -> Vec<Configured> {
    let home = || Some(PathBuf::from(environment("HOME")?).join(".config"));
    let own = environment("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
    let own =
        own.map(|dir| Configured { dir: dir.join("nnburst/services"), owners: Owners::own() });
    let system = SYSTEM.iter().map(|dir| Configured { dir: dir.into(), owners: Owners::ROOT });
    own.into_iter().chain(system).collect()
}

/// The names of all services, those that run and those that can be started, sorted.
///
/// # Errors
/// The directory of services is not this user's, or can't be read. A directory of configuration
/// that isn't trusted is warned of and left out.
pub(crate) fn known(dir: &Path) -> Result<Vec<String>> {
    let failed = |error| RuntimeError::driver("finding services", error);
    let mut names = services(dir).map_err(failed)?;
    names.extend(startable(&configured()));
    names.sort();
    names.dedup();
    Ok(names)
}

/// The names of the services that can be started.
fn startable(configured: &[Configured]) -> Vec<String> {
    let mut found = Vec::new();
    for Configured { dir, owners } in configured {
        match TrustedDir::open(dir, *owners).and_then(|dir| dir.names()) {
            Ok(names) => found.extend(names),
            Err(error) if error.is_absent() => {}
            Err(error) => {
                tracing::warn!(target: "nnburst::manager", %error, "no services are started from there");
            }
        }
    }
    let name = |file: &OsStr| Some(file.to_str()?.strip_suffix(SUFFIX)?.to_owned());
    let names = found.iter().filter_map(|file| name(file));
    // A name that no socket can have is no service.
    names.filter(|name| socket_path(Path::new(""), name).is_ok()).collect()
}

/// The text of a service's file: of the first directory that has one.
///
/// # Errors
/// The directory or the file isn't a trusted user's alone.
fn file_of(
    name: &str,
    configured: &[Configured],
) -> std::result::Result<Option<String>, TrustError> {
    for Configured { dir, owners } in configured {
        let file = TrustedDir::open(dir, *owners)
            .and_then(|dir| dir.file(OsStr::new(&format!("{name}{SUFFIX}")), OFlag::O_RDONLY));
        let mut file = match file {
            Err(error) if error.is_absent() => continue,
            file => file?,
        };
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(|source| TrustError::System { path: dir.join(name), source })?;
        return Ok(Some(text));
    }
    Ok(None)
}

/// Starts a service that has a file and doesn't run, and waits until it can be reached.
///
/// # Errors
/// [`RuntimeError::Driver`] where the file has no command, or could be another user's, or its
/// program can't be started or doesn't serve in time.
pub(crate) fn start(dir: &Path, name: &str) -> Result<()> {
    start_configured(dir, name, &configured())
}

fn start_configured(dir: &Path, name: &str, configured: &[Configured]) -> Result<()> {
    let failed = |why: String| RuntimeError::driver(format!("starting {name}"), why);
    let socket = socket_path(dir, name).map_err(|error| failed(error.to_string()))?;
    let text = file_of(name, configured).map_err(|error| failed(error.to_string()))?;
    let Some(text) = text else {
        return Ok(()); // not to be started by us
    };
    let is_served = || is_served(&socket).map_err(|error| failed(error.to_string()));
    if is_served()? {
        return Ok(());
    }
    let words =
        command_of(&text).ok_or_else(|| failed("the file has no `exec = COMMAND`".into()))?;
    let (program, arguments) =
        words.split_first().ok_or_else(|| failed("an empty command".into()))?;
    let program = trusted_program(Path::new(program), Owners::own())
        .map_err(|error| failed(error.to_string()))?;
    let mut child = Command::new(&program)
        .args(arguments)
        .env("NNBURST_SERVICE_DIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("{}: {error}", program.display())))?;
    let program = program.display();
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if is_served()? {
            reap(child);
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed(format!("{program} ended: {status}")));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(failed(format!("{program} doesn't serve {} after {PATIENCE:?}", socket.display())))
}

/// The event that ends the threads which wait for started drivers to end.
static STOP: PerProcess<Option<Arc<EventFd>>> = PerProcess::new();

/// Reaps a driver whenever it ends, which is not ours to decide. Where no thread or descriptor is
/// to be had, it stays behind as a zombie until this process ends.
fn reap(mut child: Child) {
    let (Ok(ended), Some(stop)) = (open_pidfd(child.id()), stop()) else { return };
    let wait = move || {
        let watch = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut watched = [watch(ended.as_fd()), watch(stop.as_fd())];
        while poll(&mut watched, PollTimeout::NONE) == Err(Errno::EINTR) {}
        if watched[0].any().unwrap_or(false) {
            let _ = child.wait();
        }
    };
    let _ = process::spawn("nnburst-reaper", wait);
}

fn stop() -> Option<Arc<EventFd>> {
    let mut stop = STOP.get().lock().unwrap_or_else(PoisonError::into_inner);
    if stop.is_none() {
        *stop = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).ok().map(Arc::new);
    }
    stop.clone()
}

/// Ends the threads that wait for started drivers to end.
pub(crate) fn stop_reaping() {
    if let Some(stop) = STOP.get().lock().unwrap_or_else(PoisonError::into_inner).take() {
        // It can only fail if the count is at its end, which wakes the threads as well.
        let _ = stop.write(1);
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
        write("d.service", "exec = false");
        let own = [Configured { dir: dir.path().to_owned(), owners: Owners::own() }];
        let mut names = startable(&own);
        names.sort();
        assert_eq!(names, ["a", "b", "c", "d"]);
        let start = |name| start_configured(dir.path(), name, &own);
        let error = |name| start(name).unwrap_err().to_string();
        assert!(error("a").contains("no `exec"), "{}", error("a"));
        assert!(error("b").contains("/no"), "{}", error("b"));
        assert!(error("c").contains("ended"), "{}", error("c"));
        assert!(error("d").contains("absolute"), "{}", error("d"));
        start("no file").unwrap_err();
        start("absent").unwrap();
    }

    #[test]
    fn files_beside_the_sockets_start_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("planted.service"), "exec = /bin/false").unwrap();
        assert!(!known(dir.path()).unwrap().contains(&"planted".to_owned()));
        start(dir.path(), "planted").unwrap();
    }

    #[test]
    fn files_that_others_may_write_start_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("one.service");
        std::fs::write(&file, "exec = /bin/false").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o646)).unwrap();
        let own = [Configured { dir: dir.path().to_owned(), owners: Owners::own() }];
        let refused = start_configured(dir.path(), "one", &own).unwrap_err().to_string();
        assert!(refused.contains("mode 0646"), "{refused}");
    }
}
