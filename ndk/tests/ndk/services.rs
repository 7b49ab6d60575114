//! The C programs on a driver in another process, one that stays and one that is killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nnburst_hal_ipc::ProcessLimits;

use crate::{common, drivers};

const SERVES: &str = "NNBURST_TEST_SERVES";
/// File descriptors of all clients of a driver together.
const DESCRIPTORS: &str = "NNBURST_TEST_DESCRIPTORS";
const DIR: &str = "NNBURST_SERVICE_DIR";
const ALL: &str = "nnapi-sample_all";

/// What this binary does when it is started as a driver.
#[test]
fn child_main() {
    let Ok(driver) = std::env::var(SERVES) else { return };
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    if let Some(descriptors) = std::env::var(DESCRIPTORS).ok().and_then(|value| value.parse().ok())
    {
        let mut limits = ProcessLimits::of_machine();
        limits.descriptors = descriptors;
        assert!(limits.apply());
    }
    let _serving = drivers::serve(&driver, &dir)
        .unwrap_or_else(|| nnburst::serve(&driver, &nnburst::DriverOptions::default()).unwrap());
    // Whole at once: somebody may be waiting for it.
    let made = dir.join(format!("{driver}.new"));
    std::fs::write(&made, std::process::id().to_string()).unwrap();
    std::fs::rename(made, pid_file(&dir, &driver)).unwrap();
    std::thread::sleep(Duration::from_secs(3600));
}

fn pid_file(dir: &Path, driver: &str) -> PathBuf {
    dir.join(format!("{driver}.pid"))
}

fn command_line(driver: &str) -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "/usr/bin/env {SERVES}={driver} {} --exact services::child_main --nocapture",
        program.display()
    )
}

/// Drivers that are served until this is dropped.
pub(crate) struct Served {
    children: Vec<Child>,
    dir: tempfile::TempDir,
}

impl Served {
    pub(crate) fn start(driver: &str) -> Self {
        Self::start_all(&[driver])
    }

    /// The directory of the services.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Each in a process of its own.
    fn start_all(drivers: &[&str]) -> Self {
        Self::start_with(drivers, &[])
    }

