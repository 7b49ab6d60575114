//! What the cases say of each operation.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nnburst_conformance::Case;
use nnburst_executor::{
    CompileOptions, Control, Input, Isa, Output, Plan, RunError, StepTime, quantised_range,
};
use nnburst_hal::{OperandType, OperationType, View, ViewMut};

/// Counts of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) cases: usize,
    pub(super) passed: usize,
    pub(super) quantised: usize,
    /// Quantised cases that are right in every quantised element.
    pub(super) exact: usize,
    /// The greatest distance of a quantised element from what the case expects.
    pub(super) furthest: u32,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: BTreeMap<OperationType, Count>,
    /// Cases that expect other numbers than ours, within what is allowed.
    pub(super) inexact: Vec<String>,
    /// Kernels of each operation, by its name, with the forms seen.
    pub(super) kernels: BTreeMap<&'static str, BTreeMap<&'static str, BTreeSet<String>>>,
}

/// The forms that the page lists.
const FORMS: [&str; 4] = ["avx512vbmi", "avx512", "avx2", "scalar"];

impl Tally {
    pub(super) fn has_every_form(&self) -> bool {
        FORMS.iter().all(|isa| Isa::named(isa).is_ok())
    }

    pub(super) fn total(&self) -> Count {
        self.counts.values().fold(Count::default(), |sum, count| Count {
            cases: sum.cases + count.cases,
            passed: sum.passed + count.passed,
            quantised: sum.quantised + count.quantised,
            exact: sum.exact + count.exact,
            furthest: sum.furthest.max(count.furthest),
        })
    }

    /// Runs a case with the best form, and once with each other for its labels.
    pub(super) fn add(&mut self, case: &Case) {
        let Some(kind) = named_after(case) else { return };
        let outcome = run(case, None);
        let count = self.counts.entry(kind).or_default();
        count.cases += 1;
        match outcome {
            Err(_) => count.passed += usize::from(case.expect_failure),
            Ok(outcome) => {
                let right = outcome
                    .outputs
                    .iter()
                    .enumerate()
                    .all(|(index, (dims, bytes))| case.compare(index, dims, bytes).is_ok());
                count.passed += usize::from(right && !case.expect_failure);
                if let Some(furthest) = distance(case, &outcome) {
                    count.quantised += 1;
                    count.exact += usize::from(furthest == 0);
                    count.furthest = count.furthest.max(furthest);
                    if furthest > 0 {
                        self.inexact.push(format!("{kind}: {} is {furthest} apart", case.name));
                    }
                }
            }
        }
        if case.expect_failure {
            return;
        }
        for isa in FORMS.into_iter().filter_map(|isa| Isa::named(isa).ok()) {
            for step in run(case, Some(isa)).into_iter().flat_map(|outcome| outcome.steps) {
                let kernels = self.kernels.entry(step.name).or_default();
                let forms = kernels.entry(step.label.kernel).or_default();
                forms.insert(format!("{:?}", step.label.form));
            }
        }
    }
}

/// The operation that a case is about: its first that isn't one of the ADDs that variations put
/// around it.
fn named_after(case: &Case) -> Option<OperationType> {
    let mut kinds = case.model.main.operations.iter().map(|operation| operation.kind);
    let first = kinds.clone().next();
    kinds.find(|&kind| kind != OperationType::Add).or(first)
}

#[derive(Debug)]
struct Outcome {
    outputs: Vec<(Vec<u32>, Vec<u8>)>,
    steps: Vec<StepTime>,
}

fn run(case: &Case, isa: Option<Isa>) -> Result<Outcome, String> {
    let options = CompileOptions { isa, ..CompileOptions::default() };
    let plan = Plan::compile(&case.model, &options).map_err(|error| error.to_string())?;
    let mut session = plan.session();
    let loop_timeout = Duration::from_millis(if case.loops_forever() { 1 } else { 2000 });
    let control = Control { loop_timeout, ..Control::default() };
    let inputs: Vec<Input<'_>> = case
        .inputs
        .iter()
        .map(|input| match input.bytes.len() {
            0 => Input::NoValue,
            _ => Input::new(View::of(&input.bytes)),
        })
        .collect();
    let mut buffers: Vec<Vec<u8>> =
        case.outputs.iter().map(|output| vec![0; output.bytes.len().max(1)]).collect();
    let outputs: Vec<_> =
        buffers.iter_mut().map(|buffer| Output::new(ViewMut::of(buffer))).collect();
    let steps = session
        .profile(&inputs, &outputs, &control)
        .map_err(|error: RunError| error.to_string())?;
    let outputs = session.output_shapes().iter().zip(buffers).zip(&case.outputs);
    let outputs = outputs
        .map(|((shape, mut bytes), expected)| {
            bytes.truncate(expected.bytes.len());
            (shape.dimensions.clone(), bytes)
        })
        .collect();
    Ok(Outcome { outputs, steps })
}

/// The greatest distance of any quantised element, in steps; `None` where no output is quantised.
fn distance(case: &Case, outcome: &Outcome) -> Option<u32> {
    let mut furthest = None;
    for ((_, bytes), expected) in outcome.outputs.iter().zip(&case.outputs) {
        if quantised_range(expected.kind).is_none() {
            continue;
        }
        let pairs =
            stored(expected.kind, bytes).into_iter().zip(stored(expected.kind, &expected.bytes));
        let most = pairs.map(|(a, b)| a.abs_diff(b)).max().unwrap_or(0);
        furthest = furthest.max(Some(most));
    }
    furthest
}

/// The stored values of a quantised tensor.
fn stored(kind: OperandType, bytes: &[u8]) -> Vec<i32> {
    match kind {
        OperandType::TensorQuant8Asymm => bytes.iter().map(|&q| i32::from(q)).collect(),
        OperandType::TensorQuant16Symm => {
            bytes.chunks_exact(2).map(|q| i32::from(i16::from_le_bytes([q[0], q[1]]))).collect()
        }
        OperandType::TensorQuant16Asymm => {
            bytes.chunks_exact(2).map(|q| i32::from(u16::from_le_bytes([q[0], q[1]]))).collect()
        }
        _ => bytes.iter().map(|&q| i32::from(q.cast_signed())).collect(),
    }
}
