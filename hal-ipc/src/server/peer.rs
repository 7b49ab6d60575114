//! Who is at the other end.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nnburst_hal::Device;

/// A client: what the system says of it (`SO_PEERCRED`), and whether it is still there.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its process at the time it connected.
    pub pid: i32,
    /// Its effective user: what tells clients apart.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    gone: Arc<AtomicBool>,
}

impl Peer {
    pub(super) fn of(socket: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let credentials = rustix::net::sockopt::socket_peercred(socket)?;
        Ok(Self {
            pid: credentials.pid.as_raw_nonzero().get(),
            uid: credentials.uid.as_raw(),
            gid: credentials.gid.as_raw(),
            gone: Arc::default(),
        })
    }

    /// Turns true when the client hangs up: what runs for it may stop.
    pub fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.gone)
    }

    pub(super) fn set_gone(&self) {
        // Release: pairs with the driver's loads, which learn nothing else from it.
        self.gone.store(true, Ordering::Release);
    }
}

/// What a service offers: a device for each client, its own or one for all.
pub trait Driver: Send + Sync {
    /// The device as this client sees it; it is dropped when the client is gone.
    fn device(&self, peer: &Peer) -> Arc<dyn Device>;
}

impl<F: Fn(&Peer) -> Arc<dyn Device> + Send + Sync> Driver for F {
    fn device(&self, peer: &Peer) -> Arc<dyn Device> {
        self(peer)
    }
}
