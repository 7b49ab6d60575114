//! Costs of the kernels on one core, a group for each family and an entry for each instruction set
//! of the machine: `cargo bench -p benches -- gemm_f32/Avx2`.

#![expect(clippy::unwrap_used, reason = "a bench that fails should say so at once")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nnburst_driver::testing::stripe_sum;
use nnburst_kernels::kernels::attention_f32::{Attention, Extents, KeyValues, Rows};
use nnburst_kernels::kernels::bilinear::{Bilinear, Floats, Signed, Tap, UnsignedBytes};
use nnburst_kernels::kernels::binary_f32::{Arithmetic, Binary, Operand};
use nnburst_kernels::kernels::block_permutation::BlockPermutation;
use nnburst_kernels::kernels::byte_table::ByteTable;
use nnburst_kernels::kernels::chain::Chain;
use nnburst_kernels::kernels::fft_f64::RealFft;
use nnburst_kernels::kernels::gathered_rows::GatheredRows;
use nnburst_kernels::kernels::gemm_i8::{Bytes, FloatScaling, HybridGemm, RowGemm, Weights};
use nnburst_kernels::kernels::gemv_blocks_i4::GemvBlocks;
use nnburst_kernels::kernels::gemv_f32::{Gemv, Start};
use nnburst_kernels::kernels::gemv_i8::{GemvBytes, ToFloats};
use nnburst_kernels::kernels::layer_norm_f32::{LayerNorm, LayerNormOrder};
use nnburst_kernels::kernels::lines::{Convolution, Lines};
use nnburst_kernels::kernels::max_pool_i8::MaxPool;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::kernels::plain::zip;
use nnburst_kernels::kernels::pool_f32::{PoolF32, Pooling};
use nnburst_kernels::kernels::pool_windows::PoolWindows;
use nnburst_kernels::kernels::product_f32::Product;
use nnburst_kernels::kernels::quantize_f32::Quantizer;
use nnburst_kernels::kernels::repeated_rows::RepeatedRows;
use nnburst_kernels::kernels::round_once_i8::RoundOnce;
use nnburst_kernels::kernels::round_twice_i8::RoundTwice;
use nnburst_kernels::kernels::row_sums_f32::RowSums;
use nnburst_kernels::kernels::short_rows::ShortRows;
use nnburst_kernels::kernels::softmax_f32::Softmax;
use nnburst_kernels::kernels::transcendental_f32::{Function, Map};
use nnburst_kernels::kernels::{
    NO_CLAMP, Precision, add_i8, depthwise_f32, depthwise_i8, gates_i16, gemm_f32, gemm_i8, mul_i8,
    pack, svdf_f32,
};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::simd::requantise::Scaling;
use nnburst_kernels::tensor::element::Element;
use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::{In, Out};

/// The instruction sets of this machine, best first.
fn isas() -> impl Iterator<Item = Isa> {
    Isa::all()
}

/// Measures one size of a family on every instruction set; `work` is what a run does, in elements.
fn family<K>(
    c: &mut Criterion,
    name: &str,
    work: usize,
    make: impl Fn(Isa) -> K,
    run: impl FnMut(&K),
) {
    some_of_family(c, name, work, |isa| Some(make(isa)), run);
}

/// The same on those instruction sets that the family has a kernel for.
fn some_of_family<K>(
    c: &mut Criterion,
    name: &str,
    work: usize,
    make: impl Fn(Isa) -> Option<K>,
    mut run: impl FnMut(&K),
) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(work as u64));
    for (isa, kernel) in isas().filter_map(|isa| Some((isa, make(isa)?))) {
        group.bench_function(BenchmarkId::new(format!("{isa:?}"), work), |b| {
            b.iter(|| run(black_box(&kernel)));
        });
    }
    group.finish();
}

/// A 3x3 window over 28x28 pixels of `channels`, as in the middle of MobileNet.
fn windows(channels: usize) -> Patches {
    Patches {
        batches: 1,
        in_height: 28,
        in_width: 28,
        channels,
        out_height: 28,
        out_width: 28,
        filter_h: 3,
        filter_w: 3,
        stride_h: 1,
        stride_w: 1,
        dilation_h: 1,
        dilation_w: 1,
        top: 1,
        left: 1,
    }
}

