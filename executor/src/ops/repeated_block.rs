//! Operands that outer axes repeat: a number for each group of channels beside an image. Written
//! down once as a block for the inner axes they stand beside rows of the other operand, which are
//! longer than what has one element of them.

use nnburst_kernels::tensor::{Element, In, poll};

use super::broadcast::{Broadcast, BroadcastSpan};

/// An operand that is repeated as a block of the other one's inner axes.
#[derive(Clone, Debug)]
pub(super) struct RepeatedBlock {
    /// Which operand.
    pub(super) repeated: usize,
    /// How often.
    pub(super) rows: usize,
    /// The inner axes.
    of: Broadcast,
}

impl RepeatedBlock {
    /// The operand whose elements along the inner axes are those of all positions along the outer
    /// ones, if these are several and the other operand has all elements.
    pub(super) fn of(broadcast: &Broadcast) -> Option<Self> {
        /// Elements of a block, at most.
        const MOST: usize = 4096;
        let whole: Vec<usize> = (0..broadcast.extents.len())
            .map(|axis| broadcast.extents[axis + 1..].iter().product())
            .collect();
        (0..2).find_map(|repeated| {
            let strides = &broadcast.strides[repeated];
            let outer = strides.iter().take_while(|&&stride| stride == 0).count();
            let (rows, extents) = broadcast.extents.split_at_checked(outer)?;
            let strides = broadcast.strides.each_ref().map(|of| of[outer..].to_vec());
            let of = Broadcast { extents: extents.to_vec(), strides };
            let (rows, len) = (rows.iter().product::<usize>(), extents.iter().product::<usize>());
            let fits = extents.len() > 1 && rows > 1 && (1..=MOST).contains(&len);
            let is_other_whole = broadcast.strides[1 - repeated] == whole;
            (fits && is_other_whole).then_some(Self { repeated, rows, of })
        })
    }

    /// Elements of the block.
    pub(super) fn len(&self) -> usize {
        self.of.extents.iter().product()
    }

    /// Elements of each operand from one row to the next.
    pub(super) fn strides(&self) -> [usize; 2] {
        [0, 1].map(|of| if of == self.repeated { 0 } else { self.len() })
    }

    /// Writes the block down.
    ///
    /// # Errors
    /// The run is to end.
    pub(super) fn write<T: Element>(
        &self,
        operand: In<'_, T>,
        block: &mut [T],
    ) -> Result<(), String> {
        poll::work(block.len() * 4)?;
        self.of.each_line(|BroadcastSpan { at, from, len, steps }| {
            let (from, to) = (from[self.repeated], &mut block[at..at + len]);
            match steps[self.repeated] {
                0 => to.fill(operand.get(from)),
                _ => operand.slice(from..from + len).copy_to(to),
            }
            Ok(())
        })
    }

    /// As [`RepeatedBlock::write`], of elements of 1, 2, 4 or 8 bytes.
    ///
    /// # Errors
    /// The run is to end.
    pub(super) fn write_bytes(
        &self,
        size: usize,
        operand: In<'_, u8>,
        block: &mut [u8],
    ) -> Result<(), String> {
        match size {
            1 => self.write(operand, block),
            2 => self.write::<u16>(operand.cast(), bytemuck::cast_slice_mut(block)),
            4 => self.write::<u32>(operand.cast(), bytemuck::cast_slice_mut(block)),
            _ => self.write::<u64>(operand.cast(), bytemuck::cast_slice_mut(block)),
        }
    }

    /// The other operand's rows beside the block.
    pub(super) fn beside_it(&self) -> Broadcast {
        let strides = self.strides().map(|stride| vec![stride, 1]);
        Broadcast { extents: vec![self.rows, self.len()], strides }
    }
}

#[cfg(test)]
mod tests {
    use nnburst_kernels::tensor::Shape;

    use super::*;

    #[test]
    fn blocks_are_written_down_where_outer_axes_repeat_them() {
        let shape = |extents: &[usize]| Shape::new(extents.to_vec()).unwrap();
        let of = |wide: &[usize], a: &[usize], b: &[usize]| {
            RepeatedBlock::of(&Broadcast::new(&shape(wide), &shape(a), &shape(b)))
        };
        let groups = of(&[5, 3, 2], &[5, 3, 2], &[3, 1]).unwrap();
        assert_eq!((groups.repeated, groups.rows, groups.len()), (1, 5, 6));
        assert_eq!(groups.strides(), [6, 0]);
        let mut block = [0u16; 6];
        groups.write(In::of(&[7, 8, 9]), &mut block).unwrap();
        assert_eq!(block, [7, 7, 8, 8, 9, 9]);
        let lines = of(&[4, 2, 3, 2], &[2, 1, 2], &[4, 2, 3, 2]).unwrap();
        assert_eq!((lines.repeated, lines.rows), (0, 4));
        let mut block = [0u16; 12];
        lines.write(In::of(&[1, 2, 3, 4]), &mut block).unwrap();
        assert_eq!(block, [1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4]);
        // A row is no block, nor is what isn't repeated, or beside what has not all elements.
        assert!(of(&[5, 3], &[5, 3], &[3]).is_none());
        assert!(of(&[5, 3, 2], &[5, 3, 2], &[5, 1, 2]).is_none());
        assert!(of(&[5, 3, 2], &[5, 1, 2], &[3, 1]).is_none());
    }
}
