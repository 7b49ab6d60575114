//! Windows that slide: other strides, filters and paddings than square and equal ones.

use nnburst_executor::testing::TestRng;
use nnburst_hal::OperationType as Op;

use crate::model::{Arg, F32, assert_near, compute, seeds};

const ELEMENTS: usize = 6000;

/// An image in NHWC.
#[derive(Clone, Copy, Debug)]
struct Image<'a>(&'a [f32], [i32; 4]);

impl Image<'_> {
    /// 0 outside.
    fn at(&self, [n, y, x, c]: [i32; 4]) -> f32 {
        let Image(values, [_, h, w, channels]) = *self;
        if (0..h).contains(&y) && (0..w).contains(&x) {
            values[usize::try_from(((n * h + y) * w + x) * channels + c).unwrap()]
        } else {
            0.0
        }
    }
}

fn dims(extents: [i32; 4]) -> [u32; 4] {
    extents.map(|extent| u32::try_from(extent).unwrap())
}

fn each(extents: [i32; 4]) -> impl Iterator<Item = [i32; 4]> {
    let [n, h, w, c] = extents;
    (0..n).flat_map(move |n| {
        (0..h).flat_map(move |y| (0..w).flat_map(move |x| (0..c).map(move |c| [n, y, x, c])))
    })
}

/// Filter height and width, strides along both, and paddings (top, bottom, left, right), all
/// unequal.
#[derive(Clone, Copy, Debug)]
struct Window {
    filter: [i32; 2],
    stride: [i32; 2],
    pads: [i32; 4],
}

impl Window {
    fn of(rng: &mut TestRng) -> Self {
        let mut upto = |low: u32, high: u32| rng.between(low, high).cast_signed();
        let filter = [upto(1, 4), upto(1, 4)];
        let stride = [upto(1, 3), upto(1, 3)];
        let mut pad = |axis: usize| upto(0, u32::try_from(filter[axis] - 1).unwrap());
        Self { filter, stride, pads: [pad(0), pad(0), pad(1), pad(1)] }
    }

    fn output(&self, h: i32, w: i32) -> Option<[i32; 2]> {
        let [top, bottom, left, right] = self.pads;
        let (rows, columns) =
            (h + top + bottom - self.filter[0], w + left + right - self.filter[1]);
        (rows >= 0 && columns >= 0)
            .then(|| [rows / self.stride[0] + 1, columns / self.stride[1] + 1])
    }

    /// In the order of the interface: left, right, top, bottom, then strides, width first.
    fn args(&self) -> Vec<Arg> {
        let [top, bottom, left, right] = self.pads;
        [left, right, top, bottom, self.stride[1], self.stride[0]].map(Arg::Int).to_vec()
    }
}

fn image(rng: &mut TestRng, channels: u32) -> (Arg, [i32; 4]) {
    image_up_to(rng, 8, channels)
}

/// So wide at most.
fn image_up_to(rng: &mut TestRng, width: u32, channels: u32) -> (Arg, [i32; 4]) {
    let extents = [rng.between(1, 2), rng.between(2, 8), rng.between(2, width), channels];
    (Arg::random(rng, &extents), extents.map(u32::cast_signed))
}

fn clamped(activation: i32, x: f32) -> f32 {
    match activation {
        1 => x.max(0.0),
        2 => x.clamp(-1.0, 1.0),
        3 => x.clamp(0.0, 6.0),
        _ => x,
    }
}

