//! Every variant against the sums written out, extreme bytes included.

use super::*;

#[test]
fn every_variant_gives_the_exact_sums() {
    let byte = |at: usize| match at % 7 {
        0 => i8::MIN,
        1 => i8::MAX,
        _ => (at.wrapping_mul(2_654_435_761) >> 8).to_le_bytes()[0].cast_signed(),
    };
    for depth in [1, 3, 4, 5, 7, 8, 16, 17, 63, 64, 65, 257, 576, 4608] {
        for columns in [1, 15, 16, 17, 31, 33, 64, 80, 130] {
            // All of some rows alike would not tell one from another.
            let rows = match (depth, columns) {
                // So many that they are summed in parts.
                (4608, 130) => 13,
                _ if columns > 64 || depth > 256 => 1,
                _ => 1 + (depth + columns) % 7,
            };
            let rows = (0..rows).map(|row| {
                let of_row = byte(row);
                (0..depth).map(|at| byte(at).wrapping_add(of_row)).collect()
            });
            let xs: Vec<Vec<i8>> = rows.collect();
            let weights: Vec<i8> = (0..depth * columns).map(|i| byte(i + 3)).collect();
            let bias: Vec<i32> = (0..columns).map(|i| i32::from(byte(i)) << 20).collect();
            for zero_point in [-128, 0, 127] {
                let wanted: Vec<_> = xs
                    .iter()
                    .map(|x| {
                        let x: Vec<_> = x.iter().map(|&x| i32::from(x) - zero_point).collect();
                        let each = weights.chunks_exact(depth).zip(&bias);
                        let each = each.map(|(weights, &bias)| {
                            let products = x.iter().zip(weights);
                            let products = products.map(|(x, &w)| x * i32::from(w));
                            products.fold(bias, i32::wrapping_add)
                        });
                        each.collect::<Vec<_>>()
                    })
                    .collect();
                for variant in VARIANTS.all() {
                    let gemv = GemvBytes::new(variant.isa, &weights, depth, zero_point, &bias);
                    let gemv = gemv.unwrap();
                    assert_eq!(gemv.isa(), variant.isa);
                    let what = format!("{:?}, {} rows, {depth}x{columns}", variant.isa, xs.len());
                    compare(&gemv, &xs, &wanted, &what);
                }
            }
        }
    }
    let one = GemvBytes::new(Isa::Scalar, &[1], 1, 0, &[0]).unwrap();
    assert!(one.keep(In::of(&[]), &mut [0]).is_err());
    assert!(one.compute_in_place(In::of(&[1; 3]), 0, &mut [0; 16]).is_err());
    assert!(one.compute(&[0], 2, &mut [0; 32]).is_err());
    assert!(one.compute(&[0; 2], 2, &mut [0; 31]).is_err());
    assert!(one.compute_some(&[0; 2], 2, 0..9, &mut [0; 31]).is_err());
    assert!(GemvBytes::new(Isa::Scalar, &[1; 3], 2, 0, &[0]).is_none());
}

/// Sums of all columns and of some, of rows that are kept and of one in place.
fn compare(gemv: &GemvBytes, xs: &[Vec<i8>], wanted: &[Vec<i32>], what: &str) {
    let rows = xs.len();
    let mut kept = vec![0; rows * gemv.words()];
    for (x, kept) in xs.iter().zip(kept.chunks_exact_mut(gemv.words())) {
        gemv.keep(In::of(x), kept).unwrap();
    }
    let mut sums = vec![0; rows * gemv.sums()];
    gemv.compute(&kept, rows, &mut sums).unwrap();
    let groups = gemv.groups();
    for some in [0..1, 1..groups, groups - 1..groups, groups..groups] {
        let columns = gemv.columns_of(some.clone());
        let mut part = vec![0; rows * columns.len()];
        gemv.compute_some(&kept, rows, some, &mut part).unwrap();
        for (row, all) in sums.chunks_exact(gemv.sums()).enumerate() {
            let part = &part[row * columns.len()..][..columns.len()];
            assert_eq!(part, &all[columns.clone()], "{what}");
        }
    }
    if gemv.reads_in_place() {
        // At an odd address, as unsigned bytes.
        let flipped = xs[0].iter().map(|&x| x.cast_unsigned() ^ 0x80);
        let odd: Vec<u8> = std::iter::once(0).chain(flipped).collect();
        let mut one = vec![0; gemv.sums()];
        gemv.compute_in_place(In::of(&odd[1..]), 0x80, &mut one).unwrap();
        assert_eq!(one, sums[..one.len()], "{what}");
    }
    for (want, sums) in wanted.iter().zip(sums.chunks_exact(gemv.sums())) {
        assert_eq!(&sums[..want.len()], want, "{what}");
    }
}

