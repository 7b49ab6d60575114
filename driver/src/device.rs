//! The driver and its device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use nnburst_executor::{CompileError, CompileOptions, Control, Plan};
use nnburst_hal::process;
use nnburst_hal::{
    Amounts, Buffer, BufferDesc, BufferRole, CacheFiles, CacheHandles, Capabilities, Device,
    DeviceStatus, DeviceType, Extension, HalError, Layer, Model, Phase, PrepareOptions,
    PreparedModel, PreparedModelCallback, Priority, Result, Rule, TimePoint, Version, log_dot,
    read_vlog_mask, trace_span, try_collect, validate_memory_desc, validate_model_polled, vlog,
};
use nnburst_hal_ipc::{Driver, Peer, Service};

use crate::buffer::CpuBuffer;
use crate::cache;
use crate::client::{Client, own_user};
use crate::compiled::Compiled;
use crate::estimate;
use crate::personality::{Cpu, Personality, measured_capabilities};
use crate::prepared_model::CpuPreparedModel;
use crate::processor::Running;
use crate::refusal::{invalid, no_thread};
use crate::shared::{CpuDriverOptions, DriverState, VERSION};
use crate::support::{supported, unreadable};

/// A driver; clones are the same driver.
#[derive(Clone, Debug)]
pub struct CpuDriver(Arc<DriverState>);

impl CpuDriver {
    /// The CPU driver, `nnburst-cpu`.
    pub fn new(options: CpuDriverOptions) -> Self {
        Self::with_personality(Arc::new(Cpu), options)
    }

    /// A driver of another name, with figures, operations and extensions of its own.
    pub fn with_personality(personality: Arc<dyn Personality>, options: CpuDriverOptions) -> Self {
        Self(Arc::new(DriverState::new(personality, &options)))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The driver as a device in this process: it prepares models on the threads that ask for them,
    /// and tells their callbacks before it returns.
    pub fn device(&self) -> Arc<dyn Device> {
        self.device_for(Client::new(Arc::default(), own_user(), None))
    }

    /// The driver as a service, to listen or to serve a connected socket.
    pub fn service(&self) -> Service {
        Service::new(self.name(), self.clone())
    }

    fn device_for(&self, client: Client) -> Arc<dyn Device> {
        Arc::new(CpuDevice { shared: Arc::clone(&self.0), client: Arc::new(client) })
    }
}

impl Driver for CpuDriver {
    fn device(&self, peer: &Peer) -> Arc<dyn Device> {
        self.device_for(Client::of(peer))
    }

