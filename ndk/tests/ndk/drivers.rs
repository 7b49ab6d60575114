//! Drivers of the tests' own making, which processes of their own serve: two that fail every
//! execution, one with an OEM operation, one with an extension that nobody uses.

use std::path::Path;
use std::sync::Arc;

use nnburst::hal::{
    self, Access, Buffer, BufferDesc, BufferRole, CacheHandles, Capabilities, DeviceType,
    ExecutionOutcome, Extension, ExtensionOperandType, FencedExecution, HalError, Mapping, Model,
    OperandPerformance, OperandType, Operation, OperationType, PerformanceInfo, PrepareOptions,
    PreparedModel, PreparedModelCallback, Request, RequestArgument, RequestPool, Timing,
};
use nnburst_driver::CpuDriverOptions;
use nnburst_driver_sample::sample_driver;
use nnburst_hal::testing::MockModel;
use nnburst_hal_ipc::{Peer, Service, Serving};

/// Takes all operations, and fails every execution.
pub(crate) const FAILS: &str = "test-fails";
/// Takes FULLY_CONNECTED alone, and fails every execution: control flow around it is interpreted.
pub(crate) const FAILS_PRODUCTS: &str = "test-fails-products";
/// Takes OEM operations.
pub(crate) const OEM: &str = "test-oem";
/// Has an extension with types as those of the Fibonacci extension, and takes nothing.
pub(crate) const OTHER: &str = "test-other";

/// Serves a driver of these names.
pub(crate) fn serve(name: &str, dir: &Path) -> Option<Serving> {
    let known = [FAILS, FAILS_PRODUCTS, OEM, OTHER].contains(&name);
    let device: Arc<dyn hal::Device> = Arc::new(Driver::new(name));
    let service = Service::new(name, move |_: &Peer| Arc::clone(&device));
    known.then(|| service.listen(dir).unwrap())
}

struct Driver {
    name: String,
    executor: Arc<dyn hal::Device>,
}

impl Driver {
    fn new(name: &str) -> Self {
        let executor =
            sample_driver("nnapi-sample_all", CpuDriverOptions::default()).unwrap().device();
        Self { name: name.to_owned(), executor }
    }

    fn takes(&self, operation: &Operation) -> bool {
        match self.name.as_str() {
            FAILS => true,
            FAILS_PRODUCTS => operation.kind == OperationType::FullyConnected,
            OEM => operation.kind == OperationType::OemOperation,
            _ => false,
        }
    }
}

impl hal::Device for Driver {
    fn capabilities(&self) -> hal::Result<Capabilities> {
        let info = PerformanceInfo { exec_time: 0.1, power_usage: 0.1 };
        let kinds = OperandType::BASE.iter().filter(|&&kind| kind != OperandType::Subgraph);
        Ok(Capabilities {
            relaxed_float32_to_float16_scalar: info,
            relaxed_float32_to_float16_tensor: info,
            operand_performance: kinds.map(|&kind| OperandPerformance { kind, info }).collect(),
            if_performance: info,
            while_performance: info,
        })
    }
    fn version_string(&self) -> hal::Result<String> {
        Ok("test".into())
    }
    fn device_type(&self) -> hal::Result<DeviceType> {
        Ok(DeviceType::Accelerator)
    }
    fn supported_extensions(&self) -> hal::Result<Vec<Extension>> {
        let kind = |number, is_tensor| ExtensionOperandType { number, is_tensor, byte_size: 8 };
        let operand_types = vec![kind(0, false), kind(1, true)];
        let extension = Extension { name: "com.example.other".into(), operand_types };
        Ok(if self.name == OTHER { vec![extension] } else { Vec::new() })
    }
    fn supported_operations(&self, model: &Model) -> hal::Result<Vec<bool>> {
        let mut taken = if self.name == OEM {
            vec![true; model.main.operations.len()]
        } else {
            self.executor.supported_operations(model)?
        };
        for (answer, operation) in taken.iter_mut().zip(&model.main.operations) {
            *answer &= self.takes(operation);
        }
        Ok(taken)
    }
    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> hal::Result<()> {
        if self.name == OEM {
            callback.notify(Reversing::of(&model).map(|it| Arc::new(it.prepared()) as _));
            return Ok(());
        }
        self.executor.prepare_model(model, options, cache, Arc::new(Wrapping(callback)))
    }
    fn allocate(
        &self,
        desc: &BufferDesc,
        models: &[Arc<dyn PreparedModel>],
        inputs: &[BufferRole],
        outputs: &[BufferRole],
    ) -> hal::Result<Arc<dyn Buffer>> {
        self.executor.allocate(desc, models, inputs, outputs)
    }
}

struct Wrapping(Arc<dyn PreparedModelCallback>);

impl PreparedModelCallback for Wrapping {
    fn notify(&self, result: hal::Result<Arc<dyn PreparedModel>>) {
        let failing = |model| {
            MockModel::over(model)
                .executing(|_, _| Err(failure().into()))
                .executing_fenced(|_, _, _, _| Err(failure()))
                .waiting_in_background()
        };
        self.0.notify(result.map(|model| Arc::new(failing(model)) as _));
    }
}

fn failure() -> HalError {
    HalError::failure("this driver fails every execution")
}

/// OEM_OPERATION of this driver: input 0, a TENSOR_OEM_BYTE, in reverse; each byte plus the first
/// of input 1, an OEM_SCALAR.
struct Reversing {
    added: u8,
}

impl Reversing {
    fn of(model: &Model) -> hal::Result<Self> {
        let wrong = || HalError::invalid("an OEM operation that this driver doesn't know");
        let [Operation { kind: OperationType::OemOperation, inputs, .. }] =
            model.main.operations.as_slice()
        else {
            return Err(wrong());
        };
        let [bytes, scalar] = inputs.as_slice() else { return Err(wrong()) };
        let operand = |index: u32| &model.main.operands[index as usize];
        if operand(*bytes).kind != OperandType::TensorOemByte
            || operand(*scalar).kind != OperandType::Oem
        {
            return Err(wrong());
        }
        let at = operand(*scalar).location.offset as usize;
        Ok(Self { added: *model.operand_values.get(at).ok_or_else(wrong)? })
    }

    fn prepared(self) -> MockModel {
        let this = Arc::new(self);
        let fenced = Arc::clone(&this);
        MockModel::new()
            .executing(move |request, _| {
                this.run(request)?;
                Ok(ExecutionOutcome { output_shapes: Vec::new(), timing: Timing::NONE })
            })
            .executing_fenced(move |request, _, _, _| {
                fenced.run(&request)?;
                Ok(FencedExecution::complete(hal::FencedTiming::default()))
            })
    }

    fn run(&self, request: &Request) -> hal::Result<()> {
        let mapping = |argument: &RequestArgument, access| -> hal::Result<(Mapping, _)> {
            let at = argument.location.pool_index as usize;
            let RequestPool::Memory(memory) = &request.pools[at] else { return Err(failure()) };
            let start = argument.location.offset as usize;
            Ok((memory.map(access)?, start..start + argument.location.length as usize))
        };
        let (input, from) = mapping(&request.inputs[0], Access::Read)?;
        let (output, to) = mapping(&request.outputs[0], Access::ReadWrite)?;
        let mut bytes = input.view(from).ok_or_else(failure)?.to_vec();
        bytes.reverse();
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(self.added));
        output.view_mut(to).ok_or_else(failure)?.copy_from_slice(&bytes);
        Ok(())
    }
}
