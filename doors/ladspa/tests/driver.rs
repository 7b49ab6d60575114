//! A driver in a process of its own that is killed in mid stream, and a host that forks.
//!
//! The driver's program is this one (`serve --driver NAME --fd 0`), named by `NNBURST_DRIVER`: so
//! the test is a program of its own, which runs itself with that variable.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that can't go on panics")]

#[path = "common/library.rs"]
mod library;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use library::{Instance, Library, recording};
use nnburst_conformance::shared_dir;

/// Longer than any pause before a driver is started again.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a host that plays brings at once: 10 ms.
const BLOCK: usize = 160;

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let Some(shared) = shared_dir("models") else { return };
    let noisy = recording(&shared.join("dtln_pipeline/speech_noisy.wav"));
    match mode.as_str() {
        "serve" => nnburst::serve_inherited("nnburst-cpu", 0, &Default::default()).unwrap(),
        "host" => {
            let library = Library::with_networks(&shared);
            let instantiate = || library.plugin(0).unwrap().instantiate(16_000).unwrap();
            killed_in_mid_stream(&mut instantiate(), &noisy);
            forked(&mut instantiate(), &noisy);
            println!("ok");
        }
        _ => {
            let this = std::env::current_exe().unwrap();
            let mut host = Command::new(&this);
            host.arg("host").env("NNBURST_DRIVER", &this);
            host.env("NNBURST_LADSPA", "device=spawn/nnburst-cpu");
            let host = host.output().unwrap();
            let said = String::from_utf8_lossy(&host.stderr);
            assert!(host.status.success(), "{said}");
            assert!(
                said.contains("driver nnburst-cpu died (signal 9, SIGKILL); restarted"),
                "{said}"
            );
            assert!(said.contains("forked"), "{said}");
            println!("{said}");
        }
    }
}

/// The driver's process: the one child of this one.
fn driver() -> Option<i32> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: String = children.collect();
    children.split_whitespace().find_map(|child| child.parse().ok())
}

/// Samples of the recording, over and over.
fn sound(noisy: &[f32], at: usize) -> Vec<f32> {
    (at..at + BLOCK).map(|at| noisy[at % noisy.len()]).collect()
}

fn killed_in_mid_stream(instance: &mut Instance<'_>, noisy: &[f32]) {
    // Not paced: the host waits until the networks are there.
    let (mut heard, mut out) = (Vec::new(), Vec::new());
    for call in 0..100 {
        heard.extend(sound(noisy, call * BLOCK));
        out.extend(instance.run(&heard[call * BLOCK..]));
    }
    assert_eq!(instance.misses(), 0);
    // From now on as if live.
    let begin = Instant::now();
    let mut killed = None;
    let (mut call, mut dry, mut clean_again) = (100, 0, None);
    while clean_again.is_none_or(|again| call < again + 50) {
        assert!(begin.elapsed() < PATIENCE, "it is never clean again");
        if call == 130 {
            let driver = driver().unwrap();
            // SAFETY: the process is a child of this one that has not been waited for.
            assert_eq!(unsafe { libc::kill(driver, libc::SIGKILL) }, 0);
            killed = Some(driver);
        }
        let due = begin + Duration::from_millis(10) * u32::try_from(call - 100).unwrap();
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        heard.extend(sound(noisy, call * BLOCK));
        out.extend(instance.run(&heard[call * BLOCK..]));
        // What comes out is what was heard 768 samples before, where it is dry.
        let end = out.len();
        let is_dry = out[end - BLOCK..] == heard[end - BLOCK - 768..end - 768];
        if killed.is_some() {
            dry += usize::from(is_dry);
            if dry > 0 && !is_dry && clean_again.is_none() && driver() != killed {
                clean_again = Some(call);
            }
        }
        call += 1;
    }
    assert!(dry > 0, "the sound goes on without the driver");
    assert!(instance.misses() > 0);
    assert!(driver().is_some() && driver() != killed);
    assert!(out.iter().all(|sample| sample.abs() < 1.5), "no crack in it");
}

fn forked(instance: &mut Instance<'_>, noisy: &[f32]) {
    for call in 0..20 {
        instance.run(&sound(noisy, call * BLOCK));
    }
    // SAFETY: the child runs the plugin, which is made for this, and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a hang guard; its action is the default.
        unsafe { libc::alarm(60) };
        let went_well = catch_unwind(AssertUnwindSafe(|| {
            instance.activate();
            let (mut heard, mut out) = (Vec::new(), Vec::new());
            for call in 0..20 {
                heard.extend(sound(noisy, call * BLOCK));
                out.extend(instance.run(&heard[call * BLOCK..]));
            }
            assert_eq!(out[768 + 384..], heard[384..heard.len() - 768]);
        }));
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(went_well.is_err())) };
    }
    let mut status = -1;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended with status {status:x}");
    // The parent is unharmed.
    let misses = instance.misses();
    for call in 0..100 {
        instance.run(&sound(noisy, call * BLOCK));
    }
    assert_eq!(instance.misses(), misses);
}
