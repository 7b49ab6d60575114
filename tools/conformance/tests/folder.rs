//! Reads every case of the shared folder, where there is one.
#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

use nnburst_conformance::{Case, load_dir, shared_dir};

#[test]
fn every_case_is_read_and_agrees_with_itself() {
    let Some(folder) = shared_dir("conformance") else {
        return;
    };
    let (mut cases, mut failures, mut twins, mut dynamic) = (0, 0, 0, 0);
    for case in load_dir(folder).unwrap() {
        let case = case.unwrap();
        cases += 1;
        failures += usize::from(case.expect_failure);
        let derived = [case.dynamic_shapes(), case.signed_twin().unwrap()];
        dynamic += usize::from(derived[0].is_some());
        twins += usize::from(derived[1].is_some());
        for case in derived.iter().flatten().chain([&case]) {
            check(case);
        }
    }
    println!("{cases} cases, {dynamic} with dynamic shapes, {twins} signed twins");
    assert!(cases > 8000 && failures == 50 && twins > 500 && dynamic > 7000);
}

fn check(case: &Case) {
    let name = &case.name;
    assert_eq!(case.inputs.len(), case.model.main.input_indexes.len(), "{name}");
    assert_eq!(case.outputs.len(), case.model.main.output_indexes.len(), "{name}");
    if case.multinomial_tolerance == 0.0 {
        for (index, output) in case.outputs.iter().enumerate() {
            let verdict = case.compare(index, &output.dimensions, &output.bytes);
            assert_eq!(verdict, Ok(()), "{name}");
        }
    }
    let request = case.request().unwrap();
    for (argument, value) in request.request.inputs.iter().zip(&case.inputs) {
        assert_eq!(argument.location.length as usize, value.bytes.len(), "{name}");
    }
}
