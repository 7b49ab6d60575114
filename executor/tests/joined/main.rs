//! What a plan makes of several operations at once, beside the same operations one by one: the
//! bytes must be the same, and the steps fewer.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod attention;
mod cells;
mod elements;
mod net;
mod norms;

use nnburst_executor::Isa;
use nnburst_hal::{Operand, OperandType, OperationType as Op};

use net::{Net, compare, floats, run, signed, unsigned};

/// Runs a model of each type in every form, joined and apart, and looks at the kernels that are
/// left.
fn check(what: &str, left: &[&str], make: impl Fn(&mut Net) -> Vec<u32>) {
    for like in [floats(), unsigned(), signed()] {
        let mut net = Net::new(like.clone());
        let outputs = make(&mut net);
        let model = net.model(&outputs);
        compare(what, &model, |isa, kernels, all| {
            let moves = ["concatenate", "copy", "strided_copy", "pad", "clamp_byte", "add_i8"];
            let is_move = |kernel: &&&str| moves.contains(kernel) || kernel.starts_with("binary");
            let found: Vec<_> = kernels.iter().filter(is_move).copied().collect();
            let left = left.iter().map(|&kernel| match (kernel, like.scale == 0.0) {
                ("add", true) => "binary_f32",
                ("add", false) => "add_i8",
                _ => kernel,
            });
            assert!(found.iter().copied().eq(left), "{what}, {isa:?}: {found:?} of {all:?}");
        });
    }
}

#[test]
fn borders_of_zeros_are_the_padding_of_convolutions() {
    let same = [0, 0, 1, 1, 1, 1, 0, 0];
    check("a convolution", &[], |net| {
        let x = net.input(&[2, 9, 8, 3]);
        let padded = net.pad(x, same);
        vec![net.conv(padded, [5, 3, 3, 3], 2)]
    });
    check("uneven borders of a temporary", &[], |net| {
        let x = net.input(&[1, 9, 8, 16]);
        let x = net.conv(x, [16, 1, 1, 16], 1);
        let padded = net.pad(x, [0, 0, 0, 2, 3, 1, 0, 0]);
        vec![net.depthwise(padded, [5, 5, 16], 1)]
    });
    check("a second reader needs the borders", &["pad"], |net| {
        let x = net.input(&[1, 6, 6, 4]);
        let padded = net.pad(x, same);
        vec![net.conv(padded, [4, 3, 3, 4], 1), padded]
    });
    check("wider than a window", &["pad"], |net| {
        let x = net.input(&[1, 6, 6, 4]);
        let padded = net.pad(x, [0, 0, 3, 3, 3, 3, 0, 0]);
        vec![net.conv(padded, [4, 3, 3, 4], 1)]
    });
    check("of channels or batches", &["pad", "pad"], |net| {
        let x = net.input(&[1, 6, 6, 4]);
        let (batches, channels) =
            (net.pad(x, [1, 0, 1, 1, 1, 1, 0, 0]), net.pad(x, [0, 0, 1, 1, 1, 1, 0, 1]));
        vec![net.conv(batches, [4, 3, 3, 4], 1), net.conv(channels, [4, 3, 3, 5], 1)]
    });
}

