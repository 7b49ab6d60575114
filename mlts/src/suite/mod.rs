//! The suite: options in, a report out.

mod budget;
mod catalogue;
mod context;
mod crash;
mod models;
mod options;
mod refusals;
mod replay;
mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use regex::Regex;

pub use budget::RunBudget;
pub use catalogue::{CrashTest, crash_tests};
pub use replay::Replayed;

use crate::conditions::Conditions;
use crate::data::{ModelEntry, read_folders};
use crate::error::MltsError;
use crate::protocol::{CallMode, Task};
use crate::report::{CallSettings, PlanItem, Report, SCHEMA, Skipped, TargetReport};
use crate::run::{Outcome, Program, TestedDriver};
use crate::target::Target;
use context::RunContext;

/// The tier that decides whether answers are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accept {
    /// Bits of the goldens or of NNAPI's reference; floats within rounding.
    Exact,
    /// A step or so.
    Close,
    /// The rules of the tasks.
    Task,
}

impl Accept {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Close => "close",
            Self::Task => "task",
        }
    }
}

/// Kinds of items of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// Goldens and tasks.
    Accuracy,
    /// Latency.
    Latency,
    /// Compile times.
    Compile,
    /// The operations that are taken.
    Support,
    /// Crash tests.
    Crash,
}

/// Progress, for the terminal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// The plan: so many items.
    Planned(usize),
    /// An item begins.
    Begins(String),
    /// An item is over, with its outcome and its reason.
    Over(String, String, String),
}

/// A run of the suite, as it is asked for.
///
/// ```no_run
/// use nnburst_mlts::{Suite, Target, serve_worker};
///
/// if serve_worker() {
///     return Ok(());
/// }
/// let report = Suite::quick().target(Target::command("./my-driver")?).models("models").run()?;
/// report.expect_pass()?;
/// # Ok::<(), nnburst_mlts::MltsError>(())
/// ```
#[must_use]
pub struct Suite {
    budget: RunBudget,
    /// How much of each item, where that is another budget's.
    amounts: Option<RunBudget>,
    targets: Vec<Target>,
    models: Vec<PathBuf>,
    program: Option<Program>,
    reference: Option<Target>,
    modes: Vec<CallMode>,
    accept: Accept,
    what: Vec<What>,
    filter: Option<Regex>,
    skip: Option<Regex>,
    seed: u64,
    keep: Option<PathBuf>,
    patience: Duration,
    allow_kill: bool,
    relaxed: bool,
    limit: Option<Duration>,
    rest: Duration,
    soak: Option<Duration>,
    bisect: Option<String>,
    calls: CallSettings,
    abort: Arc<AtomicBool>,
    on_progress: Box<dyn FnMut(&Progress) + Send>,
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite")
            .field("budget", &self.budget)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

impl Suite {
    /// A run of a budget, against the reference device, by the tasks' rules.
    pub fn new(budget: RunBudget) -> Self {
        Self {
            budget,
            amounts: None,
            targets: Vec::new(),
            models: Vec::new(),
            program: None,
            reference: Some(Target::in_worker(nnburst::REFERENCE)),
            modes: vec![CallMode::Burst, CallMode::Sync],
            accept: Accept::Task,
            what: vec![What::Accuracy, What::Latency, What::Compile, What::Support, What::Crash],
            filter: None,
            skip: None,
            seed: 1,
            keep: None,
            patience: Duration::from_secs(10),
            allow_kill: false,
            relaxed: false,
            limit: None,
            rest: Duration::ZERO,
            soak: None,
            bisect: None,
            calls: CallSettings::default(),
            abort: Arc::default(),
            on_progress: Box::new(|_| ()),
        }
    }

    /// A minute: a few models, the most telling crash tests.
    pub fn quick() -> Self {
        Self::new(RunBudget::Quick)
    }

    fn calls(&self) -> CallSettings {
        let mut calls = self.calls.clone();
        if self.budget == RunBudget::Full {
            if calls.clients.is_empty() {
                calls.clients = vec![1, 2, 4];
            }
            // As from a camera.
            calls.period_us.get_or_insert(33_333);
        }
        calls
    }

    /// The models that the run would use, and what is known about them.
    ///
    /// # Errors
    /// A folder or its manifest is not as it should be.
    pub fn list(&self) -> Result<Vec<(String, String, f64)>, MltsError> {
        let context = self.context()?;
        let mut rows = Vec::new();
        for entry in self.entries()? {
            let estimate = context.budget.model_estimate(&entry, &self.modes, &self.calls());
            let cases = entry.cases.len();
            let photos: usize = entry.photos.iter().map(|set| set.photos.len()).sum();
            let judged = entry.evaluators().join(", ");
            let data = format!("{cases} goldens, {photos} photos ({judged}); {}", entry.what);
            rows.push((entry.id, data, estimate));
        }
        Ok(rows)
    }

