//! From a call's bytes to the device's method and back.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nnburst_hal::{
    BufferDesc, BufferRole, CacheHandles, Charge, ExecutionCallback, ExecutionOptions,
    ExecutionResult, FileStatus, FlowEnd, HalError, Layer, Model, Phase, PreparedModelCallback,
    Request, Resource, Result, TimePoint, trace_flow, trace_span, trace_to, try_collect,
};
use serde::Serialize;

use super::callbacks::{ExecutedNotifier, Notifier, PreparedNotifier};
use super::fenced::FencedCall;
use super::objects::{Charges, Object};
use super::session::Session;
use super::statistics;
use crate::connection::{Connection, flow_of};
use crate::socket::ReceivedFrame;
use crate::wire::{self, Call, DescriptorsIn, RequestBody, TraceBody};

/// The origin of a call, to which its answer goes.
struct Reply<'a> {
    session: &'a Session,
    connection: &'a Arc<Connection>,
    id: u64,
}

impl Reply<'_> {
    fn with<T: Serialize>(&self, result: Result<T>) {
        self.session.note(result.as_ref().err());
        self.launched(result);
    }

    /// As [`Self::with`], of a call whose callback is told the error too, and counts it.
    fn launched<T: Serialize>(&self, result: Result<T>) {
        self.connection.answer(self.id, &result.map_err(Into::into), &[]);
    }
}

impl Session {
    /// Answers one call.
    pub(super) fn answer(self: &Arc<Self>, connection: &Arc<Connection>, frame: ReceivedFrame) {
        let fds = &mut DescriptorsIn::new(frame.fds, connection.budget());
        let mut message = frame.charge;
        let reply = Reply { session: self, connection, id: frame.id };
        let (call, tail) = match wire::decode_charged::<Call>(frame.payload, &mut message) {
            Ok(decoded) => decoded,
            Err(error) => return reply.with::<()>(Err(error)),
        };
        let device = &self.device;
        let _span = trace_span(Layer::Driver, Phase::Overall, call.name());
        let caller = u32::try_from(self.peer().pid).unwrap_or(0);
        trace_flow(FlowEnd::Received, "call", flow_of(caller, reply.id), TimePoint::now());
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
                let label = model.as_ref().map(statistics::label).unwrap_or_default();
                let bytes = self.cost(&model);
                let task = task(message, fds);
                reply.launched(self.prepare(
                    connection,
                    task,
                    callback,
                    bytes,
                    label,
                    |notifier| device.prepare_model(model?, options, cache?, notifier),
                ));
            }
            Call::PrepareModelFromCache { deadline, cache, callback } => {
                let cache = cache.into_handles(fds);
                let (bytes, label) = (self.cost_of_cache(&cache), "from the cache".to_owned());
                let room = self.has_room_for_data(&cache);
                let task = task(message, fds);
                reply.launched(self.prepare(
                    connection,
                    task,
                    callback,
                    bytes,
                    label,
                    |notifier| {
                        room?;
                        device.prepare_model_from_cache(deadline, cache?, notifier)
                    },
                ));
            }
            Call::Allocate { desc, models, input_roles, output_roles } => {
                reply.with(self.allocate(&desc, &models, &input_roles, &output_roles));
            }
            Call::ExecuteSynchronously { model, request, options } => {
                let result = self.execute_synchronously(model, request, options, fds);
                self.note(result.as_ref().err().map(|failure| &failure.error));
                connection.answer(reply.id, &result, &[]);
            }
            Call::Execute { model, request, options, callback } => {
                let request = self.request(request, fds);
                let mut inputs = self.objects.charges(model);
                inputs.extend(task(message, fds));
                reply.launched(self.execute(connection, callback, inputs, |notifier| {
                    self.objects.model(model)?.execute(request?, options, notifier)
                }));
            }
            Call::ExecuteFenced { model, request, wait_for, options, duration } => {
                let call = FencedCall { model, request, wait_for, options, duration };
                if let Err(error) = self.execute_fenced(connection, reply.id, call, fds, message) {
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
                let queues = queues.map(|queues| (queues, task(message, fds)));
                reply.with(self.configure_burst(connection, model, callback, queues, options));
            }
            Call::FreeMemory { burst, slot } => {
                reply.with(self.objects.burst(burst).map(|burst| burst.free_memory(slot)));
            }
            Call::BurstFigures { burst } => {
                reply.with(self.objects.burst(burst).map(|burst| burst.figures()));
            }
            Call::Statistics => reply.with(Ok(self.statistics())),
            Call::InterfaceVersion => reply.with(Ok(device.interface_version())),
            Call::Trace { file } => reply.with(self.trace(file, fds)),
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
        connection: &Arc<Connection>,
        task: Charges,
        callback: u64,
        bytes: u64,
        label: String,
        launch: impl FnOnce(Arc<dyn PreparedModelCallback>) -> Result<()>,
    ) -> Result<()> {
        let model = [(Resource::PreparedModels, 1), (Resource::Memory, bytes)];
        let (charges, refused) = split(Vec::new(), self.budget().take_all(&model));
        let notifier = Notifier::new(self, connection, callback, charges, task);
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
        inputs: Charges,
        launch: impl FnOnce(Arc<dyn ExecutionCallback>) -> Result<()>,
    ) -> Result<()> {
        let (charges, refused) = split(inputs, self.take_execution());
        let notifier = Notifier::new(self, connection, callback, charges, Vec::new());
        let notifier = Arc::new(ExecutedNotifier(notifier));
        let launched = match refused {
            None => launch(Arc::clone(&notifier) as _),
            Some(error) => Err(error),
        };
        launched.inspect_err(|error| notifier.notify(Err(error.clone().into())))
    }

