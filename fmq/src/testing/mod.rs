//! Doubles of the other side, for the tests of this crate and of those built on it (feature
//! `testing`).
//!
//! | for | see |
//! |---|---|
//! | a peer that writes anything anywhere, at any step | [`HostilePeer`] |
//! | a peer that is libfmq, written from its description alone | [`ForeignPeer`] |
//! | random calls against random misdeeds | [`lying_producer`], [`lying_consumer`] |
//! | random bytes as a descriptor | [`any_descriptor`] |
//!
//! The last two rows are plain functions of bytes: property tests drive them here, cargo-fuzz in
//! `tools/fuzz/`.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test double reports by panicking"
)]

mod any_descriptor;
mod foreign;
mod hostile;
mod lying;

pub use any_descriptor::any_descriptor;
pub use foreign::ForeignPeer;
pub use hostile::HostilePeer;
pub use lying::{lying_consumer, lying_producer};

/// Returns whether something that a test needs is there: `true` lets the test go on. What is
/// missing is a failure where `NNBURST_REQUIRE`, a list with commas, names it, and is reported
/// elsewhere.
///
/// # Panics
/// If it is required and missing.
#[expect(clippy::print_stderr, reason = "a test that can't run says so")]
pub fn is_there(what: &str, is_there: bool) -> bool {
    if !is_there {
        let required = std::env::var("NNBURST_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == what), "{what} are required and missing");
        eprintln!("not run: {what} missing");
    }
    is_there
}
