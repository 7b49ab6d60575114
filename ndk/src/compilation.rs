//! `ANeuralNetworksCompilation`: devices and options, then a model that is ready to run.

use std::ffi::{OsStr, c_int};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nnburst::hal::{self, Priority};
use nnburst::{Caching, CompileOptions, Wait};

use crate::c::{Array, Out, Text};
use crate::compiled::Compiled;
use crate::device::{self, Device};
use crate::diagnostic::{self, Facts};
use crate::error::{Error, Result, call, quietly};
use crate::execution::Call;
use crate::handle::{Handle, object};
use crate::model::{Finished, Model};

/// A compilation.
#[derive(Debug)]
pub(crate) struct Compilation {
    model: Arc<Finished>,
    /// As named by the caller; `None` leaves the choice to the runtime.
    devices: Option<Vec<nnburst::Device>>,
    options: CompileOptions,
    /// The wait strategy of bursts that are opened from now on.
    pub(crate) burst_wait: Wait,
    /// The result of `finish`, once it was called.
    outcome: Option<Result<Arc<Ready>>>,
}

object!(Compilation, "compilation", 5);

/// A compiled model and what its executions leave for those to come; executions and bursts share
/// it, and outlive the compilation's handle.
#[derive(Debug)]
pub(crate) struct Ready {
    compiled: Compiled,
    /// The calls that executions left behind.
    #[expect(clippy::vec_box, reason = "boxes go from here to executions and back without a copy")]
    spare: Mutex<Vec<Box<Call>>>,
    /// Finished executions that have kept their memory.
    keeping: AtomicUsize,
}

impl Deref for Ready {
    type Target = Compiled;

    fn deref(&self) -> &Compiled {
        &self.compiled
    }
}

/// As many executions as this find what those before them left.
const SPARE: usize = 16;

impl Ready {
    /// Returns the buffers that an execution needs: left by an earlier one, or new.
    pub(crate) fn take_call(&self) -> Box<Call> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Box::new(Call::new(self)))
    }

    /// Takes note that an execution is over. What it carried its arguments in serves others, unless
    /// few executions are over and not freed: those keep theirs, which costs nothing.
    pub(crate) fn finished(&self, call: &mut Call) {
        if call.keeps_memory {
            return;
        }
        // Relaxed: the count guards a figure, not memory.
        if self.keeping.fetch_add(1, Ordering::Relaxed) < SPARE {
            call.keeps_memory = true;
            return;
        }
        self.keeping.fetch_sub(1, Ordering::Relaxed);
        let mut other = Box::new(Call::new(self));
        other.take_memory_of(call);
        self.give_back(other);
    }

    /// Takes back what an execution needed.
    pub(crate) fn give_back(&self, mut call: Box<Call>) {
        if std::mem::take(&mut call.keeps_memory) {
            // Relaxed: as above.
            self.keeping.fetch_sub(1, Ordering::Relaxed);
        }
        call.clear();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(call);
        }
    }
}

/// The outcome of a call of `finish`.
struct Finishing {
    outcome: Result<()>,
    /// When it began and what call-backs may ask, where there are any.
    begun: Option<(Instant, Arc<Facts>)>,
}

impl Compilation {
    /// Returns the compiled model that executions and bursts are made of.
    ///
    /// # Errors
    /// `BAD_STATE` if the compilation is not finished, or failed.
    pub(crate) fn ready(&self) -> Result<Arc<Ready>> {
        match &self.outcome {
            Some(Ok(ready)) => Ok(Arc::clone(ready)),
            Some(Err(error)) => {
                Err(Error::state(format!("the compilation failed: {}", error.reason)))
            }
            None => Err(Error::state("the compilation is not finished")),
        }
    }

    fn options(&mut self) -> Result<&mut CompileOptions> {
        match self.outcome {
            None => Ok(&mut self.options),
            Some(_) => Err(Error::state("the compilation is finished")),
        }
    }

    fn has_one_device(&self) -> bool {
        self.devices.as_ref().is_some_and(|devices| devices.len() == 1)
    }

    /// Compiles.
    ///
    /// # Errors
    /// `BAD_STATE` where that was done before.
    fn finish(&mut self) -> Result<Finishing> {
        self.options()?;
        let begun = diagnostic::begin().map(|begun| (begun, Arc::new(self.facts())));
        let outcome = self.compile(begun.as_ref().map(|(_, facts)| Arc::clone(facts)));
        self.outcome = Some(outcome.clone());
        Ok(Finishing { outcome: outcome.map(drop), begun })
    }

    fn facts(&self) -> Facts {
        let devices = device::identifiers(self.devices.as_deref());
        Facts::of(&self.model.model, devices, self.options.caching.is_some())
    }

    fn compile(&self, facts: Option<Arc<Facts>>) -> Result<Arc<Ready>> {
        let model = &self.model.model;
        let compilation = match &self.devices {
            Some(devices) => nnburst::compile_for(model, devices, &self.options)?,
            None => nnburst::compile(model, &self.options)?,
        };
        let compiled = Compiled::new(compilation, self.has_one_device(), facts)?;
        let (spare, keeping) = (Mutex::default(), AtomicUsize::new(0));
        Ok(Arc::new(Ready { compiled, spare, keeping }))
    }
}

