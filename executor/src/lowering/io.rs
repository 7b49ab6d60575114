//! The arguments of a step when it runs: its operation's inputs and outputs, and scratch memory.
//!
//! Inputs and outputs may lie in a client's memory, at any address, and change while they are read.
//! So they are handed out as [`In`] and [`Out`]: pointer, length, loads and stores that need no
//! alignment. Reads outside give 0 and writes outside are dropped: an index that a kernel got wrong
//! costs a wrong number, never somebody else's memory.

use std::marker::PhantomData;

use nnburst_hal::{View, ViewMut};
use nnburst_kernels::kernels::spans::{Along, Spans};
use nnburst_kernels::tensor::memory::ALIGN;
use nnburst_kernels::tensor::rows::Rows;
use nnburst_kernels::tensor::{Element, In, Out, poll};

use crate::lowering::step::{Place, Step};

/// Address range that a [`Place`] points into; filled at the start of each run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotMemory {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}

// SAFETY: a slot is an address range and is only followed while its owner is borrowed by the run.
unsafe impl Send for SlotMemory {}
// SAFETY: as for Send.
unsafe impl Sync for SlotMemory {}

impl SlotMemory {
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
    slots: &'a [SlotMemory],
    step: &'a Step,
    /// The number of our share among the step's shares of scratch memory.
    share: usize,
    /// The place of our first operand among the step's.
    first: [usize; 2],
}

impl<'a> Io<'a> {
    pub(crate) fn new(slots: &'a [SlotMemory], step: &'a Step) -> Self {
        Self::of_thread(slots, step, 0)
    }

    /// For one of several threads that share the step.
    pub(crate) fn of_thread(slots: &'a [SlotMemory], step: &'a Step, thread: usize) -> Self {
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

    /// Only steps that say so get operands whose rows lie apart, and those ask for rows. A function
    /// of its own: every step has a few.
    #[inline(never)]
    fn in_one_piece(&self, place: Option<&'a Place>) -> ViewMut<'a> {
        match place {
            Some(&Place::Slot { slot, offset, len, apart: None }) => {
                within(slot, offset, len, self.slots)
            }
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
    #[inline(never)]
    pub fn scratch(&self) -> ViewMut<'a> {
        let all = resolve(&self.step.scratch, self.slots);
        let len = self.step.scratch_share;
        if self.share == 0 && len <= all.len() {
            // SAFETY: within the step's scratch.
            return unsafe { ViewMut::from_raw(all.as_mut_ptr(), len) };
        }
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
        // No memory at all lies at no aligned address, yet is cut into other elements as any is.
        let no_memory = std::ptr::without_provenance_mut::<T>(ALIGN);
        let start = if len == 0 { no_memory } else { view.as_mut_ptr().cast::<T>() };
        // SAFETY: no element at an aligned address, or our share of scratch in the arena: ours
        // alone, aligned to 64, disjoint from all that is live during this step, and borrowed
        // exclusively through `self`.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
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
pub(crate) fn resolve<'a>(place: &'a Place, slots: &'a [SlotMemory]) -> ViewMut<'a> {
    match place {
        Place::Omitted => ViewMut::of(&mut []),
        Place::Constant(bytes) => {
            let start = bytes.as_slice().as_ptr().cast_mut();
            // SAFETY: constants outlive the run, and nothing writes through the place of an input.
            unsafe { ViewMut::from_raw(start, bytes.len()) }
        }
        Place::Slot { slot, offset, len, apart } => {
            let len = apart.map_or(*len, |apart| apart.span(*len));
            within(*slot, *offset, len, slots)
        }
    }
}

/// Bytes of a slot; none where it has no such.
#[inline(always)]
fn within<'a>(slot: usize, offset: usize, len: usize, slots: &'a [SlotMemory]) -> ViewMut<'a> {
    match slots.get(slot) {
        Some(slot) if offset.checked_add(len).is_some_and(|end| end <= slot.len) => {
            // SAFETY: within the slot, which the run keeps alive.
            unsafe { ViewMut::from_raw(slot.start.add(offset), len) }
        }
        _ => ViewMut::of(&mut []),
    }
}

/// Computes each element of output 0 from the one of input 0 at its place; `each` does so for any
/// span, in place too.
///
/// # Errors
/// Those of `each`.
#[inline(always)]
pub(crate) fn map_rows<T: Element, U: Element>(
    io: &Io<'_>,
    each: impl Fn(In<'_, T>, Out<'_, U>) -> Result<(), String>,
) -> Result<(), String> {
    let sizes = [size_of::<T>(), size_of::<U>()];
    map_rows_of_bytes(io, sizes, &Elements(each, PhantomData))
}

/// What is done to a span of the input and the output, as bytes.
trait EachSpan {
    fn each(&self, from: In<'_, u8>, to: Out<'_, u8>) -> Result<(), String>;
}

/// A function of elements as one of bytes.
struct Elements<F, T, U>(F, PhantomData<fn(T) -> U>);

impl<T: Element, U: Element, F> EachSpan for Elements<F, T, U>
where
    F: Fn(In<'_, T>, Out<'_, U>) -> Result<(), String>,
{
    fn each(&self, from: In<'_, u8>, to: Out<'_, u8>) -> Result<(), String> {
        (self.0)(from.cast(), to.cast())
    }
}

/// As [`map_rows`], of elements of these sizes: compiled once for all types.
#[inline(never)]
fn map_rows_of_bytes(io: &Io<'_>, sizes: [usize; 2], each: &dyn EachSpan) -> Result<(), String> {
    let (input, output) = (io.input_rows(0), io.output_rows(0));
    let count = output.len() / sizes[1];
    if input.is_one_piece() && output.is_one_piece() && count <= poll::CHUNK {
        return each.each(input.all(), output.all());
    }
    let len = count.min(input.len() / sizes[0]);
    let along = Along { rows: input, from: 0, moves: true };
    Spans { len, to: 0, sizes }.each([along], output, &mut |[from], to| each.each(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_without_scratch_has_an_empty_slice_of_any_type() {
        let label = crate::lowering::Label {
            kernel: "none",
            form: nnburst_kernels::simd::Isa::Scalar,
            shape: crate::lowering::Words::default(),
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
            work: crate::lowering::step::Work::whole(|_| Ok(())),
            polls: true,
        };
        let mut io = Io::new(&[], &step);
        assert!(io.scratch_slice::<f32>().is_empty());
        assert_eq!(io.input::<i32>(3).len(), 0, "an input that isn't there");
    }
}
