//! The shared library in a host that loads it, runs it and unloads it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

#[path = "common/library.rs"]
mod library;

use std::time::{Duration, Instant};

use library::{Library, recording};
use nnburst_conformance::shared_dir;
use nnburst_hal::testing::{calls_between_marks, mark, traced_test};

/// Set where the test below is to be traced.
const TRACED: &str = "NNBURST_TEST_TRACED";

#[test]
fn the_library_has_both_plugins_and_their_ports() {
    let library = Library::load();
    let ports = |index| {
        let plugin = library.plugin(index).unwrap();
        (plugin.label(), plugin.port_names())
    };
    assert_eq!(
        ports(0),
        (
            "denoise_mono".into(),
            ["Input", "Output", "Wet (0-1)", "Attenuation limit (dB)", "latency", "misses"]
                .map(String::from)
                .to_vec()
        )
    );
    let (label, stereo) = ports(1);
    assert_eq!((label.as_str(), stereo.len()), ("denoise_stereo", 8));
    assert_eq!(stereo[..4], ["Input L", "Input R", "Output L", "Output R"]);
    assert!(library.plugin(2).is_none());
}

#[test]
fn a_host_gets_the_recording_cleaned_with_networks_from_beside_the_library() {
    let Some(shared) = shared_dir("models") else { return };
    let library = Library::with_networks(&shared);
    let plugin = library.plugin(0).unwrap();
    assert!(plugin.instantiate(44_100).is_none(), "a rate that the networks can't have");
    let noisy = recording(&shared.join("dtln_pipeline/speech_noisy.wav"));
    let golden = recording(&shared.join("dtln_pipeline/denoised_float.wav"));
    let mut instance = plugin.instantiate(16_000).unwrap();
    let mut clean = Vec::new();
    for heard in noisy.chunks(1024) {
        clean.extend(instance.run(heard));
    }
    let latency = instance.latency();
    assert_eq!((latency, instance.misses()), (768, 0));
    // The networks' own delay is in the golden sound as well.
    let apart =
        clean[latency - 384..].iter().zip(&golden).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart <= 1e-4, "{apart} apart");
}

#[test]
fn a_library_that_is_unloaded_does_no_harm() {
    let Some(shared) = shared_dir("models") else { return };
    let library = Library::with_networks(&shared);
    let mut instance = library.plugin(0).unwrap().instantiate(16_000).unwrap();
    for _ in 0..4 {
        instance.run(&[0.1; 480]);
    }
    drop(instance);
    let path = library.path().to_owned();
    library.close();
    // It stays where it is: the threads' code and the handler of SIGBUS are in it.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps.contains(path.to_str().unwrap()), "nodelete");
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn threads_of_the_plugin_take_no_signals() {
    let Some(shared) = shared_dir("models") else { return };
    let library = Library::with_networks(&shared);
    let mut instance = library.plugin(0).unwrap().instantiate(16_000).unwrap();
    instance.run(&[0.1; 4800]);
    let mut found = 0;
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let name = field("Name:");
        if !name.starts_with("nnburst") && !name.starts_with("fmq") {
            continue;
        }
        found += 1;
        let blocked = u64::from_str_radix(&field("SigBlk:"), 16).unwrap();
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD, libc::SIGALRM, libc::SIGUSR1] {
            assert_ne!(blocked & 1 << (signal - 1), 0, "{name}: signal {signal}");
        }
    }
    assert!(found >= 1, "the worker is there");
}

/// What is traced below: a thread that plays, 5 ms at a time, between two calls of `getppid`.
#[test]
fn traced_host() {
    if std::env::var_os(TRACED).is_none() {
        return;
    }
    let shared = shared_dir("models").unwrap();
    let library = Library::with_networks(&shared);
    let mut instance = library.plugin(0).unwrap().instantiate(48_000).unwrap();
    instance.run(&[0.0; 4800]);
    let (mut sound, period) = (vec![0.1; 240], Duration::from_millis(5));
    let begin = Instant::now();
    mark();
    for call in 0..200u32 {
        let due = begin + period * call;
        // Also where other programs have the processors and the call is late already.
        let rest = due.saturating_duration_since(Instant::now());
        std::thread::sleep(rest.max(Duration::from_millis(1)));
        instance.run_in_place(&mut sound);
    }
    mark();
}

#[test]
fn run_makes_no_system_call() {
    if shared_dir("models").is_none() {
        return;
    }
    let Some(log) = traced_test("traced_host", TRACED, "1") else { return };
    let runs = calls_between_marks(&log);
    let [calls] = &runs[..] else { panic!("{} traced parts", runs.len()) };
    let others: Vec<_> = calls.iter().filter(|call| !call.contains("nanosleep(")).collect();
    assert!(calls.len() >= 100, "the host sleeps between calls: {}", calls.len());
    assert!(others.is_empty(), "{others:#?}");
}
