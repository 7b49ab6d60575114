//! What steps of floats compute, for passes that know patterns of several.

use nnburst_kernels::kernels::binary_f32::Arithmetic;
use nnburst_kernels::kernels::transcendental_f32::Function;
use nnburst_kernels::tensor::Shape;

/// The function of a step of 32-bit floats, without an activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Recipe {
    /// The mean of each row of so many columns.
    Means {
        /// Elements of a row.
        columns: usize,
    },
    /// Inputs 0 and 1, combined.
    Binary(Arithmetic, [Spread; 2]),
    /// A function of each element of input 0.
    Map(Function),
    /// SOFTMAX of each row of so many columns, times `beta`.
    Softmax {
        /// Elements of a row.
        columns: usize,
        /// The factor of each element.
        beta: f32,
    },
    /// 1 over the square root of each element.
    InverseRoots,
    /// Each element with the other sign.
    Negatives,
}

/// How an operand is spread over the rows and columns of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// An element for each of the result.
    Each,
    /// One for all.
    One,
    /// One for each row.
    Row,
    /// One for each column.
    Column,
}

impl Spread {
    /// That of an operand of a result that is `wide`; `None` for any other.
    pub(crate) fn of(operand: &Shape, wide: &Shape) -> Option<Self> {
        let (last, columns) = (operand.last().copied().unwrap_or(1), *wide.last()?);
        let (count, all) = (operand.elements(), wide.elements());
        match count {
            _ if count == all => Some(Self::Each),
            1 => Some(Self::One),
            _ if count == columns && last == columns => Some(Self::Column),
            _ if last == 1 && count.checked_mul(columns) == Some(all) => Some(Self::Row),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_spread_by_their_shapes_not_their_lengths() {
        let shape = |extents: &[usize]| Shape::new(extents.to_vec()).unwrap();
        let wide = shape(&[2, 3, 6]);
        for (operand, want) in [
            (vec![2, 3, 6], Some(Spread::Each)),
            (vec![2, 3, 1], Some(Spread::Row)),
            (vec![6], Some(Spread::Column)),
            (vec![1, 6], Some(Spread::Column)),
            (vec![1, 1], Some(Spread::One)),
            (vec![3, 1], None),
            (vec![3, 6], None),
        ] {
            assert_eq!(Spread::of(&shape(&operand), &wide), want, "{operand:?}");
        }
    }
}
