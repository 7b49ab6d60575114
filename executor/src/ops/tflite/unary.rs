//! Operations on each element of a tensor.

use half::f16;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::kernels::transcendental_f32::Function;
use nnburst_kernels::tensor::quant::{Multiplier, fixed, round_half_away};
use nnburst_kernels::tensor::{Element, OpError, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall, by_kind, refused};
use super::convert::each_integer;
use super::math::{Stored, cut_i32, f32_of, low, table};
use super::tables::{between, wide_table};
use crate::lowering::Lowered;
use crate::ops::unary::emit_map;

/// Input and result, of one type and shape.
pub(super) fn pair(call: &mut OperatorCall<'_, '_>) -> Lowered<(Arg, Arg)> {
    let input = call.arg(0)?;
    let mut result = call.result(0)?;
    input.same_kind(&result)?;
    let extents = input.shape.to_vec();
    result.shape = call.set(0, &extents)?;
    Ok((input, result))
}

pub(super) fn each<T: Element, U: Element>(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    f: impl Fn(T) -> U + Send + Sync + 'static,
) -> Lowered {
    call.step(&input.shape, move |io| {
        let (from, to) = (io.input::<T>(0), io.output::<U>(0));
        in_chunks(from.len().min(to.len()), |part| {
            let (from, to) = (from.slice(part.clone()), to.slice(part));
            for at in 0..from.len().min(to.len()) {
                to.set(at, f(from.get(at)));
            }
            Ok(())
        })
    });
    Ok(())
}

/// As [`each`], of a function that the compiler makes vectors of.
pub(super) fn each_in_vectors<T: Element, U: Element>(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    f: impl Fn(T) -> U + Send + Sync + 'static,
) -> Lowered {
    let isa = call.isa();
    call.step(&input.shape, move |io| {
        let (from, to) = (io.input::<T>(0), io.output::<U>(0));
        in_chunks(from.len().min(to.len()), |part| {
            map(isa, from.slice(part.clone()), to.slice(part), &f);
            Ok(())
        })
    });
    Ok(())
}

/// A function of real numbers: computed in FLOAT32, by a table where 8 bits stand for them, and
/// between 513 points of a table where 16 bits do.
pub(super) fn real(call: &mut OperatorCall<'_, '_>, f: fn(f32) -> f32) -> Lowered {
    let (input, result) = pair(call)?;
    input.same_kind(&result)?;
    match input.kind {
        ElementKind::F32 => each(call, &input, f),
        ElementKind::F16 => each(call, &input, move |x: f16| f16::from_f32(f(x.to_f32()))),
        ElementKind::F64 => each(call, &input, move |x: f64| f64::from(f(super::math::narrow(x)))),
        ElementKind::I8 | ElementKind::U8 => {
            call.look_up(&input.shape, table(&input, &result, f));
            Ok(())
        }
        ElementKind::I16 => {
            let to = (result.scale, result.zero_point);
            let table = wide_table((input.scale, input.zero_point), to, f);
            each(call, &input, move |x: i16| between(&table, x))
        }
        kind => Err(refused(0, kind).into()),
    }
}

pub(super) fn ceil(call: &mut OperatorCall<'_, '_>) -> Lowered {
    match call.arg(0)?.kind {
        ElementKind::F32 => in_vectors(call, |x: f32| x.ceil()),
        _ => real(call, f32::ceil),
    }
}

pub(super) fn round(call: &mut OperatorCall<'_, '_>) -> Lowered {
    match call.arg(0)?.kind {
        ElementKind::F32 => in_vectors(call, rounded),
        _ => real(call, rounded),
    }
}

fn in_vectors(
    call: &mut OperatorCall<'_, '_>,
    f: impl Fn(f32) -> f32 + Send + Sync + 'static,
) -> Lowered {
    let (input, _) = pair(call)?;
    each_in_vectors(call, &input, f)
}

/// To the nearest integer, halves to the even one. What becomes 0 from below has no sign.
#[inline(always)]
fn rounded(x: f32) -> f32 {
    let floor = x.floor();
    let (rest, half) = (x - floor, floor * 0.5);
    let is_even = half.floor() == half;
    if rest < 0.5 || (rest == 0.5 && is_even) { floor } else { floor + 1.0 }
}

