//! The common base of the parts of crash tests.

use serde_json::{Value, json};

use crate::protocol::{CrashWork, Job, WorkerEvent};
use crate::worker::client::Client;
use crate::worker::pulse::{Pulse, send};

/// The environment of a part.
pub(in crate::worker) struct CrashPart<'a> {
    pub(in crate::worker) job: &'a Job,
    pub(in crate::worker) work: &'a CrashWork,
    pub(in crate::worker) client: &'a Client,
    pub(in crate::worker) pulse: &'a Pulse,
}

/// Reports that the worker has come to a point.
pub(super) fn ready(what: &str) {
    send(&WorkerEvent::Ready { what: what.to_owned() });
}

/// The number of events as a result.
pub(super) fn events(count: u64) -> Value {
    json!({"events": count})
}

/// Notes the case that runs, for a driver that dies in it.
pub(super) fn note_case(value: Value) {
    note("case", value);
}

/// Sends a part of the result.
pub(super) fn note(name: &str, value: Value) {
    send(&WorkerEvent::Part { name: name.to_owned(), value });
}
