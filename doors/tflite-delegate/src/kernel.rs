//! The kernel that stands for a partition in the interpreter's graph.
//!
//! A kernel outlives the delegate where a host tears down in the wrong order: it holds what it
//! needs of it, and touches neither the delegate's struct nor the model's file.

use std::sync::Arc;

use nnburst::hal::{View, ViewMut};
use nnburst::{Burst, Compilation, Frame, InPlace, RuntimeError};
use nnburst_doors_common::MakeError;
use nnburst_tflite::TensorInfo;
use smallvec::SmallVec;

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
    #[error("argument {argument} has {got} bytes, expected {bytes}", argument = .0.argument, bytes = .0.bytes, got = .1)]
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
    /// The values of the variables with a name.
    variables: Vec<Vec<u8>>,
    /// Boxed: it is taken out to be looked at.
    run: Option<Box<Run>>,
}

/// The partition compiled for a device.
#[derive(Debug)]
struct Run {
    /// The one of the bench that it belongs to.
    generation: u64,
    way: Way,
    inputs: Vec<Transfer>,
    outputs: Vec<Transfer>,
    variables: Vec<Carried>,
}

/// A variable with a name: what an execution leaves at an output the next one takes.
#[derive(Debug)]
struct Carried {
    /// The tensor that takes its value first.
    tensor: usize,
    input: usize,
    output: usize,
    /// The value that an execution in place writes.
    next: Vec<u8>,
}

/// How a device is called.
#[derive(Debug)]
enum Way {
    Burst(Box<Burst>, Frame),
    Sync(Compilation, Frame),
    /// On the interpreter's own tensors.
    InPlace(InPlace),
}

impl DelegateKernel {
    pub(crate) fn new(shared: Arc<DelegateState>, part: Arc<GraphPart>) -> Self {
        Self { shared, part, is_dynamic: false, variables: Vec::new(), run: None }
    }

