//! The results of a run: JSON for machines, one HTML page for people.

mod compare;
mod csv;
mod html;
mod peers;
mod schema;

pub use compare::{Change, Comparison, compare};
pub use csv::csv;
pub use html::html;
pub use peers::Peers;
pub use schema::{
    About, Accuracy, Bisection, BothProcesses, CallSettings, CaseReport, CompileTimes, CrashReport,
    EvaluatorReport, Host, Latency, ModelReport, ModelResult, OpSupport, PeerLatency, Percentiles,
    PlanItem, Probe, Recovery, Report, Rest, SCHEMA, Skipped, Support, TargetReport, Times,
    WrongAnswer, WrongValue,
};
