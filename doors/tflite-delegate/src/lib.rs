//! An external delegate for TFLite: what an interpreter has to compute runs on a driver of nnburst,
//! in the interpreter's process or isolated in one of its own.
//!
//! ```text
//!   load_delegate ─► create ─► DelegateState: options, device
//!   Interpreter(..) ─► prepare ─► HostFile (the model in memory) ─► Claim ─► parts ─► kernels
//!   invoke ─► DelegateKernel: tensors ─► frame ── burst ──► driver ──► frame ─► tensors
//! ```
//!
//! | file | |
//! |---|---|
//! | `abi.rs`, `host.rs` | TFLite's structs; the interpreter behind safe calls |
//! | `entry.rs` | the functions that interpreters call |
//! | `options.rs` | the delegate's options |
//! | `maps.rs`, `model_file.rs` | the model's file, found in memory |
//! | `claim.rs`, `part.rs` | which operators are taken; a partition as a model |
//! | `delegate.rs`, `bench.rs` | what kernels share: the device, compilations |
//! | `kernel.rs` | a partition that runs |
//!
//! docs/delegate.md shows its use.

mod abi;
mod bench;
mod claim;
mod delegate;
mod entry;
mod host;
mod kernel;
mod maps;
mod model_file;
mod options;
mod part;
