//! A driver that somebody has taken over, and who now tries what a user's process may do.

use std::ffi::{CString, c_long};
use std::fmt::Debug;
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::mqueue::{MQ_OFlag, mq_close, mq_open, mq_unlink};
use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::signal::kill;
use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Pid, geteuid, truncate};
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_driver::{Sandbox, service};
use nnburst_hal::ExecutionOptions;
use nnburst_hal_ipc::service_dir;
use tempfile::TempDir;

use crate::processes::*;
use crate::support::*;

/// The directory of what the driver is to look for.
const TARGET: &str = "NNBURST_TEST_TARGET";
const ATTEMPTS: usize = 27;

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
    let one = target.join("one");
    report("change a file's mode", std::fs::set_permissions(&one, Permissions::from_mode(0o777)));
    report("change its owner", chown(&one, Some(geteuid().as_raw()), None));
    let (time, follow) = (TimeSpec::new(1, 0), UtimensatFlags::FollowSymlink);
    report("change its times", utimensat(AT_FDCWD, &one, &time, &time, follow));
    let path = CString::new(one.as_os_str().as_encoded_bytes()).unwrap();
    let attribute = [path.as_ptr(), c"user.x".as_ptr(), c"x".as_ptr()].map(<*const _>::addr);
    report("set an attribute of it", system_call(libc::SYS_setxattr, &attribute, 1));
    report("truncate it", truncate(&one, 0));
    report("make a link to it", std::fs::hard_link(&one, target.join("linked")));
    report("rename it", std::fs::rename(&one, target.join("other")));
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
    let processors = sched_getaffinity(parent).unwrap();
    report("move it to processors", sched_setaffinity(parent, &processors));
    let limit = [usize::try_from(parent.as_raw()).unwrap(), 0, 0];
    report("limit what it may", system_call(libc::SYS_prlimit64, &limit, 0));
    report("make a message queue", message_queue());
    report("read its memory", std::fs::File::open(format!("/proc/{parent}/mem")));
    report("read its environment", std::fs::read(format!("/proc/{parent}/environ")));
    let memory = memmap2::MmapMut::map_anon(4096).unwrap();
    report("run what was written", memory.make_exec());
    say("end");
}

/// Calls the system with three arguments, and a fourth.
fn system_call(number: c_long, arguments: &[usize; 3], last: usize) -> io::Result<()> {
    let [first, second, third] = *arguments;
    // SAFETY: the calls made here read what the arguments point to, which outlives them, or
    // nothing.
    let result = unsafe { libc::syscall(number, first, second, third, last, 0) };
    Errno::result(result).map(drop).map_err(Into::into)
}

/// Makes a queue of POSIX's messages, and removes it.
fn message_queue() -> nix::Result<()> {
    let name = format!("/nnburst-test-{}", std::process::id());
    let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_RDWR;
    let queue = mq_open(name.as_str(), flags, Mode::S_IRUSR, None)?;
    mq_close(queue)?;
    mq_unlink(name.as_str())
}

fn report<T, E: Debug>(attempt: &str, result: Result<T, E>) {
    say(&match result {
        Ok(_) => format!("{attempt}: succeeded"),
        Err(error) => format!("{attempt}: refused, {error:?}"),
    });
}

fn say(line: &str) {
    let mut output = io::stdout();
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

/// Kernels before 5.13 have no Landlock, and others are built without it.
#[test]
fn without_landlock_a_hijacked_driver_reads_and_removes_files_at_most() {
    let mut hijacked = Hijacked::start("hijacked driver without Landlock");
    assert_eq!(hijacked.reports.len(), ATTEMPTS, "{:#?}", hijacked.reports);
    let files = ["read /etc/passwd", "list /", "read a key", "remove a file"];
    let of_the_same_user = ["read its memory", "read its environment"];
    let (files, others): (Vec<_>, Vec<_>) =
        hijacked.succeeded().into_iter().partition(|name| files.contains(name));
    assert_eq!(files.len(), 4, "{:#?}", hijacked.reports);
    assert!(others.iter().all(|name| of_the_same_user.contains(name)), "{others:?}");
    hijacked.process.now();
}

/// Otherwise the tests above would show nothing.
#[test]
fn without_a_sandbox_a_hijacked_driver_does_as_its_user() {
    let mut hijacked = Hijacked::start("hijacked driver without a sandbox");
    assert_eq!(hijacked.reports.len(), ATTEMPTS, "{:#?}", hijacked.reports);
    // Tracing others is left to children of the tracer on many systems; not all have message queues
    // and attributes.
    let refused = ATTEMPTS - hijacked.succeeded().len();
    assert!(refused <= 5, "{:#?}", hijacked.reports);
    hijacked.process.now();
}
