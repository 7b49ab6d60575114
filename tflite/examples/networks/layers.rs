//! Layers of networks whose weights are random, in float or quantised as converters do it.

mod transformer;

use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::{Fields, TfliteFile, Value};

/// The number format of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Float,
    /// Unsigned bytes, a scale per tensor.
    Unsigned,
    /// Signed bytes, weights symmetrical with a scale per channel.
    Signed,
    /// Signed bytes, weights symmetrical with one scale: what converters make of a model if asked
    /// not to go by channels.
    SignedPerTensor,
    /// Floats, weights as of `Signed`: quantised on the fly.
    Hybrid,
}

/// A tensor of the network in the making.
#[derive(Clone, Debug)]
pub(crate) struct LayerTensor {
    id: i32,
    pub(crate) shape: Vec<i32>,
    scale: f32,
    zero_point: i64,
}

/// Activations fused into a layer, by their numbers in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fused {
    None = 0,
    Relu = 1,
    Relu6 = 3,
}

/// The placement of windows: their extents, step and dilation, always padded to cover the image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    height: i32,
    width: i32,
    stride: i32,
    dilation: i32,
}

impl Window {
    pub(crate) const POINT: Self = Self::square(1, 1);

    pub(crate) const fn square(size: i32, stride: i32) -> Self {
        Self { height: size, width: size, stride, dilation: 1 }
    }

    pub(crate) const fn line(width: i32, stride: i32) -> Self {
        Self { height: 1, width, stride, dilation: 1 }
    }

    pub(crate) const fn dilated(self, dilation: i32) -> Self {
        Self { dilation, ..self }
    }

    fn output(self, extent: i32) -> i32 {
        (extent + self.stride - 1) / self.stride
    }
}

/// A network in the making.
pub(crate) struct Network {
    file: TfliteFile,
    numbers: Numbers,
    rng: u64,
    pub(crate) input: Vec<i32>,
    outputs: Vec<i32>,
}

/// The scale of results that no rule gives one.
const SCALE: f32 = 0.05;

impl Network {
    pub(crate) fn new(numbers: Numbers) -> Self {
        let (input, outputs) = (Vec::new(), Vec::new());
        Self { file: TfliteFile::new(), numbers, rng: 1, input, outputs }
    }

    pub(crate) fn kind(&self) -> TensorKind {
        match self.numbers {
            Numbers::Float | Numbers::Hybrid => TensorKind::Float32,
            Numbers::Unsigned => TensorKind::Uint8,
            Numbers::Signed | Numbers::SignedPerTensor => TensorKind::Int8,
        }
    }

    /// Returns whether what lies between layers is floats.
    fn is_real(&self) -> bool {
        self.kind() == TensorKind::Float32
    }

    /// The bytes of the file.
    pub(crate) fn build(mut self) -> Vec<u8> {
        self.file.outputs(&self.outputs);
        self.file.build()
    }

    pub(crate) fn image(&mut self, shape: &[i32]) -> LayerTensor {
        let id = self.file.input("input", self.kind(), shape);
        self.input = shape.to_vec();
        self.quantised(id, shape, SCALE, self.middle())
    }

    /// Says that the network gives this.
    pub(crate) fn output(&mut self, of: &LayerTensor) {
        self.outputs.push(of.id);
    }

    /// The zero point of numbers of either sign, not quite in the middle, as ranges that were
    /// observed have it.
    fn middle(&self) -> i64 {
        if self.numbers == Numbers::Unsigned { 125 } else { -3 }
    }

    fn least(&self) -> i64 {
        if self.numbers == Numbers::Unsigned { 0 } else { -128 }
    }

    fn quantised(&mut self, id: i32, shape: &[i32], scale: f32, zero_point: i64) -> LayerTensor {
        if !self.is_real() {
            self.file.quantize(id, &[scale], &[zero_point], 0);
        }
        LayerTensor { id, shape: shape.to_vec(), scale, zero_point }
    }

    fn result(&mut self, shape: &[i32]) -> LayerTensor {
        self.result_at(shape, SCALE, self.middle())
    }

    fn result_at(&mut self, shape: &[i32], scale: f32, zero_point: i64) -> LayerTensor {
        let id = self.file.tensor("result", self.kind(), shape);
        self.quantised(id, shape, scale, zero_point)
    }

    fn result_like(&mut self, shape: &[i32], like: &LayerTensor) -> LayerTensor {
        self.result_at(shape, like.scale, like.zero_point)
    }

