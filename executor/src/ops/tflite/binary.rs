//! Operations on two tensors that broadcast to one shape.

use half::f16;
use nnburst_kernels::kernels::add_i8::{EXTRA_BITS_OF_SQUARES, SquaredDifference};
use nnburst_kernels::kernels::gemm_i8::Bytes;
use nnburst_kernels::kernels::{NO_CLAMP, binary_f32};
use nnburst_kernels::tensor::quant::fixed::Fixed as _;
use nnburst_kernels::tensor::quant::{BranchlessMultiplier, Multiplier, fixed, rdbpot, srdhm};
use nnburst_kernels::tensor::{Element, In, OpError, Out, Quantised as _};

use super::arg::{Activation, Arg, ElementKind, OperatorCall, by_kind, refused};
use super::math::{Stored, f32_of, shifted_right};
use crate::lowering::Lowered;
use crate::ops::broadcast::{Broadcast, RowsOfBytes, emit_rows_of_bytes, emit_zip};
use crate::ops::byte_blocks::Walk;
use crate::ops::byte_test::{self, Meaning};
use crate::ops::compare::{Logic, Test};
use crate::ops::elementwise::{ProductOfBytes, emit_squared_difference, real_binary};

/// Two inputs and the result, whose shape is set.
struct Pair {
    a: Arg,
    b: Arg,
    result: Arg,
}

impl Pair {
    fn walk(&self) -> Broadcast {
        Broadcast::new(&self.result.shape, &self.a.shape, &self.b.shape)
    }
}

fn pair(call: &mut OperatorCall<'_, '_>) -> Lowered<Pair> {
    let (a, b) = (call.arg(0)?, call.arg(1)?);
    a.same_kind(&b)?;
    let shape = a.shape.broadcast(&b.shape)?;
    let mut result = call.result(0)?;
    result.shape = call.set(0, &shape)?;
    Ok(Pair { a, b, result })
}

/// Adds a step that computes each element of the result from those of both inputs, in vectors.
fn emit<T: Element, U: Element>(
    call: &mut OperatorCall<'_, '_>,
    pair: &Pair,
    each: impl Fn(T, T) -> U + Send + Sync + 'static,
) {
    let (label, walk) = (call.label(&pair.result.shape), pair.walk());
    emit_zip(call, label, walk, each);
}

/// As [`emit`], of a function that refuses some values; element by element.
fn emit_checked<T: Element, U: Element>(
    call: &mut OperatorCall<'_, '_>,
    pair: &Pair,
    each: impl Fn(T, T) -> Result<U, &'static str> + Send + Sync + 'static,
) {
    let row = move |a: In<'_, u8>, b: In<'_, u8>, to: Out<'_, u8>| {
        let (a, b, to) = (a.cast::<T>(), b.cast::<T>(), to.cast::<U>());
        let (step_a, step_b) = (usize::from(a.len() > 1), usize::from(b.len() > 1));
        for at in 0..to.len() {
            to.set(at, each(a.get(at * step_a), b.get(at * step_b)).map_err(str::to_owned)?);
        }
        Ok(())
    };
    let (label, walk) = (call.label(&pair.result.shape), pair.walk());
    let sizes = [size_of::<T>(), size_of::<U>()];
    emit_rows_of_bytes(call, label, walk, RowsOfBytes { sizes, zips: false, row: Box::new(row) });
}

/// As [`emit`], of stored values that become stored values.
fn emit_stored(
    call: &mut OperatorCall<'_, '_>,
    pair: &Pair,
    each: impl Fn(i32, i32) -> i32 + Send + Sync + 'static,
) -> Lowered {
    by_kind!(pair.a.kind, [I8 i8, U8 u8, I16 i16], T => {
        emit::<T, T>(call, pair, move |a, b| T::stored(each(a.wide(), b.wide())));
    });
    Ok(())
}

/// The four operations of arithmetic that have a fused activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
}

