//! HAL 1.2: 57 more operations, dynamic shapes, extensions, caching, synchronous executions and
//! bursts.

use std::sync::Arc;

use nnburst_fmq::Descriptor;

pub use super::downgrade::downgrade_v1_2 as downgrade;
pub use super::upgrade::upgrade_v1_2 as upgrade;
use crate::error::{HalError, Result};
/// Told of shapes and times as in 1.3, with statuses before 1.3.
pub use crate::traits::{BurstCallback, BurstContext, ExecutionCallback};
use crate::types::{
    CacheFiles, CacheHandles, DeviceStatus, DeviceType, ExecutionPreference, ExecutionResult,
    Extension, MeasureTiming, Model, OperandPerformance, PerformanceInfo, Request,
};

super::version_functions!(V1_2);

/// Performance figures of 1.2: per type.
#[derive(Clone, Debug, PartialEq)]
pub struct Capabilities {
    /// FLOAT32 scalars of models that allow relaxed precision.
    pub relaxed_float32_to_float16_scalar: PerformanceInfo,
    /// FLOAT32 tensors of models that allow relaxed precision.
    pub relaxed_float32_to_float16_tensor: PerformanceInfo,
    /// Sorted by type, one entry per type.
    pub operand_performance: Vec<OperandPerformance>,
}

/// `IDevice` 1.2. Models are those of [`validate_model`]; statuses those before 1.3.
pub trait Device: Send + Sync {
    /// Performance figures.
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

    /// The extensions whose every operation and type the driver supports.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn supported_extensions(&self) -> Result<Vec<Extension>>;

    /// For each operation, whether the driver would take it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an invalid model.
    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>>;

    /// Returns the number of cache files that the driver wants; none of either kind means that it
    /// doesn't cache.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn number_of_cache_files_needed(&self) -> Result<CacheFiles>;

    /// Starts preparing a model; `callback` is told exactly once how it ended, on every path.
    ///
    /// # Errors
    /// The arguments are wrong or the work could not be started; the callback was told the same.
    fn prepare_model(
        &self,
        model: Model,
        preference: ExecutionPreference,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()>;

    /// Starts loading a model from the files that an earlier preparation wrote.
    ///
    /// # Errors
    /// As for [`Device::prepare_model`]; `GENERAL_FAILURE` where the cache is of no use.
    fn prepare_model_from_cache(
        &self,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()>;

    /// Returns whether the driver can be used now.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn status(&self) -> Result<DeviceStatus>;
}

/// `IPreparedModel` 1.2.
pub trait PreparedModel: Send + Sync {
    /// Executes and returns when done.
    ///
    /// # Errors
    /// A status and, with `OUTPUT_INSUFFICIENT_SIZE`, the shapes.
    fn execute_synchronously(&self, request: &Request, measure: MeasureTiming) -> ExecutionResult;

    /// Launches an execution; `callback` is told exactly once how it ended, on every path.
    ///
    /// # Errors
    /// The request is invalid or could not be launched; the callback was told the same.
    fn execute(
        &self,
        request: Request,
        measure: MeasureTiming,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()>;

    /// Opens a burst over two queues of the client's making.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` for a queue that can't be used, and from drivers without bursts, as by
    /// default.
    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
    ) -> Result<Arc<dyn BurstContext>> {
        drop((callback, request_channel, result_channel));
        Err(HalError::failure("the driver has no bursts"))
    }
}

/// `IPreparedModelCallback` 1.2.
pub trait PreparedModelCallback: Send + Sync {
    /// The preparation ended.
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>);
}
