//! Prometheus' text format (version 0.0.4): families of samples with labels.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use nnburst::hal::Latencies;

use crate::commands::watch::{ClientReport, ServiceReport, WorkReport};

/// The media type of the format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of histograms, in powers of two nanoseconds: about 4 µs to 1 s. Buckets of latencies end
/// there, so that no count is a guess.
const BOUNDS: std::ops::RangeInclusive<u32> = 12..=30;

/// All samples of some services; `None` for one that doesn't answer.
pub(super) fn text(services: &[(&str, Option<ServiceReport>)], with_clients: bool) -> String {
    let mut families = Families::default();
    for (name, report) in services {
        let labels = Labels::default().with("service", name);
        let up = if report.is_some() { "1" } else { "0" };
        families.gauge("up", "Whether the service answers.", &labels, &up);
        if let Some(report) = report {
            service(&mut families, &labels, report);
            if with_clients {
                report.clients.iter().for_each(|it| client(&mut families, &labels, it));
            }
        }
    }
    families.text()
}

fn service(families: &mut Families, labels: &Labels, report: &ServiceReport) {
    families.gauge("age_seconds", "Time that the service has been there.", labels, &report.age_s);
    if let Some(bytes) = report.resident_bytes {
        families.gauge("resident_bytes", "Memory of its process in RAM.", labels, &bytes);
    }
    families.gauge("clients", "Clients that are connected.", labels, &report.clients.len());
    for (name, it) in &report.resources {
        let labels = labels.with("resource", name);
        families.gauge("resource_used", "Amount that all clients use.", &labels, &it.used);
        if let Some(limit) = it.limit {
            families.gauge("resource_limit", "Amount that they may use.", &labels, &limit);
        }
        let help = "Times that a client was refused more of it.";
        families.counter("resource_refused_total", help, &labels, &it.refused);
    }
    for (status, count) in &report.refused {
        let help = "Calls answered with an error, bursts apart.";
        families.counter("refused_calls_total", help, &labels.with("status", status), count);
    }
    let doing = &report.doing;
    let help = "Executions that failed.";
    families.counter("execution_failures_total", help, labels, &doing.failures);
    let help = "Executions that missed their deadline.";
    families.counter("missed_deadlines_total", help, labels, &doing.missed_deadlines);
    let help = "Time of executions in the driver.";
    families.histogram("execution_seconds", help, labels, &report.times);
}

fn client(families: &mut Families, labels: &Labels, client: &ClientReport) {
    let labels = labels
        .with("connection", &client.connection.to_string())
        .with("pid", &client.pid.to_string())
        .with("uid", &client.uid.to_string())
        .with("client", &client.client);
    for (name, it) in &client.resources {
        let labels = labels.with("resource", name);
        families.gauge("client_resource_used", "Amount that a client uses.", &labels, &it.used);
        let help = "Times that a client was refused more.";
        families.counter("client_resource_refused_total", help, &labels, &it.refused);
    }
    let refused = client.refused.values().sum::<u64>();
    let help = "Calls of a client answered with an error, bursts apart.";
    families.counter("client_refused_calls_total", help, &labels, &refused);
    let help = "Calls of a client that wait for a thread.";
    families.gauge("client_waiting_calls", help, &labels, &client.waiting_calls);
    client.works.iter().for_each(|it| work(families, &labels, it));
}

fn work(families: &mut Families, labels: &Labels, work: &WorkReport) {
    let labels = labels
        .with("kind", work.kind)
        .with("object", &work.object.to_string())
        .with("model", &work.model)
        .with("priority", work.priority.unwrap_or(""));
    let help = "Requests that a model or burst has taken or that wait.";
    families.gauge("work_queue_depth", help, &labels, &work.queue_depth);
    if let Some(memory) = &work.memory_bytes {
        let help = "Memory that a client is charged for a model, its bursts included.";
        families.gauge("work_memory_bytes", help, &labels, memory);
    }
    let doing = &work.doing;
    let help = "Executions of a model or burst that failed.";
    families.counter("work_failures_total", help, &labels, &doing.failures);
    let help = "Executions of a model or burst that missed their deadline.";
    families.counter("work_missed_deadlines_total", help, &labels, &doing.missed_deadlines);
    let help = "Time in the driver of executions of a model or burst.";
    families.histogram("work_seconds", help, &labels, &work.times);
}

/// The labels of a sample, as they are written.
#[derive(Clone, Debug, Default)]
struct Labels(String);

