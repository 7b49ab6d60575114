//! Every variant against the definition: products and sums in its order, so to the bit.

use super::*;
use crate::tensor::rows::Apart;

/// Lines and pixels of the input, and of a line of the output.
const LINES: usize = 3;
const WIDTH: usize = 4;
const COLUMNS: [Tap; 5] = [
    Tap { first: 0, second: 0, weight: 0.0 },
    Tap { first: 0, second: 1, weight: 0.3 },
    Tap { first: 2, second: 3, weight: 0.75 },
    Tap { first: 3, second: 3, weight: -0.25 },
    Tap { first: 1, second: 2, weight: 1.0 },
];

fn number(at: usize) -> f32 {
    (at.wrapping_mul(2_654_435_761) % 1000) as f32 / 37.0 - 13.0
}

/// Rows of `lanes` floats, `pitch` apart.
fn rows<P: crate::tensor::rows::Piece>(all: P, lanes: usize, pitch: usize) -> Rows<P> {
    Rows::new(all, Apart { row: lanes * 4, pitch: pitch * 4 }, 4)
}

#[test]
fn every_variant_gives_the_same_bits() {
    let tap = Tap { first: 1, second: 2, weight: 0.6 };
    for (lanes, gap) in (1..=67).flat_map(|lanes| [(lanes, 0), (lanes, 3)]) {
        let pitch = lanes + gap;
        let input: Vec<f32> = (0..LINES * WIDTH * pitch - gap).map(number).collect();
        for variant in VARIANTS.all() {
            let bilinear = Bilinear::new(variant.isa, lanes, WIDTH, COLUMNS.to_vec()).unwrap();
            assert_eq!(bilinear.isa(), variant.isa);
            let len = 2 * COLUMNS.len() * pitch - gap;
            let mut got = vec![99.0; len + 1];
            let output = rows(Out::of(&mut got[..len]), lanes, pitch);
            bilinear.compute(tap, rows(In::of(&input), lanes, pitch), 1, output).unwrap();
            for (at, column) in COLUMNS.iter().enumerate() {
                for lane in 0..lanes {
                    let x = |line, column| input[(line * WIDTH + column) * pitch + lane];
                    let (u, v) = (column.weight, tap.weight);
                    let want = x(1, column.first) * (1.0 - v) * (1.0 - u)
                        + x(2, column.first) * v * (1.0 - u)
                        + x(1, column.second) * (1.0 - v) * u
                        + x(2, column.second) * v * u;
                    let got = got[(COLUMNS.len() + at) * pitch + lane];
                    assert_eq!(got.to_bits(), want.to_bits(), "{:?} {lanes}", variant.isa);
                }
            }
            let is_between = |at: usize| at / pitch < COLUMNS.len() || at % pitch >= lanes;
            let kept = got.iter().enumerate().filter(|&(at, _)| is_between(at) || at == len);
            assert!(kept.into_iter().all(|(_, &y)| y == 99.0), "{:?} wrote elsewhere", variant.isa);
        }
    }
}

#[test]
fn pixels_that_are_not_there_are_refused() {
    assert!(Bilinear::new(Isa::Scalar, 1, WIDTH - 1, COLUMNS.to_vec()).is_err());
    let bilinear = Bilinear::new(Isa::Scalar, 2, WIDTH, COLUMNS.to_vec()).unwrap();
    let (input, mut output) = ([0.0; 2 * WIDTH * 2], [0.0; 2 * COLUMNS.len()]);
    let line = |first, second| Tap { first, second, weight: 0.5 };
    let mut compute = |tap, to| {
        let output = Rows::from(Out::of(&mut output[..]));
        bilinear.compute(tap, Rows::from(In::of(&input[..])), to, output)
    };
    assert!(compute(line(0, 1), 0).is_ok());
    assert!(compute(line(0, 2), 0).is_err());
    assert!(compute(line(2, 0), 0).is_err());
    assert!(compute(line(0, 1), 1).is_err());
}