    /// Compiles for the shapes that the inputs have now, if they are others than before. Where
    /// inputs have none before the operators before them run, that is done then.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn prepare(&mut self, host: &mut Host) -> Result<(), KernelError> {
        self.shared.origin.check().map_err(RuntimeError::from)?;
        let is_dynamic = |&tensor: &usize| host.tensor(tensor).is_some_and(|it| it.is_dynamic);
        self.is_dynamic = self.part.subset.inputs.iter().any(is_dynamic);
        if !self.is_dynamic {
            match self.reshape(host) {
                // Open extents may still be resized: it is an error if they are computed with.
                Err(KernelError::Reshaped(_)) if self.part.is_example => self.is_dynamic = true,
                reshaped => {
                    reshaped?;
                    self.run()?;
                }
            }
        }
        if self.is_dynamic {
            let outputs = &self.part.subset.outputs;
            outputs.iter().for_each(|&output| host.make_dynamic(output));
        }
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
        // They keep their values whatever happens to other shapes.
        let initial = || self.part.variables().map(|state| &state.initial);
        if !initial().map(Vec::len).eq(self.variables.iter().map(Vec::len)) {
            self.variables = initial().cloned().collect();
        }
        for info in &self.part.imported.outputs {
            let is_scalar = self.part.source.is_scalar(info.tensor);
            let tensor = host.tensor(info.tensor);
            if !tensor.is_some_and(|tensor| has_room(&tensor, info, is_scalar)) {
                host.resize(info.tensor, &info.dims)?;
            }
        }
        Ok(())
    }

    /// Returns the compiled partition; made where it isn't there, or the driver was started again
    /// meanwhile.
    fn run(&mut self) -> Result<&mut Box<Run>, KernelError> {
        let current = self.shared.generation();
        match self.run.take().filter(|run| run.generation == current) {
            Some(run) => Ok(self.run.insert(run)),
            None => {
                let run = Box::new(Run::new(&self.shared, &self.part)?);
                Ok(self.run.insert(run))
            }
        }
    }

    /// Executes: from the interpreter's tensors to its tensors. After a driver's death the next
    /// call begins anew.
    ///
    /// # Errors
    /// [`KernelError`]; what was to be computed is then undefined, and variables hold what they
    /// held.
    pub(crate) fn invoke(&mut self, host: &mut Host) -> Result<(), KernelError> {
        self.shared.origin.check().map_err(RuntimeError::from)?;
        if self.is_dynamic {
            self.reshape(host)?;
        }
        let mut variables = std::mem::take(&mut self.variables);
        let result = self.run().map(|run| (run.generation, run.execute(host, &mut variables)));
        self.variables = variables;
        let (generation, result) = result?;
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
fn has_room(tensor: &HostTensor, info: &TensorInfo, is_scalar: bool) -> bool {
    // A scalar is a tensor of one element to models.
    let is_same_scalar = is_scalar && tensor.dims.is_empty() && info.dims == [1];
    let is_same = tensor.dims == info.dims || is_same_scalar;
    let has_memory = || tensor.data != 0 && info.byte_len() == Some(tensor.bytes);
    is_same && (!tensor.is_dynamic || has_memory())
}

impl Run {
    fn new(shared: &DelegateState, part: &GraphPart) -> Result<Self, KernelError> {
        let (compilation, generation) = shared.compile(part)?;
        let (inputs, outputs) = (part.inputs(), part.outputs());
        let options = &shared.settings.shared;
        // A variable is read and written: it keeps its value until the run is over.
        let is_apart = |of: &Transfer| inputs.iter().all(|input| input.tensor != of.tensor);
        let in_place = || compilation.in_place().filter(|_| outputs.iter().all(is_apart));
        let variables = part.variables().map(|state| Carried {
            tensor: state.info.tensor,
            input: state.input,
            output: state.output,
            next: vec![0; state.initial.len()],
        });
        let variables = variables.collect();
        let way = if options.has_burst() {
            let burst = compilation.burst(&options.burst())?;
            burst.warnings().iter().for_each(|warning| shared.warn_once(warning));
            Way::Burst(Box::new(burst), compilation.frame()?)
        } else if let Some(in_place) = in_place() {
            Way::InPlace(in_place)
        } else {
            let frame = compilation.frame()?;
            Way::Sync(compilation, frame)
        };
        Ok(Self { generation, way, inputs, outputs, variables })
    }

    /// Executes with the values of variables, which change where that succeeds.
    fn execute(&mut self, host: &mut Host, values: &mut [Vec<u8>]) -> Result<(), KernelError> {
        let Self { way, inputs, outputs, variables, .. } = self;
        match way {
            Way::Burst(burst, frame) => {
                write(frame, host, inputs)?;
                put(frame, variables, values)?;
                burst.compute(frame)?;
                read(frame, host, outputs)?;
                take(frame, variables, values)
            }
            Way::Sync(compilation, frame) => {
                write(frame, host, inputs)?;
                put(frame, variables, values)?;
                compilation.execution().compute(frame)?;
                read(frame, host, outputs)?;
                take(frame, variables, values)
            }
            Way::InPlace(in_place) => {
                let missing = |of: &Transfer| KernelError::NoValue(of.tensor, of.bytes);
                // Pushed one by one: collected, they would be moved again and again.
                let mut given = SmallVec::<[_; FEW]>::new();
                for of in &*inputs {
                    given.push(host.value(of.tensor, of.bytes).ok_or_else(|| missing(of))?);
                }
                let mut places = SmallVec::<[_; FEW]>::new();
                for of in &*outputs {
                    places.push(host.place(of.tensor, of.bytes).ok_or_else(|| missing(of))?);
                }
                // States are a model's last arguments.
                for (value, variable) in values.iter().zip(&mut *variables) {
                    given.push(View::of(value));
                    places.push(ViewMut::of(&mut variable.next));
                }
                in_place.compute(&given, &places)?;
                drop((given, places));
                for (value, variable) in values.iter_mut().zip(variables) {
                    std::mem::swap(value, &mut variable.next);
                }
                Ok(())
            }
        }
    }
}

/// Partitions with as many inputs and outputs as this are executed without an allocation.
const FEW: usize = 8;

/// Copies the interpreter's tensors into a frame.
fn write(frame: &mut Frame, host: &Host, inputs: &[Transfer]) -> Result<(), KernelError> {
    for &transfer in inputs {
        let Transfer { tensor, argument, bytes } = transfer;
        let value = host.value(tensor, bytes).ok_or(KernelError::NoValue(tensor, bytes))?;
        let input = frame.input(argument)?;
        if input.len() != bytes {
            return Err(KernelError::OtherSize(transfer, input.len()));
        }
        input.copy_from(value);
    }
    Ok(())
}

/// Holds the length of a variable's argument against that of its value.
fn fits(variable: &Carried, argument: usize, bytes: usize, got: usize) -> Result<(), KernelError> {
    let transfer = Transfer { tensor: variable.tensor, argument, bytes };
    if got == bytes { Ok(()) } else { Err(KernelError::OtherSize(transfer, got)) }
}

/// Copies the values of variables into a frame.
fn put(frame: &mut Frame, variables: &[Carried], values: &[Vec<u8>]) -> Result<(), KernelError> {
    for (variable, value) in variables.iter().zip(values) {
        let input = frame.input(variable.input)?;
        fits(variable, variable.input, value.len(), input.len())?;
        input.copy_from_slice(value);
    }
    Ok(())
}

/// Copies the values that variables have then from a frame.
fn take(frame: &Frame, variables: &[Carried], values: &mut [Vec<u8>]) -> Result<(), KernelError> {
    for (variable, value) in variables.iter().zip(values) {
        let output = frame.output(variable.output)?;
        fits(variable, variable.output, value.len(), output.len())?;
        output.copy_to_slice(value);
    }
    Ok(())
}

/// Copies what a frame holds into the interpreter's tensors.
fn read(frame: &Frame, host: &Host, outputs: &[Transfer]) -> Result<(), KernelError> {
    for &transfer in outputs {
        let Transfer { tensor, argument, bytes } = transfer;
        let output = frame.output(argument)?;
        if output.len() != bytes {
            return Err(KernelError::OtherSize(transfer, output.len()));
        }
        host.place(tensor, bytes).ok_or(KernelError::NoValue(tensor, bytes))?.copy_from(output);
    }
    Ok(())
}
