//! Handles: what C holds of our objects.
//!
//! A handle looks like a pointer and is a number: the kind of the object, its place in a table, and
//! how often that place was used before. Nothing is ever found by following it, so that a handle
//! that was freed, or that is of another kind, or that never was one, is told from a good one and
//! answered with a code. (A place is used again after its object is freed; a stale handle is taken
//! for a newer object only after 2^19 objects at the same place.)
//!
//! Every function of the interface begins with a handle, and an inference takes six of them. So a
//! place is locked, and its handle found to be good, by one exchange on a word, and unlocked by a
//! store:
//!
//! ```text
//!   generation, state:   g EMPTY ──insert──► g LIVE ◄──with──► g LOCKED ──free──► g+1 EMPTY
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
//! | `object` | `Table::insert`, `Locked`'s drop | `Slot::lock`  | the object of a place  |
//! | `place`  | the lock of `Table::free`        | the same      | a place without object |
//! | `chunk`  | `Table::make_chunk`              | `Table::slot` | a chunk of places      |

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use nnburst::hal::process::{self, PerProcess};

use crate::error::{Code, Error, Result};

/// The low bits of a handle are 0, as of a pointer to something aligned.
const ALIGNMENT_BITS: u32 = 4;
const PLACE_BITS: u32 = 20;
const GENERATION_BITS: u32 = 19;

/// Tables grow by chunks, each as long as all before it, so that objects never move.
const FIRST_CHUNK: usize = 64;
const CHUNKS: usize = 15;

/// An object that C may hold.
pub(crate) trait Object: Sized + Send + 'static {
    /// Its name in errors.
    const NAME: &'static str;
    /// Tells handles of this kind from those of others; 1 to 15.
    const TAG: u64;

    /// Returns the table of all of them.
    fn table() -> &'static Table<Self>;
}

