//! What a step sees when it runs: its operation's inputs and outputs, and scratch memory.
//!
//! Inputs and outputs may lie in a client's memory, at any address, and change while they are read.
//! So they are handed out as [`In`] and [`Out`]: pointer, length, loads and stores that need no
//! alignment. Reads outside give 0 and writes outside are dropped: an index that a kernel got wrong
//! costs a wrong number, never somebody else's memory.

use std::marker::PhantomData;
use std::ops::Range;

use nnburst_hal::{View, ViewMut};

use crate::element::Element;
use crate::memory::ALIGN;
use crate::plan::{Place, Step};
use crate::poll;
use crate::rows::Rows;

/// Address range that a [`Place`] points into; filled at the start of each run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}

// SAFETY: a slot is an address range and is only followed while its owner is borrowed by the run.
unsafe impl Send for Slot {}
// SAFETY: as for Send.
unsafe impl Sync for Slot {}

impl Slot {
    pub(crate) const EMPTY: Self =
        Self { start: std::ptr::NonNull::<u64>::dangling().as_ptr().cast(), len: 0 };

    pub(crate) fn of(view: ViewMut<'_>) -> Self {
        Self { start: view.as_mut_ptr(), len: view.len() }
    }

    /// For reading alone: places of inputs are never written.
    pub(crate) fn of_input(view: View<'_>) -> Self {
        Self { start: view.as_ptr().cast_mut(), len: view.len() }
    }
}

/// A step's inputs, outputs and scratch, by the operation's own positions.
#[derive(Debug)]
pub struct Io<'a> {
    slots: &'a [Slot],
    step: &'a Step,
    /// Which of the step's shares of scratch memory is ours.
    share: usize,
    /// Where among the step's operands ours begin.
    first: [usize; 2],
}

impl<'a> Io<'a> {
    pub(crate) fn new(slots: &'a [Slot], step: &'a Step) -> Self {
        Self::of_thread(slots, step, 0)
    }

    /// For one of several threads that share the step.
    pub(crate) fn of_thread(slots: &'a [Slot], step: &'a Step, thread: usize) -> Self {
        Self { slots, step, share: thread, first: [0; 2] }
    }

    /// Inputs and outputs beside scratch memory that is borrowed.
    pub(crate) fn inputs_and_outputs(&self) -> Self {
        Self { slots: self.slots, step: self.step, share: usize::MAX, first: self.first }
    }

    /// Of a step that is several operations, one behind the other: those whose inputs and outputs
    /// begin behind so many.
    pub(crate) fn behind(&self, inputs: usize, outputs: usize) -> Self {
        Self { first: [inputs, outputs], ..self.inputs_and_outputs() }
    }

    fn input_place(&self, index: usize) -> Option<&'a Place> {
        self.step.inputs.get(self.first[0] + index)
    }

    fn output_place(&self, index: usize) -> Option<&'a Place> {
        self.step.outputs.get(self.first[1] + index)
    }

    /// An input's bytes; empty where it is omitted.
    pub fn input_bytes(&self, index: usize) -> View<'a> {
        self.in_one_piece(self.input_place(index)).as_view()
    }

    /// An output's bytes.
    pub fn output_bytes(&self, index: usize) -> ViewMut<'a> {
        self.in_one_piece(self.output_place(index))
    }

    /// Only steps that say so get operands whose rows lie apart, and those ask for rows.
    fn in_one_piece(&self, place: Option<&Place>) -> ViewMut<'a> {
        match place {
            Some(place) if place.apart().is_none() => resolve(place, self.slots),
            place => {
                debug_assert!(place.is_none(), "{} takes no rows that lie apart", self.step.name);
                ViewMut::of(&mut [])
            }
        }
    }

    /// An input's elements.
    pub fn input<T: Element>(&self, index: usize) -> In<'a, T> {
        In::new(self.input_bytes(index))
    }

    /// An output's elements.
    pub fn output<T: Element>(&self, index: usize) -> Out<'a, T> {
        Out::new(self.output_bytes(index))
    }

    /// An input's elements, for a step that has said it takes rows of it.
    #[inline]
    pub(crate) fn input_rows<T: Element>(&self, index: usize) -> Rows<In<'a, T>> {
        match self.input_place(index) {
            Some(place) => {
                let all = In::new(resolve(place, self.slots).as_view());
                place.apart().map_or_else(|| all.into(), |it| Rows::new(all, it, size_of::<T>()))
            }
            None => In::of(&[]).into(),
        }
    }

    /// An output's elements, for a step that has said it writes rows of it.
    #[inline]
    pub(crate) fn output_rows<T: Element>(&self, index: usize) -> Rows<Out<'a, T>> {
        match self.output_place(index) {
            Some(place) => {
                let all = Out::new(resolve(place, self.slots));
                place.apart().map_or_else(|| all.into(), |it| Rows::new(all, it, size_of::<T>()))
            }
            None => Out::of(&mut []).into(),
        }
    }

    /// Memory of the step's own, as many bytes as it asked for, at a multiple of 64; content
    /// arbitrary.
    pub fn scratch(&self) -> ViewMut<'a> {
        let all = resolve(&self.step.scratch, self.slots);
        let len = self.step.scratch_share;
        let start = self.share.saturating_mul(share_stride(len));
        if start.checked_add(len).is_none_or(|end| end > all.len()) {
            return ViewMut::of(&mut []);
        }
        // SAFETY: within the step's scratch; shares don't overlap.
        unsafe { ViewMut::from_raw(all.as_mut_ptr().add(start), len) }
    }

    /// The scratch memory as elements, for as long as the `Io` is borrowed.
    pub fn scratch_slice<T: Element>(&mut self) -> &mut [T] {
        let view = self.scratch();
        let len = view.len() / size_of::<T>();
        if len == 0 {
            // No memory at all, hence at no aligned address.
            return &mut [];
        }
        // SAFETY: our share of scratch lies in the arena: ours alone, aligned to 64, disjoint from
        // all that is live during this step, and borrowed exclusively through `self`.
        unsafe { std::slice::from_raw_parts_mut(view.as_mut_ptr().cast::<T>(), len) }
    }
}