#[test]
fn pools_of_any_window() {
    let mut compared = 0;
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let channels = rng.between(1, 5);
        // Of wide lines many windows are computed side by side.
        let width = rng.one_of(&[8, 8, 50]);
        let (input, extents) = image_up_to(rng, width, channels);
        let window = Window::of(rng);
        let activation = rng.one_of(&[0, 1, 2, 3]);
        let [n, h, w, c] = extents;
        let Some([out_h, out_w]) = window.output(h, w) else { continue };
        compared += 1;
        let inside = |[_, y, x, _]: [i32; 4]| -> Vec<[i32; 2]> {
            let (y, x) =
                (y * window.stride[0] - window.pads[0], x * window.stride[1] - window.pads[2]);
            let all = (0..window.filter[0])
                .flat_map(|i| (0..window.filter[1]).map(move |j| [y + i, x + j]));
            all.filter(|&[y, x]| (0..h).contains(&y) && (0..w).contains(&x)).collect()
        };
        let source = Image(input.floats(), extents);
        for op in [Op::AveragePool2d, Op::MaxPool2d, Op::L2Pool2d] {
            let want: Vec<f32> = each([n, out_h, out_w, c])
                .map(|to| {
                    let values: Vec<f32> =
                        inside(to).iter().map(|&[y, x]| source.at([to[0], y, x, to[3]])).collect();
                    let count = values.len() as f32;
                    let pooled = match op {
                        Op::AveragePool2d => values.iter().sum::<f32>() / count,
                        Op::MaxPool2d => values.iter().copied().fold(f32::MIN, f32::max),
                        _ => (values.iter().map(|x| x * x).sum::<f32>() / count).sqrt(),
                    };
                    clamped(activation, pooled)
                })
                .collect();
            let mut args = vec![input.clone()];
            args.extend(window.args());
            args.extend([window.filter[1], window.filter[0], activation].map(Arg::Int));
            args.push(Arg::Bool(false));
            let got = compute(op, &args, &[F32], ELEMENTS).unwrap();
            assert_eq!(got[0].dims, dims([n, out_h, out_w, c]), "{op} {window:?}");
            assert_near(&got[0].floats(), &want, &format!("{op} {window:?}"));
        }
    }
    assert!(compared > 100);
}

#[test]
fn grouped_convolutions_of_any_window() {
    let mut compared = 0;
    for seed in seeds(150) {
        let rng = &mut TestRng::of_seed(seed);
        let groups = rng.between(1, 4);
        let (group_in, group_out) = (rng.between(1, 3), rng.between(1, 3));
        let (input, extents) = image(rng, groups * group_in);
        let window = Window::of(rng);
        let [n, h, w, _] = extents;
        let Some([out_h, out_w]) = window.output(h, w) else { continue };
        compared += 1;
        let outputs = groups * group_out;
        let [fh, fw] = window.filter;
        let [fh_u, fw_u] = window.filter.map(i32::cast_unsigned);
        let filter = Arg::random(rng, &[outputs, fh_u, fw_u, group_in]);
        let bias = Arg::random(rng, &[outputs]);
        let (source, weights) = (
            Image(input.floats(), extents),
            Image(filter.floats(), [outputs.cast_signed(), fh, fw, group_in.cast_signed()]),
        );
        let [group_in, group_out] = [group_in, group_out].map(u32::cast_signed);
        let want: Vec<f32> = each([n, out_h, out_w, outputs.cast_signed()])
            .map(|[n, y, x, o]| {
                let mut sum = bias.floats()[usize::try_from(o).unwrap()];
                for [_, i, j, c] in each([1, fh, fw, group_in]) {
                    let (y, x) = (
                        y * window.stride[0] + i - window.pads[0],
                        x * window.stride[1] + j - window.pads[2],
                    );
                    sum += source.at([n, y, x, o / group_out * group_in + c])
                        * weights.at([o, i, j, c]);
                }
                sum
            })
            .collect();
        let mut args = vec![input.clone(), filter.clone(), bias.clone()];
        args.extend(window.args());
        args.extend([Arg::Int(groups.cast_signed()), Arg::Int(0), Arg::Bool(false)]);
        let got = compute(Op::GroupedConv2d, &args, &[F32], ELEMENTS).unwrap();
        assert_eq!(got[0].dims, dims([n, out_h, out_w, outputs.cast_signed()]), "{window:?}");
        assert_near(&got[0].floats(), &want, &format!("seed {seed}, {groups} groups, {window:?}"));
    }
    assert!(compared > 80);
}

