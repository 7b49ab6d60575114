//! Each command, end to end: what it prints, what it writes, and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};

use common::{command, fail, json, path, run, succeed, text};
use nnburst_mlts::photo::Picture;
use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::TfliteFile;
use serde_json::Value;

/// A model that gives back its picture of 4 x 4 pixels as 48 classes.
fn tiny_model(dir: &Path) -> PathBuf {
    let mut file = TfliteFile::new();
    let picture = file.input("picture", TensorKind::Float32, &[1, 4, 4, 3]);
    let shape = file.int_constant("shape", &[2], &[1, 48]);
    let classes = file.tensor("classes", TensorKind::Float32, &[1, 48]);
    file.operator("RESHAPE", &[picture, shape], &[classes]);
    file.outputs(&[classes]);
    std::fs::write(dir.join("model.tflite"), file.build()).unwrap();
    dir.join("model.tflite")
}

#[test]
fn a_picture_is_classified_by_a_driver_in_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let model = tiny_model(dir.path());
    let photo = dir.path().join("photo.png");
    let mut picture = Picture { width: 4, height: 4, pixels: vec![0; 48] };
    picture.pixels[(4 + 2) * 3..][..3].copy_from_slice(&[10, 255, 20]);
    std::fs::write(&photo, picture.png().unwrap()).unwrap();
    let labels = dir.path().join("labels.txt");
    let names: Vec<_> = (0..48).map(|class| format!("class {class}")).collect();
    std::fs::write(&labels, names.join("\n")).unwrap();

    // Green of the pixel in row 1, column 2.
    let brightest = (4 + 2) * 3 + 1;
    for mode in ["inproc", "sync", "async", "fenced", "burst"] {
        let out = succeed(&[
            "run",
            path(&model),
            "--image",
            path(&photo),
            "--labels",
            path(&labels),
            "--top",
            "2",
            "--mode",
            mode,
        ]);
        let first = out.lines().next().unwrap();
        assert!(first.contains("1.00000"), "{mode}: {out}");
        assert!(first.ends_with(&format!("class {brightest}")), "{mode}: {out}");
        let second = out.lines().nth(1).unwrap();
        assert!(second.ends_with(&format!("class {}", brightest + 1)), "{mode}: {out}");
    }
    // A folder stands for the model in it.
    let out = succeed(&["run", path(dir.path()), "--image", path(&photo), "--json", "--top", "1"]);
    assert_eq!(json(&out)["top"][0]["index"], brightest);
}

#[test]
fn raw_tensors_go_in_and_come_out_step_by_step() {
    let dir = tempfile::tempdir().unwrap();
    let raw = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::write(&a, raw(&[1.0, 2.0, 3.0])).unwrap();
    std::fs::write(&b, raw(&[0.5, 0.25, 0.125])).unwrap();
    let out = dir.path().join("out");
    let (a, b) = (format!("0={}", path(&a)), format!("1={}", path(&b)));
    succeed(&[
        "run",
        "--builtin",
        "add1",
        "--input",
        &a,
        "--input",
        &b,
        "--steps",
        "3",
        "--output",
        path(&out),
    ]);
    assert_eq!(std::fs::read(out.join("out0.bin")).unwrap(), raw(&[1.5, 2.25, 3.125]));

    let error = fail(2, &["run", "--builtin", "add1", "--input", &a]);
    assert!(error.contains("takes 4 bytes a step"), "{error}");
    let error = fail(2, &["run", "--builtin", "add1", "--input", "7=x"]);
    assert!(error.contains("has inputs 0, 1"), "{error}");
}

