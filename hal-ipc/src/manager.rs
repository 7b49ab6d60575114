//! The service manager that started this process: systemd's notification protocol (`sd_notify`).
//!
//! The manager names a datagram socket in `NOTIFY_SOCKET`, and with a watchdog the time in
//! `WATCHDOG_USEC` after which a service that said nothing is hung.

use std::ffi::OsStr;
use std::io;
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
#[cfg(not(target_os = "android"))]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nnburst_hal::environment;
use nnburst_hal::process::spawn;

use crate::server::Serving;

/// The least time between two messages of the watchdog.
const SHORTEST: Duration = Duration::from_millis(1);

/// The connection to the service manager.
///
/// It is made before a sandbox is entered, in which there are no new sockets, and used from then
/// on. A manager that doesn't listen any more is no error: the service goes on.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Connects to the manager that started this process; `None` if none did that wants to be told,
    /// and with a warning if it can't be: who inherited another program's environment serves
    /// nevertheless.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        let name = environment("NOTIFY_SOCKET")?;
        let connected = connect(name.as_bytes());
        let warn = |error: &io::Error| tracing::warn!(%error, ?name, "NOTIFY_SOCKET");
        let socket = connected.inspect_err(warn).ok()?;
        Some(Self { socket, watchdog: watchdog() })
    }

    /// Tells that clients are served from now on.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// Tells that this process is the service's from now on, and serves clients, as
    /// [`Serving::has_succeeded`] says.
    pub fn succeeded(&self) {
        self.tell(&format!("MAINPID={}\nREADY=1", std::process::id()));
    }

    /// Tells that the service reads its configuration anew; [`ready`](Self::ready) tells that it
    /// has.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
        let now = now.map_or(0, |now| now.as_micros());
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
    }

    /// Tells that the service ends as it was asked to.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Tells, for as long as the process lives, that the service is not hung: twice in the time
    /// that the manager allows, if it keeps a watchdog, each time after the service's sessions
    /// could be looked at. It ends when another process has the service's place.
    ///
    /// # Errors
    /// The system has no thread or descriptor.
    pub fn watch(&self, serving: &Serving) -> io::Result<()> {
        let Some(limit) = self.watchdog.or_else(|| serving.watchdog()) else { return Ok(()) };
        let (watcher, service) =
            (Self { socket: self.socket.try_clone()?, watchdog: None }, serving.service());
        service.set_watchdog(limit);
        spawn("nnburst-watchdog", move || {
            while !service.is_taken_over() {
                // A lock that is never given back keeps this waiting, and the manager acts.
                tracing::trace!(sessions = service.sessions(), "alive");
                watcher.tell("WATCHDOG=1");
                // A limit of nothing must not take a core.
                std::thread::sleep((limit / 2).max(SHORTEST));
            }
        })?;
        Ok(())
    }

    fn tell(&self, state: &str) {
        if let Err(error) = self.socket.send(state.as_bytes()) {
            tracing::debug!(%error, state, "the service manager was not told");
        }
    }
}

/// Returns whether a manager runs this process to control its service, as systemd's `ExecReload=`.
pub(crate) fn is_control_process() -> bool {
    environment("MAINPID").is_some() && environment("NOTIFY_SOCKET").is_some()
}

/// Connects to a socket by its path, or by its abstract name after an `@`.
fn connect(name: &[u8]) -> io::Result<UnixDatagram> {
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(OsStr::from_bytes(name))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A manager that is stopped must not stop its services.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The watchdog's limit, if it is this process's.
fn watchdog() -> Option<Duration> {
    let number = |name| environment(name)?.to_str()?.parse::<u64>().ok();
    if environment("WATCHDOG_PID").is_some()
        && number("WATCHDOG_PID") != Some(u64::from(std::process::id()))
    {
        return None;
    }
    number("WATCHDOG_USEC").filter(|&limit| limit > 0).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_listen_at_a_path_or_by_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("nnburst-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (manager, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}")),
        ] {
            let socket = connect(address.as_bytes()).unwrap();
            ServiceManager { socket, watchdog: None }.ready();
            let mut state = [0; 16];
            let length = manager.recv(&mut state).unwrap();
            assert_eq!(&state[..length], b"READY=1", "{address}");
        }
        assert!(connect(b"/nowhere").is_err());
    }
}
