//! Scaled dot-product attention, joined and apart.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nnburst_executor::{Checkpoint, Control, Input, Output, Plan, RunError};
use nnburst_hal::{Operand, OperandType, OperationType as Op, View, ViewMut};

use crate::net::{Net, compare, floats, options, some_bytes};

/// Extents of an attention.
#[derive(Clone, Copy, Debug)]
struct Extents {
    batch: u32,
    heads: u32,
    rows: u32,
    depth: u32,
    columns: u32,
    width: u32,
}

/// What differs from one head behind the other with a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twist {
    None,
    /// Keys are transposed, where the product could take them as they are.
    Transposed,
    /// Nothing is moved, neither ahead nor behind.
    Unmoved,
    /// A mask for each batch and column, and a bias for each head, row and column.
    Masked,
    /// The same, the scores being the second operand.
    MaskedFirst,
    /// What is masked is taken off the scores.
    Less,
    /// The scores are divided, where others multiply.
    Divided,
    /// A number is divided by the scores.
    Dividing,
    /// The scores are kept small by their hyperbolic tangent.
    Capped,
    /// Keys and values are one for all heads.
    Shared,
    /// The same, and repeated for each head, the keys times a number.
    Repeated,
    /// The same with a mask.
    RepeatedMasked,
    /// Keys and values are one for all heads, of one batch, the rows of which meet the values as
    /// those of one matrix, in a layer whose weights they are.
    Dense,
    /// The same with a bias, which is no attention.
    DenseBiased,
    /// Queries, keys and values are columns of one product.
    Columns,
    /// The scores are a result, too.
    Scores,
    /// Their shares are.
    Shares,
    /// A sum of the scores has an activation.
    Activated,
    /// The queries are a result in the order of heads.
    Queries,
    /// SOFTMAX along the rows.
    ByRow,
}

fn transpose(net: &mut Net, x: u32, order: [i32; 4]) -> u32 {
    let order = net.ints(&[4], &order);
    net.op(Op::Transpose, &[x, order])
}

fn reshape(net: &mut Net, x: u32, extents: [u32; 4]) -> u32 {
    let extents = net.ints(&[4], &extents.map(|extent| i32::try_from(extent).unwrap()));
    net.op(Op::Reshape, &[x, extents])
}

fn flat(net: &mut Net, x: u32, extents: [u32; 2]) -> u32 {
    let extents = net.ints(&[2], &extents.map(|extent| i32::try_from(extent).unwrap()));
    net.op(Op::Reshape, &[x, extents])
}

/// The operand `[batch, count, heads * width]` as `[batch, heads, count, width]`.
fn by_head(net: &mut Net, twist: Twist, x: u32, [batch, count, heads, width]: [u32; 4]) -> u32 {
    if twist == Twist::Unmoved {
        return reshape(net, x, [batch, heads, count, width]);
    }
    let x = reshape(net, x, [batch, count, heads, width]);
    transpose(net, x, [0, 2, 1, 3])
}

