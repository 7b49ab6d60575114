//! Moves of regular places, by each of the ways that they go.

use super::*;

#[test]
fn axes_that_follow_each_other_become_one() {
    let rows = Strided::new(0, [(2, 12), (3, 4), (1, 99), (4, 1)]);
    assert_eq!(rows, Strided { extents: vec![24], strides: vec![1], base: 0 });
    let transposed = Strided::new(0, [(4, 1), (3, 4)]);
    assert_eq!(transposed.extents, [4, 3]);
}

#[test]
fn matrices_of_any_size_are_transposed() {
    let input: Vec<u16> = (0..3 * 30 * 20).collect();
    for rows in [1, 2, 7, 8, 17, 30] {
        for columns in [2, 3, 5, 8, 13, 20] {
            let mut output = vec![0; 3 * rows * columns];
            let axes = [(3, 600), (rows, 1), (columns, 30)];
            let strided = Strided::new(0, axes);
            for isa in Isa::all() {
                output.fill(0);
                strided.run(isa, In::of(&input), Out::of(&mut output));
                for (at, got) in output.iter().enumerate() {
                    let (column, rest) = (at % columns, at / columns);
                    let place = rest / rows * 600 + rest % rows + column * 30;
                    assert_eq!(*got, input[place], "{rows} by {columns}, {isa:?}");
                }
            }
        }
    }
}

#[test]
fn small_blocks_are_permuted() {
    let input: Vec<u16> = (0..5 * 7 * 40).collect();
    // Axes and how many of them are a block.
    type Axes<'a> = &'a [(usize, isize)];
    let cases: [(Axes<'_>, Option<usize>); 7] = [
        (&[(5, 24), (8, 1), (3, 8)], Some(2)),
        (&[(5, 280), (7, 40), (8, 1), (3, 8)], Some(2)),
        (&[(5, 24), (3, 2), (4, 6), (2, 1)], Some(3)),
        (&[(7, 1), (5, 7)], Some(2)),
        (&[(2, 60), (5, 2), (6, 10), (2, 1)], Some(3)),
        (&[(5, 40), (3, 8), (8, 1)], None),
        (&[(5, 100), (8, 1), (3, 16)], None),
    ];
    for (axes, want) in cases {
        let strided = Strided::new(3, axes.iter().copied());
        let count: usize = axes.iter().map(|axis| axis.0).product();
        for isa in Isa::all() {
            let blocks = strided.small_blocks(isa, 2);
            // A matrix of squares is left to those where blocks have no vectors.
            let is_matrix = axes == [(7, 1), (5, 7)];
            let has_vectors = BlockPermutation::new(isa, 2, &[0]).unwrap().isa() != Isa::Scalar;
            let want = want.filter(|_| !is_matrix || has_vectors);
            assert_eq!(blocks.as_ref().map(|blocks| blocks.1), want, "{axes:?}");
            let Some(blocks) = blocks else { continue };
            let (mut got, mut want) = (vec![0u16; count], vec![0u16; count]);
            let to = Out::of(&mut got).bytes();
            strided.permute(&blocks, In::of(&input).bytes(), to, 2).unwrap();
            strided.run(isa, In::of(&input), Out::of(&mut want));
            assert_eq!(got, want, "{axes:?}, {isa:?}");
        }
    }
}

/// Transposes two matrices of each size, the columns of which lie 50 elements apart.
fn transposes<T: Element + std::fmt::Debug>(input: &[T], sizes: &[(usize, usize)]) {
    for &(rows, columns) in sizes {
        let mut output = vec![T::default(); 2 * rows * columns];
        let distance = rows.max(50);
        let each = 50 * distance;
        let axes = [(2, signed(each)), (rows, 1), (columns, signed(distance))];
        let strided = Strided::new(0, axes);
        strided.run(Isa::best(), In::of(input), Out::of(&mut output));
        for (at, got) in output.iter().enumerate() {
            let (column, rest) = (at % columns, at / columns);
            let place = rest / rows * each + rest % rows + column * distance;
            assert_eq!(*got, input[place], "{rows} by {columns}");
        }
    }
}

#[test]
fn matrices_of_bytes_are_transposed_by_squares() {
    let input: Vec<u8> = (0..251).cycle().take(2 * 50 * 300).collect();
    transposes(&input, &[(16, 16), (17, 31), (40, 16), (50, 49), (15, 33), (290, 50), (257, 17)]);
}

#[test]
fn matrices_of_words_are_transposed_by_squares() {
    let input: Vec<u32> = (0..2 * 50 * 300).collect();
    transposes(
        &input,
        &[(4, 4), (5, 4), (7, 31), (40, 16), (50, 49), (3, 33), (299, 50), (257, 5)],
    );
}

#[test]
fn few_rows_and_few_columns_are_transposed() {
    let input: Vec<u32> = (0..4 * 100).collect();
    for (narrow, wide) in
        [2, 3, 4, 5].into_iter().flat_map(|few| [15, 16, 17, 80].map(|n| (few, n)))
    {
        for (rows, columns) in [(narrow, wide), (wide, narrow)] {
            let axes = [(rows, 1), (columns, signed(rows))];
            let count = rows * columns;
            let want: Vec<u32> =
                (0..count).map(|at| input[at / columns + at % columns * rows]).collect();
            for isa in Isa::all() {
                let mut output = vec![0; count];
                let strided = Strided::new(0, axes);
                strided.run(isa, In::of(&input[..count]), Out::of(&mut output));
                assert_eq!(output, want, "{rows} by {columns}, {isa:?}");
                let bytes: Vec<u8> = input[..count].iter().map(|x| x.to_le_bytes()[0]).collect();
                let mut output = vec![0; count];
                strided.run(isa, In::of(&bytes), Out::of(&mut output));
                assert!(output.iter().zip(&want).all(|(x, want)| *x == want.to_le_bytes()[0]));
            }
        }
    }
}

#[test]
fn every_second_element_of_any_many() {
    let input: Vec<u32> = (0..100).collect();
    for isa in Isa::all() {
        for count in 1..=50 {
            let mut output = vec![0; count];
            let strided = Strided::new(100 - 2 * count + 1, [(count, 2)]);
            strided.run(isa, In::of(&input), Out::of(&mut output));
            let want: Vec<u32> = (0..100).skip(101 - 2 * count).step_by(2).collect();
            assert_eq!(output, want, "{isa:?}");
        }
    }
}

#[test]
fn backwards_and_repeated() {
    let input = [1u8, 2, 3];
    let mut output = [0; 6];
    Strided::new(2, [(2, 0), (3, -1)]).run(Isa::best(), In::of(&input), Out::of(&mut output));
    assert_eq!(output, [3, 2, 1, 3, 2, 1]);
}
