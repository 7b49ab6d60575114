//! Operations against references written plainly from the interface's definitions, which share no
//! code with the executor: the parameters and sizes that the conformance cases leave alone.
//! `tests/README.md` says what is where.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "positions in small images"
)]

mod arithmetic;
mod bytes;
mod changing;
mod detection;
mod elementwise;
mod floats;
mod integer_lstm;
mod model;
mod movement;
mod numbers;
mod products;
mod recurrent;
mod regions;
mod sequences;
mod tensors;
mod types;
mod windows;
