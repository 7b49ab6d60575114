//! `nnburst vts`: conformance cases on a device, in the mode asked for.

use std::io::Write;
use std::time::Duration;

use nnburst::hal::{ErrorStatus, ExecutionOutcome, PrepareOptions};
use nnburst::{Device, RuntimeError};
use nnburst_conformance::{Case, CaseRequest, load_dir};

use crate::args::{Mode, VtsArgs};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::session::{Caller, open_device};

/// How a case ended.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed(String),
    Skipped(&'static str),
}

/// What was counted.
#[derive(Debug, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    reasons: std::collections::BTreeMap<&'static str, u64>,
}

/// Runs every case and fails if one does.
pub(crate) fn vts(args: &VtsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if !args.dir.exists() {
        return Err(Failure::usage(format!("{}: no such folder", args.dir.display())));
    }
    let cases = load_dir(&args.dir).map_err(|error| Failure::usage(error.to_string()))?;
    let device = open_device(&args.engine)?;
    let mut tally = Tally::default();
    let progress = Progress::counting("cases");
    for case in cases {
        let case = match case {
            Ok(case) => case,
            Err(error) => {
                tally.failed += 1;
                writeln!(out, "FAILED {error}")?;
                continue;
            }
        };
        if args.filter.as_ref().is_some_and(|filter| !case.name.contains(filter)) {
            continue;
        }
        progress.step();
        match judge(&case, &device, args)? {
            Verdict::Passed => tally.passed += 1,
            Verdict::Failed(why) => {
                tally.failed += 1;
                progress.suspend(|| writeln!(out, "FAILED {} {}: {why}", case.spec, case.name))?;
            }
            Verdict::Skipped(why) => {
                tally.skipped += 1;
                *tally.reasons.entry(why).or_default() += 1;
            }
        }
    }
    progress.finish();
    report(&tally, args, out)
}

fn report(tally: &Tally, args: &VtsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let Tally { passed, failed, skipped, reasons } = tally;
    if args.json {
        let mode = args.engine.mode.name();
        let line = serde_json::json!({
            "mode": mode, "passed": passed, "failed": failed, "skipped": skipped, "reasons": reasons,
        });
        writeln!(out, "{line}")?;
    } else {
        for (why, count) in reasons {
            writeln!(out, "skipped {count}: {why}")?;
        }
        writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped")?;
    }
    if *failed > 0 {
        return Err(Failure::check(format!("{failed} cases failed")));
    }
    if *passed == 0 {
        return Err(Failure::check("no case was run"));
    }
    Ok(())
}

/// Runs a case, or what the options derive from it. Only the loss of the device is an error here.
fn judge(case: &Case, device: &Device, args: &VtsArgs) -> Result<Verdict, Failure> {
    let mut case = std::borrow::Cow::Borrowed(case);
    if args.signed_twins {
        match case.signed_twin() {
            Ok(Some(twin)) => {
                let both = [&*case, &twin].map(|case| is_supported(case, device));
                if both[0] != both[1] {
                    return Ok(Verdict::Failed(format!(
                        "unsigned taken: {}, signed taken: {}",
                        both[0], both[1]
                    )));
                }
                case = std::borrow::Cow::Owned(twin);
            }
            Ok(None) => return Ok(Verdict::Skipped("no signed twin")),
            Err(error) => return Ok(Verdict::Failed(error.to_string())),
        }
    }
    if args.dynamic_shapes || args.insufficient_size {
        match case.dynamic_shapes() {
            Some(open) => case = std::borrow::Cow::Owned(open),
            None => return Ok(Verdict::Skipped("output shapes can't be left open")),
        }
    }
    if args.engine.mode == Mode::Fenced && has_open_output(&case) {
        return Ok(Verdict::Skipped("fenced executions take outputs of known size only"));
    }
    match attempt(&case, device, args) {
        Err(Attempt::Lost(failure)) => Err(failure.during(&case.name)),
        Err(Attempt::Wrong(verdict)) => Ok(verdict),
        Ok(()) => Ok(Verdict::Passed),
    }
}

