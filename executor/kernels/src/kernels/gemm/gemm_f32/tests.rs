//! Every variant against a product written out.

use super::*;
use crate::tensor::rows::check_apart;
use crate::tensor::{In, Out};

const SINGLE: Precision = Precision::Single;

#[test]
fn every_variant_gives_the_product() {
    let (all, relu6) = ((f32::NEG_INFINITY, f32::INFINITY), (0.0, 6.0));
    for (rows, columns, depths) in [
        (1, 33, &[1usize, 7, 8, 15, 16, 17, 63, 64, 65, 576, 4608][..]),
        (13, 16, &[1, 4, 63, 576]),
        (49, 40, &[5, 64]),
        (12, 32, &[32]),
        (7, 1, &[9]),
    ] {
        for &depth in depths {
            for variant in VARIANTS.all() {
                for precision in [Precision::Single, Precision::Bf16] {
                    compare((variant.isa, precision), rows, columns, depth, all);
                    compare((variant.isa, precision), rows, columns, depth, relu6);
                }
            }
        }
    }
}

#[test]
fn nan_stays_nan_and_clamping_holds() {
    for variant in VARIANTS.all() {
        let patches = Patches::matrix(1, 1);
        let gemm =
            Gemm::new(variant.isa, SINGLE, patches, &[1.0; 3], &[0.0, 10.0, -10.0], (0.0, 6.0))
                .unwrap();
        let mut scratch = vec![0.0; gemm.scratch_bytes() / 4];
        for (x, want) in [(1.0f32, [1.0, 6.0, 0.0]), (f32::NAN, [f32::NAN; 3])] {
            let mut out = [7.0f32; 3];
            gemm.compute(In::of(&[x]), Out::of(&mut out), 0..1, &mut scratch).unwrap();
            assert_eq!(out.map(f32::to_bits), want.map(f32::to_bits), "{:?} of {x}", variant.isa);
        }
    }
}

#[test]
fn every_variant_gives_the_convolution() {
    for channels in [1, 3, 16] {
        for narrow in crate::kernels::patches::tests::cases(channels) {
            // Lines that are long enough for tiles of their own, and such that are copied together.
            let wide = Patches {
                in_width: narrow.in_width + 18,
                out_width: narrow.out_width + 18 / narrow.stride_w,
                ..narrow
            };
            for variant in VARIANTS.all() {
                for columns in [5, 24, 33] {
                    convolve(variant.isa, wide, columns);
                    convolve(variant.isa, narrow, columns);
                }
            }
        }
    }
}

#[test]
fn ordered_sums_are_those_of_a_plain_loop_to_the_bit() {
    let number = |seed: usize| ((seed.wrapping_mul(2_654_435_761)) % 1000) as f32 / 300.0 - 1.7;
    for channels in [1, 3, 16] {
        for narrow in crate::kernels::patches::tests::cases(channels) {
            let (in_width, out_width) = (narrow.in_width + 18, 18 / narrow.stride_w);
            let wide = Patches { in_width, out_width: narrow.out_width + out_width, ..narrow };
            for (patches, columns) in [narrow, wide].into_iter().flat_map(|p| [(p, 5), (p, 40)]) {
                let image: Vec<f32> = (0..patches.elements()).map(number).collect();
                let weights = (0..columns * patches.depth()).map(|i| number(i + 99));
                let weights: Vec<f32> = weights.collect();
                let bias: Vec<f32> = (0..columns).map(|i| number(i + 7)).collect();
                let mut row = vec![0.0; patches.depth()];
                let mut want = Vec::new();
                for pixel in 0..patches.rows() {
                    // SAFETY: the image as stated, a row of the patches' depth.
                    unsafe { patches.gather(patches.dense(&image), pixel, 0.0, row.as_mut_ptr()) };
                    for (weights, bias) in weights.chunks_exact(row.len()).zip(&bias) {
                        let pairs = row.iter().zip(weights);
                        let sum = pairs.fold(0.0, |sum, (x, w)| sum + x * w) + bias;
                        want.push(sum.clamp(-3.0, 40.0).to_bits());
                    }
                }
                for variant in ORDERED.all() {
                    let range = (-3.0, 40.0);
                    let gemm = Gemm::ordered(variant.isa, patches, &weights, &bias, range).unwrap();
                    let mut scratch = vec![0.0; gemm.scratch_bytes() / 4];
                    let mut got = vec![99.0f32; patches.rows() * columns];
                    let (image, output) = (In::of(&image), Out::of(&mut got));
                    gemm.compute(image, output, 0..patches.lines(), &mut scratch).unwrap();
                    let got: Vec<u32> = got.into_iter().map(f32::to_bits).collect();
                    assert_eq!(got, want, "{:?} {patches:?}", variant.isa);
                }
            }
        }
    }
    let patches = Patches::matrix(2, 1);
    assert!(Gemm::ordered(Isa::Scalar, patches, &[f32::INFINITY], &[0.0], (0.0, 1.0)).is_none());
}

