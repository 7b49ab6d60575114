//! Values that steer an operation (indexes, axes, shapes, paddings, sizes) in memory that another
//! thread scribbles into while the operation runs: each is read once, checked and only then used,
//! so the operation computes something or refuses, and nothing is read or written outside its
//! tensors. The build checks indexes.

use std::sync::atomic::{AtomicBool, Ordering};

use nnburst_executor::testing::TestRng;
use nnburst_executor::{CompileOptions, Control, Input, Output, Plan};
use nnburst_hal::{Access, Memory, OperandType, OperationType as Op, ViewMut};

use crate::model::{Arg, F32, I32, Out, model_of, seeds};

/// What positions, counts and extents go wrong on.
const EDGES: [i32; 14] =
    [0, 1, -1, 2, -2, 3, 7, -8, 65_535, 65_536, 1 << 20, 0x7fff_0000, i32::MAX, i32::MIN];

/// An operation whose integers are inputs of the model.
type Case = (Op, Vec<Arg>, Vec<Out>);

fn floats(dims: &[u32]) -> Arg {
    Arg::random(&mut TestRng::of_seed(7), dims)
}

fn table(rows: &[u32], values: &[i32]) -> Arg {
    Arg::Ints(rows.to_vec(), values.to_vec())
}

fn ints(values: &[i32]) -> impl Iterator<Item = Arg> {
    values.iter().map(|&value| Arg::Int(value))
}

fn lookups() -> Vec<Case> {
    let hits = Out(OperandType::TensorQuant8Asymm, 1.0, 0);
    vec![
        (Op::Gather, vec![floats(&[2, 4, 3]), Arg::Int(1), Arg::list(&[3, 0, 1])], vec![F32]),
        (Op::EmbeddingLookup, vec![Arg::list(&[4, 0, 2]), floats(&[5, 3])], vec![F32]),
        (
            Op::HashtableLookup,
            vec![Arg::list(&[4, 0, 9]), Arg::list(&[0, 4, 7]), floats(&[3, 2])],
            vec![F32, hits],
        ),
        (Op::TopkV2, vec![floats(&[3, 7]), Arg::Int(2)], vec![F32, I32]),
        (
            Op::LshProjection,
            vec![floats(&[2, 2]), Arg::list(&[5, 6, 7]), floats(&[3]), Arg::Int(2)],
            vec![I32],
        ),
        (Op::RandomMultinomial, vec![floats(&[1, 4]), Arg::Int(5), Arg::list(&[1, 2])], vec![I32]),
    ]
}

fn regions() -> Vec<Case> {
    let rois = || Arg::Floats(vec![3, 4], vec![0., 0., 2., 2., 1., 1., 4., 3., 2., 0., 5., 5.]);
    let batches = || Arg::list(&[0, 0, 1]);
    let scales = || [Arg::Float(1.0), Arg::Float(1.0)];
    let pooled = || {
        let mut args = vec![floats(&[2, 6, 6, 2]), rois(), batches()];
        args.extend(ints(&[2, 3]));
        args.extend(scales());
        args
    };
    let mut aligned = pooled();
    aligned.extend(ints(&[2, 2]));
    aligned.push(Arg::Bool(false));
    let mut pooled = pooled();
    pooled.push(Arg::Bool(false));
    let sizes = Arg::Floats(vec![2, 2], vec![6.0; 4]);
    let boxes = Arg::Floats(vec![3, 8], [0., 0., 2., 2., 1., 1., 4., 3.].repeat(3));
    let mut limited = vec![floats(&[3, 2]), boxes, batches(), Arg::Float(-9.0)];
    limited.extend(ints(&[4, 0]));
    limited.extend([0.4, 1.0, 0.3].map(Arg::Float));
    vec![
        (Op::RoiAlign, aligned, vec![F32]),
        (Op::RoiPooling, pooled, vec![F32]),
        (Op::AxisAlignedBboxTransform, vec![rois(), floats(&[3, 8]), batches(), sizes], vec![F32]),
        (Op::BoxWithNmsLimit, limited, vec![F32, F32, I32, I32]),
    ]
}

fn shapes() -> Vec<Case> {
    let pairs = |values: &[i32; 4]| table(&[2, 2], values);
    let image = || floats(&[1, 4, 4, 4]);
    let mut strided = vec![floats(&[4, 5])];
    strided.extend([[0, 4], [4, 0], [2, -1]].map(|values| Arg::list(&values)));
    strided.extend(ints(&[0, 2, 0]));
    let of_image = |op: Op, values: &[i32]| {
        let args = std::iter::once(image()).chain(ints(values)).collect();
        (op, args, vec![F32])
    };
    vec![
        (Op::Slice, vec![floats(&[4, 5]), Arg::list(&[1, 0]), Arg::list(&[2, -1])], vec![F32]),
        (Op::StridedSlice, strided, vec![F32]),
        (Op::Reshape, vec![floats(&[2, 6]), Arg::list(&[3, -1])], vec![F32]),
        (Op::Tile, vec![floats(&[2, 3]), Arg::list(&[2, 1])], vec![F32]),
        (Op::Transpose, vec![floats(&[2, 3, 4]), Arg::list(&[2, 0, 1])], vec![F32]),
        (Op::Squeeze, vec![floats(&[1, 3, 1]), Arg::list(&[0])], vec![F32]),
        (Op::ExpandDims, vec![floats(&[2, 3]), Arg::Int(1)], vec![F32]),
        (Op::Fill, vec![Arg::list(&[2, 3]), Arg::Float(1.0)], vec![F32]),
        (Op::Pad, vec![floats(&[3, 4]), pairs(&[1, 0, 0, 2])], vec![F32]),
        (Op::PadV2, vec![floats(&[3, 4]), pairs(&[1, 0, 0, 2]), Arg::Float(9.0)], vec![F32]),
        (Op::SpaceToBatchNd, vec![image(), Arg::list(&[2, 2]), pairs(&[0, 0, 1, 1])], vec![F32]),
        (Op::BatchToSpaceNd, vec![floats(&[4, 2, 2, 1]), Arg::list(&[2, 2])], vec![F32]),
        of_image(Op::SpaceToDepth, &[2]),
        of_image(Op::DepthToSpace, &[2]),
        of_image(Op::ChannelShuffle, &[2, 3]),
        of_image(Op::ResizeBilinear, &[7, 3]),
        (Op::Split, vec![floats(&[4, 3]), Arg::Int(0), Arg::Int(2)], vec![F32, F32]),
        (Op::Concatenation, vec![floats(&[4, 3]), floats(&[4, 3]), Arg::Int(1)], vec![F32]),
    ]
}