pub(super) fn arithmetic(call: &mut OperatorCall<'_, '_>, which: Arithmetic) -> Lowered {
    let activation = call.activation(0)?;
    let pair = pair(call)?;
    pair.a.same_kind(&pair.result)?;
    match pair.a.kind {
        ElementKind::F32 => {
            let which = match which {
                Arithmetic::Add => binary_f32::Arithmetic::Add,
                Arithmetic::Sub => binary_f32::Arithmetic::Sub,
                Arithmetic::Mul => binary_f32::Arithmetic::Mul,
                Arithmetic::Div => binary_f32::Arithmetic::Div,
            };
            let shapes = [&pair.a.shape, &pair.b.shape];
            real_binary(call, which, shapes, &pair.result.shape, activation.real_range());
            Ok(())
        }
        ElementKind::I32 | ElementKind::I64 | ElementKind::U32 => {
            integers(call, &pair, which, activation)
        }
        ElementKind::I8 | ElementKind::U8 | ElementKind::I16 => match which {
            Arithmetic::Add | Arithmetic::Sub => sum(call, &pair, which, activation),
            Arithmetic::Mul => product(call, &pair, activation),
            Arithmetic::Div => quotient(call, &pair, activation),
        },
        ElementKind::C64 if which == Arithmetic::Mul && activation == Activation::None => {
            emit(call, &pair, complex_product);
            Ok(())
        }
        kind => Err(refused(0, kind).into()),
    }
}

/// The product of two pairs of a real and an imaginary part.
fn complex_product(a: u64, b: u64) -> u64 {
    let [a, b]: [[f32; 2]; 2] = [bytemuck::cast(a), bytemuck::cast(b)];
    bytemuck::cast([a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]])
}

fn integers(
    call: &mut OperatorCall<'_, '_>,
    pair: &Pair,
    which: Arithmetic,
    activation: Activation,
) -> Lowered {
    let (low, high) = match activation {
        Activation::Relu => (0, i64::MAX),
        Activation::ReluN1To1 => (-1, 1),
        Activation::Relu6 => (0, 6),
        _ => (i64::MIN, i64::MAX),
    };
    macro_rules! of {
        ($T:ty) => {{
            let low = <$T>::try_from(low).unwrap_or(<$T>::MIN);
            let high = <$T>::try_from(high).unwrap_or(<$T>::MAX);
            let clamp = move |x: $T| x.clamp(low, high);
            match which {
                Arithmetic::Add => emit(call, pair, move |a: $T, b| clamp(a.wrapping_add(b))),
                Arithmetic::Sub => emit(call, pair, move |a: $T, b| clamp(a.wrapping_sub(b))),
                Arithmetic::Mul => emit(call, pair, move |a: $T, b| clamp(a.wrapping_mul(b))),
                Arithmetic::Div => emit_checked(call, pair, move |a: $T, b| match b {
                    0 => Err("a division by 0"),
                    _ => Ok(clamp(a.wrapping_div(b))),
                }),
            }
        }};
    }
    match pair.a.kind {
        ElementKind::I64 => of!(i64),
        ElementKind::U32 => of!(u32),
        _ => of!(i32),
    }
    Ok(())
}

/// Sums and differences: both inputs are brought to a common scale with 20 bits to spare, 15 for
/// 16-bit values; those whose scales are powers of two, to the result's by shifts.
fn sum(
    call: &mut OperatorCall<'_, '_>,
    pair: &Pair,
    which: Arithmetic,
    activation: Activation,
) -> Lowered {
    let Pair { a, b, result } = pair;
    let is_16 = a.kind == ElementKind::I16;
    let (min, max) = result.activated(activation)?;
    if is_16 && call.flag(1)? && has_power_scales(pair) {
        return sum_of_powers(call, pair, which, (min, max));
    }
    let spare = if is_16 { 15 } else { 20 };
    let twice = 2.0 * f64::from(a.scale.max(b.scale));
    let rescaling = twice / (f64::from(1 << spare) * f64::from(result.scale));
    let to = Multiplier::new(rescaling);
    let [of_a, mut of_b] = [a, b].map(|it| Multiplier::new(f64::from(it.scale) / twice));
    if which == Arithmetic::Sub {
        of_b.fraction = -of_b.fraction;
    }
    let left = u32::try_from(to.shift).unwrap_or(0);
    let unshifted = Multiplier { shift: to.shift.min(0), ..to };
    let [to, of_a, of_b] = [unshifted, of_a, of_b].map(BranchlessMultiplier::from);
    let points = [a.zero_point, b.zero_point, result.zero_point];
    let sum = move |a: i32, b: i32| {
        let scaled = of_a.apply((a - points[0]) << spare);
        to.apply(scaled.wrapping_add(of_b.apply((b - points[1]) << spare)))
    };
    if left == 0 {
        return emit_stored(call, pair, move |a, b| {
            sum(a, b).wrapping_add(points[2]).clamp(min, max)
        });
    }
    // The interpreter shifts right by less than nothing, however large the multiplier is.
    let exponent = match i32::try_from(left) {
        Ok(left) if left < 31 => -left,
        _ => -exponent_of(rescaling),
    };
    emit_stored(call, pair, move |a, b| {
        shifted_right(sum(a, b), exponent).wrapping_add(points[2]).clamp(min, max)
    })
}

