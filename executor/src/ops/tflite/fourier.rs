//! RFFT2D: the discrete Fourier transform of real matrices, in double precision; and
//! HADAMARD_ROTATION, the transform by a matrix of ones with signs.

use nnburst_kernels::kernels::fft_f64::{Complex, Fft, RealFft};
use nnburst_kernels::tensor::{OpError, poll};

use super::arg::{ElementKind, OperatorCall, refused};
use super::math::{f32_of, narrow};
use crate::lowering::{Label, Lowered};
use crate::ops::support::plain;

/// The most points of one transform.
pub(super) const MOST_POINTS: i64 = 1 << 24;

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
    call.claim(16 * (rows + columns))?;
    let isa = call.isa();
    let no_transform = || OpError::input(1, format!("is {lengths:?}"));
    let across = RealFft::new(isa, columns).ok_or_else(no_transform)?;
    let down = Fft::new(isa, rows).ok_or_else(no_transform)?;
    let matrices: usize = outer.iter().product();
    let points = u64::try_from(shape.elements().saturating_mul(10)).unwrap_or(u64::MAX);
    let label = Label { form: across.isa(), ..plain("tflite_rfft_2d", &shape, points) };
    // Matrices of one row are transformed as the rows of one, without what goes down.
    let (planes, lines) = if rows == 1 { (1, matrices) } else { (matrices, rows) };
    let lanes = Fft::lanes(rows, half);
    let plane = if rows == 1 { 0 } else { 2 * rows * half };
    let room = plane + 4 * rows * lanes + RealFft::scratch(columns, lines);
    call.emit_with_scratch(label, room.saturating_mul(8), move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (from, to) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        let (plane, scratch) = io.scratch_slice::<f64>().split_at_mut(plane);
        let (buffers, scratch) = scratch.split_at_mut(4 * rows * lanes);
        let set = |row: usize, column: usize, [real, imaginary]: Complex| {
            let at = 2 * (row * half + column);
            to.set(at, narrow(real));
            to.set(at + 1, narrow(imaginary));
        };
        for first in 0..planes {
            let fill = |line: usize, points: &mut [f64]| {
                // Of matrices of one row, each line is the first row of another.
                let row = if rows == 1 { line * height } else { first * height + line };
                let kept = if line % rows < height { width.min(columns) } else { 0 };
                let (kept, rest) = points.split_at_mut(kept);
                kept.iter_mut().enumerate().for_each(|(at, point)| {
                    *point = f64::from(from.get(row * width + at));
                });
                rest.fill(0.0);
            };
            if rows == 1 {
                across.compute(lines, scratch, fill, set)?;
                continue;
            }
            let (real, imaginary) = plane.split_at_mut(rows * half);
            across.compute(lines, scratch, fill, |row, column, point| {
                [real[row * half + column], imaginary[row * half + column]] = point;
            })?;
            for start in (0..half).step_by(lanes) {
                let here = lanes.min(half - start);
                poll::work(8 + 4 * rows * here)?;
                let (one, other) = buffers.split_at_mut(2 * rows * lanes);
                let (points, imaginary_points) = one.split_at_mut(rows * lanes);
                for row in 0..rows {
                    let (place, at) = (row * lanes, row * half + start);
                    points[place..place + here].copy_from_slice(&real[at..at + here]);
                    let points = &mut imaginary_points[place..place + here];
                    points.copy_from_slice(&imaginary[at..at + here]);
                }
                let (real, imaginary) = down.compute(lanes, one, other)?.split_at(rows * lanes);
                for (at, (&x, &y)) in real.iter().zip(imaginary).enumerate() {
                    if at % lanes < here {
                        set(first * rows + at / lanes, start + at % lanes, [x, y]);
                    }
                }
            }
        }
        Ok(())
    });
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
    fn a_rotation_undoes_itself_but_for_a_factor() {
        let values: Vec<f32> = (0..8u8).map(|it| f32::from(it) - 2.0).collect();
        let mut turned = values.clone();
        rotate(&mut turned);
        assert_eq!(turned[0], values.iter().sum::<f32>());
        rotate(&mut turned);
        assert!(turned.iter().zip(&values).all(|(a, b)| *a == 8.0 * b));
    }
}
