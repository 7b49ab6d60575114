//! Goldens: every case in every mode, twice, and the tier that it reaches.
//!
//! | tier | quantised | floats |
//! |---|---|---|
//! | exact | the golden, but for the manifest's steps | 16 x XNNPACK's distance, 1e-5 of the largest |
//! | close | a step, or twice XNNPACK's distance | 64 x XNNPACK's distance, 1e-4; relaxed 5e-3 |
//! | task | what the task's rule says of the case | the same |
//!
//! NNAPI rounds some operations where TFLite, whose reference kernels made the goldens, does not.
//! Bits that equal the reference device's count as exact, as long as they are within
//! [`NNAPI_STEPS`] of the golden or right by the task's rule.

use super::pass::Pass;
use super::{photos, tasks};
use crate::data::{CaseEntry, Family, bytes_of};
use crate::evaluators::{Difference, Kind, difference};
use crate::protocol::CallMode;
use crate::report::{Accuracy, CaseReport, WrongValue};
use crate::worker::client::Prepared;
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
    let mut arbiter: Option<Option<Prepared>> = None;
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
    arbiter: &mut Option<Option<Prepared>>,
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
    if report.tier == "none" && is_right {
        "task".clone_into(&mut report.tier);
    }
    if report.tier != "exact" && (is_right || report.max_abs <= NNAPI_STEPS) {
        let arbiter = arbiter.get_or_insert_with(|| pass.arbiter());
        if let Some(prepared) = arbiter {
            let feed = Feed::of_case(answer.case).map_err(Stopped::failed)?;
            let mut sequence = Sequence::new(pass.loaded, prepared.session(CallMode::Sync)?);
            if sequence.run(&feed, pass.pulse).is_ok_and(|bits| bits == answer.outputs) {
                "exact".clone_into(&mut report.tier);
                report.first = None;
            }
        }
    }
    Ok(report)
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
pub(super) fn kind_of(pass: &Pass<'_>, output: usize) -> Kind {
    let position = pass.loaded.outputs().get(output).copied();
    let operand = position.and_then(|position| pass.loaded.output(position));
    operand.map_or(Kind::Uint8, |operand| Kind::of_name(operand.kind.name()))
}

fn allowed(pass: &Pass<'_>, case: &CaseEntry, output: usize, kind: Kind, golden: &[u8]) -> Allowed {
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
