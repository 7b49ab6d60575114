//! Regions of feature maps, floats and bytes: strides and sizes unlike in height and width, samples
//! of any number.

use nnburst_executor::testing::TestRng;
use nnburst_hal::{Operand, OperandType as T, OperationType as Op};

use crate::arithmetic::{fixed, nearest, range};
use crate::detection::{Corners, flat, floats};
use crate::model::{Arg, F32, Out, compute_all, seeds};
use crate::tensors::{SIZES, stored_values, values, zero_point};

/// The features that regions are taken from, float or quantised, and the regions' operands.
struct Features {
    kind: T,
    quant: (f32, i32),
    dims: [usize; 4],
    input: Arg,
    /// As numbers; less the zero point where there is one.
    numbers: Vec<f64>,
    regions: Vec<Corners>,
    images: Vec<i32>,
    out: [usize; 2],
    stride: [f32; 2],
}

impl Features {
    fn of(rng: &mut TestRng) -> Self {
        let kind =
            [T::TensorFloat32, T::TensorQuant8Asymm, T::TensorQuant8AsymmSigned][rng.below(3)];
        let quant = match kind {
            T::TensorFloat32 => (0.0, 0),
            _ => (0.25, zero_point(rng, kind)),
        };
        let mut upto = |low: u32, high: u32| rng.between(low, high) as usize;
        let [n, h, w] = [upto(1, 2), upto(3, 9), upto(3, 9)];
        let out = [upto(1, 4), upto(1, 4)];
        let count = upto(1, 5);
        let c = rng.one_of(&SIZES) as usize;
        let stride = [rng.one_of(&[1.0f32, 2.0, 4.0]), rng.one_of(&[1.0f32, 2.0, 8.0])];
        let dims = [n, h, w, c];
        let x = values(rng, kind, &dims.map(|n| n as i64), quant, false);
        let regions = (0..count)
            .map(|_| {
                // In eighths of a pixel, within the image.
                let mut span = |extent: usize, stride: f32| {
                    let most = extent as f32 * stride * 8.0;
                    let a = rng.between(0, most as u32);
                    let b = rng.between(0, most as u32);
                    [a.min(b) as f32 / 8.0, a.max(b) as f32 / 8.0]
                };
                let ([x1, x2], [y1, y2]) = (span(w, stride[1]), span(h, stride[0]));
                [x1, y1, x2, y2]
            })
            .collect();
        let images = (0..count).map(|_| rng.below(n) as i32).collect();
        Self { kind, quant, dims, input: x.arg, numbers: x.numbers, regions, images, out, stride }
    }

    fn args(&self) -> Vec<Arg> {
        let regions = if self.kind == T::TensorFloat32 {
            floats(&[self.regions.len(), 4], flat(&self.regions))
        } else {
            let eighths = flat(&self.regions).into_iter();
            let bytes = eighths.flat_map(|x| ((x * 8.0) as u16).to_le_bytes()).collect();
            let dims = vec![self.regions.len() as u32, 4];
            Arg::Other(
                Operand::tensor(T::TensorQuant16Asymm, dims).with_quantization(0.125, 0),
                bytes,
            )
        };
        let mut args = vec![self.input.clone(), regions, Arg::list(&self.images)];
        args.extend(self.out.map(|n| Arg::Int(n as i32)));
        args.extend(self.stride.map(Arg::Float));
        args
    }

    fn at(&self, image: i32, y: usize, x: usize, c: usize) -> f64 {
        let [_, h, w, channels] = self.dims;
        self.numbers[((image as usize * h + y) * w + x) * channels + c]
    }

    /// Compares results, in the order of the output: region, row, column, channel.
    fn check(&self, op: Op, args: &[Arg], out: Out, want: &[f64], slack: f64) {
        let dims = [self.regions.len(), self.out[0], self.out[1], self.dims[3]].map(|n| n as u32);
        compute_all(op, args, &[out], want.len(), |what, got| {
            assert_eq!(got[0].dims, dims, "{what}");
            let got = match self.kind {
                T::TensorFloat32 => got[0].floats().into_iter().map(f64::from).collect(),
                kind => stored_values(&got[0], kind),
            };
            for (at, (a, b)) in got.iter().zip(want).enumerate() {
                assert!((a - b).abs() <= slack, "{what}: element {at} is {a}, not {b}");
            }
        });
    }
}

/// Below, above, and how near the one above is.
fn taps(at: f32, extent: usize) -> (usize, usize, f32) {
    let low = at.floor() as usize;
    if low >= extent - 1 { (extent - 1, extent - 1, 0.0) } else { (low, low + 1, at - low as f32) }
}

