//! Functions of elements one behind the other that become one step: each reads from L2 what the one
//! before wrote there. A block of elements goes through all of them while it is in L1.

use std::ops::Range;

use nnburst_kernels::kernels::NO_CLAMP;
use nnburst_kernels::kernels::binary_f32::Binary;
use nnburst_kernels::kernels::transcendental_f32::Map;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, Out, poll};

use super::runs::{Replacement, replace_runs};
use crate::lowering::draft::{Draft, DraftPlace, DraftStep, Readers};
use crate::lowering::io::share_stride;
use crate::lowering::pieces::Pieces;
use crate::lowering::recipe::{Recipe, Spread};
use crate::lowering::step::Work;
use crate::lowering::{Io, Label, Words};

/// Elements of a block, about: a few blocks fit L1, and each call of a function takes as long as
/// some hundred elements.
const BLOCK: usize = 2048;

/// Steps of a run, and inputs, at most.
const MOST: usize = 16;

/// Inputs that the result may be written over.
const IN_PLACE: [usize; MOST] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Makes one step of each run of such steps, with the same bits.
pub(in crate::plan) fn join_elements(draft: &mut Draft, isa: Isa, threads: usize) {
    replace_runs(draft, threads, |draft, readers, at| {
        let count = run_length(draft, readers, at);
        (count > 1).then(|| Program::of(draft, at, count, isa))?
    });
}

/// The number of elements of a step's result, if it is a function of elements.
fn elements(draft: &Draft, step: &DraftStep) -> Option<usize> {
    let operands = match step.recipe? {
        Recipe::Binary(_, spreads) if !spreads.contains(&Spread::Row) => 2,
        Recipe::Map(_) => 1,
        _ => return None,
    };
    let [output] = &step.outputs[..] else { return None };
    let inputs = step.inputs.get(..operands)?;
    let in_pieces = |place: &DraftPlace| draft.resolve(place).apart().is_none();
    let is_whole = inputs.iter().chain([output]).all(in_pieces);
    is_whole.then_some(output.len() / size_of::<f32>()).filter(|&count| count > 0)
}

/// The steps from one on that can be one: of as many elements, and nobody else reads what all but
/// the last make.
fn run_length(draft: &Draft, readers: &Readers, at: usize) -> usize {
    let Some(count) = draft.steps.get(at).and_then(|step| elements(draft, step)) else { return 0 };
    let alike = |step: &&DraftStep| elements(draft, step) == Some(count);
    let most = draft.steps[at..].iter().take(MOST).take_while(alike).count();
    let made = |step: usize| draft.whole_root(&draft.steps[step].outputs[0]);
    let reads = |end: usize, local: usize| {
        let inputs = draft.steps[at..end].iter().flat_map(|step| &step.inputs);
        inputs.filter(|place| draft.whole_root(place) == Some(local)).count()
    };
    let own = |end: usize| {
        let all_but_last = at..end - 1;
        all_but_last.into_iter().all(|step| {
            made(step).is_some_and(|local| {
                let operands = reads(end, local);
                operands > 0 && readers.are(local, operands)
            })
        })
    };
    (at + 2..=at + most).rev().find(|&end| own(end)).map_or(0, |end| end - at)
}

/// An operand of a function of a block.
#[derive(Clone, Copy, Debug)]
enum Operand {
    /// The elements of an input at the block's places.
    Each(usize),
    /// The only element of an input.
    One(usize),
    /// An input's row, repeated in a block of scratch memory.
    Repeated(usize),
    /// What another function left in a block of scratch memory.
    Kept(usize),
}

/// A function of a block, and the block of scratch memory that its result goes to; `None`: the
/// output.
#[derive(Clone, Copy, Debug)]
struct Call {
    each: Each,
    to: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Each {
    Binary(Binary, [Operand; 2]),
    Map(Map, Operand),
}

/// A run of functions.
#[derive(Debug)]
struct Program {
    steps: Range<usize>,
    calls: Vec<Call>,
    /// Those of as many elements as the output come first.
    inputs: Vec<DraftPlace>,
    /// Inputs of as many elements as the output.
    in_place: usize,
    /// Blocks of scratch memory that results are kept in; those of repeated rows follow.
    kept: usize,
    /// The inputs whose rows are repeated.
    repeated: Vec<usize>,
    /// All inputs.
    operands: usize,
    /// Elements of a block, and of all.
    block: usize,
    count: usize,
}

/// The steps that become a run, while it is made.
struct Steps<'a> {
    draft: &'a Draft,
    steps: &'a [DraftStep],
    /// The local that each writes, if nothing else is in it.
    made: Vec<Option<usize>>,
}

