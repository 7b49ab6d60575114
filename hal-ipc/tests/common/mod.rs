//! A driver small enough to see through: every model adds one to each byte.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nnburst_hal::testing::MockModel;
pub use nnburst_hal::testing::tell;
use nnburst_hal::*;
use nnburst_hal_ipc::{Peer, Service, ServiceLimits};

/// How long anything may take before a test counts it as hung.
pub const HUNG: Duration = Duration::from_secs(60);

/// The time that a driver computes whose client stays: longer than it takes to lose a silent one.
const LONG: Duration = Duration::from_secs(15);

#[derive(Default)]
pub struct AddOneDevice {
    /// Prepared models and buffers that live.
    pub objects: Arc<AtomicUsize>,
    /// Ends what takes for ever.
    pub gone: Arc<AtomicBool>,
}

/// A service of this driver, and the count of its living objects.
pub fn service(limits: ServiceLimits) -> (Service, Arc<AtomicUsize>) {
    let objects = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&objects);
    let driver = move |peer: &Peer| {
        assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
        assert!(peer.pid > 0);
        Arc::new(AddOneDevice { objects: Arc::clone(&count), gone: peer.gone() }) as Arc<dyn Device>
    };
    let service = Service::new("add-one", driver);
    service.set_limits(limits);
    (service, objects)
}

/// Counts itself for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Device for AddOneDevice {
    fn capabilities(&self) -> Result<Capabilities> {
        let info = PerformanceInfo { exec_time: 1.5, power_usage: 2.5 };
        Ok(Capabilities {
            relaxed_float32_to_float16_scalar: info,
            relaxed_float32_to_float16_tensor: info,
            operand_performance: vec![OperandPerformance {
                kind: OperandType::TensorFloat32,
                info,
            }],
            if_performance: info,
            while_performance: info,
        })
    }

    fn version_string(&self) -> Result<String> {
        Ok("1+1".into())
    }

    fn device_type(&self) -> Result<DeviceType> {
        Ok(DeviceType::Cpu)
    }

    fn status(&self) -> Result<DeviceStatus> {
        Ok(DeviceStatus::Available)
    }

    fn supported_extensions(&self) -> Result<Vec<Extension>> {
        Err(HalError::failure("no extensions today"))
    }

    /// True where the constants are what `model()` makes.
    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        let mut pooled = [0; 3];
        if let Some(pool) = model.pools.first() {
            pool.read_at(0, &mut pooled)?;
        }
        let good = model.operand_values == b"tail" && &pooled == b"abc";
        Ok(vec![good; model.main.operations.len()])
    }

    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        Ok(CacheFiles { model: 1, data: 2 })
    }

    /// Models without operations are refused; those with the flag are forgotten; others get ready
    /// on a thread of their own.
    fn prepare_model(
        &self,
        model: Model,
        _options: PrepareOptions,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        if model.main.operations.is_empty() {
            let error = HalError::invalid("no operations");
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        if model.relax_computation_float32_to_float16 {
            return Ok(());
        }
        for file in &cache.data {
            nix::unistd::write(file, &cache.token[..2]).unwrap();
        }
        let counted = Counted::new(&self.objects);
        let model = add_one_model(&self.gone, counted);
        std::thread::spawn(move || callback.notify(Ok(Arc::new(model))));
        Ok(())
    }

    fn prepare_model_from_cache(
        &self,
        _deadline: Option<TimePoint>,
        _cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        let error = HalError::failure("nothing is cached");
        callback.notify(Err(error.clone()));
        Err(error)
    }

    fn allocate(
        &self,
        _desc: &BufferDesc,
        models: &[Arc<dyn PreparedModel>],
        _input_roles: &[BufferRole],
        _output_roles: &[BufferRole],
    ) -> Result<Arc<dyn Buffer>> {
        assert!(models.iter().all(|model| model.as_any().is::<MockModel>()), "our own object");
        let counted = Counted::new(&self.objects);
        Ok(Arc::new(AddOneBuffer { memory: Memory::ashmem(4)?, _counted: counted }))
    }
}

fn add_one(request: &Request, gone: &AtomicBool) -> ExecutionResult {
    let [RequestPool::Memory(input), RequestPool::Memory(output)] = request.pools.as_slice() else {
        let output_shapes = vec![OutputShape { dimensions: vec![7], is_sufficient: false }];
        let error = HalError::new(ErrorStatus::OutputInsufficientSize, "tokens are too small");
        return Err(ExecutionFailure { error, output_shapes });
    };
    let input = input.map(Access::Read).map_err(HalError::from)?;
    let output = output.map(Access::ReadWrite).map_err(HalError::from)?;
    let mut bytes = input.view(0..input.len()).unwrap().to_vec();
    if bytes.starts_with(&[255]) {
        // The input that takes as long as the client lives.
        let began = std::time::Instant::now();
        while !gone.load(Ordering::SeqCst) {
            assert!(began.elapsed() < LONG, "the client stays");
            std::thread::sleep(Duration::from_millis(1));
        }
        return Err(HalError::failure("stopped").into());
    }
    assert_ne!(bytes.first(), Some(&254), "the input that the driver panics over");
    bytes.iter_mut().for_each(|byte| *byte += 1);
    output.view_mut(0..output.len()).unwrap().copy_from_slice(&bytes);
    let shape = OutputShape { dimensions: vec![bytes.len() as u32], is_sufficient: true };
    let timing = Timing { time_on_device: 3, time_in_driver: 4 };
    Ok(ExecutionOutcome { output_shapes: vec![shape], timing })
}

