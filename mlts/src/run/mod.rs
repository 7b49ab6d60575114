//! The coordinator's side of a piece of work: processes, their samples, and whose fault it was.

mod driver;
mod proc;
mod supervise;

pub(crate) use driver::{End, TestedDriver};
pub(crate) use proc::{Usage, cpu_seconds, wanted_share};
pub(crate) use supervise::{Ended, OnReady, Outcome, Program, Supervision, supervise};
