//! A service: a driver behind a socket.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::socket::{MsgFlags, send};
use nnburst_hal::process::spawn;
use nnburst_hal::{Budget, Charge, Exhausted, Resource};

use super::account::Account;
use super::greeters::{Greeter, Greeters};
use super::handover::{Handover, Predecessor};
use super::peer::{Driver, Peer};
use super::serving::{BoundService, Serving};
use super::session::Session;
use super::statistics::Register;
use crate::activation;
use crate::connection::Connection;
use crate::directory::socket_path;
use crate::limits::{ConnectionLimits, ServiceLimits};
use crate::listening::{Claim, Listening};
use crate::manager::is_control_process;
use crate::pool::Pool;
use crate::socket::{Socket, SocketError};
use crate::wire::{self, PROTOCOL_VERSION, Verdict};

/// File descriptors of a connection: its socket, and what waits for its fences.
const OWN_DESCRIPTORS: u64 = 3;

/// Threads of a connection that are always there for it.
const OWN_THREADS: usize = 2;

/// Bytes of a connection: of messages that are too small to be charged, and of what they are made
/// into.
const OWN_BYTES: u64 = 2 << 20;

/// The time that stopping waits for the sessions to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// A driver to be served.
///
/// ```no_run
/// use nnburst_hal_ipc::{Service, service_dir};
///
/// # fn serve(device: std::sync::Arc<dyn nnburst_hal::Device>) -> std::io::Result<()> {
/// let service = Service::new("example", move |_: &nnburst_hal_ipc::Peer| device.clone());
/// let serving = service.listen(&service_dir()?)?;
/// // Until `serving` is dropped, others find the device with `RemoteDevice::connect("example")`.
/// # drop(serving);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Service(Arc<Shared>);

struct Shared {
    name: String,
    driver: Box<dyn Driver>,
    users: Mutex<Users>,
    greeters: Arc<Greeters>,
    handover: Handover,
    sessions: Mutex<Sessions>,
    register: Arc<Register>,
    /// Told when a session ends, and when the name is taken over.
    changed: Condvar,
}

/// The users of a service.
#[derive(Default)]
struct Users {
    limits: ServiceLimits,
    /// Of those who have anything, by uid.
    accounts: HashMap<u32, Arc<Account>>,
}

#[derive(Default)]
struct Sessions {
    connections: HashMap<u64, Arc<Connection>>,
    last: u64,
    running: usize,
    /// True once another process has the service's name.
    is_taken_over: bool,
    stopped: bool,
}

impl Service {
    /// A service of this name with the usual [`ServiceLimits`].
    pub fn new(name: impl Into<String>, driver: impl Driver + 'static) -> Self {
        Self(Arc::new(Shared {
            name: name.into(),
            driver: Box::new(driver),
            users: Mutex::default(),
            greeters: Arc::default(),
            handover: Handover::default(),
            sessions: Mutex::default(),
            register: Arc::default(),
            changed: Condvar::new(),
        }))
    }

    /// Has other limits hold from now on: those of users at once, also of those who have more
    /// already and keep it, those of connections for new ones.
    pub fn set_limits(&self, limits: ServiceLimits) {
        let mut users = self.0.users();
        for (&uid, account) in &users.accounts {
            account.set_limits(limits.of(uid));
        }
        users.limits = limits;
    }

    /// Listens in a directory of services, which is made if need be, with mode 0700; the socket has
    /// mode 0600.
    ///
    /// # Errors
    /// The name is none for a service, the directory is not ours alone, or the name is served
    /// already.
    pub fn listen(&self, dir: &Path) -> io::Result<Serving> {
        self.bind(dir)?.accept()
    }

    /// Makes the socket of [`listen`](Self::listen), and accepts nobody yet.
    ///
    /// # Errors
    /// As there.
    pub fn bind(&self, dir: &Path) -> io::Result<BoundService> {
        self.bind_as(dir, Claim::Free)
    }

    /// As [`bind`](Self::bind); a process that serves the name loses it to this one. Clients that
    /// come from now on come here, and those that the other process has go on there:
    /// [`Serving::succession`] is its side.
    ///
    /// A control process of a service manager (systemd's `ExecReload=`) takes the place of the
    /// manager's process, whose socket may be the manager's: [`Serving::has_succeeded`].
    ///
    /// # Errors
    /// The name is none for a service, the directory is not ours alone, or the process that serves
    /// has its socket from a service manager, and this one isn't the manager's, another is about to
    /// take its place, or it is of a build that knows no succession.
    pub fn take_over(&self, dir: &Path) -> io::Result<BoundService> {
        if is_control_process() { self.succeed(dir) } else { self.bind_as(dir, Claim::TakeOver) }
    }

