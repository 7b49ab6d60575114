//! `nnburst trace`: spans of a client and its driver in one file, each request followed across.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod common;
mod services;

use std::collections::HashSet;

use serde_json::Value;

use common::{fail, json, path, succeed, text};
use services::{DRIVER, Services};

/// The events of a file, which is whole JSON.
fn events(file: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    json(&text)["traceEvents"].as_array().unwrap().clone()
}

fn number(event: &Value, field: &str) -> f64 {
    event[field].as_f64().unwrap()
}

/// Arrows that leave a span of one process and arrive in one of another.
fn arrows(events: &[Value], from: &str, to: &str) -> usize {
    let within = |flow: &Value, name: &str| {
        events.iter().any(|span| {
            let (start, at) = (number_or_zero(span, "ts"), number(flow, "ts"));
            span["ph"] == "X"
                && span["name"] == name
                && (&span["pid"], &span["tid"]) == (&flow["pid"], &flow["tid"])
                && start <= at
                && at <= start + number(span, "dur")
        })
    };
    let ends = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    let sent = ends("s").filter(|sent| within(sent, from));
    sent.filter(|sent| {
        ends("f").any(|came| {
            (&came["id"], &came["cat"]) == (&sent["id"], &sent["cat"])
                && came["pid"] != sent["pid"]
                && within(came, to)
        })
    })
    .count()
}

fn number_or_zero(event: &Value, field: &str) -> f64 {
    event[field].as_f64().unwrap_or(0.0)
}

#[test]
fn requests_are_followed_from_client_to_driver_and_into_its_operations() {
    let mut services = Services::start();
    services.client("burst");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.json");
    let own = "spawn:nnburst-cpu";
    for (device, mode, from, to) in [
        (own, "burst", "[NN_LR_PE]burst", "[NN_LD_PO]request"),
        (own, "sync", "[NN_LI_PE]ExecuteSynchronously", "[NN_LD_PO]ExecuteSynchronously"),
        // A service that runs already, in its sandbox.
        (DRIVER, "burst", "[NN_LR_PE]burst", "[NN_LD_PO]request"),
    ] {
        let args = ["trace", "--builtin", "add1", "--runs", "7", "--device", device];
        let args = [&args[..], &["--mode", mode, "--output", path(&file)]].concat();
        let output = services.run(&args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("spans in"), "{}", text(&output.stdout));
        let events = events(&file);
        assert_eq!(arrows(&events, from, to), 7, "{device} {mode}: {events:?}");
        let operations = events.iter().filter(|event| event["name"] == "[NN_LC_PCO]ADD").count();
        let names: HashSet<_> = events.iter().map(|event| event["name"].to_string()).collect();
        assert!(operations >= 7, "{device} {mode}: {names:?}");
        let processes: HashSet<_> = events.iter().map(|event| event["pid"].to_string()).collect();
        assert_eq!(processes.len(), 2, "{processes:?}");
        let times: Vec<_> = events.iter().map(|event| number_or_zero(event, "ts")).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}

#[test]
fn programs_are_traced_with_the_drivers_that_they_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.json");
    let program = ["bench", "--builtin", "add1", "--runs", "3", "--json"];
    let args = ["trace", "--output", path(&file), "--", env!("CARGO_BIN_EXE_nnburst")];
    let said = succeed(&[&args[..], &program].concat());
    assert!(said.starts_with("{\"model\":\"add1\""), "the program's own words: {said}");
    let events = events(&file);
    assert!(arrows(&events, "[NN_LR_PE]burst", "[NN_LD_PO]request") >= 3, "{events:?}");

    let missing = dir.path().join("no/spans.json");
    let said = fail(2, &["trace", "--builtin", "add1", "--output", path(&missing)]);
    assert!(said.contains("no/spans.json") && said.contains("make "), "{said}");
    let said = fail(2, &["trace", "--output", path(&file), "--", "no-such-program"]);
    assert!(said.contains("no-such-program"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
