//! Latency: the target's modes and the reference in turns of a quarter of a second or less, so that
//! what slows the machine down slows all of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use super::disturbance::Disturbance;
use super::pass::Pass;
use crate::num::{median, micros, nanos, real, real_u64};
use crate::protocol::{CallMode, throughput_ms};
use crate::report::{BothProcesses, Latency, Percentiles};
use crate::run::cpu_seconds;
use crate::worker::client::Prepared;
use crate::worker::client::Result as Called;
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::{Feed, Sequence};

/// The longest turn, and the fewest of each caller: of fewer no comparison of two runs can tell
/// whether their medians separate.
const BLOCK_MS: u64 = 250;
const BLOCKS: u64 = 8;
/// The longest warm-up of each caller.
const WARM_UP: Duration = Duration::from_secs(2);
/// Warm-up blocks, whose medians have to agree within [`AGREED`].
const WARM_UP_BLOCK: Duration = Duration::from_millis(60);
const AGREED: f64 = 0.05;
/// The fewest calls of a caller.
const FEWEST: u64 = 30;
/// How much slower the last quarter may be than the first.
const STEADY: f64 = 1.15;

/// Latencies by mode, and the reference's.
pub(super) struct Measured {
    pub(super) modes: BTreeMap<String, Latency>,
    pub(super) reference: Option<Latency>,
    /// Calls a second, by the number of clients at a time.
    pub(super) throughput: BTreeMap<usize, f64>,
    /// The refused settings of the burst.
    pub(super) refused_settings: Vec<String>,
}

pub(super) fn measure(pass: &Pass<'_>) -> Outcome<Measured> {
    let feed = match pass.work.model.cases.first() {
        Some(case) => Feed::of_case(case).map_err(Stopped::failed)?,
        None => Feed::random(pass.loaded, 1),
    };
    let mut callers = Vec::new();
    let mut refused_settings = Vec::new();
    let settings = &pass.work.calls;
    for &mode in &pass.work.modes {
        let sequence = Sequence::new(pass.loaded, pass.prepared.session_as(mode, settings)?);
        refused_settings.extend_from_slice(sequence.warnings());
        callers.push(Caller::new(mode.name(), sequence));
    }
    if let (Some(us), Some(&mode)) = (settings.period_us, pass.work.modes.first()) {
        let sequence = Sequence::new(pass.loaded, pass.prepared.session_as(mode, settings)?);
        let period = Some(Duration::from_micros(us));
        callers.push(Caller { period, ..Caller::new("paced", sequence) });
    }
    if let Some(reference) = &pass.reference {
        let session = reference.prepared.session(CallMode::Sync)?;
        callers.push(Caller::new(REFERENCE, Sequence::new(&reference.loaded, session)));
    }
    for caller in &mut callers {
        caller.warm_up(&feed, pass)?;
    }
    let mut disturbance = Disturbance::default();
    let begun = Instant::now();
    let block_ms = (pass.work.latency_ms / BLOCKS).clamp(1, BLOCK_MS);
    let block = Duration::from_millis(block_ms);
    let wanted = pass.work.latency_ms / block_ms;
    // Disturbed or too few: half as many rounds again, and no more.
    for round in 0..wanted.saturating_add(wanted / 2) {
        let is_enough = |caller: &Caller<'_>| {
            (caller.kept.calls.len() >= FEWEST || caller.period.is_some())
                && u64::try_from(caller.kept.over_time.len()).unwrap_or(0) >= wanted
        };
        if round >= wanted && callers.iter().all(is_enough) {
            break;
        }
        for caller in &mut callers {
            caller.block(&feed, begun, block, pass, &mut disturbance)?;
        }
    }
    let note = if pass.is_whole { "" } else { "partly" };
    let mut modes = BTreeMap::new();
    let mut reference = None;
    for caller in callers {
        let name = caller.name;
        let mut latency = caller.finish(wanted);
        if name == REFERENCE {
            reference = Some(latency);
        } else {
            note.clone_into(&mut latency.note);
            modes.insert(name.to_owned(), latency);
        }
    }
    let throughput = throughput(&feed, pass)?;
    Ok(Measured { modes, reference, throughput, refused_settings })
}

