//! Having a device make a model ready, from its cache where it has one.

use nnburst_hal::{
    CacheHandles, HalError, Model, PrepareOptions, PreparedModel, wait_for_prepared_model,
};
use std::sync::Arc;

use crate::cache::{self, Files};
use crate::compile_options::CompileOptions;
use crate::device::Device;
use crate::error::Result;

/// The preparation of one compilation's models.
#[derive(Debug)]
pub(crate) struct Preparation<'a> {
    options: &'a CompileOptions,
    prepare: PrepareOptions,
}

impl<'a> Preparation<'a> {
    /// The time that the options give counts from here.
    pub(crate) fn new(options: &'a CompileOptions) -> Self {
        Self { options, prepare: options.prepare() }
    }

    /// Prepares a model, or what `operations` of a model make: their graph and places, in the order
    /// added.
    ///
    /// # Errors
    /// What the device answered.
    pub(crate) fn prepare(
        &self,
        device: &Device,
        model: &Model,
        operations: Option<(Option<usize>, &[usize])>,
    ) -> Result<Arc<dyn PreparedModel>> {
        let Some(files) = self.files(device, operations) else {
            return self.fresh(device, model, CacheHandles::default());
        };
        // Why there are none is told where they are made.
        if let Ok(handles) = files.open(device.is_embedded()) {
            match self.cached(device, handles) {
                Ok(prepared) => return Ok(prepared),
                Err(error) => {
                    tracing::debug!(target: "nnburst::compilation", %error, "cache of {}", device.name());
                }
            }
        }
        let prepared = self.fresh(device, model, files.create());
        files.remove_empty();
        prepared
    }

    /// Loads a whole model from the cache alone; `None` where the device caches nothing.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` where a file is not there, or what the device answered.
    pub(crate) fn load(&self, device: &Device) -> Result<Option<Arc<dyn PreparedModel>>> {
        let Some(files) = self.files(device, None) else { return Ok(None) };
        let handles = files
            .open(device.is_embedded())
            .map_err(|error| HalError::failure(format!("no cache: {error}")))?;
        Ok(Some(self.cached(device, handles)?))
    }

    fn cached(&self, device: &Device, cache: CacheHandles) -> Result<Arc<dyn PreparedModel>> {
        wait_for_prepared_model(|callback| {
            device.hal().prepare_model_from_cache(self.prepare.deadline, cache, callback)
        })
        .map_err(|error: HalError| device.died_of(error))
    }

    fn fresh(
        &self,
        device: &Device,
        model: &Model,
        cache: CacheHandles,
    ) -> Result<Arc<dyn PreparedModel>> {
        wait_for_prepared_model(|callback| {
            device.hal().prepare_model(model.clone(), self.prepare, cache, callback)
        })
        .map_err(|error: HalError| device.died_of(error))
    }

    /// The cache files, if the user named a place for them and the device wants any.
    fn files(
        &self,
        device: &Device,
        operations: Option<(Option<usize>, &[usize])>,
    ) -> Option<Files> {
        let caching = self.options.caching.as_ref()?;
        let wanted = device.hal().number_of_cache_files_needed().ok()?;
        if wanted.model == 0 && wanted.data == 0 {
            return None;
        }
        let version = device.version().ok()?;
        let token = cache::token(
            &caching.token,
            operations,
            device.name(),
            &version,
            self.options.preference,
            self.options.priority,
        );
        Some(Files::new(&caching.dir, token, wanted))
    }
}

#[cfg(test)]
mod tests {
    use nnburst_hal::{CacheFiles, ExecutionPreference, Priority};

    use super::*;
    use crate::compile_options::Caching;
    use crate::test_device::{Asked, TestDevice};
    use crate::{builtin, compile_for, load_cached};

    const FILES: CacheFiles = CacheFiles { model: 1, data: 2 };

    /// Returns the calls that a driver receives when a model is compiled so many times with a
    /// token, or without one.
    fn asked(files: CacheFiles, loads: bool, caching: bool, times: usize) -> Vec<Asked> {
        let dir = tempfile::tempdir().unwrap();
        let driver = TestDevice::new(Ok(files), loads);
        let record = Arc::clone(&driver.asked);
        let device = Device::from_hal("test", Arc::new(driver));
        let caching = caching.then(|| Caching { dir: dir.path().to_owned(), token: [7; 32] });
        let options = CompileOptions { caching, ..CompileOptions::default() };
        let model = builtin::model("add1").unwrap();
        for _ in 0..times {
            compile_for(&model, std::slice::from_ref(&device), &options).unwrap();
        }
        record.lock().unwrap().clone()
    }

    #[test]
    fn a_cache_is_written_then_loaded_and_written_again_where_it_is_of_no_use() {
        let token = cache::token(
            &[7; 32],
            None,
            "test",
            "test",
            ExecutionPreference::FastSingleAnswer,
            Priority::Medium,
        );
        let (prepare, load) = (Asked::Prepare(3, token), Asked::Load(3, token));
        assert_eq!(asked(FILES, true, true, 1), std::slice::from_ref(&prepare));
        assert_eq!(asked(FILES, true, true, 3), [prepare.clone(), load.clone(), load.clone()]);
        assert_eq!(asked(FILES, false, true, 2), [prepare.clone(), load, prepare]);
    }

    #[test]
    fn a_model_is_loaded_from_the_cache_alone_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let caching = Some(Caching { dir: dir.path().to_owned(), token: [7; 32] });
        let options = CompileOptions { caching, ..CompileOptions::default() };
        let model = builtin::model("add1").unwrap();
        let device =
            |files, loads| Device::from_hal("test", Arc::new(TestDevice::new(Ok(files), loads)));
        let good = device(FILES, true);
        load_cached(&model, &good, &options).unwrap_err();
        compile_for(&model, std::slice::from_ref(&good), &options).unwrap();
        assert!(load_cached(&model, &good, &options).unwrap().is_some());
        load_cached(&model, &device(FILES, false), &options).unwrap_err();
        let without = device(CacheFiles::default(), true);
        assert!(load_cached(&model, &without, &options).unwrap().is_none());
        assert!(load_cached(&model, &good, &CompileOptions::default()).unwrap().is_none());
    }

    #[test]
    fn without_a_token_or_files_nothing_is_cached() {
        let plain = Asked::Prepare(0, [0; 32]);
        assert_eq!(asked(FILES, true, false, 2), [plain.clone(), plain.clone()]);
        assert_eq!(asked(CacheFiles::default(), true, true, 2), [plain.clone(), plain]);
    }
}
