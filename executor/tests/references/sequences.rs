//! Recurrent operations over sequences: the step written out, as often as there are steps, in both
//! orders of time, with a second input linked in every way.

use nnburst_executor::testing::TestRng;
use nnburst_hal::OperationType as Op;

use crate::model::{Arg, F32, assert_near, compute, seeds};
use crate::recurrent::{NONE, Parts, activate, lstm, product};

/// Steps, batches, inputs, units, outputs.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    t: usize,
    b: usize,
    i: usize,
    u: usize,
    o: usize,
}

impl Sizes {
    fn of(rng: &mut TestRng, projects: bool) -> Self {
        let mut upto = |low: u32, high: u32| rng.between(low, high) as usize;
        let (t, b, i, u) = (upto(1, 6), upto(1, 3), upto(1, 18), upto(2, 17));
        Self { t, b, i, u, o: if projects { upto(1, 9) } else { u } }
    }
}

fn random(rng: &mut TestRng, dims: &[usize]) -> Arg {
    let dims: Vec<u32> = dims.iter().map(|&n| n as u32).collect();
    Arg::random(rng, &dims)
}

/// From time first to batch first, and back.
fn turned(values: &[f32], outer: usize, inner: usize, width: usize) -> Vec<f32> {
    (0..values.len())
        .map(|at| {
            let (k, row) = (at % width, at / width);
            let (to_outer, to_inner) = (row / outer, row % outer);
            values[(to_inner * inner + to_outer) * width + k]
        })
        .collect()
}

/// A sequence with time first as the operand wants it.
fn sequence(values: &[f32], [t, b, width]: [usize; 3], time_major: bool) -> Arg {
    if time_major {
        return Arg::Floats(vec![t as u32, b as u32, width as u32], values.to_vec());
    }
    Arg::Floats(vec![b as u32, t as u32, width as u32], turned(values, t, b, width))
}

/// One direction of an LSTM: operands 1 to 17, the states, and the four of the normalisation.
struct Direction {
    operands: Vec<Arg>,
    output: Arg,
    cell: Arg,
    norms: Vec<Arg>,
}

impl Direction {
    fn of(rng: &mut TestRng, parts: Parts, Sizes { b, i, u, o, .. }: Sizes) -> Self {
        let mut some = |there: bool, dims: &[usize]| {
            if there { random(rng, dims) } else { NONE }
        };
        let is_there = |k: usize| k > 0 || !parts.coupled;
        let mut operands: Vec<Arg> = (0..4).map(|k| some(is_there(k), &[u, i])).collect();
        operands.extend((0..4).map(|k| some(is_there(k), &[u, o])));
        operands.extend((0..3).map(|k| some(parts.peephole && is_there(k), &[u])));
        operands.extend((0..4).map(|k| some(is_there(k), &[u])));
        operands.push(some(parts.projection, &[o, u]));
        operands.push(some(parts.projection_bias, &[o]));
        let (output, cell) = (some(true, &[b, o]), some(true, &[b, u]));
        let norms = (0..4).map(|k| some(parts.layer_norm && is_there(k), &[u])).collect();
        Self { operands, output, cell, norms }
    }

    /// All steps, from the last where `backwards`; outputs lie where their inputs did. Then the
    /// states.
    fn run(&self, parts: Parts, sizes: Sizes, x: &[f32], backwards: bool) -> [Vec<f32>; 3] {
        let Sizes { t, b, i, u, o } = sizes;
        let (mut output, mut cell) = (self.output.floats().to_vec(), self.cell.floats().to_vec());
        let mut all = vec![0.0; t * b * o];
        for step in 0..t {
            let at = if backwards { t - 1 - step } else { step };
            let floats = |dims: [usize; 2], values: &[f32]| {
                Arg::Floats(dims.map(|n| n as u32).to_vec(), values.to_vec())
            };
            let mut args = vec![floats([b, i], &x[at * b * i..(at + 1) * b * i])];
            args.extend(self.operands.iter().cloned());
            args.extend([floats([b, o], &output), floats([b, u], &cell)]);
            args.extend([Arg::Int(parts.activation), Arg::Float(parts.cell_clip)]);
            args.push(Arg::Float(parts.projection_clip));
            args.extend(self.norms.iter().cloned());
            (cell, output) = lstm(&args, parts, [b, i, u, o]);
            all[at * b * o..(at + 1) * b * o].copy_from_slice(&output);
        }
        [all, output, cell]
    }
}

