//! Reductions, and the places of the greatest and smallest elements.

use super::*;

operations! {
    /// The mean over `axes`.
    Mean mean(input: OperandId, axes: Ints) {
        /// True if the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// True if all BOOL8 over `axes` are true.
    ReduceAll reduce_all(input: OperandId, axes: Ints) {
        /// True if the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// True if a BOOL8 over `axes` is true.
    ReduceAny reduce_any(input: OperandId, axes: Ints) {
        /// True if the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// The greatest over `axes`.
    ReduceMax reduce_max(input: OperandId, axes: Ints) {
        /// True if the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// The smallest over `axes`.
    ReduceMin reduce_min(input: OperandId, axes: Ints) {
        /// True if the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// The product over `axes`.
    ReduceProd reduce_prod(input: OperandId, axes: Ints) {
        /// True if the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// The sum over `axes`.
    ReduceSum reduce_sum(input: OperandId, axes: Ints) {
        /// True if the dimensions stay, with extent 1.
        keep_dims: Flag = false,
    } => one;
    /// The place of the greatest along `axis`, as INT32.
    Argmax argmax(input: OperandId, axis: Int) => one;
    /// The place of the smallest along `axis`, as INT32.
    Argmin argmin(input: OperandId, axis: Int) => one;
    /// The `k` greatest along the last dimension, in order.
    TopkV2 topk_v2(input: OperandId, k: Int) => { Topk:
        /// The greatest.
        values,
        /// Their places, as INT32.
        indices
    };
    /// The number of a tensor's dimensions, as an INT32 scalar.
    Rank rank(input: OperandId) => one;
}
