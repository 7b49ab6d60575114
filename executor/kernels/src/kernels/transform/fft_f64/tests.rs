//! Every variant against the sums that define a transform.

use super::*;

/// `n` numbers that follow no rule.
fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|at| f64::from(u16::try_from(at * 7919 % 1009).unwrap()) / 97.0 - 5.0).collect()
}

/// The sums of all points, each turned as often as its place times the result's.
fn defined(points: &[Complex]) -> Vec<Complex> {
    let sum_of = |result: usize| {
        points.iter().enumerate().fold([0.0; 2], |sum, (at, &point)| {
            let turned = pass::times(point, turn(result * at, points.len()));
            [sum[0] + turned[0], sum[1] + turned[1]]
        })
    };
    (0..points.len()).map(sum_of).collect()
}

fn near(got: Complex, want: Complex, what: &str) {
    let apart = (got[0] - want[0]).hypot(got[1] - want[1]);
    assert!(apart < 1e-9, "{what}: {got:?} for {want:?}");
}

#[test]
fn every_variant_is_near_the_sums() {
    for isa in Isa::all() {
        for points in [1, 2, 4, 8, 32, 64, 512] {
            for lanes in [1, LANES] {
                let fft = Fft::new(isa, points).unwrap();
                let mut from = numbers(2 * points * lanes);
                let (real, imaginary) = from.split_at(points * lanes);
                let row = |lane: usize| -> Vec<Complex> {
                    let at = |at: usize| [real[at * lanes + lane], imaginary[at * lanes + lane]];
                    (0..points).map(at).collect()
                };
                let want: Vec<_> = (0..lanes).map(|lane| defined(&row(lane))).collect();
                let mut to = vec![0.0; from.len()];
                let got = fft.compute(lanes, &mut from, &mut to).unwrap();
                let (real, imaginary) = got.split_at(points * lanes);
                for (lane, want) in want.iter().enumerate() {
                    for (at, &want) in want.iter().enumerate() {
                        let place = at * lanes + lane;
                        let what = format!("{isa:?}, {points} points, {lanes} lanes, {at}");
                        near([real[place], imaginary[place]], want, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn real_rows_have_the_first_half_of_the_results() {
    for isa in Isa::all() {
        for points in [1, 2, 4, 16, 128] {
            for rows in [1, 2, 8, 11] {
                let fft = RealFft::new(isa, points).unwrap();
                let all = numbers(points * rows);
                let row = |row: usize| &all[row * points..(row + 1) * points];
                let mut scratch = vec![0.0; RealFft::scratch(points, rows)];
                let mut got = vec![None; rows * RealFft::results(points)];
                let fill = |at: usize, to: &mut [f64]| to.copy_from_slice(row(at));
                let give = |row: usize, at: usize, result: Complex| {
                    assert_eq!(got[row * RealFft::results(points) + at].replace(result), None);
                };
                fft.compute(rows, &mut scratch, fill, give).unwrap();
                for (at, got) in got.chunks(RealFft::results(points)).enumerate() {
                    let want = defined(&row(at).iter().map(|&x| [x, 0.0]).collect::<Vec<_>>());
                    for (result, (got, want)) in got.iter().zip(want).enumerate() {
                        let what = format!("{isa:?}, {points} points, row {at}, {result}");
                        near(got.unwrap(), want, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn other_numbers_of_points_are_none() {
    assert!(Fft::new(Isa::best(), 0).is_none());
    assert!(Fft::new(Isa::best(), 12).is_none());
    assert!(RealFft::new(Isa::best(), 3).is_none());
    assert!(RealFft::new(Isa::best(), 0).is_none());
}