impl Steps<'_> {
    /// The operands of a step, with how they are spread.
    fn operands(&self, step: usize) -> impl Iterator<Item = (&DraftPlace, Spread)> {
        let step = &self.steps[step];
        let spreads = match step.recipe {
            Some(Recipe::Binary(_, spreads)) => spreads.to_vec(),
            _ => vec![Spread::Each],
        };
        step.inputs.iter().zip(spreads)
    }

    /// The step of the run that made what another one reads.
    fn maker(&self, reader: usize, place: &DraftPlace) -> Option<usize> {
        let local = self.draft.whole_root(place)?;
        self.made[..reader].iter().position(|&it| it == Some(local))
    }

    /// Returns whether a step is the last one to read what another made.
    fn is_last_reader(&self, step: usize, of: usize) -> bool {
        let reads =
            |step: usize| self.operands(step).any(|(place, _)| self.maker(step, place) == Some(of));
        reads(step) && !(step + 1..self.steps.len()).any(reads)
    }

    /// The operands from outside that are spread so, in the order in which they are read.
    fn outer(&self, spread: Spread) -> Vec<DraftPlace> {
        let all = (0..self.steps.len()).flat_map(|step| {
            self.operands(step)
                .filter(move |&(place, of)| of == spread && self.maker(step, place).is_none())
        });
        all.map(|(place, _)| place.clone()).collect()
    }

    /// The functions of the steps, with `ones` the number of the first input of one element. The
    /// second result is the number of blocks that they keep.
    fn calls(&self, isa: Isa, ones: usize) -> Option<(Vec<Call>, usize)> {
        let (mut next, mut calls) = ([0, ones, 0], Vec::<Call>::new());
        let mut is_free: Vec<bool> = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            let mut operand = |(place, spread): (&DraftPlace, Spread)| {
                if let Some(maker) = self.maker(at, place) {
                    return calls[maker].to.map(Operand::Kept);
                }
                let (kind, of): (usize, fn(usize) -> Operand) = match spread {
                    Spread::Each => (0, Operand::Each),
                    Spread::One => (1, Operand::One),
                    Spread::Column => (2, Operand::Repeated),
                    Spread::Row => return None,
                };
                next[kind] += 1;
                Some(of(next[kind] - 1))
            };
            let mut operands = self.operands(at).map(&mut operand);
            let first = operands.next()??;
            let each = match step.recipe? {
                Recipe::Binary(which, _) => {
                    let both = [first, operands.next()??];
                    Each::Binary(Binary::new(isa, which, NO_CLAMP), both)
                }
                Recipe::Map(function) => Each::Map(Map::new(isa, function), first),
                _ => return None,
            };
            drop(operands);
            // What is read for the last time may be written over.
            for (maker, call) in calls.iter().enumerate() {
                if let Some(to) = call.to
                    && self.is_last_reader(at, maker)
                {
                    is_free[to] = true;
                }
            }
            let to = (at + 1 < self.steps.len()).then(|| {
                let to = is_free.iter().position(|&free| free).unwrap_or(is_free.len());
                is_free.resize(is_free.len().max(to + 1), false);
                is_free[to] = false;
                to
            });
            calls.push(Call { each, to });
        }
        Some((calls, is_free.len()))
    }
}

impl Program {
    fn of(draft: &Draft, at: usize, count: usize, isa: Isa) -> Option<Self> {
        let steps = &draft.steps[at..at + count];
        let made = steps.iter().map(|step| draft.whole_root(&step.outputs[0])).collect();
        let run = Steps { draft, steps, made };
        let [each, ones, rows] =
            [Spread::Each, Spread::One, Spread::Column].map(|of| run.outer(of));
        let row = rows.first().map_or(1, |row| row.len() / size_of::<f32>());
        let alike = rows.iter().all(|it| it.len() == row * size_of::<f32>());
        let (in_place, first_row) = (each.len(), each.len() + ones.len());
        let repeated = first_row..first_row + rows.len();
        if !alike || row == 0 || row > 2 * BLOCK || repeated.end > MOST {
            return None;
        }
        let (calls, kept) = run.calls(isa, each.len())?;
        let elements = steps[0].outputs[0].len() / size_of::<f32>();
        Some(Self {
            steps: at..at + count,
            calls,
            in_place,
            kept,
            operands: repeated.end,
            repeated: repeated.collect(),
            inputs: [each, ones, rows].concat(),
            // Of a small tensor all of it: rows are repeated no further.
            block: (BLOCK.min(elements) / row).max(1) * row,
            count: elements,
        })
    }

