//! The report of a service: its statistics now, and what happened since the look before.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime};

use nnburst::hal::{ErrorStatus, Latencies};
use nnburst::{
    ClientStatistics, Counts, ResourceUse, ServiceStatistics, Watched, WorkKind, WorkStatistics,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::process::memory_bytes;

/// A service.
#[derive(Debug, Serialize)]
pub(crate) struct ServiceReport {
    pub(crate) service: String,
    /// When it was looked at, in seconds since 1970.
    pub(crate) time_s: f64,
    pub(crate) pid: u32,
    pub(crate) age_s: f64,
    /// Memory of its process that is in RAM.
    pub(crate) resident_bytes: Option<u64>,
    /// False where clients of other users are left out.
    pub(crate) is_whole: bool,
    pub(crate) resources: BTreeMap<String, ResourceReport>,
    #[serde(flatten)]
    pub(crate) doing: Doing,
    /// Calls that were answered with an error, by status.
    pub(crate) refused: BTreeMap<&'static str, u64>,
    pub(crate) clients: Vec<ClientReport>,
    /// Models and bursts that are left out, since there are too many.
    pub(crate) left_out: u64,
    /// The times of all executions there ever were, for histograms.
    #[serde(skip)]
    pub(crate) times: Latencies,
}

/// A use of a kind of resource.
#[derive(Debug, Serialize)]
pub(crate) struct ResourceReport {
    pub(crate) used: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) refused: u64,
}

/// A client of a service.
#[derive(Debug, Serialize)]
pub(crate) struct ClientReport {
    pub(crate) connection: u64,
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) client: String,
    pub(crate) age_s: f64,
    pub(crate) resources: BTreeMap<String, ResourceReport>,
    #[serde(flatten)]
    pub(crate) doing: Doing,
    pub(crate) refused: BTreeMap<&'static str, u64>,
    /// Calls that wait for a thread of the connection.
    pub(crate) waiting_calls: u64,
    /// Its prepared models and its bursts.
    pub(crate) works: Vec<WorkReport>,
}

/// A prepared model, of which executions in bursts are told apart, or a burst.
#[derive(Debug, Serialize)]
pub(crate) struct WorkReport {
    pub(crate) kind: &'static str,
    pub(crate) object: u64,
    pub(crate) model: String,
    pub(crate) priority: Option<&'static str>,
    pub(crate) age_s: f64,
    pub(crate) queue_depth: u32,
    /// Memory that the client is charged for the model, its bursts included; `None` for a burst.
    pub(crate) memory_bytes: Option<u64>,
    #[serde(flatten)]
    pub(crate) doing: Doing,
    /// The times of all executions, for histograms.
    #[serde(skip)]
    pub(crate) times: Latencies,
}

/// Executions: counts of all, and times in the driver of those in the window.
#[derive(Debug, Serialize)]
pub(crate) struct Doing {
    pub(crate) executions: u64,
    pub(crate) failures: u64,
    pub(crate) missed_deadlines: u64,
    /// The window: since the look before, or else since it is there.
    pub(crate) window_s: f64,
    pub(crate) rate_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

/// The name of what is looked at again: a service, its process, connection and object; 0 stands
/// for all of them.
type Key = (String, u32, u64, u64);

/// Services that are looked at again and again.
#[derive(Debug, Default)]
pub(crate) struct Looker {
    last: HashMap<Key, (Instant, Latencies)>,
    next: HashMap<Key, (Instant, Latencies)>,
}

impl Looker {
    /// One service, or all; of these, one that is gone must not hide the others.
    pub(crate) fn look(&mut self, service: Option<&str>) -> Result<Vec<ServiceReport>, Failure> {
        let mut reports = Vec::new();
        if let Some(service) = service {
            reports.push(self.service(service)?);
        } else {
            for service in nnburst::services()? {
                match self.service(&service) {
                    Ok(report) => reports.push(report),
                    Err(failure) => crate::failure::warn(&failure.message),
                }
            }
        }
        self.last = std::mem::take(&mut self.next);
        Ok(reports)
    }

