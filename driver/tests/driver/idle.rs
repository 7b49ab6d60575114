//! What rests is given back, by a service in a process of its own, and is there again for the next
//! call.

use std::time::Duration;

use nnburst_driver::{CpuDriver, CpuDriverOptions};
use nnburst_hal::*;
use nnburst_hal_ipc::{Serving, service_dir};

use crate::processes::{Footprint, connect, start};
use crate::support::*;

const LARGE: u32 = 1 << 20;

/// A driver that waits for two seconds, where others wait for ten.
pub(crate) fn serve() -> Serving {
    let mut options = CpuDriverOptions::default();
    options.idle = Duration::from_secs(2);
    options.threads = 3;
    CpuDriver::new(options).service().listen(&service_dir().unwrap()).unwrap()
}

/// What it needs beside its arguments is scratch memory.
fn with_scratch() -> Model {
    crate::priorities::chain(6, LARGE)
}

#[test]
fn scratch_memory_and_helping_threads_go_after_a_while_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let driver = start("idle driver", dir.path());
    let pid = driver.0.id();
    let device = connect(dir.path());
    let threads = || Footprint::of(pid).threads;
    // Main, test, acceptor, our session.
    eventually("the driver is at rest", || threads() <= 4);
    let rests = threads();
    let model = prepare(&device, with_scratch()).unwrap();
    let use_it = || {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let (request, [_, last]) = crate::priorities::ones(LARGE);
                    let options = ExecutionOptions::default();
                    execute_async(model.as_ref(), &request, options).unwrap();
                    model.execute_synchronously(&request, options).unwrap();
                    assert_eq!(as_floats(&last), vec![1.0; LARGE as usize]);
                });
            }
        });
        (threads(), crate::hostile::resident(pid))
    };
    for round in 0..2 {
        // Two helpers at least: how many executions met is the machine's choice, and on a busy one
        // all may have rested long enough before they are counted.
        let mut resident = 0;
        eventually("helpers are at work", || {
            let (busy, found) = use_it();
            resident = found;
            busy >= rests + 2
        });
        // The watchdog's own thread stays with the model.
        eventually("the threads are gone", || threads() <= rests + 1);
        // The memory of a run goes with its helpers, or in a moment.
        let kept = || crate::hostile::resident(pid);
        eventually("the memory is gone", || kept() + (2 << 10) <= resident);
        println!("round {round}: {resident} KiB, then {} KiB", kept());
    }
}
