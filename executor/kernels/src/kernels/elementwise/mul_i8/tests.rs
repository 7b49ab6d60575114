//! Every variant against the formula, for every pair of bytes.

use super::*;

#[test]
fn every_pair_of_bytes() {
    let a: Vec<u8> = (0..=255).flat_map(|a| [a; 256]).collect();
    let b: Vec<u8> = (0..256).flat_map(|_| 0..=255).collect();
    // The last shifts by more than the quick way takes, the one before not at all.
    for (flip, scale, range) in
        [(0, 0.004, (0, 255)), (0x80, 0.0013, (-100, 120)), (0, 0.7, (3, 255)), (0, 1e-8, (0, 255))]
    {
        let m = Multiplier::new(scale);
        let bytes = [(17, flip), (200, flip)].map(|(zero_point, flip)| Bytes { flip, zero_point });
        let real = |byte: u8, bytes: Bytes| i32::from(byte ^ bytes.flip) - bytes.zero_point;
        let want = |a: u8, b: u8| {
            (m.apply(real(a, bytes[0]) * real(b, bytes[1])) + 7).clamp(range.0, range.1)
        };
        for variant in VARIANTS.all() {
            let mul = Mul::new(variant.isa, bytes, m, 7, range);
            let check = |x: &[u8], y: &[u8], len: usize| {
                let mut got = vec![99; len];
                mul.compute(In::of(x), In::of(y), Out::of(&mut got)).unwrap();
                for (at, &got) in got.iter().enumerate() {
                    let (x, y) = (x[at % x.len()], y[at % y.len()]);
                    assert_eq!(got, want(x, y).to_le_bytes()[0], "{:?} {x} {y}", variant.isa);
                }
            };
            check(&[], &[], 0);
            for len in (0..90).chain([a.len()]) {
                check(&a, &b, len);
            }
            for one in [0, 17, 200, 255] {
                check(&a[..1000], &[one], 1000);
                check(&[one], &b[..70], 70);
            }
        }
    }
}
