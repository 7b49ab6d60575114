//! The two quantised LSTMs, to the last bit: clips, peepholes, hidden zero points, with and without
//! normalisation.

use nnburst_executor::testing::TestRng;
use nnburst_hal::{Operand, OperandLifeTime, OperandType as T, OperationType as Op};

use crate::arithmetic::{Format, fixed, halved, high_product_16, inverse_root};
use crate::model::{Arg, Out, Value, compute_all, seeds};

const NARROW: Format = Format(16);

fn sat16(x: i64) -> i64 {
    x.clamp(-32768, 32767)
}

/// A quantised tensor and its stored values.
struct Stored {
    arg: Arg,
    q: Vec<i64>,
    scale: f32,
}

/// Left out; what is left out has a scale all the same.
fn none(kind: T) -> Stored {
    let scale = if kind == T::TensorInt32 { 0.0 } else { 1.0 };
    let operand = Operand::tensor(kind, Vec::new()).with_quantization(scale, 0);
    let arg = Arg::Other(operand.with_lifetime(OperandLifeTime::NoValue), Vec::new());
    Stored { arg, q: Vec::new(), scale }
}

fn stored(rng: &mut TestRng, kind: T, dims: &[usize], scale: f32, zero_point: i32) -> Stored {
    let count: usize = dims.iter().product();
    let mut bytes = Vec::new();
    let q: Vec<i64> = (0..count)
        .map(|_| {
            let any = rng.between(0, 0xffff);
            match kind {
                T::TensorInt32 => {
                    let value = any.cast_signed() - 0x8000;
                    bytes.extend(value.to_le_bytes());
                    value.into()
                }
                T::TensorQuant16Symm => {
                    let value = (any as u16).cast_signed() / 4;
                    bytes.extend(value.to_le_bytes());
                    value.into()
                }
                T::TensorQuant8Asymm => {
                    bytes.push(any as u8);
                    (any as u8).into()
                }
                _ => {
                    bytes.push(any as u8);
                    (any as u8).cast_signed().into()
                }
            }
        })
        .collect();
    let dims = dims.iter().map(|&n| n as u32).collect();
    let operand = Operand::tensor(kind, dims).with_quantization(scale, zero_point);
    Stored { arg: Arg::Other(operand, bytes), q, scale }
}

fn shorts(value: &Value) -> Vec<i64> {
    value.bytes.chunks_exact(2).map(|x| i16::from_le_bytes(x.try_into().unwrap()).into()).collect()
}

fn bytes(value: &Value) -> Vec<i64> {
    value.bytes.iter().map(|&byte| byte.cast_signed().into()).collect()
}

/// One row of a matrix times one of another, the first less its zero point.
fn dot(x: &[i64], zero_point: i64, w: &[i64]) -> i64 {
    x.iter().zip(w).map(|(x, w)| (x - zero_point) * w).sum()
}

/// Gates are in the order input, forget, cell, output.
struct Lstm {
    batches: usize,
    inputs: usize,
    units: usize,
    outputs: usize,
    coupled: bool,
    x: Stored,
    x_zero: i32,
    to_gate: Vec<Stored>,
    back: Vec<Stored>,
    peephole: Vec<Stored>,
    bias: Vec<Stored>,
    projection: Option<(Stored, Stored)>,
    state: Stored,
    state_zero: i32,
    cell: Stored,
    /// The cell's scale is two to this.
    power: i32,
    norm: Vec<Stored>,
    cell_clip: f32,
    projection_clip: f32,
    between: [f32; 4],
    hidden_zero: i32,
    hidden_scale: f32,
}

