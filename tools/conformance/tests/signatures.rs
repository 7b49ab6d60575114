//! The tables of signatures against the specification's, both ways.
#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

use std::collections::BTreeSet;

use nnburst_conformance::shared_dir;
use nnburst_hal::{OperandRun, OperationInfo, OperationType, Version, operation_info};
use serde_json::Value;

type Row = (String, Vec<String>, Vec<String>);

#[test]
fn the_tables_say_what_the_specification_says() {
    let Some(folder) = shared_dir("spec") else {
        return;
    };
    let text = std::fs::read_to_string(folder.join("operations.json")).unwrap();
    let spec: Value = serde_json::from_str(&text).unwrap();
    let mut rows = 0;
    for (name, operation) in spec["operations"].as_object().unwrap() {
        let kind = OperationType::from_name(name).unwrap();
        let Some(info) = operation_info(kind).filter(|info| !info.signatures.is_empty()) else {
            assert!(["IF", "WHILE", "OEM_OPERATION"].contains(&name.as_str()), "{name}");
            continue;
        };
        let expected: BTreeSet<Row> =
            operation["signatures"].as_array().unwrap().iter().map(expected_row).collect();
        let tables = table_rows(info);
        assert_eq!(tables, expected, "{name}");
        rows += tables.len();
        assert_eq!(operation["accepts_zero_sized_tensor"], info.zero_sized, "{name}");
        let omittable = operation["omittable_inputs"].as_array().unwrap();
        assert!(omittable.iter().eq(info.omittable), "{name}");
    }
    println!("{rows} signatures");
    assert_eq!(rows, 589, "all but those of IF and WHILE");
}

fn expected_row(signature: &Value) -> Row {
    let types = |list: &Value| -> Vec<String> {
        let words = list.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        words.map(|word| word.strip_suffix(" axis").unwrap_or(word).to_owned()).collect()
    };
    let since = signature["since"].as_str().unwrap().to_owned();
    (since, types(&signature["inputs"]), types(&signature["outputs"]))
}

/// Every signature with each number of trailing groups.
fn table_rows(info: &OperationInfo) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    for signature in info.signatures {
        for groups in 0..=signature.trailing.len() {
            let trailing = &signature.trailing[..groups];
            let since = trailing.iter().map(|group| group.since).chain([signature.since]).max();
            let mut inputs = runs(signature.inputs, " x n (n>=1)");
            let kinds = trailing.iter().flat_map(|group| group.kinds);
            inputs.extend(kinds.map(|kind| kind.name().to_owned()));
            let version = match since.unwrap() {
                Version::V1_0 => "1.0",
                Version::V1_1 => "1.1",
                Version::V1_2 => "1.2",
                Version::V1_3 => "1.3",
            };
            rows.insert((version.to_owned(), inputs, runs(signature.outputs, " x num_splits")));
        }
    }
    rows
}

fn runs(runs: &[OperandRun], variable: &str) -> Vec<String> {
    runs.iter()
        .flat_map(|run| {
            let name = run.kind.name();
            if run.least == run.most {
                vec![name.to_owned(); run.most]
            } else {
                vec![format!("{name}{variable}")]
            }
        })
        .collect()
}