#[test]
fn parts_are_computed_where_they_belong() {
    check("into a temporary", &[], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let parts = [1, 2, 3].map(|out| net.conv(x, [8, out, 1, 8], 1));
        let whole = net.concatenate(&parts, 1);
        vec![net.conv(whole, [8, 1, 1, 8], 1)]
    });
    check("into the caller's memory", &[], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let parts = [1, 2].map(|out| net.conv(x, [8, out, 1, 8], 1));
        vec![net.concatenate(&parts, 1)]
    });
    check("a part that is read elsewhere stays ours", &["concatenate"], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let parts = [1, 2].map(|out| net.conv(x, [8, out, 1, 8], 1));
        vec![net.concatenate(&parts, 1), net.conv(parts[0], [3, 2, 2, 8], 1)]
    });
    check("nor does the whole leave with it", &["copy"], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let parts = [1, 2].map(|out| net.conv(x, [8, out, 1, 8], 1));
        let (whole, shape) = (net.concatenate(&parts, 1), net.ints(&[2], &[28, 8]));
        vec![net.op(Op::Reshape, &[whole, shape]), net.conv(parts[0], [3, 2, 2, 8], 1)]
    });
    check("the same twice", &["concatenate"], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let part = net.conv(x, [8, 1, 1, 8], 1);
        let whole = net.concatenate(&[part, part], 1);
        vec![net.conv(whole, [8, 1, 1, 8], 1)]
    });
    check("a whole that is part of a whole", &[], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let parts = [1, 2, 3].map(|out| net.conv(x, [8, out, 1, 8], 1));
        let inner = net.concatenate(&parts[..2], 1);
        let outer = net.concatenate(&[parts[2], inner], 1);
        vec![net.conv(outer, [8, 2, 1, 8], 1), net.conv(inner, [8, 2, 1, 8], 1)]
    });
    check("inputs of the model are copied", &["concatenate"], |net| {
        let (a, b) = (net.input(&[1, 4, 8]), net.input(&[1, 2, 8]));
        vec![net.concatenate(&[a, b, a], 1)]
    });
    check("a reshaped result", &[], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let x = net.conv(x, [8, 1, 1, 8], 1);
        let shape = net.ints(&[2], &[16, 8]);
        vec![net.op(Op::Reshape, &[x, shape])]
    });
}

#[test]
fn parts_of_another_quantisation_are_brought_to_that_of_the_whole() {
    let mut net = Net::new(unsigned());
    let x = net.input(&[1, 4, 4, 8]);
    let first = net.conv(x, [8, 1, 1, 8], 1);
    net.like =
        Operand::tensor(OperandType::TensorQuant8Asymm, Vec::new()).with_quantization(0.5, 9);
    let second = net.op_of(Op::Dequantize, &[first], floats());
    let second = net.op(Op::Quantize, &[second]);
    let whole = net.concatenate(&[first, second], 1);
    let model = net.model(&[whole]);
    let (kernels, joined) = run(&model, Isa::best(), false);
    assert_eq!(joined, run(&model, Isa::best(), true).1);
    assert_eq!(kernels.last(), Some(&"concatenate_rescale"));
}

#[test]
fn parts_of_one_piece_are_views() {
    check("of a temporary", &[], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let x = net.conv(x, [8, 1, 1, 8], 1);
        let parts = net.split(x, 1, 2);
        parts.iter().map(|&part| net.conv(part, [8, 2, 2, 8], 1)).collect()
    });
    check("of the caller's memory, and parts of parts", &[], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let parts = net.split(x, 1, 2);
        let lines = net.split(parts[1], 1, 2);
        vec![net.conv(lines[1], [8, 1, 2, 8], 1), net.conv(lines[0], [8, 1, 3, 8], 1)]
    });
    check("not where they are results", &["strided_copy", "strided_copy"], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        net.split(x, 1, 2)
    });
    check("not of single channels", &["strided_copy", "strided_copy"], |net| {
        let x = net.input(&[1, 4, 4, 2]);
        let parts = net.split(x, 3, 2);
        parts.iter().map(|&part| net.conv(part, [8, 2, 2, 1], 1)).collect()
    });
}

