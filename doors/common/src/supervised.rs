//! Objects that a door makes on a device, and makes again after the driver's death.

use std::error::Error;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nnburst::hal::process::{Origin, forked};
use nnburst::{Device, RuntimeError};

use crate::log::Log;
use crate::options::DoorOptions;

/// Why a door's work can't be made on a device.
pub type MakeError = Box<dyn Error + Send + Sync>;

type Make<T> = Box<dyn FnMut(&Device, &DoorOptions) -> Result<T, MakeError> + Send>;

type Open = fn(&DoorOptions) -> Result<Device, RuntimeError>;

/// The pause after the first time that the thing is made; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// After so long a life pauses are short again.
const LONG_LIFE: Duration = Duration::from_secs(2);
/// The time in which a process whose connection broke ends, as a rule.
const DYING: Duration = Duration::from_millis(50);

/// Something that was made on a device: a compilation with its burst and frames. When the device's
/// driver dies, the thing and its device are dropped, and made anew: at once where the driver lived
/// for some time, else after a pause that grows to ten seconds, so that a driver that dies at every
/// start is no burden.
///
/// Everything here takes as long as opening a device and compiling, so real-time threads leave it
/// to others.
pub struct Supervised<T> {
    options: DoorOptions,
    log: Log,
    open: Open,
    make: Make<T>,
    made: Option<Made<T>>,
    /// The time before which nothing is made again, and the pause after the next time.
    not_before: Option<Instant>,
    pause: Duration,
    /// Why nothing is there.
    why: String,
    origin: Origin,
}

struct Made<T> {
    // Dropped in this order: what was made on a device goes before it.
    thing: T,
    device: Device,
    since: Instant,
}

impl<T> Supervised<T> {
    /// Something to be made by `make` on the device of `options`; nothing is opened yet.
    pub fn new(
        options: DoorOptions,
        log: Log,
        make: impl FnMut(&Device, &DoorOptions) -> Result<T, MakeError> + Send + 'static,
    ) -> Self {
        Self {
            options,
            log,
            open: DoorOptions::open_device,
            make: Box::new(make),
            made: None,
            not_before: None,
            pause: FIRST_PAUSE,
            why: String::new(),
            origin: Origin::here(),
        }
    }

    /// Has devices opened by `open`, for doors that bring the driver's program along.
    #[must_use]
    pub fn opened_by(self, open: Open) -> Self {
        Self { open, ..self }
    }

    /// The thing; made where it isn't there and the pause after the last failure is over.
    ///
    /// # Errors
    /// Why it can't be made, or could not be at the last try. `GENERAL_FAILURE` in a forked child
    /// of the process that made this: it has to make its own.
    pub fn get(&mut self) -> Result<&mut T, MakeError> {
        if !self.origin.is_here() {
            return Err(RuntimeError::from(forked()).into());
        }
        let made = match self.made.take() {
            Some(made) => made,
            None => self.make()?,
        };
        Ok(&mut self.made.insert(made).thing)
    }

    fn make(&mut self) -> Result<Made<T>, MakeError> {
        let now = Instant::now();
        if self.not_before.is_some_and(|end| now < end) {
            return Err(self.why.clone().into());
        }
        self.not_before = now.checked_add(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let made = (self.open)(&self.options).map_err(MakeError::from).and_then(|device| {
            let thing = (self.make)(&device, &self.options)?;
            Ok(Made { thing, device, since: now })
        });
        made.inspect_err(|error| self.why = error.to_string())
    }

    /// The time until the thing can be made, where it isn't there; zero else. For callers that
    /// would rather wait than fail.
    pub fn pause_left(&self) -> Duration {
        let end = self.not_before.filter(|_| self.made.is_none());
        end.map_or(Duration::ZERO, |end| end.saturating_duration_since(Instant::now()))
    }

    /// The device, where there is one now.
    pub fn device(&self) -> Option<&Device> {
        self.made.as_ref().map(|made| &made.device)
    }

    /// To be called with the error of a call on the thing. Where it stands for the death of the
    /// driver, the thing is made anew, once, and the log has a warning of both; otherwise nothing
    /// happens.
    pub fn recover(&mut self, error: &RuntimeError) -> Option<Recovery> {
        let death = self.lost(error)?;
        let restarted = self.get().map(|_| ()).map_err(|error| error.to_string());
        let recovery = Recovery { death, restarted };
        self.log.warning(&recovery.to_string());
        Some(recovery)
    }

    /// As [`Supervised::recover`], but the next [`Supervised::get`] makes it anew, and the log has
    /// nothing of it yet.
    pub fn lost(&mut self, error: &RuntimeError) -> Option<Death> {
        if !self.origin.is_here() {
            return None;
        }
        let made = self.made.take_if(|made| {
            error.is_device_lost()
                || matches!(error, RuntimeError::DeviceDied(_))
                || made.device.lost().is_some()
        })?;
        if made.since.elapsed() >= LONG_LIFE {
            (self.not_before, self.pause) = (None, FIRST_PAUSE);
        }
        let name = &self.options.device.name;
        self.why = format!("driver {name} died shortly after it was started");
        Some(Death::of(&made.device, name))
    }
}

impl<T> fmt::Debug for Supervised<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, made, why, .. } = self;
        f.debug_struct("Supervised")
            .field("device", &options.device)
            .field("is_made", &made.is_some())
            .field("why", why)
            .finish_non_exhaustive()
    }
}

/// The death of a driver: `driver nnburst-cpu died (signal 9, SIGKILL)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The driver's name.
    pub driver: String,
    /// The end of its process, where it was this process's child.
    pub status: Option<ExitStatus>,
}

impl Death {
    /// The death of a device's driver, which an error of a call stands for. Where its process is
    /// about to end, that is waited for, for some hundredths of a second.
    pub fn of(device: &Device, driver: &str) -> Self {
        let end = Instant::now() + DYING;
        let mut status = device.driver_exit_status();
        while status.is_none() && device.driver_process().is_some() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
            status = device.driver_exit_status();
        }
        Self { driver: driver.to_owned(), status }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "driver {} died", self.driver)?;
        match self.status {
            Some(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => match signal_hook::low_level::signal_name(signal) {
                    Some(name) => write!(f, " (signal {signal}, {name})"),
                    None => write!(f, " (signal {signal})"),
                },
                (None, Some(code)) => write!(f, " (exit status {code})"),
                (None, None) => Ok(()),
            },
            None => write!(f, " (its connection broke)"),
        }
    }
}

/// The outcome of a driver's death: `driver nnburst-cpu died (signal 9, SIGKILL); restarted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The death.
    pub death: Death,
    /// Why nothing was made anew, if so.
    pub restarted: Result<(), String>,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.restarted {
            Ok(()) => write!(f, "{}; restarted", self.death),
            Err(why) => write!(f, "{}; not restarted: {why}", self.death),
        }
    }
}
