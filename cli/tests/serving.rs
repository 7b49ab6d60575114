//! Services: limits of users, the file that they are read from, and the log.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod common;
#[path = "../../runtime/tests/common/two_users.rs"]
mod two_users;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use common::{command, ended, json, path, signal, text, until};
use two_users::{TwoUsers, VICTIM, chmod, directory};

const NNBURST: &str = env!("CARGO_BIN_EXE_nnburst");
const DRIVER: &str = "nnapi-sample_all";

#[test]
fn attacker_main() {
    two_users::attacker_main();
}

/// A service with a file of settings, ended when dropped.
struct Service {
    dir: tempfile::TempDir,
    child: Child,
}

impl Service {
    fn start(config: &str, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("serve.toml");
        fs::write(&file, config).unwrap();
        let log = File::create(dir.path().join("log")).unwrap();
        let arguments = [&["serve", "--driver", DRIVER, "--config", path(&file)], arguments];
        let mut serve = command(&arguments.concat());
        serve.env("NNBURST_SERVICE_DIR", dir.path().join("services")).stderr(log);
        let child = serve.spawn().unwrap();
        let service = Self { dir, child };
        until("the service", || service.run(&["dump", DRIVER]).status.success());
        service
    }

    fn client(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("NNBURST_SERVICE_DIR", self.dir.path().join("services"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.client(args).output().unwrap()
    }

    /// Standard error of a client's `calls`, and whether they all succeeded.
    fn bench(&self, mode: &str, calls: &str) -> (bool, String) {
        let args = ["bench", "--builtin", "add1", "--runs", calls, "--device", DRIVER];
        let output = self.run(&[&args[..], &["--mode", mode]].concat());
        (output.status.success(), text(&output.stderr))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Replaces the text of the file, and waits until the log tells what came of it.
    fn reload(&self, config: &str, tells: &str) {
        fs::write(self.dir.path().join("serve.toml"), config).unwrap();
        let before = self.log().len();
        signal("-HUP", self.child.id());
        until(tells, || self.log()[before..].contains(tells));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether a dump of the service tells of a burst.
fn has_burst(dump: &Output) -> bool {
    text(&dump.stdout).contains("burst")
}

#[test]
fn a_user_has_its_bursts_and_a_reload_changes_their_number() {
    let service = Service::start("[user]\nbursts = 1\n", &[]);
    let endless = ["bench", "--builtin", "add1", "--runs", "4000000000", "--period", "1"];
    let endless = [&endless[..], &["--mode", "burst", "--device", DRIVER]].concat();
    let mut first = service.client(&endless).spawn().unwrap();
    until("the first burst", || has_burst(&service.run(&["dump", DRIVER])));
    // Without a burst the client takes the ordinary path, and says why.
    let refusal = || {
        let (succeeded, told) = service.bench("burst", "1");
        assert!(succeeded, "{told}");
        told.contains("the driver's setting user.bursts")
    };
    assert!(refusal());

    // A mistake changes nothing, and is told with its line and what is known.
    service.reload("[user]\nburst = 2\n", "the configuration stays as it was");
    let log = service.log();
    assert!(log.contains("serve.toml:2: unknown field `burst`, expected one of"), "{log}");
    assert!(refusal());

    service.reload("threads = 2\n[user]\nbursts = 2\n", "the configuration was read again");
    assert!(!refusal());
    let log = service.log();
    assert!(log.contains("takes effect with the next start") && log.contains("threads"), "{log}");
    signal("-9", first.id());
    ended(&mut first);
}

#[test]
fn a_driver_is_replaced_under_its_clients() {
    let mut old = Service::start("", &["--set", "drain=1h"]);
    let client = |service: &Service| {
        let endless = ["bench", "--builtin", "add1", "--runs", "4000000000", "--period", "1"];
        let endless = [&endless[..], &["--mode", "burst", "--device", DRIVER]].concat();
        service.client(&endless).spawn().unwrap()
    };
    let mut first = client(&old);
    until("the first burst", || has_burst(&old.run(&["dump", DRIVER])));

    let next = |service: &Service, drain: &str| {
        let taking = ["serve", "--driver", DRIVER, "--take-over", "--set", drain];
        let mut taking = service.client(&taking);
        let child = taking.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serves on"), "{line}");
        child
    };
    let mut second_driver = next(&old, "drain=100ms");
    // New clients find the new process, and the one before goes on.
    assert!(!has_burst(&old.run(&["dump", DRIVER])));
    assert!(old.bench("sync", "3").0);
    assert!(first.try_wait().unwrap().is_none() && old.child.try_wait().unwrap().is_none());
    assert!(!old.run(&["serve", "--driver", DRIVER]).status.success(), "it is served");

    // The process before ends by itself, and leaves the socket to who has the name.
    signal("-9", first.id());
    ended(&mut first);
    assert_eq!(ended(&mut old.child), Some(0));
    assert!(old.log().contains("another process has the name"), "{}", old.log());
    assert!(old.bench("sync", "3").0);

    // Clients that don't go are disconnected when the time is over.
    let mut second = client(&old);
    until("the second burst", || has_burst(&old.run(&["dump", DRIVER])));
    let mut third_driver = next(&old, "drain=1h");
    assert_eq!(ended(&mut second_driver), Some(0));
    ended(&mut second);
    assert!(old.bench("sync", "3").0);
    signal("-TERM", third_driver.id());
    assert_eq!(ended(&mut third_driver), Some(0));
    let left = fs::read_dir(old.dir.path().join("services")).unwrap().count();
    assert_eq!(left, 0, "sockets and locks go with the last process");
}

#[test]
fn a_user_executes_as_often_as_it_may() {
    let service = Service::start("", &["--set", "user.executions-per-second=20"]);
    for mode in ["sync", "async", "fenced", "burst"] {
        let (succeeded, told) = service.bench(mode, "1000");
        assert!(!succeeded && told.contains("RESOURCE_EXHAUSTED_TRANSIENT"), "{mode}: {told}");
        let names_it = told.contains("the driver's setting user.executions-per-second");
        // The answer of a burst is a status.
        assert!(names_it || mode == "burst", "{mode}: {told}");
    }
}

#[test]
fn a_mistake_is_told_before_anything_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("serve.toml");
    fs::write(&file, "[user]\nmodels = 1\nmodles = 2\n").unwrap();
    for args in [
        &["serve", "--config", path(&file)][..],
        &["serve", "--set", "user.modles=2"],
        &["serve", "--config", "/nowhere/serve.toml"],
    ] {
        let mut serve = command(args);
        serve.env("NNBURST_SERVICE_DIR", dir.path().join("services"));
        let output = serve.output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        let what = ["serve.toml:3: unknown field", "--set: unknown field", "/nowhere"];
        assert!(what.iter().any(|what| told.contains(what)), "{told}");
    }
    // The doctor reads the same file.
    let doctor = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut doctor = command(&["doctor", "--json"]);
        doctor.env("NNBURST_SERVE_CONFIG", &file).output().unwrap()
    };
    assert_ne!(doctor("[user]\nmodles = 2\n").status.code(), Some(0));
    let report = json(&text(&doctor("[users.77]\nmodels = 2\n").stdout));
    assert_eq!(report["service"]["limits"]["users.77.models"], "2");
    assert_eq!(report["service"]["limits"]["user.clients"], "64");
}

/// A service for all users on a socket of a service manager's, with limits by uid.
#[test]
fn limits_are_those_of_the_uid_that_connects() {
    let Some(users) = TwoUsers::new("attacker_main") else { return };
    let services = users.tmp().join("services");
    directory(&services, 0, 0o755);
    let socket = services.join(format!("{DRIVER}.sock"));
    let listener = UnixListener::bind(&socket).unwrap();
    chmod(&socket, 0o666);
    let script = "exec 3<&0; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
    let limit = format!("users.{VICTIM}.models=0");
    let mut serve = Command::new("sh");
    serve.args(["-c", script, NNBURST, "serve", "--driver", DRIVER, "--set", &limit]);
    serve.stdin(OwnedFd::from(listener)).env("NNBURST_SERVICE_DIR", &services);
    let mut service = serve.spawn().unwrap();
    let bench = ["bench", "--builtin", "add1", "--runs", "1", "--device", DRIVER, "--mode", "sync"];
    let ours = command(&bench).env("NNBURST_SERVICE_DIR", &services).output().unwrap();
    assert!(ours.status.success(), "{}", text(&ours.stderr));
    let mut theirs = users.victim(Path::new(NNBURST));
    let theirs = theirs.args(bench).env("NNBURST_SERVICE_DIR", &services).output().unwrap();
    let told = text(&theirs.stderr);
    assert!(told.contains("user.models") && told.contains("12345"), "{told}");
    signal("-TERM", service.id());
    ended(&mut service);
}

#[test]
fn the_log_is_json_where_it_is_asked_for() {
    let service = Service::start("", &["--log-format", "json"]);
    service.reload("idle = \"1 s\"\n", "was read again");
    let log = service.log();
    let entries: Vec<_> = log.lines().map(json).collect();
    let restart = entries.iter().find(|entry| entry["setting"] == "idle").unwrap();
    assert_eq!(restart["level"], "WARN", "{restart}");
    assert_eq!(restart["target"], "nnburst::serve", "{restart}");
    let last = entries.last().unwrap();
    assert!(last["file"].as_str().unwrap().ends_with("serve.toml"), "{last}");
}

/// The journal is a socket at a fixed path: here one of a file system of the service's own.
#[test]
fn the_log_has_fields_where_standard_error_is_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let journal = UnixDatagram::bind(dir.path().join("socket")).unwrap();
    journal.set_read_timeout(Some(common::GUARD)).unwrap();
    let script = "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && \
                  mount --bind \"$JOURNAL\" /run/systemd/journal && exec \"$0\" \"$@\"";
    let isolated = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c", script, NNBURST]).env("JOURNAL", dir.path());
        unshare
    };
    let tried = isolated("mount -t tmpfs none /run").output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        assert!(!nnburst_hal::testing::is_there("root", false));
        return;
    }
    let config = dir.path().join("serve.toml");
    fs::write(&config, "").unwrap();
    let log: PathBuf = dir.path().join("log");
    let stderr = File::create(&log).unwrap();
    let stream = stderr.metadata().map(|file| format!("{}:{}", file.dev(), file.ino())).unwrap();
    let mut serve = isolated(script);
    serve.args(["serve", "--driver", DRIVER, "--config", path(&config)]);
    serve.env("NNBURST_SERVICE_DIR", dir.path().join("services")).env("JOURNAL_STREAM", stream);
    let mut service = serve.stderr(stderr).spawn().unwrap();
    let socket = dir.path().join("services").join(format!("{DRIVER}.sock"));
    until("the service", || socket.exists());
    fs::set_permissions(&config, fs::Permissions::from_mode(0o622)).unwrap();
    let mut entry = String::new();
    signal("-HUP", service.id());
    while !entry.contains("the configuration stays as it was") {
        let mut bytes = [0; 4096];
        let length = journal.recv(&mut bytes).unwrap();
        entry = text(&bytes[..length]);
    }
    // Each field is a name, a line's end, and a value behind its length in 64 bits.
    let error = "PRIORITY\n\x01\0\0\0\0\0\0\x003\n";
    // What `journalctl` shows, and the field by itself.
    let message = "the configuration stays as it was mistake=the configuration: ";
    for field in [error, "SYSLOG_IDENTIFIER\n", message, "NNBURST_MISTAKE\n"] {
        assert!(entry.contains(field), "{field}: {entry}");
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), "", "nothing twice");
    signal("-TERM", service.id());
    ended(&mut service);
}
