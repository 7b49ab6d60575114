//! Capabilities measured on the machine: `nnburst serve --calibrate`.
//!
//! For each kind of [`Work`] a small network runs as the driver would run it, in turns with the
//! reference device's way: the executor with one thread and no hints, which is what a runtime
//! takes its own CPU device's figures of 1 for. The figures are what the driver takes of that in
//! time, and in time of processors for power; where the runs don't show a difference, exactly 1
//! ([`judge`]). They are kept in a file for the same build and threads, so that figures stay the
//! same between starts, as the interface wants, until somebody measures again.

mod figures;
mod judge;
mod work;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{OFlag, renameat};
use nix::time::{ClockId, clock_gettime};
use nnburst_executor::{FINGERPRINT, Isa};
use nnburst_hal::trusted::{Owners, TrustedDir, read_trusted};
use nnburst_hal::{
    CacheHandles, DataLocation, ExecutionOptions, HalError, Memory, Model, PerformanceInfo,
    PrepareOptions, PreparedModel, Request, RequestArgument, RequestPool, Result, environment,
    wait_for_prepared_model,
};

use crate::device::CpuDriver;
use crate::shared::CpuDriverOptions;
use figures::ONE;
use judge::RUNS;

pub use figures::{Measured, Work};

impl Measured {
    /// Measures what a driver with these options makes of all work; takes about two seconds.
    ///
    /// # Errors
    /// The executor can't compute, `NNBURST_ISA` being set to what the machine lacks.
    pub fn take(options: CpuDriverOptions) -> Result<Self> {
        let mut measured = Self([ONE; Work::ALL.len()]);
        let (reference, driver) =
            (CpuDriver::new(CpuDriverOptions::default()), CpuDriver::new(options));
        for (work, info) in Work::ALL.into_iter().zip(&mut measured.0) {
            *info = share(&work::model(work), [&reference, &driver])?;
        }
        Ok(measured)
    }

    /// Loads the figures that were kept for a driver of this build with these options; `None` if
    /// nothing was, if what is there says nothing sensible, or if another user could have written
    /// it.
    pub fn load(dir: &Path, driver: &str, options: &CpuDriverOptions) -> Option<Self> {
        let text = match read_trusted(&dir.join(file(driver, options)), Owners::own()) {
            Err(error) if error.is_absent() => return None,
            text => text.inspect_err(|error| tracing::warn!(%error, "figures of {driver}")).ok()?,
        };
        let mut lines = text.lines();
        if lines.next()? != key(options).ok()? {
            return None;
        }
        let mut measured = Self([ONE; Work::ALL.len()]);
        for (work, info) in Work::ALL.into_iter().zip(&mut measured.0) {
            let mut words = lines.next()?.split(' ');
            let named = words.next()? == work.name();
            let mut number = || {
                let number: f32 = words.next()?.parse().ok()?;
                (number.is_finite() && number > 0.0).then_some(number)
            };
            *info = PerformanceInfo { exec_time: number()?, power_usage: number()? };
            if !named || words.next().is_some() {
                return None;
            }
        }
        lines.next().is_none().then_some(measured)
    }

    /// Keeps the figures for a driver with these options, in place of any that were.
    ///
    /// # Errors
    /// The directory can't be made or written, or isn't this user's alone.
    pub fn store(&self, dir: &Path, driver: &str, options: &CpuDriverOptions) -> io::Result<()> {
        use io::Write;
        let dir = TrustedDir::create(dir, Owners::own())?;
        let mut text = key(options).map_err(io::Error::other)? + "\n";
        for (work, info) in self.figures() {
            text += &format!("{} {} {}\n", work.name(), info.exec_time, info.power_usage);
        }
        // Under another name first: whoever reads meanwhile finds the old figures or the new ones.
        let passing = OsString::from(format!(".{driver}.{}", std::process::id()));
        let mut written = dir.file(&passing, OFlag::O_WRONLY | OFlag::O_CREAT)?;
        written.set_len(0)?;
        written.write_all(text.as_bytes())?;
        Ok(renameat(&dir, passing.as_os_str(), &dir, file(driver, options).as_str())?)
    }
}

