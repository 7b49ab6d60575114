//! The functions that hosts call, and what they have in hand between calls.

use std::ffi::c_ulong;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::thread::JoinHandle;

use nnburst::hal::environment;
use nnburst_denoise::{ModelsError, find_models};
use nnburst_doors_common::{
    DoorOptions, Grammar, Log, OptionError, Origin, guarded, own_file, start_logging,
};

use crate::abi::{Descriptor, Handle};
use crate::link::link;
use crate::ports::{ControlPort, port_count};
use crate::stream::{Controls, NO_LIMIT_DB, Rate, SoundStream};
use crate::worker;

/// The variable with the options of all instances, as LADSPA has no ports for text.
const OPTIONS: &str = "NNBURST_LADSPA";

const GRAMMAR: Grammar = Grammar {
    shared: &["device", "wait", "threads", "realtime", "cpus", "driver-cpus", "log"],
    own: &[],
};

/// Why there is no instance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum RefusedError {
    #[error("{0} Hz: the networks take 16000 Hz, or 48000 Hz resampled")]
    Rate(u64),
    #[error("{OPTIONS}: {0}")]
    Options(#[from] OptionError),
    #[error("{0}")]
    Models(#[from] ModelsError),
    #[error("no thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// An instance. The host makes no two calls of one at a time.
struct Plugin<const CHANNELS: usize> {
    /// The address of each port's samples or value, or null.
    ports: Vec<*mut f32>,
    stream: SoundStream<CHANNELS>,
    worker: Option<JoinHandle<()>>,
    log: Log,
    /// The process that the worker runs in.
    origin: Origin,
}

impl<const CHANNELS: usize> Plugin<CHANNELS> {
    fn new(rate: u64, log: &Log) -> Result<Self, RefusedError> {
        let rate = Rate::from_hz(rate).ok_or(RefusedError::Rate(rate))?;
        let options = environment(OPTIONS).unwrap_or_default();
        let options = GRAMMAR.parse_text(&options.to_string_lossy())?;
        Self::with(rate, options, find_models(own_file().as_deref())?, log)
    }

    fn with(
        rate: Rate,
        options: DoorOptions,
        models: [PathBuf; 2],
        log: &Log,
    ) -> Result<Self, RefusedError> {
        let log = log.with_verbosity(options.log);
        let (run, worker) = link();
        let stream = SoundStream::new(rate, run);
        let worker = worker::start(worker, models, options, log.clone())?;
        let ports = vec![null_mut(); port_count(CHANNELS)];
        Ok(Self { ports, stream, worker: Some(worker), log, origin: Origin::here() })
    }

    /// In a child that was forked off there is no worker: the sound passes as it is heard.
    fn check_origin(&mut self) -> bool {
        let is_here = self.origin.is_here();
        if !is_here {
            self.stream.lose_worker();
        }
        is_here
    }

    fn activate(&mut self) {
        if !self.check_origin() {
            self.log.error(
                "the sound passes as it is: the instance belongs to the process that this one was \
                 forked from",
            );
        }
        self.stream.reset();
    }

    /// The value of a control port; `default` where the host has connected none.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn control(&self, control: ControlPort, default: f32) -> f32 {
        let port = self.ports[control.index(CHANNELS)];
        if port.is_null() {
            return default;
        }
        // SAFETY: connected by the host to a value of its own, which nobody writes during a call.
        unsafe { port.read() }
    }

    /// # Safety
    /// As for [`run`].
    unsafe fn report(&self, control: ControlPort, value: f32) {
        let port = self.ports[control.index(CHANNELS)];
        if !port.is_null() {
            // SAFETY: connected by the host to a value of its own.
            unsafe { port.write(value) };
        }
    }

    /// # Safety
    /// As for [`run`].
    unsafe fn run(&mut self, samples: usize) {
        self.check_origin();
        // SAFETY: the caller's promise, for all four.
        let controls = unsafe {
            Controls {
                wet: self.control(ControlPort::Wet, 1.0),
                limit_db: self.control(ControlPort::Limit, NO_LIMIT_DB),
            }
        };
        let sound = &self.ports[..2 * CHANNELS];
        if sound.iter().all(|port| !port.is_null()) {
            let (inputs, outputs) = sound.split_at(CHANNELS);
            self.stream.begin(samples, controls);
            for at in 0..samples {
                // An input may be an output, also of another channel: all are read first.
                // SAFETY: the host has connected as many samples as it runs.
                let heard =
                    std::array::from_fn(|channel| unsafe { inputs[channel].add(at).read() });
                for (output, sample) in outputs.iter().zip(self.stream.step(heard)) {
                    // SAFETY: as above.
                    unsafe { output.add(at).write(sample) };
                }
            }
            self.stream.end_call();
        }
        #[expect(clippy::cast_precision_loss, reason = "a count that is read as it is")]
        let misses = self.stream.misses() as f32;
        #[expect(clippy::cast_precision_loss, reason = "some thousand samples")]
        let latency = self.stream.latency() as f32;
        // SAFETY: the caller's promise.
        unsafe {
            self.report(ControlPort::Latency, latency);
            self.report(ControlPort::Misses, misses);
        }
    }
}

impl<const CHANNELS: usize> Drop for Plugin<CHANNELS> {
    fn drop(&mut self) {
        let worker = self.worker.take();
        if !self.origin.is_here() {
            // The thread is the parent's.
            return std::mem::forget(worker);
        }
        self.stream.end();
        if worker.is_some_and(|worker| worker.join().is_err()) {
            self.log.error("internal error: the worker panicked");
        }
    }
}

/// The log of calls without an instance, and of panics.
fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| Log::stderr("ladspa"))
}