fn parts_of(rng: &mut TestRng) -> Parts {
    let projection = rng.once_in(2);
    Parts {
        coupled: rng.once_in(3),
        peephole: rng.once_in(2),
        projection,
        projection_bias: projection && rng.once_in(2),
        layer_norm: rng.once_in(2),
        activation: rng.one_of(&[4, 4, 1, 3, 6]),
        cell_clip: rng.one_of(&[0.0, 0.0, 0.3]),
        projection_clip: rng.one_of(&[0.0, 0.2]),
    }
}

#[test]
fn lstm_forwards() {
    for seed in seeds(120) {
        let rng = &mut TestRng::of_seed(seed);
        let parts = parts_of(rng);
        let sizes = Sizes::of(rng, parts.projection);
        let Sizes { t, b, i, o, .. } = sizes;
        let time_major = rng.once_in(2);
        let x = random(rng, &[t, b, i]);
        let direction = Direction::of(rng, parts, sizes);
        let [all, output, cell] = direction.run(parts, sizes, x.floats(), false);
        let mut args = vec![sequence(x.floats(), [t, b, i], time_major)];
        args.extend(direction.operands.iter().cloned());
        args.extend([direction.output.clone(), direction.cell.clone()]);
        args.extend([Arg::Int(parts.activation), Arg::Float(parts.cell_clip)]);
        args.extend([Arg::Float(parts.projection_clip), Arg::Bool(time_major)]);
        args.extend(direction.norms.iter().cloned());
        let got = compute(Op::UnidirectionalSequenceLstm, &args, &[F32; 3], 4000).unwrap();
        let what = format!("seed {seed}, {sizes:?}, {parts:?}, time first: {time_major}");
        let all = if time_major { all } else { turned(&all, t, b, o) };
        assert_near(&got[0].floats(), &all, &what);
        assert_near(&got[1].floats(), &output, &format!("output state, {what}"));
        assert_near(&got[2].floats(), &cell, &format!("cell state, {what}"));
    }
}

#[test]
fn lstm_both_ways() {
    for seed in seeds(80) {
        let rng = &mut TestRng::of_seed(seed);
        let parts = Parts { layer_norm: rng.once_in(3), ..parts_of(rng) };
        let sizes = Sizes::of(rng, parts.projection);
        let Sizes { t, b, i, u, o } = sizes;
        let (time_major, merge) = (rng.once_in(2), rng.once_in(2));
        // No second input; it alone backwards; or both in both directions.
        let link = rng.below(3);
        let (x, aux) = (random(rng, &[t, b, i]), random(rng, &[t, b, i]));
        let directions = [(); 2].map(|()| Direction::of(rng, parts, sizes));
        let linked: Vec<Arg> = (0..8)
            .map(|k| {
                let there = link == 2 && (k % 4 > 0 || !parts.coupled);
                if there { random(rng, &[u, i]) } else { NONE }
            })
            .collect();
        let mut results = Vec::new();
        for (which, direction) in directions.iter().enumerate() {
            let result = if link == 2 {
                // As one input of twice the width.
                let wide = |a: &[f32], b: &[f32]| -> Vec<f32> {
                    let rows = a.chunks(i).zip(b.chunks(i));
                    rows.flat_map(|(a, b)| a.iter().chain(b).copied()).collect()
                };
                let mut operands = direction.operands.clone();
                for k in 0..4 {
                    if let (Arg::Floats(dims, own), Arg::Floats(_, more)) =
                        (&operands[k], &linked[which * 4 + k])
                    {
                        let dims = vec![dims[0], 2 * dims[1]];
                        operands[k] = Arg::Floats(dims, wide(own, more));
                    }
                }
                let (output, cell) = (direction.output.clone(), direction.cell.clone());
                let joined = Direction { operands, output, cell, norms: direction.norms.clone() };
                let x = wide(x.floats(), aux.floats());
                joined.run(parts, Sizes { i: 2 * i, ..sizes }, &x, which == 1)
            } else {
                let own = if link == 1 && which == 1 { &aux } else { &x };
                direction.run(parts, sizes, own.floats(), which == 1)
            };
            results.push(result);
        }
        let mut args = vec![sequence(x.floats(), [t, b, i], time_major)];
        args.extend(directions.iter().flat_map(|d| d.operands.iter().cloned()));
        args.extend(directions.iter().flat_map(|d| [d.output.clone(), d.cell.clone()]));
        args.push(if link == 0 { NONE } else { sequence(aux.floats(), [t, b, i], time_major) });
        args.extend(linked);
        args.extend([Arg::Int(parts.activation), Arg::Float(parts.cell_clip)]);
        args.extend([Arg::Float(parts.projection_clip), Arg::Bool(merge), Arg::Bool(time_major)]);
        args.extend(directions.iter().flat_map(|d| d.norms.iter().cloned()));
        let outs = vec![F32; if merge { 5 } else { 6 }];
        let got = compute(Op::BidirectionalSequenceLstm, &args, &outs, 8000).unwrap();
        let what = format!("seed {seed}, {sizes:?}, {parts:?}, link {link}, merged {merge}");
        check_both(
            &got.iter().map(crate::model::Value::floats).collect::<Vec<_>>(),
            &results,
            [t, b, o],
            time_major,
            merge,
            &what,
        );
    }
}

