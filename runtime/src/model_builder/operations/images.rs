//! Convolutions, pooling, dense layers and what changes the size of pictures. Pictures are
//! `[batches, height, width, channels]`, or `[batches, channels, height, width]` with `nchw`.

use super::*;
use nnburst_hal::FusedActivation;

/// Rows of operations that make one value of each window, and differ in nothing else.
macro_rules! pools {
    ($($(#[$doc:meta])* $kind:ident $name:ident;)*) => {
        operations! { $(
            $(#[$doc])*
            $kind $name(input: OperandId; filter: Size) {
                padding: Padding = Padding::Valid,
                /// The stride of the window.
                stride: Size = 1,
                filter,
                activation: Activation = FusedActivation::None,
            } [
                /// True if channels come before height and width.
                nchw: Flag = false,
            ] => one;
        )* }
    };
}

operations! {
    /// Convolution with `filter`, `[out, height, width, in]`, and `bias`, `[out]`.
    Conv2d conv_2d(input: OperandId, filter: OperandId, bias: OperandId) {
        padding: Padding = Padding::Valid,
        /// The stride of the filter.
        stride: Size = 1,
        activation: Activation = FusedActivation::None,
    } [
        /// True if channels come before height and width.
        nchw: Flag = false,
        /// The distance between the filter's elements.
        dilation: Size = 1,
    ] => one;
    /// Convolution of each channel by itself, with `filter`, `[1, height, width, in * multiplier]`,
    /// and `bias`.
    DepthwiseConv2d depthwise_conv_2d(input: OperandId, filter: OperandId, bias: OperandId) {
        padding: Padding = Padding::Valid,
        /// The stride of the filter.
        stride: Size = 1,
        /// The number of channels that come from each.
        multiplier: Int = 1,
        activation: Activation = FusedActivation::None,
    } [
        /// True if channels come before height and width.
        nchw: Flag = false,
        /// The distance between the filter's elements.
        dilation: Size = 1,
    ] => one;
    /// Convolution of `groups` of channels by themselves, with `filter`,
    /// `[out, height, width, in / groups]`, and `bias`.
    GroupedConv2d grouped_conv_2d(
        input: OperandId, filter: OperandId, bias: OperandId; groups: Int
    ) {
        padding: Padding = Padding::Valid,
        /// The stride of the filter.
        stride: Size = 1,
        groups,
        activation: Activation = FusedActivation::None,
        /// True if channels come before height and width.
        nchw: Flag = false,
    } => one;
    /// The transpose of a convolution with `filter`, `[out, height, width, in]`: what it makes of a
    /// small picture is a large one, whose shape `padding` tells or implies.
    TransposeConv2d transpose_conv_2d(
        input: OperandId, filter: OperandId, bias: OperandId, padding: TransposePadding
    ) {
        /// The stride of the filter in the output.
        stride: Size = 1,
        activation: Activation = FusedActivation::None,
        /// True if channels come before height and width.
        nchw: Flag = false,
    } => one;
    /// A dense layer: `input`, seen as `[batches, in]`, by `weights`, `[units, in]`, and `bias`,
    /// `[units]`.
    FullyConnected fully_connected(input: OperandId, weights: OperandId, bias: OperandId) {
        activation: Activation = FusedActivation::None,
    } => one;
}

pools! {
    /// The mean of each window of the size of `filter`; padding doesn't count.
    AveragePool2d average_pool_2d;
    /// The root of the mean square of each window of the size of `filter`.
    L2Pool2d l2_pool_2d;
    /// The greatest of each window of the size of `filter`.
    MaxPool2d max_pool_2d;
}

operations! {
    /// A picture of another size, linear between the pixels.
    ResizeBilinear resize_bilinear(input: OperandId, size: Resize) [
        /// True if channels come before height and width.
        nchw: Flag = false,
        /// True if corner pixels lie upon corner pixels.
        align_corners: Flag = false,
        /// True if pixels count as squares with their centres at halves.
        half_pixel_centers: Flag = false,
    ] => one;
    /// A picture of another size, each pixel that of the nearest.
    ResizeNearestNeighbor resize_nearest_neighbor(input: OperandId, size: Resize) {
        /// True if channels come before height and width.
        nchw: Flag = false,
    } [
        /// True if corner pixels lie upon corner pixels.
        align_corners: Flag = false,
        /// True if pixels count as squares with their centres at halves.
        half_pixel_centers: Flag = false,
    ] => one;

    /// Spreads blocks of channels over squares of `block` by `block` pixels.
    DepthToSpace depth_to_space(input: OperandId, block: Int) [
        /// True if channels come before height and width.
        nchw: Flag = false,
    ] => one;
    /// Gathers squares of `block` by `block` pixels in channels.
    SpaceToDepth space_to_depth(input: OperandId, block: Int) [
        /// True if channels come before height and width.
        nchw: Flag = false,
    ] => one;
    /// Spreads batches over blocks of `blocks` pixels: height, width.
    BatchToSpaceNd batch_to_space_nd(input: OperandId, blocks: Ints) [
        /// True if channels come before height and width.
        nchw: Flag = false,
    ] => one;
    /// Gathers blocks of `blocks` pixels, height and width, in batches, once pixels are put before
    /// and behind each.
    SpaceToBatchNd space_to_batch_nd(input: OperandId, blocks: Ints, paddings: Pairs) [
        /// True if channels come before height and width.
        nchw: Flag = false,
    ] => one;
    /// Mixes channels: those of `groups` groups, one of each after the other.
    ChannelShuffle channel_shuffle(input: OperandId, groups: Int) {
        /// The dimension that counts channels; -1 is the last.
        axis: Int = -1,
    } => one;

    /// Each channel of each picture brought to mean `beta` and deviation `gamma`.
    InstanceNormalization instance_normalization(input: OperandId) {
        /// The deviation.
        gamma: Float = 1.0,
        /// The mean.
        beta: Float = 0.0,
        /// The term that is added to the variance before it divides.
        epsilon: Float = 1e-5,
        /// True if channels come before height and width.
        nchw: Flag = false,
    } => one;
    /// Divides by the length of the vector along an axis.
    L2Normalization l2_normalization(input: OperandId) [
        /// The dimension; -1 is the last.
        axis: Int = -1,
    ] => one;
    /// Divides by `(bias + alpha * sum of squares) ^ beta` over the `radius` neighbours on both
    /// sides along an axis.
    LocalResponseNormalization local_response_normalization(input: OperandId, radius: Int) {
        /// The term that keeps the divisor from 0.
        bias: Float = 1.0,
        /// The weight of the squares.
        alpha: Float = 1.0,
        /// The exponent.
        beta: Float = 0.5,
    } [
        /// The dimension; -1 is the last.
        axis: Int = -1,
    ] => one;
    /// Brings the values along an axis to shares of 1 by their exponentials.
    Softmax softmax(logits: OperandId) {
        /// The factor of the exponents.
        beta: Float = 1.0,
    } [
        /// The dimension; -1 is the last.
        axis: Int = -1,
    ] => one;
    /// The logarithm of [`ModelBuilder::softmax`].
    LogSoftmax log_softmax(logits: OperandId) {
        /// The factor of the exponents.
        beta: Float = 1.0,
        /// The dimension; -1 is the last.
        axis: Int = -1,
    } => one;
}
