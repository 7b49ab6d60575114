//! Every variant against a product written out: bit by bit.

use super::*;
use crate::kernels::patches::tests::cases;
use crate::tensor::quant::Multiplier;
use crate::tensor::rows::check_apart;
use crate::tensor::{In, Out};

#[test]
fn every_variant_gives_the_product() {
    for (rows, columns, depths) in [
        (1, 33, &[1usize, 7, 8, 15, 16, 17, 63, 64, 65, 576, 4608][..]),
        (13, 16, &[1, 2, 3, 4, 63]),
        (49, 40, &[5, 64]),
        (7, 1, &[9]),
        // Seven rows are a tile for each half of a panel, or two that overlap.
        (7, 64, &[1, 5, 64]),
        (7, 150, &[9]),
        // Narrow panels have tiles of sixteen rows, of twelve, of eight and of four.
        (12, 16, &[4, 64]),
        (32, 15, &[5, 48]),
        (21, 9, &[1, 16]),
        (29, 1, &[3]),
        (16, 16, &[4, 65]),
        (45, 16, &[8]),
        // Panels of two vectors have tiles of eight rows and of four.
        (8, 32, &[4, 63]),
        (11, 20, &[5]),
        (21, 32, &[9]),
    ] {
        for &depth in depths {
            for (image, weights) in [
                ((0, 0), (0, 255)),
                ((0, 131), (0, 122)),
                ((128, -5), (128, 0)),
                ((0, 7), (128, 0)),
            ] {
                for byte in [any, extreme, mostly_small] {
                    compare(Patches::matrix(rows, depth), columns, image, weights, byte);
                }
            }
        }
    }
}

#[test]
fn every_variant_gives_the_convolution() {
    for (channels, columns) in [(1, 3), (3, 8), (4, 17), (8, 64), (12, 33), (30, 5), (68, 70)] {
        for (case, patches) in cases(channels).into_iter().enumerate() {
            let zero_points = if case % 2 == 0 { (131, 122) } else { (-128, 0) };
            let to_unsigned = if case % 2 == 0 { 0 } else { 128 };
            let image = (to_unsigned, zero_points.0);
            let byte = [extreme, any, mostly_small][case % 3];
            compare(patches, columns, image, (to_unsigned, zero_points.1), byte);
        }
    }
}

#[test]
fn lines_may_be_computed_in_any_portions() {
    let patches = cases(5)[0];
    let (bias, weights) = ([7; 9], vec![3; patches.depth() * 9]);
    let image: Vec<u8> = (0..patches.elements()).map(|i| i.to_le_bytes()[0]).collect();
    for variant in VARIANTS.all() {
        let scaling = Scaling::new(&[Multiplier::new(0.01)], 9, 17, 3, 250);
        let bytes = Bytes::new(0, 100);
        let gemm = Gemm::new(
            variant.isa,
            patches,
            bytes,
            Weights { values: &weights, bytes },
            &bias,
            scaling,
        )
        .unwrap();
        let compute = |portion: usize| {
            let mut scratch = vec![0; gemm.scratch_bytes().div_ceil(4)];
            let mut got = vec![0; patches.rows() * 9];
            for first in (0..gemm.patches().lines()).step_by(portion) {
                let lines = first..(first + portion).min(gemm.patches().lines());
                let (image, output) = (In::of(&image[..]), Out::of(&mut got[..]));
                gemm.compute(image, output, lines, &mut scratch).unwrap();
            }
            got
        };
        assert_eq!(compute(1), compute(1000), "{:?}", variant.isa);
        assert_eq!(compute(3), compute(1000), "{:?}", variant.isa);
    }
}

/// Bytes without an order.
fn any(seed: usize) -> u8 {
    (seed.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0]
}

fn extreme(seed: usize) -> u8 {
    if any(seed) & 1 == 0 { 0 } else { 255 }
}

/// Few are further than 127 from the middle: as weights, these leave something beside a signed byte
/// in a few words.
fn mostly_small(seed: usize) -> u8 {
    if seed % 397 == 5 { extreme(seed) } else { 60 + any(seed) / 2 }
}

fn compare(
    patches: Patches,
    columns: usize,
    image: (i32, i32),
    weights: (i32, i32),
    byte: fn(usize) -> u8,
) {
    let (rows, depth) = (patches.rows(), patches.depth());
    let (image, weights) = (Bytes::new(image.0, image.1), Bytes::new(weights.0, weights.1));
    let xs: Vec<u8> = (0..patches.elements()).map(byte).collect();
    let ws: Vec<u8> = (0..columns * depth).map(|i| byte(i + 99)).collect();
    let bias: Vec<i32> = (0..columns).map(|i| i32::from(byte(i)) * 1000 - 100_000).collect();
    let multipliers: Vec<_> =
        (0..columns).map(|i| Multiplier::new(0.0001 * (i + 1) as f64)).collect();
    let zero = image.zero_point.to_le_bytes()[0] ^ image.flip;
    let mut window = vec![0; depth];
    let real = |byte: u8, bytes: Bytes| i32::from(byte ^ bytes.flip) - bytes.zero_point;
    for variant in VARIANTS.all() {
        let scaling = Scaling::new(&multipliers, columns, 17, 3, 250);
        let gemm = Gemm::new(
            variant.isa,
            patches,
            image,
            Weights { values: &ws, bytes: weights },
            &bias,
            scaling,
        )
        .unwrap();
        let mut scratch = vec![0; gemm.scratch_bytes().div_ceil(4)];
        let mut got = vec![99; (rows + 1) * columns];
        let (input, output) = (In::of(&xs[..]), Out::of(&mut got[..]));
        gemm.compute(input, output, 0..gemm.patches().lines(), &mut scratch).unwrap();
        // Pairs of windows are rows of theirs.
        let pixel = gemm.columns;
        let want = &got[..rows * columns];
        check_apart(&xs, patches.channels, want, pixel, 99, |image, output| {
            let mut scratch = scratch.clone();
            gemm.compute(image, output, 0..gemm.patches().lines(), &mut scratch).unwrap();
        });
        for row in 0..rows {
            // SAFETY: the image as stated, a row of the patches' depth.
            unsafe { patches.gather(patches.dense(&xs), row, zero, window.as_mut_ptr()) };
            for column in 0..columns {
                let pairs = window.iter().zip(&ws[column * depth..]);
                let sum = pairs
                    .fold(bias[column], |sum, (&x, &w)| sum + real(x, image) * real(w, weights));
                let want = (multipliers[column].apply(sum) + 17).clamp(3, 250);
                let got = i32::from(got[row * columns + column]);
                assert_eq!(got, want, "{:?} {patches:?} at {row}, {column}", variant.isa);
            }
        }
        assert!(
            got[rows * columns..].iter().all(|&x| x == 99),
            "{:?} wrote behind the end",
            variant.isa
        );
    }
}
