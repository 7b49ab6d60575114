//! Every variant against the formula, for every pair of bytes.

use super::*;
use crate::tensor::quant::{rdbpot, srdhm};

#[test]
fn every_pair_of_bytes() {
    let a: Vec<u8> = (0..=255).flat_map(|a| [a; 256]).collect();
    let b: Vec<u8> = (0..256).flat_map(|_| 0..=255).collect();
    for (flip, sign, output) in [(0, 1, 0.001), (0x80, -1, 0.0004), (0, -1, 0.000_000_9)] {
        let (first, mut second) = (Multiplier::new(0.5), Multiplier::new(0.123));
        second.fraction *= sign;
        let sum = Multiplier::new(output);
        let bytes = [(17, flip), (200, flip)].map(|(zero_point, flip)| Bytes { flip, zero_point });
        let operand = |byte: u8, bytes: Bytes, m: Multiplier| {
            let x = (i32::from(byte ^ bytes.flip) - bytes.zero_point) << 20;
            rdbpot(srdhm(x, m.fraction), -m.shift)
        };
        for variant in VARIANTS.all() {
            let add = Add::new(variant.isa, bytes, [first, second], sum, -3, (-100, 120));
            for len in (0..150).chain([a.len()]) {
                let mut got = vec![99; len];
                add.compute(In::of(&a), In::of(&b), Out::of(&mut got)).unwrap();
                for (at, &got) in got.iter().enumerate() {
                    let wide = operand(a[at], bytes[0], first) + operand(b[at], bytes[1], second);
                    let want = (rdbpot(srdhm(wide, sum.fraction), -sum.shift) - 3).clamp(-100, 120);
                    assert_eq!(
                        i32::from(got.cast_signed()),
                        want,
                        "{:?} {} {}",
                        variant.isa,
                        a[at],
                        b[at]
                    );
                }
            }
        }
    }
}

#[test]
fn squares_of_every_pair_of_bytes() {
    let a: Vec<u8> = (0..=255).flat_map(|a| [a; 256]).collect();
    let b: Vec<u8> = (0..256).flat_map(|_| 0..=255).collect();
    // The last two: an operand that is nothing beside the other, a square that is nothing.
    let scales = [
        (0.5, 0.123, 0.000_4),
        (0.31, 0.5, 0.000_03),
        (0.5, 0.5, 0.002),
        (0.5, 1e-12, 0.000_4),
        (0.5, 0.5, 1e-14),
    ];
    for (first, second, to) in scales {
        let multipliers = [first, second].map(Multiplier::new);
        let to = Multiplier::new(to);
        let bytes = [17, 200].map(|zero_point| Bytes { flip: 0x80, zero_point });
        let operand = |byte: u8, of: usize| {
            let x = (i32::from(byte ^ 0x80) - bytes[of].zero_point) << EXTRA_BITS_OF_SQUARES;
            multipliers[of].apply(x)
        };
        for variant in SQUARES.all() {
            let square =
                SquaredDifference::new(variant.isa, bytes, multipliers, to, -100, (-128, 127));
            assert_eq!(square.isa(), variant.isa);
            for len in (0..70).chain([a.len()]) {
                let mut got = vec![99; len + 1];
                square.compute(In::of(&a), In::of(&b), Out::of(&mut got[..len])).unwrap();
                for (at, &got) in got[..len].iter().enumerate() {
                    let difference = operand(a[at], 0) - operand(b[at], 1);
                    let want = (to.apply(difference * difference) - 100).clamp(-128, 127);
                    let (isa, a, b) = (variant.isa, a[at], b[at]);
                    assert_eq!(i32::from(got.cast_signed()), want, "{isa:?} {a} {b}");
                }
                assert_eq!(got[len], 99, "{:?} wrote behind the end", variant.isa);
            }
            assert!(square.compute(In::of(&[]), In::of(&b), Out::of(&mut [0])).is_err());
        }
    }
}

/// As the executor makes multipliers: the larger scale becomes a half, the sum has what is left.
#[test]
fn every_pair_of_bytes_of_many_scales() {
    let a: Vec<u8> = (0..=255).flat_map(|a| [a; 256]).collect();
    let b: Vec<u8> = (0..256).flat_map(|_| 0..=255).collect();
    let mut state = 7u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    for round in 0..24 {
        let [first, second, half] = [(); 3].map(|()| f64::from(1 + random()) * 2f64.powi(-20));
        let output = 2.0 * half;
        let (flip, sign) = ([0, 0x80][round % 2], [1, -1][round / 2 % 2]);
        let twice = 2.0 * first.max(second);
        let multipliers = [first / twice, second / twice].map(Multiplier::new);
        let [one, mut other] = multipliers;
        other.fraction *= sign;
        let sum = Multiplier::new(twice / (f64::from(1 << EXTRA_BITS) * output));
        let zeros = [(); 3].map(|()| i32::from(random().to_le_bytes()[0]));
        let bytes = [zeros[0], zeros[1]].map(|zero_point| Bytes { flip, zero_point });
        let (zero_point, range) = match flip {
            0 => (zeros[2], (0, 255)),
            _ => (zeros[2] - 128, (-128, 127)),
        };
        let operand = |byte: u8, bytes: Bytes, m: Multiplier| {
            let x = (i32::from(byte ^ bytes.flip) - bytes.zero_point) << EXTRA_BITS;
            rdbpot(srdhm(x, m.fraction), -m.shift)
        };
        let want: Vec<u8> = a
            .iter()
            .zip(&b)
            .map(|(&a, &b)| {
                let wide = operand(a, bytes[0], one) + operand(b, bytes[1], other);
                let stored = rdbpot(srdhm(wide, sum.fraction), -sum.shift) + zero_point;
                stored.clamp(range.0, range.1).to_le_bytes()[0]
            })
            .collect();
        for variant in VARIANTS.all() {
            let add = Add::new(variant.isa, bytes, [one, other], sum, zero_point, range);
            let mut got = vec![99; a.len()];
            add.compute(In::of(&a), In::of(&b), Out::of(&mut got)).unwrap();
            let wrong = (0..a.len()).find(|&at| got[at] != want[at]);
            assert_eq!(wrong, None, "{:?} {first} {second} {output} {zeros:?}", variant.isa);
        }
    }
}
