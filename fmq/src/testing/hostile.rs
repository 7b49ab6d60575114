//! [`HostilePeer`]: holds a queue's memory and keeps to no rule.

use crate::descriptor::Descriptor;
use crate::memory::QueueMemory;
use crate::memory::mapping::{self, Access, Policy};
use crate::sync::Ordering;
use crate::{Cancel, PeerWatch};

/// A peer that writes whatever it likes into the memory of a queue.
///
/// Death is played by dropping the connection that a [`PeerWatch`] looks at: [`Self::connection`].
#[derive(Debug)]
pub struct HostilePeer {
    memory: QueueMemory,
    descriptor: Descriptor,
    connection: Option<std::os::unix::net::UnixStream>,
}

impl HostilePeer {
    /// Maps the queue, checking no more than it must to map it.
    #[must_use]
    pub fn new(descriptor: Descriptor) -> Self {
        let quantum = u64::from(descriptor.data.quantum);
        let policy = Policy { access: Access::ReadWrite, allow_unsealed: true };
        let memory = mapping::attach(&descriptor, quantum, policy).expect("a descriptor of ours");
        Self { memory, descriptor, connection: None }
    }

    /// The counters as they are: bytes read and bytes written.
    #[must_use]
    pub fn counters(&self) -> (u64, u64) {
        let load = |counter: &crate::sync::AtomicU64| counter.load(Ordering::SeqCst);
        (load(self.memory.read()), load(self.memory.written()))
    }

    /// Overwrites the read counter.
    pub fn set_read(&self, bytes: u64) {
        self.memory.read().store(bytes, Ordering::SeqCst);
    }

    /// Overwrites the write counter.
    pub fn set_written(&self, bytes: u64) {
        self.memory.written().store(bytes, Ordering::SeqCst);
    }

    /// Overwrites the event-flag word, if there is one, and wakes nobody.
    pub fn set_flag(&self, bits: u32) {
        if let Some(word) = self.memory.flag() {
            word.fetch_and(0, Ordering::SeqCst);
            word.fetch_or(bits, Ordering::SeqCst);
        }
    }

    /// The event-flag word, if there is one.
    #[must_use]
    pub fn flag(&self) -> Option<u32> {
        Some(self.memory.flag()?.load(Ordering::SeqCst))
    }

    /// Bytes in the ring.
    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        self.memory.ring_bytes()
    }

    /// Overwrites bytes of the ring, from byte `position` (modulo its size) on.
    pub fn scribble(&self, position: usize, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let at = position.wrapping_add(i) % self.ring_bytes();
            // SAFETY: within the ring. The protocol does not allow it, which is the point.
            unsafe { self.memory.copy_in(at, std::slice::from_ref(byte)) };
        }
    }

    /// Tries to cut every file to nothing; whether one was.
    pub fn shrink(&self) -> bool {
        self.descriptor.fds.iter().any(|fd| nix::unistd::ftruncate(fd, 0).is_ok())
    }

    /// Opens a connection whose other end is watched: dropping this peer, or calling [`Self::die`],
    /// is its death.
    pub fn connection(&mut self) -> PeerWatch {
        let (theirs, ours) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
        self.connection = Some(theirs);
        PeerWatch::connection(ours).expect("a watch")
    }

    /// Disconnects.
    pub fn die(&mut self) {
        self.connection = None;
    }

    /// Calls `misdeed` over and over, from a thread of its own, while `work` runs.
    pub fn while_it<R>(&self, misdeed: impl Fn(&Self, u64) + Sync, work: impl FnOnce() -> R) -> R {
        let stop = Cancel::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..).take_while(|_| !stop.is_cancelled()).for_each(|i| misdeed(self, i));
            });
            // Also when `work` panics: the scope waits for its threads.
            let _stop = CancelOnDrop(&stop);
            work()
        })
    }
}

struct CancelOnDrop<'cancel>(&'cancel Cancel);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