impl Lstm {
    fn of(rng: &mut TestRng) -> Self {
        let mut upto = |low: u32, high: u32| rng.between(low, high) as usize;
        let [batches, inputs, units] = [upto(1, 3), upto(1, 20), upto(2, 18)];
        let projects = rng.once_in(2);
        let outputs = if projects { rng.between(1, 17) as usize } else { units };
        let coupled = rng.once_in(3);
        let (peeps, norms) = (rng.once_in(2), rng.once_in(2));
        let power = rng.one_of(&[-9, -11, -12, -15]);
        let (x_zero, state_zero) =
            (rng.one_of(&[0, -128, 127, 5]), rng.one_of(&[0, -128, 127, -3]));
        let weight = 0.007_8f32;
        let is_there = |k: usize| k > 0 || !coupled;
        let mut gates = |kind: T, there: &dyn Fn(usize) -> bool, dims: &[usize], scale: f32| {
            (0..4)
                .map(|k| if there(k) { stored(rng, kind, dims, scale, 0) } else { none(kind) })
                .collect::<Vec<_>>()
        };
        let to_gate = gates(T::TensorQuant8Symm, &is_there, &[units, inputs], weight);
        let back = gates(T::TensorQuant8Symm, &is_there, &[units, outputs], weight * 0.5);
        let peephole =
            gates(T::TensorQuant16Symm, &|k| peeps && k != 2 && is_there(k), &[units], 0.000_03);
        let bias = gates(T::TensorInt32, &is_there, &[units], 0.0);
        let norm = gates(T::TensorQuant16Symm, &|k| norms && is_there(k), &[units], 0.000_06);
        let x = stored(rng, T::TensorQuant8AsymmSigned, &[batches, inputs], 0.0078, x_zero);
        let state =
            stored(rng, T::TensorQuant8AsymmSigned, &[batches, outputs], 0.0061, state_zero);
        let cell = stored(rng, T::TensorQuant16Symm, &[batches, units], 2f32.powi(power), 0);
        let projection = projects.then(|| {
            let weights = stored(rng, T::TensorQuant8Symm, &[outputs, units], 0.0035, 0);
            let has_bias = rng.once_in(2);
            let bias = if has_bias {
                stored(rng, T::TensorInt32, &[outputs], 0.0035 * 0.007, 0)
            } else {
                none(T::TensorInt32)
            };
            (weights, bias)
        });
        Self {
            batches,
            inputs,
            units,
            outputs,
            coupled,
            x,
            x_zero,
            to_gate,
            back,
            peephole,
            bias,
            projection,
            state,
            state_zero,
            cell,
            power,
            norm,
            cell_clip: rng.one_of(&[0.0, 0.0, 1.5, 0.25]),
            projection_clip: rng.one_of(&[0.0, 0.0, 0.2, 0.05]),
            between: [0.004, 0.008, 0.002, 0.006],
            hidden_zero: rng.one_of(&[0, 3, -7]),
            hidden_scale: 0.007,
        }
    }

    /// A gate's value before its activation, of all units of a row.
    fn gate(&self, k: usize, row: usize, cell: &[i64]) -> Vec<i64> {
        let x = &self.x.q[row * self.inputs..][..self.inputs];
        let h = &self.state.q[row * self.outputs..][..self.outputs];
        let scaled = |a: f32, b: f32| fixed(f64::from(a * b / self.between[k]));
        let normed = !self.norm[k].q.is_empty();
        let mut values: Vec<i64> = (0..self.units)
            .map(|unit| {
                let own = &self.to_gate[k].q[unit * self.inputs..][..self.inputs];
                let back = &self.back[k].q[unit * self.outputs..][..self.outputs];
                let bias = if normed { 0 } else { self.bias[k].q[unit] };
                let part = dot(x, self.x_zero.into(), own) + bias;
                let mut a = sat16(scaled(self.to_gate[k].scale, self.x.scale).times(part));
                let part = dot(h, self.state_zero.into(), back);
                a = sat16(a + scaled(self.back[k].scale, self.state.scale).times(part));
                if let Some(w) = self.peephole[k].q.get(unit) {
                    let multiplier = scaled(2f32.powi(self.power), self.peephole[k].scale);
                    a = sat16(a + multiplier.times(w * cell[unit]));
                }
                a
            })
            .collect();
        if normed {
            self.normalise(k, &mut values);
        }
        values
    }

    fn normalise(&self, k: usize, values: &mut [i64]) {
        let n = values.len() as i64;
        let mean = values.iter().sum::<i64>() * 1024 / n;
        let squares: i64 = values.iter().map(|v| v * v).sum();
        let mut variance = (squares * ((1 << 20) / n) - mean * mean) / (1 << 20);
        if variance < 1 {
            variance = 1.min((10_000.0 * self.norm[k].scale) as i64);
        }
        let (fraction, shift) = inverse_root(variance);
        let root = crate::arithmetic::Fixed::of(fraction, shift);
        let (fraction, shift) = fixed(f64::from(self.norm[k].scale)).parts();
        let weight = crate::arithmetic::Fixed::of(fraction, shift + 12);
        for (unit, v) in values.iter_mut().enumerate() {
            let r = root.times(1024 * *v - mean);
            let p = r * self.norm[k].q[unit] + self.bias[k].q[unit];
            let q = (if p > 0 { p + 512 } else { p - 512 }) / 1024;
            *v = sat16(weight.times(q));
        }
    }

