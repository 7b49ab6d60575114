//! Scaled dot-product attention, as converters write it, becomes one step: two BATCH_MATMULs with
//! SOFTMAX between them, sums and products of the scores with masks, biases and scales, and
//! transposes ahead and behind. The scores of all heads are the largest values of such networks;
//! one behind the other these operations read and write them in memory five times.

use std::ops::Range;
use std::sync::Arc;

use nnburst_hal::Budget;
use nnburst_kernels::kernels::attention_f32::{Attention, Extents, Rows, Term};
use nnburst_kernels::kernels::binary_f32::Operand;
use nnburst_kernels::kernels::gemm_f32::{Layout, Matrix};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::memory::claim;
use nnburst_kernels::tensor::{In, Out, poll};

use crate::lowering::draft::{Draft, DraftPlace, DraftStep, Readers};
use crate::lowering::io::share_stride;
use crate::lowering::part::{Matrices, StepPart};
use crate::lowering::pieces::Pieces;
use crate::lowering::recipe::{Recipe, Spread};
use crate::lowering::step::Work;
use crate::lowering::walk::Walk;
use crate::lowering::{Io, Label, Words};

/// Terms of the scores, and heads, at most.
const MOST_TERMS: usize = 8;
const MOST_HEADS: usize = 1 << 16;

/// Makes one step of each attention, with the same bits, as far as the budget has memory for the
/// places of their heads.
pub(in crate::plan) fn attend(
    draft: &mut Draft,
    isa: Isa,
    threads: usize,
    budget: Option<&Arc<Budget>>,
) {
    if !draft.steps.iter().any(|step| matches!(step.part, Some(StepPart::Products(_)))) {
        return;
    }
    let values = Values::of(draft);
    let mut all: Vec<Found> = Vec::new();
    for at in 0..draft.steps.len() {
        if poll::work(256).is_err() {
            return;
        }
        if let Some(found) = find(draft, &values, at, isa)
            && let Ok(charge) = claim(found.table_bytes(), budget)
        {
            draft.claims.extend(charge);
            all.push(found);
        }
    }
    let mut is_dropped = vec![false; draft.steps.len()];
    for found in all {
        found.dropped.iter().for_each(|&step| is_dropped[step] = true);
        found.replace(draft, threads);
    }
    let mut is_dropped = is_dropped.into_iter();
    draft.steps.retain(|_| !is_dropped.next().unwrap_or(false));
}

/// The steps that make and read each local.
struct Values {
    readers: Readers,
    /// The step that makes all of it.
    maker: Vec<Option<usize>>,
    /// The last step that reads all of it.
    reader: Vec<Option<usize>>,
}

impl Values {
    fn of(draft: &Draft) -> Self {
        let (mut maker, mut reader) =
            (vec![None; draft.local_count()], vec![None; draft.local_count()]);
        for (at, step) in draft.steps.iter().enumerate() {
            let mark = |places: &[DraftPlace], of: &mut [Option<usize>]| {
                places
                    .iter()
                    .filter_map(|it| draft.whole_root(it))
                    .for_each(|local| of[local] = Some(at));
            };
            mark(&step.outputs, &mut maker);
            mark(&step.inputs, &mut reader);
        }
        Self { readers: draft.readers(), maker, reader }
    }

    /// The step that makes all of a place, if nobody else than one operand reads it.
    fn only_for(&self, draft: &Draft, place: &DraftPlace) -> Option<usize> {
        let local = draft.whole_root(place).filter(|&local| self.readers.are(local, 1))?;
        self.maker[local]
    }

    /// The step that alone reads the result of another one, once.
    fn only_reader(&self, draft: &Draft, step: usize) -> Option<usize> {
        let [output] = &draft.steps[step].outputs[..] else { return None };
        let local = draft.whole_root(output).filter(|&local| self.readers.are(local, 1))?;
        self.reader[local]
    }
}

/// The matrices of an operand, one for each head, where they lie.
struct Heads {
    place: DraftPlace,
    starts: Vec<usize>,
    /// Elements from one line to the next, and along a line.
    strides: [usize; 2],
}

impl Heads {
    /// The same in what the operand is moved from.
    fn through(&self, walk: &Walk, place: &DraftPlace, extents: [usize; 2]) -> Option<Self> {
        let [lines, elements] = extents;
        let lines = [(lines, self.strides[0]), (elements, self.strides[1])];
        let (starts, strides) = walk.matrices(&self.starts, lines)?;
        let is_one_piece = place.apart().is_none();
        (is_one_piece && strides.contains(&1)).then(|| Self {
            place: place.clone(),
            starts,
            strides,
        })
    }

    /// Follows the operand back through steps that only move it, which are dropped then.
    fn back(
        mut self,
        draft: &Draft,
        values: &Values,
        extents: [usize; 2],
        dropped: &mut Vec<usize>,
    ) -> Self {
        while let Some(maker) = values.only_for(draft, &self.place)
            && let Some((walk, from)) = moves(&draft.steps[maker])
            && let Some(moved) = self.through(&walk, from, extents)
        {
            dropped.push(maker);
            self = moved;
        }
        self
    }

