//! Sums over segments, sparse values, diagonals and the suppression of overlapping boxes.

use nnburst_kernels::tensor::{Element, In, OpError, Out, Shape, poll};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, refused, sizes};
use super::heap::Heap;
use super::index::{check_index_kind, index_at};
use super::math::low;
use crate::lowering::{Io, Lowered};

/// The combination of the rows of one segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Combine {
    Sum,
    Product,
    Greatest,
    Least,
}

/// Numbers that segments are made of.
trait Number: Element {
    fn first(how: Combine) -> Self;
    fn with(self, how: Combine, other: Self) -> Self;
}

macro_rules! number {
    ($kind:ty, $one:expr, $low:expr, $high:expr, $add:expr, $mul:expr) => {
        impl Number for $kind {
            fn first(how: Combine) -> Self {
                match how {
                    Combine::Sum => Self::default(),
                    Combine::Product => $one,
                    Combine::Greatest => $low,
                    Combine::Least => $high,
                }
            }

            fn with(self, how: Combine, other: Self) -> Self {
                match how {
                    Combine::Sum => $add(self, other),
                    Combine::Product => $mul(self, other),
                    Combine::Greatest => {
                        if other > self {
                            other
                        } else {
                            self
                        }
                    }
                    Combine::Least => {
                        if other < self {
                            other
                        } else {
                            self
                        }
                    }
                }
            }
        }
    };
}
number!(f32, 1.0, Self::MIN, Self::MAX, |a: f32, b: f32| a + b, |a: f32, b: f32| a * b);
number!(i32, 1, Self::MIN, Self::MAX, Self::wrapping_add, Self::wrapping_mul);

/// Rows of sorted segments, summed up: as many as the last of the ids says.
pub(super) fn segment_sum(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let last = call.ints(1)?.last().copied().map_or(0, |last| last.saturating_add(1));
    segments(call, last, Combine::Sum)
}

/// Rows of segments in any order; their number is the third input.
pub(super) fn unsorted(call: &mut OperatorCall<'_, '_>, how: Combine) -> Lowered {
    let count = call.one_int(2)?;
    segments(call, count, how)
}

fn segments(call: &mut OperatorCall<'_, '_>, count: i64, how: Combine) -> Lowered {
    let (input, ids) = (call.arg(0)?, call.arg(1)?);
    check_index_kind(1, ids.kind)?;
    call.same(&input, 0)?;
    let rank = ids.shape.rank();
    if rank > input.shape.rank() || input.shape[..rank] != ids.shape[..] {
        let what = format!("ids of {:?} for {:?}", ids.shape, input.shape);
        return Err(OpError::rule(what).into());
    }
    let count = sizes(&[count])?[0];
    let mut extents = vec![count];
    extents.extend_from_slice(&input.shape[rank..]);
    let shape = call.set(0, &extents)?;
    let row: usize = input.shape[rank..].iter().product();
    let rows = ids.shape.elements();
    by_kind!(input.kind, [F32 f32, I32 i32], T => call.step(&shape, move |io| {
        let (from, to) = (io.input::<T>(0), io.output::<T>(0));
        to.fill(std::iter::repeat(T::first(how)));
        for at in poll::each(0..rows, 8 + row) {
            let id = index_at(&io, 1, ids.kind, at);
            if id < 0 {
                continue;
            }
            let segment = usize::try_from(id).ok().filter(|&segment| segment < count);
            let segment = segment.ok_or_else(|| format!("segment {id} of {count}"))?;
            for own in 0..row {
                let place = segment * row + own;
                let so_far = to.as_in().get(place);
                to.set(place, so_far.with(how, from.get(at * row + own)));
            }
        }
        Ok(())
    }));
    Ok(())
}

/// A default value but where indices name others: indices, shape, values, default.
pub(super) fn sparse_to_dense(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (indices, values) = (call.arg(0)?, call.arg(2)?);
    let extents = sizes(&call.ints(1)?)?;
    check_index_kind(0, indices.kind)?;
    call.one_element(3, values.kind)?;
    call.same(&values, 0)?;
    let (count, depth) = match indices.shape[..] {
        [] => (1, 1),
        [count] => (count, 1),
        [count, depth] => (count, depth),
        _ => return Err(OpError::input(0, "is beyond rank 2").into()),
    };
    let given = values.shape.elements();
    if depth != extents.len() || (given != 1 && given != count) {
        return Err(OpError::rule("indices, values and shape don't agree").into());
    }
    let shape = call.set(0, &extents)?;
    let width = values.kind.bytes();
    call.step(&shape, move |io| {
        let to = io.output::<u8>(0);
        super::moves::fill_with(to, io.input(3));
        for at in poll::each(0..count, 16) {
            let place = position(&io, &indices, at, &extents)? * width;
            let from = if given == 1 { 0 } else { at * width };
            to.slice(place..place + width).copy_from(io.input(2).slice(from..from + width));
        }
        Ok(())
    });
    Ok(())
}

