//! The Neural Networks HAL between processes.
//!
//! ```text
//!   client process                              driver process
//!     RemoteDevice ─┐                          ┌─ Service ── Session per client ── dyn Device
//!     RemotePreparedModel ─ one connection ────┤    objects by number, limits per client
//!     RemoteBuffer ─┘  calls ► ◄ answers       └─ killed or hung up: all of the client's is freed
//!                      ◄ callbacks, questions
//! ```
//!
//! A driver is served on a Unix socket and is a [`Device`](nnburst_hal::Device) again on the other
//! side: memory, fences and queues travel as file descriptors, callbacks the other way, and objects
//! live as long as the client holds them. Many calls of many threads share the connection. When
//! either side dies, the other notices at once.
//!
//! ```no_run
//! use nnburst_hal::Device;
//! use nnburst_hal_ipc::RemoteDevice;
//!
//! let device = RemoteDevice::connect("nnburst-cpu")?;
//! println!("{} {}", device.name(), device.version_string()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod activation;
mod client;
mod connection;
mod directory;
mod fences;
mod limits;
mod listening;
mod manager;
mod pool;
mod process;
mod server;
mod socket;
mod spawn;
mod sys;
#[cfg(feature = "testing")]
pub mod testing;
mod wire;

pub use client::{
    ConnectError, RemoteBuffer, RemoteDevice, RemotePreparedModel, RemoteTracing, hang_up_on_all,
};
pub use directory::{
    DirectoryError, is_served, service_dir, service_owners, services, socket_path,
};
pub use fences::FenceWaiter;
pub use limits::{ConnectionLimits, ServiceLimits, UserLimits};
pub use manager::ServiceManager;
pub use pool::Pool;
pub use process::{ProcessLimits, raise_descriptor_limit};
pub use server::{
    BoundService, ClientStatistics, Counts, Driver, Peer, ResourceUse, Service, ServiceStatistics,
    Serving, Succession, WorkKind, WorkStatistics,
};
pub use spawn::{Spawned, inherited};
pub use wire::{PROTOCOL_VERSION, WireError, decode, encode};
