//! Compile times: without a cache, into an empty one, from a filled one.

use std::time::{Duration, Instant};

use nnburst::hal::Model;

use crate::num::{median, millis};
use crate::protocol::ModelWork;
use crate::report::{CompileTimes, Times};
use crate::worker::client::{CallError, Client, Prepared};
use crate::worker::outcome::Outcome;
use crate::worker::pulse::Pulse;

/// The fewest compilations of a kind, and the most.
const FEWEST: usize = 3;
const MOST: usize = 100;

pub(super) fn measure(
    client: &Client,
    model: &Model,
    work: &ModelWork,
    pulse: &Pulse,
) -> Outcome<CompileTimes> {
    let limit = Duration::from_millis(work.compile_ms);
    let none = repeat(limit, || client.prepare(model, pulse))?;
    let mut times = CompileTimes { none, ..CompileTimes::default() };
    let caches = client.about().is_ok_and(|about| about.cache_files > 0);
    if !caches {
        return Ok(times);
    }
    let folder = || tempfile::Builder::new().prefix("nnburst-mlts-").tempdir_in(memory_folder());
    let (Ok(root), Ok(filled)) = (folder(), folder()) else { return Ok(times) };
    let mut number = 0_usize;
    times.to_cache = Some(repeat(limit, || {
        number += 1;
        let dir = root.path().join(number.to_string());
        // Where it can't be made, the compilation says so.
        let _ = std::fs::create_dir(&dir);
        client.prepare_into(model, &dir, pulse)
    })?);
    drop(client.prepare_into(model, filled.path(), pulse)?);
    times.cache_bytes = bytes_in(filled.path());
    if times.cache_bytes > 0 {
        times.from_cache = Some(repeat(limit, || client.load(model, filled.path(), pulse))?);
    }
    Ok(times)
}

/// A folder of files in memory: a disk's times are not the driver's.
pub(crate) fn memory_folder() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

fn repeat(
    limit: Duration,
    mut compile: impl FnMut() -> Result<Prepared, CallError>,
) -> Result<Times, CallError> {
    let mut clock = || -> Result<f64, CallError> {
        let start = Instant::now();
        let prepared = compile()?;
        let time = millis(start.elapsed());
        drop(prepared);
        Ok(time)
    };
    let first = clock()?;
    let begun = Instant::now();
    let mut all = Vec::new();
    while all.len() < FEWEST || (begun.elapsed() < limit && all.len() < MOST) {
        all.push(clock()?);
    }
    let max = all.iter().copied().fold(0.0, f64::max);
    Ok(Times { n: all.len(), first, p50: median(&all), max })
}

fn bytes_in(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}
