//! Every mutation of a valid model or request is refused. Over one case per specification, which
//! has every operation in it.
#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

use std::collections::HashSet;

use nnburst_conformance::{Case, load_dir, shared_dir};
use nnburst_hal::testing::{model_mutations, request_mutations};
use nnburst_hal::{AllowUnspecifiedOutput, Version, validate_model, validate_request};

/// Larger models repeat what smaller ones show.
const MOST_OPERANDS: usize = 200;

#[test]
fn every_mutation_is_refused() {
    let Some(folder) = shared_dir("conformance") else {
        return;
    };
    let mut seen = HashSet::new();
    let (mut models, mut requests, mut accepted) = (0, 0, Vec::new());
    for case in load_dir(folder).unwrap() {
        let case = case.unwrap();
        let small = case.model.main.operands.len() <= MOST_OPERANDS;
        if !small || case.expect_failure || !seen.insert(case.spec.clone()) {
            continue;
        }
        models += check_models(&case, &mut accepted);
        requests += check_requests(&case, &mut accepted);
    }
    let head = accepted[..20.min(accepted.len())].join("\n");
    println!("{models} models, {requests} requests");
    assert!(accepted.is_empty(), "{} accepted, such as\n{head}", accepted.len());
}

fn check_models(case: &Case, accepted: &mut Vec<String>) -> usize {
    let mut count = 0;
    for version in Version::ALL {
        if validate_model(&case.model, version).is_err() {
            continue;
        }
        for mutation in model_mutations(&case.model, version) {
            count += 1;
            if validate_model(&mutation.model, version).is_ok() {
                accepted.push(format!("{} at {version:?}: {}", case.name, mutation.what));
            }
        }
    }
    count
}

fn check_requests(case: &Case, accepted: &mut Vec<String>) -> usize {
    let request = case.request().unwrap().request;
    let mutations = request_mutations(&request, &case.model);
    for mutation in &mutations {
        let allow = AllowUnspecifiedOutput::Yes;
        if validate_request(&mutation.request, &case.model, Version::V1_3, allow).is_ok() {
            accepted.push(format!("{}: {}", case.name, mutation.what));
        }
    }
    mutations.len()
}
