//! The interfaces: what a driver offers and what a client is called back with.
//!
//! A driver implements the newest form, 1.3; objects are shared by reference and their methods may
//! be called from several threads at once. Dropping the last reference releases what the object
//! holds.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use nnburst_fmq::Descriptor;

use crate::diagnostics::Latencies;
use crate::error::{HalError, Result};
use crate::memory::{Memory, View, ViewMut};
use crate::types::{
    BufferDesc, BufferRole, BurstFigures, BurstOptions, BurstTerms, CacheFiles, CacheHandles,
    Capabilities, DeviceStatus, DeviceType, ErrorStatus, ExecutionPreference, ExecutionResult,
    Extension, MeasureTiming, Model, ModelFigures, OutputShape, Priority, Request, RequestPool,
    TimePoint, Timing, Version,
};

/// The options of a preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PrepareOptions {
    /// The user's execution preference.
    pub preference: ExecutionPreference,
    /// Among the models of one client.
    pub priority: Priority,
    /// When the result is of no use any more.
    pub deadline: Option<TimePoint>,
}

impl Default for PrepareOptions {
    fn default() -> Self {
        Self {
            preference: ExecutionPreference::FastSingleAnswer,
            priority: Priority::Medium,
            deadline: None,
        }
    }
}

/// The options of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExecutionOptions {
    /// True if [`Timing`] is wanted.
    pub measure: MeasureTiming,
    /// When the result is of no use any more.
    pub deadline: Option<TimePoint>,
    /// The time that a WHILE may run; [`crate::DEFAULT_LOOP_TIMEOUT`] where nothing is said.
    pub loop_timeout: Option<Duration>,
}

impl Default for ExecutionOptions {
    fn default() -> Self {
        Self { measure: MeasureTiming::No, deadline: None, loop_timeout: None }
    }
}

/// `IDevice`: a driver.
pub trait Device: Send + Sync {
    /// The newest version of the interface that the driver speaks: of an older driver's wrapper the
    /// driver's own, by default the newest there is.
    fn interface_version(&self) -> Version {
        Version::V1_3
    }

    /// Performance figures; constant for the life of the installation.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn capabilities(&self) -> Result<Capabilities>;

    /// The driver's version: not empty, different for every version of it.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn version_string(&self) -> Result<String>;

    /// Returns the kind of device that computes.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn device_type(&self) -> Result<DeviceType>;

    /// Returns whether the driver can be used now; by default it can.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn status(&self) -> Result<DeviceStatus> {
        Ok(DeviceStatus::Available)
    }

    /// The extensions whose every operation and type the driver supports; by default none.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn supported_extensions(&self) -> Result<Vec<Extension>> {
        Ok(Vec::new())
    }

    /// For each operation of the main graph, whether the driver would take it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an invalid model.
    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>>;

    /// Returns the number of cache files that the driver wants; none of either kind, as by default,
    /// means that it doesn't cache.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        Ok(CacheFiles::default())
    }

    /// Starts preparing a model; `callback` is told exactly once how it ended, on every path.
    ///
    /// # Errors
    /// The arguments are wrong or the work could not be started; the callback was told the same.
    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()>;

    /// Starts loading a model from the files that an earlier preparation wrote.
    ///
    /// # Errors
    /// As for [`Device::prepare_model`]; `GENERAL_FAILURE` where the cache is of no use, and from
    /// drivers without caching, as by default.
    fn prepare_model_from_cache(
        &self,
        deadline: Option<TimePoint>,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        drop((deadline, cache));
        let error = HalError::failure("the driver caches nothing");
        callback.notify(Err(error.clone()));
        Err(error)
    }

    /// Makes a driver-managed buffer for the given inputs and outputs of prepared models.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for roles that don't fit together, `GENERAL_FAILURE` where unsupported,
    /// as by default.
    fn allocate(
        &self,
        desc: &BufferDesc,
        models: &[Arc<dyn PreparedModel>],
        input_roles: &[BufferRole],
        output_roles: &[BufferRole],
    ) -> Result<Arc<dyn Buffer>> {
        let _ = (desc, models, input_roles, output_roles);
        Err(HalError::failure("the driver has no buffers"))
    }
}

/// `IPreparedModel`: a model ready to run.
pub trait PreparedModel: Send + Sync + std::any::Any {
    /// Executes and returns when done.
    ///
    /// # Errors
    /// A status and, with `OUTPUT_INSUFFICIENT_SIZE`, the shapes.
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult;