/// A handle as C passes it.
#[repr(transparent)]
pub(crate) struct Handle<T>(*mut c_void, PhantomData<T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Handle<T> {
    /// The null pointer of C.
    pub(crate) const NULL: Self = Self(std::ptr::null_mut(), PhantomData);

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The number that C sees.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// The handle of this number.
    pub(crate) fn at(address: usize) -> Self {
        Self(std::ptr::without_provenance_mut(address), PhantomData)
    }
}

impl<T: Object> Handle<T> {
    /// A handle for a new object.
    ///
    /// # Errors
    /// There are a million of its kind already.
    pub(crate) fn new(object: T) -> Result<Self> {
        T::table().insert(object)
    }

    /// Works with the object while nobody else does; waits for whoever does.
    ///
    /// # Errors
    /// The handle is null or stands for nothing; `OP_FAILED` for one of the process that this one
    /// was forked from.
    #[inline]
    pub(crate) fn with<R>(self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        let (slot, generation) = self.find()?;
        let Some(mut locked) = slot.lock(generation) else { return Err(Self::stale()) };
        locked.work(work)
    }

    /// As [`Handle::with`], without waiting.
    ///
    /// # Errors
    /// As for [`Handle::with`]; `BAD_STATE` while somebody else works with the object.
    #[inline]
    pub(crate) fn try_with<R>(self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        let (slot, generation) = self.find()?;
        match slot.try_lock(generation) {
            Ok(mut locked) => locked.work(work),
            Err(Busy::Locked) => Err(Error::state(format!("the {} is in use", T::NAME))),
            Err(Busy::Other) => Err(Self::stale()),
        }
    }

    /// Takes the object back, waiting for whoever works with it. Null, what stands for nothing, and
    /// objects of the process that this one was forked from are let pass.
    pub(crate) fn free(self) -> Option<T> {
        let (slot, generation) = self.find().ok()?;
        let (place, _) = self.decode().ok()?;
        let object = slot.lock(generation)?.take();
        T::table().free().push(place);
        object
    }

    #[inline]
    fn find(self) -> Result<(&'static Slot<T>, u32)> {
        let (place, generation) = self.decode()?;
        let slot = T::table().slot(place).ok_or_else(Self::stale)?;
        // Relaxed: whoever was given the handle sees what was written before that.
        match slot.process.load(Ordering::Relaxed) {
            process if process == process::id() => Ok((slot, generation)),
            UNUSED => Err(Self::stale()),
            _ => Err(Self::of_parent()),
        }
    }

    fn encode(place: u32, generation: u32) -> Self {
        let bits =
            (T::TAG << GENERATION_BITS | u64::from(generation)) << PLACE_BITS | u64::from(place);
        let address = usize::try_from(bits << ALIGNMENT_BITS).unwrap_or(0);
        Self::at(address)
    }

    #[inline]
    fn decode(self) -> Result<(u32, u32)> {
        if self.is_null() {
            return Err(Error::null(T::NAME));
        }
        let address = u64::try_from(self.0.addr()).unwrap_or(0);
        let bits = address >> ALIGNMENT_BITS;
        let part =
            |shift: u32, width: u32| u32::try_from(bits >> shift & ((1 << width) - 1)).unwrap_or(0);
        let tag = bits >> (PLACE_BITS + GENERATION_BITS);
        if tag != T::TAG || address % (1 << ALIGNMENT_BITS) != 0 {
            return Err(Self::stale());
        }
        Ok((part(0, PLACE_BITS), part(PLACE_BITS, GENERATION_BITS)))
    }

    #[cold]
    fn of_parent() -> Error {
        let what = T::NAME;
        Error::new(
            Code::OpFailed,
            format!(
                "the {what} belongs to the process that this one was forked from: make another here"
            ),
        )
    }

    #[cold]
    fn stale() -> Error {
        Error::state(format!("no {} stands behind the handle: freed, or never made", T::NAME))
    }
}

/// All objects of one kind.
pub(crate) struct Table<T> {
    /// The first place of each chunk; null until one of them is needed, never freed.
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    /// Places that were used before, by this process.
    free: PerProcess<Vec<u32>>,
    /// From here on places were never used.
    fresh: AtomicU32,
}

/// One place, on a cache line of its own.
#[repr(align(64))]
struct Slot<T> {
    /// The generation, and in the lowest bits the state.
    word: AtomicU32,
    /// Whose it is: [`process::id`], for as long as that process lives.
    process: AtomicU64,
    object: UnsafeCell<Option<T>>,
}

/// The process of a place that was never used.
const UNUSED: u64 = 0;

// SAFETY: the object is touched by whoever has locked the word, or has the place from the list of
// free ones: one thread at a time, to which it is sent.
unsafe impl<T: Send> Sync for Slot<T> {}

/// No object; the place is on the list of free ones, or with whoever took it from there.
const EMPTY: u32 = 0;
/// An object that nobody works with.
const LIVE: u32 = 1;
/// An object that somebody works with.
const LOCKED: u32 = 2;
const STATE_BITS: u32 = 2;

/// Why a place can't be locked now.
enum Busy {
    Locked,
    /// Free, or of another generation.
    Other,
}

impl<T> Slot<T> {
    fn new() -> Self {
        Self {
            word: AtomicU32::new(EMPTY),
            process: AtomicU64::new(UNUSED),
            object: UnsafeCell::new(None),
        }
    }

    #[inline]
    fn try_lock(&self, generation: u32) -> std::result::Result<Locked<'_, T>, Busy> {
        let (live, locked) = (generation << STATE_BITS | LIVE, generation << STATE_BITS | LOCKED);
        // edge object (acquire): what was done to the object before is visible from here on.
        // Relaxed where it fails: nothing is touched then.
        let exchanged =
            self.word.compare_exchange(live, locked, Ordering::Acquire, Ordering::Relaxed);
        match exchanged {
            Ok(_) => Ok(Locked { slot: self, leave: live }),
            Err(found) if found == locked => Err(Busy::Locked),
            Err(_) => Err(Busy::Other),
        }
    }

    /// `None` where the handle is stale, or is so once the place can be locked.
    #[inline]
    fn lock(&self, generation: u32) -> Option<Locked<'_, T>> {
        match self.try_lock(generation) {
            Ok(locked) => Some(locked),
            Err(Busy::Locked) => self.wait(generation),
            Err(Busy::Other) => None,
        }
    }

    /// Two threads at one object are rare, and but for a model that is being compiled soon done.
    #[cold]
    fn wait(&self, generation: u32) -> Option<Locked<'_, T>> {
        for round in 0.. {
            match round {
                0..100 => std::hint::spin_loop(),
                100..200 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
            match self.try_lock(generation) {
                Ok(locked) => return Some(locked),
                Err(Busy::Locked) => {}
                Err(Busy::Other) => break,
            }
        }
        None
    }
}