/// A model that lives for as long as `counted`.
fn add_one_model(gone: &Arc<AtomicBool>, counted: Counted) -> MockModel {
    let (here, fenced) = (Arc::clone(gone), Arc::clone(gone));
    MockModel::new()
        .executing(move |request, _| {
            let _ = &counted;
            add_one(request, &here)
        })
        .with_threads()
        .executing_fenced(move |request, wait_for, _, duration| {
            assert_eq!(duration, Some(Duration::from_nanos(1_000_000_005)));
            for fence in &wait_for {
                nix::unistd::read(fence, &mut [0; 8]).unwrap();
            }
            add_one(&request, &fenced).map_err(|failure| failure.error)?;
            let fence = EventFd::from_value_and_flags(1, EfdFlags::EFD_CLOEXEC).unwrap().into();
            Ok(FencedExecution { sync_fence: Some(fence), callback: Arc::new(Info) })
        })
}

struct Info;

impl FencedExecutionCallback for Info {
    fn execution_info(&self) -> Result<FencedTiming> {
        let launched = Timing { time_on_device: 1, time_in_driver: 2 };
        Ok(FencedTiming { launched, fenced: Timing::NONE })
    }
}

struct AddOneBuffer {
    memory: Memory,
    _counted: Counted,
}

impl Buffer for AddOneBuffer {
    fn token(&self) -> u32 {
        42
    }

    fn copy_to(&self, destination: &Memory) -> Result<()> {
        copy(&self.memory, destination)
    }

    fn copy_from(&self, source: &Memory, dimensions: &[u32]) -> Result<()> {
        assert_eq!(dimensions, [2, 2]);
        copy(source, &self.memory)
    }
}

fn copy(from: &Memory, to: &Memory) -> Result<()> {
    if from.size() != to.size() {
        return Err(HalError::invalid("sizes differ"));
    }
    let (from, to) = (from.map(Access::Read)?, to.map(Access::ReadWrite)?);
    to.view_mut(0..to.len()).unwrap().copy_from(from.view(0..from.len()).unwrap());
    Ok(())
}

/// Memory with this content.
pub fn memory(bytes: &[u8]) -> Memory {
    let memory = Memory::ashmem(bytes.len() as u64).unwrap();
    let mapping = memory.map(Access::ReadWrite).unwrap();
    mapping.view_mut(0..bytes.len()).unwrap().copy_from_slice(bytes);
    memory
}

pub fn content(memory: &Memory) -> Vec<u8> {
    let mut bytes = vec![0; memory.size() as usize];
    memory.read_at(0, &mut bytes).unwrap();
    bytes
}

/// A model with constants in both places.
pub fn model() -> Model {
    let tensor =
        |lifetime| Operand::tensor(OperandType::TensorFloat32, vec![1]).with_lifetime(lifetime);
    Model {
        main: Subgraph {
            operands: vec![
                tensor(OperandLifeTime::SubgraphInput),
                tensor(OperandLifeTime::SubgraphOutput),
            ],
            operations: vec![Operation {
                kind: OperationType::Relu,
                inputs: vec![0],
                outputs: vec![1],
            }],
            input_indexes: vec![0],
            output_indexes: vec![1],
        },
        operand_values: b"tail".to_vec(),
        pools: vec![memory(b"abc")],
        ..Model::default()
    }
}

/// A request that reads one memory and writes another.
pub fn request(input: &Memory, output: &Memory) -> Request {
    let argument = |pool_index, memory: &Memory| RequestArgument {
        location: DataLocation { pool_index, offset: 0, length: memory.size() as u32 },
        ..RequestArgument::default()
    };
    Request {
        inputs: vec![argument(0, input)],
        outputs: vec![argument(1, output)],
        pools: vec![RequestPool::Memory(input.clone()), RequestPool::Memory(output.clone())],
    }
}

pub fn prepare(device: &dyn Device, model: Model) -> Result<Arc<dyn PreparedModel>> {
    wait_for_prepared_model(|callback| {
        device.prepare_model(model, PrepareOptions::default(), CacheHandles::default(), callback)
    })
}

/// Adds one to `bytes` by way of a prepared model.
pub fn run(model: &dyn PreparedModel, bytes: &[u8]) -> Vec<u8> {
    let (input, output) = (memory(bytes), memory(&vec![0; bytes.len()]));
    model.execute_synchronously(&request(&input, &output), ExecutionOptions::default()).unwrap();
    content(&output)
}

/// Waits until something is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HUNG, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
