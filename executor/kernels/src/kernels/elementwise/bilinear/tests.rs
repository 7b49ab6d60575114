//! Every variant against the scalar arithmetic, one element at a time.

use super::*;
use crate::tensor::rows::Apart;

/// Lines of the input.
const LINES: usize = 3;

fn byte(at: usize) -> u8 {
    at.wrapping_mul(2_654_435_761).to_le_bytes()[2]
}

#[expect(clippy::cast_precision_loss, reason = "small integers")]
fn number(at: usize) -> f32 {
    (at.wrapping_mul(2_654_435_761) % 1000) as f32 / 37.0 - 13.0
}

/// Rows of `len` elements, `pitch` apart.
fn rows<P: crate::tensor::rows::Piece>(all: P, len: usize, pitch: usize, size: usize) -> Rows<P> {
    Rows::new(all, Apart { row: len * size, pitch: pitch * size }, size)
}

/// Compares all variants for columns of a line of `width` pixels.
fn compare<T: Interpolate>(
    element: impl Fn(usize) -> T::Element,
    width: usize,
    columns: &[Tap<T::Weight>],
    tap: Tap<T::Weight>,
    flip: u8,
) {
    let (size, mark) = (size_of::<T::Element>(), element(7));
    for (channels, gap) in (1..=35).chain([64, 67]).flat_map(|it| [(it, 0), (it, 3)]) {
        let pitch = channels + gap;
        let input: Vec<_> = (0..LINES * width * pitch - gap).map(&element).collect();
        for variant in T::VARIANTS.all() {
            let lines = vec![tap; 2];
            let extents = [LINES, width];
            let bilinear =
                Bilinear::<T>::new(variant.isa, channels, extents, lines, columns, flip).unwrap();
            assert_eq!(bilinear.isa(), variant.isa);
            let len = 2 * columns.len() * pitch - gap;
            let mut got = vec![mark; len + 1];
            let output = rows(Out::of(&mut got[..len]), channels, pitch, size);
            let mut room = vec![u32::MAX; bilinear.scratch()];
            let from = rows(In::of(&input), channels, pitch, size);
            bilinear.compute(1..2, from, output, &mut room).unwrap();
            for (at, column) in columns.iter().enumerate() {
                for channel in 0..channels {
                    let x = |line, column| input[(line * width + column) * pitch + channel];
                    let [a, b] = [x(tap.first, column.first), x(tap.second, column.first)];
                    let [c, d] = [x(tap.first, column.second), x(tap.second, column.second)];
                    let want = T::between([a, b, c, d], [tap.weight, column.weight], flip);
                    let got = got[(columns.len() + at) * pitch + channel];
                    assert!(got == want, "{:?}, {channels} of {pitch}", variant.isa);
                }
            }
            let is_between = |at: usize| at / pitch < columns.len() || at % pitch >= channels;
            let kept = got.iter().enumerate().filter(|&(at, _)| is_between(at) || at == len);
            assert!(kept.into_iter().all(|(_, &y)| y == mark), "{:?} wrote more", variant.isa);
        }
    }
}

#[test]
fn every_variant_gives_the_same_elements() {
    let taps = [(0, 0, -512), (0, 1, 300), (2, 3, 1023), (3, 3, 1536), (1, 2, 1024), (1, 2, 512)];
    let steps = taps.map(|(first, second, weight)| Tap { first, second, weight });
    let tap = |first, second| Tap { first, second, weight: 700 };
    #[expect(clippy::cast_precision_loss, reason = "small integers")]
    let share = |tap: Tap<i32>| Tap {
        first: tap.first,
        second: tap.second,
        weight: tap.weight as f32 / 1024.0,
    };
    let signed = |at| byte(at).cast_signed();
    // More columns than a strip has, and fewer than there are pixels to read.
    let many: Vec<_> = (0..70).map(|at| steps[at % 5]).collect();
    let far = [(3, 4, 10), (200, 199, 300), (255, 255, 7), (90, 91, 1000)];
    let far = far.map(|(first, second, weight)| Tap { first, second, weight });
    for (width, columns) in [(4, &steps[..]), (4, &many), (4, &many[7..8]), (256, &far)] {
        compare::<Signed<i8>>(signed, width, columns, tap(1, 2), 0);
        compare::<Signed<i8>>(signed, width, columns, tap(2, 0), 0);
        let word = |at| i16::from_le_bytes([byte(at), byte(at + 77)]);
        compare::<Signed<i16>>(word, width, columns, tap(1, 2), 0);
        // Sums of whole steps, on either side of halves.
        let few = |at: usize| [-32_768, 32_767, -1, 0, 1, 2, -2, 3][at * 7 % 11 % 8];
        let half = Tap { first: 2, second: 1, weight: 512 };
        compare::<Signed<i16>>(few, width, columns, half, 0);
        let shares: Vec<_> = columns.iter().copied().map(share).collect();
        compare::<Floats>(number, width, &shares, share(tap(1, 2)), 0);
        compare::<UnsignedBytes>(byte, width, &shares, share(tap(2, 1)), 0);
        compare::<UnsignedBytes>(byte, width, &shares, share(tap(0, 2)), 0x80);
    }
}

