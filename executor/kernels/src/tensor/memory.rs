//! Memory that is ours alone, aligned for the widest vector.

mod huge;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use nnburst_hal::{
    Budget, Charge, ErrorStatus, Exhausted, HalError, Resource, Still, View, ViewMut,
};

use huge::HUGE_PAGE;

/// The alignment of vectors and cache lines.
pub const ALIGN: usize = 64;

/// From this size on bytes come in huge pages of their own.
const HUGE_FROM: usize = 512 << 10;

/// From this size of a piece on a [`Slab`] begins.
const SLAB_FROM: usize = 32 << 10;

/// Zeroed bytes that start at a multiple of 64.
pub struct AlignedBytes {
    start: NonNull<u8>,
    len: usize,
    memory: Memory,
    /// Their charge to a budget.
    charge: Option<Charge>,
}

/// There is no memory for what a model or a request needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMemory {
    /// The budget that pays for it doesn't have it.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// The system doesn't have it.
    #[error("the system has no memory for {needed} bytes")]
    System {
        /// Bytes that were asked for.
        needed: usize,
    },
}

impl From<NoMemory> for HalError {
    fn from(error: NoMemory) -> Self {
        match error {
            NoMemory::Exhausted(error) => error.into(),
            NoMemory::System { .. } => {
                Self::new(ErrorStatus::ResourceExhaustedTransient, error.to_string())
            }
        }
    }
}

/// Bytes that come with whatever they belong to, charged to nobody.
const SMALL: usize = 1 << 10;

/// Charges a budget for `len` bytes.
fn charge_for(len: usize, budget: Option<&Arc<Budget>>) -> Result<Option<Charge>, NoMemory> {
    let Some(budget) = budget.filter(|_| len >= SMALL) else { return Ok(None) };
    let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
    if len < HUGE_FROM {
        return Ok(Some(budget.take(Resource::Memory, count(len))?));
    }
    // The mapping and what is cut off its ends, and huge pages that were moved into it.
    let pages = len.div_ceil(HUGE_PAGE);
    let bytes = pages.saturating_mul(HUGE_PAGE);
    let amounts =
        [(Resource::Memory, count(bytes)), (Resource::Mappings, count(pages.saturating_add(4)))];
    Ok(Some(budget.take_all(&amounts)?))
}

/// Charges a budget for `bytes` that something is about to take from the allocator, for as long as
/// the charge is kept, and finds out whether the system would give as many.
///
/// # Errors
/// Budget or system do not have as many.
pub fn claim(bytes: usize, budget: Option<&Arc<Budget>>) -> Result<Option<Charge>, NoMemory> {
    let charge = charge_for(bytes, budget)?;
    if bytes >= HUGE_FROM && !can_be_had(bytes) {
        return Err(NoMemory::System { needed: bytes });
    }
    Ok(charge)
}

/// Whether the system would give so many bytes just now.
fn can_be_had(bytes: usize) -> bool {
    let Some(bytes) = NonZeroUsize::new(bytes) else { return true };
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping, where the system likes it, that is unmapped again before anybody knows
    // of it.
    unsafe {
        let base = mmap_anonymous(None, bytes, access, MapFlags::MAP_PRIVATE);
        base.and_then(|base| munmap(base, bytes.get())).is_ok()
    }
}

/// Whose memory bytes are.
enum Memory {
    /// None's, there being no bytes.
    None,
    /// Theirs, of this layout.
    Own(Layout),
    /// Theirs, from the system: where the mapping starts, how long it is, and how many of the bytes
    /// came in huge pages.
    Mapped { base: NonNull<c_void>, whole: usize, huge: usize },
    /// That of others, which are not written while this stays.
    Part { _whole: Arc<AlignedBytes> },
    /// A file's, which private pages take the place of in [`AlignedBytes::settle`].
    Still(Box<Still>),
    /// A part of a file's, for a while.
    Lent(Arc<Still>),
    /// A piece of a mapping, theirs alone.
    Piece { _of: Arc<AlignedBytes> },
}

