//! Tensors: shapes, elements and where they lie, quantisation, memory, errors.

pub mod element;
mod error;
pub mod memory;
pub mod packed;
pub mod poll;
pub mod quant;
pub mod rows;
pub mod shape;
mod views;

use nnburst_hal::{ChannelQuant, OperandType};

pub use element::{Element, Quantised, Real, quantised_range};
pub use error::OpError;
pub use memory::{AlignedBytes, NoMemory};
pub use shape::Shape;
pub use views::{In, Out};

/// An operand with its shape.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Scalar or tensor, and of what elements.
    pub kind: OperandType,
    /// Its extents, all known.
    pub shape: Shape,
    /// Quantisation scale; 0 for types without one.
    pub scale: f32,
    /// The stored value that stands for 0.
    pub zero_point: i32,
    /// Scales per channel, where it has them.
    pub channel_quant: Option<ChannelQuant>,
}

/// Checks a length before a kernel reads or writes through pointers.
///
/// # Errors
/// There are fewer elements than needed.
pub fn check_lengths(given: usize, needed: usize) -> Result<(), String> {
    if given >= needed {
        Ok(())
    } else {
        Err(format!("{given} elements where {needed} are needed"))
    }
}