#[test]
fn transposed_convolutions_of_any_window() {
    for seed in seeds(150) {
        let rng = &mut TestRng::of_seed(seed);
        let channels = rng.between(1, 4);
        let (input, extents) = image(rng, channels);
        let window = Window::of(rng);
        let outputs = rng.between(1, 4).cast_signed();
        let [n, h, w, c] = extents;
        let ([fh, fw], [sh, sw]) = (window.filter, window.stride);
        let [top, bottom, left, right] = window.pads;
        let (out_h, out_w) = ((h - 1) * sh + fh - top - bottom, (w - 1) * sw + fw - left - right);
        if out_h < 1 || out_w < 1 {
            continue;
        }
        let filter = Arg::random(rng, &dims([outputs, fh, fw, c]));
        let bias = Arg::random(rng, &[outputs.cast_unsigned()]);
        let (source, weights) =
            (Image(input.floats(), extents), Image(filter.floats(), [outputs, fh, fw, c]));
        let to = [n, out_h, out_w, outputs];
        let place = |[n, y, x, o]: [i32; 4]| {
            usize::try_from(((n * out_h + y) * out_w + x) * outputs + o).unwrap()
        };
        let mut want: Vec<f32> =
            each(to).map(|at| bias.floats()[usize::try_from(at[3]).unwrap()]).collect();
        for [n, y, x, c] in each(extents) {
            for [o, i, j, _] in each([outputs, fh, fw, 1]) {
                let (to_y, to_x) = (y * sh - top + i, x * sw - left + j);
                if (0..out_h).contains(&to_y) && (0..out_w).contains(&to_x) {
                    want[place([n, to_y, to_x, o])] +=
                        source.at([n, y, x, c]) * weights.at([o, i, j, c]);
                }
            }
        }
        let mut args = vec![input.clone(), filter.clone(), bias.clone()];
        args.extend(window.args());
        args.extend([Arg::Int(0), Arg::Bool(false)]);
        let got = compute(Op::TransposeConv2d, &args, &[F32], ELEMENTS).unwrap();
        assert_eq!(got[0].dims, dims(to), "{window:?}");
        assert_near(&got[0].floats(), &want, &format!("seed {seed}, {window:?}"));
    }
}

#[test]
fn bilinear_images_of_any_size() {
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let (input, extents) = image(rng, 2);
        let [n, h, w, c] = extents;
        let (out_h, out_w) = (rng.between(1, 12).cast_signed(), rng.between(1, 12).cast_signed());
        let mode = rng.below(3);
        let source = Image(input.floats(), extents);
        // Positions below, above, and how near the one above is.
        let taps = |at: i32, from: i32, to: i32| -> (i32, i32, f32) {
            let scale = if mode == 1 && to > 1 {
                (from - 1) as f32 / (to - 1) as f32
            } else {
                from as f32 / to as f32
            };
            let p = if mode == 2 { (at as f32 + 0.5) * scale - 0.5 } else { at as f32 * scale };
            let p = p.clamp(0.0, (from - 1) as f32);
            (p.floor() as i32, p.ceil() as i32, p - p.floor())
        };
        let want: Vec<f32> = each([n, out_h, out_w, c])
            .map(|[n, y, x, c]| {
                let ((top, bottom, v), (left, right, u)) = (taps(y, h, out_h), taps(x, w, out_w));
                let row = |y: i32| {
                    source.at([n, y, left, c]) * (1.0 - u) + source.at([n, y, right, c]) * u
                };
                row(top) * (1.0 - v) + row(bottom) * v
            })
            .collect();
        let args = [
            input.clone(),
            Arg::Int(out_w),
            Arg::Int(out_h),
            Arg::Bool(false),
            Arg::Bool(mode == 1),
            Arg::Bool(mode == 2),
        ];
        let got = compute(Op::ResizeBilinear, &args, &[F32], ELEMENTS).unwrap();
        assert_eq!(got[0].dims, dims([n, out_h, out_w, c]));
        assert_near(
            &got[0].floats(),
            &want,
            &format!("seed {seed}, {h}x{w} to {out_h}x{out_w}, mode {mode}"),
        );
    }
}
