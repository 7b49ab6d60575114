//! Goldens: every case in every mode, twice, and the tier that it reaches.
//!
//! | tier | quantised | floats |
//! |---|---|---|
//! | exact | the golden or the manifest's steps | 16 x XNNPACK's distance, 1e-5 of the largest |
//! | close | a step, or twice XNNPACK's distance | 64 x XNNPACK's distance, 1e-4; relaxed 5e-3 |
//! | task | what the task's rule says of the case | the same |
//!
//! NNAPI rounds some operations where TFLite, whose reference kernels made the goldens, does not.
//! Bits that equal the reference device's count as exact, as long as they are within
//! [`NNAPI_STEPS`] of the golden or right by the task's rule.

use std::time::Duration;

use super::pass::{Pass, ReferenceModel};
use super::{photos, tasks};
use crate::data::{CaseEntry, Family, bytes_of};
use crate::evaluators::{Difference, ElementType, difference};
use crate::protocol::CallMode;
use crate::report::{Accuracy, CaseReport, WrongValue};
use crate::worker::client::CallError;
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::{Feed, Sequence};

/// Steps that NNAPI's roundings grow to behind a few layers.
const NNAPI_STEPS: f64 = 4.0;

/// Tiers, best first.
pub(super) const TIERS: [&str; 4] = ["exact", "close", "task", "none"];

/// A case's outputs, and what is known of them.
pub(super) struct CaseOutputs<'a> {
    pub(super) case: &'a CaseEntry,
    pub(super) outputs: Vec<Vec<u8>>,
    pub(super) goldens: Vec<Vec<u8>>,
}

/// Distances that each tier allows an output.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    exact: f64,
    close: f64,
}

pub(super) fn judge(pass: &Pass<'_>) -> Outcome<Accuracy> {
    let mut accuracy = Accuracy {
        tier: "exact".to_owned(),
        deterministic: true,
        modes_agree: true,
        ..Accuracy::default()
    };
    let mut answers = Vec::new();
    let mut arbiter: Option<Option<ReferenceModel>> = None;
    for case in &pass.work.model.cases {
        let answer = run_modes(pass, case, &mut accuracy)?;
        let report = rate(pass, &answer, &mut arbiter)?;
        if rank(&report.tier) > rank(&accuracy.tier) {
            accuracy.tier.clone_from(&report.tier);
        }
        accuracy.cases.push(report);
        answers.push(answer);
    }
    accuracy.evaluators = tasks::evaluate(pass, &answers);
    accuracy.evaluators.extend(photos::evaluate(pass)?);
    Ok(accuracy)
}

/// The place of a tier: 0 is the best.
pub(crate) fn rank(tier: &str) -> usize {
    TIERS.iter().position(|known| *known == tier).unwrap_or(TIERS.len())
}

/// Runs a case in all modes, and in the first one twice.
fn run_modes<'a>(
    pass: &Pass<'_>,
    case: &'a CaseEntry,
    accuracy: &mut Accuracy,
) -> Outcome<CaseOutputs<'a>> {
    let feed = Feed::of_case(case).map_err(Stopped::failed)?;
    let mut first: Option<Vec<Vec<u8>>> = None;
    for &mode in &pass.work.modes {
        let during =
            |error| Stopped::from(error).during(format!("{} in {}", case.name, mode.name()));
        let mut sequence = Sequence::new(pass.loaded, pass.prepared.session(mode).map_err(during)?);
        let outputs = sequence.run(&feed, pass.pulse).map_err(during)?;
        match &first {
            None => {
                if accuracy.cases.is_empty()
                    && let Some(at) = changes_later(&mut sequence).map_err(during)?
                {
                    accuracy.deterministic = false;
                    let name = &case.name;
                    note(accuracy, format!("written after the end of the call: {name} {at}"));
                }
                let again = sequence.run(&feed, pass.pulse).map_err(during)?;
                if let Some(at) = apart(&outputs, &again) {
                    accuracy.deterministic = false;
                    note(
                        accuracy,
                        format!("not deterministic: {} {at} the second time", case.name),
                    );
                }
                first = Some(outputs);
            }
            Some(known) => {
                if let Some(at) = apart(known, &outputs) {
                    accuracy.modes_agree = false;
                    let mode = mode.name();
                    note(accuracy, format!("modes differ: {} {at} in {mode}", case.name));
                }
            }
        }
    }
    let goldens = case.outputs.iter().map(|path| bytes_of(path)).collect::<Result<_, _>>();
    let goldens = goldens.map_err(Stopped::failed)?;
    Ok(CaseOutputs { case, outputs: first.unwrap_or_default(), goldens })
}

