//! Compilation from a cache: prepared once with files to write, and again from those files.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nnburst::hal::{
    CACHE_TOKEN_BYTES, CacheHandles, Model, PrepareOptions, wait_for_prepared_model,
};
use nnburst::{Compilation, Device, RuntimeError};
use rustix::fs::{MemfdFlags, memfd_create};

/// A model of that name, loaded from what its preparation left in the cache, and how long loading it took; `None`
/// where the device has no cache.
pub(crate) fn compile(
    (name, model): (&str, &Model),
    device: &Device,
) -> Result<Option<(Compilation, Duration)>, RuntimeError> {
    let wanted = device.hal().number_of_cache_files_needed()?;
    if wanted.model == 0 && wanted.data == 0 {
        return Ok(None);
    }
    let failed = |error: io::Error| RuntimeError::Driver {
        what: "the files of the cache".to_owned(),
        why: error.to_string(),
    };
    let token = token(name);
    let to_write = CacheHandles {
        model: empty_files(wanted.model).map_err(failed)?,
        data: empty_files(wanted.data).map_err(failed)?,
        token,
    };
    let to_read = CacheHandles {
        model: again(&to_write.model).map_err(failed)?,
        data: again(&to_write.data).map_err(failed)?,
        token,
    };
    let options = PrepareOptions::default();
    drop(wait_for_prepared_model(|callback| {
        device.hal().prepare_model(model.clone(), options, to_write, callback)
    })?);
    let start = Instant::now();
    let prepared = wait_for_prepared_model(|callback| {
        device.hal().prepare_model_from_cache(None, to_read, callback)
    })?;
    let compilation = Compilation::of_prepared(device, model, prepared)?;
    Ok(Some((compilation, start.elapsed())))
}

/// Files in memory: on a disk, thousands of short lives take longer than the models do.
fn empty_files(count: u32) -> io::Result<Vec<OwnedFd>> {
    (0..count).map(|_| Ok(memfd_create("cache", MemfdFlags::CLOEXEC)?)).collect()
}

fn again(files: &[OwnedFd]) -> io::Result<Vec<OwnedFd>> {
    files.iter().map(OwnedFd::try_clone).collect()
}

/// What the cache knows the model by: its name, folded.
fn token(name: &str) -> [u8; CACHE_TOKEN_BYTES] {
    let mut token = [0u8; CACHE_TOKEN_BYTES];
    for (at, byte) in name.bytes().enumerate() {
        if let Some(slot) = token.get_mut(at % CACHE_TOKEN_BYTES) {
            *slot = slot.wrapping_mul(31).wrapping_add(byte);
        }
    }
    token
}