    /// Cell states and outputs.
    fn run(&self) -> (Vec<i64>, Vec<i64>) {
        let (mut cells, mut outputs) = (Vec::new(), Vec::new());
        for row in 0..self.batches {
            let before = &self.cell.q[row * self.units..][..self.units];
            let smooth = |values: Vec<i64>| -> Vec<i64> {
                values.into_iter().map(|a| NARROW.logistic(a, 3)).collect()
            };
            let f = smooth(self.gate(1, row, before));
            let i = if self.coupled {
                f.iter().map(|f| 32767 - f).collect()
            } else {
                smooth(self.gate(0, row, before))
            };
            let g: Vec<i64> =
                self.gate(2, row, before).into_iter().map(|a| NARROW.tanh(a, 3)).collect();
            let clip = sat16((self.cell_clip / self.cell.scale) as i64);
            let after: Vec<i64> = (0..self.units)
                .map(|u| {
                    let c = halved(f[u] * before[u], 15) + halved(i[u] * g[u], 30 + self.power);
                    if clip > 0 { sat16(c).clamp(-clip, clip) } else { sat16(c) }
                })
                .collect();
            let o = smooth(self.gate(3, row, &after));
            let hidden = fixed(f64::from(2f32.powi(-30) / self.hidden_scale));
            let m: Vec<i64> = (0..self.units)
                .map(|u| {
                    let t = NARROW.tanh(after[u], self.power + 15);
                    (hidden.times(o[u] * t) - i64::from(self.hidden_zero)).clamp(-128, 127)
                })
                .collect();
            cells.extend(after);
            let Some((weights, bias)) = &self.projection else {
                outputs.extend(m);
                continue;
            };
            let multiplier = fixed(f64::from(weights.scale * self.hidden_scale / self.state.scale));
            let clip = ((self.projection_clip / weights.scale) as i64).clamp(-128, 127);
            for at in 0..self.outputs {
                let w = &weights.q[at * self.units..][..self.units];
                let mut sum = dot(&m, 0, w);
                if let Some(bias) = bias.q.get(at) {
                    sum += bias + i64::from(self.hidden_zero) * w.iter().sum::<i64>();
                }
                let y = multiplier.times(sum) + i64::from(self.state_zero);
                let y = y.clamp(-128, 127);
                outputs.push(if clip > 0 { y.clamp(-clip, clip) } else { y });
            }
        }
        (cells, outputs)
    }

    fn args(&self) -> Vec<Arg> {
        let mut args = vec![self.x.arg.clone()];
        let of = |stored: &Stored| stored.arg.clone();
        args.extend(self.to_gate.iter().chain(&self.back).map(of));
        args.extend([0, 1, 3].map(|k: usize| of(&self.peephole[k])));
        args.extend(self.bias.iter().map(of));
        match &self.projection {
            Some((weights, bias)) => args.extend([of(weights), of(bias)]),
            None => args.extend([T::TensorQuant8Symm, T::TensorInt32].map(|kind| none(kind).arg)),
        }
        args.extend([of(&self.state), of(&self.cell)]);
        args.extend(self.norm.iter().map(of));
        args.extend([self.cell_clip, self.projection_clip].map(Arg::Float));
        args.extend(self.between.map(Arg::Float));
        args.extend([Arg::Int(self.hidden_zero), Arg::Float(self.hidden_scale)]);
        args
    }
}

