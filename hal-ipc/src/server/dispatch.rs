//! From a call's bytes to the device's method and back.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::{
    BufferDesc, BufferRole, CacheHandles, ExecutionCallback, ExecutionOptions, ExecutionResult,
    HalError, Model, PreparedModelCallback, Request, Result,
};
use serde::Serialize;

use super::callbacks::{ExecutedNotifier, Notifier, PreparedNotifier};
use super::objects::Object;
use super::session::Session;
use super::watch;
use crate::connection::Connection;
use crate::limits::Charge;
use crate::socket::Frame;
use crate::wire::{self, Call, DescriptorsIn, FencedBody, RequestBody};

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
        let fds = &mut DescriptorsIn::new(frame.fds);
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
                reply.with(self.prepare(connection, callback, what, |notifier| {
                    device.prepare_model(model?, options, cache?, notifier)
                }));
            }
            Call::PrepareModelFromCache { deadline, cache, callback } => {
                let cache = cache.into_handles(fds);
                let what = (cost_of_cache(&cache), "from the cache".to_owned());
                reply.with(self.prepare(connection, callback, what, |notifier| {
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
                reply.with(self.execute(connection, callback, |notifier| {
                    self.objects.model(model)?.execute(request?, options, notifier)
                }));
            }
            Call::ExecuteFenced { model, request, wait_for, options, duration } => {
                let launch = Fenced { model, request, wait_for, options, duration };
                self.execute_fenced(&reply, launch, fds);
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
                drop(self.objects.remove(object));
                reply.with(Ok(()));
            }
        }
    }

    /// Launches a preparation; the client is told the launch's error also by its callback.
    fn prepare(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
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
        let notifier =
            Arc::new(PreparedNotifier(Notifier::new(self, connection, callback, charges), label));
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
        launch: impl FnOnce(Arc<dyn ExecutionCallback>) -> Result<()>,
    ) -> Result<()> {
        let charges = self.allowances.executions.take(1).map(|charge| vec![charge]);
        let (charges, refused) = split(charges);
        let notifier =
            Arc::new(ExecutedNotifier(Notifier::new(self, connection, callback, charges)));
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

    fn request(&self, body: RequestBody, fds: &mut DescriptorsIn) -> Result<Request> {
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

    fn execute_fenced(&self, reply: &Reply<'_>, launch: Fenced, fds: &mut DescriptorsIn) {
        let Fenced { model, request, wait_for, options, duration } = launch;
        let launched = || {
            let charge = self.allowances.fenced.take(1)?;
            let request = self.request(request, fds)?;
            let fences = wait_for.iter().map(|&at| fds.take(at)).collect::<Result<_>>()?;
            let execution =
                self.objects.model(model)?.execute_fenced(request, fences, options, duration)?;
            let object = self.objects.insert(Object::Fenced(execution.callback), vec![charge])?;
            Ok((object, execution.sync_fence))
        };
        match launched() {
            Err(error) => reply.with::<()>(Err(error)),
            Ok((object, fence)) => {
                let body = FencedBody { object, fence: fence.as_ref().map(|_| 0) };
                let fds: Vec<_> = fence.iter().map(AsFd::as_fd).collect();
                reply.connection.answer(reply.id, &Ok(body), &fds);
            }
        }
    }
}

/// A fenced execution as it came.
struct Fenced {
    model: u64,
    request: RequestBody,
    wait_for: Vec<u16>,
    options: ExecutionOptions,
    duration: Option<Duration>,
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
