//! Every case's model is valid, by the rules of the HAL, from the version on that the case names.
#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

use nnburst_conformance::{Case, load_dir, shared_dir};
use nnburst_hal::{AllowUnspecifiedOutput, Version, validate_model, validate_request};

#[test]
fn every_case_is_valid() {
    let Some(folder) = shared_dir("conformance") else {
        println!("skipped: no folder of conformance cases");
        return;
    };
    let mut refused = Vec::new();
    for case in load_dir(folder).unwrap() {
        let case = case.unwrap();
        let twin = case.signed_twin().unwrap();
        for case in case.dynamic_shapes().iter().chain(&twin).chain([&case]) {
            if let Err(reason) = check(case)
                && !case.expect_failure
            {
                refused.push(format!("{}: {reason}", case.name));
            }
        }
    }
    assert!(
        refused.is_empty(),
        "{} refused, such as\n{}",
        refused.len(),
        refused[..20.min(refused.len())].join("\n")
    );
}

fn check(case: &Case) -> Result<(), nnburst_hal::ValidationError> {
    validate_model(&case.model, Version::V1_3)?;
    let request = case.request().unwrap().request;
    validate_request(&request, &case.model, Version::V1_3, AllowUnspecifiedOutput::Yes)
}
