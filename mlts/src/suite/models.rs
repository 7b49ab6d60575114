//! One pass over a model, from a worker's parts to the report.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::RunContext;
use super::{RunBudget, Suite, What};
use crate::data::ModelEntry;
use crate::evaluators::shown;
use crate::protocol::{ModelWork, Task};
use crate::report::{BothProcesses, EvaluatorReport, ModelReport, ModelResult, Report};
use crate::run::{Ended, Outcome, TestedDriver};
use crate::target::Target;
use crate::worker::rank;

impl Suite {
    /// Runs a model and puts the result into the report.
    pub(super) fn run_model(
        &self,
        id: &str,
        target: &Target,
        entry: &ModelEntry,
        context: &RunContext,
        report: &mut Report,
    ) -> (String, String) {
        let work = ModelWork {
            model: entry.clone(),
            modes: self.modes.clone(),
            reference: self.reference.clone(),
            support: true,
            compile: self.has(What::Compile),
            accuracy: self.has(What::Accuracy),
            latency: self.has(What::Latency),
            latency_ms: context.budget.latency_ms(),
            compile_ms: context.budget.compile_ms(),
            photos: context.budget.photos(&entry.id),
            relaxed: self.relaxed,
            bisect: self.bisect.as_ref().is_some_and(|model| *model == entry.id),
            bisect_wrong: self.budget == RunBudget::Full,
            calls: self.calls(),
        };
        let planned = context.budget.model_estimate(entry, &self.modes, &self.calls()) * 3.0;
        let planned = Duration::from_secs_f64(planned.max(30.0));
        let ended = TestedDriver::start(target).and_then(|mut driver| {
            context.work(target, Task::Model(Box::new(work)), &mut driver, planned, None)
        });
        let result = match ended {
            Ok(ended) => self.result(entry, ended),
            Err(error) => ModelResult {
                outcome: Outcome::Failure.name().to_owned(),
                reason: error.to_string(),
                ..ModelResult::default()
            },
        };
        let said = (result.outcome.clone(), result.reason.clone());
        let known = report.models.iter_mut().find(|model| model.id == entry.id);
        let row = match known {
            Some(row) => row,
            None => {
                report.models.push(describe(entry));
                let Some(row) = report.models.last_mut() else { return said };
                row
            }
        };
        row.per_target.insert(id.to_owned(), result);
        said
    }

    fn result(&self, entry: &ModelEntry, mut ended: Ended) -> ModelResult {
        let mut result = ModelResult {
            outcome: ended.outcome.name().to_owned(),
            process: ended.process.take(),
            reason: std::mem::take(&mut ended.reason),
            support: part(&mut ended.parts, "support"),
            compile_ms: part(&mut ended.parts, "compile_ms"),
            accuracy: part(&mut ended.parts, "accuracy"),
            bisection: part(&mut ended.parts, "bisection"),
            latency: part(&mut ended.parts, "latency").unwrap_or_default(),
            throughput: part(&mut ended.parts, "throughput").unwrap_or_default(),
            refused_settings: part(&mut ended.parts, "refused_settings").unwrap_or_default(),
            reference_latency: part(&mut ended.parts, "reference_latency"),
            rss_mib: BothProcesses { driver: ended.driver.rss_mib, client: ended.client.rss_mib },
            cpu_s: BothProcesses { driver: ended.driver.cpu_s, client: ended.client.cpu_s },
            ..ModelResult::default()
        };
        if ended.outcome == Outcome::Skipped {
            result.skipped.clone_from(&result.reason);
        } else if self.has(What::Accuracy) && entry.cases.is_empty() && entry.photos.is_empty() {
            "no data for accuracy: --models".clone_into(&mut result.skipped);
        }
        let has_data = !(entry.cases.is_empty() && entry.photos.is_empty());
        if ended.outcome == Outcome::Success
            && self.has(What::Accuracy)
            && has_data
            && result.accuracy.is_none()
        {
            // What nobody has compared is not right.
            Outcome::Failure.name().clone_into(&mut result.outcome);
            "accuracy: the worker reported none".clone_into(&mut result.reason);
        }
        if let Some(accuracy) = &mut result.accuracy {
            let reaches = rank(&accuracy.tier) <= rank(self.accept.name());
            let limits = accuracy.evaluators.iter().find(|evaluator| !evaluator.ok);
            accuracy.ok =
                reaches && limits.is_none() && accuracy.deterministic && accuracy.modes_agree;
            if accuracy.reason.is_empty() && !accuracy.ok {
                accuracy.reason = match limits {
                    Some(evaluator) => format!("{}: {}", evaluator.name, beyond(evaluator)),
                    None => below(accuracy, self.accept.name()),
                };
            }
            if !accuracy.ok && ended.outcome == Outcome::Success {
                Outcome::Failure.name().clone_into(&mut result.outcome);
                result.reason = format!("accuracy: {}", accuracy.reason);
            }
        }
        if !matches!(result.outcome.as_str(), "SUCCESS" | "SKIPPED") {
            result.stderr_tail = ended.stderr;
            if !ended.threads.is_empty() {
                result.stderr_tail = format!("{}\n{}", ended.threads, result.stderr_tail);
            }
        }
        result
    }
}

fn part<T: DeserializeOwned>(parts: &mut BTreeMap<String, Value>, name: &str) -> Option<T> {
    serde_json::from_value(parts.remove(name)?).ok()
}

/// The figures that are beyond their limits, in words.
fn beyond(evaluator: &EvaluatorReport) -> String {
    let pairs = evaluator.beyond.iter().filter_map(|name| {
        let (value, limit) = (evaluator.values.get(name)?, evaluator.limits.get(name)?);
        Some(format!("{name} is {value:.4}, limit {limit:.4}"))
    });
    pairs.collect::<Vec<_>>().join("; ")
}

/// The first case below the tier, in words.
fn below(accuracy: &crate::report::Accuracy, accept: &str) -> String {
    let worst = accuracy.cases.iter().find(|case| rank(&case.tier) > rank(accept));
    let Some(case) = worst else { return format!("below the tier {accept}") };
    let first = case.first.map_or_else(String::new, |first| {
        format!(
            "; the first wrong value is output {} element {}: {}, expected {}",
            first.output,
            first.index,
            shown(first.actual),
            shown(first.expected)
        )
    });
    let (name, differ, of) = (&case.name, case.differ, case.of);
    let hint = if case.hint.is_empty() { String::new() } else { format!("; {}", case.hint) };
    format!(
        "{name} is not {accept}: {differ} of {of} values differ, by {:.4e} at most{first}{hint}",
        case.max_abs
    )
}

fn describe(entry: &ModelEntry) -> ModelReport {
    ModelReport {
        id: entry.id.clone(),
        sha256: entry.sha256.clone(),
        licence: entry.licence.clone(),
        origin: entry.origin.clone(),
        what: entry.what.clone(),
        macs: entry.macs,
        bytes: entry.bytes,
        per_target: BTreeMap::new(),
        peers: Vec::new(),
    }
}
