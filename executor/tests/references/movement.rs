//! What moves elements.

use nnburst_executor::testing::TestRng;
use nnburst_hal::OperationType as Op;

use crate::model::{Arg, F32, Value, compute, dims_at_random, place, positions, seeds};

const ELEMENTS: usize = 60_000;

/// Every element of the result is the input's at the position that `from` says.
fn check(op: Op, args: &[Arg], out: &[u32], from: impl Fn(&[u32]) -> Vec<u32>) {
    let Arg::Floats(dims, values) = &args[0] else { unreachable!() };
    let want: Vec<f32> =
        positions(out).iter().map(|position| values[place(dims, &from(position))]).collect();
    let got = compute(op, args, &[F32], ELEMENTS).unwrap();
    assert_eq!((&got[0].dims[..], got[0].floats()), (out, want), "{op} {args:?}");
}

#[test]
fn strided_slices_of_every_rank_and_mask() {
    let mut compared = 0;
    for seed in seeds(600) {
        let rng = &mut TestRng::of_seed(seed);
        let rank = 1 + rng.below(4);
        let dims = dims_at_random(rng, rank);
        let mut numbers = |low: i32, high: u32| -> Vec<i32> {
            (0..rank).map(|_| low + rng.between(0, high).cast_signed()).collect()
        };
        let (begins, ends) = (numbers(-7, 14), numbers(-7, 14));
        let steps: Vec<i32> = (0..rank).map(|_| rng.one_of(&[1, 1, 2, 3, -1, -2, -3])).collect();
        let mut mask = || rng.below(16).cast_signed() & (rng.below(16).cast_signed());
        let (begin_mask, end_mask) =
            (i32::try_from(mask()).unwrap(), i32::try_from(mask()).unwrap());
        let mut ranges = Vec::new();
        for axis in 0..rank {
            ranges.push(range(
                dims[axis].cast_signed(),
                (begin_mask >> axis & 1 == 0).then_some(begins[axis]),
                (end_mask >> axis & 1 == 0).then_some(ends[axis]),
                steps[axis],
            ));
        }
        // An axis may shrink that has one element left and is walked forwards.
        let may_shrink = |axis: usize| steps[axis] > 0 && ranges[axis].len() == 1;
        let shrinks: Vec<bool> = (0..rank).map(|axis| may_shrink(axis) && rng.once_in(2)).collect();
        let shrink_mask = shrinks.iter().rev().fold(0, |mask, &bit| mask << 1 | i32::from(bit));
        let input = Arg::random(rng, &dims);
        let args = [
            input,
            Arg::list(&begins),
            Arg::list(&ends),
            Arg::list(&steps),
            Arg::Int(begin_mask),
            Arg::Int(end_mask),
            Arg::Int(shrink_mask),
        ];
        let mut out: Vec<u32> = (0..rank)
            .filter(|&axis| !shrinks[axis])
            .map(|axis| u32::try_from(ranges[axis].len()).unwrap())
            .collect();
        if out.is_empty() {
            out.push(1);
        }
        if out.contains(&0) {
            let got = compute(Op::StridedSlice, &args, &[F32], ELEMENTS).unwrap();
            assert_eq!(got[0], Value { dims: out, bytes: Vec::new() });
            continue;
        }
        compared += 1;
        check(Op::StridedSlice, &args, &out, |position| {
            let mut rest = position.iter();
            (0..rank)
                .map(|axis| if shrinks[axis] { 0 } else { *rest.next().unwrap() })
                .enumerate()
                .map(|(axis, at)| ranges[axis][at as usize])
                .collect()
        });
    }
    assert!(compared > 100, "only {compared} were not empty");
}

/// The positions along one axis, walked one by one.
fn range(extent: i32, begin: Option<i32>, end: Option<i32>, step: i32) -> Vec<u32> {
    let wrap = |x: i32| match (step > 0, x) {
        (true, x) if x >= extent => extent,
        (true, x) => x.max(-extent).rem_euclid(extent),
        (false, x) if x < -extent => -1,
        (false, x) => x.clamp(-extent, extent - 1).rem_euclid(extent),
    };
    let mut at = begin.map_or(if step > 0 { 0 } else { extent - 1 }, wrap);
    let end = end.map_or(if step > 0 { extent } else { -1 }, wrap);
    let mut all = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        all.push(u32::try_from(at).unwrap());
        at += step;
    }
    all
}

