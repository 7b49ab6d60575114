//! Drivers of the tests' own making: the embedded executor behind figures, tastes and faults of
//! choice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nnburst::Device;
use nnburst::hal::{
    self, Buffer, BufferDesc, BufferRole, CacheHandles, Capabilities, DeviceType, ErrorStatus,
    HalError, Model, OperandPerformance, OperandType, Operation, PerformanceInfo, PrepareOptions,
    PreparedModel, PreparedModelCallback, Version,
};
use nnburst_driver::CpuDriverOptions;
use nnburst_driver_sample::sample_driver;
use nnburst_hal::testing::MockModel;

/// What a driver does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It can't prepare what it says it supports.
    Prepare(ErrorStatus),
    /// It can't execute what it prepared.
    Execute(ErrorStatus),
    /// It makes buffers that nobody can name.
    NamelessBuffers,
}

/// Whether a driver takes an operation of a model.
type Taste = Box<dyn Fn(&Operation, &Model) -> bool + Send + Sync>;

/// A driver that takes what it likes.
pub(crate) struct Picky {
    executor: Arc<dyn hal::Device>,
    exec_time: f32,
    power_usage: f32,
    taste: Taste,
    /// Whether it says yes to what the executor behind it would refuse.
    boasts: bool,
    relaxed: Option<f32>,
    /// The type that it is good at, and its figure for it.
    favourite: Option<(OperandType, f32)>,
    fault: Fault,
    /// Whether it has memory of its own.
    has_buffers: bool,
    pub(crate) executions: Arc<AtomicUsize>,
}

impl Picky {
    pub(crate) fn new(
        exec_time: f32,
        taste: impl Fn(&Operation, &Model) -> bool + Send + Sync + 'static,
    ) -> Self {
        let driver = sample_driver("nnapi-sample_all", CpuDriverOptions::default()).unwrap();
        Self {
            executor: driver.device(),
            exec_time,
            power_usage: exec_time,
            taste: Box::new(taste),
            boasts: false,
            relaxed: None,
            favourite: None,
            fault: Fault::None,
            has_buffers: false,
            executions: Arc::default(),
        }
    }

    pub(crate) fn power(mut self, power_usage: f32) -> Self {
        self.power_usage = power_usage;
        self
    }

    /// Says yes by its taste alone, whatever the executor behind it can do.
    pub(crate) fn boasting(mut self) -> Self {
        self.boasts = true;
        self
    }

    /// Another figure for relaxed floats.
    pub(crate) fn relaxed(mut self, exec_time: f32) -> Self {
        self.relaxed = Some(exec_time);
        self
    }

    /// Another figure for one type.
    pub(crate) fn favourite(mut self, kind: OperandType, exec_time: f32) -> Self {
        self.favourite = Some((kind, exec_time));
        self
    }

