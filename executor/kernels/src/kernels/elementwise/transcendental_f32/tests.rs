//! Every variant against double precision.

use super::*;

fn truth(function: Function, x: f64) -> f64 {
    match function {
        Function::SigmoidByTable if x < -9.0 => x.exp(),
        Function::Sigmoid | Function::SigmoidByTable => 1.0 / (1.0 + (-x).exp()),
        Function::Tanh => x.tanh(),
        Function::Exp => x.exp(),
        Function::Elu if x < 0.0 => x.exp_m1(),
        Function::Elu => x,
        Function::Log => x.ln(),
        Function::Sin => x.sin(),
        Function::Gelu => x * 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        Function::GeluByTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            x * 0.5 * (1.0 + inner.tanh())
        }
    }
}

/// The error function by its series, which is exact enough up to 4 and flat beyond.
fn erf(x: f64) -> f64 {
    if x.abs() > 4.0 {
        return x.signum();
    }
    let (mut sum, mut term) = (x, x);
    for n in 1..120 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

/// The largest error that is allowed of a function's value.
fn bound(function: Function, x: f64, want: f64) -> f64 {
    match function {
        Function::Gelu | Function::GeluByTanh => 5e-7 * x.abs() + 2e-38,
        // Subnormal results have fewer digits.
        _ => 4.0 * f64::from(f32::EPSILON) / 2.0 * want.abs() + 2e-38,
    }
}

const ALL: [Function; 8] = [
    Function::Sigmoid,
    Function::SigmoidByTable,
    Function::Tanh,
    Function::Exp,
    Function::Elu,
    Function::Gelu,
    Function::GeluByTanh,
    Function::Sin,
];

#[test]
fn every_variant_is_near_the_true_value() {
    // Dense near 0, and out to where all three have gone flat or over.
    let near = (-4000..=4000i16).map(|i| f32::from(i) / 1000.0);
    let far = (-1300..=1300i16).map(|i| f32::from(i) / 10.0);
    let tiny = (1..60).map(|i| 2f32.powi(-i)).flat_map(|x| [x, -x]);
    let input: Vec<f32> = near.chain(far).chain(tiny).collect();
    for function in ALL {
        let mut first: Option<Vec<f32>> = None;
        for variant in variants(function).all() {
            let mut output = vec![0.0; input.len()];
            Map(variant).compute(In::of(&input), Out::of(&mut output));
            let same = first.get_or_insert_with(|| output.clone());
            assert_eq!(*same, output, "{function:?} {:?}", variant.isa);
            for (&x, &y) in input.iter().zip(&output) {
                let want = truth(function, f64::from(x));
                if want > f64::from(f32::MAX) {
                    assert_eq!(y, f32::INFINITY, "{function:?} {:?} of {x}", variant.isa);
                    continue;
                }
                let error = (f64::from(y) - want).abs();
                let bound = bound(function, f64::from(x), want);
                assert!(error <= bound, "{function:?} {:?} of {x}: {y} for {want}", variant.isa);
            }
        }
    }
}

#[test]
fn what_is_no_number_stays_so_and_ends_are_flat() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for (function, x, want) in [
        (Function::Sigmoid, inf, 1.0),
        (Function::Sigmoid, -inf, 0.0),
        (Function::Sigmoid, 0.0, 0.5),
        (Function::SigmoidByTable, inf, 1.0),
        (Function::SigmoidByTable, -inf, 0.0),
        (Function::SigmoidByTable, 0.0, 0.5),
        (Function::Tanh, inf, 1.0),
        (Function::Tanh, -inf, -1.0),
        (Function::Tanh, 0.0, 0.0),
        (Function::Exp, inf, inf),
        (Function::Exp, -inf, 0.0),
        (Function::Exp, 0.0, 1.0),
        (Function::Elu, inf, inf),
        (Function::Elu, -inf, -1.0),
        (Function::Elu, 0.0, 0.0),
        (Function::Elu, -0.0, 0.0),
        (Function::Gelu, inf, inf),
        (Function::Gelu, 0.0, 0.0),
        (Function::GeluByTanh, inf, inf),
        (Function::GeluByTanh, -0.0, 0.0),
        (Function::Sin, 0.0, 0.0),
        (Function::Sin, -1e-30, -1e-30),
    ] {
        for variant in variants(function).all() {
            for len in [1, 7, 8, 16, 17] {
                let mut values = vec![x; len];
                Map(variant).apply(&mut values);
                let fine = values.iter().all(|&y| (y - want).abs() < 1e-30 || y == want);
                assert!(fine, "{function:?} {:?} of {x}: {values:?}", variant.isa);
                values.fill(nan);
                Map(variant).apply(&mut values);
                assert!(values.iter().all(|y| y.is_nan()), "{function:?} {:?}", variant.isa);
            }
        }
    }
}

