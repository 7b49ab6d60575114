//! Handles: what C holds of our objects.
//!
//! A handle looks like a pointer and is a number: the kind of the object, its place in a table, and
//! how often that place was used before. Nothing is ever found by following it, so that a handle
//! that was freed, or that is of another kind, or that never was one, is told from a good one and
//! answered with a code. (A place is used again after its object is freed; a stale handle is taken
//! for a newer object only after 2^19 objects at the same place.)
//!
//! [`table`] has the objects.

mod sync;
mod table;

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::error::{Code, Error, Result};
use table::{Busy, Find, GENERATION_BITS, HandlePlace, HandleSlot, Locked};

pub(crate) use table::Table;

/// The low bits of a handle are 0, as of a pointer to something aligned.
const ALIGNMENT_BITS: u32 = 4;
const PLACE_BITS: u32 = 20;

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
        match T::table().insert(object) {
            Some(HandlePlace { at, generation }) => Ok(Self::encode(at, generation)),
            None => Err(Error::new(Code::OutOfMemory, format!("too many objects: {}", T::NAME))),
        }
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
        Self::work(&mut locked, work)
    }

    /// As [`Handle::with`], without waiting.
    ///
    /// # Errors
    /// As for [`Handle::with`]; `BAD_STATE` while somebody else works with the object.
    #[inline]
    pub(crate) fn try_with<R>(self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        let (slot, generation) = self.find()?;
        match slot.try_lock(generation) {
            Ok(mut locked) => Self::work(&mut locked, work),
            Err(Busy::Locked) => Err(Error::state(format!("the {} is in use", T::NAME))),
            Err(Busy::Other) => Err(Self::stale()),
        }
    }

    /// Takes the object back, waiting for whoever works with it. Null, what stands for nothing, and
    /// objects of the process that this one was forked from are let pass.
    pub(crate) fn free(self) -> Option<T> {
        T::table().remove(self.decode().ok()?)
    }

    #[inline]
    fn work<R>(locked: &mut Locked<'_, T>, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        locked.work(|object| work(object.ok_or_else(Self::stale)?))
    }

    #[inline]
    fn find(self) -> Result<(&'static HandleSlot<T>, u32)> {
        let place = self.decode()?;
        match T::table().find(place) {
            Find::Slot(slot) => Ok((slot, place.generation)),
            Find::Nothing => Err(Self::stale()),
            Find::OfParent => Err(Self::of_parent()),
        }
    }

    fn encode(place: u32, generation: u32) -> Self {
        let bits =
            (T::TAG << GENERATION_BITS | u64::from(generation)) << PLACE_BITS | u64::from(place);
        let address = usize::try_from(bits << ALIGNMENT_BITS).unwrap_or(0);
        Self::at(address)
    }

    #[inline]
    fn decode(self) -> Result<HandlePlace> {
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
        let generation = part(PLACE_BITS, GENERATION_BITS);
        Ok(HandlePlace { at: part(0, PLACE_BITS), generation })
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
    use std::time::Duration;

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
        for address in [1, 16, usize::MAX / 16 * 7, usize::MAX] {
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
