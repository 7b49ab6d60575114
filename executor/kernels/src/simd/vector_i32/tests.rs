//! Every vector against its lanes one by one.

use super::*;
use crate::simd::requantise::{Quick, RequantiseSimd, Scaling};
use crate::simd::{Kernel, Simd, Variants, variants};
use crate::tensor::quant::Multiplier;

struct Lanes;

impl Kernel for Lanes {
    type Work = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, (): &()) {
        let number = |at: u32| at.wrapping_mul(2_654_435_761).cast_signed();
        let xs: Vec<i32> = (0..80).map(number).collect();
        let lanes = |v: S::I32| {
            let mut lanes = vec![0; S::I32::LANES];
            // SAFETY: as many numbers as a vector has.
            unsafe { v.store(lanes.as_mut_ptr()) };
            lanes
        };
        let of = |each: &dyn Fn(usize) -> i32| (0..S::I32::LANES).map(each).collect::<Vec<_>>();
        // SAFETY: enough numbers for four vectors.
        let [a, b, c, d] =
            [0, 1, 2, 3].map(|at| unsafe { S::I32::load(isa, xs[at * S::I32::LANES..].as_ptr()) });
        let (x, y) = (|at: usize| xs[at], |at: usize| xs[S::I32::LANES + at]);
        let all = |x: i32| S::I32::splat(isa, x);
        assert_eq!(lanes(a.add(b)), of(&|at| x(at).wrapping_add(y(at))));
        assert_eq!(lanes(a.sub(b)), of(&|at| x(at).wrapping_sub(y(at))));
        assert_eq!(lanes(a.mul(b)), of(&|at| x(at).wrapping_mul(y(at))));
        assert_eq!(lanes(a.missing(b)), of(&|at| !x(at) & y(at)));
        assert_eq!(lanes(a.shift_left::<20>()), of(&|at| x(at) << 20));
        assert_eq!(lanes(a.shift_right(all(9))), of(&|at| x(at) >> 9));
        assert_eq!(lanes(a.clamp(all(-77), all(1 << 20))), of(&|at| x(at).clamp(-77, 1 << 20)));
        let greater = |at: usize| x(at).cast_unsigned().max(y(at).cast_unsigned()).cast_signed();
        assert_eq!(lanes(a.max_unsigned(b)), of(&greater));
        let most = (0..S::I32::LANES).map(|at| x(at).cast_unsigned()).max().unwrap();
        assert!(a.any_reaches_unsigned(all(most.cast_signed())));
        assert!(!a.any_reaches_unsigned(all((most + 1).cast_signed())));
        let factors: Vec<f32> = (0..80u8).map(|at| f32::from(at) * 1.3e-7).collect();
        // SAFETY: more floats than lanes.
        let [nearest, apart] = unsafe { a.nearest_products(factors.as_ptr(), (-90.0, 70.0)) };
        #[expect(clippy::cast_precision_loss, reason = "as vectors convert them")]
        let real = |at: usize| x(at) as f32 * factors[at];
        let clamped = |at: usize| real(at).round_ties_even().clamp(-90.0, 70.0);
        #[expect(clippy::cast_possible_truncation, reason = "clamped")]
        let want = |at: usize| clamped(at) as i32;
        assert_eq!(lanes(nearest), of(&want));
        let distance = |at: usize| (real(at) - real(at).round_ties_even()).abs();
        assert_eq!(lanes(apart), of(&|at| distance(at).to_bits().cast_signed()));
        let whole = S::I32::whole_parts([0, 1].map(|at| {
            let at = at.min(S::I32::LANES / S::F32::LANES - 1);
            a.floats(at).mul(S::F32::splat(isa, 1e-3))
        }));
        #[expect(clippy::cast_precision_loss, reason = "as vectors convert them")]
        #[expect(clippy::cast_possible_truncation, reason = "cut")]
        let cut = |at: usize| (x(at) as f32 * 1e-3) as i32;
        assert_eq!(lanes(whole), of(&cut));
        let addends: Vec<f32> = factors.iter().map(|factor| factor * 1e5 - 0.3).collect();
        let channels = FloatChannels {
            offsets: xs[7..].as_ptr(),
            factors: factors.as_ptr(),
            factor: 0.7,
            addends: addends.as_ptr(),
            range: (-30.0, 40.0),
        };
        for count in 0..=S::I32::LANES {
            let mut got = vec![9.0; S::I32::LANES + 1];
            // SAFETY: more numbers than lanes, and at most a vector is stored.
            unsafe { a.store_floats(&channels, got.as_mut_ptr(), count) };
            for (at, got) in got.into_iter().enumerate() {
                // SAFETY: as above.
                let float = || unsafe { channels.float(x(at), at) };
                let want = if at < count { float() } else { 9.0 };
                assert_eq!(got.to_bits(), want.to_bits(), "{at} of {count}");
            }
        }
        let small = a.shift_right(all(22));
        let factors = all(!0xffff).missing(b.shift_right(all(22)));
        let product =
            |at: usize| xs[2 * S::I32::LANES + at].wrapping_add((x(at) >> 22) * (y(at) >> 22));
        assert_eq!(lanes(c.mul_add_16(small, factors)), of(&product));
        let bytes: Vec<u8> = xs.iter().map(|x| x.to_le_bytes()[3]).collect();
        // SAFETY: more bytes than lanes.
        let wide = unsafe { S::I32::bytes(isa, bytes.as_ptr(), 0x80) };
        assert_eq!(lanes(wide), of(&|at| i32::from(bytes[at] ^ 0x80)));
        for count in 0..=S::I32::LANES {
            let kept = |at: usize| if at < count { x(at) } else { 0 };
            assert_eq!(lanes(a.first(count)), of(&kept));
            // SAFETY: as above.
            let first = lanes(unsafe { S::I32::first_bytes(isa, bytes.as_ptr(), count, 0x80) });
            assert_eq!(first[..count], lanes(wide)[..count]);
            // SAFETY: as above.
            let signed = lanes(unsafe { S::I32::first_signed_bytes(isa, bytes.as_ptr(), count) });
            let want = of(&|at| i32::from(bytes[at].cast_signed()));
            assert_eq!(signed[..count], want[..count]);
            let words: Vec<i16> =
                bytes.iter().map(|&byte| i16::from_le_bytes([byte, byte ^ 0x5A])).collect();
            // SAFETY: as above.
            let wide = lanes(unsafe { S::I32::first_words(isa, words.as_ptr(), count) });
            assert_eq!(wide[..count], of(&|at| i32::from(words[at]))[..count]);
            let mut got = vec![9; S::I32::LANES + 1];
            // SAFETY: at most a vector.
            unsafe { a.store_words(got.as_mut_ptr(), count) };
            let lower = |x: &i32| bytemuck::cast::<i32, [i16; 2]>(*x)[0];
            let want: Vec<_> = xs[..count].iter().map(lower).collect();
            assert_eq!((&got[..count], got[count]), (&want[..], 9));
            let mut got = vec![9; S::I32::LANES + 1];
            // SAFETY: at most a vector.
            unsafe { a.store_bytes(got.as_mut_ptr(), count) };
            let want: Vec<_> = xs[..count].iter().map(|x| x.to_le_bytes()[0]).collect();
            assert_eq!((&got[..count], got[count]), (&want[..], 9));
        }
        for (negative, (low, high)) in [(true, (-100, 120)), (false, (-3, 127)), (true, (5, 250))] {
            let one = Multiplier::new(0.000_013);
            let scaling = Scaling::new(&[one], 64, if negative { 7 } else { -3 }, low, high);
            let channels = scaling.from(0);
            assert_eq!(channels.quick, Some(Quick { negative }));
            // SAFETY: sixty-four channels, and room for four vectors.
            unsafe {
                let (by, quick) =
                    (S::I32::multipliers(isa, &channels, 0), S::I32::quick(isa, &channels, 0));
                let want = |at: usize| channels.stored(xs[at] >> 6, at);
                let sums = [a, b, c, d].map(|v| v.shift_right(all(6)));
                assert_eq!(lanes(sums[0].scaled(&by)), of(&|at| one.apply(x(at) >> 6)));
                assert_eq!(lanes(sums[0].stored(&by)), of(&want));
                let rounded = sums.map(|v| match negative {
                    true => v.rounded::<true>(&quick),
                    false => v.rounded::<false>(&quick),
                });
                for count in 0..=4 * S::I32::LANES {
                    let mut got = vec![9; 4 * S::I32::LANES + 1];
                    S::I32::store_narrow(
                        rounded,
                        &S::I32::narrow(isa, channels.range()),
                        got.as_mut_ptr(),
                        count,
                    );
                    for (at, got) in got.into_iter().enumerate() {
                        let want = if at < count { want(at).to_le_bytes()[0] } else { 9 };
                        assert_eq!(got, want, "{low} to {high}, {at} of {count}");
                    }
                }
            }
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
