//! One pass over a model: support, compilation, accuracy, latency.
//!
//! Each finished part is sent at once, so that a driver that dies in the third has the first two.

mod accuracy;
mod bisect;
mod compile;
mod disturbance;
mod latency;
mod pass;
mod photos;
mod support;
mod tasks;

pub(crate) use accuracy::rank;
pub(crate) use compile::memory_folder;

use nnburst::hal::tflite_extension;
use serde::Serialize;
use serde_json::Value;

use super::client::Client;
use super::outcome::{Outcome, Stopped};
use super::pulse::{Pulse, send};
use crate::data::{LoadFailure, Loaded};
use crate::protocol::{ModelWork, Via, WorkerEvent};
use pass::{Pass, ReferenceModel};

pub(super) fn run(
    client: &Client,
    work: &ModelWork,
    driver_pid: Option<u32>,
    pulse: &Pulse,
) -> Outcome<Value> {
    let extension = client.has_extension(tflite_extension::NAME);
    let loaded = match Loaded::open(&work.model, work.relaxed, extension) {
        Ok(loaded) => loaded,
        Err(LoadFailure::Skipped(why)) => return Err(Stopped::Skipped(why)),
        Err(LoadFailure::Broken(why)) => return Err(Stopped::failed(why)),
    };
    let support = support::ask(client, &loaded, pulse)?;
    part("support", &support);
    if support.taken == 0 {
        return Err(Stopped::Skipped("the driver takes none of its operations".to_owned()));
    }
    let is_whole = support.is_whole();
    let prepared = if is_whole {
        client.prepare(&loaded.model, pulse)
    } else {
        client.prepare_partly(&loaded.model, pulse)
    };
    let what = if is_whole { "compiling, all operations taken" } else { "compiling" };
    let prepared = prepared.map_err(|error| Stopped::from(error).during(what))?;
    if work.compile && is_whole {
        part("compile_ms", &compile::measure(client, &loaded.model, work, pulse)?);
    }
    let reference = match &work.reference {
        Some(target) => {
            let device = Client::open_target(target, &Via::Own)?;
            ReferenceModel::compile(&device, &loaded, work, pulse)
        }
        None => None,
    };
    let pass = Pass { work, loaded: &loaded, prepared, reference, pulse, is_whole, driver_pid };
    if work.latency {
        let latency = latency::measure(&pass)?;
        part("latency", &latency.modes);
        part("reference_latency", &latency.reference);
        part("throughput", &latency.throughput);
        part("refused_settings", &latency.refused_settings);
    }
    if work.accuracy && !(work.model.cases.is_empty() && work.model.photos.is_empty()) {
        let accuracy = accuracy::judge(&pass)?;
        part("accuracy", &accuracy);
        if work.bisect_wrong && bisect::is_worth_it(&accuracy.tier) {
            part("bisection", &bisect::run(client, &pass)?);
        }
    }
    if work.bisect {
        part("bisection", &bisect::run(client, &pass)?);
    }
    Ok(Value::Null)
}

fn part(name: &str, value: &impl Serialize) {
    let value = serde_json::to_value(value).unwrap_or_default();
    send(&WorkerEvent::Part { name: name.to_owned(), value });
}
