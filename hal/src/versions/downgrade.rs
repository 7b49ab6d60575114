//! A driver of 1.3 as one of an older version, for a client that speaks no newer one.
//!
//! Models and requests are checked by the older version's rules, statuses of 1.3 become
//! `GENERAL_FAILURE`, and figures are folded. What the older client can't say takes the default.

use std::sync::Arc;

use nnburst_fmq::Descriptor;

use super::{v1_0, v1_1, v1_2};
use crate::error::{HalError, Result};
use crate::traits::{
    BurstCallback, BurstContext, Device, ExecutionCallback, ExecutionOptions, PrepareOptions,
    PreparedModel, PreparedModelCallback,
};
use crate::types::{
    BurstOptions, CacheFiles, CacheHandles, DeviceStatus, DeviceType, ExecutionFailure,
    ExecutionPreference, ExecutionResult, Extension, MeasureTiming, Model, Request, RequestPool,
    Version,
};
use crate::validate::{validate_model, validate_pool};

/// A driver of 1.3 as one of 1.0.
pub fn downgrade_v1_0(driver: Arc<dyn Device>) -> Arc<dyn v1_0::Device> {
    Arc::new(Downgraded(driver))
}

/// A driver of 1.3 as one of 1.1.
pub fn downgrade_v1_1(driver: Arc<dyn Device>) -> Arc<dyn v1_1::Device> {
    Arc::new(Downgraded(driver))
}

/// A driver of 1.3 as one of 1.2.
pub fn downgrade_v1_2(driver: Arc<dyn Device>) -> Arc<dyn v1_2::Device> {
    Arc::new(Downgraded(driver))
}

struct Downgraded(Arc<dyn Device>);

impl Downgraded {
    fn supported(&self, model: &Model, version: Version) -> Result<Vec<bool>> {
        validate_model(model, version)?;
        self.0.supported_operations(model).map_err(HalError::before_v1_3)
    }

    fn prepare(
        &self,
        model: Model,
        version: Version,
        preference: ExecutionPreference,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        if let Err(error) = validate_model(&model, version) {
            let error = HalError::from(error);
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        let options = PrepareOptions { preference, ..PrepareOptions::default() };
        self.0.prepare_model(model, options, cache, callback).map_err(HalError::before_v1_3)
    }
}

impl v1_0::Device for Downgraded {
    fn capabilities(&self) -> Result<v1_0::Capabilities> {
        Ok(self.0.capabilities().map_err(HalError::before_v1_3)?.to_v1_0().0)
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        self.supported(model, Version::V1_0)
    }

    fn prepare_model(
        &self,
        model: Model,
        callback: Arc<dyn v1_0::PreparedModelCallback>,
    ) -> Result<()> {
        let preference = ExecutionPreference::FastSingleAnswer;
        let told = Arc::new(ToldV1_0(callback));
        self.prepare(model, Version::V1_0, preference, CacheHandles::default(), told)
    }

    fn status(&self) -> Result<DeviceStatus> {
        self.0.status().map_err(HalError::before_v1_3)
    }
}

impl v1_1::Device for Downgraded {
    fn capabilities(&self) -> Result<v1_1::Capabilities> {
        Ok(self.0.capabilities().map_err(HalError::before_v1_3)?.to_v1_1().0)
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        self.supported(model, Version::V1_1)
    }

    fn prepare_model(
        &self,
        model: Model,
        preference: ExecutionPreference,
        callback: Arc<dyn v1_1::PreparedModelCallback>,
    ) -> Result<()> {
        let told = Arc::new(ToldV1_0(callback));
        self.prepare(model, Version::V1_1, preference, CacheHandles::default(), told)
    }

    fn status(&self) -> Result<DeviceStatus> {
        self.0.status().map_err(HalError::before_v1_3)
    }
}

impl v1_2::Device for Downgraded {
    fn capabilities(&self) -> Result<v1_2::Capabilities> {
        Ok(self.0.capabilities().map_err(HalError::before_v1_3)?.to_v1_2())
    }

    fn version_string(&self) -> Result<String> {
        self.0.version_string().map_err(HalError::before_v1_3)
    }

    fn device_type(&self) -> Result<DeviceType> {
        self.0.device_type().map_err(HalError::before_v1_3)
    }

    fn supported_extensions(&self) -> Result<Vec<Extension>> {
        self.0.supported_extensions().map_err(HalError::before_v1_3)
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        self.supported(model, Version::V1_2)
    }

    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        self.0.number_of_cache_files_needed().map_err(HalError::before_v1_3)
    }

