//! Constants with a scale for each block of elements along the last dimension.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::{Lowered, MAX_MADE_ELEMENTS, packed};
use crate::schema::{File, Graph, Tensor, TensorKind};

/// A constant's integers, and the scales of its blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Signed bytes.
    pub(super) integers: Vec<u8>,
    /// `[.., blocks of a row]`.
    pub(super) scales: Vec<f32>,
    /// Elements of a block.
    pub(super) block: usize,
}

impl Blocks {
    /// The real values: each integer times the scale of its block.
    pub(super) fn reals(&self) -> Vec<f32> {
        let blocks = self.integers.chunks_exact(self.block.max(1)).zip(&self.scales);
        let real = |(block, &scale): (&[u8], &f32)| {
            let reals = block.iter().map(move |&byte| f32::from(byte.cast_signed()) * scale);
            reals.collect::<Vec<f32>>()
        };
        blocks.flat_map(real).collect()
    }
}

/// Reads a constant whose scales are another constant of FLOAT16 or FLOAT32, `[.., blocks of a
/// row]`.
pub(super) fn blocks(file: &File<'_>, graph: &Graph<'_>, index: usize) -> Lowered<Blocks> {
    let tensor = graph.tensors.get(index).ok_or("there is no such tensor")?;
    let broken = |what: &str| format!("tensor {:?} has scales of blocks and {what}", tensor.name);
    let quantization = tensor.quantization.blockwise.as_ref();
    let quantization = quantization.ok_or_else(|| broken("none"))?;
    let data = file.data(tensor).ok_or_else(|| broken("no value"))?;
    let integers = match (tensor.kind, packed::unpacked(tensor, data)?) {
        (TensorKind::Int4 | TensorKind::Int2, Some(bytes)) => bytes,
        (TensorKind::Int8, None) => data.to_vec(),
        (kind, _) => return Err(broken(&format!("is {}", kind.name())).into()),
    };
    if quantization.zero_points != -1 {
        return Err(broken("zero points").into());
    }
    let scales = usize::try_from(quantization.scales).ok();
    let scales = scales.and_then(|scales| graph.tensors.get(scales));
    let scales = scales.and_then(|scales| floats(file, scales));
    let scales = scales.ok_or_else(|| broken("no constant of floats for them"))?;
    let block = usize::try_from(quantization.block).ok().filter(|&block| block > 0);
    let block = block.ok_or_else(|| broken(&format!("blocks of {}", quantization.block)))?;
    let row = tensor.shape.last().and_then(|&row| usize::try_from(row).ok()).unwrap_or(0);
    let elements = tensor
        .shape
        .iter()
        .try_fold(1usize, |all, &extent| all.checked_mul(usize::try_from(extent).ok()?));
    let fits = row.is_multiple_of(block)
        && elements == Some(integers.len())
        && scales.len().checked_mul(block) == elements
        && integers.len() <= MAX_MADE_ELEMENTS;
    if !fits {
        let what = format!("{} of them for {:?} in blocks of {block}", scales.len(), tensor.shape);
        return Err(broken(&what).into());
    }
    Ok(Blocks { integers, scales, block })
}

/// The values of a constant of floats.
fn floats(file: &File<'_>, tensor: &Tensor) -> Option<Vec<f32>> {
    let data = file.data(tensor)?;
    match tensor.kind {
        TensorKind::Float32 => {
            Some(data.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
        }
        TensorKind::Float16 => {
            let halves = data.as_chunks().0.iter();
            Some(halves.map(|&bytes| half_to_f32(u16::from_le_bytes(bytes))).collect())
        }
        _ => None,
    }
}

/// IEEE half precision as single precision, which has every value of it.
fn half_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1F), u32::from(bits & 0x3FF));
    let magnitude = match exponent {
        // Subnormal: a multiple of 2^-24.
        0 => f32::from(bits & 0x3FF) * f32::from_bits((127 - 24) << 23),
        0x1F => f32::from_bits(0xFF << 23 | fraction << 13),
        _ => f32::from_bits(exponent.wrapping_add(127 - 15) << 23 | fraction << 13),
    };
    f32::from_bits(magnitude.to_bits() | sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_exact() {
        for (bits, want) in [
            (0x0000, 0.0),
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x7BFF, 65504.0),
            (0x0400, 2f32.powi(-14)),
            (0x0001, 2f32.powi(-24)),
            (0x83FF, -1023.0 * 2f32.powi(-24)),
            (0x3555, 0.333_251_95),
            (0x7C00, f32::INFINITY),
        ] {
            assert_eq!(half_to_f32(bits).to_bits(), f32::to_bits(want), "{bits:#x}");
        }
        assert!(half_to_f32(0x7E00).is_nan());
    }
}