/// Calls a second of clients that call at the same time, each in a thread with a session of its
/// own, in the first mode.
fn throughput(feed: &Feed, pass: &Pass<'_>) -> Outcome<BTreeMap<usize, f64>> {
    let mut all = BTreeMap::new();
    let (Prepared::Runtime(compilation), Some(&mode)) = (&pass.prepared, pass.work.modes.first())
    else {
        return Ok(all);
    };
    let time = Duration::from_millis(throughput_ms(pass.work.latency_ms));
    let (loaded, pulse) = (pass.loaded, pass.pulse);
    for &clients in &pass.work.calls.clients {
        let client = || -> Outcome<f64> {
            let prepared = Prepared::Runtime(compilation.clone());
            let mut sequence = Sequence::new(loaded, prepared.session(mode)?);
            sequence.reset()?;
            sequence.write(feed, 0)?;
            sequence.call(pulse)?;
            let begun = Instant::now();
            let mut calls = 0_usize;
            while begun.elapsed() < time {
                sequence.call(pulse)?;
                calls += 1;
            }
            Ok(real(calls) / begun.elapsed().as_secs_f64())
        };
        let rates = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Outcome<f64>>| {
                thread.join().unwrap_or_else(|_| Err(Stopped::failed("a client panicked")))
            };
            threads.into_iter().map(join).collect::<Outcome<Vec<f64>>>()
        })?;
        all.insert(clients, rates.iter().sum());
    }
    Ok(all)
}

/// The name of the reference among the callers.
const REFERENCE: &str = "reference";

/// A caller, and the times of its calls.
struct Caller<'m> {
    name: &'static str,
    /// The time from one call to the next; none for back to back.
    period: Option<Duration>,
    sequence: Sequence<'m>,
    step: usize,
    first_us: f64,
    warm_up: usize,
    kept: Samples,
    /// Of the blocks that something else disturbed.
    disturbed: Samples,
}

/// The times of the calls of some blocks.
struct Samples {
    calls: Histogram<u64>,
    end_to_end: Histogram<u64>,
    driver: Histogram<u64>,
    overhead: Histogram<u64>,
    over_time: Vec<[f64; 2]>,
    /// Processor seconds of driver and client.
    cpu_s: [f64; 2],
}

impl Samples {
    fn new() -> Self {
        let [calls, end_to_end, driver, overhead] = [(); 4].map(|()| histogram());
        Self { calls, end_to_end, driver, overhead, over_time: Vec::new(), cpu_s: [0.0; 2] }
    }

    /// Adds a block that began at `at` seconds.
    fn add(&mut self, at: f64, times: &[Times], cpu_s: [f64; 2]) {
        let calls: Vec<f64> = times.iter().map(|times| real_u64(times.call) / 1000.0).collect();
        self.over_time.push([at, median(&calls)]);
        for times in times {
            self.calls.saturating_record(times.call);
            self.end_to_end.saturating_record(times.end_to_end);
            if let Some(driver) = times.driver {
                self.driver.saturating_record(driver);
                self.overhead.saturating_record(times.call.saturating_sub(driver));
            }
        }
        for (sum, more) in self.cpu_s.iter_mut().zip(cpu_s) {
            *sum += more;
        }
    }

    /// Adds all blocks of others, in the order of time.
    fn merge(&mut self, others: Self) {
        let pairs = [
            (&mut self.calls, &others.calls),
            (&mut self.end_to_end, &others.end_to_end),
            (&mut self.driver, &others.driver),
            (&mut self.overhead, &others.overhead),
        ];
        for (own, other) in pairs {
            // All have the same bounds.
            let _ = own.add(other);
        }
        self.over_time.extend(others.over_time);
        self.over_time.sort_by(|[one, _], [other, _]| one.total_cmp(other));
        for (sum, more) in self.cpu_s.iter_mut().zip(others.cpu_s) {
            *sum += more;
        }
    }
}

/// The times of a call in nanoseconds.
struct Times {
    call: u64,
    end_to_end: u64,
    driver: Option<u64>,
}

impl<'m> Caller<'m> {
    fn new(name: &'static str, sequence: Sequence<'m>) -> Self {
        let (kept, disturbed) = (Samples::new(), Samples::new());
        let (period, step, first_us, warm_up) = (None, 0, 0.0, 0);
        Self { name, period, sequence, step, first_us, warm_up, kept, disturbed }
    }

