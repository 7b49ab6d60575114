//! The identity of this process, and the threads that it starts.
//!
//! A forked child inherits its parent's memory, but none of the threads that work on it, and shares
//! its sockets and epoll descriptors. So objects note the [`id`] of the process that they belong
//! to, and what a process has one of is kept in a [`PerProcess`]: a child makes its own, and
//! neither uses the inherited one nor waits for a lock that a thread of the parent's held.
//!
//! [`spawn`] is how the crates of this workspace start threads: the signals of the program are none
//! of theirs.
#![expect(clippy::disallowed_types, reason = "no memory of a queue's, and no part of a model")]

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
#[cfg(not(loom))]
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::{SysconfVar, sysconf};

/// A number that no process which forked this one, or was forked by it, has. Two loads but for the
/// first time.
#[inline]
pub fn id() -> u64 {
    // Acquire: pairs with the exchange in `page`.
    let page = NonNull::new(PAGE.load(Ordering::Acquire)).or_else(page);
    let Some(page) = page else {
        // A kernel, or an emulation of one, that can't wipe pages on fork.
        return u64::from(std::process::id());
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

/// A descriptor that becomes readable when the process `pid` has ended.
///
/// # Errors
/// There is no such process, or no descriptor is left.
#[cfg(not(loom))] // no model has processes
pub fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    Ok(crate::sys::pidfd_open(pid)?)
}

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
    let length = sysconf(SysconfVar::PAGE_SIZE).ok().flatten()?;
    let length = usize::try_from(length).ok().and_then(NonZeroUsize::new)?;
    let (protection, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    // SAFETY: the kernel chooses the address, so no existing mapping is touched.
    let page = unsafe { mmap_anonymous(None, length, protection, flags) }.ok()?;
    // SAFETY: a page of ours that nobody else knows of yet.
    let wiped = unsafe { madvise(page, length.get(), MmapAdvise::MADV_WIPEONFORK) };
    let mine = page.as_ptr().cast::<u8>();
    // Release: hands the wiped page over; Acquire: pairs with the thread that was faster.
    let known = wiped
        .is_ok()
        .then(|| PAGE.compare_exchange(null_mut(), mine, Ordering::AcqRel, Ordering::Acquire));
    match known {
        Some(Ok(_)) => NonNull::new(mine),
        other => {
            // SAFETY: as above; it is not used.
            let _ = unsafe { munmap(page, length.get()) };
            other.and_then(|known| NonNull::new(known.unwrap_or_else(|theirs| theirs)))
        }
    }
}

/// Something that a process has one of; a forked child starts with a new one.
#[derive(Debug)]
pub struct PerProcess<T> {
    made: MadeHere<Mutex<T>>,
}

impl<T> PerProcess<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { made: MadeHere::new() }
    }
}

impl<T: Default + Send + 'static> PerProcess<T> {
    /// This process's; made when it is first asked for, and kept as long as the process.
    pub fn get(&'static self) -> &'static Mutex<T> {
        let Ok(value) = self.made.get_or_make(|| Ok::<_, Infallible>(Mutex::default()));
        value
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A value that belongs to the process that made it: a forked child makes its own. What a child
/// inherits stays where it is, for nobody can tell whether a thread of the parent's was at it. No
/// lock is held at any time, so a fork leaves none behind.
#[derive(Debug)]
pub(crate) struct MadeHere<T> {
    current: AtomicPtr<Owned<T>>,
    _owned: PhantomData<T>,
}

#[derive(Debug)]
struct Owned<T> {
    process: u64,
    value: T,
    /// The parent's, so that who looks for leaks sees that it is known of.
    _inherited: *mut Self,
}

impl<T> MadeHere<T> {
    pub(crate) const fn new() -> Self {
        Self { current: AtomicPtr::new(null_mut()), _owned: PhantomData }
    }
}

impl<T: Send + Sync> MadeHere<T> {
    /// This process's, if it has been made.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire: pairs with the exchange in `make`.
        let found = self.current.load(Ordering::Acquire);
        // SAFETY: null, or leaked in `make`; freed by `drop` alone, which has `self` to itself.
        let owned = unsafe { found.as_ref() }?;
        (owned.process == id()).then_some(&owned.value)
    }

    /// This process's; made if need be. Of threads that make one at a time, one wins.
    pub(crate) fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.make(make),
        }
    }

    #[cold]
    fn make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        // Acquire: pairs with the exchange below.
        let found = self.current.load(Ordering::Acquire);
        let owned = Owned { process: id(), value: make()?, _inherited: found };
        let mine = Box::into_raw(Box::new(owned));
        // Release: hands the new value over; Acquire: pairs with the thread that was faster.
        let won = self.current.compare_exchange(found, mine, Ordering::AcqRel, Ordering::Acquire);
        let current = won.map_or_else(|theirs| theirs, |_| mine);
        if current != mine {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(mine) });
        }
        // SAFETY: leaked here or by the thread that was faster; freed by `drop` alone.
        Ok(&unsafe { &*current }.value)
    }
}