pub(super) fn sign(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = pair(call)?;
    input.same_kind(&result)?;
    match input.kind {
        ElementKind::F32 => each(call, &input, |x: f32| if x == 0.0 { 0.0 } else { x.signum() }),
        ElementKind::F64 => each(call, &input, |x: f64| if x == 0.0 { 0.0 } else { x.signum() }),
        ElementKind::I32 => each(call, &input, |x: i32| x.signum()),
        kind => Err(refused(0, kind).into()),
    }
}

pub(super) fn neg(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = pair(call)?;
    input.same_kind(&result)?;
    match input.kind {
        ElementKind::F32 => each_in_vectors(call, &input, |x: f32| -x),
        ElementKind::I32 => each(call, &input, i32::wrapping_neg),
        ElementKind::I64 => each(call, &input, i64::wrapping_neg),
        // What is stored, whatever the scales.
        ElementKind::I8 => each(call, &input, i8::wrapping_neg),
        ElementKind::I16 => each(call, &input, i16::wrapping_neg),
        kind => Err(refused(0, kind).into()),
    }
}

pub(super) fn abs(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = pair(call)?;
    input.same_kind(&result)?;
    match input.kind {
        ElementKind::F32 => each(call, &input, f32::abs),
        ElementKind::I32 => each(call, &input, i32::wrapping_abs),
        ElementKind::I8 | ElementKind::I16 => {
            let (min, max) = result.kind.range();
            let points = (input.zero_point, result.zero_point);
            let same = input.scale.to_bits() == result.scale.to_bits();
            let to = Multiplier::new(f64::from(input.scale / result.scale));
            each_integer(call, &input, input.kind, move |x| {
                let size = (x - points.0).abs();
                let size = if same { size } else { to.apply(size) };
                size.saturating_add(points.1).clamp(min, max)
            })
        }
        kind => Err(refused(0, kind).into()),
    }
}

pub(super) fn square(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, _) = pair(call)?;
    match input.kind {
        ElementKind::F32 => each_in_vectors(call, &input, |x: f32| x * x),
        _ => real(call, |x| x * x),
    }
}

pub(super) fn logical_not(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, _) = pair(call)?;
    if input.kind != ElementKind::Bool {
        return Err(refused(0, input.kind).into());
    }
    each(call, &input, |x: u8| u8::from(x == 0))
}

/// The natural logarithm; of stored values that are not positive the least.
pub(super) fn log(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = pair(call)?;
    if !matches!(input.kind, ElementKind::I8 | ElementKind::I16) {
        return real(call, f32::ln);
    }
    let (min, _) = result.kind.range();
    let least = result.scale * f32_of(min - result.zero_point);
    let f = move |x: f32| if x <= 0.0 { least } else { x.ln() };
    if input.kind == ElementKind::I16 {
        let to = (result.scale, result.zero_point);
        let table = wide_table((input.scale, input.zero_point), to, f);
        return each(call, &input, move |x: i16| between(&table, x));
    }
    let table = table(&input, &result, f);
    each(call, &input, move |x: u8| table[usize::from(x)])
}

/// The square root; of stored values it is cut towards zero, not rounded.
pub(super) fn sqrt(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = pair(call)?;
    if !matches!(input.kind, ElementKind::I8 | ElementKind::I16) {
        return real(call, f32::sqrt);
    }
    let (min, max) = result.kind.range();
    let points = (input.zero_point, result.zero_point);
    let scales = (input.scale, result.scale);
    each_integer(call, &input, input.kind, move |x| {
        let root = (scales.0 * f32_of(x - points.0)).sqrt();
        cut_i32(root / scales.1).saturating_add(points.1).clamp(min, max)
    })
}

/// `1 / sqrt(x)`; of quantised values by fixed-point numbers.
pub(super) fn rsqrt(call: &mut OperatorCall<'_, '_>) -> Lowered {
    const SPARE: i32 = 20;
    let (input, result) = pair(call)?;
    if input.kind == ElementKind::I16 {
        // What is not positive gives the greatest value.
        let most = result.scale * f32_of(32767 - result.zero_point);
        let to = (result.scale, result.zero_point);
        let table = wide_table((input.scale, input.zero_point), to, |x| {
            if x <= 0.0 { most } else { 1.0 / x.sqrt() }
        });
        return each(call, &input, move |x: i16| between(&table, x));
    }
    if input.kind != ElementKind::I8 {
        return real_again(call, &input, &result, |x| 1.0 / x.sqrt());
    }
    let (min, max) = result.kind.range();
    let mut to = Multiplier::new(f64::from(1.0 / (input.scale.sqrt() * result.scale)));
    to.shift -= SPARE;
    let points = (input.zero_point, result.zero_point);
    each_integer(call, &input, input.kind, move |x| {
        let value = x - points.0;
        if value <= 0 {
            return max;
        }
        let (fraction, shift) = fixed::inverse_sqrt(value);
        let root = Multiplier { fraction, shift: shift + SPARE }.apply(1);
        to.apply(root).saturating_add(points.1).clamp(min, max)
    })
}

