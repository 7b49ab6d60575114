//! Every variant against a plain loop.

use super::*;

/// The largest byte of a window, within the range of results.
fn wanted<T: Copy + Ord>(xs: &[u8], as_stored: fn(u8) -> T, least: T, range: (T, T)) -> T {
    xs.iter().map(|&x| as_stored(x)).max().unwrap_or(least).max(range.0).min(range.1)
}

fn check(isa: Isa, is_signed: bool, windows: PoolWindows, range: (u8, u8)) {
    let (elements, results) = windows.last().unwrap();
    let input: Vec<u8> = (0..elements).map(|at| (at * 7919 % 1009).to_le_bytes()[0]).collect();
    let mut output = vec![99; windows.count * windows.pitch + 1];
    let signed = (range.0.cast_signed(), range.1.cast_signed());
    let pool = MaxPool::new(isa, is_signed, range);
    assert_eq!(pool.isa(), isa);
    pool.compute(windows, In::of(&input), Out::of(&mut output[..results])).unwrap();
    for (at, (&y, of)) in output.iter().zip(windows.results()).enumerate() {
        let want = of.map_or(99, |(window, lane)| {
            let xs: Vec<u8> = windows.places(window, lane).map(|place| input[place]).collect();
            match is_signed {
                true => wanted(&xs, u8::cast_signed, i8::MIN, signed).cast_unsigned(),
                false => wanted(&xs, |x| x, 0, range),
            }
        });
        assert_eq!(y, want, "{isa:?} {is_signed} {windows:?}, {at}");
    }
}

#[test]
fn every_variant_gives_what_a_plain_loop_does() {
    for is_signed in [true, false] {
        let all = if is_signed { (0x80, 0x7f) } else { (0, 255) };
        let some = if is_signed { (0xf0, 60) } else { (40, 200) };
        for isa in variants_of(is_signed).all().map(|variant| variant.isa) {
            let lanes = (1..40).chain([47, 48, 63, 64, 65, 79, 96, 100, 130]);
            for windows in lanes.flat_map(PoolWindows::of_lanes) {
                check(isa, is_signed, windows, all);
                check(isa, is_signed, windows, some);
            }
            let long = PoolWindows::long();
            check(isa, is_signed, long, some);
            let of_vectors = PoolWindows { lanes: 40, column: 40, line: 3200, pitch: 41, ..long };
            check(isa, is_signed, of_vectors, all);
        }
    }
}
