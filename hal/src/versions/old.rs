//! The calls that drivers of older versions have in common, and each version's form of them.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use nnburst_fmq::Descriptor;

use super::upgrade::Prepared;
use super::{v1_0, v1_1, v1_2};
use crate::error::{HalError, Result};
use crate::traits::{BurstCallback, BurstContext, ExecutionCallback};
use crate::types::{
    CacheFiles, CacheHandles, Capabilities, DeviceStatus, DeviceType, ExecutionFailure,
    ExecutionOutcome, ExecutionPreference, ExecutionResult, Extension, MeasureTiming, Model,
    Request, Timing, Version,
};

/// The calls of a driver of an older version; the defaults are for what its version lacks.
pub(super) trait OldDevice: Send + Sync {
    const VERSION: Version;
    fn capabilities(&self) -> Result<Capabilities>;
    fn status(&self) -> Result<DeviceStatus>;
    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>>;
    fn prepare_model(
        &self,
        model: Model,
        preference: ExecutionPreference,
        cache: CacheHandles,
        callback: Prepared,
    ) -> Result<()>;
    fn version_string(&self) -> Result<String> {
        Ok("UNKNOWN".to_owned())
    }
    fn device_type(&self) -> Result<DeviceType> {
        Ok(DeviceType::Other)
    }
    fn supported_extensions(&self) -> Result<Vec<Extension>> {
        Ok(Vec::new())
    }
    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        Ok(CacheFiles::default())
    }
    fn prepare_model_from_cache(&self, cache: CacheHandles, callback: Prepared) -> Result<()> {
        drop(cache);
        let error = HalError::failure("a driver of this version has no cache");
        callback.told.notify(Err(error.clone()));
        Err(error)
    }
}

/// The calls of a prepared model of an older version.
pub(super) trait OldPreparedModel: Send + Sync {
    const VERSION: Version;
    fn execute(
        &self,
        request: Request,
        measure: MeasureTiming,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()>;
    fn execute_synchronously(&self, request: &Request, measure: MeasureTiming) -> ExecutionResult;
    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
    ) -> Result<Arc<dyn BurstContext>> {
        drop((callback, request_channel, result_channel));
        Err(HalError::failure("a driver of this version has no bursts"))
    }
}

/// The calls that are the same in every version.
macro_rules! asked_alike {
    ($module:ident, $version:ident) => {
        const VERSION: Version = Version::$version;

        fn capabilities(&self) -> Result<Capabilities> {
            Ok($module::Device::capabilities(self)?.into())
        }

        fn status(&self) -> Result<DeviceStatus> {
            $module::Device::status(self)
        }

        fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
            $module::Device::supported_operations(self, model)
        }
    };
}

impl OldDevice for dyn v1_0::Device {
    asked_alike!(v1_0, V1_0);

    fn prepare_model(
        &self,
        model: Model,
        _preference: ExecutionPreference,
        _cache: CacheHandles,
        callback: Prepared,
    ) -> Result<()> {
        v1_0::Device::prepare_model(self, model, Arc::new(callback))
    }
}

impl OldDevice for dyn v1_1::Device {
    asked_alike!(v1_1, V1_1);

    fn prepare_model(
        &self,
        model: Model,
        preference: ExecutionPreference,
        _cache: CacheHandles,
        callback: Prepared,
    ) -> Result<()> {
        v1_1::Device::prepare_model(self, model, preference, Arc::new(callback))
    }
}

impl OldDevice for dyn v1_2::Device {
    asked_alike!(v1_2, V1_2);

    fn prepare_model(
        &self,
        model: Model,
        preference: ExecutionPreference,
        cache: CacheHandles,
        callback: Prepared,
    ) -> Result<()> {
        v1_2::Device::prepare_model(self, model, preference, cache, Arc::new(callback))
    }

    fn version_string(&self) -> Result<String> {
        v1_2::Device::version_string(self)
    }

    fn device_type(&self) -> Result<DeviceType> {
        v1_2::Device::device_type(self)
    }

    fn supported_extensions(&self) -> Result<Vec<Extension>> {
        v1_2::Device::supported_extensions(self)
    }

    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        v1_2::Device::number_of_cache_files_needed(self)
    }

    fn prepare_model_from_cache(&self, cache: CacheHandles, callback: Prepared) -> Result<()> {
        v1_2::Device::prepare_model_from_cache(self, cache, Arc::new(callback))
    }
}

impl OldPreparedModel for dyn v1_0::PreparedModel {
    const VERSION: Version = Version::V1_0;

    fn execute(
        &self,
        request: Request,
        _measure: MeasureTiming,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        v1_0::PreparedModel::execute(self, request, Arc::new(WithoutShapes(callback)))
    }

    fn execute_synchronously(&self, request: &Request, _measure: MeasureTiming) -> ExecutionResult {
        let (told, answer) = sync_channel(1);
        let callback = Arc::new(Waiting(Mutex::new(Some(told))));
        // A launch that fails has told the callback the same.
        v1_0::PreparedModel::execute(self, request.clone(), callback)?;
        match answer.recv() {
            Ok(result) => Ok(result.map(|()| without_shapes())?),
            Err(_) => Err(HalError::failure("the driver dropped its callback untold").into()),
        }
    }
}

impl OldPreparedModel for dyn v1_2::PreparedModel {
    const VERSION: Version = Version::V1_2;

    fn execute(
        &self,
        request: Request,
        measure: MeasureTiming,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        v1_2::PreparedModel::execute(self, request, measure, callback)
    }

    fn execute_synchronously(&self, request: &Request, measure: MeasureTiming) -> ExecutionResult {
        v1_2::PreparedModel::execute_synchronously(self, request, measure)
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
    ) -> Result<Arc<dyn BurstContext>> {
        v1_2::PreparedModel::configure_execution_burst(
            self,
            callback,
            request_channel,
            result_channel,
        )
    }
}

/// The newer client's callback, told by a driver of 1.0.
struct WithoutShapes(Arc<dyn ExecutionCallback>);

impl v1_0::ExecutionCallback for WithoutShapes {
    fn notify(&self, result: Result<()>) {
        self.0.notify(result.map(|()| without_shapes()).map_err(ExecutionFailure::from));
    }
}

fn without_shapes() -> ExecutionOutcome {
    ExecutionOutcome { output_shapes: Vec::new(), timing: Timing::NONE }
}

/// Hands the first answer to whoever waits; further ones are ignored.
struct Waiting(Mutex<Option<SyncSender<Result<()>>>>);

impl v1_0::ExecutionCallback for Waiting {
    fn notify(&self, result: Result<()>) {
        if let Some(told) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Whoever waited may have gone.
            let _ = told.send(result);
        }
    }
}
