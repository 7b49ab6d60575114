//! Parts of memory that somebody else may write: pointer, length, lifetime, no promise.
//!
//! A `&[u8]` promises the compiler that the bytes stay as they are. Memory that another process has
//! mapped keeps no such promise, so tensors in it are handed around as views. Copying out is one
//! pass; what was read twice may differ, so whatever steers control is copied once and then used.

use std::marker::PhantomData;
use std::ops::Range;

/// Bytes to look at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    start: *const u8,
    len: usize,
    life: PhantomData<&'a [u8]>,
}

/// Bytes to look at and write.
#[derive(Clone, Copy, Debug)]
pub struct ViewMut<'a> {
    start: *mut u8,
    len: usize,
    life: PhantomData<&'a [std::cell::Cell<u8>]>,
}

// SAFETY: a view is an address range that stays mapped for 'a, whichever thread looks.
unsafe impl Send for View<'_> {}
// SAFETY: as for Send.
unsafe impl Sync for View<'_> {}
// SAFETY: a view is an address range that stays mapped for 'a; who writes it when is the owner's
// care, and with another process in the game nobody's.
unsafe impl Send for ViewMut<'_> {}
// SAFETY: as for Send.
unsafe impl Sync for ViewMut<'_> {}

impl<'a> View<'a> {
    /// A view of `len` bytes at `start`.
    ///
    /// # Safety
    /// The bytes are mapped and readable for all of `'a`.
    pub unsafe fn from_raw(start: *const u8, len: usize) -> Self {
        Self { start, len, life: PhantomData }
    }

    /// A view of private memory.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { start: bytes.as_ptr(), len: bytes.len(), life: PhantomData }
    }

    /// Bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first byte's address, for kernels that read in place.
    pub fn as_ptr(self) -> *const u8 {
        self.start
    }

    /// A part; `None` if it isn't within the view.
    pub fn slice(self, range: Range<usize>) -> Option<Self> {
        let len = range.end.checked_sub(range.start)?;
        if range.end > self.len {
            return None;
        }
        // SAFETY: the part lies within the view.
        Some(Self { start: unsafe { self.start.add(range.start) }, len, life: PhantomData })
    }

    /// Copies the first bytes out, as many as both have; the rest of `out` stays as it is.
    pub fn copy_to_slice(self, out: &mut [u8]) {
        let len = self.len.min(out.len());
        // SAFETY: `len` bytes are readable here and writable there; `out` is exclusively ours, so
        // the two don't overlap. If another process writes meanwhile we copy any bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.start, out.as_mut_ptr(), len) };
    }

    /// The bytes, copied.
    pub fn to_vec(self) -> Vec<u8> {
        let mut out = vec![0; self.len];
        self.copy_to_slice(&mut out);
        out
    }
}

impl<'a> ViewMut<'a> {
    /// A view of `len` bytes at `start`.
    ///
    /// # Safety
    /// The bytes are mapped, readable and writable for all of `'a`, and no reference to them lives.
    pub unsafe fn from_raw(start: *mut u8, len: usize) -> Self {
        Self { start, len, life: PhantomData }
    }

    /// A view of private memory.
    pub fn of(bytes: &'a mut [u8]) -> Self {
        Self { start: bytes.as_mut_ptr(), len: bytes.len(), life: PhantomData }
    }

    /// Bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first byte's address, for kernels that write in place.
    pub fn as_mut_ptr(self) -> *mut u8 {
        self.start
    }

    /// The same bytes, to look at.
    pub fn as_view(self) -> View<'a> {
        View { start: self.start, len: self.len, life: PhantomData }
    }

    /// A part; `None` if it isn't within the view.
    pub fn slice(self, range: Range<usize>) -> Option<Self> {
        let len = range.end.checked_sub(range.start)?;
        if range.end > self.len {
            return None;
        }
        // SAFETY: the part lies within the view.
        Some(Self { start: unsafe { self.start.add(range.start) }, len, life: PhantomData })
    }

    /// Writes the first bytes, as many as both have.
    pub fn copy_from_slice(self, bytes: &[u8]) {
        let len = self.len.min(bytes.len());
        // SAFETY: `len` bytes are readable there and writable here; `bytes` is a reference, and no
        // reference to the bytes of a view lives, so the two don't overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, len) };
    }

    /// Copies from another view, which may overlap, as many bytes as both have.
    pub fn copy_from(self, other: View<'_>) {
        let len = self.len.min(other.len);
        // SAFETY: `len` bytes are readable there and writable here; `copy` allows overlap.
        unsafe { std::ptr::copy(other.start, self.start, len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_within() {
        let mut bytes = *b"abcdef";
        let view = ViewMut::of(&mut bytes);
        assert_eq!(view.as_view().slice(2..4).unwrap().to_vec(), b"cd");
        assert!(view.slice(4..7).is_none(), "past the end");
        #[expect(clippy::reversed_empty_ranges, reason = "the range that must be refused")]
        let backwards = view.as_view().slice(4..3);
        assert!(backwards.is_none(), "backwards");
        view.slice(1..3).unwrap().copy_from_slice(b"XYZ");
        view.slice(3..6).unwrap().copy_from(view.as_view());
        assert_eq!(&bytes, b"aXYaXY");
    }
}
