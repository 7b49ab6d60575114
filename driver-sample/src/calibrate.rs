//! Capabilities measured on the machine: `nnburst serve --calibrate`.
//!
//! Two small networks of the kind that the figures are about (a block of a MobileNet in floats, one in bytes)
//! run as the driver would run them, in turns with one thread of the same executor, which is what a runtime
//! takes its own CPU device's figures of 1 for. The figures are what the driver takes of that in time, and in
//! time of processors for power. What was measured is kept in a file, so that figures stay the same between
//! starts, as the interface wants, until somebody measures again.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nnburst_executor::{CompileOptions, Control, Input, Output, Plan};
use nnburst_hal::trusted::{Owners, TrustedDir, read_trusted};
use nnburst_hal::{
    DataLocation, HalError, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType,
    PerformanceInfo, Result, Subgraph, View, ViewMut, environment,
};
use rustix::fs::{OFlags, renameat};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Runs of each kind, in turns; the middle one counts.
const RUNS: usize = 15;

/// Figures of a driver that were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Of float operands, relaxed or not.
    pub float: PerformanceInfo,
    /// Of 8-bit operands, and of everything else.
    pub other: PerformanceInfo,
}

impl Measured {
    /// Measures what this many threads make of the two networks; takes about a second.
    ///
    /// # Errors
    /// The executor can't compute them, `NNBURST_ISA` being set to what the machine lacks.
    pub fn take(threads: usize) -> Result<Self> {
        let measure = |kind| figures(&block(kind), kind, threads);
        let float = measure(OperandType::TensorFloat32)?;
        Ok(Self { float, other: measure(OperandType::TensorQuant8Asymm)? })
    }

    /// What was kept for a driver; `None` if nothing was, if what is there says nothing sensible, or if another user could
    /// have written it.
    pub fn load(dir: &Path, driver: &str) -> Option<Self> {
        let text = match read_trusted(&dir.join(file(driver)), Owners::own()) {
            Err(error) if error.is_absent() => return None,
            text => text.inspect_err(|error| tracing::warn!(%error, "figures of {driver}")).ok()?,
        };
        let mut lines = text.lines();
        let mut line = |name: &str| {
            let mut words = lines.next()?.split(' ');
            let named = words.next()? == name;
            let mut number = || {
                let number: f32 = words.next()?.parse().ok()?;
                (number.is_finite() && number > 0.0).then_some(number)
            };
            let info = PerformanceInfo { exec_time: number()?, power_usage: number()? };
            (named && words.next().is_none()).then_some(info)
        };
        Some(Self { float: line("float")?, other: line("other")? })
    }

    /// Keeps the figures for a driver, in place of any that were.
    ///
    /// # Errors
    /// The directory can't be made or written, or isn't this user's alone.
    pub fn store(&self, dir: &Path, driver: &str) -> io::Result<()> {
        use io::Write;
        let dir = TrustedDir::create(dir, Owners::own())?;
        let line = |name: &str, info: PerformanceInfo| {
            format!("{name} {} {}\n", info.exec_time, info.power_usage)
        };
        let text = line("float", self.float) + &line("other", self.other);
        // Under another name first: whoever reads meanwhile finds the old figures or the new ones.
        let passing = OsString::from(format!(".{driver}.{}", std::process::id()));
        let mut written = dir.file(&passing, OFlags::WRONLY | OFlags::CREATE)?;
        written.set_len(0)?;
        written.write_all(text.as_bytes())?;
        Ok(renameat(&dir, &passing, &dir, file(driver))?)
    }
}

/// Measures a driver's figures and keeps them for its next starts.
///
/// # Errors
/// As for [`Measured::take`]; there is nowhere to keep them.
pub fn calibrate(driver: &str, threads: usize) -> Result<Measured> {
    let dir = state_dir().ok_or_else(|| HalError::failure("there is no directory for state"))?;
    let measured = Measured::take(threads)?;
    measured.store(&dir, driver).map_err(|error| {
        HalError::failure(format!("keeping the figures in {}: {error}", dir.display()))
    })?;
    Ok(measured)
}

/// What was kept for a driver by [`calibrate`], if it ever was.
pub fn calibrated(driver: &str) -> Option<Measured> {
    Measured::load(&state_dir()?, driver)
}

/// Where figures are kept: the setting `state-dir` (`NNBURST_STATE_DIR`), a service manager's `STATE_DIRECTORY`, or `nnburst` in the
/// user's directory for state; `None` for a user without any.
pub fn state_dir() -> Option<PathBuf> {
    let set = |name| environment(name).map(PathBuf::from);
    let own = || set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    nnburst_hal::setting("state-dir")
        .map(PathBuf::from)
        .or_else(|| set("STATE_DIRECTORY"))
        .or_else(|| Some(own()?.join("nnburst")))
}

fn file(driver: &str) -> String {
    format!("{driver}.figures")
}

