//! `dora run`.

use dora_node_api::serde_json::Value;
use nix::sys::signal::Signal;

use crate::flow::{Folder, Running, kill_9, number_in, send};

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The results that the sink's report has, once there are so many.
fn results(folder: &Folder, report: &str, least: i64) -> Option<i64> {
    let results = number(&folder.report(report)?["results"]);
    (results >= least).then_some(results)
}

#[test]
#[ignore = "needs dora; cargo xtask doors dora"]
fn frames_of_a_camera_are_inferred_and_their_age_is_reported() {
    let folder = Folder::new("camera.yml", &[("rate=30", "rate=30 frames=60")]);
    let mut dora = Running::dora_run(&folder);
    assert!(dora.wait().success(), "{}", dora.log());
    let report = folder.report("camera.json").unwrap();
    let told = &report["nodes"]["infer"]["told"];
    let results = number(&report["results"]);
    assert!(results > 0, "{report}");
    assert_eq!(results, number(&told["inferred"]), "{report}");
    // While its nodes find each other dora may lose a frame.
    let ends = results + number(&told["dropped"]);
    assert!((57..=60).contains(&ends), "each frame has an end: {report}");
    assert!(report["age_ms"]["p99"].as_f64() > Some(0.0), "{report}");
}

#[test]
#[ignore = "needs dora; cargo xtask doors dora"]
fn a_node_that_is_killed_loses_what_it_had_and_the_others_go_on() {
    let folder = Folder::new(
        "share.yml",
        &[
            ("rate=30", "rate=40 frames=240"),
            ("model.tflite", "model.tflite at-least=40"),
            // A machine that is busy elsewhere leaves nodes silent that are there.
            ("workers=a+b+c", "workers=a+b+c silence=60000"),
        ],
    );
    let mut dora = Running::dora_run(&folder);
    let before = dora.until("results", |_| results(&folder, "share.json", 60));
    let node = dora.until("a process", |log| number_in(log, " b: ", "spawned node with pid "));
    kill_9(node);
    dora.wait();
    let report = folder.report("share.json").unwrap();
    let nodes = &report["nodes"];
    let of = |name: &str| number(&nodes[name]["results"]);
    assert!(of("a") > 0 && of("b") > 0 && of("c") > 0, "{report}\n{}", dora.log());
    assert!(number(&report["results"]) > before + 60, "{report}\n{}", dora.log());
    let lost = |why: &str| report["lost"][why].as_i64().unwrap_or_default();
    assert!(lost("gone") + lost("unanswered") <= 1, "one was on its way: {report}");
    assert_eq!(number(&report["overtaken"]), 0, "{report}");
    let ends = number(&report["results"]) + lost("gone") + lost("dropped") + lost("unanswered");
    // While its nodes find each other dora may lose a frame.
    let heard = number_in(&dora.log(), " frames: ", "stdout deal: ").unwrap();
    assert!(ends >= i64::from(heard), "each frame has an end: {report}\n{}", dora.log());
}

#[test]
#[ignore = "needs dora; cargo xtask doors dora"]
fn a_driver_that_is_killed_is_restarted_and_reported() {
    let folder = Folder::new(
        "camera.yml",
        &[
            ("rate=30", "rate=20 frames=80"),
            ("model.tflite", "model.tflite device=spawn/nnburst-cpu"),
        ],
    );
    let mut dora = Running::dora_run(&folder);
    let before = dora.until("results", |_| results(&folder, "camera.json", 10));
    let driver = dora.until("a driver", |log| number_in(log, "model.tflite on spawn", "driver "));
    kill_9(driver);
    assert!(dora.wait().success(), "{}", dora.log());
    let report = folder.report("camera.json").unwrap();
    let told = &report["nodes"]["infer"]["told"];
    assert_eq!(number(&told["restarts"]), 1, "{report}\n{}", dora.log());
    assert_eq!(number(&told["failed"]), 0, "the frame had another try: {report}");
    assert!(number(&report["results"]) > before, "{report}");
    assert!(dora.log().contains("SIGKILL"), "{}", dora.log());
}

#[test]
#[ignore = "needs dora; cargo xtask doors dora"]
fn a_driver_that_hangs_costs_the_frames_of_that_time() {
    let folder = Folder::new(
        "camera.yml",
        &[
            ("rate=30", "rate=20 frames=200"),
            ("model.tflite", "model.tflite device=spawn/nnburst-cpu deadline=300"),
        ],
    );
    let mut dora = Running::dora_run(&folder);
    dora.until("results", |_| results(&folder, "camera.json", 10));
    let driver = dora.until("a driver", |log| number_in(log, "model.tflite on spawn", "driver "));
    send(driver, Signal::SIGSTOP);
    let missed = || {
        let report = folder.report("camera.json")?;
        let missed = report["nodes"]["infer"]["told"]["missed"].as_i64().unwrap_or(0);
        (missed >= 2).then(|| number(&report["results"]))
    };
    let before = dora.until("missed frames", |_| missed());
    send(driver, Signal::SIGCONT);
    dora.until("further results", |_| results(&folder, "camera.json", before + 10));
    assert!(dora.wait().success(), "{}", dora.log());
    let report = folder.report("camera.json").unwrap();
    assert_eq!(number(&report["nodes"]["infer"]["told"]["restarts"]), 0, "{report}");
}
