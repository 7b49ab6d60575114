//! The time that `run` takes in a host that plays: `cargo run --release -p nnburst-ladspa --example
//! run_time -- MODELS [SECONDS]`.
//!
//! The shared library is loaded as a host would, and called in the pace of a sound card with blocks
//! of several sizes. MODELS is the folder that `NNBURST_DTLN_DIR` would name. `NNBURST_LADSPA` has
//! the plugin's options.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a command that measures")]
#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../tests/common/library.rs"]
mod library;

use std::time::{Duration, Instant};

use library::Library;

/// Rates, and the samples of a call.
const CASES: [(u32, u32); 6] =
    [(16_000, 128), (48_000, 64), (48_000, 256), (48_000, 480), (48_000, 1024), (48_000, 2048)];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(models) = arguments.next() else {
        println!("usage: run_time MODELS [SECONDS]");
        return;
    };
    let seconds: u32 = arguments.next().map_or(10, |text| text.parse().unwrap());
    let library = Library::with_networks_of(models.as_ref());
    println!("  rate  block        p50        p99      p99.9    longest  p50 of its time  misses");
    for (rate, block) in CASES {
        let mut instance = library.plugin(0).unwrap().instantiate(rate.into()).unwrap();
        let mut sound = vec![0.0; usize::try_from(block).unwrap()];
        // A host that renders waits until the networks are there.
        for _ in 0..rate / block {
            instance.run_in_place(&mut sound);
        }
        let period = Duration::from_secs(1) * block / rate;
        let begin = Instant::now();
        let mut times: Vec<Duration> = (0..seconds * rate / block)
            .map(|call| {
                let due = begin + period * call;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                tone(&mut sound, call);
                let begin = Instant::now();
                instance.run_in_place(&mut sound);
                begin.elapsed()
            })
            .collect();
        times.sort_unstable();
        let us = |time: &Duration| time.as_nanos() as f64 / 1e3;
        let at = |share: f64| us(&times[(times.len() as f64 * share) as usize]);
        let share = at(0.5) * 1e-4 / period.as_secs_f64();
        println!(
            "{rate:6} {block:6} {:7.1} us {:7.1} us {:7.1} us {:7.1} us {share:14.2} % {:7}",
            at(0.5),
            at(0.99),
            at(0.999),
            us(times.last().unwrap()),
            instance.misses(),
        );
    }
}

/// Something to hear: silence would be easier on some machines.
fn tone(sound: &mut [f32], call: u32) {
    for (at, sample) in (0u16..).zip(sound.iter_mut()) {
        let phase = f32::from(at) * 0.05 + (call % 1000) as f32;
        *sample = phase.sin() * 0.1;
    }
}