/// The strategy of a code of `NeuralNetworks.h`.
///
/// # Errors
/// `BAD_DATA` for any other number.
pub(crate) fn wait_strategy(code: c_int) -> Result<Wait> {
    match code {
        0 => Ok(Wait::Auto),
        1 => Ok(Wait::Spin),
        2 => Ok(Wait::Adaptive),
        3 => Ok(Wait::Block),
        _ => Err(Error::data(format!("{code} is no way to wait: 0 to 3 are"))),
    }
}

/// The finished compilation behind a handle.
///
/// # Errors
/// `BAD_STATE` if it is not finished, or failed.
pub(crate) fn ready(compilation: Handle<Compilation>) -> Result<Arc<Ready>> {
    compilation.with(|compilation| compilation.ready())
}

fn make(
    model: Handle<Model>,
    out: Out<'_, Handle<Compilation>>,
    devices: impl FnOnce() -> Result<Option<Vec<nnburst::Device>>>,
) -> Result<()> {
    let out = out.ok_or_else(|| Error::null("compilation"))?;
    model.with(|_| Ok(()))?;
    let devices = devices()?;
    out.write(Handle::NULL);
    let model = model.with(|model| model.finished())?;
    let options = CompileOptions::default();
    let burst_wait = Wait::Auto;
    out.write(Handle::new(Compilation { model, devices, options, burst_wait, outcome: None })?);
    Ok(())
}

pub(crate) extern "C" fn create(
    model: Handle<Model>,
    compilation: Out<'_, Handle<Compilation>>,
) -> c_int {
    call(|| make(model, compilation, || Ok(None)))
}

pub(crate) extern "C" fn create_for_devices(
    model: Handle<Model>,
    devices: Array<Handle<Device>>,
    device_count: u32,
    compilation: Out<'_, Handle<Compilation>>,
) -> c_int {
    call(|| {
        if devices.is_null() {
            return Err(Error::null("devices"));
        }
        make(model, compilation, || {
            if device_count == 0 {
                return Err(Error::data("no device is given"));
            }
            device::list(devices.elements(device_count, "devices")?).map(Some)
        })
    })
}

pub(crate) extern "C" fn free(compilation: Handle<Compilation>) {
    quietly(|| drop(compilation.free()));
}

pub(crate) extern "C" fn finish(compilation: Handle<Compilation>) -> c_int {
    call(|| {
        let Finishing { outcome, begun } = compilation.with(Compilation::finish)?;
        // Not while the compilation is in use.
        if let Some((begun, facts)) = begun {
            diagnostic::compiled(begun, facts, &outcome);
        }
        outcome
    })
}

pub(crate) extern "C" fn set_preference(compilation: Handle<Compilation>, code: i32) -> c_int {
    call(|| {
        compilation.with(|compilation| {
            let options = compilation.options()?;
            options.preference =
                hal::validate_preference(code).map_err(|error| Error::data(error.to_string()))?;
            Ok(())
        })
    })
}

/// `nnburst_Compilation_setBurstWait`.
pub(crate) extern "C" fn set_burst_wait(compilation: Handle<Compilation>, wait: c_int) -> c_int {
    call(|| {
        let wait = wait_strategy(wait)?;
        compilation.with(|compilation| {
            compilation.burst_wait = wait;
            Ok(())
        })
    })
}

pub(crate) extern "C" fn set_caching(
    compilation: Handle<Compilation>,
    dir: Text,
    token: Array<u8>,
) -> c_int {
    call(|| {
        let dir = PathBuf::from(OsStr::from_bytes(dir.get("cacheDir")?.to_bytes()));
        let mut copy = [0; hal::CACHE_TOKEN_BYTES];
        let length = u32::try_from(copy.len()).unwrap_or(u32::MAX);
        copy.copy_from_slice(token.elements(length, "token")?);
        compilation.with(|compilation| {
            compilation.options()?.caching = Some(Caching { dir, token: copy });
            Ok(())
        })
    })
}

pub(crate) extern "C" fn set_priority(compilation: Handle<Compilation>, code: c_int) -> c_int {
    call(|| {
        compilation.with(|compilation| {
            let options = compilation.options()?;
            options.priority = match code {
                90 => Priority::Low,
                100 => Priority::Medium,
                110 => Priority::High,
                _ => return Err(Error::data(format!("{code} is no priority"))),
            };
            Ok(())
        })
    })
}

pub(crate) extern "C" fn set_timeout(compilation: Handle<Compilation>, nanoseconds: u64) -> c_int {
    call(|| {
        compilation.with(|compilation| {
            let one = compilation.has_one_device();
            let options = compilation.options()?;
            if !one {
                return Err(Error::data("a timeout takes a compilation for exactly one device"));
            }
            options.timeout = (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds));
            Ok(())
        })
    })
}
