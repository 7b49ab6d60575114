//! Compilation from a cache: prepared once with files to write, and again from those files.

use std::path::Path;
use std::time::{Duration, Instant};

use nnburst::hal::{CACHE_TOKEN_BYTES, Model, PrepareOptions};
use nnburst::{
    Caching, Compilation, CompileOptions, Device, RuntimeError, compile_for, load_cached,
};

/// The directory of files in memory: on a disk, thousands of short lives take longer than the
/// models do.
const IN_MEMORY: &str = "/dev/shm";

/// A model of that name, loaded from what its preparation left in the cache, and how long loading
/// it took; `None` where the device has no cache.
pub(crate) fn compile(
    name: &str,
    model: &Model,
    device: &Device,
    prepare: PrepareOptions,
) -> Result<Option<(Compilation, Duration)>, RuntimeError> {
    let memory = Path::new(IN_MEMORY);
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let dir = tempfile::Builder::new().prefix("nnburst-cache-").tempdir_in(place);
    let dir = dir.map_err(|error| RuntimeError::Driver {
        what: "the files of the cache".to_owned(),
        why: error.to_string(),
    })?;
    let caching = Some(Caching { dir: dir.path().to_owned(), token: token(name) });
    let PrepareOptions { preference, priority, .. } = prepare;
    let options = CompileOptions { preference, priority, caching, ..CompileOptions::default() };
    drop(compile_for(model, std::slice::from_ref(device), &options)?);
    let start = Instant::now();
    let loaded = load_cached(model, device, &options)?;
    Ok(loaded.map(|compilation| (compilation, start.elapsed())))
}

/// Returns the token by which the cache knows the model: its name, folded.
fn token(name: &str) -> [u8; CACHE_TOKEN_BYTES] {
    let mut token = [0u8; CACHE_TOKEN_BYTES];
    for (at, byte) in name.bytes().enumerate() {
        if let Some(slot) = token.get_mut(at % CACHE_TOKEN_BYTES) {
            *slot = slot.wrapping_mul(31).wrapping_add(byte);
        }
    }
    token
}
