//! Demands of the lab on the machine: two CPUs, real-time priority if allowed, cores that don't
//! doze.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::Result;

/// The two CPUs of a run: the measuring side's and the answering side's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// CPU of the measuring side.
    pub near: usize,
    /// CPU of the answering side.
    pub far: usize,
}

impl Cpus {
    /// The first two CPUs that this process may use.
    ///
    /// # Errors
    /// If there is only one.
    pub fn first_two() -> Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true));
        match (cpus.next(), cpus.next()) {
            (Some(near), Some(far)) => Ok(Self { near, far }),
            _ => Err("two CPUs are needed, and this process may use only one".into()),
        }
    }
}

/// Binds the calling thread to `cpu`.
///
/// # Errors
/// If there is no such CPU, or the thread may not use it.
pub fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    if set.set(cpu).is_err() {
        return Err(format!("no CPU {cpu}: the kernel counts to {}", CpuSet::count()).into());
    }
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|error| format!("can't use CPU {cpu}: {error}").into())
}

/// Gives the calling thread real-time priority, above that of a burst's threads: probes go before
/// listeners that poll. `false` if that is not allowed.
#[must_use]
pub fn real_time() -> bool {
    schedule(libc::SCHED_FIFO, 60)
}

fn schedule(policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel reads the parameters during the call only; 0 means the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

/// Keeps both cores out of their sleep states while blocking transports are measured, by threads
/// that run only when nothing else does (`SCHED_IDLE`). Without it one measures how long the
/// hypervisor takes to wake a virtual core.
#[derive(Debug)]
pub struct KeepAwake([Heater; 2]);

impl KeepAwake {
    /// Starts the threads, inactive.
    #[must_use]
    pub fn new(cpus: Cpus) -> Self {
        Self([cpus.near, cpus.far].map(|cpu| Heater::start(cpu, libc::SCHED_IDLE)))
    }

    /// Switches them on or off.
    pub fn set(&self, active: bool) {
        self.0.iter().for_each(|heater| heater.set(active));
    }
}

/// A neighbour: an ordinary thread that computes on a CPU while it is switched on.
#[derive(Debug)]
pub struct Busy(Heater);

impl Busy {
    /// Starts it on `cpu`, switched off.
    #[must_use]
    pub fn new(cpu: usize) -> Self {
        Self(Heater::start(cpu, libc::SCHED_OTHER))
    }

    /// Switches it on or off.
    pub fn set(&self, active: bool) {
        self.0.set(active);
    }
}

/// A thread that spins while it is switched on, and sleeps without a timer while it is not: one
/// that looked now and then would interrupt what is measured on its CPU.
#[derive(Debug)]
struct Heater {
    active: Arc<AtomicBool>,
    thread: Thread,
}

impl Heater {
    fn start(cpu: usize, policy: libc::c_int) -> Self {
        let active = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&active);
        let handle = std::thread::spawn(move || {
            if pin(cpu).is_err() || !schedule(policy, 0) {
                return;
            }
            loop {
                // Relaxed: a switch; nothing is handed over.
                while switch.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                std::thread::park();
            }
        });
        Self { active, thread: handle.thread().clone() }
    }

    fn set(&self, active: bool) {
        // Relaxed: see above. `unpark` comes after it, so a thread that is about to sleep looks
        // once more.
        self.active.store(active, Ordering::Relaxed);
        if active {
            self.thread.unpark();
        }
    }
}
