//! The SIGBUS guard: a client that truncates a file under a mapping costs one execution, no
//! process.
//!
//! A list of watched mappings. It grows by chunks that are never freed, because the signal handler
//! that searches it ([`sigbus`]) may neither allocate nor lock. The first fault in a mapping
//! replaces the whole of it by zeros of its own, so that one memory costs one mapping however much
//! of its file is gone, and marks it; an address that no entry has goes to whoever handled SIGBUS
//! before. Display servers do the same for their clients' buffers.
//!
//! ```text
//!   state of an entry:   WHOLE ──first fault──► REPLACING ──mmap──► LOST
//!                          ▲                        └─ no mapping ─► WHOLE, and the next handler
//!                          └──────────── the next guard that takes the entry
//! ```
//!
//! | edge | release | acquire | hands over |
//! |-----|-----|-----|-----|
//! | `chunk` | `Chunk::next_or_new` | `chunks` | a chunk of free entries |
//! | `free` | `Guard::drop` | `Entry::claim` | an entry that nobody watches |
//! | `watch` | `Guard::watch` | `Entry::holds` (handler) | the range of an entry |
//! | `lost` | `Entry::replace` | `Guard::tripped`, `replace` | the zeros in place of the file |

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use super::error::MemoryError;
use super::sigbus;

/// Entries of a chunk.
const CHUNK: usize = 512;

/// Watched mappings that a process may have where the system doesn't say how many mappings those
/// are.
const DEFAULT_MAX_MAP_COUNT: usize = 65_530;

static FIRST: Chunk = Chunk::new();

/// Entries that are taken, in all chunks.
static WATCHED: AtomicUsize = AtomicUsize::new(0);

/// Nothing was lost.
const WHOLE: u8 = 0;
/// A handler is putting zeros in place.
const REPLACING: u8 = 1;
/// Zeros of ours stand where the file's bytes were.
const LOST: u8 = 2;

struct Chunk {
    entries: [Entry; CHUNK],
    /// The number that is taken; a hint for [`Guard::watch`], which looks at each entry anyway.
    taken: AtomicUsize,
    next: AtomicPtr<Self>,
}

pub(super) struct Entry {
    taken: AtomicBool,
    state: AtomicU8,
    /// First address, 0 while nothing is watched.
    start: AtomicUsize,
    len: AtomicUsize,
}

/// A watched mapping; the watch ends when it is dropped.
pub(super) struct Guard {
    chunk: &'static Chunk,
    entry: &'static Entry,
}

impl Guard {
    /// Watches the mapping of `len` bytes from `start` on.
    ///
    /// # Errors
    /// Half of the mappings that the system allows a process are watched already; no handler can be
    /// installed.
    pub(super) fn watch(start: usize, len: usize) -> Result<Self, MemoryError> {
        sigbus::install()?;
        let limit = max_guarded_mappings();
        // Relaxed: a count, nothing is handed over.
        if WATCHED.fetch_add(1, Ordering::Relaxed) >= limit {
            WATCHED.fetch_sub(1, Ordering::Relaxed);
            return Err(MemoryError::TooManyGuards { limit });
        }
        let mut chunk = &FIRST;
        loop {
            if let Some(entry) = chunk.claim() {
                entry.state.store(WHOLE, Ordering::Relaxed); // published by `start`
                entry.len.store(len, Ordering::Relaxed); // published by `start`
                entry.start.store(start, Ordering::Release); // edge watch
                return Ok(Self { chunk, entry });
            }
            chunk = chunk.next_or_new();
        }
    }

    /// Returns whether the file was cut short under somebody's access, and its bytes are lost.
    #[inline]
    pub(super) fn tripped(&self) -> bool {
        // Acquire: edge lost.
        self.entry.state.load(Ordering::Acquire) == LOST
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.entry.start.store(0, Ordering::Relaxed); // ordered before the entry is free
        self.entry.taken.store(false, Ordering::Release); // edge free
        self.chunk.taken.fetch_sub(1, Ordering::Relaxed); // a hint
        WATCHED.fetch_sub(1, Ordering::Relaxed); // a count
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("tripped", &self.tripped()).finish_non_exhaustive()
    }
}

impl Chunk {
    const fn new() -> Self {
        Self {
            entries: [const { Entry::new() }; CHUNK],
            taken: AtomicUsize::new(0),
            next: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn claim(&'static self) -> Option<&'static Entry> {
        if self.taken.load(Ordering::Relaxed) >= CHUNK {
            return None;
        }
        let claimed = self.entries.iter().find(|entry| entry.claim())?;
        self.taken.fetch_add(1, Ordering::Relaxed); // a hint
        Some(claimed)
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: null, or a chunk that was leaked. Acquire: edge chunk.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    fn next_or_new(&self) -> &'static Self {
        if let Some(next) = self.next() {
            return next;
        }
        let made = Box::into_raw(Box::new(Self::new()));
        let null = std::ptr::null_mut();
        // Release: edge chunk. Acquire: another thread's chunk.
        match self.next.compare_exchange(null, made, Ordering::Release, Ordering::Acquire) {
            // SAFETY: leaked just now.
            Ok(_) => unsafe { &*made },
            Err(theirs) => {
                // SAFETY: made by `Box::into_raw` above, and nobody else knows of it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: not null, and leaked by another thread.
                unsafe { &*theirs }
            }
        }
    }
}

impl Entry {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            state: AtomicU8::new(WHOLE),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
        }
    }

    fn claim(&self) -> bool {
        // Relaxed: looking before the exchange, which is more expensive. Acquire: edge free.
        !self.taken.load(Ordering::Relaxed) && !self.taken.swap(true, Ordering::Acquire)
    }

    fn holds(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire); // edge watch
        let len = self.len.load(Ordering::Relaxed); // handed over by `start`
        start != 0 && address.wrapping_sub(start) < len
    }

    /// Has `put_zeros(start, len)` replace the mapping, once. False if it could not.
    pub(super) fn replace(&self, put_zeros: impl Fn(usize, usize) -> bool) -> bool {
        // Acquire on failure: edge lost, where another thread was faster.
        let begun =
            self.state.compare_exchange(WHOLE, REPLACING, Ordering::Relaxed, Ordering::Acquire);
        if begun.is_err() {
            // The access is tried again, and ends up here until that thread is done.
            return true;
        }
        let start = self.start.load(Ordering::Relaxed); // seen by `holds`
        let done = put_zeros(start, self.len.load(Ordering::Relaxed)); // seen by `holds`
        self.state.store(if done { LOST } else { WHOLE }, Ordering::Release); // edge lost
        done
    }
}

/// The entry that watches an address, for the signal handler: atomics alone, 10 ns for each chunk.
pub(super) fn entry_of(address: usize) -> Option<&'static Entry> {
    chunks().flat_map(|chunk| &chunk.entries).find(|entry| entry.holds(address))
}

fn chunks() -> impl Iterator<Item = &'static Chunk> {
    std::iter::successors(Some(&FIRST), |chunk| chunk.next())
}

/// Most watched mappings of this process: half of the mappings that the system allows it
/// (`vm.max_map_count`). What one user may have of them is the service's to say.
pub fn max_guarded_mappings() -> usize {
    static LIMIT: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: whoever comes first works it out, several may.
    let known = LIMIT.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    let max = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let max = max.and_then(|max| max.trim().parse().ok()).unwrap_or(DEFAULT_MAX_MAP_COUNT);
    let limit = (max / 2).max(1);
    LIMIT.store(limit, Ordering::Relaxed);
    limit
}
