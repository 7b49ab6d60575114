//! Random decisions, from bytes and then from a seed.

/// Decides by the bytes given, one or two for each decision; when they run out, by numbers made of
/// the seed. The same start always makes the same decisions.
#[derive(Clone, Debug)]
pub struct TestRng {
    bytes: Vec<u8>,
    used: usize,
    state: u64,
}

impl TestRng {
    /// Decides by a seed.
    pub fn of_seed(seed: u64) -> Self {
        Self { bytes: Vec::new(), used: 0, state: seed }
    }

    /// Decides by bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let state = bytes
            .iter()
            .fold(0u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        Self { bytes: bytes.to_vec(), used: 0, state }
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        if let Some(&[a, b]) = self.bytes.get(self.used..self.used + 2) {
            self.used += 2;
            return u64::from(u16::from_le_bytes([a, b]));
        }
        // SplitMix64 (Steele et al., 2014).
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, not including, `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() % (limit.max(1) as u64)).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + u32::try_from(self.below((high - low) as usize + 1)).unwrap_or(0)
    }

    /// One of several.
    pub fn one_of<T: Copy + Default>(&mut self, choices: &[T]) -> T {
        let at = self.below(choices.len());
        choices.get(at).copied().unwrap_or_default()
    }

    /// True in one of `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A number of at most 1 in size, on a grid of 64ths so that sums of few of them are exact.
    #[expect(clippy::cast_precision_loss, reason = "below 2^8")]
    pub fn real(&mut self) -> f32 {
        (self.below(129) as f32 - 64.0) / 64.0
    }
}
