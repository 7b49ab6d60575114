//! Elements of a tensor, wherever they lie.
//!
//! Inputs and outputs may lie in a client's memory, at any address, and change while they are read.
//! [`In`] and [`Out`] are therefore a pointer and a length, with loads and stores that need no
//! alignment. Reads outside give 0 and writes outside are dropped: a wrong index in a kernel costs
//! a wrong value, never another client's memory.

use std::marker::PhantomData;
use std::ops::Range;

use nnburst_hal::{View, ViewMut};

use super::{Element, poll};

/// What a block that isn't there is read from.
static ZEROS: Zeros = Zeros([0; 1024]);

#[repr(align(64))]
struct Zeros([u8; 1024]);

/// Elements to read, wherever they lie.
#[derive(Clone, Copy, Debug)]
pub struct In<'a, T> {
    start: *const T,
    len: usize,
    life: PhantomData<&'a [T]>,
}

// SAFETY: as `View`: an address range that stays mapped for 'a.
unsafe impl<T: Element> Send for In<'_, T> {}
// SAFETY: as for Send.
unsafe impl<T: Element> Sync for In<'_, T> {}

impl<'a, T: Element> In<'a, T> {
    /// The whole elements within a view.
    pub fn new(view: View<'a>) -> Self {
        Self { start: view.as_ptr().cast(), len: view.len() / size_of::<T>(), life: PhantomData }
    }

    /// The elements of a slice.
    pub const fn of(slice: &'a [T]) -> Self {
        Self { start: slice.as_ptr(), len: slice.len(), life: PhantomData }
    }

    /// The number of elements.
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Element `index`; 0 where there is none.
    #[inline(always)]
    pub fn get(self, index: usize) -> T {
        debug_assert!(index < self.len, "element {index} of {}", self.len);
        if index < self.len {
            // SAFETY: within the range; any address and any bits will do.
            unsafe { self.start.add(index).read_unaligned() }
        } else {
            T::default()
        }
    }

    /// `N` elements from `index` on; zeros where not all of them are there.
    #[inline(always)]
    pub fn block<const N: usize>(self, index: usize) -> [T; N] {
        const { assert!(N * size_of::<T>() <= ZEROS.0.len(), "a block is larger than the zeros") };
        // An address is chosen, rather than one of two blocks: that goes through the stack, where
        // a vector that lies across two lines takes several times as long to be read back.
        let from: *const T = if index.checked_add(N).is_some_and(|end| end <= self.len) {
            // SAFETY: within the range.
            unsafe { self.start.add(index) }
        } else {
            debug_assert!(false, "{N} elements from {index} on of {}", self.len);
            ZEROS.0.as_ptr().cast()
        };
        // SAFETY: so many elements are there; any address and any bits will do.
        unsafe { from.cast::<[T; N]>().read_unaligned() }
    }

    /// A part; empty if it isn't within.
    #[inline]
    pub fn slice(self, range: Range<usize>) -> Self {
        if range.start <= range.end && range.end <= self.len {
            // SAFETY: within the range.
            let start = unsafe { self.start.add(range.start) };
            Self { start, len: range.end - range.start, life: PhantomData }
        } else {
            debug_assert!(false, "{range:?} of {}", self.len);
            Self { start: self.start, len: 0, life: PhantomData }
        }
    }

    /// The elements in order, each loaded once.
    pub fn iter(self) -> impl ExactSizeIterator<Item = T> + use<'a, T> {
        (0..self.len).map(move |index| self.get(index))
    }

    /// The same memory as bytes.
    pub fn bytes(self) -> In<'a, u8> {
        In { start: self.start.cast(), len: self.len * size_of::<T>(), life: PhantomData }
    }

    /// The whole elements of another type within the same memory.
    #[inline(always)]
    pub fn cast<U: Element>(self) -> In<'a, U> {
        In::new(self.view())
    }

    /// The same memory as a view.
    #[inline(always)]
    pub fn view(self) -> View<'a> {
        // SAFETY: the elements' bytes, mapped for 'a.
        unsafe { View::from_raw(self.start.cast(), self.len * size_of::<T>()) }
    }

    /// A copy: for what is looked at twice or steers control.
    pub fn to_vec(self) -> Vec<T> {
        self.iter().collect()
    }

    /// Copies as many as both have.
    pub fn copy_to(self, out: &mut [T]) {
        let bytes = self.len.min(out.len()) * size_of::<T>();
        let (from, to) = (self.start.cast::<u8>(), out.as_mut_ptr().cast::<u8>());
        for at in (0..bytes).step_by(COPY_BYTES) {
            let len = COPY_BYTES.min(bytes - at);
            if bytes > COPY_BYTES && poll::work(len / 8).is_err() {
                return;
            }
            // SAFETY: as many elements on both sides, as bytes; `out` is exclusively ours.
            unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), len) };
        }
    }

    /// The first element's address, for kernels; it may not be aligned.
    pub fn as_ptr(self) -> *const T {
        self.start
    }
}