#[test]
fn regions_by_samples() {
    for seed in seeds(150) {
        let rng = &mut TestRng::of_seed(seed);
        let f = Features::of(rng);
        let ratio = [rng.one_of(&[0, 1, 2, 3]), rng.one_of(&[0, 1, 2, 5])];
        let out = match f.kind {
            T::TensorFloat32 => F32,
            kind => Out(kind, rng.one_of(&[0.3f32, 0.5]), zero_point(rng, kind)),
        };
        let [_, h, w, channels] = f.dims;
        let mut want = Vec::new();
        for (region, &image) in f.regions.iter().zip(&f.images) {
            let scale = [1.0 / f.stride[1], 1.0 / f.stride[0]];
            let [x0, y0, x1, y1] = [
                region[0] * scale[0],
                region[1] * scale[1],
                region[2] * scale[0],
                region[3] * scale[1],
            ];
            let step = [(y1 - y0).max(1.0) / f.out[0] as f32, (x1 - x0).max(1.0) / f.out[1] as f32];
            let count = [0, 1].map(|axis: usize| match ratio[axis] {
                0 => step[axis].ceil() as usize,
                given => given,
            });
            let bin = [0, 1].map(|axis: usize| step[axis] / count[axis] as f32);
            for at in 0..f.out[0] * f.out[1] * channels {
                let (c, j, i) = (at % channels, at / channels % f.out[1], at / channels / f.out[1]);
                let (mut sum, mut whole) = (0.0, 0);
                for sample in 0..count[0] * count[1] {
                    let (u, v) = (sample / count[1], sample % count[1]);
                    let y = step[0] * i as f32 + y0 + bin[0] / 2.0 + bin[0] * u as f32;
                    let x = step[1] * j as f32 + x0 + bin[1] / 2.0 + bin[1] * v as f32;
                    let ((top, bottom, dy), (left, right, dx)) = (taps(y, h), taps(x, w));
                    for (weight, y, x) in [
                        ((1.0 - dx) * (1.0 - dy), top, left),
                        (dx * (1.0 - dy), top, right),
                        ((1.0 - dx) * dy, bottom, left),
                        (dx * dy, bottom, right),
                    ] {
                        sum += f64::from(weight) * f.at(image, y, x, c);
                        let share = nearest(f64::from(weight / (1.0 / 255.0)));
                        whole += share * f.at(image, y, x, c) as i64;
                    }
                }
                let samples = (count[0] * count[1]) as f32;
                want.push(if f.kind == T::TensorFloat32 {
                    sum / f64::from(samples)
                } else {
                    let real = f.quant.0 * (1.0 / 255.0) / out.1 / samples;
                    let y = fixed(f64::from(real)).times(whole) + i64::from(out.2);
                    let (low, high) = range(f.kind);
                    y.clamp(low, high) as f64
                });
            }
        }
        let mut args = f.args();
        args.extend(ratio.map(|n| Arg::Int(n as i32)));
        args.push(Arg::Bool(false));
        let slack = if f.kind == T::TensorFloat32 { 1e-5 } else { 0.0 };
        f.check(Op::RoiAlign, &args, out, &want, slack);
    }
}

#[test]
fn regions_by_their_largest() {
    for seed in seeds(150) {
        let rng = &mut TestRng::of_seed(seed);
        let f = Features::of(rng);
        let [_, h, w, channels] = f.dims;
        let mut want = Vec::new();
        for (region, &image) in f.regions.iter().zip(&f.images) {
            let pixel = |k: usize, stride: f32| (region[k] * (1.0 / stride)).round() as i32;
            let (x0, x1) = (pixel(0, f.stride[1]), pixel(2, f.stride[1]));
            let (y0, y1) = (pixel(1, f.stride[0]), pixel(3, f.stride[0]));
            let step = |a: i32, b: i32, n: usize| (b - a + 1).max(1) as f32 / n as f32;
            let (step_y, step_x) = (step(y0, y1, f.out[0]), step(x0, x1, f.out[1]));
            let span = |step: f32, at: usize, from: i32, extent: usize| {
                let low = (step * at as f32 + from as f32).floor() as usize;
                let high = (step * (at + 1) as f32 + from as f32).ceil() as usize;
                low.min(extent)..high.min(extent)
            };
            for at in 0..f.out[0] * f.out[1] * channels {
                let (c, j, i) = (at % channels, at / channels % f.out[1], at / channels / f.out[1]);
                let rows = span(step_y, i, y0, h);
                let columns = span(step_x, j, x0, w);
                let inside = rows.flat_map(|y| columns.clone().map(move |x| (y, x)));
                let most = inside.map(|(y, x)| f.at(image, y, x, c)).reduce(f64::max);
                // An empty bin is 0.
                want.push(most.unwrap_or(0.0) + f64::from(f.quant.1));
            }
        }
        let mut args = f.args();
        args.push(Arg::Bool(false));
        f.check(Op::RoiPooling, &args, Out(f.kind, f.quant.0, f.quant.1), &want, 0.0);
    }
}
