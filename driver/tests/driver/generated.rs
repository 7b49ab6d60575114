//! Conformance cases through a driver in another process' place: over the socket, by every kind of
//! execution, with every kind of output. Every 29th case is taken, and all that must fail;
//! `nnburst vts` takes them all.

use std::time::Duration;

use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_conformance::{Case, load_dir, shared_dir};
use nnburst_hal::*;

use crate::support::*;

/// A number that shares no factor with how specifications lay out their cases.
const EVERY: usize = 29;

fn by_every_kind(
    model: &dyn PreparedModel,
    request: &Request,
    options: ExecutionOptions,
) -> Vec<(&'static str, ExecutionResult)> {
    let mut results = vec![
        ("synchronous", model.execute_synchronously(request, options)),
        ("asynchronous", execute_async(model, request, options)),
    ];
    let burst = BurstController::configure(model, &ControllerOptions::default(), None);
    if let Ok(result) = burst.unwrap().execute(request, &options) {
        results.push(("burst", result));
    }
    results
}

/// Executes a case and holds it against what is expected.
fn check(device: &dyn Device, case: &Case) {
    let what = format!("{} {}", case.spec, case.name);
    let model = match prepare(device, case.model.clone()) {
        Ok(model) => model,
        Err(error) => {
            assert!(case.expect_failure && !case.loops_forever(), "{what}: {error}");
            return;
        }
    };
    let loop_timeout = case.loops_forever().then_some(Duration::from_millis(1));
    let options = ExecutionOptions { loop_timeout, ..ExecutionOptions::default() };
    let asked = case.request().unwrap();
    for (kind, result) in by_every_kind(model.as_ref(), &asked.request, options) {
        match result {
            Ok(outcome) => {
                assert!(!case.expect_failure, "{what}, {kind}: must fail");
                assert_eq!(outcome.timing, Timing::NONE, "{what}, {kind}");
                for (index, shape) in outcome.output_shapes.iter().enumerate() {
                    let bytes = asked.output(index, case.outputs[index].bytes.len()).unwrap();
                    let good = case.compare(index, &shape.dimensions, &bytes);
                    assert!(good.is_ok() && shape.is_sufficient, "{what}, {kind}: {good:?}");
                }
            }
            Err(failure) => {
                assert!(case.expect_failure, "{what}, {kind}: {}", failure.error);
                assert!(failure.output_shapes.is_empty(), "{what}, {kind}");
                if case.loops_forever() {
                    let status = failure.error.status;
                    assert_eq!(status, ErrorStatus::MissedDeadlineTransient, "{what}, {kind}");
                }
            }
        }
    }
    check_fenced(model.as_ref(), case, &asked.request, options, &what);
    check_short(model.as_ref(), case, &what);
}

/// Fenced executions need outputs of known shapes, none of them empty.
fn check_fenced(
    model: &dyn PreparedModel,
    case: &Case,
    request: &Request,
    options: ExecutionOptions,
    what: &str,
) {
    let main = &case.model.main;
    let outputs = main.output_indexes.iter().map(|&at| &main.operands[at as usize]);
    let known = outputs.map(Operand::has_unspecified_dimensions).all(|unknown| !unknown);
    match execute_fenced(model, request, options) {
        Ok(_) => assert!(known && !case.expect_failure, "{what}, fenced"),
        Err(error) if known => assert!(case.expect_failure, "{what}, fenced: {error}"),
        Err(error) => assert_eq!(error.status, ErrorStatus::InvalidArgument, "{what}, fenced"),
    }
}

/// A first output one byte too short is told with its shape, and so are the others.
fn check_short(model: &dyn PreparedModel, case: &Case, what: &str) {
    if case.expect_failure {
        return;
    }
    let Some(asked) = case.request_with_short_output().unwrap() else { return };
    for (kind, result) in by_every_kind(model, &asked.request, ExecutionOptions::default()) {
        let failure = result.unwrap_err();
        let status = failure.error.status;
        assert_eq!(status, ErrorStatus::OutputInsufficientSize, "{what}, {kind}");
        assert_eq!(failure.output_shapes.len(), case.outputs.len(), "{what}, {kind}");
        for (index, shape) in failure.output_shapes.iter().enumerate() {
            assert_eq!(shape.is_sufficient, index > 0, "{what}, {kind}, output {index}");
        }
        let told = &failure.output_shapes[0].dimensions;
        assert_eq!(*told, case.outputs[0].dimensions, "{what}, {kind}");
    }
}

#[test]
#[ignore = "takes a folder of conformance cases"]
fn cases_give_what_they_must_over_the_socket() {
    let folder = shared_dir("conformance").expect("a folder of conformance cases");
    let served = served(CPU);
    let mut taken = 0;
    for (at, case) in load_dir(folder).unwrap().enumerate() {
        let case = case.unwrap();
        if at % EVERY > 0 && !case.expect_failure {
            continue;
        }
        let twin = case.signed_twin().unwrap();
        for case in
            [Some(&case), case.dynamic_shapes().as_ref(), twin.as_ref()].into_iter().flatten()
        {
            check(&served.device, case);
            taken += 1;
        }
    }
    println!("{taken} cases by every kind of execution");
    assert!(taken > 100, "{taken} cases");
}
