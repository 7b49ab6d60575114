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