#[test]
fn bench_says_what_it_measured() {
    for mode in ["inproc", "sync", "burst"] {
        let out = succeed(&[
            "bench",
            "--builtin",
            "add1",
            "--builtin",
            "sine",
            "--runs",
            "50",
            "--mode",
            mode,
            "--json",
        ]);
        assert_eq!(out.lines().count(), 2, "one object per model");
        let report = json(out.lines().next().unwrap());
        for field in ["latency_us", "driver_us", "overhead_us"] {
            for figure in ["min", "p50", "p90", "p99", "p999", "max", "mean"] {
                assert!(report[field][figure].is_number(), "{mode}: {field}.{figure} in {out}");
            }
        }
        for field in ["load_ms", "compile_ms", "peak_rss_mib"] {
            assert!(report[field].as_f64().unwrap() >= 0.0, "{mode}: {field} in {out}");
        }
        assert_eq!(report["model"], "add1");
        assert_eq!(report["mode"], mode);
        assert_eq!(report["runs"], 50);
        assert_eq!(report["threads"], 1);
        assert_eq!(report["wait"], "adaptive");
        assert!(report["period_ms"].is_null());
    }
    let cached = succeed(&[
        "bench",
        "--builtin",
        "sine",
        "--runs",
        "5",
        "--mode",
        "sync",
        "--cache",
        "--json",
    ]);
    assert!(json(&cached)["compile_ms"].as_f64().unwrap() > 0.0, "{cached}");
    let paced = succeed(&[
        "bench",
        "--builtin",
        "add1",
        "--runs",
        "5",
        "--period",
        "1",
        "--wait",
        "block",
        "--json",
    ]);
    assert_eq!(json(&paced)["period_ms"], 1.0);
}

