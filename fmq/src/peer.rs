//! [`PeerWatch`]: learns that the peer is gone, and ends the waits of the queues it is attached to.
//!
//! One thread per process sleeps in epoll over everything that is watched; it costs nothing until
//! something dies. Waits look at an atomic that this thread sets, so polling stays free of system
//! calls, and sleepers are woken.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::SetupError;
use crate::interrupt::{Interrupts, Signal, Watching};
use crate::process::{self, MadeHere, PerProcess};
use crate::sync::{Mutex, lock};
use crate::sys::{errno, failed, pidfd_open};

/// Watches one peer: its process, or a connection to it. Cheap to clone; the watch ends with the
/// last clone and the last queue it is attached to.
///
/// Attach it with [`Producer::set_peer`](crate::Producer::set_peer) and
/// [`Consumer::set_peer`](crate::Consumer::set_peer). From the death on (within a scheduler's
/// latency, well below 10 ms) every wait ends with
/// [`QueueError::PeerDied`](crate::QueueError::PeerDied); what the peer had published can still be
/// read.
///
/// A child that this process forks may go on with the watches that it inherits: where a wait
/// begins, one that was made by another process is made anew. Parent and child then both watch the
/// peer, each by a thread of its own. A child that lacks the descriptors or the thread for it tries
/// again every 10 ms while it sleeps.
#[derive(Clone, Debug)]
pub struct PeerWatch {
    watch: Arc<Watch>,
}

#[derive(Debug)]
struct Watch {
    file: Arc<dyn WatchedFile>,
    events: EpollFlags,
    signal: Arc<Signal>,
    place: MadeHere<Place>,
}

/// A watch's entry with its process's watcher, until it is dropped.
#[derive(Debug)]
struct Place {
    key: u64,
    watcher: Arc<Watcher>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.watcher.remove(self.key);
    }
}

impl PeerWatch {
    /// Watches the process `pid`. Make sure that the number still means the peer: its parent can
    /// (it has not waited for it yet), as can one who got it from a connection's credentials and
    /// has seen no disconnection since.
    ///
    /// # Errors
    /// [`SetupError::System`] if there is no such process, or a system call fails.
    pub fn process(pid: u32) -> Result<Self, SetupError> {
        Self::pidfd(pidfd_open(pid).map_err(failed("pidfd_open"))?)
    }

    /// Watches the process behind a pidfd.
    ///
    /// # Errors
    /// [`SetupError::System`] if a system call fails.
    pub fn pidfd(pidfd: OwnedFd) -> Result<Self, SetupError> {
        Self::watch(Arc::new(pidfd), EpollFlags::EPOLLIN)
    }

    /// Watches a connection: a stream or seqpacket socket, or a pipe, whose other end the peer
    /// holds. Data on it are left alone.
    ///
    /// The watch keeps its share of `socket` open; the peer sees our disconnection only once all
    /// shares are gone, so give it a clone of an `Arc` and drop the watch when you close the
    /// connection.
    ///
    /// # Errors
    /// [`SetupError::System`] if a system call fails.
    pub fn connection(socket: impl AsFd + Send + Sync + 'static) -> Result<Self, SetupError> {
        Self::watch(Arc::new(socket), EpollFlags::EPOLLRDHUP)
    }

    /// Ends the watching thread, for whoever is about to end the process, or to unload a library,
    /// and wants to leave nothing behind. Watches made before notice nothing from then on; the next
    /// one made starts a thread again.
    pub fn stop_all() {
        if let Some(watcher) = lock(WATCHER.get()).take() {
            // It can only fail if the count is at its end, which wakes the thread as well.
            let _ = watcher.stop.write(1);
        }
    }

    /// Returns whether the peer is gone.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.watch.follow_fork();
        self.watch.signal.is_raised()
    }

    pub(crate) fn attach(&self, interrupts: &mut Interrupts) {
        interrupts.set_death(&self.watch.signal, Arc::clone(&self.watch) as _);
    }

    fn watch(file: Arc<dyn WatchedFile>, events: EpollFlags) -> Result<Self, SetupError> {
        let signal = Arc::new(Signal::new());
        let watch = Arc::new(Watch { file, events, signal, place: MadeHere::new() });
        watch.place.get_or_make(|| watch.join())?;
        Ok(Self { watch })
    }
}

