//! Arguments from C: structures, arrays, strings and buffers, behind types whose methods are safe.
//!
//! C can't be made to keep its promises, so somebody has to believe them: the types of this module
//! do, and nothing outside of it is `unsafe`. Each comes into being only as a parameter of an
//! exported function, and stands for the duty that `NeuralNetworks.h` puts on callers: a pointer is
//! null, or points to as many readable or writable elements as the parameter beside it says, for as
//! long as the header says. Pointers to single structures are `Option<&T>` and `Out<T>`, which are
//! pointers to C.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, Ordering};

use nnburst::hal::{View, ViewMut};

use crate::error::{Error, Result};

/// The place for a result; `None` is C's null.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// `ANeuralNetworksOperandType`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperandType {
    pub(crate) kind: i32,
    pub(crate) dimension_count: u32,
    pub(crate) dimensions: Array<u32>,
    pub(crate) scale: f32,
    pub(crate) zero_point: i32,
}

/// `ANeuralNetworksSymmPerChannelQuantParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SymmPerChannelQuantParams {
    pub(crate) channel_dim: u32,
    pub(crate) scale_count: u32,
    pub(crate) scales: Array<f32>,
}

/// `AHardwareBuffer_Desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HardwareBufferDesc {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) layers: u32,
    pub(crate) format: u32,
    pub(crate) usage: u64,
    pub(crate) stride: u32,
    pub(crate) rfu0: u32,
    pub(crate) rfu1: u64,
}

/// An array that the caller lets us read.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Array<T>(*const T);

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<T> {}

impl<T: Copy> Array<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The array, of as many elements as the caller says.
    ///
    /// # Errors
    /// The pointer is null, or so many elements can't be.
    pub(crate) fn elements(&self, count: u32, what: &'static str) -> Result<&[T]> {
        if self.0.is_null() {
            return Err(Error::null(what));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if !self.0.is_aligned() || count.saturating_mul(size_of::<T>()) > isize::MAX.unsigned_abs()
        {
            return Err(Error::data("an array that can't be"));
        }
        // SAFETY: not null, aligned, and by the header's duty of `count` elements that nobody
        // writes meanwhile.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

/// An array that the caller lets us write.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayMut<T>(*mut T);

impl<T: Copy> ArrayMut<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes all of `values`.
    ///
    /// # Errors
    /// The pointer is null.
    pub(crate) fn write(self, values: &[T], what: &'static str) -> Result<()> {
        if self.0.is_null() {
            return Err(Error::null(what));
        }
        // SAFETY: by the header's duty there is room for as many elements as the object asked about
        // has.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.0, values.len()) };
        Ok(())
    }
}

/// A string that the caller lets us read.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// The string.
    ///
    /// # Errors
    /// The pointer is null.
    pub(crate) fn get(&self, what: &'static str) -> Result<&CStr> {
        if self.0.is_null() {
            return Err(Error::null(what));
        }
        // SAFETY: by the header's duty a string with a terminator that nobody writes meanwhile.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

/// Bytes that the caller lets us read.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(*const c_void);

/// Bytes that the caller lets us write.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct BytesMut(*mut c_void);

// SAFETY: an address; executions may look at it from another thread until they are over, as the
// header says.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Send for BytesMut {}

impl Bytes {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// So many bytes, which are not null, to look at.
    pub(crate) fn view(&self, length: usize) -> View<'_> {
        // SAFETY: by the header's duty readable for as long as the object that keeps the pointer
        // looks.
        unsafe { View::from_raw(self.0.cast(), length) }
    }
}

impl BytesMut {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// So many bytes, which are not null, to write.
    pub(crate) fn view_mut(&self, length: usize) -> ViewMut<'_> {
        // SAFETY: by the header's duty writable for as long as the object that keeps the pointer
        // writes.
        unsafe { ViewMut::from_raw(self.0.cast(), length) }
    }
}

/// An address that a program gives to have it back in its call-backs.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context(*const c_void);

// SAFETY: an address that is never followed; call-backs get it on any thread, as the header says.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The value that a program registered last. Reading it is one load.
pub(crate) struct Registered<T: 'static> {
    last: AtomicPtr<Entry<T>>,
}

struct Entry<T> {
    value: T,
    /// The one before, so that who looks for leaks sees that it is known of.
    _before: *mut Self,
}

impl<T: Send + Sync> Registered<T> {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self { last: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Registers a value in place of the last one, which stays in memory: another thread may be
    /// reading it.
    pub(crate) fn set(&self, value: T) {
        // Relaxed: the exchange below hands over what it finds.
        let mut before = self.last.load(Ordering::Relaxed);
        let entry = Box::into_raw(Box::new(Entry { value, _before: before }));
        // Release: pairs with the load in `get`, and hands the entry over.
        while let Err(found) =
            self.last.compare_exchange(before, entry, Ordering::AcqRel, Ordering::Acquire)
        {
            before = found;
            // SAFETY: made above, and nobody else has seen it yet.
            unsafe { (*entry)._before = found };
        }
    }

    /// The value, if there is one.
    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with the exchange in `set`.
        // SAFETY: null, or made by `set` and never freed.
        unsafe { self.last.load(Ordering::Acquire).as_ref() }.map(|entry| &entry.value)
    }
}

/// A descriptor of our own for one of the caller's.
///
/// # Errors
/// It is not open, or there is no room for more.
pub(crate) fn duplicate(fd: i32) -> std::io::Result<OwnedFd> {
    if fd < 0 {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: not -1, and used for the duplication alone, which fails if nothing is open there.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

/// A descriptor that the caller gives away; `None` if nothing is open there.
pub(crate) fn adopt(fd: i32) -> Option<OwnedFd> {
    let duplicate = duplicate(fd).ok()?;
    // SAFETY: open, as the duplication shows, and by the header's duty nobody's but ours from now
    // on.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Some(duplicate)
}
