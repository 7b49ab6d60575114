//! RESHAPE: the same elements under another shape.

use nnburst_kernels::tensor::{OpError, Shape};

use super::Op;
use crate::lowering::{Lowered, OpBuilder};

pub(super) static RESHAPE: Op = Op { lower };

/// Source: NNAPI `RESHAPE`, since HAL 1.0. At most one extent may be -1, worked out from the
/// others.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    let wanted = op.i32s(1)?;
    op.set_output(0, shape(&input.shape, &wanted)?)?;
    op.alias(0, 0)?;
    Ok(())
}

fn shape(input: &Shape, wanted: &[i32]) -> Result<Shape, OpError> {
    let elements = input.elements();
    let mismatch = || OpError::input(1, format!("{wanted:?} doesn't hold {elements} elements"));
    let known: Vec<_> = wanted.iter().filter(|&&extent| extent != -1).copied().collect();
    if known.len() + 1 < wanted.len() {
        return Err(OpError::input(1, format!("{wanted:?} has more than one -1")));
    }
    let extents: Result<Vec<usize>, _> =
        known.iter().map(|&extent| usize::try_from(extent)).collect();
    let product = Shape::new(extents.map_err(|_| mismatch())?)?.elements();
    let missing = elements.checked_div(product).unwrap_or(0);
    let extents: Vec<usize> =
        wanted.iter().map(|&extent| usize::try_from(extent).unwrap_or(missing)).collect();
    let shape = Shape::new(extents)?;
    if shape.elements() == elements { Ok(shape) } else { Err(mismatch()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_extent_is_worked_out() {
        let input = Shape::new([2, 3, 4]).unwrap();
        assert_eq!(&shape(&input, &[4, -1]).unwrap()[..], [4, 6]);
        assert_eq!(&shape(&input, &[24]).unwrap()[..], [24]);
        for (what, wanted) in [
            ("too few", &[5, 4][..]),
            ("two unknown", &[-1, -1, 24]),
            ("no divisor", &[7, -1]),
            ("negative", &[-2, -12]),
        ] {
            assert!(shape(&input, wanted).is_err(), "{what}");
        }
    }
}
