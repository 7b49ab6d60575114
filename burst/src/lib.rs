//! Executions of a prepared model through two shared-memory queues: the burst protocol of the Android
//! Neural Networks HAL 1.2 and 1.3, packet by packet, and what nnburst adds to it.
//!
//! ```text
//!   client                                                    driver
//!   Request ─► RequestDatum, RequestDatum, ... ─► request queue ─► BurstRequest ─┐
//!                                                                                executor
//!   BurstAnswer ◄─ result queue ◄─ ..., ResultDatum, ResultDatum ◄─ BurstAnswer ─┘
//! ```
//!
//! A packet is a run of 24-byte elements, published with one store. [`packet`] turns requests and answers
//! into packets and back, into storage that is used again and again: in the steady state nothing allocates.
//!
//! ```
//! use nnburst_burst::packet::{BurstPool, BurstRequest, Dialect, deserialize_request, serialize_request};
//! use nnburst_hal::{DataLocation, ExecutionOptions, Request, RequestArgument};
//!
//! let argument = |pool_index| RequestArgument {
//!     location: DataLocation { pool_index, offset: 0, length: 16 },
//!     ..RequestArgument::default()
//! };
//! let request = Request { inputs: vec![argument(0)], outputs: vec![argument(1)], pools: Vec::new() };
//! let pools = [BurstPool::Slot(0), BurstPool::Slot(1)];
//!
//! let mut packet = Vec::new();
//! serialize_request(&request, &pools, &ExecutionOptions::default(), Dialect::Android, &mut packet)?;
//! assert_eq!(packet.len(), 2 + 1 + 1 + 2);
//!
//! let mut received = BurstRequest::default();
//! deserialize_request(&packet, Dialect::Android, &mut received)?;
//! assert_eq!(received.request.inputs, request.inputs);
//! assert_eq!(received.pools, pools);
//! # Ok::<(), nnburst_burst::packet::PacketError>(())
//! ```

#![forbid(unsafe_code)]

pub mod packet;
#[cfg(feature = "testing")]
pub mod testing;
