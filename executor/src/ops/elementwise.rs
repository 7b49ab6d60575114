//! ADD, SUB, MUL: two tensors that broadcast, and a fused activation; what else is computed of two
//! tensors of floats alike.

use std::sync::Arc;

use nnburst_hal::{FusedActivation, OperandType};
use nnburst_kernels::kernels::NO_CLAMP;
use nnburst_kernels::kernels::add_i8::{Add, SquaredDifference};
use nnburst_kernels::kernels::binary_f32::{Arithmetic, Binary, Operand};
use nnburst_kernels::kernels::gemm_i8::Bytes;
use nnburst_kernels::kernels::mul_i8::Mul;
use nnburst_kernels::kernels::spans::{Along, each_span};
use nnburst_kernels::tensor::quant::{
    Multiplier, clamp_real, output_range, product_multiplier, rdbpot, real_activation_range, srdhm,
};
use nnburst_kernels::tensor::rows::Rows;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Quantised, Shape, Tensor};

use super::Op;
use super::broadcast::{Broadcast, each_chunk_of_rows, emit_zip};
use super::byte_blocks::{Planes, Walk, each_block};
use super::laid_out::{LaidOut, LaidOutRows, Layout};
use super::repeated_block::RepeatedBlock;
use super::support::{EACH, bad_kind, compiled, plain};
use crate::lowering::part::StepPart;
use crate::lowering::recipe::{Recipe, Spread};
use crate::lowering::{Io, Label, Lowered, OpBuilder};

pub(super) static ADD: Op = Op { lower: |op| lower(op, Which::Add) };
pub(super) static SUB: Op = Op { lower: |op| lower(op, Which::Sub) };
pub(super) static MUL: Op = Op { lower: |op| lower(op, Which::Mul) };

/// Which of the three.
#[derive(Clone, Copy, Debug)]
enum Which {
    Add,
    Sub,
    Mul,
}

/// The common operands of the three.
struct Operands {
    a: Tensor,
    b: Tensor,
    wide: Shape,
    activation: FusedActivation,
}

/// Source: NNAPI `ADD`, `MUL`, since HAL 1.0; `SUB` since 1.1; INT32 since 1.3.
fn lower(op: &mut OpBuilder<'_>, which: Which) -> Lowered {
    let (a, b, activation) = (op.input(0)?, op.input(1)?, op.fused_activation(2)?);
    if a.kind != b.kind {
        return Err(OpError::input(1, format!("is {} beside {}", b.kind, a.kind)).into());
    }
    let wide = a.shape.broadcast(&b.shape)?;
    if wide.rank() > 4 {
        return Err(OpError::rule(format!("{wide:?} is of more than 4 extents")).into());
    }
    op.set_output(0, wide.clone())?;
    let operands = Operands { a, b, wide, activation };
    match operands.a.kind {
        OperandType::TensorFloat32 => float32(op, which, &operands),
        OperandType::TensorFloat16 => float16(op, which, &operands),
        OperandType::TensorInt32 => int32(op, which, &operands),
        OperandType::TensorQuant8Asymm => quantised::<u8>(op, which, &operands),
        OperandType::TensorQuant8AsymmSigned => quantised::<i8>(op, which, &operands),
        kind => Err(bad_kind(0, kind).into()),
    }
}

fn float32(op: &mut OpBuilder<'_>, which: Which, operands: &Operands) -> Lowered {
    let Operands { a, b, wide, activation } = operands;
    let which = match which {
        Which::Add => Arithmetic::Add,
        Which::Sub => Arithmetic::Sub,
        Which::Mul => Arithmetic::Mul,
    };
    let range = real_activation_range(*activation);
    real_binary(op, which, [&a.shape, &b.shape], wide, range);
    if a.shape == *wide && b.shape == *wide {
        let binary = Binary::new(op.isa(), which, range);
        op.join_sum(Arc::new(move |a, b, to| binary.compute(In::new(a), In::new(b), Out::new(to))));
    }
    Ok(())
}

