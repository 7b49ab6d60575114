//! A service that listens: who is accepted, until when, and who has the name afterwards.
//!
//! ```text
//!   process      name      clients
//!   first        its       its own
//!   second       takes it: a socket under the name, in place of the first's
//!   first        notices, and gives up the lock of the name
//!                accepts for a second those who found its socket before, then nobody
//!   second       its       those who come
//!   first                  those it has, until they go
//! ```
//!
//! Where a service manager made the socket, the first hands it to the second instead (see
//! [`handover`](super::handover)).

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{Shutdown, shutdown};
use nnburst_hal::process::{Origin, spawn};

use super::handover::Predecessor;
use super::service::Service;
use crate::limits::ServiceLimits;
use crate::listening::Listening;

/// The time that a service out of descriptors waits before it accepts again.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// The time for which clients are accepted that found the socket before another took its name.
const STRAGGLERS: Duration = Duration::from_secs(1);

/// The period of looks at the name where nothing tells of changes, or its lock is another's still.
const LOOK: Duration = Duration::from_secs(1);

/// A service with its socket, before its first client: its process can still give up rights that
/// serving doesn't need, in this thread, from which those of the service descend.
#[derive(Debug)]
pub struct BoundService {
    service: Service,
    listening: Listening,
    predecessor: Option<Predecessor>,
}

impl BoundService {
    pub(super) fn new(service: Service, listening: Listening) -> Self {
        Self { service, listening, predecessor: None }
    }

    /// The same in the place of another process.
    pub(super) fn after(self, predecessor: Predecessor) -> Self {
        Self { predecessor: Some(predecessor), ..self }
    }

    /// Returns whether the socket is this process's own, which is to remove its file.
    pub fn has_own_socket(&self) -> bool {
        self.listening.is_ours_alone()
    }

    /// Accepts clients, on a thread of its own.
    ///
    /// # Errors
    /// The system has no thread or descriptor, or the process whose place this one takes is gone.
    pub fn accept(self) -> io::Result<Serving> {
        let Self { service, listening, predecessor } = self;
        let listening = Arc::new(listening);
        let stop = Arc::new(EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?);
        let acceptor = Acceptor {
            service: service.clone(),
            listening: Arc::clone(&listening),
            stop: Arc::clone(&stop),
        };
        service.handover().set_accepting(&listening, &stop);
        let acceptor = Some(spawn("nnburst-accept", move || acceptor.run())?);
        let watchdog = predecessor.as_ref().and_then(Predecessor::watchdog);
        let has_succeeded = predecessor.is_some();
        let origin = Origin::here();
        let serving =
            Serving { service, listening, stop, acceptor, origin, watchdog, has_succeeded };
        // Who lost its name to a socket of ours learns it by that.
        if let Some(predecessor) = predecessor.filter(|_| !serving.listening.is_ours_alone()) {
            predecessor.relieve()?;
        }
        Ok(serving)
    }
}

/// The thread that accepts clients.
struct Acceptor {
    service: Service,
    listening: Arc<Listening>,
    /// Readable once nobody is to be accepted any more.
    stop: Arc<EventFd>,
}

/// What an acceptor was woken by.
struct Woken {
    to_stop: bool,
    by_client: bool,
    by_change: bool,
}

impl Acceptor {
    /// Accepts clients until it is stopped or, for those who found the socket in time, another
    /// process has taken the name over.
    fn run(&self) {
        let mut end = None;
        loop {
            let left = end.map(|end: Instant| end.saturating_duration_since(Instant::now()));
            let woken = match self.wait(left) {
                Ok(woken) => woken,
                Err(error) => {
                    tracing::error!(%error, "nobody is accepted any more");
                    return;
                }
            };
            if woken.to_stop || (!woken.by_client && left.is_some_and(|left| left.is_zero())) {
                return;
            }
            if woken.by_change && end.is_none() && self.listening.is_taken_over() {
                end = Some(Instant::now() + STRAGGLERS);
                self.listening.give_up_name();
                self.service.set_taken_over();
            }
            if woken.by_client {
                self.accept();
            }
        }
    }