fn convolution<C: Convolution>(
    c: &mut Criterion,
    name: &str,
    multiplies: usize,
    make: impl Fn(Isa) -> C,
) where
    C::Element: Element + Default,
{
    let any = make(Isa::Scalar);
    let patches = *any.patches();
    let pixels = patches.batches * patches.in_height * patches.in_width;
    let image = vec![C::Element::default(); pixels * patches.channels];
    let mut output = vec![C::Element::default(); patches.rows() * any.channels()];
    let mut scratch = Vec::new();
    family(c, name, multiplies, make, |kernel| {
        let elements = kernel.scratch_bytes().div_ceil(size_of::<C::Scratch>());
        scratch.resize(elements, C::Scratch::default());
        let (image, output) = (In::of(&image[..]), Out::of(&mut output[..]));
        kernel.compute(image, output, 0..patches.lines(), &mut scratch).unwrap();
    });
}

const ASYMMETRIC: Bytes = Bytes::new(0, 128);

fn scaling(channels: usize) -> Scaling {
    Scaling::new(&[Multiplier::new(0.003)], channels, 0, 0, 255)
}

fn gemm(c: &mut Criterion) {
    let (rows, depth, columns) = (784, 192, 64);
    let patches = Patches::matrix(rows, depth);
    let multiplies = rows * depth * columns;
    let (weights, bias) = (vec![0.5; depth * columns], vec![0.0; columns]);
    convolution(c, "gemm_f32", multiplies, |isa| {
        gemm_f32::Gemm::new(isa, Precision::Single, patches, &weights, &bias, NO_CLAMP).unwrap()
    });
    convolution(c, "gemm_ordered_f32", multiplies, |isa| {
        gemm_f32::Gemm::ordered(isa, patches, &weights, &bias, NO_CLAMP).unwrap()
    });
    let (values, bias) = (vec![7; depth * columns], vec![0; columns]);
    convolution(c, "gemm_i8", multiplies, |isa| {
        let weights = Weights { values: &values, bytes: ASYMMETRIC };
        gemm_i8::Gemm::new(isa, patches, ASYMMETRIC, weights, &bias, scaling(columns)).unwrap()
    });
    let (scales, mut floats) = (vec![0.003; columns], vec![0.0; rows * columns]);
    let image = vec![0; rows * depth];
    let make = |isa| {
        let weights = Weights { values: &values, bytes: Bytes::new(128, 0) };
        HybridGemm::new(isa, patches, weights, &scales, FloatScaling::Joined, NO_CLAMP).unwrap()
    };
    let mut scratch = Vec::new();
    family(c, "gemm_i8_hybrid", multiplies, make, |gemm| {
        scratch.resize(gemm.scratch_bytes().div_ceil(4), 0);
        let (image, output) = (In::of(&image[..]), Out::of(&mut floats[..]));
        gemm.compute(image, 0.1, 0, None, output, &mut scratch).unwrap();
    });
    let signed: Vec<i8> = values.iter().map(|&weight| weight.cast_signed()).collect();
    let make = |isa| RowGemm::new(isa, rows, &signed, depth, 3, &vec![0; columns]).unwrap();
    let (mut sums, mut scratch) = (Vec::new(), Vec::new());
    family(c, "gemm_i8_rows", multiplies, make, |gemm| {
        sums.resize(rows * gemm.sums(), 0);
        scratch.resize(gemm.scratch_bytes().div_ceil(4), 0);
        gemm.compute(&image, depth, rows, &mut sums, &mut scratch).unwrap();
    });
    // One vector of columns; a weight's difference from its zero point may take nine bits.
    let (rows, depth, columns) = (1024, 144, 16);
    let patches = Patches::matrix(rows, depth);
    let weights: Vec<u8> = (60u8..).step_by(3).take(48).cycle().take(depth * columns).collect();
    let bias = vec![0; columns];
    convolution(c, "gemm_i8_narrow", rows * depth * columns, |isa| {
        let weights = Weights { values: &weights, bytes: Bytes::new(0, 70) };
        gemm_i8::Gemm::new(isa, patches, ASYMMETRIC, weights, &bias, scaling(columns)).unwrap()
    });
}

