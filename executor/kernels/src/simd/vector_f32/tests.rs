//! Every vector against its lanes one by one.

use super::*;
use crate::simd::{Form, detected};

struct Lanes;

impl F32Kernel for Lanes {
    type Work = ();

    #[inline(always)]
    unsafe fn run<V: F32Simd>((): &()) {
        let number = |at: usize| (at * 2_654_435_761 % 1000) as f32 / 37.0 - 13.0;
        let xs: Vec<f32> = (0..80).map(number).collect();
        let lanes = |v: V| {
            let mut lanes = vec![0.0; V::LANES];
            // SAFETY: as many floats as a vector has.
            unsafe { v.store(lanes.as_mut_ptr()) };
            lanes
        };
        // SAFETY: enough floats for four vectors; the form's test runs where the machine has them.
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| unsafe { V::load(xs[at * V::LANES..].as_ptr()) });
        let of = |each: &dyn Fn(usize) -> f32| (0..V::LANES).map(each).collect::<Vec<_>>();
        let x = |at: usize| xs[at];
        let y = |at: usize| xs[V::LANES + at];
        assert_eq!(lanes(a.add(b)), of(&|at| x(at) + y(at)));
        assert_eq!(lanes(a.sub(b)), of(&|at| x(at) - y(at)));
        assert_eq!(lanes(a.mul(b)), of(&|at| x(at) * y(at)));
        assert_eq!(lanes(a.mul_add(b, c)), of(&|at| x(at).mul_add(y(at), xs[2 * V::LANES + at])));
        // SAFETY: as above.
        let (low, high) = unsafe { (V::splat(-3.0), V::splat(5.5)) };
        assert_eq!(lanes(a.clamp(low, high)), of(&|at| x(at).clamp(-3.0, 5.5)));
        assert_eq!(lanes(a.div(b)), of(&|at| x(at) / y(at)));
        assert_eq!(lanes(a.round()), of(&|at| x(at).round_ties_even()));
        assert_eq!(lanes(a.round().power_of_two()), of(&|at| x(at).round_ties_even().exp2()));
        // Past both ends of what a power of two can be by itself.
        for (n, want) in [(-140.0, 2f32.powi(-139) * 0.5), (3.0, 8.0), (128.0, f32::INFINITY)] {
            // SAFETY: as above.
            let (one, n) = unsafe { (V::splat(1.0), V::splat(n)) };
            assert_eq!(lanes(one.scaled(n)), of(&|_| want));
        }
        assert_eq!(lanes(a.negative()), of(&|at| -x(at).abs()));
        assert_eq!(lanes(a.with_signs(b)), of(&|at| x(at).copysign(y(at))));
        assert_eq!(
            lanes(a.where_negative(b, c)),
            of(&|at| if y(at) < 0.0 { x(at) } else { xs[2 * V::LANES + at] })
        );
        for (lane, four) in V::sums([a, b, c, d]).into_iter().zip(xs.chunks(V::LANES)) {
            assert!((lane - four.iter().sum::<f32>()).abs() < 1e-3);
        }
        for count in 0..=V::LANES {
            let mut got = vec![9.0; V::LANES + 1];
            // SAFETY: at most a vector.
            unsafe { a.store_first(got.as_mut_ptr(), count) };
            assert_eq!((&got[..count], got[count]), (&xs[..count], 9.0));
            if count > 0 {
                let mut got = vec![9.0; V::LANES + 1];
                // SAFETY: at most a vector.
                unsafe { a.store_from_second(got.as_mut_ptr().add(1), count) };
                assert_eq!((got[0], &got[1..count], got[count]), (9.0, &xs[1..count], 9.0));
            }
            // SAFETY: so many floats.
            let first = unsafe { V::load_first(xs.as_ptr(), count) };
            assert_eq!(lanes(first), of(&|at| if at < count { x(at) } else { 0.0 }));
        }
        for lane in 0..V::LANES {
            assert_eq!(
                lanes(a.with_lane(lane, 7.0)),
                of(&|at| if at == lane { 7.0 } else { x(at) })
            );
        }
        let upper = |at: usize| f32::from_bits(xs[at].to_bits() & 0xffff_0000);
        let halves: Vec<u16> =
            (0..2 * V::LANES).map(|at| (upper(at).to_bits() >> 16) as u16).collect();
        // SAFETY: twice a vector of halves.
        let [even, odd] = unsafe { V::load_halves(halves.as_ptr()) };
        assert_eq!(lanes(even), of(&|at| upper(2 * at)));
        assert_eq!(lanes(odd), of(&|at| upper(2 * at + 1)));
    }
}

#[test]
fn every_vector_is_its_lanes() {
    const FORMS: &[Form<unsafe fn(&())>] = forms!(Lanes, |()| ());
    for form in detected(FORMS) {
        // SAFETY: the machine has it.
        unsafe { (form.run)(&()) };
    }
}
