//! The step that an attention becomes.

use std::ops::Range;

use nnburst_kernels::kernels::attention_f32::{Attention, Extents, KeyValues, Rows};
use nnburst_kernels::kernels::binary_f32::Operand;
use nnburst_kernels::kernels::gemm_f32::Matrix;
use nnburst_kernels::tensor::{In, Out};

use super::Found;
use super::operands::{AttentionOperands, KeyTerm};
use crate::lowering::draft::{Draft, DraftPlace};
use crate::lowering::io::share_stride;
use crate::lowering::pieces::Pieces;
use crate::lowering::step::Work;
use crate::lowering::{Io, Label, Words};

/// Rows up to which keys and values are packed a panel at a time, for all rows at once.
const AT_ONCE: usize = 64;

impl Found {
    /// Puts the step in the place of the last one.
    pub(super) fn replace(self, draft: &mut Draft, threads: usize) {
        let Self { at, attention, of, .. } = self;
        let (heads, together) = (of.heads(), of.sharers());
        let AttentionOperands { extents, queries, keys, of_keys, values, terms, output } = of;
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
        let [queries_stride, keys_stride, values_stride] =
            [&queries, &keys, &values].map(|of| of.layout().map_or(0, |(_, stride)| stride));
        // Packing takes as long as some tens of rows.
        let way = match together.saturating_mul(rows) {
            ..=AT_ONCE => Way::Heads(together),
            _ => Way::Blocks(rows.div_ceil(attention.block_rows())),
        };
        let (count, floats) = match way {
            Way::Heads(each) => (heads / each, attention.heads_scratch_len(each, queries_stride)),
            Way::Blocks(each) => {
                let len = attention.packed_len() + attention.scratch_len(queries_stride);
                (heads * each, len)
            }
        };
        let Pieces { pieces, shared } = Pieces::of(&label, count, threads);
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
            way,
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
        last.work = Work::Bands { count, pieces, shared, run: Box::new(run) };
        (last.part, last.recipe, last.in_place) = (None, None, &[]);
        last.rows.clear();
    }
}

/// What is computed at a time.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// So many heads that share keys and values.
    Heads(usize),
    /// Blocks of rows, so many a head.
    Blocks(usize),
}

/// An attention when it runs: for each operand where the matrices of heads start, and how far their
/// lines lie apart.
struct Step {
    attention: Attention,
    extents: Extents,
    way: Way,
    /// The second number is that of elements from one row to the next.
    queries: (Vec<usize>, usize, usize),
    keys: (Vec<usize>, usize),
    /// The input and the element of it that something is done to the keys with.
    number: Option<(usize, usize)>,
    values: (Vec<usize>, usize),
    terms: Vec<(Vec<usize>, [usize; 2])>,
    output: (Vec<usize>, usize),
}

/// The operands of a run.
struct Views<'a> {
    queries: In<'a, f32>,
    keys: In<'a, f32>,
    values: In<'a, f32>,
    number: In<'a, f32>,
    terms: [In<'a, f32>; Attention::MOST_TERMS],
    output: Out<'a, f32>,
}

impl Step {
    /// Some of the parts that are computed at a time.
    fn run(&self, mut io: Io<'_>, parts: Range<usize>) -> Result<(), String> {
        let of = Views {
            queries: io.input(0),
            keys: io.input(1),
            values: io.input(2),
            number: match self.number {
                Some((input, at)) => io.input(input).slice(at..at + 1),
                None => In::of(&[]),
            },
            terms: std::array::from_fn(|term| io.input(3 + term)),
            output: io.output(0),
        };
        let scratch = io.scratch_slice::<f32>();
        let attention = &self.attention;
        match self.way {
            Way::Heads(each) => parts.into_iter().try_for_each(|part| {
                let first = part * each;
                let rows = |head| self.rows(&of, first + head, 0);
                attention.compute_heads(self.memory(&of, first), each, rows, scratch)
            }),
            Way::Blocks(each) => {
                let (packed, scratch) = scratch.split_at_mut(attention.packed_len());
                let mut at_hand = None;
                for part in parts {
                    let (head, first) = (part / each, part % each * attention.block_rows());
                    // Heads may share them.
                    let starts = Some((self.keys.0[head], self.values.0[head]));
                    if at_hand != starts {
                        attention.pack(self.memory(&of, head), packed)?;
                        at_hand = starts;
                    }
                    let count = attention.block_rows().min(self.extents.rows - first);
                    attention.compute(self.rows(&of, head, first), count, packed, scratch)?;
                }
                Ok(())
            }
        }
    }

    /// Keys and values of a head.
    fn memory<'a>(&self, of: &Views<'a>, head: usize) -> KeyValues<'a> {
        KeyValues {
            keys: matrix(of.keys, self.keys.0[head], self.keys.1),
            number: of.number,
            values: matrix(of.values, self.values.0[head], self.values.1),
        }
    }

    /// The rows of a head from the first of these on.
    fn rows<'a>(&self, of: &Views<'a>, head: usize, first: usize) -> Rows<'a> {
        let (starts, row, stride) = &self.queries;
        let queries = matrix(of.queries, starts[head] + first * row, *stride);
        let mut terms = Attention::NO_TERMS;
        for (((starts, strides), all), to) in self.terms.iter().zip(of.terms).zip(&mut terms) {
            let [stride, step] = *strides;
            let start = starts[head] + first * stride;
            *to = Operand { all: from(all, start), step, stride };
        }
        let (starts, stride) = &self.output;
        let start = starts[head] + first * stride;
        let output = of.output.slice(start..of.output.len());
        Rows { queries, terms, output, stride: *stride }
    }
}

fn from(all: In<'_, f32>, start: usize) -> In<'_, f32> {
    all.slice(start..all.len())
}

fn matrix(all: In<'_, f32>, start: usize, stride: usize) -> Matrix<'_> {
    Matrix { all: from(all, start), stride }
}
