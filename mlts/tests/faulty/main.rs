//! The suite is right about drivers that are wrong: each fault gets exactly its outcome.
//!
//! This program is everything: the coordinator, its workers, and the drivers
//! (`faulty driver N`, `faulty service N`).
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a test")]

mod driver;

use std::time::Duration;

use driver::{ALL, Fault};
use nnburst_mlts::{Report, RunBudget, Suite, Target, What, html, serve_worker};
use regex::Regex;

/// A fault, what is run on the driver, and what has to come out.
struct Case {
    fault: Fault,
    /// The items, as an expression.
    run: &'static str,
    want: Want,
}

enum Want {
    Pass,
    /// Outcome, process and a part of the reason of the item.
    Crash(&'static str, Option<&'static str>, &'static str),
    /// A part of the reason of the model's failure.
    Model(&'static str),
    /// Some operations are refused.
    Partly,
}

const CASES: [Case; 29] = [
    Case { fault: Fault::None, run: "^c(01|03|08|10)$", want: Want::Pass },
    Case {
        fault: Fault::DiesAtTheSeventhExecution,
        run: "^c01$",
        want: Want::Crash("CRASH", Some("driver"), "SIGSEGV"),
    },
    Case {
        fault: Fault::DiesWhenItsClientHasGone,
        run: "^c08$",
        want: Want::Crash("CRASH", Some("driver"), "SIGSEGV"),
    },
    Case {
        fault: Fault::SleepsInPrepare,
        run: "^c01$",
        want: Want::Crash("HANG", Some("driver"), "in prepare"),
    },
    Case {
        fault: Fault::SleepsInExecute,
        run: "^c01$",
        want: Want::Crash("HANG", Some("driver"), "in execute"),
    },
    Case {
        fault: Fault::WrongEveryThousandth,
        run: "^c01$",
        want: Want::Crash("FAILURE", None, "element 0 is"),
    },
    Case {
        fault: Fault::WrongWithThreeAtOnce,
        run: "^c01$",
        want: Want::Crash("FAILURE", None, "element 0 is"),
    },
    Case { fault: Fault::OtherBitsInBursts, run: "add1_float$", want: Want::Model("modes differ") },
    Case {
        fault: Fault::NotDeterministic,
        run: "add1_float$",
        want: Want::Model("not deterministic"),
    },
    Case {
        fault: Fault::LeaksDescriptors,
        run: "^c21$",
        want: Want::Crash("FAILURE", Some("driver"), "descriptors grew"),
    },
    Case {
        fault: Fault::LeaksMemory,
        run: "^c21$",
        want: Want::Crash("FAILURE", Some("driver"), "resident memory grew"),
    },
    Case {
        fault: Fault::RefusesConvolutions,
        run: "mobilenet_v1_0.25_128_quant$",
        want: Want::Partly,
    },
    Case {
        fault: Fault::AcceptsAnything,
        run: "^c10$",
        want: Want::Crash("FAILURE", None, "expected INVALID_ARGUMENT"),
    },
    Case {
        fault: Fault::LateByFifthOfASecond,
        run: "^c18$",
        want: Want::Crash("FAILURE", None, "after the deadline"),
    },
    Case {
        fault: Fault::SlowBesideCompilations,
        run: "^c09$",
        want: Want::Crash("FAILURE", None, "beside compilations"),
    },
    Case { fault: Fault::ReturnsAfterThreeSeconds, run: "^c14$", want: Want::Pass },
    Case {
        fault: Fault::PrintsMarkup,
        run: "^c01$",
        want: Want::Crash("CRASH", Some("driver"), "SIGSEGV"),
    },
    Case {
        fault: Fault::HangsWhenAsked,
        run: "^c01$",
        want: Want::Crash("HANG", Some("driver"), "in supported operations"),
    },
    Case { fault: Fault::TooFewAnswers, run: "add1_float$", want: Want::Model("0 answers to 1") },
    Case {
        fault: Fault::ExitsInUse,
        run: "^c01$",
        want: Want::Crash("CRASH", Some("driver"), "exit code 0 while in use"),
    },
    Case {
        fault: Fault::ComputesNothing,
        run: "^c01$",
        want: Want::Crash("FAILURE", None, "against the reference device"),
    },
    Case {
        fault: Fault::AnswersNoNumbers,
        run: "add1_float$",
        want: Want::Model("element 0: NaN, expected"),
    },
    Case {
        fault: Fault::LeaksThreads,
        run: "^c21$",
        want: Want::Crash("FAILURE", Some("driver"), "threads grew"),
    },
    Case {
        fault: Fault::OutlivesItsClient,
        run: "^c03$",
        want: Want::Crash("FAILURE", None, "its driver still runs a second later"),
    },
    Case {
        fault: Fault::ForgetsTheCallback,
        run: "^c01$",
        want: Want::Crash("FAILURE", None, "without a word"),
    },
    Case {
        fault: Fault::WritesLate,
        run: "add1_float$",
        want: Want::Model("written after the end of the call"),
    },
    Case {
        fault: Fault::MeasuresUnasked,
        run: "^c11$",
        want: Want::Crash("FAILURE", None, "without being asked for any"),
    },
    Case {
        fault: Fault::AnswersTheLastRequest,
        run: "^c01$",
        want: Want::Crash("FAILURE", None, "which is the answer to the request before"),
    },
    Case {
        fault: Fault::BusyAtRest,
        run: "^c21$",
        want: Want::Crash("FAILURE", Some("driver"), "of the time while no client"),
    },
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let fault =
        |at: usize| args.get(at).and_then(|text| text.parse::<usize>().ok()).map(|at| ALL[at]);
    match args.first().map(String::as_str) {
        Some("driver") => return driver::serve(fault(1).unwrap()),
        Some("service") => return driver::serve_in_directory(fault(1).unwrap()),
        Some("stuck") if is_not_a_question() => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        // What lists tests has nothing to list.
        Some("--list") => return,
        _ => {}
    }
    if serve_worker() {
        return;
    }
    let mut failed = 0;
    for case in &CASES {
        let name = format!("{:?}", case.fault);
        match check(case) {
            Ok(()) => println!("{name}: as it has to be"),
            Err(why) => {
                failed += 1;
                eprintln!("{name}: {why}");
            }
        }
    }
    let stuck = stuck_client();
    if let Err(why) = &stuck {
        eprintln!("a stuck client: {why}");
    }
    let again = replayed();
    if let Err(why) = &again {
        eprintln!("replay: {why}");
    }
    assert!(
        failed == 0 && stuck.is_ok() && again.is_ok(),
        "{failed} faults were not found as they have to be"
    );
}

/// Returns whether this worker is to run a test: the questions in front are answered.
fn is_not_a_question() -> bool {
    let job = std::env::var("NNBURST_MLTS_JOB").unwrap_or_default();
    !std::fs::read_to_string(job).unwrap_or_default().contains("\"about\"")
}

fn suite_of_all(fault: Fault, run: &str, worker: &[&str]) -> Option<Suite> {
    let number = ALL.iter().position(|known| *known == fault).unwrap();
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let target = match fault {
        Fault::ReturnsAfterThreeSeconds => {
            Target::service(&format!("'{this}' service {number}"), driver::INSTANCE).unwrap()
        }
        _ => Target::command(&format!("'{this}' driver {number}")).unwrap(),
    };
    let mut suite = Suite::new(RunBudget::Standard)
        .target(target)
        .worker(this, worker)
        .reference(None)
        .patience(Duration::from_secs(3))
        .filter(Regex::new(run).unwrap());
    if run.starts_with("^c") {
        suite = suite.only(&[What::Crash]);
    } else {
        suite = suite.only(&[What::Support, What::Accuracy]);
        suite = suite.models(nnburst_conformance::shared_dir("models")?);
    }
    Some(suite)
}

/// With the quick amounts, of tests that only the larger budgets have too.
fn suite(fault: Fault, run: &str, worker: &[&str]) -> Option<Suite> {
    Some(suite_of_all(fault, run, worker)?.quick_amounts())
}

fn check(case: &Case) -> Result<(), String> {
    let Some(suite) = suite(case.fault, case.run, &[]) else { return Ok(()) };
    let mut report = suite.run().map_err(|error| error.to_string())?;
    let is_short = report.crash.iter().any(|row| row.outcome == "SUCCESS" && row.events < 1000);
    if case.fault == Fault::WrongEveryThousandth
        && is_short
        && let Some(longer) = suite_of_all(case.fault, case.run, &[])
    {
        // A busy machine doesn't get to the fault in the seconds of the quick amounts.
        report = longer.run().map_err(|error| error.to_string())?;
    }
    let ended = format!("{} {:?}", report.verdict, report.reasons);
    let is_right = match &case.want {
        Want::Pass => report.verdict == "PASS" && came_back(case.fault, &report),
        Want::Crash(outcome, process, words) => report.crash.iter().any(|row| {
            row.outcome == *outcome
                && row.process.as_deref() == *process
                && row.reason.contains(words)
        }),
        Want::Model(words) => report
            .models
            .iter()
            .flat_map(|model| model.per_target.values())
            .any(|result| result.outcome == "FAILURE" && result.reason.contains(words)),
        Want::Partly => {
            let results = report.models.iter().flat_map(|model| model.per_target.values());
            let support = results.filter_map(|result| result.support.as_ref()).next();
            support.is_some_and(|support| {
                let refused = support.ops.iter().filter(|op| !op.taken);
                support.taken > 0
                    && refused.clone().count() > 0
                    && refused.clone().all(|op| op.op == "CONV_2D" && op.why.starts_with("refused"))
            })
        }
    };
    let page = html(std::slice::from_ref(&report), None);
    if page.contains("<script") {
        return Err("the driver's words are markup on the page".to_owned());
    }
    if case.fault == Fault::PrintsMarkup && !page.contains("&lt;script&gt;alert(") {
        return Err("the driver's words are not on the page".to_owned());
    }
    if is_right { Ok(()) } else { Err(ended) }
}

/// The time that the driver was away is the time that recovery took.
fn came_back(fault: Fault, report: &Report) -> bool {
    if fault != Fault::ReturnsAfterThreeSeconds {
        return true;
    }
    let row = report.crash.iter().find(|row| row.id == "c15");
    row.and_then(|row| row.recovery_ms).is_some_and(|times| (3000.0..5000.0).contains(&times.p50))
}

/// A client that stands still outside of the driver's calls is at fault itself.
fn stuck_client() -> Result<(), String> {
    let suite = suite(Fault::None, "^c01$", &["stuck"]).ok_or("no suite")?;
    let report = suite.run().map_err(|error| error.to_string())?;
    let row = report.crash.first().ok_or("no row")?;
    let is_right = row.outcome == "HANG" && row.process.as_deref() == Some("client");
    if is_right { Ok(()) } else { Err(format!("{} {:?} {}", row.outcome, row.process, row.reason)) }
}

/// Kept cases fail again in the same way: one worker's job, and a test of the coordinator's.
fn replayed() -> Result<(), String> {
    for (fault, run) in [(Fault::AcceptsAnything, "^c10$"), (Fault::LeaksDescriptors, "^c21$")] {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let kept = suite(fault, run, &[]).ok_or("no suite")?.keep(dir.path());
        let report = kept.run().map_err(|error| error.to_string())?;
        let row = report.crash.first().ok_or("no row")?;
        if row.kept.is_empty() {
            return Err(format!("{run}: nothing was kept"));
        }
        let again = suite(fault, run, &[]).ok_or("no suite")?;
        let again = again.replay(std::path::Path::new(&row.kept));
        let again = again.map_err(|error| error.to_string())?;
        if (again.outcome.as_str(), again.before.as_str()) != ("FAILURE", "FAILURE") {
            return Err(format!("{run}: {again:?}"));
        }
    }
    Ok(())
}
