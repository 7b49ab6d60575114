//! Operations of bytes whose results are defined to the last bit: functions, softmax, norms, pools,
//! means.

use nnburst_executor::testing::TestRng;
use nnburst_hal::{Operand, OperandType as T, OperationType as Op};

use crate::arithmetic::{
    Format, activation, fixed, halved, high_product_16, high_product_32, inverse_root, range,
    stored,
};
use crate::model::{Arg, Out, Value, compute_all, seeds};
use crate::tensors::{SIZES, number, values, zero_point};

const KINDS: [T; 2] = [T::TensorQuant8Asymm, T::TensorQuant8AsymmSigned];

/// What is added to an unsigned value to store it as this type.
fn offset(kind: T) -> i64 {
    range(kind).0
}

fn numbers(value: &Value, kind: T) -> Vec<i64> {
    value.bytes.iter().map(|&byte| stored(kind, byte)).collect()
}

fn scale_at_random(rng: &mut TestRng) -> f32 {
    rng.one_of(&[0.05f32, 0.5, 0.02, 0.1, 1.0, 0.007_843, 2.0])
}

/// Radius beyond which a function of format 4 has reached its end, and the scaled input.
fn scaled(scale: f32, d: i64) -> Result<i64, bool> {
    let (fraction, shift) = fixed(f64::from(scale) * 2f64.powi(27)).parts();
    let radius = (15.0 * 2f64.powi(27 - shift)).floor() as i64;
    if d <= -radius {
        return Err(false);
    }
    if d >= radius {
        return Err(true);
    }
    Ok(high_product_32(d << shift, fraction))
}

fn logistic(scale: f32, d: i64) -> i64 {
    match scaled(scale, d) {
        Ok(a) => halved(Format(32).logistic(a, 4), 23).min(255),
        Err(high) => {
            if high {
                255
            } else {
                0
            }
        }
    }
}

fn tanh(scale: f32, d: i64) -> i64 {
    match scaled(scale, d) {
        Ok(a) => halved(Format(32).tanh(a, 4), 24).clamp(-128, 127),
        Err(high) => {
            if high {
                127
            } else {
                -128
            }
        }
    }
}

/// In steps of 16 bits.
fn hard_swish(scale: f32, d: i64, out: f32) -> i64 {
    let narrow = |fraction: i64| {
        if fraction >= (1 << 31) - 1 - (1 << 15) { 32767 } else { (fraction + (1 << 15)) >> 16 }
    };
    let sat = |x: i64| x.clamp(-32768, 32767);
    let fine = scale / 128.0;
    let (output, output_shift) = fixed(f64::from(fine / out)).parts();
    let (relu, relu_shift) = fixed(f64::from(fine / (3.0 / 32768.0))).parts();
    let d = d * 128;
    let value = high_product_16(d, narrow(output));
    let mut r = d;
    if relu_shift > 0 {
        r = sat(r << (relu_shift - 1));
    }
    r = high_product_16(r, narrow(relu));
    if relu_shift > 0 {
        r = sat(r * 2);
    } else {
        r = halved(r, -relu_shift);
    }
    let share = (r + 32768) >> 1;
    // Towards zero.
    halved(share * value / (1 << 15), -output_shift)
}

#[test]
fn functions_of_one_byte() {
    const OPS: [Op; 6] = [Op::Logistic, Op::Tanh, Op::HardSwish, Op::Relu, Op::Relu1, Op::Relu6];
    for seed in seeds(150) {
        let rng = &mut TestRng::of_seed(seed);
        let (kind, op) = (KINDS[rng.below(2)], OPS[rng.below(6)]);
        // Every byte, and lengths with every tail.
        let count = if rng.once_in(2) { 256 } else { rng.one_of(&SIZES) };
        let (scale, zp) = (scale_at_random(rng), zero_point(rng, kind));
        let bytes: Vec<u8> = (0..count)
            .map(|at| at.to_le_bytes()[0].wrapping_mul(if count < 256 { 37 } else { 1 }))
            .collect();
        let (out_scale, out_zp) = match op {
            Op::Logistic => (1.0 / 256.0, offset(kind) as i32),
            Op::Tanh => (1.0 / 128.0, (offset(kind) + 128) as i32),
            // The output's multiplier is at most 1.
            Op::HardSwish => (scale * rng.one_of(&[0.5, 1.0, 2.0, 7.0]), zero_point(rng, kind)),
            _ => (scale, zp),
        };
        let code = match op {
            Op::Relu => 1,
            Op::Relu1 => 2,
            Op::Relu6 => 3,
            _ => 0,
        };
        let (low, high) = activation(code, kind, out_scale, out_zp);
        let want: Vec<i64> = bytes
            .iter()
            .map(|&byte| {
                let q = stored(kind, byte);
                let d = q - i64::from(zp);
                let y = match op {
                    Op::Logistic => logistic(scale, d) + i64::from(out_zp),
                    Op::Tanh => tanh(scale, d) + i64::from(out_zp),
                    Op::HardSwish => hard_swish(scale, d, out_scale) + i64::from(out_zp),
                    _ => q,
                };
                y.clamp(low, high)
            })
            .collect();
        let operand = Operand::tensor(kind, vec![count]).with_quantization(scale, zp);
        let outs = [Out(kind, out_scale, out_zp)];
        compute_all(op, &[Arg::Other(operand, bytes)], &outs, 256, |what, got| {
            let got = numbers(&got[0], kind);
            assert_eq!(got, want, "{what}, {scale} {zp} to {out_scale} {out_zp}");
        });
    }
}

