//! Two tensors, element by element: every way to broadcast, every activation, lengths around those
//! of vectors.

use nnburst_executor::testing::TestRng;
use nnburst_hal::{Operand, OperandType as T, OperationType as Op};

use crate::arithmetic::{activation, fixed, halved, high_product_32, range};
use crate::model::{Arg, Out, compute_all, place, positions, seeds};
use crate::tensors::{SIZES, Values, clamped, is_byte, near, values, zero_point};

/// Two shapes that broadcast, and what to.
fn shapes(rng: &mut TestRng) -> [Vec<u32>; 3] {
    let rank = 1 + rng.below(4);
    let mut wide: Vec<u32> = (0..rank).map(|_| rng.between(1, 4)).collect();
    // The last or the only long one.
    let long = if rng.once_in(4) { 0 } else { rank - 1 };
    wide[long] = rng.one_of(&SIZES);
    let part = |rng: &mut TestRng| -> Vec<u32> {
        match rng.below(6) {
            0 | 1 => wide.clone(),
            2 => vec![1],
            // A trailing part.
            3 => wide[rng.below(rank)..].to_vec(),
            // Any extents 1, those in the middle too.
            _ => wide.iter().map(|&n| if rng.once_in(2) { 1 } else { n }).collect(),
        }
    };
    let (a, b) = (part(rng), part(rng));
    let out = broadcast(&a, &b);
    [a, b, out]
}

fn broadcast(a: &[u32], b: &[u32]) -> Vec<u32> {
    let rank = a.len().max(b.len());
    let at = |dims: &[u32], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis])
    };
    (0..rank).map(|axis| at(a, axis).max(at(b, axis))).collect()
}

/// The operand's element that meets the output's at `position`.
fn element(dims: &[u32], position: &[u32]) -> usize {
    let behind = &position[position.len() - dims.len()..];
    let at: Vec<u32> =
        behind.iter().zip(dims).map(|(&at, &extent)| if extent == 1 { 0 } else { at }).collect();
    place(dims, &at)
}

fn operand_dims(values: &Values) -> &[u32] {
    match &values.arg {
        Arg::Other(operand, _) => &operand.dimensions,
        _ => &[],
    }
}

/// Scale and zero point.
type Quant = (f32, i32);

/// Quantised sums: both sides brought to a scale of half the larger one's, with 20 more bits.
fn sum(sign: f64, [a, b, out]: [Quant; 3], x: f64, y: f64) -> i64 {
    let twice = 2.0 * f64::from(a.0.max(b.0));
    let part = |scale: f32, x: f64| {
        let (fraction, shift) = fixed(f64::from(scale) / twice).parts();
        (fraction, shift, (x as i64) << 20)
    };
    let (fraction_a, shift_a, x) = part(a.0, x);
    let (fraction_b, shift_b, y) = part(b.0, y);
    let a = halved(high_product_32(x, fraction_a), -shift_a);
    let b = halved(high_product_32(y, fraction_b * sign as i64), -shift_b);
    let whole = fixed(twice / (f64::from(1 << 20) * f64::from(out.0)));
    whole.times(a + b) + i64::from(out.1)
}

/// What MAXIMUM and MINIMUM see of a value: brought to the output's parameters.
fn rescaled(kind: T, from: Quant, to: Quant, x: f64) -> f64 {
    let real = f64::from(x as f32 * from.0);
    let (least, most) = range(kind);
    (real / f64::from(to.0) + f64::from(to.1)).clamp(least as f64, most as f64).round()
}

fn quantised(op: Op, kind: T, code: i32, quants: [Quant; 3], x: f64, y: f64) -> f64 {
    let [a, b, out] = quants;
    let value = match op {
        Op::Add => sum(1.0, quants, x, y),
        Op::Sub => sum(-1.0, quants, x, y),
        Op::Mul => {
            let multiplier = fixed(f64::from(a.0 * b.0) / f64::from(out.0));
            multiplier.times((x * y) as i64) + i64::from(out.1)
        }
        Op::Prelu if x >= 0.0 => {
            fixed(f64::from(a.0) / f64::from(out.0)).times(x as i64) + i64::from(out.1)
        }
        Op::Prelu => {
            let multiplier = fixed(f64::from(a.0 * b.0) / f64::from(out.0));
            multiplier.times((x * y) as i64) + i64::from(out.1)
        }
        _ => {
            let (x, y) = (rescaled(kind, a, out, x), rescaled(kind, b, out, y));
            return if op == Op::Maximum { x.max(y) } else { x.min(y) };
        }
    };
    let code = if has_activation(op) { code } else { 0 };
    let (low, high) = activation(code, kind, out.0, out.1);
    value.clamp(low, high) as f64
}

