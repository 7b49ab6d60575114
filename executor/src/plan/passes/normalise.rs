//! The nine to twelve steps of a layer normalisation that become one: each of them reads from L2
//! what the one before wrote there, which takes most of the time.

use std::ops::Range;
use std::sync::Arc;

use nnburst_kernels::kernels::binary_f32::Arithmetic;
use nnburst_kernels::kernels::layer_norm_f32::{LayerNorm, LayerNormOrder};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::AlignedBytes;
use nnburst_kernels::tensor::rows::Port;

use super::compose::same;
use super::runs::{Replacement, replace_runs};
use crate::lowering::draft::{Draft, DraftPlace, DraftStep, Readers};
use crate::lowering::pieces::Pieces;
use crate::lowering::recipe::{Recipe, Spread};
use crate::lowering::step::Work;
use crate::lowering::{Io, Label};

/// The steps of the pattern, one behind the other, as their places.
struct Layout {
    /// How many.
    steps: usize,
    /// Of the mean with the other sign, where that is multiplied.
    negative: Option<usize>,
    distance: usize,
    square: usize,
    variance: usize,
    sum: usize,
    root: usize,
    factor: usize,
    scaled: usize,
    moved: usize,
    shift: usize,
    last: usize,
    /// The operands that read the result of each step but the last.
    reads: &'static [usize],
}

/// `x * f + (beta - mean * f)`.
const WITH_DIFFERENCE: Layout = Layout {
    steps: 11,
    negative: None,
    distance: 1,
    square: 2,
    variance: 3,
    sum: 4,
    root: 5,
    factor: 6,
    scaled: 7,
    moved: 8,
    shift: 9,
    last: 10,
    reads: &[2, 2, 1, 1, 1, 1, 2, 1, 1, 1],
};

/// `x * f + (-mean * f + beta)`, as Keras 3 has it: the same bits, as a difference is the sum with
/// what has the other sign.
const WITH_NEGATIVE: Layout = Layout {
    steps: 12,
    negative: Some(1),
    distance: 2,
    square: 3,
    variance: 4,
    sum: 5,
    root: 6,
    factor: 7,
    moved: 8,
    shift: 9,
    scaled: 10,
    last: 11,
    reads: &[2, 1, 2, 1, 1, 1, 1, 2, 1, 1, 1],
};

/// Makes one step of each layer normalisation, with the same bits.
pub(in crate::plan) fn normalise(draft: &mut Draft, isa: Isa, threads: usize) {
    replace_runs(draft, threads, |draft, readers, at| find(draft, readers, at, isa));
}

/// A normalisation: of what, by factors and with shifts.
struct Found {
    steps: Range<usize>,
    inputs: [DraftPlace; 3],
    norm: LayerNorm,
    rows: usize,
    columns: usize,
}

impl Replacement for Found {
    fn steps(&self) -> Range<usize> {
        self.steps.clone()
    }

    fn replace(self, draft: &mut Draft, mut steps: Vec<DraftStep>, threads: usize) {
        draft.steps.extend(steps.pop().map(|last| self.step(last, threads)));
    }
}

impl Found {
    /// The step in the place of the last one.
    fn step(self, last: DraftStep, threads: usize) -> DraftStep {
        let Self { inputs, norm, rows, columns, .. } = self;
        let steps = self.steps.len();
        let operations = rows.saturating_mul(columns).saturating_mul(steps) as u64;
        let label = Label {
            kernel: "layer_norm_f32",
            form: norm.isa(),
            shape: last.label.shape.clone(),
            operations,
        };
        let Pieces { pieces, shared } = Pieces::of(&label, rows, threads);
        let run = move |io: Io<'_>, rows: Range<usize>| {
            let part = rows.start * columns..rows.end * columns;
            let (x, y) = (io.input::<f32>(0).slice(part.clone()), io.output::<f32>(0).slice(part));
            norm.compute(x, io.input(1), io.input(2), y)
        };
        DraftStep {
            label,
            inputs: inputs.into(),
            work: Work::Bands { count: rows, pieces, shared, run: Box::new(run) },
            part: None,
            recipe: None,
            // A row is written when all of it has been read.
            in_place: &[0],
            rows: Vec::<(Port, Option<usize>)>::new(),
            ..last
        }
    }
}

