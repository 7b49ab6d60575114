//! Having a device make a model ready, from its cache where it has one.

use nnburst_hal::{
    CacheHandles, HalError, Model, PrepareOptions, PreparedModel, wait_for_prepared_model,
};
use std::sync::Arc;

use crate::cache::{self, Files};
use crate::compile::CompileOptions;
use crate::device::Device;
use crate::error::Result;

/// How the models of one compilation are prepared.
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

    /// Prepares a model, or what `operations` of a model make: their graph and places, in the order added.
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
        if let Some(handles) = files.open() {
            let loaded = wait_for_prepared_model(|callback| {
                device.hal().prepare_model_from_cache(self.prepare.deadline, handles, callback)
            });
            match loaded {
                Ok(prepared) => return Ok(prepared),
                Err(error) => {
                    tracing::debug!(target: "nnburst::compilation", %error, "cache of {}", device.name());
                }
            }
        }
        self.fresh(device, model, files.create())
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
            (device.name(), &version),
            (self.options.preference, self.options.priority),
        );
        Some(Files::new(&caching.dir, token, wanted))
    }
}
