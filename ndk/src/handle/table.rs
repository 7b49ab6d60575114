//! Objects by place and generation.
//!
//! Every function of the interface begins with a handle, and an inference takes six of them. So a
//! place is locked, and its handle found to be good, by one exchange on a word, and unlocked by
//! another:
//!
//! ```text
//!   generation, state:   g EMPTY ──insert──► g LIVE ◄──with──► g LOCKED ──free──► g+1 EMPTY
//!                                               ▲                 │ another thread wants it,
//!                                               └───── with ── g AWAITED       and sleeps ──┘
//! ```
//!
//! A forked child has the parent's objects in its memory, and must not touch them: a thread that it
//! doesn't have may hold the place, and what they stand for (connections, queues, threads) is the
//! parent's. So each place notes the process that it belongs to. In a child, calls with handles of
//! its parent answer `OP_FAILED` before anything is locked, and freeing one does nothing; places of
//! the parent are never used again there.
//!
//! | edge     | release                          | acquire       | hands over             |
//! |----------|----------------------------------|---------------|------------------------|
//! | `object` | `Table::insert`, `Locked`'s drop | `HandleSlot::lock`  | the object of a place  |
//! | `place`  | the lock of `Table::free`        | the same      | a place without object |
//! | `chunk`  | `Table::make_chunk`              | `Table::slot` | a chunk of places      |

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crossbeam_utils::CachePadded;

use super::sync::{
    AtomicPtr, AtomicU32, AtomicU64, FIRST_CHUNK, MutexGuard, Pause, PerProcess, UnsafeCell,
    process_id, wait, wake_all,
};

/// A place is used again after its object is freed, 2^19 times before its handles repeat.
pub(crate) const GENERATION_BITS: u32 = 19;

/// Tables grow by chunks, each as long as all before it, so that objects never move: a million
/// places in all.
const CHUNKS: usize = 15;

/// A place of a table, and how often it was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandlePlace {
    pub(crate) at: u32,
    pub(crate) generation: u32,
}

/// The contents of a place.
pub(crate) enum Find<T: 'static> {
    Slot(&'static HandleSlot<T>),
    Nothing,
    /// An object of the process that this one was forked from.
    OfParent,
}

/// All objects of one kind.
pub(crate) struct Table<T> {
    /// The first place of each chunk, on a cache line of its own; null until one of them is needed,
    /// never freed.
    chunks: [AtomicPtr<CachePadded<HandleSlot<T>>>; CHUNKS],
    /// Places that were used before, by this process.
    free: PerProcess<Vec<u32>>,
    /// From here on places were never used.
    fresh: AtomicU32,
}

/// One place.
pub(crate) struct HandleSlot<T> {
    /// The generation, and in the lowest bits the state.
    word: AtomicU32,
    /// Whose it is: [`process_id`], for as long as that process lives.
    process: AtomicU64,
    object: UnsafeCell<Option<T>>,
}

/// The process of a place that was never used.
const UNUSED: u64 = 0;

// SAFETY: the object is touched by whoever has locked the word, or has the place from the list of
// free ones: one thread at a time, to which it is sent.
unsafe impl<T: Send> Sync for HandleSlot<T> {}

/// No object; the place is on the list of free ones, or with whoever took it from there.
const EMPTY: u32 = 0;
/// An object that nobody works with.
const LIVE: u32 = 1;
/// An object that somebody works with.
const LOCKED: u32 = 2;
/// As [`LOCKED`], and others sleep until it is unlocked.
const AWAITED: u32 = 3;
const STATE_BITS: u32 = 2;

/// Why a place can't be locked now.
pub(crate) enum Busy {
    Locked,
    /// Free, or of another generation.
    Other,
}

impl<T> HandleSlot<T> {
    fn new() -> Self {
        Self {
            word: AtomicU32::new(EMPTY),
            process: AtomicU64::new(UNUSED),
            object: UnsafeCell::new(None),
        }
    }

    /// # Errors
    /// Somebody has locked it, or the handle is stale.
    #[inline]
    pub(crate) fn try_lock(&self, generation: u32) -> Result<Locked<'_, T>, Busy> {
        let word = |state| generation << STATE_BITS | state;
        let (live, locked, awaited) = (word(LIVE), word(LOCKED), word(AWAITED));
        // edge object (acquire): what was done to the object before is visible from here on.
        // Relaxed where it fails: nothing is touched then.
        let exchanged =
            self.word.compare_exchange(live, locked, Ordering::Acquire, Ordering::Relaxed);
        match exchanged {
            Ok(_) => Ok(Locked { slot: self, leave: live }),
            Err(found) if found == locked || found == awaited => Err(Busy::Locked),
            Err(_) => Err(Busy::Other),
        }
    }

    /// `None` where the handle is stale, or is so once the place can be locked.
    #[inline]
    pub(crate) fn lock(&self, generation: u32) -> Option<Locked<'_, T>> {
        match self.try_lock(generation) {
            Ok(locked) => Some(locked),
            Err(Busy::Locked) => self.wait(generation),
            Err(Busy::Other) => None,
        }
    }

    /// Two threads at one object are rare, and but for a model that is being compiled soon done.
    #[cold]
    fn wait(&self, generation: u32) -> Option<Locked<'_, T>> {
        let pause = Pause::new();
        loop {
            if pause.is_over() {
                self.sleep(generation);
            } else {
                pause.wait();
            }
            match self.try_lock(generation) {
                Ok(locked) => return Some(locked),
                Err(Busy::Locked) => {}
                Err(Busy::Other) => return None,
            }
        }
    }

    /// Sleeps until the place is unlocked, unless that has happened.
    fn sleep(&self, generation: u32) {
        let (locked, awaited) =
            (generation << STATE_BITS | LOCKED, generation << STATE_BITS | AWAITED);
        // Relaxed: nothing is touched before the place is locked. Whoever unlocks it sees the state
        // in the very exchange.
        let marked =
            self.word.compare_exchange(locked, awaited, Ordering::Relaxed, Ordering::Relaxed);
        if marked.is_ok() || marked == Err(awaited) {
            wait(&self.word, awaited);
        }
    }
}