/// The steps from one on, as far as they are needed to follow values from one to the next.
struct Pattern<'a> {
    draft: &'a Draft,
    readers: &'a Readers,
    steps: &'a [DraftStep],
}

impl Pattern<'_> {
    /// Returns whether an input is the whole result of step `from`.
    fn is_result(&self, place: &DraftPlace, from: usize) -> bool {
        let local = self.draft.whole_root(place);
        let made = self.steps[from].outputs.first().and_then(|it| self.draft.whole_root(it));
        local.is_some() && local == made
    }

    /// Returns whether so many operands, all of them of the pattern, are all that read a result.
    fn is_read_by(&self, step: usize, operands: usize) -> bool {
        let made = self.steps[step].outputs.first().and_then(|it| self.draft.whole_root(it));
        made.is_some_and(|local| self.readers.are(local, operands))
    }

    /// Both operands of step `at`, if it is this arithmetic and they are spread so; those of sums
    /// and products in either order.
    fn operands(
        &self,
        at: usize,
        which: Arithmetic,
        spreads: [Spread; 2],
    ) -> Option<[&DraftPlace; 2]> {
        let step = &self.steps[at];
        let [a, b, ..] = &step.inputs[..] else { return None };
        match step.recipe? {
            Recipe::Binary(it, of) if it == which && of == spreads => Some([a, b]),
            Recipe::Binary(it, [second, first])
                if it == which && which.is_commutative() && [first, second] == spreads =>
            {
                Some([b, a])
            }
            _ => None,
        }
    }

    /// The normalisation of the steps up to `last`, from the one `at` of the stage on, if nobody
    /// else reads what lies between, and all of it is in one piece.
    fn found(
        &self,
        at: usize,
        inputs: [DraftPlace; 3],
        [columns, last]: [usize; 2],
        reads: &[usize],
        norm: LayerNorm,
    ) -> Option<Found> {
        let mut reads = reads.iter().enumerate();
        let mut fits = reads.all(|(step, &operands)| self.is_read_by(step, operands));
        let [output] = &self.steps[last].outputs[..] else { return None };
        fits &= inputs.iter().chain([output]).all(|place| place.apart().is_none());
        let row = columns.checked_mul(size_of::<f32>()).filter(|&row| row > 0)?;
        let x = &inputs[0];
        fits &= x.len().is_multiple_of(row) && output.len() == x.len();
        let (steps, rows) = (at..at + last + 1, x.len() / row);
        fits.then_some(Found { steps, inputs, norm, rows, columns })
    }

    /// The same of two operands that are spread alike, the first of which is the result of a step.
    fn behind(&self, at: usize, which: Arithmetic, from: usize) -> Option<&DraftPlace> {
        let [a, b] = self.operands(at, which, [Spread::Each; 2])?;
        if self.is_result(a, from) {
            return Some(b);
        }
        (which.is_commutative() && self.is_result(b, from)).then_some(a)
    }

    /// The operand that is spread so, beside the whole result of a step.
    fn beside(
        &self,
        at: usize,
        which: Arithmetic,
        from: usize,
        spread: Spread,
    ) -> Option<&DraftPlace> {
        if spread == Spread::Each {
            return self.behind(at, which, from);
        }
        let [of, by] = self.operands(at, which, [Spread::Each, spread])?;
        self.is_result(of, from).then_some(by)
    }
}

/// The steps from one on that make 1 over the deviation of each row of `x`, and where they are.
struct Deviation {
    distance: usize,
    square: usize,
    variance: usize,
    sum: usize,
    root: usize,
}

