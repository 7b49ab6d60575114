//! A complete driver: computes models of one RELU over floats, for any client that asks for
//! `example-relu`. `docs/hal.md` says more of it.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::*;
use nnburst_hal_ipc::{Peer, Service, service_dir};

const FIGURES: PerformanceInfo = PerformanceInfo { exec_time: 1.0, power_usage: 1.0 };

struct ReluDevice;

impl Device for ReluDevice {
    fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities::uniform(FIGURES))
    }

    fn version_string(&self) -> Result<String> {
        Ok("1".to_owned())
    }
    fn device_type(&self) -> Result<DeviceType> {
        Ok(DeviceType::Cpu)
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        // Before this, nothing of a client's model is sure; after it, all that the interface
        // promises is.
        validate_model(model, Version::V1_3)?;
        // It takes what it prepares: one RELU, with nothing beside it.
        let is_one = model.main.operations.len() == 1 && model.main.input_indexes.len() == 1;
        let taken = |operation| is_one && takes(operation, model);
        Ok(model.main.operations.iter().map(taken).collect())
    }

    /// Expensive preparations go to a thread, and `notify` with them. The callback hears of a
    /// refusal as well, which whoever carries the call sees to.
    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        _cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        let taken = self.supported_operations(&model)?;
        callback.notify(match in_time(options.deadline) {
            Err(late) => Err(late),
            Ok(()) if taken != [true] => Err(HalError::invalid("not one RELU over floats")),
            Ok(()) => Ok(Arc::new(ReluModel(model))),
        });
        Ok(())
    }
}

fn takes(operation: &Operation, model: &Model) -> bool {
    let input = operation.inputs.first().and_then(|&at| model.main.operands.get(at as usize));
    let float = input.is_some_and(|operand| operand.kind == OperandType::TensorFloat32);
    operation.kind == OperationType::Relu && float
}

fn in_time(deadline: Option<TimePoint>) -> Result<()> {
    if deadline.is_some_and(TimePoint::has_passed) {
        return Err(HalError::new(
            ErrorStatus::MissedDeadlinePersistent,
            "the deadline has passed",
        ));
    }
    Ok(())
}

struct ReluModel(Model);

impl PreparedModel for ReluModel {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        validate_request(request, &self.0, Version::V1_3, AllowUnspecifiedOutput::Yes)
            .map_err(HalError::from)?;
        in_time(options.deadline)?;
        let ([input], [output]) = (&request.inputs[..], &request.outputs[..]) else {
            return Err(HalError::invalid("one input and one output").into());
        };
        let mut operand = self.0.main.operands[self.0.main.input_indexes[0] as usize].clone();
        if !input.dimensions.is_empty() {
            operand.dimensions.clone_from(&input.dimensions);
        }
        let size = operand.data_size().ok_or_else(|| HalError::invalid("the shape stays open"))?;
        let is_sufficient = output.location.length as usize >= size;
        let output_shapes = vec![OutputShape { dimensions: operand.dimensions, is_sufficient }];
        if !is_sufficient {
            let status = ErrorStatus::OutputInsufficientSize;
            let error = HalError::new(status, format!("it takes {size} bytes"));
            return Err(ExecutionFailure { error, output_shapes });
        }
        // One copy: the client may write its memory at any time.
        let mut values = vec![0; size];
        memory(request, input)?
            .read_at(input.location.offset.into(), &mut values)
            .map_err(HalError::from)?;
        for value in values.as_chunks_mut::<4>().0 {
            *value = f32::from_le_bytes(*value).max(0.0).to_le_bytes();
        }
        let mapping = memory(request, output)?.map(Access::ReadWrite).map_err(HalError::from)?;
        let start = output.location.offset as usize;
        let place = mapping.view_mut(start..start + size);
        place.ok_or_else(|| HalError::invalid("no such place"))?.copy_from_slice(&values);
        Ok(ExecutionOutcome { output_shapes, timing: Timing::NONE })
    }

    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        _duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        validate_request(&request, &self.0, Version::V1_3, AllowUnspecifiedOutput::No)?;
        for fence in &wait_for {
            wait_for_fence(fence.as_fd(), None)?;
        }
        self.execute_synchronously(&request, options).map_err(|failure| failure.error)?;
        Ok(FencedExecution::complete(FencedTiming::default()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn memory<'a>(request: &'a Request, argument: &RequestArgument) -> Result<&'a Memory> {
    match &request.pools[argument.location.pool_index as usize] {
        RequestPool::Memory(memory) => Ok(memory),
        RequestPool::Token(_) => Err(HalError::invalid("the driver has no buffers")),
    }
}

pub(crate) fn service() -> Service {
    let device: Arc<dyn Device> = Arc::new(ReluDevice);
    Service::new("example-relu", move |_: &Peer| Arc::clone(&device))
}

fn main() -> std::io::Result<()> {
    let _serving = service().listen(&service_dir()?)?; // until dropped
    std::io::stdin().lines().for_each(drop); // until there is no more input
    Ok(())
}
