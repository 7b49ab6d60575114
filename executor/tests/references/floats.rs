//! Functions and normalisations of floats, in both precisions, with NaN and infinities.

use nnburst_executor::testing::TestRng;
use nnburst_hal::{OperandType as T, OperationType as Op};

use crate::model::{Arg, Out, Value, compute_all, seeds};
use crate::tensors::SIZES;

fn reals(value: &Value, kind: T) -> Vec<f64> {
    match kind {
        T::TensorFloat32 => value.floats().into_iter().map(f64::from).collect(),
        _ => value
            .bytes
            .chunks_exact(2)
            .map(|x| half::f16::from_le_bytes(x.try_into().unwrap()).to_f64())
            .collect(),
    }
}

/// A tensor of the precision, and its numbers as that precision has them.
fn tensor(kind: T, dims: &[u32], numbers: &[f32]) -> (Arg, Vec<f64>) {
    match kind {
        T::TensorFloat32 => (
            Arg::Floats(dims.to_vec(), numbers.to_vec()),
            numbers.iter().copied().map(f64::from).collect(),
        ),
        _ => {
            let halves: Vec<half::f16> = numbers.iter().copied().map(half::f16::from_f32).collect();
            let operand = nnburst_hal::Operand::tensor(kind, dims.to_vec());
            let bytes = halves.iter().flat_map(|x| x.to_le_bytes()).collect();
            (Arg::Other(operand, bytes), halves.iter().map(|x| x.to_f64()).collect())
        }
    }
}

/// A scalar of the precision.
fn scalar(kind: T, number: f32) -> Arg {
    match kind {
        T::TensorFloat32 => Arg::Float(number),
        _ => Arg::Other(
            nnburst_hal::Operand::scalar(T::Float16),
            half::f16::from_f32(number).to_le_bytes().to_vec(),
        ),
    }
}

fn assert_close(what: &str, kind: T, got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{what}");
    let (absolute, relative) = match kind {
        T::TensorFloat32 => (1e-5, 1e-5),
        _ => (2e-3, 2e-3),
    };
    for (at, (&a, &b)) in got.iter().zip(want).enumerate() {
        let same =
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= absolute + relative * b.abs();
        assert!(same, "{what}: element {at} is {a}, not {b}");
    }
}

const KINDS: [T; 2] = [T::TensorFloat32, T::TensorFloat16];

/// The function, and inputs for which it makes no sense to ask.
fn function(op: Op, x: f64) -> Option<f64> {
    Some(match op {
        Op::Abs => x.abs(),
        Op::Neg => -x,
        Op::Floor => x.floor(),
        // Beyond, results overflow the lower precision.
        Op::Exp if x.is_finite() && x > 9.0 => return None,
        Op::Exp => x.exp(),
        Op::Log => x.ln(),
        Op::Sin => x.sin(),
        Op::Sqrt => x.sqrt(),
        Op::Rsqrt => 1.0 / x.sqrt(),
        Op::Logistic => 1.0 / (1.0 + (-x).exp()),
        Op::Tanh => x.tanh(),
        Op::HardSwish if x == f64::NEG_INFINITY => return None,
        Op::HardSwish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Op::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Op::Relu1 => x.clamp(-1.0, 1.0),
        Op::Relu6 => x.clamp(0.0, 6.0),
        // ELU with a factor of 1/2.
        _ => {
            if x > 0.0 {
                x
            } else {
                0.5 * (x.exp() - 1.0)
            }
        }
    })
}

