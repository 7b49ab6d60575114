//! MobileNet v1 and v2 with seeded weights, layer by layer as their papers tell.

use nnburst_hal::{FusedActivation, Model, Operand};

use super::seed::Seed;
use crate::error::Result;
use crate::model_builder::{ModelBuilder, OperandId};

/// Classes of ImageNet and one for the background.
const CLASSES: u32 = 1001;

/// MobileNet v1 with a quarter of the channels, for pictures of 128 x 128.
pub(super) fn v1_0_25_128() -> Result<Model> {
    v1_128(1)
}

/// MobileNet v1 with half of the channels, for pictures of 128 x 128.
pub(super) fn v1_0_5_128() -> Result<Model> {
    v1_128(2)
}

fn v1_128(quarters: u32) -> Result<Model> {
    let mut net = Net::new(128);
    net.convolution(8 * quarters, 3, 2, FusedActivation::Relu6);
    let blocks = [
        (16, 1),
        (32, 2),
        (32, 1),
        (64, 2),
        (64, 1),
        (128, 2),
        (128, 1),
        (128, 1),
        (128, 1),
        (128, 1),
        (128, 1),
        (256, 2),
        (256, 1),
    ];
    for (channels, stride) in blocks {
        net.depthwise(stride);
        net.convolution(channels * quarters, 1, 1, FusedActivation::Relu6);
    }
    net.classify_by_pooling()
}

/// MobileNet v2 with all channels, for pictures of 224 x 224.
pub(super) fn v2_1_0_224() -> Result<Model> {
    let mut net = Net::new(224);
    net.convolution(32, 3, 2, FusedActivation::Relu6);
    // Expansion, channels, repetitions, stride of the first: table 2 of the paper.
    let stages = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ];
    for (expansion, channels, repetitions, first_stride) in stages {
        for repetition in 0..repetitions {
            let stride = if repetition == 0 { first_stride } else { 1 };
            net.inverted_residual(expansion, channels, stride);
        }
    }
    net.convolution(1280, 1, 1, FusedActivation::Relu6);
    net.classify_by_mean()
}

/// A network in the making: the graph, and where its end is.
struct Net {
    graph: ModelBuilder,
    seed: Seed,
    value: OperandId,
}

impl Net {
    fn new(size: u32) -> Self {
        let mut graph = ModelBuilder::new();
        let value = graph.input(Operand::float32([1, size, size, 3]));
        Self { graph, seed: Seed::new(u64::from(size)), value }
    }

    fn channels(&self) -> u32 {
        self.graph.shape(self.value).last().copied().unwrap_or(0)
    }

    fn convolution(
        &mut self,
        channels: u32,
        kernel: u32,
        stride: i32,
        activation: FusedActivation,
    ) {
        let fan_in = kernel * kernel * self.channels();
        let filter = self.weights([channels, kernel, kernel, self.channels()], fan_in, activation);
        let bias = self.bias(channels);
        let convolution = self.graph.conv_2d(self.value, filter, bias).stride(stride).same();
        self.value = convolution.activation(activation).done();
    }

    fn depthwise(&mut self, stride: i32) {
        let channels = self.channels();
        let filter = self.weights([1, 3, 3, channels], 9, FusedActivation::Relu6);
        let bias = self.bias(channels);
        let convolution = self.graph.depthwise_conv_2d(self.value, filter, bias);
        self.value = convolution.stride(stride).same().relu6().done();
    }

    fn inverted_residual(&mut self, expansion: u32, channels: u32, stride: i32) {
        let (start, start_channels) = (self.value, self.channels());
        if expansion > 1 {
            self.convolution(expansion * start_channels, 1, 1, FusedActivation::Relu6);
        }
        self.depthwise(stride);
        self.convolution(channels, 1, 1, FusedActivation::None);
        if stride == 1 && channels == start_channels {
            self.value = self.graph.add(start, self.value).done();
        }
    }

    /// Average pooling over the picture, a 1 x 1 convolution to the classes, reshape and softmax.
    fn classify_by_pooling(mut self) -> Result<Model> {
        let size = self.graph.shape(self.value).get(1).copied().unwrap_or(0).cast_signed();
        self.value = self.graph.average_pool_2d(self.value, size).done();
        self.convolution(CLASSES, 1, 1, FusedActivation::None);
        let flat = self.graph.reshape(self.value, [1, CLASSES.cast_signed()]).done();
        self.softmax(flat)
    }

    /// Mean over the picture, a dense layer to the classes, and softmax.
    fn classify_by_mean(mut self) -> Result<Model> {
        let features = self.channels();
        let mean = self.graph.mean(self.value, [1, 2]).done();
        let weights = self.weights([CLASSES, features], features, FusedActivation::None);
        let bias = self.bias(CLASSES);
        let logits = self.graph.fully_connected(mean, weights, bias).done();
        self.softmax(logits)
    }

    fn softmax(mut self, logits: OperandId) -> Result<Model> {
        let softmax = self.graph.softmax(logits).done();
        self.graph.output(softmax);
        self.graph.build()
    }

    /// Spread so that values neither die out nor blow up over the layers: variance 2 / fan-in in
    /// front of an activation that drops half of them (He), 1 / fan-in without one.
    fn weights<const N: usize>(
        &mut self,
        dimensions: [u32; N],
        fan_in: u32,
        activation: FusedActivation,
    ) -> OperandId {
        let count: u32 = dimensions.iter().product();
        let gain = if activation == FusedActivation::None { 3.0 } else { 6.0 };
        #[expect(clippy::cast_precision_loss, reason = "fan-ins are small")]
        let bound = (gain / fan_in as f32).sqrt();
        let values = self.seed.uniform(usize::try_from(count).unwrap_or(0), bound);
        self.graph.constant_of(Operand::float32(dimensions), &values)
    }

    fn bias(&mut self, channels: u32) -> OperandId {
        let values = self.seed.uniform(usize::try_from(channels).unwrap_or(0), 0.1);
        self.graph.constant_of(Operand::float32([channels]), &values)
    }
}