#[test]
fn profile_has_a_row_per_step_and_its_share_of_the_ceiling() {
    let line = ["bench", "--builtin", "sine", "--profile", "--ceiling", "--runs", "5"];
    let text = succeed(&line);
    for word in ["reading from", "DRAM", "FULLY_CONNECTED", "of ceiling", "us a call"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    let out = succeed(&[&line[..], &["--json"]].concat());
    let [ceiling, profile] = [0, 1].map(|at| json(out.lines().nth(at).unwrap()));
    assert!(ceiling["peaks"][0]["f32_gflops"].as_f64().unwrap() > 0.0, "{out}");
    assert!(ceiling["bandwidths"][0]["gbytes_per_s"].as_f64().unwrap() > 0.0, "{out}");
    for step in profile["steps"].as_array().unwrap() {
        for figure in ["us", "rate", "share_of_ceiling", "bytes"] {
            assert!(step[figure].as_f64().unwrap() > 0.0, "{figure} in {out}");
        }
    }
}

#[test]
fn devices_are_listed() {
    let out = succeed(&["devices"]);
    assert!(out.contains("nnapi-sample_all") && out.contains("nnapi-reference"), "{out}");
    succeed(&["bench", "--builtin", "add1", "--device", "nnapi-reference", "--mode", "sync"]);
    let report = json(succeed(&["devices", "--json"]).lines().next().unwrap());
    assert_eq!(report["type"], "CPU");
    assert_eq!(report["feature_level"], 30);
}

#[test]
fn check_and_dot_tell_of_each_operation() {
    let dir = tempfile::tempdir().unwrap();
    let model = tiny_model(dir.path());
    let out = succeed(&["check", path(&model)]);
    assert!(out.contains("RESHAPE") && out.contains("takes 1 of 1 operations"), "{out}");
    let out = succeed(&["dot", path(&model)]);
    assert!(out.contains("digraph") && out.contains("RESHAPE"), "{out}");
}

/// The kernels of a profile of a network of floats.
fn kernels(args: &[&str], hint: &str) -> Vec<String> {
    let args = [&["bench", "--builtin", "mobilenet_v1_0.25_128", "--profile", "--runs", "1"], args];
    let output =
        command(&[&args.concat()[..], &["--json"]].concat()).env("NNBURST_HINT", hint).output();
    let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let steps = report["steps"].as_array().unwrap();
    steps.iter().map(|step| step["kernel"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn floats_are_halved_by_a_hint_and_never_without() {
    let halved = |kernels: Vec<String>| kernels.iter().any(|kernel| kernel.ends_with("_bf16"));
    assert!(!halved(kernels(&[], "")), "by default");
    assert!(!halved(kernels(&[], "bf16")), "the model doesn't allow it");
    assert!(halved(kernels(&["--hint", "bf16"], "")));
    assert!(halved(kernels(&["--wish", "bf16"], "")), "as it was called before");
    let run = |args: &[&str]| {
        let args = [&["bench", "--builtin", "sine", "--runs", "3", "--json"], args].concat();
        json(succeed(&args).lines().next().unwrap())["runs"].clone()
    };
    assert_eq!(run(&["--hint", "bf16"]), 3, "a driver of another process takes the hint along");
}

#[test]
fn sample_drivers_can_be_made_to_take_less_than_they_do() {
    let devices = "spawn:nnapi-sample_all,nnapi-reference";
    let args = ["check", "--builtin", "mobilenet_v1_0.25_128", "--devices", devices, "--json"];
    let refused = |setting: &str| {
        let output = command(&args).env("NNBURST_SAMPLE_SUPPORTED", setting).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let operations = report["operations"].as_array().unwrap().clone();
        let asked =
            |one: &Value| one["why"].as_str().unwrap().contains("spawn:nnapi-sample_all asks");
        let refused: Vec<usize> =
            (0..operations.len()).filter(|&at| !asked(&operations[at])).collect();
        (refused, operations.len())
    };
    assert!(refused("0").0.is_empty());
    let (first, of) = refused("1");
    assert!(!first.is_empty() && first.len() < of, "{first:?} of {of}");
    assert_eq!(refused("1").0, first, "the same ones every time");
}

#[test]
fn exit_codes_and_one_line_say_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken.tflite");
    std::fs::write(&broken, b"no model at all").unwrap();
    let cases: &[(&str, i32, &[&str])] = &[
        ("no such file", 2, &["run", "/nowhere/model.tflite"]),
        ("a broken file", 1, &["run", path(&broken)]),
        ("no such network", 2, &["run", "--builtin", "resnet"]),
        ("no such device", 2, &["run", "--builtin", "add1", "--device", "gpu"]),
        ("no such driver", 2, &["run", "--builtin", "add1", "--device", "spawn:gpu"]),
        (
            "another process is not in this one",
            2,
            &["run", "--builtin", "add1", "--mode", "inproc", "--device", "spawn:nnapi-sample_all"],
        ),
        ("no such folder", 2, &["vts", "/nowhere"]),
    ];
    for (what, code, args) in cases {
        let error = fail(*code, args);
        assert_eq!(error.lines().count(), 1, "{what}: {error}");
        assert!(error.starts_with("nnburst: "), "{what}: {error}");
    }
    // What clap refuses has its own words, and the same code.
    assert_eq!(run(&["bench"]).status.code(), Some(2));
    assert!(text(&run(&["--help"]).stdout).contains("Exit codes"));
}

#[test]
fn vts_counts_and_names_the_first_wrong_value() {
    let dir = tempfile::tempdir().unwrap();
    let case = |name: &str, expected: &str| {
        format!(
            r#"{{"name": "{name}", "isRelaxed": false, "expectFailure": false, "minSupportedVersion": "V1_0",
            "expectedMultinomialDistributionTolerance": 0, "referenced": [],
            "main": {{"operands": [
                {{"type": "TENSOR_FLOAT32", "dimensions": [1], "numberOfConsumers": 1, "scale": 0, "zeroPoint": 0,
                 "lifetime": "SUBGRAPH_INPUT", "channelQuant": null, "isIgnored": false, "data": "AADAPw=="}},
                {{"type": "TENSOR_FLOAT32", "dimensions": [1], "numberOfConsumers": 0, "scale": 0, "zeroPoint": 0,
                 "lifetime": "SUBGRAPH_OUTPUT", "channelQuant": null, "isIgnored": false, "data": "{expected}"}}],
              "operations": [{{"type": "RELU", "inputs": [0], "outputs": [1]}}],
              "inputIndexes": [0], "outputIndexes": [1]}}}}"#
        )
    };
    let file = std::fs::File::create(dir.path().join("relu.json.gz")).unwrap();
    let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    // 1.5 is right, 1.0 is not.
    let cases = [case("right", "AADAPw=="), case("wrong", "AACAPw==")].join(",");
    write!(file, r#"{{"spec": "V1_0/relu", "cases": [{cases}]}}"#).unwrap();
    file.finish().unwrap();

    for mode in ["inproc", "sync", "async", "fenced", "burst"] {
        let output = run(&["vts", path(dir.path()), "--mode", mode]);
        let out = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{mode}: {out}{}", text(&output.stderr));
        assert_eq!(out.lines().last(), Some("1 passed, 1 failed, 0 skipped"), "{mode}");
        assert!(out.contains("FAILED V1_0/relu wrong: "), "{mode}: {out}");
        assert!(out.contains("1.5"), "{mode}: {out}");
    }
    let out = succeed(&["vts", path(dir.path()), "--filter", "right"]);
    assert_eq!(out.lines().last(), Some("1 passed, 0 failed, 0 skipped"));
    let derived =
        ["--dynamic-shapes", "--insufficient-size", "--all-inputs-as-internal", "--device-memory"];
    for option in derived {
        let out = succeed(&["vts", path(dir.path()), "--filter", "right", option]);
        assert_eq!(out.lines().last(), Some("1 passed, 0 failed, 0 skipped"), "{option}");
    }
}

#[test]
fn vts_wants_failures_for_their_reason() {
    let dir = tempfile::tempdir().unwrap();
    // Fails because it has no inputs, where the rank is what should be wrong.
    let case = r#"{"spec": "V1_3/conv2d_invalid_rank", "cases": [{"name": "conv", "isRelaxed": false,
        "expectFailure": true, "minSupportedVersion": "V1_0", "referenced": [],
        "expectedMultinomialDistributionTolerance": 0, "main": {"operands": [
            {"type": "TENSOR_FLOAT32", "dimensions": [1], "numberOfConsumers": 0, "scale": 0, "zeroPoint": 0,
             "lifetime": "SUBGRAPH_OUTPUT", "channelQuant": null, "isIgnored": false, "data": "AADAPw=="}],
        "operations": [{"type": "CONV_2D", "inputs": [], "outputs": [0]}],
        "inputIndexes": [], "outputIndexes": [0]}}]}"#;
    let file = std::fs::File::create(dir.path().join("conv.json.gz")).unwrap();
    let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    file.write_all(case.as_bytes()).unwrap();
    file.finish().unwrap();
    let output = run(&["vts", path(dir.path()), "--mode", "inproc"]);
    assert_eq!(output.status.code(), Some(1));
    let out = text(&output.stdout);
    assert!(out.contains("not for its reason") && out.contains("rank"), "{out}");
}

