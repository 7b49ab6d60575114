//! The latency lab: how long messages and inferences take between processes, and what of that is
//! the machine's.
//!
//! Absolute times drift with the machine's mood; ratios to a probe measured in the same
//! milliseconds do not. So two pinned processes run every transport in turn, in short blocks, and
//! each block has the probe right before and right after it:
//!
//! ```text
//! round 1   probe | fmq 8 B | probe | fmq 64 B | probe | rtrb 8 B | probe | ...
//!           then the next group, with its own probe
//! round 2   ...   the same, starting one row later
//!           \___ one block: kept if both probes agree; near or far, by the probes ___/
//! ```
//!
//! `docs/measuring.md` explains the method and the figures; the command is
//! `cargo run --release -p benches --bin latency`.
//!
//! | for                                         | see                          |
//! |---------------------------------------------|------------------------------|
//! | the transports and their table              | [`transport`]                |
//! | the schedule: blocks, brackets, placement   | [`lab`]                      |
//! | the answering process and threads           | [`far`]                      |
//! | from samples to figures                     | [`figures`]                  |
//! | calls to a driver, by every route            | [`burst`]                    |
//! | the C library beside Rust                   | [`ndk`]                      |
//! | percentile curves                           | [`curves`]                   |
//! | table and JSON                              | [`report`]                   |
//! | the machine: CPUs, priority, clock          | [`machine`], [`clock`]       |
//! | raw shared memory, the control connection   | [`shared`], [`link`]         |

pub mod burst;
pub mod clock;
pub mod curves;
pub mod far;
pub mod figures;
pub mod lab;
pub mod link;
pub mod machine;
pub mod ndk;
pub mod report;
pub mod shared;
mod sys;
pub mod transport;

use std::sync::atomic::{AtomicU64, Ordering};

/// An error of any kind: it is printed and ends the run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// A result with that.
pub type Result<T> = std::result::Result<T, Error>;

/// The ring of every queue that is measured: 16 KiB, as in AOSP's own benchmark.
pub const RING_BYTES: usize = 16 * 1024;

/// Polls until `word` is `value`.
pub(crate) fn spin_until(word: &AtomicU64, value: u64) {
    // Acquire: pairs with the release by which the other side says that it is done.
    while word.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
    }
}
