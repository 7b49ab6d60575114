//! Where the elements of a tensor lie in another one, for passes that follow values through steps
//! that only move or repeat them.

/// The place in an input of each element of an output: `base`, and a stride for each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    base: usize,
    /// Outermost first.
    axes: Vec<Axis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    extent: usize,
    /// Elements of the input from one position to the next.
    stride: usize,
    /// Elements of the output from one position to the next.
    inner: usize,
}

impl Walk {
    /// `axes` are `(extent, stride)`, outermost first. `None` where there are no elements.
    pub(crate) fn new(
        base: usize,
        axes: impl DoubleEndedIterator<Item = (usize, usize)>,
    ) -> Option<Self> {
        let mut inner = 1usize;
        let mut own = Vec::new();
        for (extent, stride) in axes.filter(|&(extent, _)| extent != 1).rev() {
            own.push(Axis { extent, stride, inner });
            inner = inner.checked_mul(extent).filter(|&inner| inner > 0)?;
        }
        own.reverse();
        Some(Self { base, axes: own })
    }

    /// Elements of the output.
    pub(crate) fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.extent).product()
    }

    /// Returns whether every element stays in its place.
    pub(crate) fn is_identity(&self) -> bool {
        self.base == 0 && self.axes.iter().all(|axis| axis.stride == axis.inner)
    }

    /// The place of all elements, where they are one.
    pub(crate) fn only_place(&self) -> Option<usize> {
        self.axes.iter().all(|axis| axis.stride == 0).then_some(self.base)
    }

    /// The place of element `at`.
    pub(crate) fn place(&self, at: usize) -> usize {
        let steps = self.axes.iter().map(|axis| at / axis.inner % axis.extent * axis.stride);
        self.base + steps.sum::<usize>()
    }

    /// The places of matrices of the output: `lines` are the extent and the stride of their lines
    /// and of the elements of a line. Gives where each starts in the input, and both strides there;
    /// `None` where they are no such matrices.
    pub(crate) fn matrices(
        &self,
        starts: &[usize],
        lines: [(usize, usize); 2],
    ) -> Option<(Vec<usize>, [usize; 2])> {
        let elements = self.elements();
        let mut reach = vec![0usize; self.axes.len()];
        let mut strides = [0; 2];
        for ((extent, stride), to) in lines.into_iter().zip(&mut strides) {
            if extent <= 1 {
                *to = stride;
                continue;
            }
            let steps = |axis: &Axis| stride / axis.inner;
            let at = self.axes.iter().position(|axis| (1..axis.extent).contains(&steps(axis)))?;
            let axis = self.axes.get(at)?;
            if stride % axis.inner != 0 {
                return None;
            }
            *to = steps(axis) * axis.stride;
            *reach.get_mut(at)? += steps(axis).checked_mul(extent - 1)?;
        }
        // A position that passes the end of its axis would go on along another one.
        let is_within = |&start: &usize| {
            let mut axes = self.axes.iter().zip(&reach);
            start < elements
                && axes.all(|(axis, reach)| start / axis.inner % axis.extent + reach < axis.extent)
        };
        starts
            .iter()
            .all(is_within)
            .then(|| (starts.iter().map(|&start| self.place(start)).collect(), strides))
    }

    /// The way back, where each element of the input is moved to one place of the output.
    pub(crate) fn inverse(&self) -> Option<Self> {
        let mut axes = self.axes.clone();
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.stride));
        let back = Self::new(0, axes.iter().map(|axis| (axis.extent, axis.inner)))?;
        let all = back.axes.iter().zip(&axes).all(|(back, axis)| back.inner == axis.stride);
        (self.base == 0 && all).then_some(back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(base: usize, axes: &[(usize, usize)]) -> Walk {
        Walk::new(base, axes.iter().copied()).unwrap()
    }

    #[test]
    fn matrices_are_found_where_every_element_of_them_is() {
        // [5, 4, 3] as [4, 5, 3], rows of something wider, an axis that is repeated, all of it.
        for (of, extents, is_found) in [
            (walk(0, &[(4, 3), (5, 12), (3, 1)]), [4, 5, 3], true),
            (walk(0, &[(4, 3), (5, 12), (3, 1)]), [2, 10, 3], false),
            (walk(0, &[(4, 3), (5, 12), (3, 1)]), [4, 15, 1], false),
            (walk(7, &[(10, 20), (12, 1)]), [10, 3, 4], true),
            (walk(0, &[(10, 4), (3, 0), (4, 1)]), [10, 3, 4], true),
            (walk(0, &[(10, 4), (3, 0), (4, 1)]), [1, 30, 4], false),
            (walk(0, &[(120, 1)]), [2, 12, 5], true),
            (walk(0, &[(120, 0)]), [2, 12, 5], true),
            (walk(0, &[(6, 1), (20, 6)]), [3, 2, 20], true),
        ] {
            let [count, rows, columns] = extents;
            let starts: Vec<usize> = (0..count).map(|at| at * rows * columns).collect();
            let found = of.matrices(&starts, [(rows, columns), (columns, 1)]);
            assert_eq!(found.is_some(), is_found, "{of:?} as {extents:?}");
            let Some((places, [down, along])) = found else { continue };
            for at in 0..count * rows * columns {
                let (row, column) = (at / columns % rows, at % columns);
                let place = places[at / (rows * columns)] + row * down + column * along;
                assert_eq!(place, of.place(at), "{of:?} as {extents:?}, element {at}");
            }
        }
        assert!(walk(0, &[(6, 1)]).matrices(&[6], [(1, 1), (1, 1)]).is_none(), "behind the end");
    }

    #[test]
    fn one_element_for_all_is_told() {
        assert_eq!(walk(3, &[(4, 0), (5, 0)]).only_place(), Some(3));
        assert_eq!(walk(3, &[(4, 0), (5, 1)]).only_place(), None);
    }

    #[test]
    fn a_permutation_has_a_way_back() {
        let turned = walk(0, &[(4, 3), (5, 12), (3, 1)]);
        let back = turned.inverse().unwrap();
        (0..60).for_each(|at| assert_eq!(back.place(turned.place(at)), at));
        assert!(!turned.is_identity() && walk(0, &[(5, 12), (12, 1)]).is_identity());
        for (what, other) in [
            ("a part", walk(0, &[(4, 20), (5, 1)])),
            ("repeated", walk(0, &[(4, 0), (5, 1)])),
            ("from elsewhere on", walk(1, &[(5, 4), (4, 1)])),
        ] {
            assert!(other.inverse().is_none(), "{what}");
        }
    }
}