    pub(crate) fn fault(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    /// With memory of its own.
    pub(crate) fn with_buffers(mut self) -> Self {
        self.has_buffers = true;
        self
    }

    /// The driver as a device that speaks a version of the HAL.
    pub(crate) fn device(self, name: &str, version: Version) -> Device {
        let driver: Arc<dyn hal::Device> = Arc::new(self);
        match version {
            Version::V1_0 => {
                Device::from_hal(name, hal::v1_0::upgrade(hal::v1_0::downgrade(driver)))
            }
            Version::V1_1 => {
                Device::from_hal(name, hal::v1_1::upgrade(hal::v1_1::downgrade(driver)))
            }
            Version::V1_2 => {
                Device::from_hal(name, hal::v1_2::upgrade(hal::v1_2::downgrade(driver)))
            }
            Version::V1_3 => Device::from_hal(name, driver),
        }
    }
}

/// A driver of 1.3 that takes these operations.
pub(crate) fn taking(name: &str, exec_time: f32, kinds: &'static [hal::OperationType]) -> Device {
    Picky::new(exec_time, |operation, _| kinds.contains(&operation.kind))
        .device(name, Version::V1_3)
}

impl hal::Device for Picky {
    fn capabilities(&self) -> hal::Result<Capabilities> {
        let info = PerformanceInfo { exec_time: self.exec_time, power_usage: self.power_usage };
        let kinds = OperandType::BASE.iter().filter(|&&kind| kind != OperandType::Subgraph);
        let of = |exec_time: Option<f32>| PerformanceInfo {
            exec_time: exec_time.unwrap_or(info.exec_time),
            ..info
        };
        let favourite = |kind| self.favourite.filter(|one| one.0 == kind).map(|one| one.1);
        let performance = |&kind: &_| OperandPerformance { kind, info: of(favourite(kind)) };
        Ok(Capabilities {
            relaxed_float32_to_float16_scalar: of(self.relaxed),
            relaxed_float32_to_float16_tensor: of(self.relaxed),
            operand_performance: kinds.map(performance).collect(),
            if_performance: info,
            while_performance: info,
        })
    }
    fn version_string(&self) -> hal::Result<String> {
        Ok("picky".into())
    }
    fn device_type(&self) -> hal::Result<DeviceType> {
        Ok(DeviceType::Accelerator)
    }
    fn supported_operations(&self, model: &Model) -> hal::Result<Vec<bool>> {
        let mut operations = if self.boasts {
            vec![true; model.main.operations.len()]
        } else {
            self.executor.supported_operations(model)?
        };
        for (answer, operation) in operations.iter_mut().zip(&model.main.operations) {
            *answer &= (self.taste)(operation, model);
        }
        Ok(operations)
    }
    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> hal::Result<()> {
        let refused = self.supported_operations(&model).map(|taken| taken.contains(&false));
        let error = match (self.fault, refused) {
            (Fault::Prepare(status), _) => Some(HalError::new(status, "this driver can't")),
            (_, Ok(true)) => Some(HalError::invalid("not to this driver's taste")),
            (_, Err(error)) => Some(error),
            _ => None,
        };
        if let Some(error) = error {
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        let (fault, executions) = (self.fault, Arc::clone(&self.executions));
        let wrapping = Wrapping { callback, fault, executions };
        self.executor.prepare_model(model, options, cache, Arc::new(wrapping))
    }
    fn allocate(
        &self,
        desc: &BufferDesc,
        models: &[Arc<dyn PreparedModel>],
        inputs: &[BufferRole],
        outputs: &[BufferRole],
    ) -> hal::Result<Arc<dyn Buffer>> {
        if self.has_buffers {
            return self.executor.allocate(desc, models, inputs, outputs);
        }
        match self.fault {
            Fault::NamelessBuffers => Ok(Arc::new(Nameless)),
            _ => Err(HalError::failure("no buffers")),
        }
    }
}

/// A buffer with the token that none can have.
#[derive(Debug)]
struct Nameless;

impl Buffer for Nameless {
    fn token(&self) -> u32 {
        0
    }
    fn copy_from(&self, _source: &hal::Memory, _dimensions: &[u32]) -> hal::Result<()> {
        Err(HalError::failure("nobody can name it"))
    }
    fn copy_to(&self, _target: &hal::Memory) -> hal::Result<()> {
        Err(HalError::failure("nobody can name it"))
    }
}

struct Wrapping {
    callback: Arc<dyn PreparedModelCallback>,
    fault: Fault,
    executions: Arc<AtomicUsize>,
}

impl PreparedModelCallback for Wrapping {
    fn notify(&self, result: hal::Result<Arc<dyn PreparedModel>>) {
        let (fault, executions) = (self.fault, Arc::clone(&self.executions));
        let check = move || {
            executions.fetch_add(1, Ordering::Relaxed);
            match fault {
                Fault::Execute(status) => Err(HalError::new(status, "this driver fails")),
                _ => Ok(()),
            }
        };
        let faulty = result.map(|model| Arc::new(MockModel::over(model).checked(check)) as _);
        self.callback.notify(faulty);
    }
}
