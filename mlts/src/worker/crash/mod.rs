//! The crash tests' parts that run in a client's process.

mod burst_lies;
mod cache_lies;
mod deadlines;
mod degradation;
mod endurance;
mod graphs;
mod leak;
mod mapped;
mod memory_lies;
mod mutations;
mod part;
mod pending;
mod pressure;
mod priorities;
mod probe;
mod stress;
mod subjects;

use serde_json::Value;

use super::client::Client;
use super::outcome::{Outcome, Stopped};
use super::pulse::Pulse;
use crate::protocol::{CrashWork, Job};
use part::{CrashPart, events};

/// The rounds of the leak test, and the pause after each.
pub(crate) fn leak_terms() -> (usize, std::time::Duration) {
    (leak::ROUNDS, leak::PAUSE)
}

/// Returns whether a part needs no driver: the suite's tests of itself.
pub(super) fn is_without_client(part: &str) -> bool {
    part.starts_with("self-")
}

pub(super) fn run(
    job: &Job,
    work: &CrashWork,
    client: Option<&Client>,
    pulse: &Pulse,
) -> Outcome<Value> {
    let Some(client) = client else { return self_test(&work.part) };
    let part = CrashPart { job, work, client, pulse };
    match work.part.as_str() {
        "stress" => stress::run(&part),
        "load" => stress::load(&part),
        "busy" => stress::busy(&part),
        "answer" => subjects::answer(&part),
        "pending" => pending::run(&part),
        "graphs" => graphs::run(&part),
        "mutations" => mutations::models(&part),
        "requests" => mutations::requests(&part),
        "burst-lies" => burst_lies::run(&part),
        "cache-lies" => cache_lies::run(&part),
        "deadlines" => deadlines::run(&part),
        "degradation" => degradation::run(&part),
        "leak" => leak::run(&part),
        "mapped" => mapped::run(&part),
        "memory-lies" => memory_lies::run(&part),
        "pressure" => pressure::run(&part),
        "priorities" => priorities::run(&part),
        "endurance" => endurance::run(&part),
        "probe" => probe::run(&part),
        other => Err(Stopped::failed(format!("there is no part {other:?}"))),
    }
}

/// Bodies that do nothing, get stuck, or die: what the coordinator has to tell apart.
#[expect(clippy::empty_loop, clippy::exit, reason = "being stuck and ending are the point")]
fn self_test(part: &str) -> Outcome<Value> {
    match part {
        "self-nothing" => Ok(events(0)),
        "self-stuck" => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        "self-spin" => loop {},
        "self-exit" => std::process::exit(7),
        "self-killed" => {
            let this = nix::unistd::getpid();
            let _ = nix::sys::signal::kill(this, nix::sys::signal::Signal::SIGSEGV);
            Ok(Value::Null)
        }
        other => Err(Stopped::failed(format!("there is no part {other:?}"))),
    }
}
