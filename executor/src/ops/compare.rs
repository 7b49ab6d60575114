//! Comparisons, and the logic of BOOL8.

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::tensor::{Element, OpError, Shape, Tensor};

use super::Op;
use super::broadcast::{Broadcast, emit_zip};
use super::byte_test::{self, Meaning};
use super::support::{EACH, bad_kind, compiled, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static EQUAL: Op = Op { lower: |op| lower(op, Test::Equal) };
pub(super) static NOT_EQUAL: Op = Op { lower: |op| lower(op, Test::NotEqual) };
pub(super) static LESS: Op = Op { lower: |op| lower(op, Test::Less) };
pub(super) static LESS_EQUAL: Op = Op { lower: |op| lower(op, Test::LessEqual) };
pub(super) static GREATER: Op = Op { lower: |op| lower(op, Test::Greater) };
pub(super) static GREATER_EQUAL: Op = Op { lower: |op| lower(op, Test::GreaterEqual) };
pub(super) static LOGICAL_AND: Op = Op { lower: |op| lower_logical(op, Logic::And) };
pub(super) static LOGICAL_OR: Op = Op { lower: |op| lower_logical(op, Logic::Or) };
pub(super) static LOGICAL_NOT: Op = Op { lower: lower_not };

/// What is asked of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A test without branches, which loops over elements become vectors with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holds {
    less: bool,
    equal: bool,
    greater: bool,
    /// True if the test holds where none of these does: NaN differs from everything.
    negated: bool,
}

impl Test {
    pub(super) fn holds(self) -> Holds {
        let [less, equal, greater, negated] = match self {
            Self::Equal => [false, true, false, false],
            Self::NotEqual => [false, true, false, true],
            Self::Less => [true, false, false, false],
            Self::LessEqual => [true, true, false, false],
            Self::Greater => [false, false, true, false],
            Self::GreaterEqual => [false, true, true, false],
        };
        Holds { less, equal, greater, negated }
    }
}

impl Holds {
    #[inline(always)]
    pub(super) fn of<T: PartialOrd + Copy>(self, a: T, b: T) -> bool {
        let Self { less, equal, greater, negated } = self;
        ((a < b) & less | (a == b) & equal | (a > b) & greater) ^ negated
    }
}

/// Quantised operands are compared as the real numbers they stand for, in `f32`.
///
/// Source: the NNAPI comparisons, since HAL 1.2; signed 8-bit since 1.3.
fn lower(op: &mut OpBuilder<'_>, test: Test) -> Lowered {
    let (a, b, wide) = operands(op)?;
    let holds = test.holds();
    match a.kind {
        OperandType::TensorFloat32 => {
            emit(op, &a, &b, &wide, move |a: f32, b| u8::from(holds.of(a, b)))
        }
        OperandType::TensorFloat16 => {
            emit(op, &a, &b, &wide, move |a: f16, b| u8::from(holds.of(a, b)))
        }
        OperandType::TensorInt32 => {
            emit(op, &a, &b, &wide, move |a: i32, b| u8::from(holds.of(a, b)))
        }
        OperandType::TensorBool8 => {
            let truth = Meaning::new(false, |x| f64::from(u8::from(x != 0)));
            emit_bytes(op, &wide, test, [(&a, truth), (&b, truth)])
        }
        OperandType::TensorQuant8Asymm => {
            emit_bytes(op, &wide, test, [&a, &b].map(|of| (of, meaning(of, false))))
        }
        OperandType::TensorQuant8AsymmSigned => {
            emit_bytes(op, &wide, test, [&a, &b].map(|of| (of, meaning(of, true))))
        }
        other => Err(bad_kind(0, other).into()),
    }
}

/// The real numbers that quantised bytes stand for.
#[expect(clippy::cast_precision_loss, reason = "nine bits")]
fn meaning(of: &Tensor, is_signed: bool) -> Meaning {
    let real = |q: i32| (q - of.zero_point) as f32 * of.scale;
    Meaning::new(is_signed, |q| f64::from(real(q)))
}

fn emit_bytes(
    op: &mut OpBuilder<'_>,
    wide: &Shape,
    test: Test,
    [(a, of_a), (b, of_b)]: [(&Tensor, Meaning); 2],
) -> Lowered {
    let broadcast = Broadcast::new(wide, &a.shape, &b.shape);
    let label = compiled(op.isa(), "compare", wide, 0);
    byte_test::emit(op, label, broadcast, test, &[of_a, of_b]);
    op.rows(&EACH);
    Ok(())
}

/// The logic of two truths.
#[derive(Clone, Copy, Debug)]
pub(super) enum Logic {
    And,
    Or,
}

impl Logic {
    /// The result as a function of bytes of which any but 0 is true: without a branch, which loops
    /// over elements become vectors with.
    pub(super) fn of_bytes(self) -> impl Fn(u8, u8) -> u8 + Copy + Send + Sync + 'static {
        let wanted = match self {
            Self::And => 2,
            Self::Or => 1,
        };
        move |a, b| u8::from(u8::from(a != 0) + u8::from(b != 0) >= wanted)
    }
}

/// Any byte but 0 is true.
///
/// Source: NNAPI `LOGICAL_AND`, `LOGICAL_OR`, since HAL 1.2.
fn lower_logical(op: &mut OpBuilder<'_>, logic: Logic) -> Lowered {
    let (a, b, wide) = operands(op)?;
    if a.kind != OperandType::TensorBool8 {
        return Err(bad_kind(0, a.kind).into());
    }
    emit(op, &a, &b, &wide, logic.of_bytes())
}

/// Source: NNAPI `LOGICAL_NOT`, since HAL 1.2.
fn lower_not(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    op.set_output(0, input.shape.clone())?;
    op.emit(plain("logical_not", &input.shape, 0), move |io: Io<'_>| {
        io.output::<u8>(0).fill(io.input::<u8>(0).iter().map(|x| u8::from(x == 0)));
        Ok(())
    });
    Ok(())
}

fn operands(op: &mut OpBuilder<'_>) -> Lowered<(Tensor, Tensor, Shape)> {
    let (a, b) = (op.input(0)?, op.input(1)?);
    if a.kind != b.kind {
        return Err(OpError::input(1, format!("is {} beside {}", b.kind, a.kind)).into());
    }
    let wide = a.shape.broadcast(&b.shape)?;
    op.set_output(0, wide.clone())?;
    Ok((a, b, wide))
}

fn emit<T: Element>(
    op: &mut OpBuilder<'_>,
    a: &Tensor,
    b: &Tensor,
    wide: &Shape,
    test: impl Fn(T, T) -> u8 + Send + Sync + 'static,
) -> Lowered {
    let broadcast = Broadcast::new(wide, &a.shape, &b.shape);
    let label = compiled(op.isa(), "compare", wide, 0);
    emit_zip(op, label, broadcast, test);
    op.rows(&EACH);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Test;

    #[test]
    fn tests_without_branches_are_those_of_numbers() {
        let numbers = [f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1.5, f32::INFINITY, f32::NAN];
        for (a, b) in numbers.iter().flat_map(|&a| numbers.map(|b| (a, b))) {
            for (test, want) in [
                (Test::Equal, a == b),
                (Test::NotEqual, a != b),
                (Test::Less, a < b),
                (Test::LessEqual, a <= b),
                (Test::Greater, a > b),
                (Test::GreaterEqual, a >= b),
            ] {
                assert_eq!(test.holds().of(a, b), want, "{test:?} of {a} and {b}");
            }
        }
    }
}
