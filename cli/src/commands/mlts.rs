//! `nnburst mlts`: the acceptance suite for any driver.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nnburst_mlts::{
    Accept, CallMode, MltsError, Peers, Progress as Step, Report, RunBudget, Suite, Target, What,
    compare, crash_tests, csv, html, serve_worker,
};

use crate::args::{
    MltsAccept, MltsArgs, MltsCommand, MltsCompareArgs, MltsListArgs, MltsReplayArgs,
    MltsReportArgs, MltsRunArgs, MltsWhat, ModeArg, WaitArg,
};
use crate::failure::{Failure, warn};
use crate::progress::Progress;

/// The arguments that make this program a worker.
const WORKER: [&str; 2] = ["mlts", "worker"];

pub(crate) fn mlts(args: &MltsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    match &args.command {
        MltsCommand::Run(args) => run(args, out),
        MltsCommand::List(args) => list(args, out),
        MltsCommand::Compare(args) => compare_runs(args, out),
        MltsCommand::Report(args) => report(args),
        MltsCommand::Replay(args) => replay(args, out),
        MltsCommand::Worker if serve_worker() => Ok(()),
        MltsCommand::Worker => Err(Failure::usage("a worker is started by `nnburst mlts run`")),
    }
}

fn failure(error: &MltsError) -> Failure {
    Failure { message: error.to_string(), code: error.exit_code() }
}

fn run(args: &MltsRunArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let abort = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&abort))?;
    }
    let baseline = args.baseline.as_deref().map(read).transpose()?;
    let peers = args.peers.as_deref().map(Peers::read).transpose();
    let peers = peers.map_err(|error| failure(&error))?;
    let mut report = suite(args, abort)?.run().map_err(|error| failure(&error))?;
    if let Some(peers) = &peers {
        report.add_peers(peers);
    }
    write_files(args, &report, baseline.as_ref())?;
    summary(&report, out)?;
    let mut code = report.exit_code();
    if let Some(old) = &baseline {
        let limit = args.fail_on_regression.unwrap_or(f64::INFINITY);
        let comparison = compare(old, &report, limit);
        write!(out, "{comparison}")?;
        if comparison.is_worse() && code == 0 {
            code = 1;
        }
    }
    match code {
        0 => Ok(()),
        code => {
            let first = report.reasons.first().map_or("", String::as_str);
            Err(Failure { message: format!("{} {first}", report.verdict), code })
        }
    }
}

fn suite(args: &MltsRunArgs, abort: Arc<AtomicBool>) -> Result<Suite, Failure> {
    let program = std::env::current_exe()?;
    let budget = budget(args.quick, args.full);
    let mut suite = Suite::new(budget).worker(&program, &WORKER).abort(abort);
    let (targets, are_ours) = targets(args, &program)?;
    for target in targets {
        suite = suite.target(target);
    }
    for dir in &args.models {
        suite = suite.models(dir);
    }
    let accept = match args.accept {
        Some(MltsAccept::Exact) => Accept::Exact,
        Some(MltsAccept::Close) => Accept::Close,
        Some(MltsAccept::Task) => Accept::Task,
        None if are_ours => Accept::Exact,
        None => Accept::Task,
    };
    // What is asked for is what is measured; the full budget has all there is.
    let chosen = match args.modes.as_slice() {
        [] if args.full => &[ModeArg::Burst, ModeArg::Sync, ModeArg::Async, ModeArg::Fenced][..],
        [] => &[ModeArg::Burst, ModeArg::Sync],
        chosen => chosen,
    };
    let modes = chosen.iter().map(|mode| match mode {
        ModeArg::Burst => Ok(CallMode::Burst),
        ModeArg::Sync => Ok(CallMode::Sync),
        ModeArg::Async => Ok(CallMode::Async),
        ModeArg::Fenced => Ok(CallMode::Fenced),
        ModeArg::Inproc => Err(Failure::usage("--modes inproc is --device embedded here")),
    });
    let modes = modes.collect::<Result<Vec<_>, _>>()?;
    let reference = (args.reference != "none").then(|| Target::device(&args.reference, &program));
    suite = suite.accept(accept).modes(&modes).reference(reference).seed(args.seed);
    suite = suite.patience(Duration::from_secs(args.patience)).allow_kill(args.allow_kill);
    suite = suite.relaxed(args.relaxed);
    if !args.only.is_empty() {
        suite = suite.only(&args.only.iter().copied().map(what).collect::<Vec<_>>());
    }
    let regex =
        |text: &String| regex::Regex::new(text).map_err(|error| Failure::usage(error.to_string()));
    if let Some(filter) = &args.filter {
        suite = suite.filter(regex(filter)?);
    }
    if let Some(skip) = &args.skip {
        suite = suite.skip(regex(skip)?);
    }
    if let Some(keep) = &args.keep {
        suite = suite.keep(keep);
    }
    if let Some(limit) = args.budget {
        suite = suite.limit(limit);
    }
    if let Some(rest) = args.rest {
        suite = suite.rest(rest);
    }
    if let Some(model) = &args.bisect {
        suite = suite.bisect(model);
    }
    if let Some(wait) = args.wait {
        suite = suite.wait(match wait {
            WaitArg::Spin => nnburst::Wait::Spin,
            WaitArg::Adaptive => nnburst::Wait::Adaptive,
            WaitArg::Block => nnburst::Wait::Block,
        });
    }
    suite = match *args.cpus.as_slice() {
        [] => suite,
        [both] => suite.cpus(&[both], &[both]),
        [ours, theirs, ..] => suite.cpus(&[ours], &[theirs]),
    };
    suite = suite.realtime(args.realtime).clients(&args.clients);
    if let Some(period) = args.period {
        suite = suite.period(period);
    }
    if let Some(soak) = args.soak {
        suite = suite.soak(soak);
    }
    Ok(suite.on_progress(progress()))
}

