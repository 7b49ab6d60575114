//! Services of a service manager: its socket, what it hears, and a program that is replaced while
//! clients have bursts.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod common;

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use common::{command, ended, path, signal, text, until};

const NNBURST: &str = env!("CARGO_BIN_EXE_nnburst");
const DRIVER: &str = "nnapi-sample_all";

/// A stand-in of systemd: it has the socket of a service, and hears what its processes say.
struct Manager {
    dir: tempfile::TempDir,
    listener: UnixListener,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Manager {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("services")).unwrap();
        let socket = dir.path().join("services").join(format!("{DRIVER}.sock"));
        let listener = UnixListener::bind(socket).unwrap();
        let notify = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut state = [0; 128];
            while let Ok(length) = notify.recv(&mut state) {
                all.lock().unwrap().push(text(&state[..length]));
            }
        });
        Self { dir, listener, heard }
    }

    /// A program of its own: a copy of the command, as an update makes it.
    fn program(&self, name: &str) -> PathBuf {
        let program = self.dir.path().join(name);
        fs::copy(NNBURST, &program).unwrap();
        program
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("serve.toml")
    }

    /// What processes of the service have in their environment.
    fn of_service(&self, command: &mut Command) {
        command.env("NNBURST_SERVICE_DIR", self.dir.path().join("services"));
        command.env("NOTIFY_SOCKET", self.dir.path().join("notify"));
    }

    fn start(&self, program: &Path) -> Child {
        fs::write(self.config(), "").unwrap();
        let script = "exec 3<&0; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
        let mut serve = Command::new("sh");
        serve.args(["-c", script, path(program), "serve", "--driver", DRIVER]);
        serve.args(["--config", path(&self.config())]).env("WATCHDOG_USEC", "20000");
        self.of_service(&mut serve);
        let log = File::create(self.dir.path().join("log")).unwrap();
        let socket = OwnedFd::from(self.listener.try_clone().unwrap());
        let child = serve.stdin(socket).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.hears("READY=1");
        child
    }

    /// What `ExecReload=` runs, with the program that is installed now.
    fn reload(&self, program: &Path, main: u32) -> Output {
        self.reload_with(program, main, &["--driver", DRIVER, "--config", path(&self.config())])
    }

    fn reload_with(&self, program: &Path, main: u32, args: &[&str]) -> Output {
        let mut reload = Command::new(program);
        reload.args(["serve", "--reload"]).args(args).env("MAINPID", main.to_string());
        self.of_service(&mut reload);
        // The log is the successor's, too, so that a pipe would not end with this process.
        let log = self.dir.path().join("reload");
        reload.stderr(File::create(&log).unwrap());
        let output = reload.output().unwrap();
        Output { stderr: fs::read(&log).unwrap(), ..output }
    }

    /// Forgets what it has heard.
    fn forget(&self) {
        self.heard.lock().unwrap().clear();
    }

    /// Waits for a state, and returns it.
    fn hears(&self, wanted: &str) -> String {
        let find = || {
            let heard = self.heard.lock().unwrap();
            heard.iter().find(|state| state.contains(wanted)).cloned()
        };
        until(wanted, || find().is_some());
        find().unwrap()
    }

    fn client(&self, args: &[&str]) -> Command {
        let mut client = command(args);
        client.env("NNBURST_SERVICE_DIR", self.dir.path().join("services"));
        client
    }

    fn serves(&self) -> bool {
        let bench = ["bench", "--builtin", "add1", "--runs", "3", "--mode", "sync"];
        let bench = [&bench[..], &["--device", DRIVER]].concat();
        self.client(&bench).output().unwrap().status.success()
    }

    fn has_burst(&self) -> bool {
        text(&self.client(&["dump", DRIVER]).output().unwrap().stdout).contains("burst")
    }

    /// The process that the manager was told of.
    fn successor(&self) -> Successor {
        let told = self.hears("MAINPID=");
        assert!(told.ends_with("\nREADY=1"), "{told}");
        let pid = told.lines().next().and_then(|line| line.strip_prefix("MAINPID="));
        Successor(pid.unwrap().parse().unwrap())
    }
}