    /// The step in the place of those joined.
    fn step(
        mut self,
        draft: &mut Draft,
        joined: &[DraftStep],
        last: DraftStep,
        threads: usize,
    ) -> DraftStep {
        let steps = || joined.iter().chain(std::iter::once(&last));
        let label = Label {
            kernel: "elements_f32",
            form: joined.first().map_or(last.label.form, |step| step.label.form),
            shape: Words::list(steps().map(|step| step.label.shape.clone()).collect()),
            operations: steps().map(|step| step.label.operations).sum(),
        };
        let blocks = self.count.div_ceil(self.block);
        let Pieces { pieces, shared } = Pieces::of(&label, blocks, threads);
        let scratch_share = (self.kept + self.repeated.len()) * self.block * size_of::<f32>();
        let sharers = if shared { threads } else { 1 };
        let len = share_stride(scratch_share) * (sharers - 1) + scratch_share;
        let inputs = std::mem::take(&mut self.inputs);
        let in_place = &IN_PLACE[..self.in_place];
        let run = move |io: Io<'_>, blocks: Range<usize>| self.run(io, blocks);
        DraftStep {
            label,
            inputs,
            scratch: DraftPlace::local(draft.add_local(len), len),
            scratch_share,
            work: Work::Bands { count: blocks, pieces, shared, run: Box::new(run) },
            part: None,
            recipe: None,
            in_place,
            rows: Vec::new(),
            ..last
        }
    }

    fn run(&self, mut io: Io<'_>, blocks: Range<usize>) -> Result<(), String> {
        let inputs = io.inputs_and_outputs();
        let scratch = io.scratch_slice::<f32>();
        let (_, rows) = scratch.split_at_mut(self.kept * self.block);
        for (&input, to) in self.repeated.iter().zip(rows.chunks_exact_mut(self.block)) {
            repeat(inputs.input::<f32>(input), to);
        }
        let scratch = Out::of(scratch);
        let output = inputs.output::<f32>(0);
        // Looked up once: to do so for each block takes as long as a function of it.
        let inputs: [In<'_, f32>; MOST] = std::array::from_fn(|at| match at < self.operands {
            true => inputs.input(at),
            false => In::of(&[]),
        });
        for block in blocks {
            let start = block * self.block;
            let places = start..self.count.min(start + self.block);
            poll::work(self.calls.len() * places.len())?;
            let kept = |at: usize| scratch.slice(at * self.block..at * self.block + places.len());
            let operand = |operand: Operand| match operand {
                Operand::Each(input) => inputs[input].slice(places.clone()),
                Operand::One(input) => inputs[input],
                Operand::Repeated(row) => kept(self.kept + row).as_in(),
                Operand::Kept(at) => kept(at).as_in(),
            };
            for &Call { each, to } in &self.calls {
                let to = to.map_or_else(|| output.slice(places.clone()), kept);
                match each {
                    Each::Binary(binary, [a, b]) => binary.compute(operand(a), operand(b), to)?,
                    Each::Map(map, x) => map.compute(operand(x), to),
                }
            }
        }
        Ok(())
    }
}

/// Fills a block with a row, again and again: what is there already at a time, as a call for each
/// row would take longer than a short one has.
fn repeat(row: In<'_, f32>, to: &mut [f32]) {
    let mut done = row.len().min(to.len());
    row.slice(0..done).copy_to(&mut to[..done]);
    while done < to.len() && done > 0 {
        let (from, rest) = to.split_at_mut(done);
        let count = done.min(rest.len());
        rest[..count].copy_from_slice(&from[..count]);
        done += count;
    }
}

impl Replacement for Program {
    fn steps(&self) -> Range<usize> {
        self.steps.clone()
    }

    fn replace(self, draft: &mut Draft, mut steps: Vec<DraftStep>, threads: usize) {
        let Some(last) = steps.pop() else { return };
        let step = self.step(draft, &steps, last, threads);
        draft.steps.push(step);
    }
}
