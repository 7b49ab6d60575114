//! Every variant against a product written out: bit by bit.

use super::*;
use crate::kernels::patches::tests::cases;
use crate::tensor::quant::Multiplier;
use crate::tensor::rows::{Apart, Rows, check_apart};
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
        // Tiles of sixteen windows by vectors of columns: whole ones, parts, too long a copy.
        (16, 64, &[48, 64, 128, 130, 2048, 2052, 4096]),
        (33, 48, &[52, 256]),
        (20, 100, &[64, 100]),
        (6, 20, &[192]),
        (17, 5, &[64, 65]),
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
    let extents = [(1, 3), (3, 8), (4, 17), (8, 64), (12, 33), (30, 5), (64, 64), (90, 70)];
    for (channels, columns) in extents {
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

#[test]
fn sums_of_rows_stay_as_they_are() {
    for (most, columns, depth) in
        [(1, 1, 1), (5, 17, 3), (12, 16, 64), (13, 40, 65), (33, 7, 130), (64, 100, 48)]
    {
        let rows: Vec<i8> = (0..most * (depth + 3)).map(|at| any(at).cast_signed()).collect();
        let weights: Vec<i8> =
            (0..columns * depth).map(|at| extreme(at).cast_signed() ^ 1).collect();
        let bias: Vec<i32> = (-3..).map(|at| at * 1_000_003).take(columns).collect();
        for (zero_point, count) in [(0, most), (-128, most), (127, most.div_ceil(3))] {
            let sum = |row: &[i8], column: usize| {
                let own = &weights[column * depth..(column + 1) * depth];
                let products = row.iter().zip(own);
                let product = |(&x, &w): (&i8, &i8)| (i32::from(x) - zero_point) * i32::from(w);
                bias[column] + products.map(product).sum::<i32>()
            };
            let row = |at: usize| &rows[at * (depth + 3)..][..depth];
            for variant in VARIANTS.all() {
                let isa = variant.isa;
                let packed = RowGemm::new(isa, most, &weights, depth, zero_point, &bias).unwrap();
                let mut scratch = vec![0; packed.scratch_bytes().div_ceil(4)];
                let mut got = vec![7; count * packed.sums()];
                let bytes = bytemuck::cast_slice(&rows);
                packed.compute(bytes, depth + 3, count, &mut got, &mut scratch).unwrap();
                for (at, got) in got.chunks_exact(packed.sums()).enumerate() {
                    let want: Vec<i32> = (0..columns).map(|column| sum(row(at), column)).collect();
                    assert_eq!(got[..columns], want, "{isa:?} {most} {columns} {depth}");
                }
                assert!(
                    packed.compute(bytes, depth + 3, most + 1, &mut got, &mut scratch).is_err()
                );
            }
        }
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

/// The sums of products of each window with each column, written out. Each operand is stored bytes
/// and what they stand for; the image's as well the byte outside of it.
fn sums_of(
    patches: Patches,
    (image, of_image, zero): (&[u8], Bytes, u8),
    (weights, of_weights): (&[u8], Bytes),
) -> Vec<Vec<i32>> {
    let real = |byte: u8, bytes: Bytes| i32::from(byte ^ bytes.flip) - bytes.zero_point;
    let weights: Vec<i32> = weights.iter().map(|&byte| real(byte, of_weights)).collect();
    let mut window = vec![0; patches.depth()];
    let each = (0..patches.rows()).map(|row| {
        // SAFETY: the image as stated, a row of the patches' depth.
        unsafe { patches.gather(patches.dense(image), row, zero, window.as_mut_ptr()) };
        let window: Vec<i32> = window.iter().map(|&byte| real(byte, of_image)).collect();
        let columns = weights.chunks_exact(window.len());
        columns.map(|column| window.iter().zip(column).map(|(x, w)| x * w).sum()).collect()
    });
    each.collect()
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
    let mut wanted = Vec::with_capacity(rows * columns);
    for row in sums_of(patches, (&xs, image, zero), (&ws, weights)) {
        let columns = row.iter().zip(&bias).zip(&multipliers);
        wanted.extend(columns.map(|((&sum, &bias), by)| (by.apply(bias + sum) + 17).clamp(3, 250)));
    }
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
        let pixel = Convolution::channels(&gemm);
        let want = &got[..rows * columns];
        check_apart(&xs, patches.channels, want, pixel, 99, |image, output| {
            let mut scratch = scratch.clone();
            gemm.compute(image, output, 0..gemm.patches().lines(), &mut scratch).unwrap();
        });
        for (at, (&got, &want)) in got.iter().zip(&wanted).enumerate() {
            let (row, column) = (at / columns, at % columns);
            assert_eq!(i32::from(got), want, "{:?} {patches:?} at {row}, {column}", variant.isa);
        }
        assert!(
            got[rows * columns..].iter().all(|&x| x == 99),
            "{:?} wrote behind the end",
            variant.isa
        );
    }
}

#[test]
fn every_variant_gives_the_floats_of_an_image() {
    for (channels, columns) in [(1, 3), (3, 8), (4, 17), (8, 64), (12, 33), (30, 5), (90, 70)] {
        for (case, patches) in cases(channels).into_iter().enumerate() {
            let patches = Patches { batches: 1, ..patches };
            let weights = [Bytes::new(128, 0), Bytes::new(128, -3), Bytes::new(0, 122)][case % 3];
            let scaling = [FloatScaling::Joined, FloatScaling::WeightsFirst][case % 2];
            compare_floats(patches, columns, [0, -128, 127, 5][case % 4], weights, scaling);
        }
    }
    for (rows, columns, depth) in
        [(1, 33, 17), (13, 16, 4), (7, 150, 64), (45, 16, 8), (8, 32, 3), (21, 70, 128)]
    {
        let patches = Patches::matrix(rows, depth);
        compare_floats(patches, columns, -7, Bytes::new(128, 0), FloatScaling::Joined);
    }
}

fn compare_floats(
    patches: Patches,
    columns: usize,
    zero_point: i32,
    weights: Bytes,
    scaling: FloatScaling,
) {
    const SCALE: f32 = 0.013;
    let (rows, depth) = (patches.rows(), patches.depth());
    // Signed bytes.
    let xs: Vec<u8> = (0..patches.elements()).map(any).collect();
    let ws: Vec<u8> = (0..columns * depth).map(|i| mostly_small(i + 99)).collect();
    let scales: Vec<f32> = (0..columns).map(|i| 0.001 * f32::from(any(i))).collect();
    let bias: Vec<f32> = (0..columns).map(|i| f32::from(any(i + 7)) - 100.0).collect();
    let range = (-900.0, 1e4);
    let (zero, signed) = (zero_point.to_le_bytes()[0], Bytes::new(128, zero_point));
    let sums = sums_of(patches, (&xs, signed, zero), (&ws, weights));
    for variant in VARIANTS.all() {
        let weights_of = Weights { values: &ws, bytes: weights };
        let gemm = HybridGemm::new(variant.isa, patches, weights_of, &scales, scaling, range);
        let gemm = gemm.unwrap();
        let image: Vec<u8> = xs.iter().map(|byte| byte ^ gemm.flip()).collect();
        let mut scratch = vec![0; gemm.scratch_bytes().div_ceil(4)];
        let mut got = vec![99.0; (rows + 1) * columns];
        for bias in [None, Some(In::of(&bias[..]))] {
            let (image, output) = (In::of(&image[..]), Out::of(&mut got[..]));
            gemm.compute(image, SCALE, zero_point, bias, output, &mut scratch).unwrap();
            for (row, sums) in sums.iter().enumerate() {
                for (column, &sum) in sums.iter().enumerate() {
                    #[expect(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
                    let sum = sum as f32;
                    let real = match scaling {
                        FloatScaling::Joined => sum * (scales[column] * SCALE),
                        FloatScaling::WeightsFirst => sum * scales[column] * SCALE,
                    };
                    let want = real + bias.map_or(0.0, |bias| bias.get(column));
                    let want = want.clamp(range.0, range.1);
                    let got = got[row * columns + column];
                    let at = (variant.isa, row, column);
                    assert_eq!(got.to_bits(), want.to_bits(), "{at:?}: {got} {want} {patches:?}");
                }
            }
            let behind = &got[rows * columns..];
            assert!(behind.iter().all(|&x| x == 99.0), "{:?} wrote behind the end", variant.isa);
        }
        let bias = In::of(&bias[..]);
        let want = &got[..rows * columns];
        let channels = patches.channels;
        let (wide, apart) = spread(&image, channels, 20, 0);
        let from = Rows::new(In::of(&wide), apart, 1);
        let columns = gemm.columns();
        let (mut wide, apart) = spread(&vec![99.0; want.len()], columns, 12, 99.0);
        let to = Rows::new(Out::of(&mut wide), apart, 4);
        gemm.compute(from, SCALE, zero_point, Some(bias), to, &mut scratch).unwrap();
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let (want, _) = spread(want, columns, 12, 99.0);
        assert_eq!(bits(&wide), bits(&want), "{:?}: rows apart", variant.isa);
    }
}

/// Rows of so many elements with some between them, but behind the last, and how they lie.
fn spread<T: Copy>(rows: &[T], len: usize, gap: usize, between: T) -> (Vec<T>, Apart) {
    let size = size_of::<T>();
    let apart = Apart { row: len * size, pitch: (len + gap) * size };
    let mut wide = Vec::new();
    for row in rows.chunks_exact(len) {
        wide.extend(row);
        wide.extend(std::iter::repeat_n(between, gap));
    }
    wide.truncate(apart.span(size_of_val(rows)) / size);
    (wide, apart)
}

#[test]
fn floats_that_are_no_numbers_are_kept() {
    let patches = Patches::matrix(3, 4);
    let bytes = Bytes::new(128, 0);
    let weights = Weights { values: &[1; 4], bytes };
    for variant in VARIANTS.all() {
        let (scaling, range) = (FloatScaling::Joined, (0.0, 6.0));
        let gemm = HybridGemm::new(variant.isa, patches, weights, &[f32::NAN], scaling, range);
        let gemm = gemm.unwrap();
        let mut scratch = vec![0; gemm.scratch_bytes().div_ceil(4)];
        let mut got = [0.0; 3];
        let image = [gemm.flip(); 12];
        let output = Out::of(&mut got[..]);
        gemm.compute(In::of(&image[..]), 1.0, 0, None, output, &mut scratch).unwrap();
        assert!(got.iter().all(|x| x.is_nan()), "{:?}: {got:?}", variant.isa);
    }
}
