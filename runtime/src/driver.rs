//! The CPU driver and the sample drivers: made in this process, started in another, served to
//! others.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

pub use nnburst_driver::Measured;
use nnburst_driver::{CPU, CpuDriver, CpuDriverOptions, Sandbox, calibrated, service};
use nnburst_driver_sample::sample_driver;
use nnburst_executor::MAX_THREADS;
use nnburst_hal_ipc::{ServiceLimits, Serving, service_dir, socket_path};

use crate::error::{Result, RuntimeError};
use crate::settings::Settings;

/// The options of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverOptions {
    /// Threads that compute one execution; 0 counts as 1, which is what a pipeline that owns its
    /// cores wants, and more than 64 count as 64.
    pub threads: usize,
    /// Has models that allow relaxed precision computed with bf16 numbers, as the setting `hint`
    /// does for all drivers of a process: of the factors of float convolutions and FULLY_CONNECTED
    /// only the upper halves are kept, rounded (8 bits of precision), and the sums are floats.
    /// Others are computed as ever, and so are all on machines without an instruction for it, but
    /// for products of few rows.
    pub bf16: bool,
    /// The program that [`Device::spawn`](crate::Device::spawn) starts; by default this one again.
    /// It is called as `PROGRAM serve --driver NAME --fd 0 --threads N`, and `--hint bf16` where
    /// that is asked for, and `--no-sandbox`.
    pub program: Option<PathBuf>,
    /// Leaves the process of a driver all the rights of its user. By default, and unless the
    /// setting `sandbox` is 0, a process that only serves a driver gives up files, sockets,
    /// programs and other processes before its first client ([`Sandbox`]).
    pub without_sandbox: bool,
    /// The limits of users and connections that [`serve`] begins with.
    pub limits: ServiceLimits,
    /// Scratch memory and helping threads that no execution used for this long are given back;
    /// `None`: 10 s.
    pub idle: Option<Duration>,
    /// Takes the driver's name over from a process that serves it ([`serve`]), which is to serve on
    /// the clients that it has until they go.
    pub takes_over: bool,
    /// Files, and directories with all below them, that a sandboxed driver may go on reading.
    pub readable: Vec<PathBuf>,
}

impl DriverOptions {
    /// The sandbox of a process that does nothing but serve.
    fn sandbox(&self) -> Option<Sandbox> {
        (Settings::of_process().sandbox && !self.without_sandbox).then(|| {
            let readable = self.readable.iter();
            readable.fold(Sandbox::new(), |sandbox, path| sandbox.reading(path))
        })
    }
}

/// The names of the drivers that are built in, `nnburst-cpu` first.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    [CPU].into_iter().chain(nnburst_driver_sample::names())
}

/// A driver that is built in.
pub(crate) fn find(name: &str, options: &DriverOptions) -> Result<CpuDriver> {
    find_with(name, options, None)
}

/// The CPU driver.
pub(crate) fn cpu(options: &DriverOptions) -> CpuDriver {
    CpuDriver::new(driver_options(options))
}

/// The CPU driver without any precision hint.
pub(crate) fn exact() -> CpuDriver {
    CpuDriver::new(CpuDriverOptions::default())
}

fn find_with(name: &str, options: &DriverOptions, measured: Option<Measured>) -> Result<CpuDriver> {
    let mut driver_options = driver_options(options);
    driver_options.measured = measured;
    if name == CPU {
        return Ok(CpuDriver::new(driver_options));
    }
    sample_driver(name, driver_options).map_err(|error| RuntimeError::UnknownDevice {
        name: error.name,
        known: names().map(str::to_owned).collect(),
    })
}

fn driver_options(options: &DriverOptions) -> CpuDriverOptions {
    let mut driver_options = CpuDriverOptions::default();
    driver_options.threads = options.threads.max(1);
    driver_options.bf16 = options.bf16 || Settings::of_process().bf16;
    driver_options.keep_warm = Settings::of_process().keep_warm;
    driver_options.idle = options.idle.unwrap_or(driver_options.idle);
    driver_options
}

/// The command that serves a driver on its standard input.
pub(crate) fn command(name: &str, options: &DriverOptions) -> Result<Command> {
    // A wrong name is better said here than by a child that ends at once.
    find(name, options)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None if serves(std::env::args_os().skip(1)) => {
            let why = "this process was started to serve one: call `nnburst::serve_inherited` in its \
                `main`, or name a program that serves (`DriverOptions::program`)";
            return Err(RuntimeError::driver(format!("starting {name}"), why));
        }
        None => std::env::current_exe()
            .map_err(|error| RuntimeError::driver("finding this program", error))?,
    };
    let mut command = Command::new(program);
    // A terminal's Ctrl-C is for this program, which may have frames to finish before it ends. The
    // driver ends with it.
    command.process_group(0);
    command.args(["serve", "--driver", name, "--fd", "0", "--threads"]);
    // The program refuses more than an execution ever has, where a driver in this process uses
    // fewer.
    command.arg(options.threads.clamp(1, MAX_THREADS).to_string());
    if options.bf16 {
        command.args(["--hint", "bf16"]);
    }
    if options.without_sandbox {
        command.arg("--no-sandbox");
    }
    Ok(command)
}

