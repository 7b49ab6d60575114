//! Every variant against a convolution written out: bit by bit.

use super::*;
use crate::kernels::patches::tests::cases;
use crate::tensor::quant::Multiplier;
use crate::tensor::rows::check_apart;

#[test]
fn every_variant_gives_the_convolution() {
    let byte = |seed: usize| match seed % 7 {
        0 => 0,
        1 => 255,
        _ => ((seed.wrapping_mul(2_654_435_761)) >> 7).to_le_bytes()[0],
    };
    for channels in (1..=33).chain([64]) {
        let all = cases(channels).into_iter().chain(rows(channels));
        for (case, patches) in all.enumerate() {
            // Differences of weights reach 255 and -255: more than two signed bytes, and as much as
            // two.
            let (image, weights) = match case % 4 {
                0 => (Bytes::new(0, 131), Bytes::new(0, 3)),
                1 => (Bytes::new(128, -128), Bytes::new(128, 0)),
                2 => (Bytes::new(0, 0), Bytes::new(0, 0)),
                _ => (Bytes::new(0, 255), Bytes::new(0, 255)),
            };
            let xs: Vec<u8> = (0..patches.elements()).map(byte).collect();
            let ws: Vec<u8> = (0..patches.depth()).map(|i| byte(i + 5)).collect();
            let bias: Vec<i32> = (0..channels).map(|i| i32::from(byte(i)) * 300 - 30_000).collect();
            let multipliers: Vec<_> =
                (0..channels).map(|i| Multiplier::new(0.0005 * (i + 1) as f64)).collect();
            let real = |byte: u8, bytes: Bytes| i32::from(byte ^ bytes.flip) - bytes.zero_point;
            let zero = image.zero_point.to_le_bytes()[0] ^ image.flip;
            let mut row = vec![0; patches.depth()];
            let mut wanted = Vec::new();
            for pixel in 0..patches.rows() {
                // SAFETY: the image as stated, a row of the patches' depth.
                unsafe { patches.gather(patches.dense(&xs), pixel, zero, row.as_mut_ptr()) };
                for (channel, multiplier) in multipliers.iter().enumerate() {
                    let pairs = row.iter().zip(&ws).skip(channel).step_by(channels);
                    let sum = pairs.fold(bias[channel], |sum, (&x, &w)| {
                        sum + real(x, image) * real(w, weights)
                    });
                    wanted.push((multiplier.apply(sum) + 17).clamp(3, 250));
                }
            }
            for variant in VARIANTS.all() {
                let scaling = Scaling::new(&multipliers, channels, 17, 3, 250);
                let conv = Depthwise::new(
                    variant.isa,
                    patches,
                    image,
                    Weights { values: &ws, bytes: weights },
                    &bias,
                    scaling,
                )
                .unwrap();
                let mut got = vec![99; (patches.rows() + 1) * channels];
                let mut scratch = vec![0; conv.scratch_bytes().div_ceil(4)];
                let (input, output) = (In::of(&xs[..]), Out::of(&mut got[..]));
                conv.compute(input, output, &mut scratch, 0..conv.bands()).unwrap();
                let want = &got[..patches.rows() * channels];
                if conv.takes_rows() {
                    check_apart(&xs, channels, want, channels, 99, |image, output| {
                        let mut scratch = scratch.clone();
                        conv.compute(image, output, &mut scratch, 0..conv.bands()).unwrap();
                    });
                }
                for (at, (&y, &want)) in got.iter().zip(&wanted).enumerate() {
                    assert_eq!(i32::from(y), want, "{:?} {patches:?} at {at}", variant.isa);
                }
                assert!(got[patches.rows() * channels..].iter().all(|&x| x == 99));
            }
        }
    }
}

/// Windows of one line: of several words, one window alone, with padding.
fn rows(channels: usize) -> impl Iterator<Item = Patches> {
    [(3, 9, 0, 1), (5, 8, 2, 1), (10, 24, 0, 1), (15, 15, 0, 2), (4, 6, 0, 1), (9, 12, 4, 1)]
        .into_iter()
        .map(move |(filter_w, in_width, left, lines)| Patches {
            batches: 1,
            in_height: 2 * lines - 1,
            in_width,
            channels,
            out_height: lines,
            out_width: in_width + 2 * left + 1 - filter_w,
            filter_h: 1,
            filter_w,
            stride_h: 2,
            stride_w: 1,
            dilation_h: 1,
            dilation_w: 1,
            top: 0,
            left,
        })
}
