//! An open route to a driver.

use std::time::Duration;

use nnburst::{Burst, BurstOptions, Compilation, Device, DriverOptions, Frame, PrepareOptions};

use super::row::{CallRow, Route};
use crate::lab::RunPlan;
use crate::{Error, Result};

/// The driver that answers.
const DRIVER: &str = "nnapi-sample_all";

/// A model, compiled on a driver, and a burst where the route is one.
pub(super) struct Path {
    burst: Option<Burst>,
    /// Open and without work.
    idle: Vec<Burst>,
    driver: Option<u32>,
    compilation: Compilation,
    frame: Frame,
    /// Not for add1, whose time in the driver is below the microsecond that ordinary routes report
    /// it in. (Bursts tell it in nanoseconds, asked or not.)
    timed: bool,
}

impl Path {
    pub(super) fn open(plan: &RunPlan, row: &CallRow) -> Result<Self> {
        let driver = DriverOptions::default();
        let device = match row.route {
            Route::InProcess => Device::embedded_with(DRIVER, &driver)?,
            _ => Device::spawn_with(DRIVER, &driver)?,
        };
        let model = nnburst::builtin::model(row.model)?;
        let compilation = device.compile(&model, PrepareOptions::default())?;
        let frame = compilation.frame()?;
        let timed = row.model != "add1";
        let burst = match row.route {
            Route::Burst(wait) => {
                let cpu = |cpu: usize| u32::try_from(cpu).map(|cpu| vec![cpu]);
                let theirs = if row.one_cpu { plan.cpus.near } else { plan.cpus.far };
                let (cpus, driver_cpus) = (cpu(plan.cpus.near)?, cpu(theirs)?);
                let options =
                    BurstOptions { wait, cpus, driver_cpus, realtime: true, ..Default::default() };
                Some(compilation.burst(&options)?.measure(timed))
            }
            Route::Sync | Route::InProcess => None,
        };
        let driver = device.driver_process();
        Ok(Self { burst, idle: Vec::new(), driver, compilation, frame, timed })
    }

    /// Opens so many more bursts, each of which executes once and is idle from then on.
    pub(super) fn open_idle(&mut self, bursts: u32) -> Result<()> {
        for _ in 0..bursts {
            self.idle.push(self.compilation.burst(&BurstOptions::default())?);
        }
        self.call_idle()
    }

    /// Closes them.
    pub(super) fn close_idle(&mut self) {
        self.idle.clear();
    }

    /// One call of each burst that is idle otherwise.
    pub(super) fn call_idle(&mut self) -> Result<()> {
        let Self { idle, frame, .. } = self;
        idle.iter_mut().try_for_each(|burst| burst.compute(frame)).map_err(Error::from)
    }

    /// The share of a core that each idle burst takes: the driver's time over so many milliseconds,
    /// when the working burst has nothing to do either and its window is over.
    pub(super) fn idle_share(&self, ms: u64) -> Result<Option<f64>> {
        let (Some(driver), false) = (self.driver, self.idle.is_empty()) else { return Ok(None) };
        std::thread::sleep(Duration::from_millis(1100));
        let before = processor_time(driver)?;
        std::thread::sleep(Duration::from_millis(ms));
        let used = processor_time(driver)?.saturating_sub(before);
        let bursts = f64::from(u32::try_from(self.idle.len())?);
        Ok(Some(used.as_secs_f64() / Duration::from_millis(ms).as_secs_f64() / bursts))
    }

    pub(super) fn call(&mut self) -> Result<()> {
        let done = match &mut self.burst {
            Some(burst) => burst.compute(&mut self.frame),
            None => self.compilation.execution().measure(self.timed).compute(&mut self.frame),
        };
        done.map_err(Error::from)
    }

    /// The time that the last call took in the driver, by the driver's account.
    pub(super) fn time_in_driver(&self) -> Duration {
        self.frame.time_in_driver().unwrap_or_default()
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.burst.as_ref().map(|burst| burst.warnings().to_vec()).unwrap_or_default()
    }
}

/// Processor time that all threads of a process have taken.
fn processor_time(process: u32) -> Result<Duration> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let figures = std::fs::read_to_string(task?.path().join("schedstat"))?;
        total += figures.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}