/// From one thread's share of scratch memory to the next.
pub(crate) fn share_stride(share: usize) -> usize {
    share.next_multiple_of(ALIGN)
}

/// The bytes of a place, from the first to the last. Places are laid out within their slots when
/// the stage is planned; the range is checked all the same, since a client chooses the length of
/// some of them.
#[inline]
pub(crate) fn resolve<'a>(place: &Place, slots: &[Slot]) -> ViewMut<'a> {
    match place {
        Place::Omitted => ViewMut::of(&mut []),
        Place::Constant(bytes) => {
            let start = bytes.as_slice().as_ptr().cast_mut();
            // SAFETY: constants outlive the run, and nothing writes through the place of an input.
            unsafe { ViewMut::from_raw(start, bytes.len()) }
        }
        Place::Slot { slot, offset, len, apart } => {
            let Some(slot) = slots.get(*slot) else { return ViewMut::of(&mut []) };
            let len = apart.map_or(*len, |apart| apart.span(*len));
            if offset.checked_add(len).is_none_or(|end| end > slot.len) {
                return ViewMut::of(&mut []);
            }
            // SAFETY: within the slot, which the run keeps alive.
            unsafe { ViewMut::from_raw(slot.start.add(*offset), len) }
        }
    }
}

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
    pub fn of(slice: &'a [T]) -> Self {
        Self { start: slice.as_ptr(), len: slice.len(), life: PhantomData }
    }

    /// How many.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
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
        if index.checked_add(N).is_some_and(|end| end <= self.len) {
            // SAFETY: within the range; any address and any bits will do.
            unsafe { self.start.add(index).cast::<[T; N]>().read_unaligned() }
        } else {
            debug_assert!(false, "{N} elements from {index} on of {}", self.len);
            [T::default(); N]
        }
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
    pub(crate) fn bytes(self) -> In<'a, u8> {
        In { start: self.start.cast(), len: self.len * size_of::<T>(), life: PhantomData }
    }

    /// The same memory as a view.
    pub(crate) fn view(self) -> View<'a> {
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

    /// How many.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
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
    pub(crate) fn bytes(self) -> Out<'a, u8> {
        Out { start: self.start.cast(), len: self.len * size_of::<T>(), life: PhantomData }
    }

    /// The same memory as a view.
    pub(crate) fn view(self) -> ViewMut<'a> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_without_scratch_has_an_empty_slice_of_any_type() {
        let label = crate::Label {
            kernel: "none",
            form: crate::Isa::Scalar,
            shape: crate::Words::default(),
            operations: 0,
        };
        let step = Step {
            index: 0,
            name: "none",
            label,
            inputs: Box::default(),
            outputs: Box::default(),
            scratch: Place::Omitted,
            scratch_share: 0,
            work: crate::plan::Work::Whole(Box::new(|_| Ok(()))),
        };
        let mut io = Io::new(&[], &step);
        assert!(io.scratch_slice::<f32>().is_empty());
        assert_eq!(io.input::<i32>(3).len(), 0, "an input that isn't there");
    }
}
