//! One file per command.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod dot;
pub(crate) mod metrics;
pub(crate) mod mlts;
pub(crate) mod profile;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod trace;
pub(crate) mod vts;
pub(crate) mod watch;