// SAFETY: owned bytes without interior mutability; a piece of a mapping is handed out once.
unsafe impl Send for AlignedBytes {}
// SAFETY: as for Send.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `len` zeros. For lengths that a model or a request chose there is
    /// [`AlignedBytes::try_zeroed`].
    pub fn zeroed(len: usize) -> Self {
        let bytes = Self::try_zeroed(len);
        bytes
            .unwrap_or_else(|| handle_alloc_error(Self::layout(len).unwrap_or(Layout::new::<u8>())))
    }

    /// `len` zeros; `None` if there is no memory for them.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        if len == 0 {
            let start = NonNull::<AlignedLine>::dangling().cast();
            return Some(Self { start, len: 0, memory: Memory::None, charge: None });
        }
        if len >= HUGE_FROM {
            let bytes = Self::mapped(len)?;
            bytes.touch();
            return Some(bytes);
        }
        let layout = Self::layout(len)?;
        // SAFETY: the layout has a size above 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, len, memory: Memory::Own(layout), charge: None })
    }

    /// `len` zeros that are charged to a budget, if there is one, for as long as they stay.
    ///
    /// # Errors
    /// Budget or system don't have as many.
    pub fn charged(len: usize, budget: Option<&Arc<Budget>>) -> Result<Self, NoMemory> {
        let charge = charge_for(len, budget)?;
        let mut bytes = Self::try_zeroed(len).ok_or(NoMemory::System { needed: len })?;
        bytes.charge = charge;
        Ok(bytes)
    }

    /// As [`AlignedBytes::charged`], of [`AlignedBytes::try_untouched`].
    ///
    /// # Errors
    /// As for [`AlignedBytes::charged`].
    pub fn charged_untouched(len: usize, budget: Option<&Arc<Budget>>) -> Result<Self, NoMemory> {
        let charge = charge_for(len, budget)?;
        let mut bytes = Self::try_untouched(len).ok_or(NoMemory::System { needed: len })?;
        bytes.charge = charge;
        Ok(bytes)
    }

    /// The same bytes, charged to a budget from now on.
    ///
    /// # Errors
    /// The budget does not have as many.
    pub fn charged_to(mut self, budget: Option<&Arc<Budget>>) -> Result<Self, NoMemory> {
        if self.charge.is_none() {
            self.charge = charge_for(self.len, budget)?;
        }
        Ok(self)
    }

    /// As [`AlignedBytes::try_zeroed`], but of large ones no page is there yet: for whoever fills
    /// them at once, by several threads perhaps, each of them with [`AlignedBytes::take_page`].
    pub fn try_untouched(len: usize) -> Option<Self> {
        if len >= HUGE_FROM { Self::reserved(len) } else { Self::try_zeroed(len) }
    }

    /// The unit of [`AlignedBytes::take_page`].
    pub const PAGE: usize = HUGE_PAGE;

    /// Has one of the pieces of [`AlignedBytes::PAGE`] of fresh bytes in memory before it is
    /// filled, in a huge page if there is one at hand. Whether there was. Bytes of it become zeros.
    pub fn take_page(piece: &mut [u8]) -> bool {
        let len = piece.len().min(HUGE_PAGE);
        let start = NonNull::from(piece).cast::<u8>();
        if !start.addr().get().is_multiple_of(HUGE_PAGE) {
            return true;
        }
        // SAFETY: the piece is borrowed exclusively, and no byte beyond it is written; what is
        // advised for the rest of its page changes no content.
        unsafe { huge::take(start, len) > 0 }
    }

    /// Notes that so many pieces from the start on were taken.
    pub fn took(&mut self, pages: usize) {
        if let Memory::Mapped { huge, .. } = &mut self.memory {
            *huge = pages.saturating_mul(HUGE_PAGE).min(self.len.next_multiple_of(HUGE_PAGE));
        }
    }

    /// Bytes from the system, in huge pages where it has some at hand: weights and arenas are
    /// walked from end to end.
    fn mapped(len: usize) -> Option<Self> {
        let mut bytes = Self::reserved(len)?;
        if let Memory::Mapped { huge, .. } = &mut bytes.memory {
            // SAFETY: whole pages of the new mapping, as above.
            *huge = unsafe { huge::take(bytes.start, len.next_multiple_of(HUGE_PAGE)) };
        }
        Some(bytes)
    }

    /// Bytes from the system, of which no page is there yet.
    fn reserved(len: usize) -> Option<Self> {
        let pages = len.checked_next_multiple_of(HUGE_PAGE)?;
        let whole = pages.checked_add(HUGE_PAGE)?;
        let flags = MapFlags::MAP_PRIVATE;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, where the system likes it.
        let base =
            unsafe { mmap_anonymous(None, NonZeroUsize::new(whole)?, access, flags) }.ok()?;
        let gap = base.cast::<u8>().align_offset(HUGE_PAGE);
        // SAFETY: less than a huge page, and the mapping is a huge page longer than `len`.
        let start = unsafe { base.cast::<u8>().add(gap.min(HUGE_PAGE)) };
        // SAFETY: whole pages of the new mapping, the last one too: cut off, it would come in
        // hundreds of small ones.
        unsafe { huge::allow(start, pages) };
        let memory = Memory::Mapped { base, whole, huge: 0 };
        Some(Self { start, len, memory, charge: None })
    }

    /// Has all pages before they are first used, in the middle of somebody's run.
    fn touch(&self) {
        if let Memory::Mapped { huge, .. } = self.memory
            && huge < self.len
        {
            // SAFETY: within the mapping.
            unsafe { huge::take_small(self.start.add(huge), self.len - huge) };
        }
    }

    /// The first whole page `at` bytes or more behind those that came in huge pages, if these are
    /// not all.
    fn small_page(&self, at: usize) -> Option<NonNull<u8>> {
        let Memory::Mapped { huge, .. } = self.memory else { return None };
        let at = huge.checked_add(at)?;
        // SAFETY: within the mapping, which is longer than `len`.
        (at < self.len).then(|| unsafe { self.start.add(at) })
    }

    /// `len` bytes of `whole` from `start` on, read-only: [`AlignedBytes::as_mut_slice`] is empty.
    /// `None` where they aren't within it or start at none that a vector may start at.
    pub fn part_of(whole: &Arc<Self>, start: usize, len: usize) -> Option<Self> {
        let bytes = whole.as_slice().get(start..start.checked_add(len)?)?;
        let start_of = NonNull::from(bytes).cast();
        let memory = Memory::Part { _whole: Arc::clone(whole) };
        let part = Self { start: start_of, len, memory, charge: None };
        start.is_multiple_of(ALIGN).then_some(part)
    }

    /// The first `len` bytes of a file where they lie, read-only and charged as if they were a
    /// copy, which they become by [`AlignedBytes::settle`]. `None` where there are fewer, or they
    /// start at none that a vector may start at.
    ///
    /// # Errors
    /// The budget does not have as many.
    pub fn still(
        still: Still,
        len: usize,
        budget: Option<&Arc<Budget>>,
    ) -> Result<Option<Self>, NoMemory> {
        let Some(bytes) = still.as_slice().get(..len) else { return Ok(None) };
        let start = NonNull::from(bytes).cast::<u8>();
        if len == 0 || cfg!(target_os = "android") || !start.addr().get().is_multiple_of(ALIGN) {
            return Ok(None);
        }
        let charge = charge_for(len, budget)?;
        Ok(Some(Self { start, len, memory: Memory::Still(Box::new(still)), charge }))
    }

    /// `len` bytes of a file from `start` on where they lie, read-only. `None` where they aren't
    /// within it, or start at no multiple of `element_bytes` and of four.
    pub fn lent(file: &Arc<Still>, start: usize, len: usize, element_bytes: usize) -> Option<Self> {
        let bytes = file.as_slice().get(start..start.checked_add(len)?)?;
        let start = NonNull::from(bytes).cast::<u8>();
        let can_be_owned = cfg!(not(target_os = "android"));
        let memory = Memory::Lent(Arc::clone(file));
        let is_aligned = start.addr().get().is_multiple_of(element_bytes.max(4));
        (can_be_owned && is_aligned).then_some(Self { start, len, memory, charge: None })
    }

    /// Returns whether they are a file's, which has to be let go.
    pub fn is_lent(&self) -> bool {
        matches!(self.memory, Memory::Lent(_))
    }

    /// Has a part of a file in private memory, so that it may be let go; others are it already.
    /// Returns the charge for as long as that is needed.
    ///
    /// # Errors
    /// Budget or system do not have as much.
    pub fn own(&self, budget: Option<&Arc<Budget>>) -> Result<Option<Charge>, NoMemory> {
        let Memory::Lent(file) = &self.memory else { return Ok(None) };
        let charge = charge_for(self.len, budget)?;
        // SAFETY: nobody can write the file's pages.
        let owned = unsafe { huge::own_part(file, self.as_slice()) };
        owned.ok_or(NoMemory::System { needed: self.len })?;
        Ok(charge)
    }

    /// The file whose they are or were.
    pub(in crate::tensor) fn file(&self) -> Option<&Still> {
        match &self.memory {
            Memory::Still(still) => Some(still),
            _ => None,
        }
    }

    /// Returns whether a file's bytes are others than in the beginning; see [`Still::is_corrupt`].
    #[inline]
    pub fn is_corrupt(&self) -> bool {
        self.file().is_some_and(Still::is_corrupt)
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.as_mut_slice().copy_from_slice(bytes);
        copy
    }

    /// The number of bytes that these may become.
    pub fn room(&self) -> usize {
        match self.memory {
            // Pages are whole, behind a gap of less than one.
            Memory::Mapped { whole, .. } => whole - HUGE_PAGE,
            Memory::Own(layout) => layout.size(),
            _ => self.len,
        }
    }

    /// The same memory for `len` other bytes, whatever they are; `None` where it has fewer.
    pub fn resized(mut self, len: usize) -> Option<Self> {
        if len > self.room() {
            return None;
        }
        self.len = len;
        Some(self)
    }

    /// Gets huge pages for these bytes, in the background, where there were none at hand, or where
    /// they are a file's.
    pub fn settle(self: &Arc<Self>, budget: Option<&Arc<Budget>>) {
        if let Memory::Still(_) = self.memory {
            // SAFETY: nobody can write them.
            unsafe { huge::own_later(self, budget) };
        }
        if self.small_page(0).is_some() {
            // SAFETY: being shared, they are not written.
            unsafe { huge::get_later(vec![Arc::downgrade(self)], budget) };
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that are ours, or of a whole that is kept and, being
        // shared, not written.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if let Memory::Part { .. } | Memory::Still(_) | Memory::Lent(_) = self.memory {
            return &mut [];
        }
        // SAFETY: `len` initialised bytes that are ours, borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// The bytes as elements; what is left over at the end is left out.
    pub fn typed<T: crate::tensor::Element>(&self) -> &[T] {
        let whole = self.len / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice(&self.as_slice()[..whole])
    }

    /// The bytes as elements to write; what is left over at the end is left out.
    pub fn typed_mut<T: crate::tensor::Element>(&mut self) -> &mut [T] {
        let whole = self.len / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice_mut(&mut self.as_mut_slice()[..whole])
    }

    /// The bytes as a view.
    pub fn view(&self) -> View<'_> {
        View::of(self.as_slice())
    }

    /// The bytes as a view to write through.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut::of(self.as_mut_slice())
    }

    /// At least `len` bytes from now on; the content is lost where it had to grow, or could not.
    ///
    /// # Errors
    /// Budget or system do not have as many.
    #[inline]
    pub fn try_grow(&mut self, len: usize, budget: Option<&Arc<Budget>>) -> Result<(), NoMemory> {
        if self.len < len {
            // First the old ones go.
            *self = Self::zeroed(0);
            *self = Self::charged(len, budget)?;
        }
        Ok(())
    }

    fn layout(len: usize) -> Option<Layout> {
        if len == 0 { None } else { Layout::from_size_align(len, ALIGN).ok() }
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if let Memory::Own(layout) = self.memory {
            // SAFETY: allocated with this very layout.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
        if let Memory::Mapped { base, whole, .. } = self.memory {
            // SAFETY: a mapping of ours of this length; nothing refers to it any more.
            unsafe { huge::unmap(base, whole) };
        }
    }
}

