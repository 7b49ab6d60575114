//! The step that an attention becomes.

use std::ops::Range;

use nnburst_kernels::kernels::attention_f32::{Attention, Extents, Rows};
use nnburst_kernels::kernels::binary_f32::Operand;
use nnburst_kernels::kernels::gemm_f32::Matrix;
use nnburst_kernels::tensor::{In, Out};

use super::operands::{KeyTerm, Operands};
use super::{Found, MOST_TERMS};
use crate::lowering::draft::{Draft, DraftPlace};
use crate::lowering::io::share_stride;
use crate::lowering::pieces::Pieces;
use crate::lowering::step::Work;
use crate::lowering::{Io, Label, Words};

impl Found {
    /// Puts the step in the place of the last one.
    pub(super) fn replace(self, draft: &mut Draft, threads: usize) {
        let Self { at, attention, of, .. } = self;
        let heads = of.heads();
        let Operands { extents, queries, keys, of_keys, values, terms, output } = of;
        let Extents { rows, depth, columns, width } = extents;
        let scores = heads.saturating_mul(rows).saturating_mul(columns);
        let label = Label {
            kernel: "attention_f32",
            form: attention.isa(),
            shape: Words::new(move |f| {
                write!(f, "{heads} of [{rows}, {depth}] by [{columns}, {width}]")
            }),
            operations: 2 * scores.saturating_mul(depth.saturating_add(width)) as u64,
        };
        let blocks = rows.div_ceil(attention.block_rows());
        let Pieces { pieces, shared } = Pieces::of(&label, heads * blocks, threads);
        let [queries_stride, keys_stride, values_stride] =
            [&queries, &keys, &values].map(|of| of.layout().map_or(0, |(_, stride)| stride));
        let floats = attention.packed_len() + attention.scratch_len(queries_stride);
        let scratch_share = floats.saturating_mul(size_of::<f32>());
        let sharers = if shared { threads } else { 1 };
        let len = share_stride(scratch_share).saturating_mul(sharers - 1) + scratch_share;
        let places = [&queries.place, &keys.place, &values.place].map(Clone::clone);
        let inputs = places.into_iter().chain(terms.iter().map(|term| term.place.clone()));
        let mut inputs: Vec<DraftPlace> = inputs.collect();
        let number = of_keys.map(|KeyTerm { place, at, .. }| {
            inputs.push(place);
            (inputs.len() - 1, at)
        });
        let step = Step {
            attention,
            extents,
            blocks,
            queries: (queries.starts, queries.strides[0], queries_stride),
            keys: (keys.starts, keys_stride),
            number,
            values: (values.starts, values_stride),
            terms: terms.into_iter().map(|term| (term.starts, term.strides)).collect(),
            output: (output.starts, output.strides[0]),
        };
        let scratch = DraftPlace::local(draft.add_local(len), len);
        let run = move |io: Io<'_>, blocks: Range<usize>| step.run(io, blocks);
        let last = &mut draft.steps[at];
        last.label = label;
        last.inputs = inputs;
        last.outputs = vec![output.place];
        (last.scratch, last.scratch_share) = (scratch, scratch_share);
        let count = heads * blocks;
        last.work = Work::Bands { count, pieces, shared, run: Box::new(run) };
        (last.part, last.recipe, last.in_place) = (None, None, &[]);
        last.rows.clear();
    }
}

/// An attention when it runs: for each operand where the matrices of heads start, and how far their
/// lines lie apart.
struct Step {
    attention: Attention,
    extents: Extents,
    /// Blocks of rows of a head.
    blocks: usize,
    /// The second number is that of elements from one row to the next.
    queries: (Vec<usize>, usize, usize),
    keys: (Vec<usize>, usize),
    /// The input and the element of it that something is done to the keys with.
    number: Option<(usize, usize)>,
    values: (Vec<usize>, usize),
    terms: Vec<(Vec<usize>, [usize; 2])>,
    output: (Vec<usize>, usize),
}

impl Step {
    /// Some of the blocks of rows of all heads.
    fn run(&self, mut io: Io<'_>, blocks: Range<usize>) -> Result<(), String> {
        let Self { attention, terms, .. } = self;
        let (queries, keys, values) = (io.input::<f32>(0), io.input::<f32>(1), io.input(2));
        let operands: [In<'_, f32>; MOST_TERMS] = std::array::from_fn(|term| io.input(3 + term));
        let output = io.output::<f32>(0);
        let number = match self.number {
            Some((input, at)) => io.input(input).slice(at..at + 1),
            None => In::of(&[]),
        };
        let (packed, scratch) = io.scratch_slice::<f32>().split_at_mut(attention.packed_len());
        let mut at_hand = None;
        for at in blocks {
            let (head, first) = (at / self.blocks, at % self.blocks * attention.block_rows());
            // Heads may share them.
            let starts = (self.keys.0[head], self.values.0[head]);
            if at_hand != Some(starts) {
                let keys = matrix(keys, starts.0, self.keys.1);
                let values = matrix(values, starts.1, self.values.1);
                attention.pack(keys, number, values, packed)?;
                at_hand = Some(starts);
            }
            let (starts, row, stride) = &self.queries;
            let queries = matrix(queries, starts[head] + first * row, *stride);
            let mut own = [Operand { all: In::of(&[]), step: 0, stride: 0 }; MOST_TERMS];
            for (((starts, strides), all), to) in terms.iter().zip(operands).zip(&mut own) {
                let [stride, step] = *strides;
                let start = starts[head] + first * stride;
                *to = Operand { all: from(all, start), step, stride };
            }
            let (starts, stride) = &self.output;
            let start = starts[head] + first * stride;
            let output: Out<'_, f32> = output.slice(start..output.len());
            let rows = Rows { queries, terms: &own[..terms.len()], output, stride: *stride };
            let count = attention.block_rows().min(self.extents.rows - first);
            attention.compute(rows, count, packed, scratch)?;
        }
        Ok(())
    }
}

fn from(all: In<'_, f32>, start: usize) -> In<'_, f32> {
    all.slice(start..all.len())
}

fn matrix(all: In<'_, f32>, start: usize, stride: usize) -> Matrix<'_> {
    Matrix { all: from(all, start), stride }
}
