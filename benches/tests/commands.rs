//! The lab's commands run, and keep their contracts. What they measure is not judged here.

#![expect(clippy::unwrap_used, reason = "a helper of tests fails like a test")]

use std::process::{Command, Output};

fn run(command: &str, args: &[&str]) -> Output {
    let output = Command::new(command).args(args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {args:?}: {}: {error}", output.status);
    output
}

#[test]
fn every_line_of_the_queue_part_has_the_agreed_fields() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        println!("skipped: the lab needs two CPUs");
        return;
    }
    let output = run(env!("CARGO_BIN_EXE_latency"), &["fmq", "--quick", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut transports = Vec::new();
    for line in text.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        let of_bench: &[&str] = match object["bench"].as_str().unwrap() {
            "round_trip" => &["p50_ns", "p99_ns", "p999_ns", "max_ns"],
            "throughput" => &["items_per_s"],
            other => panic!("a bench called {other}"),
        };
        for field in ["processes", "bytes", "samples"].iter().chain(of_bench) {
            assert!(object[field].is_number(), "{field} in {line}");
        }
        assert!(
            ["spin", "block", "adaptive"].contains(&object["wait"].as_str().unwrap()),
            "{line}"
        );
        transports.push(object["transport"].as_str().unwrap().to_owned());
    }
    assert!(transports.contains(&"raw-atomic".to_owned()), "{transports:?}");
}

#[test]
fn a_short_soak_loses_nothing() {
    let output = run(env!("CARGO_BIN_EXE_soak"), &["--minutes", "0.05"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("every one as it was written"), "{text}");
}