impl PartialEq for AlignedBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for AlignedBytes {}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBytes({})", self.len)
    }
}

/// Huge pages that many small pieces share, one behind the other: weights that a run walks through.
///
/// In pages of 4 KiB of their own they would cost a look at the page tables each, every time
/// (products of few rows ran a fifth slower), and after a pause the tables are as cold as the
/// weights.
#[derive(Debug, Default)]
pub struct Slab {
    /// The mapping that is being cut, and how much of it is taken.
    open: Option<(Arc<AlignedBytes>, usize)>,
    /// Those that aren't all huge pages.
    small: Vec<Weak<AlignedBytes>>,
    /// The budget that they are charged to.
    budget: Option<Arc<Budget>>,
}

impl Slab {
    /// One that is charged to a budget.
    pub fn charged_to(budget: Option<&Arc<Budget>>) -> Self {
        Self { budget: budget.cloned(), ..Self::default() }
    }

    /// `len` zeros. Little by itself comes from the allocator, unless there are huge pages anyway.
    ///
    /// # Errors
    /// Budget or system do not have as many.
    pub fn zeroed(&mut self, len: usize) -> Result<AlignedBytes, NoMemory> {
        let budget = self.budget.as_ref();
        if len == 0 || self.open.is_none() && len < SLAB_FROM {
            return AlignedBytes::charged(len, budget);
        }
        let budget = budget.cloned();
        if let Some(piece) = self.cut(len) {
            return Ok(piece);
        }
        let charge = charge_for(len.max(HUGE_FROM), budget.as_ref())?;
        let room = len.checked_next_multiple_of(HUGE_PAGE).and_then(AlignedBytes::mapped);
        let mut room = room.ok_or(NoMemory::System { needed: len })?;
        room.charge = charge;
        // What is left of the one before may still take smaller pieces: the larger rest stays open.
        let rest = |open: &(Arc<AlignedBytes>, usize)| open.0.len() - open.1;
        let room = Arc::new(room);
        if room.small_page(0).is_some() {
            self.small.push(Arc::downgrade(&room));
        }
        let before = self.open.replace((room, 0));
        let piece = self.cut(len);
        if let (Some(before), Some(open)) = (before, &self.open)
            && rest(&before) > rest(open)
        {
            self.open = Some(before);
        }
        piece.ok_or(NoMemory::System { needed: len })
    }