    fn charges_memory(&self) -> bool {
        true
    }
}

/// The driver as one client sees it.
struct CpuDevice {
    shared: Arc<DriverState>,
    client: Arc<Client>,
}

impl Device for CpuDevice {
    fn capabilities(&self) -> Result<Capabilities> {
        let measured = self.shared.options.measured.as_ref();
        Ok(measured.map_or_else(|| self.shared.personality.capabilities(), measured_capabilities))
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
        let extensions = self.shared.personality.extensions();
        Ok(extensions.into_iter().map(|extension| extension.extension).collect())
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        self.validate(model, Priority::Medium, None)?;
        supported(self.shared.personality.as_ref(), model)
    }

    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        Ok(cache::FILES)
    }

    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        if let Err(error) = self.shared.origin.check() {
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        read_vlog_mask();
        if let Err(error) = self.validate(&model, options.priority, options.deadline) {
            vlog!(Driver, "refused a model: {error}");
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        self.launch(callback, move |preparation| preparation.prepare(model, options, &cache))
    }

    fn prepare_model_from_cache(
        &self,
        deadline: Option<TimePoint>,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        if let Err(error) = self.shared.origin.check() {
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        if !cache::is_complete(&cache) {
            let (models, data) = (cache.model.len(), cache.data.len());
            let error = HalError::invalid(format!("{models} model and {data} data cache files"));
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        self.launch(callback, move |preparation| preparation.restore(deadline, &cache))
    }

    fn allocate(
        &self,
        desc: &BufferDesc,
        models: &[Arc<dyn PreparedModel>],
        input_roles: &[BufferRole],
        output_roles: &[BufferRole],
    ) -> Result<Arc<dyn Buffer>> {
        self.shared.origin.check()?;
        let own = |(at, model): (usize, &'_ Arc<dyn PreparedModel>)| {
            CpuPreparedModel::of(model.as_ref(), &self.shared)
                .ok_or_else(|| HalError::invalid(format!("model {at} is not of this driver")))
        };
        let models = try_collect(models.iter().enumerate().map(own))?;
        let graphs: Vec<_> = models.iter().map(|model| model.model()).collect();
        let roles = validate_memory_desc(desc, &graphs, input_roles, output_roles)
            .map_err(|error| invalid(&error))?;
        let ids: Vec<_> = models.iter().map(|model| model.id()).collect();
        let budget = self.client.budget();
        Ok(Arc::new(CpuBuffer::allocate(&self.shared.buffers, &roles, &ids, budget)?))
    }
}

impl CpuDevice {
    /// Validates a model of any size, which takes its turns and ends with its client.
    fn validate(
        &self,
        model: &Model,
        priority: Priority,
        deadline: Option<TimePoint>,
    ) -> Result<()> {
        let running = self.client.begin(priority, deadline);
        let is_late = || deadline.is_some_and(TimePoint::has_passed);
        let goes_on = || {
            running.pass();
            // Relaxed: the flag hands over nothing but itself.
            !self.client.gone.load(Ordering::Relaxed) && !is_late()
        };
        validate_model_polled(model, Version::V1_3, &goes_on).map_err(|error| match error.rule {
            Rule::Ended if is_late() => CompileError::DeadlineMissed.into(),
            Rule::Ended => CompileError::Stopped.into(),
            _ => error.into(),
        })
    }

    /// Prepares, in the background where the client has threads for that.
    fn launch(
        &self,
        callback: Arc<dyn PreparedModelCallback>,
        prepare: impl FnOnce(Preparation) -> Result<Arc<Compiled>> + Send + 'static,
    ) -> Result<()> {
        let (shared, client) = (Arc::clone(&self.shared), Arc::clone(&self.client));
        let (told, launched) = (Arc::clone(&callback), Instant::now());
        let task = move || {
            let preparation = Preparation { shared: Arc::clone(&shared), client, launched };
            let compiled = catch_unwind(AssertUnwindSafe(|| prepare(preparation)))
                .unwrap_or_else(|_| Err(HalError::failure("the driver panicked")));
            let watched = compiled.as_ref().ok().map(Arc::downgrade);
            callback.notify(compiled.map(|it| Arc::new(CpuPreparedModel::new(it)) as _));
            // Afterwards, since it may start a thread, and nobody is to wait for that.
            if let Some(compiled) = watched {
                shared.idle.watch(compiled);
            }
        };
        let Some(preparations) = &self.client.preparations else {
            task();
            return Ok(());
        };
        if preparations.submit(move || process::long_work(task)) {
            return Ok(());
        }
        let error = no_thread("the preparation");
        told.notify(Err(error.clone()));
        Err(error)
    }
}

/// A preparation at work.
struct Preparation {
    shared: Arc<DriverState>,
    client: Arc<Client>,
    /// When it was asked for.
    launched: Instant,
}

impl Preparation {
    fn prepare(
        self,
        model: Model,
        options: PrepareOptions,
        cache: &CacheHandles,
    ) -> Result<Arc<Compiled>> {
        let _span = trace_span(Layer::Driver, Phase::Preparation, "prepare");
        let size = estimate::size(&model);
        let waited = self.launched.elapsed();
        self.shared.preparing.check("preparation", size, options.deadline, waited)?;
        self.check(&model)?;
        log_dot(&model, self.shared.name());
        let (compile, began) = (self.compile_options(), Instant::now());
        let running = self.begin(options.priority, options.deadline);
        let plan =
            Plan::compile_under(&model, &compile, &self.control(&running, options.deadline))?;
        if !running.was_held_up() {
            self.shared.preparing.took(size, began.elapsed());
        }
        drop(running);
        if cache::is_complete(cache) {
            let saved = self
                .shared
                .identity(&compile)
                .and_then(|identity| cache::save(cache, identity, &plan, &model, &options));
            if let Err(error) = saved {
                // The model is as good without.
                tracing::warn!(%error, "the model is not cached");
            }
        }
        self.finish(plan, model, options)
    }

    fn restore(self, deadline: Option<TimePoint>, cache: &CacheHandles) -> Result<Arc<Compiled>> {
        let _span = trace_span(Layer::Driver, Phase::Preparation, "restore");
        self.shared.restoring.check("restoration", 1, deadline, self.launched.elapsed())?;
        let (compile, began) = (self.compile_options(), Instant::now());
        let identity = self.shared.identity(&compile)?;
        // What priority it was prepared with is known once it is restored.
        let running = self.begin(Priority::Medium, deadline);
        let restored = cache::load(cache, identity, &compile, &self.control(&running, deadline))?;
        if !running.was_held_up() {
            self.shared.restoring.took(1, began.elapsed());
        }
        drop(running);
        self.check(&restored.model)?;
        self.finish(restored.plan, restored.model, restored.options)
    }

    /// The memory of plan and sessions is charged to the client, and told apart from that of its
    /// other models.
    fn compile_options(&self) -> CompileOptions {
        let memory = self.client.budget().map(|budget| budget.child("model", Amounts::UNLIMITED));
        CompileOptions { memory, ..self.shared.compile_options() }
    }

    /// A preparation ends when it is too late, or when nobody waits for it any more.
    fn control<'a>(&'a self, running: &'a Running<'_>, deadline: Option<TimePoint>) -> Control<'a> {
        let (checkpoint, stop) = (Some(running as _), Some(&*self.client.gone));
        Control { checkpoint, stop, deadline, ..Control::default() }
    }

    fn begin(&self, priority: Priority, deadline: Option<TimePoint>) -> Running<'_> {
        self.client.begin(priority, deadline)
    }

