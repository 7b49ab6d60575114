//! The driver's side: a `Device` for whoever connects.

mod account;
mod burst;
mod callbacks;
mod dispatch;
mod fenced;
mod greeters;
mod objects;
mod peer;
mod service;
mod session;
mod watch;

pub use peer::{Driver, Peer};
pub use service::{BoundService, Service, Serving};
pub use watch::ServiceBurst;

#[cfg(test)]
mod tests;
