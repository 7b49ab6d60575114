//! Recurrent operations: clips, activations, peepholes, projections, layer norms and ranks.

use nnburst_executor::testing::TestRng;
use nnburst_hal::{OperandType, OperationType as Op};

use crate::model::{Arg, F32, assert_near, compute, seeds};

pub(crate) const NONE: Arg = Arg::None(OperandType::TensorFloat32);

pub(crate) fn activate(code: i32, x: f32) -> f32 {
    match code {
        1 => x.max(0.0),
        3 => x.clamp(0.0, 6.0),
        4 => x.tanh(),
        6 => sigmoid(x),
        _ => x,
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Row `row` of `x` (rows of `width`) times row `unit` of `w`.
pub(crate) fn product(x: &[f32], w: &[f32], width: usize, row: usize, unit: usize) -> f32 {
    (0..width).map(|k| x[row * width + k] * w[unit * width + k]).sum()
}

#[test]
fn rnn_with_every_activation() {
    for seed in seeds(60) {
        let rng = &mut TestRng::of_seed(seed);
        let (b, i, u) = (rng.between(1, 3), rng.between(1, 19), rng.between(1, 17));
        let code = rng.one_of(&[0, 1, 3, 4, 6]);
        let args = [
            Arg::random(rng, &[b, i]),
            Arg::random(rng, &[u, i]),
            Arg::random(rng, &[u, u]),
            Arg::random(rng, &[u]),
            Arg::random(rng, &[b, u]),
            Arg::Int(code),
        ];
        let [x, w, r, bias, h] = [0, 1, 2, 3, 4].map(|at| args[at].floats());
        let (i, u) = (i as usize, u as usize);
        let want: Vec<f32> = (0..b as usize * u)
            .map(|at| {
                let (row, unit) = (at / u, at % u);
                let sum = product(x, w, i, row, unit) + product(h, r, u, row, unit) + bias[unit];
                activate(code, sum)
            })
            .collect();
        let got = compute(Op::Rnn, &args, &[F32, F32], 100).unwrap();
        assert_near(&got[0].floats(), &want, &format!("seed {seed}, activation {code}"));
        assert_eq!(got[0], got[1]);
    }
}

#[test]
fn svdf_of_any_rank_with_activations() {
    for seed in seeds(60) {
        let rng = &mut TestRng::of_seed(seed);
        let (b, i) = (rng.between(1, 3), rng.between(1, 9));
        let (units, rank, memory) = (rng.between(1, 5), rng.between(1, 3), rng.between(1, 7));
        let features = units * rank;
        let code = rng.one_of(&[0, 1, 3, 4, 6]);
        let bias = if rng.once_in(3) { NONE } else { Arg::random(rng, &[units]) };
        let args = [
            Arg::random(rng, &[b, i]),
            Arg::random(rng, &[features, i]),
            Arg::random(rng, &[features, memory]),
            bias,
            Arg::random(rng, &[b, memory * features]),
            Arg::Int(rank.cast_signed()),
            Arg::Int(code),
        ];
        let [x, fw, tw, bias, state] = [0, 1, 2, 3, 4].map(|at| args[at].floats());
        let [b, i, units, rank, memory, features] =
            [b, i, units, rank, memory, features].map(|n| n as usize);
        let (mut states, mut outputs) = (Vec::new(), Vec::new());
        for row in 0..b {
            let mut s = state[row * memory * features..][..memory * features].to_vec();
            for f in 0..features {
                s[f * memory + memory - 1] = product(x, fw, i, row, f);
            }
            for unit in 0..units {
                let mut sum = bias.get(unit).copied().unwrap_or(0.0);
                for f in unit * rank..(unit + 1) * rank {
                    sum += product(&s, tw, memory, f, f);
                }
                outputs.push(activate(code, sum));
            }
            for f in 0..features {
                states.extend_from_slice(&s[f * memory + 1..(f + 1) * memory]);
                states.push(0.0);
            }
        }
        let got = compute(Op::Svdf, &args, &[F32, F32], 400).unwrap();
        assert_near(&got[0].floats(), &states, &format!("state, seed {seed}"));
        assert_near(&got[1].floats(), &outputs, &format!("output, seed {seed}"));
    }
}

/// What an LSTM has or hasn't.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) coupled: bool,
    pub(crate) peephole: bool,
    pub(crate) projection: bool,
    pub(crate) projection_bias: bool,
    pub(crate) layer_norm: bool,
    pub(crate) activation: i32,
    pub(crate) cell_clip: f32,
    pub(crate) projection_clip: f32,
}

#[test]
fn lstm_with_every_part() {
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let projection = rng.once_in(2);
        let parts = Parts {
            coupled: rng.once_in(3),
            peephole: rng.once_in(2),
            projection,
            projection_bias: projection && rng.once_in(2),
            layer_norm: rng.once_in(2),
            activation: rng.one_of(&[0, 1, 3, 4, 6]),
            cell_clip: rng.one_of(&[0.0, 0.0, 0.3, 0.05]),
            projection_clip: rng.one_of(&[0.0, 0.2, 0.05]),
        };
        let (b, i, u) = (rng.between(1, 3), rng.between(1, 6), rng.between(2, 9));
        let o = if projection { rng.between(1, 5) } else { u };
        let mut some = |there: bool, dims: &[u32]| {
            if there { Arg::random(rng, dims) } else { NONE }
        };
        let input_gate = !parts.coupled;
        let mut args = vec![some(true, &[b, i])];
        args.extend((0..4).map(|k| some(k > 0 || input_gate, &[u, i])));
        args.extend((0..4).map(|k| some(k > 0 || input_gate, &[u, o])));
        args.extend((0..3).map(|k| some(parts.peephole && (k > 0 || input_gate), &[u])));
        args.extend((0..4).map(|k| some(k > 0 || input_gate, &[u])));
        args.push(some(projection, &[o, u]));
        args.push(some(parts.projection_bias, &[o]));
        args.push(some(true, &[b, o]));
        args.push(some(true, &[b, u]));
        args.extend([Arg::Int(parts.activation), Arg::Float(parts.cell_clip)]);
        args.push(Arg::Float(parts.projection_clip));
        if parts.layer_norm {
            args.extend((0..4).map(|k| some(k > 0 || input_gate, &[u])));
        }
        let want = lstm(&args, parts, [b, i, u, o].map(|n| n as usize));
        let got = compute(Op::Lstm, &args, &[F32; 4], 200).unwrap();
        let what = format!("seed {seed}, {parts:?}");
        assert_near(&got[2].floats(), &want.0, &format!("cell state, {what}"));
        assert_near(&got[3].floats(), &want.1, &format!("output, {what}"));
        assert_eq!(got[1].bytes, got[3].bytes, "the output state is the output, {what}");
    }
}