    /// `len` zeros that are no piece of it, charged to whoever pays for it.
    ///
    /// # Errors
    /// Budget or system do not have as many.
    pub fn apart(&self, len: usize) -> Result<AlignedBytes, NoMemory> {
        AlignedBytes::charged(len, self.budget.as_ref())
    }

    /// As [`Self::apart`]; no page of many is there yet.
    ///
    /// # Errors
    /// Budget or system do not have as many.
    pub fn untouched(&self, len: usize) -> Result<AlignedBytes, NoMemory> {
        AlignedBytes::charged_untouched(len, self.budget.as_ref())
    }

    /// Takes back the piece that was handed out last; others stay used up.
    pub fn give_back(&mut self, mut piece: AlignedBytes) {
        let Some((whole, taken)) = &mut self.open else { return };
        let Some(before) = taken.checked_sub(piece.len().next_multiple_of(ALIGN)) else { return };
        let last = whole.start.as_ptr().wrapping_add(before);
        if let Memory::Piece { .. } = piece.memory
            && piece.start.as_ptr() == last
        {
            // The next one to get it gets zeros.
            piece.as_mut_slice().fill(0);
            *taken = before;
        }
    }

    /// Gets huge pages in the background for what came in ordinary ones. What is asked for from now
    /// on lies elsewhere.
    ///
    /// # Safety
    /// Nobody writes the pieces that were handed out any more.
    pub unsafe fn settle(&mut self) {
        self.open = None;
        let small = std::mem::take(&mut self.small);
        if !small.is_empty() {
            // SAFETY: as the caller promises, and none is handed out any more.
            unsafe { huge::get_later(small, self.budget.as_ref()) };
        }
    }