    pub(super) fn succeed(&self, dir: &Path) -> io::Result<BoundService> {
        let Some(mut predecessor) = Predecessor::ask(&socket_path(dir, &self.0.name)?)? else {
            return self.bind_as(dir, Claim::TakeOver);
        };
        let bound = match predecessor.take_listener() {
            Some(socket) => self.adopt(socket)?,
            None => self.bind_as(dir, Claim::TakeOver)?,
        };
        Ok(bound.after(predecessor))
    }

    fn bind_as(&self, dir: &Path, claim: Claim) -> io::Result<BoundService> {
        let listening = Listening::bind(dir, &self.0.name, claim)?;
        Ok(BoundService::new(self.clone(), listening))
    }

    /// Listens on a Unix socket that somebody else bound and whose file is theirs to remove, such
    /// as a service manager's.
    ///
    /// # Errors
    /// The descriptor is no listening Unix socket.
    pub fn listen_on(&self, socket: OwnedFd) -> io::Result<Serving> {
        self.adopt(socket)?.accept()
    }

    fn adopt(&self, socket: OwnedFd) -> io::Result<BoundService> {
        let listening = Listening::adopt(activation::listening(socket)?)?;
        Ok(BoundService::new(self.clone(), listening))
    }

    /// Takes the socket that systemd started this process with (`LISTEN_FDS`), and accepts nobody
    /// yet; `None` if it didn't.
    ///
    /// # Errors
    /// What came is not one listening Unix socket.
    pub fn bind_activated(&self) -> io::Result<Option<BoundService>> {
        activation::listener()?.map(|socket| self.adopt(socket)).transpose()
    }

    pub(super) fn spawn_session(&self, socket: OwnedFd) {
        // Before there is a thread: who only connects, again and again, is refused at once, and
        // who doesn't greet makes room for the next.
        let Ok(peer) = self.peer(&socket) else { return };
        let place = loop {
            match Self::place(&peer) {
                Ok(place) => break place,
                Err(_) if self.0.greeters.disconnect_oldest(peer.uid, refuse) => {}
                Err(error) => {
                    tracing::debug!(%error, "a client was refused");
                    return refuse(&socket);
                }
            }
        };
        let socket = Arc::new(socket);
        let greeter = self.0.greeters.arrive(peer.uid, &socket, place);
        let service = self.clone();
        let spawned = spawn("nnburst-client", move || {
            service.serve_arrived(socket, peer, greeter);
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread for a client");
        }
    }

    /// Returns the charge of a connection before any call: the thread that reads it and one that
    /// answers, so that who is served can always be answered, and memory for small messages.
    fn place(peer: &Peer) -> Result<Charge, Exhausted> {
        let mut place = peer.account().budget.take_all(&[
            (Resource::Greetings, 1),
            (Resource::Descriptors, OWN_DESCRIPTORS),
            (Resource::Memory, OWN_BYTES),
        ])?;
        for _ in 0..OWN_THREADS {
            for (resource, amount) in Budget::THREAD {
                place.grow(resource, amount)?;
            }
        }
        Ok(place)
    }

    fn peer(&self, socket: &OwnedFd) -> nix::Result<Peer> {
        Peer::of(socket.as_fd(), |uid| self.0.users().account(uid))
    }

    /// The number of clients that have greeted and are not gone.
    pub(crate) fn sessions(&self) -> usize {
        self.0.sessions().running
    }

    /// What another process gets that takes the service's place.
    pub(super) fn handover(&self) -> &Handover {
        &self.0.handover
    }

    /// Notes the time after which the manager takes a silent process for hung, for a successor.
    pub(crate) fn set_watchdog(&self, limit: Duration) {
        self.0.handover.set_watchdog(limit);
    }

    /// Returns whether another process has the name.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.0.sessions().is_taken_over
    }

    /// Notes that another process has the name.
    pub(super) fn set_taken_over(&self) {
        self.0.sessions().is_taken_over = true;
        self.0.changed.notify_all();
    }

