//! The driver and its device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nnburst_executor::{CompileOptions, Plan};
use nnburst_hal::{
    Buffer, BufferDesc, BufferRole, CacheFiles, CacheHandles, Capabilities, Device, DeviceStatus,
    DeviceType, ErrorStatus, Extension, HalError, Model, PrepareOptions, PreparedModel,
    PreparedModelCallback, Priority, Result, TimePoint, ValidationError, Version,
    validate_memory_desc, validate_model,
};
use nnburst_hal_ipc::{Driver, Limits, Peer, Pool, Service};

use crate::buffer::{Buffers, SampleBuffer};
use crate::figures::{self, Figures};
use crate::idle::IdleWatch;
use crate::prepared_model::{Compiled, SamplePreparedModel};
use crate::priority::Priorities;

const VERSION: &str = "JUST_AN_EXAMPLE";

/// How a driver is to work.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Threads that work on one execution; the results don't depend on it.
    pub threads: usize,
    /// What one client of the service may have.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: 1, limits: Limits::default() }
    }
}

/// There is no sample driver of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no sample driver {name:?}; there are {}", figures::names().collect::<Vec<_>>().join(", "))]
pub struct UnknownDriver {
    /// What was asked for.
    pub name: String,
}

/// One of the sample drivers; clones are the same driver.
#[derive(Clone, Debug)]
pub struct SampleDriver(Arc<Shared>);

/// What all devices of one driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    figures: &'static Figures,
    options: Options,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) idle: Arc<IdleWatch>,
    /// Relaxed: only uniqueness matters.
    next_model: AtomicU64,
}

impl SampleDriver {
    /// The driver of this name.
    ///
    /// # Errors
    /// There is none; see [`names`](crate::names).
    pub fn new(name: &str, options: Options) -> std::result::Result<Self, UnknownDriver> {
        let figures = figures::find(name).ok_or_else(|| UnknownDriver { name: name.to_owned() })?;
        Ok(Self(Arc::new(Shared {
            figures,
            options,
            buffers: Arc::default(),
            idle: Arc::default(),
            next_model: AtomicU64::new(1),
        })))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0.figures.name
    }

    /// The driver as a device in this process.
    pub fn device(&self) -> Arc<dyn Device> {
        self.device_for(Arc::default())
    }

    /// The driver as a service, to listen or to serve a connected socket.
    pub fn service(&self) -> Service {
        Service::with_limits(self.name(), self.clone(), self.0.options.limits)
    }

    fn device_for(&self, gone: Arc<AtomicBool>) -> Arc<dyn Device> {
        Arc::new(SampleDevice { shared: Arc::clone(&self.0), client: Arc::new(Client::new(gone)) })
    }
}

impl Driver for SampleDriver {
    fn device(&self, peer: &Peer) -> Arc<dyn Device> {
        self.device_for(peer.gone())
    }
}

/// The driver as one client sees it.
struct SampleDevice {
    shared: Arc<Shared>,
    client: Arc<Client>,
}

/// Threads that prepare the models of one client, and that run what it launches of one priority.
const PREPARING: usize = 2;
const EXECUTING: usize = 4;

/// What the models of one client share.
#[derive(Debug)]
pub(crate) struct Client {
    /// Set when the client is gone: what runs for it stops.
    pub(crate) gone: Arc<AtomicBool>,
    pub(crate) priorities: Priorities,
    preparations: Pool,
    /// For each priority its own, so that none waits behind a lower one.
    executions: [Pool; 3],
}

impl Client {
    /// The number of what waits is bounded by the service's limits; in this process nobody bounds it.
    fn new(gone: Arc<AtomicBool>) -> Self {
        Self {
            gone,
            priorities: Priorities::default(),
            preparations: Pool::new("nnburst-prepare", PREPARING, usize::MAX),
            executions: [(); 3].map(|()| Pool::new("nnburst-execute", EXECUTING, usize::MAX)),
        }
    }