fn position(io: &Io<'_>, indices: &Arg, at: usize, extents: &[usize]) -> Result<usize, String> {
    extents.iter().enumerate().try_fold(0, |place, (axis, &extent)| {
        let index = index_at(io, 0, indices.kind, at * extents.len() + axis);
        let own = usize::try_from(index).ok().filter(|&own| own < extent);
        Ok(place * extent + own.ok_or_else(|| format!("index {index} of {extent}"))?)
    })
}

/// The last dimension as the diagonal of matrices, with zeros around it.
pub(super) fn matrix_diag(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    call.same(&input, 0)?;
    let size = input.shape.last().copied();
    let size = size.ok_or_else(|| OpError::input(0, "is a scalar"))?;
    let mut extents = input.shape.to_vec();
    extents.push(size);
    let shape = call.set(0, &extents)?;
    let width = input.kind.bytes();
    call.step(&shape, move |io| {
        io.output::<u8>(0).fill(std::iter::repeat(0));
        put_diagonals(io.input(0), io.output(0), size, size, width)
    });
    Ok(())
}

/// Matrices with another diagonal.
pub(super) fn matrix_set_diag(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, diagonal) = (call.arg(0)?, call.arg(1)?);
    input.same_kind(&diagonal)?;
    call.same(&input, 0)?;
    let split = input.shape.split_last_chunk::<2>();
    let (batch, &[rows, columns]) = split.ok_or_else(|| OpError::input(0, "is no matrix"))?;
    let mut wanted = batch.to_vec();
    wanted.push(rows.min(columns));
    if *diagonal.shape != *wanted {
        return Err(OpError::input(1, format!("is of {:?}", diagonal.shape)).into());
    }
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    let width = input.kind.bytes();
    call.step(&shape, move |io| {
        io.output::<u8>(0).copy_from(io.input(0));
        put_diagonals(io.input(1), io.output(0), rows, columns, width)
    });
    Ok(())
}

fn put_diagonals(
    from: In<'_, u8>,
    to: Out<'_, u8>,
    rows: usize,
    columns: usize,
    width: usize,
) -> Result<(), String> {
    let size = rows.min(columns).max(1);
    for at in poll::each(0..from.len() / width, 4) {
        let (matrix, own) = (at / size, at % size);
        let place = (matrix * rows * columns + own * columns + own) * width;
        to.slice(place..place + width).copy_from(from.slice(at * width..(at + 1) * width));
    }
    Ok(())
}

/// A box that may be selected.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    index: usize,
    score: f32,
    /// Boxes selected since it was looked at last begin here.
    from: usize,
}

/// The rules of a suppression.
#[derive(Clone, Copy, Debug)]
struct Rules {
    most: usize,
    overlap: f32,
    least_score: f32,
    sigma: f32,
}

/// NON_MAX_SUPPRESSION_V4, and V5 with soft scores: boxes, scores, the most boxes, thresholds; and
/// the sigma of V5.
pub(super) fn suppress(call: &mut OperatorCall<'_, '_>, is_soft: bool) -> Lowered {
    let (boxes, scores) = (call.arg(0)?, call.arg(1)?);
    let (&[count, 4], &[own]) = (&boxes.shape[..], &scores.shape[..]) else {
        return Err(OpError::rule("boxes are not of [n, 4], scores of [n]").into());
    };
    if count != own || boxes.kind != ElementKind::F32 || scores.kind != ElementKind::F32 {
        return Err(refused(0, boxes.kind).into());
    }
    let most = sizes(&[call.one_int(2)?])?[0];
    let rules = Rules {
        most,
        overlap: call.one_real(3)?,
        least_score: call.one_real(4)?,
        sigma: if is_soft { call.one_real(5)? } else { 0.0 },
    };
    let shape = call.set(0, &[most])?;
    if is_soft {
        call.set(1, &[most])?;
    }
    let number = 1 + usize::from(is_soft);
    call.result_is(0, &[ElementKind::I32])?;
    call.result_is(1, &[if is_soft { ElementKind::F32 } else { ElementKind::I32 }])?;
    call.result_is(number, &[ElementKind::I32])?;
    call.set(number, &[])?;
    // The candidates, and those that are chosen, in lists that double. One without an area may be
    // chosen again and again.
    let listed = if count == 0 { 0 } else { count.saturating_add(most) };
    call.claim(listed.saturating_mul(2 * size_of::<Candidate>()))?;
    let shape = Shape::new([count.max(shape.elements())])?;
    call.step(&shape, move |io| {
        let chosen = choose(io.input(0), io.input(1), rules)?;
        let indices = io.output::<i32>(0);
        for at in poll::each(0..rules.most, 4) {
            let one = chosen.get(at);
            let index = one.map_or(0, |one| one.index);
            indices.set(at, low(i64::try_from(index).unwrap_or(0)));
            if is_soft {
                io.output::<f32>(1).set(at, one.map_or(0.0, |one| one.score));
            }
        }
        io.output::<i32>(number).set(0, low(i64::try_from(chosen.len()).unwrap_or(0)));
        Ok(())
    });
    Ok(())
}