    /// Waits until another process has the name.
    pub(super) fn wait_for_successor(&self) {
        let sessions = self.0.sessions();
        let waited = self.0.changed.wait_while(sessions, |sessions| !sessions.is_taken_over);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for a time until no session is left, and returns how many there are.
    pub(super) fn wait_for_sessions(&self, limit: Duration) -> usize {
        let sessions = self.0.sessions();
        let waited =
            self.0.changed.wait_timeout_while(sessions, limit, |sessions| sessions.running > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.running
    }

    /// Disconnects every client, and waits for a time until their sessions have ended.
    pub(super) fn stop(&self) {
        let mut sessions = self.0.sessions();
        sessions.stopped = true;
        for connection in std::mem::take(&mut sessions.connections).into_values() {
            connection.close();
        }
        drop(sessions);
        self.wait_for_sessions(FAREWELL);
    }

    /// Serves one client over a connected socket, such as half of a socket pair, until it
    /// disconnects.
    pub fn serve(&self, socket: OwnedFd) {
        let peer = match self.peer(&socket) {
            Ok(peer) => peer,
            Err(error) => return tracing::warn!(%error, "a client was not served"),
        };
        match Self::place(&peer) {
            Ok(place) => {
                let socket = Arc::new(socket);
                let greeter = self.0.greeters.arrive(peer.uid, &socket, place);
                self.serve_arrived(socket, peer, greeter);
            }
            Err(error) => {
                tracing::warn!(%error, "a client was not served");
                refuse(&socket);
            }
        }
    }

    fn serve_arrived(&self, socket: Arc<OwnedFd>, peer: Peer, greeter: Greeter) {
        if let Err(error) = self.try_serve(socket, peer, greeter) {
            tracing::debug!(%error, "a client was not served");
        }
    }

    fn try_serve(
        &self,
        socket: Arc<OwnedFd>,
        peer: Peer,
        greeter: Greeter,
    ) -> Result<(), SocketError> {
        let limits = self.0.users().limits.connection;
        let max_message = usize::try_from(limits.message_bytes).unwrap_or(usize::MAX);
        let socket = Socket::new(socket, max_message)?;
        let (theirs, purpose) = wire::parse_greeting(&socket.receive_greeting()?)?;
        let Some(mut place) = greeter.greeted() else { return Err(SocketError::HungUp) };
        if purpose == Verdict::Succession {
            if self.0.handover.hand_over(&socket, peer.uid, peer.budget())? {
                self.set_taken_over();
            }
            return Ok(());
        }
        place.shrink(Resource::Greetings, 1);
        let verdict = match place.grow(Resource::Connections, 1) {
            _ if theirs != PROTOCOL_VERSION => Verdict::OtherVersion,
            Err(_) => Verdict::TooMany,
            Ok(()) => Verdict::Welcome,
        };
        socket.send_greeting(&wire::greeting(verdict))?;
        if verdict == Verdict::Welcome {
            let has_sent_much = socket.has_received_much();
            self.session(socket, peer.holding(place, has_sent_much), &limits);
        }
        Ok(())
    }

    fn session(&self, socket: Socket, peer: Peer, limits: &ConnectionLimits) {
        let count = |limit| usize::try_from(limit).unwrap_or(usize::MAX);
        let user = &peer.account().budget;
        let budget = user.set_child("connection", limits.amounts(), ConnectionLimits::setting);
        let peer = peer.charged_to(Arc::clone(&budget));
        let (threads, waiting) = (count(limits.threads), count(limits.waiting_calls));
        let pool = Pool::charged_to(&budget, 1, "nnburst-calls", threads, waiting);
        let connection = Connection::new(socket, pool.clone(), budget);
        let Some(id) = self.0.enter(&connection) else { return };
        let driver = &self.0.driver;
        let device = driver.device(&peer);
        let (name, register) = (self.0.name.clone(), &self.0.register);
        let session = Session::new(name, device, driver.charges_memory(), peer, id, register, pool);
        connection.read_on(&session);
        drop(session);
        self.0.leave(id);
    }
}

impl Users {
    /// The account of a user, made if there is none.
    fn account(&mut self, uid: u32) -> Arc<Account> {
        self.accounts.retain(|_, account| account.is_in_use());
        let limits = self.limits.of(uid);
        let account = || Arc::new(Account::new(uid, limits));
        Arc::clone(self.accounts.entry(uid).or_insert_with(account))
    }
}

impl Shared {
    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a session in, unless the service has been stopped.
    fn enter(&self, connection: &Arc<Connection>) -> Option<u64> {
        let mut sessions = self.sessions();
        if sessions.stopped {
            return None;
        }
        sessions.last = sessions.last.saturating_add(1);
        sessions.running = sessions.running.saturating_add(1);
        let id = sessions.last;
        sessions.connections.insert(id, Arc::clone(connection));
        Some(id)
    }

    fn leave(&self, id: u64) {
        let mut sessions = self.sessions();
        sessions.connections.remove(&id);
        sessions.running = sessions.running.saturating_sub(1);
        self.changed.notify_all();
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// Sends a refusal to a client for which there is no room. A new socket takes it; one that its
/// client has filled is closed without.
fn refuse(socket: &OwnedFd) {
    let refusal = wire::greeting(Verdict::TooMany);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let _ = send(socket.as_raw_fd(), &refusal, flags);
}
