//! Drivers in processes of their own that die and are started again.
//!
//! The driver's program is this one (`serve --driver NAME --fd 0`), named by `NNBURST_DRIVER`: so
//! the test is a program of its own, which runs itself with that variable.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on panics")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use nnburst::{Burst, BurstOptions, Frame, PrepareOptions, RuntimeError, builtin};
use nnburst_doors_common::{DoorOptions, Level, Log, Sink, Supervised, Verbosity};

/// A second is longer than any pause after a first death.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match mode.as_str() {
        "serve" => nnburst::serve_inherited("nnapi-sample_all", 0, &Default::default()).unwrap(),
        "supervise" => {
            dies_and_is_restarted();
            nothing_to_start_is_an_error_and_tried_again();
            a_forked_child_gets_an_error();
        }
        _ => {
            let this = std::env::current_exe().unwrap();
            let run = |name: &str| {
                let mut test = Command::new(&this);
                test.arg("supervise").env("NNBURST_DRIVER", name).status().unwrap()
            };
            assert!(run(this.to_str().unwrap()).success());
        }
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

impl Sink for Kept {
    fn write(&self, _: &str, level: Level, text: &str) {
        self.0.lock().unwrap().push(format!("{level:?}: {text}"));
    }
}

/// What the test makes on a device.
struct Adder {
    burst: Burst,
    frame: Frame,
    driver: u32,
}

impl Adder {
    fn add(&mut self) -> Result<(), RuntimeError> {
        self.burst.compute(&mut self.frame)
    }
}

fn adder(device: &str, log: &Log) -> Supervised<Adder> {
    let options = DoorOptions { device: device.parse().unwrap(), ..DoorOptions::default() };
    Supervised::new(options, log.clone(), |device, _| {
        let compilation = device.compile(&builtin::model("add1")?, PrepareOptions::default())?;
        let burst = compilation.burst(&BurstOptions::default())?;
        let frame = burst.frame()?;
        let driver = device.driver_process().ok_or("a driver without a process")?;
        Ok(Adder { burst, frame, driver })
    })
}

fn kill(process: u32) {
    signal::kill(Pid::from_raw(process.try_into().unwrap()), Signal::SIGKILL).unwrap();
}

fn dies_and_is_restarted() {
    let kept = Kept::default();
    let log = Log::new("test", Verbosity::Summary, kept.clone());
    let mut adder = adder("spawn/nnapi-sample_all", &log);
    let first = adder.get().unwrap().driver;
    adder.get().unwrap().add().unwrap();
    // What is no death changes nothing.
    let other = RuntimeError::Argument("wrong".into());
    assert!(adder.recover(&other).is_none());
    assert_eq!(adder.get().unwrap().driver, first);

    // Not within the pause after the first start: the restart is immediate.
    std::thread::sleep(Duration::from_millis(150));
    kill(first);
    let error = adder.get().unwrap().add().unwrap_err();
    let restart = Instant::now();
    let recovery = adder.recover(&error).unwrap();
    assert_eq!(recovery.to_string(), "driver nnapi-sample_all died (signal 9, SIGKILL); restarted");
    assert_eq!(*kept.0.lock().unwrap(), [format!("Warning: {recovery}")]);
    let second = adder.get().unwrap().driver;
    assert_ne!(second, first);
    adder.get().unwrap().add().unwrap();

    // One that dies at once is started again after a pause.
    kill(second);
    let error = adder.get().unwrap().add().unwrap_err();
    let recovery = adder.recover(&error).unwrap();
    let within_pause = restart.elapsed() < Duration::from_millis(200);
    assert!(recovery.restarted.is_err() || !within_pause, "{recovery}");
    let begun = Instant::now();
    while adder.get().is_err() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    adder.get().unwrap().add().unwrap();
}

fn nothing_to_start_is_an_error_and_tried_again() {
    let mut adder = adder("spawn/no-such-driver", &Log::stderr("test"));
    let why = |adder: &mut Supervised<Adder>| match adder.get() {
        Ok(_) => panic!("there is no such driver"),
        Err(error) => error.to_string(),
    };
    let first = why(&mut adder);
    assert!(first.contains("no-such-driver") && first.contains("nnburst-cpu"), "{first}");
    assert_eq!(why(&mut adder), first, "the reason stays while nothing is tried");
}

fn a_forked_child_gets_an_error() {
    let mut adder = adder("spawn/nnapi-sample_all", &Log::stderr("test"));
    adder.get().unwrap().add().unwrap();
    in_child(|| {
        let error = adder.get().err().map(|error| error.to_string()).unwrap();
        assert!(error.contains("forked"), "{error}");
        assert!(adder.recover(&RuntimeError::Argument("wrong".into())).is_none());
    });
    adder.get().unwrap().add().unwrap();
}

/// Runs `work` in a forked child, and expects it to succeed.
fn in_child(work: impl FnOnce()) {
    // SAFETY: no other thread of this program holds a lock that `work` takes, and the child ends
    // without running what the parent has registered.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a hang guard; its action is the default.
        unsafe { libc::alarm(120) };
        let went_well = catch_unwind(AssertUnwindSafe(work)).is_ok();
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!went_well)) };
    }
    let mut status = -1;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "a child ended with status {status:x}");
}