/// Shares of 256 for one row, as differences from the zero point of the output.
fn softmax(row: &[i64], scale: f32, beta: f32) -> Vec<i64> {
    let wide = Format(32);
    let real = (f64::from(beta) * f64::from(scale) * 2f64.powi(26)).min(2f64.powi(31) - 1.0);
    let (fraction, shift) = fixed(real).parts();
    let least = -((31.0 * 2f64.powi(26 - shift)).floor() as i64);
    let most = row.iter().copied().max().unwrap();
    let exp = |q: i64| {
        let d = q - most;
        (d >= least).then(|| wide.exp(high_product_32(d << shift, fraction), 5))
    };
    let sum: i64 = row.iter().filter_map(|&q| exp(q)).map(|e| halved(e, 12)).sum();
    let zeros = i32::try_from((sum as u32).leading_zeros()).unwrap();
    let inverse = wide.one_over_one_plus((sum << zeros) - (1 << 31));
    row.iter()
        .map(|&q| match exp(q) {
            Some(e) => halved(high_product_32(inverse, e), 12 - zeros + 23).clamp(0, 255),
            None => 0,
        })
        .collect()
}

/// Norms of a row: a 128th each.
fn l2_norm(row: &[i64]) -> Vec<i64> {
    let (fraction, shift) = inverse_root(row.iter().map(|v| v * v).sum());
    row.iter()
        .map(|v| halved(high_product_32(v * 128, fraction), -shift).clamp(-128, 127))
        .collect()
}

#[test]
fn softmax_and_norms_along_any_axis() {
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let kind = KINDS[rng.below(2)];
        let is_softmax = rng.once_in(2);
        let rank = 1 + rng.below(4);
        let mut dims: Vec<i64> = (0..rank).map(|_| i64::from(rng.between(1, 4))).collect();
        let axis = rng.below(rank);
        dims[axis] = i64::from(if rng.once_in(6) { 700 } else { rng.one_of(&SIZES) });
        let (scale, zp) = (scale_at_random(rng), zero_point(rng, kind));
        let extreme = rng.once_in(3);
        let mut x = values(rng, kind, &dims, (scale, zp), extreme);
        // Many equals: the sum overflows the format, and the shares are 0.
        if rng.once_in(8)
            && let Arg::Other(_, bytes) = &mut x.arg
        {
            bytes.fill(200);
            x.numbers.fill((stored(kind, 200) - i64::from(zp)) as f64);
        }
        let beta = rng.one_of(&[1.0f32, 0.125, 3.0, 0.01]);
        let inner: i64 = dims[axis + 1..].iter().product();
        let mut want = vec![0; x.numbers.len()];
        for at in 0..want.len() {
            let (extent, inner) = (dims[axis] as usize, inner as usize);
            let first = at / (extent * inner) * extent * inner + at % inner;
            if (at / inner) % extent > 0 {
                continue;
            }
            let row: Vec<i64> = (0..extent).map(|k| x.numbers[first + k * inner] as i64).collect();
            let made = if is_softmax { softmax(&row, scale, beta) } else { l2_norm(&row) };
            let zero = if is_softmax { 0 } else { 128 } + offset(kind);
            for (k, y) in made.into_iter().enumerate() {
                want[first + k * inner] = y + zero;
            }
        }
        let behind = Arg::Int(i32::try_from(axis).unwrap());
        let (op, args, out) = if is_softmax {
            let out = Out(kind, 1.0 / 256.0, offset(kind) as i32);
            (Op::Softmax, vec![x.arg, Arg::Float(beta), behind], out)
        } else {
            let out = Out(kind, 1.0 / 128.0, (offset(kind) + 128) as i32);
            (Op::L2Normalization, vec![x.arg, behind], out)
        };
        compute_all(op, &args, &[out], want.len(), |what, got| {
            let got = numbers(&got[0], kind);
            assert_eq!(got, want, "{what}, seed {seed}: {dims:?} along {axis}, {scale} {zp}");
        });
    }
}

