//! Networks that compute several requests at once: the first extent of all inputs and outputs is
//! the batch.
//!
//! A file made for one request becomes one for several where each operator computes along the first
//! axis element by element. Those that don't, or might not, are refused: their results would be
//! other requests' as well.

use super::{Lower, axis_of};
use crate::error::ImportError;
use crate::schema::Builtin;
use crate::schema::Graph;
use crate::schema::options;

/// The shapes of a graph's inputs for `batch` requests at once, by tensor. Those in `given` hold in
/// place of the file's.
///
/// # Errors
/// An input is not made for one request.
pub(crate) fn batched_inputs(
    graph: &Graph<'_>,
    given: &[(usize, Vec<u32>)],
    batch: u32,
) -> Result<Vec<(usize, Vec<u32>)>, ImportError> {
    let shape_of = |input: usize| {
        let given = given.iter().find(|(tensor, _)| *tensor == input);
        given.map_or(&graph.tensors[input].shape, |(_, shape)| shape)
    };
    let batched = |&input: &usize| {
        let mut shape = shape_of(input).clone();
        match shape.first_mut() {
            Some(first @ 1) => *first = batch,
            _ => {
                let name = &graph.tensors[input].name;
                let why = format!(
                    "input {name:?} of shape {shape:?} can't hold {batch} requests: its first \
                     extent is not 1"
                );
                return Err(ImportError::Interface(why));
            }
        }
        Ok((input, shape))
    };
    graph.inputs.iter().map(batched).collect()
}

impl Lower<'_, '_> {
    /// The shape that RESHAPE asks for, whose first extent of 1 is the batch where the elements say
    /// so.
    pub(super) fn batched_shape(&self, wanted: &mut [i64]) {
        let batch = i64::from(self.import.options.batch);
        let count = |extents: &[i64]| extents.iter().try_fold(1i64, |all, &it| all.checked_mul(it));
        let input = self.dims(0).map(|dims| dims.into_iter().map(i64::from).collect::<Vec<_>>());
        let (Some(input), Some(asked)) = (input.and_then(|dims| count(&dims)), count(wanted))
        else {
            return;
        };
        if let Some(first @ 1) = wanted.first_mut()
            && batch > 1
            && asked.checked_mul(batch) == Some(input)
        {
            *first = batch;
        }
    }

    /// The reason why the operator can't compute a batch; `None` where it can, computes constants
    /// alone, or no batch is asked for.
    pub(super) fn mixes_batch(&self) -> Option<String> {
        let batch = self.import.options.batch;
        if batch <= 1 || self.op.inputs.iter().flatten().all(|&at| self.import.is_constant(at)) {
            return None;
        }
        // A batch is part of a shape, from which the shapes of RESHAPE follow.
        if matches!(self.builtin(), Builtin::Shape | Builtin::Rank) {
            return None;
        }
        if !self.is_apart() {
            return Some(format!("it may compute one of {batch} requests from another"));
        }
        let results = (0..self.op.outputs.len()).map(|result| self.inferred(result));
        for (at, dims) in results.enumerate() {
            match dims {
                Some(dims) if dims.first() == Some(&batch) => {}
                Some(dims) => {
                    return Some(format!(
                        "result {at} of shape {dims:?} holds no {batch} requests"
                    ));
                }
                None => return Some(format!("the shape of its result {at} is not known")),
            }
        }
        None
    }

