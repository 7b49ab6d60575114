//! Prepared models: executions at once, in the background, behind fences and in bursts.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nnburst_burst::BurstServer;
use nnburst_executor::{Plan, Session};
use nnburst_fmq::Descriptor;
use nnburst_hal::process::Origin;
use nnburst_hal::{
    AllowUnspecifiedOutput, BurstCallback, BurstContext, BurstOptions, ErrorStatus,
    ExecutionCallback, ExecutionFailure, ExecutionOptions, ExecutionOutcome, ExecutionResult,
    FencedExecution, HalError, MeasureTiming, Model, PreparedModel, Priority, RealTimeProfile,
    Request, Result, ReusableExecution, TimePoint,
};

use crate::buffer::Buffers;
use crate::burst::CpuBurst;
use crate::device::{Client, Shared, no_thread};
use crate::estimate::Quickest;
use crate::execution;
use crate::fenced;
use crate::processor::Running;
use crate::reusable::Reusable;

/// Sessions that wait for the next execution; more are dropped.
const SPARE_SESSIONS: usize = 4;

/// Looks of the watchdog that a session may wait through: it looks twice in the time that one may
/// be idle for.
const PATIENCE: u8 = 2;

/// A session that waits for the next execution. When it began to isn't noted: every call would look
/// at the clock.
#[derive(Debug)]
struct Spare {
    session: Box<Session>,
    /// Times that the watchdog has seen it since.
    seen: u8,
}

/// A model, compiled, with what its executions share.
#[derive(Debug)]
pub(crate) struct Compiled {
    id: u64,
    /// Without its constants: what requests are held against.
    model: Model,
    plan: Plan,
    /// The latest at the end.
    spare: Mutex<Vec<Spare>>,
    shared: Arc<Shared>,
    client: Arc<Client>,
    priority: Priority,
    pub(crate) quickest: Quickest,
    /// Threads and locks of a model are of the process that prepared it.
    origin: Origin,
}

impl Compiled {
    pub(crate) fn new(
        id: u64,
        model: Model,
        plan: Plan,
        shared: Arc<Shared>,
        client: Arc<Client>,
        priority: Priority,
    ) -> Result<Self> {
        // The first execution finds its memory made.
        let session = Box::new(plan.try_session()?);
        let spare = Mutex::new(vec![Spare { session, seen: 0 }]);
        let (quickest, origin) = (Quickest::default(), Origin::here());
        Ok(Self { id, model, plan, spare, shared, client, priority, quickest, origin })
    }

    /// Fails in a child of the process that prepared the model.
    pub(crate) fn check_origin(&self) -> Result<()> {
        self.origin.check()
    }

