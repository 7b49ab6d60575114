//! Every variant against a plain loop.

use super::*;

/// The largest byte of a window, within the range of results.
fn wanted<T: Copy + Ord>(xs: &[u8], as_stored: fn(u8) -> T, least: T, range: (T, T)) -> T {
    xs.iter().map(|&x| as_stored(x)).max().unwrap_or(least).max(range.0).min(range.1)
}

fn check(isa: Isa, is_signed: bool, windows: PoolWindows, range: (u8, u8)) {
    let place = |at: usize, row: usize, column: usize, lane: usize| {
        at * windows.distance + row * windows.line + column * windows.column + lane
    };
    let last = |extent: usize| extent.saturating_sub(1);
    let len = place(last(windows.count), last(windows.rows), last(windows.columns), windows.lanes);
    let input: Vec<u8> = (0..len).map(|at| (at * 7919 % 1009).to_le_bytes()[0]).collect();
    let mut output = vec![99; windows.count * windows.pitch + 1];
    let results = last(windows.count) * windows.pitch + windows.lanes;
    let signed = (range.0.cast_signed(), range.1.cast_signed());
    let pool = MaxPool::new(isa, is_signed, range);
    assert_eq!(pool.isa(), isa);
    pool.compute(windows, In::of(&input), Out::of(&mut output[..results])).unwrap();
    for (at, y) in output.iter().enumerate() {
        let (window, lane) = (at / windows.pitch, at % windows.pitch);
        let want = match window < windows.count && lane < windows.lanes {
            true => {
                let places = (0..windows.rows)
                    .flat_map(|row| (0..windows.columns).map(move |column| (row, column)));
                let xs: Vec<u8> =
                    places.map(|(row, column)| input[place(window, row, column, lane)]).collect();
                match is_signed {
                    true => wanted(&xs, u8::cast_signed, i8::MIN, signed).cast_unsigned(),
                    false => wanted(&xs, |x| x, 0, range),
                }
            }
            false => 99,
        };
        assert_eq!(*y, want, "{isa:?} {is_signed} {windows:?}, {at}");
    }
}

#[test]
fn every_variant_gives_what_a_plain_loop_does() {
    for is_signed in [true, false] {
        let all = if is_signed { (0x80, 0x7f) } else { (0, 255) };
        let some = if is_signed { (0xf0, 60) } else { (40, 200) };
        for isa in variants_of(is_signed).all().map(|variant| variant.isa) {
            for lanes in (1..40).chain([47, 48, 63, 64, 65, 79, 96, 100, 130]) {
                for (rows, columns) in [(1, 1), (2, 2), (3, 3), (0, 3), (2, 0)] {
                    for (stride, gap, range) in [(1, 0, all), (2, 0, some), (2, 3, all)] {
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
                        check(isa, is_signed, windows, range);
                    }
                }
            }
            let long = PoolWindows {
                rows: 70,
                columns: 80,
                line: 80 * 3,
                column: 3,
                count: 2,
                distance: 3 * 80 * 70,
                pitch: 4,
                lanes: 3,
            };
            check(isa, is_signed, long, some);
            check(
                isa,
                is_signed,
                PoolWindows { lanes: 40, column: 40, line: 3200, pitch: 41, ..long },
                all,
            );
        }
    }
}