    /// The threads for executions of this priority.
    pub(crate) fn executions(&self, priority: Priority) -> &Pool {
        let [low, medium, high] = &self.executions;
        match priority {
            Priority::Low => low,
            Priority::Medium => medium,
            Priority::High => high,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.preparations.close();
        self.executions.iter().for_each(Pool::close);
    }
}

impl Device for SampleDevice {
    fn capabilities(&self) -> Result<Capabilities> {
        Ok(self.shared.figures.capabilities())
    }

    fn version_string(&self) -> Result<String> {
        Ok(VERSION.to_owned())
    }

    fn device_type(&self) -> Result<DeviceType> {
        Ok(DeviceType::Cpu)
    }

    fn status(&self) -> Result<DeviceStatus> {
        Ok(DeviceStatus::Available)
    }

    fn supported_extensions(&self) -> Result<Vec<Extension>> {
        Ok(Vec::new())
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        validate_model(model, Version::V1_3).map_err(|error| invalid(&error))?;
        Ok(self.shared.figures.supported(model))
    }

    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        Ok(CacheFiles::default())
    }

    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        _cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        if let Err(error) = validate_model(&model, Version::V1_3) {
            let error = invalid(&error);
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        let (shared, client) = (Arc::clone(&self.shared), Arc::clone(&self.client));
        let told = Arc::clone(&callback);
        let task = move || callback.notify(prepare(shared, client, model, options));
        if self.client.preparations.submit(task) {
            return Ok(());
        }
        let error = HalError::failure("no thread for the preparation");
        told.notify(Err(error.clone()));
        Err(error)
    }

    fn prepare_model_from_cache(
        &self,
        _deadline: Option<TimePoint>,
        _cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        let error = HalError::failure("the driver caches nothing");
        callback.notify(Err(error.clone()));
        Err(error)
    }

    fn allocate(
        &self,
        desc: &BufferDesc,
        models: &[Arc<dyn PreparedModel>],
        input_roles: &[BufferRole],
        output_roles: &[BufferRole],
    ) -> Result<Arc<dyn Buffer>> {
        let own = |(at, model): (usize, &'_ Arc<dyn PreparedModel>)| {
            SamplePreparedModel::of(model.as_ref(), &self.shared)
                .ok_or_else(|| HalError::invalid(format!("model {at} is not of this driver")))
        };
        let models: Vec<_> = models.iter().enumerate().map(own).collect::<Result<_>>()?;
        let graphs: Vec<_> = models.iter().map(|model| model.model()).collect();
        let roles = validate_memory_desc(desc, &graphs, input_roles, output_roles)
            .map_err(|error| invalid(&error))?;
        let ids: Vec<_> = models.iter().map(|model| model.id()).collect();
        Ok(Arc::new(SampleBuffer::allocate(&self.shared.buffers, &roles, &ids)?))
    }
}

fn prepare(
    shared: Arc<Shared>,
    client: Arc<Client>,
    model: Model,
    options: PrepareOptions,
) -> Result<Arc<dyn PreparedModel>> {
    if options.deadline.is_some_and(TimePoint::has_passed) {
        let status = ErrorStatus::MissedDeadlinePersistent;
        return Err(HalError::new(status, "the deadline had passed before the preparation began"));
    }
    if let Some(refused) = shared.figures.supported(&model).iter().position(|&taken| !taken) {
        let kind = model.main.operations.get(refused).map(|operation| operation.kind);
        let kind = kind.map_or("", |kind| kind.name());
        let name = shared.figures.name;
        return Err(HalError::invalid(format!("{name} doesn't take operation {refused}, {kind}")));
    }
    let compile = CompileOptions { threads: shared.options.threads, ..CompileOptions::default() };
    let plan = Plan::compile(&model, &compile)?;
    // Relaxed: only uniqueness matters.
    let id = shared.next_model.fetch_add(1, Ordering::Relaxed);
    // Requests are checked against the graph; the constants are in the plan.
    let model = Model { operand_values: Vec::new(), pools: Vec::new(), ..model };
    let compiled = Arc::new(Compiled::new(id, model, plan, shared, client, options.priority));
    Ok(Arc::new(SamplePreparedModel::new(compiled)))
}

pub(crate) fn invalid(error: &ValidationError) -> HalError {
    HalError::invalid(error.to_string())
}