/// Adds the step of FLOAT32 inputs 0 and 1 of any rank: a span at a time, a row of both or one
/// number beside a row, or many rows where they are short.
pub(super) fn real_binary(
    op: &mut OpBuilder<'_>,
    which: Arithmetic,
    shapes: [&Shape; 2],
    wide: &Shape,
    range: (f32, f32),
) {
    let binary = Binary::new(op.isa(), which, range);
    let label = plain("binary_f32", wide, wide.elements() as u64);
    let label = Label { form: binary.isa(), ..label };
    if wide.contains(&0) {
        return op.emit(label, |_| Ok(()));
    }
    let broadcast = Broadcast::new(wide, shapes[0], shapes[1]);
    let walks = broadcast.walks().filter(|_| range == NO_CLAMP);
    emit_real_binary(op, label, binary, broadcast);
    if let Some(walks) = walks {
        op.part(StepPart::Arithmetic(which, Box::new(walks)));
    }
    let [a, b] = shapes;
    if range == NO_CLAMP
        && let (Some(of_a), Some(of_b)) = (Spread::of(a, wide), Spread::of(b, wide))
    {
        op.recipe(Recipe::Binary(which, [of_a, of_b]));
    }
}

fn emit_real_binary(op: &mut OpBuilder<'_>, label: Label, binary: Binary, broadcast: Broadcast) {
    let blocks = RepeatedBlock::of(&broadcast);
    let rows = RealRows::new(binary, broadcast);
    if let Some(blocks) = blocks {
        let (scratch, in_place) = (blocks.len() * size_of::<f32>(), IN_PLACE[blocks.repeated]);
        op.emit_with_scratch(label, scratch, move |mut io| {
            let (a, b, out) = arguments::<f32>(&io);
            if !are_in_one_piece([a, b], out) {
                return rows.compute([a, b], out);
            }
            let (block, len) = (io.scratch_slice::<f32>(), blocks.len());
            let mut inputs = [a.all(), b.all()];
            blocks.write(inputs[blocks.repeated], block)?;
            let strides = blocks.strides();
            inputs[blocks.repeated] = In::of(block);
            let operands = [0, 1].map(|of| (inputs[of], strides[of]));
            each_chunk_of_rows(blocks.rows, len, |rows| {
                let operands = operands.map(|(all, stride)| {
                    let all = all.slice(rows.start * stride..all.len());
                    Operand { all, step: 1, stride }
                });
                let to = out.all().slice(rows.start * len..rows.end * len);
                binary.compute_rows(operands, to, [rows.len(), len, len])
            })
        });
        op.in_place(in_place);
        op.rows(&EACH);
        return;
    }
    op.emit(label, move |io| {
        let (a, b, out) = arguments::<f32>(&io);
        rows.compute([a, b], out)
    });
    op.in_place(&[0, 1]);
    op.rows(&EACH);
}

