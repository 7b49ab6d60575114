//! `nnburst bench`: several streams, times instead of counts, corrected latencies, and files for
//! other tools.

mod common;

use common::{fail, json, path, run, succeed, text};
use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::TfliteFile;

#[test]
fn several_streams_are_measured_together_and_each_for_itself() {
    let args = ["bench", "--builtin", "add1", "--runs", "40", "--streams", "3", "--json"];
    let options = ["--priority", "high", "--preference", "low-power", "--warmup", "5"];
    let out = succeed(&[&args[..], &options].concat());
    let report = json(out.trim_end());
    assert_eq!((&report["streams"], &report["runs"]), (&json("3"), &json("120")));
    assert_eq!((&report["priority"], &report["wait"]), (&json("\"high\""), &json("\"block\"")));
    assert!(report["calls_per_s"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["corrected_us"], json("null"), "nothing was paced");
    let streams = report["per_stream"].as_array().unwrap();
    assert_eq!(streams.len(), 3);
    assert!(streams.iter().all(|stream| stream["runs"] == 40), "{report}");
}

#[test]
fn paced_calls_for_a_time_are_corrected_and_written_for_other_tools() {
    let dir = tempfile::tempdir().unwrap();
    let hgrm = dir.path().join("add1.hgrm");
    let args = ["bench", "--builtin", "add1", "--duration", "300ms", "--warmup", "10ms"];
    let options = ["--period", "1", "--hgrm", path(&hgrm), "--csv"];
    let out = succeed(&[&args[..], &options].concat());
    let rows: Vec<Vec<_>> = out.lines().map(|line| line.split(',').collect()).collect();
    let [heading, row] = rows.as_slice() else { panic!("{out}") };
    assert_eq!(heading.len(), row.len(), "{out}");
    let cell = |name: &str| {
        let at = heading.iter().position(|&column| column == name).unwrap();
        row[at].parse::<f64>().unwrap()
    };
    let calls = cell("runs");
    assert!(calls > 0.0 && cell("duration_s") >= 0.3, "{out}");
    // Whoever waited for a late call is counted too, so nothing gets shorter.
    assert!(cell("corrected_p99_us") >= cell("latency_p99_us") * 0.99, "{out}");
    assert!(cell("corrected_max_us") >= cell("latency_max_us"), "{out}");
    let text_of = std::fs::read_to_string(&hgrm).unwrap();
    assert!(text_of.trim_start().starts_with("Value"), "{text_of}");
    let total = text_of.split("Total count    =").nth(1).unwrap();
    let total: f64 = total.split(']').next().unwrap().trim().parse().unwrap();
    assert!(total >= calls, "{text_of}");

    // Callers whose calls the driver gives up waited as well.
    let args = ["bench", "--builtin", "mobilenet_v2_1.0_224", "--runs", "5", "--json"];
    let output = run(&[&args[..], &["--period", "1", "--deadline", "0.1"]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let report = json(text(&output.stdout).trim_end());
    assert_eq!(report["deadlines_missed"], 5, "{report}");
    assert!(report["corrected_us"]["max"].as_f64().unwrap() >= 100.0, "{report}");

    let two = ["bench", "--builtin", "add1", "--builtin", "sine", "--hgrm", path(&hgrm)];
    assert!(fail(2, &two).contains("one model"));
}

#[test]
fn batches_count_requests_and_are_refused_where_requests_mix() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model.tflite");
    let write = |shape: &[i32]| {
        let mut file = TfliteFile::new();
        let x = file.input("x", TensorKind::Float32, shape);
        let y = file.tensor("y", TensorKind::Float32, shape);
        file.operator("RELU", &[x], &[y]);
        file.outputs(&[y]);
        std::fs::write(&model, file.build()).unwrap();
    };
    write(&[1, 6]);
    let args = ["bench", path(&model), "--batch", "8", "--runs", "20"];
    let report = json(succeed(&[&args[..], &["--json"]].concat()).trim_end());
    assert_eq!((&report["batch"], &report["runs"]), (&json("8"), &json("20")));
    let rates = ["results_per_s", "calls_per_s"].map(|rate| report[rate].as_f64().unwrap());
    assert!((rates[0] / rates[1] - 8.0).abs() < 0.1, "{report}");
    assert!(succeed(&args).contains("batches of 8, "));
    write(&[2, 6]);
    assert!(fail(1, &args).contains("can't hold 8 requests"));
}