fn budget(quick: bool, full: bool) -> RunBudget {
    match (quick, full) {
        (true, _) => RunBudget::Quick,
        (_, true) => RunBudget::Full,
        _ => RunBudget::Standard,
    }
}

/// The drivers under test, and whether all of them are this program's own.
fn targets(args: &MltsRunArgs, program: &Path) -> Result<(Vec<Target>, bool), Failure> {
    let first = args.device.first().map(String::as_str);
    let other = if let Some(command) = &args.driver_cmd {
        Some(Target::command(command))
    } else if let (Some(command), Some(name)) = (&args.service_cmd, first) {
        Some(Target::service(command, name))
    } else {
        args.library.as_ref().map(|library| Ok(Target::library(library, first)))
    };
    if let Some(target) = other {
        let target = target.and_then(|target| target.with_threads(args.threads));
        return Ok((vec![target.map_err(|error| failure(&error))?], false));
    }
    let mut names = Vec::new();
    for name in &args.device {
        if name.contains('*') {
            names.extend(matching(name)?);
        } else {
            names.push(name.clone());
        }
    }
    if names.is_empty() {
        names.push(format!("spawn:{}", crate::session::DEFAULT_DRIVER));
    }
    let are_ours = names.iter().all(|name| {
        name == nnburst::REFERENCE || name.starts_with("spawn:") || name.starts_with("embedded")
    });
    let target = |name: &String| {
        let target = Target::device(name, program).with_threads(args.threads);
        target.map_err(|error| failure(&error))
    };
    Ok((names.iter().map(target).collect::<Result<_, _>>()?, are_ours))
}

/// The devices whose names the pattern takes, `*` standing for anything.
fn matching(pattern: &str) -> Result<Vec<String>, Failure> {
    let parts: Vec<_> = pattern.split('*').map(regex::escape).collect();
    let regex = regex::Regex::new(&format!("^{}$", parts.join(".*")));
    let regex = regex.map_err(|error| Failure::usage(error.to_string()))?;
    let names: Vec<_> = nnburst::Device::list()
        .iter()
        .map(|device| device.name().to_owned())
        .filter(|name| regex.is_match(name))
        .collect();
    if names.is_empty() {
        return Err(Failure::usage(format!("no device is called like {pattern}")));
    }
    Ok(names)
}

fn what(what: MltsWhat) -> What {
    match what {
        MltsWhat::Accuracy => What::Accuracy,
        MltsWhat::Latency => What::Latency,
        MltsWhat::Compile => What::Compile,
        MltsWhat::Support => What::Support,
        MltsWhat::Crash => What::Crash,
    }
}