fn are_in_one_piece(inputs: [Rows<In<'_, f32>>; 2], out: Rows<Out<'_, f32>>) -> bool {
    inputs.iter().all(|input| input.is_one_piece()) && out.is_one_piece()
}

/// All rows of the results, those that are short in few calls.
struct RealRows {
    binary: Binary,
    broadcast: Broadcast,
    /// Short rows of operands and results in one piece, as they mostly are.
    in_one_piece: Option<LaidOut>,
}

impl RealRows {
    fn new(binary: Binary, broadcast: Broadcast) -> Self {
        let in_one_piece = broadcast.short_rows([Layout::ONE_PIECE; 3]);
        Self { binary, broadcast, in_one_piece }
    }

    fn compute(
        &self,
        [a, b]: [Rows<In<'_, f32>>; 2],
        out: Rows<Out<'_, f32>>,
    ) -> Result<(), String> {
        let Self { binary, broadcast, in_one_piece } = self;
        let apart;
        let laid_out = if are_in_one_piece([a, b], out) {
            in_one_piece
        } else {
            apart = broadcast.short_rows([Layout::of(a, 1), Layout::of(b, 1), Layout::of(out, 1)]);
            &apart
        };
        let Some(laid_out) = laid_out else {
            return broadcast.each_row(a, b, out, |a, b, out| binary.compute(a, b, out));
        };
        let (inputs, out) = ([a.all(), b.all()], out.all());
        laid_out.each_matrix(|LaidOutRows { from, count, len, steps, strides }| {
            let operands = [0, 1].map(|of| {
                let all = inputs[of].slice(from[of]..inputs[of].len());
                Operand { all, step: steps[of], stride: strides[of] }
            });
            binary.compute_rows(operands, out.slice(from[2]..out.len()), [count, len, strides[2]])
        })
    }
}

/// The input that results may be written over, where the other one is written down as a block.
const IN_PLACE: [&[usize]; 2] = [&[1], &[0]];

fn float16(op: &mut OpBuilder<'_>, which: Which, operands: &Operands) -> Lowered {
    use half::f16;
    let (low, high) = real_activation_range(operands.activation);
    let clamp = move |x: f32| f16::from_f32(clamp_real(x, low, high));
    let emit = |op, each: fn(f32, f32) -> f32| {
        emit::<f16>(op, operands, move |a, b| clamp(each(a.to_f32(), b.to_f32())));
    };
    match which {
        Which::Add => emit(op, |a, b| a + b),
        Which::Sub => emit(op, |a, b| a - b),
        Which::Mul => emit(op, |a, b| a * b),
    }
    Ok(())
}

/// INT32 wraps, and takes no activation.
fn int32(op: &mut OpBuilder<'_>, which: Which, operands: &Operands) -> Lowered {
    if operands.activation != FusedActivation::None {
        let what = format!("{} behind INT32", operands.activation);
        return Err(OpError::input(2, what).into());
    }
    match which {
        Which::Add => emit(op, operands, i32::wrapping_add),
        Which::Sub => emit(op, operands, i32::wrapping_sub),
        Which::Mul => emit(op, operands, i32::wrapping_mul),
    }
    Ok(())
}

fn quantised<T: Quantised>(op: &mut OpBuilder<'_>, which: Which, operands: &Operands) -> Lowered {
    let Operands { a, b, wide, .. } = operands;
    let out = op.output(0)?;
    let (low, high) = output_range(operands.activation, &out)?;
    let zp_out = out.zero_point;
    let finish = move |y: i32| T::from_i32(y.saturating_add(zp_out).clamp(low, high));
    match which {
        Which::Mul => {
            let multiplier = product_multiplier(a.scale, b.scale, out.scale);
            check_fraction(multiplier)?;
            let operands = [a, b].map(|it| (&it.shape, it.zero_point));
            let product = ProductOfBytes { multiplier, zero_point: zp_out, range: (low, high) };
            product.emit::<T>(op, operands, wide);
        }
        Which::Add | Which::Sub => {
            let sum = Sum::new(a, b, &out, matches!(which, Which::Sub))?;
            let walks = [a, b].map(|operand| Walk::of(&operand.shape, &operands.wide));
            let bytes = [a, b].map(|t| Bytes::new(T::TO_UNSIGNED, t.zero_point));
            let range = (low, high);
            let add = Add::new(op.isa(), bytes, [sum.a, sum.b], sum.output, zp_out, range);
            let label = plain("add_i8", &operands.wide, operands.wide.elements() as u64);
            let label = Label { form: add.isa(), ..label };
            if let [Some(of_a), Some(of_b)] = walks {
                let add = Arc::new(add);
                let combine = Arc::clone(&add);
                let is_alike = a.shape == b.shape;
                let is_one_to_one = [of_a, of_b] == [Walk::Along; 2];
                op.emit(label, move |io| {
                    let (a, b, out) = arguments::<u8>(&io);
                    if is_one_to_one {
                        let inputs = [a, b].map(|rows| Along { rows, from: 0, moves: true });
                        return each_span(out.len(), inputs, out, 0, |[a, b], out| {
                            add.compute(a, b, out)
                        });
                    }
                    each_block([(a, of_a), (b, of_b)], out, |a, b, out| add.compute(a, b, out))
                });
                op.in_place(&[0, 1]);
                op.rows(&EACH);
                if is_alike {
                    op.join_sum(Arc::new(move |a, b, to| {
                        combine.compute(In::new(a), In::new(b), Out::new(to))
                    }));
                }
                return Ok(());
            }
            if let Some(planes) = Planes::of([&a.shape, &b.shape], &operands.wide) {
                op.emit(label, move |io| {
                    let inputs = [io.input::<u8>(0), io.input::<u8>(1)];
                    planes.each(inputs, io.output::<u8>(0), |a, b, out| add.compute(a, b, out))
                });
                return Ok(());
            }
            emit::<T>(op, operands, move |a, b| finish(sum.apply(a.to_i32(), b.to_i32())));
        }
    }
    Ok(())
}

/// Adds the step of the squared differences of bytes, inputs 0 and 1, which are walked so.
pub(super) fn emit_squared_difference(
    op: &mut OpBuilder<'_>,
    square: SquaredDifference,
    [of_a, of_b]: [Walk; 2],
    wide: &Shape,
) {
    let label = plain("squared_difference_i8", wide, wide.elements() as u64);
    op.emit(Label { form: square.isa(), ..label }, move |io| {
        let (a, b, out) = arguments::<u8>(&io);
        each_block([(a, of_a), (b, of_b)], out, |a, b, out| square.compute(a, b, out))
    });
    op.in_place(&[0, 1]);
    op.rows(&EACH);
}

/// What becomes of products of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProductOfBytes {
    /// Below 1.
    pub(super) multiplier: Multiplier,
    /// The result's.
    pub(super) zero_point: i32,
    /// The range of stored results.
    pub(super) range: (i32, i32),
}

impl ProductOfBytes {
    /// Adds the step of inputs 0 and 1, which have these shapes and zero points.
    pub(super) fn emit<T: Quantised>(
        self,
        op: &mut OpBuilder<'_>,
        operands: [(&Shape, i32); 2],
        wide: &Shape,
    ) {
        let bytes = operands.map(|(_, zero_point)| Bytes::new(T::TO_UNSIGNED, zero_point));
        let Self { multiplier, zero_point, range } = self;
        let mul = Arc::new(Mul::new(op.isa(), bytes, multiplier, zero_point, range));
        let combine = Arc::clone(&mul);
        let label = plain("mul_i8", wide, wide.elements() as u64);
        let label = Label { form: mul.isa(), ..label };
        if wide.contains(&0) {
            return op.emit(label, |_| Ok(()));
        }
        let [a, b] = operands.map(|(shape, _)| shape);
        let broadcast = Broadcast::new(wide, a, b);
        let walks = [a, b].map(|shape| Walk::of(shape, wide));
        // A call for each short row would take longer than writing its element down so often.
        let is_stretched = walks.iter().any(|walk| matches!(walk, Some(Walk::Stretched(..128))));
        op.emit(label, move |io| {
            let (a, b, out) = arguments::<u8>(&io);
            if let ([Some(of_a), Some(of_b)], true) = (walks, is_stretched) {
                let operands = [(a, of_a), (b, of_b)];
                return each_block(operands, out, |a, b, out| mul.compute(a, b, out));
            }
            broadcast.each_row(a, b, out, |a, b, out| mul.compute(a, b, out))
        });
        op.in_place(&[0, 1]);
        op.rows(&EACH);
        if a == b {
            op.join_sum(Arc::new(move |a, b, to| {
                combine.compute(In::new(a), In::new(b), Out::new(to))
            }));
        }
    }
}

/// ADD and SUB bring both operands to a common scale with 20 more bits, and the sum to that of the
/// output.
#[derive(Clone, Copy, Debug)]
struct Sum {
    zero_points: (i32, i32),
    a: Multiplier,
    b: Multiplier,
    output: Multiplier,
}

impl Sum {
    fn new(a: &Tensor, b: &Tensor, output: &Tensor, subtract: bool) -> Result<Self, OpError> {
        let (scale_a, scale_b) = (f64::from(a.scale), f64::from(b.scale));
        let twice = 2.0 * scale_a.max(scale_b);
        let first = Multiplier::new(scale_a / twice);
        let mut second = Multiplier::new(scale_b / twice);
        let last = Multiplier::new(twice / (f64::from(1 << 20) * f64::from(output.scale)));
        for m in [first, second, last] {
            check_fraction(m)?;
        }
        if subtract {
            second.fraction = -second.fraction;
        }
        let zero_points = (a.zero_point, b.zero_point);
        Ok(Self { zero_points, a: first, b: second, output: last })
    }

    #[inline(always)]
    fn apply(&self, a: i32, b: i32) -> i32 {
        let scale = |x: i32, m: Multiplier| rdbpot(srdhm(x << 20, m.fraction), -m.shift);
        let a = scale(a - self.zero_points.0, self.a);
        let b = scale(b - self.zero_points.1, self.b);
        rdbpot(srdhm(a + b, self.output.fraction), -self.output.shift)
    }
}

/// The reference computes these with multipliers below 1 alone.
fn check_fraction(m: Multiplier) -> Result<(), OpError> {
    if m.shift <= 0 {
        return Ok(());
    }
    Err(OpError::rule(format!("the scales give a multiplier of {m:?}, which is not below 1")))
}

fn emit<T: Element>(
    op: &mut OpBuilder<'_>,
    operands: &Operands,
    each: impl Fn(T, T) -> T + Send + Sync + 'static,
) {
    let Operands { a, b, wide, .. } = operands;
    let broadcast = Broadcast::new(wide, &a.shape, &b.shape);
    let label = compiled(op.isa(), "binary", wide, wide.elements() as u64);
    emit_zip(op, label, broadcast, each);
    op.in_place(&[0, 1]);
    op.rows(&EACH);
}

/// Two rows of numbers and where what is made of them goes.
type Arguments<'a, T> = (Rows<In<'a, T>>, Rows<In<'a, T>>, Rows<Out<'a, T>>);

fn arguments<'a, T: Element>(io: &Io<'a>) -> Arguments<'a, T> {
    (io.input_rows(0), io.input_rows(1), io.output_rows(0))
}