#[test]
fn channels_are_computed_where_they_belong() {
    check("by products of every kind", &[], |net| {
        let x = net.input(&[1, 14, 13, 24]);
        let a = net.conv(x, [32, 3, 3, 24], 1);
        let b = net.conv(x, [16, 1, 1, 24], 1);
        let b = net.depthwise(b, [3, 3, 16], 1);
        let whole = net.concatenate(&[a, b], 3);
        vec![net.conv(whole, [8, 3, 3, 48], 1)]
    });
    check("of one channel, and of pixels of 4 KiB and more", &["add"], |net| {
        let x = net.input(&[1, 6, 5, 8]);
        let parts = [1, 4095, 1, 4095].map(|out| net.conv(x, [out, 1, 1, 8], 1));
        let whole = net.concatenate(&parts, 3);
        let halves = net.split(whole, 3, 2);
        vec![net.sum(halves[0], halves[1])]
    });
    check("into the caller's memory", &[], |net| {
        let x = net.input(&[2, 9, 8, 8]);
        let parts = [13, 30].map(|out| net.conv(x, [out, 3, 3, 8], 1));
        vec![net.concatenate(&parts, 3)]
    });
    check("read elsewhere too", &[], |net| {
        let x = net.input(&[1, 9, 8, 8]);
        let parts = [13, 30].map(|out| net.conv(x, [out, 3, 3, 8], 1));
        let whole = net.concatenate(&parts, 3);
        vec![net.conv(whole, [8, 1, 1, 43], 1), net.conv(parts[0], [8, 2, 2, 13], 1)]
    });
    check("of a value that is a result too", &["concatenate"], |net| {
        let x = net.input(&[1, 9, 8, 8]);
        let parts = [13, 30].map(|out| net.conv(x, [out, 3, 3, 8], 1));
        let whole = net.concatenate(&parts, 3);
        vec![net.conv(whole, [8, 1, 1, 43], 1), parts[0]]
    });
    check("the same twice", &["concatenate"], |net| {
        let x = net.input(&[1, 9, 8, 8]);
        let part = net.conv(x, [13, 3, 3, 8], 1);
        let whole = net.concatenate(&[part, part], 3);
        vec![net.conv(whole, [8, 1, 1, 26], 1)]
    });
    check("a whole that is part of two, one with a part of it again", &["concatenate"], |net| {
        let x = net.input(&[1, 9, 8, 8]);
        let parts = [13, 30, 14].map(|out| net.conv(x, [out, 3, 3, 8], 1));
        let inner = net.concatenate(&parts[..2], 3);
        let outer = net.concatenate(&[parts[2], inner], 3);
        let outer = net.concatenate(&[outer, parts[1]], 3);
        vec![net.conv(outer, [8, 2, 1, 87], 1), net.conv(inner, [8, 2, 1, 43], 1)]
    });
    check("of images of several batches, along two axes", &[], |net| {
        let x = net.input(&[3, 9, 8, 8]);
        let parts = [13, 30].map(|out| net.conv(x, [out, 3, 3, 8], 1));
        let wide = net.concatenate(&parts, 3);
        let more = net.conv(x, [43, 3, 3, 8], 1);
        let whole = net.concatenate(&[wide, more], 0);
        vec![net.conv(whole, [8, 1, 1, 43], 1)]
    });
}

/// What a later stage reads stays in one piece: stages behind it, like this one of borders that are
/// computed, know where a value starts alone.
#[test]
fn parts_that_later_stages_read_are_in_one_piece() {
    let mut net = Net::new(floats());
    let x = net.input(&[1, 9, 8, 8]);
    let parts = [16, 16].map(|out| net.conv(x, [out, 3, 3, 8], 1));
    let alone = net.concatenate(&parts[..1], 3);
    let whole = net.concatenate(&[alone, parts[1]], 3);
    let whole = net.conv(whole, [8, 1, 1, 32], 1);
    let (sides, none) = (net.input(&[4, 2]), net.int(0));
    let sides = net.op(Op::Sub, &[sides, sides, none]);
    let sides =
        net.op_of(Op::Cast, &[sides], Operand::tensor(OperandType::TensorInt32, vec![4, 2]));
    let later = net.op(Op::Pad, &[parts[0], sides]);
    let model = net.model(&[whole, later]);
    compare("parts that later stages read", &model, |_, _, _| ());
}

