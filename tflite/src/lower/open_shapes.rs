//! Results whose shapes the file does not say, or says of other inputs.

use nnburst_hal::OperandLifeTime;

use super::Lower;
use crate::graph::is_open;
use crate::schema::Builtin;

impl Lower<'_, '_> {
    /// Returns whether the size of an operator's results depends on values that are known at run
    /// time alone, or how it depends on constants is not worked out here: what the file says of it
    /// may be anything.
    pub(super) fn has_open_shape(&self, builtin: Builtin) -> bool {
        let of_values = match builtin {
            Builtin::Where | Builtin::Unique => return true,
            Builtin::Range => 0..3,
            Builtin::Fill | Builtin::Split => 0..1,
            Builtin::Slice
            | Builtin::StridedSlice
            | Builtin::SplitV
            | Builtin::SpaceToBatchNd
            | Builtin::BatchToSpaceNd => 1..4,
            Builtin::Reshape
            | Builtin::Pad
            | Builtin::Padv2
            | Builtin::MirrorPad
            | Builtin::Tile
            | Builtin::BroadcastTo
            | Builtin::ResizeBilinear
            | Builtin::ResizeNearestNeighbor
            | Builtin::TopkV2
            | Builtin::Dilate
            | Builtin::OneHot
            | Builtin::SparseToDense
            | Builtin::SegmentSum => 1..2,
            Builtin::UnsortedSegmentSum
            | Builtin::UnsortedSegmentProd
            | Builtin::UnsortedSegmentMax
            | Builtin::UnsortedSegmentMin => 2..3,
            Builtin::ScatterNd | Builtin::EmbeddingLookupSparse => 2..3,
            Builtin::ReduceWindow => 2..5,
            Builtin::TransposeConv
            | Builtin::Conv3dTranspose
            | Builtin::RandomUniform
            | Builtin::RandomStandardNormal => 0..1,
            Builtin::Rfft2d | Builtin::Multinomial => 1..2,
            _ => return false,
        };
        let mut arguments = of_values.filter_map(|argument| self.optional_tensor(argument));
        let mut results = 0..self.op.outputs.len();
        // An extent that is known to be 0 can't be said to a device, either.
        let is_unknown = |result| self.known_result(result).is_none_or(|dims| is_open(&dims));
        arguments.any(|index| !self.import.is_constant(index))
            || results.any(|result| self.is_example(result) && is_unknown(result))
    }

    /// Leaves open what the file says of the results' shapes where an input's is: it was written
    /// for other inputs.
    pub(crate) fn open_results(&mut self) {
        let inputs = self.op.inputs.iter().copied().flatten();
        let is_open = inputs.filter_map(|index| self.import.values[index]).any(|value| {
            let operand = self.import.builder.operand(value);
            let is_there = operand.lifetime == OperandLifeTime::TemporaryVariable;
            is_there && is_open(&operand.dimensions)
        });
        let is_open = is_open || self.has_open_shape(self.builtin());
        if !is_open && !self.takes_other_shapes() {
            return;
        }
        for result in 0..self.op.outputs.len() {
            let index = self.op.outputs[result];
            let tensor = &self.import.graph.tensors[index];
            if tensor.is_shape_given || tensor.is_shape_open {
                continue;
            }
            let Some(value) = self.import.values[index] else { continue };
            let operand = self.import.builder.operand(value);
            if operand.lifetime == OperandLifeTime::TemporaryVariable {
                let dims = self.open_dims(result, &operand.dimensions);
                self.builder().operand_mut(value).dimensions = dims;
            }
        }
    }

    /// Returns whether an input has another shape here than in the file, whose shapes of the
    /// results then say nothing either.
    pub(super) fn takes_other_shapes(&self) -> bool {
        self.op.inputs.iter().copied().flatten().any(|index| {
            let tensor = &self.import.graph.tensors[index];
            let Some(value) = self.import.values[index] else { return false };
            let operand = self.import.builder.operand(value);
            operand.lifetime == OperandLifeTime::TemporaryVariable
                && !tensor.shape.is_empty()
                && !tensor.is_shape_given
                && operand.dimensions != tensor.shape
        })
    }

    /// The extents of a result that are known at run time alone, as 0, where those of the file
    /// would be `dims`. What follows from shapes and constants goes before what its signature says:
    /// converters leave operators the signatures of others that they have put them in place of.
    pub(super) fn open_dims(&self, result: usize, dims: &[u32]) -> Vec<u32> {
        if let Some(known) = self.instead_of_files(result) {
            return known;
        }
        let signature = self.output_tensor(result).map_or(&[][..], |tensor| &tensor.signature);
        let mut open = match signature.len() == dims.len() && !signature.is_empty() {
            true => signature.to_vec(),
            false if self.is_result(result) && !self.has_open_shape(self.builtin()) => {
                dims.to_vec()
            }
            false => vec![0; dims.len()],
        };
        // What a loop gives may have another shape than what it was given.
        let inferred = (self.builtin() != Builtin::While).then(|| self.inferred(result)).flatten();
        let known = inferred.filter(|it| it.len() == open.len()).into_iter().flatten();
        open.iter_mut().zip(known).filter(|(_, it)| *it != 0).for_each(|(to, it)| *to = it);
        open
    }

    /// Returns whether a result is one of the graph.
    pub(super) fn is_result(&self, result: usize) -> bool {
        let index = self.op.outputs.get(result);
        index.is_some_and(|index| self.import.graph.outputs.contains(index))
    }
}
