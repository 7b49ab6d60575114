//! Huge pages, at once where they come at once, and otherwise later.
//!
//! Most often a huge page takes the system a fifth of a millisecond. It takes ten, where others'
//! pages have to be moved out of its way first, or where the machine is a virtual one whose host
//! had taken the memory back: for the weights of a network that is a tenth of a second in which
//! somebody waits for a model. So they are asked for one by one against the clock. Behind the first
//! one that was expensive come ordinary pages, which are mostly some that were in use lately and
//! are at hand.
//!
//! What was filled and is only read from then on gets its huge pages in the background
//! ([`get_later`]): a copy is made in a new one and put in the old place in one step. Readers see
//! the same bytes before and after, and are never held up. Left to itself the system would do that
//! too, but keeps readers waiting for all of it.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};
use nnburst_hal::{Budget, Still};
use once_cell::race::OnceBox;

use crate::tensor::{AlignedBytes, poll};

/// The size of the system's huge pages, where it has any.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// A huge page that took longer is the last for a while: five times what it takes to be cleared.
const EXPENSIVE: Duration = Duration::from_millis(1);

/// For how long nobody asks again: an expensive page costs a fifth of it at most, and preparing
/// with ordinary pages takes twice as long, which models that are prepared one behind the other
/// would all do for an expensive one of the first.
const WHILE: Duration = Duration::from_millis(50);

/// When to ask again, in nanoseconds behind [`beginning`]. Relaxed: a hint that hands nothing over.
static ASK_AGAIN: AtomicU64 = AtomicU64::new(0);

/// Says that these bytes may come in huge pages: once for all of a mapping, as the system locks all
/// memory of the process for it, and waits for threads that just get their pages.
///
/// # Safety
/// Both are multiples of a huge page, within a mapping of the caller's that nobody else uses yet.
pub(super) unsafe fn allow(start: NonNull<u8>, len: usize) {
    // SAFETY: as the caller promises; advice doesn't change content. A system that doesn't follow
    // it gives ordinary pages, now or when they are touched.
    let _ = unsafe { madvise(start.cast(), len, MmapAdvise::MADV_HUGEPAGE) };
}

/// Has `len` fresh bytes from `start` on, which may come in huge pages, in memory before they are
/// used, as far as they do so at once; the others are to be ordinary ones. Tells how far that is.
///
/// # Safety
/// As for [`allow`].
pub(super) unsafe fn take(start: NonNull<u8>, len: usize) -> usize {
    let mut taken = 0;
    if nanoseconds(beginning().elapsed()) >= ASK_AGAIN.load(Ordering::Relaxed) {
        let mut before = worked();
        while taken < len {
            let bytes = (len - taken).min(HUGE_PAGE);
            // SAFETY: a page of that memory or what there is of it, of fresh bytes.
            unsafe { touch(start.as_ptr().wrapping_add(taken), bytes) };
            taken += HUGE_PAGE;
            if poll::work(PAGES_NS).is_err() {
                break;
            }
            let now = worked();
            if now.saturating_sub(before) > EXPENSIVE {
                let again = nanoseconds(beginning().elapsed() + WHILE);
                ASK_AGAIN.store(again, Ordering::Relaxed);
                break;
            }
            before = now;
        }
    }
    if taken < len {
        // SAFETY: as above.
        let _ =
            unsafe { madvise(start.add(taken).cast(), len - taken, MmapAdvise::MADV_NOHUGEPAGE) };
    }
    taken
}

/// The time that the pages of [`HUGE_PAGE`] bytes take to come or to go, in nanoseconds, as work
/// reports it. More go in calls of their own: while one lasts, no thread of the process may be able
/// to map or unmap anything, which for the whole of a large memory is tens of milliseconds.
const PAGES_NS: usize = 200_000;

/// Has fresh bytes in memory. Asked for by `MADV_POPULATE_WRITE` they would keep all threads of the
/// process from mapping and unmapping anything meanwhile; faults lock no more than their mapping.
///
/// # Safety
/// The bytes are the caller's to write, and nobody needs what they hold.
unsafe fn touch(start: *mut u8, len: usize) {
    const SMALL_PAGE: usize = 4096;
    for at in (0..len).step_by(SMALL_PAGE) {
        // SAFETY: as the caller promises.
        unsafe { start.wrapping_add(at).write_volatile(0) };
    }
}

/// Has these bytes, which came in ordinary pages, in memory before they are used. Once the thread's
/// work has to end, the others come as they are touched.
///
/// # Safety
/// As for [`allow`].
pub(super) unsafe fn take_small(start: NonNull<u8>, len: usize) {
    for at in (0..len).step_by(HUGE_PAGE) {
        let (piece, bytes) = (start.as_ptr().wrapping_add(at), (len - at).min(HUGE_PAGE));
        // SAFETY: as the caller promises.
        unsafe { touch(piece, bytes) };
        if poll::work(PAGES_NS).is_err() {
            break;
        }
    }
}

