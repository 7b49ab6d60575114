//! The system calls that `nix` lacks, each behind a safe function: futexes that processes share.

use std::num::NonZeroU32;
use std::ptr::null;
use std::sync::atomic::AtomicU32;

use nix::errno::Errno;

/// The mask that every wake meets.
pub(crate) const ANY: NonZeroU32 = NonZeroU32::MAX;

/// Sleeps while `word` is `expected`, until a wake whose bits meet `mask`, or a signal.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, mask: NonZeroU32) -> Result<(), Errno> {
    let (call, for_ever) = (libc::FUTEX_WAIT_BITSET, null::<libc::timespec>());
    // SAFETY: a word that lives during the call, which reads it.
    let slept = unsafe {
        let word = word.as_ptr();
        libc::syscall(libc::SYS_futex, word, call, expected, for_ever, null::<u32>(), mask.get())
    };
    Errno::result(slept).map(drop)
}

/// Wakes at most `count` sleepers on `word` whose mask meets `mask`.
pub(crate) fn futex_wake(word: &AtomicU32, count: i32, mask: NonZeroU32) -> Result<(), Errno> {
    let (call, no_time) = (libc::FUTEX_WAKE_BITSET, null::<libc::timespec>());
    // SAFETY: a word that lives during the call, which looks for its sleepers by its address.
    let woken = unsafe {
        let word = word.as_ptr();
        libc::syscall(libc::SYS_futex, word, call, count, no_time, null::<u32>(), mask.get())
    };
    Errno::result(woken).map(drop)
}
