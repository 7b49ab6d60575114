//! Prepared models: executions at once, in the background, behind fences and in bursts.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nnburst_burst::BurstServer;
use nnburst_executor::{Plan, Session};
use nnburst_fmq::Descriptor;
use nnburst_hal::{
    AllowUnspecifiedOutput, BurstCallback, BurstContext, BurstOptions, ErrorStatus,
    ExecutionCallback, ExecutionFailure, ExecutionOptions, ExecutionOutcome, ExecutionResult,
    FencedExecution, FencedExecutionCallback, FencedTiming, HalError, MeasureTiming, Model,
    PreparedModel, Priority, Request, Result, TimePoint, Timing,
};

use crate::buffer::Buffers;
use crate::burst::SampleBurst;
use crate::device::{Client, Shared};
use crate::execution;
use crate::fence::{self, Signal};
use crate::priority::Running;

/// Sessions that wait for the next execution; more are dropped.
const SPARE_SESSIONS: usize = 4;

/// A model, compiled, with what its executions share.
#[derive(Debug)]
pub(crate) struct Compiled {
    id: u64,
    /// Without its constants: what requests are held against.
    model: Model,
    plan: Plan,
    /// With the time since when each waits; the latest at the end.
    spare: Mutex<Vec<(Instant, Session)>>,
    shared: Arc<Shared>,
    client: Arc<Client>,
    priority: Priority,
    /// Nanoseconds of the quickest run so far; 0 before the first.
    quickest: AtomicU64,
}

impl Compiled {
    pub(crate) fn new(
        id: u64,
        model: Model,
        plan: Plan,
        shared: Arc<Shared>,
        client: Arc<Client>,
        priority: Priority,
    ) -> Self {
        // The first execution finds its memory made.
        let spare = Mutex::new(vec![(Instant::now(), plan.session())]);
        let quickest = AtomicU64::new(0);
        Self { id, model, plan, spare, shared, client, priority, quickest }
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

    /// Set when nobody waits for results any more.
    pub(crate) fn gone(&self) -> &AtomicBool {
        &self.client.gone
    }

    /// Counts an execution in among those of the client; it is passed between steps.
    pub(crate) fn begin(&self) -> Running<'_> {
        self.client.priorities.begin(self.priority)
    }

    /// Whether no run so far was quick enough for what is left.
    pub(crate) fn is_too_late(&self, deadline: TimePoint) -> bool {
        // Relaxed, here and below: an estimate, whichever run it is of.
        deadline.remaining() < Duration::from_nanos(self.quickest.load(Ordering::Relaxed))
    }

    /// Notes how long a run took.
    pub(crate) fn took(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        let quickest = self.quickest.load(Ordering::Relaxed);
        if quickest == 0 || nanoseconds < quickest {
            self.quickest.store(nanoseconds, Ordering::Relaxed);
        }
    }

    pub(crate) fn session(&self) -> Session {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(|| self.plan.session(), |(_, session)| session)
    }

    /// Gives back the scratch memory that was not used for as long as `idle`.
    pub(crate) fn release_idle(&self, idle: Duration) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.retain(|(since, _)| since.elapsed() < idle);
    }

    fn give_back(&self, session: Session) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_SESSIONS {
            spare.push((Instant::now(), session));
        }
    }

    /// Executes a request that was checked. A panic costs this execution its result and its session.
    fn execute(
        &self,
        request: &Request,
        options: &ExecutionOptions,
        began: Instant,
    ) -> ExecutionResult {
        catch_unwind(AssertUnwindSafe(|| self.execute_inner(request, options, began)))
            .unwrap_or_else(|_| Err(HalError::failure("the driver panicked").into()))
    }

    fn execute_inner(
        &self,
        request: &Request,
        options: &ExecutionOptions,
        began: Instant,
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
        self.shared.idle.forget();
    }
}

/// A prepared model of a sample driver.
#[derive(Debug)]
pub(crate) struct SamplePreparedModel(Arc<Compiled>);

impl SamplePreparedModel {
    pub(crate) fn new(compiled: Arc<Compiled>) -> Self {
        compiled.shared.idle.watch(&compiled);
        Self(compiled)
    }

    /// The model behind an object that a driver is handed back, if it is that driver's own.
    pub(crate) fn of(model: &dyn PreparedModel, shared: &Arc<Shared>) -> Option<Arc<Compiled>> {
        let compiled = &model.as_any().downcast_ref::<Self>()?.0;
        Arc::ptr_eq(&compiled.shared, shared).then(|| Arc::clone(compiled))
    }
}