/// The exponent of a number as a fraction from a half to 1 times a power of two.
fn exponent_of(x: f64) -> i32 {
    i32::try_from((x.to_bits() >> 52) & 0x7ff).unwrap_or(0) - 1022
}

/// The exponent of a scale that is a power of two.
fn exponent(scale: f32) -> Option<i32> {
    let log = scale.log2();
    #[expect(clippy::cast_possible_truncation, reason = "between -150 and 128")]
    let rounded = log.round() as i32;
    ((log - f32_of(rounded)).abs() < 1e-3).then_some(rounded)
}

fn has_power_scales(pair: &Pair) -> bool {
    [&pair.a, &pair.b, &pair.result].iter().all(|it| exponent(it.scale).is_some())
}

fn sum_of_powers(
    call: &mut OperatorCall<'_, '_>,
    pair: &Pair,
    which: Arithmetic,
    range: (i32, i32),
) -> Lowered {
    let (min, max) = range;
    let of = |arg: &Arg| exponent(arg.scale).unwrap_or(0);
    let shifts = [of(&pair.a) - of(&pair.result), of(&pair.b) - of(&pair.result)];
    if shifts.iter().any(|&shift| shift > 0) {
        return Err(OpError::rule("an input's scale is greater than the result's").into());
    }
    emit_stored(call, pair, move |a, b| {
        let [a, b] = [(a, shifts[0]), (b, shifts[1])].map(|(x, shift)| rdbpot(x, -shift));
        let sum = if which == Arithmetic::Sub { a - b } else { a + b };
        sum.clamp(-32768, 32767).clamp(min, max)
    })
}

fn product(call: &mut OperatorCall<'_, '_>, pair: &Pair, activation: Activation) -> Lowered {
    let Pair { a, b, result } = pair;
    let (min, max) = result.activated(activation)?;
    // In single precision, as there: with 16 bits the last bit of it decides where a half is met.
    let multiplier = Multiplier::new(f64::from(a.scale * b.scale / result.scale));
    if multiplier.shift <= 0 && matches!(a.kind, ElementKind::I8 | ElementKind::U8) {
        let of_bytes =
            ProductOfBytes { multiplier, zero_point: result.zero_point, range: (min, max) };
        let operands = [a, b].map(|it| (&it.shape, it.zero_point));
        by_kind!(a.kind, [I8 i8, U8 u8], T => of_bytes.emit::<T>(call, operands, &result.shape));
        return Ok(());
    }
    let multiplier = BranchlessMultiplier::from(multiplier);
    let points = [a.zero_point, b.zero_point, result.zero_point];
    emit_stored(call, pair, move |a, b| {
        let product = (a - points[0]).wrapping_mul(b - points[1]);
        multiplier.apply(product).wrapping_add(points[2]).clamp(min, max)
    })
}

/// Quotients by a fixed-point reciprocal of the divisor.
fn quotient(call: &mut OperatorCall<'_, '_>, pair: &Pair, activation: Activation) -> Lowered {
    let Pair { a, b, result } = pair;
    let (min, max) = result.activated(activation)?;
    // In single precision, as there.
    let to = Multiplier::new(f64::from(a.scale / (b.scale * result.scale)));
    let points = [a.zero_point, b.zero_point, result.zero_point];
    let quotient = move |a: i32, b: i32| {
        let (a, b) = (a - points[0], b - points[1]);
        if b == 0 {
            return Err("a division by 0");
        }
        let (inverse, reciprocal_shift) = reciprocal(b.unsigned_abs());
        let inverse = if b < 0 { -inverse } else { inverse };
        // As many bits as the dividend has to spare.
        let spare = i32::try_from(a.unsigned_abs().leading_zeros()).unwrap_or(0) - 1;
        let spare = if a < 0 && a.unsigned_abs().is_power_of_two() { spare + 1 } else { spare };
        let unscaled = srdhm(a << spare, inverse);
        let total =
            Multiplier { fraction: to.fraction, shift: to.shift - reciprocal_shift - spare };
        let left = u32::try_from(total.shift).unwrap_or(0);
        let scaled = srdhm(unscaled.wrapping_shl(left), total.fraction);
        let shifted = shifted_right(scaled, (-total.shift).max(0));
        Ok(shifted.wrapping_add(points[2]).clamp(min, max))
    };
    by_kind!(pair.a.kind, [I8 i8, U8 u8, I16 i16], T => {
        emit_checked::<T, T>(call, pair, move |a, b| quotient(a.wide(), b.wide()).map(T::stored));
    });
    Ok(())
}

