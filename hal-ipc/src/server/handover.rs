//! A service's place that another process takes, where both are of one service manager.
//!
//! ```text
//!   successor                         the process that serves
//!   greeting: Succession      ►
//!                             ◄       greeting: Succession, or Denied
//!                             ◄       answer: u64 microseconds of the watchdog; with the listening
//!                                     socket, where the manager made that
//!   accepts clients
//!   note                      ►       accepts no more, and serves those that it has
//! ```
//!
//! These are greetings and frames of no message, which are the same in all versions of the
//! protocol: the two processes may be of different ones. A process of a build that knows no
//! succession disconnects. Until the note comes nothing has changed for the one that serves.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use nix::sys::eventfd::EventFd;
use nix::unistd::geteuid;
use nnburst_hal::{Amounts, Budget};

use crate::client::service_timeout;
use crate::directory;
use crate::listening::Listening;
use crate::socket::{Socket, SocketError};
use crate::wire::{self, Kind, Verdict};

/// The time from the answer to a successor until it accepts clients; it only enters its sandbox
/// then. One that hangs makes way for another.
const ACCEPTING: Duration = Duration::from_secs(30);

/// Bytes of the longest message between the two.
const MAX_MESSAGE: usize = 8;

/// What a service's successor gets, once the service accepts clients.
#[derive(Default)]
pub(super) struct Handover(Mutex<Possessions>);

#[derive(Default)]
struct Possessions {
    listening: Weak<Listening>,
    /// Ends the accepting of clients.
    stop: Option<Arc<EventFd>>,
    watchdog: Option<Duration>,
    /// True while a process is about to take the service's place.
    has_successor: bool,
}

impl Handover {
    /// Notes where clients come from, and what ends it.
    pub(super) fn set_accepting(&self, listening: &Arc<Listening>, stop: &Arc<EventFd>) {
        let mut possessions = self.lock();
        possessions.listening = Arc::downgrade(listening);
        possessions.stop = Some(Arc::clone(stop));
    }

    /// Notes the time after which the manager takes a silent process for hung.
    pub(super) fn set_watchdog(&self, limit: Duration) {
        self.lock().watchdog = Some(limit);
    }

    /// Answers a process of this user that is to take the service's place, and waits until it
    /// accepts clients. Returns true then: nobody else is accepted here any more.
    pub(super) fn hand_over(
        &self,
        socket: &Socket,
        uid: u32,
        budget: &Arc<Budget>,
    ) -> Result<bool, SocketError> {
        let is_own = uid == geteuid().as_raw();
        let Some(candidate) = is_own.then(|| Candidate::of(self)).flatten() else {
            socket.send_greeting(&wire::greeting(Verdict::Denied))?;
            return Ok(false);
        };
        socket.send_greeting(&wire::greeting(Verdict::Succession))?;
        let (listening, watchdog) = {
            let possessions = self.lock();
            (possessions.listening.upgrade(), possessions.watchdog.unwrap_or_default())
        };
        let watchdog = u64::try_from(watchdog.as_micros()).unwrap_or(u64::MAX).to_le_bytes();
        let managed = listening.as_ref().filter(|listening| !listening.is_ours_alone());
        let managed = managed.map(|listening| listening.listener().as_fd());
        socket.send(Kind::Answer, 0, [&watchdog, &[]], managed.as_slice())?;
        let accepts =
            socket.begins_within(ACCEPTING)? && socket.receive(budget)?.kind == Kind::Note;
        if let Some(stop) = self.lock().stop.as_ref().filter(|_| accepts) {
            // An event is counted, unless there have been as many as a word holds.
            let _ = stop.write(1);
        }
        drop(candidate);
        Ok(accepts)
    }

    fn lock(&self) -> MutexGuard<'_, Possessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one process that may take the place, until this is dropped.
struct Candidate<'a>(&'a Handover);

impl<'a> Candidate<'a> {
    fn of(handover: &'a Handover) -> Option<Self> {
        let is_first = !std::mem::replace(&mut handover.lock().has_successor, true);
        is_first.then_some(Self(handover))
    }
}

impl Drop for Candidate<'_> {
    fn drop(&mut self) {
        self.0.lock().has_successor = false;
    }
}

/// The process that has served until now, which waits for this one to accept clients.
#[derive(Debug)]
pub(super) struct Predecessor {
    socket: Socket,
    listener: Option<OwnedFd>,
    watchdog: Option<Duration>,
}

impl Predecessor {
    /// Asks the process that serves at a socket for its place; `None` if none does, or one of a
    /// build that knows no succession.
    ///
    /// # Errors
    /// It is another user's, or another process is about to take its place.
    pub(super) fn ask(path: &Path) -> io::Result<Option<Self>> {
        match directory::connect(path, service_timeout()) {
            Ok(socket) => Self::ask_at(socket, path),
            Err(_) => Ok(None),
        }
    }

