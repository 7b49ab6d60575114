//! Every vector against its lanes one by one.

use super::*;
use crate::simd::{Kernel, Simd, Variants, variants};

struct Lanes;

impl Kernel for Lanes {
    type Work = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, (): &()) {
        let number = |at: usize| (at.wrapping_mul(2_654_435_761) % 1000) as f32 / 37.0 - 13.0;
        let xs: Vec<f32> = (0..80).map(number).collect();
        let lanes = |v: S::F32| {
            let mut lanes = vec![0.0; S::F32::LANES];
            // SAFETY: as many floats as a vector has.
            unsafe { v.store(lanes.as_mut_ptr()) };
            lanes
        };
        // SAFETY: enough floats for four vectors.
        let [a, b, c, d] =
            [0, 1, 2, 3].map(|at| unsafe { S::F32::load(isa, xs[at * S::F32::LANES..].as_ptr()) });
        let of = |each: &dyn Fn(usize) -> f32| (0..S::F32::LANES).map(each).collect::<Vec<_>>();
        let x = |at: usize| xs[at];
        let y = |at: usize| xs[S::F32::LANES + at];
        assert_eq!(lanes(a.add(b)), of(&|at| x(at) + y(at)));
        assert_eq!(lanes(a.sub(b)), of(&|at| x(at) - y(at)));
        assert_eq!(lanes(a.mul(b)), of(&|at| x(at) * y(at)));
        assert_eq!(
            lanes(a.mul_add(b, c)),
            of(&|at| x(at).mul_add(y(at), xs[2 * S::F32::LANES + at]))
        );
        let (low, high) = (S::F32::splat(isa, -3.0), S::F32::splat(isa, 5.5));
        assert_eq!(lanes(a.clamp(low, high)), of(&|at| x(at).clamp(-3.0, 5.5)));
        assert_eq!(lanes(a.div(b)), of(&|at| x(at) / y(at)));
        assert_eq!(lanes(a.round()), of(&|at| x(at).round_ties_even()));
        assert_eq!(lanes(a.round().power_of_two()), of(&|at| x(at).round_ties_even().exp2()));
        // Past both ends of what a power of two can be by itself: the least number is 2^-149.
        for (n, want) in [(-140.0, f32::from_bits(1 << 9)), (3.0, 8.0), (128.0, f32::INFINITY)] {
            let (one, n) = (S::F32::splat(isa, 1.0), S::F32::splat(isa, n));
            assert_eq!(lanes(one.scaled(n)), of(&|_| want));
        }
        assert_eq!(lanes(a.negative()), of(&|at| -x(at).abs()));
        assert_eq!(lanes(a.with_signs(b)), of(&|at| x(at).copysign(y(at))));
        assert_eq!(
            lanes(a.where_negative(b, c)),
            of(&|at| if y(at) < 0.0 { x(at) } else { xs[2 * S::F32::LANES + at] })
        );
        assert_eq!(
            lanes(a.where_less(b, low, c)),
            of(&|at| if y(at) < -3.0 { x(at) } else { xs[2 * S::F32::LANES + at] })
        );
        let none = S::F32::splat(isa, f32::NAN);
        assert!(lanes(a.larger(none)).iter().all(|x| x.is_nan()));
        assert_eq!(lanes(none.larger(a)), lanes(a));
        assert_eq!(lanes(none.smaller(a)), lanes(a));
        let (zero, below) = (S::F32::splat(isa, 0.0), S::F32::splat(isa, -0.0));
        for x in [zero.larger(below), zero.smaller(below)] {
            assert!(lanes(x).iter().all(|x| x.is_sign_negative()));
        }
        assert_eq!(lanes(a.larger(b)), of(&|at| x(at).max(y(at))));
        assert!(lanes(a.smaller(none)).iter().all(|x| x.is_nan()));
        assert_eq!(lanes(a.smaller(b)), of(&|at| x(at).min(y(at))));
        assert_eq!(lanes(a.where_less(none, b, c)), lanes(c));
        assert!(a.with_lane(S::F32::LANES - 1, -9e9).is_any_outside(-8e9, 8e9));
        assert!(a.with_lane(0, 9e9).is_any_outside(-8e9, 8e9));
        assert!(a.with_lane(1, f32::NAN).is_any_outside(-8e9, 8e9));
        assert!(!a.is_any_outside(-8e9, 8e9) && !a.filled(2.0).is_any_outside(2.0, 2.0));
        assert_eq!(lanes(a.where_less(b, b.filled(-f32::NAN), c)), lanes(c));
        for (lane, four) in S::F32::sums([a, b, c, d]).into_iter().zip(xs.chunks(S::F32::LANES)) {
            assert!((lane - four.iter().sum::<f32>()).abs() < 1e-3);
        }
        let four = xs[..4 * S::F32::LANES].chunks(S::F32::LANES);
        let folded = |lanes: &[f32], of: fn(f32, f32) -> f32| {
            let mut lanes = lanes.to_vec();
            while lanes.len() > 1 {
                let upper = lanes.split_off(lanes.len() / 2);
                lanes.iter_mut().zip(upper).for_each(|(lane, x)| *lane = of(*lane, x));
            }
            lanes[0]
        };
        let sums: Vec<f32> = four.clone().map(|lanes| folded(lanes, |a, b| a + b)).collect();
        assert_eq!(S::F32::folded([a, b, c, d])[..], sums);
        let largest: Vec<f32> = four.map(|lanes| folded(lanes, f32::max)).collect();
        assert_eq!(S::F32::largest([a, b, c, d])[..], largest);
        assert_eq!(lanes(a.larger(b)), of(&|at| x(at).max(y(at))));
        assert!(lanes(a.smaller(none)).iter().all(|x| x.is_nan()));
        assert_eq!(lanes(a.smaller(b)), of(&|at| x(at).min(y(at))));
        for count in 0..=S::F32::LANES {
            assert_eq!(
                lanes(a.first_or(count, b)),
                of(&|at| if at < count { x(at) } else { y(at) })
            );
            let mut got = vec![9.0; S::F32::LANES + 1];
            // SAFETY: at most a vector.
            unsafe { a.store_first(got.as_mut_ptr(), count) };
            assert_eq!((&got[..count], got[count]), (&xs[..count], 9.0));
            if count > 0 {
                let mut got = vec![9.0; S::F32::LANES + 1];
                // SAFETY: at most a vector.
                unsafe { a.store_from_second(got.as_mut_ptr().add(1), count) };
                assert_eq!((got[0], &got[1..count], got[count]), (9.0, &xs[1..count], 9.0));
            }
            // SAFETY: so many floats.
            let first = unsafe { S::F32::load_first(isa, xs.as_ptr(), count) };
            assert_eq!(lanes(first), of(&|at| if at < count { x(at) } else { 0.0 }));
        }
        for lane in 0..S::F32::LANES {
            assert_eq!(
                lanes(a.with_lane(lane, 7.0)),
                of(&|at| if at == lane { 7.0 } else { x(at) })
            );
        }
        let upper = |at: usize| f32::from_bits(xs[at].to_bits() & 0xffff_0000);
        let halves: Vec<u16> =
            (0..2 * S::F32::LANES).map(|at| (upper(at).to_bits() >> 16) as u16).collect();
        // SAFETY: twice a vector of halves.
        let [even, odd] = unsafe { S::F32::load_halves(isa, halves.as_ptr()) };
        assert_eq!(lanes(even), of(&|at| upper(2 * at)));
        assert_eq!(lanes(odd), of(&|at| upper(2 * at + 1)));
        // Normal numbers, and subnormal ones.
        for first in [0x3c01, 0x7bf0, 0xbc01, 0x0001, 0x83f0] {
            let halves: Vec<f16> = (first..).take(S::F32::LANES).map(f16::from_bits).collect();
            // SAFETY: as many as a vector has.
            let floats = unsafe { S::F32::load_f16(isa, halves.as_ptr()) };
            assert_eq!(lanes(floats), of(&|at| halves[at].to_f32_const()));
        }
    }
}

#[test]
fn every_vector_is_its_lanes() {
    const VARIANTS: Variants<unsafe fn(&())> = variants!(Lanes, |()| ());
    for variant in VARIANTS.all() {
        // SAFETY: the machine has it.
        unsafe { (variant.run)(&()) };
    }
}
