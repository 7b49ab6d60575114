//! From samples to figures: blocks, brackets, placements, ratios.

use hdrhistogram::Histogram;

use crate::transport::Row;

/// Above this the bare ping-pong goes beyond a shared cache: the cores are apart (on other dies,
/// say).
const FAR_FROM_NS: f64 = 250.0;
/// Probes of one bracket that differ by more than this have seen the machine change in between.
const STEADY: f64 = 1.25;

/// The placement of the two cores while a block ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// They share a cache.
    Near,
    /// They don't.
    Far,
}

impl Placement {
    /// Both, near first.
    pub const ALL: [Self; 2] = [Self::Near, Self::Far];

    /// By the bare ping-pong.
    #[must_use]
    pub fn of(atomic_ns: f64) -> Self {
        if atomic_ns < FAR_FROM_NS { Self::Near } else { Self::Far }
    }

    /// `near` or `far`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// The probes of one moment, as typical round trips in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Probes {
    /// The bare ping-pong: says where the cores are.
    pub atomic: f64,
    /// The probe that the row is compared with.
    pub matching: f64,
}

/// The probes right before and right after a block.
#[derive(Clone, Copy, Debug)]
pub struct Bracket {
    /// Right before.
    pub before: Probes,
    /// Right after.
    pub after: Probes,
}

impl Bracket {
    /// The cores' placement, unless they moved or the machine was disturbed.
    pub(crate) fn placement(&self) -> Option<Placement> {
        let Self { before, after } = self;
        let place = Placement::of(before.atomic);
        let steady = [(before.atomic, after.atomic), (before.matching, after.matching)]
            .iter()
            .all(|(a, b)| a.max(*b) <= a.min(*b) * STEADY);
        (steady && place == Placement::of(after.atomic)).then_some(place)
    }

    /// The matching probe around the block.
    pub(crate) fn matching(&self) -> f64 {
        f64::midpoint(self.before.matching, self.after.matching)
    }
}

/// A block that was kept.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Number of its round: blocks of the same round are neighbours in time.
    pub round: u32,
    /// The cores' placement.
    pub placement: Placement,
    /// The typical time of an operation, in nanoseconds.
    pub typical: f64,
    /// The matching probe's typical time around it.
    pub probe: f64,
}

/// All that was measured for one row.
#[derive(Debug)]
pub struct Series {
    /// The row.
    pub row: Row,
    /// The blocks that were kept.
    pub blocks: Vec<Block>,
    /// Blocks whose probes disagreed.
    pub dropped: u32,
    near: Histogram<u64>,
    far: Histogram<u64>,
}

impl Series {
    /// Nothing yet.
    #[must_use]
    pub fn new(row: Row) -> Self {
        Self { row, blocks: Vec::new(), dropped: 0, near: histogram(), far: histogram() }
    }

    /// Adds a block: the time of each operation in nanoseconds.
    pub fn add(&mut self, round: u32, operations_ns: &[f64], bracket: Bracket) {
        let Some(placement) = bracket.placement() else {
            self.dropped += 1;
            return;
        };
        let typical = typical(operations_ns);
        self.blocks.push(Block { round, placement, typical, probe: bracket.matching() });
        let histogram = match placement {
            Placement::Near => &mut self.near,
            Placement::Far => &mut self.far,
        };
        for &ns in operations_ns {
            histogram.saturating_record(whole(ns));
        }
    }

    /// The samples of one placement.
    #[must_use]
    pub fn histogram(&self, placement: Placement) -> &Histogram<u64> {
        match placement {
            Placement::Near => &self.near,
            Placement::Far => &self.far,
        }
    }

    /// The blocks of one placement.
    pub fn blocks(&self, placement: Placement) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.placement == placement)
    }

    /// Time per operation, block by block.
    #[must_use]
    pub fn typical(&self, placement: Placement) -> Option<Spread> {
        Spread::of(self.blocks(placement).map(|block| block.typical))
    }

    /// Time per operation as a multiple of the probe around it.
    #[must_use]
    pub fn ratio(&self, placement: Placement) -> Option<Spread> {
        Spread::of(self.blocks(placement).map(|block| block.typical / block.probe))
    }

    /// The speed as a multiple of that of `other`, by the blocks of the same rounds.
    #[must_use]
    pub fn times_as_fast_as(&self, other: &Self, placement: Placement) -> Option<Spread> {
        let pairs = self.blocks(placement).filter_map(|ours| {
            let theirs = other.blocks(placement).find(|theirs| theirs.round == ours.round)?;
            Some(theirs.typical / ours.typical)
        });
        Spread::of(pairs)
    }
}

/// The typical time of an operation: the mean of the middle half. The median would be
/// quantised by the clock, which counts in steps of 10 ns on some machines; the mean would be the
/// host's interruptions.
#[must_use]
pub fn typical(operations_ns: &[f64]) -> f64 {
    let mut sorted = operations_ns.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let middle = sorted.get(quarter..sorted.len() - quarter).unwrap_or(&sorted);
    mean(middle)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of samples")]
/// Their sum by their number.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Spread of a figure from block to block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// One in ten is below.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// One in ten is above.
    pub p90: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of the values; `None` if there are none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |tenths: usize| sorted.get(last * tenths / 10).copied();
        Some(Self { min: at(0)?, p10: at(1)?, p50: at(5)?, p90: at(9)?, max: at(10)? })
    }

    /// The spread of `1 / value`.
    #[must_use]
    pub fn inverse(self) -> Self {
        let Self { min, p10, p50, p90, max } = self;
        Self { min: 1.0 / max, p10: 1.0 / p90, p50: 1.0 / p50, p90: 1.0 / p10, max: 1.0 / min }
    }
}

/// Up to a minute, to three digits.
#[expect(clippy::expect_used, reason = "the bounds are constants, and valid")]
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a minute")]
pub(crate) fn whole(ns: f64) -> u64 {
    ns.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bracket(before: f64, after: f64) -> Bracket {
        let probes = |ns| Probes { atomic: ns, matching: ns };
        Bracket { before: probes(before), after: probes(after) }
    }

    #[test]
    fn placements_are_told_apart_and_mixed_blocks_dropped() {
        let cases = [
            ("both near", bracket(60.0, 65.0), Some(Placement::Near)),
            ("both far", bracket(450.0, 470.0), Some(Placement::Far)),
            ("moved", bracket(60.0, 450.0), None),
            ("disturbed", bracket(60.0, 90.0), None),
        ];
        for (what, bracket, want) in cases {
            assert_eq!(bracket.placement(), want, "{what}");
        }
    }

    #[test]
    fn the_typical_time_ignores_both_tails() {
        let mut samples = vec![100.0; 50];
        samples.extend([110.0; 50]);
        samples.extend([1.0, 1e9]);
        assert!((typical(&samples) - 105.0).abs() < 0.5, "{}", typical(&samples));
    }

    #[test]
    fn a_spread_orders_its_values_and_none_gives_none() {
        let spread = Spread::of((0..=100).rev().map(f64::from)).unwrap();
        assert_eq!(
            [spread.min, spread.p10, spread.p50, spread.p90, spread.max],
            [0.0, 10.0, 50.0, 90.0, 100.0]
        );
        assert_eq!(Spread::of(std::iter::empty()), None);
    }
}