/// Outputs forwards and backwards, merged or not, then each direction's states.
fn check_both(
    got: &[Vec<f32>],
    results: &[[Vec<f32>; 3]],
    [t, b, o]: [usize; 3],
    time_major: bool,
    merge: bool,
    what: &str,
) {
    let laid_out = |values: &[f32], width: usize| {
        if time_major { values.to_vec() } else { turned(values, t, b, width) }
    };
    let (forwards, backwards) = (&results[0][0], &results[1][0]);
    let states = if merge {
        let rows = forwards.chunks(o).zip(backwards.chunks(o));
        let merged: Vec<f32> = rows.flat_map(|(a, b)| a.iter().chain(b).copied()).collect();
        assert_near(&got[0], &laid_out(&merged, 2 * o), what);
        &got[1..]
    } else {
        assert_near(&got[0], &laid_out(forwards, o), what);
        assert_near(&got[1], &laid_out(backwards, o), what);
        &got[2..]
    };
    for (which, [_, output, cell]) in results.iter().enumerate() {
        assert_near(&states[2 * which], output, &format!("output state {which}, {what}"));
        assert_near(&states[2 * which + 1], cell, &format!("cell state {which}, {what}"));
    }
}

#[test]
fn rnn_forwards_with_every_activation() {
    for seed in seeds(80) {
        let rng = &mut TestRng::of_seed(seed);
        let Sizes { t, b, i, u, .. } = Sizes::of(rng, false);
        let (time_major, code) = (rng.once_in(2), rng.one_of(&[0, 1, 3, 4, 6]));
        let x = random(rng, &[t, b, i]);
        // Small enough to stay finite without an activation.
        let args: Vec<Arg> = [vec![u, i], vec![u, u], vec![u], vec![b, u]]
            .map(|dims| match random(rng, &dims) {
                Arg::Floats(dims, values) => {
                    Arg::Floats(dims, values.iter().map(|x| x / 8.0).collect())
                }
                other => other,
            })
            .to_vec();
        let [w, r, bias, start] = [0, 1, 2, 3].map(|at| args[at].floats());
        let (mut state, mut all) = (start.to_vec(), Vec::new());
        for step in x.floats().chunks(b * i) {
            state = (0..b * u)
                .map(|at| {
                    let (row, unit) = (at / u, at % u);
                    let sum = product(step, w, i, row, unit) + product(&state, r, u, row, unit);
                    activate(code, sum + bias[unit])
                })
                .collect();
            all.extend(&state);
        }
        let mut whole = vec![sequence(x.floats(), [t, b, i], time_major)];
        whole.extend(args.iter().cloned());
        whole.extend([Arg::Int(code), Arg::Int(i32::from(time_major))]);
        let got = compute(Op::UnidirectionalSequenceRnn, &whole, &[F32; 2], 4000).unwrap();
        let all = if time_major { all } else { turned(&all, t, b, u) };
        let what = format!("seed {seed}, activation {code}, time first: {time_major}");
        assert_near(&got[0].floats(), &all, &what);
        assert_near(&got[1].floats(), &state, &what);
    }
}
