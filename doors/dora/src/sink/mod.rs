//! The role `sink`: restores the order of results, and reports their age.

mod order;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use dora_node_api::{Parameter, get_integer_param, get_string_param};
use nnburst_doors_common::{Grammar, Key, Log};

use self::order::ResultOrder;
use self::report::SinkReport;
use crate::Failure;
use crate::deal::LOST;
use crate::infer::STATUS;
use crate::node::{Happened, Message, Node};
use crate::settings::{Own, SettingsError, key, pairs};
use crate::stamp::{DRIVER, NODE, Stamp, handed_on};

pub(crate) const GRAMMAR: Grammar = Grammar { shared: &[], own: &OWN };

const OWN: [Key; 3] = [
    key("report", "a file", "", "where the figures are written, each second and at the end"),
    key("wait", "milliseconds from 0 to 60000", "500", "how long a result waits for earlier ones"),
    key("sources", "a number from 1 to 4096", "64", "the most sources that are told apart"),
];

/// The output for results in order.
const RESULTS: &str = "results";
const LOOK: Duration = Duration::from_millis(50);
const TELL: Duration = Duration::from_secs(1);

struct Settings {
    report: Option<PathBuf>,
    wait: Duration,
    sources: usize,
}

impl Settings {
    fn parse(args: &[String]) -> Result<Self, SettingsError> {
        let options = GRAMMAR.parse(pairs(args)?)?;
        let own = Own { grammar: GRAMMAR, options: &options };
        Ok(Self {
            report: own.text("report").map(PathBuf::from),
            wait: Duration::from_millis(own.number("wait", 0, 60_000)?),
            sources: own.number("sources", 1, 4096)?,
        })
    }
}

/// Plays the role until the dataflow ends.
///
/// # Errors
/// The settings can't be used, or dora is gone.
pub(crate) fn run(args: &[String], log: &Log) -> Result<(), Failure> {
    let settings = Settings::parse(args)?;
    let mut node = Node::open(log)?;
    let mut sink = Sink {
        settings,
        report: SinkReport::new(),
        sources: BTreeMap::new(),
        count: 0,
        begun: Instant::now(),
    };
    let mut tell = Instant::now() + TELL;
    loop {
        let happened = match node.poll() {
            Some(happened) => happened,
            None => node.wait_until(Instant::now() + LOOK),
        };
        match happened {
            Happened::Message(message) => sink.receive(message),
            Happened::End { .. } => break,
            Happened::Closed(_) | Happened::Back(_) | Happened::Nothing => {}
        }
        sink.send(&mut node, sink.begun.elapsed())?;
        if Instant::now() >= tell {
            tell = Instant::now() + TELL;
            sink.write()?;
        }
    }
    sink.send(&mut node, Duration::MAX)?;
    sink.write()?;
    log.summary(&sink.report.line());
    Ok(())
}

struct Sink {
    settings: Settings,
    report: SinkReport,
    sources: BTreeMap<String, ResultOrder<Message>>,
    count: i64,
    begun: Instant,
}

impl Sink {
    fn receive(&mut self, message: Message) {
        let parameters = &message.metadata.parameters;
        if message.input.ends_with(STATUS) {
            let counts = parameters.iter().filter_map(|(name, value)| match value {
                Parameter::Integer(value) => Some((name.clone(), *value)),
                _ => None,
            });
            let node = message.input.trim_end_matches(STATUS).trim_end_matches('-');
            self.report.told(node, counts.collect());
            return;
        }
        let stamp = Stamp::of(&message.input, &message.metadata, self.count);
        self.count += 1;
        if self.sources.len() >= self.settings.sources && !self.sources.contains_key(&stamp.source)
        {
            self.sources.pop_first();
        }
        self.report.seen(&stamp.source, stamp.seq);
        let wait = self.settings.wait;
        let order =
            self.sources.entry(stamp.source.clone()).or_insert_with(|| ResultOrder::new(wait));
        if message.input == LOST {
            self.report.lost(get_string_param(parameters, "why").unwrap_or("unknown"));
            order.lose(stamp.seq);
            return;
        }
        let driver = get_integer_param(parameters, DRIVER).and_then(|us| u64::try_from(us).ok());
        let node = get_string_param(parameters, NODE).unwrap_or(&message.input);
        let age = stamp.age(SystemTime::now());
        self.report.arrived(node, age, driver.map(Duration::from_micros));
        if order.put(stamp.seq, message, self.begun.elapsed()).is_some() {
            self.report.overtaken();
        }
    }

    /// Sends what needs to wait no longer.
    fn send(&mut self, node: &mut Node, now: Duration) -> Result<(), Failure> {
        for order in self.sources.values_mut() {
            while let Some(message) = order.take(now) {
                let parameters = handed_on(&message.metadata.parameters);
                node.send(RESULTS, parameters, message.data)?;
            }
        }
        Ok(())
    }

    fn write(&self) -> Result<(), Failure> {
        let Some(path) = &self.settings.report else { return Ok(()) };
        self.report.write(path).map_err(|error| format!("{}: {error}", path.display()).into())
    }
}
