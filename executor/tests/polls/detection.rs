//! Operations that draw, hash and detect.

use nnburst_hal::{OperandType as T, OperationType as Op};

use crate::single::{A, Single, f, of, sees_a_stop, tensor};

#[test]
fn operations_that_draw_hash_and_detect_stop_within() {
    let (real, int) = (T::TensorFloat32, T::TensorInt32);
    let one = |kind: Op, operands: &[A], type_of: T, dims: &[u32]| {
        sees_a_stop(kind.name(), &Single::new(kind, operands, &[tensor(type_of, dims)]));
    };
    let hash = [f(&[1024, 32]), of(int, &[1 << 16, 4]), A::None(real), A::I(1)];
    one(Op::LshProjection, &hash, int, &[1024]);
    let draws = [f(&[1, 16]), A::I(1 << 21), of(int, &[2])];
    one(Op::RandomMultinomial, &draws, int, &[1, 1 << 21]);
    let scalars = [A::F(1.0), A::F(1.0)];
    let mut align = vec![f(&[1, 64, 64, 1]), f(&[16, 4]), of(int, &[16]), A::I(64), A::I(64)];
    align.extend(scalars);
    let mut pooling = align.clone();
    align.extend([A::I(4096), A::I(4096), A::B(false)]);
    one(Op::RoiAlign, &align, real, &[16, 64, 64, 1]);
    pooling[0] = f(&[1, 64, 64, 64]);
    pooling.push(A::B(false));
    one(Op::RoiPooling, &pooling, real, &[16, 64, 64, 64]);
    let transform = [f(&[1 << 14, 4]), f(&[1 << 14, 256]), of(int, &[1 << 14]), f(&[1, 2])];
    one(Op::AxisAlignedBboxTransform, &transform, real, &[1 << 14, 256]);
    let heat = [f(&[64, 256, 256, 4]), f(&[64, 4]), A::B(false)];
    let outputs = [tensor(real, &[64, 4]), tensor(real, &[64, 4, 2])];
    sees_a_stop("HEATMAP", &Single::new(Op::HeatmapMaxKeypoint, &heat, &outputs));

    // Boxes that are all apart: each is held against all that were chosen.
    const BOXES: u32 = 30_000;
    let apart: fn(usize) -> f32 = |at| (at / 4 * 8 + at % 4) as f32;
    let boxes: fn(usize) -> f32 = |at| (at / 8 * 8 + at % 4) as f32;
    let scores: fn(usize) -> f32 = |_| 0.9;
    let nms = [
        A::Of(vec![BOXES, 2], scores),
        A::Of(vec![BOXES, 8], boxes),
        of(int, &[BOXES]),
        A::F(0.1),
        A::I(-1),
        A::I(0),
        A::F(0.5),
        A::F(1.0),
        A::F(0.1),
    ];
    let outputs = [tensor(real, &[0]), tensor(real, &[0, 4]), tensor(int, &[0]), tensor(int, &[0])];
    sees_a_stop("BOX_WITH_NMS_LIMIT", &Single::new(Op::BoxWithNmsLimit, &nms, &outputs));
    let count = i32::try_from(BOXES).unwrap();
    let anchors: fn(usize) -> f32 = |at| if at % 4 < 2 { (at / 4 * 8) as f32 } else { 1.0 };
    let detect = [
        A::Of(vec![1, BOXES, 2], scores),
        f(&[1, BOXES, 4]),
        A::Of(vec![BOXES, 4], anchors),
        A::F(1.0),
        A::F(1.0),
        A::F(1.0),
        A::F(1.0),
        A::B(true),
        A::I(count),
        A::I(1),
        A::I(count),
        A::F(0.1),
        A::F(0.5),
        A::B(false),
    ];
    let outputs = [
        tensor(real, &[1, BOXES]),
        tensor(real, &[1, BOXES, 4]),
        tensor(int, &[1, BOXES]),
        tensor(int, &[1]),
    ];
    let detect = Single::new(Op::DetectionPostprocessing, &detect, &outputs);
    sees_a_stop("DETECTION_POSTPROCESSING", &detect);
    let size: fn(usize) -> f32 = |_| 1e6;
    let propose = [
        A::Of(vec![1, 256, 128, 1], scores),
        f(&[1, 256, 128, 4]),
        A::Of(vec![1, 4], apart),
        A::Of(vec![1, 2], size),
        A::F(8.0),
        A::F(8.0),
        A::I(-1),
        A::I(-1),
        A::F(0.5),
        A::F(0.0),
        A::B(false),
    ];
    let outputs = [tensor(real, &[0]), tensor(real, &[0, 4]), tensor(int, &[0])];
    let propose = Single::new(Op::GenerateProposals, &propose, &outputs);
    sees_a_stop("GENERATE_PROPOSALS", &propose);
}
