//! Every case's model is valid, by the rules of the HAL, from the version on that the case names.
#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

use nnburst_conformance::{Case, load_dir, shared_dir};
use nnburst_hal::{
    AllowUnspecifiedOutput, Version, compliant_with, convert_to, trim_default_arguments,
    validate_model, validate_request,
};

#[test]
fn every_case_is_valid() {
    let Some(folder) = shared_dir("conformance") else {
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

#[test]
fn the_first_version_that_expresses_a_case_is_the_one_it_names() {
    let Some(folder) = shared_dir("conformance") else {
        return;
    };
    let (mut checked, mut wrong) = (0, Vec::new());
    for case in load_dir(folder).unwrap() {
        let mut case = case.unwrap();
        // As the suites do: what is said by default need not be said.
        trim_default_arguments(&mut case.model);
        let Some(named) = case.min_version.filter(|_| !case.expect_failure) else { continue };
        if case.name == "mobilenet_224_gender_basic_fixed" {
            continue; // named 1.2 by hand; every operation of it is one of 1.0
        }
        checked += 1;
        let compliant = Version::ALL.into_iter().filter(|&v| compliant_with(&case.model, v));
        let compliant: Vec<_> = compliant.collect();
        let expected: Vec<_> = Version::ALL.into_iter().filter(|&v| v >= named).collect();
        if compliant != expected {
            wrong.push(format!("{}: {compliant:?}, not {expected:?}", case.name));
            continue;
        }
        let converted = convert_to(case.model.clone(), named);
        let valid = validate_model(&converted.value, named);
        if let Err(reason) = valid {
            wrong.push(format!("{}: at {named:?}: {reason}", case.name));
        }
    }
    let head = wrong[..20.min(wrong.len())].join("\n");
    assert!(wrong.is_empty(), "{} of {checked} are wrong, such as\n{head}", wrong.len());
    println!("{checked} cases checked");
}