    fn wait(&self, limit: Option<Duration>) -> Result<Woken, Errno> {
        let readable = PollFlags::POLLIN;
        let changes = self.listening.changes().filter(|_| limit.is_none());
        let looks = limit.is_none() && !self.listening.is_settled();
        let limit = limit.or_else(|| looks.then_some(LOOK));
        let mut fds = vec![
            PollFd::new(self.stop.as_fd(), readable),
            PollFd::new(self.listening.listener().as_fd(), readable),
        ];
        fds.extend(changes.map(|changes| PollFd::new(changes, readable)));
        let limit = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, limit) {
            Err(Errno::EINTR) => {
                return Ok(Woken { to_stop: false, by_client: false, by_change: false });
            }
            other => other?,
        };
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| fd.any() == Some(true));
        Ok(Woken { to_stop: is_ready(0), by_client: is_ready(1), by_change: looks || is_ready(2) })
    }

    fn accept(&self) {
        match self.listening.listener().accept() {
            Ok((stream, _)) => self.service.spawn_session(stream.into()),
            // Another process may have the socket as well.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                // Out of descriptors, mostly: they come back when a client goes.
                tracing::debug!(%error, "accept");
                std::thread::sleep(OUT_OF_DESCRIPTORS);
            }
        }
    }
}

/// A service that listens. Dropping it removes the socket, disconnects every client and waits for
/// their sessions to end.
#[derive(Debug)]
pub struct Serving {
    service: Service,
    listening: Arc<Listening>,
    stop: Arc<EventFd>,
    acceptor: Option<JoinHandle<()>>,
    origin: Origin,
    watchdog: Option<Duration>,
    has_succeeded: bool,
}

impl Serving {
    /// The socket.
    pub fn path(&self) -> PathBuf {
        self.listening.path().to_owned()
    }

    /// Has other limits hold, as [`Service::set_limits`] does.
    pub fn set_limits(&self, limits: ServiceLimits) {
        self.service.set_limits(limits);
    }

    /// Returns whether this process has taken the place of a service manager's, which is to be told
    /// ([`ServiceManager::succeeded`](crate::ServiceManager::succeeded)).
    pub fn has_succeeded(&self) -> bool {
        self.has_succeeded
    }

    /// The manager's limit for silence, which it told the process before.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The end of a service that another process takes over.
    pub fn succession(&self) -> Succession {
        Succession { service: self.service.clone() }
    }

    /// The service.
    pub(crate) fn service(&self) -> Service {
        self.service.clone()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            // A child of the process that serves: the socket and its name stay.
            std::mem::forget((Arc::clone(&self.listening), self.acceptor.take()));
            return;
        }
        // An event is counted, unless there have been as many as a word holds.
        let _ = self.stop.write(1);
        if let Some(acceptor) = self.acceptor.take() {
            // It doesn't panic; if it did, it is gone all the same.
            let _ = acceptor.join();
        }
        if self.listening.is_ours_alone() {
            // Who waits to be accepted is refused at once.
            let _ = shutdown(self.listening.listener().as_raw_fd(), Shutdown::Both);
        }
        self.service.stop();
    }
}

/// The end of a service that [another process takes over](Service::take_over): its clients go on
/// here until they leave.
#[derive(Clone, Debug)]
pub struct Succession {
    service: Service,
}

impl Succession {
    /// Waits until another process has the service's name.
    pub fn wait(&self) {
        self.service.wait_for_successor();
    }

    /// Returns whether another process has the service's name, and speaks to a service manager from
    /// then on.
    pub fn has_begun(&self) -> bool {
        self.service.is_taken_over()
    }

    /// The number of clients that are here still.
    pub fn clients(&self) -> usize {
        self.service.sessions()
    }

    /// Waits until all clients have left, for `limit` at most, and returns how many have not. It
    /// begins with those that were on their way when the name was taken.
    pub fn wait_for_clients(&self, limit: Duration) -> usize {
        let begun = Instant::now();
        std::thread::sleep(limit.min(STRAGGLERS));
        self.service.wait_for_sessions(limit.saturating_sub(begun.elapsed()))
    }
}
