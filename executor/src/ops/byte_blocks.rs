//! Operands of bytes that broadcast, as blocks as long as those of the result.

use nnburst_kernels::tensor::rows::Rows;
use nnburst_kernels::tensor::{In, Out, Shape, poll};

use super::broadcast::Broadcast;

/// The order in which the elements of an operand come to those of a result of `wide` shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// One after the other.
    Along,
    /// All of so many, again and again.
    Repeated(usize),
    /// Each so many times.
    Stretched(usize),
}

impl Walk {
    /// `None` for an operand that is both repeated and stretched, or has no elements.
    pub(super) fn of(shape: &Shape, wide: &Shape) -> Option<Self> {
        let strides = shape.broadcast_strides(wide);
        let axes = wide.iter().zip(strides).filter(|(extent, _)| **extent != 1);
        let mut moves: Vec<bool> = axes.map(|(_, stride)| stride != 0).collect();
        moves.dedup();
        let count = shape.elements();
        match moves[..] {
            _ if count == 0 => None,
            [] | [true] => Some(Self::Along),
            [false] | [false, true] => Some(Self::Repeated(count)),
            [true, false] => Some(Self::Stretched(wide.elements() / count)),
            _ => None,
        }
    }
}

/// Results of operands that are both repeated and stretched, in planes of which each operand is
/// one of these or neither.
#[derive(Debug)]
pub(super) struct Planes {
    /// The axes outside of planes, and one for all that is in them.
    planes: Broadcast,
    /// Planes of the result.
    count: usize,
    /// How the operands walk through a plane, and how many elements of theirs are in it.
    walks: [(Walk, usize); 2],
    /// Results of a plane.
    len: usize,
}

impl Planes {
    /// As few as possible; `None` where a plane would have fewer elements than are worth one.
    pub(super) fn of(operands: [&Shape; 2], wide: &Shape) -> Option<Self> {
        const WORTH: usize = 16;
        for outer in 1..wide.rank() {
            let inner = Shape::new(&wide[outer..]).ok()?;
            let len = inner.elements();
            if len < WORTH {
                return None;
            }
            let own = operands.map(|shape| {
                let skipped = (outer + shape.rank()).saturating_sub(wide.rank());
                Shape::new(&shape[skipped..])
            });
            let [Ok(of_a), Ok(of_b)] = own else { return None };
            if let (Some(a), Some(b)) = (Walk::of(&of_a, &inner), Walk::of(&of_b, &inner)) {
                let strides = operands.map(|shape| shape.broadcast_strides(wide));
                let mut planes = Broadcast::default();
                for axis in 0..outer {
                    planes.push(wide[axis], [strides[0][axis], strides[1][axis]]);
                }
                planes.push(len, [0, 0]);
                let walks = [(a, of_a.elements()), (b, of_b.elements())];
                let count = wide.elements().checked_div(len)?;
                return Some(Self { planes, count, walks, len });
            }
        }
        None
    }