#[test]
fn channels_are_read_where_they_are() {
    check("by products", &[], |net| {
        let x = net.input(&[1, 14, 13, 40]);
        let parts = net.split(x, 3, 2);
        vec![net.conv(parts[0], [8, 3, 3, 20], 1), net.conv(parts[1], [8, 1, 1, 20], 2)]
    });
    check("halves that come together again, one of them some layers deeper", &["add"], |net| {
        let x = net.input(&[1, 10, 10, 8]);
        let x = net.conv(x, [32, 1, 1, 8], 1);
        let parts = net.split(x, 3, 2);
        let deeper = net.conv(parts[1], [16, 1, 1, 16], 1);
        let deeper = net.sum(deeper, parts[1]);
        let all = net.concatenate(&[parts[0], parts[1], deeper], 3);
        vec![net.conv(all, [8, 1, 1, 48], 1)]
    });
    check("from a later line on, of what lies in something wider", &[], |net| {
        let x = net.input(&[1, 10, 10, 8]);
        let parts = [16, 8].map(|out| net.conv(x, [out, 1, 1, 8], 1));
        let whole = net.concatenate(&parts, 3);
        let (first, size) = (net.ints(&[4], &[0, 3, 0, 4]), net.ints(&[4], &[1, 7, 10, 8]));
        let within = net.op(Op::Slice, &[parts[0], first, size]);
        vec![net.conv(whole, [8, 1, 1, 24], 1), net.conv(within, [8, 3, 3, 8], 1)]
    });
    check("parts of parts, and parts that change places", &["concatenate"], |net| {
        let x = net.input(&[1, 10, 10, 64]);
        let parts = net.split(x, 3, 2);
        let quarters = net.split(parts[1], 3, 2);
        let all = net.concatenate(&[quarters[1], parts[0]], 3);
        vec![net.conv(quarters[0], [8, 2, 2, 16], 1), net.conv(all, [8, 1, 1, 48], 1)]
    });
}

/// In-place steps, activations and sums whose operands are channels of something wider.
#[test]
fn steps_in_place_leave_the_channels_beside_theirs_alone() {
    for like in [floats(), unsigned(), signed()] {
        let mut net = Net::new(like);
        let x = net.input(&[1, 9, 8, 8]);
        let parts = [16, 16, 32].map(|out| net.conv(x, [out, 1, 1, 8], 1));
        let sum = net.sum(parts[0], parts[1]);
        let sum = net.relu(sum);
        let whole = net.concatenate(&[sum, parts[2], parts[0]], 3);
        let halves = net.split(whole, 3, 2);
        let both = net.sum(halves[0], halves[1]);
        let both = net.relu(both);
        let again = net.sum(both, parts[2]);
        let wide = net.concatenate(&[again, both], 3);
        let (a, b) = (net.relu(wide), net.relu(whole));
        let model = net.model(&[a, b]);
        compare("in place beside other channels", &model, |_, _, _| ());
    }
}

#[test]
fn activations_are_those_of_what_they_follow() {
    check("of a convolution and a sum", &[], |net| {
        let x = net.input(&[1, 4, 4, 8]);
        let a = net.conv(x, [8, 1, 1, 8], 1);
        let a = net.relu(a);
        let b = net.depthwise(a, [1, 1, 8], 1);
        vec![net.relu(b)]
    });
    let mut net = Net::new(unsigned());
    let x = net.input(&[1, 4, 4, 8]);
    let a = net.conv(x, [8, 1, 1, 8], 1);
    let (b, c) = (net.relu(a), net.conv(a, [8, 1, 1, 8], 1));
    let model = net.model(&[b, c]);
    let (kernels, joined) = run(&model, Isa::best(), false);
    assert_eq!(joined, run(&model, Isa::best(), true).1);
    assert!(kernels.contains(&"clamp_byte"), "somebody else reads it as it was: {kernels:?}");
}