/// A process of the service that is nobody's child here; killed at the end.
struct Successor(u32);

impl Successor {
    fn is_there(&self) -> bool {
        // One that nobody waits for stays as a zombie, without a program.
        Path::new(&format!("/proc/{}/exe", self.0)).read_link().is_ok()
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if self.is_there() {
            signal("-9", self.0);
        }
    }
}

#[test]
fn the_program_of_an_update_takes_the_place_of_the_one_that_serves() {
    let manager = Manager::new();
    let (old, new) = (manager.program("old"), manager.program("new"));
    let mut first = manager.start(&old);
    let endless = ["bench", "--builtin", "add1", "--runs", "4000000000", "--period", "1"];
    let endless = [&endless[..], &["--mode", "burst", "--device", DRIVER]].concat();
    let mut client = manager.client(&endless).spawn().unwrap();
    until("the burst", || manager.has_burst());

    // The same program reads its settings again.
    assert!(manager.reload(&old, first.id()).status.success());
    manager.hears("RELOADING=1");
    manager.forget();

    let reloaded = manager.reload(&new, first.id());
    assert!(reloaded.status.success(), "{}", text(&reloaded.stderr));
    assert!(text(&reloaded.stdout).contains("serves on"), "{}", text(&reloaded.stdout));
    let second = manager.successor();
    assert!(second.0 != first.id() && second.is_there());
    // New clients are the new process's, and the one before goes on with the one that it has.
    assert!(manager.serves() && !manager.has_burst());
    assert!(client.try_wait().unwrap().is_none() && first.try_wait().unwrap().is_none());
    signal("-9", client.id());
    ended(&mut client);
    assert_eq!(ended(&mut first), Some(0));
    // The end of the first is none of the service.
    assert!(!manager.heard.lock().unwrap().iter().any(|state| state == "STOPPING=1"));
    manager.forget();
    manager.hears("WATCHDOG=1");
    assert!(manager.serves());

    // And again, to a program that has taken another's place.
    let reloaded = manager.reload(&old, second.0);
    assert!(reloaded.status.success(), "{}", text(&reloaded.stderr));
    let third = manager.successor();
    until("the end of the second", || !second.is_there());
    assert!(manager.serves());
    signal("-TERM", third.0);
    manager.hears("STOPPING=1");
    until("the end of the third", || !third.is_there());
}

#[test]
fn a_program_that_does_not_serve_leaves_the_one_before() {
    let manager = Manager::new();
    let (old, new) = (manager.program("old"), manager.program("new"));
    let mut first = manager.start(&old);
    fs::write(manager.config(), "[user]\nmodles = 1\n").unwrap();
    let reloaded = manager.reload(&new, first.id());
    let told = text(&reloaded.stderr);
    assert_eq!(reloaded.status.code(), Some(1), "{told}");
    assert!(told.contains("modles") && told.contains("the process before goes on"), "{told}");
    assert!(manager.serves() && first.try_wait().unwrap().is_none());
    assert!(!manager.heard.lock().unwrap().iter().any(|state| state.contains("MAINPID")));

    // Nor does it get arguments that its unit doesn't have.
    let reloaded = manager.reload_with(&new, first.id(), &["--driver", DRIVER]);
    let told = text(&reloaded.stderr);
    assert_eq!(reloaded.status.code(), Some(1), "{told}");
    assert!(told.contains("other arguments: give ExecReload="), "{told}");

    // Who isn't the manager's has no part in its socket.
    let taking = ["serve", "--driver", DRIVER, "--take-over"];
    let refused = manager.client(&taking).output().unwrap();
    assert!(text(&refused.stderr).contains("a service manager made"), "{}", text(&refused.stderr));
    let by_hand = command(&["serve", "--reload"]).output().unwrap();
    assert_eq!(by_hand.status.code(), Some(2));
    assert!(text(&by_hand.stderr).contains("MAINPID"), "{}", text(&by_hand.stderr));
    signal("-TERM", first.id());
    assert_eq!(ended(&mut first), Some(0));
}
