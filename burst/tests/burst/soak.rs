//! Random bursts for as long as one likes, with kill -9: every answer checked, nothing left behind.
//!
//! `cargo xtask soak burst --minutes N` runs it for long; with the other tests it runs for seconds.

use std::process::Command;
use std::time::{Duration, Instant};

use nnburst_burst::testing::AddOne;
use nnburst_burst::{BurstController, BurstError, BurstFrame, ControllerOptions, Fallback};
use nnburst_hal::{BurstOptions, ErrorStatus, ExecutionOptions, Memory};

use crate::death;
use crate::remote::{self, Driver, Model};
use crate::support::{bytes, memory};

const SECONDS: &str = "NNBURST_SOAK_SECONDS";
const SOAKING: &str = "NNBURST_TEST_SOAKING";
const SEED: &str = "NNBURST_SOAK_SEED";

#[test]
fn random_bursts_and_kills_leave_nothing_behind() {
    // In a process of its own, whose files, threads and memory are nobody else's.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["soak::soaking_process", "--exact", "--nocapture"])
        .env(SOAKING, "1")
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn soaking_process() {
    if std::env::var_os(SOAKING).is_none() {
        return;
    }
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let time = Duration::from_secs(number(SECONDS).unwrap_or(3));
    let seed = number(SEED).unwrap_or_else(|| nnburst_hal::TimePoint::now().nanoseconds);
    println!("soaking for {time:?}; again with {SEED}={seed}");
    let mut dice = Dice(seed | 1);
    let end = Instant::now() + time;
    // What is made once and stays, such as the watching thread, is made before counting.
    let driver = Driver::spawn(&Model::default());
    some_frames(&mut open(&driver, &mut dice), &mut dice);
    drop(driver);
    let before = Holdings::settled();
    let (mut rounds, mut executions) = (0, 0);
    while Instant::now() < end {
        executions += round(&mut dice);
        rounds += 1;
    }
    let after = Holdings::settled();
    println!("{rounds} rounds, {executions} executions; before {before:?}, after {after:?}");
    assert_eq!(after.counts, before.counts, "files, threads, shared mappings");
    assert!(after.rss_kib < before.rss_kib + 32 * 1024, "memory grew: {before:?}, {after:?}");
}

/// Resources that this process holds.
#[derive(Debug)]
struct Holdings {
    counts: [usize; 3],
    rss_kib: u64,
}

impl Holdings {
    /// Once threads that are about to end have ended.
    fn settled() -> Self {
        let mut last = Self::now();
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let now = Self::now();
            if now.counts == last.counts {
                return now;
            }
            last = now;
        }
    }

    fn now() -> Self {
        let count = |folder| std::fs::read_dir(folder).unwrap().count();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            counts: [
                count("/proc/self/fd"),
                count("/proc/self/task"),
                maps.lines().filter(|line| line.contains("/memfd:")).count(),
            ],
            rss_kib: rss.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }
}

/// Pseudo-random numbers that come again with their seed (xorshift64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.roll(chances) == 0
    }
}

/// One driver, or one driver and client, from birth to death. Returns how much was executed.
fn round(dice: &mut Dice) -> u64 {
    if dice.one_in(4) {
        kill_a_client(dice);
        return 0;
    }
    let model = Model {
        pause: Duration::from_micros(dice.roll(200)),
        plain: dice.one_in(3),
        ..Model::default()
    };
    let mut driver = Driver::spawn(&model);
    let mut executions = 0;
    for _ in 0..=dice.roll(3) {
        let mut burst = open(&driver, dice);
        for _ in 0..=dice.roll(5) {
            executions += some_frames(&mut burst, dice);
        }
    }
    if dice.one_in(2) {
        kill_the_driver(&mut driver, dice);
    }
    executions
}

fn open(driver: &Driver, dice: &mut Dice) -> BurstController {
    let mut window = || match dice.roll(3) {
        0 => Some(Duration::ZERO),
        1 => Some(Duration::MAX),
        _ => None,
    };
    let (ours, theirs) = (window(), window());
    let burst = BurstOptions {
        extended: dice.one_in(2),
        depth: u32::try_from(dice.roll(6)).unwrap(),
        polling_window: theirs,
        ..BurstOptions::default()
    };
    let options = ControllerOptions { polling_window: ours, burst, ..ControllerOptions::default() };
    BurstController::configure(driver.model(), &options, Some(driver.watch())).unwrap()
}

/// A request on fresh memories, with what its output has to become.
struct Job {
    frame: Option<BurstFrame>,
    output: Memory,
    want: Vec<u8>,
}

fn job(burst: &mut BurstController, dice: &mut Dice) -> Job {
    let magnitude = dice.roll(17);
    let len = usize::try_from(dice.roll(1 << magnitude) + 1).unwrap();
    let value = u8::try_from(dice.roll(256)).unwrap();
    let (input, output) = (memory(&vec![value; len]), memory(&vec![0; len]));
    let request = AddOne::request(&input, &output, u32::try_from(len).unwrap());
    let frame = burst.frame(&request, &ExecutionOptions::default()).unwrap();
    Job { frame: Some(frame), output, want: vec![value.wrapping_add(1); len] }
}

/// Several frames at once or one again and again; some of them given up.
fn some_frames(burst: &mut BurstController, dice: &mut Dice) -> u64 {
    let mut jobs: Vec<_> = (0..burst.depth()).map(|_| job(burst, dice)).collect();
    let mut executions = 0;
    for _ in 0..=dice.roll(20) {
        for job in &mut jobs {
            let frame = job.frame.take().unwrap();
            burst.try_submit(frame).map_err(|rejected| rejected.why).unwrap();
        }
        if dice.one_in(10) {
            burst.forget();
            break;
        }
        for job in &mut jobs {
            let frame = burst.wait().unwrap();
            assert_eq!(frame.answer().unwrap().status, ErrorStatus::None);
            assert!(bytes(&job.output) == job.want, "a wrong answer");
            job.frame = Some(frame);
            executions += 1;
        }
    }
    let mut last = job(burst, dice);
    let frame = last.frame.as_mut().unwrap();
    assert_eq!(burst.execute_frame(frame).unwrap().status, ErrorStatus::None);
    assert!(bytes(&last.output) == last.want, "a wrong answer");
    executions + 1
}

/// Kills the driver while frames run: each is right or an error, and the error comes.
fn kill_the_driver(driver: &mut Driver, dice: &mut Dice) {
    let mut burst = open(driver, dice);
    let mut job = job(&mut burst, dice);
    let frame = job.frame.as_mut().unwrap();
    let pause = Duration::from_micros(dice.roll(3000));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(pause);
            driver.kill();
        });
        loop {
            match burst.execute_frame(frame) {
                Ok(answer) => assert_eq!(answer.status, ErrorStatus::None),
                Err(BurstError::Closed(_) | BurstError::NotSent(Fallback::Closed(_))) => break,
                Err(error) => panic!("{error}"),
            }
        }
    });
}

/// Kills a client while its frames run: its driver is left with nothing of it.
fn kill_a_client(dice: &mut Dice) {
    let window = if dice.one_in(2) { Duration::ZERO } else { Duration::MAX };
    let (driver, mut client) = remote::driver_and_client("death::client_process", window);
    std::thread::sleep(Duration::from_micros(dice.roll(60_000)));
    client.kill();
    drop(client);
    let gone = || death::holdings(driver.id()) == [0; 3];
    death::until("something of the client is left", gone);
}