fn attention(net: &mut Net, of: Extents, twist: Twist) -> Vec<u32> {
    let Extents { batch, heads, rows, depth, columns, width } = of;
    let is_repeated = matches!(twist, Twist::Repeated | Twist::RepeatedMasked);
    let is_dense = matches!(twist, Twist::Dense | Twist::DenseBiased);
    let key_heads = if twist == Twist::Shared || is_repeated || is_dense { 1 } else { heads };
    let none = net.int(0);
    let scale = Operand::tensor(OperandType::TensorFloat32, vec![1]);
    let scale = net.constant(scale, &0.25f32.to_le_bytes());
    let [queries, keys, values] = if twist == Twist::Columns {
        let all = net.input(&[batch * rows, 3 * heads * depth]);
        net.split(all, 1, 3).try_into().unwrap()
    } else {
        let queries = net.input(&[batch, rows, heads * depth]);
        let [keys, values] =
            [depth, width].map(|width| net.input(&[batch, columns, key_heads * width]));
        [queries, keys, values]
    };
    let queries = by_head(net, twist, queries, [batch, rows, heads, depth]);
    let mut keys = by_head(net, twist, keys, [batch, columns, key_heads, depth]);
    let mut values = by_head(net, twist, values, [batch, columns, key_heads, width]);
    if is_repeated {
        let times = net.ints(&[4], &[1, i32::try_from(heads).unwrap(), 1, 1]);
        [keys, values] = [keys, values].map(|of| net.op(Op::Tile, &[of, times]));
        keys = net.op(Op::Mul, &[keys, scale, none]);
    }
    if twist == Twist::Transposed {
        keys = transpose(net, keys, [0, 1, 3, 2]);
    }
    let mut scores = net.matmul(queries, keys, twist != Twist::Transposed);
    scores = match twist {
        Twist::Divided => net.op(Op::Div, &[scores, scale, none]),
        Twist::Dividing => net.op(Op::Div, &[scale, scores, none]),
        _ => net.op(Op::Mul, &[scores, scale, none]),
    };
    if twist == Twist::Capped {
        let tangent = net.op(Op::Tanh, &[scores]);
        scores = net.op(Op::Mul, &[tangent, scale, none]);
    }
    if twist == Twist::RepeatedMasked {
        let mask = net.input(&[batch, 1, rows, columns]);
        scores = net.op(Op::Add, &[scores, mask, none]);
    }
    if matches!(twist, Twist::Masked | Twist::MaskedFirst | Twist::Less | Twist::Activated) {
        let mask = net.input(&[batch, 1, 1, columns]);
        let bias = net.weights(&[1, heads, rows, columns]);
        let (act, which) = match twist {
            Twist::Activated => (net.int(1), Op::Add),
            Twist::Less => (none, Op::Sub),
            _ => (none, Op::Add),
        };
        let of = |scores, other| match twist {
            Twist::MaskedFirst => [other, scores, act],
            _ => [scores, other, act],
        };
        scores = net.op(which, &of(scores, mask));
        scores = net.op(Op::Add, &of(scores, bias));
    }
    let beta = Operand::scalar(OperandType::Float32);
    let beta = net.constant(beta, &0.5f32.to_le_bytes());
    let shares = if twist == Twist::ByRow {
        let axis = net.int(2);
        net.op(Op::Softmax, &[scores, beta, axis])
    } else {
        net.op(Op::Softmax, &[scores, beta])
    };
    let mut mixed = if is_dense {
        let turned = transpose(net, values, [0, 1, 3, 2]);
        let [width_and_columns, all_rows] = [[width, columns], [heads * rows, columns]];
        let weights = flat(net, turned, width_and_columns);
        let shares = flat(net, shares, all_rows);
        let bias = Operand::tensor(OperandType::TensorFloat32, vec![width]);
        let of = if twist == Twist::Dense { 0f32 } else { 0.5 };
        let bias = net.constant(bias, &of.to_le_bytes().repeat(width as usize));
        let mixed = net.op(Op::FullyConnected, &[shares, weights, bias, none]);
        reshape(net, mixed, [1, heads, rows, width])
    } else {
        net.matmul(shares, values, false)
    };
    if twist != Twist::Unmoved {
        mixed = transpose(net, mixed, [0, 2, 1, 3]);
    }
    let more = match twist {
        Twist::Scores => scores,
        Twist::Shares => shares,
        Twist::Queries => queries,
        _ => return vec![mixed],
    };
    vec![mixed, more]
}

