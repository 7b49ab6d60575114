//! The device that is used where none is named, in processes that find a served driver.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nnburst::{CompileOptions, Device, builtin, compile, compile_for, devices};

const ROLE: &str = "NNBURST_TEST_ROLE";
const DIR: &str = "NNBURST_SERVICE_DIR";
const ALL: &str = "nnapi-sample_all";

/// What this binary does when it is started as a driver or as a client.
#[test]
fn child_main() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if role == "driver" {
        let _serving = nnburst::serve(ALL, &nnburst::DriverOptions::default()).unwrap();
        std::thread::sleep(Duration::from_secs(3600));
    }
    let model = builtin::model("add1").unwrap();
    let options = CompileOptions::default();
    let compilation = compile(&model, &options).unwrap();
    let used: Vec<_> =
        compilation.devices().iter().map(|device| device.name().to_owned()).collect();
    assert_eq!(used, [role.as_str()]);
    let served = nnburst::served_device(&model);
    assert_eq!(served.is_some(), role == ALL);
    let plan = nnburst::explain_among(&model, devices(), &options).unwrap();
    assert!(plan.is_simple(), "{plan}");

    // The setting for one compilation, and devices that are named.
    let by_figures = CompileOptions { prefer_served: Some(false), ..CompileOptions::default() };
    assert_eq!(compile(&model, &by_figures).unwrap().devices(), [Device::reference()]);
    let elsewhere = CompileOptions { prefer_served: Some(true), ..CompileOptions::default() };
    assert_eq!(compile(&model, &elsewhere).unwrap().devices()[0].name(), ALL);
    let named = compile_for(&model, devices(), &options).unwrap();
    assert_eq!(named.devices(), [Device::reference()], "by figures");

    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[1.0f32]).unwrap();
    frame.write(1, &[2.0f32]).unwrap();
    compilation.execution().compute(&mut frame).unwrap();
    assert_eq!(frame.read::<f32>(0).unwrap(), [3.0]);
}

fn child(role: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_main", "--nocapture"]).env(ROLE, role).env(DIR, dir);
    command
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_served_driver_is_used_unless_a_setting_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings");
    std::fs::write(&file, "prefer-served = 0\n").unwrap();
    let _driver = Killed(child("driver", dir.path()).stdout(Stdio::null()).spawn().unwrap());
    let socket = dir.path().join(format!("{ALL}.sock"));
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let client = |role: &str, name: &str, value: &str| {
        let output = child(role, dir.path()).env(name, value).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{role}, {name} {value}: {said}");
    };
    client(ALL, "NNBURST_PREFER_SERVED", "");
    client(ALL, "NNBURST_PREFER_SERVED", "1");
    client("nnapi-reference", "NNBURST_PREFER_SERVED", "0");
    client("nnapi-reference", "NNBURST_CONFIG", file.to_str().unwrap());
}