    fn ask_at(socket: OwnedFd, path: &Path) -> io::Result<Option<Self>> {
        let failed = |error: SocketError| io::Error::other(format!("{}: {error}", path.display()));
        let socket = Socket::new(socket, MAX_MESSAGE).map_err(failed)?;
        let asked = socket.send_greeting(&wire::greeting(Verdict::Succession));
        let answer = asked.and_then(|()| socket.receive_greeting());
        match answer.and_then(|bytes| Ok(wire::parse_greeting(&bytes)?)) {
            Ok((_, Verdict::Succession)) => {}
            Ok((_, Verdict::Denied)) => {
                let why = "another process is about to take its place, or it is another user's";
                let why = format!("{}: {why}", path.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            _ => return Ok(None),
        }
        let budget = Budget::root("predecessor", Amounts::UNLIMITED);
        let answer = socket.receive(&budget).map_err(failed)?;
        let listener = answer.fds.into_iter().next().map(|(socket, _)| socket);
        let micros = answer.payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let watchdog = (micros > 0).then(|| Duration::from_micros(micros));
        Ok(Some(Self { socket, listener, watchdog }))
    }

    /// Takes the socket where clients come, if the manager made it.
    pub(super) fn take_listener(&mut self) -> Option<OwnedFd> {
        self.listener.take()
    }

    /// The time after which the manager takes a silent process for hung.
    pub(super) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Tells it that clients are accepted here, on the socket that it gave.
    pub(super) fn relieve(&self) -> io::Result<()> {
        let sent = self.socket.send(Kind::Note, 0, [&[], &[]], &[]);
        sent.map_err(|error| io::Error::other(format!("the process before: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Arc;

    use nnburst_hal::testing::ReluDriver;

    use super::*;
    use crate::directory::socket_path;
    use crate::server::{Peer, Service, Serving};

    const NAME: &str = "one";

    fn service() -> Service {
        let device: Arc<dyn nnburst_hal::Device> = Arc::new(ReluDriver);
        Service::new(NAME, move |_: &Peer| Arc::clone(&device))
    }

    /// A directory with the socket of a service manager, and its service.
    fn managed() -> (tempfile::TempDir, Serving) {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixListener::bind(socket_path(dir.path(), NAME).unwrap()).unwrap();
        let serving = service().listen_on(socket.into()).unwrap();
        (dir, serving)
    }

    #[test]
    fn a_successor_has_the_managers_socket_and_watchdog() {
        let (dir, first) = managed();
        first.service().set_watchdog(Duration::from_secs(7));
        let bound = service().succeed(dir.path()).unwrap();
        assert!(!bound.has_own_socket() && !first.succession().has_begun());
        let second = bound.accept().unwrap();
        assert_eq!(second.watchdog(), Some(Duration::from_secs(7)));
        assert!(second.has_succeeded() && !first.has_succeeded());
        first.succession().wait();
        drop(first);
        let path = socket_path(dir.path(), NAME).unwrap();
        assert!(Predecessor::ask(&path).unwrap().is_some(), "the second accepts there");
        assert!(!second.succession().has_begun(), "whoever only asks changes nothing");
    }

    #[test]
    fn a_successor_takes_the_name_of_a_socket_that_is_the_services_own() {
        let dir = tempfile::tempdir().unwrap();
        let first = service().listen(dir.path()).unwrap();
        let second = service().succeed(dir.path()).unwrap().accept().unwrap();
        assert!(second.has_succeeded());
        first.succession().wait();
        drop(first);
        assert!(second.path().exists());
    }

    #[test]
    fn one_process_at_a_time_may_succeed() {
        let (dir, serving) = managed();
        let path = socket_path(dir.path(), NAME).unwrap();
        let first = Predecessor::ask(&path).unwrap().unwrap();
        let refused = Predecessor::ask(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("about to take its place"), "{refused}");
        // It dies before it serves.
        drop(first);
        let second = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            Predecessor::ask(&path).ok().flatten()
        });
        assert!(second.is_some() && !serving.succession().has_begun());
    }

    #[test]
    fn other_users_may_not_succeed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let socket = Socket::new(OwnedFd::from(ours), MAX_MESSAGE).unwrap();
        let budget = Budget::root("test", Amounts::UNLIMITED);
        let other = geteuid().as_raw().wrapping_add(1);
        assert!(!Handover::default().hand_over(&socket, other, &budget).unwrap());
        let refused = Predecessor::ask_at(theirs.into(), Path::new("/socket")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_build_that_knows_no_succession_disconnects() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        assert!(Predecessor::ask_at(theirs.into(), Path::new("/socket")).unwrap().is_none());
        assert!(Predecessor::ask(Path::new("/nowhere/one.sock")).unwrap().is_none());
    }
}
