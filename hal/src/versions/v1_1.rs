//! HAL 1.1: 9 more operations, relaxed precision, a preference. Prepared models are those of 1.0.

use std::sync::Arc;

pub use super::downgrade::downgrade_v1_1 as downgrade;
pub use super::upgrade::upgrade_v1_1 as upgrade;
pub use super::v1_0::{ExecutionCallback, PreparedModel, PreparedModelCallback};
use crate::error::Result;
use crate::types::{DeviceStatus, ExecutionPreference, Model, PerformanceInfo};

super::version_functions!(V1_1);

/// Performance figures of 1.1: as 1.0, and relaxed computations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capabilities {
    /// FLOAT32 scalars and tensors.
    pub float32: PerformanceInfo,
    /// TENSOR_QUANT8_ASYMM, and integers.
    pub quantized8: PerformanceInfo,
    /// FLOAT32 in models that allow relaxed precision.
    pub relaxed_float32_to_float16: PerformanceInfo,
}

/// `IDevice` 1.1. Models are those of [`validate_model`]; statuses those before 1.3.
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
    fn prepare_model(
        &self,
        model: Model,
        preference: ExecutionPreference,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()>;

    /// Returns whether the driver can be used now.
    ///
    /// # Errors
    /// The driver is unavailable or failed.
    fn status(&self) -> Result<DeviceStatus>;
}
