//! Chains against their stages computed whole.

use super::*;
use crate::kernels::Precision;
use crate::kernels::binary_f32::{Arithmetic, Binary};
use crate::kernels::depthwise_f32::Depthwise;
use crate::kernels::gemm_f32::Gemm;
use crate::kernels::patches::Patches;
use crate::simd::Isa;
use crate::tensor::rows::check_apart;
use crate::tensor::{In, Out};

const ALL: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|i| (((i + seed).wrapping_mul(2_654_435_761)) % 1000) as f32 / 500.0 - 1.0)
        .collect()
}

fn patches(height: usize, width: usize, channels: usize, filter: usize, stride: usize) -> Patches {
    let out = |n: usize| n.div_ceil(stride);
    let top = ((out(height) - 1) * stride + filter).saturating_sub(height) / 2;
    Patches {
        batches: 1,
        in_height: height,
        in_width: width,
        channels,
        out_height: out(height),
        out_width: out(width),
        filter_h: filter,
        filter_w: filter,
        stride_h: stride,
        stride_w: stride,
        dilation_h: 1,
        dilation_w: 1,
        top,
        left: ((out(width) - 1) * stride + filter).saturating_sub(width) / 2,
    }
}

fn conv(p: Patches, columns: usize) -> Arc<dyn Lines> {
    let (weights, bias) = (numbers(p.depth() * columns, 3), numbers(columns, 5));
    Arc::new(Gemm::new(Isa::best(), Precision::Single, p, &weights, &bias, ALL).unwrap())
}

fn depthwise(p: Patches) -> Arc<dyn Lines> {
    let (weights, bias) = (numbers(p.depth(), 7), numbers(p.channels, 9));
    Arc::new(Depthwise::new(Isa::best(), p, &weights, &bias, (-1.0, 6.0)).unwrap())
}

fn bytes(numbers: &[f32]) -> &[u8] {
    bytemuck::cast_slice(numbers)
}

fn compute(kernels: &[Arc<dyn Lines>], image: &[f32], cut: usize) -> Vec<u8> {
    let chain = Chain::new(kernels).unwrap();
    let last = chain.stages.last().unwrap();
    let mut output = vec![0; last.lines() * last.line_bytes];
    let mut scratch = crate::tensor::AlignedBytes::zeroed(chain.scratch_bytes());
    for lines in [0..cut, cut..chain.lines()] {
        let (image, out) = (In::of(bytes(image)).into(), Out::of(&mut output[..]).into());
        chain.compute(image, None, out, lines, scratch.as_mut_slice()).unwrap();
    }
    output
}

#[test]
fn a_chain_gives_the_bits_of_its_stages() {
    for (what, height, width, wide, filter, stride) in [
        ("in one band", 9, 11, 24, 3, 1),
        ("in many bands", 40, 56, 96, 3, 1),
        ("with a stride", 41, 56, 96, 3, 2),
        ("with a larger window", 37, 64, 80, 5, 1),
        ("with larger windows and a stride", 64, 64, 80, 5, 2),
    ] {
        let expand = conv(patches(height, width, 16, 1, 1), wide);
        let middle = depthwise(patches(height, width, wide, filter, stride));
        let (out_h, out_w) = (middle.patches().out_height, middle.patches().out_width);
        let project = conv(patches(out_h, out_w, wide, 1, 1), 20);
        let image = numbers(height * width * 16, 1);
        // One stage after the other, each whole: chains of a single stage know no bands.
        let mut want: Vec<f32> = image.clone();
        for kernel in [&expand, &middle, &project] {
            let p = kernel.patches();
            let mut out = vec![0f32; p.rows() * kernel.channels()];
            let mut scratch = crate::tensor::AlignedBytes::zeroed(kernel.scratch_bytes());
            // SAFETY: images and outputs are whole.
            unsafe {
                let image = p.dense(&want).cast();
                let (start, pitch) = (out.as_mut_ptr().cast(), kernel.channels() * 4);
                let output = Pitched { start, pitch };
                kernel.lines(image, output, 0..p.lines(), scratch.as_mut_slice());
            }
            want = out;
        }
        let kernels = [expand, middle, project];
        for cut in [0, 1, out_h / 2] {
            assert!(compute(&kernels, &image, cut) == bytes(&want), "{what}, cut at {cut}");
        }
        let chain = Chain::new(&kernels).unwrap();
        let (read, written) = chain.pixel_bytes();
        check_apart(bytes(&image), read, bytes(&want), written, 99, |image, output| {
            let mut scratch = crate::tensor::AlignedBytes::zeroed(chain.scratch_bytes());
            chain.compute(image, None, output, 0..out_h, scratch.as_mut_slice()).unwrap();
        });
        let pair = compute(&kernels[..2], &image, 0);
        let chain = Chain::new(&kernels).unwrap();
        assert_eq!(pair.len(), out_h * out_w * wide * 4);
        assert_eq!(what == "in one band", chain.band == out_h, "{what}: {}", chain.band);
    }
}

#[test]
fn the_residual_is_added() {
    let kernels = [conv(patches(40, 48, 8, 1, 1), 96), depthwise(patches(40, 48, 96, 3, 1))];
    let kernels = [&kernels[..], &[conv(patches(40, 48, 96, 1, 1), 8)]].concat();
    let image = numbers(40 * 48 * 8, 1);
    let plain = compute(&kernels, &image, 0);
    let sums = plain.chunks_exact(4).map(bytemuck::pod_read_unaligned::<f32>).zip(&image);
    let want: Vec<f32> = sums.map(|(a, b)| a + b).collect();
    let chain = Chain::new(&kernels).unwrap();
    let add = Binary::new(Isa::best(), Arithmetic::Add, ALL);
    let combine: Combine =
        Arc::new(move |a, b, out| add.compute(In::new(a), In::new(b), Out::new(out)));
    let mut output = vec![0; plain.len()];
    let mut scratch = crate::tensor::AlignedBytes::zeroed(chain.scratch_bytes());
    let view = In::of(bytes(&image)).into();
    let (residual, out) = (Some((&combine, view)), Out::of(&mut output[..]).into());
    let scratch = scratch.as_mut_slice();
    chain.compute(view, residual, out, 0..chain.lines(), scratch).unwrap();
    assert!(output == bytes(&want));
}

#[test]
fn stages_that_don_t_fit_make_no_chain() {
    let expand = conv(patches(9, 9, 4, 1, 1), 8);
    assert!(Chain::new(&[Arc::clone(&expand), depthwise(patches(9, 9, 9, 3, 1))]).is_none());
    assert!(Chain::new(&[expand, depthwise(patches(9, 8, 8, 3, 1))]).is_none());
}
