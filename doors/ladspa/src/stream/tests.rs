//! The stream with workers of the tests' making.

use std::thread::JoinHandle;
use std::time::Duration;

use super::*;
use crate::link::{Cleaned, WorkerLink, link};

const ALL: Controls = Controls { wet: 1.0, limit_db: NO_LIMIT_DB };

/// Noise that is the same each time.
fn noise(samples: usize) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..samples).map(|_| next()).collect()
}

fn run(stream: &mut SoundStream<1>, heard: &[f32], block: usize, controls: Controls) -> Vec<f32> {
    let mut out = Vec::new();
    for heard in heard.chunks(block) {
        stream.begin(heard.len(), controls);
        out.extend(heard.iter().map(|&sample| stream.step([sample])[0]));
        stream.end_call();
    }
    out
}

/// A worker that gives each block as the networks' delay would have it, but for those that `keep`
/// says no to, which it drops.
fn identity(
    mut link: WorkerLink<1>,
    keep: impl Fn(u64) -> bool + Send + 'static,
) -> JoinHandle<()> {
    link.shared.set_loaded();
    std::thread::spawn(move || {
        let mut last = [[[0.0; BLOCK]]; DELAY];
        while !link.shared.is_over() {
            let Ok(block) = link.heard.pop() else {
                std::thread::yield_now();
                continue;
            };
            let delayed = last[0];
            last.rotate_left(1);
            last[DELAY - 1] = block.samples;
            let (session, number) = (block.session, block.number);
            let samples = keep(number).then_some(delayed);
            link.cleaned.push(Cleaned { session, number, samples }).unwrap();
        }
    })
}

fn of(rate: Rate, keep: impl Fn(u64) -> bool + Send + 'static) -> (SoundStream<1>, JoinHandle<()>) {
    let (run, worker) = link();
    let stream = SoundStream::new(rate, run);
    (stream, identity(worker, keep))
}

#[test]
fn what_comes_out_is_what_went_in_a_constant_time_before() {
    for block in [1, 7, 128, 480, 1024, 8192] {
        let (mut stream, worker) = of(Rate::Hz16000, |_| true);
        let heard = noise(20_000);
        let out = run(&mut stream, &heard, block, ALL);
        assert_eq!(out[..768], [0.0; 768]);
        assert_eq!(out[768..], heard[..heard.len() - 768], "blocks of {block}");
        assert_eq!((stream.misses(), stream.latency()), (0, 768));
        stream.end();
        worker.join().unwrap();
    }
}

#[test]
fn missing_blocks_change_neither_the_delay_nor_the_sound() {
    let (mut stream, worker) = of(Rate::Hz16000, |number| number % 5 != 3 && number % 11 > 3);
    let heard = noise(20_000);
    let out = run(&mut stream, &heard, 480, ALL);
    for (at, (out, heard)) in out[768..].iter().zip(&heard).enumerate() {
        // Clean and dry are the same here; what differs is how the mix rounds.
        assert!((out - heard).abs() < 1e-6, "sample {at}: {out}, not {heard}");
    }
    let due = 0..(20_000 / 128 - 2);
    let missing = due.filter(|number| !(number % 5 != 3 && number % 11 > 3)).count();
    assert_eq!(stream.misses(), missing as u64);
    stream.end();
    worker.join().unwrap();
}

#[test]
fn between_48_and_16_khz_it_is_the_same_sound_without_what_16_khz_can_not_carry() {
    let tone = |at: usize| (at as f32 * 1000.0 / 48_000.0 * std::f32::consts::TAU).sin() * 0.5;
    let heard: Vec<f32> = (0..40_000).map(tone).collect();
    let first = {
        let (mut stream, worker) = of(Rate::Hz48000, |_| true);
        assert_eq!(stream.latency(), 2400);
        let out = run(&mut stream, &heard, 1024, ALL);
        stream.end();
        worker.join().unwrap();
        out
    };
    for (at, (out, heard)) in first[2400..].iter().zip(&heard).enumerate().skip(200) {
        assert!((out - heard).abs() < 3e-3, "sample {at}: {out}, not {heard}");
    }
    for block in [1, 7, 128, 480, 8192] {
        let (mut stream, worker) = of(Rate::Hz48000, |_| true);
        assert!(run(&mut stream, &heard, block, ALL) == first, "blocks of {block}");
        stream.end();
        worker.join().unwrap();
    }
}