    /// A number in `0 .. below`.
    fn below(&mut self, below: u64) -> u64 {
        // xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators".
        self.rng ^= self.rng >> 12;
        self.rng ^= self.rng << 25;
        self.rng ^= self.rng >> 27;
        (self.rng.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % below
    }

    fn bytes(&mut self, count: usize, below: u64) -> Vec<u8> {
        (0..count).map(|_| u8::try_from(self.below(below)).unwrap_or(0)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a random number")]
    fn floats(&mut self, count: usize, most: f32) -> Vec<f32> {
        let unit = |n: u64| n as f32 / (1 << 20) as f32 * 2.0 - 1.0;
        (0..count).map(|_| unit(self.below(1 << 20)) * most).collect()
    }

    /// Weights and bias of a layer whose results sum up `taps` products, a channel of them along
    /// axis `axis`.
    #[expect(clippy::cast_precision_loss, reason = "extents")]
    fn weights(&mut self, shape: &[i32], axis: i32, taps: i32, input: &LayerTensor) -> [i32; 2] {
        let (count, channels) = (count(shape), shape[usize::try_from(axis).unwrap_or(0)]);
        let channels_count = usize::try_from(channels).unwrap_or(0);
        let most = (3.0 / taps as f32).sqrt();
        if self.numbers == Numbers::Float {
            let (weights, bias) = (self.floats(count, most), self.floats(channels_count, 0.5));
            return [
                self.file.float_constant("weights", shape, &weights),
                self.file.float_constant("bias", &[channels], &bias),
            ];
        }
        let kind = if self.is_real() { TensorKind::Int8 } else { self.kind() };
        let mut bytes = self.bytes(count, 255);
        if self.numbers != Numbers::Unsigned {
            // -127 to 127.
            bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_sub(127));
        }
        let weights = self.file.constant("weights", kind, shape, &bytes);
        let (scales, zero_point) = match self.numbers {
            Numbers::Signed | Numbers::Hybrid => {
                let own = self.floats(channels_count, 0.5);
                (own.iter().map(|own| (1.0 + own) * most / 127.0).collect(), 0)
            }
            Numbers::Unsigned => (vec![most / 127.0], 121),
            _ => (vec![most / 127.0], 0),
        };
        let zero_points = vec![zero_point; scales.len()];
        self.file.quantize(weights, &scales, &zero_points, axis);
        if self.is_real() {
            let bias = self.floats(channels_count, 0.5);
            return [weights, self.file.float_constant("bias", &[channels], &bias)];
        }
        let values: Vec<i32> =
            (0..channels).map(|_| i32::try_from(self.below(1000)).unwrap_or(0) - 500).collect();
        let bias = self.file.int_constant("bias", &[channels], &values);
        let scales: Vec<f32> = scales.iter().map(|scale| scale * input.scale).collect();
        self.file.quantize(bias, &scales, &vec![0; scales.len()], 0);
        [weights, bias]
    }

    /// CONV_2D to `channels`.
    pub(crate) fn conv(
        &mut self,
        x: &LayerTensor,
        window: Window,
        channels: i32,
        fused: Fused,
    ) -> LayerTensor {
        let &[n, h, w, depth] = &x.shape[..] else { return x.clone() };
        let shape = [channels, window.height, window.width, depth];
        let [weights, bias] = self.weights(&shape, 0, window.height * window.width * depth, x);
        // A line of windows leaves the other axis alone.
        let out = [
            n,
            if window.height == 1 && h == 1 { 1 } else { window.output(h) },
            window.output(w),
            channels,
        ];
        let y = self.result(&out);
        let fields = vec![
            (0, Value::I8(0)),
            (1, Value::I32(window.stride)),
            (2, Value::I32(if h == 1 { 1 } else { window.stride })),
            (3, Value::I8(fused as i8)),
            (4, Value::I32(window.dilation)),
            (5, Value::I32(if h == 1 { 1 } else { window.dilation })),
        ];
        self.file.operator_with("CONV_2D", &[x.id, weights, bias], &[y.id], 1, fields);
        y
    }

    /// DEPTHWISE_CONV_2D, one result per channel.
    pub(crate) fn depthwise(
        &mut self,
        x: &LayerTensor,
        window: Window,
        fused: Fused,
    ) -> LayerTensor {
        let &[n, h, w, channels] = &x.shape[..] else { return x.clone() };
        let shape = [1, window.height, window.width, channels];
        let [weights, bias] = self.weights(&shape, 3, window.height * window.width, x);
        let out = [n, if h == 1 { 1 } else { window.output(h) }, window.output(w), channels];
        let y = self.result(&out);
        let fields = vec![
            (0, Value::I8(0)),
            (1, Value::I32(window.stride)),
            (2, Value::I32(if h == 1 { 1 } else { window.stride })),
            (3, Value::I32(1)),
            (4, Value::I8(fused as i8)),
            (5, Value::I32(window.dilation)),
            (6, Value::I32(if h == 1 { 1 } else { window.dilation })),
        ];
        self.file.operator_with("DEPTHWISE_CONV_2D", &[x.id, weights, bias], &[y.id], 2, fields);
        y
    }

    /// TRANSPOSE_CONV to `channels` and an image that is as much larger as the window steps.
    pub(crate) fn transposed(
        &mut self,
        x: &LayerTensor,
        window: Window,
        channels: i32,
        fused: Fused,
    ) -> LayerTensor {
        let &[n, h, w, depth] = &x.shape[..] else { return x.clone() };
        let shape = [channels, window.height, window.width, depth];
        let [weights, bias] = self.weights(&shape, 0, window.height * window.width * depth, x);
        let out = [n, h * window.stride, w * window.stride, channels];
        let asked = self.file.int_constant("shape", &[4], &out);
        let y = self.result(&out);
        let fields = vec![
            (0, Value::I8(0)),
            (1, Value::I32(window.stride)),
            (2, Value::I32(window.stride)),
            (3, Value::I8(fused as i8)),
        ];
        let inputs = [asked, weights, x.id, bias];
        self.file.operator_with("TRANSPOSE_CONV", &inputs, &[y.id], 49, fields);
        y
    }

    /// FULLY_CONNECTED of a matrix of rows.
    pub(crate) fn dense(&mut self, x: &LayerTensor, units: i32, fused: Fused) -> LayerTensor {
        let &[rows, depth] = &x.shape[..] else { return x.clone() };
        // Before 2.17 or so the file format knew no scales per channel here; most files have one
        // for all.
        let numbers = self.numbers;
        if numbers == Numbers::Signed {
            self.numbers = Numbers::SignedPerTensor;
        }
        let [weights, bias] = self.weights(&[units, depth], 0, depth, x);
        self.numbers = numbers;
        let y = self.result(&[rows, units]);
        let fields = vec![(0, Value::I8(fused as i8))];
        self.file.operator_with("FULLY_CONNECTED", &[x.id, weights, bias], &[y.id], 8, fields);
        y
    }

    fn unary(
        &mut self,
        name: &str,
        x: &LayerTensor,
        y: LayerTensor,
        options: (u8, Fields),
    ) -> LayerTensor {
        self.file.operator_with(name, &[x.id], &[y.id], options.0, options.1);
        y
    }

    pub(crate) fn hard_swish(&mut self, x: &LayerTensor) -> LayerTensor {
        let y = self.result(&x.shape);
        self.unary("HARD_SWISH", x, y, (0, Vec::new()))
    }

    pub(crate) fn logistic(&mut self, x: &LayerTensor) -> LayerTensor {
        let y = self.result_at(&x.shape, 1.0 / 256.0, self.least());
        self.unary("LOGISTIC", x, y, (0, Vec::new()))
    }

    pub(crate) fn tanh(&mut self, x: &LayerTensor) -> LayerTensor {
        let y = self.result_at(&x.shape, 1.0 / 128.0, self.least() + 128);
        self.unary("TANH", x, y, (0, Vec::new()))
    }

    pub(crate) fn softmax(&mut self, x: &LayerTensor) -> LayerTensor {
        let y = self.result_at(&x.shape, 1.0 / 256.0, self.least());
        self.unary("SOFTMAX", x, y, (9, vec![(0, Value::F32(1.0))]))
    }

    pub(crate) fn reshape(&mut self, x: &LayerTensor, shape: &[i32]) -> LayerTensor {
        let wanted = i32::try_from(shape.len()).unwrap_or(0);
        let wanted = self.file.int_constant("shape", &[wanted], shape);
        let y = self.result_like(shape, x);
        let fields = vec![(0, Value::ints(shape))];
        self.file.operator_with("RESHAPE", &[x.id, wanted], &[y.id], 17, fields);
        y
    }

    /// ADD, SUB or MUL of tensors that are broadcast to each other.
    pub(crate) fn binary(&mut self, name: &str, a: &LayerTensor, b: &LayerTensor) -> LayerTensor {
        let y = self.result(&broadcast(&a.shape, &b.shape));
        let options = match name {
            "ADD" => 11,
            "SUB" => 28,
            _ => 21,
        };
        let fields = vec![(0, Value::I8(0))];
        self.file.operator_with(name, &[a.id, b.id], &[y.id], options, fields);
        y
    }

    /// AVERAGE_POOL_2D or MAX_POOL_2D.
    pub(crate) fn pool(&mut self, name: &str, x: &LayerTensor, window: Window) -> LayerTensor {
        let &[n, h, w, channels] = &x.shape[..] else { return x.clone() };
        let y = self.result_like(&[n, window.output(h), window.output(w), channels], x);
        let fields = vec![
            (0, Value::I8(0)),
            (1, Value::I32(window.stride)),
            (2, Value::I32(window.stride)),
            (3, Value::I32(window.width)),
            (4, Value::I32(window.height)),
            (5, Value::I8(0)),
        ];
        self.file.operator_with(name, &[x.id], &[y.id], 5, fields);
        y
    }

    /// MEAN over height and width.
    pub(crate) fn mean(&mut self, x: &LayerTensor, keep: bool) -> LayerTensor {
        let &[n, _, _, channels] = &x.shape[..] else { return x.clone() };
        let axes = self.file.int_constant("axes", &[2], &[1, 2]);
        let shape = if keep { vec![n, 1, 1, channels] } else { vec![n, channels] };
        let y = self.result_like(&shape, x);
        let fields = vec![(0, Value::U8(u8::from(keep)))];
        self.file.operator_with("MEAN", &[x.id, axes], &[y.id], 27, fields);
        y
    }

    pub(crate) fn concatenation(&mut self, parts: &[&LayerTensor], axis: usize) -> LayerTensor {
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        let like = parts.iter().all(|part| part.scale.to_bits() == parts[0].scale.to_bits());
        let y = if like { self.result_like(&shape, parts[0]) } else { self.result(&shape) };
        let ids: Vec<i32> = parts.iter().map(|part| part.id).collect();
        let fields = vec![(0, Value::I32(i32::try_from(axis).unwrap_or(0))), (1, Value::I8(0))];
        self.file.operator_with("CONCATENATION", &ids, &[y.id], 10, fields);
        y
    }

    /// SPLIT into even parts.
    pub(crate) fn split(&mut self, x: &LayerTensor, axis: usize, parts: i32) -> Vec<LayerTensor> {
        let along = self.file.int_constant("axis", &[], &[i32::try_from(axis).unwrap_or(0)]);
        let mut shape = x.shape.clone();
        shape[axis] /= parts;
        let ys: Vec<_> = (0..parts).map(|_| self.result_like(&shape, x)).collect();
        let ids: Vec<i32> = ys.iter().map(|y| y.id).collect();
        let fields = vec![(0, Value::I32(parts))];
        self.file.operator_with("SPLIT", &[along, x.id], &ids, 35, fields);
        ys
    }

    /// RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR, centers of pixels at their half.
    pub(crate) fn resize(
        &mut self,
        x: &LayerTensor,
        height: i32,
        width: i32,
        smooth: bool,
    ) -> LayerTensor {
        let &[n, _, _, channels] = &x.shape[..] else { return x.clone() };
        let size = self.file.int_constant("size", &[2], &[height, width]);
        let y = self.result_like(&[n, height, width, channels], x);
        let half = Value::U8(1);
        let (name, options, fields) = if smooth {
            ("RESIZE_BILINEAR", 15, vec![(3, half)])
        } else {
            ("RESIZE_NEAREST_NEIGHBOR", 74, vec![(1, half)])
        };
        self.file.operator_with(name, &[x.id, size], &[y.id], options, fields);
        y
    }
}

/// The shape of what two tensors are broadcast to.
fn broadcast(a: &[i32], b: &[i32]) -> Vec<i32> {
    let rank = a.len().max(b.len());
    let extent =
        |of: &[i32], axis: usize| (axis + of.len()).checked_sub(rank).map_or(1, |axis| of[axis]);
    (0..rank).map(|axis| extent(a, axis).max(extent(b, axis))).collect()
}

fn count(shape: &[i32]) -> usize {
    shape.iter().map(|&extent| usize::try_from(extent).unwrap_or(0)).product()
}
