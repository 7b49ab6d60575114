//! The acceptance suite as a command: a driver in each kind of process, the files it writes, and
//! what it says where something is wrong.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod common;

use std::path::Path;
use std::time::Instant;

use common::{GUARD, command, fail, json, path, run, succeed, text};
use serde_json::Value;

/// A run of one built-in network and one crash test.
fn mlts(dir: &Path, args: &[&str]) -> Value {
    let (file, page) = (dir.join("run.json"), dir.join("run.html"));
    let mut all = vec!["mlts", "run", "--quick", "--json", path(&file), "--html", path(&page)];
    all.extend(["--filter", "^(model/add1|c08|c10)$"]);
    all.extend(args);
    let out = succeed(&all);
    assert!(out.starts_with("PASS: "), "{out}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("PASS") && !page.contains("://"), "a page that fetches nothing");
    json(&std::fs::read_to_string(&file).unwrap())
}

#[test]
fn a_driver_in_each_kind_of_process_passes() {
    let program = env!("CARGO_BIN_EXE_nnburst");
    let driver = format!("{program} serve --driver nnburst-cpu --fd 0");
    let service = format!("{program} serve --driver nnburst-cpu");
    for (how, args) in [
        ("spawn", &[][..]),
        ("embedded", &["--device", "embedded"]),
        ("spawn", &["--driver-cmd", &driver]),
        ("service", &["--service-cmd", &service, "--device", "nnburst-cpu"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let report = mlts(dir.path(), args);
        assert_eq!(report["targets"][0]["how"], how, "{args:?}");
        let result = &report["models"][0]["per_target"]["t0"];
        assert_eq!(result["support"]["taken"], result["support"]["of"], "{args:?}");
        let burst = &result["latency"]["burst"];
        assert!(burst["n"].as_u64().unwrap() >= 30, "{args:?}: {burst}");
        assert!(burst["hdr"].as_str().unwrap().starts_with("HIST"), "{args:?}");
        assert_eq!(report["crash"].as_array().unwrap().len(), 2, "{args:?}");
        let has_probe = report["crash"][0]["probe"]["calls"].as_u64().is_some();
        assert_eq!(has_probe, how == "service", "{args:?}: another client beside the tests");
    }
}

#[test]
fn reports_are_rendered_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    drop(mlts(dir.path(), &["--device", "embedded"]));
    let out = succeed(&["mlts", "compare", path(&file), path(&file)]);
    assert!(out.contains("add1 burst: p50") && out.contains("within noise"), "{out}");
    let page = dir.path().join("both.html");
    succeed(&["mlts", "report", path(&file), path(&file), "--html", path(&page)]);
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg"), "histograms");
}

#[test]
fn what_is_asked_for_wrongly_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let error = fail(2, &["mlts", "run", "--models", path(dir.path())]);
    assert!(error.contains("manifest.json"), "{error}");
    let error = fail(2, &["mlts", "run", "--driver-cmd", " "]);
    assert!(error.contains("empty command"), "{error}");
    let error = fail(2, &["mlts", "run", "--peers", "/nowhere/results.jsonl"]);
    assert!(error.contains("/nowhere/results.jsonl"), "{error}");
    let error = fail(2, &["mlts", "worker"]);
    assert!(error.contains("mlts run"), "{error}");
    let out = run(&["mlts", "run", "--driver-cmd", "/nowhere/driver", "--filter", "^c08$"]);
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
    let list = succeed(&["mlts", "list", "--quick"]);
    assert!(list.contains("model/add1") && list.contains("c14"), "{list}");
}

#[test]
fn ctrl_c_ends_a_run_with_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let (file, page) = (dir.path().join("run.json"), dir.path().join("run.html"));
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_nnburst"))
        .args(["mlts", "run", "--reference", "none", "--json", path(&file), "--html", path(&page)])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Once an item is over, the next one is under way.
    let errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(errors);
    assert!(lines.any(|line| line.unwrap().starts_with("SUCCESS")), "no item was over");
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let _rest: Vec<_> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let report = json(&std::fs::read_to_string(&file).unwrap());
    assert_eq!(report["verdict"], "ABORTED");
    assert_eq!(report["models"][0]["per_target"]["t0"]["outcome"], "SUCCESS");
    assert!(std::fs::read_to_string(&page).unwrap().contains("ABORTED"));
}

#[test]
fn calls_are_made_as_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    let mut child = command(&[
        "mlts",
        "run",
        "--quick",
        "--only",
        "latency",
        "--filter",
        "^model/add1$",
        "--wait",
        "spin",
        "--cpus",
        "0",
        "--threads",
        "2",
        "--realtime",
        "--period",
        "5",
        "--clients",
        "1,2",
        "--json",
        path(&file),
    ]);
    let child = child.spawn().unwrap();
    // The caller and the driver's thread are pinned while they call.
    let mut pinned = 0;
    let begun = Instant::now();
    while pinned < 2 && begun.elapsed() < GUARD {
        let processes = children_of(child.id());
        pinned = processes.iter().filter(|&&process| is_pinned(process, "0")).count();
    }
    assert_eq!(pinned, 2, "worker and driver");
    let output = child.wait_with_output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    let report = json(&std::fs::read_to_string(&file).unwrap());
    let calls = &report["calls"];
    assert_eq!((calls["wait"].as_str(), calls["realtime"].as_bool()), (Some("spin"), Some(true)));
    assert_eq!((&calls["cpus"], &calls["driver_cpus"]), (&json("[0]"), &json("[0]")));
    assert_eq!(calls["period_us"], 5000);
    let command = report["targets"][0]["command"].as_array().unwrap();
    assert_eq!(command[command.len() - 2..], ["--threads", "2"]);
    let result = &report["models"][0]["per_target"]["t0"];
    let paced = &result["latency"]["paced"];
    let blocks = paced["blocks"].as_u64().unwrap();
    let most = blocks * (125 / 5 + 1);
    assert!((1..=most).contains(&paced["n"].as_u64().unwrap()), "{blocks} blocks: {paced}");
    for clients in ["1", "2"] {
        assert!(result["throughput"][clients].as_f64().unwrap() > 0.0, "{clients} clients");
    }
    let cpu = &result["latency"]["burst"]["cpu_s_per_1000"];
    for process in ["driver", "client"] {
        assert!(cpu[process].as_f64().unwrap() > 0.0, "{process}: {cpu}");
    }
    for refused in result["refused_settings"].as_array().unwrap() {
        assert!(error.contains(refused.as_str().unwrap()), "{refused} in {error}");
    }
    let error = fail(2, &["mlts", "run", "--threads", "2", "--driver-cmd", "./driver"]);
    assert!(error.contains("--threads 2"), "{error}");
}

/// The processes that a process has started.
fn children_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        fields.split(' ').nth(1) == Some(parent.to_string().as_str())
    };
    numbers.filter(is_child).collect()
}

/// Returns whether a thread of the process may run on these processors only.
fn is_pinned(process: u32, processors: &str) -> bool {
    let threads =
        std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.is_some_and(|list| list.trim() == processors)
    })
}