    /// The next `len` bytes, if they are there.
    fn cut(&mut self, len: usize) -> Option<AlignedBytes> {
        let (whole, taken) = self.open.as_mut()?;
        let end = taken.checked_add(len)?.checked_next_multiple_of(ALIGN)?;
        if end > whole.len() {
            return None;
        }
        // SAFETY: within the mapping.
        let start = unsafe { whole.start.add(*taken) };
        *taken = end;
        let memory = Memory::Piece { _of: Arc::clone(whole) };
        Some(AlignedBytes { start, len, memory, charge: None })
    }
}

/// An address that is aligned as ours are.
#[repr(align(64))]
struct AlignedLine;

#[cfg(test)]
mod tests {
    use nnburst_hal::Amounts;

    use super::*;

    #[test]
    fn starts_at_a_line_and_is_zero() {
        for len in [0, 1, 63, 64, 1000, HUGE_PAGE + 1] {
            let mut bytes = AlignedBytes::zeroed(len);
            assert_eq!(bytes.as_slice().as_ptr() as usize % ALIGN, 0);
            assert_eq!(bytes.as_mut_slice(), vec![0; len]);
        }
        assert_eq!(AlignedBytes::copy_of(&[1, 0, 2, 0, 9]).typed::<u16>(), [1, 2]);
    }

