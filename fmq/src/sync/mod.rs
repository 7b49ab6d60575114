//! The one door to atomics, fences, locks and sleeping: std's and the kernel's, or loom's under
//! `cfg(loom)`.
//!
//! Everything of this crate that two threads or processes race on goes through here, so that loom
//! explores the code that ships. `clippy.toml` bans the std types elsewhere. Aliases rather than
//! re-exports, because that lint sees through `pub use`.
//!
//! | here | native | under loom |
//! |---|---|---|
//! | atomics, fence | `std::sync::atomic` | `loom::sync::atomic` |
//! | [`FutexWord`] | an `AtomicU32`, futex calls | an `AtomicU32`, a mutex and a condvar |
//! | [`spin_loop`] | the CPU's pause | a yield: loom must run the other side |
//! | [`clock`] | the monotonic clock | a clock on which every limit has passed |

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod native;

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use native::*;

pub(crate) use std::sync::atomic::Ordering;

/// Locks, also when another holder panicked: what our locks guard stays true at every step.
#[cfg(not(loom))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks, also when another holder panicked: what our locks guard stays true at every step.
#[cfg(loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
