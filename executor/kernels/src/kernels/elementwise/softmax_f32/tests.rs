//! Every variant against the scalar reference, and that against double precision.

use super::*;

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at * 7919 % 1009) as f32 / 97.0 - 5.0).collect()
}

fn of(variant: Variant<Run>, len: usize, input: &[f32], beta: f32) -> Vec<f32> {
    let mut output = vec![9.0; input.len() + 1];
    let to = Out::of(&mut output[..input.len()]);
    Softmax { variant, len, beta }.compute(In::of(input), to).unwrap();
    assert_eq!(output.pop(), Some(9.0), "{:?} wrote behind the end", variant.isa);
    output
}

const SCALAR: Variant<Run> = Variant { isa: Isa::Scalar, run: scalar::softmax };
const LOG_SCALAR: Variant<Run> = Variant { isa: Isa::Scalar, run: scalar::log_softmax };

#[test]
fn every_variant_gives_the_bits_of_the_reference_in_place_too() {
    let numbers = numbers(9 * 70 + 3);
    let all = VARIANTS.all().map(|variant| (variant, SCALAR));
    for (variant, scalar) in all.chain(LOG_VARIANTS.all().map(|variant| (variant, LOG_SCALAR))) {
        for (count, len) in (1..=9).flat_map(|count| (1..=70).map(move |len| (count, len))) {
            let input = &numbers[3..3 + count * len];
            let want = of(scalar, len, input, 1.25);
            assert_eq!(of(variant, len, input, 1.25), want, "{:?}, {len}", variant.isa);
            let mut both = input.to_vec();
            let output = Out::of(&mut both);
            Softmax { variant, len, beta: 1.25 }.compute(output.as_in(), output).unwrap();
            assert_eq!(both, want, "{:?} in place, {len}", variant.isa);
        }
    }
}

#[test]
fn the_reference_is_near_the_true_shares() {
    for (len, beta) in [(1, 1.0), (7, 0.5), (16, 1.0), (24, 3.0), (100, 1.0)] {
        let input = numbers(3 * len);
        let rows = input.chunks_exact(len).flat_map(|row| {
            let exp = |x: f32| (f64::from(x) * f64::from(beta)).exp();
            let sum: f64 = row.iter().map(|&x| exp(x)).sum();
            row.iter().map(move |&x| exp(x) / sum)
        });
        let got = of(SCALAR, len, &input, beta).into_iter();
        let logs = of(LOG_SCALAR, len, &input, beta);
        for ((got, log), want) in got.zip(logs).zip(rows) {
            assert!((f64::from(got) - want).abs() <= 2e-6 * want + 1e-37, "{got} for {want}");
            assert!((f64::from(log) - want.ln()).abs() <= 4e-6, "{log} for {}", want.ln());
        }
    }
}

#[test]
fn a_row_with_what_is_no_number_is_none_and_its_neighbours_are_as_before() {
    for variant in VARIANTS.all().chain(LOG_VARIANTS.all()) {
        for len in [1, 5, 16, 21, 40] {
            let mut input = numbers(5 * len);
            let want = of(variant, len, &input, 1.0);
            input[3 * len + len / 2] = f32::NAN;
            let got = of(variant, len, &input, 1.0);
            for (row, (got, want)) in got.chunks(len).zip(want.chunks(len)).enumerate() {
                match row {
                    3 => assert!(got.iter().all(|y| y.is_nan()), "{:?}, {len}", variant.isa),
                    _ => assert_eq!(got, want, "{:?}, {len}", variant.isa),
                }
            }
        }
    }
    let far = [-1e30, f32::NEG_INFINITY, 3.0e30];
    for (share, log) in VARIANTS.all().zip(LOG_VARIANTS.all()) {
        assert_eq!(of(share, 3, &far, 1.0), [0.0, 0.0, 1.0], "{:?}", share.isa);
        let want = [far[0] - far[2], f32::NEG_INFINITY, 0.0];
        assert_eq!(of(log, 3, &far, 1.0), want, "{:?}", log.isa);
    }
}

#[test]
fn shares_that_are_no_normal_numbers_are_zero() {
    for len in [2, 15, 16, 40] {
        // From what is just a normal number beside a share of 1 to what no float holds.
        for far in [-87.2, -87.4, -95.0, -103.5, -120.0] {
            let mut row = vec![far; len];
            row[len / 2] = 0.0;
            for variant in VARIANTS.all() {
                let got = of(variant, len, &row, 1.0);
                for (at, &share) in got.iter().enumerate() {
                    let name = format!("{:?}, {len}, {far}", variant.isa);
                    match at == len / 2 {
                        true => assert_eq!(share, 1.0, "{name}"),
                        false if far < -87.3 => assert_eq!(share, 0.0, "{name}"),
                        false => assert!(share.is_normal(), "{name}"),
                    }
                }
            }
        }
    }
}

#[test]
fn lengths_are_checked() {
    let softmax = Softmax::new(Isa::best(), 4, 1.0).unwrap();
    let input = numbers(12);
    assert!(softmax.compute(In::of(&input[..4]), Out::of(&mut [0.0; 8])).is_err());
    assert!(softmax.compute(In::of(&input[..7]), Out::of(&mut [0.0; 7])).is_err());
    assert!(Softmax::new(Isa::best(), 0, 1.0).is_none());
    assert!(Softmax::new(Isa::best(), Softmax::MOST + 1, 1.0).is_none());
}
