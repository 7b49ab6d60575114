//! The delegate: the device and the choice of operators, for any number of interpreters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nnburst::hal::process::Origin;
use nnburst::{Compilation, RuntimeError};
use nnburst_doors_common::{Log, MakeError, OnError, Recovery, Supervised};
use nnburst_tflite::ImportOptions;

use crate::abi::{TfLiteDelegate, TfLiteRegistration};
use crate::bench::Bench;
use crate::claim::{Chooser, Claim, ClaimError, summary};
use crate::host::{Host, HostError, Subset};
use crate::kernel::KernelError;
use crate::model_file::{FindError, HostFile};
use crate::options::DelegateOptions;
use crate::part::{GraphModel, GraphPart};

/// Why a graph can't be delegated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    #[error("{0}")]
    Find(#[from] FindError),
    #[error("{0}")]
    Host(#[from] HostError),
    #[error("{0}")]
    Device(MakeError),
}

impl From<ClaimError> for PrepareError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Host(error) => Self::Host(error),
            ClaimError::Device(error) => Self::Device(error.into()),
        }
    }
}

/// The state that a delegate and its kernels share.
#[derive(Debug)]
pub(crate) struct DelegateState {
    pub(crate) settings: DelegateOptions,
    pub(crate) log: Log,
    /// The process that the driver belongs to.
    pub(crate) origin: Origin,
    bench: Mutex<Supervised<Bench>>,
    /// That of the bench, for kernels to compare without waiting for who compiles. Relaxed: a
    /// kernel that sees an old one gets an error from the driver that died, as before.
    generation: AtomicU64,
    /// Held while one graph is prepared.
    preparing: Mutex<()>,
    /// The parts that kernels are about to be made of.
    chosen: Mutex<Vec<Arc<GraphPart>>>,
    /// Nothing of the last file's graphs was left to its interpreter so far, which runs no body of
    /// control flow then.
    /// Relaxed: its graphs are prepared by one thread.
    is_whole: AtomicBool,
    /// Messages that were written.
    written: Mutex<Vec<String>>,
}

impl DelegateState {
    /// A delegate on the device of these options, which is opened.
    ///
    /// # Errors
    /// Why the device is not to be had, unless `on-error` has the interpreter compute then.
    pub(crate) fn new(settings: DelegateOptions, log: &Log) -> Result<Self, MakeError> {
        let log = log.with_verbosity(settings.shared.log);
        let bench = Bench::supervised(settings.shared.clone(), log.clone());
        let shared = Self {
            settings,
            log,
            origin: Origin::here(),
            bench: Mutex::new(bench),
            generation: AtomicU64::new(0),
            preparing: Mutex::new(()),
            chosen: Mutex::new(Vec::new()),
            is_whole: AtomicBool::new(false),
            written: Mutex::new(Vec::new()),
        };
        match shared.with_bench(|_| Ok(())) {
            Err(error) if shared.settings.shared.on_error == OnError::Fail => Err(error),
            Ok(()) | Err(_) => Ok(shared),
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// The bench, made where it isn't there.
    fn bench<'a>(&self, bench: &'a mut Supervised<Bench>) -> Result<&'a mut Bench, MakeError> {
        let pause = bench.pause_left();
        if pause <= LONGEST_WAIT {
            std::thread::sleep(pause);
        }
        let bench = bench.get()?;
        self.generation.store(bench.generation, Ordering::Relaxed);
        Ok(bench)
    }

    fn with_bench<R>(
        &self,
        work: impl FnOnce(&mut Bench) -> Result<R, MakeError>,
    ) -> Result<R, MakeError> {
        work(self.bench(&mut lock(&self.bench))?)
    }

    /// Compiles a part; returns the generation of the bench with it.
    pub(crate) fn compile(&self, part: &GraphPart) -> Result<(Compilation, u64), KernelError> {
        let mut supervised = lock(&self.bench);
        let compile = |supervised: &mut Supervised<Bench>| {
            let bench = self.bench(supervised).map_err(KernelError::Device)?;
            Ok((bench.compile(part)?, bench.generation))
        };
        match compile(&mut supervised) {
            // A driver that died since is started again, once.
            Err(KernelError::Runtime(error)) if supervised.lost(&error).is_some() => {
                compile(&mut supervised)
            }
            result => result,
        }
    }

