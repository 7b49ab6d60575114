//! SELECT: one of two tensors, element by element. All three operands have one shape.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::tensor::quant::requantise;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Quantised, Tensor, poll};

use super::Op;
use super::support::{bad_kind, by_width, compiled, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static SELECT: Op = Op { lower };

/// Quantised operands are brought to the output's parameters.
///
/// Source: NNAPI `SELECT`, since HAL 1.2.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (condition, a, b) = (op.input(0)?, op.input(1)?, op.input(2)?);
    if condition.shape != a.shape || a.shape != b.shape || a.kind != b.kind {
        let what = format!(
            "condition of {:?}, {} of {:?} and {} of {:?}",
            condition.shape, a.kind, a.shape, b.kind, b.shape
        );
        return Err(OpError::rule(what).into());
    }
    op.set_output(0, a.shape.clone())?;
    match a.kind {
        OperandType::TensorQuant8Asymm => quantised::<u8>(op, &a, &b),
        OperandType::TensorQuant8AsymmSigned => quantised::<i8>(op, &a, &b),
        OperandType::TensorFloat32 | OperandType::TensorFloat16 | OperandType::TensorInt32 => {
            by_width!(a.kind, plainly(op))
        }
        other => Err(bad_kind(1, other).into()),
    }
}

fn plainly<T: Element>(op: &mut OpBuilder<'_>) -> Lowered {
    let (shape, isa) = (op.output(0)?.shape, op.isa());
    op.emit(compiled(isa, "select", &shape, 0), move |io: Io<'_>| {
        let (condition, a, b) = (io.input::<u8>(0), io.input::<T>(1), io.input::<T>(2));
        let output = io.output::<T>(0);
        in_chunks(output.len(), |part| {
            let values = [a, b].map(|of| of.slice(part.clone()));
            let condition = condition.slice(part.clone());
            let steps = [1; 3];
            isa.run(Select { condition, values, steps, output: output.slice(part) });
            Ok(())
        })
    });
    Ok(())
}

/// A row of elements of one of two, as a condition says for each.
pub(super) struct Select<'a, T> {
    pub(super) condition: In<'a, u8>,
    pub(super) values: [In<'a, T>; 2],
    /// Elements of the condition and of the values from one result to the next: 1, or 0 where the
    /// first stands for all.
    pub(super) steps: [usize; 3],
    pub(super) output: Out<'a, T>,
}

impl<T: Element> Loop for Select<'_, T> {
    #[inline(always)]
    fn run(self) {
        /// Elements at a time.
        const BLOCK: usize = 64;
        let Self { condition, values: [a, b], steps, output } = self;
        let whole = output.len() / BLOCK * BLOCK;
        for at in (0..whole).step_by(BLOCK) {
            let holds: [u8; BLOCK] = block(condition, steps[0], at);
            let (xs, ys): ([T; BLOCK], [T; BLOCK]) =
                (block(a, steps[1], at), block(b, steps[2], at));
            let mut chosen = [T::default(); BLOCK];
            let each = holds.iter().zip(&xs).zip(&ys);
            chosen.iter_mut().zip(each).for_each(|(to, ((&holds, &x), &y))| {
                *to = if holds != 0 { x } else { y };
            });
            output.set_block(at, chosen);
        }
        for at in whole..output.len() {
            let holds = condition.get(at * steps[0]) != 0;
            let value = if holds { a.get(at * steps[1]) } else { b.get(at * steps[2]) };
            output.set(at, value);
        }
    }
}

/// Elements from the one `at` on, or the first as often.
#[inline(always)]
fn block<T: Element, const N: usize>(of: In<'_, T>, step: usize, at: usize) -> [T; N] {
    if step == 0 { [of.get(0); N] } else { of.block(at) }
}

fn quantised<T: Quantised>(op: &mut OpBuilder<'_>, a: &Tensor, b: &Tensor) -> Lowered {
    let out = op.output(0)?;
    let parameters = |of: &Tensor| (of.scale.to_bits(), of.zero_point);
    if [a, b].iter().all(|of| parameters(of) == parameters(&out)) {
        return plainly::<T>(op);
    }
    let to_output = |from: &Tensor| {
        let (from, to) = ((from.scale, from.zero_point), (out.scale, out.zero_point));
        move |q: T| T::from_i32(requantise(q.to_i32(), from, to, T::MIN, T::MAX))
    };
    emit(op, to_output(a), to_output(b))
}

fn emit<T: Element>(
    op: &mut OpBuilder<'_>,
    of_a: impl Fn(T) -> T + Send + Sync + 'static,
    of_b: impl Fn(T) -> T + Send + Sync + 'static,
) -> Lowered {
    let shape = op.output(0)?.shape;
    op.emit(plain("select", &shape, 0), move |io: Io<'_>| {
        let condition = io.input::<u8>(0);
        let (a, b, output) = (io.input::<T>(1), io.input::<T>(2), io.output::<T>(0));
        for at in poll::each(0..output.len(), 4) {
            let value = if condition.get(at) != 0 { of_a(a.get(at)) } else { of_b(b.get(at)) };
            output.set(at, value);
        }
        Ok(())
    });
    Ok(())
}