#[test]
fn many_rows_give_what_each_gives() {
    let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 8).to_le_bytes()[0].cast_signed();
    for (depth, columns) in [(64, 16), (260, 80), (100, 200), (256, 144), (1029, 48)] {
        let weights: Vec<i8> = (0..depth * columns).map(|i| byte(i + 3)).collect();
        let bias: Vec<i32> = (0..columns).map(|i| i32::from(byte(i)) << 12).collect();
        let xs: Vec<i8> = (0..65 * depth).map(byte).collect();
        for variant in VARIANTS.all() {
            let gemv = GemvBytes::new(variant.isa, &weights, depth, 5, &bias).unwrap();
            let mut kept = vec![0; 65 * gemv.words()];
            let mut alone = vec![0; 65 * gemv.sums()];
            let rows = kept.chunks_exact_mut(gemv.words()).zip(xs.chunks_exact(depth));
            for ((kept, x), alone) in rows.zip(alone.chunks_exact_mut(gemv.sums())) {
                gemv.keep(In::of(x), kept).unwrap();
                gemv.compute(kept, 1, alone).unwrap();
            }
            for rows in [4, 8, 15, 16, 17, 31, 33, 48, 49, 64, 65] {
                let mut sums = vec![0; rows * gemv.sums()];
                gemv.compute(&kept[..rows * gemv.words()], rows, &mut sums).unwrap();
                let each = sums.chunks_exact(gemv.sums()).zip(alone.chunks_exact(gemv.sums()));
                for (row, (sums, alone)) in each.enumerate() {
                    let what = format!("row {row} of {rows}, {depth}x{columns}");
                    assert_eq!(sums, alone, "{:?} {what}", variant.isa);
                }
            }
        }
    }
}

#[test]
fn bytes_of_sums_in_registers_are_those_of_kept_ones() {
    let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 8).to_le_bytes()[0];
    for variant in VARIANTS.all() {
        for depth in [4, 8, 12, 64, 132] {
            for columns in [1, 15, 16, 17, 31, 48, 63, 64, 80, 130, 257] {
                let x: Vec<u8> = (0..depth).map(byte).collect();
                let weights: Vec<i8> =
                    (0..depth * columns).map(|i| byte(i + 3).cast_signed() / 2).collect();
                let bias: Vec<i32> = (0..columns).map(|i| i32::from(byte(i))).collect();
                let gemv = GemvBytes::new(variant.isa, &weights, depth, 3, &bias).unwrap();
                for range in [(-128, 127), (-3, 90), (0, 255)] {
                    // Every other channel has halves alone, which single precision is unsure of.
                    let scale = |at: usize| if at.is_multiple_of(2) { 0.5 / 32.0 } else { 0.004 };
                    let scales = (0..columns).map(scale).collect();
                    let rounding = RoundOnce::new(variant.isa, scales, 5, range);
                    let mut sums = vec![0; gemv.sums()];
                    gemv.compute_in_place(In::of(&x), 0x80, &mut sums).unwrap();
                    let mut want = vec![0; columns];
                    rounding.compute(&sums, Out::of(&mut want)).unwrap();
                    let mut got = vec![0; columns + 1];
                    let (bytes, behind) = got.split_at_mut(columns);
                    let output = Out::of(bytes);
                    gemv.compute_rounded(In::of(&x), 0x80, &rounding, &mut sums, output).unwrap();
                    assert_eq!(bytes, want, "{:?}, {depth}x{columns} {range:?}", variant.isa);
                    assert_eq!(behind, [0]);
                }
                // As many scales as there are columns, or it is as without.
                let short = RoundOnce::new(variant.isa, vec![0.01; columns], 5, (-128, 127));
                let (mut sums, mut none) = (vec![0; gemv.sums()], vec![0; columns - 1]);
                let output = Out::of(&mut none);
                assert!(gemv.compute_rounded(In::of(&x), 0, &short, &mut sums, output).is_err());
                let (few, mut output) = (In::of(&x[1..]), vec![0; columns]);
                let output = Out::of(&mut output);
                assert!(gemv.compute_rounded(few, 0, &short, &mut sums, output).is_err());
            }
        }
    }
}

