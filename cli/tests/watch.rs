//! Watching services: `top` and `dump` of what clients in processes of their own do, as text, JSON
//! and CSV.

mod common;
mod services;

use std::process::Command;

use serde_json::Value;

use common::{ended, json, signal, text, until};
use services::{DRIVER, Services};

#[test]
fn bursts_and_synchronous_models_of_a_service_can_be_watched() {
    let mut services = Services::start();
    assert_eq!(services.dump()["clients"], json("[]"), "nobody is there yet");
    let (burst, sync) = (services.client("burst"), services.client("sync"));
    let busy = |pid, kind: &str| {
        let works = services.works(pid);
        works.into_iter().find(|work| work["kind"] == kind && work["executions"] != 0)
    };
    until("the burst", || busy(burst, "burst").is_some());
    until("the model", || busy(sync, "model").is_some());
    for work in [busy(burst, "burst").unwrap(), busy(sync, "model").unwrap()] {
        assert!(work["model"].as_str().unwrap().starts_with("Add"), "{work}");
        assert_eq!((&work["missed_deadlines"], &work["failures"]), (&json("0"), &json("0")));
        assert_eq!(work["priority"], "MEDIUM", "{work}");
        assert!(work["queue_depth"].as_u64().unwrap() <= 1, "{work}");
        for field in ["rate_per_s", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"] {
            assert!(work[field].as_f64().unwrap() > 0.0, "{field}: {work}");
        }
    }
    let dump = services.dump();
    assert_eq!(
        (&dump["service"], &dump["is_whole"]),
        (&json("\"nnapi-sample_all\""), &json("true"))
    );
    assert_eq!(dump["pid"], services.service.id());
    assert!(dump["resident_bytes"].as_u64().unwrap() > 1 << 20, "{dump}");
    for client in dump["clients"].as_array().unwrap() {
        assert_eq!(client["client"], "nnburst", "{client}");
        assert!(client["resources"]["bytes_of_memory"]["used"].as_u64().unwrap() > 0, "{client}");
        assert!(client["resources"]["file_descriptors"]["limit"].is_u64(), "{client}");
    }

    // A window tells of what happened in it: a client that calls every millisecond.
    let windowed = json(services.said(&["dump", "--json", "--window", "300"]).trim_end());
    let window = |it: &Value| it["window_s"].as_f64().unwrap();
    assert!((0.3..30.0).contains(&window(&windowed)), "{windowed}");
    assert!(windowed["rate_per_s"].as_f64().unwrap() > 0.0, "{windowed}");

    for pid in [burst, sync] {
        signal("-9", pid);
    }
    until("the clients' end", || services.dump()["clients"] == json("[]"));
    let counted = services.dump()["executions"].as_u64().unwrap();
    assert!(counted >= 2, "what clients did that are gone stays counted");
    signal("-TERM", services.service.id());
    assert_eq!(ended(&mut services.service), Some(0));
    let none = services.run(&["dump", DRIVER]).output().unwrap();
    assert_ne!(none.status.code(), Some(0), "nobody serves any more");
}

#[test]
fn the_table_fits_60_columns_and_csv_has_a_cell_for_each_column() {
    let mut services = Services::start();
    let pid = services.client("burst");
    until("the burst", || services.works(pid).iter().any(|work| work["kind"] == "burst"));
    let top = ["top", "--interval", "100", "--rounds", "3"];
    let [dumped, looked] = [services.said(&["dump"]), services.said(&top)];
    let rows = |text: &str| text.lines().filter(|line| line.contains("burst medium")).count();
    assert_eq!((rows(&dumped), rows(&looked)), (1, 3), "{dumped}{looked}");
    for line in dumped.lines().chain(looked.lines()) {
        assert!(line.chars().count() <= 60, "{line}");
    }
    for column in ["per s", "p50 us", "p99", "max", "late", "q"] {
        assert!(dumped.contains(column), "{dumped}");
    }
    let csv = services.said(&["top", "--interval", "100", "--rounds", "2", "--csv"]);
    let lines: Vec<_> = csv.lines().collect();
    let columns = lines[0].split(',').count();
    // The model's shapes are the only cell with commas in it.
    let cells = |line: &str| line.replace("\"Add, ", "\"Add ").split(',').count();
    assert!(lines.iter().all(|line| cells(line) == columns), "{csv}");
    let kinds: Vec<_> = lines[1..].iter().map(|line| line.split(',').nth(3).unwrap()).collect();
    assert_eq!(kinds, [["service", "client", "model", "burst"]; 2].concat(), "{csv}");

    // On a terminal each look takes the place of the one before.
    const CLEAR: &str = "\x1b[H\x1b[2J";
    assert!(!looked.contains(CLEAR));
    let on_terminal = format!("{} {}", env!("CARGO_BIN_EXE_nnburst"), top.join(" "));
    let mut script = Command::new("script");
    script.args(["-qc", &on_terminal, "/dev/null"]);
    script.env("NNBURST_SERVICE_DIR", services.services());
    match script.stdin(std::process::Stdio::null()).output() {
        Ok(shown) => assert_eq!(text(&shown.stdout).matches(CLEAR).count(), 3, "{shown:?}"),
        Err(_) => assert!(!nnburst_hal::testing::is_there("script", false)),
    }
}
