//! Compilation from a cache: prepared once with files to write, and again from those files.

use std::io;
use std::os::fd::OwnedFd;

use nnburst::hal::{CACHE_TOKEN_BYTES, CacheHandles, PrepareOptions, wait_for_prepared_model};
use nnburst::{Compilation, Device, RuntimeError};
use nnburst_conformance::Case;
use rustix::fs::{MemfdFlags, memfd_create};

/// The case's model, loaded from what its preparation left in the cache; `None` where the device has none.
pub(super) fn compile(case: &Case, device: &Device) -> Result<Option<Compilation>, RuntimeError> {
    let wanted = device.hal().number_of_cache_files_needed()?;
    if wanted.model == 0 && wanted.data == 0 {
        return Ok(None);
    }
    let failed = |error: io::Error| RuntimeError::Driver {
        what: "the files of the cache".to_owned(),
        why: error.to_string(),
    };
    let token = token(&case.name);
    let model = empty_files(wanted.model).map_err(failed)?;
    let data = empty_files(wanted.data).map_err(failed)?;
    let to_read = CacheHandles {
        model: again(&model).map_err(failed)?,
        data: again(&data).map_err(failed)?,
        token,
    };
    let to_write = CacheHandles { model, data, token };
    let options = PrepareOptions::default();
    drop(wait_for_prepared_model(|callback| {
        device.hal().prepare_model(case.model.clone(), options, to_write, callback)
    })?);
    let prepared = wait_for_prepared_model(|callback| {
        device.hal().prepare_model_from_cache(None, to_read, callback)
    })?;
    Compilation::of_prepared(device, &case.model, prepared).map(Some)
}

/// Files in memory: on a disk, thousands of short lives take longer than the models do.
fn empty_files(count: u32) -> io::Result<Vec<OwnedFd>> {
    (0..count).map(|_| Ok(memfd_create("cache", MemfdFlags::CLOEXEC)?)).collect()
}

fn again(files: &[OwnedFd]) -> io::Result<Vec<OwnedFd>> {
    files.iter().map(OwnedFd::try_clone).collect()
}

/// What names the model: the case's name, folded.
fn token(name: &str) -> [u8; CACHE_TOKEN_BYTES] {
    let mut token = [0u8; CACHE_TOKEN_BYTES];
    for (at, byte) in name.bytes().enumerate() {
        if let Some(slot) = token.get_mut(at % CACHE_TOKEN_BYTES) {
            *slot = slot.wrapping_mul(31).wrapping_add(byte);
        }
    }
    token
}