/// The time in which a driver that writes after it has answered gives itself away.
const LATER: Duration = Duration::from_millis(30);

/// The first byte that changes although no call is under way, in words.
fn changes_later(sequence: &mut Sequence<'_>) -> Result<Option<String>, CallError> {
    let at_once = sequence.read()?;
    std::thread::sleep(LATER);
    Ok(apart(&at_once, &sequence.read()?))
}

fn note(accuracy: &mut Accuracy, reason: String) {
    if accuracy.reason.is_empty() {
        accuracy.reason = reason;
    }
}

/// The first byte in which two results differ, in words.
fn apart(one: &[Vec<u8>], other: &[Vec<u8>]) -> Option<String> {
    for (output, (one, other)) in one.iter().zip(other).enumerate() {
        let at = one.iter().zip(other).position(|(one, other)| one != other);
        let at = at.or_else(|| (one.len() != other.len()).then_some(one.len().min(other.len())));
        if let Some(at) = at {
            let of = |bytes: &[u8]| bytes.get(at).map_or_else(String::new, u8::to_string);
            return Some(format!("output {output} byte {at} is {} and not {}", of(other), of(one)));
        }
    }
    (one.len() != other.len()).then(|| "has another number of outputs".to_owned())
}

/// The tier of a case.
fn rate(
    pass: &Pass<'_>,
    answer: &CaseOutputs<'_>,
    arbiter: &mut Option<Option<ReferenceModel>>,
) -> Outcome<CaseReport> {
    let mut report = compare(pass, answer, &answer.goldens);
    let wide = answer.case.wide.iter().map(|path| bytes_of(path)).collect::<Result<Vec<_>, _>>();
    let wide = wide.map_err(Stopped::failed)?;
    if !wide.is_empty() {
        // A hybrid model is right with its weights widened as well.
        let widened = compare(pass, answer, &wide);
        if rank(&widened.tier) <= rank(&report.tier) {
            report = widened;
        }
    }
    let is_right = tasks::is_right(pass, answer);
    if report.tier == "none" {
        report.hint = hint(pass, answer);
    }
    if report.tier == "none" && is_right {
        "task".clone_into(&mut report.tier);
    }
    if report.tier != "exact" && (is_right || report.max_abs <= NNAPI_STEPS) {
        let arbiter = arbiter.get_or_insert_with(|| pass.arbiter());
        if let Some(reference) = arbiter {
            let feed = Feed::of_case(answer.case).map_err(Stopped::failed)?;
            let session = reference.prepared.session(CallMode::Sync)?;
            let mut sequence = Sequence::new(&reference.loaded, session);
            if sequence.run(&feed, pass.pulse).is_ok_and(|bits| bits == answer.outputs) {
                "exact".clone_into(&mut report.tier);
                report.first = None;
            }
        }
    }
    Ok(report)
}

/// What explains a wrong answer, if anything: outputs that have each other's goldens, or values
/// that nobody wrote.
fn hint(pass: &Pass<'_>, answer: &CaseOutputs<'_>) -> String {
    let is_close = |output: usize, golden: usize| {
        let (Some(bytes), Some(golden_bytes)) =
            (answer.outputs.get(output), answer.goldens.get(golden))
        else {
            return false;
        };
        let kind = kind_of(pass, golden);
        let allowed = allowed(pass, answer.case, golden, kind, golden_bytes);
        bytes.len() == golden_bytes.len()
            && kind == kind_of(pass, output)
            && difference(kind, bytes, golden_bytes, allowed.close).max_abs <= allowed.close
    };
    let count = answer.goldens.len();
    for one in 0..count {
        for other in one + 1..count {
            if !is_close(one, one) && is_close(one, other) && is_close(other, one) {
                return format!("outputs {one} and {other} are exchanged");
            }
        }
    }
    let is_blank = |bytes: &Vec<u8>| bytes.iter().all(|&byte| byte == 0);
    let blank = answer.outputs.iter().zip(&answer.goldens);
    let mut blank = blank.enumerate().filter(|(_, (got, want))| is_blank(got) && !is_blank(want));
    blank.next().map_or_else(String::new, |(at, _)| format!("output {at} is all zeros"))
}

