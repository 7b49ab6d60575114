//! Models made ready by a device.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nnburst_hal::{
    CacheHandles, Model, Operand, PrepareOptions, PreparedModel, wait_for_prepared_model,
};

use crate::burst::{Burst, BurstOptions};
use crate::device::Device;
use crate::error::{Result, RuntimeError};
use crate::execution::Execution;
use crate::frame::{Argument, Frame};

/// A model that a device has made ready to run. Clones are the same compilation.
#[derive(Clone)]
pub struct Compilation {
    // Before the device: the model goes first, its driver's process after it.
    prepared: Arc<dyn PreparedModel>,
    device: Device,
    signature: Arc<Signature>,
}

/// The model's arguments: all of the model that executions need.
#[derive(Debug)]
struct Signature {
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
}

impl Compilation {
    pub(crate) fn new(device: &Device, model: &Model, options: PrepareOptions) -> Result<Self> {
        let operands = |indexes: &[u32]| -> Result<Vec<Operand>> {
            indexes
                .iter()
                .map(|&index| {
                    let at = usize::try_from(index).unwrap_or(usize::MAX);
                    model.main.operands.get(at).cloned().ok_or_else(|| {
                        RuntimeError::Model(format!("argument operand {index} does not exist"))
                    })
                })
                .collect()
        };
        let signature = Signature {
            inputs: operands(&model.main.input_indexes)?,
            outputs: operands(&model.main.output_indexes)?,
        };
        let prepared = wait_for_prepared_model(|callback| {
            device.hal().prepare_model(model.clone(), options, CacheHandles::default(), callback)
        })?;
        Ok(Self { prepared, device: device.clone(), signature: Arc::new(signature) })
    }

    /// The model's inputs: types, shapes, quantisation.
    pub fn inputs(&self) -> &[Operand] {
        &self.signature.inputs
    }

    /// The model's outputs: types, shapes, quantisation.
    pub fn outputs(&self) -> &[Operand] {
        &self.signature.outputs
    }

    /// A frame for the shapes of the model.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] naming the argument whose size the model leaves open; use
    /// [`Compilation::frame_with`] then.
    pub fn frame(&self) -> Result<Frame> {
        let arguments = |what: &str, operands: &[Operand]| {
            operands
                .iter()
                .enumerate()
                .map(|(index, operand)| match operand.data_size() {
                    Some(length) => Ok(Argument { dimensions: Vec::new(), length }),
                    None => Err(RuntimeError::Argument(format!(
                        "the size of {what} {index} is not known: {} {:?}",
                        operand.kind, operand.dimensions
                    ))),
                })
                .collect::<Result<Vec<_>>>()
        };
        self.frame_with(&arguments("input", self.inputs())?, &arguments("output", self.outputs())?)
    }

    /// A frame whose arguments have shapes and sizes of the caller's choosing.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there are more or fewer than the model has; [`RuntimeError::Memory`]
    /// where there is no room.
    pub fn frame_with(&self, inputs: &[Argument], outputs: &[Argument]) -> Result<Frame> {
        Frame::new(self.inputs(), self.outputs(), inputs, outputs)
    }

    /// Executions over the control connection.
    pub fn execution(&self) -> Execution<'_> {
        Execution::new(self)
    }

    /// Opens a burst.
    ///
    /// # Errors
    /// The queues can't be made, or the driver has no bursts.
    pub fn burst(&self, options: &BurstOptions) -> Result<Burst> {
        Burst::open(self, options)
    }

    /// The device that made the model ready.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn peer_watch_fd(&self) -> Result<Option<OwnedFd>> {
        self.device.peer_watch_fd()
    }

    pub(crate) fn prepared(&self) -> &dyn PreparedModel {
        self.prepared.as_ref()
    }
}

impl std::fmt::Debug for Compilation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compilation").field("signature", &self.signature).finish_non_exhaustive()
    }
}
