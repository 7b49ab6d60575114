//! Which process this is, as far as forks go: a child inherits its parent's memory, but none of the threads that work
//! on it, and shares its epoll descriptors. What a process has one of is kept in a [`PerProcess`], so that a child makes
//! its own and neither uses the inherited one nor waits for a lock that a thread of the parent's held.

use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::sync::{AtomicPtr, AtomicU64, Mutex, Ordering};

/// A number that no process which forked this one, or was forked by it, has. No system call but the first time.
#[inline]
pub(crate) fn id() -> u64 {
    // Acquire: pairs with the exchange in `page`.
    let page = NonNull::new(PAGE.load(Ordering::Acquire)).or_else(page);
    let Some(page) = page else {
        // A kernel, or an emulation of one, that can't wipe pages on fork.
        return u64::try_from(rustix::process::getpid().as_raw_nonzero().get()).unwrap_or(0);
    };
    // SAFETY: mapped for good, page-aligned, and accessed atomically only.
    let word = unsafe { page.cast::<AtomicU64>().as_ref() };
    // Relaxed: a number that stands for nothing else in memory.
    match word.load(Ordering::Relaxed) {
        0 => name(word),
        id => id,
    }
}

/// The page whose first word is this process's number; the kernel wipes it in a child.
static PAGE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// The last number that was given, by this process or those that it descends from.
static LAST: AtomicU64 = AtomicU64::new(0);

#[cold]
fn name(word: &AtomicU64) -> u64 {
    // Relaxed, both: as in `id`.
    let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match word.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => id,
        Err(another_threads) => another_threads,
    }
}

#[cold]
fn page() -> Option<NonNull<u8>> {
    let length = rustix::param::page_size();
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: the kernel chooses the address, so no existing mapping is touched.
    let page = unsafe { rustix::mm::mmap_anonymous(null_mut(), length, protection, flags) }.ok()?;
    // SAFETY: a page of ours that nobody else knows of yet.
    let wiped = unsafe { rustix::mm::madvise(page, length, Advice::LinuxWipeOnFork) };
    let mine = page.cast::<u8>();
    // Release: hands the wiped page over; Acquire: pairs with the thread that was faster.
    let known = wiped
        .is_ok()
        .then(|| PAGE.compare_exchange(null_mut(), mine, Ordering::AcqRel, Ordering::Acquire));
    match known {
        Some(Ok(_)) => NonNull::new(mine),
        other => {
            // SAFETY: as above; it is not used.
            let _ = unsafe { rustix::mm::munmap(page, length) };
            other.and_then(|known| NonNull::new(known.unwrap_or_else(|theirs| theirs)))
        }
    }
}

/// Something that a process has one of; a forked child starts with a new one.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    current: AtomicPtr<Owned<T>>,
}

#[derive(Debug)]
struct Owned<T> {
    process: u64,
    value: Mutex<T>,
}

impl<T: Default> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { current: AtomicPtr::new(null_mut()) }
    }

    /// This process's; made when it is first asked for, and kept as long as the process. (What a child inherits stays
    /// where it is: nobody can tell whether a thread of the parent's was at it.)
    pub(crate) fn get(&'static self) -> &'static Mutex<T> {
        let process = id();
        // Acquire: pairs with the exchange below.
        let found = self.current.load(Ordering::Acquire);
        // SAFETY: null, or leaked below and never freed.
        if let Some(owned) = unsafe { found.as_ref() }
            && owned.process == process
        {
            return &owned.value;
        }
        let mine = Box::into_raw(Box::new(Owned { process, value: Mutex::new(T::default()) }));
        // Release: hands the new value over; Acquire: pairs with the thread that was faster.
        match self.current.compare_exchange(found, mine, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked above.
            Ok(_) => &unsafe { &*mine }.value,
            Err(_) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(mine) });
                self.get()
            }
        }
    }
}