fn real_again(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    result: &Arg,
    f: fn(f32) -> f32,
) -> Lowered {
    input.same_kind(result)?;
    match input.kind {
        ElementKind::F32 => each(call, input, f),
        kind => Err(refused(0, kind).into()),
    }
}

/// The RELUs: of quantised values with the result's quantisation.
pub(super) fn relu(call: &mut OperatorCall<'_, '_>, activation: Activation) -> Lowered {
    let (input, result) = pair(call)?;
    input.same_kind(&result)?;
    if input.kind == ElementKind::F32 {
        let (low, high) = activation.real_range();
        return each_in_vectors(call, &input, move |x: f32| x.max(low).min(high));
    }
    let (min, max) = result.activated(activation)?;
    let to = Multiplier::new(f64::from(input.scale / result.scale));
    let points = (input.zero_point, result.zero_point);
    each_integer(call, &input, input.kind, move |x| {
        points.1.wrapping_add(to.apply(x - points.0)).clamp(min, max)
    })
}

pub(super) fn relu_0_to_1(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = pair(call)?;
    if input.kind == ElementKind::F32 {
        return each(call, &input, |x: f32| x.clamp(0.0, 1.0));
    }
    let (min, max) = result.kind.range();
    let stored = |real: f32| result.zero_point.saturating_add(round_half_away(real / result.scale));
    let (min, max) = (min.max(stored(0.0)), max.min(stored(1.0)));
    let to = Multiplier::new(f64::from(input.scale / result.scale));
    let points = (input.zero_point, result.zero_point);
    each_integer(call, &input, input.kind, move |x| {
        points.1.wrapping_add(to.apply(x - points.0)).clamp(min, max)
    })
}

/// LOGISTIC: of floats as the interpreter computes it, to the bit; of 16-bit values eight points to
/// each power, by a table of half of them.
pub(super) fn logistic(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, _) = pair(call)?;
    if input.kind == ElementKind::F32 {
        return emit_map(call, Function::SigmoidByTable);
    }
    match input.kind {
        ElementKind::F16 => {
            return each(call, &input, |x: f16| f16::from_f32(logistic_of(x.into())));
        }
        ElementKind::I16 => {}
        _ => return real(call, |x| 1.0 / (1.0 + (-x).exp())),
    }
    let table = points(Scale16::of(&input, 3), Scale16::logistic);
    each(call, &input, move |x: i16| table[place_of(x)])
}

