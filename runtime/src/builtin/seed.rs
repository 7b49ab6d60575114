//! Numbers that look random and are the same on every machine.

/// `SplitMix64`, as published by Steele, Lea and Flood: small, and good enough for weights.
#[derive(Debug)]
pub(super) struct Seed(u64);

impl Seed {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// `count` values spread evenly over `-bound .. bound`.
    pub(super) fn uniform(&mut self, count: usize, bound: f32) -> Vec<f32> {
        let unit = |bits: u64| {
            // The top 24 bits fit a float's significand exactly.
            #[expect(clippy::cast_precision_loss, reason = "24 bits fit exactly")]
            let value = (bits >> 40) as f32;
            value / 8_388_608.0 - 1.0
        };
        (0..count).map(|_| unit(self.next()) * bound).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_within_the_bound_and_fill_it() {
        let values = Seed::new(1).uniform(10_000, 2.0);
        let (low, high) =
            values.iter().fold((0f32, 0f32), |(low, high), &v| (low.min(v), high.max(v)));
        assert!((-2.0..-1.9).contains(&low) && (1.9..2.0).contains(&high), "{low} .. {high}");
    }
}
