//! Every variant against its kernels one by one, bit by bit, and against the definition.

use super::*;
use crate::simd::Isa;
use crate::tensor::In;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at + seed) * 7919 % 1009) as f32 / 400.0 - 1.2).collect()
}

/// Lines of a matrix `gap` elements further apart than they are long.
fn spread(lines: &[f32], len: usize, gap: usize) -> Vec<f32> {
    lines.chunks(len).flat_map(|line| line.iter().copied().chain((0..gap).map(|_| 7.0))).collect()
}

fn transposed(of: &[f32], len: usize) -> Vec<f32> {
    let lines = of.len() / len;
    (0..of.len()).map(|at| of[at % lines * len + at / lines]).collect()
}

fn matrix(all: &[f32], stride: usize) -> Matrix<'_> {
    Matrix { all: In::of(all), stride }
}

struct Case {
    extents: Extents,
    gap: usize,
    layouts: [Layout; 3],
}

/// The attention of a case, in each of the two ways: queries by what a number is more than the
/// keys, times a factor, with a mask for each row, of which the tangent, with a mask for all.
fn computed(isa: Isa, case: &Case, of: &Inputs) -> Vec<f32> {
    let &Case { extents, gap, layouts } = case;
    let Extents { rows, depth, columns, width } = extents;
    let binary = |arithmetic, is_second| Term::Binary { arithmetic, is_second };
    let terms = [
        binary(Arithmetic::Mul, false),
        binary(Arithmetic::Add, true),
        Term::Map(Function::Tanh),
        binary(Arithmetic::Sub, false),
    ];
    let of_keys = Some(binary(Arithmetic::Sub, true));
    let attention = Attention::new(isa, extents, layouts, of_keys, &terms, 0.75).unwrap();
    let lie = |of: &[f32], row: usize, count: usize, layout: Layout| match layout {
        Layout::RowMajor => (spread(of, row, gap), row + gap),
        Layout::ColumnMajor => (spread(&transposed(of, row), count, gap), count + gap),
    };
    let (queries, queries_stride) = lie(&of.queries, depth, rows, layouts[0]);
    let (keys, keys_stride) = lie(&transposed(&of.keys, depth), columns, depth, layouts[1]);
    let (values, values_stride) = lie(&of.values, width, columns, layouts[2]);
    let (keys, values) = (matrix(&keys, keys_stride), matrix(&values, values_stride));
    let memory = KeyValues { keys, number: In::of(&of.number), values };
    let pitch = width + gap;
    let mut output = vec![9.0; 3 * rows * pitch];
    let all = Out::of(&mut output);
    let from = |head: usize, first: usize| {
        let along = if layouts[0] == Layout::RowMajor { queries_stride } else { 1 };
        let each = In::of(&of.bias).slice(first * columns..rows * columns);
        let mut terms = Attention::NO_TERMS;
        terms[0].all = In::of(&of.factor);
        terms[1] = Operand { all: each, step: 1, stride: columns };
        terms[3] = Operand { all: In::of(&of.mask), step: 1, stride: 0 };
        let queries = matrix(&queries[first * along..], queries_stride);
        let output = all.slice((head * rows + first) * pitch..all.len());
        Rows { queries, terms, output, stride: pitch }
    };
    // By blocks of rows with packed memory, and two heads at once that share theirs.
    let mut packed = vec![f32::NAN; attention.packed_len()];
    attention.pack(memory, &mut packed).unwrap();
    let mut scratch = vec![f32::NAN; attention.scratch_len(queries_stride)];
    for first in (0..rows).step_by(attention.block_rows()) {
        let count = attention.block_rows().min(rows - first);
        attention.compute(from(0, first), count, &packed, &mut scratch).unwrap();
    }
    let mut scratch = vec![f32::NAN; attention.heads_scratch_len(2, queries_stride)];
    let head = |head: usize| from(1 + head, 0);
    attention.compute_heads(memory, 2, head, &mut scratch).unwrap();
    let lines = output.chunks(pitch);
    assert!(lines.clone().all(|line| line[width..].iter().all(|&y| y == 9.0)), "{isa:?}");
    let got: Vec<f32> = lines.flat_map(|line| line[..width].to_vec()).collect();
    let bits: Vec<u32> = got.iter().map(|y| y.to_bits()).collect();
    let mut each = bits.chunks(rows * width);
    let first = each.next().unwrap();
    assert!(each.all(|other| other == first), "{isa:?}, {extents:?}, {layouts:?}: at once");
    got[..rows * width].to_vec()
}

struct Inputs {
    queries: Vec<f32>,
    /// What the keys are taken off.
    number: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    factor: Vec<f32>,
    bias: Vec<f32>,
    mask: Vec<f32>,
}

impl Inputs {
    fn of(Extents { rows, depth, columns, width }: Extents) -> Self {
        Self {
            queries: numbers(rows * depth, 1),
            number: vec![0.375],
            keys: numbers(columns * depth, 2),
            values: numbers(columns * width, 3),
            factor: vec![0.25],
            bias: numbers(rows * columns, 4),
            mask: numbers(columns, 5),
        }
    }

