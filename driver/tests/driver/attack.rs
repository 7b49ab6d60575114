//! Attacks through real processes: a driver, a good client of one user, and attackers of another.
//!
//! ```text
//!   test ── Target ──► driver (root, limits lowered) ◄── good client, 100 requests/s (uid 12345)
//!              └─ attack(name) ──────────────────────◄── attacker (uid 65534)
//! ```
//!
//! An attack is a function in [`ATTACKS`]. It runs in a process of its own, takes what it can, and
//! returns what it keeps; the process then holds that until the test drops its [`Attacker`].
//! [`Target::survives`] ends each test: the good client got right answers all the time, and the
//! driver is back to the resources it had before.
#![expect(clippy::print_stdout, reason = "child processes report by their output")]

use std::any::Any;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_driver::{CpuDriver, CpuDriverOptions};
use nnburst_hal::*;
use nnburst_hal_ipc::{ProcessLimits, RemoteDevice, inherited, raise_descriptor_limit};

use crate::budgets;
use crate::hostile::resident;
use crate::loops;
use crate::processes::{ALL, Killed, command};
use crate::support::*;
use crate::time;
use crate::truncations;

/// What an attacker keeps until it is told to let go.
pub(crate) type Held = Box<dyn Any>;

/// A program of an attacker, who is given the driver's socket.
pub(crate) type Attack = fn(&Path) -> Held;

/// The attacks, by name.
const ATTACKS: &[(&str, Attack)] = &[
    ("connects", connects),
    ("computes for ever", time::computes_for_ever),
    ("descriptors", budgets::descriptors),
    ("half messages", budgets::half_messages),
    ("mappings", budgets::mappings),
    ("address space", budgets::address_space),
    ("threads", budgets::threads),
    ("temporaries", budgets::temporaries),
    ("descriptors again and again", budgets::descriptors_again_and_again),
    ("large messages again and again", budgets::large_messages_again_and_again),
    ("guards", truncations::guards),
    ("shapes known while running", loops::shapes_known_while_running),
    ("a loop without an end", loops::without_an_end),
    ("a loop that grows a tensor", loops::that_grows_a_tensor),
    ("validates large models", time::validates_large_models),
    ("cuts sparse memories", truncations::cuts_sparse_memories),
    ("cuts many memories", truncations::cuts_many_memories),
];

/// Programs that never talk to the driver and keep the machine's processors as busy as attacks do:
/// what they cost the good client is the system's doing.
const CONTROLS: &[(&str, Attack)] =
    &[("six busy threads", busy), ("six that allocate", allocating)];

/// The users of the good client and of attackers.
const GOOD: u32 = 12345;
const ATTACKER: u32 = 65534;

/// The driver's limits, the socket and the attack's name, for the child processes.
const LIMITS: &str = "NNBURST_TEST_LIMITS";
const SOCKET: &str = "NNBURST_TEST_SOCKET";
const NAME: &str = "NNBURST_TEST_ATTACK";

/// The file for begin and duration of each of the good client's calls, in nanoseconds.
const SAMPLES: &str = "NNBURST_TEST_SAMPLES";
/// The attacks to be measured, with commas between; all where it is not set.
const MEASURED: &str = "NNBURST_TEST_MEASURED";

/// What lines for the test begin with, among those of the test harness.
const WORD: &str = "attack: ";
const READY: &str = "ready";

/// A hang guard: longer than anything takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The good client's period.
const PERIOD: Duration = Duration::from_millis(10);

/// The resources of a process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resources {
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
    pub(crate) mappings: usize,
    /// Those of memories of clients.
    pub(crate) shared_mappings: usize,
    pub(crate) resident_kib: u64,
}

impl Resources {
    pub(crate) fn of(pid: u32) -> Self {
        let count =
            |what| std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count);
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        Self {
            threads: count("task"),
            descriptors: count("fd"),
            mappings: maps.lines().count(),
            shared_mappings: maps.lines().filter(|line| line.contains("memfd:")).count(),
            resident_kib: resident(pid),
        }
    }

    /// Whether nothing of an attack is left. The allocator keeps some memory and stacks of threads
    /// for the next.
    fn is_back_to(&self, before: &Self) -> bool {
        const KEPT_MAPPINGS: usize = 64;
        const KEPT_KIB: u64 = 48 << 10;
        self.threads <= before.threads
            && self.descriptors <= before.descriptors
            && self.shared_mappings <= before.shared_mappings
            && self.mappings <= before.mappings + KEPT_MAPPINGS
            && self.resident_kib <= before.resident_kib + KEPT_KIB
    }
}

fn thread_names(pid: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.flat_map(|thread| std::fs::read_to_string(thread.path().join("comm"))).collect()
}