impl Deviation {
    /// What is added to the variance, if these are the steps, and the mean is step 0.
    fn little(&self, pattern: &Pattern<'_>, x: &DraftPlace, columns: usize) -> Option<f32> {
        use Arithmetic::{Add, Mul, Sub};
        let Spreads { row, one, .. } = Spreads::of(x, columns);
        let &Self { distance, square, variance, sum, root } = self;
        let (steps, mean) = (pattern.steps, 0);
        let [from, less] = pattern.operands(distance, Sub, [Spread::Each, row])?;
        let mut fits = same(pattern.draft, x, from) && pattern.is_result(less, mean);
        fits &= pattern.is_result(pattern.behind(square, Mul, distance)?, distance);
        fits &= steps[variance].recipe == Some(Recipe::Means { columns });
        fits &= pattern.is_result(steps[variance].inputs.first()?, square);
        let little = pattern.beside(sum, Add, variance, one)?;
        fits &= steps[root].recipe == Some(Recipe::InverseRoots);
        fits &= pattern.is_result(steps[root].inputs.first()?, sum);
        number(little).filter(|_| fits)
    }
}

/// The spreads of a number for each row, one for each column and one for each row's number: of a
/// single row they have other names.
struct Spreads {
    row: Spread,
    column: Spread,
    one: Spread,
}

impl Spreads {
    fn of(x: &DraftPlace, columns: usize) -> Self {
        if x.len() == columns.saturating_mul(size_of::<f32>()) {
            return Self { row: Spread::One, column: Spread::Each, one: Spread::Each };
        }
        Self { row: Spread::Row, column: Spread::Column, one: Spread::One }
    }
}

/// The only number of a constant.
fn number(place: &DraftPlace) -> Option<f32> {
    let DraftPlace::Constant(bytes) = place else { return None };
    let &[number] = bytes.typed::<f32>() else { return None };
    Some(number)
}

fn find(draft: &Draft, readers: &Readers, at: usize, isa: Isa) -> Option<Found> {
    let scaled = scaled(draft, readers, at, isa);
    let unscaled = || unscaled(draft, readers, at, isa);
    scaled.or_else(unscaled).or_else(|| of_distance(draft, readers, at, isa))
}

/// `((x - mean) / deviation) * gamma + beta`.
fn of_distance(draft: &Draft, readers: &Readers, at: usize, isa: Isa) -> Option<Found> {
    use Arithmetic::{Add, Mul};
    use Spread::Each;
    const READS: [usize; 8] = [1, 3, 1, 1, 1, 1, 1, 1];
    let [mean, distance, normal, scaled, last] = [0, 1, 6, 7, 8];
    let deviation = Deviation { distance, square: 2, variance: 3, sum: 4, root: 5 };
    let root = deviation.root;
    let Some(Recipe::Means { columns }) = draft.steps.get(at)?.recipe else { return None };
    let pattern = Pattern { draft, readers, steps: draft.steps.get(at..=at + last)? };
    let x = pattern.steps[mean].inputs.first()?;
    let little = deviation.little(&pattern, x, columns)?;
    let Spreads { row, column, .. } = Spreads::of(x, columns);
    let [of, by] = pattern.operands(normal, Mul, [Each, row])?;
    let mut fits = pattern.is_result(of, distance) && pattern.is_result(by, root);
    let gamma = pattern.beside(scaled, Mul, normal, column)?;
    let beta = pattern.beside(last, Add, scaled, column)?;
    let bytes = columns.checked_mul(size_of::<f32>())?;
    fits &= gamma.len() == bytes && beta.len() == bytes;
    let norm = LayerNorm::new(isa, LayerNormOrder::Distance, columns, little)?;
    let inputs = [x, gamma, beta].map(Clone::clone);
    fits.then(|| pattern.found(at, inputs, [columns, last], &READS, norm))?
}