fn real(op: Op, code: i32, x: f64, y: f64) -> f64 {
    let value = match op {
        Op::Add => x + y,
        Op::Sub => x - y,
        Op::Mul => x * y,
        Op::Div => x / y,
        Op::Maximum => return x.max(y),
        Op::Prelu => return if x < 0.0 { x * y } else { x },
        _ => return x.min(y),
    };
    clamped(code, value)
}

fn has_activation(op: Op) -> bool {
    matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div)
}

#[test]
fn arithmetic_of_any_shapes() {
    const KINDS: [T; 4] =
        [T::TensorFloat32, T::TensorFloat16, T::TensorQuant8Asymm, T::TensorQuant8AsymmSigned];
    const OPS: [Op; 7] = [Op::Add, Op::Sub, Op::Mul, Op::Maximum, Op::Minimum, Op::Prelu, Op::Div];
    for seed in seeds(500) {
        let rng = &mut TestRng::of_seed(seed);
        let kind = KINDS[rng.below(KINDS.len())];
        let op = OPS[rng.below(OPS.len() - usize::from(is_byte(kind)))];
        let code = rng.one_of(&[0, 1, 2, 3]);
        let [a, b, out] = shapes(rng);
        let mut quant = || {
            let scale = rng.one_of(&[0.5f32, 0.013, 0.1, 1.0, 0.031_25, 2.5]);
            if is_byte(kind) { (scale, zero_point(rng, kind)) } else { (0.0, 0) }
        };
        let (qa, qb, mut qo) = (quant(), quant(), quant());
        if op == Op::Mul {
            // The multiplier must be less than 1.
            qo.0 = qo.0.max(qa.0 * qb.0 * 1.01);
        }
        let extreme = rng.once_in(4) && !matches!(op, Op::Maximum | Op::Minimum);
        let signed = |dims: &[u32]| dims.iter().map(|&n| i64::from(n)).collect::<Vec<_>>();
        let x = values(rng, kind, &signed(&a), qa, extreme);
        let y = values(rng, kind, &signed(&b), qb, extreme);
        let want: Vec<(f64, f64)> = positions(&out)
            .iter()
            .map(|position| {
                let x = x.numbers[element(operand_dims(&x), position)];
                let y = y.numbers[element(operand_dims(&y), position)];
                let value = if is_byte(kind) {
                    quantised(op, kind, code, [qa, qb, qo], x, y)
                } else {
                    real(op, code, x, y)
                };
                (value, x.abs() + y.abs() + value.abs())
            })
            .collect();
        let mut args = vec![x.arg.clone(), y.arg.clone()];
        if has_activation(op) {
            args.push(Arg::Int(code));
        }
        let outs = [Out(kind, qo.0, qo.1)];
        compute_all(op, &args, &outs, want.len().max(8), |what, got| {
            let case = format!(
                "{what}, seed {seed}: {a:?} and {b:?}, activation {code}, {qa:?} {qb:?} {qo:?}"
            );
            assert_eq!(got[0].dims, out, "{case}");
            near(&got[0], kind, &want).unwrap_or_else(|why| panic!("{case}: {why}"));
        });
    }
}