    #[test]
    fn a_piece_is_taken_without_what_is_behind_it() {
        let mut bytes = AlignedBytes::zeroed(2 * HUGE_PAGE);
        bytes.as_mut_slice().fill(7);
        let (piece, behind) = bytes.as_mut_slice().split_at_mut(5000);
        AlignedBytes::take_page(piece);
        assert!(behind.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn what_is_charged_is_given_back_with_the_bytes() {
        let budget = Budget::root("test", Amounts::UNLIMITED.with(Resource::Memory, 4 << 20));
        let used = || budget.used(Resource::Memory);
        let small = AlignedBytes::charged(10_000, Some(&budget)).unwrap();
        let large = AlignedBytes::charged(HUGE_FROM, Some(&budget)).unwrap();
        assert_eq!(used(), 10_000 + (2 << 20));
        let refused = AlignedBytes::charged(2 * HUGE_PAGE, Some(&budget)).unwrap_err();
        assert_eq!(HalError::from(refused).status, ErrorStatus::ResourceExhaustedTransient);
        let refused = claim(3 * HUGE_PAGE, Some(&budget)).unwrap_err();
        assert_eq!(HalError::from(refused).status, ErrorStatus::ResourceExhaustedPersistent);
        drop((small, large));
        assert_eq!(used(), 0);
        let mut slab = Slab::charged_to(Some(&budget));
        let pieces = [slab.zeroed(SLAB_FROM).unwrap(), slab.zeroed(SLAB_FROM).unwrap()];
        assert_eq!(used(), 2 << 20, "they share a mapping");
        assert!(slab.zeroed(2 * HUGE_PAGE).is_err());
        drop((slab, pieces));
        assert_eq!((used(), budget.used(Resource::Mappings)), (0, 0));
    }

    /// A quarter of 32 bits of addresses is what a machine may well have.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn what_the_system_has_not_is_an_error() {
        let needed = usize::MAX >> 2;
        assert_eq!(AlignedBytes::charged(needed, None).unwrap_err(), NoMemory::System { needed });
        assert_eq!(claim(needed, None).unwrap_err(), NoMemory::System { needed });
    }

    #[test]
    fn pieces_of_a_slab_are_apart_and_zero() {
        let mut slab = Slab::default();
        let sizes = [100, SLAB_FROM, 1, 0, 65, HUGE_PAGE - 1, 3 * HUGE_PAGE, 7, SLAB_FROM];
        let mut pieces: Vec<_> = sizes.iter().map(|&len| slab.zeroed(len).unwrap()).collect();
        for (piece, &len) in pieces.iter_mut().zip(&sizes) {
            assert_eq!((piece.len(), piece.start.as_ptr() as usize % ALIGN), (len, 0));
            assert!(piece.as_slice().iter().all(|&byte| byte == 0));
            piece.as_mut_slice().fill(1);
        }
        drop(slab);
        assert!(pieces.iter().all(|piece| piece.as_slice().iter().all(|&byte| byte == 1)));
    }

    #[test]
    fn what_a_slab_gets_back_is_handed_out_again_as_zeros() {
        let mut slab = Slab::default();
        let zeroed = |slab: &mut Slab, len| slab.zeroed(len).unwrap();
        let (first, mut last) = (zeroed(&mut slab, SLAB_FROM), zeroed(&mut slab, 100));
        let at = last.start;
        last.as_mut_slice().fill(7);
        slab.give_back(last);
        let again = zeroed(&mut slab, 70);
        assert_eq!((again.start, again.as_slice()), (at, &[0; 70][..]));
        slab.give_back(first);
        assert_ne!(zeroed(&mut slab, 70).start, again.start, "only the last goes back");
    }

    #[test]
    fn memory_is_used_again_as_far_as_it_goes() {
        for (len, room) in
            [(0, 0), (100, 100), (HUGE_FROM, HUGE_PAGE), (HUGE_PAGE + 1, 2 * HUGE_PAGE)]
        {
            assert_eq!(AlignedBytes::zeroed(len).room(), room);
            assert!(AlignedBytes::zeroed(len).resized(room + 1).is_none());
            let mut bytes = AlignedBytes::zeroed(len).resized(room).unwrap();
            bytes.as_mut_slice().fill(7);
            let bytes = bytes.resized(len / 2).and_then(|bytes| bytes.resized(room)).unwrap();
            assert!(bytes.len() == room && bytes.as_slice().iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn a_part_outlives_the_name_of_the_whole_and_is_not_written() {
        let whole = Arc::new(AlignedBytes::copy_of(&[7; 100]));
        for (what, start, len) in
            [("unaligned", 1, 1), ("past the end", 64, 37), ("overflow", 64, usize::MAX)]
        {
            assert!(AlignedBytes::part_of(&whole, start, len).is_none(), "{what}");
        }
        let mut part = AlignedBytes::part_of(&whole, 64, 36).unwrap();
        drop(whole);
        assert_eq!(part.as_slice(), [7; 36]);
        assert!(part.as_mut_slice().is_empty());
    }
}
