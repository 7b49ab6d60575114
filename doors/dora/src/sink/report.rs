//! The figures of a sink: counts, ages, gaps.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use dora_node_api::serde_json::{self, Value, json};
use hdrhistogram::Histogram;

use crate::infer::CPU;

/// Times in microseconds, up to a minute with three digits.
#[derive(Debug)]
struct Times(Histogram<u64>);

impl Times {
    fn new() -> Option<Self> {
        Histogram::new_with_bounds(1, 60_000_000, 3).ok().map(Self)
    }

    fn add(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    fn json(&self) -> Value {
        #[expect(clippy::cast_precision_loss, reason = "microseconds within a minute")]
        let ms = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        json!({ "p50": ms(0.5), "p90": ms(0.9), "p99": ms(0.99), "max": ms(1.0) })
    }
}

/// The results of a node, and the counts that it tells.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    results: u64,
    /// The counts of its last message of `status`.
    told: BTreeMap<String, i64>,
    /// The processor time that it had taken by the first of them.
    cpu_before: Option<i64>,
}

impl Sender {
    fn json(&self) -> Value {
        let Self { results, told, cpu_before } = self;
        let cpu = told.get(CPU).zip(*cpu_before).map(|(after, before)| after - before);
        json!({ "results": results, "told": told, "cpu_ms": cpu })
    }
}

/// The figures.
#[derive(Debug)]
pub(crate) struct SinkReport {
    begun: Instant,
    results: u64,
    /// The frames of each source by their highest number.
    sent: BTreeMap<String, i64>,
    /// Results that came after later ones had gone on.
    overtaken: u64,
    /// Frames that were told to be lost, by reason.
    lost: BTreeMap<String, u64>,
    ages: Option<Times>,
    driver: Option<Times>,
    last: Option<Instant>,
    longest_gap: Duration,
    senders: BTreeMap<String, Sender>,
}

impl SinkReport {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            results: 0,
            sent: BTreeMap::new(),
            overtaken: 0,
            lost: BTreeMap::new(),
            ages: Times::new(),
            driver: Times::new(),
            last: None,
            longest_gap: Duration::ZERO,
            senders: BTreeMap::new(),
        }
    }

    /// A result came from a node.
    pub(crate) fn arrived(&mut self, node: &str, age: Duration, driver: Option<Duration>) {
        let now = Instant::now();
        match self.last.replace(now) {
            Some(last) => self.longest_gap = self.longest_gap.max(now - last),
            None => self.begun = now,
        }
        self.results += 1;
        self.sender(node).results += 1;
        if let Some(ages) = &mut self.ages {
            ages.add(age);
        }
        if let (Some(times), Some(driver)) = (&mut self.driver, driver) {
            times.add(driver);
        }
    }

    fn sender(&mut self, node: &str) -> &mut Sender {
        self.senders.entry(node.to_owned()).or_default()
    }

    /// A frame of a source was heard of.
    pub(crate) fn seen(&mut self, source: &str, seq: i64) {
        let highest = self.sent.entry(source.to_owned()).or_insert(seq);
        *highest = (*highest).max(seq);
    }

    pub(crate) fn overtaken(&mut self) {
        self.overtaken += 1;
    }

    pub(crate) fn lost(&mut self, why: &str) {
        *self.lost.entry(why.to_owned()).or_default() += 1;
    }

    /// A node told its counts.
    pub(crate) fn told(&mut self, node: &str, counts: BTreeMap<String, i64>) {
        let sender = self.sender(node);
        if sender.cpu_before.is_none() {
            sender.cpu_before = counts.get(CPU).copied();
        }
        sender.told = counts;
    }

    /// The figures as JSON.
    pub(crate) fn json(&self) -> Value {
        let sent: i64 = self.sent.values().map(|highest| highest.saturating_add(1)).sum();
        let seconds = self.last.map_or(0.0, |last| (last - self.begun).as_secs_f64());
        let nodes: BTreeMap<_, _> =
            self.senders.iter().map(|(name, sender)| (name, sender.json())).collect();
        #[expect(clippy::cast_precision_loss, reason = "counts of a run")]
        let rate = if seconds > 0.0 { (self.results - 1) as f64 / seconds } else { 0.0 };
        json!({
            "sources": self.sent.len(),
            "sent": sent,
            "results": self.results,
            "overtaken": self.overtaken,
            "lost": self.lost,
            "seconds": seconds,
            "results_per_second": rate,
            "age_ms": self.ages.as_ref().map(Times::json),
            "driver_ms": self.driver.as_ref().map(Times::json),
            "longest_gap_ms": self.longest_gap.as_secs_f64() * 1e3,
            "nodes": nodes,
        })
    }

    /// The figures in a line.
    pub(crate) fn line(&self) -> String {
        let figures = self.json();
        let age = |name: &str| figures["age_ms"][name].as_f64().unwrap_or_default();
        format!(
            "{} of {} frames, {:.1} a second, age p50 {:.1} ms, p99 {:.1} ms, longest gap {:.0} ms, {} overtaken",
            self.results,
            figures["sent"],
            figures["results_per_second"].as_f64().unwrap_or_default(),
            age("p50"),
            age("p99"),
            self.longest_gap.as_secs_f64() * 1e3,
            self.overtaken
        )
    }

    /// Writes the figures, in place of those that were there.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or_else(|| Path::new(".")))?;
        serde_json::to_writer_pretty(&mut file, &self.json())?;
        file.write_all(b"\n")?;
        file.persist(path).map(|_| ()).map_err(|error| error.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written() {
        let mut report = SinkReport::new();
        assert_eq!(report.json()["results"], 0);
        for (seq, age) in [(0, 10), (2, 30)] {
            report.seen("a", seq);
            report.arrived("w0", Duration::from_millis(age), Some(Duration::from_millis(5)));
        }
        for cpu in [100, 130] {
            report.told("w0", BTreeMap::from([(CPU.to_owned(), cpu)]));
        }
        report.lost("dropped");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        report.write(&path).unwrap();
        let read: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((&read["sent"], &read["results"]), (&json!(3), &json!(2)));
        assert_eq!(read["lost"], json!({ "dropped": 1 }));
        let node = &read["nodes"]["w0"];
        assert_eq!((&node["results"], &node["cpu_ms"]), (&json!(2), &json!(30)));
        let p50 = read["age_ms"]["p50"].as_f64().unwrap();
        assert!((9.9..10.2).contains(&p50), "{p50}");
        assert!(report.line().starts_with("2 of 3 frames"), "{}", report.line());
    }
}
