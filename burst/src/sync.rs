//! The one door to the locks, flags and threads that a burst's parties race on: std's, or loom's
//! under `cfg(loom)`, so that loom explores the code that ships.
//!
//! Two things stay outside, since nothing is handed over through them: the figures for onlookers
//! (`server::live`), and reference counts.

#[cfg(not(loom))]
mod doors {
    pub(crate) use std::sync::atomic::AtomicBool;
    pub(crate) use std::sync::mpsc::channel;
    pub(crate) use std::sync::{Mutex, MutexGuard};
    pub(crate) use std::thread::{Builder, JoinHandle, current};
    pub(crate) use std::thread_local;
}

#[cfg(loom)]
mod doors {
    pub(crate) use loom::sync::atomic::AtomicBool;
    pub(crate) use loom::sync::mpsc::channel;
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread::{Builder, JoinHandle, current};
    pub(crate) use loom::thread_local;
}

pub(crate) use doors::*;

use std::sync::PoisonError;

/// Locks, also when another holder panicked: what our locks guard stays true at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
