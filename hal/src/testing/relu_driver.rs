//! A driver of every version in one: it computes a single RELU over FLOAT32, nothing else.

use std::sync::Arc;

use crate::error::{HalError, Result};
use crate::memory::Access;
use crate::traits::{
    Device, ExecutionCallback, ExecutionOptions, FencedExecution, PrepareOptions, PreparedModel,
    PreparedModelCallback,
};
use crate::types::{
    CacheFiles, CacheHandles, Capabilities, DataLocation, DeviceStatus, DeviceType, ErrorStatus,
    ExecutionOutcome, ExecutionPreference, ExecutionResult, Extension, MeasureTiming, Model,
    Operand, OperandLifeTime, OperandType, Operation, OperationType, OutputShape, PerformanceInfo,
    Request, RequestArgument, RequestPool, Subgraph, Timing, Version,
};
use crate::validate::{AllowUnspecifiedOutput, validate_model, validate_request};
use crate::versions::{v1_0, v1_1, v1_2};

/// Implements the device traits of all four versions, each by the rules of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReluDriver;

/// A model of one RELU over `TENSOR_FLOAT32` of a shape.
pub fn relu_model(dimensions: &[u32]) -> Model {
    let tensor = |lifetime, number_of_consumers| Operand {
        number_of_consumers,
        ..Operand::tensor(OperandType::TensorFloat32, dimensions.to_vec()).with_lifetime(lifetime)
    };
    Model {
        main: Subgraph {
            operands: vec![
                tensor(OperandLifeTime::SubgraphInput, 1),
                tensor(OperandLifeTime::SubgraphOutput, 0),
            ],
            operations: vec![Operation {
                kind: OperationType::Relu,
                inputs: vec![0],
                outputs: vec![1],
            }],
            input_indexes: vec![0],
            output_indexes: vec![1],
        },
        ..Model::default()
    }
}

/// A request for a [`relu_model`]: input values, then room for the output, in one memory.
///
/// # Errors
/// There is no memory.
pub fn relu_request(values: &[f32]) -> Result<(Request, crate::Memory)> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let length = u32::try_from(bytes.len()).map_err(|_| HalError::invalid("too many values"))?;
    let memory = crate::Memory::ashmem(u64::from(length).saturating_mul(2))?;
    let mapping = memory.map(Access::ReadWrite)?;
    if let Some(view) = mapping.view_mut(0..bytes.len()) {
        view.copy_from_slice(&bytes);
    }
    let argument = |offset| RequestArgument {
        location: DataLocation { pool_index: 0, offset, length },
        ..RequestArgument::default()
    };
    let request = Request {
        inputs: vec![argument(0)],
        outputs: vec![argument(length)],
        pools: vec![RequestPool::Memory(memory.clone())],
    };
    Ok((request, memory))
}

const FIGURES: PerformanceInfo = PerformanceInfo { exec_time: 0.5, power_usage: 0.5 };

fn supported(model: &Model, version: Version) -> Result<Vec<bool>> {
    validate_model(model, version)?;
    let is_relu = |operation: &Operation| operation.kind == OperationType::Relu;
    Ok(model.main.operations.iter().map(is_relu).collect())
}

struct PreparedRelu {
    model: Model,
    version: Version,
}

fn prepare(model: Model, version: Version) -> Result<Arc<PreparedRelu>> {
    if supported(&model, version)? != [true] {
        return Err(HalError::failure("this driver computes one RELU"));
    }
    Ok(Arc::new(PreparedRelu { model, version }))
}

impl PreparedRelu {
    fn run(&self, request: &Request) -> ExecutionResult {
        let allow = AllowUnspecifiedOutput::Yes;
        validate_request(request, &self.model, self.version, allow).map_err(HalError::from)?;
        let ([input], [output]) = (request.inputs.as_slice(), request.outputs.as_slice()) else {
            return Err(HalError::invalid("one input, one output").into());
        };
        let bytes = read(request, input)?;
        let (values, _) = bytes.as_chunks::<4>();
        let relu = |&value: &[u8; 4]| f32::from_le_bytes(value).max(0.0).to_le_bytes();
        let result: Vec<u8> = values.iter().flat_map(relu).collect();
        let declared = self.model.main.operands.first().map(|operand| operand.dimensions.clone());
        let given = &input.dimensions;
        let dimensions =
            if given.is_empty() { declared.unwrap_or_default() } else { given.clone() };
        let is_sufficient = length(output) >= result.len();
        let output_shapes = vec![OutputShape { dimensions, is_sufficient }];
        if !is_sufficient {
            let status = ErrorStatus::OutputInsufficientSize;
            let error = HalError::new(status, "the output is too small");
            return Err(crate::ExecutionFailure { error, output_shapes });
        }
        write(request, output, &result)?;
        Ok(ExecutionOutcome { output_shapes, timing: Timing::NONE })
    }
}

fn length(argument: &RequestArgument) -> usize {
    usize::try_from(argument.location.length).unwrap_or(usize::MAX)
}

fn memory<'a>(request: &'a Request, argument: &RequestArgument) -> Result<&'a crate::Memory> {
    let pool = usize::try_from(argument.location.pool_index).unwrap_or(usize::MAX);
    match request.pools.get(pool) {
        Some(RequestPool::Memory(memory)) => Ok(memory),
        _ => Err(HalError::invalid("this driver has no buffers")),
    }
}

fn read(request: &Request, argument: &RequestArgument) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length(argument)];
    memory(request, argument)?.read_at(u64::from(argument.location.offset), &mut bytes)?;
    Ok(bytes)
}

