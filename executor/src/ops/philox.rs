//! Random numbers of a counter, encrypted: Philox 4x32-10 (Salmon et al., "Parallel random numbers:
//! as easy as 1, 2, 3", 2011), as TensorFlow and Android draw them.

use std::hash::{BuildHasher, Hasher};

/// A stream of 32-bit words.
#[derive(Debug)]
pub(super) struct Philox {
    key: [u32; 2],
    counter: [u32; 4],
    words: [u32; 4],
    /// Words of the block already given out.
    used: usize,
}

impl Philox {
    /// Of two seeds of 0, seeds that differ each time are made.
    pub(super) fn new(seed: i64, stream: i64) -> Self {
        let (seed, stream) = if seed == 0 && stream == 0 {
            // The standard library's hash keys are random; that is entropy enough here.
            let entropy = std::hash::RandomState::new().build_hasher().finish();
            (entropy.cast_signed(), entropy.rotate_left(32).cast_signed())
        } else {
            (seed, stream)
        };
        let [low, high] = halves(stream.cast_unsigned());
        Self {
            key: halves(seed.cast_unsigned()),
            counter: [0, 0, low, high],
            words: [0; 4],
            used: 4,
        }
    }

    /// Uniform in `[0, 1)`, of 52 bits.
    #[expect(clippy::cast_precision_loss, reason = "52 bits are exact")]
    pub(super) fn unit(&mut self) -> f64 {
        let (a, b) = (self.word(), self.word());
        (u64::from(a & 0xF_FFFF) << 32 | u64::from(b)) as f64 / (1u64 << 52) as f64
    }

    /// Uniform in `[0, 1)`, of 23 bits.
    #[expect(clippy::cast_precision_loss, reason = "23 bits are exact")]
    pub(super) fn unit_f32(&mut self) -> f32 {
        (self.word() & 0x7F_FFFF) as f32 / (1u32 << 23) as f32
    }

    /// The next word.
    fn word(&mut self) -> u32 {
        if self.used == 4 {
            self.words = block(self.key, self.counter);
            self.used = 0;
            let block = u64::from(self.counter[1]) << 32 | u64::from(self.counter[0]);
            [self.counter[0], self.counter[1]] = halves(block.wrapping_add(1));
        }
        self.used += 1;
        self.words[self.used - 1]
    }
}

/// A counter, encrypted with a key.
pub(super) fn block(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let ([mut k0, mut k1], mut c) = (key, counter);
    for _ in 0..10 {
        let [p_low, p_high] = halves(u64::from(c[0]) * 0xD251_1F53);
        let [q_low, q_high] = halves(u64::from(c[2]) * 0xCD9E_8D57);
        c = [q_high ^ c[1] ^ k0, q_low, p_high ^ c[3] ^ k1, p_low];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    c
}

/// Low half first.
#[expect(clippy::cast_possible_truncation, reason = "takes the two halves apart")]
pub(super) fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_block() {
        // Known answer of the paper's reference for an all-zero key and counter.
        let published = [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
        assert_eq!(block([0; 2], [0; 4]), published);
    }

    #[test]
    fn the_same_seeds_draw_the_same() {
        let draw = |seed| {
            let mut random = Philox::new(seed, 7);
            (0..9).map(|_| random.unit()).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        assert!(draw(3).iter().all(|unit| (0.0..1.0).contains(unit)));
        assert_ne!(draw(3), draw(3 + (1 << 32)), "seeds have 64 bits");
    }
}