#[test]
fn rows_that_clash_in_the_cache_are_copied() {
    assert!(matches!(Source::of(&Patches::matrix(49, CLASHING)), Source::Copied));
    assert!(matches!(Source::of(&Patches::matrix(49, 576)), Source::Matrix));
    for variant in VARIANTS.all() {
        convolve(variant.isa, Patches::matrix(13, CLASHING), 9);
    }
}

/// Some lines of a convolution against one written out.
fn convolve(isa: Isa, patches: Patches, columns: usize) {
    let number = |seed: usize| ((seed.wrapping_mul(2_654_435_761)) % 1000) as f32 / 500.0 - 1.0;
    let image: Vec<f32> = (0..patches.elements()).map(number).collect();
    let weights: Vec<f32> = (0..columns * patches.depth()).map(|i| number(i + 99)).collect();
    let bias: Vec<f32> = (0..columns).map(|i| number(i + 7)).collect();
    let range = (f32::NEG_INFINITY, f32::INFINITY);
    let gemm = Gemm::new(isa, SINGLE, patches, &weights, &bias, range).unwrap();
    let mut scratch = vec![0.0; gemm.scratch_bytes() / 4];
    let mut got = vec![99.0; patches.rows() * columns];
    let lines = patches.lines().min(1)..patches.lines();
    gemm.compute(In::of(&image), Out::of(&mut got), lines.clone(), &mut scratch).unwrap();
    check_apart(&image, patches.channels, &got, columns, 99.0, |image, output| {
        let mut scratch = vec![0.0; gemm.scratch_bytes() / 4];
        gemm.compute(image, output, lines.clone(), &mut scratch).unwrap();
    });
    let mut row = vec![0.0; patches.depth()];
    for (at, &y) in got.iter().enumerate() {
        let (pixel, column) = (at / columns, at % columns);
        if !lines.contains(&(pixel / patches.out_width)) {
            assert_eq!(y, 99.0, "a line that wasn't asked for");
            continue;
        }
        // SAFETY: the image as stated, a row of the patches' depth.
        unsafe { patches.gather(patches.dense(&image), pixel, 0.0, row.as_mut_ptr()) };
        let pairs = row.iter().zip(&weights[column * row.len()..]);
        let want = pairs.fold(bias[column], |sum, (x, w)| sum + x * w);
        let bound = row.len() as f32 * 1e-6;
        assert!((y - want).abs() < bound, "{isa:?} {patches:?} at {at}: {y} for {want}");
    }
}

fn compare(
    (isa, precision): (Isa, Precision),
    rows: usize,
    columns: usize,
    depth: usize,
    range: (f32, f32),
) {
    let number = |seed: usize| ((seed.wrapping_mul(2_654_435_761)) % 1000) as f32 / 500.0 - 1.0;
    let image: Vec<f32> = (0..rows * depth).map(number).collect();
    let weights: Vec<f32> = (0..columns * depth).map(|i| number(i + 99)).collect();
    let bias: Vec<f32> = (0..columns).map(|i| number(i + 7)).collect();
    let gemm =
        Gemm::new(isa, precision, Patches::matrix(rows, depth), &weights, &bias, range).unwrap();
    let rounds = precision == Precision::Bf16 && Bf16Pairs::of(isa).is_some();
    assert_eq!(gemm.kernel(), if rounds { "gemm_bf16" } else { "gemm_f32" });
    let factor = |x: f32| if rounds { half::bf16::from_f32(x).to_f64() } else { f64::from(x) };
    let mut scratch = vec![0.0; gemm.scratch_bytes() / 4];
    // A row more than there is, to see that nothing is written behind the end.
    let mut got = vec![99.0; (rows + 1) * columns];
    gemm.compute(In::of(&image), Out::of(&mut got), 0..1, &mut scratch).unwrap();
    for row in 0..rows {
        for column in 0..columns {
            let pairs = image[row * depth..].iter().zip(&weights[column * depth..]).take(depth);
            let want =
                pairs.fold(f64::from(bias[column]), |sum, (&x, &w)| sum + factor(x) * factor(w));
            let want = want.clamp(f64::from(range.0), f64::from(range.1));
            let got = f64::from(got[row * columns + column]);
            // Each of `depth` additions rounds a sum of at most `depth`.
            let bound = depth as f64 * f64::from(f32::EPSILON) * (depth as f64).sqrt().max(1.0);
            assert!(
                (got - want).abs() <= bound,
                "{isa:?} {rows}x{depth}x{columns}: {got} for {want}"
            );
        }
    }
    assert!(got[rows * columns..].iter().all(|&x| x == 99.0), "{isa:?} wrote behind the end");
}
