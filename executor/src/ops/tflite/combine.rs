//! Numbers of any type combined two at a time, without scales: what STABLEHLO's operators do.

use half::f16;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Shape, poll};

use super::arg::{ElementKind, OperatorCall, by_kind, refused};
use crate::lowering::Lowered;
use crate::ops::broadcast::{Broadcast, emit_zip};

/// A combination of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combination {
    /// The second.
    Replace,
    Add,
    Multiply,
    Minimum,
    Maximum,
    /// 1 where both are not 0.
    All,
    /// 1 where one is not 0.
    Any,
}

impl Combination {
    /// The one with this number among the schema's `ReduceWindowFunction`; 0 is the second number.
    pub(super) fn of(number: i32) -> Result<Self, OpError> {
        Ok(match number {
            0 => Self::Replace,
            1 => Self::Add,
            2 => Self::Multiply,
            3 => Self::Minimum,
            4 => Self::Maximum,
            5 => Self::All,
            6 => Self::Any,
            number => return Err(OpError::rule(format!("there is no combination {number}"))),
        })
    }
}

/// A number that is combined with others.
pub(super) trait Number: Element {
    /// Both combined; integers wrap.
    fn with(self, how: Combination, other: Self) -> Self;
}

macro_rules! number {
    ($($kind:ty: $zero:expr, $one:expr, $add:expr, $multiply:expr;)*) => {$(
        impl Number for $kind {
            #[inline(always)]
            fn with(self, how: Combination, other: Self) -> Self {
                let truth = |holds: bool| if holds { $one } else { $zero };
                match how {
                    Combination::Replace => other,
                    Combination::Add => $add(self, other),
                    Combination::Multiply => $multiply(self, other),
                    Combination::Minimum if other < self => other,
                    Combination::Maximum if self < other => other,
                    Combination::Minimum | Combination::Maximum => self,
                    Combination::All => truth(self != $zero && other != $zero),
                    Combination::Any => truth(self != $zero || other != $zero),
                }
            }
        }
    )*};
    (floats $($kind:ty: $zero:expr, $one:expr;)*) => {
        number! {$($kind: $zero, $one, |a, b| a + b, |a, b| a * b;)*}
    };
    (integers $($kind:ty),*) => {
        number! {$($kind: 0, 1, Self::wrapping_add, Self::wrapping_mul;)*}
    };
}
number!(floats f16: Self::ZERO, Self::ONE; f32: 0.0, 1.0; f64: 0.0, 1.0;);
number!(integers i8, u8, i16, u16, i32, u32, i64, u64);

/// What code that walks over numbers of any type does with them where it stands: that alone is
/// compiled for each type.
pub(super) type Fold = fn(Combination, In<'_, u8>, Out<'_, u8>);

/// Combines what is written with the one number that is read, in this order.
pub(super) fn fold_behind<T: Number>(how: Combination, one: In<'_, u8>, to: Out<'_, u8>) {
    let (one, to) = (one.cast::<T>(), to.cast::<T>());
    to.set(0, to.as_in().get(0).with(how, one.get(0)));
}

/// Numbers that are read one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progression {
    pub(super) first: usize,
    /// From one to the next.
    pub(super) step: usize,
    pub(super) count: usize,
}

/// As [`Fold`], of several numbers.
pub(super) type FoldMany = fn(Combination, In<'_, u8>, Progression, Out<'_, u8>);

/// Combines numbers that are read with the one that is written, in this order: of what is no
/// number, the other is kept.
pub(super) fn fold_many<T: Number>(
    how: Combination,
    from: In<'_, u8>,
    run: Progression,
    to: Out<'_, u8>,
) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    let each = |sum, at| from.get(run.first + at * run.step).with(how, sum);
    to.set(0, (0..run.count).fold(to.as_in().get(0), each));
}

