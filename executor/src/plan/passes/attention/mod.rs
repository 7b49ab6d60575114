//! Scaled dot-product attention, as converters write it, becomes one step: two BATCH_MATMULs with
//! SOFTMAX between them, sums and products of the scores with masks, biases and scales, functions
//! of them, a scale of the keys, and transposes ahead and behind. The scores of all heads are the
//! largest values of such networks; one behind the other these operations read and write them in
//! memory five times. Where a step adds one token, the keys and values of all earlier ones are the
//! largest: heads that share them are rows of one, and they are neither repeated nor scaled in
//! memory.

mod operands;
mod step;

use std::sync::Arc;

use nnburst_hal::Budget;
use nnburst_kernels::kernels::attention_f32::{Attention, Extents, Term};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::memory::claim;
use nnburst_kernels::tensor::poll;

use self::operands::{AttentionOperands, Heads, KeyTerm, ScoreTerm};
use crate::lowering::draft::{Draft, DraftPlace, DraftStep, Readers};
use crate::lowering::part::{Matrices, StepPart};
use crate::lowering::recipe::{Recipe, Spread};
use crate::lowering::walk::Walk;

/// Heads, at most.
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
            && let Ok(charge) = claim(found.of.table_bytes(), budget)
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

/// An attention, and the steps that it takes the place of.
struct Found {
    /// The last step of it, which it replaces.
    at: usize,
    /// The others.
    dropped: Vec<usize>,
    attention: Attention,
    of: AttentionOperands,
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
    let (all_rows, width) = (mix.pairs.len().checked_mul(mix.rows)?, mix.columns);
    let count = mix.rows.checked_mul(columns)?;
    let mut shares = mix.pairs.iter().enumerate();
    let fits = mix.depth == columns
        && mix.strides[0] == [columns, 1]
        && shares.all(|(head, pair)| pair[0] == head * count)
        && values.only_for(draft, draft.steps[last].inputs.first()?) == Some(at);
    let from = step.inputs.first().filter(|_| fits)?;
    let first = source(draft, values, from, Attention::MOST_TERMS)?;
    let product = products(&draft.steps[first])?;
    // Where keys and values are one for all, either product may have the rows of all heads as one
    // matrix.
    let rows = product.rows.min(mix.rows);
    let heads = all_rows.checked_div(rows)?;
    let are_same = [product, mix].iter().all(|of| of.rows % rows == 0)
        && product.pairs.len().checked_mul(product.rows) == Some(all_rows)
        && product.columns == columns
        && (1..=MOST_HEADS).contains(&heads);
    if !are_same {
        return None;
    }
    let mut dropped = vec![at];
    let starts: Vec<usize> = (0..heads).map(|head| head * rows * columns).collect();
    let scores = Scores { draft, values, starts, extents: [rows, columns] };
    let (_, terms) =
        scores.behind(from, Attention::MOST_TERMS).filter(|&(found, _)| found == first)?;
    let terms = terms.into_iter().map(|(step, term)| {
        dropped.push(step);
        term
    });
    let terms: Vec<ScoreTerm> = terms.collect();
    dropped.push(first);
    let depth = product.depth;
    let operand = |step: usize, of: &Matrices, input: usize, strides| {
        // Heads that are rows of one matrix here have the right one in common.
        let along = if input == 0 { rows * of.strides[0][0] } else { 0 };
        let parts = 0..of.rows / rows;
        let starts =
            of.pairs.iter().flat_map(|pair| parts.clone().map(|at| pair[input] + at * along));
        let place = draft.steps[step].inputs.get(input)?.clone();
        place.apart().is_none().then(|| Heads { place, starts: starts.collect(), strides })
    };
    let queries = operand(first, product, 0, product.strides[0])?;
    // Keys are the columns of the right matrix, values the rows of theirs.
    let keys = operand(first, product, 1, product.strides[1])?;
    let [columns_apart, along] = mix.strides[1];
    let of_values = operand(last, mix, 1, [along, columns_apart])?;
    let queries = queries.back(draft, values, [rows, depth], &mut dropped);
    let mut keys = keys.back(draft, values, [columns, depth], &mut dropped);
    let mut of_keys = None;
    if let Some((maker, from, term)) = scaled(draft, values, &keys.place) {
        dropped.push(maker);
        (keys.place, of_keys) = (from.clone(), Some(term));
        keys = keys.back(draft, values, [columns, depth], &mut dropped);
    }
    let of_values = of_values.back(draft, values, [columns, width], &mut dropped);
    let place = draft.steps[last].outputs.first()?.clone();
    let starts = (0..heads).map(|head| head * rows * width).collect();
    let mut output = Heads { place, starts, strides: [width, 1] };
    if let Some((behind, moved)) = moved_output(draft, values, last, &output, [rows, width]) {
        dropped.push(last);
        (last, output) = (behind, moved);
    }
    let extents = Extents { rows, depth, columns, width };
    let values = of_values;
    let mut of = AttentionOperands { extents, queries, keys, of_keys, values, terms, output };
    of.join_heads();
    Some(Found { at: last, dropped, attention: of.attention(isa, beta)?, of })
}

