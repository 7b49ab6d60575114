//! From a call's bytes to the device's method and back.

use std::sync::Arc;

use nnburst_hal::{
    BufferDesc, BufferRole, CacheHandles, ExecutionCallback, ExecutionOptions, ExecutionResult,
    HalError, Model, PreparedModelCallback, Request, Result,
};
use serde::Serialize;

use super::callbacks::{ExecutedNotifier, Notifier, PreparedNotifier};
use super::fenced::FencedCall;
use super::objects::Object;
use super::session::Session;
use super::watch;
use crate::connection::Connection;
use crate::limits::Charge;
use crate::socket::Frame;
use crate::wire::{self, Call, DescriptorsIn, RequestBody};

/// Where a call came from and its answer goes.
struct Reply<'a> {
    connection: &'a Arc<Connection>,
    id: u64,
}

impl Reply<'_> {
    fn with<T: Serialize>(&self, result: Result<T>) {
        self.connection.answer(self.id, &result.map_err(Into::into), &[]);
    }
}

impl Session {
    /// Answers one call.
    pub(super) fn answer(self: &Arc<Self>, connection: &Arc<Connection>, frame: Frame) {
        let (fds, charge) = (&mut DescriptorsIn::new(frame.fds), frame.charge);
        let reply = Reply { connection, id: frame.id };
        let (call, tail) = match wire::decode::<Call>(&frame.payload) {
            Ok(decoded) => decoded,
            Err(error) => return reply.with::<()>(Err(HalError::invalid(error.to_string()))),
        };
        let device = &self.device;
        match call {
            Call::Name => reply.with(Ok(&self.service)),
            Call::Capabilities => reply.with(device.capabilities()),
            Call::VersionString => reply.with(device.version_string()),
            Call::DeviceType => reply.with(device.device_type()),
            Call::Status => reply.with(device.status()),
            Call::SupportedExtensions => reply.with(device.supported_extensions()),
            Call::NumberOfCacheFilesNeeded => reply.with(device.number_of_cache_files_needed()),
            Call::SupportedOperations { model } => {
                let model = model.into_model(tail, fds);
                reply.with(model.and_then(|model| device.supported_operations(&model)));
            }
            Call::PrepareModel { model, options, cache, callback } => {
                let model = model.into_model(tail, fds);
                let cache = cache.into_handles(fds);
                let label = model.as_ref().map(watch::label).unwrap_or_default();
                let what = (cost(&model), label);
                reply.with(self.prepare((connection, charge), callback, what, |notifier| {
                    device.prepare_model(model?, options, cache?, notifier)
                }));
            }
            Call::PrepareModelFromCache { deadline, cache, callback } => {
                let cache = cache.into_handles(fds);
                let what = (cost_of_cache(&cache), "from the cache".to_owned());
                reply.with(self.prepare((connection, charge), callback, what, |notifier| {
                    device.prepare_model_from_cache(deadline, cache?, notifier)
                }));
            }
            Call::Allocate { desc, models, input_roles, output_roles } => {
                reply.with(self.allocate(&desc, &models, &input_roles, &output_roles));
            }
            Call::ExecuteSynchronously { model, request, options } => {
                let result = self.execute_synchronously(model, request, options, fds);
                connection.answer(reply.id, &result, &[]);
            }
            Call::Execute { model, request, options, callback } => {
                let request = self.request(request, fds);
                let mut inputs = self.objects.charges(model);
                inputs.extend(charge);
                reply.with(self.execute(connection, callback, inputs, |notifier| {
                    self.objects.model(model)?.execute(request?, options, notifier)
                }));
            }
            Call::ExecuteFenced { model, request, wait_for, options, duration } => {
                let call = FencedCall { model, request, wait_for, options, duration };
                let at = (connection, reply.id);
                if let Err(error) = self.execute_fenced(at, call, fds, charge) {
                    reply.with::<()>(Err(error));
                }
            }
            Call::ExecutionInfo { fenced } => {
                reply.with(self.objects.fenced(fenced).and_then(|fenced| fenced.execution_info()));
            }
            Call::CopyTo { buffer, destination } => {
                let memory = fds.memory(destination);
                let buffer = self.objects.buffer(buffer);
                reply.with(memory.and_then(|memory| buffer?.copy_to(&memory)));
            }
            Call::CopyFrom { buffer, source, dimensions } => {
                let memory = fds.memory(source);
                let buffer = self.objects.buffer(buffer);
                reply.with(memory.and_then(|memory| buffer?.copy_from(&memory, &dimensions)));
            }
            Call::ConfigureBurst { model, callback, requests, results, options } => {
                let queues = requests
                    .into_descriptor(fds)
                    .and_then(|requests| Ok([requests, results.into_descriptor(fds)?]));
                let queues = queues.map(|queues| (queues, charge));
                reply.with(self.configure_burst(connection, model, callback, queues, options));
            }
            Call::FreeMemory { burst, slot } => {
                reply.with(self.objects.burst(burst).map(|burst| burst.free_memory(slot)));
            }
            Call::BurstFigures { burst } => {
                reply.with(self.objects.burst(burst).map(|burst| burst.figures()));
            }
            Call::Bursts => reply.with(Ok(self.watch())),
            Call::InterfaceVersion => reply.with(Ok(device.interface_version())),
            // As a call it is answered; as a note it was taken before it came here.
            Call::Release { object } => {
                if let Some(held) = self.objects.remove(object) {
                    self.let_go(held);
                }
                reply.with(Ok(()));
            }
        }
    }