#[test]
fn a_sum_is_made_where_the_convolution_ahead_of_it_was_just_written() {
    let residual = |net: &mut Net, swapped: bool| {
        let x = net.input(&[1, 96, 96, 4]);
        let wide = net.conv(x, [64, 1, 1, 4], 1);
        let y = net.conv(wide, [64, 1, 1, 64], 1);
        vec![if swapped { net.sum(wide, y) } else { net.sum(y, wide) }]
    };
    check("of a residual", &[], |net| residual(net, false));
    check("of a residual that comes first", &[], |net| residual(net, true));
    let mut net = Net::new(unsigned());
    let x = net.input(&[1, 96, 96, 64]);
    let y = net.conv(x, [64, 1, 1, 64], 1);
    let sum = net.sum(y, x);
    let model = net.model(&[sum, y]);
    let (kernels, joined) = run(&model, Isa::best(), false);
    assert!(kernels.contains(&"add_i8"), "what is ahead is a result too: {kernels:?}");
    assert_eq!(joined, run(&model, Isa::best(), true).1);
}

#[test]
fn a_byte_weighed_by_a_function_of_itself_is_looked_up() {
    for (like, least) in [(unsigned(), 0), (signed(), -128)] {
        let sigmoid = Operand { scale: 1.0 / 256.0, zero_point: least, ..like.clone() };
        for (what, swapped, elsewhere, left) in [
            ("itself first", false, false, 1),
            ("itself last", true, false, 1),
            ("a result too", false, true, 2),
        ] {
            let mut net = Net::new(like.clone());
            let x = net.input(&[1, 9, 8, 4]);
            let x = net.conv(x, [8, 1, 1, 4], 1);
            let weight = net.op_of(Op::Logistic, &[x], sigmoid.clone());
            let none = net.int(0);
            let pair = if swapped { [weight, x, none] } else { [x, weight, none] };
            let y = net.op(Op::Mul, &pair);
            let results = [y, weight];
            let model = net.model(if elsewhere { &results } else { &results[..1] });
            compare(what, &model, |isa, kernels, _| {
                assert_eq!(kernels.len(), 1 + left, "{what}, {isa:?}: {kernels:?}");
            });
        }
    }
}

/// Tensors of no elements, which SLICE makes where it is asked for none.
#[test]
fn nothing_is_joined_to_the_same_as_apart() {
    for like in [floats(), unsigned(), signed()] {
        let mut net = Net::new(like);
        let x = net.input(&[2, 4, 4, 8]);
        let (begins, sizes) = (net.ints(&[4], &[0; 4]), net.ints(&[4], &[0, 4, 4, 8]));
        let none = net.op(Op::Slice, &[x, begins, sizes]);
        let none = net.conv(none, [8, 1, 1, 8], 1);
        let none = net.relu(none);
        let parts = net.split(none, 1, 2);
        let doubled = net.sum(parts[0], parts[1]);
        let halves = net.concatenate(&[parts[1], doubled], 1);
        let y = net.conv(x, [8, 1, 1, 8], 1);
        let first = net.concatenate(&[halves, y], 0);
        let last = net.concatenate(&[y, halves, none], 0);
        let sides = [0, 0, 1, 1, 1, 1, 0, 0];
        let padded = net.pad(halves, sides);
        let padded = net.conv(padded, [8, 3, 3, 8], 1);
        let shape = net.ints(&[2], &[0, 128]);
        let flat = net.op(Op::Reshape, &[padded, shape]);
        let model = net.model(&[first, last, flat, none]);
        compare("nothing at all", &model, |_, _, _| ());
    }
}

#[test]
fn results_take_the_memory_of_operands_that_nobody_reads_again() {
    for like in [floats(), unsigned(), signed()] {
        let mut net = Net::new(like);
        let x = net.input(&[1, 4, 4, 8]);
        let a = net.conv(x, [8, 1, 1, 8], 1);
        let rows = net.split(a, 1, 4);
        // A row of it is added to all of it: not in place, even if it is the first. Its sum with
        // itself is.
        let b = net.sum(a, rows[2]);
        let b = net.relu(b);
        let row = net.split(b, 1, 4)[0];
        let b = net.sum(row, b);
        let c = net.sum(b, b);
        let d = net.sum(c, a);
        let e = net.sum(d, c);
        let model = net.model(&[e, b]);
        compare("in place", &model, |_, _, _| ());
    }
}
