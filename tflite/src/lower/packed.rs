//! Constants that the file packs: integers of 4 and 2 bits, and sparse tensors.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::Lowered;
use crate::schema::{Sparsity, SparsityLevel, Tensor, TensorKind};

/// Dense constants of more bytes than this are refused: a small file must not ask for gigabytes.
const MAX_DENSE_BYTES: usize = 1 << 28;

/// Returns whether an operand has other bytes than the file.
pub(super) fn is_packed(tensor: &Tensor) -> bool {
    tensor.sparsity.is_some() || matches!(tensor.kind, TensorKind::Int4 | TensorKind::Int2)
}

/// The bytes of a packed constant as an operand has them; `None` where the file's are those.
pub(super) fn unpacked(tensor: &Tensor, data: &[u8]) -> Lowered<Option<Vec<u8>>> {
    let elements = tensor
        .shape
        .iter()
        .try_fold(1usize, |all, &extent| all.checked_mul(usize::try_from(extent).ok()?))
        .filter(|&elements| elements <= MAX_DENSE_BYTES)
        .ok_or_else(|| format!("tensor {:?} of {:?} is too large", tensor.name, tensor.shape))?;
    // Integers of a byte.
    let packed = match tensor.kind {
        TensorKind::Int4 => Some(2),
        TensorKind::Int2 => Some(4),
        _ => None,
    };
    if let Some(sparsity) = &tensor.sparsity {
        let width = width_of(tensor.kind)
            .ok_or_else(|| format!("tensor {:?} is sparse {}", tensor.name, tensor.kind.name()))?;
        let bytes = packed.map_or_else(|| data.to_vec(), |each| parts(data, each, usize::MAX));
        let dense = densify(sparsity, &tensor.shape, elements, &bytes, width);
        let dense = dense.ok_or_else(|| format!("tensor {:?} is broken: sparse", tensor.name))?;
        return Ok(Some(dense));
    }
    let Some(each) = packed else { return Ok(None) };
    if data.len() != elements.div_ceil(each) {
        return Err(format!("tensor {:?} has {} bytes", tensor.name, data.len()).into());
    }
    Ok(Some(parts(data, each, elements)))
}

/// Bytes of an element where sparse tensors may have it.
fn width_of(kind: TensorKind) -> Option<usize> {
    match kind {
        TensorKind::Float32 | TensorKind::Int32 => Some(4),
        TensorKind::Float16 | TensorKind::Int16 => Some(2),
        TensorKind::Int8 | TensorKind::Uint8 | TensorKind::Int4 | TensorKind::Int2 => Some(1),
        _ => None,
    }
}

/// Signed integers of which each byte holds two or four, the lowest bits first, as bytes.
fn parts(data: &[u8], each: usize, count: usize) -> Vec<u8> {
    // Brought to the top of the byte, then down again with their sign.
    let four = |byte: u8| [0, 4].map(|at| (byte >> at << 4).cast_signed() >> 4);
    let two = |byte: u8| [0, 2, 4, 6].map(|at| (byte >> at << 6).cast_signed() >> 6);
    let bytes: Vec<i8> = match each {
        2 => data.iter().flat_map(|&byte| four(byte)).take(count).collect(),
        _ => data.iter().flat_map(|&byte| two(byte)).take(count).collect(),
    };
    bytes.into_iter().map(i8::cast_unsigned).collect()
}

/// A sparse tensor with its zeros; `None` where it contradicts itself.
fn densify(
    sparsity: &Sparsity,
    shape: &[u32],
    elements: usize,
    data: &[u8],
    width: usize,
) -> Option<Vec<u8>> {
    let bytes = elements.checked_mul(width).filter(|&bytes| bytes <= MAX_DENSE_BYTES)?;
    let mut walk = Walk::new(sparsity, shape)?;
    let mut dense = vec![0; bytes];
    walk.level(0, 0, 0, &mut |value, place| {
        let from = value.checked_mul(width)?;
        let to = place.checked_mul(width)?;
        let source = data.get(from..from.checked_add(width)?)?;
        dense.get_mut(to..to.checked_add(width)?)?.copy_from_slice(source);
        Some(())
    })?;
    Some(dense)
}

/// A walk over the levels of a sparse tensor.
struct Walk<'a> {
    levels: &'a [SparsityLevel],
    /// From one index of a level to the next, in elements of the dense tensor.
    strides: Vec<usize>,
    /// Nodes that may still be visited: a broken file must not make it endless.
    left: usize,
}