    /// Runs.
    ///
    /// # Errors
    /// Options or data are wrong. What drivers do wrong is in the report.
    pub fn run(mut self) -> Result<Report, MltsError> {
        if self.targets.is_empty() {
            return Err(MltsError::Usage("there is no target".to_owned()));
        }
        if self.modes.is_empty() {
            return Err(MltsError::Usage("there is no mode".to_owned()));
        }
        let entries = self.entries()?;
        let context = self.context()?;
        let conditions = Conditions::before();
        let started = SystemTime::now();
        let mut report = Report {
            schema: SCHEMA,
            tool: format!("nnburst {}", env!("CARGO_PKG_VERSION")),
            started: verdict::rfc_3339(started),
            seed: self.seed,
            budget: self.budget.name().to_owned(),
            command: std::env::args().collect(),
            reference: self.reference.as_ref().map(|one| one.name.clone()).unwrap_or_default(),
            accept: self.accept.name().to_owned(),
            calls: self.calls(),
            ..Report::default()
        };
        let begun = Instant::now();
        for (number, target) in std::mem::take(&mut self.targets).iter().enumerate() {
            let id = format!("t{number}");
            self.run_target(&id, target, &entries, &context, begun, &mut report);
            refusals::explain(&mut report, &id);
        }
        report.host = conditions.after();
        report.seconds = begun.elapsed().as_secs_f64();
        verdict::judge(&mut report, context.is_aborted());
        Ok(report)
    }

    /// Runs a kept case alone.
    ///
    /// # Errors
    /// The file is no kept case, or the worker can't be started.
    pub fn replay(&self, case: &Path) -> Result<Replayed, MltsError> {
        replay::replay(&self.context()?, case)
    }