fn choose(boxes: In<'_, f32>, scores: In<'_, f32>, rules: Rules) -> Result<Vec<Candidate>, String> {
    let mut queue = Heap::new(scores.len(), |a: &Candidate, b: &Candidate| a.score < b.score);
    let all = scores.iter().enumerate();
    for (index, score) in all.filter(|&(_, score)| score > rules.least_score) {
        queue.push(Candidate { index, score, from: 0 });
    }
    let scale = if rules.sigma > 0.0 { -0.5 / rules.sigma } else { 0.0 };
    let mut chosen: Vec<Candidate> = Vec::new();
    while chosen.len() < rules.most {
        let Some(mut next) = queue.pop() else { break };
        let before = next.score;
        let mut is_out = false;
        poll::work(20 * (chosen.len() - next.from) + 20)?;
        for other in chosen[next.from..].iter().rev() {
            let shared = overlap(boxes, next.index, other.index);
            if shared >= rules.overlap {
                is_out = true;
                break;
            }
            if rules.sigma > 0.0 {
                next.score *= (scale * shared * shared).exp();
            }
            if next.score <= rules.least_score {
                break;
            }
        }
        next.from = chosen.len();
        if is_out {
            continue;
        }
        if next.score.to_bits() == before.to_bits() {
            chosen.push(next);
        }
        // One that was chosen as well: it is left out by itself the next time, unless it has no
        // area. That decides which of equals comes next, as in the interpreter.
        if next.score > rules.least_score {
            queue.push(next);
        }
    }
    Ok(chosen)
}

/// The shared area of two boxes as a part of all of theirs.
fn overlap(boxes: In<'_, f32>, a: usize, b: usize) -> f32 {
    let corners = |at: usize| {
        let [y1, x1, y2, x2] = boxes.block::<4>(4 * at);
        [y1.min(y2), x1.min(x2), y1.max(y2), x1.max(x2)]
    };
    let area = |[y1, x1, y2, x2]: [f32; 4]| (y2 - y1) * (x2 - x1);
    let (a, b) = (corners(a), corners(b));
    let (area_a, area_b) = (area(a), area(b));
    if area_a <= 0.0 || area_b <= 0.0 {
        return 0.0;
    }
    let height = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let width = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let shared = height * width;
    shared / (area_a + area_b - shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_boxes_are_left_out() {
        let boxes = [0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 2.0, 2.0, 3.0, 3.0f32];
        let scores = [0.9, 0.95, 0.5f32];
        let rules = Rules { most: 3, overlap: 0.5, least_score: 0.1, sigma: 0.0 };
        let chosen = choose(In::of(&boxes), In::of(&scores), rules).unwrap();
        assert_eq!(chosen.iter().map(|one| one.index).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn equals_come_as_in_the_interpreter() {
        let eighths = [3, 2, 2, 1, 1, 1, 1, 1, 1, 3, 2, 3, 2, 2, 3, 3];
        let scores = eighths.map(|eighth: u8| f32::from(eighth) / 8.0);
        let apart = |at: usize| [2 * at, 0, 2 * at + 1, 1].map(|edge| edge as f32);
        let boxes: Vec<f32> = (0..16).flat_map(apart).collect();
        let rules = Rules { most: 16, overlap: 0.5, least_score: 0.0, sigma: 0.0 };
        let order = |scores: &[f32]| -> Vec<usize> {
            let chosen = choose(In::of(&boxes), In::of(scores), rules).unwrap();
            chosen.iter().map(|one| one.index).collect()
        };
        assert_eq!(order(&scores), [0, 11, 14, 9, 15, 13, 2, 12, 1, 10, 7, 5, 4, 6, 8, 3]);
        assert_eq!(order(&[0.5; 7]), [0, 2, 5, 6, 4, 1, 3]);
    }

    #[test]
    fn boxes_without_an_area_are_chosen_until_there_are_enough() {
        for sigma in [0.0, 0.5] {
            let rules = Rules { most: 9, overlap: 2.0, least_score: 0.0, sigma };
            let chosen = choose(In::of(&[1.0; 8]), In::of(&[0.5, 0.25f32]), rules).unwrap();
            assert_eq!(chosen.iter().map(|one| one.index).collect::<Vec<_>>(), [0; 9]);
        }
    }
}