#[test]
fn transposes_of_every_rank() {
    for seed in seeds(150) {
        let rng = &mut TestRng::of_seed(seed);
        let rank = 1 + rng.below(4);
        let dims = dims_at_random(rng, rank);
        let mut axes: Vec<usize> = (0..rank).collect();
        (1..rank).for_each(|at| axes.swap(at, rng.below(at + 1)));
        let out: Vec<u32> = axes.iter().map(|&axis| dims[axis]).collect();
        let codes: Vec<i32> = axes.iter().map(|&axis| i32::try_from(axis).unwrap()).collect();
        let args = [Arg::random(rng, &dims), Arg::list(&codes)];
        check(Op::Transpose, &args, &out, |position| {
            let mut from = vec![0; rank];
            axes.iter().zip(position).for_each(|(&axis, &at)| from[axis] = at);
            from
        });
    }
}

#[test]
fn tiles_shuffles_and_gathers() {
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let rank = 1 + rng.below(4);
        let dims = dims_at_random(rng, rank);
        let input = Arg::random(rng, &dims);
        let times: Vec<u32> = (0..rank).map(|_| rng.between(1, 3)).collect();
        let wide: Vec<u32> = dims.iter().zip(&times).map(|(extent, n)| extent * n).collect();
        let codes: Vec<i32> = times.iter().map(|n| n.cast_signed()).collect();
        check(Op::Tile, &[input.clone(), Arg::list(&codes)], &wide, |position| {
            position.iter().zip(&dims).map(|(at, extent)| at % extent).collect()
        });

        let axis = rng.below(rank);
        let code = i32::try_from(axis).unwrap() - i32::try_from(rank * rng.below(2)).unwrap();
        let extent = dims[axis];
        for groups in (1..=extent).filter(|groups| extent.is_multiple_of(*groups)) {
            let args = [input.clone(), Arg::Int(groups.cast_signed()), Arg::Int(code)];
            check(Op::ChannelShuffle, &args, &dims, |position| {
                let (at, size) = (position[axis], extent / groups);
                let mut from = position.to_vec();
                from[axis] = at % groups * size + at / groups;
                from
            });
        }

        let shape = dims_at_random(rng, 1 + rng.clone().below(3));
        let count: u32 = shape.iter().product();
        let rows: Vec<u32> = (0..count).map(|_| rng.between(0, extent - 1)).collect();
        let codes = rows.iter().map(|row| row.cast_signed()).collect();
        let args = [input, Arg::Int(code), Arg::Ints(shape.clone(), codes)];
        let out: Vec<u32> = [&dims[..axis], &shape, &dims[axis + 1..]].concat();
        if out.iter().product::<u32>() < 4000 {
            check(Op::Gather, &args, &out, |position| {
                let (head, rest) = position.split_at(axis);
                let (index, tail) = rest.split_at(shape.len());
                [head, &[rows[place(&shape, index)]], tail].concat()
            });
        }
    }
}

#[test]
fn blocks_of_unequal_extents() {
    for seed in seeds(150) {
        let rng = &mut TestRng::of_seed(seed);
        let (bh, bw) = (rng.between(1, 3), rng.between(1, 3));
        let (n, h, w, c) = (rng.between(1, 2), rng.between(1, 4), rng.between(1, 4), 3);
        let dims = [n * bh * bw, h, w, c];
        let args = [
            Arg::random(rng, &dims),
            Arg::list(&[bh.cast_signed(), bw.cast_signed()]),
            Arg::Bool(false),
        ];
        check(Op::BatchToSpaceNd, &args, &[n, h * bh, w * bw, c], |p| {
            vec![(p[1] % bh * bw + p[2] % bw) * n + p[0], p[1] / bh, p[2] / bw, p[3]]
        });
        let b = bh;
        let args =
            [Arg::random(rng, &[n, h, w, c * b * b]), Arg::Int(b.cast_signed()), Arg::Bool(false)];
        check(Op::DepthToSpace, &args, &[n, h * b, w * b, c], |p| {
            vec![p[0], p[1] / b, p[2] / b, (p[1] % b * b + p[2] % b) * c + p[3]]
        });
        // In the other layout, and back.
        let args =
            [Arg::random(rng, &[n, c, h * b, w * b]), Arg::Int(b.cast_signed()), Arg::Bool(true)];
        check(Op::SpaceToDepth, &args, &[n, c * b * b, h, w], |p| {
            let (block, channel) = (p[1] / c, p[1] % c);
            vec![p[0], channel, p[2] * b + block / b, p[3] * b + block % b]
        });
    }
}