/// `2^31 / x` as a fraction of 31 bits, and the bits of `x` above one.
fn reciprocal(x: u32) -> (i32, i32) {
    let headroom = x.leading_zeros();
    let bits = 31 - i32::try_from(headroom).unwrap_or(0);
    let above_one = (x << headroom).wrapping_sub(1 << 31);
    (fixed::one_over_one_plus(i32::wrap(above_one.cast_signed())), bits)
}

/// The operations of two tensors of one type that give that type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    Maximum,
    Minimum,
    Pow,
    FloorDiv,
    FloorMod,
    SquaredDifference,
    Atan2,
    Xor,
    RightShift,
}

pub(super) fn choice(call: &mut OperatorCall<'_, '_>, which: Choice) -> Lowered {
    let pair = pair(call)?;
    pair.a.same_kind(&pair.result)?;
    match pair.a.kind {
        ElementKind::F32 => real(call, &pair, which),
        ElementKind::F64 if matches!(which, Choice::Atan2) => {
            emit(call, &pair, f64::atan2);
            Ok(())
        }
        ElementKind::F16 if matches!(which, Choice::Atan2) => {
            emit(call, &pair, |y: f16, x: f16| f16::from_f32(f32::from(y).atan2(f32::from(x))));
            Ok(())
        }
        ElementKind::I8 if matches!(which, Choice::SquaredDifference) => squared(call, &pair),
        ElementKind::Bool if matches!(which, Choice::Xor) => {
            emit(call, &pair, |a: u8, b| u8::from((a != 0) != (b != 0)));
            Ok(())
        }
        _ => whole(call, &pair, which),
    }
}

fn real(call: &mut OperatorCall<'_, '_>, pair: &Pair, which: Choice) -> Lowered {
    use binary_f32::Arithmetic;
    let arithmetic = match which {
        Choice::Maximum => Some(Arithmetic::Maximum),
        Choice::Minimum => Some(Arithmetic::Minimum),
        Choice::SquaredDifference => Some(Arithmetic::SquaredDifference),
        _ => None,
    };
    if let Some(arithmetic) = arithmetic {
        let shapes = [&pair.a.shape, &pair.b.shape];
        real_binary(call, arithmetic, shapes, &pair.result.shape, NO_CLAMP);
        return Ok(());
    }
    match which {
        Choice::Pow => emit(call, pair, f32::powf),
        Choice::FloorDiv => emit(call, pair, |a: f32, b| (a / b).floor()),
        Choice::FloorMod => emit(call, pair, |a: f32, b| {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }),
        Choice::Atan2 => emit(call, pair, f32::atan2),
        _ => return Err(refused(0, ElementKind::F32).into()),
    }
    Ok(())
}

fn whole(call: &mut OperatorCall<'_, '_>, pair: &Pair, which: Choice) -> Lowered {
    macro_rules! of {
        ($T:ty) => {
            match which {
                Choice::Maximum => emit(call, pair, |a: $T, b| a.max(b)),
                Choice::Minimum => emit(call, pair, |a: $T, b| a.min(b)),
                _ => emit_checked(call, pair, move |a: $T, b: $T| {
                    let is_under = |rest: $T| rest != 0 && (rest ^ b) < <$T>::default();
                    Ok(match which {
                        Choice::FloorDiv | Choice::FloorMod if b == 0 => {
                            return Err("a division by 0");
                        }
                        Choice::FloorDiv => {
                            let under = <$T>::from(is_under(a.wrapping_rem(b)));
                            a.wrapping_div(b).wrapping_sub(under)
                        }
                        Choice::FloorMod => {
                            let rest = a.wrapping_rem(b);
                            if is_under(rest) { rest.wrapping_add(b) } else { rest }
                        }
                        Choice::Pow => {
                            let power = u32::try_from(b).map_err(|_| "a negative power")?;
                            a.wrapping_pow(power)
                        }
                        Choice::SquaredDifference => {
                            let difference = a.wrapping_sub(b);
                            difference.wrapping_mul(difference)
                        }
                        Choice::Xor => a ^ b,
                        Choice::RightShift => {
                            let most = <$T>::try_from(<$T>::BITS - 1).unwrap_or(0);
                            let shift = u32::try_from(b.clamp(<$T>::default(), most)).unwrap_or(0);
                            a >> shift
                        }
                        Choice::Maximum | Choice::Minimum | Choice::Atan2 => {
                            return Err("not an operation of integers");
                        }
                    })
                }),
            }
        };
    }
    match pair.a.kind {
        ElementKind::I8 => of!(i8),
        ElementKind::U8 => of!(u8),
        ElementKind::I16 => of!(i16),
        ElementKind::U16 => of!(u16),
        ElementKind::I32 => of!(i32),
        ElementKind::U32 => of!(u32),
        ElementKind::I64 => of!(i64),
        kind => return Err(refused(0, kind).into()),
    }
    Ok(())
}

