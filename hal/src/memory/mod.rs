//! Memory that travels between processes, and how it is looked at.
//!
//! [`Memory`] is a handle: a file descriptor with a range, cheap to clone, equal by identity. A
//! [`Mapping`] is that range in this process. A [`View`] or [`ViewMut`] is a part of a mapping or
//! of private memory: pointer, length, lifetime, and nothing that promises that the bytes stay as
//! they are, because the process on the other side may write, truncate or unmap at any time.
//!
//! What can be sealed is sealed against shrinking. What can't (a model file, a file in /dev/shm) is
//! watched ([`max_guarded_mappings`] at a time): touching a page that a truncation took away raises
//! SIGBUS, which the guard answers with zeros in place of the mapping and a mark on it, so that the
//! one execution fails and the process lives. Files whose pages come from another process or
//! machine are refused, as [`check_prompt`] says.

mod backing;
mod dma_buf;
mod error;
mod guard;
mod handle;
mod huge;
mod mapping;
mod sigbus;
mod still;
mod view;

pub use backing::check_prompt;
pub use error::{MemoryError, MemoryKind};
pub use guard::max_guarded_mappings;
pub use handle::{Memory, MemoryObserver, WeakMemory};
pub use huge::gather_pages;
pub use mapping::{Access, Mapping, ProcessorAccess};
pub use still::Still;
pub use view::{View, ViewMut};

pub use crate::process::check_file_size;
