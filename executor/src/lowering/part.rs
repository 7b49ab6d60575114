//! Parts that a step can play in others: what passes over a plan may join it with.

use std::any::Any;
use std::sync::Arc;

use nnburst_kernels::kernels::chain::Combine;
use nnburst_kernels::kernels::lines::Lines;
use nnburst_kernels::tensor::rows::Apart;

/// The part of a step that other steps could be joined with.
#[derive(Clone)]
pub(crate) enum StepPart {
    /// A convolution of input 0.
    Lines(Arc<dyn Lines>),
    /// Each element from those of inputs 0 and 1 at its place, both of the output's shape: a sum,
    /// mostly.
    Sum(Combine),
    /// A function of each byte of input 0.
    Table(Box<[u8; 256]>),
    /// Input 0 between borders of zeros, which some convolutions do without.
    Border,
    /// Rows made of a row of each of the first inputs, each at its offset in bytes.
    Join { offsets: Vec<usize>, rows: usize },
    /// A step of a cell, by input 0; of which type, the operation and the pass that joins them
    /// know.
    Cell(Arc<dyn Any + Send + Sync>),
    /// An output that is rows of input 0, from byte `start` on.
    Take { output: usize, start: usize, apart: Apart },
}
