//! A driver of an older version as one of 1.3.
//!
//! What the older interface can't be told (priorities, deadlines, loop timeouts) is left out, as
//! the reference's runtime does; what it can't do (driver-managed buffers) is refused; a fenced
//! execution waits for its fences and then executes. A model goes through if the version can
//! express all of it; asked what it supports of any other, the driver is asked about the part that
//! it understands.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nnburst_fmq::Descriptor;

use super::compliance::{compliant_with, request_compliant_with};
use super::convert::convert_to;
use super::old::{OldDevice, OldPreparedModel};
use super::slice::slice_for;
use super::{v1_0, v1_1, v1_2};
use crate::error::{HalError, Result};
use crate::fence::wait_for_fence;
use crate::traits::{
    Buffer, BurstCallback, BurstContext, Device, ExecutionCallback, ExecutionOptions,
    FencedExecution, FencedTiming, PrepareOptions, PreparedModel, PreparedModelCallback,
};
use crate::types::{
    BufferDesc, BufferRole, BurstOptions, CacheFiles, CacheHandles, Capabilities, DeviceStatus,
    DeviceType, ErrorStatus, ExecutionOutcome, ExecutionResult, Extension, Model, Operand,
    OutputShape, Request, TimePoint, Version,
};
use crate::validate::{AllowUnspecifiedOutput, validate_model, validate_request};

/// A driver of 1.0 as one of 1.3.
pub fn upgrade_v1_0(driver: Arc<dyn v1_0::Device>) -> Arc<dyn Device> {
    Arc::new(Upgraded(driver))
}

/// A driver of 1.1 as one of 1.3.
pub fn upgrade_v1_1(driver: Arc<dyn v1_1::Device>) -> Arc<dyn Device> {
    Arc::new(Upgraded(driver))
}

/// A driver of 1.2 as one of 1.3.
pub fn upgrade_v1_2(driver: Arc<dyn v1_2::Device>) -> Arc<dyn Device> {
    Arc::new(Upgraded(driver))
}

struct Upgraded<D: ?Sized>(Arc<D>);

impl<D: OldDevice + ?Sized> Device for Upgraded<D> {
    fn interface_version(&self) -> Version {
        D::VERSION
    }

    fn capabilities(&self) -> Result<Capabilities> {
        self.0.capabilities()
    }

    fn version_string(&self) -> Result<String> {
        self.0.version_string()
    }

    fn device_type(&self) -> Result<DeviceType> {
        self.0.device_type()
    }

    fn status(&self) -> Result<DeviceStatus> {
        self.0.status()
    }

    fn supported_extensions(&self) -> Result<Vec<Extension>> {
        self.0.supported_extensions()
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        validate_model(model, Version::V1_3)?;
        if compliant_with(model, D::VERSION) {
            return self.0.supported_operations(&convert_to(model.clone(), D::VERSION).value);
        }
        let mut supported = vec![false; model.main.operations.len()];
        if let Some(part) = slice_for(model, D::VERSION) {
            let answers = self.0.supported_operations(&part.model)?;
            for (index, answer) in part.operation_indexes.into_iter().zip(answers) {
                if let Some(slot) = supported.get_mut(index) {
                    *slot = answer;
                }
            }
        }
        Ok(supported)
    }

    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        self.0.number_of_cache_files_needed()
    }

    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        let checked =
            validate_model(&model, Version::V1_3).map_err(HalError::from).and_then(|()| {
                if compliant_with(&model, D::VERSION) {
                    return Ok(());
                }
                Err(HalError::invalid(format!("a driver of {:?} can't take the model", D::VERSION)))
            });
        if let Err(error) = checked {
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        let model = convert_to(model, D::VERSION).value;
        let told = Prepared { shapes: Some(Arc::new(arguments_of(&model))), told: callback };
        self.0.prepare_model(model, options.preference, cache, told)
    }

    fn prepare_model_from_cache(
        &self,
        _deadline: Option<TimePoint>,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        self.0.prepare_model_from_cache(cache, Prepared { shapes: None, told: callback })
    }

    fn allocate(
        &self,
        _desc: &BufferDesc,
        _models: &[Arc<dyn PreparedModel>],
        _input_roles: &[BufferRole],
        _output_roles: &[BufferRole],
    ) -> Result<Arc<dyn Buffer>> {
        Err(HalError::failure("a driver of this version has no buffers"))
    }
}

/// The newer client's callback, told by the older driver.
pub(super) struct Prepared {
    /// Unknown where the model comes from a cache.
    shapes: Option<Arc<Model>>,
    pub(super) told: Arc<dyn PreparedModelCallback>,
}

impl Prepared {
    fn tell<P: OldPreparedModel + ?Sized + 'static>(&self, result: Result<Arc<P>>) {
        let upgrade = |model| -> Arc<dyn PreparedModel> {
            Arc::new(UpgradedModel { model, shapes: self.shapes.clone() })
        };
        self.told.notify(result.map(upgrade));
    }
}

