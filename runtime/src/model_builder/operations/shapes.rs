//! The same elements in other places: shapes, slices, lookups.

use super::*;

operations! {
    /// The same elements in another shape; one extent may be -1 and takes what is left.
    Reshape reshape(input: OperandId, shape: Ints) => one;
    /// Without dimensions of extent 1: all of them, where `axes` says nothing else.
    Squeeze squeeze(input: OperandId) {
        /// The dimensions to leave out.
        axes: MaybeInts = None,
    } => one;
    /// With a dimension of extent 1 more, before `axis`.
    ExpandDims expand_dims(input: OperandId, axis: Int) => one;
    /// With the dimensions in another order: the opposite one, where `permutation` says nothing
    /// else.
    Transpose transpose(input: OperandId) {
        /// For each dimension of the output which of the input it is.
        permutation: MaybeInts = None,
    } => one;
    /// One behind the other, along `axis`.
    Concatenation concatenation(inputs: Tensors, axis: Int) => one;
    /// Cut in `parts` of the same extent along `axis`.
    Split split(input: OperandId, axis: Int, parts: i32) => many;
    /// From `begin` so many elements of each dimension as `size` says; -1 is all that follow.
    Slice slice(input: OperandId, begin: Ints, size: Ints) => one;
    /// From `begin` up to `end`, every so many as `strides` says, in each dimension. Bits of the
    /// masks stand for dimensions.
    StridedSlice strided_slice(input: OperandId, begin: Ints, end: Ints, strides: Ints) {
        /// The dimensions in which `begin` doesn't count: from the first.
        begin_mask: Int = 0,
        /// The dimensions in which `end` doesn't count: to the last.
        end_mask: Int = 0,
        /// The dimensions of which only the element at `begin` is taken, and which are left out.
        shrink_axis_mask: Int = 0,
    } => one;
    /// So many times one behind the other, in each dimension.
    Tile tile(input: OperandId, multiples: Ints) => one;
    /// With zeros before and behind each dimension.
    Pad pad(input: OperandId, paddings: Pairs) => one;
    /// With `value` before and behind each dimension: an `f32` with floats, an `i32`, as stored,
    /// with 8-bit values.
    PadV2 pad_v2(input: OperandId, paddings: Pairs, value: Number) => one;
    /// A tensor of this shape that is `value` throughout.
    Fill fill(shape: Ints, value: Number) => one;
    /// The slices of `input` along `axis` that `indices`, of INT32, say.
    Gather gather(input: OperandId, axis: Int, indices: OperandId) => one;
    /// The rows of `values` that `lookups`, of INT32, say.
    EmbeddingLookup embedding_lookup(lookups: OperandId, values: OperandId) => one;
    /// The rows of `values` by `keys`, which ascend; rows of keys that aren't there are zero.
    HashtableLookup hashtable_lookup(lookups: OperandId, keys: OperandId, values: OperandId)
    => { Found:
        /// The rows.
        output,
        /// 1 for each key that is there, else 0, as TENSOR_QUANT8_ASYMM.
        hits
    };
    /// Bits of the input by the hashes `hash`, `[hashes, bits]`: inputs that are alike agree in
    /// most.
    LshProjection lsh_projection(hash: OperandId, input: OperandId, projection: Projection) => one;
    /// `samples` numbers of classes at random, from `log_probabilities`, `[batches, classes]`; the
    /// two `seeds` fix them.
    RandomMultinomial random_multinomial(log_probabilities: OperandId, samples: Int, seeds: Ints)
    => one;
}

/// More are nobody's intent.
const MOST_PARTS: usize = 1 << 16;

impl Split<'_> {
    fn outputs(&self) -> usize {
        usize::try_from(self.parts).unwrap_or(0).min(MOST_PARTS)
    }
}