/// Expand, depthwise, project: `[1, 28, 28, 32]` in and out.
fn block(kind: OperandType) -> Model {
    let quantised = kind == OperandType::TensorQuant8Asymm;
    let (mut operands, mut values) = (Vec::new(), Vec::new());
    let mut add = |operand: Operand| {
        operands.push(operand);
        u32::try_from(operands.len() - 1).unwrap_or(u32::MAX)
    };
    let tensor = |dimensions: &[u32], lifetime| {
        let operand = Operand::tensor(kind, dimensions.to_vec()).with_lifetime(lifetime);
        let consumers = u32::from(lifetime != OperandLifeTime::SubgraphOutput);
        let operand = Operand { number_of_consumers: consumers, ..operand };
        if quantised { operand.with_quantization(0.02, 128) } else { operand }
    };
    let mut constant = |operand: Operand, pattern: &[u8]| {
        let length = operand.data_size().unwrap_or(0);
        let offset = u32::try_from(values.len()).unwrap_or(u32::MAX);
        values.extend(pattern.iter().cycle().take(length));
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let location = DataLocation { pool_index: 0, offset, length };
        let lifetime = OperandLifeTime::ConstantCopy;
        Operand { location, lifetime, number_of_consumers: 1, ..operand }
    };
    let (wide, narrow) = (192, 32);
    let input = add(tensor(&[1, 28, 28, narrow], OperandLifeTime::SubgraphInput));
    let mut last = input;
    let mut operations = Vec::new();
    let layers = [
        (OperationType::Conv2d, [wide, 1, 1, narrow], wide),
        (OperationType::DepthwiseConv2d, [1, 3, 3, wide], wide),
        (OperationType::Conv2d, [narrow, 1, 1, wide], narrow),
    ];
    for (at, (operation, filter, channels)) in layers.into_iter().enumerate() {
        let copied = OperandLifeTime::ConstantCopy;
        let weight = if quantised { vec![131, 120, 128] } else { 0.05f32.to_le_bytes().to_vec() };
        let filter = add(constant(tensor(&filter, copied), &weight));
        let bias = match quantised {
            false => Operand::tensor(kind, vec![channels]),
            true => Operand::tensor(OperandType::TensorInt32, vec![channels])
                .with_quantization(0.02 * 0.02, 0),
        };
        let bias = add(constant(bias, &[0]));
        let mut inputs = vec![last, filter, bias];
        // SAME padding, strides of 1, a depth multiplier of 1 where there is one, no activation.
        let multiplier = (operation == OperationType::DepthwiseConv2d).then_some(1);
        for number in [1, 1, 1].into_iter().chain(multiplier).chain([0i32]) {
            let scalar = Operand::scalar(OperandType::Int32);
            inputs.push(add(constant(scalar, &number.to_le_bytes())));
        }
        let is_last = at == layers.len() - 1;
        let lifetime = match is_last {
            true => OperandLifeTime::SubgraphOutput,
            false => OperandLifeTime::TemporaryVariable,
        };
        last = add(tensor(&[1, 28, 28, channels], lifetime));
        operations.push(Operation { kind: operation, inputs, outputs: vec![last] });
    }
    let (input_indexes, output_indexes) = (vec![input], vec![last]);
    let main = Subgraph { operands, operations, input_indexes, output_indexes };
    Model { main, operand_values: values, ..Model::default() }
}

/// Time and processor time of this many threads, as shares of what one takes.
fn figures(model: &Model, kind: OperandType, threads: usize) -> Result<PerformanceInfo> {
    let plan = |threads| {
        let options = CompileOptions { threads, ..CompileOptions::default() };
        Plan::compile(model, &options).map_err(HalError::from)
    };
    let mut sessions = [plan(1)?.session(), plan(threads)?.session()];
    let bytes = 28 * 28 * 32 * kind.element_bytes().unwrap_or(4);
    let (input, mut output) = (vec![0; bytes], vec![0; bytes]);
    let mut taken = [[(); RUNS]; 2].map(|runs| runs.map(|()| [Duration::ZERO; 2]));
    for run in 0..RUNS {
        for (session, taken) in sessions.iter_mut().zip(&mut taken) {
            let before = clocks();
            session
                .run(
                    &[Input::new(View::of(&input))],
                    &[Output::new(ViewMut::of(&mut output))],
                    &Control::default(),
                )
                .map_err(HalError::from)?;
            let after = clocks();
            if let Some(taken) = taken.get_mut(run) {
                *taken = [0, 1].map(|clock| after[clock].saturating_sub(before[clock]));
            }
        }
    }
    let middle = |runs: &[[Duration; 2]; RUNS], clock: usize| {
        let mut times = runs.map(|run| run[clock]);
        times.sort();
        times[RUNS / 2].max(Duration::from_nanos(1))
    };
    let [one, many] = &taken;
    let share = |clock| middle(many, clock).div_duration_f32(middle(one, clock));
    Ok(PerformanceInfo { exec_time: share(0), power_usage: share(1) })
}

/// Time, and this process's time on processors.
fn clocks() -> [Duration; 2] {
    [ClockId::Monotonic, ClockId::ProcessCPUTime].map(|clock| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
        let whole = Duration::from_secs(tv_sec.unsigned_abs());
        whole + Duration::from_nanos(tv_nsec.unsigned_abs())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_measured_and_stay() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("state");
        assert_eq!(Measured::load(&dir, "one"), None);
        let measured = Measured::take(2).unwrap();
        for info in [measured.float, measured.other] {
            assert!(info.exec_time > 0.0 && info.power_usage > 0.0, "{info:?}");
        }
        measured.store(&dir, "one").unwrap();
        assert_eq!(Measured::load(&dir, "one"), Some(measured));
        assert_eq!(Measured::load(&dir, "two"), None);
        for text in ["", "float 1 1\n", "float 1 1\nother 1 -1\n", "float 1 1\nother 1 1 1\n", "\0"]
        {
            std::fs::write(dir.join(file("one")), text).unwrap();
            assert_eq!(Measured::load(&dir, "one"), None, "{text:?}");
        }
    }
}
