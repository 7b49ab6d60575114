//! Factors of exactly 1, 0 and powers of two change no number: float FULLY_CONNECTED by identities,
//! permutations and scaled ones of any size, in every form, afresh and from a cache.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use nnburst_executor::testing::through_a_cache;
use nnburst_executor::{CompileOptions, Control, Input, Isa, Output, Plan};
use nnburst_hal::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
    View, ViewMut,
};

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// FULLY_CONNECTED of `rows` rows by a square matrix.
fn product(rows: u32, columns: u32, weights: &[f32]) -> Model {
    let tensor = |dims: &[u32], lifetime| Operand {
        number_of_consumers: 1,
        ..Operand::tensor(OperandType::TensorFloat32, dims.to_vec()).with_lifetime(lifetime)
    };
    let copied = OperandLifeTime::ConstantCopy;
    let mut operand_values = Vec::new();
    let mut constant = |operand: Operand, value: Vec<u8>| {
        let offset = u32::try_from(operand_values.len()).unwrap();
        let length = u32::try_from(value.len()).unwrap();
        operand_values.extend(value);
        Operand { location: DataLocation { pool_index: 0, offset, length }, ..operand }
    };
    let none = Operand { number_of_consumers: 1, ..Operand::scalar(OperandType::Int32) };
    let operands = vec![
        tensor(&[rows, columns], OperandLifeTime::SubgraphInput),
        constant(tensor(&[columns, columns], copied), bytes(weights)),
        constant(tensor(&[columns], copied), bytes(&vec![0.0; columns as usize])),
        constant(none.with_lifetime(copied), 0i32.to_le_bytes().to_vec()),
        Operand {
            number_of_consumers: 0,
            ..tensor(&[rows, columns], OperandLifeTime::SubgraphOutput)
        },
    ];
    let operation = Operation {
        kind: OperationType::FullyConnected,
        inputs: (0..4).collect(),
        outputs: vec![4],
    };
    let main = Subgraph {
        operands,
        operations: vec![operation],
        input_indexes: vec![0],
        output_indexes: vec![4],
    };
    Model { main, operand_values, ..Model::default() }
}

fn run(plan: &Plan, xs: &[f32]) -> Vec<f32> {
    let given = bytes(xs);
    let mut made = vec![0; given.len()];
    let outputs = [Output::new(ViewMut::of(&mut made))];
    plan.session().run(&[Input::new(View::of(&given))], &outputs, &Control::default()).unwrap();
    made.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Where the one factor of a row is among so many columns, and what it is.
type Factor = fn(row: usize, columns: usize) -> (usize, f32);

#[test]
fn factors_that_change_nothing_change_nothing() {
    // Numbers of which a factor of 1 that is no factor of 1 changes most.
    let x = |at: usize| ((at + 1) as f32).sqrt() * if at.is_multiple_of(3) { -0.37 } else { 1.7 };
    for isa in Isa::all() {
        let options = CompileOptions { isa: Some(isa), ..CompileOptions::default() };
        for columns in 1..=130usize {
            for rows in [1usize, 3, 9] {
                let xs: Vec<f32> = (0..rows * columns).map(x).collect();
                let matrices: [(&str, Factor); 4] = [
                    ("identity", |row, _| (row, 1.0)),
                    ("permutation", |row, columns| ((row * 3 + 1) % columns, 1.0)),
                    ("powers of two", |row, _| {
                        (row, 2f32.powi(i32::try_from(row % 40).unwrap() - 20))
                    }),
                    ("negative ones", |row, columns| (columns - 1 - row, -1.0)),
                ];
                for (what, factor) in matrices {
                    let mut weights = vec![0.0; columns * columns];
                    for row in 0..columns {
                        let (at, factor) = factor(row, columns);
                        weights[row * columns + at] = factor;
                    }
                    let want: Vec<f32> = (0..rows * columns)
                        .map(|at| {
                            let (from, by) = factor(at % columns, columns);
                            xs[at / columns * columns + from] * by
                        })
                        .collect();
                    let extents = (u32::try_from(rows).unwrap(), u32::try_from(columns).unwrap());
                    let model = product(extents.0, extents.1, &weights);
                    let plan = Plan::compile(&model, &options).unwrap();
                    let what = format!("{what} of {columns} for {rows} rows, {isa:?}");
                    assert_eq!(run(&plan, &xs), want, "{what}");
                    let kept = through_a_cache(&plan, &model, &options).unwrap().0;
                    assert_eq!(run(&kept, &xs), want, "{what}, from a cache");
                }
            }
        }
    }
}

#[test]
fn a_factor_of_one_among_other_steps_of_its_row_changes_nothing() {
    const COLUMNS: usize = 80;
    // Rows of a converter's steps, of which the last is exactly 1; the others meet zeros.
    let weight = |row: usize, at: usize| match at == (row * 7) % COLUMNS {
        true => 1.0,
        false => ((row + at) % 255) as f32 * (1.0 / 255.0),
    };
    let weights: Vec<f32> =
        (0..COLUMNS * COLUMNS).map(|at| weight(at / COLUMNS, at % COLUMNS)).collect();
    let model = product(1, u32::try_from(COLUMNS).unwrap(), &weights);
    for isa in Isa::all() {
        let options = CompileOptions { isa: Some(isa), ..CompileOptions::default() };
        let plan = Plan::compile(&model, &options).unwrap();
        for row in 0..COLUMNS {
            let mut xs = [0.0; COLUMNS];
            xs[(row * 7) % COLUMNS] = 0.123_456_79 + row as f32;
            let got = run(&plan, &xs);
            assert_eq!(got[row], xs[(row * 7) % COLUMNS], "row {row}, {isa:?}");
        }
    }
}

#[test]
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
fn subnormal_numbers_count_as_zero_in_a_run_and_not_behind_it() {
    use std::hint::black_box;

    const COLUMNS: u32 = 128;
    // Enough rows for several threads to share.
    const ROWS: u32 = 256;
    let (rows, columns) = (ROWS as usize, COLUMNS as usize);
    let (small, large) = (2f32.powi(-140), 2f32.powi(-110));
    let xs: Vec<f32> =
        (0..rows * columns).map(|at| if at.is_multiple_of(3) { small } else { large }).collect();
    for factor in [2f32.powi(30), 2f32.powi(-30)] {
        let mut weights = vec![0.0; columns * columns];
        (0..columns).for_each(|row| weights[row * columns + row] = factor);
        // An operand of the one factor, a result of the other.
        let want: Vec<f32> =
            xs.iter().map(|&x| if x == small || factor < 1.0 { 0.0 } else { x * factor }).collect();
        let model = product(ROWS, COLUMNS, &weights);
        for isa in Isa::all() {
            for threads in [1, 2] {
                let options = CompileOptions { isa: Some(isa), threads, ..Default::default() };
                let plan = Plan::compile(&model, &options).unwrap();
                assert_eq!(run(&plan, &xs), want, "{factor}, {isa:?}, {threads} threads");
            }
        }
        assert_ne!(black_box(small) * black_box(2.0), 0.0, "the caller's own arithmetic");
    }
}
