//! Descriptions of a memory's use, given before it is made.

use std::sync::{Arc, Mutex};

use nnburst_hal::process::Origin;
use nnburst_hal::{
    BufferDesc, BufferRole, Direction, HalError, Memory as HalMemory, MemoryKind, Operand,
    PreparedModel,
};

use super::{Body, Content, Domain, Inner, Memory, Role, combine};
use crate::compilation::Compilation;
use crate::device::Device;
use crate::error::{Result, RuntimeError};
use crate::planned::StepRole;

/// Describes a memory by its roles: the arguments that will be in it.
///
/// ```
/// use nnburst::{CompileOptions, MemoryDescriptor, builtin, compile, hal::Direction};
///
/// let compilation = compile(&builtin::model("add1")?, &CompileOptions::default())?;
/// let mut descriptor = MemoryDescriptor::new();
/// descriptor.add_role(&compilation, Direction::Output, 0, 1.0)?;
/// descriptor.add_role(&compilation, Direction::Input, 0, 1.0)?;
/// descriptor.finish()?;
/// let memory = descriptor.create_memory()?;
/// assert!(memory.has_roles());
/// # Ok::<(), nnburst::RuntimeError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryDescriptor {
    roles: Vec<DescribedRole>,
    /// Of the first role; the shape is what all roles and [`MemoryDescriptor::set_dimensions`]
    /// settle.
    operand: Option<Operand>,
    dimensions: Vec<u32>,
    finished: bool,
}

/// A role, and how often it is used.
#[derive(Clone, Debug)]
struct DescribedRole {
    compilation: Compilation,
    role: Role,
    frequency: f32,
}

impl MemoryDescriptor {
    /// For nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a use: argument `index` of a compilation, in `frequency` (above 0, at most 1) of the
    /// executions.
    ///
    /// # Errors
    /// [`RuntimeError::State`] after [`MemoryDescriptor::finish`]; [`RuntimeError::Argument`] for
    /// an argument that the model doesn't have, a role given twice, another frequency, or an
    /// operand that doesn't go together with those before in type, quantisation or shape.
    pub fn add_role(
        &mut self,
        compilation: &Compilation,
        direction: Direction,
        index: usize,
        frequency: f32,
    ) -> Result<()> {
        self.check_open()?;
        let operands = match direction {
            Direction::Input => compilation.inputs(),
            Direction::Output => compilation.outputs(),
        };
        let operand = operands.get(index).ok_or_else(|| {
            refused(format!("{direction} {index} of a model that has {}", operands.len()))
        })?;
        let role = Role { compilation: compilation.id(), direction, index };
        if self.roles.iter().any(|known| known.role == role) {
            return Err(refused(format!("{direction} {index} is a role already")));
        }
        if !(frequency > 0.0 && frequency <= 1.0) {
            return Err(refused(format!(
                "a frequency of {frequency} is not above 0 and at most 1"
            )));
        }
        if let Some(first) = &self.operand {
            let same = first.kind == operand.kind
                && first.scale.to_bits() == operand.scale.to_bits()
                && first.zero_point == operand.zero_point
                && (first.kind.is_extension() || first.extra_params == operand.extra_params);
            if !same {
                return Err(refused(format!(
                    "{direction} {index} is a {}, the roles before are a {} or quantised otherwise",
                    operand.kind, first.kind
                )));
            }
        }
        let dimensions = combine(&self.dimensions, &operand.dimensions).ok_or_else(|| {
            refused(format!(
                "{direction} {index} has shape {:?}, the roles before {:?}",
                operand.dimensions, self.dimensions
            ))
        })?;
        if operand.kind.is_scalar() && !dimensions.is_empty() {
            return Err(refused("a scalar has no dimensions".into()));
        }
        self.dimensions = dimensions;
        self.operand.get_or_insert_with(|| operand.clone());
        self.roles.push(DescribedRole { compilation: compilation.clone(), role, frequency });
        Ok(())
    }

    /// Settles the shape, or as much of it as is not 0.
    ///
    /// # Errors
    /// [`RuntimeError::State`] after [`MemoryDescriptor::finish`]; [`RuntimeError::Argument`] where
    /// the roles contradict.
    pub fn set_dimensions(&mut self, dimensions: &[u32]) -> Result<()> {
        self.check_open()?;
        let is_scalar = self.operand.as_ref().is_some_and(|operand| operand.kind.is_scalar());
        if is_scalar && !dimensions.is_empty() {
            return Err(refused("a scalar has no dimensions".into()));
        }
        self.dimensions = combine(&self.dimensions, dimensions).ok_or_else(|| {
            refused(format!("{dimensions:?}, the roles say {:?}", self.dimensions))
        })?;
        Ok(())
    }

    /// Ends the description.
    ///
    /// # Errors
    /// [`RuntimeError::State`] the second time; [`RuntimeError::Argument`] without a role.
    pub fn finish(&mut self) -> Result<()> {
        self.check_open()?;
        if self.roles.is_empty() {
            return Err(refused("a memory without a role".into()));
        }
        self.finished = true;
        Ok(())
    }