impl v1_0::PreparedModelCallback for Prepared {
    fn notify(&self, result: Result<Arc<dyn v1_0::PreparedModel>>) {
        self.tell(result);
    }
}

impl v1_2::PreparedModelCallback for Prepared {
    fn notify(&self, result: Result<Arc<dyn v1_2::PreparedModel>>) {
        self.tell(result);
    }
}

struct UpgradedModel<P: ?Sized> {
    model: Arc<P>,
    /// A model of the arguments alone, for checking requests.
    shapes: Option<Arc<Model>>,
}

impl<P: OldPreparedModel + ?Sized> UpgradedModel<P> {
    fn check(&self, request: &Request, allow: AllowUnspecifiedOutput) -> Result<()> {
        if !request_compliant_with(request, P::VERSION) {
            // Not the request's fault: a newer driver takes it. The reference's runtime says so
            // too.
            let version = P::VERSION;
            return Err(HalError::failure(format!("a driver of {version:?} can't take the pools")));
        }
        match &self.shapes {
            Some(shapes) => Ok(validate_request(request, shapes, P::VERSION, allow)?),
            None => Ok(()), // from a cache: the driver knows the model, and checks
        }
    }

    /// A driver of 1.0 tells no shapes; all outputs had full ones then, or it would have refused.
    fn complete(&self, request: &Request, mut outcome: ExecutionOutcome) -> ExecutionOutcome {
        if let (true, Some(shapes)) = (outcome.output_shapes.is_empty(), &self.shapes) {
            let outputs = request.outputs.iter().zip(&shapes.main.output_indexes);
            outcome.output_shapes = outputs
                .map(|(argument, &index)| {
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    let operand = shapes.main.operands.get(index);
                    let declared = operand.map_or(&[][..], |operand| &operand.dimensions);
                    let given = &argument.dimensions;
                    let dimensions = if given.is_empty() { declared } else { given };
                    OutputShape { dimensions: dimensions.to_vec(), is_sufficient: true }
                })
                .collect();
        }
        outcome
    }
}

impl<P: OldPreparedModel + ?Sized + 'static> PreparedModel for UpgradedModel<P> {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        self.check(request, AllowUnspecifiedOutput::Yes)?;
        let outcome = self.model.execute_synchronously(request, options.measure)?;
        Ok(self.complete(request, outcome))
    }

    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        if let Err(error) = self.check(&request, AllowUnspecifiedOutput::Yes) {
            callback.notify(Err(error.clone().into()));
            return Err(error);
        }
        let completing = Completing {
            model: Self { model: Arc::clone(&self.model), shapes: self.shapes.clone() },
            request: Request { pools: Vec::new(), ..request.clone() },
            callback,
        };
        self.model.execute(request, options.measure, Arc::new(completing))
    }

    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        self.check(&request, AllowUnspecifiedOutput::No)?;
        for fence in &wait_for {
            let timeout = options.deadline.map(TimePoint::remaining);
            if !wait_for_fence(fence.as_fd(), timeout)? {
                return Err(HalError::new(
                    ErrorStatus::MissedDeadlineTransient,
                    "the deadline passed before the fences signalled",
                ));
            }
        }
        let _ = duration; // bounds the execution, which an older driver can't be told
        let result = self.execute_synchronously(&request, options);
        let timing = result.map_err(|failure| failure.error)?.timing;
        // The fences were waited for before: both times are those of the execution.
        Ok(FencedExecution::complete(FencedTiming { launched: timing, fenced: timing }))
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        _options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        self.model.configure_execution_burst(callback, request_channel, result_channel)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// Adds the shapes that a driver of 1.0 leaves out.
struct Completing<P: ?Sized> {
    model: UpgradedModel<P>,
    request: Request,
    callback: Arc<dyn ExecutionCallback>,
}

impl<P: OldPreparedModel + ?Sized + 'static> ExecutionCallback for Completing<P> {
    fn notify(&self, result: ExecutionResult) {
        self.callback.notify(result.map(|outcome| self.model.complete(&self.request, outcome)));
    }
}

/// The main graph's inputs and outputs, all that a request is checked against.
fn arguments_of(model: &Model) -> Model {
    let mut arguments = Model::default();
    let main = &model.main;
    let mut copy = |list: &[u32]| -> Vec<u32> {
        let operands = &mut arguments.main.operands;
        list.iter()
            .filter_map(|&index| {
                let operand: &Operand = main.operands.get(usize::try_from(index).ok()?)?;
                operands.push(operand.clone());
                u32::try_from(operands.len().saturating_sub(1)).ok()
            })
            .collect()
    };
    let (inputs, outputs) = (copy(&main.input_indexes), copy(&main.output_indexes));
    (arguments.main.input_indexes, arguments.main.output_indexes) = (inputs, outputs);
    arguments
}
