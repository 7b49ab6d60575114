//! Every variant against the filter written out.

use super::*;

#[test]
fn every_variant_weighs_and_shifts() {
    let number = |at: usize| (at.wrapping_mul(2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
    for variant in VARIANTS.all() {
        for memory in (1..=20).chain([31, 32, 33, 48]) {
            for (units, rank) in [(1, 1), (3, 2), (17, 1), (5, 3)] {
                let features = units * rank;
                let state: Vec<f32> = (0..features * memory).map(number).collect();
                let weights: Vec<f32> = (0..features * memory).map(|i| number(i + 7)).collect();
                let newest: Vec<f32> = (0..features).map(|i| number(i + 99)).collect();
                let mut next = vec![9.0; features * memory + 1];
                let mut sums: Vec<f32> = (0..units).map(|i| number(i + 3)).collect();
                let before = sums.clone();
                let filter = Filter::new(variant.isa, units, rank, memory);
                assert_eq!(filter.isa(), variant.isa);
                let out = Out::of(&mut next[..features * memory]);
                filter.compute(In::of(&state), &newest, &weights, out, &mut sums).unwrap();
                let what = format!("{:?} {units} units of rank {rank}, {memory}", variant.isa);
                let mut want: Vec<f64> = before.iter().map(|&sum| f64::from(sum)).collect();
                for feature in 0..features {
                    let slots = &state[feature * memory..(feature + 1) * memory - 1];
                    let slots: Vec<f32> = slots.iter().copied().chain([newest[feature]]).collect();
                    let weights = &weights[feature * memory..];
                    let products = slots.iter().zip(weights);
                    want[feature / rank] +=
                        products.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
                    let shifted: Vec<f32> = slots[1..].iter().copied().chain([0.0]).collect();
                    assert_eq!(next[feature * memory..][..memory], shifted, "{what}");
                }
                for (got, want) in sums.iter().zip(want) {
                    assert!((f64::from(*got) - want).abs() < 1e-4, "{what}: {got} for {want}");
                }
                assert_eq!(next[features * memory], 9.0, "{what}: written behind the end");
            }
        }
    }
    let filter = Filter::new(Isa::Scalar, 1, 1, 2);
    let short =
        filter.compute(In::of(&[0.0; 2]), &[], &[0.0; 2], Out::of(&mut [0.0; 2]), &mut [0.0]);
    assert!(short.is_err());
}