impl PreparedModel for SamplePreparedModel {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        let began = Instant::now();
        execution::check(&self.0, request, AllowUnspecifiedOutput::Yes)?;
        self.0.execute(request, &options, began)
    }

    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        let began = Instant::now();
        let checked = execution::check(&self.0, &request, AllowUnspecifiedOutput::Yes);
        let told = Arc::clone(&callback);
        let compiled = Arc::clone(&self.0);
        let launched = checked.and_then(|()| {
            let task = move || callback.notify(compiled.execute(&request, &options, began));
            let accepted = self.0.client.executions(self.0.priority).submit(task);
            accepted.then_some(()).ok_or_else(|| HalError::failure("no thread for the execution"))
        });
        launched.inspect_err(|error| told.notify(Err(error.clone().into())))
    }

    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        let launched = Instant::now();
        execution::check(&self.0, &request, AllowUnspecifiedOutput::No)?;
        if options.deadline.is_some_and(TimePoint::has_passed) {
            let status = ErrorStatus::MissedDeadlinePersistent;
            return Err(HalError::new(status, "the deadline had passed before the call"));
        }
        for fence in &wait_for {
            fence::check(fence)?;
        }
        let (sync_fence, signal) = Signal::new()?;
        let info = Arc::new(FencedInfo::default());
        let task = FencedTask { request, wait_for, options, duration, launched };
        let (compiled, told) = (Arc::clone(&self.0), Arc::clone(&info));
        spawn(move || {
            let result = task.run(&compiled);
            let good = result.is_ok();
            told.tell(result);
            // Without a signal the fence turns to error.
            if good {
                signal.signal();
            }
        })?;
        Ok(FencedExecution { sync_fence: Some(sync_fence), callback: info })
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        let executor = Box::new(SampleBurst::new(Arc::clone(&self.0)));
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

/// Runs a task on a thread of its own, because it waits for fences, maybe for those of tasks behind it.
/// Clients are limited in how many they launch.
fn spawn(task: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name("nnburst-execute".into())
        .spawn(task)
        .map(drop)
        .map_err(|error| HalError::failure(format!("no thread for the execution: {error}")))
}

/// A fenced execution on its way.
struct FencedTask {
    request: Request,
    wait_for: Vec<OwnedFd>,
    options: ExecutionOptions,
    duration: Option<Duration>,
    launched: Instant,
}

impl FencedTask {
    fn run(mut self, compiled: &Compiled) -> Result<FencedTiming> {
        for fence in &self.wait_for {
            fence::wait(fence, self.options.deadline, compiled.gone())?;
        }
        let fenced = Instant::now();
        if let Some(duration) = self.duration {
            let end = TimePoint::after(duration);
            self.options.deadline =
                Some(self.options.deadline.map_or(end, |deadline| deadline.min(end)));
        }
        let outcome = compiled
            .execute(&self.request, &self.options, fenced)
            .map_err(|failure| failure.error)?;
        if self.options.measure == MeasureTiming::No {
            return Ok(FencedTiming::default());
        }
        let launched = Timing {
            time_on_device: outcome.timing.time_on_device,
            time_in_driver: execution::microseconds(self.launched),
        };
        Ok(FencedTiming { launched, fenced: outcome.timing })
    }
}

/// How a fenced execution went, once it is over.
#[derive(Debug, Default)]
struct FencedInfo(Mutex<Option<Result<FencedTiming>>>);

impl FencedInfo {
    fn tell(&self, result: Result<FencedTiming>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }
}

impl FencedExecutionCallback for FencedInfo {
    fn execution_info(&self) -> Result<FencedTiming> {
        let info = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        info.clone().unwrap_or_else(|| Err(HalError::failure("the execution is not over yet")))
    }
}

#[cfg(test)]
mod tests {
    use nnburst_hal::testing::{relu_model, relu_request};
    use nnburst_hal::{CacheHandles, PrepareOptions, wait_for_prepared_model};

    use super::*;
    use crate::{Options, SampleDriver};

    #[test]
    fn a_model_that_rested_works_again() {
        let device = SampleDriver::new("nnapi-sample_all", Options::default()).unwrap().device();
        let model = wait_for_prepared_model(|callback| {
            let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
            device.prepare_model(relu_model(&[2]), options, cache, callback)
        })
        .unwrap();
        let compiled = &model.as_any().downcast_ref::<SamplePreparedModel>().unwrap().0;
        let spare = || compiled.spare.lock().unwrap().len();
        compiled.release_idle(Duration::from_secs(600));
        assert_eq!(spare(), 1, "not idle for long enough");
        compiled.release_idle(Duration::ZERO);
        assert_eq!(spare(), 0);
        let (request, _memory) = relu_request(&[1.0, -1.0]).unwrap();
        model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        assert_eq!(spare(), 1);
    }
}
