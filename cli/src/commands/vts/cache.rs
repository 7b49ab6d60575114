//! Compilation from a cache: prepared once with files to write, and again from those files.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nnburst::hal::{
    CACHE_TOKEN_BYTES, CacheFiles, CacheHandles, PrepareOptions, wait_for_prepared_model,
};
use nnburst::{Compilation, Device, RuntimeError};
use nnburst_conformance::Case;

/// The case's model, loaded from what its preparation left in the cache; `None` where the device has none.
pub(super) fn compile(case: &Case, device: &Device) -> Result<Option<Compilation>, RuntimeError> {
    let wanted = device.hal().number_of_cache_files_needed()?;
    if wanted.model == 0 && wanted.data == 0 {
        return Ok(None);
    }
    let folder = Folder::new().map_err(|error| RuntimeError::Driver {
        what: "a folder for the cache".to_owned(),
        why: error.to_string(),
    })?;
    let open = || {
        folder.open(wanted, token(&case.name)).map_err(|error| RuntimeError::Driver {
            what: "the files of the cache".to_owned(),
            why: error.to_string(),
        })
    };
    let (to_write, to_read) = (open()?, open()?);
    let options = PrepareOptions::default();
    drop(wait_for_prepared_model(|callback| {
        device.hal().prepare_model(case.model.clone(), options, to_write, callback)
    })?);
    let prepared = wait_for_prepared_model(|callback| {
        device.hal().prepare_model_from_cache(None, to_read, callback)
    })?;
    Compilation::of_prepared(device, &case.model, prepared).map(Some)
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

/// Files of a cache; gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("nnburst-vts-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn open(
        &self,
        wanted: CacheFiles,
        token: [u8; CACHE_TOKEN_BYTES],
    ) -> std::io::Result<CacheHandles> {
        let files = |kind: &str, count: u32| -> std::io::Result<Vec<_>> {
            (0..count).map(|at| open(&self.0.join(format!("{kind}{at}")))).collect()
        };
        Ok(CacheHandles {
            model: files("model", wanted.model)?,
            data: files("data", wanted.data)?,
            token,
        })
    }
}

fn open(path: &Path) -> std::io::Result<OwnedFd> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    Ok(file.into())
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing depends on it: the system empties its folder of temporary files by and by.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
