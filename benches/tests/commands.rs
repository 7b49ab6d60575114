//! The lab's commands run, and keep their contracts. What they measure is not judged here.

#![expect(clippy::unwrap_used, reason = "a helper of tests fails like a test")]

use std::process::{Command, Output};

use nnburst_fmq::testing::is_there;

fn run(command: &str, args: &[&str]) -> Output {
    let output = Command::new(command).args(args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {args:?}: {}: {error}", output.status);
    output
}

/// Returns whether both sides of the lab can have a processor each.
fn two_processors() -> bool {
    let processors = std::thread::available_parallelism().map_or(1, |processors| processors.get());
    is_there("processors", processors >= 2)
}

#[test]
fn every_line_of_the_queue_part_has_the_agreed_fields() {
    if !two_processors() {
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
fn calls_by_every_road_give_figures_and_files() {
    if !two_processors() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("nnburst-lab-{}", std::process::id()));
    let page = folder.join("page.html");
    let [files, html] = [&folder, &page].map(|path| path.to_str().unwrap().to_owned());
    let args = ["burst", "--quick", "--json", "--hgrm", &files, "--html", &html];
    let output = run(env!("CARGO_BIN_EXE_latency"), &args);
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(object["p50_ns"].as_u64().unwrap() > 0, "{line}");
    }
    let rows = "2 models, 2 neighbours, 5 routes; 2 beside idle bursts; 3 on one CPU";
    assert_eq!(text.lines().count(), 25, "{rows}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("<polyline") && !page.contains("http"), "self-contained, with curves");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2 * 25 + 1);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_c_library_is_held_against_rust() {
    if !two_processors() {
        return;
    }
    let output = run(env!("CARGO_BIN_EXE_latency"), &["ndk", "--quick", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .inspect(|object| assert!(object["p50_ns"].as_f64().unwrap() > 0.0, "{object}"))
        .map(|row| ["bench", "device"].map(|key| row[key].as_str().unwrap().to_owned()).join(" "))
        .collect();
    let wanted = ["nnapi-sample_all", "nnapi-reference"]
        .map(|device| [format!("ndk {device}"), format!("ndk-memories {device}")]);
    assert_eq!(rows, wanted.concat());
}

#[test]
fn a_short_soak_loses_nothing() {
    let output = run(env!("CARGO_BIN_EXE_soak"), &["--minutes", "0.05"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("every one as it was written"), "{text}");
}
