//! The sum of a body: that of the sums of its blocks, so that several threads can share the work.
//!
//! It detects damage, not intent; what is read is validated all the same.

use super::stripe_sum::StripeSum;

/// Bytes that are summed up apart.
pub(crate) const BLOCK: usize = 2 << 20;

/// The sum of bytes that come piece by piece, each of which counts as filled up with zeros to a
/// multiple of 64.
#[derive(Default)]
pub(crate) struct Checksum {
    block: StripeSum,
    in_block: usize,
    blocks: Vec<u64>,
}

impl Checksum {
    /// The sum of one piece.
    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut sum = Self::default();
        sum.add(bytes);
        sum.finish()
    }

    /// The sum of a whole out of the sums of its blocks.
    pub(crate) fn of_blocks(sums: &[u64]) -> u64 {
        let mut blocks = StripeSum::default();
        let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        blocks.add(&bytes);
        blocks.finish()
    }

    /// Adds a piece.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK.saturating_sub(self.in_block);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.add(now);
            self.in_block = self.in_block.saturating_add(now.len().next_multiple_of(64));
            if self.in_block >= BLOCK {
                self.end_block();
            }
            bytes = later;
        }
    }

    fn end_block(&mut self) {
        self.blocks.push(std::mem::take(&mut self.block).finish());
        self.in_block = 0;
    }

    /// The sum.
    pub(crate) fn finish(mut self) -> u64 {
        if self.in_block > 0 {
            self.end_block();
        }
        Self::of_blocks(&self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_blocks_give_the_sum_of_the_whole() {
        let bytes: Vec<u8> = (0u8..200).cycle().take(2 * BLOCK + 77).collect();
        let mut sum = Checksum::default();
        bytes.chunks(64 * 9973).for_each(|piece| sum.add(piece));
        let whole = sum.finish();
        assert_eq!(whole, Checksum::of(&bytes));
        let block = |bytes: &[u8]| {
            let mut sum = StripeSum::default();
            sum.add(bytes);
            sum.finish()
        };
        let mut blocks: Vec<u64> = bytes.chunks(BLOCK).map(block).collect();
        assert_eq!(whole, Checksum::of_blocks(&blocks));
        blocks.swap(0, 1);
        assert_ne!(whole, Checksum::of_blocks(&blocks), "blocks that changed places");
    }
}
