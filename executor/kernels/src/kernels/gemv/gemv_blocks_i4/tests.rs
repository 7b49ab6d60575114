//! Every variant against the sums written out, extreme values included.

use super::*;

fn byte(at: usize) -> i8 {
    match at % 7 {
        0 => i8::MIN,
        1 => i8::MAX,
        _ => (at.wrapping_mul(2_654_435_761) >> 8).to_le_bytes()[0].cast_signed(),
    }
}

#[test]
fn every_variant_adds_up_the_blocks() {
    for (block, blocks) in [(8, 1), (8, 3), (16, 5), (32, 1), (32, 8), (40, 2), (256, 3)] {
        for columns in [1, 15, 16, 17, 33, 48, 64, 80, 130] {
            let depth = block * blocks;
            let row: Vec<i8> = (0..depth).map(byte).collect();
            let weights: Vec<i8> = (0..depth * columns).map(|at| byte(at + 3) >> 4).collect();
            let scale = |at: usize| f32::from(byte(at)) * 0.013;
            let scales: Vec<f32> = (0..columns * blocks).map(scale).collect();
            for variant in VARIANTS.all() {
                let gemv = GemvBlocks::new(variant.isa, &weights, block, blocks, &scales).unwrap();
                assert_eq!((gemv.isa(), gemv.blocks()), (variant.isa, blocks));
                let (mut starts, mut totals) = (vec![0; blocks], vec![7.0; gemv.totals()]);
                gemv.compute(&row, &mut starts, &mut totals).unwrap();
                for (column, row_of_weights) in weights.chunks_exact(depth).enumerate() {
                    let mut want = 0.0;
                    for at in 0..blocks {
                        let pairs = row.iter().zip(row_of_weights).skip(at * block).take(block);
                        let sum: i32 = pairs.map(|(&x, &w)| i32::from(x) * i32::from(w)).sum();
                        #[expect(clippy::cast_precision_loss, reason = "as in the definition")]
                        let product = sum as f32 * scales[column * blocks + at];
                        want += product;
                    }
                    let what = format!("{:?}, {blocks} of {block}", variant.isa);
                    assert_eq!(totals[column].to_bits(), f32::to_bits(want), "{what}");
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let new = |weights: &[i8], block, blocks, scales: &[f32]| {
        GemvBlocks::new(Isa::Scalar, weights, block, blocks, scales)
    };
    assert!(new(&[7; 16], 8, 1, &[1.0; 2]).is_some());
    assert!(new(&[8; 16], 8, 1, &[1.0; 2]).is_none(), "more than four bits");
    assert!(new(&[7; 16], 4, 2, &[1.0; 4]).is_none(), "half a line");
    assert!(new(&[7; 16], 8, 1, &[1.0; 3]).is_none());
    assert!(new(&[7; 17], 8, 1, &[1.0; 2]).is_none());
    assert!(new(&[], 8, 0, &[]).is_none());
    let one = new(&[7; 8], 8, 1, &[1.0]).unwrap();
    assert!(one.compute(&[1; 7], &mut [0], &mut [0.0; 16]).is_err());
    assert!(one.compute(&[1; 8], &mut [], &mut [0.0; 16]).is_err());
    assert!(one.compute(&[1; 8], &mut [0], &mut [0.0; 15]).is_err());
}
