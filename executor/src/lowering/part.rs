//! Parts that a step can play in others: what passes over a plan may join it with.

use std::any::Any;
use std::sync::Arc;

use nnburst_kernels::kernels::binary_f32::Arithmetic;
use nnburst_kernels::kernels::chain::Combine;
use nnburst_kernels::kernels::lines::Lines;
use nnburst_kernels::tensor::rows::Apart;

use crate::lowering::walk::Walk;

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
    /// Elements of 4 bytes of input 0, moved.
    Move(Box<Walk>),
    /// An arithmetic of floats, with what each element of the result is of: one of inputs 0 and 1.
    Arithmetic(Arithmetic, Box<[Walk; 2]>),
    /// Products of matrices of floats.
    Products(Arc<Matrices>),
}

/// Pairs of matrices of inputs 0 and 1 that are multiplied; the products lie one behind the other.
#[derive(Debug)]
pub(crate) struct Matrices {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    /// Where each pair of matrices starts.
    pub(crate) pairs: Vec<[usize; 2]>,
    /// From one row to the next and from one element of it to the next, of the left matrix; from
    /// one column to the next and from one element of it to the next, of the right one.
    pub(crate) strides: [[usize; 2]; 2],
}