fn gemv(c: &mut Criterion) {
    let (depth, columns) = (1024, 512);
    let weights = vec![0.5; depth * columns];
    let (x, bias, mut y) = (vec![1.0; depth], vec![0.0; columns], vec![0.0; columns]);
    let make = |isa| Gemv::new(isa, Precision::Single, &weights, depth).unwrap();
    family(c, "gemv_f32", depth * columns, make, |gemv| {
        let (x, y) = (In::of(&x[..]), Out::of(&mut y[..]));
        gemv.compute(x, 1, Start::Bias(&bias), y, columns, NO_CLAMP).unwrap();
    });
    let (weights, bias, x) = (vec![3i8; depth * columns], vec![0; columns], vec![5i8; depth]);
    let make = |isa| GemvBytes::new(isa, &weights, depth, 0, &bias).unwrap();
    let (mut kept, mut sums) = (Vec::new(), Vec::new());
    family(c, "gemv_i8", depth * columns, make, |gemv| {
        kept.resize(gemv.words(), 0);
        sums.resize(gemv.sums(), 0);
        gemv.keep(In::of(&x[..]), &mut kept).unwrap();
        gemv.compute(&kept, 1, &mut sums).unwrap();
    });
    let (rows, mut many, mut their_sums) = (64, Vec::new(), Vec::new());
    family(c, "gemv_i8_rows", rows * depth * columns, make, |gemv| {
        many.resize(rows * gemv.words(), 0);
        their_sums.resize(rows * gemv.sums(), 0);
        gemv.compute(&many, rows, &mut their_sums).unwrap();
    });
    let (own, sums_of_weights, bias) = (vec![0.01; columns], vec![9; columns], vec![1.0; columns]);
    let mut reals = vec![0.0; columns];
    family(c, "gemv_i8_floats", depth * columns, make, |gemv| {
        let to_floats = ToFloats {
            scales: &own,
            sums_of_weights: &sums_of_weights,
            scale: 0.02,
            zero_point: 3,
            bias: In::of(&bias[..]),
            range: (0.0, f32::INFINITY),
        };
        gemv.compute_floats(&kept, &to_floats, &mut sums, Out::of(&mut reals[..])).unwrap();
    });
    let block = 32;
    let (blocks, scales) = (depth / block, vec![0.01; depth / block * columns]);
    let make = |isa| GemvBlocks::new(isa, &weights, block, blocks, &scales).unwrap();
    let (mut starts, mut totals) = (vec![0; blocks], vec![0.0; columns]);
    family(c, "gemv_blocks_i4", depth * columns, make, |gemv| {
        gemv.compute(&x, &mut starts, &mut totals).unwrap();
    });
}

fn depthwise(c: &mut Criterion) {
    let channels = 192;
    let patches = windows(channels);
    let multiplies = patches.rows() * 9 * channels;
    let (weights, bias) = (vec![0.5; 9 * channels], vec![0.0; channels]);
    convolution(c, "depthwise_f32", multiplies, |isa| {
        depthwise_f32::Depthwise::new(isa, patches, &weights, &bias, NO_CLAMP).unwrap()
    });
    let dilated = Patches { dilation_h: 2, dilation_w: 2, top: 2, left: 2, ..patches };
    convolution(c, "depthwise_dilated_f32", multiplies, |isa| {
        depthwise_f32::Depthwise::new(isa, dilated, &weights, &bias, NO_CLAMP).unwrap()
    });
    convolution(c, "depthwise_ordered_f32", multiplies, |isa| {
        depthwise_f32::Depthwise::ordered(isa, patches, &weights, &bias, NO_CLAMP).unwrap()
    });
    let (values, bias) = (vec![7; 9 * channels], vec![0; channels]);
    let make = |isa| {
        let weights = Weights { values: &values, bytes: ASYMMETRIC };
        let scaling = scaling(channels);
        depthwise_i8::Depthwise::new(isa, patches, ASYMMETRIC, weights, &bias, scaling).unwrap()
    };
    let image = vec![9u8; 28 * 28 * channels];
    let mut output = vec![0u8; patches.rows() * channels];
    let mut scratch = Vec::new();
    family(c, "depthwise_i8", multiplies, make, |conv| {
        scratch.resize(conv.scratch_bytes().div_ceil(4), 0);
        let (image, output) = (In::of(&image[..]), Out::of(&mut output[..]));
        conv.compute(image, output, &mut scratch, 0..conv.bands()).unwrap();
    });
}