    fn call(&mut self, feed: &Feed, pass: &Pass<'_>) -> Called<Times> {
        if self.step == 0 {
            self.sequence.reset()?;
        }
        let start = Instant::now();
        self.sequence.write(feed, self.step)?;
        let sample = self.sequence.call(pass.pulse)?;
        std::hint::black_box(self.sequence.read()?);
        let end_to_end = nanos(start.elapsed());
        self.step = (self.step + 1) % feed.steps.max(1);
        let driver = sample.driver.map(nanos);
        Ok(Times { call: nanos(sample.latency), end_to_end, driver })
    }

    /// Calls until two blocks in a row have medians that agree.
    fn warm_up(&mut self, feed: &Feed, pass: &Pass<'_>) -> Called<()> {
        let first = self.call(feed, pass)?;
        self.first_us = micros(Duration::from_nanos(first.call));
        let begun = Instant::now();
        let mut last: Option<f64> = None;
        while begun.elapsed() < WARM_UP {
            let block = Instant::now();
            let mut times = Vec::new();
            while times.is_empty() || block.elapsed() < WARM_UP_BLOCK {
                times.push(real_u64(self.call(feed, pass)?.call));
            }
            self.warm_up += times.len();
            let now = median(&times);
            if last.is_some_and(|last| (now / last - 1.0).abs() <= AGREED) {
                break;
            }
            last = Some(now);
        }
        Ok(())
    }

    fn block(
        &mut self,
        feed: &Feed,
        begun: Instant,
        length: Duration,
        pass: &Pass<'_>,
        disturbance: &mut Disturbance,
    ) -> Called<()> {
        let at = begun.elapsed().as_secs_f64();
        let before = Disturbance::before();
        let cpu_before = cpu_of(pass);
        let start = Instant::now();
        let mut all = Vec::new();
        let mut due = start;
        while all.is_empty() || start.elapsed() < length {
            all.push(self.call(feed, pass)?);
            if let Some(period) = self.period {
                due += period;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        }
        let [driver, client] = cpu_of(pass);
        let cpu_s = [(driver - cpu_before[0]).max(0.0), (client - cpu_before[1]).max(0.0)];
        let is_disturbed = disturbance.is_disturbed(before);
        let samples = if is_disturbed { &mut self.disturbed } else { &mut self.kept };
        samples.add(at, &all, cpu_s);
        Ok(())
    }

    /// The result. Where most blocks were disturbed, all of them count, and the result says so.
    fn finish(mut self, wanted: u64) -> Latency {
        let kept = u64::try_from(self.kept.over_time.len()).unwrap_or(0);
        let disturbed = kept < wanted.div_ceil(2) && !self.disturbed.over_time.is_empty();
        let dropped = if disturbed { 0 } else { self.disturbed.over_time.len() };
        if disturbed {
            self.kept.merge(self.disturbed);
        }
        let samples = self.kept;
        let optional =
            |histogram: &Histogram<u64>| (!histogram.is_empty()).then(|| percentiles(histogram));
        let thousands = real_u64(samples.calls.len()).max(1.0) / 1000.0;
        let [driver, client] = samples.cpu_s.map(|seconds| seconds / thousands);
        Latency {
            n: usize::try_from(samples.calls.len()).unwrap_or(usize::MAX),
            blocks: samples.over_time.len(),
            dropped,
            disturbed,
            first_us: self.first_us,
            warm_up: self.warm_up,
            us: percentiles(&samples.calls),
            end_to_end_us: percentiles(&samples.end_to_end),
            driver_us: optional(&samples.driver),
            overhead_us: optional(&samples.overhead),
            cpu_s_per_1000: BothProcesses { driver, client },
            hdr: encode(&samples.calls),
            steady: is_steady(&samples.over_time),
            over_time: samples.over_time,
            note: String::new(),
        }
    }
}

/// Processor seconds so far of the driver's process, where it has one of its own, and of this one.
fn cpu_of(pass: &Pass<'_>) -> [f64; 2] {
    [pass.driver_pid.map_or(0.0, cpu_seconds), cpu_seconds(std::process::id())]
}

/// Nanoseconds to a minute, three digits.
fn histogram() -> Histogram<u64> {
    // The bounds are right, so that the fallback is never taken.
    Histogram::new_with_bounds(1, 60_000_000_000, 3)
        .or_else(|_| Histogram::new(3))
        .unwrap_or_else(|_| unreachable!("three digits are in the allowed range of 0 to 5"))
}

/// Percentiles for which there are samples: 64 for p90, 256 for p95, 1024 for p99, 10240 for p99.9.
fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    let us = |nanos: u64| real_u64(nanos) / 1000.0;
    let at = |share: f64, least: u64| {
        (histogram.len() >= least).then(|| us(histogram.value_at_quantile(share)))
    };
    if histogram.is_empty() {
        return Percentiles::default();
    }
    Percentiles {
        min: us(histogram.min()),
        p50: us(histogram.value_at_quantile(0.5)),
        p90: at(0.9, 64),
        p95: at(0.95, 256),
        p99: at(0.99, 1024),
        p999: at(0.999, 10_240),
        max: us(histogram.max()),
        mean: histogram.mean() / 1000.0,
        sd: histogram.stdev() / 1000.0,
    }
}

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => BASE64_STANDARD.encode(bytes),
        Err(_) => String::new(),
    }
}

