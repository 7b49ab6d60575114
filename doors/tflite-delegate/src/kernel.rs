//! The kernel that stands for a partition in the interpreter's graph.
//!
//! A kernel outlives the delegate where a host tears down in the wrong order: it holds what it
//! needs of it, and touches neither the delegate's struct nor the model's file.

use std::sync::Arc;

use nnburst::{Burst, Compilation, Frame, RuntimeError};
use nnburst_doors_common::MakeError;
use nnburst_tflite::TensorInfo;

use crate::delegate::DelegateState;
use crate::host::{Host, HostTensor, Subset};
use crate::part::{GraphPart, Transfer};

/// Why a kernel can't be prepared or run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KernelError {
    /// The interpreter's partition is none of those that were chosen.
    #[error("the partition of {} nodes is not one that was chosen", .0.nodes.len())]
    Unknown(Subset),
    #[error("the shapes have changed, and {0}")]
    Reshaped(String),
    #[error("{0}")]
    Host(#[from] crate::host::HostError),
    #[error("tensor {0} has no value of {1} bytes")]
    NoValue(usize, usize),
    #[error("output {argument} has {got} bytes, expected {bytes}", argument = .0.argument, bytes = .0.bytes, got = .1)]
    OtherSize(Transfer, usize),
    #[error("{0}")]
    Runtime(#[from] RuntimeError),
    #[error("{0}")]
    Device(MakeError),
}

/// A partition, ready to run once it was prepared.
#[derive(Debug)]
pub(crate) struct DelegateKernel {
    shared: Arc<DelegateState>,
    part: Arc<GraphPart>,
    /// True if the shapes of inputs are known when they are computed.
    is_dynamic: bool,
    run: Option<Run>,
}

/// The partition compiled for a device.
#[derive(Debug)]
struct Run {
    /// The one of the bench that it belongs to.
    generation: u64,
    way: Way,
    frame: Frame,
    inputs: Vec<Transfer>,
    outputs: Vec<Transfer>,
}

#[derive(Debug)]
enum Way {
    Burst(Box<Burst>),
    Sync(Compilation),
}

impl DelegateKernel {
    pub(crate) fn new(shared: Arc<DelegateState>, part: Arc<GraphPart>) -> Self {
        Self { shared, part, is_dynamic: false, run: None }
    }

    pub(crate) fn shared(&self) -> &Arc<DelegateState> {
        &self.shared
    }

    /// Compiles for the shapes that the inputs have now, if they are others than before. Where
    /// inputs have none before the operators before them run, that is done then.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn prepare(&mut self, host: &mut Host) -> Result<(), KernelError> {
        self.shared.origin.check().map_err(RuntimeError::from)?;
        let Subset { inputs, outputs, .. } = &self.part.subset;
        let is_dynamic = |&tensor: &usize| host.tensor(tensor).is_some_and(|it| it.is_dynamic);
        self.is_dynamic = inputs.iter().any(is_dynamic);
        if self.is_dynamic {
            outputs.iter().for_each(|&output| host.make_dynamic(output));
            return Ok(());
        }
        self.reshape(host)?;
        self.run()?;
        Ok(())
    }

    /// Follows the shapes of the inputs.
    fn reshape(&mut self, host: &mut Host) -> Result<(), KernelError> {
        let reshaped = self.part.reshaped(host).map_err(|reasons| {
            let (node, why) = reasons.first_key_value().map_or((0, ""), |(&at, why)| (at, why));
            let name = self.part.source.name(node);
            KernelError::Reshaped(format!("operator {node} {name}: {why}"))
        })?;
        if let Some(part) = reshaped {
            (self.part, self.run) = (Arc::new(part), None);
        }
        for info in &self.part.imported.outputs {
            if !host.tensor(info.tensor).is_some_and(|tensor| has_room(&tensor, info)) {
                host.resize(info.tensor, &info.dims)?;
            }
        }
        Ok(())
    }

    /// Returns the compiled partition; made where it isn't there, or the driver was started again
    /// meanwhile.
    fn run(&mut self) -> Result<&mut Run, KernelError> {
        let current = self.shared.generation();
        match self.run.take().filter(|run| run.generation == current) {
            Some(run) => Ok(self.run.insert(run)),
            None => {
                let run = Run::new(&self.shared, &self.part)?;
                Ok(self.run.insert(run))
            }
        }
    }

    /// Executes: from the interpreter's tensors to its tensors. After a driver's death the next
    /// call begins anew.
    ///
    /// # Errors
    /// [`KernelError`]; the tensors then hold what they held.
    pub(crate) fn invoke(&mut self, host: &mut Host) -> Result<(), KernelError> {
        self.shared.origin.check().map_err(RuntimeError::from)?;
        if self.is_dynamic {
            self.reshape(host)?;
        }
        let run = self.run()?;
        let generation = run.generation;
        let result = run.execute(host);
        if let Err(KernelError::Runtime(error)) = &result
            && let Some(recovery) = self.shared.recover(generation, error)
        {
            self.run = None;
            return Err(KernelError::Device(recovery.to_string().into()));
        }
        result
    }
}

/// Returns whether a tensor has the shape of what is computed, and its memory if it is dynamic.
/// Such a tensor must not be resized: that would free its memory, which may be a pipeline's buffer.
fn has_room(tensor: &HostTensor, info: &TensorInfo) -> bool {
    // A scalar is a tensor of one element to models.
    let is_same = tensor.dims == info.dims || (tensor.dims.is_empty() && info.dims == [1]);
    let has_memory = || tensor.data != 0 && info.byte_len() == Some(tensor.bytes);
    is_same && (!tensor.is_dynamic || has_memory())
}

impl Run {
    fn new(shared: &DelegateState, part: &GraphPart) -> Result<Self, KernelError> {
        let (compilation, generation) = shared.compile(part)?;
        let options = &shared.settings.shared;
        let way = if options.has_burst() {
            let burst = compilation.burst(&options.burst())?;
            burst.warnings().iter().for_each(|warning| shared.warn_once(warning));
            Way::Burst(Box::new(burst))
        } else {
            Way::Sync(compilation.clone())
        };
        let frame = compilation.frame()?;
        Ok(Self { generation, way, frame, inputs: part.inputs(), outputs: part.outputs() })
    }

    fn execute(&mut self, host: &mut Host) -> Result<(), KernelError> {
        for &Transfer { tensor, argument, bytes } in &self.inputs {
            let value = host.value(tensor, bytes).ok_or(KernelError::NoValue(tensor, bytes))?;
            self.frame.write_bytes(argument, value)?;
        }
        match &mut self.way {
            Way::Burst(burst) => burst.compute(&mut self.frame)?,
            Way::Sync(compilation) => compilation.execution().compute(&mut self.frame)?,
        }
        for &transfer in &self.outputs {
            let Transfer { tensor, argument, bytes } = transfer;
            let output = self.frame.output(argument)?;
            if output.len() != bytes {
                return Err(KernelError::OtherSize(transfer, output.len()));
            }
            let value = host.value_mut(tensor, bytes);
            output.copy_to_slice(value.ok_or(KernelError::NoValue(tensor, bytes))?);
        }
        Ok(())
    }
}
