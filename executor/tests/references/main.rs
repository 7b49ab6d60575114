//! Operations without vector forms against references written plainly from the interface's definitions: the
//! parameters that the conformance cases leave alone.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions in small images"
)]

mod model;
mod movement;
mod numbers;
mod recurrent;
mod windows;