/// The step of products that a place comes of, through no more than `most` arithmetics.
fn source(draft: &Draft, values: &Values, place: &DraftPlace, most: usize) -> Option<usize> {
    let maker = values.only_for(draft, place)?;
    let step = &draft.steps[maker];
    match (step.recipe, &step.part) {
        (_, Some(StepPart::Products(_))) => Some(maker),
        (Some(Recipe::Binary(..) | Recipe::Map(_)), _) | (_, Some(StepPart::Arithmetic(..))) => {
            let most = most.checked_sub(1)?;
            let mut operands = step.inputs.iter().take(2);
            operands.find_map(|operand| source(draft, values, operand, most))
        }
        _ => None,
    }
}

/// The step that makes all of a place, for one operand alone, as an arithmetic of something as
/// large and a number: what it is, and of what.
fn scaled<'a>(
    draft: &'a Draft,
    values: &Values,
    place: &DraftPlace,
) -> Option<(usize, &'a DraftPlace, KeyTerm)> {
    let maker = values.only_for(draft, place)?;
    let step = &draft.steps[maker];
    [0, 1].into_iter().find_map(|own| {
        let (arithmetic, at) = match (step.recipe, &step.part) {
            (Some(Recipe::Binary(arithmetic, of)), _)
                if [of[own], of[1 - own]] == [Spread::Each, Spread::One] =>
            {
                (arithmetic, 0)
            }
            (_, Some(StepPart::Arithmetic(arithmetic, walks))) if walks[own].is_identity() => {
                (*arithmetic, walks[1 - own].only_place()?)
            }
            _ => return None,
        };
        let [from, number] = [step.inputs.get(own)?, step.inputs.get(1 - own)?];
        let fits = from.len() == place.len()
            && from.apart().is_none()
            && number.apart().is_none()
            && at < number.len() / size_of::<f32>();
        let term = Term::Binary { arithmetic, is_second: own == 1 };
        fits.then(|| (maker, from, KeyTerm { term, place: number.clone(), at }))
    })
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
    /// The step of products that a place comes of, and the steps in between, no more than
    /// `most`, with what they do, in order.
    fn behind(&self, place: &DraftPlace, most: usize) -> Option<(usize, Vec<(usize, ScoreTerm)>)> {
        let maker = self.values.only_for(self.draft, place)?;
        let step = &self.draft.steps[maker];
        if products(step).is_some() {
            return Some((maker, Vec::new()));
        }
        let most = most.checked_sub(1)?;
        [0, 1].into_iter().find_map(|of| {
            let (own, term) = self.map(step, of).or_else(|| self.term(step, of))?;
            let (first, mut terms) = self.behind(own, most)?;
            terms.push((maker, term));
            Some((first, terms))
        })
    }

    /// What a function of each score is of, its only operand.
    fn map<'a>(&self, step: &'a DraftStep, own: usize) -> Option<(&'a DraftPlace, ScoreTerm)> {
        let Some(Recipe::Map(function)) = step.recipe else { return None };
        let from = step.inputs.get(own).filter(|_| own == 0)?;
        let (starts, strides) = (vec![0; self.starts.len()], [0; 2]);
        let (term, place) = (Term::Map(function), DraftPlace::Omitted);
        let fits = from.apart().is_none() && from.len() == step.outputs.first()?.len();
        fits.then_some((from, ScoreTerm { term, place, starts, strides }))
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
        let term = Term::Binary { arithmetic, is_second: own == 1 };
        fits.then(|| (from, ScoreTerm { term, place: other.clone(), starts, strides }))
    }
}
