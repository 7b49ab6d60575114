//! Products of bf16 numbers: where a model allows them and somebody asks for them, and nowhere
//! else.
#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

use nnburst_executor::{CompileOptions, Control, Input, Isa, Output, Plan};
use nnburst_hal::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
    View, ViewMut,
};

const DEPTH: usize = 77;
const UNITS: usize = 37;

/// FULLY_CONNECTED of `rows` rows.
fn product(rows: usize, relaxed: bool) -> Model {
    let tensor = |dimensions: &[usize], lifetime| {
        let dimensions = dimensions.iter().map(|&extent| u32::try_from(extent).unwrap()).collect();
        Operand::tensor(OperandType::TensorFloat32, dimensions).with_lifetime(lifetime)
    };
    let mut operand_values: Vec<u8> = numbers(DEPTH * UNITS + UNITS, 3);
    let mut constant = |operand: Operand, offset: usize, length: usize| {
        operand_values.resize(operand_values.len().max(offset + length), 0);
        let [offset, length] = [offset, length].map(|bytes| u32::try_from(bytes).unwrap());
        Operand { location: DataLocation { pool_index: 0, offset, length }, ..operand }
    };
    let copied = OperandLifeTime::ConstantCopy;
    let (weights, bias) = (DEPTH * UNITS * 4, UNITS * 4);
    let mut operands = vec![
        tensor(&[rows, DEPTH], OperandLifeTime::SubgraphInput),
        constant(tensor(&[UNITS, DEPTH], copied), 0, weights),
        constant(tensor(&[UNITS], copied), weights, bias),
        constant(Operand::scalar(OperandType::Int32).with_lifetime(copied), weights + bias, 4),
        tensor(&[rows, UNITS], OperandLifeTime::SubgraphOutput),
    ];
    operands.iter_mut().take(4).for_each(|operand| operand.number_of_consumers = 1);
    let kind = OperationType::FullyConnected;
    let main = Subgraph {
        operands,
        operations: vec![Operation { kind, inputs: vec![0, 1, 2, 3], outputs: vec![4] }],
        input_indexes: vec![0],
        output_indexes: vec![4],
    };
    let relax_computation_float32_to_float16 = relaxed;
    Model { main, operand_values, relax_computation_float32_to_float16, ..Model::default() }
}

/// Numbers from -1 to 1 that take more than 8 bits.
fn numbers(count: usize, seed: usize) -> Vec<u8> {
    let number = |at: usize| ((at + seed).wrapping_mul(2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
    (0..count).flat_map(|at| number(at).to_le_bytes()).collect()
}

/// The kernel that was chosen, and its results.
fn run(rows: usize, relaxed: bool, bf16: bool, isa: Isa) -> (&'static str, Vec<f32>) {
    let options = CompileOptions { bf16, isa: Some(isa), ..CompileOptions::default() };
    let plan = Plan::compile(&product(rows, relaxed), &options).unwrap();
    let kernel = plan.labels().map(|(_, _, label)| label.kernel).next().unwrap();
    let (input, mut output) = (numbers(rows * DEPTH, 1), vec![0; rows * UNITS * 4]);
    let inputs = [Input::new(View::of(&input))];
    let outputs = [Output::new(ViewMut::of(&mut output))];
    plan.session().run(&inputs, &outputs, &Control::default()).unwrap();
    let (words, _) = output.as_chunks::<4>();
    (kernel, words.iter().map(|&word| f32::from_le_bytes(word)).collect())
}

#[test]
fn floats_are_halved_only_where_the_model_allows_it_and_somebody_wishes_it() {
    for isa in Isa::all() {
        for (rows, float, halved) in [(1, "gemv_f32", "gemv_bf16"), (13, "gemm_f32", "gemm_bf16")] {
            let (kernel, exact) = run(rows, false, false, isa);
            assert_eq!(kernel, float, "{isa:?}");
            for (relaxed, bf16) in [(true, false), (false, true)] {
                assert_eq!(run(rows, relaxed, bf16, isa), (float, exact.clone()), "{isa:?}");
            }
            let (kernel, rounded) = run(rows, true, true, isa);
            // Tiles of pairs take an instruction that not every machine has.
            assert!(kernel == halved || rows > 1 && kernel == float, "{isa:?}: {kernel}");
            assert_eq!(kernel == float, rounded == exact, "{isa:?}: rounding shows");
            for (rounded, exact) in rounded.iter().zip(&exact) {
                // Both factors of a product are off by up to a 512th part.
                let bound = DEPTH as f32 / 250.0;
                assert!((rounded - exact).abs() < bound, "{isa:?}: {rounded} for {exact}");
            }
        }
    }
}