/// Elements to write, wherever they lie.
#[derive(Clone, Copy, Debug)]
pub struct Out<'a, T> {
    start: *mut T,
    len: usize,
    life: PhantomData<&'a [std::cell::Cell<T>]>,
}

// SAFETY: as `ViewMut`: an address range that stays mapped for 'a.
unsafe impl<T: Element> Send for Out<'_, T> {}
// SAFETY: as for Send.
unsafe impl<T: Element> Sync for Out<'_, T> {}

/// Bytes that are copied between two reports of work.
const COPY_BYTES: usize = 1 << 20;

impl<'a, T: Element> Out<'a, T> {
    /// The whole elements within a view.
    pub fn new(view: ViewMut<'a>) -> Self {
        let len = view.len() / size_of::<T>();
        Self { start: view.as_mut_ptr().cast(), len, life: PhantomData }
    }

    /// The elements of a slice.
    pub fn of(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    /// The number of elements.
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Writes element `index`; nothing where there is none.
    #[inline(always)]
    pub fn set(self, index: usize, value: T) {
        debug_assert!(index < self.len, "element {index} of {}", self.len);
        if index < self.len {
            // SAFETY: within the range; any address will do.
            unsafe { self.start.add(index).write_unaligned(value) }
        }
    }

    /// Writes `N` elements from `index` on; nothing where not all of them are there.
    #[inline(always)]
    pub fn set_block<const N: usize>(self, index: usize, values: [T; N]) {
        if index.checked_add(N).is_some_and(|end| end <= self.len) {
            // SAFETY: within the range; any address will do.
            unsafe { self.start.add(index).cast::<[T; N]>().write_unaligned(values) }
        } else {
            debug_assert!(false, "{N} elements from {index} on of {}", self.len);
        }
    }

    /// Writes the elements in order, as many as both have.
    pub fn fill(self, values: impl IntoIterator<Item = T>) {
        if self.len <= poll::CHUNK {
            for (index, value) in (0..self.len).zip(values) {
                self.set(index, value);
            }
            return;
        }
        let mut values = values.into_iter();
        for start in (0..self.len).step_by(poll::CHUNK) {
            let chunk = start..self.len.min(start + poll::CHUNK);
            if poll::work(chunk.len() * 4).is_err() {
                return;
            }
            for (index, value) in chunk.zip(values.by_ref()) {
                self.set(index, value);
            }
        }
    }

    /// A part; empty if it isn't within.
    pub fn slice(self, range: Range<usize>) -> Self {
        if range.start <= range.end && range.end <= self.len {
            // SAFETY: within the range.
            let start = unsafe { self.start.add(range.start) };
            Self { start, len: range.end - range.start, life: PhantomData }
        } else {
            debug_assert!(false, "{range:?} of {}", self.len);
            Self { start: self.start, len: 0, life: PhantomData }
        }
    }

    /// Copies as many as both have; the two may overlap.
    pub fn copy_from(self, values: In<'_, T>) {
        let bytes = self.len.min(values.len) * size_of::<T>();
        let (from, to) = (values.start.cast::<u8>(), self.start.cast::<u8>());
        // Parts that are written before they are read are copied as a whole.
        let overlap = (to.addr()..to.addr().saturating_add(bytes)).contains(&from.addr())
            || (from.addr()..from.addr().saturating_add(bytes)).contains(&to.addr());
        let piece = if overlap { bytes.max(1) } else { COPY_BYTES };
        for at in (0..bytes).step_by(piece) {
            let len = piece.min(bytes - at);
            // Fetched from memory that is not there yet, a page takes half a microsecond.
            if bytes > COPY_BYTES && poll::work(len / 8).is_err() {
                return;
            }
            // SAFETY: `bytes` bytes on both sides; `copy` allows overlap.
            unsafe { std::ptr::copy(from.add(at), to.add(at), len) };
        }
    }

    /// The same memory as bytes.
    pub fn bytes(self) -> Out<'a, u8> {
        Out { start: self.start.cast(), len: self.len * size_of::<T>(), life: PhantomData }
    }

    /// The whole elements of another type within the same memory.
    #[inline(always)]
    pub fn cast<U: Element>(self) -> Out<'a, U> {
        Out::new(self.view())
    }

    /// The same memory as a view.
    #[inline(always)]
    pub fn view(self) -> ViewMut<'a> {
        // SAFETY: the elements' bytes, mapped for 'a.
        unsafe { ViewMut::from_raw(self.start.cast(), self.len * size_of::<T>()) }
    }

    /// The same elements, to read.
    pub fn as_in(self) -> In<'a, T> {
        In { start: self.start, len: self.len, life: PhantomData }
    }

    /// The first element's address, for kernels; it may not be aligned.
    pub fn as_mut_ptr(self) -> *mut T {
        self.start
    }
}
