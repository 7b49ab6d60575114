//! `nnburst vts`: conformance cases on a device, in the mode asked for.

mod attempt;
mod device_memory;
mod ndk;

use std::borrow::Cow;
use std::io::Write;

use nnburst::Device;
use nnburst_conformance::{Case, LoadError, load_dir};

use crate::args::{Api, ModeArg, VtsArgs};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::session::open_device;
use attempt::{Attempt, attempt};
use ndk::Ndk;

/// The verdict of a case.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// True if the very bytes were met that the case expects.
    Passed {
        exact: bool,
    },
    Failed(String),
    Skipped(&'static str),
}

/// The device that the cases run on, and its interface.
enum Target {
    Runtime(Device),
    Ndk(Ndk),
}

impl Target {
    fn open(args: &VtsArgs) -> Result<Self, Failure> {
        match args.api {
            Api::Rust => open_device(&args.engine).map(Self::Runtime),
            Api::Ndk if args.cache => {
                Err(Failure::usage("--cache: the library keeps its own, use --api rust"))
            }
            Api::Ndk => Ndk::open(&args.engine).map(Self::Ndk),
        }
    }

    fn is_supported(&self, case: &Case) -> bool {
        match self {
            Self::Runtime(device) => is_supported(case, device),
            Self::Ndk(ndk) => ndk.is_supported(case),
        }
    }

    fn attempt(&self, case: &Case, args: &VtsArgs) -> Result<bool, Attempt> {
        match self {
            Self::Runtime(device) => attempt(case, device, args),
            Self::Ndk(ndk) => ndk.attempt(case, args),
        }
    }
}

/// The counts.
#[derive(Debug, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// Passed cases with quantised operands.
    quantised: u64,
    /// Of those, the ones whose every integer is what the case expects.
    exact: u64,
    reasons: std::collections::BTreeMap<&'static str, u64>,
}

/// Runs every case and fails if one does.
pub(crate) fn vts(args: &VtsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if !args.dir.exists() {
        return Err(Failure::usage(format!("{}: no such folder", args.dir.display())));
    }
    let cases = load_dir(&args.dir).map_err(|error| Failure::usage(error.to_string()))?;
    if args.api == Api::Ndk
        && let Some(done) = ndk::beside_a_service(&args.engine)
    {
        return done;
    }
    let target = Target::open(args)?;
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
        match judge(&case, &target, args)? {
            Verdict::Passed { exact } => {
                tally.passed += 1;
                tally.quantised += u64::from(case.is_quantised());
                tally.exact += u64::from(case.is_quantised() && exact);
            }
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
    let Tally { passed, failed, skipped, quantised, exact, reasons } = tally;
    if args.json {
        let mode = args.engine.mode.name();
        let line = serde_json::json!({
            "mode": mode, "passed": passed, "failed": failed, "skipped": skipped, "reasons": reasons,
            "quantised": quantised, "exact": exact,
        });
        writeln!(out, "{line}")?;
    } else {
        for (why, count) in reasons {
            writeln!(out, "skipped {count}: {why}")?;
        }
        // Cases that end with an error on purpose have no elements.
        if *quantised > 0 && !args.insufficient_size {
            writeln!(out, "{exact} of {quantised} quantised cases are exact in every element")?;
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
fn judge(case: &Case, target: &Target, args: &VtsArgs) -> Result<Verdict, Failure> {
    let case = match derived(case, target, args) {
        Ok(case) => case,
        Err(verdict) => return Ok(verdict),
    };
    if args.engine.mode == ModeArg::Fenced && has_open_output(&case) {
        return Ok(Verdict::Skipped("fenced executions take outputs of known size only"));
    }
    match target.attempt(&case, args) {
        Err(Attempt::Lost(failure)) => Err(failure.during(&case.name)),
        Err(Attempt::Wrong(verdict)) => Ok(verdict),
        Ok(exact) => Ok(Verdict::Passed { exact }),
    }
}

/// The case that the options make of this one; a verdict where they make none.
fn derived<'a>(case: &'a Case, target: &Target, args: &VtsArgs) -> Result<Cow<'a, Case>, Verdict> {
    let failed = |error: LoadError| Verdict::Failed(error.to_string());
    let mut case = Cow::Borrowed(case);
    if args.signed_twins {
        let twin = case.signed_twin().map_err(failed)?.ok_or(Verdict::Skipped("no signed twin"))?;
        let both = [&*case, &twin].map(|case| target.is_supported(case));
        if both[0] != both[1] {
            let [unsigned, signed] = both;
            let why = format!("unsigned taken: {unsigned}, signed taken: {signed}");
            return Err(Verdict::Failed(why));
        }
        case = Cow::Owned(twin);
    }
    if args.all_tensors_as_inputs {
        let none = Verdict::Skipped("no constant tensor");
        case = Cow::Owned(case.constants_as_inputs().map_err(failed)?.ok_or(none)?);
    }
    if args.all_inputs_as_internal {
        let none = Verdict::Skipped("no input that an ADD can make");
        case = Cow::Owned(case.inputs_as_internal().ok_or(none)?);
    }
    if args.dynamic_shapes || args.insufficient_size {
        let none = Verdict::Skipped("output shapes can't be left open");
        case = Cow::Owned(case.dynamic_shapes().ok_or(none)?);
    }
    Ok(case)
}

fn is_supported(case: &Case, device: &Device) -> bool {
    device.supported_operations(&case.model).is_ok_and(|taken| taken.into_iter().all(|yes| yes))
}

/// Returns whether an output's size is unknown or zero.
fn has_open_output(case: &Case) -> bool {
    let main = &case.model.main;
    main.output_indexes.iter().any(|&index| {
        let operand = usize::try_from(index).ok().and_then(|at| main.operands.get(at));
        operand.is_none_or(|operand| operand.data_size().is_none())
    })
}