    fn context(&self) -> Result<RunContext, MltsError> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => Program {
                path: std::env::current_exe().map_err(MltsError::system("finding this program"))?,
                args: Vec::new(),
            },
        };
        Ok(RunContext {
            program,
            budget: self.amounts.unwrap_or(self.budget),
            seed: self.seed,
            patience: self.patience,
            abort: Arc::clone(&self.abort),
            keep: self.keep.clone(),
            allow_kill: self.allow_kill,
            soak: self.soak,
        })
    }

    /// The models of the folders; built-in networks where no folder is named.
    fn entries(&self) -> Result<Vec<ModelEntry>, MltsError> {
        if self.models.is_empty() {
            let built_in = nnburst::builtin::ALL.iter().map(|one| ModelEntry {
                id: one.name.to_owned(),
                what: one.what.to_owned(),
                licence: "made by the suite".to_owned(),
                ..ModelEntry::default()
            });
            return Ok(built_in.collect());
        }
        let all = read_folders(&self.models)?;
        Ok(all.into_iter().filter(|entry| self.budget.takes_model(&entry.id)).collect())
    }

    fn wants(&self, id: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.is_match(id))
            && !self.skip.as_ref().is_some_and(|skip| skip.is_match(id))
    }

    fn has(&self, what: What) -> bool {
        self.what.contains(&what)
    }

    fn takes_test(&self, test: &CrashTest) -> bool {
        if test.id == "c22" { self.soak.is_some() } else { self.budget.takes_test(test) }
    }

    fn run_target(
        &mut self,
        id: &str,
        target: &Target,
        entries: &[ModelEntry],
        context: &RunContext,
        begun: Instant,
        report: &mut Report,
    ) {
        let mut about = TargetReport {
            id: id.to_owned(),
            name: target.name.clone(),
            how: target.how_name().to_owned(),
            command: target.argv().to_vec(),
            ..TargetReport::default()
        };
        match Self::introduce(target, context) {
            Ok(answers) => about.about = answers,
            Err(why) => {
                about.unreachable = why;
                report.targets.push(about);
                return;
            }
        }
        report.targets.push(about);
        let needs_models = [What::Accuracy, What::Latency, What::Compile, What::Support];
        let entries = if needs_models.iter().any(|&what| self.has(what)) { entries } else { &[] };
        let mut plan: Vec<(String, f64, Item<'_>)> = Vec::new();
        for entry in entries {
            let estimate = context.budget.model_estimate(entry, &self.modes, &self.calls());
            plan.push((format!("model/{}", entry.id), estimate, Item::Model(entry)));
        }
        if self.has(What::Crash) {
            let soak = self.soak.map_or(0.0, |soak| soak.as_secs_f64());
            for test in crash_tests().iter().filter(|test| self.takes_test(test)) {
                let longer = if test.id == "c22" { soak } else { 0.0 };
                let estimate = test.seconds(context.budget) + longer;
                plan.push((test.id.to_owned(), estimate, Item::Crash(test)));
            }
        }
        plan.retain(|(id, ..)| self.wants(id));
        (self.on_progress)(&Progress::Planned(plan.len()));
        let limit = self.limit.unwrap_or_else(|| self.budget.limit());
        let mut limit = limit + self.soak.unwrap_or_default();
        for (item, estimate_s, work) in plan {
            limit += rest_before(self.rest, context);
            if context.is_aborted() {
                return;
            }
            if let Some(why) = has_gone(target) {
                if let Some(about) = report.targets.last_mut().filter(|about| about.id == id) {
                    about.unreachable = why;
                }
                return;
            }
            if begun.elapsed().as_secs_f64() + estimate_s > limit.as_secs_f64() {
                let reason = "budget".to_owned();
                (self.on_progress)(&Progress::Over(
                    item.clone(),
                    "SKIPPED".to_owned(),
                    reason.clone(),
                ));
                report.skipped.push(Skipped { id: format!("{id}/{item}"), reason });
                continue;
            }
            (self.on_progress)(&Progress::Begins(item.clone()));
            let start = Instant::now();
            let (outcome, reason) = match work {
                Item::Model(entry) => self.run_model(id, target, entry, context, report),
                Item::Crash(test) => {
                    let models: Vec<_> = small_models(entries);
                    let rows = crash::run(context, target, id, test, &models);
                    let worst = rows.iter().find(|row| row.outcome != "SUCCESS");
                    let outcome = worst.map_or("SUCCESS", |row| &row.outcome).to_owned();
                    let reason = worst.map(|row| row.reason.clone()).unwrap_or_default();
                    report.crash.extend(rows);
                    (outcome, reason)
                }
            };
            let took_s = start.elapsed().as_secs_f64();
            report.plan.push(PlanItem { id: format!("{id}/{item}"), estimate_s, took_s });
            (self.on_progress)(&Progress::Over(item, outcome, reason));
        }
    }

    /// Asks the driver about itself.
    fn introduce(target: &Target, context: &RunContext) -> Result<crate::report::About, String> {
        let mut driver = TestedDriver::start(target).map_err(|error| error.to_string())?;
        let ended = context.work(target, Task::About, &mut driver, Duration::from_secs(5), None);
        let ended = ended.map_err(|error| error.to_string())?;
        match ended.outcome {
            // One that dies after its answers dies in the tests again, where that is judged.
            Outcome::Success | Outcome::Crash if ended.value.is_object() => {
                serde_json::from_value(ended.value).map_err(|error| error.to_string())
            }
            outcome => {
                let process = ended.process.unwrap_or_default();
                Err(format!("{} {process}: {}", outcome.name(), ended.reason).replace("  ", " "))
            }
        }
    }
}

/// Rests, unless the user stops the run, and returns how long.
fn rest_before(rest: Duration, context: &RunContext) -> Duration {
    const PART: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    while begun.elapsed() < rest && !context.is_aborted() {
        std::thread::sleep(PART.min(rest.saturating_sub(begun.elapsed())));
    }
    begun.elapsed()
}

/// Why a service that the suite did not start is not there any more.
fn has_gone(target: &Target) -> Option<String> {
    let is_served = matches!(target.how, crate::How::Served { .. });
    let error = is_served.then(|| TestedDriver::start_again(target).err()).flatten()?;
    Some(format!("it did not come back: {error}"))
}

/// An item of the plan.
enum Item<'a> {
    Model(&'a ModelEntry),
    Crash(&'static CrashTest),
}

/// Models that crash tests load in turn beside the built-in ones: small, or they load nothing else.
fn small_models(entries: &[ModelEntry]) -> Vec<ModelEntry> {
    const LARGEST: u64 = 600_000;
    const MOST: usize = 3;
    let mut small: Vec<_> = entries
        .iter()
        .filter(|entry| entry.bytes < LARGEST && entry.file.is_some())
        .cloned()
        .collect();
    small.truncate(MOST);
    for entry in &mut small {
        entry.photos.clear();
        entry.cases.clear();
    }
    small
}