/// A place whose object is ours, until this is dropped.
pub(crate) struct Locked<'a, T> {
    slot: &'a HandleSlot<T>,
    /// The word from then on.
    leave: u32,
}

impl<T> Locked<'_, T> {
    /// Works with the object, which is there.
    #[inline]
    pub(crate) fn work<R>(&mut self, work: impl FnOnce(Option<&mut T>) -> R) -> R {
        // SAFETY: locked by us.
        self.slot.object.with_mut(|object| work(unsafe { &mut *object }.as_mut()))
    }

    /// Leaves the place to the next generation.
    fn take(mut self) -> Option<T> {
        let next = ((self.leave >> STATE_BITS) + 1) % (1 << GENERATION_BITS);
        self.leave = next << STATE_BITS | EMPTY;
        // SAFETY: locked by us.
        self.slot.object.with_mut(|object| unsafe { (*object).take() })
    }
}

impl<T> Drop for Locked<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // edge object (release): pairs with the exchange of whoever locks the place next.
        let left = self.slot.word.swap(self.leave, Ordering::Release);
        if left % (1 << STATE_BITS) == AWAITED {
            wake_all(&raw const self.slot.word);
        }
    }
}

impl<T> Table<T> {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            free: PerProcess::new(),
            fresh: AtomicU32::new(0),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        let chunks = std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut()));
        Self { chunks, free: PerProcess::new(), fresh: AtomicU32::new(0) }
    }

    fn free(&'static self) -> MutexGuard<'static, Vec<u32>> {
        self.free.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chunk and position within it: the first has 64 places, each other as many as all before it.
    #[inline]
    fn chunk_of(place: u32) -> (usize, usize) {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        match (place / FIRST_CHUNK).checked_ilog2() {
            None => (0, place),
            Some(log) => {
                let first = FIRST_CHUNK << log;
                (usize::try_from(log).unwrap_or(0) + 1, place - first)
            }
        }
    }

    #[inline]
    fn slot(&self, place: u32) -> Option<&HandleSlot<T>> {
        let (chunk, at) = Self::chunk_of(place);
        // Acquire: edge chunk.
        let first = self.chunks.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: null, or the first of a leaked chunk, within which `chunk_of` puts every place.
        (!first.is_null()).then(|| unsafe { &**first.add(at) })
    }

    /// Makes the chunk of a place, unless it is there. For whoever has the lock of `free`: nobody
    /// else makes one.
    fn make_chunk(&self, place: u32) -> Option<()> {
        let (chunk, _) = Self::chunk_of(place);
        let first = self.chunks.get(chunk)?;
        // Relaxed: made under the same lock, or before the fork.
        if first.load(Ordering::Relaxed).is_null() {
            let length = FIRST_CHUNK << chunk.saturating_sub(1);
            let made: Box<[_]> = (0..length).map(|_| CachePadded::new(HandleSlot::new())).collect();
            first.store(Box::leak(made).as_mut_ptr(), Ordering::Release); // edge chunk
        }
        Some(())
    }
}

impl<T> Table<T> {
    /// Finds the slot of a place; whether the generation is right shows when it is locked.
    #[inline]
    pub(crate) fn find(&'static self, place: HandlePlace) -> Find<T> {
        let Some(slot) = self.slot(place.at) else { return Find::Nothing };
        // Relaxed: whoever was given the handle sees what was written before that.
        match slot.process.load(Ordering::Relaxed) {
            process if process == process_id() => Find::Slot(slot),
            UNUSED => Find::Nothing,
            _ => Find::OfParent,
        }
    }

    /// Puts an object into a place of its own; `None` where there are a million already.
    pub(crate) fn insert(&'static self, object: T) -> Option<HandlePlace> {
        let at = {
            let mut free = self.free();
            match free.pop() {
                Some(place) => place,
                None => {
                    // Relaxed: only this process counts, under the lock.
                    let place = self.fresh.load(Ordering::Relaxed);
                    self.make_chunk(place)?;
                    self.fresh.store(place + 1, Ordering::Relaxed);
                    place
                }
            }
        };
        let slot = self.slot(at)?;
        // Relaxed: nobody writes the word of a free place, and the list handed it over (edge
        // place).
        let generation = slot.word.load(Ordering::Relaxed) >> STATE_BITS;
        // SAFETY: the place is from the list of free ones, hence ours alone.
        slot.object.with_mut(|place| unsafe { *place = Some(object) });
        slot.process.store(process_id(), Ordering::Relaxed); // published with the object
        // edge object (release): pairs with the exchange of whoever locks the place first.
        slot.word.store(generation << STATE_BITS | LIVE, Ordering::Release);
        Some(HandlePlace { at, generation })
    }

    /// Takes the object of a place out of it, waiting for whoever works with it; `None` where there
    /// is none, or another process's.
    pub(crate) fn remove(&'static self, place: HandlePlace) -> Option<T> {
        let Find::Slot(slot) = self.find(place) else { return None };
        let object = slot.lock(place.generation)?.take();
        self.free().push(place.at);
        object
    }
}