#[test]
fn without_a_worker_the_sound_is_dry_and_nobody_waits() {
    for rate in [Rate::Hz16000, Rate::Hz48000] {
        let (link, worker) = link();
        worker.shared.set_loaded();
        let mut stream = SoundStream::new(rate, link);
        stream.lose_worker();
        let heard = noise(30_000);
        let begin = Instant::now();
        let out = run(&mut stream, &heard, 480, ALL);
        assert!(begin.elapsed() < Duration::from_secs(1));
        // A block after the first that is missing, nothing of the clean sound is left.
        let latency = stream.latency();
        let settled = latency + 3 * BLOCK;
        assert_eq!(out[settled..], heard[settled - latency..heard.len() - latency]);
    }
}

#[test]
fn a_worker_that_is_stuck_costs_a_host_one_long_wait() {
    let (link, worker) = link();
    worker.shared.set_loaded();
    let mut stream = SoundStream::new(Rate::Hz16000, link);
    let heard = noise(16_000);
    let begin = Instant::now();
    let out = run(&mut stream, &heard, 160, ALL);
    let took = begin.elapsed();
    // Five seconds for the first block, then half the time of the sound at most.
    assert!((5..8).contains(&took.as_secs()), "{took:?}");
    assert_eq!(out[1100..], heard[1100 - 768..heard.len() - 768]);
    assert_eq!(stream.misses(), 16_000 / 128 - 3);
    drop(worker);
}

#[test]
fn a_host_that_plays_is_not_kept_waiting() {
    let (link, _worker) = link();
    let mut stream = SoundStream::new(Rate::Hz48000, link);
    stream.target = ALL.weight();
    let heard = noise(480);
    let mut longest = Duration::ZERO;
    let begin = Instant::now();
    for call in 0..40u32 {
        let due = begin + Duration::from_millis(10) * call;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let call = Instant::now();
        // The host calls when it is due, and is given a millisecond, however busy this machine is:
        // one whose first calls are held up can't be told from one that renders.
        stream.pace.begin(heard.len(), due);
        for &sample in &heard {
            stream.step([sample]);
        }
        stream.pace.end(due + Duration::from_millis(1));
        longest = longest.max(call.elapsed());
    }
    // Half of the 10 ms that a call has, and what a busy machine takes; five seconds if it waited.
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    // Nothing was loaded, so nothing is missing yet.
    assert_eq!(stream.misses(), 0);
}

#[test]
fn a_new_session_has_heard_nothing() {
    let (mut stream, worker) = of(Rate::Hz16000, |_| true);
    run(&mut stream, &noise(10_000), 480, ALL);
    stream.reset();
    let out = run(&mut stream, &[0.0; 5000], 480, ALL);
    // The test's worker has a memory of its own; what `run` keeps is gone.
    assert_eq!(out[..384], [0.0; 384]);
    assert_eq!(stream.misses(), 0);
    stream.end();
    worker.join().unwrap();
}

#[test]
fn controls_weigh_the_clean_sound() {
    let weight = |wet, limit_db| Controls { wet, limit_db }.weight();
    assert_eq!(weight(1.0, 100.0), 1.0);
    assert_eq!(weight(0.0, 100.0), 0.0);
    assert_eq!(weight(1.0, 0.0), 0.0, "nothing may be taken of the noise");
    assert!((weight(1.0, 20.0) - 0.9).abs() < 1e-6);
    assert!((weight(0.5, 20.0) - 0.45).abs() < 1e-6);
    assert_eq!((weight(7.0, 1e9), weight(-1.0, 50.0)), (1.0, 0.0));
    assert_eq!((weight(f32::NAN, 100.0), weight(1.0, f32::NAN)), (1.0, 1.0));
    assert_eq!(weight(1.0, -6.0), 0.0);
}

#[test]
fn the_rates_of_the_networks_are_taken_and_no_others() {
    assert_eq!(Rate::from_hz(16_000), Some(Rate::Hz16000));
    assert_eq!(Rate::from_hz(48_000), Some(Rate::Hz48000));
    for hz in [0, 8_000, 44_100, 96_000, u64::MAX] {
        assert_eq!(Rate::from_hz(hz), None);
    }
    // 48 and 50 ms.
    assert_eq!((Rate::Hz16000.latency(), Rate::Hz48000.latency()), (768, 2400));
}
