//! Prepared models: executions at once, in the background, behind fences and in bursts.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst_burst::BurstServer;
use nnburst_fmq::Descriptor;
use nnburst_hal::{
    AllowUnspecifiedOutput, BurstCallback, BurstContext, BurstOptions, ExecutionCallback,
    ExecutionFailure, ExecutionInPlace, ExecutionOptions, ExecutionResult, FencedExecution,
    HalError, MeasureTiming, ModelFigures, PreparedModel, RealTimeProfile, Request, Result,
    ReusableExecution,
};

use crate::burst::CpuBurst;
use crate::compiled::Compiled;
use crate::execution;
use crate::fenced;
use crate::in_place::InPlace;
use crate::refusal::no_thread;
use crate::reusable::Reusable;
use crate::shared::DriverState;

/// A prepared model of the driver.
#[derive(Debug)]
pub(crate) struct CpuPreparedModel(Arc<Compiled>);

impl CpuPreparedModel {
    pub(crate) fn new(compiled: Arc<Compiled>) -> Self {
        Self(compiled)
    }

    /// The model behind an object that a driver is handed back, if it is that driver's own.
    pub(crate) fn of(
        model: &dyn PreparedModel,
        shared: &Arc<DriverState>,
    ) -> Option<Arc<Compiled>> {
        let compiled = &model.as_any().downcast_ref::<Self>()?.0;
        Arc::ptr_eq(&compiled.shared, shared).then(|| Arc::clone(compiled))
    }
}

impl PreparedModel for CpuPreparedModel {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        let (asked, began) = (self.0.asked(), self.0.clock(&options));
        let result = execution::check(&self.0, request, AllowUnspecifiedOutput::Yes)
            .and_then(|()| self.0.check_deadline(&options, Duration::ZERO))
            .map_err(ExecutionFailure::from)
            .and_then(|()| self.0.execute(request, &options, began));
        asked.end(error_of(&result));
        result
    }

    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        let (asked, launched) = (self.0.asked(), Instant::now());
        let checked = execution::check(&self.0, &request, AllowUnspecifiedOutput::Yes);
        let told = Arc::clone(&callback);
        let compiled = Arc::clone(&self.0);
        let accepted = checked.and_then(|()| {
            let task = move || {
                let in_time = compiled.check_deadline(&options, launched.elapsed());
                let mut result = in_time
                    .map_err(ExecutionFailure::from)
                    .and_then(|()| compiled.execute(&request, &options, compiled.clock(&options)));
                if let (Ok(outcome), MeasureTiming::Yes) = (&mut result, options.measure) {
                    outcome.timing.time_in_driver = execution::microseconds(launched);
                }
                asked.end(error_of(&result));
                callback.notify(result);
            };
            let accepted = self.0.client().executions(self.0.priority()).submit(task);
            accepted.then_some(()).ok_or_else(|| no_thread("the execution"))
        });
        accepted.inspect_err(|error| told.notify(Err(error.clone().into())))
    }

    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        fenced::launch(&self.0, request, wait_for, options, duration)
    }

    fn reusable_execution(&self, request: &Request) -> Option<Box<dyn ReusableExecution>> {
        Some(Box::new(Reusable::new(&self.0, request)?))
    }

    fn execution_in_place(&self) -> Option<Box<dyn ExecutionInPlace>> {
        Some(Box::new(InPlace::new(&self.0)))
    }

    fn waits_in_background(&self) -> bool {
        true
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        self.0.check_origin()?;
        if !self.0.client().trusted && options.real_time != RealTimeProfile::default() {
            return Err(HalError::invalid(
                "real-time profiles are for clients of the driver's user",
            ));
        }
        let executor = Box::new(CpuBurst::new(Arc::clone(&self.0))?);
        let server = BurstServer::create(
            callback,
            request_channel,
            result_channel,
            executor,
            &options,
            None,
        )?;
        Ok(Arc::new(server))
    }

    fn figures(&self) -> Option<ModelFigures> {
        self.0.figures()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn error_of(result: &ExecutionResult) -> Option<&HalError> {
    result.as_ref().err().map(|failure| &failure.error)
}

#[cfg(test)]
mod tests {
    use nnburst_burst::BurstExecutor;
    use nnburst_burst::packet::{BurstAnswer, BurstPool, BurstRequest};
    use nnburst_hal::testing::{relu_model, relu_request};
    use nnburst_hal::{CacheHandles, ErrorStatus, PrepareOptions, wait_for_prepared_model};

    use super::*;
    use crate::compiled::PATIENCE;
    use crate::{CpuDriver, CpuDriverOptions};

    fn prepared(options: &CpuDriverOptions) -> Arc<dyn PreparedModel> {
        let device = CpuDriver::new(*options).device();
        wait_for_prepared_model(|callback| {
            let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
            device.prepare_model(relu_model(&[2]), options, cache, callback)
        })
        .unwrap()
    }

    #[test]
    fn warm_up_runs_leave_the_clients_memory_alone_and_can_be_turned_off() {
        for keep_warm in [true, false] {
            let model = prepared(&CpuDriverOptions { keep_warm, ..CpuDriverOptions::default() });
            let compiled = &model.as_any().downcast_ref::<CpuPreparedModel>().unwrap().0;
            let mut burst = CpuBurst::new(Arc::clone(compiled)).unwrap();
            let (request, memory) = relu_request(&[1.0, -1.0]).unwrap();
            let mapping = memory.mapped().unwrap();
            let output = || mapping.view_mut(8..16).unwrap();
            burst.add(0, &memory);
            // As a packet says it, without pools.
            let received = || BurstRequest {
                request: Request { pools: Vec::new(), ..request.clone() },
                pools: vec![BurstPool::Slot(0)],
                ..BurstRequest::default()
            };
            let mut answer = BurstAnswer::default();
            let warm_up = |burst: &mut CpuBurst| {
                let mut asked = 0;
                burst.warm_up(&mut received(), &mut BurstAnswer::default(), &mut || {
                    asked += 1;
                    false
                });
                asked
            };
            assert_eq!(warm_up(&mut burst), 0, "nothing was executed yet");
            for _ in 0..2 {
                burst.execute(&mut received(), &mut answer);
                assert_eq!(answer.status, ErrorStatus::None);
                assert_eq!(output().as_view().to_vec(), [0, 0, 128, 63, 0, 0, 0, 0]);
                output().copy_from_slice(&[9; 8]);
                assert_eq!(warm_up(&mut burst), u32::from(keep_warm), "its one step");
                assert_eq!(output().as_view().to_vec(), [9; 8]);
            }
            burst.remove(0);
            assert_eq!(warm_up(&mut burst), 0, "the memory was freed");
        }
    }

    #[test]
    fn a_model_that_rested_works_again() {
        let model = prepared(&CpuDriverOptions::default());
        let compiled = &model.as_any().downcast_ref::<CpuPreparedModel>().unwrap().0;
        let spare = || compiled.spare_sessions();
        let (request, _memory) = relu_request(&[1.0, -1.0]).unwrap();
        let execute = || model.execute_synchronously(&request, ExecutionOptions::default());
        for _ in 0..2 {
            for _ in 0..PATIENCE {
                compiled.release_idle();
                assert_eq!(spare(), 1, "not idle for long enough");
            }
            compiled.release_idle();
            assert_eq!(spare(), 0);
            execute().unwrap();
            assert_eq!(spare(), 1);
            compiled.release_idle();
            execute().unwrap();
        }
    }
}