    /// Starts the driver again where `error` stands for its death; `None` where it does not, or it
    /// was started again already.
    pub(crate) fn recover(&self, generation: u64, error: &RuntimeError) -> Option<Recovery> {
        let mut supervised = lock(&self.bench);
        if self.generation() != generation {
            return None;
        }
        let death = supervised.lost(error)?;
        let restarted = self.bench(&mut supervised).map(|_| ()).map_err(|error| error.to_string());
        let recovery = Recovery { death, restarted };
        self.log.warning(&recovery.to_string());
        Some(recovery)
    }

    /// Writes a warning that was not written before.
    pub(crate) fn warn_once(&self, text: &str) {
        if self.is_new(text) {
            self.log.warning(text);
        }
    }

    fn is_new(&self, text: &str) -> bool {
        let mut written = lock(&self.written);
        let is_new = written.iter().all(|known| known != text);
        if is_new {
            written.push(text.to_owned());
        }
        is_new
    }

    /// The chosen part of these nodes.
    pub(crate) fn chosen(&self, subset: &Subset) -> Option<Arc<GraphPart>> {
        lock(&self.chosen).iter().find(|part| part.subset == *subset).cloned()
    }

    /// Chooses operators of an interpreter's graph and has kernels replace them.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub(crate) fn prepare(
        &self,
        host: &mut Host,
        registration: TfLiteRegistration,
        delegate: *mut TfLiteDelegate,
    ) -> Result<(), PrepareError> {
        self.origin.check().map_err(|error| PrepareError::Device(error.into()))?;
        let _one_at_a_time = lock(&self.preparing);
        self.use_threads(host.threads());
        let claim = match self.choose(host) {
            Ok(Some(claim)) => claim,
            Ok(None) => return Ok(()),
            Err(PrepareError::Device(error)) if self.settings.shared.on_error == OnError::Cpu => {
                self.warn_once(&format!("the interpreter computes by itself: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let nodes = claim.nodes();
        if nodes.is_empty() {
            return Ok(());
        }
        *lock(&self.chosen) = claim.parts.into_iter().map(Arc::new).collect();
        let replaced = host.replace(&nodes, registration, delegate);
        lock(&self.chosen).clear();
        Ok(replaced?)
    }

    /// Has the driver use as many threads as the interpreter's user wants, where the options leave
    /// that open and nothing was compiled yet.
    fn use_threads(&self, threads: Option<usize>) {
        let options = &self.settings.shared;
        let Some(threads) = threads.filter(|&threads| threads > 1 && options.threads.is_none())
        else {
            return;
        };
        let mut bench = lock(&self.bench);
        if bench.get().is_ok_and(|bench| bench.is_unused()) {
            let options =
                nnburst_doors_common::DoorOptions { threads: Some(threads), ..options.clone() };
            *bench = Bench::supervised(options, self.log.clone());
        }
    }

    /// `None` for graphs that are left to the interpreter.
    fn choose(&self, host: &mut Host) -> Result<Option<Claim>, PrepareError> {
        let (device, has_extension) = self
            .with_bench(|bench| Ok((bench.device.clone(), bench.has_extension)))
            .map_err(PrepareError::Device)?;
        let model = match HostFile::find(host, self.settings.model.as_deref()) {
            Ok(model) => model,
            // A body of control flow.
            Err(error @ FindError::OtherGraph(_)) => {
                if !self.is_whole.load(Ordering::Relaxed) {
                    self.warn_once(&format!("a graph is left to the interpreter: {error}"));
                }
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let import = ImportOptions {
            extension: has_extension,
            file_types: has_extension,
            ..ImportOptions::default()
        };
        let source = GraphModel::new(model, import);
        let settings = &self.settings;
        let claim = Chooser { host, source: &source, device: &device, settings }.choose()?;
        // The first graph is the first that is prepared.
        let others = source.model.contents.graph == 0 || self.is_whole.load(Ordering::Relaxed);
        self.is_whole.store(others && claim.left.is_empty(), Ordering::Relaxed);
        let mut lines = summary(&claim, &source, &settings.shared.device.to_string());
        if source.model.contents.graph == 0 {
            let nodes = 0..source.model.contents.operators.len();
            lines.extend(settings.unknown_operators(nodes.map(|node| source.name(node))));
        }
        if self.is_new(&lines.join("\n")) {
            let is_nothing = claim.parts.is_empty();
            for line in lines {
                if is_nothing { self.log.warning(&line) } else { self.log.summary(&line) }
            }
        }
        Ok(Some(claim))
    }
}

/// The longest wait for a driver that may not be started again yet. Where it dies again and again
/// the pauses become longer, and calls fail at once.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What a panic left is as it was before the call that panicked, or is made anew.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
