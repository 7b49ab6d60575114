//! Reductions, extremes, casts and what else computes element by element.

use nnburst_executor::testing::TestRng;
use nnburst_hal::{OperandType, OperationType as Op};

use crate::model::{
    Arg, F32, I32, Out, assert_near, compute, dims_at_random, place, positions, seeds,
};

const ELEMENTS: usize = 2000;

#[test]
fn reductions_over_any_axes() {
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let rank = 1 + rng.below(4);
        let dims = dims_at_random(rng, rank);
        let gone: Vec<bool> = (0..rank).map(|axis| axis == 0 || rng.once_in(2)).collect();
        let keep = rng.once_in(2);
        let mut axes: Vec<i32> = Vec::new();
        for axis in (0..rank).filter(|&axis| gone[axis]) {
            let axis = i32::try_from(axis).unwrap();
            axes.push(if rng.once_in(2) { axis - i32::try_from(rank).unwrap() } else { axis });
            if rng.once_in(4) {
                axes.push(axis);
            }
        }
        let input = Arg::random(rng, &dims);
        let kept: Vec<u32> =
            (0..rank).map(|axis| if gone[axis] { 1 } else { dims[axis] }).collect();
        let mut out: Vec<u32> =
            (0..rank).filter(|&axis| keep || !gone[axis]).map(|axis| kept[axis]).collect();
        if out.is_empty() {
            out.push(1);
        }
        let reduce = |start: f32, f: &dyn Fn(f32, f32) -> f32| -> Vec<f32> {
            let mut all = vec![start; kept.iter().product::<u32>() as usize];
            for position in positions(&dims) {
                let to: Vec<u32> = position
                    .iter()
                    .zip(&gone)
                    .map(|(&at, &gone)| if gone { 0 } else { at })
                    .collect();
                let slot = &mut all[place(&kept, &to)];
                *slot = f(*slot, input.floats()[place(&dims, &position)]);
            }
            all
        };
        let count = dims.iter().product::<u32>() / kept.iter().product::<u32>();
        let sums = reduce(0.0, &|a, b| a + b);
        let cases = [
            (Op::ReduceSum, sums.clone()),
            (Op::ReduceProd, reduce(1.0, &|a, b| a * b)),
            (Op::ReduceMax, reduce(f32::MIN, &f32::max)),
            (Op::ReduceMin, reduce(f32::MAX, &f32::min)),
            (Op::Mean, sums.iter().map(|sum| sum / count as f32).collect()),
        ];
        for (op, want) in cases {
            let flag = if op == Op::Mean { Arg::Int(i32::from(keep)) } else { Arg::Bool(keep) };
            let args = [input.clone(), Arg::list(&axes), flag];
            let got = compute(op, &args, &[F32], ELEMENTS).unwrap();
            assert_eq!(got[0].dims, out, "{op} of {dims:?} over {axes:?}");
            assert_near(&got[0].floats(), &want, &format!("{op} of {dims:?} over {axes:?}"));
        }
    }
}

/// Few different values, so that there are ties.
fn ties(rng: &mut TestRng, dims: &[u32]) -> (Arg, Vec<i32>) {
    let count: u32 = dims.iter().product();
    let values: Vec<i32> = (0..count).map(|_| rng.between(0, 3).cast_signed()).collect();
    (Arg::Ints(dims.to_vec(), values.clone()), values)
}

#[test]
fn the_first_of_equals_is_the_extreme_along_any_axis() {
    for seed in seeds(100) {
        let rng = &mut TestRng::of_seed(seed);
        let rank = 1 + rng.below(4);
        let dims = dims_at_random(rng, rank);
        let axis = rng.below(rank);
        let (input, values) = ties(rng, &dims);
        let mut out = dims.clone();
        out.remove(axis);
        let want = |better: &dyn Fn(i32, i32) -> bool| -> Vec<i32> {
            positions(&out)
                .into_iter()
                .map(|mut position| {
                    position.insert(axis, 0);
                    let (mut best, mut best_at) = (values[place(&dims, &position)], 0);
                    for at in 1..dims[axis] {
                        position[axis] = at;
                        let value = values[place(&dims, &position)];
                        if better(value, best) {
                            (best, best_at) = (value, at);
                        }
                    }
                    best_at.cast_signed()
                })
                .collect()
        };
        let args = [input, Arg::Int(i32::try_from(axis).unwrap())];
        let got = compute(Op::Argmax, &args, &[I32], ELEMENTS).unwrap();
        assert_eq!(got[0].ints(), want(&|a, b| a > b), "ARGMAX of {args:?}");
        let got = compute(Op::Argmin, &args, &[I32], ELEMENTS).unwrap();
        assert_eq!(got[0].ints(), want(&|a, b| a < b), "ARGMIN of {args:?}");
    }
}