/// Returns whether arguments are those that [`command`] starts a program with. One that doesn't
/// heed them would start itself again, and that one as well, without end.
fn serves(arguments: impl Iterator<Item = OsString>) -> bool {
    let first: Vec<_> = arguments.take(5).collect();
    let [serve, driver, _, fd, zero] = &first[..] else { return false };
    serve == "serve" && driver == "--driver" && fd == "--fd" && zero == "0"
}

/// Serves a driver to one client over a socket that this process was started with, until the
/// client disconnects: what the child of [`Device::spawn`](crate::Device::spawn) does. The process
/// is sandboxed, for good, unless the options or the setting `sandbox` say otherwise, and no signal
/// stays blocked in this thread.
///
/// # Errors
/// There is no such driver or descriptor, or the sandbox can't be entered.
pub fn serve_inherited(driver: &str, fd: u32, options: &DriverOptions) -> Result<()> {
    let driver = find(driver, options)?;
    service::serve_inherited(&driver, fd, options.sandbox().as_ref())
        .map_err(|error| RuntimeError::driver(format!("serving descriptor {fd}"), error))
}

/// Measures a driver's figures on this machine and keeps them: [`serve`] gives them from
/// then on, to the same build with the same options. They are the shares of the reference device's
/// time, and of its processor time, that the driver takes for each type of operands and for control
/// flow; exactly 1 where there is no difference but noise.
///
/// # Errors
/// There is no such driver, it is served already, or there is nowhere to keep the figures.
pub fn calibrate(driver: &str, options: &DriverOptions) -> Result<Measured> {
    let known = find(driver, options)?;
    let failed = |why: String| RuntimeError::driver(format!("calibrating {driver}"), why);
    // A service manager's socket is there before whoever serves on it.
    if std::env::var_os("LISTEN_FDS").is_none() {
        let dir = service_dir().map_err(|error| failed(error.to_string()))?;
        let socket = socket_path(&dir, known.name()).map_err(|error| failed(error.to_string()))?;
        if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
            let path = socket.display();
            return Err(failed(format!("it is served already, on {path}: end that service first")));
        }
    }
    nnburst_driver::calibrate(known.name(), driver_options(options))
        .map_err(|error| failed(error.to_string()))
}

/// Serves a driver under its name in the directory of services, or on the socket that
/// systemd started this process with, until the result is dropped. Its figures are those that
/// [`calibrate`] kept for this build and these options, if it ever did. The process keeps its
/// rights: it may do other things beside; [`serve_alone`] is for one that doesn't.
///
/// # Errors
/// There is no such driver, it is served already, or the directory isn't ours alone.
pub fn serve(driver: &str, options: &DriverOptions) -> Result<Serving> {
    serve_with(driver, options, None)
}

/// [`serve`] in a process that does nothing else: it is sandboxed, for good, unless the options or
/// the setting `sandbox` say otherwise. What the process needs files or sockets for comes before,
/// on this thread or none.
///
/// # Errors
/// As [`serve`], and if the sandbox can't be entered.
pub fn serve_alone(driver: &str, options: &DriverOptions) -> Result<Serving> {
    serve_with(driver, options, options.sandbox().as_ref())
}

fn serve_with(driver: &str, options: &DriverOptions, sandbox: Option<&Sandbox>) -> Result<Serving> {
    let driver = find_with(driver, options, calibrated(driver, &driver_options(options)))?;
    let failed = |what: String, error: std::io::Error| {
        RuntimeError::driver(format!("serving {what}"), error)
    };
    let name = driver.name();
    let dir = service_dir().map_err(|error| failed(name.to_owned(), error.into()))?;
    let service = driver.service();
    service.set_limits(options.limits.clone());
    let serve = if options.takes_over { service::take_over_in } else { service::serve_in };
    serve(&service, &dir, sandbox)
        .map_err(|error| failed(format!("{name} in {}", dir.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_asked_for_no_more_threads_than_it_takes() {
        for (threads, asked) in [(0, "1"), (2, "2"), (64, "64"), (128, "64"), (usize::MAX, "64")] {
            let program = Some(PathBuf::from("nnburst"));
            let options = DriverOptions { threads, program, ..DriverOptions::default() };
            let command = command("nnburst-cpu", &options).unwrap();
            let args: Vec<_> = command.get_args().collect();
            assert_eq!(*args.last().unwrap(), asked);
        }
    }
}
