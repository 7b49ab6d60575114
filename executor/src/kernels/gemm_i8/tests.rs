//! Every form against a product written out: bit by bit.

use super::*;
use crate::quant::Multiplier;

#[test]
fn every_form_gives_the_product() {
    for (rows, columns, depths) in [
        (1, 33, &[1usize, 7, 8, 15, 16, 17, 63, 64, 65, 576, 4608][..]),
        (13, 16, &[1, 2, 3, 4, 63]),
        (49, 40, &[5, 64]),
        (7, 1, &[9]),
    ] {
        for &depth in depths {
            for (image, weights) in [
                ((0, 0), (0, 255)),
                ((0, 131), (0, 122)),
                ((128, -5), (128, 0)),
                ((0, 7), (128, 0)),
            ] {
                for extreme in [false, true] {
                    compare(rows, columns, depth, image, weights, extreme);
                }
            }
        }
    }
}

fn compare(
    rows: usize,
    columns: usize,
    depth: usize,
    image: (i32, i32),
    weights: (i32, i32),
    extreme: bool,
) {
    let byte = |seed: usize| {
        let byte = ((seed * 2_654_435_761) >> 7).to_le_bytes()[0];
        if extreme { if byte & 1 == 0 { 0 } else { 255 } } else { byte }
    };
    let (image, weights) = (Bytes::new(image.0, image.1), Bytes::new(weights.0, weights.1));
    let xs: Vec<u8> = (0..rows * depth).map(byte).collect();
    let ws: Vec<u8> = (0..columns * depth).map(|i| byte(i + 99)).collect();
    let bias: Vec<i32> = (0..columns).map(|i| i32::from(byte(i)) * 1000 - 100_000).collect();
    let multipliers: Vec<_> =
        (0..columns).map(|i| Multiplier::new(0.0001 * (i + 1) as f64)).collect();
    let real = |byte: u8, bytes: Bytes| i32::from(byte ^ bytes.flip) - bytes.zero_point;
    for form in crate::kernels::detected(FORMS) {
        let scaling = Scaling::new(&multipliers, columns, 17, (3, 250));
        let patches = Patches::matrix(rows, depth);
        let gemm = Gemm::new(form.isa, patches, image, (&ws, weights), &bias, scaling).unwrap();
        let mut scratch = vec![0; gemm.scratch_bytes() / 4];
        let mut got = vec![99; (rows + 1) * columns];
        // SAFETY: sizes as stated.
        unsafe { gemm.run(xs.as_ptr(), got.as_mut_ptr(), &mut scratch) };
        for row in 0..rows {
            for column in 0..columns {
                let pairs = xs[row * depth..].iter().zip(&ws[column * depth..]).take(depth);
                let sum = pairs
                    .fold(bias[column], |sum, (&x, &w)| sum + real(x, image) * real(w, weights));
                let want = (multipliers[column].apply(sum) + 17).clamp(3, 250);
                let got = i32::from(got[row * columns + column]);
                assert_eq!(got, want, "{:?} {rows}x{depth}x{columns} at {row}, {column}", form.isa);
            }
        }
        assert!(
            got[rows * columns..].iter().all(|&x| x == 99),
            "{:?} wrote behind the end",
            form.isa
        );
    }
}