/// Measures a driver's figures and keeps them for its next starts with the same options.
///
/// # Errors
/// As for [`Measured::take`]; there is nowhere to keep them.
pub fn calibrate(driver: &str, options: CpuDriverOptions) -> Result<Measured> {
    let dir = state_dir().ok_or_else(|| HalError::failure("there is no directory for state"))?;
    let measured = Measured::take(options)?;
    measured.store(&dir, driver, &options).map_err(|error| {
        HalError::failure(format!("keeping the figures in {}: {error}", dir.display()))
    })?;
    Ok(measured)
}

/// Returns the figures that [`calibrate`] kept for a driver, if it ever did: by this build and with
/// these options.
pub fn calibrated(driver: &str, options: &CpuDriverOptions) -> Option<Measured> {
    Measured::load(&state_dir()?, driver, options)
}

/// Returns the directory of figures: the setting `state-dir` (`NNBURST_STATE_DIR`), a service
/// manager's `STATE_DIRECTORY`, or `nnburst` in the user's directory for state; `None` for a user
/// without any.
pub fn state_dir() -> Option<PathBuf> {
    let set = |name| environment(name).map(PathBuf::from);
    let own = || set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    nnburst_hal::setting("state-dir")
        .map(PathBuf::from)
        .or_else(|| set("STATE_DIRECTORY"))
        .or_else(|| Some(own()?.join("nnburst")))
}

/// One file for each number of threads: services with several of them don't take each other's.
fn file(driver: &str, options: &CpuDriverOptions) -> String {
    format!("{driver}.{}.figures", options.threads.max(1))
}

/// Returns the conditions that figures hold for: another build computes otherwise, and so do other
/// instructions and threads.
fn key(options: &CpuDriverOptions) -> Result<String> {
    let isa = Isa::from_environment().map_err(|error| HalError::failure(error.to_string()))?;
    let (package, threads) = (env!("CARGO_PKG_VERSION"), options.threads.max(1));
    let bf16 = if options.bf16 { " bf16" } else { "" };
    Ok(format!("build {package} {FINGERPRINT:x} isa {isa:?} threads {threads}{bf16}"))
}

/// A network made ready by a driver, and a request for it.
struct Runner {
    prepared: Arc<dyn PreparedModel>,
    request: Request,
}

impl Runner {
    fn new(driver: &CpuDriver, model: &Model) -> Result<Self> {
        let prepared = wait_for_prepared_model(|callback| {
            let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
            driver.device().prepare_model(model.clone(), options, cache, callback)
        })?;
        let mut end = 0u32;
        let mut argument = |&index: &u32| {
            let operand = usize::try_from(index).ok().and_then(|at| model.main.operands.get(at));
            let length = operand.and_then(|operand| operand.data_size()).unwrap_or(0);
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            let location = DataLocation { pool_index: 0, offset: end, length };
            end = end.saturating_add(length).next_multiple_of(64);
            RequestArgument { location, ..RequestArgument::default() }
        };
        let inputs = model.main.input_indexes.iter().map(&mut argument).collect();
        let outputs = model.main.output_indexes.iter().map(&mut argument).collect();
        let memory = Memory::ashmem(u64::from(end))?;
        let request = Request { inputs, outputs, pools: vec![RequestPool::Memory(memory)] };
        Ok(Self { prepared, request })
    }

    /// Time and processor time of a run.
    fn run(&self) -> Result<[Duration; 2]> {
        let before = clocks();
        let outcome =
            self.prepared.execute_synchronously(&self.request, ExecutionOptions::default());
        outcome.map_err(|failure| failure.error)?;
        let after = clocks();
        Ok([0, 1]
            .map(|clock| after[clock].saturating_sub(before[clock]).max(Duration::from_nanos(1))))
    }
}