impl<'a> Walk<'a> {
    fn new(sparsity: &'a Sparsity, shape: &[u32]) -> Option<Self> {
        let rank = shape.len();
        let levels = &sparsity.levels;
        let order = &sparsity.order;
        let blocks = &sparsity.block_map;
        let is_whole = order.len() == levels.len()
            && order.len() == rank.checked_add(blocks.len())?
            && (0..order.len()).all(|axis| order.contains(&axis));
        if !is_whole {
            return None;
        }
        // The extent of each block, by the dimension that it is a part of.
        let mut block = vec![1usize; rank];
        for (&axis, level) in order.iter().zip(levels) {
            if let Some(of) = axis.checked_sub(rank) {
                let dimension = *blocks.get(of)?;
                *block.get_mut(dimension)? = level.dense_size().filter(|&size| size > 0)?;
            }
        }
        let mut dense = vec![1usize; rank];
        let mut stride = 1usize;
        for (axis, &extent) in shape.iter().enumerate().rev() {
            *dense.get_mut(axis)? = stride;
            stride = stride.checked_mul(usize::try_from(extent).ok()?)?;
        }
        let strides = order
            .iter()
            .map(|&axis| match axis.checked_sub(rank) {
                None => dense.get(axis)?.checked_mul(*block.get(axis)?),
                Some(of) => dense.get(*blocks.get(of)?).copied(),
            })
            .collect::<Option<Vec<_>>>()?;
        let left = stride.checked_mul(levels.len().checked_add(1)?)?;
        Some(Self { levels, strides, left })
    }

    /// Visits what is below node `at` of a level, which stands for element `place`.
    fn level(
        &mut self,
        level: usize,
        at: usize,
        place: usize,
        each: &mut dyn FnMut(usize, usize) -> Option<()>,
    ) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let Some(here) = self.levels.get(level) else { return each(at, place) };
        let stride = *self.strides.get(level)?;
        let next = level.checked_add(1)?;
        match here {
            SparsityLevel::Dense(size) => {
                let first = at.checked_mul(*size)?;
                for index in 0..*size {
                    let place = place.checked_add(index.checked_mul(stride)?)?;
                    self.level(next, first.checked_add(index)?, place, each)?;
                }
            }
            SparsityLevel::Sparse { segments, indices } => {
                let start = *segments.get(at)?;
                let end = *segments.get(at.checked_add(1)?)?;
                for (node, &index) in (start..end).zip(indices.get(start..end)?) {
                    let place = place.checked_add(index.checked_mul(stride)?)?;
                    self.level(next, node, place, each)?;
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "what a test has made")]
mod tests {
    use super::*;

    #[test]
    fn parts_of_bytes_have_signs_and_the_lower_comes_first() {
        assert_eq!(parts(&[0x21, 0xf8], 2, 3), [1, 2, 0xf8]);
        assert_eq!(parts(&[0b11_10_01_00, 0b01], 4, 5), [0, 1, 0xfe, 0xff, 1]);
    }

    /// A matrix whose rows are dense and whose columns are compressed.
    fn sparse() -> Sparsity {
        Sparsity {
            order: vec![0, 1],
            block_map: Vec::new(),
            levels: vec![
                SparsityLevel::Dense(2),
                SparsityLevel::Sparse { segments: vec![0, 1, 3], indices: vec![2, 0, 1] },
            ],
        }
    }

    #[test]
    fn rows_get_their_zeros_back() {
        let dense = densify(&sparse(), &[2, 3], 6, &[7, 8, 9], 1);
        assert_eq!(dense, Some(vec![0, 0, 7, 8, 9, 0]));
    }

    #[test]
    fn blocks_are_parts_of_their_dimension() {
        let blocks = Sparsity {
            order: vec![0, 1, 2],
            block_map: vec![1],
            levels: vec![
                SparsityLevel::Dense(1),
                SparsityLevel::Sparse { segments: vec![0, 1], indices: vec![1] },
                SparsityLevel::Dense(2),
            ],
        };
        assert_eq!(densify(&blocks, &[1, 4], 4, &[5, 6], 1), Some(vec![0, 0, 5, 6]));
    }

    #[test]
    fn what_leads_outside_is_broken() {
        let mut outside = sparse();
        outside.levels[1] =
            SparsityLevel::Sparse { segments: vec![0, 1, 3], indices: vec![2, 0, 9] };
        assert_eq!(densify(&outside, &[2, 3], 6, &[7, 8, 9], 1), None, "an index");
        assert_eq!(densify(&sparse(), &[2, 3], 6, &[7], 1), None, "too few values");
        let mut twice = sparse();
        twice.order = vec![0, 0];
        assert_eq!(densify(&twice, &[2, 3], 6, &[7, 8, 9], 1), None, "a dimension twice");
        let mut endless = sparse();
        endless.levels[0] = SparsityLevel::Dense(usize::MAX);
        assert_eq!(densify(&endless, &[2, 3], 6, &[7, 8, 9], 1), None, "a level without end");
    }
}