#[test]
fn functions_of_one_number() {
    const OPS: [Op; 16] = [
        Op::Abs,
        Op::Neg,
        Op::Floor,
        Op::Exp,
        Op::Log,
        Op::Sin,
        Op::Sqrt,
        Op::Rsqrt,
        Op::Logistic,
        Op::Tanh,
        Op::HardSwish,
        Op::Relu,
        Op::Relu1,
        Op::Relu6,
        Op::Elu,
        Op::Elu,
    ];
    for seed in seeds(320) {
        let rng = &mut TestRng::of_seed(seed);
        let (op, kind) = (OPS[seed as usize % 16], KINDS[rng.below(2)]);
        let count = rng.one_of(&SIZES);
        let size = rng.one_of(&[1.0f32, 8.0, 60.0]);
        let numbers: Vec<f32> = (0..count)
            .map(|_| match rng.below(20) {
                0 => f32::NAN,
                1 => f32::INFINITY,
                2 => f32::NEG_INFINITY,
                3 => 0.0,
                4 => -0.0,
                5 => 1e4,
                6 => -1e4,
                7 => 1e-7,
                _ => rng.real() * size,
            })
            .collect();
        // Large arguments of a sine have few places left behind the point.
        let numbers: Vec<f32> = match op {
            Op::Sin => numbers.iter().map(|&x| if x.abs() > 100.0 { 1.0 } else { x }).collect(),
            _ => numbers,
        };
        let (input, numbers) = tensor(kind, &[count], &numbers);
        let mut args = vec![input];
        if op == Op::Elu {
            args.push(scalar(kind, 0.5));
        }
        compute_all(op, &args, &[Out(kind, 0.0, 0)], 80, |what, got| {
            let got = reals(&got[0], kind);
            let asked = |x: &f64| function(op, *x);
            let want: Vec<f64> = numbers.iter().map(|x| asked(x).unwrap_or(0.0)).collect();
            let got: Vec<f64> = got
                .into_iter()
                .zip(&numbers)
                .map(|(y, x)| if asked(x).is_some() { y } else { 0.0 })
                .collect();
            assert_close(&format!("{what}, seed {seed}, {kind} of {numbers:?}"), kind, &got, &want);
        });
    }
}

/// Rows along an axis of a tensor: the positions of each.
fn rows(dims: &[u32], axis: usize) -> Vec<Vec<usize>> {
    let inner: usize = dims[axis + 1..].iter().map(|&n| n as usize).product();
    let outer: usize = dims[..axis].iter().map(|&n| n as usize).product();
    let extent = dims[axis] as usize;
    (0..outer * inner)
        .map(|at| (0..extent).map(|k| (at / inner * extent + k) * inner + at % inner).collect())
        .collect()
}

fn log_sum(row: &[f64], beta: f64) -> (f64, f64) {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (most, row.iter().map(|x| (beta * (x - most)).exp()).sum())
}