/// A place whose object is ours, until this is dropped.
struct Locked<'a, T> {
    slot: &'a Slot<T>,
    /// The word from then on.
    leave: u32,
}

impl<T: Object> Locked<'_, T> {
    #[inline]
    fn work<R>(&mut self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        // SAFETY: locked by us.
        let object = unsafe { &mut *self.slot.object.get() };
        work(object.as_mut().ok_or_else(Handle::<T>::stale)?)
    }

    /// Leaves the place to the next generation.
    fn take(mut self) -> Option<T> {
        let next = ((self.leave >> STATE_BITS) + 1) % (1 << GENERATION_BITS);
        self.leave = next << STATE_BITS | EMPTY;
        // SAFETY: locked by us.
        unsafe { (*self.slot.object.get()).take() }
    }
}

impl<T> Drop for Locked<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // edge object (release): pairs with the exchange of whoever locks the place next.
        self.slot.word.store(self.leave, Ordering::Release);
    }
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            free: PerProcess::new(),
            fresh: AtomicU32::new(0),
        }
    }

    fn free(&'static self) -> MutexGuard<'static, Vec<u32>> {
        self.free.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chunk and position within it: the first has 64 places, each other as many as all before it.
    #[inline]
    fn find(place: u32) -> (usize, usize) {
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
    fn slot(&self, place: u32) -> Option<&Slot<T>> {
        let (chunk, at) = Self::find(place);
        // Acquire: edge chunk.
        let first = self.chunks.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: null, or the first of a leaked chunk, within which `find` puts every place.
        (!first.is_null()).then(|| unsafe { &*first.add(at) })
    }

    /// Makes the chunk of a place, unless it is there. For whoever has the lock of `free`: nobody
    /// else makes one.
    fn make_chunk(&self, place: u32) -> Option<()> {
        let (chunk, _) = Self::find(place);
        let first = self.chunks.get(chunk)?;
        // Relaxed: made under the same lock, or before the fork.
        if first.load(Ordering::Relaxed).is_null() {
            let length = FIRST_CHUNK << chunk.saturating_sub(1);
            let made: Box<[Slot<T>]> = (0..length).map(|_| Slot::new()).collect();
            first.store(Box::leak(made).as_mut_ptr(), Ordering::Release); // edge chunk
        }
        Some(())
    }
}

impl<T: Object> Table<T> {
    fn insert(&'static self, object: T) -> Result<Handle<T>> {
        let full = || Error::new(Code::OutOfMemory, format!("too many objects: {}", T::NAME));
        let place = {
            let mut free = self.free();
            match free.pop() {
                Some(place) => place,
                None => {
                    // Relaxed: only this process counts, under the lock.
                    let place = self.fresh.load(Ordering::Relaxed);
                    self.make_chunk(place).ok_or_else(full)?;
                    self.fresh.store(place + 1, Ordering::Relaxed);
                    place
                }
            }
        };
        let slot = self.slot(place).ok_or_else(full)?;
        // Relaxed: nobody writes the word of a free place, and the list handed it over (edge
        // place).
        let generation = slot.word.load(Ordering::Relaxed) >> STATE_BITS;
        // SAFETY: the place is from the list of free ones, hence ours alone.
        unsafe { *slot.object.get() = Some(object) };
        slot.process.store(process::id(), Ordering::Relaxed); // published with the object
        // edge object (release): pairs with the exchange of whoever locks the place first.
        slot.word.store(generation << STATE_BITS | LIVE, Ordering::Release);
        Ok(Handle::encode(place, generation))
    }
}

/// Makes a type one that C may hold.
macro_rules! object {
    ($kind:ty, $name:literal, $tag:literal) => {
        impl crate::handle::Object for $kind {
            const NAME: &'static str = $name;
            const TAG: u64 = $tag;

            fn table() -> &'static crate::handle::Table<Self> {
                static TABLE: crate::handle::Table<$kind> = crate::handle::Table::new();
                &TABLE
            }
        }
    };
}
pub(crate) use object;

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(u32);
    object!(Thing, "thing", 15);
    struct Other;
    object!(Other, "other", 14);

    #[test]
    fn a_handle_finds_its_object_until_it_is_freed() {
        let a = Handle::new(Thing(1)).unwrap();
        let b = Handle::new(Thing(2)).unwrap();
        assert_eq!(a.with(|thing| Ok(thing.0)).unwrap(), 1);
        assert_eq!(b.with(|thing| Ok(thing.0)).unwrap(), 2);
        assert_eq!(a.free().unwrap().0, 1);
        assert!(a.free().is_none(), "twice");
        let reused = Handle::new(Thing(3)).unwrap();
        assert_eq!(a.with(|_| Ok(())).unwrap_err().code, Code::BadState, "stale");
        assert_eq!(reused.free().unwrap().0 + b.free().unwrap().0, 5);
    }

    #[test]
    fn what_is_no_handle_is_told() {
        let other = Handle::new(Other).unwrap();
        let wrong: Handle<Thing> = Handle::at(other.address());
        assert_eq!(wrong.with(|_| Ok(())).unwrap_err().code, Code::BadState, "of another kind");
        let null = Handle::<Thing>::NULL;
        assert_eq!(null.with(|_| Ok(())).unwrap_err().code, Code::UnexpectedNull);
        assert!(null.free().is_none());
        for address in [1, 16, 0x7fff_1234_5670, usize::MAX] {
            let made_up = Handle::<Thing>::at(address);
            assert_eq!(made_up.with(|_| Ok(())).unwrap_err().code, Code::BadState, "{address:#x}");
        }
    }

    #[test]
    fn whoever_works_with_an_object_does_so_alone() {
        let shared = Handle::new(Thing(0)).unwrap();
        // A handle is a number, and goes to other threads as one.
        let address = shared.address();
        let add = || {
            for _ in 0..1000 {
                let added = Handle::<Thing>::at(address).with(|thing| {
                    let seen = thing.0;
                    std::hint::spin_loop();
                    thing.0 = seen + 1;
                    Ok(())
                });
                added.unwrap();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(add);
            }
        });
        assert_eq!(shared.with(|thing| Ok(thing.0)).unwrap(), 3000);
        let meanwhile = shared.with(|_| Ok(shared.try_with(|_| Ok(())).unwrap_err().code));
        assert_eq!(meanwhile.unwrap(), Code::BadState, "in use");
        let panicked = std::panic::catch_unwind(|| shared.with(|_| -> Result<()> { panic!() }));
        assert!(panicked.is_err());
        shared.with(|_| Ok(())).unwrap();
        let waits = std::thread::scope(|scope| {
            let freeing = shared.with(|_| {
                let freeing = scope.spawn(|| Handle::<Thing>::at(address).free().is_some());
                std::thread::sleep(Duration::from_millis(2));
                assert!(!freeing.is_finished(), "waits");
                Ok(freeing)
            });
            freeing.unwrap().join().unwrap()
        });
        assert!(waits);
    }

    #[test]
    fn tables_grow_without_moving_anything() {
        let handles: Vec<_> = (0..1000).map(|at| Handle::new(Thing(at)).unwrap()).collect();
        for (at, handle) in handles.iter().enumerate() {
            assert_eq!(handle.with(|thing| Ok(thing.0)).unwrap(), u32::try_from(at).unwrap());
        }
        assert!(handles.into_iter().all(|handle| handle.free().is_some()));
    }
}