/// To the nearest, halves away from zero; of integers.
fn divided(sum: i64, count: i64) -> i64 {
    (2 * sum.abs() + count) / (2 * count) * sum.signum()
}

#[test]
fn pools_of_bytes() {
    let mut compared = 0;
    for seed in seeds(250) {
        let rng = &mut TestRng::of_seed(seed);
        let (kind, average) = (KINDS[rng.below(2)], rng.once_in(2));
        let large = rng.once_in(10);
        let mut upto = |low: u32, high: u32| i64::from(rng.between(low, high));
        let most = if large { 20 } else { 9 };
        let (n, h, mut w) = (upto(1, 2), upto(1, most), upto(1, most));
        // Of wide lines many windows are computed side by side.
        w *= i64::from(upto(1, 3) == 3) * 5 + 1;
        let (fh, fw) = if large { (h, w) } else { (upto(1, 4), upto(1, 4)) };
        let (sh, sw) = (upto(1, 3), upto(1, 3));
        let [top, bottom] = [(); 2].map(|()| upto(0, (fh - 1) as u32));
        let [left, right] = [(); 2].map(|()| upto(0, (fw - 1) as u32));
        let c = i64::from(rng.one_of(&SIZES));
        let (rows, columns) = (h + top + bottom - fh, w + left + right - fw);
        if rows < 0 || columns < 0 {
            continue;
        }
        compared += 1;
        let code = rng.one_of(&[0, 1, 2, 3]);
        let (scale, zp) = (scale_at_random(rng), zero_point(rng, kind));
        let extreme = rng.once_in(3);
        let x = values(rng, kind, &[n, h, w, c], (scale, zp), extreme);
        let (low, high) = activation(code, kind, scale, zp);
        let mut want = Vec::new();
        let dims = [n, rows / sh + 1, columns / sw + 1, c];
        for at in 0..dims.iter().product() {
            let (o, x_at, y_at, batch) =
                (at % c, at / c % dims[2], at / c / dims[2] % dims[1], at / c / dims[2] / dims[1]);
            let mut inside = Vec::new();
            for y in y_at * sh - top..y_at * sh - top + fh {
                for column in x_at * sw - left..x_at * sw - left + fw {
                    if (0..h).contains(&y) && (0..w).contains(&column) {
                        let from = ((batch * h + y) * w + column) * c + o;
                        inside.push(x.numbers[from as usize] as i64 + i64::from(zp));
                    }
                }
            }
            let pooled = if average {
                divided(inside.iter().sum(), i64::try_from(inside.len()).unwrap())
            } else {
                inside.into_iter().max().unwrap()
            };
            want.push(pooled.clamp(low, high));
        }
        let mut args = vec![x.arg];
        let numbers_of = [left, right, top, bottom, sw, sh, fw, fh].map(|n| Arg::Int(n as i32));
        args.extend(numbers_of);
        args.extend([Arg::Int(code), Arg::Bool(false)]);
        let op = if average { Op::AveragePool2d } else { Op::MaxPool2d };
        compute_all(op, &args, &[Out(kind, scale, zp)], want.len(), |what, got| {
            assert_eq!(got[0].dims, dims.map(number), "{what}");
            let got = numbers(&got[0], kind);
            assert_eq!(got, want, "{what}, seed {seed}: {fh}x{fw} on {h}x{w}x{c}");
        });
    }
    assert!(compared > 120);
}