#[test]
fn files_without_an_end_are_read_as_far_as_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let model = tiny_model(dir.path());
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    succeed(&["run", "--builtin", "add1", "--input", "0=/dev/zero", "--input", "1=/dev/zero"]);
    let empty = format!("0={}", path(&fifo));
    let cases: &[(&str, &[&str])] = &[
        ("regular file", &["run", "/dev/zero"]),
        ("regular file", &["run", path(&fifo)]),
        ("/dev/zero: a device has no end", &["run", path(&model), "--image", "/dev/zero"]),
        ("/dev/zero: a device has no end", &["run", path(&model), "--labels", "/dev/zero"]),
        ("expected 48", &["run", path(&model), "--labels", path(&fifo)]),
        ("no 4 bytes", &["run", "--builtin", "add1", "--input", &empty]),
    ];
    for (said, args) in cases {
        let error = fail(2, args);
        assert!(error.contains(said), "{args:?}: {error}");
    }
}

#[test]
fn labels_are_as_many_as_classes() {
    let dir = tempfile::tempdir().unwrap();
    let model = tiny_model(dir.path());
    let labels = dir.path().join("labels.txt");
    for count in [0, 1, 47, 49] {
        std::fs::write(&labels, "a class\n".repeat(count)).unwrap();
        let error = fail(2, &["run", path(&model), "--labels", path(&labels)]);
        let counts = [format!("{count} labels"), "expected 48".to_owned()];
        assert!(counts.iter().all(|count| error.contains(count)), "{error}");
    }
}

#[test]
fn tensors_of_64_bits_go_in_and_come_out_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = TfliteFile::new();
    let input = file.input("input", TensorKind::Int64, &[1, 4]);
    let output = file.tensor("output", TensorKind::Int64, &[1, 4]);
    file.operator("MAXIMUM", &[input, input], &[output]);
    file.outputs(&[output]);
    let model = dir.path().join("wide.tflite");
    std::fs::write(&model, file.build()).unwrap();
    let values = dir.path().join("values");
    let write = |numbers: [i64; 4]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        std::fs::write(&values, &bytes).unwrap();
        bytes
    };
    let (given, out) = (format!("0={}", path(&values)), dir.path().join("out"));
    let args = ["run", path(&model), "--input", &given, "--output", path(&out)];
    let bytes = write([1, -1, i64::from(i32::MAX), i64::from(i32::MIN)]);
    succeed(&args);
    assert_eq!(std::fs::read(out.join("out0.bin")).unwrap(), bytes);
    let bytes = write([0, 0, 1 << 40, 0]);
    succeed(&args);
    assert_eq!(std::fs::read(out.join("out0.bin")).unwrap(), bytes);
    // A device without the extension computes with 32 bits.
    let error = fail(2, &[&args[..], &["--device", "embedded:nnapi-sample_all"]].concat());
    assert!(error.contains("element 2 is 1099511627776"), "{error}");
}