#[test]
fn angles_of_any_size_are_near_and_infinite_ones_have_no_sine() {
    // Every exponent; multiples of half a turn, where few digits are left; and both sides of the
    // limit, in one vector.
    let all = (0..0x7f80_0000).step_by(99_991).map(f32::from_bits);
    let turns = (1..20_000u16).map(|n| f32::from(n) * std::f32::consts::FRAC_PI_2);
    let limit = [LARGE_ANGLE.next_down(), LARGE_ANGLE, 3e38, 1.0];
    let input: Vec<f32> = all.chain(turns).chain(limit).flat_map(|x| [x, -x]).collect();
    let mut first: Option<Vec<f32>> = None;
    for variant in variants(Function::Sin).all() {
        let mut output = input.clone();
        Map(variant).apply(&mut output);
        let same = first.get_or_insert_with(|| output.clone());
        assert_eq!(*same, output, "{:?}", variant.isa);
        for (&x, &y) in input.iter().zip(&output) {
            let want = truth(Function::Sin, f64::from(x));
            let error = (f64::from(y) - want).abs();
            let near = error <= 2.0 * f64::from(f32::EPSILON) * want.abs() + 2e-38;
            assert!(near, "{:?} of {x:e}: {y} for {want}", variant.isa);
        }
        for len in [1, 7, 8, 16, 17] {
            let mut values = vec![f32::INFINITY; len];
            Map(variant).apply(&mut values);
            assert!(values.iter().all(|y| y.is_nan()), "{:?}", variant.isa);
        }
    }
}

#[test]
fn beyond_its_range_gelu_is_its_argument_or_nothing() {
    for variant in variants(Function::Gelu).all() {
        for x in [ERF_RANGE, 5.6, 7.0, 100.0, 1e30, f32::MAX] {
            let mut values = [x, -x];
            Map(variant).apply(&mut values);
            assert_eq!(values, [x, 0.0], "{:?}", variant.isa);
        }
    }
}

#[test]
fn rare_numbers_may_lie_anywhere() {
    for (function, rare) in
        [(Function::Log, &[0.0, -2.0, LEAST, f32::INFINITY][..]), (Function::Sin, &[1e6, -7e8])]
    {
        for variant in variants(function).all() {
            for at in 0..150usize {
                let mut input: Vec<f32> = (1..=150u8).map(|x| f32::from(x) / 50.0).collect();
                input[at] = rare[at % rare.len()];
                let mut output = input.clone();
                Map(variant).apply(&mut output);
                let mut apart = vec![9.0; 151];
                Map(variant).compute(In::of(&input), Out::of(&mut apart[..150]));
                assert_eq!(apart[150], 9.0, "{function:?} {:?}", variant.isa);
                for ((&x, &y), &apart) in input.iter().zip(&output).zip(&apart) {
                    let want = truth(function, f64::from(x));
                    let near = (f64::from(y) - want).abs() <= bound(function, f64::from(x), want);
                    let same = y.to_bits() == apart.to_bits();
                    let alike = near || f64::from(y) == want || want.is_nan() && y.is_nan();
                    assert!(alike && same, "{function:?} {:?} of {x}: {y}, {want}", variant.isa);
                }
            }
        }
    }
}

#[test]
fn every_tail_stays_within_its_row() {
    for function in ALL {
        for variant in variants(function).all() {
            for len in 0..=67 {
                let input = vec![0.25f32; len];
                let mut output = vec![9.0; len + 1];
                Map(variant).compute(In::of(&input), Out::of(&mut output[..len]));
                assert_eq!(output[len], 9.0, "{function:?} {:?} of {len}", variant.isa);
                assert!(output[..len].iter().all(|y| (0.1..1.3).contains(y)));
            }
        }
    }
}