#[test]
fn normalisations_along_any_axis() {
    const OPS: [Op; 4] =
        [Op::Softmax, Op::LogSoftmax, Op::L2Normalization, Op::LocalResponseNormalization];
    for seed in seeds(240) {
        let rng = &mut TestRng::of_seed(seed);
        let (op, kind) = (OPS[seed as usize % 4], KINDS[rng.below(2)]);
        let rank = 1 + rng.below(4);
        let mut dims: Vec<u32> = (0..rank).map(|_| rng.between(1, 4)).collect();
        let axis = rng.below(rank);
        dims[axis] = rng.one_of(&SIZES);
        let count: u32 = dims.iter().product();
        let zeros = rng.once_in(6);
        let numbers: Vec<f32> = (0..count)
            .map(|_| {
                let masked = op == Op::Softmax && rng.once_in(15);
                if zeros {
                    0.0
                } else if masked {
                    f32::NEG_INFINITY
                } else {
                    rng.real() * 4.0
                }
            })
            .collect();
        let (input, numbers) = tensor(kind, &dims, &numbers);
        let beta = rng.one_of(&[1.0f32, 0.5, 2.0]);
        let radius = rng.one_of(&[0, 1, 2, 5, 40]);
        let (bias, alpha, power) = (
            rng.one_of(&[1.0f32, 2.0, 9.0]),
            rng.one_of(&[0.5f32, 1.0, 4.0]),
            rng.one_of(&[0.5f32, 0.75, 1.0]),
        );
        let mut want = vec![0.0; numbers.len()];
        let mut skipped = vec![false; numbers.len()];
        for row in rows(&dims, axis) {
            let xs: Vec<f64> = row.iter().map(|&at| numbers[at]).collect();
            let (most, sum) = log_sum(&xs, beta.into());
            for (k, &at) in row.iter().enumerate() {
                // All masked: 0 / 0.
                skipped[at] = most == f64::NEG_INFINITY;
                want[at] = match op {
                    Op::Softmax => (f64::from(beta) * (xs[k] - most)).exp() / sum,
                    Op::LogSoftmax => f64::from(beta) * (xs[k] - most) - sum.ln(),
                    Op::L2Normalization => {
                        xs[k] / xs.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-6)
                    }
                    _ => {
                        let (from, to) = (k.saturating_sub(radius), (k + radius + 1).min(xs.len()));
                        let squares: f64 = xs[from..to].iter().map(|x| x * x).sum();
                        let base = f64::from(bias) + f64::from(alpha) * squares;
                        xs[k] * base.powf(-f64::from(power))
                    }
                };
            }
        }
        let last = Arg::Int(i32::try_from(axis).unwrap() - i32::try_from(rank).unwrap());
        let mut args = vec![input];
        match op {
            Op::Softmax | Op::LogSoftmax => args.push(scalar(kind, beta)),
            Op::LocalResponseNormalization => {
                args.push(Arg::Int(i32::try_from(radius).unwrap()));
                args.extend([bias, alpha, power].map(|x| scalar(kind, x)));
            }
            _ => {}
        }
        args.push(last);
        compute_all(op, &args, &[Out(kind, 0.0, 0)], want.len(), |what, got| {
            let clear = |values: &[f64]| -> Vec<f64> {
                values.iter().zip(&skipped).map(|(&y, &skip)| if skip { 0.0 } else { y }).collect()
            };
            let got = clear(&reals(&got[0], kind));
            let what = format!("{what}, seed {seed}: {kind} {dims:?} along {axis}");
            assert_close(&what, kind, &got, &clear(&want));
        });
    }
}

#[test]
fn instances_of_any_size() {
    for seed in seeds(60) {
        let rng = &mut TestRng::of_seed(seed);
        let kind = KINDS[rng.below(2)];
        let nchw = rng.once_in(2);
        let [n, h, w] = [(); 3].map(|()| rng.between(1, 7) as usize);
        let c = rng.one_of(&SIZES) as usize;
        let numbers: Vec<f32> = (0..n * h * w * c).map(|_| rng.real() * 3.0).collect();
        let dims = if nchw { [n, c, h, w] } else { [n, h, w, c] }.map(|n| n as u32);
        let (input, numbers) = tensor(kind, &dims, &numbers);
        let place = |batch: usize, pixel: usize, channel: usize| {
            if nchw {
                (batch * c + channel) * h * w + pixel
            } else {
                (batch * h * w + pixel) * c + channel
            }
        };
        let mut want = vec![0.0; numbers.len()];
        for (batch, channel) in (0..n).flat_map(|n| (0..c).map(move |c| (n, c))) {
            let xs: Vec<f64> = (0..h * w).map(|p| numbers[place(batch, p, channel)]).collect();
            let mean = xs.iter().sum::<f64>() / xs.len() as f64;
            let variance = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / xs.len() as f64;
            for (p, x) in xs.iter().enumerate() {
                want[place(batch, p, channel)] = (x - mean) * 1.5 / (variance + 0.5).sqrt() - 0.25;
            }
        }
        let mut args = vec![input];
        args.extend([1.5, -0.25, 0.5].map(|x| scalar(kind, x)));
        args.push(Arg::Bool(nchw));
        compute_all(
            Op::InstanceNormalization,
            &args,
            &[Out(kind, 0.0, 0)],
            want.len(),
            |what, got| {
                assert_close(&format!("{what}, seed {seed}"), kind, &reals(&got[0], kind), &want);
            },
        );
    }
}
