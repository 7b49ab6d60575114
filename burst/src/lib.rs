//! Executions of a prepared model through two shared-memory queues: the burst protocol of the
//! Android Neural Networks HAL 1.2 and 1.3, packet by packet, and what nnburst adds to it.
//!
//! ```text
//!   client                                                    driver
//!   Request ─► RequestDatum, RequestDatum, ... ─► request queue ─► BurstRequest ─┐
//!                                                                                executor
//!   BurstAnswer ◄─ result queue ◄─ ..., ResultDatum, ResultDatum ◄─ BurstAnswer ─┘
//! ```
//!
//! A packet is a run of 24-byte elements, published with one store. The driver's end is a
//! [`BurstServer`]: a thread that waits for packets, with a [`BurstExecutor`] that keeps memories
//! mapped by slot. The client's end is a [`BurstController`]: it gives memories slots, sends, waits
//! and notices when the driver dies. In the steady state neither allocates, locks or, while
//! polling, makes a system call.
//!
//! ```
//! use nnburst_burst::{BurstController, ControllerOptions, testing::AddOne};
//! use nnburst_hal::{ExecutionOptions, Memory};
//!
//! let model = AddOne::new(); // a prepared model; usually one of another process
//! let mut burst = BurstController::configure(&*model, &ControllerOptions::default(), None)?;
//!
//! let (input, output) = (Memory::ashmem(16)?, Memory::ashmem(16)?);
//! let request = AddOne::request(&input, &output, 16);
//! let mut frame = burst.frame(&request, &ExecutionOptions::default())?;
//! for _ in 0..100 {
//!     let answer = burst.execute_frame(&mut frame)?; // writes `output` in place
//!     assert_eq!(answer.output_shapes[0].dimensions, [1, 16]);
//! }
//! println!("p99: {} ns", burst.stats().latency.value_at_quantile(0.99));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | for | see |
//! |---|---|
//! | executing: requests, frames, several in flight | [`BurstController`], [`BurstFrame`] |
//! | why there is no answer, and when to go another way | [`BurstError`], [`Fallback`] |
//! | serving a prepared model, or an executor of one's own | [`BurstServer`], [`BurstExecutor`] |
//! | keeping something per slot | [`SlotCache`] |
//! | how long it took, and where | [`BurstStats`] |
//! | the packets themselves | [`packet`] |
//! | processor, priority, locked memory | [`realtime`] |

#![deny(unsafe_code)]

mod channel;
mod client;
pub mod packet;
mod processor;
pub mod realtime;
mod server;
mod stats;
mod sync;
mod sys;
#[cfg(feature = "testing")]
pub mod testing;

pub use channel::{MAX_QUEUE_ELEMENTS, PollingWindow};
pub use client::{
    BurstController, BurstError, BurstFrame, Closed, ControllerOptions, Fallback, LastRequest,
    Rejected, SubmitError,
};
pub use processor::Processor;
#[cfg(loom)]
pub use processor::model;
pub use server::{BurstExecutor, BurstServer, MAX_SLOTS, PreparedModelExecutor, SlotCache};
pub use stats::BurstStats;
