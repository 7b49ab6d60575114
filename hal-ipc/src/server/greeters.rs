//! Those who have connected and are yet to greet.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nix::sys::socket::{Shutdown, shutdown};
use nnburst_hal::Charge;

/// Those who have connected and are yet to greet, the oldest of each user first. They keep nobody
/// out: where a user has no room for a newcomer, the oldest of the user's is disconnected.
#[derive(Default)]
pub(super) struct Greeters(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u64,
    waiting: HashMap<u32, VecDeque<Waiting>>,
}

struct Waiting {
    id: u64,
    socket: Weak<OwnedFd>,
    /// The charge of its connection.
    place: Charge,
}

impl Greeters {
    /// Notes a newcomer, and keeps its place for it.
    pub(super) fn arrive(
        self: &Arc<Self>,
        user: u32,
        socket: &Arc<OwnedFd>,
        place: Charge,
    ) -> Greeter {
        let mut table = self.lock();
        table.last = table.last.wrapping_add(1);
        let (id, socket) = (table.last, Arc::downgrade(socket));
        table.waiting.entry(user).or_default().push_back(Waiting { id, socket, place });
        Greeter { all: Arc::clone(self), user, id }
    }

    /// Disconnects the one of a user that has been waiting for the longest, once `refuse` has told
    /// it why, and gives its place back; false if there is none.
    pub(super) fn disconnect_oldest(&self, user: u32, refuse: impl FnOnce(&OwnedFd)) -> bool {
        let oldest = self.lock().waiting.get_mut(&user).and_then(VecDeque::pop_front);
        let Some(Waiting { socket, .. }) = oldest else { return false };
        if let Some(socket) = socket.upgrade() {
            refuse(&socket);
            // Its thread waits in a read, which ends. The only error is that the peer was faster.
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, user: u32, id: u64) -> Option<Charge> {
        let mut table = self.lock();
        let queue = table.waiting.get_mut(&user)?;
        let at = queue.iter().position(|one| one.id == id);
        let place = at.and_then(|at| queue.remove(at)).map(|one| one.place);
        if queue.is_empty() {
            table.waiting.remove(&user);
        }
        place
    }
}

/// One who is yet to greet.
pub(super) struct Greeter {
    all: Arc<Greeters>,
    user: u32,
    id: u64,
}

impl Greeter {
    /// It has greeted, and gets its place; `None` if that was given to another.
    pub(super) fn greeted(self) -> Option<Charge> {
        self.all.take(self.user, self.id)
    }
}

impl Drop for Greeter {
    fn drop(&mut self) {
        drop(self.all.take(self.user, self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use nix::unistd::write;
    use nnburst_hal::Budget;

    use super::*;
    use crate::limits::ConnectionLimits;

    #[test]
    fn the_oldest_of_a_user_is_disconnected() {
        let greeters = Arc::<Greeters>::default();
        let budget = Budget::root("test", ConnectionLimits::default().amounts());
        let arrive = |user| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            theirs.set_nonblocking(true).unwrap();
            let socket = Arc::new(OwnedFd::from(ours));
            (greeters.arrive(user, &socket, budget.empty()), socket, theirs)
        };
        let is_open = |mut stream: &UnixStream| stream.read(&mut [0]).is_err();
        let (first, second, other) = (arrive(1), arrive(1), arrive(2));
        let refuse = |socket: &OwnedFd| assert_eq!(write(socket, b"!"), Ok(1));
        assert!(greeters.disconnect_oldest(1, refuse));
        assert_eq!((&first.2).read(&mut [0; 2]).unwrap(), 1, "the reason");
        assert!(!is_open(&first.2) && is_open(&second.2) && is_open(&other.2));
        assert!(first.0.greeted().is_none() && second.0.greeted().is_some());
        assert!(!greeters.disconnect_oldest(1, refuse));
        drop(other);
        assert!(greeters.lock().waiting.is_empty());
    }
}