    fn service(&mut self, service: &str) -> Result<ServiceReport, Failure> {
        // Anew each time: a service may have been started again.
        let mut seen = Watched::connect(service)?.statistics()?;
        // This look is no client that anybody asked about.
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        seen.clients.retain(|client| client.pid != own || !client.works.is_empty());
        let ServiceStatistics { pid, age, is_whole, counts, uses, left_out, .. } = seen;
        let key = (service.to_owned(), pid, 0, 0);
        let clients = seen.clients.into_iter().map(|client| self.client(&key, client)).collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let refused = refused(&counts);
        let times = counts.times.clone();
        Ok(ServiceReport {
            service: service.to_owned(),
            time_s: (now.as_secs_f64() * 1e3).round() / 1e3,
            pid,
            age_s: age.as_secs_f64(),
            resident_bytes: memory_bytes(&pid.to_string(), "VmRSS:"),
            is_whole,
            resources: resources(uses),
            doing: self.doing(key, counts, age),
            refused,
            clients,
            left_out,
            times,
        })
    }

    fn client(&mut self, service: &Key, client: ClientStatistics) -> ClientReport {
        let ClientStatistics { connection, pid, uid, name, age, uses, counts, .. } = client;
        let ClientStatistics { waiting_calls, works, .. } = client;
        let key = (service.0.clone(), service.1, connection, 0);
        let works = works.into_iter().map(|work| self.work(&key, work)).collect();
        ClientReport {
            connection,
            pid,
            uid,
            client: printable(&name),
            age_s: age.as_secs_f64(),
            resources: resources(uses),
            refused: refused(&counts),
            doing: self.doing(key, counts, age),
            waiting_calls,
            works,
        }
    }

    fn work(&mut self, client: &Key, work: WorkStatistics) -> WorkReport {
        let key = (client.0.clone(), client.1, client.2, work.object);
        let times = work.times.clone();
        let counts = Counts {
            failures: work.failures,
            missed_deadlines: work.missed_deadlines,
            times: work.times,
            refused: Vec::new(),
        };
        WorkReport {
            kind: match work.kind {
                WorkKind::Model => "model",
                WorkKind::Burst => "burst",
            },
            object: work.object,
            model: printable(&work.model),
            priority: work.priority.map(|priority| priority.name()),
            age_s: work.age.as_secs_f64(),
            queue_depth: work.queue_depth,
            memory_bytes: work.memory_bytes,
            doing: self.doing(key, counts, work.age),
            times,
        }
    }

    fn doing(&mut self, key: Key, counts: Counts, age: Duration) -> Doing {
        let now = Instant::now();
        let (times, window) = match self.last.get(&key) {
            Some((then, before)) => {
                (counts.times.since(before), now.saturating_duration_since(*then))
            }
            None => (counts.times.clone(), age),
        };
        let executions = counts.times.count();
        self.next.insert(key, (now, counts.times));
        Doing {
            executions,
            failures: counts.failures,
            missed_deadlines: counts.missed_deadlines,
            window_s: window.as_secs_f64(),
            rate_per_s: rate(times.count(), window),
            p50_us: microseconds(times.quantile(500)),
            p90_us: microseconds(times.quantile(900)),
            p99_us: microseconds(times.quantile(990)),
            p999_us: microseconds(times.quantile(999)),
            max_us: microseconds(times.longest()),
        }
    }
}

/// To the nanosecond that it was recorded in, without what a binary fraction adds.
fn microseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e9).round() / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "a rate for the eye")]
fn rate(done: u64, within: Duration) -> f64 {
    let seconds = within.as_secs_f64();
    if seconds > 0.0 { (done as f64 / seconds * 10.0).round() / 10.0 } else { 0.0 }
}

/// By names without spaces, such as `file_descriptors`.
fn resources(uses: Vec<ResourceUse>) -> BTreeMap<String, ResourceReport> {
    let named = |it: ResourceUse| {
        let ResourceUse { resource, used, limit, refused } = it;
        (printable(&resource).replace(' ', "_"), ResourceReport { used, limit, refused })
    };
    uses.into_iter().map(named).collect()
}

fn refused(counts: &Counts) -> BTreeMap<&'static str, u64> {
    counts
        .refused
        .iter()
        .map(|&(status, count): &(ErrorStatus, u64)| (status.name(), count))
        .collect()
}

/// A process calls itself what it likes; a terminal must not obey it.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