/// Why an attempt ended early.
enum Attempt {
    Lost(Failure),
    Wrong(Verdict),
}

impl From<Verdict> for Attempt {
    fn from(verdict: Verdict) -> Self {
        Self::Wrong(verdict)
    }
}

fn attempt(case: &Case, device: &Device, args: &VtsArgs) -> Result<(), Attempt> {
    if !case.expect_failure && !is_supported(case, device) {
        return Err(Verdict::Skipped("the device refuses an operation").into());
    }
    let compiled = device
        .compile(&case.model, PrepareOptions::default())
        .and_then(|compilation| Caller::new(compilation, &args.engine));
    let mut caller = match compiled {
        Ok(caller) => caller,
        Err(error) => return expected_failure(case, error),
    };
    let request = if args.insufficient_size {
        match case.request_with_short_output() {
            Ok(Some(request)) => Ok(request),
            Ok(None) => {
                return Err(Verdict::Skipped("an output of one byte can't be shorter").into());
            }
            Err(error) => Err(error),
        }
    } else {
        case.request()
    }
    .map_err(|error| Verdict::Failed(error.to_string()))?;
    let loop_timeout = case.loops_forever().then_some(Duration::from_millis(1));
    match caller.call_request(&request.request, loop_timeout) {
        Err(error) if args.insufficient_size => too_small(case, error),
        Err(error) => expected_failure(case, error),
        Ok(_) if args.insufficient_size => {
            Err(Verdict::Failed("a buffer that is too small went unnoticed".into()).into())
        }
        Ok(_) if case.expect_failure => {
            Err(Verdict::Failed("ran to completion, which it must not".into()).into())
        }
        Ok(outcome) => compare(case, &request, &outcome),
    }
}

/// An error where one has to come is right; the loss of the device never is.
fn expected_failure(case: &Case, error: RuntimeError) -> Result<(), Attempt> {
    if error.is_device_lost() {
        return Err(Attempt::Lost(error.into()));
    }
    if !case.expect_failure {
        return Err(Verdict::Failed(error.to_string()).into());
    }
    if case.loops_forever() && !error.is_deadline_missed() {
        let why = format!("the loop should have missed its deadline, but: {error}");
        return Err(Verdict::Failed(why).into());
    }
    Ok(())
}

fn too_small(case: &Case, error: RuntimeError) -> Result<(), Attempt> {
    match error {
        RuntimeError::OutputTooSmall { shapes, .. } => {
            let first = shapes.first();
            if first.is_some_and(|shape| !shape.is_sufficient) {
                return Ok(());
            }
            let status = ErrorStatus::OutputInsufficientSize;
            let why = format!("{status} without marking the first output: {first:?}");
            Err(Verdict::Failed(why).into())
        }
        error => expected_failure(case, error),
    }
}

fn compare(case: &Case, request: &CaseRequest, outcome: &ExecutionOutcome) -> Result<(), Attempt> {
    for (index, expected) in case.outputs.iter().enumerate() {
        // A fenced execution tells no shapes: those of the model are known to be complete.
        let shape = outcome.output_shapes.get(index);
        let dimensions =
            shape.map_or(expected.dimensions.as_slice(), |shape| shape.dimensions.as_slice());
        let bytes = request
            .output(index, expected.bytes.len())
            .map_err(|error| Verdict::Failed(error.to_string()))?;
        case.compare(index, dimensions, &bytes)
            .map_err(|mismatch| Verdict::Failed(mismatch.to_string()))?;
    }
    Ok(())
}

fn is_supported(case: &Case, device: &Device) -> bool {
    device.supported_operations(&case.model).is_ok_and(|taken| taken.into_iter().all(|yes| yes))
}

/// Whether an output's size is unknown or zero.
fn has_open_output(case: &Case) -> bool {
    let main = &case.model.main;
    main.output_indexes.iter().any(|&index| {
        let operand = usize::try_from(index).ok().and_then(|at| main.operands.get(at));
        operand.is_none_or(|operand| operand.data_size().is_none())
    })
}