#[test]
fn inputs_take_the_shapes_they_are_given() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Float32, &[1, 2]);
    let y = file.tensor("y", TensorKind::Float32, &[1, 2]);
    let found = file.tensor("found", TensorKind::Int64, &[1, 2]);
    file.operator("ABS", &[x], &[y]);
    file.operator("WHERE", &[y], &[found]);
    file.outputs(&[y, found]);
    let model = dir.path().join("open.tflite");
    std::fs::write(&model, file.build()).unwrap();
    let values = dir.path().join("values");
    let floats = |values: &[f32]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    std::fs::write(&values, floats(&[0.0, -2.0, 3.0, 0.0, 0.0, -6.0])).unwrap();
    let (given, out) = (format!("0={}", path(&values)), dir.path().join("out"));
    for mode in ["inproc", "sync", "burst"] {
        let args = ["run", path(&model), "--input", &given, "--output", path(&out), "--json"];
        let shape = ["--shape", "x=2x3", "--mode", mode];
        let report = json(&succeed(&[&args[..], &shape].concat()));
        assert_eq!(report["outputs"][0]["dimensions"], serde_json::json!([2, 3]), "{mode}");
        assert_eq!(report["outputs"][1]["dimensions"], serde_json::json!([3, 2]), "{mode}");
        let wanted = floats(&[0.0, 2.0, 3.0, 0.0, 0.0, 6.0]);
        assert_eq!(std::fs::read(out.join("out0.bin")).unwrap(), wanted, "{mode}");
        let places = [0i64, 1, 0, 2, 1, 2].map(i64::to_le_bytes).concat();
        assert_eq!(std::fs::read(out.join("out1.bin")).unwrap(), places, "{mode}");
    }
    for (shape, why) in [
        ("y=2x3", "no input is called \"y\"; there are x"),
        ("x=2", "input \"x\" has 2 dimensions, not 1"),
        ("x=ax3", "\"a\" is no extent"),
        ("2x3", "expected NAME=DIMS"),
    ] {
        let error = fail(2, &["run", path(&model), "--shape", shape]);
        assert!(error.contains(why), "{error}");
    }
    // Without elements the model has no such input, and a file for it no reader.
    for mode in ["inproc", "sync", "burst"] {
        let args = ["run", path(&model), "--output", path(&out), "--json", "--shape", "x=0x3"];
        let report = json(&succeed(&[&args[..], &["--mode", mode]].concat()));
        assert_eq!(report["outputs"][0]["dimensions"], serde_json::json!([0, 3]), "{mode}");
        assert_eq!(report["outputs"][1]["dimensions"], serde_json::json!([0, 2]), "{mode}");
        assert!(std::fs::read(out.join("out0.bin")).unwrap().is_empty(), "{mode}");
    }
    let error = fail(2, &["run", path(&model), "--shape", "x=0x3", "--input", &given]);
    assert!(error.contains("--input 0: "), "{error}");
    succeed(&["check", path(&model), "--shape", "x=2x3"]);
    succeed(&["bench", path(&model), "--shape", "x=2x3", "--runs", "3"]);
    assert!(succeed(&["dot", path(&model), "--shape", "x=2x3"]).contains("digraph"));
}

#[test]
fn one_sample_is_all_its_percentiles() {
    let out = succeed(&["bench", "--builtin", "add1", "--runs", "1", "--json"]);
    let latency = &json(&out)["latency_us"];
    for figure in ["p50", "p90", "p99", "p999", "max", "mean"] {
        assert_eq!(latency[figure], latency["min"], "{figure} in {out}");
    }
}