/// A row, and as many as tiles take, by the same weights.
fn product(c: &mut Criterion) {
    let (depth, columns) = (512, 256);
    let (weights, bias) = (vec![0.5; depth * columns], vec![0.0; columns]);
    for rows in [1, 24] {
        let (xs, mut ys) = (vec![1.0; rows * depth], vec![0.0; rows * columns]);
        let mut scratch = Vec::new();
        let make = |isa| {
            let precision = Precision::Single;
            Product::new(isa, precision, rows, depth, &weights, &bias, NO_CLAMP).unwrap()
        };
        family(c, "product_f32", rows * depth * columns, make, |product| {
            scratch.resize(product.scratch_bytes().div_ceil(size_of::<f32>()), 0.0);
            product.compute(In::of(&xs[..]), Out::of(&mut ys[..]), &mut scratch).unwrap();
        });
    }
}

/// Two matrices that both change from run to run.
fn matrices(c: &mut Criterion) {
    let [rows, depth, columns] = [64, 64, 64];
    let (a, b) = (vec![1.0; rows * depth], vec![0.5; depth * columns]);
    let mut ys = vec![0.0; rows * columns];
    let mut scratch = Vec::new();
    for right in [gemm_f32::Layout::RowMajor, gemm_f32::Layout::ColumnMajor] {
        let make = |isa| {
            let left = gemm_f32::Layout::RowMajor;
            gemm_f32::MatrixProduct::new(isa, [rows, depth, columns], left, right).unwrap()
        };
        family(c, &format!("matmul_f32 {right:?}"), rows * depth * columns, make, |product| {
            scratch.resize(product.scratch_len(), 0.0);
            let (a, b) = (In::of(&a[..]), In::of(&b[..]));
            product.compute(a, b, Out::of(&mut ys[..]), &mut scratch).unwrap();
        });
    }
    let (a, b) = (vec![9u8; rows * depth], vec![7u8; depth * columns]);
    let (mut ys, mut scratch) = (vec![0u8; rows * columns], Vec::new());
    for right in [gemm_f32::Layout::RowMajor, gemm_f32::Layout::ColumnMajor] {
        let make = |isa| {
            let (extents, bytes) = ([rows, depth, columns], [ASYMMETRIC; 2]);
            gemm_i8::ByteProduct::new(isa, extents, bytes, right, scaling)
        };
        some_of_family(c, &format!("matmul_i8 {right:?}"), ys.len() * depth, make, |product| {
            scratch.resize(product.scratch_len(), 0);
            let (a, b) = (In::of(&a[..]), In::of(&b[..]));
            product.compute(a, b, Out::of(&mut ys[..]), &mut scratch).unwrap();
        });
    }
}

/// A head of attention, of a block of rows after the other.
fn attention(c: &mut Criterion) {
    use gemm_f32::{Layout, Matrix};
    let (rows, depth) = (256, 64);
    let extents = Extents { rows, depth, columns: rows, width: depth };
    let (x, mut ys) = (vec![0.25; rows * depth], vec![0.0; rows * depth]);
    let matrix = |first: usize| Matrix { all: In::of(&x[first * depth..]), stride: depth };
    let (mut packed, mut scratch) = (Vec::new(), Vec::new());
    let make = |isa| {
        let layouts = [Layout::RowMajor, Layout::ColumnMajor, Layout::RowMajor];
        Attention::new(isa, extents, layouts, None, &[], 0.125).unwrap()
    };
    family(c, "attention_f32", 2 * rows * rows * depth, make, |attention| {
        packed.resize(attention.packed_len(), 0.0);
        scratch.resize(attention.scratch_len(depth), 0.0);
        let (keys, values) = (matrix(0), matrix(0));
        attention.pack(KeyValues { keys, number: In::of(&[]), values }, &mut packed).unwrap();
        for first in (0..rows).step_by(attention.block_rows()) {
            let output = Out::of(&mut ys[first * depth..]);
            let (queries, terms) = (matrix(first), Attention::NO_TERMS);
            let some = Rows { queries, terms, output, stride: depth };
            let count = attention.block_rows().min(rows - first);
            attention.compute(some, count, &packed, &mut scratch).unwrap();
        }
    });
}