    fn check_open(&self) -> Result<()> {
        if self.finished {
            return Err(RuntimeError::State("the descriptor is finished".into()));
        }
        Ok(())
    }

    /// Returns whether [`MemoryDescriptor::finish`] was called with success.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Makes a memory: the device's own if all roles are on one device and it has such, else
    /// shared.
    ///
    /// # Errors
    /// [`RuntimeError::State`] before [`MemoryDescriptor::finish`]; `GENERAL_FAILURE`, or the
    /// device's answer, where a shape is open or a device was named for a role, and it has no
    /// memory of its own.
    pub fn create_memory(&self) -> Result<Memory> {
        let (Some(operand), true) = (&self.operand, self.finished) else {
            return Err(RuntimeError::State("the descriptor is not finished".into()));
        };
        let operand = Operand { dimensions: self.dimensions.clone(), ..operand.clone() };
        let steps = self.own_device();
        let body = match &steps {
            Some(steps) if !steps.device.is_reference() => match self.allocate(steps) {
                Ok(body) => body,
                Err(error) if self.may_fall_back() => self.share(&operand).map_err(|_| error)?,
                Err(error) => return Err(error),
            },
            // The reference device maps everything.
            Some(_) => self.share(&operand)?,
            None if self.may_fall_back() => self.share(&operand)?,
            None => {
                let why = "the roles are not all on one device, and shared memory is not wanted";
                return Err(HalError::failure(why).into());
            }
        };
        let roles = self.roles.iter().map(|role| role.role.clone()).collect();
        let domain = Domain { roles, operand, content: Mutex::new(Content::default()) };
        let memory = Memory(Arc::new(Inner {
            body,
            domain: Some(domain),
            mapping: Mutex::default(),
            origin: Origin::here(),
        }));
        if let (Some(buffer), Some(steps)) = (memory.buffer(), steps) {
            steps.device.keep_memory(buffer.token(), &memory);
        }
        Ok(memory)
    }

    /// Returns whether ordinary memory may stand in for the device's: not where the device was
    /// named.
    fn may_fall_back(&self) -> bool {
        self.roles.iter().all(|role| !role.compilation.is_explicit())
    }

    /// The device that all roles are on, if there is one.
    fn own_device(&self) -> Option<Steps> {
        let mut all: Option<Steps> = None;
        for role in &self.roles {
            for (device, step) in role.compilation.steps_of(role.role.direction, role.role.index)? {
                let steps = all.get_or_insert_with(|| Steps::on(device));
                if steps.device != *device {
                    return None;
                }
                steps.add(step, role.frequency);
            }
        }
        all
    }

    fn allocate(&self, steps: &Steps) -> Result<Body> {
        let desc = BufferDesc { dimensions: self.dimensions.clone() };
        let Steps { device, models, inputs, outputs } = steps;
        let buffer = device
            .hal()
            .allocate(&desc, models, inputs, outputs)
            .map_err(|error| device.died_of(error))?;
        if buffer.token() == 0 {
            return Err(HalError::failure("the driver gives a token of 0").into());
        }
        Ok(Body::Device(buffer))
    }

    fn share(&self, operand: &Operand) -> Result<Body> {
        let bytes = operand.data_size().ok_or_else(|| {
            HalError::failure(format!(
                "shared memory for a {} of shape {:?}",
                operand.kind, operand.dimensions
            ))
        })?;
        let memory = HalMemory::ashmem(u64::try_from(bytes).unwrap_or(u64::MAX))?;
        let new = self.roles.iter().flat_map(|role| role.compilation.devices());
        if !new.into_iter().all(|device| device.feature_level() >= 30) {
            return Ok(Body::Shared(memory));
        }
        let fd = memory.fd().try_clone_to_owned().map_err(|error| {
            HalError::failure(format!("duplicating the descriptor of a memory: {error}"))
        })?;
        let blob = MemoryKind::HardwareBufferBlob.name();
        Ok(Body::Shared(HalMemory::from_handle(blob, vec![fd], Vec::new(), memory.size())?))
    }
}

/// The roles as one device knows them.
struct Steps {
    device: Device,
    models: Vec<Arc<dyn PreparedModel>>,
    inputs: Vec<BufferRole>,
    outputs: Vec<BufferRole>,
}

impl Steps {
    fn on(device: &Device) -> Self {
        let device = device.clone();
        Self { device, models: Vec::new(), inputs: Vec::new(), outputs: Vec::new() }
    }

    fn add(&mut self, step: StepRole, frequency: f32) {
        let known = self.models.iter().position(|model| Arc::ptr_eq(model, &step.model));
        let model = known.unwrap_or_else(|| {
            self.models.push(step.model);
            self.models.len() - 1
        });
        let role = BufferRole {
            model_index: u32::try_from(model).unwrap_or(u32::MAX),
            io_index: u32::try_from(step.index).unwrap_or(u32::MAX),
            frequency,
        };
        match step.direction {
            Direction::Input => self.inputs.push(role),
            Direction::Output => self.outputs.push(role),
        }
    }
}

fn refused(why: String) -> RuntimeError {
    RuntimeError::Argument(why)
}
