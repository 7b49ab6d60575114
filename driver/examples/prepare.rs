//! Times preparing a model, afresh and from cache files:
//! `cargo run --release -p nnburst-driver --example prepare -- model.tflite [times]`.
#![expect(clippy::print_stdout, reason = "a command")]

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nnburst_driver::{CpuDriver, CpuDriverOptions};
use nnburst_hal::{
    CACHE_TOKEN_BYTES, CacheHandles, Device, Model, PrepareOptions, Result, wait_for_prepared_model,
};

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments.next().ok_or("usage: prepare model.tflite [times]")?;
    let times = match arguments.next() {
        Some(times) => times.to_string_lossy().parse()?,
        None => 15,
    };
    let model = nnburst_tflite::Imported::open(&path)?.model;
    let driver = CpuDriver::new(CpuDriverOptions::default());
    let device = driver.device();
    let files = [tempfile::tempfile()?, tempfile::tempfile()?].map(OwnedFd::from);
    let cache = || -> std::io::Result<CacheHandles> {
        let [model, data] = &files;
        let (model, data) = (vec![model.try_clone()?], vec![data.try_clone()?]);
        Ok(CacheHandles { model, data, token: [1; CACHE_TOKEN_BYTES] })
    };
    prepare(device.as_ref(), &model, cache()?)?;
    let [mut afresh, mut cached] = [const { Vec::new() }; 2];
    for _ in 0..times {
        afresh.push(prepare(device.as_ref(), &model, CacheHandles::default())?);
        let (began, cache) = (Instant::now(), cache()?);
        // Kept until the time is taken: letting go of a model is no part of it.
        let _model = wait_for_prepared_model(|callback| {
            device.prepare_model_from_cache(None, cache, callback)
        })?;
        cached.push(began.elapsed());
    }
    for (what, times) in [("afresh", &mut afresh), ("from a cache", &mut cached)] {
        times.sort();
        let (least, middle) = (times.first(), times.get(times.len() / 2));
        println!("{what}: least {:?}, median {:?}", least, middle);
    }
    Ok(())
}

fn prepare(device: &dyn Device, model: &Model, cache: CacheHandles) -> Result<Duration> {
    let (model, began) = (model.clone(), Instant::now());
    let _model = wait_for_prepared_model(|callback| {
        device.prepare_model(model, PrepareOptions::default(), cache, callback)
    })?;
    Ok(began.elapsed())
}
