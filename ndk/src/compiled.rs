//! Compiled models, as every execution asks about them.

use std::sync::Arc;

use nnburst::hal::{self, Operand};

use crate::diagnostic::Facts;
use crate::error::{Error, Result};
use crate::extension;

/// A model that is ready to run.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) compilation: nnburst::Compilation,
    /// True if the caller named exactly one: then times can be measured and limited.
    pub(crate) one_device: bool,
    /// True if the model leaves the shape of an output open.
    pub(crate) has_open_output: bool,
    /// True if all of it is on devices of this process.
    pub(crate) is_here: bool,
    inputs: Vec<Parameter>,
    outputs: Vec<Parameter>,
    /// For call-backs, where there were any when the compilation finished.
    pub(crate) facts: Option<Arc<Facts>>,
}

impl Compiled {
    /// # Errors
    /// `BAD_DATA` for arguments beyond what the interface can tell.
    pub(crate) fn new(
        compilation: nnburst::Compilation,
        one_device: bool,
        facts: Option<Arc<Facts>>,
    ) -> Result<Self> {
        let inputs = Parameter::all(compilation.inputs())?;
        let outputs = Parameter::all(compilation.outputs())?;
        Ok(Self {
            is_here: compilation.devices().iter().all(nnburst::Device::is_embedded),
            has_open_output: outputs.iter().any(|output| output.is_open),
            inputs,
            outputs,
            compilation,
            one_device,
            facts,
        })
    }

    /// An input of the model.
    ///
    /// # Errors
    /// `BAD_DATA` if there is none of the index.
    pub(crate) fn input(&self, index: u32) -> Result<&Parameter> {
        parameter("input", &self.inputs, index)
    }

    /// An output of the model.
    ///
    /// # Errors
    /// `BAD_DATA` if there is none of the index.
    pub(crate) fn output(&self, index: u32) -> Result<&Parameter> {
        parameter("output", &self.outputs, index)
    }
}

/// An input or output of the model, with what every execution asks about it.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) operand: Operand,
    /// Bytes in the model's own shape; 0 where that is open, or any length goes.
    pub(crate) size: u64,
    /// True if the model leaves the shape open.
    pub(crate) is_open: bool,
}

impl Parameter {
    fn new(operand: &Operand) -> Result<Self> {
        let size = match operand.kind {
            hal::OperandType::Oem => 0,
            _ => extension::data_size(operand)?,
        };
        Ok(Self { operand: operand.clone(), size, is_open: extension::is_open(operand) })
    }

    fn all(operands: &[Operand]) -> Result<Vec<Self>> {
        operands.iter().map(Self::new).collect()
    }
}

#[inline]
fn parameter<'a>(what: &str, all: &'a [Parameter], index: u32) -> Result<&'a Parameter> {
    let found = usize::try_from(index).ok().and_then(|at| all.get(at));
    found.ok_or_else(|| Error::data(format!("{what} {index} asked for, there are {}", all.len())))
}