#[test]
fn every_logarithm_is_near_the_true_one() {
    // All exponents, subnormal numbers too, and dense about 1.
    let all = (0..0x7f80_0000).step_by(9973).map(f32::from_bits);
    let near = (1..4000u16).map(|at| f32::from(at) / 2000.0);
    let input: Vec<f32> = all.chain(near).chain([1.0, f32::MIN_POSITIVE, LEAST]).collect();
    let mut first: Option<Vec<f32>> = None;
    for variant in variants(Function::Log).all() {
        let mut output = vec![0.0; input.len()];
        Map(variant).compute(In::of(&input), Out::of(&mut output));
        let same = first.get_or_insert_with(|| output.clone());
        assert_eq!(*same, output, "{:?}", variant.isa);
        for (&x, &y) in input.iter().zip(&output) {
            let want = f64::from(x).ln();
            let error = (f64::from(y) - want).abs();
            let near = error <= 2.0 * f64::from(f32::EPSILON) * want.abs() || f64::from(y) == want;
            assert!(near, "{:?} of {x:e}: {y} for {want}", variant.isa);
        }
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        for len in [1, 7, 8, 16, 17] {
            for (x, want) in [(0.0, -inf), (-0.0, -inf), (inf, inf), (1.0, 0.0)] {
                let mut values = vec![x; len];
                Map(variant).apply(&mut values);
                assert!(values.iter().all(|&y| y == want), "{:?} of {x}: {values:?}", variant.isa);
            }
            for x in [-1.0, -inf, nan, -nan, -LEAST] {
                let mut values = vec![x; len];
                Map(variant).apply(&mut values);
                assert!(values.iter().all(|y| y.is_nan()), "{:?} of {x}: {values:?}", variant.isa);
            }
            let mut values = vec![0.25; len + 1];
            Map(variant).compute(In::of(&[1.0; 17][..len]), Out::of(&mut values[..len]));
            assert_eq!(values[len], 0.25, "{:?} of {len}", variant.isa);
        }
    }
}

/// What the interpreter gives on a machine with fused multiply-add.
#[test]
fn the_sigmoid_by_table_has_the_interpreters_bits() {
    let known = [
        (-120.0, 0),
        (-103.972, 0x0000_0001),
        (-103.5, 0x0000_0001),
        (-90.0, 0x0008_ec28),
        (-63.09946, 0x11fa_2993),
        (-30.5, 0x297f_9c32),
        (-9.000001, 0x3901_6789),
        (-9.0, 0x3901_637b),
        (-7.3, 0x3a30_f807),
        (-3.1, 0x3d30_913d),
        (-1.2, 0x3e6d_07d7),
        (-0.4, 0x3ecd_78d0),
        (-0.01, 0x3efe_b852),
        (0.0, 0x3f00_0000),
        (1e-30, 0x3f00_0000),
        (0.3, 0x3f13_0eaa),
        (0.9, 0x3f36_00c9),
        (2.7, 0x3f6f_e0fa),
        (5.5, 0x3f7e_f543),
        (9.1, 0x3f7f_f8ae),
        (16.5, 0x3f7f_fffe),
        (16.619047, 0x3f7f_fffe),
        (16.619_05, 0x3f80_0000),
        (40.0, 0x3f80_0000),
    ];
    let inputs = known.map(|(x, _): (f32, u32)| x);
    for variant in variants(Function::SigmoidByTable).all() {
        let mut values = inputs;
        Map(variant).apply(&mut values);
        for ((x, want), got) in known.into_iter().zip(values) {
            assert_eq!(got.to_bits(), want, "{:?}: {x}", variant.isa);
        }
    }
}

#[test]
fn the_sigmoid_by_table_is_the_same_in_every_variant() {
    // All exponents of both signs, the bounds with their neighbours, infinities and NaN.
    let all = (0..=u32::MAX).step_by(39_119).map(f32::from_bits);
    let bounds = [0.0, 9.0, 16.619_047, 88.722_84, 89.0, 103.278_93, 103.972_08, 104.0, f32::MAX];
    let around = bounds.into_iter().flat_map(|bound: f32| {
        (-40..40i32).map(move |by| f32::from_bits(bound.to_bits().wrapping_add_signed(by)))
    });
    let near = (0..=3_500_000u32).step_by(7).map(|at| at as f32 / 131_072.0);
    let input: Vec<f32> = all.chain(around.chain(near).flat_map(|x| [x, -x])).collect();
    let mut first: Option<Vec<f32>> = None;
    for variant in variants(Function::SigmoidByTable).all() {
        let mut output = vec![0.0; input.len()];
        Map(variant).compute(In::of(&input), Out::of(&mut output));
        let want = first.get_or_insert_with(|| output.clone());
        for ((x, got), want) in input.iter().zip(&output).zip(want) {
            let alike = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(alike, "{:?} of {x:e}: {got:e}, {want:e}", variant.isa);
        }
    }
}