#[test]
fn quantised_lstm_with_every_part() {
    for seed in seeds(200) {
        let lstm = Lstm::of(&mut TestRng::of_seed(seed));
        let (cells, outputs) = lstm.run();
        let state = Out(T::TensorQuant8AsymmSigned, lstm.state.scale, lstm.state_zero);
        let outs = [state, Out(T::TensorQuant16Symm, lstm.cell.scale, 0), state];
        compute_all(Op::QuantizedLstm, &lstm.args(), &outs, 100, |what, got| {
            let what = format!(
                "{what}, seed {seed}: projection {}, normalised {}, peephole {}, coupled {}, clips {} {}",
                lstm.projection.is_some(),
                !lstm.norm[1].q.is_empty(),
                !lstm.peephole[1].q.is_empty(),
                lstm.coupled,
                lstm.cell_clip,
                lstm.projection_clip
            );
            assert_eq!(shorts(&got[1]), cells, "cells, {what}");
            assert_eq!(bytes(&got[2]), outputs, "outputs, {what}");
            assert_eq!(got[0], got[2], "the output state is the output, {what}");
        });
    }
}

/// Each row of weights is first the recurrent ones, then the input's; what it meets is the input
/// first.
#[test]
fn lstm_of_16_bits() {
    for seed in seeds(120) {
        let rng = &mut TestRng::of_seed(seed);
        let (b, i, o) =
            (rng.between(1, 3) as usize, rng.between(1, 20) as usize, rng.between(1, 18) as usize);
        let (scale, zero) = (rng.one_of(&[0.006f32, 0.003]), rng.one_of(&[128, 0, 255, 100]));
        let mut tensor =
            |kind: T, dims: &[usize], scale: f32, zp: i32| stored(rng, kind, dims, scale, zp);
        let x = tensor(T::TensorQuant8Asymm, &[b, i], 1.0 / 128.0, 128);
        let own: Vec<_> =
            (0..4).map(|_| tensor(T::TensorQuant8Asymm, &[o, i], scale, zero)).collect();
        let back: Vec<_> =
            (0..4).map(|_| tensor(T::TensorQuant8Asymm, &[o, o], scale, zero)).collect();
        let bias: Vec<_> = (0..4).map(|_| tensor(T::TensorInt32, &[o], scale / 128.0, 0)).collect();
        let cell = tensor(T::TensorQuant16Symm, &[b, o], 2f32.powi(-11), 0);
        let state = tensor(T::TensorQuant8Asymm, &[b, o], 1.0 / 128.0, 128);
        let multiplier = fixed(f64::from(4096.0 * bias[0].scale));
        let (mut cells, mut outputs) = (Vec::new(), Vec::new());
        for row in 0..b {
            let met: Vec<i64> = x.q[row * i..][..i]
                .iter()
                .chain(&state.q[row * o..][..o])
                .map(|q| q - 128)
                .collect();
            let gate = |k: usize, unit: usize| {
                let weights = back[k].q[unit * o..][..o].iter().chain(&own[k].q[unit * i..][..i]);
                let sum: i64 =
                    met.iter().zip(weights).map(|(x, w)| x * (w - i64::from(zero))).sum();
                sat16(multiplier.times(sum + bias[k].q[unit]))
            };
            for unit in 0..o {
                let [input, forget, out] = [0, 1, 3].map(|k| NARROW.logistic(gate(k, unit), 3));
                let new = NARROW.tanh(gate(2, unit), 3);
                let kept = high_product_16(forget, cell.q[row * o + unit]);
                let c = sat16(halved(high_product_16(input, new), 4) + kept);
                cells.push(c);
                let t = NARROW.tanh(NARROW.rescaled(c, 4, 3), 3);
                outputs.push(128 + halved(high_product_16(out, t), 8).clamp(-128, 127));
            }
        }
        let mut args = vec![x.arg];
        args.extend(
            [&own, &back, &bias].iter().flat_map(|four| four.iter().map(|s| s.arg.clone())),
        );
        args.extend([cell.arg, state.arg]);
        let outs = [
            Out(T::TensorQuant16Symm, 2f32.powi(-11), 0),
            Out(T::TensorQuant8Asymm, 1.0 / 128.0, 128),
        ];
        compute_all(Op::Quantized16bitLstm, &args, &outs, 100, |what, got| {
            assert_eq!(shorts(&got[0]), cells, "cells, {what}, seed {seed}");
            let got: Vec<i64> = got[1].bytes.iter().map(|&byte| byte.into()).collect();
            assert_eq!(got, outputs, "outputs, {what}, seed {seed}");
        });
    }
}