#[test]
fn floats_of_sums_in_registers_are_those_of_kept_ones() {
    let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 8).to_le_bytes()[0].cast_signed();
    for variant in VARIANTS.all() {
        for depth in [1, 4, 7, 64, 132] {
            for columns in [1, 8, 15, 16, 17, 31, 48, 63, 64, 80, 130, 257] {
                let weights: Vec<i8> = (0..depth * columns).map(|i| byte(i + 3)).collect();
                let zeros = vec![0; columns];
                let gemv = GemvBytes::new(variant.isa, &weights, depth, 0, &zeros).unwrap();
                let x: Vec<i8> = (0..depth).map(byte).collect();
                let mut kept = vec![0; gemv.words()];
                gemv.keep(In::of(&x), &mut kept).unwrap();
                let mut sums = vec![0; gemv.sums()];
                gemv.compute(&kept, 1, &mut sums).unwrap();
                let mut scales: Vec<f32> = (0..columns).map(|i| f32::from(byte(i)) / 7.0).collect();
                // A scale of no number makes sums that stay none.
                scales[columns / 2] = f32::NAN;
                scales.resize(gemv.sums(), 0.0);
                let sums_of_weights: Vec<i32> =
                    (0..gemv.sums()).map(|i| i32::from(byte(i)) * 1000).collect();
                let bias: Vec<f32> = (0..columns).map(|i| f32::from(byte(i + 1)) * 9.0).collect();
                for bias in [vec![0.0; columns], bias] {
                    let to_floats = ToFloats {
                        scales: &scales,
                        sums_of_weights: &sums_of_weights,
                        scale: 0.03,
                        zero_point: -5,
                        bias: In::of(&bias),
                        range: (-900.0, 5000.0),
                    };
                    let mut got = vec![7.0; columns + 1];
                    let (reals, behind) = got.split_at_mut(columns);
                    let output = Out::of(reals);
                    let mut work = vec![0; gemv.sums()];
                    gemv.compute_floats(&kept, &to_floats, &mut work, output).unwrap();
                    for (at, &real) in reals.iter().enumerate() {
                        #[expect(clippy::cast_precision_loss, reason = "as the kernels convert")]
                        let number = (sums[at] + 5 * sums_of_weights[at]) as f32;
                        let want = number * (0.03 * scales[at]) + bias[at];
                        let want = if want.is_nan() { want } else { want.clamp(-900.0, 5000.0) };
                        let same = real == want || real.is_nan() && want.is_nan();
                        assert!(same, "{:?} {depth}x{columns} {at}: {real}, {want}", variant.isa);
                    }
                    assert_eq!(behind, [7.0]);
                    // As many of everything as there are columns, or it is as without.
                    let mut short = ToFloats { scales: &scales[1..], ..to_floats };
                    let output = Out::of(reals);
                    assert!(gemv.compute_floats(&kept, &short, &mut work, output).is_err());
                    short = ToFloats { sums_of_weights: &[], ..to_floats };
                    assert!(gemv.compute_floats(&kept, &short, &mut work, output).is_err());
                    short = ToFloats { bias: In::of(&[]), ..to_floats };
                    assert!(gemv.compute_floats(&kept, &short, &mut work, output).is_err());
                    assert!(gemv.compute_floats(&[], &to_floats, &mut work, output).is_err());
                    // Results that there are no sums of, though all else is long enough.
                    let (mut long, bias) = (vec![0.0; columns + 16], vec![0.0; columns + 16]);
                    let many = ToFloats { bias: In::of(&bias), ..to_floats };
                    let long = Out::of(&mut long);
                    assert!(gemv.compute_floats(&kept, &many, &mut work, long).is_err());
                    assert!(gemv.compute_floats(&kept, &to_floats, &mut [], output).is_err());
                }
            }
        }
    }
}
