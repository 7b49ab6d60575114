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
    let place = |at: usize, row: usize, column: usize, lane: usize| {
        at * windows.distance + row * windows.line + column * windows.column + lane
    };
    let last = |extent: usize| extent.saturating_sub(1);
    let len = place(last(windows.count), last(windows.rows), last(windows.columns), windows.lanes);
    let input: Vec<f32> = (0..len)
        .map(|at| match at % 29 {
            0 => special[at / 29 % special.len()],
            _ => (at * 7919 % 1009) as f32 / 37.0 - 13.0,
        })
        .collect();
    let mut output = vec![99.0; windows.count * windows.pitch + 1];
    let results = last(windows.count) * windows.pitch + windows.lanes;
    let pool = PoolF32::new(isa, pooling, range);
    assert_eq!(pool.isa(), isa);
    pool.compute(windows, In::of(&input), Out::of(&mut output[..results])).unwrap();
    for (at, y) in output.iter().enumerate() {
        let (window, lane) = (at / windows.pitch, at % windows.pitch);
        let want = match window < windows.count && lane < windows.lanes {
            true => {
                let places = (0..windows.rows)
                    .flat_map(|row| (0..windows.columns).map(move |column| (row, column)));
                let xs: Vec<f32> =
                    places.map(|(row, column)| input[place(window, row, column, lane)]).collect();
                wanted(pooling, &xs, range)
            }
            false => 99.0,
        };
        let same = want.to_bits() == y.to_bits() || want.is_nan() && y.is_nan();
        assert!(same, "{isa:?} {pooling:?} {windows:?}, {at}: {y} for {want}");
    }
}

#[test]
fn every_variant_gives_the_bits_of_a_plain_loop() {
    let open = (f32::NEG_INFINITY, f32::INFINITY);
    for pooling in [Pooling::Max, Pooling::Mean] {
        for isa in variants_of(pooling).all().map(|variant| variant.isa) {
            for lanes in (1..20).chain([31, 32, 33, 64, 67, 100]) {
                for (rows, columns) in [(1, 1), (2, 2), (3, 2), (3, 3), (0, 3), (2, 0)] {
                    for (stride, gap, range) in [(1, 0, open), (2, 0, (0.0, 6.0)), (2, 3, open)] {
                        let column = lanes + gap;
                        let windows = PoolWindows {
                            rows,
                            columns,
                            line: 12 * column,
                            column,
                            count: 5,
                            distance: stride * column,
                            pitch: lanes + gap,
                            lanes,
                        };
                        check(isa, pooling, windows, range);
                    }
                }
            }
        }
    }
}

#[test]
fn long_and_wide_windows_are_folded_in_pieces() {
    for pooling in [Pooling::Max, Pooling::Mean] {
        for isa in variants_of(pooling).all().map(|variant| variant.isa) {
            let windows = PoolWindows {
                rows: 70,
                columns: 80,
                line: 80 * 3,
                column: 3,
                count: 2,
                distance: 3 * 80 * 70,
                pitch: 4,
                lanes: 3,
            };
            check(isa, pooling, windows, (-1.0, 30.0));
            let windows = PoolWindows { rows: 2, columns: 5000, ..windows };
            check(isa, pooling, PoolWindows { line: 5000 * 3, ..windows }, (-1.0, 30.0));
            let wide =
                PoolWindows { lanes: 70_000, column: 70_000, rows: 1, columns: 3, ..windows };
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
