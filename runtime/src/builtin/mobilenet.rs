//! MobileNet v1 and v2 with seeded weights, layer by layer as their papers tell.

use nnburst_hal::{FusedActivation, Model, Operand, OperandType, OperationType};

use super::seed::Seed;
use crate::error::Result;
use crate::model_builder::{ModelBuilder, OperandId};

/// Classes of ImageNet and one for the background.
const CLASSES: u32 = 1001;
/// `ANEURALNETWORKS_PADDING_SAME`.
const PADDING_SAME: i32 = 1;
/// `ANEURALNETWORKS_PADDING_VALID`.
const PADDING_VALID: i32 = 2;

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
    size: u32,
    channels: u32,
}

impl Net {
    fn new(size: u32) -> Self {
        let mut graph = ModelBuilder::new();
        let value = graph.input(picture(size, 3));
        Self { graph, seed: Seed::new(u64::from(size)), value, size, channels: 3 }
    }

    fn convolution(
        &mut self,
        channels: u32,
        kernel: u32,
        stride: u32,
        activation: FusedActivation,
    ) {
        let fan_in = kernel * kernel * self.channels;
        let filter =
            self.weights(vec![channels, kernel, kernel, self.channels], fan_in, activation);
        let bias = self.bias(channels);
        let mut inputs = vec![self.value, filter, bias];
        inputs.extend(self.scalars(&[
            PADDING_SAME,
            stride.cast_signed(),
            stride.cast_signed(),
            activation.code(),
        ]));
        self.size = self.size.div_ceil(stride);
        self.channels = channels;
        self.append(OperationType::Conv2d, &inputs);
    }

    fn depthwise(&mut self, stride: u32) {
        let filter = self.weights(vec![1, 3, 3, self.channels], 9, FusedActivation::Relu6);
        let bias = self.bias(self.channels);
        let mut inputs = vec![self.value, filter, bias];
        let relu6 = FusedActivation::Relu6.code();
        // A depth multiplier of 1 between strides and activation.
        inputs.extend(self.scalars(&[
            PADDING_SAME,
            stride.cast_signed(),
            stride.cast_signed(),
            1,
            relu6,
        ]));
        self.size = self.size.div_ceil(stride);
        self.append(OperationType::DepthwiseConv2d, &inputs);
    }

    fn inverted_residual(&mut self, expansion: u32, channels: u32, stride: u32) {
        let (start, start_channels) = (self.value, self.channels);
        if expansion > 1 {
            self.convolution(expansion * start_channels, 1, 1, FusedActivation::Relu6);
        }
        self.depthwise(stride);
        self.convolution(channels, 1, 1, FusedActivation::None);
        if stride == 1 && channels == start_channels {
            let mut inputs = vec![start, self.value];
            inputs.extend(self.scalars(&[FusedActivation::None.code()]));
            self.append(OperationType::Add, &inputs);
        }
    }

    /// Average pooling over the picture, a 1 x 1 convolution to the classes, reshape and softmax.
    fn classify_by_pooling(mut self) -> Result<Model> {
        let (size, none) = (self.size.cast_signed(), FusedActivation::None);
        let mut inputs = vec![self.value];
        inputs.extend(self.scalars(&[PADDING_VALID, 1, 1, size, size, none.code()]));
        self.size = 1;
        self.append(OperationType::AveragePool2d, &inputs);
        self.convolution(CLASSES, 1, 1, none);
        let shape = self.graph.vector_i32(&[1, CLASSES.cast_signed()]);
        let flat = self.graph.operation(OperationType::Reshape, &[self.value, shape], row(CLASSES));
        self.softmax(flat)
    }

    /// Mean over the picture, a dense layer to the classes, and softmax.
    fn classify_by_mean(mut self) -> Result<Model> {
        let axes = self.graph.vector_i32(&[1, 2]);
        let keep = self.graph.scalar_i32(0);
        let features = self.channels;
        let mean =
            self.graph.operation(OperationType::Mean, &[self.value, axes, keep], row(features));
        let weights = self.weights(vec![CLASSES, features], features, FusedActivation::None);
        let bias = self.bias(CLASSES);
        let none = self.graph.scalar_i32(FusedActivation::None.code());
        let inputs = [mean, weights, bias, none];
        let logits = self.graph.operation(OperationType::FullyConnected, &inputs, row(CLASSES));
        self.softmax(logits)
    }

    fn softmax(mut self, logits: OperandId) -> Result<Model> {
        let beta = self.graph.scalar_f32(1.0);
        let softmax = self.graph.operation(OperationType::Softmax, &[logits, beta], row(CLASSES));
        self.graph.output(softmax);
        self.graph.build()
    }

    /// Spread so that values neither die out nor blow up over the layers: variance 2 / fan-in in front
    /// of an activation that drops half of them (He), 1 / fan-in without one.
    fn weights(
        &mut self,
        dimensions: Vec<u32>,
        fan_in: u32,
        activation: FusedActivation,
    ) -> OperandId {
        let count: u32 = dimensions.iter().product();
        let gain = if activation == FusedActivation::None { 3.0 } else { 6.0 };
        #[expect(clippy::cast_precision_loss, reason = "fan-ins are small")]
        let bound = (gain / fan_in as f32).sqrt();
        let values = self.seed.uniform(usize::try_from(count).unwrap_or(0), bound);
        self.graph.tensor_f32(dimensions, &values)
    }

    fn bias(&mut self, channels: u32) -> OperandId {
        let values = self.seed.uniform(usize::try_from(channels).unwrap_or(0), 0.1);
        self.graph.tensor_f32(vec![channels], &values)
    }

    fn scalars(&mut self, values: &[i32]) -> Vec<OperandId> {
        values.iter().map(|&value| self.graph.scalar_i32(value)).collect()
    }

    fn append(&mut self, kind: OperationType, inputs: &[OperandId]) {
        self.value = self.graph.operation(kind, inputs, picture(self.size, self.channels));
    }
}

fn picture(size: u32, channels: u32) -> Operand {
    Operand::tensor(OperandType::TensorFloat32, vec![1, size, size, channels])
}

fn row(features: u32) -> Operand {
    Operand::tensor(OperandType::TensorFloat32, vec![1, features])
}