#[test]
fn means_of_bytes() {
    for seed in seeds(80) {
        let rng = &mut TestRng::of_seed(seed);
        let kind = KINDS[rng.below(2)];
        let [n, h, w] = [(); 3].map(|()| i64::from(rng.between(1, 9)));
        let c = i64::from(rng.one_of(&SIZES));
        let (scale, zp) = (scale_at_random(rng), zero_point(rng, kind));
        let extreme = rng.once_in(3);
        let x = values(rng, kind, &[n, h, w, c], (scale, zp), extreme);
        let last = rng.once_in(2);
        // Over height and width, or over the channels.
        let (axes, count) = if last { (vec![-1], c) } else { (vec![1, 2], h * w) };
        let results = n * h * w * c / count;
        let want: Vec<i64> = (0..results)
            .map(|at| {
                let sum: i64 = (0..count)
                    .map(|k| {
                        let from =
                            if last { at * c + k } else { (at / c * h * w + k) * c + at % c };
                        x.numbers[from as usize] as i64 + i64::from(zp)
                    })
                    .sum();
                divided(sum, count)
            })
            .collect();
        let args = [x.arg, Arg::list(&axes), Arg::Int(0)];
        compute_all(Op::Mean, &args, &[Out(kind, scale, zp)], want.len(), |what, got| {
            assert_eq!(numbers(&got[0], kind), want, "{what}, seed {seed}");
        });
    }
}

/// Halves away from zero, infinities at the ends; and back.
#[test]
fn to_bytes_and_back() {
    for seed in seeds(120) {
        let rng = &mut TestRng::of_seed(seed);
        let kind = KINDS[rng.below(2)];
        let (scale, zp) = (rng.one_of(&[0.5f32, 0.25, 0.1, 2.0, 1.0]), zero_point(rng, kind));
        let count = rng.one_of(&SIZES);
        let reals: Vec<f32> = (0..count)
            .map(|_| match rng.below(12) {
                0 => f32::INFINITY,
                1 => f32::NEG_INFINITY,
                2 => 1e30,
                _ => rng.real() * 300.0,
            })
            .collect();
        let (low, high) = range(kind);
        let want: Vec<i64> = reals
            .iter()
            .map(|x| {
                let steps = f64::from((x / scale).round());
                (steps + f64::from(zp)).clamp(low as f64, high as f64) as i64
            })
            .collect();
        let args = [Arg::Floats(vec![count], reals)];
        compute_all(Op::Quantize, &args, &[Out(kind, scale, zp)], 80, |what, got| {
            assert_eq!(numbers(&got[0], kind), want, "{what}, seed {seed}, {scale} {zp}");
        });
        let x = values(rng, kind, &[count.into()], (scale, zp), false);
        let want: Vec<f32> = x.numbers.iter().map(|&d| d as f32 * scale).collect();
        compute_all(Op::Dequantize, &[x.arg], &[crate::model::F32], 80, |what, got| {
            assert_eq!(got[0].floats(), want, "{what}, seed {seed}");
        });
    }
}

/// Parts of other parameters are rescaled as unsigned bytes.
#[test]
fn concatenations_of_other_scales() {
    for seed in seeds(100) {
        let rng = &mut TestRng::of_seed(seed);
        let kind = KINDS[rng.below(2)];
        let (scale, zp) = (scale_at_random(rng), zero_point(rng, kind));
        let shift = -offset(kind);
        let rows = i64::from(rng.between(1, 3));
        let parts: Vec<(Vec<i64>, i64, Arg)> = (0..rng.between(1, 4))
            .map(|_| {
                let width = i64::from(rng.one_of(&SIZES));
                let (own_scale, own_zp) = if rng.once_in(3) {
                    (scale, zp)
                } else {
                    (scale_at_random(rng), zero_point(rng, kind))
                };
                let x = values(rng, kind, &[rows, width], (own_scale, own_zp), false);
                let stored = x.numbers.iter().map(|&d| d as i64 + i64::from(own_zp));
                let made = stored.map(|q| {
                    if (own_scale, own_zp) == (scale, zp) {
                        return q;
                    }
                    let factor = own_scale * (1.0 / scale);
                    let bias = -((i64::from(own_zp) + shift) as f32) * factor;
                    let steps = ((q + shift) as f32 * factor + bias).round() as i64;
                    (steps + i64::from(zp) + shift).clamp(0, 255) - shift
                });
                (made.collect(), width, x.arg)
            })
            .collect();
        let mut want = Vec::new();
        for row in 0..rows {
            for (values, width, _) in &parts {
                want.extend(&values[(row * width) as usize..((row + 1) * width) as usize]);
            }
        }
        let mut args: Vec<Arg> = parts.iter().map(|(_, _, arg)| arg.clone()).collect();
        args.push(Arg::Int(1));
        let elements = want.len();
        compute_all(Op::Concatenation, &args, &[Out(kind, scale, zp)], elements, |what, got| {
            assert_eq!(numbers(&got[0], kind), want, "{what}, seed {seed}");
        });
    }
}