/// Unmaps a mapping of ordinary or huge pages, giving these back little by little first.
///
/// # Safety
/// The mapping is the caller's, and nothing refers to it any more.
pub(super) unsafe fn unmap(base: NonNull<c_void>, len: usize) {
    let first = base.cast::<u8>().align_offset(HUGE_PAGE).min(len);
    for at in (first..len).step_by(HUGE_PAGE).filter(|_| len > 3 * HUGE_PAGE) {
        let bytes = (len - at).min(HUGE_PAGE);
        // SAFETY: as the caller promises.
        let _ = unsafe { madvise(base.byte_add(at), bytes, MmapAdvise::MADV_DONTNEED) };
        // The others go in any case.
        let _ = poll::work(PAGES_NS);
    }
    // SAFETY: as the caller promises. It can't fail.
    let _ = unsafe { munmap(base, len) };
}

/// Gets huge pages for bytes that have none yet, by a thread of its own, for as long as somebody
/// keeps the bytes.
///
/// It takes part like any other: at a low priority the same work, a tenth of a second, would
/// disturb runs on its core for many times as long, and they would have ordinary pages meanwhile
/// (10 % of a run of MobileNet v1).
///
/// # Safety
/// Nobody writes them any more.
pub(super) unsafe fn get_later(bytes: Vec<Weak<AlignedBytes>>, budget: Option<&Arc<Budget>>) {
    // Without the thread, pages stay as they are.
    let Ok(charge) = budget.map(Budget::take_thread).transpose() else { return };
    let get = move || {
        for bytes in bytes {
            let mut at = 0;
            // Kept for a page at a time, so that memory goes when its owner does.
            while let Some(bytes) = bytes.upgrade()
                && let Some(page) = bytes.small_page(at)
            {
                // SAFETY: a whole page of a mapping that is kept meanwhile, and that nobody writes.
                if unsafe { replace(page, HUGE_PAGE) }.is_none() {
                    return;
                }
                at += HUGE_PAGE;
            }
        }
        drop(charge);
    };
    // Without the thread, pages stay as they are.
    let _ = nnburst_hal::process::spawn("nnburst-pages", get);
}

/// What waits for a model is let go on first: on a single core the pages would be copied before it.
const OWN_AFTER: Duration = Duration::from_millis(20);

/// Puts private pages in the place of a file's, by a thread of its own where there is one to be
/// had, and then lets the file go.
///
/// # Safety
/// Nobody writes them.
pub(super) unsafe fn own_later(bytes: &Arc<AlignedBytes>, budget: Option<&Arc<Budget>>) {
    let later = Arc::downgrade(bytes);
    // SAFETY: as the caller promises.
    let own = move || unsafe { own_pages(&later) };
    let began = budget.map(Budget::take_thread).transpose().ok().and_then(|charge| {
        let own = own.clone();
        let own = move || {
            std::thread::sleep(OWN_AFTER);
            own();
            drop(charge);
        };
        nnburst_hal::process::spawn("nnburst-pages", own).ok()
    });
    if began.is_none() {
        own();
    }
}

/// As [`own_later`], for as long as somebody keeps the bytes.
///
/// # Safety
/// Nobody writes them.
unsafe fn own_pages(bytes: &Weak<AlignedBytes>) {
    let mut at = 0;
    // Kept for a page at a time, so that memory goes when its owner does.
    while let Some(bytes) = bytes.upgrade()
        && let Some(file) = bytes.file()
    {
        let (start, len) = file.pages();
        let page = start.cast_mut().wrapping_add(at);
        let piece = (HUGE_PAGE - page.addr() % HUGE_PAGE).min(len - at);
        if piece == 0 {
            // SAFETY: all pages are this process's own.
            unsafe { file.let_go() };
            return;
        }
        let page = NonNull::new(page);
        // SAFETY: whole pages of a mapping that is kept meanwhile, and that nobody writes.
        if page.and_then(|page| unsafe { replace(page, piece) }).is_none() {
            // Without memory for them it can't be told for how long they are right.
            file.mark_corrupt();
            return;
        }
        at += piece;
    }
}

/// Puts private pages in the place of those that a part of a file lies in.
///
/// # Safety
/// Nobody writes them.
pub(super) unsafe fn own_part(file: &Still, part: &[u8]) -> Option<()> {
    let (start, len) = file.pages();
    let from = part.as_ptr().addr() - start.addr();
    let unit = page_size();
    let (mut at, end) = (from / unit * unit, (from + part.len()).next_multiple_of(unit).min(len));
    while at < end {
        let page = start.cast_mut().wrapping_add(at);
        let piece = (HUGE_PAGE - page.addr() % HUGE_PAGE).min(end - at);
        // SAFETY: whole pages of a mapping that is kept, and that nobody writes.
        unsafe { replace(NonNull::new(page)?, piece)? };
        at += piece;
    }
    Some(())
}