/// An inverted residual: six times as many channels between a convolution and the next.
fn chain(c: &mut Criterion) {
    let (pixels, narrow, wide) = (28 * 28, 32, 192);
    let pointwise = |channels| Patches {
        channels,
        filter_h: 1,
        filter_w: 1,
        top: 0,
        left: 0,
        ..windows(channels)
    };
    let (weights, bias) = (vec![0.5; narrow * wide], vec![0.0; wide]);
    let gemm = |isa, patches: Patches, columns: usize| -> Arc<dyn Lines> {
        let bias = &bias[..columns];
        let precision = Precision::Single;
        Arc::new(gemm_f32::Gemm::new(isa, precision, patches, &weights, bias, NO_CLAMP).unwrap())
    };
    let make = |isa| {
        let window = &vec![0.5; 9 * wide];
        let depthwise =
            depthwise_f32::Depthwise::new(isa, windows(wide), window, &bias, NO_CLAMP).unwrap();
        let stages = [
            gemm(isa, pointwise(narrow), wide),
            Arc::new(depthwise),
            gemm(isa, pointwise(wide), narrow),
        ];
        Chain::new(&stages).unwrap()
    };
    let bytes = pixels * narrow * size_of::<f32>();
    let (image, mut output, mut scratch) = (vec![0; bytes], vec![0; bytes], Vec::new());
    let multiplies = pixels * wide * (narrow + 9 + narrow);
    family(c, "chain", multiplies, make, |chain| {
        scratch.resize(chain.scratch_bytes().div_ceil(64), Line([0; 64]));
        let (image, output) = (In::of(&image[..]).into(), Out::of(&mut output[..]).into());
        let scratch = bytemuck::cast_slice_mut(&mut scratch);
        chain.compute(image, None, output, 0..chain.lines(), scratch).unwrap();
    });
}

/// A line of scratch memory, which is aligned to such.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

fn packing(c: &mut Criterion) {
    let (rows, words) = (12, 512);
    let matrix = vec![1u32; rows * words];
    let starts: Vec<_> = matrix.chunks_exact(words).map(<[u32]>::as_ptr).collect();
    let mut panel = vec![0; rows * words];
    let mut group = c.benchmark_group("pack");
    group.throughput(Throughput::Elements(panel.len() as u64));
    for form in pack::VARIANTS.all() {
        group.bench_function(BenchmarkId::new(format!("{:?}", form.isa), panel.len()), |b| {
            // SAFETY: rows and panel are as long as stated, and the machine has the instructions.
            b.iter(|| unsafe {
                (form.run)(black_box(&starts), words, rows, panel.as_mut_ptr());
            });
        });
    }
    group.finish();
}

/// Elements of an operand: as many as L1 holds of two operands and a result.
const ELEMENTS: usize = 2048;