    /// Returns whether each element along the first axis of the results comes of the same one of
    /// the inputs.
    fn is_apart(&self) -> bool {
        let axis = |argument: usize, of: usize| {
            let rank = self.dims(of)?.len();
            axis_of(self.one_int(argument)?, rank).ok()
        };
        match self.builtin() {
            Builtin::Conv2d | Builtin::DepthwiseConv2d | Builtin::FullyConnected => {
                (1..self.op.inputs.len()).all(|argument| self.is_given(argument))
            }
            Builtin::AveragePool2d
            | Builtin::MaxPool2d
            | Builtin::L2Pool2d
            | Builtin::ResizeBilinear
            | Builtin::ResizeNearestNeighbor
            | Builtin::SpaceToDepth
            | Builtin::DepthToSpace
            | Builtin::LocalResponseNormalization => true,
            // Rows, and the first axis is none of theirs.
            Builtin::Softmax | Builtin::LogSoftmax | Builtin::L2Normalization => {
                self.dims(0).is_some_and(|dims| dims.len() > 1)
            }
            Builtin::BatchMatmul => {
                let rank = self.inferred(0).map_or(0, |dims| dims.len());
                self.broadcasts_apart() && (rank > 2 || self.is_given(1))
            }
            Builtin::Reshape | Builtin::Squeeze | Builtin::ExpandDims => true,
            Builtin::Concatenation => self.joins_apart(),
            Builtin::Gather => self.gathers_apart(),
            Builtin::Split => axis(0, 1).is_some_and(|axis| axis > 0),
            Builtin::SplitV => axis(2, 0).is_some_and(|axis| axis > 0),
            Builtin::ArgMax | Builtin::ArgMin => axis(1, 0).is_some_and(|axis| axis > 0),
            Builtin::Pad | Builtin::Padv2 | Builtin::MirrorPad => {
                self.constant_ints(1).is_ok_and(|pads| pads.starts_with(&[0, 0]))
            }
            Builtin::Slice => self.constant_ints(1).is_ok_and(|begin| begin.starts_with(&[0])),
            Builtin::StridedSlice => self.slices_apart(),
            Builtin::Transpose => self.constant_ints(1).is_ok_and(|order| order.starts_with(&[0])),
            Builtin::Mean
            | Builtin::Sum
            | Builtin::ReduceProd
            | Builtin::ReduceMax
            | Builtin::ReduceMin
            | Builtin::ReduceAny
            | Builtin::ReduceAll => self.reduces_apart(),
            Builtin::Cumsum
            | Builtin::ReverseV2
            | Builtin::ReverseSequence
            | Builtin::DynamicUpdateSlice => false,
            builtin => self.elementwise_dims(builtin).is_some() && self.broadcasts_apart(),
        }
    }

    fn joins_apart(&self) -> bool {
        use options::concatenation as o;
        let axis = self.options(o::KIND).and_then(|options| Ok(options.int(o::AXIS, 0)?));
        let rank = self.dims(0).map_or(0, |dims| dims.len());
        let axis = axis.ok().and_then(|axis| axis_of(i64::from(axis), rank).ok());
        axis.is_some_and(|axis| axis > 0) && self.broadcasts_apart()
    }

    /// GATHER takes rows of a constant table, or elements within each request.
    fn gathers_apart(&self) -> bool {
        use options::gather as o;
        let Ok(options) = self.options(o::KIND) else { return false };
        let number = |field| options.int(field, 0).ok();
        let rank = self.dims(0).map_or(0, |dims| dims.len());
        let axis = number(o::AXIS).and_then(|axis| axis_of(i64::from(axis), rank).ok());
        number(o::BATCH_DIMS) == Some(0)
            && match axis {
                Some(0) => self.is_given(0),
                Some(_) => self.is_given(1),
                None => false,
            }
    }

    fn slices_apart(&self) -> bool {
        use options::strided_slice as o;
        let Ok(options) = self.options(o::KIND) else { return false };
        let touches_first = |mask| options.int(mask, 0).map_or(true, |mask| mask & 1 == 1);
        let starts_with = |argument: usize, value: i64| {
            self.constant_ints(argument).is_ok_and(|all| all.starts_with(&[value]))
        };
        let changes_rank = touches_first(o::NEW_AXIS_MASK) || touches_first(o::SHRINK_AXIS_MASK);
        !changes_rank && starts_with(1, 0) && starts_with(3, 1)
    }

    fn reduces_apart(&self) -> bool {
        let (Some(dims), Ok(axes)) = (self.dims(0), self.constant_ints(1)) else { return false };
        let mut axes = axes.iter().map(|&axis| axis_of(axis, dims.len()));
        axes.all(|axis| axis.is_ok_and(|axis| axis > 0))
    }

    /// Returns whether all arguments have the result's rank, with the batch first, but for
    /// constants that are the same for all requests.
    fn broadcasts_apart(&self) -> bool {
        let batch = self.import.options.batch;
        let Some(rank) = self.inferred(0).map(|dims| dims.len()) else { return false };
        let fits = |argument: usize| {
            let Some(dims) = self.dims(argument) else { return !self.has(argument) };
            match self.is_given(argument) {
                true => dims.len() < rank || dims.first() == Some(&1),
                false => dims.len() == rank && dims.first() == Some(&batch),
            }
        };
        (0..self.op.inputs.len()).all(fits)
    }

    /// Returns whether an argument is a constant, or not there.
    pub(super) fn is_given(&self, argument: usize) -> bool {
        self.tensor_index(argument).map_or(true, |index| self.import.is_constant(index))
    }
}
