//! Cases through the C interface: `libneuralnetworks.so`, loaded as any program loads it.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nnburst::RuntimeError;
use nnburst_conformance::Case;
use nnburst_ndk_client::{Device, Library, RunMode, RunOptions};

use super::Verdict;
use super::attempt::{Attempt, compare, expected_failure, request_of, too_small};
use crate::args::{Engine, ModeArg as CallMode, VtsArgs};
use crate::failure::Failure;

/// A device of the library's.
pub(super) struct Ndk {
    library: Library,
    device: Device,
}

impl Ndk {
    /// Loads the library and finds the device that the options name.
    pub(super) fn open(engine: &Engine) -> Result<Self, Failure> {
        let library = Library::open().map_err(|error| Failure::check(error.to_string()))?;
        let device = library.device(engine.device.as_deref().unwrap_or("nnapi-reference"))?;
        Ok(Self { library, device })
    }

    /// Returns whether the device takes all operations.
    pub(super) fn is_supported(&self, case: &Case) -> bool {
        let model = self.library.model(&case.model);
        let taken = model.and_then(|model| model.supported(&self.device));
        taken.is_ok_and(|taken| taken.into_iter().all(|yes| yes))
    }

    /// Runs the case; `Ok` where it ended as it has to, and whether every value is the one
    /// expected.
    pub(super) fn attempt(&self, case: &Case, args: &VtsArgs) -> Result<bool, Attempt> {
        let model = match self.library.model(&case.model) {
            Ok(model) => model,
            Err(error) => return expected_failure(case, error),
        };
        if !case.expect_failure && !self.takes(&model) {
            return Err(Verdict::Skipped("the device refuses an operation").into());
        }
        let compilation = match model.compile(&self.device) {
            Ok(compilation) => compilation,
            Err(error) => return expected_failure(case, error),
        };
        let request = request_of(case, args)?;
        let run = RunOptions {
            mode: match args.engine.mode {
                CallMode::Inproc | CallMode::Sync => RunMode::Sync,
                CallMode::Async => RunMode::Async,
                CallMode::Fenced => RunMode::Fenced,
                CallMode::Burst => RunMode::Burst,
            },
            device_memory: args.device_memory,
            loop_timeout: case.loops_forever().then_some(Duration::from_millis(1)),
        };
        match compilation.run(&request.request, &run) {
            Err(error) if args.insufficient_size => too_small(case, error),
            Err(error) => {
                // A burst carries the status alone: the reason is asked for once more.
                let again = case.broken_rule().filter(|_| run.mode == RunMode::Burst);
                let called = RunOptions { mode: RunMode::Sync, ..run };
                let told = again.and_then(|_| compilation.run(&request.request, &called).err());
                expected_failure(case, told.unwrap_or(error))
            }
            Ok(_) if args.insufficient_size => {
                Err(Verdict::Failed("a buffer that is too small went unnoticed".into()).into())
            }
            Ok(_) if case.expect_failure => {
                Err(Verdict::Failed("ran to completion, which it must not".into()).into())
            }
            Ok(outcome) => compare(case, &request, None, &outcome),
        }
    }

    fn takes(&self, model: &nnburst_ndk_client::Model) -> bool {
        model.supported(&self.device).is_ok_and(|taken| taken.into_iter().all(|yes| yes))
    }
}

/// The library finds drivers as services, so that `spawn:NAME` is this command again beside a
/// service of that name in a directory of its own; nothing where another device is asked for.
pub(super) fn beside_a_service(engine: &Engine) -> Option<Result<(), Failure>> {
    let name = engine.device.as_deref()?.strip_prefix("spawn:")?;
    Some(run_beside(name))
}

fn run_beside(name: &str) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let dir = Directory::new()?;
    let mut serve = Command::new(&program);
    serve.args(["serve", "--driver", name]).env("NNBURST_SERVICE_DIR", &dir.0);
    let service = Service(serve.stdout(std::process::Stdio::null()).spawn()?);
    dir.wait_for(name)?;
    let spawned = format!("spawn:{name}");
    let args = std::env::args().skip(1).map(|arg| arg.replace(&spawned, name));
    let status = Command::new(program).args(args).env("NNBURST_SERVICE_DIR", &dir.0).status()?;
    drop(service);
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Failure {
            message: format!("with {name} as a service: {status}"),
            code: code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
        }),
    }
}

/// A service, ended with this.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory of services for this run alone.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self, RuntimeError> {
        let path =
            std::env::temp_dir().join(format!("nnburst-vts-services-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            RuntimeError::Driver { what: path.display().to_string(), why: error.to_string() }
        })?;
        Ok(Self(path))
    }

    fn wait_for(&self, name: &str) -> Result<(), Failure> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let socket: &Path = &self.0.join(format!("{name}.sock"));
        let begun = Instant::now();
        while !socket.exists() {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::check(format!("{name} does not come up as a service")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The system empties its folder of temporary files by and by.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