/// The distance from goldens, and the exact or close tier if one is reached.
fn compare(pass: &Pass<'_>, answer: &CaseOutputs<'_>, goldens: &[Vec<u8>]) -> CaseReport {
    let mut report = CaseReport { name: answer.case.name.clone(), ..CaseReport::default() };
    let mut tier = 0;
    let (mut squares, mut magnitudes) = (0.0, 0.0);
    for (output, golden) in goldens.iter().enumerate() {
        let kind = kind_of(pass, output);
        let bytes = answer.outputs.get(output).map_or(&[][..], Vec::as_slice);
        if pass.work.model.family == Family::Pixels && bytes.len() != golden.len() {
            // The golden has the classes of scores: how many differ is all there is to say.
            let agreed = tasks::pixels_agreeing(pass, bytes, golden);
            tier = tier.max(if agreed >= 1.0 { 0 } else { 3 });
            report.max_abs = report.max_abs.max(1.0 - agreed);
            report.of += golden.len();
            continue;
        }
        let allowed = allowed(pass, answer.case, output, kind, golden);
        let found = difference(kind, bytes, golden, allowed.exact);
        tier = tier.max(tier_of(&found, allowed));
        report.max_abs = report.max_abs.max(found.max_abs);
        report.differ += found.differ;
        report.of += found.of;
        squares += found.mean_square();
        magnitudes += found.mean_abs();
        if let (None, Some((index, expected, actual))) = (report.first, found.first) {
            report.first = Some(WrongValue { output, index, expected, actual });
        }
    }
    let count = crate::num::real(goldens.len().max(1));
    (report.mse, report.mae) = (squares / count, magnitudes / count);
    // What is no number has no place in JSON.
    for figure in [&mut report.max_abs, &mut report.mse, &mut report.mae] {
        *figure = figure.min(f64::MAX);
    }
    report.tier = TIERS.get(tier).copied().unwrap_or("none").to_owned();
    report
}

fn tier_of(found: &Difference, allowed: Allowed) -> usize {
    if found.max_abs <= allowed.exact {
        0
    } else if found.max_abs <= allowed.close {
        1
    } else {
        3
    }
}

/// The type of an output.
pub(super) fn kind_of(pass: &Pass<'_>, output: usize) -> ElementType {
    let position = pass.loaded.outputs().get(output).copied();
    let operand = position.and_then(|position| pass.loaded.output(position));
    operand.map_or(ElementType::Uint8, |operand| ElementType::of_name(operand.kind.name()))
}

fn allowed(
    pass: &Pass<'_>,
    case: &CaseEntry,
    output: usize,
    kind: ElementType,
    golden: &[u8],
) -> Allowed {
    let accept = &pass.work.model.accept;
    let peers = case.xnnpack.get(output).copied().unwrap_or(0.0);
    if !kind.is_float() {
        let exact = accept.exact.unwrap_or(0.0);
        return Allowed { exact, close: exact.max(1.0).max(2.0 * peers) };
    }
    let scale = difference(kind, golden, golden, 0.0).scale;
    let exact = (16.0 * peers).max(1e-5 * scale).max(accept.abs.unwrap_or(0.0));
    let relaxed = if pass.loaded.model.relax_computation_float32_to_float16 {
        5e-3 + 5e-3 * scale
    } else {
        0.0
    };
    Allowed { exact, close: exact.max(64.0 * peers).max(1e-4).max(relaxed) }
}