    /// Launches an execution; `callback` is told exactly once how it ended, on every path. By
    /// default it is over when this returns.
    ///
    /// # Errors
    /// The request is invalid or could not be launched; the callback was told the same.
    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        let result = self.execute_synchronously(&request, options);
        let launched = match &result {
            Err(failure) if failure.error.status == ErrorStatus::InvalidArgument => {
                Err(failure.error.clone())
            }
            _ => Ok(()),
        };
        callback.notify(result);
        launched
    }

    /// Launches an execution that starts once every fence in `wait_for` is signalled. `duration`
    /// counts from the last of them.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a bad request, an output without a full shape, or a fence in error.
    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        duration: Option<Duration>,
    ) -> Result<FencedExecution>;

    /// Makes a request ready to be executed again and again by callers in this process: its
    /// arguments are checked. Nothing, as by default, where the model has no way that is shorter
    /// than [`PreparedModel::execute_synchronously`], or where that would refuse the request.
    fn reusable_execution(&self, request: &Request) -> Option<Box<dyn ReusableExecution>> {
        let _ = request;
        None
    }

    /// The way to execute on the caller's own memory, for callers in this process. Nothing, as by
    /// default, where the model can't.
    fn execution_in_place(&self) -> Option<Box<dyn ExecutionInPlace>> {
        None
    }

    /// Returns whether [`PreparedModel::execute_fenced`] only launches: it returns while fences are
    /// yet to signal, and gives up when its client is gone. By default it doesn't, and may wait
    /// where it was called; whoever carries the calls of other processes then waits for the fences
    /// first, in its own time, and calls it without them.
    fn waits_in_background(&self) -> bool {
        false
    }

    /// Opens a burst over two queues of the client's making: requests come in through the first,
    /// answers go out through the second. Both need an event flag.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` for a queue that can't be used, and from drivers without bursts, as by
    /// default.
    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        drop((callback, request_channel, result_channel, options));
        Err(HalError::failure("the driver has no bursts"))
    }

    /// Returns the figures of its executions outside bursts, where the driver keeps them; by
    /// default it doesn't.
    fn figures(&self) -> Option<ModelFigures> {
        None
    }

    /// The driver's own object, for drivers that are handed their models back.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A request that was made ready to be executed many times, one execution at a time; `IExecution`
/// of later versions of the interface. It holds its model, and none of its memories.
pub trait ReusableExecution: Send + Sync {
    /// Executes with these pools, in the places of those that the request had, and returns when
    /// done. They may be other memories; what doesn't fit them is an error. Where all shapes are
    /// known, nothing is allocated from the second time on.
    ///
    /// # Errors
    /// As for [`PreparedModel::execute_synchronously`]; `INVALID_ARGUMENT` for a driver's buffer
    /// among the pools.
    fn compute(&mut self, pools: &[RequestPool], options: &ExecutionOptions) -> Result<Timing>;

    /// The outputs' shapes after the last execution, where it succeeded or ended with
    /// `OUTPUT_INSUFFICIENT_SIZE`.
    fn output_shapes(&self) -> &[OutputShape];
}

/// Executions on memory that belongs to the caller, one at a time: no request, no memory that is
/// mapped, no copies.
pub trait ExecutionInPlace: Send + Sync {
    /// Executes with a view for each argument of the model, of the shape that the model gives it,
    /// and returns when done. Views of outputs overlap with no other.
    ///
    /// # Errors
    /// As for [`PreparedModel::execute_synchronously`]; the outputs are then undefined.
    fn compute(
        &mut self,
        inputs: &[View<'_>],
        outputs: &[ViewMut<'_>],
        options: &ExecutionOptions,
    ) -> Result<Timing>;
}

/// A launched fenced execution.
pub struct FencedExecution {
    /// Signals at completion; `None` where the execution is already complete.
    pub sync_fence: Option<OwnedFd>,
    /// Tells how it went.
    pub callback: Arc<dyn FencedExecutionCallback>,
}

impl FencedExecution {
    /// One that is complete already, having taken this long.
    pub fn complete(timing: FencedTiming) -> Self {
        struct Complete(FencedTiming);
        impl FencedExecutionCallback for Complete {
            fn execution_info(&self) -> Result<FencedTiming> {
                Ok(self.0)
            }
        }
        Self { sync_fence: None, callback: Arc::new(Complete(timing)) }
    }
}

impl std::fmt::Debug for FencedExecution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FencedExecution")
            .field("sync_fence", &self.sync_fence)
            .finish_non_exhaustive()
    }
}

/// `IPreparedModelCallback`.
pub trait PreparedModelCallback: Send + Sync {
    /// The preparation ended.
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>);
}

/// `IExecutionCallback`.
pub trait ExecutionCallback: Send + Sync {
    /// The execution ended.
    fn notify(&self, result: ExecutionResult);
}

/// The two measurements of a fenced execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FencedTiming {
    /// From the call.
    pub launched: Timing,
    /// From the last fence's signal.
    pub fenced: Timing,
}

/// `IFencedExecutionCallback`.
pub trait FencedExecutionCallback: Send + Sync {
    /// Returns the result of the execution.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` before completion, else the execution's own error.
    fn execution_info(&self) -> Result<FencedTiming>;

