//! The roofline of one core: the figures that profiles are held against.
//!
//! The best of many short samples counts: what disturbs a sample makes it slower, never faster.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nnburst_kernels::kernels::roofline::{self, Probes};
use nnburst_kernels::simd::{Isa, Variant};
use nnburst_kernels::tensor::AlignedBytes;

use crate::lowering::Label;

/// Samples of each figure.
const SAMPLES: usize = 40;

/// The time that one sample should take: short enough to fall between two interrupts now and then.
const SAMPLE: Duration = Duration::from_micros(200);

/// The peak of one core with one instruction set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// The instruction set.
    pub isa: Isa,
    /// 10^9 float operations a second, a multiply-add being two.
    pub f32_gflops: f64,
    /// 10^9 operations on 8-bit numbers a second, a multiply-add being two.
    pub i8_gops: f64,
}

/// The bandwidth with which one core reads from a level of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// `L1`, `L2`, `L3` or `DRAM`.
    pub level: &'static str,
    /// The size of the level; `usize::MAX` for the last.
    pub bytes: usize,
    /// 10^9 bytes a second.
    pub gbytes: f64,
}

/// The roofline of one core of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceilings {
    /// Best instruction set first; those above the one allowed are left out.
    pub peaks: Vec<Peak>,
    /// Nearest level first.
    pub bandwidths: Vec<Bandwidth>,
}

impl Ceilings {
    /// Measures this core, which takes some tenths of a second; with instruction sets up to `most`.
    pub fn measure(most: Isa) -> Self {
        let probes: Vec<_> = roofline::probes(most).collect();
        let peak = |form: &Variant<Probes>| Peak {
            isa: form.isa,
            f32_gflops: rate(form.run.f32),
            i8_gops: rate(form.run.i8),
        };
        let peaks = probes.iter().map(peak).collect();
        let levels = cache_bytes();
        let read_rate = |bytes| probes.first().map_or(0.0, |form| read_rate(form.run.read, bytes));
        // Half of a cache fits it whatever else lies there; memory has to be far larger than the
        // last.
        let far = levels.last().map_or(0, |&(_, bytes)| bytes.saturating_mul(4)).min(256 << 20);
        let bandwidth = |&(level, bytes): &(&'static str, usize)| Bandwidth {
            level,
            bytes,
            gbytes: read_rate(bytes / 2),
        };
        let mut bandwidths: Vec<_> = levels.iter().map(bandwidth).collect();
        let gbytes = read_rate(far);
        bandwidths.push(Bandwidth { level: "DRAM", bytes: usize::MAX, gbytes });
        Self { peaks, bandwidths }
    }

    /// The least time in which a step could be done: that of its arithmetic on the best instruction
    /// set or that of reading `bytes`, whichever is longer. Bytes are taken to come from the
    /// nearest level that holds them. In nanoseconds: small steps take a part of one.
    pub fn least_ns(&self, label: &Label, bytes: usize) -> f64 {
        let of = |peak: &Peak| if label.is_integer() { peak.i8_gops } else { peak.f32_gflops };
        let nanoseconds = |count: f64, rate: f64| if rate > 0.0 { count / rate } else { 0.0 };
        #[expect(clippy::cast_precision_loss, reason = "figures of a few digits")]
        let (operations, read) = (label.operations as f64, bytes as f64);
        let arithmetic = nanoseconds(operations, self.peaks.first().map_or(0.0, of));
        let level = self.bandwidths.iter().find(|level| bytes <= level.bytes);
        let memory = nanoseconds(read, level.map_or(0.0, |level| level.gbytes));
        arithmetic.max(memory)
    }
}

/// 10^9 operations a second, of the best sample.
fn rate(run: unsafe fn(usize) -> u64) -> f64 {
    let sample = |rounds: usize| {
        let start = Instant::now();
        // SAFETY: `probes` yields what this machine has.
        let operations = unsafe { run(rounds) };
        #[expect(clippy::cast_precision_loss, reason = "figures of a few digits")]
        let operations = operations as f64;
        operations / start.elapsed().as_secs_f64() / 1e9
    };
    let mut rounds = 1024;
    while rounds < 1 << 24 && time(|| _ = sample(rounds)) < SAMPLE {
        rounds *= 2;
    }
    (0..SAMPLES).map(|_| sample(rounds)).fold(0.0, f64::max)
}

/// 10^9 bytes a second, of the best sample.
fn read_rate(read: unsafe fn(&[u8]), bytes: usize) -> f64 {
    // Not zeros of the system's, which are one page over and over.
    let Some(mut memory) = AlignedBytes::try_zeroed(bytes.next_multiple_of(512)) else {
        return 0.0;
    };
    memory.as_mut_slice().fill(1);
    let sample = |times: usize| {
        for _ in 0..times {
            // SAFETY: `probes` yields what this machine has.
            unsafe { read(black_box(memory.as_slice())) };
        }
    };
    let mut times = 1;
    while times < 1 << 24 && time(|| sample(times)) < SAMPLE {
        times *= 2;
    }
    #[expect(clippy::cast_precision_loss, reason = "figures of a few digits")]
    let gbytes = (times * memory.len()) as f64 / 1e9;
    // The last level takes milliseconds a sample.
    let samples = if memory.len() > 64 << 20 { 4 } else { SAMPLES };
    (0..samples).map(|_| gbytes / time(|| sample(times)).as_secs_f64()).fold(0.0, f64::max)
}

fn time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// The data caches of the first core, as the system tells them.
fn cache_bytes() -> Vec<(&'static str, usize)> {
    let read = |index: usize, file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
        std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    };
    let cache = |index: usize| {
        let (level, kind) = (read(index, "level")?, read(index, "type")?);
        let size = read(index, "size")?;
        let kib: usize = size.strip_suffix('K')?.parse().ok()?;
        let name = ["L1", "L2", "L3"].into_iter().find(|name| name[1..] == level)?;
        (kind != "Instruction").then_some((name, kib << 10))
    };
    let found: Vec<_> = (0..8).filter_map(cache).collect();
    if found.is_empty() { vec![("L1", 32 << 10), ("L2", 1 << 20), ("L3", 32 << 20)] } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_arithmetic_and_reading_is_the_least() {
        let peak = Peak { isa: Isa::Scalar, f32_gflops: 2.0, i8_gops: 8.0 };
        let near = Bandwidth { level: "L1", bytes: 1000, gbytes: 10.0 };
        let far = Bandwidth { level: "DRAM", bytes: usize::MAX, gbytes: 1.0 };
        let ceilings = Ceilings { peaks: vec![peak], bandwidths: vec![near, far] };
        for (what, kernel, operations, bytes, nanoseconds) in [
            ("float arithmetic", "gemm_f32", 4000, 1000, 2000.0),
            ("integer arithmetic", "gemm_i8", 4000, 1000, 500.0),
            ("reading from near", "copy", 0, 1000, 100.0),
            ("reading from afar", "copy", 0, 2000, 2000.0),
            ("less than a nanosecond", "copy", 0, 5, 0.5),
        ] {
            let label = Label {
                kernel,
                form: Isa::Scalar,
                shape: crate::lowering::Words::default(),
                operations,
            };
            assert_eq!(ceilings.least_ns(&label, bytes), nanoseconds, "{what}");
        }
    }
}
