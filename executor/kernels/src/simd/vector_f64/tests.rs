//! Every vector against its lanes one by one.

#![expect(clippy::cast_possible_truncation, reason = "rounding is what is looked at")]

use crate::simd::vector_f32::{F32Lanes, F32Simd, F64Simd, PowerTable};
use crate::simd::{Kernel, Simd, Variants, variants};

/// The integer in the lowest bits.
const SHIFT: f64 = (3u64 << 51) as f64;

static TABLE: PowerTable = {
    let mut bits = [0u64; 32];
    let mut at = 0;
    while at < 32 {
        let of = at as u64;
        bits[at] = (0x3ff0_0000_dead_beef - (of << 47)).wrapping_add(of * 0x1_2345_6789);
        at += 1;
    }
    PowerTable::new(bits)
};

struct Lanes;

impl Kernel for Lanes {
    type Work = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, (): &()) {
        let number = |at: usize| (at.wrapping_mul(2_654_435_761) % 1000) as f32 / 37.0 - 13.0;
        let xs: Vec<f32> = (0..48).map(number).collect();
        let lanes = |v: S::F32| {
            let mut lanes = vec![0.0; S::F32::LANES];
            // SAFETY: as many floats as a vector has.
            unsafe { v.store(lanes.as_mut_ptr()) };
            lanes
        };
        // SAFETY: enough floats for three vectors.
        let [a, b, c] =
            [0, 1, 2].map(|at| unsafe { S::F32::load(isa, xs[at * S::F32::LANES..].as_ptr()) });
        let of = |each: &dyn Fn(usize) -> f64| {
            (0..S::F32::LANES).map(|at| each(at) as f32).collect::<Vec<_>>()
        };
        let x = |at: usize| f64::from(xs[at]);
        let y = |at: usize| f64::from(xs[S::F32::LANES + at]);
        let z = |at: usize| f64::from(xs[2 * S::F32::LANES + at]);
        let [a, b, c] = [a, b, c].map(<S::F32 as F32Lanes>::F64::widen);
        assert_eq!(lanes(a.narrow()), of(&x));
        assert_eq!(lanes(a.filled(1.0 / 3.0).narrow()), of(&|_| 1.0 / 3.0));
        assert_eq!(lanes(a.sub(b).narrow()), of(&|at| x(at) - y(at)));
        assert_eq!(lanes(a.mul(b).narrow()), of(&|at| x(at) * y(at)));
        // The digits that a float has no room for are there.
        let digits = a.mul_add(b, a.filled(0.0).sub(a.mul(b)));
        assert_eq!(lanes(digits.narrow()), of(&|at| x(at).mul_add(y(at), -(x(at) * y(at)))));
        assert_eq!(lanes(a.mul_add(b, c).narrow()), of(&|at| x(at).mul_add(y(at), z(at))));
        for first in (-4800..4200).step_by(7) {
            let shifted = a.mul_add(a.filled(11.3), a.filled(SHIFT + f64::from(first)));
            let want =
                |at: usize| TABLE.at(x(at).mul_add(11.3, SHIFT + f64::from(first)).to_bits());
            assert_eq!(lanes(shifted.powers(&TABLE).narrow()), of(&want));
            // Lower digits too.
            let low = |power: f64| power - f64::from(power as f32);
            let powers = shifted.powers(&TABLE);
            let rest = powers.sub(<S::F32 as F32Lanes>::F64::widen(powers.narrow()));
            if (-3000..3000).contains(&first) {
                assert_eq!(lanes(rest.narrow()), of(&|at| low(want(at))));
            }
        }
    }
}

#[test]
fn each_lane_is_the_number_of_its_lane() {
    const VARIANTS: Variants<unsafe fn(&())> = variants!(Lanes, |()| {});
    for variant in VARIANTS.all() {
        // SAFETY: the table yields what the machine has.
        unsafe { (variant.run)(&()) };
    }
}