#[test]
fn missed_deadlines_are_counted_and_have_an_exit_code() {
    let model = ["--builtin", "mobilenet_v1_0.25_128"];
    for mode in ["sync", "async", "burst"] {
        let engine = ["--mode", mode, "--deadline", "0.001"];
        let args = [&["bench", "--runs", "5", "--json"], &model[..], &engine].concat();
        let output = run(&args);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(4), "{mode}: {error}");
        assert!(error.contains("5 of 5 calls missed the deadline"), "{mode}: {error}");
        assert_eq!(json(&out)["deadlines_missed"], 5, "{mode}: {out}");
        fail(4, &[&["run"], &model[..], &engine].concat());
        let patient = ["--mode", mode, "--deadline", "60000"];
        let out = succeed(&[&["bench", "--runs", "2", "--json"], &model[..], &patient].concat());
        assert_eq!(json(&out)["deadlines_missed"], 0, "{mode}: {out}");
        succeed(&[&["run"], &model[..], &patient].concat());
    }
}

#[test]
fn missed_periods_are_counted_and_told() {
    let model = ["bench", "--builtin", "mobilenet_v1_0.25_128", "--runs", "5", "--json"];
    let output = run(&[&model[..], &["--period", "0.001"]].concat());
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert_eq!(json(&out)["periods_missed"], 5, "{out}");
    assert!(error.contains("5 of 5 calls missed the period of 1µs"), "{error}");
    assert!(json(&succeed(&model))["periods_missed"].is_null());
}

#[test]
fn every_tag_has_messages_and_a_wrong_one_is_an_error() {
    let said = |tag: &str| {
        let mut command = command(&["run", "--builtin", "add1"]);
        let output = command.env("NNBURST_VLOG", tag).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    for tag in ["model", "compilation", "execution", "cpuexe", "manager", "driver", "memory"] {
        let (code, error) = said(tag);
        let targets = error.lines().filter(|line| line.contains(&format!("nnburst::{tag}")));
        assert!(code == Some(0) && targets.count() > 0, "{tag}: {error}");
    }
    // The graph as the runtime and the driver have it.
    let (_, error) = said("compilation");
    for line in ["// runtime", "// nnburst-cpu", "label=\"0: ADD\""] {
        assert!(error.contains(line), "{line} in {error}");
    }
    let (code, error) = said("execution,rocket");
    assert_eq!(code, Some(2), "{error}");
    let lists = "names rocket: the tags are all, model, compilation, execution, cpuexe, manager, driver, memory";
    assert!(error.contains(lists), "{error}");
}

#[test]
fn settings_without_effect_are_told_once() {
    for wrong in ["PARTITION=7", "BURST_WAIT=bogus", "PREFER_SERVED=yes", "SERVICE_TIMEOUT=0"] {
        let (name, value) = wrong.split_once('=').unwrap();
        let mut command = command(&["run", "--builtin", "add1"]);
        let output = command.env(format!("NNBURST_{name}"), value).output().unwrap();
        let error = text(&output.stderr);
        assert!(output.status.success(), "{error}");
        let lines: Vec<_> = error.lines().filter(|line| line.contains(value)).collect();
        assert_eq!(lines.len(), 1, "{wrong}: {error}");
    }
}

#[test]
fn inputs_are_given_once_and_outputs_go_to_a_folder() {
    let twice = ["run", "--builtin", "add1", "--input", "0=/dev/zero", "--input", "0=/dev/null"];
    let error = fail(2, &twice);
    assert!(error.contains("--input 0: given more than once"), "{error}");
    let error = fail(2, &["run", "--builtin", "add1", "--output", "/dev/null"]);
    assert!(error.contains("--output /dev/null"), "{error}");
}

#[test]
fn a_trace_has_a_span_for_every_operation() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("spans.json");
    let mut command = command(&["run", "--builtin", "sine"]);
    let output = command.env("NNBURST_TRACE", &trace).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let spans = std::fs::read_to_string(trace).unwrap();
    assert!(spans.contains("[NN_LC_PCO]FULLY_CONNECTED"), "{spans}");
}

#[test]
fn a_bad_directory_of_services_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file");
    std::fs::write(&file, "").unwrap();
    for bad in [file.join("below"), Path::new("/proc/nowhere").to_owned()] {
        let mut command = command(&["serve", "--driver", "nnapi-sample_all"]);
        let output = command.env("NNBURST_SERVICE_DIR", &bad).output().unwrap();
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(path(&bad)), "{error}");
    }
}