    /// How each matrix lies, if its lines are rows, and from one line to the next.
    fn layout(&self) -> Option<(Layout, usize)> {
        match self.strides {
            [stride, 1] => Some((Layout::RowMajor, stride)),
            [1, stride] => Some((Layout::ColumnMajor, stride)),
            _ => None,
        }
    }
}

/// What a step that moves floats alone moves, and how.
fn moves(step: &DraftStep) -> Option<(Walk, &DraftPlace)> {
    const SIZE: usize = size_of::<f32>();
    let (walk, to) = match &step.part {
        Some(StepPart::Move(walk)) => (Walk::clone(walk), step.outputs.first()?),
        &Some(StepPart::Take { output, start, apart }) => {
            let to = step.outputs.get(output)?;
            let rows = to.len().checked_div(apart.row)?;
            let bytes = [start, apart.row, apart.pitch];
            if bytes.iter().any(|bytes| bytes % SIZE != 0) {
                return None;
            }
            let [start, row, pitch] = bytes.map(|bytes| bytes / SIZE);
            (Walk::new(start, [(rows, pitch), (row, 1)].into_iter())?, to)
        }
        _ => return None,
    };
    let [from, ..] = &step.inputs[..] else { return None };
    (to.len() == walk.elements() * SIZE).then_some((walk, from))
}

/// An arithmetic of the scores and an operand that is spread over them.
struct ScoreTerm {
    term: Term,
    place: DraftPlace,
    starts: Vec<usize>,
    /// Elements from one row to the next, and from one column to the next: 0 or 1.
    strides: [usize; 2],
}

/// An attention, and the steps that it takes the place of.
struct Found {
    /// The last step of it, which it replaces.
    at: usize,
    /// The others.
    dropped: Vec<usize>,
    attention: Attention,
    extents: Extents,
    queries: Heads,
    keys: Heads,
    values: Heads,
    terms: Vec<ScoreTerm>,
    output: Heads,
}

/// The matrices of a step of BATCH_MATMUL.
fn products(step: &DraftStep) -> Option<&Matrices> {
    match &step.part {
        Some(StepPart::Products(matrices)) => Some(matrices),
        _ => None,
    }
}

/// The attention whose SOFTMAX is step `at`.
fn find(draft: &Draft, values: &Values, at: usize, isa: Isa) -> Option<Found> {
    let step = &draft.steps[at];
    let Some(Recipe::Softmax { columns, beta }) = step.recipe else { return None };
    let mut last = values.only_reader(draft, at)?;
    let mix = products(&draft.steps[last])?;
    let (heads, rows, width) = (mix.pairs.len(), mix.rows, mix.columns);
    let count = rows.checked_mul(columns)?;
    let mut shares = mix.pairs.iter().enumerate();
    let fits = mix.depth == columns
        && mix.strides[0] == [columns, 1]
        && shares.all(|(head, pair)| pair[0] == head * count)
        && (1..=MOST_HEADS).contains(&heads)
        && values.only_for(draft, draft.steps[last].inputs.first()?) == Some(at);
    if !fits {
        return None;
    }
    let mut dropped = vec![at];
    let starts: Vec<usize> = (0..heads).map(|head| head * count).collect();
    let scores = Scores { draft, values, starts, extents: [rows, columns] };
    let (first, terms) = scores.behind(step.inputs.first()?, MOST_TERMS)?;
    let terms = terms.into_iter().map(|(step, term)| {
        dropped.push(step);
        term
    });
    let terms: Vec<ScoreTerm> = terms.collect();
    dropped.push(first);
    let product = products(&draft.steps[first])?;
    let depth = product.depth;
    if [product.rows, product.columns, product.pairs.len()] != [rows, columns, heads] {
        return None;
    }
    let operand = |step: usize, of: &Matrices, input: usize, strides| {
        let starts = of.pairs.iter().map(|pair| pair[input]).collect();
        let place = draft.steps[step].inputs.get(input)?.clone();
        place.apart().is_none().then_some(Heads { place, starts, strides })
    };
    let queries = operand(first, product, 0, product.strides[0])?;
    // Keys are the columns of the right matrix, values the rows of theirs.
    let keys = operand(first, product, 1, product.strides[1])?;
    let [columns_apart, along] = mix.strides[1];
    let of_values = operand(last, mix, 1, [along, columns_apart])?;
    let queries = queries.back(draft, values, [rows, depth], &mut dropped);
    let keys = keys.back(draft, values, [columns, depth], &mut dropped);
    let of_values = of_values.back(draft, values, [columns, width], &mut dropped);
    let place = draft.steps[last].outputs.first()?.clone();
    let starts = (0..heads).map(|head| head * rows * width).collect();
    let mut output = Heads { place, starts, strides: [width, 1] };
    if let Some((behind, moved)) = moved_output(draft, values, last, &output, [rows, width]) {
        dropped.push(last);
        (last, output) = (behind, moved);
    }
    let extents = Extents { rows, depth, columns, width };
    let of_terms: Vec<Term> = terms.iter().map(|it| it.term).collect();
    let (by_keys, _) = keys.layout()?;
    // A key is a column of the right matrix.
    let by_keys = match by_keys {
        Layout::RowMajor => Layout::ColumnMajor,
        Layout::ColumnMajor => Layout::RowMajor,
    };
    let layouts = [queries.layout()?.0, by_keys, of_values.layout()?.0];
    let attention = Attention::new(isa, extents, layouts, &of_terms, beta)?;
    let values = of_values;
    Some(Found { at: last, dropped, attention, extents, queries, keys, values, terms, output })
}

