//! The driver's side: a `Device` for whoever connects.

mod burst;
mod callbacks;
mod dispatch;
mod objects;
mod peer;
mod service;
mod session;

pub use peer::{Driver, Peer};
pub use service::{Service, Serving};

#[cfg(test)]
mod tests;
