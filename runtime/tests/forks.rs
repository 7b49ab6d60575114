//! Forks of a program that uses devices of all kinds: a program of its own, without other threads
//! of a test harness.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use nnburst::hal::process::Origin;
use nnburst::{Burst, BurstOptions, Compilation, Device, Frame, Memory, ResultCode, Wait, builtin};

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    // What `Device::spawn` starts.
    if arguments.get(1).is_some_and(|argument| argument == "serve") {
        if std::env::var_os(UNSERVED).is_some() {
            let error = Device::spawn("nnapi-sample_all").unwrap_err().to_string();
            assert!(error.contains("serve_inherited"), "{error}");
            return;
        }
        return nnburst::serve_inherited("nnapi-sample_all", 0, &Default::default()).unwrap();
    }
    // A program whose `main` doesn't see how it was started.
    let mut unserved = std::process::Command::new(&arguments[0]);
    unserved.args(["serve", "--driver", "nnapi-sample_all", "--fd", "0"]).env(UNSERVED, "1");
    assert!(unserved.status().unwrap().success(), "it started itself again");
    let devices: [fn() -> Device; 3] = [
        || Device::embedded("nnapi-sample_all").unwrap(),
        || Device::spawn("nnapi-sample_all").unwrap(),
        Device::reference,
    ];
    for make in devices {
        let mut ours = Set::new(make());
        ours.computes();
        // Nothing but an end; calls that fail; drops; objects of its own, and a child of its own.
        in_child(|| {});
        ours.computes();
        in_child(|| ours.fails());
        ours.computes();
        // SAFETY: in the child this is the only one that is used or dropped: it ends without
        // dropping `ours`.
        in_child(|| drop(unsafe { std::ptr::read(&raw const ours) }));
        ours.computes();
        in_child(|| {
            let mut own = Set::new(make());
            own.computes();
            ours.fails();
            in_child(|| own.fails());
            own.computes();
        });
        ours.computes();
        println!("{}: ok", ours.device.name());
    }
    in_child(|| {
        let listed = nnburst::devices();
        assert!(listed.iter().any(|device| *device == Device::reference()));
    });
    for round in 0..FIRST_USES {
        in_child(|| forks_during_first_uses(round));
    }
}

/// Set for a child that takes no heed of its arguments.
const UNSERVED: &str = "NNBURST_TEST_UNSERVED";

/// Processes that are forked while their parent uses everything for the first time.
const FIRST_USES: u32 = 40;

/// In a fresh process: forks while another thread is within the first use of settings, lists,
/// devices and kernels, and while a third one works on a memory that the child has as well. Nothing
/// that the threads hold at that moment may be waited for in the child.
fn forks_during_first_uses(round: u32) {
    let (memory, other) = (Memory::new(1 << 16).unwrap(), Memory::new(1 << 16).unwrap());
    let begun = Barrier::new(3);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begun.wait();
            uses_all(round);
        });
        scope.spawn(|| {
            begun.wait();
            // Relaxed: nothing is handed over.
            while !is_over.load(Ordering::Relaxed) {
                Memory::copy(&memory, &other).unwrap();
                memory.stay_mapped();
            }
        });
        begun.wait();
        for turn in 0..4 {
            // Each round forks at other moments.
            for _ in 0..round * 50 {
                std::hint::spin_loop();
            }
            in_child(|| {
                let failure = Memory::copy(&memory, &other).unwrap_err();
                assert_eq!(failure.code(), ResultCode::OpFailed, "{failure}");
                memory.stay_mapped();
                uses_all(round + turn);
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn uses_all(round: u32) {
    // Whichever comes first.
    if round.is_multiple_of(2) {
        assert!(!nnburst::extensions_are_allowed());
        assert!(!nnburst::devices().is_empty());
    }
    let device = Device::embedded("nnapi-sample_all").unwrap();
    Set::new(device).computes();
    assert!(!nnburst::extensions_are_allowed());
    assert!(!nnburst::devices().is_empty());
}

/// One of everything.
struct Set {
    device: Device,
    compilation: Compilation,
    burst: Burst,
    frame: Frame,
    memory: Memory,
    origin: Origin,
}

impl Set {
    fn new(device: Device) -> Self {
        let model = builtin::model("add1").unwrap();
        let compilation = device.compile(&model, Default::default()).unwrap();
        let options = BurstOptions { wait: Wait::Block, ..BurstOptions::default() };
        let burst = compilation.burst(&options).unwrap();
        let frame = burst.frame().unwrap();
        let memory = Memory::new(64).unwrap();
        Self { device, compilation, burst, frame, memory, origin: Origin::here() }
    }

    fn computes(&mut self) {
        assert!(self.origin.is_here());
        for round in 0..4u8 {
            self.frame.write(0, &[f32::from(round)]).unwrap();
            self.frame.write(1, &[1.0f32]).unwrap();
            if round % 2 == 0 {
                self.burst.compute(&mut self.frame).unwrap();
            } else {
                self.compilation.execution().compute(&mut self.frame).unwrap();
            }
            assert_eq!(self.frame.read::<f32>(0).unwrap(), [f32::from(round) + 1.0]);
        }
        let frame = self.compilation.frame().unwrap();
        let (_, result) = self.compilation.execution().start(frame).unwrap().wait();
        result.unwrap();
    }

    /// Each call fails at once, and says so as `OP_FAILED`.
    fn fails(&mut self) {
        assert!(!self.origin.is_here());
        let model = builtin::model("add1").unwrap();
        let execution = self.compilation.execution();
        let failures = [
            execution.compute(&mut self.frame).unwrap_err(),
            self.burst.compute(&mut self.frame).unwrap_err(),
            self.device.compile(&model, Default::default()).unwrap_err(),
        ];
        for failure in failures {
            assert_eq!(failure.code(), ResultCode::OpFailed, "{failure}");
            assert!(failure.to_string().contains("forked"), "{failure}");
        }
        let frame = self.compilation.frame().unwrap();
        let started = execution.start(frame).and_then(|event| event.wait().1);
        let burst = self.compilation.burst(&BurstOptions::default()).map(drop);
        let copied = Memory::copy(&self.memory, &Memory::new(64).unwrap());
        for (what, failure) in [("start", started), ("burst", burst), ("copy", copied)] {
            let failure = failure.unwrap_err();
            assert_eq!(failure.code(), ResultCode::OpFailed, "{what}: {failure}");
            assert!(failure.to_string().contains("forked"), "{what}: {failure}");
        }
    }
}

/// Runs `work` in a child, which must end well; one that hangs is ended by the system.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the child runs what was made for this, and ends without running what the parent has
    // registered.
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