fn elementwise(c: &mut Criterion) {
    let (a, b, mut y) = (vec![0.5; ELEMENTS], vec![1.5; ELEMENTS], vec![0.0; ELEMENTS]);
    let make = |isa| Binary::new(isa, Arithmetic::Add, NO_CLAMP);
    family(c, "binary_f32", ELEMENTS, make, |add| {
        add.compute(In::of(&a[..]), In::of(&b[..]), Out::of(&mut y[..])).unwrap();
    });
    let tap = |at: usize| Tap { first: at / 2, second: at.div_ceil(2).min(31), weight: 0.5 };
    let taps: Vec<_> = (0..64).map(tap).collect();
    let make = |isa| Bilinear::<Floats>::new(isa, 32, [2, 32], vec![tap(1)], &taps, 0).unwrap();
    let mut room = vec![0; make(Isa::best()).scratch()];
    family(c, "bilinear_f32", ELEMENTS, make, |bilinear| {
        let (input, output) = (In::of(&a[..]), Out::of(&mut y[..]));
        bilinear.compute(0..1, input.into(), output.into(), &mut room).unwrap();
    });
    let (x, mut bytes) = (vec![77; ELEMENTS], vec![0; ELEMENTS]);
    let make =
        |isa| Bilinear::<UnsignedBytes>::new(isa, 32, [2, 32], vec![tap(1)], &taps, 0).unwrap();
    let mut room = vec![0; make(Isa::best()).scratch()];
    family(c, "bilinear_u8", ELEMENTS, make, |bilinear| {
        let (input, output) = (In::of(&x[..]), Out::of(&mut bytes[..]));
        bilinear.compute(0..1, input.into(), output.into(), &mut room).unwrap();
    });
    let step = |tap: Tap| Tap { first: tap.first, second: tap.second, weight: 512 };
    let steps: Vec<_> = taps.iter().copied().map(step).collect();
    let (x, mut bytes) = (vec![77; ELEMENTS], vec![0; ELEMENTS]);
    let make =
        |isa| Bilinear::<Signed<i8>>::new(isa, 32, [2, 32], vec![step(tap(1))], &steps, 0).unwrap();
    let mut room = vec![0; make(Isa::best()).scratch()];
    family(c, "bilinear_i8", ELEMENTS, make, |bilinear| {
        let (input, output) = (In::of(&x[..]), Out::of(&mut bytes[..]));
        bilinear.compute(0..1, input.into(), output.into(), &mut room).unwrap();
    });
    let (x, mut words) = (vec![7777; ELEMENTS], vec![0; ELEMENTS]);
    let make = |isa| {
        Bilinear::<Signed<i16>>::new(isa, 32, [2, 32], vec![step(tap(1))], &steps, 0).unwrap()
    };
    let mut room = vec![0; make(Isa::best()).scratch()];
    family(c, "bilinear_i16", ELEMENTS, make, |bilinear| {
        let (input, output) = (In::of(&x[..]), Out::of(&mut words[..]));
        bilinear.compute(0..1, input.into(), output.into(), &mut room).unwrap();
    });
    for (name, function) in [
        ("transcendental_f32", Function::Sigmoid),
        ("sigmoid_by_table_f32", Function::SigmoidByTable),
        ("tanh_f32", Function::Tanh),
        ("exp_f32", Function::Exp),
        ("elu_f32", Function::Elu),
        ("gelu_f32", Function::Gelu),
        ("gelu_by_tanh_f32", Function::GeluByTanh),
        ("log_f32", Function::Log),
        ("sin_f32", Function::Sin),
    ] {
        let input = if function == Function::Log { &b } else { &a };
        family(
            c,
            name,
            ELEMENTS,
            |isa| Map::new(isa, function),
            |map| {
                map.compute(In::of(&input[..]), Out::of(&mut y[..]));
            },
        );
    }
    // Rows of 32 less a number for each.
    let (len, count) = (32, ELEMENTS / 32);
    let make = |isa| Binary::new(isa, Arithmetic::Sub, NO_CLAMP);
    family(c, "binary_f32_rows", ELEMENTS, make, |sub| {
        let wide = Operand { all: In::of(&a[..]), step: 1, stride: len };
        let per_row = Operand { all: In::of(&b[..count]), step: 0, stride: 1 };
        sub.compute_rows([wide, per_row], Out::of(&mut y[..]), [count, len, len]).unwrap();
    });
    // 3x3 windows two pixels apart over lines of 64 channels.
    let windows = PoolWindows {
        rows: 3,
        columns: 3,
        line: 9 * 64,
        column: 64,
        count: 4,
        distance: 128,
        pitch: 64,
        lanes: 64,
    };
    for pooling in [Pooling::Max, Pooling::Mean] {
        let make = |isa| PoolF32::new(isa, pooling, NO_CLAMP);
        family(c, &format!("pool_f32 {pooling:?}"), 4 * 9 * 64, make, |pool| {
            pool.compute(windows, In::of(&a[..]), Out::of(&mut y[..])).unwrap();
        });
    }
    let bytes: Vec<u8> = (0..27 * 64).map(|at: usize| at.to_le_bytes()[0]).collect();
    let mut most = vec![0; 4 * 64];
    let make = |isa| MaxPool::new(isa, true, (0x80, 0x7f));
    family(c, "max_pool_i8", 4 * 9 * 64, make, |pool| {
        pool.compute(windows, In::of(&bytes[..]), Out::of(&mut most[..])).unwrap();
    });
    family(c, "row_sums_f32", ELEMENTS, RowSums::new, |sums| {
        sums.compute(In::of(&a[..]), &mut y[..count]).unwrap();
    });
    let make = |isa| Softmax::new(isa, len, 1.0).unwrap();
    family(c, "softmax_f32", ELEMENTS, make, |softmax| {
        softmax.compute(In::of(&a[..]), Out::of(&mut y[..])).unwrap();
    });
    // Every other score is masked: the shares of the rest are far below any float.
    let masked: Vec<f32> =
        a.iter().enumerate().map(|(at, &x)| if at % 2 == 0 { x } else { x - 1e4 }).collect();
    let make = |isa| Softmax::new(isa, len, 1.0).unwrap();
    family(c, "softmax_f32_masked", ELEMENTS, make, |softmax| {
        softmax.compute(In::of(&masked[..]), Out::of(&mut y[..])).unwrap();
    });
    let make = |isa| LayerNorm::new(isa, LayerNormOrder::Moved, ELEMENTS / 8, 0.1).unwrap();
    family(c, "layer_norm_f32", ELEMENTS, make, |norm| {
        let (factors, shifts) = (In::of(&b[..ELEMENTS / 8]), In::of(&a[..ELEMENTS / 8]));
        norm.compute(In::of(&a[..]), factors, shifts, Out::of(&mut y[..])).unwrap();
    });
    let make = |isa| LayerNorm::new(isa, LayerNormOrder::Distance, len, 0.1).unwrap();
    family(c, "layer_norm_f32_short", ELEMENTS, make, |norm| {
        let (factors, shifts) = (In::of(&b[..len]), In::of(&a[..len]));
        norm.compute(In::of(&a[..]), factors, shifts, Out::of(&mut y[..])).unwrap();
    });
    // Sixteen channels in two groups that are shuffled.
    let places: Vec<usize> = (0..16).map(|at| at % 2 * 8 + at / 2).collect();
    let make = |isa| BlockPermutation::new(isa, 4, &places).unwrap();
    family(c, "block_permutation", ELEMENTS, make, |blocks| {
        blocks.compute(In::of(&a[..]).bytes(), Out::of(&mut y[..]).bytes()).unwrap();
    });
    let (points, rows) = (256, 8);
    let mut scratch = vec![0.0; RealFft::scratch(points, rows)];
    let make = |isa| RealFft::new(isa, points).unwrap();
    family(c, "fft_f64", points * rows, make, |fft| {
        let fill = |row: usize, to: &mut [f64]| {
            to.iter_mut().zip(&a[row..]).for_each(|(to, &x)| *to = f64::from(x));
        };
        let give = |row: usize, at: usize, [x, y]: [f64; 2]| {
            black_box((row, at, x, y));
        };
        fft.compute(rows, &mut scratch, fill, give).unwrap();
    });
    let (a, b, mut y) = (vec![100u8; ELEMENTS], vec![200u8; ELEMENTS], vec![0u8; ELEMENTS]);
    let (one, bytes) = (Multiplier::new(0.5), [ASYMMETRIC; 2]);
    // Operands have twenty more bits, which the sum loses.
    let sum = Multiplier::new(0.6 / 2f64.powi(19));
    let make = |isa| add_i8::Add::new(isa, bytes, [one; 2], sum, 0, (0, 255));
    family(c, "add_i8", ELEMENTS, make, |add| {
        add.compute(In::of(&a[..]), In::of(&b[..]), Out::of(&mut y[..])).unwrap();
    });
    let square = Multiplier::new(0.3 / 2f64.powi(13));
    let make = |isa| add_i8::SquaredDifference::new(isa, bytes, [one; 2], square, 0, (0, 255));
    family(c, "squared_difference_i8", ELEMENTS, make, |square| {
        square.compute(In::of(&a[..]), In::of(&b[..]), Out::of(&mut y[..])).unwrap();
    });
    let make = |isa| mul_i8::Mul::new(isa, bytes, one, 0, (0, 255));
    family(c, "mul_i8", ELEMENTS, make, |mul| {
        mul.compute(In::of(&a[..]), In::of(&b[..]), Out::of(&mut y[..])).unwrap();
    });
    let floats: Vec<f32> = (0u16..).take(ELEMENTS).map(|at| f32::from(at) * 0.01 - 3.0).collect();
    let make = |isa| Quantizer::new(isa, 0.07, 120, (0, 255));
    family(c, "quantize_f32", ELEMENTS, make, |quantizer| {
        quantizer.compute(In::of(&floats), Out::of(&mut y[..]), 1).unwrap();
    });
    let sums: Vec<i32> = (0..).take(ELEMENTS).map(|at: i32| at * 61 - 62_000).collect();
    let make = |isa| RoundOnce::new(isa, vec![0.0017; ELEMENTS], 0, (0, 255));
    family(c, "round_once_i8", ELEMENTS, make, |rounding| {
        rounding.compute(&sums, Out::of(&mut y[..])).unwrap();
    });
    let make = |isa| RoundTwice::new(isa, Multiplier::new(0.0017), 0, (0, 255));
    family(c, "round_twice_i8", ELEMENTS, make, |rounding| {
        rounding.compute(&sums, Out::of(&mut y[..])).unwrap();
    });
    let make = |isa| ByteTable::new(isa, std::array::from_fn(|at| 255 - at.to_le_bytes()[0]));
    family(c, "byte_table", ELEMENTS, make, |table| {
        table.compute(In::of(&a[..]), Out::of(&mut y[..])).unwrap();
    });
    // Differences of 16 bits, a number for each row of 32.
    let (len, rows) = (32, 440);
    let (xs, per_row) = (vec![900i16; rows * len], vec![7i16; rows]);
    let mut differences = vec![0i16; rows * len];
    family(
        c,
        "short_rows",
        rows * len,
        |isa| isa,
        |isa| {
            let rows_of = ShortRows {
                operands: [In::of(&xs).bytes(), In::of(&per_row).bytes()],
                sizes: [2, 2],
                output: Out::of(&mut differences).bytes(),
                len,
                repeats: [false, true],
            };
            let each = |a: i16, b: i16| a.saturating_sub(b);
            rows_of
                .each_block((0..rows).map(|row| [row * len, row]), &mut |a, b, output| {
                    zip(*isa, a.cast(), b.cast(), output.cast(), each);
                    Ok(())
                })
                .unwrap();
        },
    );
    // A factor for each of 16 channels.
    let (wide, row) = (vec![0.5f32; 1024 * 16], vec![2.0f32; 16]);
    let mut products = vec![0.0f32; wide.len()];
    family(
        c,
        "repeated_rows",
        wide.len(),
        |isa| isa,
        |isa| {
            let rows = RepeatedRows {
                wide: In::of(&wide).bytes().into(),
                from: 0,
                row: In::of(&row).bytes(),
                is_row_first: false,
                sizes: [4, 4],
                output: Out::of(&mut products).bytes().into(),
                to: 0,
                count: wide.len(),
            };
            let each = |a: f32, b: f32| a * b;
            rows.each(&mut |a, b, output| {
                zip(*isa, a.cast(), b.cast(), output.cast(), each);
                Ok(())
            })
            .unwrap();
        },
    );
    // The embedding of a sentence.
    let (row, numbers) = (64, (0..256).map(|at| at * 37 % 1000).collect::<Vec<i32>>());
    let (words, mut sentence) = (vec![3u8; 1000 * row], vec![0u8; 256 * row]);
    family(
        c,
        "gathered_rows",
        sentence.len(),
        |isa| isa,
        |isa| {
            let table = In::of(&words[..]);
            let rows = GatheredRows { table, rows: 1000, len: row, numbers: In::of(&numbers) };
            rows.copy(*isa, Out::of(&mut sentence)).unwrap();
        },
    );
    let mut group = c.benchmark_group("stripe_sum");
    let bytes = vec![7u8; 1 << 20];
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function(BenchmarkId::new("best", bytes.len()), |b| {
        b.iter(|| stripe_sum(black_box(&bytes)));
    });
    group.finish();
}

fn recurrent(c: &mut Criterion) {
    let units = 256;
    let multipliers = || [[Multiplier::new(0.25); 2]; 4].into_iter();
    let make = |isa| gates_i16::Gates::new(isa, units, multipliers());
    let row = make(Isa::Scalar).row();
    let (a, b, mut y) = (vec![9; row], vec![8; row], vec![0; row]);
    family(c, "gates_i16", 4 * units, make, |gates| gates.compute(&a, &b, &mut y).unwrap());
    let (units, memory) = (256, 8);
    let (state, newest) = (vec![0.5; units * memory], vec![1.0; units]);
    let weights = vec![0.25; units * memory];
    let (mut next, mut sums) = (vec![0.0; units * memory], vec![0.0; units]);
    let make = |isa| svdf_f32::Filter::new(isa, units, 1, memory);
    family(c, "svdf_f32", units * memory, make, |filter| {
        let next = Out::of(&mut next[..]);
        filter.compute(In::of(&state[..]), &newest, &weights, next, &mut sums).unwrap();
    });
}

criterion_group!(
    benches,
    gemm,
    gemv,
    product,
    matrices,
    attention,
    depthwise,
    chain,
    packing,
    elementwise,
    recurrent
);
criterion_main!(benches);