impl Labels {
    fn with(&self, name: &str, value: &str) -> Self {
        let mut text = self.0.clone();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' | '"' => text.extend(['\\', character]),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
        Self(text)
    }
}

/// Samples by family: the format has those of one together.
#[derive(Debug, Default)]
struct Families(Vec<(&'static str, String)>);

impl Families {
    fn gauge(&mut self, name: &'static str, help: &str, labels: &Labels, value: &dyn Display) {
        self.sample(name, "gauge", help, labels, value);
    }

    fn counter(&mut self, name: &'static str, help: &str, labels: &Labels, value: &dyn Display) {
        self.sample(name, "counter", help, labels, value);
    }

    fn sample(
        &mut self,
        name: &'static str,
        kind: &str,
        help: &str,
        labels: &Labels,
        value: &dyn Display,
    ) {
        let text = self.family(name, kind, help);
        // Writing to a string can't fail.
        let _ = writeln!(text, "nnburst_{name}{{{}}} {value}", labels.0);
    }

    fn histogram(&mut self, name: &'static str, help: &str, labels: &Labels, times: &Latencies) {
        let text = self.family(name, "histogram", help);
        let mut bucket = |bound: &str, count: u64| {
            let labels = labels.with("le", bound);
            let _ = writeln!(text, "nnburst_{name}_bucket{{{}}} {count}", labels.0);
        };
        for power in BOUNDS {
            let bound = Duration::from_nanos(1 << power);
            bucket(&bound.as_secs_f64().to_string(), times.at_most(bound));
        }
        bucket("+Inf", times.count());
        let (sum, count) = (times.total().as_secs_f64(), times.count());
        let _ = writeln!(text, "nnburst_{name}_sum{{{}}} {sum}", labels.0);
        let _ = writeln!(text, "nnburst_{name}_count{{{}}} {count}", labels.0);
    }

    /// The text of a family, which begins with what it is.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> &mut String {
        let known = self.0.iter().position(|&(known, _)| known == name);
        let at = known.unwrap_or_else(|| {
            let head = format!("# HELP nnburst_{name} {help}\n# TYPE nnburst_{name} {kind}\n");
            self.0.push((name, head));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    fn text(self) -> String {
        self.0.into_iter().map(|(_, text)| text).collect()
    }
}

#[cfg(test)]
mod tests {
    use nnburst::hal::LatencyRecorder;

    use super::*;

    #[test]
    fn labels_keep_their_quotes() {
        let labels = Labels::default().with("a", "1").with("b", "x\"y\\z\n");
        assert_eq!(labels.0, r#"a="1",b="x\"y\\z\n""#);
    }

    #[test]
    fn samples_of_a_family_lie_together_and_buckets_add_up() {
        let recorder = LatencyRecorder::default();
        for micros in [1, 10, 100, 3_000_000] {
            recorder.record(Duration::from_micros(micros));
        }
        let mut families = Families::default();
        for service in ["a", "b"] {
            let labels = Labels::default().with("service", service);
            families.gauge("up", "Up.", &labels, &1);
            families.histogram("t", "Times.", &labels, &recorder.snapshot());
        }
        let text = families.text();
        assert!(text.starts_with(
            "# HELP nnburst_up Up.\n# TYPE nnburst_up gauge\nnnburst_up{service=\"a\"} 1\n\
             nnburst_up{service=\"b\"} 1\n# HELP nnburst_t Times.\n"
        ));
        let count = |bound: &str| {
            let sample = format!("nnburst_t_bucket{{service=\"a\",le=\"{bound}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&sample)).unwrap();
            line.parse::<u64>().unwrap()
        };
        let bounds = ["0.000004096", "0.000016384", "0.000131072", "1.073741824", "+Inf"];
        assert_eq!(bounds.map(count), [1, 2, 3, 3, 4]);
        assert!(text.contains("nnburst_t_count{service=\"b\"} 4"), "{text}");
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_there_are() {
        const DASHBOARD: &str = include_str!("../../../../docs/grafana-dashboard.json");
        let _: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
        let name = regex::Regex::new("nnburst_([a-z_]+)").unwrap();
        let mut names: Vec<_> =
            name.captures_iter(DASHBOARD).map(|found| found.get(1).unwrap().as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            let family = name.trim_end_matches("_bucket").trim_end_matches("_count");
            let is_there = include_str!("exposition.rs").contains(&format!("(\"{family}\","));
            assert!(is_there, "{name}");
        }
    }
}
