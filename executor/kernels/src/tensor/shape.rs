//! Shapes that are fully known: what an operation computes with.

use std::fmt;
use std::ops::Deref;

use crate::tensor::OpError;

/// Extents of a tensor, outermost first; empty for a scalar. A 0 is a real extent of 0.
///
/// The product of the extents that aren't 0 fits 32 bits, so products of some of them can't
/// overflow.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// The shape of these extents.
    ///
    /// # Errors
    /// More than 2^32 - 1 elements.
    pub fn new(extents: impl Into<Vec<usize>>) -> Result<Self, OpError> {
        let extents = extents.into();
        let product = extents
            .iter()
            .filter(|&&extent| extent > 0)
            .try_fold(1usize, |product, &extent| product.checked_mul(extent));
        match product {
            Some(product) if u32::try_from(product).is_ok() => Ok(Self(extents)),
            _ => Err(OpError::rule(format!("a tensor of {extents:?} is too large"))),
        }
    }

    /// From the interface's extents, a 0 being a real extent of 0.
    ///
    /// # Errors
    /// More than 2^32 - 1 elements.
    pub fn from_u32(dimensions: &[u32]) -> Result<Self, OpError> {
        let extents: Vec<usize> = dimensions.iter().map(|&extent| extent as usize).collect();
        Self::new(extents)
    }

    /// The interface's extents.
    pub fn to_u32(&self) -> Vec<u32> {
        self.0.iter().map(|&extent| u32::try_from(extent).unwrap_or(u32::MAX)).collect()
    }

    /// Returns the number of extents.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Product of the extents; 1 for a scalar.
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// Elements between neighbours along each extent, row-major.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.0.len()];
        for axis in (1..self.0.len()).rev() {
            strides[axis - 1] = strides[axis] * self.0[axis].max(1);
        }
        strides
    }

    /// A position from either end: `-1` is the last axis.
    ///
    /// # Errors
    /// `axis` is outside `-rank .. rank`.
    pub fn axis(&self, axis: i32) -> Result<usize, OpError> {
        let rank = i64::try_from(self.rank()).unwrap_or(i64::MAX);
        let from_front = i64::from(axis) + if axis < 0 { rank } else { 0 };
        usize::try_from(from_front)
            .ok()
            .filter(|&axis| axis < self.rank())
            .ok_or_else(|| OpError::rule(format!("axis {axis} is not within rank {rank}")))
    }

    /// Splits at an axis: elements before it, on it, and behind it.
    pub fn around(&self, axis: usize) -> (usize, usize, usize) {
        let outer = self.0[..axis].iter().product();
        let inner = self.0[axis + 1..].iter().product();
        (outer, self.0[axis], inner)
    }

    /// The shape both broadcast to: aligned at the last extent, 1 is repeated.
    ///
    /// # Errors
    /// Two extents differ and neither is 1.
    pub fn broadcast(&self, other: &Self) -> Result<Self, OpError> {
        let rank = self.rank().max(other.rank());
        let extent = |shape: &Self, axis: usize| {
            (axis + shape.rank()).checked_sub(rank).map_or(1, |axis| shape.0[axis])
        };
        let extents = (0..rank)
            .map(|axis| match (extent(self, axis), extent(other, axis)) {
                (x, y) if x == y || y == 1 => Ok(x),
                (1, y) => Ok(y),
                _ => Err(OpError::rule(format!("{self:?} and {other:?} don't broadcast"))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Self::new(extents)
    }

    /// Strides with which a tensor of this shape is read as if it were of shape `wide`: 0 where it
    /// is repeated.
    pub fn broadcast_strides(&self, wide: &Self) -> Vec<usize> {
        let missing = wide.rank() - self.rank();
        let own = self.strides();
        (0..wide.rank())
            .map(|axis| match axis.checked_sub(missing) {
                Some(axis) if self.0[axis] != 1 => own[axis],
                _ => 0,
            })
            .collect()
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Combines what is known of a shape from two sides; `0` and an empty list are unknown, as in the
/// interface. `None` if the two contradict each other.
pub fn merge(declared: &[u32], computed: &Shape) -> bool {
    declared.is_empty()
        || declared.len() == computed.rank()
            && declared
                .iter()
                .zip(computed.iter())
                .all(|(&declared, &computed)| declared == 0 || declared as usize == computed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(extents: &[usize]) -> Shape {
        Shape::new(extents).unwrap()
    }

    #[test]
    fn broadcasting_aligns_at_the_end() {
        let (a, b) = (shape(&[2, 1, 3]), shape(&[4, 1]));
        let wide = a.broadcast(&b).unwrap();
        assert_eq!(wide, shape(&[2, 4, 3]));
        assert_eq!(a.broadcast_strides(&wide), [3, 0, 1]);
        assert_eq!(b.broadcast_strides(&wide), [0, 1, 0]);
        assert_eq!(shape(&[0]).broadcast(&shape(&[1])).unwrap(), shape(&[0]));
        assert!(shape(&[0]).broadcast(&shape(&[3])).is_err(), "0 against 3");
    }

    #[test]
    fn what_is_too_large_is_refused() {
        assert!(Shape::new([0usize, 1 << 31, 4]).is_err(), "zero does not hide the others");
        assert!(Shape::new([usize::MAX, usize::MAX]).is_err());
        assert_eq!(shape(&[2, 0]).elements(), 0);
    }

    #[test]
    fn axes_count_from_either_end() {
        assert_eq!(shape(&[1, 2, 3]).axis(-1), Ok(2));
        assert!(shape(&[1, 2, 3]).axis(3).is_err());
        assert_eq!(shape(&[2, 3, 4]).around(1), (2, 3, 4));
    }
}
