//! The worker: one piece of work against one driver, in a process of its own.
//!
//! What the driver, its client library or a kernel does to this process, it does to nobody else:
//! the coordinator sees the process end or stop, and says whose fault it was.

mod client;
mod crash;
mod library;
mod model;
mod outcome;
mod pulse;
mod sequence;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use crash::leak_terms;
pub(crate) use model::{memory_folder, rank};

use crate::protocol::{JOB, Job, Task, WorkerEvent};
use client::Client;
use outcome::{Outcome, Stopped};
use pulse::{Pulse, send};

/// As [`serve_worker`], for programs with devices of their own: a target
/// [`Target::in_worker`](crate::Target::in_worker) is the device that `devices` makes for its name.
pub fn serve_worker_with(
    devices: impl Fn(&str) -> Option<Arc<dyn nnburst::hal::Device>> + Send + Sync + 'static,
) -> bool {
    client::bring_devices(Box::new(devices));
    serve_worker()
}

/// Does the work of a worker, if this process was started as one, and returns whether it was:
/// programs that run a [`Suite`](crate::Suite) call it first of all, and end where it is true.
pub fn serve_worker() -> bool {
    let Some(path) = std::env::var_os(JOB) else { return false };
    let job = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    let job = job.and_then(|text| serde_json::from_str::<Job>(&text).map_err(|e| e.to_string()));
    // Lives until the result is out.
    let mut client = None;
    let event = match job {
        Err(why) => {
            WorkerEvent::Failed { reason: format!("the worker's job: {why}"), detail: Value::Null }
        }
        Ok(job) => match run(&job, &mut client) {
            Ok(value) => WorkerEvent::Done { value },
            Err(Stopped::Failed(reason, detail)) => WorkerEvent::Failed { reason, detail },
            Err(Stopped::Skipped(reason)) => WorkerEvent::Skipped { reason },
        },
    };
    send(&event);
    if matches!(event, WorkerEvent::Failed { .. }) {
        std::thread::sleep(CONNECTED);
    }
    drop(client);
    true
}

/// The time that a worker that failed stays connected, so that a driver that has ended is told from
/// one that ends because its client does.
pub(crate) const CONNECTED: std::time::Duration = std::time::Duration::from_millis(200);

fn run(job: &Job, kept: &mut Option<Client>) -> Outcome<Value> {
    let pulse = Pulse::start();
    if let Task::Crash(work) = &job.work
        && crash::is_without_client(&work.part)
    {
        return crash::run(job, work, None, &pulse);
    }
    let client = pulse.during("connect", || Client::open(job));
    let client = client.map_err(|error| Stopped::from(error).during("connecting"))?;
    let client = &*kept.insert(client);
    match &job.work {
        Task::About => {
            let about = pulse.during("questions", || client.about())?;
            Ok(serde_json::to_value(about).unwrap_or_default())
        }
        Task::Model(work) => model::run(client, work, job.driver_pid, &pulse),
        Task::Crash(work) => crash::run(job, work, Some(client), &pulse),
    }
}
