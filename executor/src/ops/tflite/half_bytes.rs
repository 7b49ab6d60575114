//! One row of floats, quantised on the fly, by constant weights of 4 bits: what takes time is to
//! fetch them, and half bytes come in half of it.

use nnburst_kernels::kernels::gemv_blocks_i4::GemvBlocks;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;

use super::arg::{Arg, ElementKind, OperatorCall};
use super::math::cut_i32;
use crate::lowering::Lowered;

/// Fewer weights stay in L1, from where bytes come as quickly as they are multiplied.
const FEWEST: usize = 48 << 10;

/// Weights of 4 bits, packed, of units of the same scale along their depth.
#[derive(Debug)]
pub(super) struct HalfBytes {
    packed: GemvBlocks,
    depth: usize,
    units: usize,
}

impl HalfBytes {
    /// Packs input `input`, rows of `depth` bytes whose zero point is 0; also gives each one's sum.
    /// `None` unless they are constants of -8 to 7, and enough.
    pub(super) fn new(
        call: &mut OperatorCall<'_, '_>,
        input: usize,
        weights: &Arg,
        depth: usize,
    ) -> Lowered<Option<(Self, Vec<i32>)>> {
        if weights.kind != ElementKind::I8 || weights.zero_point != 0 {
            return Ok(None);
        }
        let Some(bytes) = call.constant(input) else { return Ok(None) };
        let values = bytes.typed::<i8>();
        let units = values.len().checked_div(depth).unwrap_or(0);
        if values.len() < FEWEST {
            return Ok(None);
        }
        call.claim(8 * units)?;
        // One block for the whole row: its sum is a float without an error.
        let packed = GemvBlocks::new(call.isa(), values, depth, 1, &vec![1.0; units]);
        let sum = |row: &[i8]| row.iter().map(|&weight| i32::from(weight)).sum();
        let sums = || values.chunks_exact(depth).map(sum).collect();
        Ok(packed.map(|packed| (Self { packed, depth, units }, sums())))
    }
}

impl HalfBytes {
    /// The form that was chosen.
    pub(super) fn isa(&self) -> Isa {
        self.packed.isa()
    }

    /// Bytes of work memory: for the row, its sums, and what they begin with.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.depth.next_multiple_of(4) + 4 * (self.packed.totals() + self.packed.blocks())
    }

    /// The row's part of the work memory, and the rest.
    pub(super) fn split<'s>(&self, scratch: &'s mut [u8]) -> (&'s mut [u8], &'s mut [u8]) {
        let (row, rest) = scratch.split_at_mut(self.depth.next_multiple_of(4));
        (&mut row[..self.depth], rest)
    }

    /// The sums of a row of signed bytes, in the rest of the work memory.
    ///
    /// # Errors
    /// The run was ended.
    pub(super) fn compute<'s>(&self, row: &[u8], rest: &'s mut [u8]) -> Result<&'s [i32], String> {
        let (totals, starts) = rest.split_at_mut(4 * self.packed.totals());
        let reals: &mut [f32] = bytemuck::cast_slice_mut(totals);
        let starts = bytemuck::cast_slice_mut(&mut starts[..4 * self.packed.blocks()]);
        self.packed.compute(bytemuck::cast_slice(row), starts, reals)?;
        self.packed.isa().run(Integers { totals: &mut *totals });
        Ok(&bytemuck::cast_slice(totals)[..self.units])
    }
}

/// Floats that are integers, in their place.
struct Integers<'a> {
    totals: &'a mut [u8],
}

impl Loop for Integers<'_> {
    #[inline(always)]
    fn run(self) {
        for of in self.totals.as_chunks_mut::<4>().0 {
            *of = cut_i32(f32::from_ne_bytes(*of)).to_ne_bytes();
        }
    }
}
