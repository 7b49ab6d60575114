//! Every variant against the definition, however matrices lie.

use super::*;

#[test]
fn every_variant_multiplies_matrices_however_they_lie() {
    let number = |seed: usize| (seed.wrapping_mul(2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
    for [rows, depth, columns] in
        [[1, 1, 1], [3, 17, 5], [13, 64, 33], [50, 9, 70], [7, CLASHING, 9], [70, 800, 32]]
    {
        let left: Vec<f32> = (0..rows * depth).map(number).collect();
        let right: Vec<f32> = (0..depth * columns).map(|i| number(i + 7)).collect();
        let want = |row: usize, column: usize| -> f32 {
            (0..depth).map(|k| left[row * depth + k] * right[k * columns + column]).sum()
        };
        let turned = |of: &[f32], width: usize| -> Vec<f32> {
            (0..of.len())
                .map(|at| of[at % (of.len() / width) * width + at / (of.len() / width)])
                .collect()
        };
        for variant in VARIANTS.all() {
            for (lie_left, lie_right) in [
                (Layout::RowMajor, Layout::RowMajor),
                (Layout::RowMajor, Layout::ColumnMajor),
                (Layout::ColumnMajor, Layout::RowMajor),
            ] {
                let matrices =
                    MatrixProduct::new(variant.isa, [rows, depth, columns], lie_left, lie_right)
                        .unwrap();
                let as_it_lies = |of: &[f32], width: usize, lie: Layout| match lie {
                    Layout::RowMajor => of.to_vec(),
                    Layout::ColumnMajor => turned(of, width),
                };
                let (a, b) =
                    (as_it_lies(&left, depth, lie_left), as_it_lies(&right, columns, lie_right));
                let mut got = vec![9.0; rows * columns];
                let mut scratch = vec![f32::NAN; matrices.scratch_len()];
                matrices.compute(In::of(&a), In::of(&b), Out::of(&mut got), &mut scratch).unwrap();
                for (at, got) in got.into_iter().enumerate() {
                    let want = want(at / columns, at % columns);
                    let near = (got - want).abs() <= 1e-3;
                    assert!(near, "{:?} {rows}x{depth}x{columns}: {got}, {want}", variant.isa);
                }
            }
        }
    }
}

/// Several left matrices by a right one that a function makes of another, panel by panel.
#[test]
fn parts_have_the_bits_of_products_by_a_packed_matrix() {
    let number = |seed: usize| (seed.wrapping_mul(2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
    let numbers = |count: usize, seed: usize| -> Vec<f32> {
        (0..count).map(|at| number(at + seed)).collect()
    };
    for [count, rows, depth, columns] in
        [[1, 1, 1, 1], [3, 1, 17, 70], [2, 13, 64, 33], [2, 3, CLASHING, 5]]
    {
        for isa in Isa::all() {
            for (left, right) in [
                (Layout::RowMajor, Layout::RowMajor),
                (Layout::RowMajor, Layout::ColumnMajor),
                (Layout::ColumnMajor, Layout::RowMajor),
            ] {
                let product = MatrixProduct::new(isa, [rows, depth, columns], left, right).unwrap();
                let stride = |layout, row, column| match layout {
                    Layout::RowMajor => row,
                    Layout::ColumnMajor => column,
                };
                let (left_stride, right_stride) =
                    (stride(left, depth, rows), stride(right, columns, depth));
                let of_left: Vec<_> = (0..count).map(|part| numbers(rows * depth, part)).collect();
                let of_right = numbers(depth * columns, 99);
                let doubled: Vec<f32> = of_right.iter().map(|x| x * 2.0).collect();
                let mut scratch = vec![f32::NAN; product.scratch_len()];
                let want: Vec<Vec<f32>> = of_left
                    .iter()
                    .map(|left| {
                        let mut to = vec![0.0; rows * columns];
                        let (left, right) = (In::of(left), In::of(&doubled));
                        product.compute(left, right, Out::of(&mut to), &mut scratch).unwrap();
                        to
                    })
                    .collect();
                let gap = columns + 2;
                let mut got = vec![9.0; count * rows * gap];
                let all = Out::of(&mut got);
                let part = |at: usize| Part {
                    left: Matrix { all: In::of(&of_left[at]), stride: left_stride },
                    output: all.slice(at * rows * gap..all.len()),
                    stride: gap,
                };
                let right = Matrix { all: In::of(&of_right), stride: right_stride };
                let mut panel = vec![f32::NAN; product.panel_len()];
                let mut copied = vec![f32::NAN; count * product.copied_len(rows, left_stride)];
                let double = |lines: &mut [f32]| {
                    lines.iter_mut().for_each(|x| *x *= 2.0);
                    Ok(())
                };
                let (extents, copied) = ([count, rows], &mut copied[..]);
                product.compute_parts(right, double, extents, part, &mut panel, copied).unwrap();
                let no = |_: &mut [f32]| Err("no".to_owned());
                let refused = product.compute_parts(right, no, extents, part, &mut panel, copied);
                assert_eq!(refused, Err("no".to_owned()));
                let short = &mut panel[1..];
                assert!(
                    product.compute_parts(right, double, extents, part, short, copied).is_err()
                );
                for (row, got) in got.chunks(gap).enumerate() {
                    let want = &want[row / rows][row % rows * columns..][..columns];
                    assert_eq!(got[columns..], [9.0, 9.0], "{isa:?}");
                    let same = got.iter().zip(want).all(|(x, y)| x.to_bits() == y.to_bits());
                    assert!(same, "{isa:?} {count} of {rows}x{depth}x{columns} {left:?} {right:?}");
                }
            }
        }
    }
}
