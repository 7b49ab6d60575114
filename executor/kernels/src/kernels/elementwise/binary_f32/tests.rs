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
    for arithmetic in [
        Arithmetic::Add,
        Arithmetic::Sub,
        Arithmetic::Mul,
        Arithmetic::Div,
        Arithmetic::Maximum,
        Arithmetic::Minimum,
        Arithmetic::SquaredDifference,
    ] {
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
                            Arithmetic::Div => a / b,
                            Arithmetic::Maximum if a > b => a,
                            Arithmetic::Minimum if a < b => a,
                            Arithmetic::Maximum | Arithmetic::Minimum => b,
                            Arithmetic::SquaredDifference => (a - b) * (a - b),
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

#[test]
fn rows_are_those_that_are_computed_one_by_one() {
    let numbers: Vec<f32> = (0..900).map(|at| (at * 37 % 101) as f32 - 50.5).collect();
    let (x, y) = (In::of(&numbers[7..]), In::of(&numbers[501..]));
    for variant in variants(Arithmetic::Sub).all() {
        let sub = Binary::new(variant.isa, Arithmetic::Sub, (-60.0, 60.0));
        for (count, len) in (1..=5).flat_map(|count| (1..=67).map(move |len| (count, len))) {
            for [a, b] in [[(1, len + 3), (0, 1)], [(0, 2), (1, 0)], [(1, 0), (1, len)]] {
                let row = |all: In<'_, f32>, (step, stride): (usize, usize), row: usize| {
                    all.slice(row * stride..row * stride + if step == 0 { 1 } else { len }).to_vec()
                };
                let mut want = vec![0.0; count * len];
                for (at, want) in want.chunks_exact_mut(len).enumerate() {
                    let (a, b) = (row(x, a, at), row(y, b, at));
                    sub.compute(In::of(&a), In::of(&b), Out::of(want)).unwrap();
                }
                let operand = |all, (step, stride)| Operand { all, step, stride };
                let operands = [operand(x, a), operand(y, b)];
                for pitch in [len, len + 3] {
                    let mut got = vec![99.0; count * pitch];
                    let (to, behind) = got.split_at_mut((count - 1) * pitch + len);
                    sub.compute_rows(operands, Out::of(to), [count, len, pitch]).unwrap();
                    assert!(behind.iter().all(|&x| x == 99.0), "{:?}: behind the end", variant.isa);
                    for (got, want) in got.chunks(pitch).zip(want.chunks(len)) {
                        assert_eq!(got[..len], *want, "{:?}, {count} of {len}", variant.isa);
                        assert!(got[len..].iter().all(|&x| x == 99.0), "{:?}", variant.isa);
                    }
                }
            }
        }
    }
    let sub = Binary::new(Isa::best(), Arithmetic::Sub, (-60.0, 60.0));
    let short = Operand { all: x.slice(0..7), step: 1, stride: 4 };
    let one = Operand { all: y, step: 0, stride: 0 };
    let behind = Operand { stride: usize::MAX, ..one };
    for (operands, extents) in [
        ([short, one], [2, 4, 4]),
        ([Operand { step: 2, ..short }, one], [1, 4, 4]),
        ([one, one], [1, 4, 4]),
        ([short, behind], [3, 4, 4]),
        ([Operand { step: 1, ..one }, one], [2, 4, 4]),
        ([Operand { step: 1, ..one }, one], [2, 3, 2]),
    ] {
        let mut output = vec![0.0; 7];
        assert!(sub.compute_rows(operands, Out::of(&mut output), extents).is_err());
    }
}

fn part(row: &[f32], one: bool, len: usize) -> &[f32] {
    &row[1..][..if one { 1 } else { len }]
}
