//! NNAPI's CPU device: the embedded executor under the figures that all others are relative to.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use nnburst_driver::uniform_capabilities;
use nnburst_fmq::Descriptor;
use nnburst_hal::process::{PerProcess, without_signals};
use nnburst_hal::{
    BurstCallback, BurstContext, BurstOptions, CacheHandles, Capabilities, Device as HalDevice,
    DeviceType, ExecutionCallback, ExecutionInPlace, ExecutionOptions, ExecutionResult,
    FencedExecution, FencedTiming, HalError, MeasureTiming, Model, OutputShape, PerformanceInfo,
    PrepareOptions, PreparedModel, PreparedModelCallback, Request, RequestPool, Result,
    ReusableExecution, TimePoint, Timing, View, ViewMut, unsignalled_fences,
};

use super::{Device, Home};
use crate::driver;
use crate::graphs::uses_extensions;
use crate::settings::Settings;

/// The name of the CPU device, by which clients of NNAPI know it.
pub const REFERENCE: &str = "nnapi-reference";

/// The one of this process.
pub(super) fn device() -> Device {
    static DEVICE: PerProcess<Option<Device>> = PerProcess::new();
    let make = || {
        let hal: Arc<dyn HalDevice> = Arc::new(Reference { executor: driver::exact().device() });
        Device::new(REFERENCE, Home::Here(hal))
    };
    let mut device = DEVICE.get().lock().unwrap_or_else(PoisonError::into_inner);
    device.get_or_insert_with(make).clone()
}

struct Reference {
    executor: Arc<dyn HalDevice>,
}

/// As the interface has it, the CPU device knows no extensions and keeps no cache; memory of its
/// own it doesn't need, as it can map all there is. It takes no operation of an extension, nor
/// control flow with one in its graphs, but prepares them: it stands in for drivers that fail.
impl HalDevice for Reference {
    fn capabilities(&self) -> Result<Capabilities> {
        Ok(uniform_capabilities(PerformanceInfo { exec_time: 1.0, power_usage: 1.0 }))
    }

    fn version_string(&self) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn device_type(&self) -> Result<DeviceType> {
        Ok(DeviceType::Cpu)
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        let mut taken = self.executor.supported_operations(model)?;
        for (taken, operation) in taken.iter_mut().zip(&model.main.operations) {
            *taken &= !uses_extensions(model, &model.main, operation);
        }
        Ok(taken)
    }

    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        self.executor.prepare_model(model, options, cache, Arc::new(Wrapping(callback)))
    }
}

struct Wrapping(Arc<dyn PreparedModelCallback>);

impl PreparedModelCallback for Wrapping {
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>) {
        self.0.notify(result.map(|model| Arc::new(ReferenceModel(model)) as _));
    }
}

/// The executor's model, without timing and fences: NNAPI's CPU device has neither.
struct ReferenceModel(Arc<dyn PreparedModel>);

fn unmeasured(options: ExecutionOptions) -> ExecutionOptions {
    ExecutionOptions { measure: MeasureTiming::No, ..options }
}

impl PreparedModel for ReferenceModel {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        if Settings::of_process().synchronous_reference {
            return self.0.execute_synchronously(request, unmeasured(options));
        }
        let run = || self.0.execute_synchronously(request, unmeasured(options));
        let joined = std::thread::scope(|scope| without_signals(|| scope.spawn(run)).join());
        joined.unwrap_or_else(|_| Err(HalError::failure("the executor panicked").into()))
    }

    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        self.0.execute(request, unmeasured(options), callback)
    }

    /// Runs before it returns where every fence has signalled, and gives no fence; else the
    /// executor waits for them, in the background.
    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        mut options: ExecutionOptions,
        duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        let pending = unsignalled_fences(wait_for)?;
        if !pending.is_empty() {
            return self.0.execute_fenced(request, pending, unmeasured(options), duration);
        }
        let end = duration.map(TimePoint::after);
        options.deadline = options.deadline.into_iter().chain(end).min();
        self.0
            .execute_synchronously(&request, unmeasured(options))
            .map_err(|failure| failure.error)?;
        Ok(FencedExecution::complete(FencedTiming::default()))
    }

    fn waits_in_background(&self) -> bool {
        self.0.waits_in_background()
    }

    fn reusable_execution(&self, request: &Request) -> Option<Box<dyn ReusableExecution>> {
        if !Settings::of_process().synchronous_reference {
            return None;
        }
        Some(Box::new(Unmeasured(self.0.reusable_execution(request)?)))
    }

    fn execution_in_place(&self) -> Option<Box<dyn ExecutionInPlace>> {
        if !Settings::of_process().synchronous_reference {
            return None;
        }
        Some(Box::new(Unmeasured(self.0.execution_in_place()?)))
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        self.0.configure_execution_burst(callback, request_channel, result_channel, options)
    }

    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
}

struct Unmeasured<E: ?Sized>(Box<E>);

impl ExecutionInPlace for Unmeasured<dyn ExecutionInPlace> {
    fn compute(
        &mut self,
        inputs: &[View<'_>],
        outputs: &[ViewMut<'_>],
        options: &ExecutionOptions,
    ) -> Result<Timing> {
        self.0.compute(inputs, outputs, &unmeasured(*options))
    }
}

impl ReusableExecution for Unmeasured<dyn ReusableExecution> {
    fn compute(&mut self, pools: &[RequestPool], options: &ExecutionOptions) -> Result<Timing> {
        self.0.compute(pools, &unmeasured(*options))
    }

    fn output_shapes(&self) -> &[OutputShape] {
        self.0.output_shapes()
    }
}