#[test]
fn integers_wrap_and_divide_downwards() {
    for seed in seeds(120) {
        let rng = &mut TestRng::of_seed(seed);
        let [a, b, out] = shapes(rng);
        let mut ints = |dims: &[u32]| {
            let edges = [0, 1, -1, 7, -7, 1000, i32::MAX, i32::MIN];
            let count = dims.iter().product::<u32>();
            let values: Vec<i32> = (0..count)
                .map(|_| match rng.below(2) {
                    0 => rng.one_of(&edges),
                    _ => rng.between(0, 2000).cast_signed() - 1000,
                })
                .collect();
            values
        };
        let (x, y) = (ints(&a), ints(&b));
        for op in [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Maximum, Op::Minimum] {
            let want: Vec<i32> = positions(&out)
                .iter()
                .map(|position| {
                    let (x, y) = (x[element(&a, position)], y[element(&b, position)]);
                    match op {
                        Op::Add => x.wrapping_add(y),
                        Op::Sub => x.wrapping_sub(y),
                        Op::Mul => x.wrapping_mul(y),
                        Op::Div if y == 0 => 0,
                        Op::Div => (f64::from(x) / f64::from(y)).floor() as i64 as i32,
                        Op::Maximum => x.max(y),
                        _ => x.min(y),
                    }
                })
                .collect();
            let mut args = vec![Arg::Ints(a.clone(), x.clone()), Arg::Ints(b.clone(), y.clone())];
            if has_activation(op) {
                args.push(Arg::Int(0));
            }
            compute_all(op, &args, &[crate::model::I32], want.len().max(8), |what, got| {
                assert_eq!(got[0].ints(), want, "{what}, seed {seed}: {a:?} and {b:?}");
            });
        }
    }
}

/// Comparisons look at the real numbers, whatever they are stored as.
#[test]
fn comparisons_of_any_shapes() {
    const OPS: [Op; 6] =
        [Op::Equal, Op::NotEqual, Op::Less, Op::LessEqual, Op::Greater, Op::GreaterEqual];
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let kind =
            [T::TensorFloat32, T::TensorQuant8Asymm, T::TensorQuant8AsymmSigned][rng.below(3)];
        let [a, b, out] = shapes(rng);
        let mut quant = || {
            let scale = rng.one_of(&[0.5f32, 0.25, 1.0]);
            if is_byte(kind) { (scale, zero_point(rng, kind)) } else { (0.0, 0) }
        };
        let (qa, qb) = (quant(), quant());
        let signed = |dims: &[u32]| dims.iter().map(|&n| i64::from(n)).collect::<Vec<_>>();
        let extreme = rng.once_in(3);
        let x = values(rng, kind, &signed(&a), qa, extreme);
        let y = values(rng, kind, &signed(&b), qb, extreme);
        let scale = |quant: Quant| if is_byte(kind) { f64::from(quant.0) } else { 1.0 };
        for op in OPS {
            let want: Vec<u8> = positions(&out)
                .iter()
                .map(|position| {
                    let x = x.numbers[element(&a, position)] * scale(qa);
                    let y = y.numbers[element(&b, position)] * scale(qb);
                    u8::from(match op {
                        Op::Equal => x == y,
                        Op::NotEqual => x != y,
                        Op::Less => x < y,
                        Op::LessEqual => x <= y,
                        Op::Greater => x > y,
                        _ => x >= y,
                    })
                })
                .collect();
            let args = [x.arg.clone(), y.arg.clone()];
            compute_all(
                op,
                &args,
                &[Out(T::TensorBool8, 0.0, 0)],
                want.len().max(8),
                |what, got| {
                    assert_eq!(got[0].bytes, want, "{what}, seed {seed}: {a:?} and {b:?}");
                },
            );
        }
    }
}

/// A condition byte that isn't 1 is true all the same.
#[test]
fn selections() {
    for seed in seeds(60) {
        let rng = &mut TestRng::of_seed(seed);
        let count = rng.one_of(&SIZES);
        let condition: Vec<u8> = (0..count).map(|_| [0, 0, 1, 2, 255][rng.below(5)]).collect();
        let x = values(rng, T::TensorFloat32, &[count.into()], (0.0, 0), true);
        let y = values(rng, T::TensorFloat32, &[count.into()], (0.0, 0), true);
        let want: Vec<(f64, f64)> = (0..count as usize)
            .map(|at| (if condition[at] == 0 { y.numbers[at] } else { x.numbers[at] }, 0.0))
            .collect();
        let condition = Arg::Other(Operand::tensor(T::TensorBool8, vec![count]), condition);
        let args = [condition, x.arg, y.arg];
        compute_all(Op::Select, &args, &[crate::model::F32], 80, |what, got| {
            near(&got[0], T::TensorFloat32, &want).unwrap_or_else(|why| panic!("{what}: {why}"));
        });
    }
}