/// A driver under attack, and a good client that it serves.
pub(crate) struct Target {
    driver: Killed,
    good: Program,
    dir: tempfile::TempDir,
    before: Resources,
}

impl Target {
    /// Starts both. `limits` are the driver's, as `name=number` with commas between: `nofile` and
    /// `as` of the process (`setrlimit`), others as in [`process_limits`] and [`options`].
    pub(crate) fn start(limits: &str) -> Self {
        Self::start_with(limits, None)
    }

    /// [`Self::start`], with a file for the good client's latencies.
    fn start_with(limits: &str, samples: Option<&Path>) -> Self {
        let is_root = nix::unistd::geteuid().is_root();
        assert!(is_root, "only root can start processes of other users");
        let dir = tempfile::tempdir().unwrap();
        let socket = socket_in(&dir);
        let listener = UnixListener::bind(&socket).unwrap();
        for (path, mode) in [(dir.path(), 0o755), (&socket, 0o666)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut driver = command("target");
        driver.env(LIMITS, limits).stdin(OwnedFd::from(listener)).stderr(Stdio::inherit());
        let driver = Killed(driver.spawn().unwrap());
        drop(listening(&socket));
        let good = Program::start("good client", GOOD, &socket, "", samples);
        let mut target = Self { before: Resources::of(driver.0.id()), driver, good, dir };
        target.before = target.at_rest();
        target
    }

    pub(crate) fn socket(&self) -> PathBuf {
        socket_in(&self.dir)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.driver.0.id()
    }

    /// The driver's resources, while it serves nobody but the good client.
    pub(crate) fn before(&self) -> &Resources {
        &self.before
    }

    pub(crate) fn now(&self) -> Resources {
        Resources::of(self.pid())
    }

    /// Starts an attack of [`ATTACKS`]; returns when the attacker has what it could get.
    pub(crate) fn attack(&self, name: &str) -> Attacker {
        let program = Program::start("attacker", ATTACKER, &self.socket(), name, None);
        Attacker { program }
    }

    /// Ends the test: the driver is back to what it had and serves newcomers, and the good client
    /// was served with right answers all along.
    pub(crate) fn survives(mut self) {
        let start = Instant::now();
        while !self.now().is_back_to(&self.before) {
            let (now, before) = (self.now(), &self.before);
            let threads = thread_names(self.pid());
            assert!(start.elapsed() < PATIENCE, "{now:?} is left of {before:?}: {threads:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        prepare(&listening(&self.socket()), add_one(&[1])).unwrap();
        assert!(self.driver.0.try_wait().unwrap().is_none(), "the driver ended");
        let figures = self.good.end();
        println!("{}, {:?} before, {:?} after", figures.join(" "), self.before, self.now());
    }

    /// The driver's resources when threads that were needed to begin with have ended: the least of
    /// a while, since the good client's newcomers come and go.
    fn at_rest(&self) -> Resources {
        /// Longer than threads without work stay.
        const WHILE: Duration = Duration::from_millis(3500);
        let (mut least, start) = (self.now(), Instant::now());
        while start.elapsed() < WHILE {
            let now = self.now();
            least = Resources {
                threads: least.threads.min(now.threads),
                descriptors: least.descriptors.min(now.descriptors),
                mappings: least.mappings.min(now.mappings),
                shared_mappings: least.shared_mappings.min(now.shared_mappings),
                resident_kib: least.resident_kib.max(now.resident_kib),
            };
            std::thread::sleep(Duration::from_millis(17));
        }
        least
    }
}

/// An attacker that holds what it got; dropping it kills the process.
pub(crate) struct Attacker {
    program: Program,
}

impl Attacker {
    /// What the attack reported.
    pub(crate) fn words(&self) -> &[String] {
        &self.program.words
    }

    /// Has it let go of everything and end by itself.
    pub(crate) fn end(mut self) {
        self.program.end();
    }
}

/// Reports to the test.
pub(crate) fn report(word: impl std::fmt::Display) {
    println!("\n{WORD}{word}");
}

/// A child process that says when it is ready, and ends when its standard input does.
struct Program {
    process: Killed,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    words: Vec<String>,
}

impl Program {
    fn start(role: &str, user: u32, socket: &Path, attack: &str, samples: Option<&Path>) -> Self {
        let mut command: Command = command(role);
        command.envs(samples.map(|file| (SAMPLES, file)));
        command.env(SOCKET, socket).env(NAME, attack).current_dir("/").uid(user).gid(user);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child: Child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut this = Self { process: Killed(child), input, output, words: Vec::new() };
        assert!(this.hears(READY), "{role} {attack} ended early: {:?}", this.words);
        this
    }

    /// Reads words until this one; false if the process ends first.
    fn hears(&mut self, last: &str) -> bool {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap_or(0) > 0 {
            if let Some(word) = line.trim_end().strip_prefix(WORD) {
                if word == last {
                    return true;
                }
                self.words.push(word.to_owned());
            }
            line.clear();
        }
        false
    }

    /// Has it end; what it said.
    fn end(&mut self) -> &[String] {
        self.input = None;
        self.hears("");
        let status = self.process.0.wait().unwrap();
        assert!(status.success(), "{status}: {:?}", self.words);
        &self.words
    }
}

fn socket_in(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join(format!("{ALL}.sock"))
}

/// The device, once it listens.
fn listening(socket: &Path) -> RemoteDevice {
    let start = Instant::now();
    loop {
        match RemoteDevice::connect_path(socket) {
            Ok(device) => return device,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the test has closed this process's standard input.
fn told_to_end() -> Arc<AtomicBool> {
    let told = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&told);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        tell.store(true, Ordering::Relaxed);
    });
    told
}

/// The driver, which is given its listening socket as standard input.
pub(crate) fn be_the_target() {
    let limits = std::env::var(LIMITS).unwrap();
    let limits: Vec<_> = limits.split(',').filter_map(|limit| limit.split_once('=')).collect();
    for &(name, number) in &limits {
        let number = number.parse().ok();
        let limit = |resource| {
            let number = number.unwrap_or(RLIM_INFINITY);
            setrlimit(resource, number, number).unwrap();
        };
        match name {
            "nofile" => limit(Resource::RLIMIT_NOFILE),
            "as" => limit(Resource::RLIMIT_AS),
            _ => {}
        }
    }
    let driver = CpuDriver::new(options(&limits));
    assert!(process_limits(&limits).apply(), "nobody came before");
    let _serving = driver.service().listen_on(inherited(0).unwrap()).unwrap();
    loop {
        std::thread::park();
    }
}

/// The process's limits by the names of [`Target::start`], or else those of the machine.
fn process_limits(limits: &[(&str, &str)]) -> ProcessLimits {
    raise_descriptor_limit();
    let mut of_process = ProcessLimits::of_machine();
    for (name, number) in limits {
        match *name {
            "mappings" => of_process.mappings = number.parse().unwrap(),
            "guards" => of_process.guarded_mappings = number.parse().unwrap(),
            _ => {}
        }
    }
    of_process
}

/// The driver's options by the names of [`Target::start`].
fn options(limits: &[(&str, &str)]) -> CpuDriverOptions {
    let mut options = CpuDriverOptions::default();
    for (name, number) in limits {
        match *name {
            "nofile" | "as" | "mappings" | "guards" => {}
            "threads" => options.threads = number.parse().unwrap(),
            name => panic!("no limit is called {name}"),
        }
    }
    options
}

/// A client whose answers are right, a hundred a second, by bursts and by calls in turn; now and
/// then it connects and prepares anew. It reports its latencies at the end.
pub(crate) fn be_the_good_client() {
    let socket = PathBuf::from(std::env::var_os(SOCKET).unwrap());
    let (end, device) = (told_to_end(), listening(&socket));
    let model = prepare(&device, add_one(&[64])).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    let (input, output) = (floats(&[0.0; 64]), floats(&[0.0; 64]));
    let (mapped, request) = (input.map(Access::ReadWrite).unwrap(), request(&input, &output));
    let (start, mut took, mut began_at) = (Instant::now(), Vec::new(), Vec::new());
    for round in 0u32.. {
        let value = (round % 1000) as f32;
        let bytes = [value.to_le_bytes(); 64].concat();
        mapped.view_mut(0..bytes.len()).unwrap().copy_from_slice(&bytes);
        began_at.push(TimePoint::now());
        let began = Instant::now();
        if round % 2 == 0 {
            burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
        } else {
            model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        }
        took.push(began.elapsed());
        assert_eq!(as_floats(&output), [value + 1.0; 64], "round {round}");
        if round == 10 {
            report(READY);
        }
        if round % 50 == 0 {
            let newcomer = RemoteDevice::connect_path(&socket).unwrap();
            let model = prepare(&newcomer, add_one(&[64])).unwrap();
            model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        }
        if round > 20 && end.load(Ordering::Relaxed) {
            break;
        }
        let due = start + PERIOD * (round + 1);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    if let Some(file) = std::env::var_os(SAMPLES) {
        let line = |(at, took): (&TimePoint, &Duration)| {
            format!("{} {}\n", at.nanoseconds, took.as_nanos())
        };
        std::fs::write(file, began_at.iter().zip(&took).map(line).collect::<String>()).unwrap();
    }
    took.sort_unstable();
    let (p50, p99) = (took[took.len() / 2], took[took.len() * 99 / 100]);
    report(format_args!("{} answers, p50 {p50:?}, p99 {p99:?}", took.len()));
}

/// Runs the attack that the test names.
pub(crate) fn be_an_attacker() {
    raise_descriptor_limit();
    let (end, name) = (told_to_end(), std::env::var(NAME).unwrap());
    let (_, attack) = ATTACKS.iter().chain(CONTROLS).find(|(known, _)| *known == name).unwrap();
    let held = attack(Path::new(&std::env::var_os(SOCKET).unwrap()));
    report(READY);
    while !end.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(held);
}

/// No attack at all: a client that connects and prepares.
fn connects(socket: &Path) -> Held {
    let device = RemoteDevice::connect_path(socket).unwrap();
    let model = prepare(&device, add_one(&[2])).unwrap();
    report("prepared");
    Box::new((device, model))
}

/// No attack at all: threads that compute.
fn busy(_: &Path) -> Held {
    six(|round| round.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
}

/// No attack at all: threads that map memory and let go of it.
fn allocating(_: &Path) -> Held {
    six(|round| {
        std::hint::black_box(vec![1u8; 1 << 20]).iter().map(|&byte| u64::from(byte)).sum::<u64>()
            + round
    })
}

fn six(work: impl Fn(u64) -> u64 + Copy + Send + 'static) -> Held {
    for _ in 0..6 {
        std::thread::spawn(move || {
            let mut round = 0;
            loop {
                round = std::hint::black_box(work(round));
            }
        });
    }
    Box::new(())
}

#[test]
#[ignore = "only root can start processes of other users"]
fn a_target_is_back_to_what_it_had_when_a_client_has_gone() {
    for kill in [true, false] {
        let target = Target::start("nofile=1024,as=3221225472");
        let attacker = target.attack("connects");
        assert_eq!(attacker.words(), ["prepared"]);
        assert!(target.now().descriptors > target.before().descriptors);
        if kill {
            drop(attacker);
        } else {
            attacker.end();
        }
        target.survives();
    }
}

/// The good client's latency beside each attack, as a ratio to its latency without, from windows
/// that take turns: at most twice that, or twice what it is beside programs that keep the machine
/// busy and leave the driver alone. A measurement for a machine that does nothing else:
///
/// ```text
/// cargo test --release -p nnburst-driver --test driver -- --ignored --nocapture measured
/// ```
#[test]
#[ignore = "a measurement: it takes minutes and a machine of its own"]
fn measured_latency_beside_attacks() {
    const ROUNDS: usize = 5;
    const WINDOW: Duration = Duration::from_secs(3);
    let only = std::env::var(MEASURED).unwrap_or_default();
    let (mut slow, mut floor) = (Vec::new(), 0.0f64);
    let is_wanted = |(name, _): &&(&str, Attack)| only.is_empty() || only.contains(name);
    for (name, _) in CONTROLS.iter().chain(ATTACKS.iter().filter(is_wanted)) {
        let samples = tempfile::tempdir().unwrap();
        std::fs::set_permissions(samples.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let samples_file = samples.path().join("samples");
        let mut target = Target::start_with("", Some(&samples_file));
        let mut windows = Vec::new();
        for _ in 0..ROUNDS {
            let quiet = TimePoint::now();
            std::thread::sleep(WINDOW);
            let attacked = TimePoint::now();
            let attacker = target.attack(name);
            let left = WINDOW.saturating_sub(Duration::from_nanos(
                TimePoint::now().nanoseconds - attacked.nanoseconds,
            ));
            std::thread::sleep(left);
            windows.push([quiet, attacked, TimePoint::now()]);
            drop(attacker);
            std::thread::sleep(Duration::from_millis(300));
        }
        target.good.end();
        let text = std::fs::read_to_string(&samples_file).unwrap();
        let samples: Vec<(u64, u64)> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(at, took)| (at.parse().unwrap(), took.parse().unwrap()))
            .collect();
        let p99 = |from: usize| {
            let within = |at: u64| {
                windows.iter().any(|w| (w[from].nanoseconds..w[from + 1].nanoseconds).contains(&at))
            };
            let mut took: Vec<_> =
                samples.iter().filter(|(at, _)| within(*at)).map(|(_, took)| *took).collect();
            took.sort_unstable();
            took[took.len() * 99 / 100] as f64 / 1000.0
        };
        let (quiet, attacked) = (p99(0), p99(1));
        let ratio = attacked / quiet;
        println!(
            "{name:32} quiet p99 {quiet:9.1} us  beside it {attacked:9.1} us  ratio {ratio:.2}"
        );
        if CONTROLS.iter().any(|(control, _)| control == name) {
            // What the system itself costs whoever is woken beside busy processes.
            floor = floor.max(attacked);
        } else if attacked > 2.0 * quiet.max(floor) {
            slow.push((name, ratio));
        }
    }
    assert!(slow.is_empty(), "more than twice the quiet p99, and that beside controls: {slow:?}");
}
