//! The parts of recurrent cells: products with weight rows, and activations.

use nnburst_kernels::kernels::transcendental_f32::{Function, Map};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{OpError, poll};

/// Activations of recurrent operations; their codes differ from those of fused activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    None,
    Relu,
    Relu6,
    Tanh,
    Sigmoid,
}

impl Activation {
    pub(super) fn from_code(input: usize, code: i32) -> Result<Self, OpError> {
        Ok(match code {
            0 => Self::None,
            1 => Self::Relu,
            3 => Self::Relu6,
            4 => Self::Tanh,
            6 => Self::Sigmoid,
            _ => return Err(OpError::input(input, format!("{code} is no recurrent activation"))),
        })
    }
}

/// The functions of a cell, in the forms that the machine has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Functions {
    activation: Activation,
    sigmoid: Map,
    tanh: Map,
}

impl Functions {
    pub(super) fn new(isa: Isa, activation: Activation) -> Self {
        let map = |function| Map::new(isa, function);
        Self { activation, sigmoid: map(Function::Sigmoid), tanh: map(Function::Tanh) }
    }

    /// The cell's activation of each value.
    pub(super) fn activate(&self, values: &mut [f32]) {
        match self.activation {
            Activation::None => {}
            Activation::Relu => values.iter_mut().for_each(|value| *value = value.max(0.0)),
            Activation::Relu6 => values.iter_mut().for_each(|value| *value = value.clamp(0.0, 6.0)),
            Activation::Tanh => apply(self.tanh, values),
            Activation::Sigmoid => apply(self.sigmoid, values),
        }
    }

    /// The logistic function of each value.
    pub(super) fn sigmoid(&self, values: &mut [f32]) {
        apply(self.sigmoid, values);
    }
}

fn apply(function: Map, values: &mut [f32]) {
    for chunk in values.chunks_mut(poll::CHUNK) {
        if poll::work(chunk.len() * 8).is_err() {
            return;
        }
        function.apply(chunk);
    }
}

/// Adds `x W^T`: `weights` is `[rows, x.len()]`, `sums` is `[rows]`.
pub(super) fn add_products(weights: &[f32], x: &[f32], sums: &mut [f32]) {
    if x.is_empty() {
        return;
    }
    for (row, sum) in poll::each(weights.chunks_exact(x.len()).zip(sums), 16) {
        *sum += dot(row, x);
    }
}

/// The same for a batch: `xs` is `[batch, columns]`, `sums` is `[batch, rows]`.
pub(super) fn add_batch_products(
    weights: &[f32],
    xs: &[f32],
    columns: usize,
    sums: &mut [f32],
    rows: usize,
) {
    if columns == 0 || rows == 0 {
        return;
    }
    for (x, sums) in xs.chunks_exact(columns).zip(sums.chunks_exact_mut(rows)) {
        add_products(weights, x, sums);
    }
}

/// Sums in sixteen lanes, so that the compiler can use vectors; the order is the same everywhere.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_tail) = a.as_chunks::<16>();
    let (b_chunks, b_tail) = b.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    for (a_chunks, b_chunks) in
        a_chunks.chunks(poll::CHUNK / 16).zip(b_chunks.chunks(poll::CHUNK / 16))
    {
        if poll::work(a_chunks.len() * 8).is_err() {
            return 0.0;
        }
        for (a, b) in a_chunks.iter().zip(b_chunks) {
            for lane in 0..16 {
                lanes[lane] += a[lane] * b[lane];
            }
        }
    }
    let tail: f32 = a_tail.iter().zip(b_tail).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_product_has_every_tail() {
        for len in (0u16..=35).chain([64]) {
            let a: Vec<f32> = (0..len).map(f32::from).collect();
            let want: f32 = a.iter().map(|x| x * 2.0).sum();
            assert_eq!(dot(&a, &vec![2.0; usize::from(len)]), want, "{len} elements");
        }
    }

    #[test]
    fn only_five_activations_are_known() {
        for (code, known) in [(0, true), (1, true), (2, false), (3, true), (5, false), (6, true)] {
            assert_eq!(Activation::from_code(5, code).is_ok(), known, "code {code}");
        }
    }
}