    /// Calls `each` with blocks of both operands and of the results.
    ///
    /// # Errors
    /// The first that `each` gives, or the run is to end.
    pub(super) fn each(
        &self,
        inputs: [In<'_, u8>; 2],
        output: Out<'_, u8>,
        mut each: impl FnMut(In<'_, u8>, In<'_, u8>, Out<'_, u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        for plane in 0..self.count {
            let starts = self.planes.start(plane);
            let operands = [0, 1].map(|of| {
                let (walk, count) = self.walks[of];
                (Rows::from(inputs[of].slice(starts[of]..starts[of] + count)), walk)
            });
            let output = output.slice(plane * self.len..(plane + 1) * self.len);
            each_block(operands, Rows::from(output), &mut each)?;
        }
        Ok(())
    }
}

/// Results at a time.
const BLOCK: usize = 512;

/// An operand as blocks that are as long as those of the result.
struct Blocks<'a, 'k> {
    rows: Rows<In<'a, u8>>,
    walk: Walk,
    /// Elements as they are repeated, from the first on; or those of the block, stretched.
    kept: &'k mut Kept,
}

type Kept = [u8; 2 * BLOCK];

impl<'a, 'k> Blocks<'a, 'k> {
    /// `len` results are to come, and no more is written down than these need.
    fn new((rows, walk): (Rows<In<'a, u8>>, Walk), len: usize, kept: &'k mut Kept) -> Self {
        match walk {
            Walk::Repeated(1) => kept[..=len.min(BLOCK)].fill(rows.piece(0..1).get(0)),
            Walk::Repeated(count @ ..=BLOCK) => {
                let (first, others) = kept[..len.min(BLOCK) + count].split_at_mut(count);
                for (at, element) in first.iter_mut().enumerate() {
                    *element = rows.piece(at..at + 1).get(0);
                }
                others
                    .chunks_mut(count)
                    .for_each(|next| next.copy_from_slice(&first[..next.len()]));
            }
            _ => {}
        }
        Self { rows, walk, kept }
    }

    /// The results from `at` on that one block can be for.
    fn left(&self, at: usize) -> usize {
        match self.walk {
            Walk::Along => self.rows.left(at),
            Walk::Repeated(..=BLOCK) | Walk::Stretched(_) => usize::MAX,
            Walk::Repeated(count) => self.rows.left(at % count).min(count - at % count),
        }
    }

    /// The elements for `count` results.
    fn block(&mut self, at: usize, count: usize) -> In<'_, u8> {
        match self.walk {
            Walk::Along => self.rows.piece(at..at + count),
            Walk::Repeated(all @ ..=BLOCK) => In::of(&self.kept[at % all..][..count]),
            Walk::Repeated(all) => self.rows.piece(at % all..at % all + count),
            Walk::Stretched(times) => {
                let (mut from, mut to) = (at, 0);
                while to < count {
                    let (element, end) = (from / times, (from / times + 1) * times);
                    let len = (end - from).min(count - to);
                    self.kept[to..to + len].fill(self.rows.piece(element..element + 1).get(0));
                    (from, to) = (from + len, to + len);
                }
                In::of(&self.kept[..count])
            }
        }
    }
}

/// Calls `each` with blocks of operands that broadcast, and where their results go. Rows of few
/// elements are put together: a call for each would take longer than its elements.
pub(super) fn each_block(
    operands: [(Rows<In<'_, u8>>, Walk); 2],
    output: Rows<Out<'_, u8>>,
    mut each: impl FnMut(In<'_, u8>, In<'_, u8>, Out<'_, u8>) -> Result<(), String>,
) -> Result<(), String> {
    let (len, [mut kept_a, mut kept_b]) = (output.len(), [[0; 2 * BLOCK]; 2]);
    let [of_a, of_b] = operands;
    let mut a = Blocks::new(of_a, len, &mut kept_a);
    let mut b = Blocks::new(of_b, len, &mut kept_b);
    let mut at = 0;
    while at < output.len() {
        let most = a.left(at).min(b.left(at)).min(output.left(at));
        let count = most.min(BLOCK).min(output.len() - at);
        poll::work(count)?;
        each(a.block(at, count), b.block(at, count), output.piece(at..at + count))?;
        at += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_walk_along_again_or_stretched() {
        let walk = |shape: &[usize]| {
            let shape = Shape::new(shape).unwrap();
            Walk::of(&shape, &Shape::new([2, 1, 3, 4]).unwrap())
        };
        assert_eq!(walk(&[2, 1, 3, 4]), Some(Walk::Along));
        assert_eq!(walk(&[1]), Some(Walk::Repeated(1)));
        assert_eq!(walk(&[4]), Some(Walk::Repeated(4)));
        assert_eq!(walk(&[1, 1, 3, 4]), Some(Walk::Repeated(12)));
        assert_eq!(walk(&[2, 1, 1, 1]), Some(Walk::Stretched(12)));
        assert_eq!(walk(&[2, 1, 3, 1]), Some(Walk::Stretched(4)));
        assert_eq!(walk(&[3, 1]), None);
        assert_eq!(walk(&[2, 1, 1, 4]), None);
    }

    #[test]
    fn planes_have_every_result_once() {
        let wide = Shape::new([3, 2, 5, 16]).unwrap();
        for shape in [&[2, 1, 16][..], &[3, 1, 5, 1], &[5, 1], &[2, 5, 16], &[3, 1, 1, 16]] {
            let shape = Shape::new(shape).unwrap();
            let strides = shape.broadcast_strides(&wide);
            let planes = Planes::of([&shape, &wide], &wide);
            let numbers: Vec<u8> = (0..=255).cycle().take(shape.elements()).collect();
            let all: Vec<u8> = (0..=255).cycle().take(wide.elements()).collect();
            let mut got = vec![0; wide.elements()];
            planes
                .unwrap()
                .each([In::of(&numbers), In::of(&all)], Out::of(&mut got), |a, b, to| {
                    to.fill(a.iter().zip(b.iter()).map(|(a, b)| a.wrapping_mul(3) ^ b));
                    Ok(())
                })
                .unwrap();
            for (at, &got) in got.iter().enumerate() {
                let (mut rest, mut from) = (at, 0);
                for axis in (0..4).rev() {
                    from += rest % wide[axis] * strides[axis];
                    rest /= wide[axis];
                }
                assert_eq!(got, numbers[from].wrapping_mul(3) ^ all[at], "{shape:?} at {at}");
            }
        }
        // Rows of four are not worth a plane each.
        let (shape, wide) = (Shape::new([3, 1, 4]).unwrap(), Shape::new([2, 3, 2, 4]).unwrap());
        assert!(Planes::of([&shape, &wide], &wide).is_none());
    }
}
