//! Every variant against the operators one by one.

use super::super::four_rows::LANES;
use super::*;

/// One operator behind the other, over a row.
fn defined(
    order: LayerNormOrder,
    row: &[f32],
    factors: &[f32],
    shifts: &[f32],
    little: f32,
) -> Vec<f32> {
    let mean_of = |xs: &[f32]| {
        let (blocks, rest) = xs.as_chunks::<LANES>();
        let mut lanes = [0.0f32; LANES];
        for block in blocks {
            for (lane, x) in lanes.iter_mut().zip(block) {
                *lane += x;
            }
        }
        let mut lanes = lanes.to_vec();
        while lanes.len() > 1 {
            let upper = lanes.split_off(lanes.len() / 2);
            lanes.iter_mut().zip(upper).for_each(|(lane, x)| *lane += x);
        }
        rest.iter().fold(lanes[0], |sum, x| sum + x) / xs.len() as f32
    };
    let mean = mean_of(row);
    let squares: Vec<f32> = row.iter().map(|x| (x - mean) * (x - mean)).collect();
    let inverse = 1.0 / (mean_of(&squares) + little).sqrt();
    let columns = row.iter().zip(factors).zip(shifts);
    let result = |((x, factor), shift): ((&f32, &f32), &f32)| {
        if order == LayerNormOrder::Distance {
            let distance = x - mean;
            let normal = distance * inverse;
            let scaled = normal * factor;
            return scaled + shift;
        }
        let factor = inverse * factor;
        let (scaled, moved) = (x * factor, mean * factor);
        scaled + (shift - moved)
    };
    columns.map(result).collect()
}

#[test]
fn every_form_gives_the_bits_of_the_operators_one_by_one() {
    let number = |seed: usize| (seed.wrapping_mul(2_654_435_761) % 1000) as f32 / 250.0 - 1.7;
    let orders = [LayerNormOrder::Moved, LayerNormOrder::Distance];
    for (isa, order) in Isa::all().flat_map(|isa| orders.map(|order| (isa, order))) {
        for columns in [1, 2, 15, 16, 17, 31, 48, 192, 200] {
            let factors: Vec<f32> = (0..columns).map(|at| number(at + 5)).collect();
            let shifts: Vec<f32> = (0..columns).map(|at| number(at + 77)).collect();
            let mut rows: Vec<f32> = (0..3 * columns).map(number).collect();
            rows[columns] = f32::NAN;
            let rows_of = rows.chunks_exact(columns);
            let want: Vec<f32> =
                rows_of.flat_map(|row| defined(order, row, &factors, &shifts, 0.1)).collect();
            let norm = LayerNorm::new(isa, order, columns, 0.1).unwrap();
            let (of, by) = (In::of(&factors), In::of(&shifts));
            let mut got = vec![9.0; 3 * columns + 1];
            let to = Out::of(&mut got[..3 * columns]);
            norm.compute(In::of(&rows), of, by, to).unwrap();
            let bits = |of: &[f32]| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let near = |a: &f32, b: &f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(
                got.iter().zip(&want).all(|(a, b)| near(a, b)),
                "{isa:?}, {order:?}, {columns}"
            );
            assert_eq!(bits(&got[3 * columns..]), bits(&[9.0]), "behind the end");
            let to = Out::of(&mut rows);
            norm.compute(to.as_in(), of, by, to).unwrap();
            assert!(rows.iter().zip(&want).all(|(a, b)| near(a, b)), "{isa:?} in place");
        }
    }
}
