//! The page of made-up runs: what is on it, and that it asks nobody for anything.

use std::collections::BTreeMap;

use super::html;
use crate::report::{
    CrashReport, Latency, ModelReport, ModelResult, OpSupport, Report, Support, TargetReport,
};

const EVIL: &str = "<script>alert('x')</script>\" onload=\"y";

fn run() -> Report {
    let op = |taken| OpSupport {
        op: "CONV_2D".into(),
        taken,
        why: if taken { "".into() } else { EVIL.into() },
        ..OpSupport::default()
    };
    let result = ModelResult {
        outcome: "CRASH".into(),
        process: Some("driver".into()),
        reason: EVIL.into(),
        stderr_tail: EVIL.into(),
        support: Some(Support { taken: 1, of: 2, partitions: 2, ops: vec![op(true), op(false)] }),
        latency: BTreeMap::from([(
            "burst".into(),
            Latency { note: "partly".into(), ..Latency::default() },
        )]),
        ..ModelResult::default()
    };
    let model = ModelReport {
        id: EVIL.into(),
        what: EVIL.into(),
        per_target: BTreeMap::from([("t0".into(), result)]),
        ..ModelReport::default()
    };
    let crash = CrashReport {
        id: "c01".into(),
        target: "t0".into(),
        outcome: "HANG".into(),
        stderr_tail: EVIL.into(),
        threads: EVIL.into(),
        kept: EVIL.into(),
        ..CrashReport::default()
    };
    Report {
        verdict: "FAIL".into(),
        reasons: vec![EVIL.into()],
        command: vec![EVIL.into()],
        targets: vec![TargetReport {
            id: "t0".into(),
            name: EVIL.into(),
            ..TargetReport::default()
        }],
        models: vec![model],
        crash: vec![crash],
        ..Report::default()
    }
}

#[test]
fn what_drivers_say_is_text_and_nothing_is_fetched() {
    let page = html(&[run()], None);
    assert!(!page.contains("<script"), "escaped everywhere");
    assert!(!page.contains(" onload=\"y"), "also in attributes");
    assert!(page.contains("&lt;script&gt;"));
    assert!(!page.contains("http:") && !page.contains("https:"), "no address of anybody");
    for (at, _) in page.match_indices("src=") {
        assert!(page[at..].starts_with("src=\"data:"), "{}", &page[at..at + 40]);
    }
    for (at, _) in page.match_indices("href=\"") {
        let target = &page[at + 6..at + 12];
        assert!(target.starts_with('#') || target.starts_with("data:,"), "{target}");
    }
    assert!(page.len() < 2 << 20);
}

#[test]
fn the_page_says_what_failed_whose_fault_it_was_and_what_is_partly() {
    let page = html(&[run()], None);
    for words in [
        "FAIL",
        "CRASH driver",
        "H HANG",
        "1/2 partly",
        "(partly)",
        "prefers-color-scheme:dark",
        "@media print",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn several_runs_stand_beside_each_other() {
    let mut other = run();
    other.targets[0].name = "the other driver".into();
    let page = html(&[run(), other], None);
    assert_eq!(page.matches("<th>the other driver").count(), 1, "a column of the crash matrix");
    assert!(html(&[], None).contains("no run"));
}
