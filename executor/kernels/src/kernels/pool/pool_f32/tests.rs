//! Every variant against a plain loop.

use super::*;
use crate::tensor::quant::clamp_real;

/// The result of a window whose elements are at these places.
fn wanted(pooling: Pooling, xs: &[f32], range: (f32, f32)) -> f32 {
    let y = match pooling {
        Pooling::Max => xs.iter().fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max }),
        Pooling::Mean => xs.iter().fold(0.0, |sum, x| sum + x) * (1.0 / xs.len().max(1) as f32),
    };
    clamp_real(y, range.0, range.1)
}

fn check(isa: Isa, pooling: Pooling, windows: PoolWindows, range: (f32, f32)) {
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];
    let (elements, results) = windows.last().unwrap();
    let input: Vec<f32> = (0..elements)
        .map(|at| match at % 29 {
            0 => special[at / 29 % special.len()],
            _ => (at * 7919 % 1009) as f32 / 37.0 - 13.0,
        })
        .collect();
    let mut output = vec![99.0; windows.count * windows.pitch + 1];
    let pool = PoolF32::new(isa, pooling, range);
    assert_eq!(pool.isa(), isa);
    pool.compute(windows, In::of(&input), Out::of(&mut output[..results])).unwrap();
    for (at, (y, of)) in output.iter().zip(windows.results()).enumerate() {
        let want = of.map_or(99.0, |(window, lane)| {
            let xs: Vec<f32> = windows.places(window, lane).map(|place| input[place]).collect();
            wanted(pooling, &xs, range)
        });
        let same = want.to_bits() == y.to_bits() || want.is_nan() && y.is_nan();
        assert!(same, "{isa:?} {pooling:?} {windows:?}, {at}: {y} for {want}");
    }
}

#[test]
fn every_variant_gives_the_bits_of_a_plain_loop() {
    let open = (f32::NEG_INFINITY, f32::INFINITY);
    for pooling in [Pooling::Max, Pooling::Mean] {
        for isa in variants_of(pooling).all().map(|variant| variant.isa) {
            let lanes = (1..20).chain([31, 32, 33, 64, 67, 100]);
            for windows in lanes.flat_map(PoolWindows::of_lanes) {
                check(isa, pooling, windows, open);
                check(isa, pooling, windows, (0.0, 6.0));
            }
        }
    }
}

#[test]
fn long_and_wide_windows_are_folded_in_pieces() {
    for pooling in [Pooling::Max, Pooling::Mean] {
        for isa in variants_of(pooling).all().map(|variant| variant.isa) {
            let long = PoolWindows::long();
            check(isa, pooling, long, (-1.0, 30.0));
            let longer = PoolWindows { rows: 2, columns: 5000, line: 5000 * 3, ..long };
            check(isa, pooling, longer, (-1.0, 30.0));
            let wide = PoolWindows { lanes: 70_000, column: 70_000, rows: 1, columns: 3, ..long };
            check(
                isa,
                pooling,
                PoolWindows { distance: 70_000, pitch: 70_001, ..wide },
                (-9.0, 9.0),
            );
        }
    }
}

#[test]
fn elements_that_are_missing_are_an_error() {
    let windows = PoolWindows {
        rows: 2,
        columns: 2,
        line: 4,
        column: 1,
        count: 3,
        distance: 1,
        pitch: 1,
        lanes: 1,
    };
    let pool = PoolF32::new(Isa::Scalar, Pooling::Max, (-1.0, 1.0));
    let (input, mut output) = ([0.0; 8], [0.0; 3]);
    assert!(pool.compute(windows, In::of(&input), Out::of(&mut output)).is_ok());
    assert!(pool.compute(windows, In::of(&input[1..]), Out::of(&mut output)).is_err());
    assert!(pool.compute(windows, In::of(&input), Out::of(&mut output[1..])).is_err());
}