#[test]
fn the_best_k_of_each_row_the_later_of_equals_first() {
    for seed in seeds(100) {
        let rng = &mut TestRng::of_seed(seed);
        let dims = dims_at_random(rng, 1 + rng.clone().below(3));
        let (input, values) = ties(rng, &dims);
        let extent = *dims.last().unwrap() as usize;
        for k in 1..=extent {
            let (mut want_values, mut want_indices) = (Vec::new(), Vec::new());
            for row in values.chunks(extent) {
                let mut pairs: Vec<(i32, i32)> = row.iter().copied().zip(0..).collect();
                pairs.sort_by(|a, b| b.cmp(a));
                want_values.extend(pairs.iter().take(k).map(|pair| pair.0));
                want_indices.extend(pairs.iter().take(k).map(|pair| pair.1));
            }
            let args = [input.clone(), Arg::Int(i32::try_from(k).unwrap())];
            let got = compute(Op::TopkV2, &args, &[I32, I32], ELEMENTS).unwrap();
            assert_eq!((got[0].ints(), got[1].ints()), (want_values, want_indices), "{args:?}");
        }
    }
}

#[test]
fn casts_of_what_does_not_fit() {
    let reals = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e20,
        -1e20,
        -0.5,
        0.999,
        255.9,
        256.0,
        2.5,
        -2.5,
        65_520.0,
    ];
    let input = [Arg::Floats(vec![12], reals.to_vec())];
    let to = |kind, scale: f32| compute(Op::Cast, &input, &[Out(kind, scale, 0)], 12).unwrap();
    let ints = to(OperandType::TensorInt32, 0.0)[0].ints();
    assert_eq!(ints, [0, i32::MAX, i32::MIN, i32::MAX, i32::MIN, 0, 0, 255, 256, 2, -2, 65_520]);
    let bytes = &to(OperandType::TensorQuant8Asymm, 1.0)[0].bytes;
    assert_eq!(bytes[..], [0, 255, 0, 255, 0, 0, 0, 255, 255, 2, 0, 255]);
    let halves = &to(OperandType::TensorFloat16, 0.0)[0].bytes;
    let halves: Vec<f32> = halves
        .chunks_exact(2)
        .map(|x| half::f16::from_le_bytes(x.try_into().unwrap()).to_f32())
        .collect();
    assert!(halves[0].is_nan());
    assert_eq!(halves[1..5], [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY, f32::NEG_INFINITY]);
    assert_eq!(halves[11], f32::INFINITY, "half way past the largest half is rounded to infinity");
    let input = [Arg::Ints(vec![4], vec![i32::MIN, -1, 256, 16_777_217])];
    let got = compute(Op::Cast, &input, &[Out(OperandType::TensorQuant8Asymm, 1.0, 0)], 4).unwrap();
    assert_eq!(got[0].bytes, [0, 0, 255, 255]);
    let got = compute(Op::Cast, &input, &[F32], 4).unwrap();
    assert_eq!(got[0].floats(), [-2_147_483_648.0, -1.0, 256.0, 16_777_216.0]);
}

#[test]
fn prelu_broadcasts_both_ways() {
    for seed in seeds(100) {
        let rng = &mut TestRng::of_seed(seed);
        let wide = dims_at_random(rng, 1 + rng.clone().below(4));
        let narrow = |rng: &mut TestRng| -> Vec<u32> {
            let skip = rng.below(wide.len());
            wide[skip..].iter().map(|&n| if rng.once_in(3) { 1 } else { n }).collect()
        };
        let (a, b) = (narrow(rng), narrow(rng));
        let (x, alpha) = (Arg::random(rng, &a), Arg::random(rng, &b));
        let rank = a.len().max(b.len());
        let at = |dims: &[u32], axis: usize| {
            (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis])
        };
        let out: Vec<u32> = (0..rank).map(|axis| at(&a, axis).max(at(&b, axis))).collect();
        let read = |arg: &Arg, dims: &[u32], position: &[u32]| {
            let tail = &position[rank - dims.len()..];
            let own: Vec<u32> =
                dims.iter().zip(tail).map(|(&n, &at)| if n == 1 { 0 } else { at }).collect();
            arg.floats()[place(dims, &own)]
        };
        let want: Vec<f32> = positions(&out)
            .iter()
            .map(|position| {
                let (x, alpha) = (read(&x, &a, position), read(&alpha, &b, position));
                if x >= 0.0 { x } else { x * alpha }
            })
            .collect();
        let got = compute(Op::Prelu, &[x, alpha], &[F32], ELEMENTS).unwrap();
        assert_eq!((&got[0].dims, got[0].floats()), (&out, want), "{a:?} and {b:?}");
    }
}

