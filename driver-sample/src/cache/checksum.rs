//! The sum of a body: XXH3 of the XXH3 of its blocks, so that several threads can share the work.
//!
//! It tells damage, not intent; what is read is validated all the same.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// Bytes that are summed up apart.
pub(crate) const BLOCK: usize = 1 << 20;

/// The sum of bytes that come piece by piece.
#[derive(Default)]
pub(crate) struct Checksum {
    block: XxHash3_64,
    in_block: usize,
    blocks: XxHash3_64,
}

impl Checksum {
    /// The sum of one piece.
    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut sum = Self::default();
        sum.add(bytes);
        sum.finish()
    }

    /// The sum of a whole out of the sums of its blocks, each of which is [`XxHash3_64`]'s.
    pub(crate) fn of_blocks(sums: &[u64]) -> u64 {
        let mut blocks = XxHash3_64::default();
        sums.iter().for_each(|sum| blocks.write(&sum.to_le_bytes()));
        blocks.finish()
    }

    /// Adds a piece.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK.saturating_sub(self.in_block);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.write(now);
            self.in_block = self.in_block.saturating_add(now.len());
            if self.in_block == BLOCK {
                self.end_block();
            }
            bytes = later;
        }
    }

    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        self.blocks.write(&block.finish().to_le_bytes());
        self.in_block = 0;
    }

    /// The sum.
    pub(crate) fn finish(mut self) -> u64 {
        if self.in_block > 0 {
            self.end_block();
        }
        self.blocks.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_the_length_count() {
        let mut bytes: Vec<u8> = (0..=255).chain(0..77).collect();
        let sum = Checksum::of(&bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert_ne!(Checksum::of(&bytes), sum, "bit {bit} of byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
        bytes.push(0);
        assert_ne!(Checksum::of(&bytes), sum, "a zero more");
        bytes.pop();
        bytes.swap(3, 200);
        assert_ne!(Checksum::of(&bytes), sum, "two bytes that changed places");
    }

    #[test]
    fn pieces_and_blocks_give_the_sum_of_the_whole() {
        let bytes: Vec<u8> = (0u8..200).cycle().take(2 * BLOCK + 77).collect();
        let mut sum = Checksum::default();
        bytes.chunks(BLOCK / 3).for_each(|piece| sum.add(piece));
        let whole = sum.finish();
        assert_eq!(whole, Checksum::of(&bytes));
        let blocks: Vec<u64> = bytes.chunks(BLOCK).map(XxHash3_64::oneshot).collect();
        assert_eq!(whole, Checksum::of_blocks(&blocks));
    }
}
