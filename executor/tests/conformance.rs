//! Conformance cases, straight through plans: `NNBURST_CASES=softmax` keeps the cases whose file or
//! name contains that.

use std::time::Duration;

use nnburst_conformance::{Case, load_dir, shared_dir};
use nnburst_executor::{
    AlignedBytes, CompileOptions, Control, Input, Output, Plan, RunError, Snapshot,
};
use nnburst_hal::{OperationType, View, ViewMut};

/// Shape and bytes of an output.
type Value = (Vec<u32>, Vec<u8>);

#[derive(Default, Debug)]
struct Tally {
    passed: usize,
    quantised: usize,
    exact: usize,
    failed: Vec<String>,
}

#[test]
fn cases_give_what_they_must() {
    let Some(folder) = shared_dir("conformance") else {
        return;
    };
    let wanted = std::env::var("NNBURST_CASES").unwrap_or_default();
    let mut tally = Tally::default();
    for case in load_dir(folder).unwrap() {
        let case = case.unwrap();
        if !case.spec.contains(&wanted) && !case.name.contains(&wanted) {
            continue;
        }
        check(&case, &mut tally);
        if let Some(dynamic) = case.dynamic_shapes() {
            check(&dynamic, &mut tally);
        }
        if let Some(twin) = case.signed_twin().unwrap() {
            check(&twin, &mut tally);
        }
    }
    println!(
        "{} passed (of {} quantised ones {} exact in every element), {} failed",
        tally.passed,
        tally.quantised,
        tally.exact,
        tally.failed.len()
    );
    for failure in tally.failed.iter().take(50) {
        println!("  {failure}");
    }
    assert!(tally.failed.is_empty(), "{} cases failed", tally.failed.len());
}

fn check(case: &Case, tally: &mut Tally) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge(case)));
    match result {
        Ok(Ok(exact)) => {
            tally.passed += 1;
            if let Some(exact) = exact {
                tally.quantised += 1;
                tally.exact += usize::from(exact);
            }
        }
        Ok(Err(error)) => tally.failed.push(format!("{} {}: {error}", case.spec, case.name)),
        Err(_) => tally.failed.push(format!("{} {}: panicked", case.spec, case.name)),
    }
}

/// `Some` where an output is quantised: whether all of them are exact.
fn judge(case: &Case) -> Result<Option<bool>, String> {
    match run(case) {
        Err(error) if case.loops_forever() => {
            if error.contains("longer than") {
                Ok(None)
            } else {
                Err(error)
            }
        }
        Err(_) if case.expect_failure => Ok(None),
        Err(error) => Err(error),
        Ok(_) if case.expect_failure => Err("must fail, but didn't".to_owned()),
        Ok(outputs) => {
            let mut exact = None;
            for (index, (dimensions, bytes)) in outputs.iter().enumerate() {
                case.compare(index, dimensions, bytes).map_err(|error| error.to_string())?;
                let expected = &case.outputs[index];
                if nnburst_executor::quantised_range(expected.kind).is_some() {
                    exact = Some(exact.unwrap_or(true) && expected.bytes == *bytes);
                }
            }
            Ok(exact)
        }
    }
}

/// The outputs, from the plan and from its parts put together again, which must agree.
fn run(case: &Case) -> Result<Vec<Value>, String> {
    let options = CompileOptions::default();
    let plan = Plan::compile(&case.model, &options).map_err(|error| error.to_string())?;
    let snapshot = plan.snapshot(&case.model).ok_or("no snapshot of the plan")?;
    let weights = packed(&snapshot);
    let Snapshot { model, absent, entries, .. } = snapshot;
    let restored = Plan::restore(model, absent, &entries, weights, &options, &Control::default());
    let (restored, _) = restored.map_err(|error| format!("not restored: {error}"))?;
    let mut operations = std::iter::once(&case.model.main)
        .chain(&case.model.referenced)
        .flat_map(|graph| &graph.operations);
    let draws = operations.any(|operation| operation.kind == OperationType::RandomMultinomial);
    match (run_plan(case, &plan), run_plan(case, &restored)) {
        (Ok(fresh), Ok(restored)) if fresh != restored && !draws => {
            Err("the restored plan gives something else".to_owned())
        }
        (Ok(_), Err(error)) => Err(format!("the restored plan fails: {error}")),
        (fresh, _) => fresh,
    }
}

/// The packed weights as a file would have them.
fn packed(snapshot: &Snapshot) -> AlignedBytes {
    let mut bytes: Vec<u8> = Vec::new();
    for weights in snapshot.weights() {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        bytes.extend(weights);
    }
    AlignedBytes::copy_of(&bytes)
}

/// The outputs of a second run, so that what the first one learnt is used; with buffers that end
/// with the value.
fn run_plan(case: &Case, plan: &Plan) -> Result<Vec<Value>, String> {
    let mut session = plan.session();
    let control = Control {
        loop_timeout: Duration::from_millis(if case.loops_forever() { 1 } else { 2000 }),
        ..Control::default()
    };
    // One byte in front: nothing may rely on alignment.
    let shifted: Vec<Vec<u8>> = case
        .inputs
        .iter()
        .map(|input| std::iter::once(0).chain(input.bytes.iter().copied()).collect())
        .collect();
    let inputs: Vec<Input<'_>> = shifted
        .iter()
        .map(|bytes| match bytes.len() {
            1 => Input::NoValue,
            _ => Input::new(View::of(&bytes[1..])),
        })
        .collect();
    let mut buffers: Vec<Vec<u8>> =
        case.outputs.iter().map(|output| vec![0xA5; output.bytes.len().max(1)]).collect();
    for _ in 0..2 {
        let outputs: Vec<_> =
            buffers.iter_mut().map(|buffer| Output::new(ViewMut::of(buffer))).collect();
        session.run(&inputs, &outputs, &control).map_err(|e| e.to_string())?;
    }
    insufficient(case, &mut session, &inputs, &control)?;
    let shapes = session.output_shapes();
    let outputs = shapes.iter().zip(buffers).zip(&case.outputs);
    Ok(outputs
        .map(|((shape, mut bytes), expected)| {
            bytes.truncate(expected.bytes.len());
            (shape.dimensions.clone(), bytes)
        })
        .collect())
}

/// A first output one byte too short must be told, with its shape.
fn insufficient(
    case: &Case,
    session: &mut nnburst_executor::Session,
    inputs: &[Input<'_>],
    control: &Control<'_>,
) -> Result<(), String> {
    if case.outputs[0].bytes.len() <= 1 || case.expect_failure {
        return Ok(());
    }
    let mut buffers: Vec<Vec<u8>> =
        case.outputs.iter().map(|o| vec![0; o.bytes.len().max(1)]).collect();
    buffers[0].pop();
    let outputs: Vec<_> =
        buffers.iter_mut().map(|buffer| Output::new(ViewMut::of(buffer))).collect();
    match session.run(inputs, &outputs, control) {
        Err(RunError::InsufficientSize { index: 0, .. }) => {
            let shape = &session.output_shapes()[0];
            if shape.is_sufficient || shape.dimensions != case.outputs[0].dimensions {
                return Err(format!("one byte too short told {shape:?}"));
            }
            Ok(())
        }
        other => Err(format!("one byte too short gave {other:?}")),
    }
}
