//! Operations that move elements, and reductions.

use nnburst_hal::{Operand, OperandType as T, OperationType as Op};

use crate::single::{A, Single, f, of, sees_a_stop, tensor};

#[test]
fn operations_that_move_and_reduce_stop_within() {
    let (real, int, byte) = (T::TensorFloat32, T::TensorInt32, T::TensorQuant8Asymm);
    let image = [1u32, 2048, 2048, 4];
    let cases: Vec<(Op, Vec<A>, T, Vec<u32>)> = vec![
        (Op::Transpose, vec![f(&image), A::Ints(vec![3, 2, 1, 0])], real, vec![4, 2048, 2048, 1]),
        (Op::Tile, vec![f(&[8]), A::Ints(vec![1 << 21])], real, vec![1 << 24]),
        (
            Op::Pad,
            vec![f(&image), A::Ints(vec![0, 0, 1, 1, 1, 1, 0, 0])],
            real,
            vec![1, 2050, 2050, 4],
        ),
        (
            Op::Slice,
            vec![f(&image), A::Ints(vec![0, 0, 0, 1]), A::Ints(vec![1, 2048, 2048, 3])],
            real,
            vec![1, 2048, 2048, 3],
        ),
        (
            Op::StridedSlice,
            vec![
                f(&image),
                A::Ints(vec![0; 4]),
                A::Ints(vec![1, 2048, 2048, 4]),
                A::Ints(vec![1, 1, 1, 2]),
                A::I(0),
                A::I(0),
                A::I(0),
            ],
            real,
            vec![1, 2048, 2048, 2],
        ),
        (Op::Concatenation, vec![f(&image), f(&image), A::I(3)], real, vec![1, 2048, 2048, 8]),
        (Op::Gather, vec![f(&[4, 2]), A::I(0), of(int, &[1 << 22])], real, vec![1 << 22, 2]),
        (Op::EmbeddingLookup, vec![of(int, &[1 << 22]), f(&[4, 2])], real, vec![1 << 22, 2]),
        (Op::ChannelShuffle, vec![f(&image), A::I(2), A::I(3)], real, image.to_vec()),
        (Op::SpaceToDepth, vec![f(&image), A::I(2)], real, vec![1, 1024, 1024, 16]),
        (Op::DepthToSpace, vec![f(&image), A::I(2)], real, vec![1, 4096, 4096, 1]),
        (
            Op::SpaceToBatchNd,
            vec![f(&image), A::Ints(vec![2, 2]), A::Ints(vec![0; 4])],
            real,
            vec![4, 1024, 1024, 4],
        ),
        (
            Op::BatchToSpaceNd,
            vec![f(&[4, 1024, 1024, 4]), A::Ints(vec![2, 2])],
            real,
            image.to_vec(),
        ),
        (
            Op::ResizeBilinear,
            vec![f(&[1, 64, 64, 4]), A::I(2048), A::I(2048)],
            real,
            image.to_vec(),
        ),
        (
            Op::ResizeNearestNeighbor,
            vec![of(byte, &[1, 64, 64, 4]), A::I(4096), A::I(4096), A::B(false)],
            byte,
            vec![1, 4096, 4096, 4],
        ),
        (Op::Fill, vec![A::Ints(vec![1 << 24]), A::F(1.0)], real, vec![1 << 24]),
        (
            Op::Reshape,
            vec![f(&[1 << 25]), A::Ints(vec![1 << 13, 1 << 12])],
            real,
            vec![1 << 13, 1 << 12],
        ),
        (Op::Mean, vec![f(&image), A::Ints(vec![1, 2]), A::I(1)], real, vec![1, 1, 1, 4]),
        (Op::Mean, vec![of(byte, &[64, 1 << 20]), A::Ints(vec![1]), A::I(0)], byte, vec![64]),
        (Op::ReduceSum, vec![f(&image), A::Ints(vec![1, 2]), A::B(true)], real, vec![1, 1, 1, 4]),
        (
            Op::ReduceMax,
            vec![of(byte, &image), A::Ints(vec![3]), A::B(false)],
            byte,
            vec![1, 2048, 2048],
        ),
        (Op::Argmax, vec![f(&[4, 1 << 22]), A::I(1)], int, vec![4]),
        (
            Op::InstanceNormalization,
            vec![f(&image), A::F(1.0), A::F(0.0), A::F(1e-5), A::B(false)],
            real,
            image.to_vec(),
        ),
        (
            Op::LocalResponseNormalization,
            vec![f(&[1, 1, 1, 1 << 16]), A::I(1 << 16), A::F(1.0), A::F(1.0), A::F(0.5)],
            real,
            vec![1, 1, 1, 1 << 16],
        ),
    ];
    for (kind, operands, type_of, dims) in cases {
        sees_a_stop(kind.name(), &Single::new(kind, &operands, &[tensor(type_of, &dims)]));
    }
    let halves = [tensor(real, &[1, 2048, 2048, 2]), tensor(real, &[1, 2048, 2048, 2])];
    sees_a_stop("SPLIT", &Single::new(Op::Split, &[f(&image), A::I(3), A::I(2)], &halves));
    let outputs = [tensor(real, &[2, 5]), tensor(int, &[2, 5])];
    sees_a_stop("TOPK_V2", &Single::new(Op::TopkV2, &[f(&[2, 1 << 21]), A::I(5)], &outputs));
    let hits = Operand { scale: 1.0, ..tensor(byte, &[1 << 20]) };
    let outputs = [tensor(real, &[1 << 20, 2]), hits];
    let operands = [of(int, &[1 << 20]), of(int, &[4]), f(&[4, 2])];
    sees_a_stop("HASHTABLE_LOOKUP", &Single::new(Op::HashtableLookup, &operands, &outputs));
}
