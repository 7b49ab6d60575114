//! System calls that `nix` lacks, each behind one safe function: futexes that processes share, with
//! absolute deadlines and bit masks, and pidfds.

#![expect(clippy::disallowed_types, reason = "futexes are words that threads race on")]

use std::num::NonZeroU32;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::null;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

use crate::SetupError;

/// Turns the error of `call` into one of a queue's setup.
pub(crate) fn failed(call: &'static str) -> impl Fn(Errno) -> SetupError {
    move |source| SetupError::System { call, source }
}

/// The system's error number in an error of std's.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw)
}

/// Bytes of a page of memory.
pub(crate) fn page_size() -> u64 {
    // Every Linux has pages and says of how many bytes.
    let known = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    known.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4096)
}

/// A descriptor of the process `pid` that becomes readable when it ends.
pub(crate) fn pidfd_open(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).map_err(|_| Errno::EINVAL)?;
    // SAFETY: takes two numbers, and no memory.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: a new descriptor, which nobody else knows of.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `struct sched_attr`, as far as every kernel knows it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// The kernel's number of the usual policy; Android's libc names it otherwise than others.
const SCHED_OTHER: u32 = 0;

/// See [`crate::process::ask_for_slices`].
pub(crate) fn ask_for_slices(slice: Duration) -> Result<(), Errno> {
    let size = u32::try_from(size_of::<Scheduling>()).map_err(|_| Errno::EINVAL)?;
    let mut now = Scheduling::default();
    // SAFETY: writes as many bytes as the structure has.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, size, 0) })?;
    if now.policy != SCHED_OTHER {
        return Ok(());
    }
    now.runtime = u64::try_from(slice.as_nanos()).unwrap_or(0);
    // SAFETY: reads the structure, which says its own size.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const now, 0) }).map(drop)
}

/// The latest point in time that every machine's `timespec` can hold.
const FOREVER: Duration = Duration::from_secs(i32::MAX as u64);

/// A point in time of `CLOCK_MONOTONIC`, which the futex calls count in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(libc::timespec);

impl From<Instant> for Until {
    /// An [`Instant`] does not give its reading of the clock away.
    fn from(deadline: Instant) -> Self {
        let left = deadline.saturating_duration_since(Instant::now());
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
        Self(*TimeSpec::from(now.saturating_add(left).min(FOREVER)).as_ref())
    }
}

/// Sleeps while `word` is `expected`, until a wake whose bits meet `mask`, `until`, a signal, or
/// for no reason.
pub(crate) fn futex_wait(
    word: &AtomicU32,
    expected: u32,
    mask: NonZeroU32,
    until: Option<Until>,
) -> Result<(), Errno> {
    let until = until.as_ref().map_or(null(), |until| &raw const until.0);
    let call = libc::FUTEX_WAIT_BITSET;
    // SAFETY: a word and a time that live during the call, which reads both.
    let slept = unsafe {
        let word = word.as_ptr();
        libc::syscall(libc::SYS_futex, word, call, expected, until, null::<u32>(), mask.get())
    };
    Errno::result(slept).map(drop)
}

/// Wakes every sleeper on `word` whose mask meets `mask`, of whichever process.
pub(crate) fn futex_wake(word: &AtomicU32, mask: NonZeroU32) -> Result<(), Errno> {
    let (call, all) = (libc::FUTEX_WAKE_BITSET, i32::MAX);
    let (no_time, no_word) = (null::<libc::timespec>(), null::<u32>());
    // SAFETY: a word that lives during the call, which looks for its sleepers by its address.
    let woken = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), call, all, no_time, no_word, mask.get())
    };
    Errno::result(woken).map(drop)
}

/// Wakes every sleeper on `word` of this process that sleeps on it as a [`Sharing::Threads`] word.
pub(crate) fn futex_wake_threads(word: &AtomicU32) -> Result<(), Errno> {
    let (call, all) = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX);
    // SAFETY: as in `futex_wake`.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), call, all) };
    Errno::result(woken).map(drop)
}

/// The processes that may sleep on a word: the kernel looks for sleepers by the page of memory, or
/// faster by the address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sharing {
    Processes,
    Threads,
}

/// One word of [`futex_waitv`]: the kernel's `struct futex_waitv`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitWord {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

impl WaitWord {
    /// No word: what is left of an array.
    pub(crate) const NONE: Self = Self { value: 0, address: 0, flags: 0, reserved: 0 };

    /// To sleep while `word` is `expected`.
    pub(crate) fn new(word: &AtomicU32, expected: u32, sharing: Sharing) -> Self {
        /// The word has 32 bits.
        const FUTEX2_SIZE_U32: u32 = 2;
        /// As in `linux/futex.h`.
        const FUTEX2_PRIVATE: u32 = 128;
        let flags = match sharing {
            Sharing::Processes => FUTEX2_SIZE_U32,
            Sharing::Threads => FUTEX2_SIZE_U32 | FUTEX2_PRIVATE,
        };
        let address = word.as_ptr().expose_provenance() as u64;
        Self { value: u64::from(expected), address, flags, reserved: 0 }
    }
}

/// Sleeps until one of `words` is woken or differs, or `until`; Linux 5.16.
pub(crate) fn futex_waitv(words: &[WaitWord], until: Option<Until>) -> Result<(), Errno> {
    let until = until.as_ref().map_or(null(), |until| &raw const until.0);
    let (list, count) = (words.as_ptr(), words.len());
    // SAFETY: a list of so many words and a time, both of which live during the call. The kernel
    // reads the words that the list names; where one is not mapped, the call fails.
    let slept = unsafe {
        libc::syscall(libc::SYS_futex_waitv, list, count, 0, until, libc::CLOCK_MONOTONIC)
    };
    Errno::result(slept).map(drop)
}
