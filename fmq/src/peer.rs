//! [`PeerWatch`]: learns that the peer is gone, and ends the waits of the queues it is attached to.
//!
//! One thread per process sleeps in epoll over everything that is watched; it costs nothing until something dies. Waits
//! look at an atomic that this thread sets, so polling stays free of system calls, and sleepers are woken.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::SetupError;
use crate::interrupt::Signal;
use crate::sync::{Mutex, lock};
use crate::wait::Waiter;

/// Watches one peer: its process, or a connection to it. Cheap to clone; the watch ends with the last clone and the last
/// queue it is attached to.
///
/// Attach it with [`Producer::set_peer`](crate::Producer::set_peer) and [`Consumer::set_peer`](crate::Consumer::set_peer).
/// From the death on (within a scheduler's latency, well below 10 ms) every wait ends with
/// [`QueueError::PeerDied`](crate::QueueError::PeerDied); what the peer had published can still be read.
///
/// A child that this process forks has no watching thread: make queues and watches after forking.
#[derive(Clone, Debug)]
pub struct PeerWatch {
    watch: Arc<Watch>,
}

#[derive(Debug)]
struct Watch {
    key: u64,
    signal: Arc<Signal>,
    watcher: Arc<Watcher>,
}

impl PeerWatch {
    /// Watches the process `pid`. Make sure that the number still means the peer: its parent can (it has not waited for
    /// it yet), as can one who got it from a connection's credentials and has seen no hang-up since.
    ///
    /// # Errors
    /// [`SetupError::System`] if there is no such process, or a system call fails.
    pub fn process(pid: u32) -> Result<Self, SetupError> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| system("pidfd_open")(Errno::INVAL))?;
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty());
        Self::pidfd(pidfd.map_err(system("pidfd_open"))?)
    }

    /// Watches the process behind a pidfd.
    ///
    /// # Errors
    /// [`SetupError::System`] if a system call fails.
    pub fn pidfd(pidfd: OwnedFd) -> Result<Self, SetupError> {
        Self::watch(Arc::new(pidfd), epoll::EventFlags::IN)
    }

    /// Watches a connection: a stream or seqpacket socket, or a pipe, whose other end the peer holds. Data on it are
    /// left alone.
    ///
    /// The watch keeps its share of `socket` open; the peer sees our hang-up only once all shares are gone, so give it a
    /// clone of an `Arc` and drop the watch when you close the connection.
    ///
    /// # Errors
    /// [`SetupError::System`] if a system call fails.
    pub fn connection(socket: impl AsFd + Send + Sync + 'static) -> Result<Self, SetupError> {
        Self::watch(Arc::new(socket), epoll::EventFlags::RDHUP)
    }

    /// Ends the watching thread, for whoever is about to end the process, or to unload a library, and wants to leave
    /// nothing behind. Watches made before notice nothing from then on; the next one made starts a thread again.
    pub fn stop_all() {
        if let Some(watcher) = lock(&WATCHER).take() {
            // It can only fail if the count is at its end, which wakes the thread as well.
            let _ = rustix::io::write(&watcher.stop, &1u64.to_ne_bytes());
        }
    }

    /// Whether the peer is gone.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.watch.signal.is_raised()
    }

    pub(crate) fn attach(&self, waiter: &mut Waiter) {
        let watch = Arc::clone(&self.watch);
        waiter.set_death(&self.watch.signal, watch);
    }

    fn watch(file: Arc<dyn WatchedFile>, events: epoll::EventFlags) -> Result<Self, SetupError> {
        let watcher = Watcher::of_process()?;
        let signal = Arc::new(Signal::new());
        let key = watcher.add(file, &signal, events)?;
        Ok(Self { watch: Arc::new(Watch { key, signal, watcher }) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watcher.remove(self.key);
    }
}

trait WatchedFile: AsFd + Send + Sync {}

impl<F: AsFd + Send + Sync> WatchedFile for F {}

/// The process's watcher, while its thread runs.
static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);

/// What the watching thread and the watches share.
#[derive(Debug)]
struct Watcher {
    epoll: OwnedFd,
    /// An eventfd that ends the thread.
    stop: OwnedFd,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    last_key: u64,
    by_key: HashMap<u64, Entry>,
}

struct Entry {
    file: Arc<dyn WatchedFile>,
    signal: Arc<Signal>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("fd", &self.file.as_fd())
            .field("signal", &self.signal)
            .finish()
    }
}

impl Watcher {
    /// The process's watcher; made, with its thread, at the first call.
    fn of_process() -> Result<Arc<Self>, SetupError> {
        let mut slot = lock(&WATCHER);
        if let Some(watcher) = &*slot {
            return Ok(Arc::clone(watcher));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll_create1"))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(system("eventfd"))?;
        epoll::add(&epoll, &stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)
            .map_err(system("epoll_ctl"))?;
        let watcher = Arc::new(Self { epoll, stop, entries: Mutex::new(Entries::default()) });
        let watching = Arc::clone(&watcher);
        std::thread::Builder::new()
            .name("fmq-peer-watch".into())
            .spawn(move || watching.run())
            .map_err(|error| {
                system("clone")(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
            })?;
        *slot = Some(Arc::clone(&watcher));
        Ok(watcher)
    }

    fn add(
        &self,
        file: Arc<dyn WatchedFile>,
        signal: &Arc<Signal>,
        events: epoll::EventFlags,
    ) -> Result<u64, SetupError> {
        let mut entries = lock(&self.entries);
        entries.last_key += 1;
        let key = entries.last_key;
        // Under the lock, so that an event finds its entry. A death is reported at once if it has already happened.
        epoll::add(
            &self.epoll,
            &*file,
            epoll::EventData::new_u64(key),
            events | epoll::EventFlags::ONESHOT,
        )
        .map_err(system("epoll_ctl"))?;
        entries.by_key.insert(key, Entry { file, signal: Arc::clone(signal) });
        Ok(key)
    }

    fn remove(&self, key: u64) {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.by_key.remove(&key) {
            // Can only fail if the file is gone from the set, which is what is wanted.
            let _ = epoll::delete(&self.epoll, &*entry.file);
        }
    }

    /// The watching thread.
    fn run(&self) {
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 16];
        loop {
            let happened = match epoll::wait(&self.epoll, &mut events, None) {
                Ok((happened, _)) => happened,
                Err(Errno::INTR) => continue,
                // Only a bad descriptor or address gets here, and ours are neither.
                Err(_) => return,
            };
            for event in happened {
                if event.data.u64() == STOP {
                    return;
                }
                let signal = {
                    let entries = lock(&self.entries);
                    entries.by_key.get(&event.data.u64()).map(|entry| Arc::clone(&entry.signal))
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

fn system(call: &'static str) -> impl Fn(Errno) -> SetupError {
    move |source| SetupError::System { call, source }
}
