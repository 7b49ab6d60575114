//! The process at the other end of a connection.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nnburst_hal::process::release_freed_memory;
use nnburst_hal::{Budget, Charge, Device, Result};

use super::account::Account;

/// A client: what the system says of it (`SO_PEERCRED`), and whether it is still there.
///
/// Whatever goes on working for a client that is gone keeps a clone: until the last is dropped, the
/// client counts among the connections of its user.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its process at the time it connected.
    pub pid: i32,
    /// Its effective user: what tells clients apart.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    gone: Arc<AtomicBool>,
    account: Arc<Account>,
    budget: Arc<Budget>,
    /// Its place among the connections of its user: given back when all that works for it has
    /// ended.
    #[expect(dead_code, reason = "held for its end")]
    place: Option<Arc<Place>>,
}

/// A client's place among the connections of its user.
#[derive(Debug)]
struct Place {
    #[expect(dead_code, reason = "held for its end")]
    charge: Charge,
    /// True where it sent anything large.
    has_sent_much: Arc<AtomicBool>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // What was made of large messages is freed in pieces, which the allocator keeps: it is
        // memory of the machine that no client of today pays for.
        // Relaxed: the thread that read the messages has ended, or is this one.
        if self.has_sent_much.load(Ordering::Relaxed) {
            release_freed_memory();
        }
    }
}

impl Peer {
    /// The other end of a socket, with the account of its user.
    pub(super) fn of(
        socket: BorrowedFd<'_>,
        account: impl FnOnce(u32) -> Arc<Account>,
    ) -> nix::Result<Self> {
        let credentials = getsockopt(&socket, PeerCredentials)?;
        let account = account(credentials.uid());
        Ok(Self {
            pid: credentials.pid(),
            uid: credentials.uid(),
            gid: credentials.gid(),
            gone: Arc::default(),
            budget: Arc::clone(&account.budget),
            account,
            place: None,
        })
    }

    /// The same client, to be charged to this budget.
    pub(super) fn charged_to(self, budget: Arc<Budget>) -> Self {
        Self { budget, ..self }
    }

    /// Returns the budget of this client: whatever is made for it is taken from here first, and
    /// given back when that is gone.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns the account of its user.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Counts an execution of the client's user; for executions that the service doesn't see, as
    /// those of bursts. It neither allocates, locks nor waits unless it refuses.
    ///
    /// # Errors
    /// The user has executed as often as it may (`RESOURCE_EXHAUSTED_TRANSIENT`).
    pub fn count_execution(&self) -> Result<()> {
        self.account.count_execution()
    }

    /// Has its clones hold a place.
    pub(super) fn holding(self, charge: Charge, has_sent_much: Arc<AtomicBool>) -> Self {
        Self { place: Some(Arc::new(Place { charge, has_sent_much })), ..self }
    }

    /// Turns true when the client disconnects: what runs for it may stop.
    pub fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.gone)
    }

    pub(super) fn set_gone(&self) {
        // Release: pairs with the driver's loads, which learn nothing else from it.
        self.gone.store(true, Ordering::Release);
    }
}

/// The device that a service offers: a device for each client, its own or one for all.
pub trait Driver: Send + Sync {
    /// The device as this client sees it; it is dropped when the client is gone.
    fn device(&self, peer: &Peer) -> Arc<dyn Device>;

    /// Returns whether the driver charges [`Peer::budget`] for the memory of prepared models and
    /// buffers by itself. Else models are charged their constants, and buffers their size, as they
    /// are made.
    fn charges_memory(&self) -> bool {
        false
    }
}

impl<F: Fn(&Peer) -> Arc<dyn Device> + Send + Sync> Driver for F {
    fn device(&self, peer: &Peer) -> Arc<dyn Device> {
        self(peer)
    }
}