impl<T> Drop for MadeHere<T> {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        // SAFETY: null, or leaked in `make`.
        if unsafe { current.as_ref() }.is_some_and(|owned| owned.process == id()) {
            // SAFETY: leaked in `make`, and nobody else is there to use it.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}

/// Starts a thread that takes no signals of the program's, as [`without_signals`] says.
///
/// # Errors
/// There is no thread to be had.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let body = move || {
        // Without short slices it waits longer on a busy machine.
        let _ = ask_for_slices(SLICE);
        body()
    };
    without_signals(|| Builder::new().name(name.into()).spawn(body))
}

/// The slice of time that threads of ours ask for: what they do for a frame is short, and on a
/// busy processor a thread with a shorter slice goes first when it wakes. What they have in all
/// stays the same.
const SLICE: Duration = Duration::from_micros(100);

/// Has the system give this thread the processor for `slice` at a time where several wait for it:
/// the shorter, the sooner it goes on when it wakes. Linux does so since 6.12, and everybody may
/// ask; threads under another policy than the ordinary one stay as they are.
///
/// # Errors
/// The system doesn't know of that, or not of such a slice (0.1 to 100 ms).
#[cfg(not(loom))]
fn ask_for_slices(slice: Duration) -> io::Result<()> {
    crate::sys::ask_for_slices(slice).map_err(io::Error::from)
}

/// Nothing: a model's threads have no slices.
///
/// # Errors
/// None.
#[cfg(loom)]
fn ask_for_slices(_: Duration) -> io::Result<()> {
    Ok(())
}

/// The slice of time for work that takes milliseconds. With the same slice as everybody else it
/// would go on until the system's next tick (4 ms, as a rule) before one that wakes for a frame
/// gets its processor; one with a shorter slice gets it at once.
const LONG_SLICE: Duration = Duration::from_millis(20);

thread_local! {
    static LONG_WORK: Cell<u32> = const { Cell::new(0) };
}

/// Has this thread, one of those that [`spawn`] started, go behind whoever wakes for something
/// short, until as many calls of [`end_long_work`].
pub fn begin_long_work() {
    let before = LONG_WORK.get();
    LONG_WORK.set(before.saturating_add(1));
    if before == 0 {
        // Where the system has no slices to give, there is nobody to go behind either.
        let _ = ask_for_slices(LONG_SLICE);
    }
}

/// The other half of [`begin_long_work`].
pub fn end_long_work() {
    let before = LONG_WORK.get();
    LONG_WORK.set(before.saturating_sub(1));
    if before == 1 {
        let _ = ask_for_slices(SLICE);
    }
}

/// Runs work that takes milliseconds between [`begin_long_work`] and [`end_long_work`].
pub fn long_work<R>(work: impl FnOnce() -> R) -> R {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            end_long_work();
        }
    }
    begin_long_work();
    let _end = End;
    work()
}

/// Runs `start`, whose threads inherit a mask of signals: all are blocked but those that a thread
/// brings upon itself (SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP). A program's handlers then
/// run on its own threads, whose stacks and locks they are written for, and what interrupts a wait
/// is meant for whoever waits.
pub fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    let _restored = Masked::all_but_faults();
    start()
}

/// The calling thread's mask of signals, put back when this is dropped.
struct Masked(SigSet);

impl Masked {
    fn all_but_faults() -> Option<Self> {
        let faults = [
            Signal::SIGBUS,
            Signal::SIGFPE,
            Signal::SIGILL,
            Signal::SIGSEGV,
            Signal::SIGSYS,
            Signal::SIGTRAP,
        ];
        let mut mask = SigSet::all();
        faults.into_iter().for_each(|fault| mask.remove(fault));
        mask.thread_swap_mask(SigmaskHow::SIG_SETMASK).ok().map(Self)
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // It can't fail: the mask is the system's.
        let _ = self.0.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocked signals of the calling thread, as bits, the first signal lowest.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn threads_block_signals_but_faults_and_the_caller_stays_as_it_was() {
        let before = blocked();
        let theirs = spawn("test", blocked).unwrap().join().unwrap();
        assert_eq!(blocked(), before);
        for signal in [libc::SIGALRM, libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGCHLD] {
            assert_ne!(theirs & 1 << (signal - 1), 0, "signal {signal}");
        }
        for signal in [libc::SIGBUS, libc::SIGSEGV, libc::SIGFPE, libc::SIGILL] {
            assert_eq!(theirs & 1 << (signal - 1), 0, "signal {signal}");
        }
    }

    #[test]
    fn what_fails_to_be_made_is_tried_again_and_what_was_made_is_dropped_once() {
        let made = MadeHere::new();
        assert_eq!(made.get_or_make(|| Err::<std::sync::Arc<()>, _>("no")), Err("no"));
        let value = std::sync::Arc::new(());
        let mine = std::sync::Arc::clone(&value);
        assert!(made.get_or_make(|| Ok::<_, ()>(mine)).is_ok());
        assert!(made.get_or_make(|| Err("made already")).is_ok() && made.get().is_some());
        drop(made);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_process_has_one_number_and_one_of_each() {
        static COUNT: PerProcess<u32> = PerProcess::new();
        assert_eq!(id(), std::thread::spawn(id).join().unwrap());
        *COUNT.get().lock().unwrap() += 1;
        assert_eq!(*COUNT.get().lock().unwrap(), 1);
    }
}
