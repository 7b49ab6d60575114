//! RFFT2D: the discrete Fourier transform of real matrices, in double precision; and
//! HADAMARD_ROTATION, the transform by a matrix of ones with signs.

use nnburst_kernels::tensor::{OpError, poll};

use super::arg::{ElementKind, OperatorCall, refused};
use super::math::{f32_of, narrow};
use crate::lowering::Lowered;
use crate::ops::support::plain;

/// The most points of one transform.
pub(super) const MOST_POINTS: i64 = 1 << 24;

/// A complex number: real and imaginary part.
pub(super) type Complex = [f64; 2];

/// Matrices `[.., height, width]`, cut or padded with zeros to the sizes in the second input, which
/// are powers of two. Of each row of the result, `width / 2 + 1` numbers are given: the others
/// follow from them.
pub(super) fn rfft_2d(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let (outer, &[height, width]) = match input.shape[..].split_last_chunk::<2>() {
        Some(split) if input.kind == ElementKind::F32 => split,
        Some(_) => return Err(refused(0, input.kind).into()),
        None => return Err(OpError::input(0, "has fewer than two dimensions").into()),
    };
    let size = |value: &i64| {
        let is_size = value.count_ones() == 1 && (1..=MOST_POINTS).contains(value);
        usize::try_from(*value).ok().filter(|_| is_size)
    };
    let lengths = call.ints(1)?;
    let &[Some(rows), Some(columns)] = &lengths.iter().map(size).collect::<Vec<_>>()[..] else {
        let what = format!("is {lengths:?}, not two powers of two");
        return Err(OpError::input(1, what).into());
    };
    call.result_is(0, &[ElementKind::C64])?;
    let half = columns / 2 + 1;
    let mut extents = outer.to_vec();
    extents.extend([rows, half]);
    let shape = call.set(0, &extents)?;
    let longest = rows.max(columns);
    call.claim(16 * longest)?;
    let turns: Vec<Complex> = turns(longest);
    let matrices: usize = outer.iter().product();
    let points = u64::try_from(shape.elements().saturating_mul(10)).unwrap_or(u64::MAX);
    let label = plain("tflite_rfft_2d", &shape, points);
    // The transformed rows, and a line at work.
    let room = 16 * (rows * half + longest);
    call.emit_with_scratch(label, room, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (from, to) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        let (scratch, _) = io.scratch_slice::<f64>().as_chunks_mut::<2>();
        let (plane, line) = scratch.split_at_mut(rows * half);
        for matrix in 0..matrices {
            let own = from.slice(matrix * height * width..(matrix + 1) * height * width);
            for (row, kept) in plane.chunks_exact_mut(half).enumerate() {
                poll::work(8 + 2 * columns)?;
                if row >= height {
                    kept.fill([0.0; 2]);
                    continue;
                }
                let values = own.slice(row * width..(row + 1) * width);
                let line = &mut line[..columns];
                line.fill([0.0; 2]);
                for (place, value) in line.iter_mut().zip(values.iter()) {
                    place[0] = f64::from(value);
                }
                transform(line, &turns)?;
                kept.copy_from_slice(&line[..half]);
            }
            for column in 0..half {
                poll::work(8 + 4 * rows)?;
                let line = &mut line[..rows];
                for (row, place) in line.iter_mut().enumerate() {
                    *place = plane[row * half + column];
                }
                transform(line, &turns)?;
                for (row, &[real, imaginary]) in line.iter().enumerate() {
                    let at = 2 * ((matrix * rows + row) * half + column);
                    to.set(at, narrow(real));
                    to.set(at + 1, narrow(imaginary));
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// The first half of a turn in so many steps, clockwise, from 1 on.
pub(super) fn turns(points: usize) -> Vec<Complex> {
    #[expect(clippy::cast_precision_loss, reason = "at most 2^24")]
    let turn = |at: usize| {
        let angle = -2.0 * std::f64::consts::PI * at as f64 / points as f64;
        [angle.cos(), angle.sin()]
    };
    (0..(points / 2).max(1)).map(turn).collect()
}

/// The transform of a power of two of points, in place; `turns` are those of as many or more.
pub(super) fn transform(line: &mut [Complex], turns: &[Complex]) -> Result<(), poll::Halted> {
    let points = line.len();
    if points < 2 {
        return Ok(());
    }
    let shift = usize::BITS - points.trailing_zeros();
    for at in 0..points {
        let other = at.reverse_bits() >> shift;
        if at < other {
            line.swap(at, other);
        }
    }
    let mut half = 1;
    while half < points {
        poll::work(2 * points)?;
        let step = turns.len() / half;
        for block in line.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            let pairs = low.iter_mut().zip(high).zip(turns.iter().step_by(step));
            for ((low, high), turn) in pairs {
                let turned =
                    [high[0] * turn[0] - high[1] * turn[1], high[0] * turn[1] + high[1] * turn[0]];
                *high = [low[0] - turned[0], low[1] - turned[1]];
                *low = [low[0] + turned[0], low[1] + turned[1]];
            }
        }
        half *= 2;
    }
    Ok(())
}

/// HADAMARD_ROTATION: rows `[.., features, depth]` whose elements, `hadamard_size` by
/// `hadamard_size`, are multiplied with the Hadamard matrix that keeps their length. Where rows are
/// no multiple of such pieces, as many pieces as rows hold are taken one behind the other.
pub(super) fn hadamard_rotation(call: &mut OperatorCall<'_, '_>) -> Lowered {
    /// Below this many elements the factor is computed in single precision.
    const SMALL: usize = 16;
    let input = call.arg(0)?;
    if input.kind != ElementKind::F32 {
        return Err(refused(0, input.kind).into());
    }
    let extents = input.shape.to_vec();
    let Some((&depth, features @ ([_] | [_, _]))) = extents.split_last() else {
        return Err(OpError::input(0, format!("is of {extents:?}, not of rank 2 or 3")).into());
    };
    let size = call.count(0, 1)?;
    if !size.is_power_of_two() {
        return Err(OpError::rule(format!("{size} elements are no power of two")).into());
    }
    call.result_is(0, &[ElementKind::F32])?;
    let pieces = features.iter().product::<usize>() * (depth / size);
    let shape = call.set(0, &extents)?;
    let whole = i32::try_from(size).unwrap_or(i32::MAX);
    let factor = match size < SMALL {
        true => 1.0 / f32_of(whole).sqrt(),
        false => narrow(1.0 / f64::from(whole).sqrt()),
    };
    let stages = u64::from(size.trailing_zeros());
    let work = u64::try_from(shape.elements()).unwrap_or(u64::MAX).saturating_mul(stages);
    let label = plain("tflite_hadamard_rotation", &shape, work);
    let scratch = if pieces > 0 { 4 * size } else { 0 };
    call.emit_with_scratch(label, scratch, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (from, to) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        to.copy_from(from);
        for piece in poll::each(0..pieces, size.saturating_mul(8)) {
            let values = &mut io.scratch_slice::<f32>()[..size];
            from.slice(piece * size..(piece + 1) * size).copy_to(values);
            rotate(values);
            let turned = values.iter().map(|value| value * factor);
            to.slice(piece * size..(piece + 1) * size).fill(turned);
        }
        Ok(())
    });
    Ok(())
}

/// Sums and differences of pairs of values: neighbours first, then those ever further apart.
fn rotate(values: &mut [f32]) {
    let mut half = 1;
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (first, second) = pair.split_at_mut(half);
            for (x, y) in first.iter_mut().zip(second) {
                (*x, *y) = (*x + *y, *x - *y);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_are_sums_of_turned_points() {
        for points in [1usize, 2, 4, 16] {
            let line: Vec<Complex> = (0..points)
                .map(|at| [f64::from(u8::try_from(at * at % 7).unwrap()), 1.0])
                .collect();
            let mut found = line.clone();
            transform(&mut found, &turns(16)).unwrap();
            for (k, found) in found.iter().enumerate() {
                let mut want = [0.0; 2];
                for (n, &[re, im]) in line.iter().enumerate() {
                    let part = f64::from(u8::try_from(k * n % points).unwrap());
                    let angle = -2.0 * std::f64::consts::PI * part
                        / f64::from(u8::try_from(points).unwrap());
                    want[0] += re * angle.cos() - im * angle.sin();
                    want[1] += re * angle.sin() + im * angle.cos();
                }
                let apart = (found[0] - want[0]).hypot(found[1] - want[1]);
                assert!(apart < 1e-12, "{points}: {k}");
            }
        }
    }

    #[test]
    fn a_rotation_undoes_itself_but_for_a_factor() {
        let values: Vec<f32> = (0..8u8).map(|it| f32::from(it) - 2.0).collect();
        let mut turned = values.clone();
        rotate(&mut turned);
        assert_eq!(turned[0], values.iter().sum::<f32>());
        rotate(&mut turned);
        assert!(turned.iter().zip(&values).all(|(a, b)| *a == 8.0 * b));
    }
}