/// Returns whether the last quarter's median is at most 15 % above the first's.
fn is_steady(over_time: &[[f64; 2]]) -> bool {
    let quarter = (over_time.len() / 4).max(1);
    let of = |blocks: &[[f64; 2]]| median(&blocks.iter().map(|[_, p50]| *p50).collect::<Vec<_>>());
    let first = of(over_time.get(..quarter).unwrap_or_default());
    let last = of(over_time.get(over_time.len().saturating_sub(quarter)..).unwrap_or_default());
    real(over_time.len()) < 2.0 || last <= first * STEADY
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::pulse::Pulse;

    #[test]
    fn percentiles_need_samples() {
        let mut all = histogram();
        for time in 1..=1000_u64 {
            all.saturating_record(time * 1000);
        }
        let found = percentiles(&all);
        assert!((found.p50 - 500.0).abs() < 1.0, "{found:?}");
        assert!(found.p90.is_some_and(|p90| (p90 - 900.0).abs() < 1.0), "{found:?}");
        assert_eq!((found.p99, found.p999), (None, None), "1000 samples are too few");
    }

    #[test]
    fn disturbed_blocks_count_where_there_are_few_others() {
        let times = |us: u64| Times { call: us * 1000, end_to_end: us * 1000, driver: None };
        let entry = crate::data::ModelEntry { id: "add1".to_owned(), ..Default::default() };
        let loaded = crate::data::Loaded::open(&entry, false, false).unwrap();
        let reference = crate::worker::client::Client::Runtime(nnburst::Device::reference());
        let prepared = reference.prepare(&loaded.model, &Pulse::default()).unwrap();
        for (kept, disturbed, want) in [(2, 2, (2, 2, false)), (1, 3, (4, 0, true))] {
            let session = prepared.session(CallMode::Sync).unwrap();
            let mut caller = Caller::new("sync", Sequence::new(&loaded, session));
            for block in 0..kept {
                caller.kept.add(f64::from(block), &[times(10)], [0.5, 0.25]);
            }
            for block in 0..disturbed {
                caller.disturbed.add(f64::from(block) - 0.5, &[times(90)], [0.5, 0.25]);
            }
            let found = caller.finish(4);
            assert_eq!((found.blocks, found.dropped, found.disturbed), want);
            assert_eq!(found.n, found.blocks);
            assert!(found.over_time.is_sorted_by(|[a, _], [b, _]| a <= b), "{found:?}");
            let cpu = found.cpu_s_per_1000;
            assert!((cpu.driver - 500.0).abs() < 1e-9 && (cpu.client - 250.0).abs() < 1e-9);
        }
    }

    #[test]
    fn histograms_can_be_read_back() {
        let mut all = histogram();
        all.saturating_record(1234);
        let bytes = BASE64_STANDARD.decode(encode(&all)).unwrap();
        let mut reader = hdrhistogram::serialization::Deserializer::new();
        let back: Histogram<u64> = reader.deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(back.len(), 1);
        assert!(encode(&all).starts_with("HIST"));
    }

    #[test]
    fn slowing_down_is_not_steady() {
        let blocks = |times: &[f64]| times.iter().map(|&time| [0.0, time]).collect::<Vec<_>>();
        assert!(is_steady(&blocks(&[10.0, 10.0, 11.0, 11.0])));
        assert!(!is_steady(&blocks(&[10.0, 10.0, 11.0, 12.0])));
        assert!(is_steady(&blocks(&[12.0, 11.0, 10.0, 10.0])), "warming up is no fault");
    }
}