    /// By the kernels one after the other, for all rows.
    fn one_by_one(&self, isa: Isa, Extents { rows, depth, columns, width }: Extents) -> Vec<f32> {
        let product = |extents: [usize; 3], left: &[f32], right: &[f32], layout| {
            let product = MatrixProduct::new(isa, extents, Layout::RowMajor, layout).unwrap();
            let mut to = vec![0.0; extents[0] * extents[2]];
            let mut scratch = vec![0.0; product.scratch_len()];
            let (left, right) = (In::of(left), In::of(right));
            product.compute(left, right, Out::of(&mut to), &mut scratch).unwrap();
            to
        };
        let keys: Vec<f32> = self.keys.iter().map(|key| self.number[0] - key).collect();
        let mut scores = product([rows, depth, columns], &self.queries, &keys, Layout::ColumnMajor);
        for (at, score) in scores.iter_mut().enumerate() {
            *score = self.bias[at] + *score * self.factor[0];
        }
        Map::new(isa, Function::Tanh).apply(&mut scores);
        scores.iter_mut().enumerate().for_each(|(at, score)| *score -= self.mask[at % columns]);
        let softmax = Softmax::new(isa, columns, 0.75).unwrap();
        let mut shares = vec![0.0; scores.len()];
        softmax.compute(In::of(&scores), Out::of(&mut shares)).unwrap();
        product([rows, columns, width], &shares, &self.values, Layout::RowMajor)
    }

    /// By the definition, in double precision.
    fn defined(&self, Extents { rows, depth, columns, width }: Extents) -> Vec<f64> {
        let taken = |key: f32| f64::from(self.number[0]) - f64::from(key);
        let mut to = Vec::new();
        for row in 0..rows {
            let exps: Vec<f64> = (0..columns)
                .map(|column| {
                    let [query, key] = [(row, &self.queries), (column, &self.keys)]
                        .map(|(at, of)| &of[at * depth..(at + 1) * depth]);
                    let score: f64 =
                        query.iter().zip(key).map(|(&q, &k)| f64::from(q) * taken(k)).sum();
                    let bias = f64::from(self.bias[row * columns + column]);
                    let score = (bias + score * f64::from(self.factor[0])).tanh();
                    ((score - f64::from(self.mask[column])) * 0.75).exp()
                })
                .collect();
            let sum: f64 = exps.iter().sum();
            to.extend((0..width).map(|at| {
                let value = |column: usize| f64::from(self.values[column * width + at]);
                exps.iter().enumerate().map(|(column, exp)| exp / sum * value(column)).sum::<f64>()
            }));
        }
        to
    }
}

#[test]
fn every_variant_gives_the_bits_of_its_kernels_however_matrices_lie() {
    use Layout::{ColumnMajor, RowMajor};
    let far = if cfg!(miri) { [3, 2, 9, 3] } else { [30, 20, 1024, 24] };
    for [rows, depth, columns, width] in
        [[1, 1, 1, 1], [5, 3, 7, 2], [13, 20, 35, 20], [100, 8, 200, 33], [70, 64, 96, 8], far]
    {
        let extents = Extents { rows, depth, columns, width };
        let inputs = Inputs::of(extents);
        let defined = inputs.defined(extents);
        for isa in Isa::all() {
            let want = inputs.one_by_one(isa, extents);
            for (got, want) in want.iter().zip(&defined) {
                assert!((f64::from(*got) - want).abs() <= 1e-5, "{isa:?}: {got} for {want}");
            }
            for (gap, layouts) in [
                (0, [RowMajor, ColumnMajor, RowMajor]),
                (3, [RowMajor, ColumnMajor, RowMajor]),
                (1024 - depth % 1024, [RowMajor, RowMajor, ColumnMajor]),
                (5, [ColumnMajor, RowMajor, RowMajor]),
            ] {
                let got = computed(isa, &Case { extents, gap, layouts }, &inputs);
                let same = got.iter().zip(&want).all(|(got, want)| got.to_bits() == want.to_bits());
                assert!(same, "{isa:?}, {extents:?}, {layouts:?}, {gap} between lines");
            }
        }
    }
}

#[test]
fn extents_and_lengths_are_checked() {
    let extents = Extents { rows: 4, depth: 3, columns: 5, width: 2 };
    let layouts = [Layout::RowMajor, Layout::ColumnMajor, Layout::RowMajor];
    let of_keys = Some(Term::Binary { arithmetic: Arithmetic::Mul, is_second: false });
    let new = |extents| Attention::new(Isa::best(), extents, layouts, of_keys, &[], 1.0);
    assert!(new(Extents { columns: 0, ..extents }).is_none());
    assert!(new(Extents { columns: Softmax::MOST + 1, ..extents }).is_none());
    let attention = new(extents).unwrap();
    let (keys, values) = (numbers(15, 0), numbers(10, 0));
    let mut packed = vec![0.0; attention.packed_len()];
    let number = In::of(&[1.0]);
    let all = KeyValues { keys: matrix(&keys, 3), number, values: matrix(&values, 2) };
    for wrong in [
        KeyValues { keys: matrix(&keys[1..], 3), ..all },
        KeyValues { values: matrix(&values, 3), ..all },
        KeyValues { number: In::of(&[]), ..all },
    ] {
        assert!(attention.pack(wrong, &mut packed).is_err());
    }
    assert!(attention.pack(all, &mut packed[1..]).is_err());
    attention.pack(all, &mut packed).unwrap();
    let mut scratch = vec![0.0; attention.scratch_len(3)];
    let mut run = |queries: usize, output: usize, stride: usize, count: usize| {
        let (queries, mut output) = (numbers(queries, 0), vec![0.0; output]);
        let output = Out::of(&mut output);
        let (queries, terms) = (matrix(&queries, 3), Attention::NO_TERMS);
        let rows = Rows { queries, terms, output, stride };
        attention.compute(rows, count, &packed, &mut scratch)
    };
    assert!(run(12, 8, 2, 4).is_ok());
    assert!(run(11, 8, 2, 4).is_err());
    assert!(run(12, 7, 2, 4).is_err());
    assert!(run(12, 8, 1, 4).is_err(), "rows that overlap");
    assert!(run(15, 10, 2, 5).is_err(), "more rows than a block");
}