    /// Counts an execution of the client's user, and charges one at a time.
    fn take_execution(&self) -> Result<Charge> {
        self.peer().count_execution()?;
        Ok(self.budget().take(Resource::Executions, 1)?)
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
        let _charge = self.take_execution()?;
        model.execute_synchronously(&request, options)
    }

    pub(super) fn request(&self, body: RequestBody, fds: &mut DescriptorsIn) -> Result<Request> {
        let request = body.into_request(fds)?;
        self.objects.check_tokens(&request)?;
        Ok(request)
    }

    /// Writes the spans of this process, which are about all clients, to a client's file.
    fn trace(&self, file: u16, fds: &mut DescriptorsIn) -> Result<TraceBody> {
        if !self.sees_all() {
            return Err(HalError::invalid("spans are for root and for the driver's user"));
        }
        let file = fds.take(file)?;
        let charges = fds.take_charges().into_iter().map(Arc::new).collect();
        let tracing = trace_to(file.into(), &self.service)
            .map_err(|error| HalError::failure(format!("spans: {error}")))?;
        let object = self.objects.insert(Object::Tracing(Arc::new(tracing)), charges)?;
        Ok(TraceBody { object })
    }

    fn allocate(
        &self,
        desc: &BufferDesc,
        models: &[u64],
        input_roles: &[BufferRole],
        output_roles: &[BufferRole],
    ) -> Result<(u64, u32)> {
        let mut charge = self.budget().take(Resource::Buffers, 1)?;
        let models = try_collect(models.iter().map(|&model| self.objects.model(model)))?;
        let buffer = self.device.allocate(desc, &models, input_roles, output_roles)?;
        if !self.charges_memory {
            charge.grow(Resource::Memory, buffer.size())?;
        }
        let token = buffer.token();
        let object = self.objects.insert(Object::Buffer(buffer), vec![Arc::new(charge)])?;
        Ok((object, token))
    }
}

/// Bytes that a driver keeps of an operation and of an operand: in its graph and in the steps of
/// its plan.
const OPERATION_BYTES: u64 = 2 << 10;
const OPERAND_BYTES: u64 = 512;

impl Session {
    /// Bytes that a model makes a driver keep: its graphs, and its constants where the driver
    /// doesn't charge those.
    fn cost(&self, model: &Result<Model>) -> u64 {
        let count = |length| u64::try_from(length).unwrap_or(u64::MAX);
        let Ok(model) = model else { return 0 };
        let graphs = std::iter::once(&model.main).chain(&model.referenced);
        let of_graphs = graphs.fold(0u64, |sum, graph| {
            let operations = count(graph.operations.len()).saturating_mul(OPERATION_BYTES);
            let operands = count(graph.operands.len()).saturating_mul(OPERAND_BYTES);
            sum.saturating_add(operations).saturating_add(operands)
        });
        if self.charges_memory {
            return of_graphs;
        }
        let values = of_graphs.saturating_add(count(model.operand_values.len()));
        model.pools.iter().fold(values, |sum, pool| sum.saturating_add(pool.size()))
    }

    fn cost_of_cache(&self, cache: &Result<CacheHandles>) -> u64 {
        let Ok(cache) = cache else { return 0 };
        let data = if self.charges_memory { 0 } else { bytes_of(&cache.data) };
        bytes_of(&cache.model).saturating_add(data)
    }

    /// Checks that a client may have the data of a cache, which a driver charges by itself once it
    /// has looked at it: no file of any length is looked at that its client could not have in
    /// memory.
    fn has_room_for_data(&self, cache: &Result<CacheHandles>) -> Result<()> {
        let (Ok(cache), true) = (cache, self.charges_memory) else { return Ok(()) };
        // Given back at once: the driver takes what it needs.
        drop(self.budget().take(Resource::Memory, bytes_of(&cache.data))?);
        Ok(())
    }
}

/// Bytes of some files.
fn bytes_of(files: &[OwnedFd]) -> u64 {
    let lengths = files.iter().map(|file| FileStatus::of(file).map_or(0, |file| file.size));
    lengths.fold(0, u64::saturating_add)
}

/// Returns the charges of a call for as long as it is at work: its message, and descriptors that
/// are no memories'.
fn task(message: Charge, fds: &mut DescriptorsIn) -> Charges {
    std::iter::once(message).chain(fds.take_charges()).map(Arc::new).collect()
}

/// Splits the charge that the client was allowed from the error that it was refused with.
fn split(
    mut charges: Charges,
    more: std::result::Result<Charge, impl Into<HalError>>,
) -> (Charges, Option<HalError>) {
    match more {
        Ok(more) => {
            charges.push(Arc::new(more));
            (charges, None)
        }
        Err(error) => (Vec::new(), Some(error.into())),
    }
}