/// Time and processor time of the second driver, as shares of what the first takes.
fn share(model: &Model, [reference, driver]: [&CpuDriver; 2]) -> Result<PerformanceInfo> {
    let (one, other) = (Runner::new(reference, model)?, Runner::new(driver, model)?);
    // What comes first pays for caches and pages.
    for _ in 0..2 {
        one.run()?;
        other.run()?;
    }
    let mut ratios = [[1.0; RUNS]; 2];
    for run in 0..RUNS {
        // Each goes first as often as the other, so that what changes on the machine meets both.
        let (base, own) = if run.is_multiple_of(2) {
            let base = one.run()?;
            (base, other.run()?)
        } else {
            let own = other.run()?;
            (one.run()?, own)
        };
        for (clock, ratios) in ratios.iter_mut().enumerate() {
            if let Some(ratio) = ratios.get_mut(run) {
                *ratio = own[clock].div_duration_f32(base[clock]);
            }
        }
    }
    let [exec_time, power_usage] = ratios.map(judge::figure);
    Ok(PerformanceInfo { exec_time, power_usage })
}

/// Time, and this process's time on processors.
fn clocks() -> [Duration; 2] {
    [ClockId::CLOCK_MONOTONIC, ClockId::CLOCK_PROCESS_CPUTIME_ID]
        .map(|clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from))
}

#[cfg(test)]
mod tests {
    use nnburst_hal::OperandType;

    use super::*;

    #[test]
    fn all_work_is_valid_and_of_its_type() {
        for work in Work::ALL {
            let model = work::model(work);
            nnburst_hal::validate_model(&model, nnburst_hal::Version::V1_3)
                .unwrap_or_else(|error| panic!("{}: {error}", work.name()));
            assert_eq!(
                model.relax_computation_float32_to_float16,
                matches!(work, Work::RelaxedScalar | Work::RelaxedTensor)
            );
            let Work::Operand(kind) = work else { continue };
            let is_used = model.main.operands.iter().any(|operand| operand.kind == kind);
            let has_no_operation = [OperandType::Uint32, OperandType::Bool].contains(&kind);
            assert!(is_used || has_no_operation, "{kind}");
        }
    }

    #[test]
    fn figures_are_measured_and_stay_for_threads_and_build() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("state");
        let two = CpuDriverOptions { threads: 2, ..CpuDriverOptions::default() };
        let one = CpuDriverOptions::default();
        assert_eq!(Measured::load(&dir, "one", &two), None);
        let measured = Measured::take(two).unwrap();
        for (work, info) in measured.figures() {
            assert!(info.exec_time > 0.0 && info.power_usage > 0.0, "{work:?} {info:?}");
        }
        measured.store(&dir, "one", &two).unwrap();
        assert_eq!(Measured::load(&dir, "one", &two), Some(measured));
        assert_eq!(Measured::load(&dir, "two", &two), None);
        assert_eq!(Measured::load(&dir, "one", &one), None, "other threads");
        let mut wishing = two;
        wishing.bf16 = true;
        assert_eq!(Measured::load(&dir, "one", &wishing), None, "other numbers");
        let text = std::fs::read_to_string(dir.join(file("one", &two))).unwrap();
        let corrupt = [
            String::new(),
            text.replacen("build ", "build 0.0.0 ", 1),
            text.replace("IF 1", "IF -1").replace("IF 0", "IF -0"),
            text.replace("WHILE", "UNTIL"),
            text.clone() + "more 1 1\n",
            "\0".to_owned(),
        ];
        for text in corrupt {
            std::fs::write(dir.join(file("one", &two)), &text).unwrap();
            assert_eq!(Measured::load(&dir, "one", &two), None, "{text:?}");
        }
    }
}
