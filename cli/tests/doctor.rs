//! `nnburst doctor`: what is set, and by whom.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::process::Command;

use serde_json::Value;

fn doctor(settings: &str, variables: &[(&str, &str)]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nnburst.conf");
    std::fs::write(&file, settings).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nnburst"));
    command.args(["doctor", "--json"]).env("NNBURST_CONFIG", &file);
    command.env("NNBURST_SERVICE_DIR", dir.path().join("services"));
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn find<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry[key] == name).unwrap()
}

#[test]
fn settings_are_told_with_their_origin() {
    let file = "# ours\npartition = 0\ncpu-only = 0\nvlog = model";
    let report = doctor(file, &[("NNBURST_CPU_ONLY", "1")]);
    let setting = |name| find(&report["settings"], "name", name);
    let by = |name| setting(name)["from"].as_str().unwrap().to_owned();
    assert_eq!(setting("partition")["value"], "0");
    assert!(by("partition").ends_with("nnburst.conf"), "{}", by("partition"));
    assert_eq!(setting("partition")["in_place_of"], "debug.nn.partition");
    assert_eq!(setting("cpu-only")["value"], "1", "the environment counts first");
    assert_eq!(by("cpu-only"), "by NNBURST_CPU_ONLY");
    assert!(by("strict-slicing").starts_with("by default"), "{}", by("strict-slicing"));
    assert_eq!(report["devices"], serde_json::json!(["nnapi-reference"]), "cpu-only holds");
    assert_eq!(find(&report["checks"], "check", "settings")["verdict"], "good");
}

/// Those as well that are asked for below the runtime.
#[test]
fn the_file_sets_whatever_a_variable_sets() {
    let dir = tempfile::tempdir().unwrap();
    let services = dir.path().join("elsewhere");
    let file = format!("isa = scalar\nstate-dir = /nowhere\nservice-dir = {}", services.display());
    let report = doctor(&file, &[("NNBURST_SERVICE_DIR", "")]);
    for name in ["isa", "state-dir", "service-dir"] {
        let from = find(&report["settings"], "name", name)["from"].as_str().unwrap();
        assert!(from.ends_with("nnburst.conf"), "{name}: {from}");
    }
    let found = |check| find(&report["checks"], "check", check)["found"].as_str().unwrap();
    assert!(found("instruction set").starts_with("Scalar is used"), "{}", found("instruction set"));
    let expected = services.display().to_string();
    assert!(found("service directory").starts_with(&expected), "{}", found("service directory"));
    assert_eq!(found("settings"), "all of them understood");
}

#[test]
fn settings_without_effect_are_told() {
    let report = doctor("partitions = 0\nsyncexec-hal = no", &[]);
    let check = find(&report["checks"], "check", "settings");
    let found = check["found"].as_str().unwrap();
    assert_eq!(check["verdict"], "could be better");
    assert!(found.contains("partitions") && found.contains("syncexec-hal"), "{found}");
    assert_eq!(report["devices"], serde_json::json!(["nnburst-embedded", "nnapi-reference"]));
}

/// Nobody wants to hear of a pipe that was closed.
#[test]
fn a_reader_that_has_enough_is_no_failure_to_tell_of() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_nnburst"));
    let output = command.arg("devices").stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
