//! The settings as they are written, what they come to, and a list of them.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use nnburst::{ConnectionLimits, ServiceLimits, UserLimits};
use serde::Deserialize;

use super::Serving;
use super::amount::{Amount, Time, UNLIMITED, bytes, count};

/// The time after which scratch memory of models at rest is given back, where no setting says.
const IDLE: Duration = Duration::from_secs(10);

/// A file of settings, or those of a command line; what is left out is `None`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Text {
    threads: Option<NonZeroU16>,
    idle: Option<Time>,
    drain: Option<Time>,
    user: UserText,
    users: BTreeMap<String, UserText>,
    connection: ConnectionText,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct UserText {
    clients: Option<Amount>,
    models: Option<Amount>,
    memory: Option<Amount>,
    descriptors: Option<Amount>,
    bursts: Option<Amount>,
    realtime_bursts: Option<Amount>,
    executions: Option<Amount>,
    executions_per_second: Option<Amount>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct ConnectionText {
    models: Option<Amount>,
    buffers: Option<Amount>,
    bursts: Option<Amount>,
    fenced_executions: Option<Amount>,
    executions: Option<Amount>,
    memory: Option<Amount>,
    message: Option<Amount>,
    calls: Option<Amount>,
    descriptors: Option<Amount>,
    threads: Option<Amount>,
    waiting_calls: Option<Amount>,
}

/// A mistake in a text.
#[derive(Debug)]
pub(super) struct Mistake {
    /// The number of its line.
    pub(super) line: usize,
    pub(super) what: String,
}

impl Text {
    pub(super) fn parse(text: &str) -> Result<Self, Mistake> {
        toml::from_str(text).map_err(|error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(text);
            Mistake { line: before.matches('\n').count() + 1, what: error.message().to_owned() }
        })
    }
}

/// A `NAME=VALUE` of the command line as a line of a file, in which words have quotes.
pub(super) fn line(set: &str) -> String {
    match set.split_once('=') {
        Some((name, value)) if value.trim().parse::<u64>().is_err() => {
            format!("{name} = {value:?}")
        }
        _ => set.to_owned(),
    }
}

fn put(to: &mut u64, amount: Option<Amount>) {
    if let Some(Amount(amount)) = amount {
        *to = amount;
    }
}

impl UserText {
    fn put_on(&self, limits: &mut UserLimits) {
        put(&mut limits.clients, self.clients);
        put(&mut limits.models, self.models);
        put(&mut limits.memory_bytes, self.memory);
        put(&mut limits.descriptors, self.descriptors);
        put(&mut limits.bursts, self.bursts);
        put(&mut limits.executions, self.executions);
        put(&mut limits.executions_per_second, self.executions_per_second);
        let realtime = self.realtime_bursts.map(|Amount(amount)| amount);
        limits.realtime_bursts = realtime.or(limits.realtime_bursts);
    }
}

impl ConnectionText {
    fn put_on(&self, limits: &mut ConnectionLimits) {
        put(&mut limits.models, self.models);
        put(&mut limits.buffers, self.buffers);
        put(&mut limits.bursts, self.bursts);
        put(&mut limits.fenced_executions, self.fenced_executions);
        put(&mut limits.executions, self.executions);
        put(&mut limits.memory_bytes, self.memory);
        put(&mut limits.message_bytes, self.message);
        put(&mut limits.call_bytes, self.calls);
        put(&mut limits.descriptors, self.descriptors);
        put(&mut limits.threads, self.threads);
        put(&mut limits.waiting_calls, self.waiting_calls);
    }
}

/// Returns what texts come to, each of which is put over those before. A user's limits are those of
/// every user where nothing is said of it.
pub(super) fn resolve(
    texts: &[&Text],
    mut uid: impl FnMut(&str) -> Result<u32, String>,
) -> Result<Serving, String> {
    let (mut serving, mut limits) = (Serving::default(), ServiceLimits::default());
    for text in texts {
        text.user.put_on(&mut limits.user);
        text.connection.put_on(&mut limits.connection);
        serving.idle = text.idle.map(|Time(idle)| idle).or(serving.idle);
        serving.drain = text.drain.map(|Time(drain)| drain).or(serving.drain);
        serving.threads = text.threads.map(NonZeroU16::get).or(serving.threads);
    }
    for text in texts {
        for (name, user) in &text.users {
            let everybody = limits.user;
            user.put_on(limits.users.entry(uid(name)?).or_insert(everybody));
        }
    }
    // Without a thread nothing is ever answered.
    if limits.connection.threads == 0 {
        return Err("connection.threads is 0, expected 1 or more".to_owned());
    }
    serving.limits = limits;
    Ok(serving)
}

/// Every setting with its value, by the names that files have for them.
pub(crate) fn listed(serving: &Serving) -> Vec<(String, String)> {
    let ServiceLimits { user, users, connection } = &serving.limits;
    let idle = serving.idle.unwrap_or(IDLE).as_secs_f64();
    let drain = serving.drain.map(|drain| format!("{} s", drain.as_secs_f64()));
    let mut all = vec![
        ("threads".to_owned(), serving.threads.unwrap_or(1).to_string()),
        ("idle".to_owned(), format!("{idle} s")),
        ("drain".to_owned(), drain.unwrap_or_else(|| UNLIMITED.to_owned())),
    ];
    all.extend(of_user("user", user));
    for (uid, limits) in users {
        let same = of_user(&format!("users.{uid}"), user);
        let own = of_user(&format!("users.{uid}"), limits);
        all.extend(own.into_iter().filter(|setting| !same.contains(setting)));
    }
    let c = connection;
    let of_connection = [
        ("models", count(c.models)),
        ("buffers", count(c.buffers)),
        ("bursts", count(c.bursts)),
        ("fenced-executions", count(c.fenced_executions)),
        ("executions", count(c.executions)),
        ("memory", bytes(c.memory_bytes)),
        ("message", bytes(c.message_bytes)),
        ("calls", bytes(c.call_bytes)),
        ("descriptors", count(c.descriptors)),
        ("threads", count(c.threads)),
        ("waiting-calls", count(c.waiting_calls)),
    ];
    all.extend(of_connection.map(|(name, value)| (format!("connection.{name}"), value)));
    all
}

fn of_user(whose: &str, limits: &UserLimits) -> Vec<(String, String)> {
    let realtime = limits.realtime_bursts.map(count);
    let realtime =
        realtime.unwrap_or_else(|| "unlimited for the driver's own user, else 0".to_owned());
    let values = [
        ("clients", count(limits.clients)),
        ("models", count(limits.models)),
        ("memory", bytes(limits.memory_bytes)),
        ("descriptors", count(limits.descriptors)),
        ("bursts", count(limits.bursts)),
        ("realtime-bursts", realtime),
        ("executions", count(limits.executions)),
        ("executions-per-second", count(limits.executions_per_second)),
    ];
    values.map(|(name, value)| (format!("{whose}.{name}"), value)).into()
}