/// The size of a page of memory.
fn page_size() -> usize {
    let known = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    known.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(4096)
}

/// Puts private pages with the same content in the place of `len` bytes from `page` on, a huge one
/// where it has the size; `None` where the system has none.
///
/// # Safety
/// They are whole pages of a mapping, at most a huge one, and nobody writes them.
unsafe fn replace(page: NonNull<u8>, len: usize) -> Option<()> {
    let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    let whole = NonZeroUsize::new(2 * HUGE_PAGE)?;
    // SAFETY: a new mapping, where the system likes it.
    let base = unsafe { mmap_anonymous(None, whole, access, flags) }.ok()?;
    let gap = base.cast::<u8>().align_offset(HUGE_PAGE).min(HUGE_PAGE);
    // SAFETY: `fresh` lies within the new mapping, `page` is only read. Moving pages there takes
    // them out of the new mapping, of which what is left is unmapped in any case.
    unsafe {
        let fresh = base.byte_add(gap);
        let advice =
            if len == HUGE_PAGE { MmapAdvise::MADV_HUGEPAGE } else { MmapAdvise::MADV_NORMAL };
        let asked = madvise(fresh, HUGE_PAGE, advice);
        if asked.is_ok() {
            std::ptr::copy_nonoverlapping(page.as_ptr(), fresh.cast().as_ptr(), len);
        }
        let moved = asked.and_then(|()| move_pages(fresh, page.cast(), len));
        let kept = if moved.is_ok() { len } else { 0 };
        if gap > 0 {
            let _ = munmap(base, gap);
        }
        if gap + kept < 2 * HUGE_PAGE {
            let _ = munmap(fresh.byte_add(kept), 2 * HUGE_PAGE - gap - kept);
        }
        moved.ok()
    }
}

/// Moves `len` bytes of pages to `to`, in the place of what is mapped there.
///
/// # Safety
/// Both are whole pages of mappings of the caller's.
#[cfg(not(target_os = "android"))]
unsafe fn move_pages(pages: NonNull<c_void>, to: NonNull<c_void>, len: usize) -> nix::Result<()> {
    use nix::sys::mman::{MRemapFlags, mremap};

    let flags = MRemapFlags::MREMAP_MAYMOVE | MRemapFlags::MREMAP_FIXED;
    // SAFETY: as the caller promises.
    unsafe { mremap(pages, len, len, flags, Some(to)) }.map(drop)
}

/// Pages stay where they are: `nix` has no mremap there.
#[cfg(target_os = "android")]
unsafe fn move_pages(_: NonNull<c_void>, _: NonNull<c_void>, _: usize) -> nix::Result<()> {
    Err(nix::errno::Errno::ENOSYS)
}

/// Returns the time that this thread has worked: a page is not expensive for what others did on the
/// core meanwhile.
fn worked() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Returns the instant that times are counted from.
fn beginning() -> Instant {
    static BEGINNING: OnceBox<Instant> = OnceBox::new();
    *BEGINNING.get_or_init(|| Box::new(Instant::now()))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, in memory for which no huge pages were asked for.
    fn numbers() -> Arc<AlignedBytes> {
        ASK_AGAIN.store(u64::MAX, Ordering::Relaxed);
        let mut bytes = AlignedBytes::zeroed(3 * HUGE_PAGE);
        ASK_AGAIN.store(0, Ordering::Relaxed);
        bytes.typed_mut::<u32>().iter_mut().zip(0..).for_each(|(number, at)| *number = at);
        Arc::new(bytes)
    }

    fn are_numbers(bytes: &AlignedBytes) -> bool {
        bytes.typed::<u32>().iter().zip(0u32..).all(|(&number, at)| number == at)
    }

    #[test]
    fn pages_are_replaced_under_the_eyes_of_readers() {
        let bytes = numbers();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| (0..20).all(|_| are_numbers(&bytes)));
            for at in (0..3).rev() {
                let page = bytes.small_page(at * HUGE_PAGE).unwrap();
                // SAFETY: a whole page, and from here on nobody writes.
                unsafe { replace(page, HUGE_PAGE) };
            }
            assert!(bytes.small_page(3 * HUGE_PAGE).is_none());
            assert!(reader.join().unwrap());
        });
        assert!(are_numbers(&bytes));
    }

    #[test]
    fn bytes_may_go_while_they_get_their_pages() {
        for read in [true, false] {
            let bytes = numbers();
            bytes.settle(None);
            assert!(!read || are_numbers(&bytes));
        }
    }
}