#[test]
fn strips_are_as_long_as_a_line() {
    let columns: Vec<_> =
        (0..2 * STRIP + 5).map(|at| Tap { first: at / 9, second: at / 9 + 1, weight: 5 }).collect();
    let image: Vec<_> = (0..2 * 500).map(|at| byte(at).cast_signed()).collect();
    let lines = vec![Tap { first: 0, second: 1, weight: 100 }];
    let bilinear =
        Bilinear::<Signed<i8>>::new(Isa::best(), 1, [2, 500], lines, &columns, 0).unwrap();
    assert!(bilinear.strips.len() > 2 && bilinear.scratch() < STRIP);
    let (mut got, mut room) = (vec![0; columns.len()], vec![0; bilinear.scratch()]);
    let output = Rows::from(Out::of(&mut got));
    bilinear.compute(0..1, In::of(&image).into(), output, &mut room).unwrap();
    for (column, got) in columns.iter().zip(got) {
        let around = [0, 500].map(|line| [column.first, column.second].map(|it| image[line + it]));
        let [[a, c], [b, d]] = around;
        assert_eq!(got, Signed::<i8>::between([a, b, c, d], [100, 5], 0));
    }
}

#[test]
fn sums_of_signed_integers_are_rounded_once_and_halves_away_from_zero() {
    for (around, weights, want) in [
        ([1, 0, 0, 0], [512, 0], 1),
        ([-1, 0, 0, 0], [512, 0], -1),
        ([1, 0, 0, 0], [513, 0], 0),
        ([100, 50, -20, 10], [256, 768], 13),
        ([-128; 4], [512, 1023], -128),
    ] {
        let got = Signed::<i8>::between(around, weights, 0);
        assert_eq!(got, want, "{around:?} {weights:?}");
        let got = Signed::<i16>::between(around.map(i16::from), weights, 0);
        assert_eq!(got, i16::from(want), "{around:?} {weights:?}");
    }
    assert_eq!(Signed::<i16>::between([32_767; 4], [700, 1023], 0), 32_767);
    assert_eq!(Signed::<i16>::between([-32_768, -32_768, 0, 0], [3, 512], 0), -16_384);
}

#[test]
fn pixels_that_are_not_there_are_refused() {
    let tap = |first, second, weight| Tap { first, second, weight };
    let (lines, columns) = ([tap(0, 1, 5), tap(1, 1, 2)], [tap(2, 3, 7)]);
    let new = |extents, lines: &[_], columns: &[_]| {
        Bilinear::<Signed<i8>>::new(Isa::Scalar, 2, extents, lines.to_vec(), columns, 0)
    };
    assert!(new([2, 3], &lines, &columns).is_err());
    assert!(new([2, 4], &[], &columns).is_err());
    let none = Bilinear::<Signed<i8>>::new(Isa::Scalar, 0, [2, 4], lines.to_vec(), &columns, 0);
    assert!(none.is_err());
    assert!(new([1, 4], &lines, &columns).is_err());
    assert!(new([2, 4], &lines, &[tap(2, 3, 1025)]).is_err());
    assert!(new([2, 4], &[tap(0, 1, -1)], &columns).is_err());
    let bilinear = new([2, 4], &lines, &columns).unwrap();
    let (input, mut output) = ([0; 2 * 2 * 4 * 2], [0; 3 * 2]);
    let mut compute = |lines, input: &[_], room: usize| {
        let output = Rows::from(Out::of(&mut output[..]));
        bilinear.compute(lines, In::of(input).into(), output, &mut vec![0; room])
    };
    let room = bilinear.scratch();
    assert!(compute(0..3, &input, room).is_ok());
    assert!(compute(0..2, &input[16..], room).is_ok());
    assert!(compute(0..3, &input[1..], room).is_err());
    assert!(compute(0..4, &input, room).is_err());
    assert!(compute(7..usize::MAX, &input, room).is_err());
    assert!(compute(0..1, &input, room - 1).is_err());
}