#[test]
fn attention_is_one_step_with_the_same_bits() {
    let extents = |[batch, heads, rows, depth, columns, width]: [u32; 6]| Extents {
        batch,
        heads,
        rows,
        depth,
        columns,
        width,
    };
    for (twist, left) in [
        (Twist::None, Some(0)),
        (Twist::Transposed, Some(0)),
        (Twist::Unmoved, Some(0)),
        (Twist::Masked, Some(0)),
        (Twist::MaskedFirst, Some(0)),
        (Twist::Less, Some(0)),
        (Twist::Divided, Some(0)),
        (Twist::Dividing, Some(0)),
        (Twist::Capped, Some(0)),
        (Twist::Shared, Some(0)),
        (Twist::Repeated, Some(0)),
        (Twist::RepeatedMasked, Some(0)),
        (Twist::Dense, Some(0)),
        (Twist::DenseBiased, None),
        (Twist::Columns, Some(0)),
        (Twist::Queries, Some(1)),
        (Twist::Scores, None),
        (Twist::Shares, None),
        (Twist::Activated, None),
        (Twist::ByRow, None),
    ] {
        for of in
            [[1, 1, 1, 1, 1, 1], [2, 3, 5, 4, 7, 6], [1, 2, 100, 20, 200, 8], [2, 8, 1, 16, 70, 16]]
        {
            let mut of = extents(of);
            if matches!(twist, Twist::Columns) {
                (of.columns, of.width) = (of.rows, of.depth);
            }
            if matches!(twist, Twist::Dense | Twist::DenseBiased) {
                of.batch = 1;
            }
            let mut net = Net::new(floats());
            let outputs = attention(&mut net, of, twist);
            let model = net.model(&outputs);
            compare(&format!("{twist:?} of {of:?}"), &model, |isa, kernels, _| {
                let is_one = kernels.contains(&"attention_f32");
                if of.columns == 1 {
                    return; // without columns to tell apart patterns are others
                }
                assert_eq!(is_one, left.is_some(), "{twist:?}, {isa:?}: {kernels:?}");
                if let Some(left) = left {
                    assert_eq!(kernels.len(), 1 + left, "{twist:?}, {isa:?}: {kernels:?}");
                }
            });
        }
    }
}

#[test]
fn attentions_one_behind_the_other_each_become_a_step() {
    let of = Extents { batch: 1, heads: 2, rows: 9, depth: 8, columns: 9, width: 8 };
    let mut net = Net::new(floats());
    let mut x = net.input(&[1, 9, 16]);
    for _ in 0..2 {
        let parts: [u32; 3] = std::array::from_fn(|_| net.sum(x, x));
        let [queries, keys, values] =
            parts.map(|part| by_head(&mut net, Twist::None, part, [1, 9, 2, 8]));
        let scores = net.matmul(queries, keys, true);
        let beta = net.constant(Operand::scalar(OperandType::Float32), &1f32.to_le_bytes());
        let shares = net.op(Op::Softmax, &[scores, beta]);
        let mixed = net.matmul(shares, values, false);
        let mixed = transpose(&mut net, mixed, [0, 2, 1, 3]);
        x = reshape(&mut net, mixed, [1, 1, of.rows, of.heads * of.width]);
    }
    let model = net.model(&[x]);
    compare("two layers", &model, |isa, kernels, _| {
        let count = kernels.iter().filter(|&&kernel| kernel == "attention_f32").count();
        assert_eq!((count, kernels.len()), (2, 8), "{isa:?}: {kernels:?}");
    });
}

/// Stops the run at a poll that only one within the step is.
#[derive(Debug, Default)]
struct Polls {
    count: AtomicUsize,
    stop: AtomicBool,
}

impl Checkpoint for Polls {
    fn pass(&self) {
        if self.count.fetch_add(1, Ordering::Relaxed) == 12 {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_long_attention_stops_within() {
    let long = 3000;
    let of = Extents { batch: 1, heads: 1, rows: long, depth: 64, columns: long, width: 64 };
    let mut net = Net::new(floats());
    let outputs = attention(&mut net, of, Twist::Unmoved);
    let model = net.model(&outputs);
    let plan = Plan::compile(&model, &options()).unwrap();
    assert_eq!(plan.labels().count(), 1);
    let operands = model.main.input_indexes.iter().map(|&at| &model.main.operands[at as usize]);
    let inputs: Vec<Vec<u8>> = operands.map(|operand| some_bytes(operand, 1)).collect();
    let inputs: Vec<_> = inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
    let mut output = vec![0; 4 * 64 * long as usize];
    let polls = Polls::default();
    let control =
        Control { checkpoint: Some(&polls), stop: Some(&polls.stop), ..Control::default() };
    let ran = plan.session().run(&inputs, &[Output::new(ViewMut::of(&mut output))], &control);
    assert_eq!(ran.err(), Some(RunError::Stopped));
}
