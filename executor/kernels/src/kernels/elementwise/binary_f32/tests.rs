//! Every variant against the arithmetic itself: one operation is rounded alike everywhere.

use super::*;

#[test]
fn every_variant_gives_the_same_bits() {
    let special = [f32::NAN, f32::INFINITY, -0.0, f32::MIN_POSITIVE, f32::MAX];
    let number = |at: usize| match at % 23 {
        0 => special[at / 23 % special.len()],
        _ => (at.wrapping_mul(2_654_435_761) % 1000) as f32 / 37.0 - 13.0,
    };
    let a: Vec<f32> = (0..80).map(number).collect();
    let b: Vec<f32> = (0..80).map(|at| number(at * 7 + 11)).collect();
    let all = (f32::NEG_INFINITY, f32::INFINITY);
    for arithmetic in [Arithmetic::Add, Arithmetic::Sub, Arithmetic::Mul] {
        for variant in variants(arithmetic).all() {
            for (range, len) in (0..=67).flat_map(|len| [(all, len), ((0.0, 6.0), len)]) {
                for (one_a, one_b) in [(false, false), (true, false), (false, true)] {
                    let (a, b) = (part(&a, one_a, len), part(&b, one_b, len));
                    let mut got = vec![99.0; len + 1];
                    let out = Out::of(&mut got[..len]);
                    let binary = Binary::new(variant.isa, arithmetic, range);
                    assert_eq!(binary.isa(), variant.isa);
                    binary.compute(In::of(a), In::of(b), out).unwrap();
                    for at in 0..len {
                        let (a, b) = (a[if one_a { 0 } else { at }], b[if one_b { 0 } else { at }]);
                        let y = match arithmetic {
                            Arithmetic::Add => a + b,
                            Arithmetic::Sub => a - b,
                            Arithmetic::Mul => a * b,
                        };
                        let want = clamp_real(y, range.0, range.1);
                        let same = want.to_bits() == got[at].to_bits()
                            || want.is_nan() && got[at].is_nan()
                            || want == got[at];
                        assert!(same, "{arithmetic:?} {:?} {a} {b}: {}", variant.isa, got[at]);
                    }
                    assert_eq!(got[len], 99.0, "{:?} wrote behind the end", variant.isa);
                }
            }
        }
    }
    let short = Binary::new(Isa::Scalar, Arithmetic::Add, all);
    assert!(short.compute(In::of(&a[..2]), In::of(&b), Out::of(&mut [0.0; 3])).is_err());
}

fn part(row: &[f32], one: bool, len: usize) -> &[f32] {
    &row[1..][..if one { 1 } else { len }]
}
