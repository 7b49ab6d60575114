//! The acceptance suite for any driver of the Neural Networks HAL: accuracy, latency, support and
//! crash tests of a driver that is embedded, spawned, served, or behind a libneuralnetworks.so.
//!
//! ```text
//!   Suite (coordinator: loads no driver) ──► Report ──► JSON, HTML
//!     ├─ worker   this program again, one for each model and test; events on a pipe
//!     ├─ probe    a second client beside a test, where the driver serves several
//!     └─ driver   started, watched, killed and started again
//! ```
//!
//! A program that runs a [`Suite`] is its own workers' program: it calls [`serve_worker`] first.
//!
//! ```no_run
//! use nnburst_mlts::{Suite, Target, serve_worker};
//!
//! if !serve_worker() {
//!     let suite = Suite::quick().target(Target::command("./my-driver")?).models("models");
//!     suite.run()?.expect_pass()?;
//! }
//! # Ok::<(), nnburst_mlts::MltsError>(())
//! ```
//!
//! `docs/mlts.md` says what is measured, and how to read the report.
#![deny(unsafe_code)]

/// The examples of the manual are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/mlts.md")]
struct Manual;

mod conditions;
mod data;
mod error;
mod evaluators;
mod num;
pub mod photo;
mod protocol;
mod report;
mod run;
mod suite;
mod sys;
mod target;
mod worker;

pub use error::MltsError;
pub use protocol::CallMode;
pub use report::{
    About, Accuracy, Bisection, BothProcesses, CallSettings, CaseReport, Change, Comparison,
    CompileTimes, CrashReport, EvaluatorReport, Host, Latency, ModelReport, ModelResult, OpSupport,
    PeerLatency, Peers, Percentiles, PlanItem, Probe, Recovery, Report, Rest, SCHEMA, Skipped,
    Support, TargetReport, Times, WrongAnswer, WrongValue, compare, csv, html,
};
pub use suite::{Accept, CrashTest, Progress, Replayed, RunBudget, Suite, What, crash_tests};
pub use target::{How, Target};
pub use worker::{serve_worker, serve_worker_with};