#[test]
fn a_maximum_of_quantised_values_is_that_of_what_they_stand_for() {
    // 0.5, 3 and -1 against 1, 1 and 1; out in quarters from 10 on, which all are.
    let a = Arg::Bytes(vec![3], vec![101, 106, 98], (0.5, 100));
    let b = Arg::Bytes(vec![1], vec![1], (1.0, 0));
    let out = Out(OperandType::TensorQuant8Asymm, 0.25, 10);
    let got = compute(Op::Maximum, &[a, b], &[out], 3).unwrap();
    assert_eq!(got[0].bytes, [14, 22, 14]);
}

/// Sparse hashes differ from dense ones in how bits become numbers, and by function in type 3.
#[test]
fn sparse_projections_are_the_dense_bits_put_together() {
    for seed in seeds(40) {
        let rng = &mut TestRng::of_seed(seed);
        let (functions, bits) = (rng.between(1, 4), rng.between(1, 9));
        let hash = Arg::random(rng, &[functions, bits]);
        let items = rng.between(1, 5);
        let input = Arg::random(rng, &[items, 3]);
        let ones = Arg::Floats(vec![items], vec![1.0; items as usize]);
        let project = |weight: Arg, kind: i32| {
            let args = [hash.clone(), input.clone(), weight, Arg::Int(kind)];
            compute(Op::LshProjection, &args, &[I32], 64).unwrap()[0].ints()
        };
        let dense = project(ones, 2);
        assert_eq!(dense.len(), (functions * bits) as usize);
        let put_together: Vec<i32> = dense
            .chunks(bits as usize)
            .map(|bits| bits.iter().fold(0, |number, bit| number << 1 | bit))
            .collect();
        let none = || Arg::None(OperandType::TensorFloat32);
        assert_eq!(project(none(), 1), put_together);
        let apart: Vec<i32> =
            put_together.iter().zip(0..).map(|(number, at)| number + (at << bits)).collect();
        assert_eq!(project(none(), 3), apart);
    }
}

/// Over the last axis in every length, over an axis of one, and of truth.
#[test]
fn reductions_of_rows() {
    for &extent in &crate::tensors::SIZES {
        let rng = &mut TestRng::of_seed(extent.into());
        let input = Arg::random(rng, &[3, extent]);
        let rows = input.floats().chunks(extent as usize);
        let fold = |start: f32, f: fn(f32, f32) -> f32| -> Vec<f32> {
            rows.clone().map(|row| row.iter().copied().fold(start, f)).collect()
        };
        for (op, want) in [
            (Op::ReduceSum, fold(0.0, |a, b| a + b)),
            (Op::ReduceMax, fold(f32::MIN, f32::max)),
            (Op::ReduceMin, fold(f32::MAX, f32::min)),
        ] {
            let args = [input.clone(), Arg::list(&[-1]), Arg::Bool(false)];
            let got = compute(op, &args, &[F32], ELEMENTS).unwrap();
            assert_near(&got[0].floats(), &want, &format!("{op} of rows of {extent}"));
            // A list without axes can't be declared; over an axis of one everything stays as well.
            let args = [Arg::random(rng, &[1, extent]), Arg::list(&[0]), Arg::Bool(true)];
            let got = compute(op, &args, &[F32], ELEMENTS).unwrap();
            assert_eq!(got[0].floats(), args[0].floats(), "{op} over an axis of one");
        }
        let truths: Vec<u8> = (0..3 * extent).map(|_| [0, 1, 2, 255][rng.below(4)]).collect();
        let operand = nnburst_hal::Operand::tensor(OperandType::TensorBool8, vec![3, extent]);
        for (op, all) in [(Op::ReduceAll, true), (Op::ReduceAny, false)] {
            let want: Vec<u8> = truths
                .chunks(extent as usize)
                .map(|row| {
                    let mut truths = row.iter().map(|&byte| byte != 0);
                    u8::from(if all { truths.all(|it| it) } else { truths.any(|it| it) })
                })
                .collect();
            let args =
                [Arg::Other(operand.clone(), truths.clone()), Arg::list(&[1]), Arg::Bool(false)];
            let out = Out(OperandType::TensorBool8, 0.0, 0);
            let got = compute(op, &args, &[out], ELEMENTS).unwrap();
            assert_eq!(got[0].bytes, want, "{op} of rows of {extent}");
        }
    }
}