    fn prepare_model(
        &self,
        model: Model,
        preference: ExecutionPreference,
        cache: CacheHandles,
        callback: Arc<dyn v1_2::PreparedModelCallback>,
    ) -> Result<()> {
        self.prepare(model, Version::V1_2, preference, cache, Arc::new(ToldV1_2(callback)))
    }

    fn prepare_model_from_cache(
        &self,
        cache: CacheHandles,
        callback: Arc<dyn v1_2::PreparedModelCallback>,
    ) -> Result<()> {
        self.0
            .prepare_model_from_cache(None, cache, Arc::new(ToldV1_2(callback)))
            .map_err(HalError::before_v1_3)
    }

    fn status(&self) -> Result<DeviceStatus> {
        self.0.status().map_err(HalError::before_v1_3)
    }
}

/// The callback of a client of 1.0 or 1.1, told by a driver of 1.3.
struct ToldV1_0(Arc<dyn v1_0::PreparedModelCallback>);

impl PreparedModelCallback for ToldV1_0 {
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>) {
        let downgrade =
            |model| -> Arc<dyn v1_0::PreparedModel> { Arc::new(DowngradedModel(model)) };
        self.0.notify(result.map(downgrade).map_err(HalError::before_v1_3));
    }
}

/// The callback of a client of 1.2, told by a driver of 1.3.
struct ToldV1_2(Arc<dyn v1_2::PreparedModelCallback>);

impl PreparedModelCallback for ToldV1_2 {
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>) {
        let downgrade =
            |model| -> Arc<dyn v1_2::PreparedModel> { Arc::new(DowngradedModel(model)) };
        self.0.notify(result.map(downgrade).map_err(HalError::before_v1_3));
    }
}

struct DowngradedModel(Arc<dyn PreparedModel>);

impl DowngradedModel {
    /// The driver checks the arguments; which memories there are in an older version it can't know.
    fn check_pools(request: &Request, version: Version) -> Result<()> {
        for (index, pool) in request.pools.iter().enumerate() {
            match pool {
                RequestPool::Memory(memory) => validate_pool(memory, version)
                    .map_err(|rule| HalError::invalid(format!("pool {index}: {rule}")))?,
                RequestPool::Token(_) => {
                    return Err(HalError::invalid(format!("pool {index}: a buffer needs HAL 1.3")));
                }
            }
        }
        Ok(())
    }

    fn launch(
        &self,
        request: Request,
        version: Version,
        measure: MeasureTiming,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        if let Err(error) = Self::check_pools(&request, version) {
            callback.notify(Err(error.clone().into()));
            return Err(error);
        }
        let options = ExecutionOptions { measure, ..ExecutionOptions::default() };
        self.0.execute(request, options, callback).map_err(HalError::before_v1_3)
    }
}

impl v1_0::PreparedModel for DowngradedModel {
    fn execute(&self, request: Request, callback: Arc<dyn v1_0::ExecutionCallback>) -> Result<()> {
        self.launch(request, Version::V1_0, MeasureTiming::No, Arc::new(StatusAlone(callback)))
    }
}

impl v1_2::PreparedModel for DowngradedModel {
    fn execute_synchronously(&self, request: &Request, measure: MeasureTiming) -> ExecutionResult {
        Self::check_pools(request, Version::V1_2)?;
        let options = ExecutionOptions { measure, ..ExecutionOptions::default() };
        self.0.execute_synchronously(request, options).map_err(fold)
    }

    fn execute(
        &self,
        request: Request,
        measure: MeasureTiming,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        self.launch(request, Version::V1_2, measure, Arc::new(Folding(callback)))
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
    ) -> Result<Arc<dyn BurstContext>> {
        let options = BurstOptions::default();
        self.0
            .configure_execution_burst(callback, request_channel, result_channel, options)
            .map_err(HalError::before_v1_3)
    }
}

fn fold(failure: ExecutionFailure) -> ExecutionFailure {
    ExecutionFailure { error: failure.error.before_v1_3(), ..failure }
}

/// The callback of a client of 1.0: no shapes, no times.
struct StatusAlone(Arc<dyn v1_0::ExecutionCallback>);

impl ExecutionCallback for StatusAlone {
    fn notify(&self, result: ExecutionResult) {
        self.0.notify(result.map(drop).map_err(|failure| failure.error.before_v1_3()));
    }
}

/// The callback of a client of 1.2: no statuses of 1.3.
struct Folding(Arc<dyn ExecutionCallback>);

impl ExecutionCallback for Folding {
    fn notify(&self, result: ExecutionResult) {
        self.0.notify(result.map_err(fold));
    }
}