/// Each element of one tensor combined with that of another; their shapes broadcast. A sum of BOOL
/// says whether any holds, a product whether all do.
pub(super) fn elements(call: &mut OperatorCall<'_, '_>, how: Combination) -> Lowered {
    let (a, b) = (call.arg(0)?, call.arg(1)?);
    a.same_kind(&b)?;
    call.same(&a, 0)?;
    let shape = a.shape.broadcast(&b.shape)?;
    let shape = call.set(0, &shape)?;
    let how = match (a.kind, how) {
        (ElementKind::Bool, Combination::Add | Combination::Maximum) => Combination::Any,
        (ElementKind::Bool, Combination::Multiply | Combination::Minimum) => Combination::All,
        (_, how) => how,
    };
    let (label, walk) = (call.label(&shape), Broadcast::new(&shape, &a.shape, &b.shape));
    by_kind!(
        a.kind,
        [Bool u8, F16 f16, F32 f32, F64 f64, I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64],
        T => emit_zip(call, label, walk, move |a: T, b: T| a.with(how, b))
    );
    Ok(())
}

/// A combination of the bits of two integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitCombination {
    And,
    /// The first moved up by as many places as the second says, of 32; what falls off is lost.
    ShiftLeft,
}

/// Each integer, or BOOL, of one tensor combined with that of another of its shape. What is shifted
/// has 32 bits at the most.
pub(super) fn bits(call: &mut OperatorCall<'_, '_>, how: BitCombination) -> Lowered {
    let (a, b) = (call.arg(0)?, call.arg(1)?);
    a.same_kind(&b)?;
    call.same(&a, 0)?;
    if a.shape != b.shape {
        return Err(OpError::rule(format!("{:?} beside {:?}", b.shape, a.shape)).into());
    }
    let extents = a.shape.to_vec();
    let shape = call.set(0, &extents)?;
    match how {
        BitCombination::And => by_kind!(
            a.kind,
            [Bool u8, I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64],
            T => each_pair::<T>(call, &shape, |a, b| a & b)
        ),
        BitCombination::ShiftLeft => match a.kind {
            ElementKind::I8 => each_pair::<i8>(call, &shape, |a, b| low_8(shifted(a, b))),
            ElementKind::I16 => each_pair::<i16>(call, &shape, |a, b| low_16(shifted(a, b))),
            ElementKind::I32 => each_pair::<i32>(call, &shape, shifted),
            kind => Err(refused(0, kind).into()),
        },
    }
}

fn shifted<T: Into<i32>>(a: T, b: T) -> i32 {
    a.into().wrapping_shl(b.into().cast_unsigned())
}

#[expect(clippy::cast_possible_truncation, reason = "what falls off is lost")]
fn low_8(x: i32) -> i8 {
    x as i8
}

#[expect(clippy::cast_possible_truncation, reason = "what falls off is lost")]
fn low_16(x: i32) -> i16 {
    x as i16
}

fn each_pair<T: Element>(
    call: &mut OperatorCall<'_, '_>,
    shape: &Shape,
    combine: fn(T, T) -> T,
) -> Lowered {
    call.step(shape, move |io| {
        let (a, b, to) = (io.input::<T>(0), io.input::<T>(1), io.output::<T>(0));
        for at in poll::each(0..to.len(), 2) {
            to.set(at, combine(a.get(at), b.get(at)));
        }
        Ok(())
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap() {
        assert_eq!(100i8.with(Combination::Add, 100), -56);
        assert_eq!(i64::MAX.with(Combination::Multiply, 2), -2);
    }

    #[test]
    fn bits_that_fall_off_are_lost() {
        assert_eq!(shifted(3i32, 5), 96);
        assert_eq!((low_8(shifted(65i8, 1)), low_16(shifted(-1i16, 15))), (-126, i16::MIN));
        assert_eq!(shifted(1i32, 33), 2);
    }

    #[test]
    fn what_is_no_number_stays_where_it_comes_first() {
        assert!(f32::NAN.with(Combination::Maximum, 1.0).is_nan());
        assert!((1.0f32).with(Combination::Maximum, f32::NAN).to_bits() == 1.0f32.to_bits());
        assert_eq!(f16::ONE.with(Combination::All, f16::ZERO), f16::ZERO);
    }
}