    fn check(&self, model: &Model) -> Result<()> {
        let taken = supported(self.shared.personality.as_ref(), model)?;
        let Some(refused) = taken.iter().position(|&taken| !taken) else {
            return Ok(());
        };
        let operation = model.main.operations.get(refused);
        let unreadable = operation.and_then(|it| unreadable(it, &model.main, model));
        if let Some(error) = unreadable {
            let what = format!("constants of operation {refused} can't be read: {error}");
            return Err(HalError::invalid(what));
        }
        let kind = operation.map(|operation| operation.kind);
        let (name, kind) = (self.shared.name(), kind.map_or("", |kind| kind.name()));
        Err(HalError::invalid(format!("{name} doesn't take operation {refused}, {kind}")))
    }

    fn finish(self, plan: Plan, model: Model, options: PrepareOptions) -> Result<Arc<Compiled>> {
        let Self { shared, client, .. } = self;
        let (operations, priority) = (model.main.operations.len(), options.priority);
        vlog!(Driver, "prepared a model of {operations} operations, {priority:?}");
        // Relaxed: only uniqueness matters.
        let id = shared.next_model.fetch_add(1, Ordering::Relaxed);
        // Requests are checked against the graph; the constants are in the plan.
        let model = Model { operand_values: Vec::new(), pools: Vec::new(), ..model };
        Ok(Arc::new(Compiled::new(id, model, plan, shared, client, options.priority)?))
    }
}

#[cfg(test)]
mod tests {
    use nnburst_burst::{BurstController, ControllerOptions};
    use nnburst_hal::testing::relu_model;
    use nnburst_hal::{RealTimeProfile, wait_for_prepared_model};
    use nnburst_hal_ipc::Pool;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;

    #[test]
    fn real_time_profiles_are_for_the_driver_s_own_user() {
        let driver = CpuDriver::new(CpuDriverOptions::default());
        for (trusted, real_time) in [(true, true), (false, false), (false, true)] {
            let uid = if trusted { own_user() } else { own_user() + 1 };
            let device = driver.device_for(Client::new(Arc::default(), uid, None));
            let model = wait_for_prepared_model(|callback| {
                let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
                device.prepare_model(relu_model(&[2]), options, cache, callback)
            })
            .unwrap();
            let mut options = ControllerOptions::default();
            if real_time {
                let timer_slack = Some(Duration::from_micros(50));
                options.burst.real_time =
                    RealTimeProfile { timer_slack, ..RealTimeProfile::default() };
            }
            let configured = BurstController::configure(model.as_ref(), &options, None);
            assert_eq!(configured.is_ok(), trusted || !real_time, "{trusted} {real_time}");
        }
    }

    #[test]
    fn a_preparation_that_panics_is_a_failure() {
        let driver = CpuDriver::new(CpuDriverOptions::default());
        for preparations in [None, Some(Pool::new("test", 1, 1))] {
            let client = Arc::new(Client::new(Arc::default(), own_user(), preparations));
            let device = CpuDevice { shared: Arc::clone(&driver.0), client };
            let panicking = |callback| device.launch(callback, |_| panic!("as it is meant to"));
            let error = wait_for_prepared_model(panicking).map(drop).unwrap_err();
            assert_eq!(error, HalError::failure("the driver panicked"));
        }
    }

    #[test]
    fn preparations_end_with_their_client() {
        let driver = CpuDriver::new(CpuDriverOptions::default());
        let gone = Arc::new(AtomicBool::new(false));
        let device = driver.device_for(Client::new(Arc::clone(&gone), own_user(), None));
        let prepare = || {
            wait_for_prepared_model(|callback| {
                let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
                device.prepare_model(relu_model(&[2]), options, cache, callback)
            })
        };
        prepare().unwrap();
        gone.store(true, Ordering::Release);
        let error = prepare().map(drop).unwrap_err();
        assert_eq!(error, HalError::failure("stopped"));
    }
}
