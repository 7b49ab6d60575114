//! A driver for tests: the embedded executor, with cache files, and a record of what it was asked.

use std::sync::{Arc, Mutex, PoisonError};

use nnburst_hal::{
    CacheFiles, CacheHandles, Capabilities, Device as HalDevice, DeviceType, HalError, Model,
    PrepareOptions, PreparedModelCallback, Result, TimePoint,
};

use crate::driver::{self, DriverOptions};

/// A call that a driver received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To prepare, with so many handles, for this token.
    Prepare(usize, [u8; 32]),
    /// To load from the cache.
    Load(usize, [u8; 32]),
}

pub(crate) struct TestDevice {
    executor: Arc<dyn HalDevice>,
    /// An error is answered with one.
    pub(crate) files: Result<CacheFiles>,
    /// True if loading works.
    pub(crate) loads: bool,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
    /// The model that was prepared last, which is what loading gives.
    model: Mutex<Option<Model>>,
}

impl TestDevice {
    pub(crate) fn new(files: Result<CacheFiles>, loads: bool) -> Self {
        let driver = driver::find("nnapi-sample_all", &DriverOptions::default()).unwrap();
        let (asked, model) = (Arc::default(), Mutex::default());
        Self { executor: driver.device(), files, loads, asked, model }
    }

    fn note(&self, asked: Asked) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    }
}

fn handles(cache: &CacheHandles) -> usize {
    cache.model.len() + cache.data.len()
}

impl HalDevice for TestDevice {
    fn capabilities(&self) -> Result<Capabilities> {
        self.executor.capabilities()
    }
    fn version_string(&self) -> Result<String> {
        Ok("test".into())
    }
    fn device_type(&self) -> Result<DeviceType> {
        Ok(DeviceType::Other)
    }
    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        self.executor.supported_operations(model)
    }
    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        self.files.clone()
    }
    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        self.note(Asked::Prepare(handles(&cache), cache.token));
        for file in cache.model.iter().chain(&cache.data) {
            nix::unistd::write(file, b"compiled")
                .map_err(|error| HalError::failure(error.to_string()))?;
        }
        *self.model.lock().unwrap_or_else(PoisonError::into_inner) = Some(model.clone());
        self.executor.prepare_model(model, options, CacheHandles::default(), callback)
    }
    fn prepare_model_from_cache(
        &self,
        _deadline: Option<TimePoint>,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        self.note(Asked::Load(handles(&cache), cache.token));
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match model.filter(|_| self.loads) {
            Some(model) => {
                let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
                self.executor.prepare_model(model, options, cache, callback)
            }
            None => {
                let error = HalError::failure("the cache is of no use");
                callback.notify(Err(error.clone()));
                Err(error)
            }
        }
    }
}
