//! Failing cases, kept in files and run again alone.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::catalogue::crash_tests;
use super::context::RunContext;
use super::{RunBudget, crash};
use crate::error::MltsError;
use crate::protocol::{CrashWork, Job, Task};
use crate::report::CrashReport;
use crate::run::{Ended, TestedDriver};

/// A kept case: the job that failed, and how.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    schema: u32,
    /// The budget that says how much of the test there was.
    budget: RunBudget,
    /// Whether the test is more than the worker's job: processes are killed, limited or looked at
    /// from outside.
    is_whole: bool,
    row: CrashReport,
    job: Job,
    detail: Value,
}

/// The outcome of a kept case that was run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// As in a report.
    pub outcome: String,
    /// The process at fault.
    pub process: Option<String>,
    /// The fault.
    pub reason: String,
    /// The outcome that was kept.
    pub before: String,
}

/// Writes a failing case, and the conformance case of a random graph beside it; the file's path.
pub(super) fn keep(
    context: &RunContext,
    row: &CrashReport,
    job: &Job,
    ended: Option<&Ended>,
) -> Option<String> {
    let dir = context.keep.as_ref()?;
    std::fs::create_dir_all(dir).ok()?;
    let variant = row.variant.replace('%', "");
    let stem =
        [row.id.as_str(), variant.as_str(), row.target.as_str()].join("-").replace("--", "-");
    let path = dir.join(format!("{stem}.json"));
    let mut job = job.clone();
    let case = ended.and_then(|ended| ended.parts.get("case"));
    if let (Task::Crash(work), Some(case)) = (&mut job.work, case)
        && let Some(graph) = case["graph"].as_u64()
    {
        work.extra.insert("graph".to_owned(), graph.to_string());
    }
    let detail = ended.map(|ended| ended.value.clone()).unwrap_or_default();
    let is_whole = ended.is_none() || WHOLE.contains(&row.id.as_str());
    let (budget, row) = (context.budget, row.clone());
    let kept = Kept { schema: 1, budget, is_whole, row, job, detail: detail.clone() };
    std::fs::write(&path, serde_json::to_string_pretty(&kept).ok()?).ok()?;
    if let Some(text) = detail["conformance"].as_str()
        && let Ok(cases) = nnburst_conformance::load_str(text)
    {
        // The failing job is the point; the case for `vts` comes on top.
        let _ = nnburst_conformance::write_file(
            &dir.join(format!("{stem}.graph.json.gz")),
            "mlts/random",
            &cases,
        );
    }
    Some(path.display().to_string())
}

/// Runs a kept case again.
pub(super) fn replay(context: &RunContext, path: &Path) -> Result<Replayed, MltsError> {
    let text = std::fs::read_to_string(path).map_err(|error| MltsError::data(path, error))?;
    let kept: Kept = serde_json::from_str(&text).map_err(|error| MltsError::data(path, error))?;
    let again = RunContext { seed: kept.job.seed, budget: kept.budget, ..context.clone() };
    if let (Some(test), Task::Crash(work)) = (whole_test(&kept), &kept.job.work) {
        return Ok(again_whole(&again, &kept, test, work));
    }
    let mut driver = TestedDriver::start(&kept.job.target)?;
    let planned = Duration::from_secs(60);
    let ended = again.work(&kept.job.target, kept.job.work, &mut driver, planned, None)?;
    Ok(Replayed {
        outcome: ended.outcome.name().to_owned(),
        process: ended.process,
        reason: ended.reason,
        before: kept.row.outcome,
    })
}

/// The tests that are always more than one worker's job.
const WHOLE: [&str; 8] = ["c03", "c04", "c05", "c14", "c16", "c17", "c21", "c22"];

/// The test of a kept case, where it is to run as a whole.
fn whole_test(kept: &Kept) -> Option<&'static super::CrashTest> {
    // The rows of c15 are made by c14.
    let id = if kept.row.id == "c15" { "c14" } else { &kept.row.id };
    let is_whole = kept.is_whole || WHOLE.contains(&id);
    is_whole.then(|| crash_tests().iter().find(|test| test.id == id)).flatten()
}

fn again_whole(
    context: &RunContext,
    kept: &Kept,
    test: &super::CrashTest,
    work: &CrashWork,
) -> Replayed {
    let soak = (test.id == "c22").then(|| Duration::from_millis(work.ms));
    let context = RunContext { soak, ..context.clone() };
    let rows = crash::run(&context, &kept.job.target, &kept.row.target, test, &work.models);
    let same = |row: &&CrashReport| row.id == kept.row.id && row.variant == kept.row.variant;
    let row = rows.iter().find(same).or_else(|| rows.iter().find(|row| row.outcome != "SUCCESS"));
    let row = row.cloned().unwrap_or_default();
    Replayed {
        outcome: row.outcome,
        process: row.process,
        reason: row.reason,
        before: kept.row.outcome.clone(),
    }
}
