//! From repeated measurements to a figure: what is noise counts as equal.

/// Pairs of runs; an odd number, so that there is a middle one.
pub(super) const RUNS: usize = 41;

/// The distance from the middle of the ranks between which the true ratio lies in all but one of a
/// thousand measurements: 3.3 times the standard deviation of a binomial distribution of as many
/// runs, which is half their square root.
const SPREAD: usize = 11;

/// The least difference that is one, even if it were certain.
const LEAST: f32 = 0.05;

/// The share that one way to compute takes of another, by the ratios of runs in turns; exactly 1
/// where the ratios don't show with confidence that it is not, or where it is by less than a
/// twentieth.
pub(super) fn figure(mut ratios: [f32; RUNS]) -> f32 {
    ratios.sort_by(f32::total_cmp);
    let middle = RUNS / 2;
    let [low, median, high] = [middle - SPREAD, middle, middle + SPREAD].map(|rank| ratios[rank]);
    if (low <= 1.0 && high >= 1.0) || (median - 1.0).abs() < LEAST {
        return 1.0;
    }
    // Hundredths say all that is known.
    ((median * 100.0).round() / 100.0).max(0.01)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of equal work on a loaded machine: a tenth of scatter, and now and then several times
    /// as long.
    fn time(random: &mut u64) -> f32 {
        let mut next = || {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f32::from(u16::try_from(*random >> 48).unwrap()) / 65536.0
        };
        let scattered = 1.0 + 0.2 * (next() + next() + next() - 1.5);
        if next() < 0.1 { scattered * (1.0 + 4.0 * next()) } else { scattered }
    }

    fn measured(seed: u64, share: f32) -> f32 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        figure([(); RUNS].map(|()| share * time(&mut random) / time(&mut random)))
    }

    #[test]
    fn equal_work_is_equal_whatever_the_noise() {
        for seed in 1..=2000 {
            let figure = measured(seed, 1.0);
            assert!((figure - 1.0).abs() < f32::EPSILON, "seed {seed}: {figure}");
        }
    }

    #[test]
    fn what_is_twice_as_fast_or_slow_is_found() {
        for seed in 1..=500 {
            for share in [0.5, 2.0] {
                let figure = measured(seed, share);
                assert!((figure / share - 1.0).abs() < 0.15, "seed {seed}, {share}: {figure}");
            }
        }
    }
}
