//! The driver's side: a `Device` for whoever connects.

mod account;
mod burst;
mod callbacks;
mod dispatch;
mod fenced;
mod greeters;
mod handover;
mod objects;
mod peer;
mod service;
mod serving;
mod session;
mod statistics;

pub use peer::{Driver, Peer};
pub use service::Service;
pub use serving::{BoundService, Serving, Succession};
pub use statistics::{
    ClientStatistics, Counts, ResourceUse, ServiceStatistics, WorkKind, WorkStatistics,
};

#[cfg(test)]
mod tests;
