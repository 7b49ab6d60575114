//! The memory of a queue: two counters, the ring and the event-flag word, wherever they live.
//!
//! [`QueueMemory`] is a handle to that memory, cheap to clone, and keeps it alive. Rules, after
//! those of vm-memory:
//!
//! 1. The ring is reached only through raw pointers. No `&` or `&mut` to it is ever made.
//! 2. The counters and the flag word are atomics. The language reaches those only through
//!    `&Atomic..`, which promises nothing about the value: it may change at any time, by anyone.
//! 3. Payload is copied, never interpreted in place. A hostile peer that writes while we copy gives
//!    us a mixture of bytes in private memory, which is a valid value: items are [`bytemuck::Pod`].
//! 4. After a copy the compiler may not go back to the shared original: a compiler fence forbids
//!    it.
//!
//! Under loom the same handle is made of loom's atomics and cells (`model.rs`).

#[cfg(not(loom))]
mod copy;
#[cfg(not(loom))]
pub(crate) mod heap;
#[cfg(loom)]
#[path = "model.rs"]
pub(crate) mod heap;
#[cfg(not(loom))]
pub(crate) mod mapping;
#[cfg(not(loom))]
mod native;

#[cfg(loom)]
pub(crate) use heap::{Flag, QueueMemory};
#[cfg(not(loom))]
pub use native::Region;
#[cfg(not(loom))]
pub(crate) use native::{Backing, Flag, Parts, QueueMemory};

/// Bytes that move between cores together. A hint for what is done ahead of time; correctness does
/// not depend on it.
pub(crate) const CACHE_LINE: usize = 64;