/// Makes an instance; null, with the reason on standard error, where there can be none.
pub(crate) unsafe extern "C" fn instantiate<const CHANNELS: usize>(
    _: *const Descriptor,
    rate: c_ulong,
) -> Handle {
    let log = log();
    guarded(log, null_mut(), || {
        start_logging(log);
        #[cfg_attr(
            target_pointer_width = "64",
            expect(clippy::unnecessary_cast, reason = "32 bits on some machines")
        )]
        let rate = rate as u64;
        match Plugin::<CHANNELS>::new(rate, log) {
            Ok(plugin) => Box::into_raw(Box::new(plugin)).cast(),
            Err(error) => {
                log.error(&error.to_string());
                null_mut()
            }
        }
    })
}

/// # Safety
/// `handle` is one of [`instantiate`]'s, not cleaned up, and in no other call.
unsafe fn with<const CHANNELS: usize>(handle: Handle, call: impl FnOnce(&mut Plugin<CHANNELS>)) {
    // SAFETY: the caller's promise; null is what `instantiate` returned for none.
    let Some(plugin) = (unsafe { handle.cast::<Plugin<CHANNELS>>().as_mut() }) else { return };
    let log = log();
    guarded(log, (), || call(plugin));
}

/// Connects a port to a host's samples or value.
///
/// # Safety
/// As for [`with`].
pub(crate) unsafe extern "C" fn connect_port<const CHANNELS: usize>(
    handle: Handle,
    port: c_ulong,
    data: *mut f32,
) {
    let connect = |plugin: &mut Plugin<CHANNELS>| {
        let port = usize::try_from(port).ok().and_then(|port| plugin.ports.get_mut(port));
        if let Some(connected) = port {
            *connected = data;
        }
    };
    // SAFETY: the caller's promise.
    unsafe { with(handle, connect) };
}

/// Forgets all that was heard.
///
/// # Safety
/// As for [`with`].
pub(crate) unsafe extern "C" fn activate<const CHANNELS: usize>(handle: Handle) {
    // SAFETY: the caller's promise.
    unsafe { with(handle, Plugin::<CHANNELS>::activate) };
}

/// Works on so many samples. Allocates nothing, locks nothing and makes no system call.
///
/// # Safety
/// As for [`with`]; each port that is connected leads to a value, those of sound to `samples`.
pub(crate) unsafe extern "C" fn run<const CHANNELS: usize>(handle: Handle, samples: c_ulong) {
    let run = |plugin: &mut Plugin<CHANNELS>| {
        // SAFETY: the caller's promise. An `unsigned long` is a `usize`: see `abi.rs`.
        unsafe { plugin.run(usize::try_from(samples).unwrap_or(0)) };
    };
    // SAFETY: the caller's promise.
    unsafe { with(handle, run) };
}

/// Ends an instance.
///
/// # Safety
/// As for [`with`]; the handle is not used any more.
pub(crate) unsafe extern "C" fn cleanup<const CHANNELS: usize>(handle: Handle) {
    if handle.is_null() {
        return;
    }
    let log = log();
    // SAFETY: the caller's promise: nobody else has it.
    guarded(log, (), || drop(unsafe { Box::from_raw(handle.cast::<Plugin<CHANNELS>>()) }));
}

#[cfg(test)]
mod tests;