#[test]
fn nearest_neighbours_at_any_size() {
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let dims = [rng.between(1, 2), rng.between(1, 9), rng.between(1, 9), 2];
        let (h, w) = (rng.between(1, 12), rng.between(1, 12));
        let mode = rng.below(3);
        let (corners, half) = (mode == 1, mode == 2);
        let args = [
            Arg::random(rng, &dims),
            Arg::Int(w.cast_signed()),
            Arg::Int(h.cast_signed()),
            Arg::Bool(false),
            Arg::Bool(corners),
            Arg::Bool(half),
        ];
        let nearest = |at: u32, from: u32, to: u32| {
            let scale = if corners && to > 1 {
                (from - 1) as f32 / (to - 1) as f32
            } else {
                from as f32 / to as f32
            };
            let p = (at as f32 + if half { 0.5 } else { 0.0 }) * scale;
            (if corners { p.round() } else { p.floor() } as u32).min(from - 1)
        };
        check(Op::ResizeNearestNeighbor, &args, &[dims[0], h, w, 2], |p| {
            vec![p[0], nearest(p[1], dims[1], h), nearest(p[2], dims[2], w), p[3]]
        });
    }
}

/// Shapes written out or with one extent to work out, anywhere; axes from the end, or none.
#[test]
fn the_same_elements_in_another_shape() {
    for seed in seeds(100) {
        let rng = &mut TestRng::of_seed(seed);
        let rank = 1 + rng.below(4);
        let mut dims = dims_at_random(rng, rank);
        let input = Arg::random(rng, &dims);
        let mut to: Vec<u32> = dims.clone();
        to.rotate_left(rng.below(rank));
        let mut asked: Vec<i32> = to.iter().map(|&n| n.cast_signed()).collect();
        if rng.once_in(2) {
            asked[rng.below(rank)] = -1;
        }
        let got = compute(Op::Reshape, &[input, Arg::list(&asked)], &[F32], ELEMENTS).unwrap();
        assert_eq!(got[0].dims, to, "{dims:?} to {asked:?}");

        dims.iter_mut().for_each(|n| *n = if rng.once_in(2) { 1 } else { *n });
        let input = Arg::random(rng, &dims);
        let mut axes = Vec::new();
        for axis in (0..rank).filter(|&axis| dims[axis] == 1) {
            let axis = i32::try_from(axis).unwrap();
            if rng.once_in(2) {
                axes.push(if rng.once_in(2) { axis - i32::try_from(rank).unwrap() } else { axis });
            }
        }
        let all = rng.once_in(3);
        let is_gone = |axis: usize| {
            let (axis, rank) = (i32::try_from(axis).unwrap(), i32::try_from(rank).unwrap());
            all || axes.contains(&axis) || axes.contains(&(axis - rank))
        };
        let left = (0..rank).filter(|&axis| dims[axis] != 1 || !is_gone(axis));
        let mut out: Vec<u32> = left.map(|axis| dims[axis]).collect();
        if out.is_empty() {
            out.push(1);
        }
        let none = Arg::None(nnburst_hal::OperandType::TensorInt32);
        if !all && axes.is_empty() {
            continue;
        }
        let args = [input.clone(), if all { none } else { Arg::list(&axes) }];
        let got = compute(Op::Squeeze, &args, &[F32], ELEMENTS).unwrap();
        assert_eq!((&got[0].dims, &got[0].floats()[..]), (&out, input.floats()), "{axes:?}");
    }
}