impl Watch {
    /// An entry with this process's watcher. In a child, the parent's is left alone.
    fn join(&self) -> Result<Place, SetupError> {
        let watcher = Watcher::of_process()?;
        let key = watcher.add(&self.file, &self.signal, self.events)?;
        Ok(Place { key, watcher })
    }
}

impl Watching for Watch {
    #[inline]
    fn follow_fork(&self) -> bool {
        self.place.get_or_make(|| self.join()).is_ok()
    }
}

impl fmt::Debug for dyn WatchedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_fd().fmt(f)
    }
}

trait WatchedFile: AsFd + Send + Sync {}

impl<F: AsFd + Send + Sync> WatchedFile for F {}

/// The process's watcher, while its thread runs.
static WATCHER: PerProcess<Option<Arc<Watcher>>> = PerProcess::new();

/// The state that the watching thread and the watches share.
#[derive(Debug)]
struct Watcher {
    epoll: Epoll,
    /// Ends the thread.
    stop: EventFd,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    last_key: u64,
    by_key: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    file: Arc<dyn WatchedFile>,
    signal: Arc<Signal>,
}

impl Watcher {
    /// The process's watcher; made, with its thread, at the first call.
    fn of_process() -> Result<Arc<Self>, SetupError> {
        let mut slot = lock(WATCHER.get());
        if let Some(watcher) = &*slot {
            return Ok(Arc::clone(watcher));
        }
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed("epoll_create1"))?;
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(failed("eventfd"))?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, STOP);
        epoll.add(&stop, event).map_err(failed("epoll_ctl"))?;
        let watcher = Arc::new(Self { epoll, stop, entries: Mutex::new(Entries::default()) });
        let watching = Arc::clone(&watcher);
        process::spawn("fmq-peer-watch", move || watching.run())
            .map_err(|error| failed("clone")(errno(&error)))?;
        *slot = Some(Arc::clone(&watcher));
        Ok(watcher)
    }

    fn add(
        &self,
        file: &Arc<dyn WatchedFile>,
        signal: &Arc<Signal>,
        events: EpollFlags,
    ) -> Result<u64, SetupError> {
        let mut entries = lock(&self.entries);
        entries.last_key += 1;
        let key = entries.last_key;
        let events = events | EpollFlags::EPOLLONESHOT;
        let add = |file: &Arc<dyn WatchedFile>| {
            // Under the lock, so that an event finds its entry. A death is reported at once if it
            // has already happened.
            self.epoll.add(file.as_fd(), EpollEvent::new(events, key))
        };
        let mut file = Arc::clone(file);
        let mut added = add(&file);
        if added == Err(Errno::EEXIST) {
            // Watched already: epoll tells descriptors apart, so the second watch gets one of its
            // own.
            let own = file.as_fd().try_clone_to_owned();
            file = Arc::new(own.map_err(|error| failed("fcntl(F_DUPFD_CLOEXEC)")(errno(&error)))?);
            added = add(&file);
        }
        added.map_err(failed("epoll_ctl"))?;
        entries.by_key.insert(key, Entry { file, signal: Arc::clone(signal) });
        Ok(key)
    }

    fn remove(&self, key: u64) {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.by_key.remove(&key) {
            // Can only fail if the file is gone from the set, which is what is wanted.
            let _ = self.epoll.delete(entry.file.as_fd());
        }
    }

    /// The watching thread.
    fn run(&self) {
        let mut events = [EpollEvent::empty(); 16];
        loop {
            let happened = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(happened) => happened,
                Err(Errno::EINTR) => continue,
                // Only a bad descriptor or address gets here, and ours are neither.
                Err(_) => return,
            };
            for event in events.iter().take(happened) {
                if event.data() == STOP {
                    return;
                }
                let signal = {
                    let entries = lock(&self.entries);
                    entries.by_key.get(&event.data()).map(|entry| Arc::clone(&entry.signal))
                };
                // Outside the lock: raising wakes sleepers, who may drop their watches.
                if let Some(signal) = signal {
                    signal.raise();
                }
            }
        }
    }
}

/// The key of the descriptor that ends the thread; those of watches begin behind it.
const STOP: u64 = 0;