/// That of a float, which is the exponential or 1 where the interpreter takes it for that.
fn logistic_of(x: f32) -> f32 {
    if x < -9.0 {
        x.exp()
    } else if x > 16.619_047 {
        1.0
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

pub(super) fn tanh(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, _) = pair(call)?;
    if input.kind != ElementKind::I16 {
        return real(call, f32::tanh);
    }
    let table = points(Scale16::of(&input, 4), Scale16::tanh);
    each(call, &input, move |x: i16| table[place_of(x)])
}

/// A function of every 16-bit value: 128 KiB, which are faster to look up than to compute.
fn points(scale: Scale16, f: fn(Scale16, i16) -> i16) -> Box<[i16]> {
    (i16::MIN..=i16::MAX).map(|x| f(scale, x)).collect()
}

fn place_of(x: i16) -> usize {
    usize::from(x.cast_unsigned() ^ 0x8000)
}

/// A multiplier that brings 16-bit values to the steps of a table of 256 points.
#[derive(Clone, Copy, Debug)]
struct Scale16 {
    multiplier: i64,
    shift: i32,
}

impl Scale16 {
    /// Scales that are powers of two down to `2^-12` need none; others get 16 bits of multiplier.
    fn of(input: &Arg, integer_bits: i32) -> Self {
        let log = input.scale.log2();
        let rounded = round_half_away(log);
        let is_power = (log - f32_of(rounded)).abs() < 1e-3;
        let fraction_bits = 15 - integer_bits;
        let exact = is_power && -rounded == fraction_bits;
        if exact && integer_bits == 3 {
            return Self { multiplier: 3, shift: 0 };
        }
        if is_power && integer_bits == 4 && (rounded + 12 == 0 || rounded + 12 == 1) {
            return Self { multiplier: 3 << (rounded + 12), shift: 0 };
        }
        // 3 * 4096 steps to one, of the real value.
        let mut multiplier = f64::from(input.scale) * 4096.0 * 3.0;
        let mut shift = 0;
        while multiplier <= 16383.5 && shift <= 30 {
            shift += 1;
            multiplier *= 2.0;
        }
        // Scales beyond 16 bits of multiplier reach the ends of the table at once.
        Self { multiplier: super::math::cut(multiplier).min(1 << 20), shift }
    }

    /// The value in steps of the table.
    fn steps(self, x: i16) -> i32 {
        let round = if self.shift > 0 { 1i64 << (self.shift - 1) } else { 0 };
        low((i64::from(x) * self.multiplier + round) >> self.shift)
    }

    fn logistic(self, x: i16) -> i16 {
        let steps = self.steps(x);
        let size = steps.unsigned_abs();
        let at = usize::try_from(size >> 9).unwrap_or(0);
        let result = if at >= 255 {
            0x7fff << 10
        } else {
            let (here, next) = (sigmoid_point(at), sigmoid_point(at + 1));
            let fraction = (size & 0x1ff).cast_signed();
            (here << 9) + fraction * (next - here)
        };
        let result = if steps >= 0 { result + (1 << 9) } else { (1 << 25) - result + (1 << 9) - 1 };
        i16::stored((result >> 10).clamp(-32768, 32767))
    }

    fn tanh(self, x: i16) -> i16 {
        let steps = self.steps(x);
        let size = steps.unsigned_abs();
        let at = usize::try_from(size >> 8).unwrap_or(0);
        let result = if at >= 255 {
            0xffff << 8
        } else {
            let (here, next) = (sigmoid_point(at), sigmoid_point(at + 1));
            (here << 8) + (size & 0xff).cast_signed() * (next - here)
        };
        let result = if steps >= 0 {
            result - (1 << 23) + (1 << 7)
        } else {
            -result + (1 << 23) + (1 << 7) - 1
        };
        i16::stored((result >> 8).clamp(-32768, 32767))
    }
}

/// `65536 * logistic(at / 24)` in 16 bits, as the interpreter's table has it: rounded, but for the
/// entries of `ABOVE`, which are greater by one.
fn sigmoid_point(at: usize) -> i32 {
    /// A bit per entry.
    const ABOVE: [u64; 4] = [
        0xc046_7bae_fa7b_d110,
        0x0011_0090_2044_0005,
        0x0000_0000_0000_0080,
        0x8000_0000_0000_0000,
    ];
    let x = super::math::f64_of(i64::try_from(at).unwrap_or(0)) / 24.0;
    let value = super::math::round_f64(65536.0 / (1.0 + (-x).exp()));
    let is_above = ABOVE.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1);
    (value + i32::from(is_above)).min(65535)
}

/// Adds up tensors of one shape.
pub(super) fn add_n(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, _) = pair(call)?;
    let count = call.tensors();
    for at in 1..count {
        let other = call.arg(at)?;
        input.same_kind(&other)?;
        if other.shape != input.shape {
            return Err(OpError::input(at, "is of another shape").into());
        }
    }
    by_kind!(input.kind, [F32 f32, I32 i32], T => {
        call.step(&input.shape, move |io| {
            let output = io.output::<T>(0);
            for index in poll::each(0..output.len(), 2 * count) {
                let zero = T::default();
                output.set(index, (0..count).fold(zero, |sum, at| {
                    Plus::plus(sum, io.input::<T>(at).get(index))
                }));
            }
            Ok(())
        });
    });
    Ok(())
}

/// Sums that wrap.
trait Plus {
    fn plus(self, other: Self) -> Self;
}

impl Plus for f32 {
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl Plus for i32 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}
