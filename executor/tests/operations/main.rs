//! Writes the table of `docs/operations.md`, or checks that it is current.
//!
//! `cargo xtask operations` writes it. Types come from the signatures of `hal`, kernels and forms
//! from the steps that the conformance cases are compiled to, the figures from running every plain
//! case once.

mod table;
mod tally;

use std::path::Path;

use nnburst_conformance::{load_dir, shared_dir};
use nnburst_hal::testing::is_there;

use tally::Tally;

#[test]
fn the_table_of_operations_is_current() {
    let Some(folder) = shared_dir("conformance") else {
        return;
    };
    let mut tally = Tally::default();
    for case in load_dir(folder).unwrap() {
        tally.add(&case.unwrap());
    }
    tally.inexact.iter().for_each(|case| println!("{case}"));
    let page = table::page(&tally);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    if std::env::var_os("NNBURST_WRITE_DOCS").is_some() {
        std::fs::write(path, page).unwrap();
        return;
    }
    if !tally.has_every_form() {
        // Steps name the kernel variants that the page lists, AVX-512's among them.
        is_there("avx512vbmi", false);
        return;
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    let line = there.lines().zip(page.lines()).find(|(there, now)| there != now);
    assert!(there == page, "docs/operations.md is old (cargo xtask operations): {line:?}");
}

#[test]
fn every_operation_of_the_interface_is_computed() {
    for &kind in nnburst_hal::OperationType::BASE {
        let expected = kind != nnburst_hal::OperationType::OemOperation;
        assert_eq!(nnburst_executor::is_implemented(kind), expected, "{kind}");
    }
}
