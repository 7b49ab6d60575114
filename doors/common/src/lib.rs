//! The common base of nnburst's plugins in other programs' processes.
//!
//! ```text
//!   the host's key/value strings ─► Grammar::parse ─► DoorOptions ─► Supervised<T>: made on a
//!                                                        │      device, again after its death
//!   NNBURST_DRIVER, PATH, beside us ─► driver_program ───┘
//!   the host's log ◄── Log ◄── all of them
//! ```
//!
//! A plugin shares its process with a program that knows nothing of it, so it keeps these rules:
//!
//! | rule | by |
//! |---|---|
//! | options are spelt alike in all doors | [`Grammar`], [`KEYS`] |
//! | the driver's program is never the host's | [`driver_program`] |
//! | messages go to the host's log | [`Log`] |
//! | no panic crosses an `extern "C"` function | [`guarded`] |
//! | no signal is handled on a thread of ours | [`spawn_thread`] |
//! | a forked child gets an error, its parent no harm | [`Origin`] |
//! | a driver's death is reported, and the driver restarted | [`Supervised`] |
//! | unloading is sound | the linker's option, below |
//!
//! Threads, thread-local destructors and the SIGBUS handler of [`nnburst::hal::memory`] outlive a
//! `dlclose`, so each library must stay mapped. Its `build.rs` says so:
//!
//! ```
//! println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
//! ```
#![forbid(unsafe_code)]

mod boundary;
mod cache;
mod device;
mod log;
mod options;
mod program;
mod supervised;

pub use boundary::guarded;
pub use cache::make_cache_dir;
pub use device::{DeviceChoice, Home};
pub use log::{Level, Log, Sink, Stderr, Verbosity};
pub use nnburst::hal::process::{Origin, spawn as spawn_thread};
pub use options::{CallMode, DoorOptions, EVERY_KEY, Grammar, KEYS, Key, OnError, OptionError};
pub use program::{ProgramError, bundled_program, driver_program, own_file};
pub use supervised::{Death, MakeError, Recovery, Supervised};

/// Has the crates' own events written to standard error where `NNBURST_LOG` or `NNBURST_VLOG` ask
/// for them, and spans to the file of `NNBURST_TRACE`; once in a process, and never instead of what
/// the host listens with.
pub fn start_logging(log: &Log) {
    if let Err(error) = nnburst::start_logging(log.door()) {
        log.warning(&error.to_string());
    }
}
