//! A driver that somebody has taken over, and who now tries what a user's process may do.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_driver::{Sandbox, service};
use nnburst_hal::ExecutionOptions;
use nnburst_hal_ipc::service_dir;
use tempfile::TempDir;

use crate::processes::*;
use crate::support::*;

/// The directory of what the driver is to look for.
const TARGET: &str = "NNBURST_TEST_TARGET";
const ATTEMPTS: usize = 18;

/// Serves, then tries one thing after the other and reports each: `name: what came of it`.
pub(crate) fn be_a_hijacked_driver(sandbox: Option<&Sandbox>) {
    let target = std::env::var_os(TARGET).unwrap();
    let service = driver(ALL).service();
    let _serving = service::serve_in(&service, &service_dir().unwrap(), sandbox).unwrap();
    // Whoever takes a driver over does it on a thread of a client.
    std::thread::spawn(move || attempts(Path::new(&target))).join().unwrap();
    std::thread::sleep(HUNG * 10);
}

fn attempts(target: &Path) {
    let parent = Pid::parent();
    // A link can be read where no file can be.
    let port: u16 =
        std::fs::read_link(target.join("port")).unwrap().to_str().unwrap().parse().unwrap();
    report("read /etc/passwd", std::fs::read("/etc/passwd"));
    report("list /", std::fs::read_dir("/"));
    report("read a key", std::fs::read(target.join("key")));
    report("make a file", std::fs::write(target.join("made"), "x"));
    report("make a directory", std::fs::create_dir(target.join("made too")));
    report("rename a file", std::fs::rename(target.join("one"), target.join("other")));
    report("remove a file", std::fs::remove_file(target.join("key")));
    report("write to /proc", std::fs::write("/proc/self/oom_score_adj", "0"));
    report("connect by TCP", TcpStream::connect(("127.0.0.1", port)));
    report("listen on TCP", TcpListener::bind("127.0.0.1:0"));
    report("connect to a socket", UnixStream::connect(target.join("socket")));
    let name = SocketAddr::from_abstract_name(target.as_os_str().as_encoded_bytes()).unwrap();
    report("connect to an abstract socket", UnixStream::connect_addr(&name));
    report("run a program", Command::new("/bin/true").spawn());
    report("trace the parent", ptrace::seize(parent, ptrace::Options::empty()));
    report("signal the parent", kill(parent, None));
    report("read its memory", std::fs::File::open(format!("/proc/{parent}/mem")));
    report("read its environment", std::fs::read(format!("/proc/{parent}/environ")));
    let memory = memmap2::MmapMut::map_anon(4096).unwrap();
    report("run what was written", memory.make_exec());
    say("end");
}

fn report<T, E: Debug>(attempt: &str, result: Result<T, E>) {
    say(&match result {
        Ok(_) => format!("{attempt}: succeeded"),
        Err(error) => format!("{attempt}: refused, {error:?}"),
    });
}

fn say(line: &str) {
    let mut output = std::io::stdout();
    output.write_all(line.as_bytes()).and_then(|()| output.write_all(b"\n")).unwrap();
}

/// A hijacked driver at work, with what it tries to reach.
struct Hijacked {
    process: Killed,
    services: TempDir,
    target: TempDir,
    /// A line per attempt.
    reports: Vec<String>,
}

impl Hijacked {
    fn start(role: &str) -> Self {
        let (services, target) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let path = target.path();
        std::fs::write(path.join("key"), "secret").unwrap();
        std::fs::write(path.join("one"), "").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        symlink(tcp.local_addr().unwrap().port().to_string(), path.join("port")).unwrap();
        let _socket = UnixListener::bind(path.join("socket")).unwrap();
        let name = SocketAddr::from_abstract_name(path.as_os_str().as_encoded_bytes()).unwrap();
        let _abstract = UnixListener::bind_addr(&name).unwrap();
        let mut command = command(role);
        command.env(DIR, services.path()).env(TARGET, path).stdout(Stdio::piped());
        let mut process = Killed(command.spawn().unwrap());
        let output = BufReader::new(process.0.stdout.take().unwrap());
        let reports = output
            .lines()
            .map_while(Result::ok)
            .take_while(|line| line != "end")
            .filter(|line| line.contains(": refused, ") || line.ends_with(": succeeded"))
            .collect();
        Self { process, services, target, reports }
    }

    /// The attempts that came to something.
    fn succeeded(&self) -> Vec<&str> {
        self.reports.iter().filter_map(|line| line.strip_suffix(": succeeded")).collect()
    }
}

#[test]
fn a_hijacked_driver_opens_connects_runs_and_traces_nothing() {
    let mut hijacked = Hijacked::start("hijacked driver");
    assert_eq!(hijacked.reports.len(), ATTEMPTS, "{:#?}", hijacked.reports);
    assert_eq!(hijacked.succeeded(), [""; 0], "{:#?}", hijacked.reports);
    let target = hijacked.target.path();
    assert!(target.join("key").exists() && !target.join("made").exists());

    // It serves as before: calls, and bursts with memories of their own.
    let device = connect(hijacked.services.path());
    let model = prepare(&device, add_one(&[2])).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    model.execute_synchronously(&request(&input, &output), ExecutionOptions::default()).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    for round in 0..3u8 {
        let (input, output) = (floats(&[f32::from(round); 2]), floats(&[0.0; 2]));
        burst.execute(&request(&input, &output), &ExecutionOptions::default()).unwrap().unwrap();
        assert_eq!(as_floats(&output), [f32::from(round) + 1.0; 2]);
    }
    hijacked.process.now();
}

/// Otherwise the test above would show nothing.
#[test]
fn without_a_sandbox_a_hijacked_driver_does_as_its_user() {
    let mut hijacked = Hijacked::start("hijacked driver without a sandbox");
    assert_eq!(hijacked.reports.len(), ATTEMPTS, "{:#?}", hijacked.reports);
    // Tracing others is left to children of the tracer on many systems.
    let refused = ATTEMPTS - hijacked.succeeded().len();
    assert!(refused <= 3, "{:#?}", hijacked.reports);
    hijacked.process.now();
}