    /// Tells models of a driver apart.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn buffers(&self) -> &Buffers {
        &self.shared.buffers
    }

    /// Returns whether bursts touch what the next request needs.
    pub(crate) fn keeps_warm(&self) -> bool {
        self.shared.keeps_warm()
    }

    /// Whose model it is.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    /// Set when nobody waits for results any more.
    pub(crate) fn gone(&self) -> &AtomicBool {
        &self.client.gone
    }

    /// Takes a place for an execution among what all users have at work.
    pub(crate) fn begin(&self, deadline: Option<TimePoint>) -> Running<'_> {
        self.client.begin(self.priority, deadline)
    }

    /// The clock, where it matters how long an execution takes: to whoever asks, has a deadline, or
    /// is the first. Of a small model's call each look at it is a tenth.
    pub(crate) fn clock(&self, options: &ExecutionOptions) -> Option<Instant> {
        let matters = options.measure == MeasureTiming::Yes
            || options.deadline.is_some()
            || self.quickest.is_unknown();
        matters.then(Instant::now)
    }

    pub(crate) fn session(&self) -> Box<Session> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(|| Box::new(self.plan.session()), |spare| spare.session)
    }

    /// As [`Self::session`], with all its memory, for whoever keeps it.
    ///
    /// # Errors
    /// The client has no memory left for it.
    pub(crate) fn kept_session(&self) -> Result<Box<Session>> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match spare {
            Some(spare) => Ok(spare.session),
            None => Ok(Box::new(self.plan.try_session()?)),
        }
    }

    /// A look of the watchdog, which gives back the scratch memory that has waited through some of
    /// them.
    pub(crate) fn release_idle(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.retain_mut(|spare| {
            spare.seen += 1;
            spare.seen <= PATIENCE
        });
    }

    pub(crate) fn give_back(&self, session: Box<Session>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_SESSIONS {
            spare.push(Spare { session, seen: 0 });
        }
    }

    /// Returns whether a deadline may be met by an execution that was asked for so long ago.
    ///
    /// # Errors
    /// As for [`Quickest::check`].
    pub(crate) fn check_deadline(
        &self,
        options: &ExecutionOptions,
        waited: Duration,
    ) -> Result<()> {
        self.quickest.check("run", 1, options.deadline, waited)
    }

    /// Executes a request that was checked. A panic costs this execution its result and its
    /// session.
    pub(crate) fn execute(
        &self,
        request: &Request,
        options: &ExecutionOptions,
        began: Option<Instant>,
    ) -> ExecutionResult {
        catch_unwind(AssertUnwindSafe(|| self.execute_inner(request, options, began)))
            .unwrap_or_else(|_| Err(HalError::failure("the driver panicked").into()))
    }

    fn execute_inner(
        &self,
        request: &Request,
        options: &ExecutionOptions,
        began: Option<Instant>,
    ) -> ExecutionResult {
        let pools = execution::map(self, request)?;
        let mut session = self.session();
        let ran = execution::run(self, &mut session, request, &pools, options, began);
        let result = match ran {
            Ok(timing) => {
                Ok(ExecutionOutcome { output_shapes: session.output_shapes().to_vec(), timing })
            }
            Err(error) if error.status == ErrorStatus::OutputInsufficientSize => {
                Err(ExecutionFailure { error, output_shapes: session.output_shapes().to_vec() })
            }
            Err(error) => Err(error.into()),
        };
        self.give_back(session);
        result
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if self.origin.is_here() {
            self.shared.idle.forget();
        }
    }
}

/// A prepared model of the driver.
#[derive(Debug)]
pub(crate) struct CpuPreparedModel(Arc<Compiled>);

impl CpuPreparedModel {
    pub(crate) fn new(compiled: Arc<Compiled>) -> Self {
        Self(compiled)
    }

    /// The model behind an object that a driver is handed back, if it is that driver's own.
    pub(crate) fn of(model: &dyn PreparedModel, shared: &Arc<Shared>) -> Option<Arc<Compiled>> {
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
        let began = self.0.clock(&options);
        execution::check(&self.0, request, AllowUnspecifiedOutput::Yes)?;
        self.0.check_deadline(&options, Duration::ZERO)?;
        self.0.execute(request, &options, began)
    }

    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        let launched = Instant::now();
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
                callback.notify(result);
            };
            let accepted = self.0.client.executions(self.0.priority).submit(task);
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
        if !self.0.client.trusted && options.real_time != RealTimeProfile::default() {
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

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use nnburst_burst::BurstExecutor;
    use nnburst_burst::packet::{BurstAnswer, BurstPool, BurstRequest};
    use nnburst_hal::testing::{relu_model, relu_request};
    use nnburst_hal::{CacheHandles, PrepareOptions, wait_for_prepared_model};

    use super::*;
    use crate::{CpuDriver, Options};

    fn prepared(options: &Options) -> Arc<dyn PreparedModel> {
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
            let model = prepared(&Options { keep_warm, ..Options::default() });
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
        let model = prepared(&Options::default());
        let compiled = &model.as_any().downcast_ref::<CpuPreparedModel>().unwrap().0;
        let spare = || compiled.spare.lock().unwrap().len();
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