/// The squared difference of 8-bit values: both at twice the greater scale, with 7 bits to spare.
fn squared(call: &mut OperatorCall<'_, '_>, pair: &Pair) -> Lowered {
    const SPARE: i32 = EXTRA_BITS_OF_SQUARES;
    let Pair { a, b, result } = pair;
    let (min, max) = result.kind.range();
    let twice = 2.0 * f64::from(a.scale.max(b.scale));
    let [of_a, of_b] = [a, b].map(|it| Multiplier::new(f64::from(it.scale) / twice));
    let whole = f64::from(1 << (2 * SPARE)) * f64::from(result.scale);
    let to = Multiplier::new(twice * twice / whole);
    let points = [a.zero_point, b.zero_point, result.zero_point];
    let walks = [a, b].map(|it| Walk::of(&it.shape, &result.shape));
    // Vectors shift left by less than the 32 bits that a result of next to no scale takes.
    if let ([Some(walk_a), Some(walk_b)], ..=0) = (walks, to.shift) {
        let bytes = [a, b].map(|it| Bytes::new(i8::TO_UNSIGNED, it.zero_point));
        let (isa, range) = (call.isa(), (min, max));
        let square = SquaredDifference::new(isa, bytes, [of_a, of_b], to, points[2], range);
        emit_squared_difference(call, square, [walk_a, walk_b], &result.shape);
        return Ok(());
    }
    let [of_a, of_b, to] = [of_a, of_b, to].map(BranchlessMultiplier::from);
    emit_stored(call, pair, move |a, b| {
        let a = of_a.apply((a - points[0]) << SPARE);
        let difference = a - of_b.apply((b - points[1]) << SPARE);
        let square = difference.wrapping_mul(difference);
        to.apply(square).wrapping_add(points[2]).clamp(min, max)
    })
}

/// Values of 8 bits, which may have different scales, are compared as 256ths of one. So are those
/// of 16 bits whether they are equal; which of these is less, TFLite's kernels tell by what is
/// stored.
pub(super) fn compare(call: &mut OperatorCall<'_, '_>, test: Test) -> Lowered {
    let pair = pair(call)?;
    if pair.result.kind != ElementKind::Bool {
        return Err(OpError::output(0, "is not of booleans").into());
    }
    let holds = test.holds();
    let has_scales = pair.a.scale > 0.0 && pair.b.scale > 0.0;
    match pair.a.kind {
        kind @ (ElementKind::I8 | ElementKind::U8 | ElementKind::Bool) => {
            let operands = [&pair.a, &pair.b].map(|it| {
                let scaled = scaled(it);
                Meaning::new(kind == ElementKind::I8, |x| match kind {
                    ElementKind::Bool => f64::from(x),
                    _ => f64::from(scaled(x)),
                })
            });
            let (label, walk) = (call.label(&pair.result.shape), pair.walk());
            byte_test::emit(call, label, walk, test, &operands);
        }
        ElementKind::I16 if has_scales && matches!(test, Test::Equal | Test::NotEqual) => {
            let (a, b) = (scaled(&pair.a), scaled(&pair.b));
            emit(call, &pair, move |x: i16, y: i16| {
                u8::from(holds.of(a(i32::from(x)), b(i32::from(y))))
            });
        }
        kind => by_kind!(
            kind,
            [F32 f32, F64 f64, I16 i16, I32 i32, U32 u32, I64 i64, U64 u64],
            T => emit(call, &pair, move |a: T, b: T| u8::from(holds.of(a, b)))
        ),
    }
    Ok(())
}

/// Stored values as 256ths of one.
fn scaled(of: &Arg) -> impl Fn(i32) -> i32 + Copy + Send + Sync + 'static {
    const SPARE: i32 = 8;
    let (multiplier, zero_point) = (Multiplier::new(f64::from(of.scale)), of.zero_point);
    move |x| multiplier.apply((x - zero_point) << SPARE)
}

pub(super) fn logical(call: &mut OperatorCall<'_, '_>, logic: Logic) -> Lowered {
    let pair = pair(call)?;
    if pair.a.kind != ElementKind::Bool {
        return Err(refused(0, pair.a.kind).into());
    }
    pair.a.same_kind(&pair.result)?;
    emit(call, &pair, logic.of_bytes());
    Ok(())
}