fn axes_and_windows() -> Vec<Case> {
    let line = || floats(&[3, 4, 5]);
    let image = || floats(&[1, 5, 5, 2]);
    let windowed = |op: Op, weights: Vec<Arg>, values: &[i32]| {
        let args = std::iter::once(image()).chain(weights).chain(ints(values)).collect();
        (op, args, vec![F32])
    };
    let wanted = Arg::list(&[1, 10, 10, 2]);
    let mut spread = vec![image(), floats(&[2, 2, 2, 2]), floats(&[2]), wanted];
    spread.extend(ints(&[1, 2, 2, 0]));
    spread.push(Arg::Bool(false));
    vec![
        (Op::Mean, vec![line(), Arg::list(&[0, -1]), Arg::Int(0)], vec![F32]),
        (Op::ReduceSum, vec![line(), Arg::list(&[1]), Arg::Bool(true)], vec![F32]),
        (Op::Argmax, vec![line(), Arg::Int(1)], vec![I32]),
        (Op::Softmax, vec![line(), Arg::Float(1.0), Arg::Int(1)], vec![F32]),
        (Op::LogSoftmax, vec![line(), Arg::Float(1.0), Arg::Int(1)], vec![F32]),
        (Op::TransposeConv2d, spread, vec![F32]),
        windowed(Op::Conv2d, vec![floats(&[3, 2, 2, 2]), floats(&[3])], &[0, 1, 1, 0, 2, 1, 0]),
        windowed(
            Op::DepthwiseConv2d,
            vec![floats(&[1, 2, 2, 4]), floats(&[4])],
            &[0, 1, 1, 0, 2, 1, 2, 0],
        ),
        windowed(Op::AveragePool2d, Vec::new(), &[0, 1, 1, 0, 2, 1, 2, 3, 0]),
    ]
}

#[test]
fn what_steers_an_operation_may_change_while_it_runs() {
    let cases = [lookups(), regions(), shapes(), axes_and_windows()].concat();
    for (at, (op, args, outs)) in cases.into_iter().enumerate() {
        let (model, given) = model_of(op, &args, &outs, false);
        let steering: Vec<bool> =
            args.iter().map(|arg| matches!(arg, Arg::Ints(..) | Arg::Int(_))).collect();
        let options = CompileOptions { arena_limit: 1 << 20, ..CompileOptions::default() };
        let plan = Plan::compile(&model, &options).unwrap();

        let starts: Vec<usize> = given
            .iter()
            .scan(0, |end, bytes| Some(std::mem::replace(end, *end + bytes.len())))
            .collect();
        let whole = given.concat();
        let memory = Memory::ashmem(whole.len() as u64).unwrap();
        let (ours, theirs) =
            (memory.map(Access::ReadWrite).unwrap(), memory.map(Access::ReadWrite).unwrap());
        theirs.view_mut(0..whole.len()).unwrap().copy_from_slice(&whole);
        let inputs: Vec<_> = given
            .iter()
            .zip(&starts)
            .map(|(bytes, &start)| Input::new(ours.view(start..start + bytes.len()).unwrap()))
            .collect();
        let mut session = plan.session();
        let mut buffers = vec![vec![0xA5; ROOM + MARGIN]; outs.len()];
        let mut run = || {
            let targets: Vec<_> = buffers
                .iter_mut()
                .map(|buffer| Output::new(ViewMut::of(&mut buffer[..ROOM])))
                .collect();
            session.run(&inputs, &targets, &Control::default())
        };
        run().unwrap_or_else(|error| panic!("{op}, left alone: {error}"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = TestRng::of_seed(at as u64);
                // Relaxed: the flag hands nothing over.
                while !done.load(Ordering::Relaxed) {
                    let input = rng.below(given.len());
                    if !steering[input] {
                        continue;
                    }
                    let mut bytes = given[input].clone();
                    if rng.once_in(2) {
                        let element = rng.below(bytes.len() / 4) * 4;
                        let edge = rng.one_of(&EDGES).to_le_bytes();
                        bytes[element..element + 4].copy_from_slice(&edge);
                    }
                    let start = starts[input];
                    let target = theirs.view_mut(start..start + bytes.len()).unwrap();
                    target.copy_from_slice(&bytes);
                }
            });
            let _stop = StopOnDrop(&done);
            for _ in seeds(100) {
                // Whether this computes or refuses is up to the other thread.
                let _ = run();
            }
        });
        let untouched = buffers.iter().all(|all| all[ROOM..].iter().all(|&byte| byte == 0xA5));
        assert!(untouched, "{op}: written beyond an output");
    }
}

/// Bytes of each output's buffer, and behind it.
const ROOM: usize = 4096;
const MARGIN: usize = 64;

/// Ends the scribbler even where the run panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
