//! Types, shorter signatures and empty tensors that no conformance case has: against the same
//! operation in the form that cases do have.

use half::f16;
use nnburst_executor::testing::TestRng;
use nnburst_executor::{CompileOptions, Control, Input, Output, Plan};
use nnburst_hal::{
    ChannelQuant, DataLocation, ExtraParams, Model, Operand, OperandLifeTime, OperandType as T,
    Operation, OperationType as Op, View, ViewMut,
};

use crate::model::{Arg, F32, I32, Out, Value, compute, model_of};

const BYTES: [T; 2] = [T::TensorQuant8Asymm, T::TensorQuant8AsymmSigned];

fn none(kind: T) -> Out {
    Out(kind, 0.0, 0)
}

/// Small integers, which every type can hold, as elements of that type.
fn whole(kind: T, dims: &[u32], values: &[i8]) -> Arg {
    let scale = if BYTES.contains(&kind) { 1.0 } else { 0.0 };
    let operand = Operand::tensor(kind, dims.to_vec()).with_quantization(scale, 0);
    let bytes = values.iter().flat_map(|&value| match kind {
        T::TensorFloat32 => f32::from(value).to_le_bytes().to_vec(),
        T::TensorFloat16 => f16::from_f32(value.into()).to_le_bytes().to_vec(),
        T::TensorInt32 => i32::from(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    });
    Arg::Other(operand, bytes.collect())
}

fn out(kind: T) -> Out {
    Out(kind, if BYTES.contains(&kind) { 1.0 } else { 0.0 }, 0)
}

fn one(op: Op, args: &[Arg], out: Out) -> Value {
    compute(op, args, &[out], 256).unwrap_or_else(|error| panic!("{op}: {error}")).remove(0)
}

#[test]
fn every_tensor_has_a_rank() {
    let channels = ChannelQuant { scales: vec![1.0; 2], channel_dim: 0 };
    let mut per_channel = Operand::tensor(T::TensorQuant8SymmPerChannel, vec![2, 1, 1]);
    per_channel.extra_params = ExtraParams::ChannelQuant(channels);
    let plain = |kind, scale: f32| Operand::tensor(kind, vec![2, 1, 1]).with_quantization(scale, 0);
    for (operand, size) in [
        (plain(T::TensorQuant16Symm, 1.0), 4),
        (plain(T::TensorQuant16Asymm, 1.0), 4),
        (plain(T::TensorQuant8Symm, 1.0), 2),
        (plain(T::TensorBool8, 0.0), 2),
        (per_channel, 2),
    ] {
        let args = [Arg::Other(operand, vec![1; size])];
        assert_eq!(one(Op::Rank, &args, none(T::Int32)).bytes, [3, 0, 0, 0], "{args:?}");
    }
}

#[test]
fn rows_of_every_type() {
    for kind in [T::TensorFloat16, T::TensorInt32, T::TensorQuant8Asymm, T::TensorQuant8AsymmSigned]
    {
        let rows = whole(kind, &[3, 2], &[1, 2, 3, 4, 5, 6]);
        let Arg::Other(_, want) = whole(kind, &[2, 2], &[5, 6, 1, 2]) else { continue };
        let got = one(Op::EmbeddingLookup, &[Arg::list(&[2, 0]), rows.clone()], out(kind));
        assert_eq!(got.bytes, want, "{kind:?}");
        if matches!(kind, T::TensorInt32 | T::TensorQuant8Asymm) {
            let args = [Arg::list(&[9, 4]), Arg::list(&[4, 7, 9]), rows];
            let outs = [out(kind), Out(T::TensorQuant8Asymm, 1.0, 0)];
            let got = compute(Op::HashtableLookup, &args, &outs, 64).unwrap();
            assert_eq!((&got[0].bytes, &got[1].bytes[..]), (&want, &[1, 1][..]), "{kind:?}");
        }
    }
}

#[test]
fn choices_copies_and_quantisations_of_signed_bytes() {
    let signed = T::TensorQuant8AsymmSigned;
    let flags = Operand::tensor(T::TensorBool8, vec![3]);
    let (a, b) = (whole(signed, &[3], &[1, -2, 3]), whole(signed, &[3], &[-4, 5, -6]));
    let args = [Arg::Other(flags, vec![1, 0, 1]), a.clone(), b];
    assert_eq!(one(Op::Select, &args, out(signed)).bytes, [1, 5, 3]);
    let Arg::Other(_, same) = &a else { unreachable!() };
    assert_eq!(&one(Op::Cast, std::slice::from_ref(&a), out(signed)).bytes, same);
    for real in [T::TensorFloat32, T::TensorFloat16] {
        let got = one(Op::Quantize, &[whole(real, &[3], &[1, -2, 3])], Out(signed, 0.5, -7));
        assert_eq!(got.bytes, [-5i8, -11, -1].map(i8::cast_unsigned), "{real:?}");
    }
    // Its signature is there, and nothing says what it computes: Android's reference has no code
    // for it.
    let args = [a.clone(), a, Arg::Int(0)];
    assert!(compute(Op::Div, &args, &[out(signed)], 8).is_err());
}

/// Which bits come out follows from the hash of the input's bytes, so they are the same for every
/// type of the hash functions.
#[test]
fn projections_of_every_type() {
    let halves = [0.5f32, -0.25, 0.75, -1.0, 0.125, 0.5];
    let half_bytes = halves.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
    let hashes = [
        (T::TensorFloat32, Arg::Floats(vec![2, 3], halves.to_vec())),
        (T::TensorFloat16, Arg::Other(Operand::tensor(T::TensorFloat16, vec![2, 3]), half_bytes)),
    ];
    for input in [T::TensorFloat32, T::TensorFloat16, T::TensorInt32, T::TensorQuant8Asymm] {
        let input = whole(input, &[2, 2], &[1, 2, 3, 4]);
        let got = hashes.clone().map(|(kind, hash)| {
            let args = [hash, input.clone(), whole(kind, &[2], &[1, 2]), Arg::Int(2)];
            one(Op::LshProjection, &args, I32)
        });
        assert_eq!(got[0], got[1], "{input:?}");
        assert_eq!(got[0].dims, [6]);
    }
}

/// With the layout left out, and with what follows it left out.
#[test]
fn shorter_signatures_mean_the_longer_ones_with_defaults() {
    let rng = &mut TestRng::of_seed(1);
    let mut numbers = |count: usize| -> Vec<i8> {
        (0..count).map(|_| i8::try_from(rng.below(7)).unwrap() - 3).collect()
    };
    let no = || Arg::Bool(false);
    let ints = |values: &[i32]| values.iter().map(|&value| Arg::Int(value)).collect::<Vec<_>>();
    let real = [T::TensorFloat32, T::TensorFloat16];
    for kind in real.into_iter().chain(BYTES) {
        let image = whole(kind, &[1, 4, 5, 2], &numbers(40));
        let same = |op: Op, short: &[Arg], rest: &[Arg]| {
            let long = [short, rest].concat();
            let (a, b) = (one(op, short, out(kind)), one(op, &long, out(kind)));
            assert_eq!(a, b, "{op} of {kind:?} with {} and {}", short.len(), long.len());
            assert!(!a.bytes.is_empty());
        };
        for op in [Op::AveragePool2d, Op::MaxPool2d, Op::L2Pool2d] {
            if op == Op::L2Pool2d && !real.contains(&kind) {
                continue;
            }
            for values in [&[1, 2, 1, 2, 3, 0][..], &[0, 1, 1, 0, 2, 1, 2, 3, 0]] {
                same(op, &[vec![image.clone()], ints(values)].concat(), &[no()]);
            }
        }
        for sizes in [
            ints(&[7, 3]),
            if kind == T::TensorFloat16 {
                let half = |x: f32| {
                    let bytes = f16::from_f32(x).to_le_bytes().to_vec();
                    Arg::Other(Operand::scalar(T::Float16), bytes)
                };
                vec![half(1.5), half(0.5)]
            } else {
                vec![Arg::Float(1.5), Arg::Float(0.5)]
            },
        ] {
            let args = [vec![image.clone()], sizes].concat();
            same(Op::ResizeBilinear, &args, &[no()]);
            let args = [args, vec![no()]].concat();
            for op in [Op::ResizeBilinear, Op::ResizeNearestNeighbor] {
                same(op, &args, &[no()]);
                same(op, &args, &[no(), no()]);
            }
        }
        for op in [Op::SpaceToDepth, Op::DepthToSpace] {
            let image = whole(kind, &[1, 2, 2, 4], &numbers(16));
            same(op, &[image, Arg::Int(2)], &[no()]);
        }
        let block = Arg::list(&[2, 1]);
        let pads = Arg::Ints(vec![2, 2], vec![0, 0, 1, 2]);
        same(Op::SpaceToBatchNd, &[image.clone(), block.clone(), pads], &[no()]);
        let batches = whole(kind, &[2, 3, 1, 2], &numbers(12));
        same(Op::BatchToSpaceNd, &[batches, block], &[no()]);
    }
}

#[test]
fn shorter_signatures_of_convolutions() {
    let rng = &mut TestRng::of_seed(2);
    let mut numbers = |count: usize| -> Vec<i8> {
        (0..count).map(|_| i8::try_from(rng.below(4)).unwrap()).collect()
    };
    let ints = |values: &[i32]| values.iter().map(|&value| Arg::Int(value)).collect::<Vec<_>>();
    let per_channel = T::TensorQuant8SymmPerChannel;
    let mut kinds = vec![[T::TensorFloat32; 3], [T::TensorFloat16; 3]];
    kinds.extend(BYTES.map(|kind| [kind, kind, T::TensorInt32]));
    kinds.extend(BYTES.map(|kind| [kind, per_channel, T::TensorInt32]));
    for [kind, weights, bias] in kinds {
        let image = whole(kind, &[1, 4, 5, 2], &numbers(40));
        for (op, dims, channel_dim, multiplier) in
            [(Op::Conv2d, [4, 2, 3, 2], 0, &[][..]), (Op::DepthwiseConv2d, [1, 2, 3, 4], 3, &[2])]
        {
            let count = dims.iter().product::<u32>() as usize;
            let mut filter = whole(weights, &dims, &numbers(count));
            let mut bias = whole(bias, &[4], &numbers(4));
            if let Arg::Other(operand, _) = &mut filter
                && weights == per_channel
            {
                let channels = ChannelQuant { scales: vec![1.0; 4], channel_dim };
                operand.extra_params = ExtraParams::ChannelQuant(channels);
            } else if let Arg::Other(operand, _) = &mut bias
                && operand.kind == T::TensorInt32
            {
                operand.scale = 1.0;
            }
            for window in [&[1, 2, 1][..], &[0, 1, 1, 0, 2, 1]] {
                let short = [
                    vec![image.clone(), filter.clone(), bias.clone()],
                    ints(&[window, multiplier, &[0]].concat()),
                ]
                .concat();
                let layout = vec![Arg::Bool(false)];
                let dilated = [layout.clone(), ints(&[1, 1])].concat();
                let out = if BYTES.contains(&kind) { Out(kind, 2.0, 5) } else { out(kind) };
                let results = [Vec::new(), layout, dilated]
                    .map(|rest| one(op, &[short.clone(), rest].concat(), out));
                assert_eq!(results[0], results[1], "{op}, {kind:?}, {weights:?}, {window:?}");
                assert_eq!(results[0], results[2], "{op}, {kind:?}, {weights:?}, {window:?}");
                assert!(results[0].bytes.iter().any(|&byte| byte != results[0].bytes[0]));
            }
        }
    }
}

/// The shape and the size of what comes of these arguments, with nothing left of some of them along
/// axis 0: a model's inputs can't be empty, but what SLICE leaves can.
fn of_nothing(op: Op, args: &[Arg], emptied: &[u32], out: Out) -> (Vec<u32>, usize) {
    let (mut model, given) = model_of(op, args, &[out], false);
    let Model { main, operand_values, .. } = &mut model;
    let mut add = |operand: Operand| {
        main.operands.push(operand);
        u32::try_from(main.operands.len()).unwrap() - 1
    };
    for &argument in emptied {
        let Arg::Other(whole, _) = args[argument as usize].clone() else { unreachable!() };
        let mut sizes: Vec<i32> = whole.dimensions.iter().map(|n| n.cast_signed()).collect();
        sizes[0] = 0;
        let mut list = |values: &[i32]| {
            let offset = u32::try_from(operand_values.len()).unwrap();
            operand_values.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let length = u32::try_from(operand_values.len()).unwrap() - offset;
            let count = u32::try_from(values.len()).unwrap();
            let mut operand = Operand::tensor(T::TensorInt32, vec![count])
                .with_lifetime(OperandLifeTime::ConstantCopy);
            operand.number_of_consumers = 1;
            operand.location = DataLocation { pool_index: 0, offset, length };
            operand
        };
        let begin = add(list(&vec![0; sizes.len()]));
        let size = add(list(&sizes));
        let mut left = Operand { dimensions: Vec::new(), ..whole };
        left.number_of_consumers = 1;
        let left = add(left);
        let last = main.operations.last_mut().unwrap();
        last.inputs[argument as usize] = left;
        let slice =
            Operation { kind: Op::Slice, inputs: vec![argument, begin, size], outputs: vec![left] };
        main.operations.insert(0, slice);
    }
    let plan = Plan::compile(&model, &CompileOptions::default())
        .unwrap_or_else(|error| panic!("{op}: {error}"));
    let mut session = plan.session();
    let inputs: Vec<_> = given.iter().map(|bytes| Input::new(View::of(bytes))).collect();
    let mut buffer = [0xA5; 64];
    let outputs = [Output::new(ViewMut::of(&mut buffer))];
    session
        .run(&inputs, &outputs, &Control::default())
        .unwrap_or_else(|error| panic!("{op}: {error}"));
    let dims = session.output_shapes()[0].dimensions.clone();
    (dims, buffer.iter().filter(|&&byte| byte != 0xA5).count())
}

/// No images, no rows, no regions: the shape is that of the rule, and there are no elements.
#[test]
fn nothing_comes_of_nothing() {
    let ints = |values: &[i32]| values.iter().map(|&value| Arg::Int(value)).collect::<Vec<_>>();
    for kind in [T::TensorFloat32, T::TensorFloat16, BYTES[0], BYTES[1]] {
        let is_byte = BYTES.contains(&kind);
        let mut bias = whole(if is_byte { T::TensorInt32 } else { kind }, &[4], &[0; 4]);
        if let Arg::Other(operand, _) = &mut bias
            && is_byte
        {
            operand.scale = 1.0;
        }
        let products = if is_byte { Out(kind, 2.0, 0) } else { out(kind) };
        let image = whole(kind, &[1, 3, 3, 2], &[1; 18]);
        let rows = whole(kind, &[2, 2], &[1; 4]);
        let window = [image.clone(), whole(kind, &[1, 2, 2, 4], &[1; 16]), bias.clone()].to_vec();
        let depthwise = [window, ints(&[2, 1, 1, 2, 0])].concat();
        let filter = whole(kind, &[4, 2, 2, 2], &[1; 32]);
        let conv = [vec![image.clone(), filter, bias.clone()], ints(&[2, 1, 1, 0])].concat();
        let weights = whole(kind, &[4, 2], &[1; 8]);
        let dense = vec![rows.clone(), weights, bias, Arg::Int(0)];
        let pool = [vec![image.clone()], ints(&[2, 1, 1, 2, 2, 0])].concat();
        let resize = [vec![image], ints(&[5, 4])].concat();
        let sum = vec![rows.clone(), whole(kind, &[1, 2], &[1; 2]), Arg::Int(0)];
        for (op, args, result, want) in [
            (Op::DepthwiseConv2d, depthwise, products, vec![0, 2, 2, 4]),
            (Op::Conv2d, conv, products, vec![0, 2, 2, 4]),
            (Op::FullyConnected, dense, products, vec![0, 4]),
            (Op::AveragePool2d, pool.clone(), out(kind), vec![0, 2, 2, 2]),
            (Op::MaxPool2d, pool, out(kind), vec![0, 2, 2, 2]),
            (Op::ResizeBilinear, resize, out(kind), vec![0, 4, 5, 2]),
            (Op::Add, sum, products, vec![0, 2]),
            (Op::HardSwish, vec![rows.clone()], out(kind), vec![0, 2]),
            (Op::Relu1, vec![rows.clone()], out(kind), vec![0, 2]),
            (Op::Concatenation, vec![rows.clone(), Arg::Int(1)], out(kind), vec![0, 2]),
            (Op::Transpose, vec![rows, Arg::list(&[1, 0])], out(kind), vec![2, 0]),
        ] {
            assert_eq!(of_nothing(op, &args, &[0], result), (want, 0), "{op}, {kind:?}");
        }
    }
    let real = |dims: &[u32], count: usize| whole(T::TensorFloat32, dims, &vec![1; count]);
    let regions =
        [real(&[1, 4], 4), real(&[1, 8], 8), whole(T::TensorInt32, &[1], &[0]), real(&[1, 2], 2)];
    let got = of_nothing(Op::AxisAlignedBboxTransform, &regions, &[0, 1, 2], F32);
    assert_eq!(got, (vec![0, 8], 0));
}
