//! A worker's client: the device under test, whichever way it is reached.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nnburst::hal::{ErrorStatus, Model, PrepareOptions};
use nnburst::{
    Burst, BurstOptions, Caching, Compilation, CompileOptions, Device, DriverOptions, Frame,
    RuntimeError, Wait,
};
use serde::{Deserialize, Serialize};

use super::library::{LibraryClient, LibraryModel};
use super::pulse::Pulse;
use crate::protocol::{CallMode, Job, Via};
use crate::report::{About, CallSettings};
use crate::target::{How, Target};

/// A call that failed: the status, and the reason that was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{reason}")]
pub(crate) struct CallError {
    /// The HAL's name of it; empty where the driver did not answer with one.
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) is_lost: bool,
}

impl CallError {
    /// The status as the interface spells it: `GENERAL_FAILURE`.
    pub(crate) fn hal_name(&self) -> String {
        let mut name = String::new();
        for letter in self.status.chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        name
    }
}

impl From<RuntimeError> for CallError {
    fn from(error: RuntimeError) -> Self {
        let status = error.status();
        Self {
            status: status.map(|status| format!("{status:?}")).unwrap_or_default(),
            is_lost: status == Some(ErrorStatus::DeviceUnavailable),
            reason: error.to_string(),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, CallError>;

/// The times of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTimes {
    pub(crate) latency: Duration,
    pub(crate) driver: Option<Duration>,
}

/// Devices of the program's own, by name.
pub(crate) type Devices = Box<dyn Fn(&str) -> Option<Arc<dyn nnburst::hal::Device>> + Send + Sync>;

/// Those that the program brought along.
static OWN: OnceLock<Devices> = OnceLock::new();

/// Has embedded targets be looked up here first.
pub(crate) fn bring_devices(devices: Devices) {
    // A second call changes nothing: a worker has one program.
    let _ = OWN.set(devices);
}

fn own_device(name: &str) -> Option<Arc<dyn nnburst::hal::Device>> {
    OWN.get()?(name)
}

/// A device.
pub(crate) enum Client {
    Runtime(Device),
    Library(LibraryClient),
}

/// A client on its way to another thread: objects of a C library stay in the thread that made them.
#[derive(Clone)]
pub(crate) enum ClientHandle {
    Device(Device),
    Library(PathBuf, String),
}

impl ClientHandle {
    /// The client for this thread.
    pub(crate) fn open(&self) -> Result<Client> {
        match self {
            Self::Device(device) => Ok(Client::Runtime(device.clone())),
            Self::Library(path, device) => {
                LibraryClient::open(path, Some(device)).map(Client::Library)
            }
        }
    }
}

impl Client {
    /// Connects as the job says.
    pub(crate) fn open(job: &Job) -> Result<Self> {
        Self::open_target(&job.target, &job.via)
    }

    /// Connects to a target.
    pub(crate) fn open_target(target: &Target, via: &Via) -> Result<Self> {
        let device = match (&target.how, via) {
            (How::Library { path, device }, _) => {
                return LibraryClient::open(path, device.as_deref()).map(Self::Library);
            }
            (How::Embedded { driver, .. }, _) if driver == nnburst::REFERENCE => {
                Device::reference()
            }
            (How::Embedded { driver, threads }, _) => match own_device(driver) {
                Some(hal) => Device::from_hal(driver, hal),
                None => {
                    let threads = usize::from(*threads);
                    let options = DriverOptions { threads, ..DriverOptions::default() };
                    Device::embedded_with(driver, &options)?
                }
            },
            (How::Command { .. }, Via::Stdin) => {
                let socket = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned();
                let socket = socket.map_err(|error| CallError {
                    status: String::new(),
                    reason: format!("the worker's socket: {error}"),
                    is_lost: true,
                })?;
                Device::from_socket(&target.name, socket)?
            }
            (How::Command { argv }, _) => {
                let (program, arguments) = argv.split_first().ok_or_else(no_command)?;
                let mut command = std::process::Command::new(program);
                command.args(arguments).stdout(std::process::Stdio::null());
                Device::spawn_command(&target.name, &mut command)?
            }
            (How::Service { instance, .. } | How::Served { instance }, _) => {
                Device::connect(instance)?
            }
        };
        Ok(Self::Runtime(device))
    }

    /// The client as another thread can open it for itself.
    pub(crate) fn share(&self) -> ClientHandle {
        match self {
            Self::Runtime(device) => ClientHandle::Device(device.clone()),
            Self::Library(library) => {
                let (path, device) = library.place();
                ClientHandle::Library(path.to_owned(), device.to_owned())
            }
        }
    }

    /// The HAL's device, where it is not behind a C library.
    pub(crate) fn device(&self) -> Option<&Device> {
        match self {
            Self::Runtime(device) => Some(device),
            Self::Library(_) => None,
        }
    }

    /// Asks the driver about itself.
    pub(crate) fn about(&self) -> Result<About> {
        match self {
            Self::Library(library) => Ok(library.about()),
            Self::Runtime(device) => {
                let capabilities = device.capabilities()?;
                let figures = capabilities.lookup(nnburst::hal::OperandType::TensorFloat32);
                let files = device.hal().number_of_cache_files_needed();
                let files = files.map_err(RuntimeError::from)?;
                Ok(About {
                    device: device.name().to_owned(),
                    version: device.version()?,
                    kind: format!("{:?}", device.device_type()?),
                    level: device.feature_level(),
                    extensions: device.extensions()?.into_iter().map(|one| one.name).collect(),
                    float_figures: [figures.exec_time.into(), figures.power_usage.into()],
                    cache_files: files.model.saturating_add(files.data),
                })
            }
        }
    }

    /// Returns whether the device lists the vendor extension, and a client may use it: through the
    /// C functions only programs of the system's list may.
    pub(crate) fn has_extension(&self, name: &str) -> bool {
        match self {
            Self::Runtime(device) => {
                device.extensions().is_ok_and(|all| all.iter().any(|one| one.name == name))
            }
            Self::Library(_) => false,
        }
    }

    /// For each operation, whether the driver takes it.
    pub(crate) fn supported(&self, model: &Model) -> Result<Vec<bool>> {
        match self {
            Self::Runtime(device) => Ok(device.supported_operations(model)?),
            Self::Library(library) => library.supported(model),
        }
    }

    /// Compiles a model.
    pub(crate) fn prepare(&self, model: &Model, pulse: &Pulse) -> Result<Prepared> {
        pulse.during("prepare", || match self {
            Self::Runtime(device) => {
                let compilation = device.compile(model, PrepareOptions::default())?;
                Ok(Prepared::Runtime(compilation))
            }
            Self::Library(library) => Ok(Prepared::Library(library.prepare(model)?)),
        })
    }

    /// Compiles a model of which the driver takes a part; the reference device has the rest.
    pub(crate) fn prepare_partly(&self, model: &Model, pulse: &Pulse) -> Result<Prepared> {
        let Self::Runtime(device) = self else { return Err(not_offered("partitioning")) };
        pulse.during("prepare", || {
            let devices = [device.clone(), Device::reference()];
            let compilation = nnburst::compile_for(model, &devices, &CompileOptions::default())?;
            Ok(Prepared::Runtime(compilation))
        })
    }

    /// Compiles a model into a cache in `dir`.
    pub(crate) fn prepare_into(
        &self,
        model: &Model,
        dir: &Path,
        pulse: &Pulse,
    ) -> Result<Prepared> {
        let Self::Runtime(device) = self else { return Err(not_offered("caching")) };
        pulse.during("prepare into a cache", || {
            let devices = std::slice::from_ref(device);
            Ok(Prepared::Runtime(nnburst::compile_for(model, devices, &cached(dir))?))
        })
    }

    /// Loads a model from a cache in `dir`.
    pub(crate) fn load(&self, model: &Model, dir: &Path, pulse: &Pulse) -> Result<Prepared> {
        let Self::Runtime(device) = self else { return Err(not_offered("caching")) };
        pulse.during("prepare from a cache", || {
            let loaded = nnburst::load_cached(model, device, &cached(dir))?;
            loaded.map(Prepared::Runtime).ok_or_else(|| not_offered("caching"))
        })
    }
}

fn cached(dir: &Path) -> CompileOptions {
    let caching = Caching { dir: dir.to_owned(), token: *b"the suite's model, one to a dir." };
    CompileOptions { caching: Some(caching), ..CompileOptions::default() }
}

fn no_command() -> CallError {
    not_offered("a command")
}

pub(crate) fn not_offered(what: &str) -> CallError {
    CallError { status: String::new(), reason: format!("not offered: {what}"), is_lost: false }
}

/// A compiled model. Clones are the same.
#[derive(Clone)]
pub(crate) enum Prepared {
    Runtime(Compilation),
    Library(Rc<LibraryModel>),
}

impl Prepared {
    /// A session in a burst with these options.
    pub(crate) fn burst_session(&self, options: &BurstOptions) -> Result<CallSession> {
        let Self::Runtime(compilation) = self else { return self.session(CallMode::Burst) };
        let burst = Some(compilation.burst(options)?);
        let frame = Some(compilation.frame()?);
        let (compilation, mode) = (compilation.clone(), CallMode::Burst);
        Ok(CallSession::Runtime(Box::new(RuntimeSession { compilation, mode, burst, frame })))
    }

    /// As [`Prepared::session`], called as the settings say.
    pub(crate) fn session_as(
        &self,
        mode: CallMode,
        settings: &CallSettings,
    ) -> Result<CallSession> {
        match mode {
            CallMode::Burst => self.burst_session(&burst_options(settings)),
            _ => self.session(mode),
        }
    }

    /// Room for the model's arguments, and the way to call it.
    pub(crate) fn session(&self, mode: CallMode) -> Result<CallSession> {
        Ok(match self {
            Self::Runtime(compilation) => {
                let burst = match mode {
                    CallMode::Burst => Some(compilation.burst(&BurstOptions::default())?),
                    _ => None,
                };
                let frame = Some(compilation.frame()?);
                let compilation = compilation.clone();
                CallSession::Runtime(Box::new(RuntimeSession { compilation, mode, burst, frame }))
            }
            Self::Library(model) => CallSession::Library(Box::new(model.session(mode)?)),
        })
    }
}

/// The options of a burst that is called as the settings say.
fn burst_options(settings: &CallSettings) -> BurstOptions {
    BurstOptions {
        wait: settings.wait.as_deref().and_then(Wait::from_name).unwrap_or_default(),
        cpus: settings.cpus.clone(),
        driver_cpus: settings.driver_cpus.clone(),
        realtime: settings.realtime,
        ..BurstOptions::default()
    }
}

/// One caller of a compiled model.
pub(crate) enum CallSession {
    Runtime(Box<RuntimeSession>),
    Library(Box<super::library::LibrarySession>),
}

pub(crate) struct RuntimeSession {
    compilation: Compilation,
    mode: CallMode,
    burst: Option<Burst>,
    /// Away while an execution in the background has it.
    frame: Option<Frame>,
}

impl CallSession {
    /// Copies an input in.
    pub(crate) fn write(&mut self, input: usize, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Runtime(session) => Ok(session.frame()?.write_bytes(input, bytes)?),
            Self::Library(session) => session.write(input, bytes),
        }
    }

    /// Copies an output out.
    pub(crate) fn read(&mut self, output: usize) -> Result<Vec<u8>> {
        match self {
            Self::Runtime(session) => Ok(session.frame()?.read_bytes(output)?),
            Self::Library(session) => session.read(output),
        }
    }

    /// The refused settings of the burst, in words.
    pub(crate) fn warnings(&self) -> &[String] {
        match self {
            Self::Runtime(session) => session.burst.as_ref().map_or(&[], Burst::warnings),
            Self::Library(_) => &[],
        }
    }

    /// Executes and waits.
    pub(crate) fn call(&mut self, pulse: &Pulse) -> Result<CallTimes> {
        pulse.during("execute", || match self {
            Self::Runtime(session) => session.call(),
            Self::Library(session) => session.call(),
        })
    }
}

impl RuntimeSession {
    fn frame(&mut self) -> Result<&mut Frame> {
        self.frame.as_mut().ok_or_else(|| not_offered("a frame after a failed launch"))
    }