/// One step, as the interface defines it: cell state and output.
pub(crate) fn lstm(args: &[Arg], parts: Parts, [b, i, u, o]: [usize; 4]) -> (Vec<f32>, Vec<f32>) {
    let of = |at: usize| args[at].floats();
    let (mut cells, mut outputs) = (Vec::new(), Vec::new());
    for row in 0..b {
        let before = &of(19)[row * u..(row + 1) * u];
        // Gates in the order input, forget, cell, output.
        let gate = |k: usize, cell: &[f32]| -> Vec<f32> {
            let peephole = [9, 10, usize::MAX, 11][k];
            let mut z: Vec<f32> = (0..u)
                .map(|unit| {
                    let mut z = product(of(0), of(1 + k), i, row, unit)
                        + product(of(18), of(5 + k), o, row, unit);
                    if parts.peephole && k != 2 {
                        z += cell[unit] * of(peephole)[unit];
                    }
                    z + if parts.layer_norm { 0.0 } else { of(12 + k)[unit] }
                })
                .collect();
            if parts.layer_norm {
                let mean = z.iter().sum::<f32>() / u as f32;
                let variance = z.iter().map(|z| (z - mean).powi(2)).sum::<f32>() / u as f32;
                for (unit, z) in z.iter_mut().enumerate() {
                    let normal = (*z - mean) / (variance + 1e-8).sqrt();
                    *z = normal * of(23 + k)[unit] + of(12 + k)[unit];
                }
            }
            let code = if k == 2 { parts.activation } else { 6 };
            z.into_iter().map(|z| activate(code, z)).collect()
        };
        let f = gate(1, before);
        let input =
            if parts.coupled { f.iter().map(|f| 1.0 - f).collect() } else { gate(0, before) };
        let g = gate(2, before);
        let clip = |x: f32, limit: f32| if limit > 0.0 { x.clamp(-limit, limit) } else { x };
        let after: Vec<f32> = (0..u)
            .map(|unit| clip(f[unit] * before[unit] + input[unit] * g[unit], parts.cell_clip))
            .collect();
        let out = gate(3, &after);
        let m: Vec<f32> =
            (0..u).map(|unit| out[unit] * activate(parts.activation, after[unit])).collect();
        if parts.projection {
            for at in 0..o {
                let bias = of(17).get(at).copied().unwrap_or(0.0);
                let sum = product(&m, of(16), u, 0, at) + bias;
                outputs.push(clip(sum, parts.projection_clip));
            }
        } else {
            outputs.extend(m);
        }
        cells.extend(after);
    }
    (cells, outputs)
}
