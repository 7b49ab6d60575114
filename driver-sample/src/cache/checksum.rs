//! A checksum as fast as memory is read: FNV-1a over eight lanes of 64-bit words, folded at the end.
//!
//! It tells damage, not intent; what is read is validated all the same.

const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
const LANES: usize = 8;
const BLOCK: usize = LANES * 8;

/// The sum of the bytes so far.
#[derive(Clone, Debug)]
pub(crate) struct Checksum {
    lanes: [u64; LANES],
    length: u64,
}

impl Default for Checksum {
    fn default() -> Self {
        let mut seed = PRIME;
        let lanes = [(); LANES].map(|()| {
            seed = seed.rotate_left(23).wrapping_mul(PRIME);
            seed
        });
        Self { lanes, length: 0 }
    }
}

impl Checksum {
    /// The sum of one piece.
    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut sum = Self::default();
        sum.add(bytes);
        sum.finish()
    }

    /// Adds a piece; all but the last are multiples of 64 bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for block in blocks {
            self.add_block(block);
        }
        if !rest.is_empty() {
            let mut last = [0; BLOCK];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.add_block(&last);
        }
        self.length = self.length.wrapping_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }

    /// Adds the zeros up to the next multiple of 64 bytes.
    pub(crate) fn pad(&mut self) {
        // They were in the last block already.
        self.length = self.length.next_multiple_of(64);
    }

    #[inline]
    fn add_block(&mut self, block: &[u8; BLOCK]) {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in self.lanes.iter_mut().zip(words) {
            // Multiplying carries upwards only; the rotation brings the high bits back down.
            *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME).rotate_left(29);
        }
    }

    /// The sum; the length is part of it.
    pub(crate) fn finish(&self) -> u64 {
        self.lanes.iter().fold(self.length, |sum, lane| {
            let mixed = (sum ^ lane).wrapping_mul(PRIME);
            mixed ^ mixed >> 32
        })
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
    fn pieces_give_the_sum_of_the_whole() {
        let bytes: Vec<u8> = (0u8..200).collect();
        let mut sum = Checksum::default();
        sum.add(&bytes[..64]);
        sum.add(&bytes[64..192]);
        sum.add(&bytes[192..]);
        assert_eq!(sum.finish(), Checksum::of(&bytes));
        sum.pad();
        let padded: Vec<u8> = (0..200).chain([0; 56]).collect();
        assert_eq!(sum.finish(), Checksum::of(&padded));
    }
}
