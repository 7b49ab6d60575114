//! Every variant against a convolution written out.

use super::*;
use crate::kernels::patches::tests::cases;
use crate::tensor::rows::check_apart;
use crate::tensor::{In, Out};

#[test]
fn every_variant_gives_the_convolution() {
    let number = |seed: usize| ((seed.wrapping_mul(2_654_435_761)) % 1000) as f32 / 500.0 - 1.0;
    for channels in (1..=33).chain([64, CLASHING]) {
        let alone = |of: Patches| Patches { batches: 1, ..of };
        for patches in cases(channels).into_iter().flat_map(|all| [all, alone(all)]) {
            let image: Vec<f32> = (0..patches.elements()).map(number).collect();
            let weights: Vec<f32> = (0..patches.depth()).map(|i| number(i + 5)).collect();
            let bias: Vec<f32> = (0..channels).map(|i| number(i + 9)).collect();
            let mut row = vec![0.0; patches.depth()];
            let mut wanted = Vec::new();
            for pixel in 0..patches.rows() {
                // SAFETY: the image as stated, a row of the patches' depth.
                unsafe { patches.gather(patches.dense(&image), pixel, 0.0, row.as_mut_ptr()) };
                for (channel, bias) in bias.iter().enumerate() {
                    let pairs = row.iter().zip(&weights).skip(channel).step_by(channels);
                    wanted.push(pairs.fold(*bias, |sum, (x, w)| sum + x * w).clamp(-0.8, 1.5));
                }
            }
            for variant in VARIANTS.all() {
                let range = (-0.8, 1.5);
                let conv = Depthwise::new(variant.isa, patches, &weights, &bias, range).unwrap();
                let mut got = vec![99.0; (patches.rows() + 1) * channels];
                for lines in [0..1, 1..patches.lines()] {
                    conv.compute(In::of(&image), Out::of(&mut got), lines, &mut room(&conv))
                        .unwrap();
                }
                let want = &got[..patches.rows() * channels];
                check_apart(&image, channels, want, channels, 99.0, |image, output| {
                    conv.compute(image, output, 0..patches.lines(), &mut room(&conv)).unwrap();
                });
                for (at, (&y, &want)) in got.iter().zip(&wanted).enumerate() {
                    assert!(
                        (y - want).abs() < 1e-5,
                        "{:?} {patches:?} at {at}: {y} for {want}",
                        variant.isa
                    );
                }
                assert!(got[patches.rows() * channels..].iter().all(|&x| x == 99.0));
            }
        }
    }
}

#[test]
fn ordered_sums_are_those_of_a_plain_loop_to_the_bit() {
    let number = |seed: usize| ((seed.wrapping_mul(2_654_435_761)) % 1000) as f32 / 300.0 - 1.7;
    for channels in (1..=33).chain([64, CLASHING]) {
        let alone = |of: Patches| Patches { batches: 1, ..of };
        for patches in cases(channels).into_iter().flat_map(|all| [all, alone(all)]) {
            let image: Vec<f32> = (0..patches.elements()).map(number).collect();
            let weights: Vec<f32> = (0..patches.depth()).map(|i| number(i + 5)).collect();
            let bias: Vec<f32> = (0..channels).map(|i| number(i + 9)).collect();
            let mut row = vec![0.0; patches.depth()];
            let mut want = Vec::new();
            for pixel in 0..patches.rows() {
                // SAFETY: the image as stated, a row of the patches' depth.
                unsafe { patches.gather(patches.dense(&image), pixel, 0.0, row.as_mut_ptr()) };
                for (channel, bias) in bias.iter().enumerate() {
                    let pairs = row.iter().zip(&weights).skip(channel).step_by(channels);
                    let sum = pairs.fold(0.0, |sum, (x, w)| sum + x * w) + bias;
                    want.push(sum.clamp(-2.0, 3.0).to_bits());
                }
            }
            for variant in ORDERED.all() {
                let range = (-2.0, 3.0);
                let conv = Depthwise::ordered(variant.isa, patches, &weights, &bias, range);
                let conv = conv.unwrap();
                let mut got = vec![99.0f32; patches.rows() * channels];
                let (image, output) = (In::of(&image), Out::of(&mut got));
                conv.compute(image, output, 0..patches.lines(), &mut room(&conv)).unwrap();
                let got: Vec<u32> = got.into_iter().map(f32::to_bits).collect();
                assert_eq!(got, want, "{:?} {patches:?}", variant.isa);
            }
        }
    }
}

#[test]
fn weights_beyond_the_image_count_nothing() {
    for channels in [5, CLASHING] {
        let patches = Patches { batches: 1, ..cases(channels)[0] };
        let (image, bias) = (vec![1.0; patches.elements()], vec![0.0; channels]);
        let mut weights = vec![1.0; patches.depth()];
        weights[..channels].fill(f32::INFINITY);
        for variant in VARIANTS.all() {
            let conv =
                Depthwise::new(variant.isa, patches, &weights, &bias, crate::kernels::NO_CLAMP);
            let conv = conv.unwrap();
            let mut got = vec![0.0; patches.rows() * channels];
            let lines = 0..patches.lines();
            conv.compute(In::of(&image), Out::of(&mut got), lines, &mut room(&conv)).unwrap();
            assert!(patches.top > 0 && patches.left > 0);
            assert!(got[..channels].iter().all(|y| y.is_finite()), "{:?}: {}", variant.isa, got[0]);
            let middle = (patches.out_width + 1) * channels;
            assert_eq!(got[middle], f32::INFINITY);
        }
    }
}

#[test]
fn far_borders_and_far_taps_read_no_memory() {
    let far = 1 << 28;
    let image = Patches { channels: CLASHING, in_width: 2, ..Patches::matrix(2, CLASHING) };
    let image = Patches { in_height: 2, ..image };
    let border = Patches { out_width: 3, stride_w: far, left: far, out_height: 3, ..image };
    let border = Patches { stride_h: far, top: far, ..border };
    let taps = Patches { filter_h: 3, filter_w: 3, dilation_h: far, dilation_w: far, ..border };
    for patches in [border, Patches { out_width: 1, out_height: 1, ..taps }] {
        let (weights, bias) = (vec![2.0; patches.depth()], vec![0.5; CLASHING]);
        let pixels: Vec<f32> = (0..patches.elements()).map(|at| at as f32).collect();
        for variant in VARIANTS.all() {
            let range = crate::kernels::NO_CLAMP;
            let conv = Depthwise::new(variant.isa, patches, &weights, &bias, range).unwrap();
            assert_eq!(conv.scratch_bytes(), 0);
            let mut got = vec![0.0; patches.rows() * CLASHING];
            let lines = 0..patches.lines();
            conv.compute(In::of(&pixels), Out::of(&mut got), lines, &mut room(&conv)).unwrap();
            // The first pixel alone is met, by the window or the tap in the middle.
            for (at, got) in got.iter().enumerate() {
                let met = at / CLASHING == patches.rows() / 2;
                let want = if met { 2.0 * pixels[at % CLASHING] + 0.5 } else { 0.5 };
                assert_eq!(*got, want, "{:?} {at}", variant.isa);
            }
        }
    }
}

/// Work memory.
fn room(of: &Depthwise) -> Vec<f32> {
    vec![f32::NAN; of.scratch_bytes() / 4]
}