    /// Asks the driver whether it is there: to be called now and then while its fence is waited
    /// for. One in this process always is.
    ///
    /// # Errors
    /// `DEVICE_UNAVAILABLE`.
    fn check_driver(&self) -> Result<()> {
        Ok(())
    }
}

/// `IBurstContext`: the driver's end of a burst; dropping it ends the burst.
pub trait BurstContext: Send + Sync {
    /// Drops what is cached for a slot; unknown slots are ignored.
    ///
    /// Returns once no later packet can reach what was cached: the client may then use the number
    /// again.
    fn free_memory(&self, slot: i32);

    /// As [`Self::free_memory`]; returns whether the driver has confirmed it. One in another
    /// process may not answer in time: then the number is not used again until a later call was
    /// confirmed.
    fn try_free_memory(&self, slot: i32) -> bool {
        self.free_memory(slot);
        true
    }

    /// Returns the part of the [`BurstOptions`] that the driver agreed to; by default the original
    /// protocol.
    fn terms(&self) -> BurstTerms {
        BurstTerms::default()
    }

    /// Returns the burst's figures, where the driver keeps them.
    fn figures(&self) -> Option<BurstFigures> {
        None
    }

    /// Returns the times that requests took in the driver, where it counts them in this process.
    fn times(&self) -> Option<Latencies> {
        None
    }
}

/// `IBurstCallback`: the client's end of a burst's control.
pub trait BurstCallback: Send + Sync {
    /// The memories behind slots, in the order asked.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if any slot is unknown or freed.
    fn memories(&self, slots: &[i32]) -> Result<Vec<Memory>>;

    /// Takes note that the driver's end keeps nothing for these slots any more, to make room for
    /// others. It asks for their memories again when they are used.
    fn forgotten(&self, slots: &[i32]) {
        let _ = slots;
    }

    /// Returns whether the client waits for an answer of the burst: whoever carries the burst's
    /// calls then makes sure that the driver is there.
    fn awaits_answer(&self) -> bool {
        false
    }
}

/// `IBuffer`: a driver-managed buffer; dropping it frees its token.
pub trait Buffer: Send + Sync {
    /// Returns the token that stands for the buffer in a request; not 0.
    fn token(&self) -> u32;

    /// Bytes of the driver's memory that the buffer takes, which count against its client's limit.
    fn size(&self) -> u64 {
        0
    }

    /// Returns whether the driver that made it is gone; of one in this process it never is.
    fn is_lost(&self) -> bool {
        false
    }

    /// Copies the content out.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` where nothing was ever written, `INVALID_ARGUMENT` for a memory of another
    /// size.
    fn copy_to(&self, destination: &Memory) -> Result<()>;

    /// Copies content in; `dimensions` may be empty only where the buffer's shape is fully known.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a memory or shape that doesn't fit; the buffer then counts as
    /// unwritten.
    fn copy_from(&self, source: &Memory, dimensions: &[u32]) -> Result<()>;
}

/// Prepares a model and waits for the end of it.
///
/// # Errors
/// What the driver answered, or told the callback.
pub fn wait_for_prepared_model(
    launch: impl FnOnce(Arc<dyn PreparedModelCallback>) -> Result<()>,
) -> Result<Arc<dyn PreparedModel>> {
    let slot = Arc::new(FirstAnswer::default());
    launch(Arc::clone(&slot) as Arc<dyn PreparedModelCallback>)?;
    slot.wait()
}

/// Keeps the first answer; repeats are ignored, as the reference's callbacks do.
#[derive(Default)]
struct FirstAnswer {
    answer: Mutex<Option<Result<Arc<dyn PreparedModel>>>>,
    told: Condvar,
}

impl PreparedModelCallback for FirstAnswer {
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>) {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.get_or_insert(result);
        self.told.notify_all();
    }
}

impl FirstAnswer {
    fn wait(&self) -> Result<Arc<dyn PreparedModel>> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match answer.take() {
                Some(result) => return result,
                None => {
                    answer = self.told.wait(answer).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// A memory that can't be mapped fails the work that needs it, as the HAL recommends; one for which
/// its client has no budget left exhausts that, and where the system is out of something a later
/// try may do.
impl From<crate::memory::MemoryError> for HalError {
    fn from(error: crate::memory::MemoryError) -> Self {
        use crate::memory::MemoryError;
        let status = match error {
            MemoryError::Exhausted(error) => return error.into(),
            MemoryError::TooManyGuards { .. } => ErrorStatus::ResourceExhaustedTransient,
            MemoryError::System { errno, .. } => Self::status_of_errno(errno as i32),
            _ => ErrorStatus::GeneralFailure,
        };
        Self::new(status, error.to_string())
    }
}
