//! A queue between two processes over shared memory, in the layout of Android's fast message queue
//! (libfmq).
//!
//! One process writes items, another reads them; while both are busy no system call is made and no
//! lock taken, and when there is nothing to do they can sleep. Either side may be a libfmq program.
//! Whatever the other side does to the shared memory gives an error here, never undefined
//! behaviour.
//!
//! ```text
//!  producer's process              shared memory (sealed memfd)             consumer's process
//!                            +-----------------------------------+
//!  own counter (private) --> | written: bytes ever written, u64  | --> read when need be, checked
//!  checked <--------------   | read:    bytes ever read, u64     | <-- own counter (private)
//!  items copied in -------->  | ring: capacity x size_of::<T>()   | --> items copied out
//!  sets NOT_EMPTY --------->  | event flag: u32, futex (optional) | <-- sets NOT_FULL
//!                            +-----------------------------------+
//!                     each found through the descriptor's grantors
//! ```
//!
//! # Example
//!
//! Two threads here; between processes the [`Descriptor`] travels over a Unix socket (see
//! `examples/two_processes.rs`).
//!
//! ```
//! use nnburst_fmq::{Queue, Wait};
//!
//! let queue = Queue::<u64>::builder(1024).event_flag(true).create()?;
//! let descriptor = queue.descriptor()?; // plain data and file descriptors: send them
//! let mut producer = queue.into_producer();
//!
//! let reader = std::thread::spawn(move || {
//!     let mut consumer = Queue::<u64>::attach(descriptor).unwrap().into_consumer();
//!     let mut batch = [0; 3];
//!     consumer.read(&mut batch, Wait::adaptive(50)).unwrap();
//!     batch
//! });
//! producer.write(&[1, 2, 3], Wait::adaptive(50))?;
//! assert_eq!(reader.join().unwrap(), [1, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where things are
//!
//! | for | see |
//! |---|---|
//! | making a queue, attaching to one | [`Queue`], [`QueueBuilder`], [`Descriptor`] |
//! | writing and reading | [`Producer`], [`Consumer`], both an [`Endpoint`] |
//! | one writer that overwrites, many readers | [`unsync`] |
//! | in place, without a copy | [`WriteTransaction`], [`ReadTransaction`] |
//! | how to wait, and what ends a wait | [`Wait`], [`WaitOptions`], [`Cancel`], [`PeerWatch`] |
//! | a queue in an event loop | [`Readiness`] |
//! | items whose size is known at run time | [`erased`] |
//! | bits of one's own on the futex word | [`EventFlag`], [`Bits`] |
//! | what a descriptor is of | [`mod@file`] |
//! | what went wrong | [`QueueError`], [`SetupError`] |

mod consumer;
mod descriptor;
mod endpoint;
#[cfg(not(loom))]
pub mod erased;
mod error;
mod event_flag;
pub mod file;
mod foresight;
mod interrupt;
#[cfg_attr(loom, expect(dead_code, reason = "a model has no files to lay out"))]
mod layout;
mod memory;
#[cfg(not(loom))]
mod peer;
#[cfg(loom)]
#[path = "peer/model.rs"]
mod peer;
pub mod process;
mod producer;
mod queue;
#[cfg(not(loom))]
mod readiness;
mod ring;
mod stream;
mod sync;
#[cfg(not(loom))]
mod sys;
#[cfg(all(feature = "testing", not(loom)))]
pub mod testing;
mod transaction;
pub mod unsync;
mod wait;

pub use consumer::Consumer;
pub use descriptor::{
    AidlDescriptor, AidlGrantor, Descriptor, DescriptorData, Flavor, Grantor, RawGrantor,
};
pub use endpoint::Endpoint;
pub use error::{Lie, LieKind, Part, QueueError, SetupError};
pub use event_flag::{EventFlag, NOT_EMPTY, NOT_FULL};
pub use interrupt::Cancel;
pub use peer::PeerWatch;
pub use producer::Producer;
pub use queue::{AttachOptions, Queue, QueueBuilder};
#[cfg(not(loom))]
pub use readiness::Readiness;
pub use transaction::{ReadTransaction, Slots, WriteTransaction};
pub use wait::{Bits, Wait, WaitOptions};

/// The README's example, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