/// A normalisation with `f = gamma / sqrt(variance + little)`, in the order of either layout.
fn scaled(draft: &Draft, readers: &Readers, at: usize, isa: Isa) -> Option<Found> {
    use Arithmetic::{Add, Mul, Sub};
    use Spread::Each;
    let Some(Recipe::Means { columns }) = draft.steps.get(at)?.recipe else { return None };
    let is_negative = draft.steps.get(at + 1)?.recipe == Some(Recipe::Negatives);
    let layout = if is_negative { WITH_NEGATIVE } else { WITH_DIFFERENCE };
    let pattern = Pattern { draft, readers, steps: draft.steps.get(at..at + layout.steps)? };
    let Layout { distance, square, variance, sum, root, factor, scaled, moved, shift, .. } = layout;
    let (mean, last) = (0, layout.last);
    let steps = pattern.steps;
    let x = steps[mean].inputs.first()?;
    let deviation = Deviation { distance, square, variance, sum, root };
    let little = deviation.little(&pattern, x, columns)?;
    let mut fits = true;
    if let Some(negative) = layout.negative {
        fits &= pattern.is_result(steps[negative].inputs.first()?, mean);
    }
    let Spreads { row, column, .. } = Spreads::of(x, columns);
    let [of, gamma] = pattern.operands(factor, Mul, [row, column])?;
    fits &= pattern.is_result(of, root);
    fits &= same(draft, x, pattern.behind(scaled, Mul, factor)?);
    let [of, by] = pattern.operands(moved, Mul, [row, Each])?;
    fits &= pattern.is_result(of, layout.negative.unwrap_or(mean)) && pattern.is_result(by, factor);
    let beta = match layout.negative {
        Some(_) => pattern.beside(shift, Add, moved, column)?,
        None => {
            let [beta, of] = pattern.operands(shift, Sub, [column, Each])?;
            fits &= pattern.is_result(of, moved);
            beta
        }
    };
    fits &= pattern.is_result(pattern.behind(last, Add, scaled)?, shift);
    let bytes = columns.checked_mul(size_of::<f32>())?;
    fits &= gamma.len() == bytes && beta.len() == bytes;
    let norm = LayerNorm::new(isa, LayerNormOrder::Moved, columns, little)?;
    let inputs = [x, gamma, beta].map(Clone::clone);
    fits.then(|| pattern.found(at, inputs, [columns, last], layout.reads, norm))?
}

/// `x * f + (zero - mean * f)` with `f = 1 / sqrt(variance + little)`, which is what is left where
/// the factors and shifts of columns went into the weights behind.
fn unscaled(draft: &Draft, readers: &Readers, at: usize, isa: Isa) -> Option<Found> {
    use Arithmetic::{Add, Mul, Sub};
    use Spread::{Each, One, Row};
    /// Columns that a factor and a shift are written down for, at most.
    const MOST: usize = 1 << 14;
    const READS: [usize; 9] = [2, 2, 1, 1, 1, 2, 1, 1, 1];
    let [mean, moved, shift, scaled, last] = [0, 6, 7, 8, 9];
    let deviation = Deviation { distance: 1, square: 2, variance: 3, sum: 4, root: 5 };
    let root = deviation.root;
    let Some(Recipe::Means { columns }) = draft.steps.get(at)?.recipe else { return None };
    let pattern = Pattern { draft, readers, steps: draft.steps.get(at..=at + last)? };
    let x = pattern.steps[mean].inputs.first()?;
    let little = deviation.little(&pattern, x, columns)?;
    let mut fits = pattern.is_result(pattern.behind(moved, Mul, root)?, mean);
    let [zero, of] = pattern.operands(shift, Sub, [One, Each])?;
    fits &= pattern.is_result(of, moved);
    let [of, by] = pattern.operands(scaled, Mul, [Each, Row])?;
    fits &= same(draft, x, of) && pattern.is_result(by, root);
    let [of, by] = pattern.operands(last, Add, [Each, Row])?;
    fits &= pattern.is_result(of, scaled) && pattern.is_result(by, shift);
    if !fits || columns > MOST {
        return None;
    }
    // A product with 1 and the one shift for all columns are the same bits.
    let constants = [1.0, number(zero)?].map(|number: f32| {
        let mut bytes = AlignedBytes::zeroed(columns * size_of::<f32>());
        bytes.typed_mut::<f32>().fill(number);
        DraftPlace::Constant(Arc::new(bytes))
    });
    let [gamma, beta] = constants;
    let norm = LayerNorm::new(isa, LayerNormOrder::Moved, columns, little)?;
    pattern.found(at, [x.clone(), gamma, beta], [columns, last], &READS, norm)
}
