//! What many elements have in common, and which of them stands out.

use super::*;

operations! {
    /// The mean over `axes`.
    Mean mean(input: OperandId, axes: Ints) {
        /// Whether the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// Whether all BOOL8 over `axes` are true.
    ReduceAll reduce_all(input: OperandId, axes: Ints) {
        /// Whether the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// Whether a BOOL8 over `axes` is true.
    ReduceAny reduce_any(input: OperandId, axes: Ints) {
        /// Whether the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// The greatest over `axes`.
    ReduceMax reduce_max(input: OperandId, axes: Ints) {
        /// Whether the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// The smallest over `axes`.
    ReduceMin reduce_min(input: OperandId, axes: Ints) {
        /// Whether the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// The product over `axes`.
    ReduceProd reduce_prod(input: OperandId, axes: Ints) {
        /// Whether the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// The sum over `axes`.
    ReduceSum reduce_sum(input: OperandId, axes: Ints) {
        /// Whether the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// Where the greatest along `axis` is, as INT32.
    Argmax argmax(input: OperandId, axis: Int) => one;
    /// Where the smallest along `axis` is, as INT32.
    Argmin argmin(input: OperandId, axis: Int) => one;
    /// The `k` greatest along the last dimension, in order.
    TopkV2 topk_v2(input: OperandId, k: Int) => { Topk:
        /// The greatest.
        values,
        /// Where they are, as INT32.
        indices
    };
    /// How many dimensions a tensor has, as an INT32 scalar.
    Rank rank(input: OperandId) => one;
}