fn write(request: &Request, argument: &RequestArgument, bytes: &[u8]) -> Result<()> {
    let mapping = memory(request, argument)?.map(Access::ReadWrite)?;
    let start = usize::try_from(argument.location.offset).unwrap_or(usize::MAX);
    let view = mapping.view_mut(start..start.saturating_add(bytes.len()));
    view.ok_or_else(|| HalError::invalid("the output is not within its pool"))?
        .copy_from_slice(bytes);
    Ok(())
}

impl Device for ReluDriver {
    fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities::uniform(FIGURES))
    }

    fn version_string(&self) -> Result<String> {
        Ok("relu-1".to_owned())
    }

    fn device_type(&self) -> Result<DeviceType> {
        Ok(DeviceType::Cpu)
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        supported(model, Version::V1_3)
    }

    fn prepare_model(
        &self,
        model: Model,
        _options: PrepareOptions,
        _cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        let prepared = prepare(model, Version::V1_3);
        let launch = prepared.as_ref().map(drop).map_err(Clone::clone);
        callback.notify(prepared.map(|model| model as Arc<dyn PreparedModel>));
        launch
    }
}

impl PreparedModel for PreparedRelu {
    fn execute_synchronously(
        &self,
        request: &Request,
        _options: ExecutionOptions,
    ) -> ExecutionResult {
        self.run(request)
    }

    fn execute_fenced(
        &self,
        _request: Request,
        _wait_for: Vec<std::os::fd::OwnedFd>,
        _options: ExecutionOptions,
        _duration: Option<std::time::Duration>,
    ) -> Result<FencedExecution> {
        Err(HalError::failure("this driver has no fences"))
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// Tells the callback; an invalid request fails the launch as well.
fn launch(result: ExecutionResult, callback: &Arc<dyn ExecutionCallback>) -> Result<()> {
    let launched = match &result {
        Err(failure) if failure.error.status == ErrorStatus::InvalidArgument => {
            Err(failure.error.clone())
        }
        _ => Ok(()),
    };
    callback.notify(result);
    launched
}

const OLD: v1_1::Capabilities = v1_1::Capabilities {
    float32: FIGURES,
    quantized8: FIGURES,
    relaxed_float32_to_float16: FIGURES,
};

impl v1_0::Device for ReluDriver {
    fn capabilities(&self) -> Result<v1_0::Capabilities> {
        Ok(v1_0::Capabilities { float32: OLD.float32, quantized8: OLD.quantized8 })
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        supported(model, Version::V1_0)
    }

    fn prepare_model(
        &self,
        model: Model,
        callback: Arc<dyn v1_0::PreparedModelCallback>,
    ) -> Result<()> {
        let prepared = prepare(model, Version::V1_0);
        let launch = prepared.as_ref().map(drop).map_err(Clone::clone);
        callback.notify(prepared.map(|model| model as Arc<dyn v1_0::PreparedModel>));
        launch
    }

    fn status(&self) -> Result<DeviceStatus> {
        Ok(DeviceStatus::Available)
    }
}

impl v1_0::PreparedModel for PreparedRelu {
    fn execute(&self, request: Request, callback: Arc<dyn v1_0::ExecutionCallback>) -> Result<()> {
        let result = self.run(&request).map(drop).map_err(|failure| failure.error);
        callback.notify(result.clone());
        match result {
            Err(error) if error.status == ErrorStatus::InvalidArgument => Err(error),
            _ => Ok(()),
        }
    }
}

impl v1_1::Device for ReluDriver {
    fn capabilities(&self) -> Result<v1_1::Capabilities> {
        Ok(OLD)
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        supported(model, Version::V1_1)
    }

    fn prepare_model(
        &self,
        model: Model,
        _preference: ExecutionPreference,
        callback: Arc<dyn v1_1::PreparedModelCallback>,
    ) -> Result<()> {
        let prepared = prepare(model, Version::V1_1);
        let launch = prepared.as_ref().map(drop).map_err(Clone::clone);
        callback.notify(prepared.map(|model| model as Arc<dyn v1_1::PreparedModel>));
        launch
    }

    fn status(&self) -> Result<DeviceStatus> {
        Ok(DeviceStatus::Available)
    }
}

impl v1_2::Device for ReluDriver {
    fn capabilities(&self) -> Result<v1_2::Capabilities> {
        Ok(Device::capabilities(self)?.to_v1_2())
    }

    fn version_string(&self) -> Result<String> {
        Device::version_string(self)
    }

    fn device_type(&self) -> Result<DeviceType> {
        Device::device_type(self)
    }

    fn supported_extensions(&self) -> Result<Vec<Extension>> {
        Ok(Vec::new())
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        supported(model, Version::V1_2)
    }

    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        Ok(CacheFiles::default())
    }

    fn prepare_model(
        &self,
        model: Model,
        _preference: ExecutionPreference,
        _cache: CacheHandles,
        callback: Arc<dyn v1_2::PreparedModelCallback>,
    ) -> Result<()> {
        let prepared = prepare(model, Version::V1_2);
        let launch = prepared.as_ref().map(drop).map_err(Clone::clone);
        callback.notify(prepared.map(|model| model as Arc<dyn v1_2::PreparedModel>));
        launch
    }

    fn prepare_model_from_cache(
        &self,
        _cache: CacheHandles,
        callback: Arc<dyn v1_2::PreparedModelCallback>,
    ) -> Result<()> {
        callback.notify(Err(HalError::failure("this driver has no cache")));
        Err(HalError::failure("this driver has no cache"))
    }

    fn status(&self) -> Result<DeviceStatus> {
        Ok(DeviceStatus::Available)
    }
}

impl v1_2::PreparedModel for PreparedRelu {
    fn execute_synchronously(&self, request: &Request, _measure: MeasureTiming) -> ExecutionResult {
        self.run(request)
    }

    fn execute(
        &self,
        request: Request,
        _measure: MeasureTiming,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        launch(self.run(&request), &callback)
    }
}
