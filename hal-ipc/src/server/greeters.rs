//! Those who have connected and are yet to greet.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use nnburst_hal::Charge;

/// The time in which the thread of one who was disconnected is to end.
const PARTING: Duration = Duration::from_secs(1);

/// Those who have connected and are yet to greet, the oldest of each user first. They keep nobody
/// out: where a user has no room for a newcomer, the oldest of the user's is disconnected.
#[derive(Default)]
pub(super) struct Greeters {
    table: Mutex<Table>,
    /// Told when a place is given back.
    departed: Condvar,
}

#[derive(Default)]
struct Table {
    last: u64,
    waiting: HashMap<u32, VecDeque<Waiting>>,
    /// Those who are disconnected and have their places still.
    parting: HashSet<u64>,
}

struct Waiting {
    id: u64,
    socket: Weak<OwnedFd>,
}

impl Greeters {
    /// Notes a newcomer, with the charge of its connection.
    pub(super) fn arrive(
        self: &Arc<Self>,
        user: u32,
        socket: &Arc<OwnedFd>,
        place: Charge,
    ) -> Greeter {
        let mut table = self.lock();
        table.last = table.last.wrapping_add(1);
        let (id, socket) = (table.last, Arc::downgrade(socket));
        table.waiting.entry(user).or_default().push_back(Waiting { id, socket });
        Greeter { all: Arc::clone(self), user, id, place: Some(place) }
    }

    /// Disconnects the one of a user that has been waiting for the longest, once `refuse` has told
    /// it why, and waits until its thread gives its place back: who connects faster than threads
    /// end gets no more of them. False if there is none, or its thread has no time to end.
    pub(super) fn disconnect_oldest(&self, user: u32, refuse: impl FnOnce(&OwnedFd)) -> bool {
        let mut table = self.lock();
        let oldest = table.waiting.get_mut(&user).and_then(VecDeque::pop_front);
        let Some(Waiting { id, socket }) = oldest else { return false };
        table.parting.insert(id);
        drop(table);
        if let Some(socket) = socket.upgrade() {
            refuse(&socket);
            // Its thread waits in a read, which ends. The only error is that the peer was faster.
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
        let is_here = |table: &mut Table| table.parting.contains(&id);
        let waited = self.departed.wait_timeout_while(self.lock(), PARTING, is_here);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one out of those who wait; false if it was disconnected.
    fn remove(&self, user: u32, id: u64) -> bool {
        let mut table = self.lock();
        let Some(queue) = table.waiting.get_mut(&user) else { return false };
        let at = queue.iter().position(|one| one.id == id);
        let was_there = at.and_then(|at| queue.remove(at)).is_some();
        if queue.is_empty() {
            table.waiting.remove(&user);
        }
        was_there
    }
}

/// One who is yet to greet.
pub(super) struct Greeter {
    all: Arc<Greeters>,
    user: u32,
    id: u64,
    /// Its connection's, until it has greeted.
    place: Option<Charge>,
}

impl Greeter {
    /// It has greeted, and gets its place; `None` if it was disconnected to make room.
    pub(super) fn greeted(mut self) -> Option<Charge> {
        if self.all.remove(self.user, self.id) { self.place.take() } else { None }
    }
}

impl Drop for Greeter {
    fn drop(&mut self) {
        // Before anybody waits for it no longer.
        drop(self.place.take());
        self.all.remove(self.user, self.id);
        if self.all.lock().parting.remove(&self.id) {
            self.all.departed.notify_all();
        }
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
    fn the_oldest_of_a_user_is_disconnected_and_its_place_free() {
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
        let (greeter, ours, theirs) = first;
        std::thread::scope(|threads| {
            threads.spawn(move || {
                let read = nix::unistd::read(&ours, &mut [0]);
                assert_eq!(read, Ok(0));
                assert!(greeter.greeted().is_none(), "disconnected");
            });
            assert!(greeters.disconnect_oldest(1, refuse));
        });
        assert_eq!((&theirs).read(&mut [0; 2]).unwrap(), 1, "the reason");
        assert!(!is_open(&theirs) && is_open(&second.2) && is_open(&other.2));
        assert!(second.0.greeted().is_some());
        assert!(!greeters.disconnect_oldest(1, refuse));
        drop(other);
        let table = greeters.lock();
        assert!(table.waiting.is_empty() && table.parting.is_empty());
    }
}