/// Where the results go if the only step that reads them moves them: that step, and how they lie
/// behind it.
fn moved_output(
    draft: &Draft,
    values: &Values,
    last: usize,
    output: &Heads,
    extents: [usize; 2],
) -> Option<(usize, Heads)> {
    let behind = values.only_reader(draft, last)?;
    let step = &draft.steps[behind];
    let (walk, from) = moves(step)?;
    let [to] = &step.outputs[..] else { return None };
    let all = draft.whole_root(from) == draft.whole_root(&output.place) && from.len() == to.len();
    let moved = output.through(&walk.inverse().filter(|_| all)?, to, extents)?;
    let [stride, along] = moved.strides;
    (along == 1 && stride >= extents[1]).then_some((behind, moved))
}

/// The scores of all heads, which are followed from SOFTMAX back to where they are computed.
struct Scores<'a> {
    draft: &'a Draft,
    values: &'a Values,
    /// Where the scores of each head start.
    starts: Vec<usize>,
    /// Rows and columns.
    extents: [usize; 2],
}

impl Scores<'_> {
    /// The step of BATCH_MATMUL that a place comes of, and the steps in between, no more than
    /// `most`, with what they do, in order.
    fn behind(&self, place: &DraftPlace, most: usize) -> Option<(usize, Vec<(usize, ScoreTerm)>)> {
        let maker = self.values.only_for(self.draft, place)?;
        let step = &self.draft.steps[maker];
        if products(step).is_some() {
            return Some((maker, Vec::new()));
        }
        let most = most.checked_sub(1)?;
        [0, 1].into_iter().find_map(|of| {
            let (own, term) = self.term(step, of)?;
            let (first, mut terms) = self.behind(own, most)?;
            terms.push((maker, term));
            Some((first, terms))
        })
    }

    /// The operand `own` of an arithmetic, if it is an element for each score, and what the other
    /// one does to it.
    fn term<'a>(&self, step: &'a DraftStep, own: usize) -> Option<(&'a DraftPlace, ScoreTerm)> {
        let (arithmetic, of_own, of_other) = match (step.recipe, &step.part) {
            (_, Some(StepPart::Arithmetic(arithmetic, walks))) => {
                (*arithmetic, walks[own].clone(), walks[1 - own].clone())
            }
            (Some(Recipe::Binary(arithmetic, [Spread::Each, Spread::Each])), _) => {
                let count = step.outputs.first()?.len() / size_of::<f32>();
                let each = Walk::new(0, [(count, 1)].into_iter())?;
                (arithmetic, each.clone(), each)
            }
            _ => return None,
        };
        let [rows, columns] = self.extents;
        let elements = rows.checked_mul(columns)?.checked_mul(self.starts.len())?;
        let lines = [(rows, columns), (columns, 1)];
        let (starts, strides) = of_other.matrices(&self.starts, lines)?;
        let [from, other] = [step.inputs.get(own)?, step.inputs.get(1 - own)?];
        let fits = of_own.is_identity()
            && of_own.elements() == elements
            && strides[1] <= 1
            && other.apart().is_none();
        let term = Term { arithmetic, is_second: own == 1 };
        fits.then(|| (from, ScoreTerm { term, place: other.clone(), starts, strides }))
    }
}

impl Found {
    /// Bytes of the tables that its step keeps: where the matrices of each operand start.
    fn table_bytes(&self) -> usize {
        let operands = self.terms.len() + 4;
        operands * self.output.starts.len() * size_of::<usize>()
    }

    /// Puts the step in the place of the last one.
    fn replace(self, draft: &mut Draft, threads: usize) {
        let Self { at, attention, extents, queries, keys, values, terms, output, .. } = self;
        let Extents { rows, depth, columns, width } = extents;
        let heads = queries.starts.len();
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
        let inputs: Vec<DraftPlace> = inputs.collect();
        let step = Step {
            attention,
            extents,
            blocks,
            queries: (queries.starts, queries.strides[0], queries_stride),
            keys: (keys.starts, keys_stride),
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
        let (packed, scratch) = io.scratch_slice::<f32>().split_at_mut(attention.packed_len());
        let mut head_at_hand = None;
        for at in blocks {
            let (head, first) = (at / self.blocks, at % self.blocks * attention.block_rows());
            if head_at_hand != Some(head) {
                let keys = matrix(keys, self.keys.0[head], self.keys.1);
                let values = matrix(values, self.values.0[head], self.values.1);
                attention.pack(keys, values, packed)?;
                head_at_hand = Some(head);
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