/// A bar on a terminal, a line for each item that is over.
fn progress() -> impl FnMut(&Step) + Send + 'static {
    let is_terminal = std::io::stderr().is_terminal();
    let mut bar: Option<Progress> = None;
    move |step| match step {
        Step::Planned(items) => {
            bar = Some(Progress::new(u64::try_from(*items).unwrap_or(0), "mlts"));
        }
        Step::Over(id, outcome, reason) => {
            let line = format!("{outcome:8} {id} {reason}");
            match &bar {
                Some(bar) if is_terminal => {
                    bar.suspend(|| eprintln!("{}", line.trim_end()));
                    bar.step();
                }
                _ => eprintln!("{}", line.trim_end()),
            }
        }
        _ => {}
    }
}

fn write_files(
    args: &MltsRunArgs,
    report: &Report,
    baseline: Option<&Report>,
) -> Result<(), Failure> {
    if let Some(path) = &args.json {
        let text = serde_json::to_string(report).map_err(std::io::Error::from)?;
        write_file(path, &text)?;
    }
    if let Some(path) = &args.html {
        write_file(path, &html(std::slice::from_ref(report), baseline))?;
    }
    if let Some(path) = &args.csv {
        write_file(path, &csv(report))?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn summary(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{}: {} in {:.1} s", report.verdict, report.summary, report.seconds)?;
    for reason in report.reasons.iter().take(10) {
        writeln!(out, "  {reason}")?;
    }
    for complaint in &report.host.doctor {
        warn(complaint);
    }
    let results = report.models.iter().flat_map(|model| model.per_target.values());
    let mut refused: Vec<_> = results.flat_map(|result| &result.refused_settings).collect();
    refused.sort();
    refused.dedup();
    for refusal in refused {
        warn(refusal);
    }
    Ok(())
}

fn list(args: &MltsListArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let budget = budget(args.quick, args.full);
    let mut suite = Suite::new(budget);
    for dir in &args.models {
        suite = suite.models(dir);
    }
    let mut all = 0.0;
    for (id, what, seconds) in suite.list().map_err(|error| failure(&error))? {
        writeln!(out, "model/{id}\t{seconds:.1} s\t{what}")?;
        all += seconds;
    }
    for test in crash_tests().iter().filter(|test| budget.takes_test(test)) {
        let seconds = test.seconds(budget);
        writeln!(out, "{}\t{seconds:.1} s\t{}: {}", test.id, test.name, test.what)?;
        all += seconds;
    }
    writeln!(out, "in all\t{all:.0} s")?;
    Ok(())
}

fn read(path: &Path) -> Result<Report, Failure> {
    let failed = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let report: Report = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    if report.schema != nnburst_mlts::SCHEMA {
        return Err(failed(format!("schema {}, expected {}", report.schema, nnburst_mlts::SCHEMA)));
    }
    Ok(report)
}

fn compare_runs(args: &MltsCompareArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let comparison = compare(&old, &new, args.limit);
    if comparison.in_common == 0 {
        return Err(Failure::usage("the runs have no model and no crash test in common"));
    }
    write!(out, "{comparison}")?;
    if let Some(path) = &args.html {
        write_file(path, &html(std::slice::from_ref(&new), Some(&old)))?;
    }
    if comparison.is_worse() {
        return Err(Failure::check("the newer run is worse"));
    }
    Ok(())
}

fn report(args: &MltsReportArgs) -> Result<(), Failure> {
    let runs = args.runs.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    write_file(&args.html, &html(&runs, None))
}

fn replay(args: &MltsReplayArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let suite = Suite::quick().worker(std::env::current_exe()?, &WORKER);
    let replayed = suite.replay(&args.case).map_err(|error| failure(&error))?;
    let process = replayed.process.unwrap_or_default();
    writeln!(out, "{} {process} {}", replayed.outcome, replayed.reason)?;
    if replayed.outcome == "SUCCESS" {
        writeln!(out, "it was {} when it was kept", replayed.before)?;
        return Ok(());
    }
    Err(Failure::check(format!("{}: {}", replayed.outcome, replayed.reason)))
}