    fn start_with(drivers: &[&str], variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Self { children: Vec::new(), dir };
        for driver in drivers {
            let line = command_line(driver);
            let mut words = line.split(' ');
            let mut command = Command::new(words.next().unwrap());
            command.args(words).env(DIR, served.dir.path()).stdout(Stdio::null());
            command.envs(variables.iter().copied());
            served.children.push(command.spawn().unwrap());
        }
        for driver in drivers {
            while !pid_file(served.dir.path(), driver).exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        served
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Programs that choose their device as the environment says.
const PROGRAMS: &[&str] = &[
    "states",
    "memories",
    "domains",
    "diagnostic",
    "fences",
    "runs",
    "again",
    "fork",
    "signals",
    "stacks",
];

#[test]
fn programs_run_on_a_driver_in_another_process() {
    let served = Served::start(ALL);
    for name in PROGRAMS {
        let source = format!("tests/c/{name}.c");
        let Some(program) = common::compile("gcc", "c11", &source) else { return };
        let run = |mut command: Command| {
            command.env(DIR, served.dir.path()).env("NNBURST_TEST_DEVICE", ALL);
            common::run(&mut command);
        };
        run(common::command(&program));
        if common::is_installed("valgrind") {
            let mut valgrind = common::valgrind();
            if *name == "fork" {
                // What the parent's threads had on their stacks is lost to a child.
                valgrind.arg("--leak-check=no");
            }
            valgrind.arg(&program);
            run(valgrind);
        }
    }
}

/// A program that names no device: the served driver computes, unless a setting says that figures
/// decide.
#[test]
fn a_program_without_a_device_in_mind_computes_in_the_driver_s_process() {
    let Some(program) = common::compile("gcc", "c11", "tests/c/chosen.c") else { return };
    let served = Served::start(ALL);
    for (preferred, used) in [("", ALL), ("1", ALL), ("0", "nnapi-reference")] {
        let mut command = common::command(&program);
        command.env(DIR, served.dir.path()).env("NNBURST_VLOG", "compilation");
        let output = command.env("NNBURST_PREFER_SERVED", preferred).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(&format!("operations on [\"{used}\"]")), "{preferred:?}: {said}");
    }
}

/// A driver that fails every execution, with arguments in memory of its own.
#[test]
fn the_reference_device_stands_in_for_drivers_with_memory_of_their_own() {
    let Some(program) = common::compile("gcc", "c11", "tests/c/fallback.c") else { return };
    let served = Served::start(drivers::FAILS);
    common::run(common::command(&program).env(DIR, served.dir.path()));
    if common::is_installed("valgrind") {
        common::run(common::valgrind().arg(&program).env(DIR, served.dir.path()));
    }
}

/// With the limits of a client, and where the driver's process is short of descriptors.
#[test]
fn codes_say_whether_trying_again_can_help() {
    let Some(program) = common::compile("gcc", "c11", "tests/c/codes.c") else { return };
    for variables in [&[][..], &[(DESCRIPTORS, "64")]] {
        let served = Served::start_with(&[ALL], variables);
        let mut command = common::command(&program);
        common::run(command.env(DIR, served.dir.path()).env("NNBURST_TEST_DEVICE", ALL));
    }
}

#[test]
fn oem_operations_go_to_the_driver_that_has_them() {
    let Some(program) = common::compile("gcc", "c11", "tests/c/oem.c") else { return };
    let served = Served::start(drivers::OEM);
    let mut command = common::command(&program);
    common::run(command.env(DIR, served.dir.path()).env("NNBURST_TEST_DEVICE", drivers::OEM));
}

/// Neither runs under valgrind: 10,000 executions take long there, and limits of milliseconds are
/// over too soon.
#[test]
fn limits_hold_while_the_driver_is_stopped_and_executions_keep_no_descriptors() {
    let served = Served::start(ALL);
    for name in ["stopped", "unfreed"] {
        let source = format!("tests/c/{name}.c");
        let Some(program) = common::compile("gcc", "c11", &source) else { return };
        let mut command = common::command(&program);
        command.env(DIR, served.dir.path()).env("NNBURST_TEST_DEVICE", ALL);
        common::run(&mut command);
    }
}

/// Python's `multiprocessing`, on the reference device and on a driver in another process.
#[test]
fn children_of_python_compute_by_themselves() {
    if !common::is_installed("python3") {
        return;
    }
    let script = common::here().join("tests/python/forked.py");
    let served = Served::start(ALL);
    for device in ["nnapi-reference", ALL] {
        let mut command = common::command("python3");
        command.arg(&script).env(DIR, served.dir.path()).env("NNBURST_TEST_DEVICE", device);
        common::run(&mut command);
    }
}

/// Extensions are for programs on a list, by their paths, and for nobody where there is none.
#[test]
fn extensions_are_for_those_on_the_list() {
    const FIBONACCI: &str = "nnapi-sample_fibonacci";
    let served = Served::start_all(&[FIBONACCI, drivers::OTHER]);
    let Some(program) = common::compile("gcc", "c11", "tests/c/extension.c") else { return };
    let list = served.dir.path().join("allowlist");
    let other = "# nobody\n/usr/bin/another\nnonsense\n".to_owned();
    let lists = [
        (None, "denied"),
        (Some(other.clone()), "denied"),
        (Some(format!("{other}{}\n", program.display())), "allowed"),
    ];
    for (lines, verdict) in lists {
        if let Some(lines) = &lines {
            std::fs::write(&list, lines).unwrap();
        }
        let run = |mut command: Command| {
            command.env(DIR, served.dir.path()).env("NNBURST_TEST_DEVICE", FIBONACCI);
            common::run(command.env("NNBURST_EXTENSIONS_ALLOWLIST", &list).arg(verdict));
        };
        run(common::command(&program));
    }
}

/// A directory of services that are started on demand; those that run are killed at the end.
struct OnDemand {
    dir: tempfile::TempDir,
}

impl OnDemand {
    const DRIVERS: [&str; 2] = [ALL, "nnapi-sample_float_fast"];

    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let configured = dir.path().join("nnburst/services");
        std::fs::create_dir_all(&configured).unwrap();
        for driver in Self::DRIVERS {
            let file = configured.join(format!("{driver}.service"));
            std::fs::write(file, format!("exec = {}\n", command_line(driver))).unwrap();
        }
        Self { dir }
    }

    fn run(&self, mut command: Command) {
        let by_hand = format!("{} > /dev/null 2>&1 &", command_line(ALL));
        command.env(DIR, self.dir.path()).env("NNBURST_TEST_SERVICE", by_hand);
        command.env("XDG_CONFIG_HOME", self.dir.path());
        common::run(&mut command);
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        for driver in Self::DRIVERS {
            if let Ok(pid) = std::fs::read_to_string(pid_file(self.dir.path(), driver)) {
                let _ = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
            }
        }
    }
}

#[test]
fn a_killed_driver_is_told_and_comes_back() {
    for compiler in ["gcc", "clang"] {
        let Some(program) = common::compile(compiler, "c11", "tests/c/death.c") else { continue };
        OnDemand::new().run(common::command(&program));
        if compiler == "gcc" && common::is_installed("valgrind") {
            let mut valgrind = common::valgrind();
            valgrind.arg("--child-silent-after-fork=yes").arg(program);
            OnDemand::new().run(valgrind);
        }
    }
}