    fn call(&mut self) -> Result<CallTimes> {
        let Some(mut frame) = self.frame.take() else { return Err(not_offered("a frame")) };
        let started = Instant::now();
        let execution = self.compilation.execution().measure(true);
        let result = match (&mut self.burst, self.mode) {
            (Some(burst), _) => burst.compute(&mut frame),
            (None, CallMode::Async | CallMode::Fenced) => {
                let launched = if self.mode == CallMode::Async {
                    execution.start(frame)
                } else {
                    execution.start_fenced(frame, Vec::new())
                };
                let (back, result) = match launched {
                    Ok(event) => event.wait(),
                    Err(error) => {
                        self.frame = self.compilation.frame().ok();
                        return Err(error.into());
                    }
                };
                frame = back;
                result
            }
            (None, _) => execution.compute(&mut frame),
        };
        let sample = CallTimes { latency: started.elapsed(), driver: frame.time_in_driver() };
        self.frame = Some(frame);
        result?;
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_names_of_the_interface() {
        let mut error = CallError { reason: String::new(), is_lost: false, status: String::new() };
        for status in [ErrorStatus::GeneralFailure, ErrorStatus::ResourceExhaustedTransient] {
            error.status = format!("{status:?}");
            assert_eq!(error.hal_name(), status.name());
        }
    }

    #[test]
    fn bursts_are_opened_as_the_settings_say() {
        let settings = CallSettings {
            wait: Some("spin".to_owned()),
            cpus: vec![0],
            driver_cpus: vec![1],
            realtime: true,
            ..CallSettings::default()
        };
        let options = burst_options(&settings);
        assert_eq!((options.wait, options.realtime), (Wait::Spin, true));
        assert_eq!((options.cpus, options.driver_cpus), (vec![0], vec![1]));
        assert_eq!(burst_options(&CallSettings::default()), BurstOptions::default());
    }
}
