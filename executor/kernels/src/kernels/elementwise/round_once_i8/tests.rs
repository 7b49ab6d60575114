//! Every variant against double precision, next to halves too.

use super::*;

fn stored(sum: i32, scale: f64, zero_point: i32, (low, high): (i32, i32)) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "saturating, and NaN is 0")]
    let rounded = (f64::from(sum) * scale).round() as i32;
    rounded.saturating_add(zero_point).clamp(low, high)
}

#[test]
fn every_variant_rounds_once() {
    let all: Vec<i32> = (0..4096).map(|at| (at - 2048) * 40_503 + at % 7).collect();
    let scales = [1.0 / 650_000.3, 0.5, 1.0 / 81_006.0, 0.3e-6, f64::NAN, 1e30, f64::INFINITY];
    for variant in VARIANTS.all() {
        for (zero_point, range) in [(-3, (-128, 127)), (130, (0, 255)), (5, (5, 90))] {
            for scale in scales {
                for len in (1..=70).chain([4096]) {
                    // Channels behind the last have accumulators as well.
                    let own: Vec<f64> = (0..len).map(|at| scale * [1.0, 1.1][at % 2]).collect();
                    let sums = &all[..len.next_multiple_of(PADDING)];
                    let rounding = RoundOnce::new(variant.isa, own.clone(), zero_point, range);
                    assert_eq!(rounding.isa(), variant.isa);
                    let mut got = vec![7; len + 1];
                    rounding.compute(sums, Out::of(&mut got[..len])).unwrap();
                    assert_eq!(got[len], 7, "a byte behind the end");
                    for first in [16, 48].into_iter().filter(|&first| first < len) {
                        let mut some = vec![7; len - first];
                        let output = Out::of(&mut some);
                        rounding.compute_some(first, &sums[first..], output).unwrap();
                        assert_eq!(some, got[first..len], "{:?} from {first} on", variant.isa);
                    }
                    for ((&sum, &scale), got) in sums.iter().zip(&own).zip(got) {
                        let want = stored(sum, scale, zero_point, range).to_le_bytes()[0];
                        assert_eq!(got, want, "{:?}, {sum} * {scale}", variant.isa);
                    }
                }
            }
        }
    }
}

#[test]
fn halves_are_rounded_away_from_zero() {
    let sums: Vec<i32> = (-20..28).map(|at| at * 7).collect();
    for variant in VARIANTS.all() {
        let rounding = RoundOnce::new(variant.isa, vec![0.5; 41], 3, (-60, 70));
        let mut stored = vec![0u8; 41];
        rounding.compute(&sums, Out::of(&mut stored)).unwrap();
        let at = |at: usize| stored[at].cast_signed();
        assert_eq!([at(0), at(19), at(20), at(21), at(40)], [-60, -1, 3, 7, 70]);
        assert!(rounding.compute(&sums[..41], Out::of(&mut stored)).is_err());
        assert!(rounding.compute(&sums, Out::of(&mut stored[..40])).is_err());
        for (first, count) in [(8, 8), (16, 26), (48, 1)] {
            let output = Out::of(&mut stored[..count]);
            assert!(rounding.compute_some(first, &sums, output).is_err(), "{count} from {first}");
        }
    }
}
