//! The device of a delegate, with what was compiled for it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use nnburst::hal::tflite_extension;
use nnburst::{Caching, Compilation, CompileOptions, Device, compile_for};
use nnburst_doors_common::{DoorOptions, Log, MakeError, Supervised, make_cache_dir};
use sha2::{Digest, Sha256};

use crate::part::{GraphPart, Key};

/// Compilations that are kept for shapes that come again.
const MOST_KEPT: usize = 8;

/// A device and compilations on it. It is made anew after the driver's death, with another
/// generation.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) generation: u64,
    /// True if the device takes the operations of `dev.nnburst.tflite`.
    pub(crate) has_extension: bool,
    is_relaxed: bool,
    caching: Option<PathBuf>,
    log: Log,
    /// Further inputs of the cache's token.
    settings: String,
    /// The one that was used last comes last.
    compiled: Vec<(Key, Compilation)>,
}

impl Bench {
    /// The bench of these options, which is not there yet.
    pub(crate) fn supervised(options: DoorOptions, log: Log) -> Supervised<Self> {
        let own = log.clone();
        Supervised::new(options, log, move |device, options| Self::new(device, options, &own))
    }

    fn new(device: &Device, options: &DoorOptions, log: &Log) -> Result<Self, MakeError> {
        static GENERATIONS: AtomicU64 = AtomicU64::new(1);
        let extensions = device.extensions()?;
        let caching = options.cache_dir.clone().filter(|dir| is_made(dir, log));
        Ok(Self {
            device: device.clone(),
            // Relaxed: no two are the same, and nothing is handed over.
            generation: GENERATIONS.fetch_add(1, Ordering::Relaxed),
            has_extension: extensions.iter().any(|it| it.name == tflite_extension::NAME),
            is_relaxed: options.relaxed,
            caching,
            log: log.clone(),
            settings: format!("{:?} {:?} {}", options.device, options.threads, options.relaxed),
            compiled: Vec::new(),
        })
    }

    /// Returns whether nothing was compiled.
    pub(crate) fn is_unused(&self) -> bool {
        self.compiled.is_empty()
    }

    /// Compiles a part, unless it was compiled before.
    ///
    /// # Errors
    /// What the device answered.
    pub(crate) fn compile(&mut self, part: &GraphPart) -> nnburst::Result<Compilation> {
        if let Some(at) = self.compiled.iter().position(|(key, _)| *key == part.key) {
            let known = self.compiled.remove(at);
            let compilation = known.1.clone();
            self.compiled.push(known);
            return Ok(compilation);
        }
        let mut model = part.imported.model.clone();
        model.relax_computation_float32_to_float16 |= self.is_relaxed;
        let caching = self.caching.as_ref().and_then(|dir| {
            let token = Sha256::new_with_prefix(part.lasting_key()?).chain_update(&self.settings);
            Some(Caching { dir: dir.clone(), token: token.finalize().into() })
        });
        let options = CompileOptions { caching, ..CompileOptions::default() };
        let start = Instant::now();
        let compilation = compile_for(&model, std::slice::from_ref(&self.device), &options)?;
        let (operators, took) = (part.subset.nodes.len(), start.elapsed());
        self.log.detail(&format!("compiled {operators} operators in {took:.1?}"));
        if self.compiled.len() == MOST_KEPT {
            self.compiled.remove(0);
        }
        self.compiled.push((part.key, compilation.clone()));
        Ok(compilation)
    }
}

/// Returns whether the directory of a cache is there; a warning says why not.
fn is_made(dir: &Path, log: &Log) -> bool {
    let made = make_cache_dir(dir);
    if let Err(error) = &made {
        log.warning(&format!("nothing is cached: {}: {error}", dir.display()));
    }
    made.is_ok()
}