    /// Launches a preparation; the client is told the launch's error also by its callback.
    fn prepare(
        self: &Arc<Self>,
        (connection, descriptors): (&Arc<Connection>, Option<Charge>),
        callback: u64,
        (bytes, label): (u64, String),
        launch: impl FnOnce(Arc<dyn PreparedModelCallback>) -> Result<()>,
    ) -> Result<()> {
        let charges = self
            .allowances
            .models
            .take(1)
            .and_then(|model| Ok(vec![model, self.allowances.memory.take(bytes)?]));
        let (charges, refused) = split(charges);
        let notifier = Notifier::new(self, connection, callback, (charges, descriptors));
        let notifier = Arc::new(PreparedNotifier(notifier, label));
        let launched = match refused {
            None => launch(Arc::clone(&notifier) as _),
            Some(error) => Err(error),
        };
        launched.inspect_err(|error| notifier.notify(Err(error.clone())))
    }

    fn execute(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        callback: u64,
        inputs: Vec<Charge>,
        launch: impl FnOnce(Arc<dyn ExecutionCallback>) -> Result<()>,
    ) -> Result<()> {
        let charges = self.allowances.executions.take(1).map(|charge| {
            let mut charges = inputs;
            charges.push(charge);
            charges
        });
        let (charges, refused) = split(charges);
        let notifier = Notifier::new(self, connection, callback, (charges, None));
        let notifier = Arc::new(ExecutedNotifier(notifier));
        let launched = match refused {
            None => launch(Arc::clone(&notifier) as _),
            Some(error) => Err(error),
        };
        launched.inspect_err(|error| notifier.notify(Err(error.clone().into())))
    }

    fn execute_synchronously(
        &self,
        model: u64,
        request: RequestBody,
        options: ExecutionOptions,
        fds: &mut DescriptorsIn,
    ) -> ExecutionResult {
        let request = self.request(request, fds)?;
        let model = self.objects.model(model)?;
        let _charge = self.allowances.executions.take(1)?;
        model.execute_synchronously(&request, options)
    }

    pub(super) fn request(&self, body: RequestBody, fds: &mut DescriptorsIn) -> Result<Request> {
        let request = body.into_request(fds)?;
        self.objects.check_tokens(&request)?;
        Ok(request)
    }

    fn allocate(
        &self,
        desc: &BufferDesc,
        models: &[u64],
        input_roles: &[BufferRole],
        output_roles: &[BufferRole],
    ) -> Result<(u64, u32)> {
        let charge = self.allowances.buffers.take(1)?;
        let models: Vec<_> =
            models.iter().map(|&model| self.objects.model(model)).collect::<Result<_>>()?;
        let buffer = self.device.allocate(desc, &models, input_roles, output_roles)?;
        let memory = self.allowances.memory.take(buffer.size())?;
        let token = buffer.token();
        let object = self.objects.insert(Object::Buffer(buffer), vec![charge, memory])?;
        Ok((object, token))
    }
}

/// What the client is allowed, or why it isn't.
fn split(charges: Result<Vec<Charge>>) -> (Vec<Charge>, Option<HalError>) {
    match charges {
        Ok(charges) => (charges, None),
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// Bytes that a model makes a driver keep: its constants.
fn cost(model: &Result<Model>) -> u64 {
    let Ok(model) = model else { return 0 };
    let values = u64::try_from(model.operand_values.len()).unwrap_or(u64::MAX);
    model.pools.iter().fold(values, |sum, pool| sum.saturating_add(pool.size()))
}

fn cost_of_cache(cache: &Result<CacheHandles>) -> u64 {
    let Ok(cache) = cache else { return 0 };
    let length = |file| rustix::fs::fstat(file).map_or(0, |file| file.st_size.unsigned_abs());
    cache.model.iter().chain(&cache.data).fold(0, |sum: u64, file| sum.saturating_add(length(file)))
}
