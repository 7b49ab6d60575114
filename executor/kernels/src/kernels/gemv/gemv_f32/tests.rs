//! Every variant against a product written out.

use super::*;

const ALL: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |at: usize| ((at + seed).wrapping_mul(2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
    (0..count).map(number).collect()
}

#[test]
fn every_variant_gives_the_product() {
    let depths = [1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 65, 257, 576];
    let columns = [1, 7, 8, 12, 16, 17, 31, 33, 42, 48, 49, 63, 64, 65, 130];
    for variant in VARIANTS.all() {
        for depth in depths {
            for columns in columns {
                compare(variant.isa, 1, depth, columns, ALL);
                compare(variant.isa, 3, depth, columns, (0.0, 6.0));
            }
        }
    }
}

#[test]
fn sums_of_more_lines_than_are_taken_at_once_go_on() {
    let (depth, rows) = (2 * DEEP + 7, 2);
    let weights: Vec<f32> = (0..3 * depth).map(|at| [1.0, -1.0, 3.0][at / depth]).collect();
    let xs: Vec<f32> = (0..rows * depth).map(|at| [1.0, 2.0][at / depth]).collect();
    for variant in VARIANTS.all() {
        let gemv = Gemv::new(variant.isa, Precision::Single, &weights, depth).unwrap();
        let mut got = vec![0.0; 3 * rows];
        let range = (-250_000.0, f32::INFINITY);
        let (xs, output) = (In::of(&xs), Out::of(&mut got));
        gemv.compute(xs, rows, Start::Bias(&[5.0, 0.0, -1.0]), output, 3, range).unwrap();
        let sum = depth as f32;
        let want = [sum + 5.0, -sum, 3.0 * sum - 1.0, 2.0 * sum + 5.0, -250_000.0, 6.0 * sum - 1.0];
        assert_eq!(got, want, "{:?}", variant.isa);
    }
}

#[test]
fn every_variant_gives_the_product_of_widened_bytes() {
    for variant in VARIANTS.all() {
        for (depth, columns) in [(257, 64), (300, 17), (64, 130), (65, 65), (120, 40)] {
            let step = |at: usize| ((at.wrapping_mul(2_654_435_761)) % 255) as f32 - 127.0;
            // No weight is 1: rows with such a one stay floats.
            let scale = |column: usize| 1.0 / 127.3 / (1.0 + column as f32 * 0.013);
            let weights: Vec<f32> =
                (0..depth * columns).map(|at| step(at) * scale(at / depth)).collect();
            for rows in [1, 3] {
                for precision in [Precision::Single, Precision::Bf16] {
                    let isa = (variant.isa, precision);
                    let gemv = compare_with(isa, rows, &weights, depth, (-0.75, 6.0));
                    assert!(matches!(gemv.weights, Weights::Steps { .. }), "{depth}x{columns}");
                }
            }
        }
    }
}

#[test]
fn every_variant_gives_the_product_of_weights_as_bf16() {
    for variant in VARIANTS.all() {
        for (depth, columns) in [(1, 1), (257, 64), (64, 130), (7, 33)] {
            let weights = numbers(depth * columns, 99);
            let rounded = |&weight: &f32| half::bf16::from_f32(weight).to_f32();
            let weights: Vec<f32> = weights.iter().map(rounded).collect();
            for rows in [1, 3] {
                let isa = (variant.isa, Precision::Bf16);
                let gemv = compare_with(isa, rows, &weights, depth, (-0.75, 6.0));
                assert!(matches!(gemv.weights, Weights::Steps { .. }), "{depth}x{columns}");
            }
        }
    }
}

#[test]
fn weights_of_half_the_bits_that_come_from_far_are_kept_as_such() {
    let (depth, columns) = (1030, 259);
    assert!(depth * columns * size_of::<f32>() >= FAR);
    let floats = numbers(depth * columns, 99);
    for variant in VARIANTS.all() {
        let isa = (variant.isa, Precision::Single);
        let halves: Vec<f32> =
            floats.iter().map(|&weight| f16::from_f32(weight * 1e-3).to_f32()).collect();
        let gemv = compare_with(isa, 1, &halves, depth, ALL);
        assert!(matches!(gemv.weights, Weights::Halves(_)), "{:?}", variant.isa);
        // To the bit what they give as floats: in rows too short to come from far.
        let few = &halves[..depth * 64];
        let (xs, bias) = (numbers(depth, 1), numbers(columns, 7));
        let mut results = [vec![0.0; columns], vec![0.0; 64]];
        for (weights, results) in [&halves[..], few].into_iter().zip(&mut results) {
            let gemv = Gemv::new(variant.isa, Precision::Single, weights, depth).unwrap();
            let (stride, output) = (results.len(), Out::of(results));
            gemv.compute(In::of(&xs), 1, Start::Bias(&bias), output, stride, ALL).unwrap();
        }
        assert_eq!(results[0][..64], results[1], "{:?}", variant.isa);
        let upper: Vec<f32> =
            floats.iter().map(|&weight| half::bf16::from_f32(weight * 1e-9).to_f32()).collect();
        let gemv = compare_with(isa, 1, &upper, depth, ALL);
        assert!(matches!(gemv.weights, Weights::Steps { .. }), "{:?}", variant.isa);
        let gemv = Gemv::new(variant.isa, Precision::Single, &floats, depth).unwrap();
        assert!(matches!(gemv.weights, Weights::Single(_)), "{:?}", variant.isa);
    }
}

#[test]
fn widened_bytes_are_added_up_as_floats_in_plain_code() {
    let (depth, columns) = (300, 17);
    let weight = |at: usize| (((at.wrapping_mul(2_654_435_761)) % 255) as f32 - 127.0) * 0.0123;
    let weights: Vec<f32> = (0..depth * columns).map(weight).collect();
    let (xs, bias) = (numbers(depth, 1), numbers(columns, 7));
    let gemv = Gemv::new(Isa::Scalar, Precision::Single, &weights, depth).unwrap();
    assert!(matches!(gemv.weights, Weights::Steps { .. }));
    let mut got = vec![0.0; columns];
    gemv.compute(In::of(&xs), 1, Start::Bias(&bias), Out::of(&mut got), columns, ALL).unwrap();
    for (column, got) in got.into_iter().enumerate() {
        let products = xs.iter().zip(&weights[column * depth..]).map(|(x, w)| x * w);
        assert_eq!(got, products.fold(bias[column], |sum, product| sum + product));
    }
}

fn compare(isa: Isa, rows: usize, depth: usize, columns: usize, range: (f32, f32)) {
    compare_with((isa, Precision::Single), rows, &numbers(columns * depth, 99), depth, range);
}

fn compare_with(
    (isa, precision): (Isa, Precision),
    rows: usize,
    weights: &[f32],
    depth: usize,
    range: (f32, f32),
) -> Gemv {
    let (xs, columns) = (numbers(rows * depth, 1), weights.len() / depth);
    let (bias, before) = (numbers(columns, 7), numbers((rows + 1) * (columns + 3), 5));
    let gemv = Gemv::new(isa, precision, weights, depth).unwrap();
    assert_eq!((gemv.columns(), gemv.isa()), (columns, isa));
    let stride = columns + 3;
    for start in [Start::Bias(&bias), Start::Output] {
        let mut got = before.clone();
        gemv.compute(In::of(&xs), rows, start, Out::of(&mut got), stride, range).unwrap();
        let mut parts = before.clone();
        for panel in (0..gemv.panels()).rev() {
            let (xs, output) = (In::of(&xs), Out::of(&mut parts));
            let of = FewRows { xs, rows, start, output, stride, range };
            gemv.compute_some(panel..panel + 1, of).unwrap();
        }
        assert_eq!(parts, got, "{isa:?}, panel by panel");
        for (at, (&got, &before)) in got.iter().zip(&before).enumerate() {
            let (row, column) = (at / stride, at % stride);
            if row == rows || column >= columns {
                assert_eq!(got, before, "{isa:?} wrote beside its columns");
                continue;
            }
            let first = if let Start::Bias(bias) = start { bias[column] } else { before };
            let pairs = xs[row * depth..].iter().zip(&weights[column * depth..]).take(depth);
            let want =
                pairs.fold(f64::from(first), |sum, (&x, &w)| sum + f64::from(x) * f64::from(w));
            let want = want.clamp(f64::from(range.0), f64::from(range.1));
            // Each of `depth` additions rounds a sum of at most `depth`.
            let bound = depth as f64 * f64::from(f32::EPSILON) * (depth as f64).sqrt().max(1.0);
            assert!(
                (f64::from(got) - want).abs() <= bound,
                "{isa:?} {rows}x{depth}x{columns}: {got} for {want}"
            );
        }
    }
    gemv
}

#[test]
fn nan_stays_nan_and_what_is_too_short_is_refused() {
    for variant in VARIANTS.all() {
        let gemv = Gemv::new(variant.isa, Precision::Single, &[1.0, 1.0], 1).unwrap();
        let mut out = [0.0; 2];
        let mut run = |x: &[f32], rows| {
            let bias = Start::Bias(&[0.0, 10.0]);
            gemv.compute(In::of(x), rows, bias, Out::of(&mut out), 2, (0.0, 6.0)).map(|()| out)
        };
        assert_eq!(run(&[1.0], 1), Ok([1.0, 6.0]));
        assert!(run(&[f32::NAN], 1).unwrap().iter().all(|y| y.is_nan()), "{:?}", variant.isa);
        assert!(run(&[], 1).is_err() && run(&[1.0; 2], 2).is_err());
        assert!(run(&[], 0).is_ok());
    }
    assert!(Gemv::new(Isa::Scalar, Precision::Single, &[1.0; 5], 2).is_none());
}
