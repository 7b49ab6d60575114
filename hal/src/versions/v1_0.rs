//! HAL 1.0: 30 operations, float and 8-bit types, known ranks, one asynchronous execution path.

use std::sync::Arc;

pub use super::downgrade::downgrade_v1_0 as downgrade;
pub use super::upgrade::upgrade_v1_0 as upgrade;
use crate::error::Result;
use crate::types::{DeviceStatus, Model, PerformanceInfo, Request};

super::version_functions!(V1_0);

/// Performance figures of 1.0: one for float, one for quantised types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capabilities {
    /// FLOAT32 scalars and tensors.
    pub float32: PerformanceInfo,
    /// TENSOR_QUANT8_ASYMM, and integers.
    pub quantized8: PerformanceInfo,
}

/// `IDevice` 1.0. Models are those of [`validate_model`]; statuses those before 1.3.
pub trait Device: Send + Sync {
    /// Performance figures.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn capabilities(&self) -> Result<Capabilities>;

    /// For each operation, whether the driver would take it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an invalid model.
    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>>;

    /// Starts preparing a model; `callback` is told exactly once how it ended, on every path.
    ///
    /// # Errors
    /// The model is invalid or the work could not be started; the callback was told the same.
    fn prepare_model(&self, model: Model, callback: Arc<dyn PreparedModelCallback>) -> Result<()>;

    /// Returns whether the driver can be used now.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn status(&self) -> Result<DeviceStatus>;
}

/// `IPreparedModel` 1.0.
pub trait PreparedModel: Send + Sync {
    /// Launches an execution; `callback` is told exactly once how it ended, on every path.
    ///
    /// # Errors
    /// The request is invalid or could not be launched; the callback was told the same.
    fn execute(&self, request: Request, callback: Arc<dyn ExecutionCallback>) -> Result<()>;
}

/// `IPreparedModelCallback` 1.0.
pub trait PreparedModelCallback: Send + Sync {
    /// The preparation ended.
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>);
}

/// `IExecutionCallback` 1.0: the status alone, without shapes and times.
pub trait ExecutionCallback: Send + Sync {
    /// The execution ended.
    fn notify(&self, result: Result<()>);
}
