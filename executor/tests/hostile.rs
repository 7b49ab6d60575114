//! Hostile values: whatever indexes, axes, shapes and sizes say, and whenever they change, a plan
//! computes something or refuses, and stays within its tensors. The build checks indexes and
//! overflow.
//!
//! The models are those of the conformance cases, with random numbers and extents put in; the seed
//! of a failure is printed, and `NNBURST_SEED` runs that one alone.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nnburst_conformance::{Case, load_dir, shared_dir};
use nnburst_executor::testing::{TestRng, extension_forms, fuzz_extension, fuzz_hostile_values};
use nnburst_executor::{CompileOptions, Control, Input, Output, Plan};
use nnburst_hal::{Access, Memory, OperandLifeTime, OperandType, View, ViewMut};

/// Numbers that index computations go wrong on.
const INTS: [i32; 16] =
    [0, 1, -1, 2, -2, 3, 5, 8, 255, -129, 65_535, 65_536, 0x7fff_0000, i32::MAX, i32::MIN, -4];

/// Numbers that float computations go wrong on.
const FLOATS: [f32; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-30,
    1e30,
    f32::MAX,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    300.0,
];

/// Puts random numbers into some places of a value.
fn spoil(kind: OperandType, bytes: &mut [u8], rng: &mut TestRng) {
    let mut put = |element: &[u8], rng: &mut TestRng| {
        let count = bytes.len() / element.len();
        if count > 0 {
            let at = rng.below(count) * element.len();
            bytes[at..at + element.len()].copy_from_slice(element);
        }
    };
    match kind.element_bytes() {
        Some(4) if matches!(kind, OperandType::TensorFloat32 | OperandType::Float32) => {
            put(&rng.one_of(&FLOATS).to_le_bytes(), rng);
        }
        Some(4) => put(&rng.one_of(&INTS).to_le_bytes(), rng),
        Some(2) => {
            let bits = [0x7c00u16, 0xfc00, 0x7e00, 0x7bff, 0, 0x8000, 1][rng.below(7)];
            put(&bits.to_le_bytes(), rng);
        }
        Some(1) => put(&[[0, 1, 255, 128, 127][rng.below(5)]], rng),
        _ => {}
    }
}

/// Changes constants, inputs, extents or quantisation of a case.
fn mutate(case: &mut Case, rng: &mut TestRng) {
    for _ in 0..=rng.below(3) {
        let operand = rng.below(case.model.main.operands.len());
        let operand = &mut case.model.main.operands[operand];
        match (rng.below(8), operand.lifetime) {
            (0, _) if !operand.dimensions.is_empty() => {
                let extents = [0, 1, 2, 3, 7, 65_535, 65_536, 1 << 20, u32::MAX];
                let at = rng.below(operand.dimensions.len());
                operand.dimensions[at] = extents[rng.below(extents.len())];
            }
            (1, _) if operand.scale != 0.0 => operand.scale = rng.one_of(&FLOATS),
            (2, _) if operand.scale != 0.0 => operand.zero_point = rng.one_of(&INTS),
            (_, OperandLifeTime::ConstantCopy) => {
                let start = operand.location.offset as usize;
                let end = start + operand.location.length as usize;
                let kind = operand.kind;
                if let Some(bytes) = case.model.operand_values.get_mut(start..end) {
                    spoil(kind, bytes, rng);
                }
            }
            _ if !case.inputs.is_empty() => {
                let input = rng.below(case.inputs.len());
                let value = &mut case.inputs[input];
                spoil(value.kind, &mut value.bytes, rng);
            }
            _ => {}
        }
    }
}

fn options() -> CompileOptions {
    CompileOptions { arena_limit: 1 << 22, ..CompileOptions::default() }
}

fn control() -> Control<'static> {
    Control { loop_timeout: Duration::from_millis(5), ..Control::default() }
}

/// Buffers with a margin that must stay as it is.
const MARGIN: usize = 32;

/// Compiles and runs; whatever comes out, nothing is written beyond the outputs.
fn run(case: &Case, inputs: &[Input<'_>], times: usize) {
    let Ok(plan) = Plan::compile(&case.model, &options()) else { return };
    let mut session = plan.session();
    let sizes: Vec<usize> = case.outputs.iter().map(|output| output.bytes.len().max(1)).collect();
    let mut buffers: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0xA5; size + MARGIN]).collect();
    for _ in 0..times {
        let outputs: Vec<_> = buffers
            .iter_mut()
            .zip(&sizes)
            .map(|(buffer, &size)| Output::new(ViewMut::of(&mut buffer[..size])))
            .collect();
        let _ = session.run(inputs, &outputs, &control());
    }
    for (buffer, &size) in buffers.iter().zip(&sizes) {
        assert!(buffer[size..].iter().all(|&byte| byte == 0xA5), "written beyond an output");
    }
}

/// The fuzz target's body over many starts; that most of them compute something keeps it honest.
#[test]
fn random_models_with_random_values_are_computed_or_refused() {
    // A PAD of an empty tensor that looked for its rows; rows of nothing that SOFTMAX was to read
    // where they lie.
    let found = [866_533, 869];
    let computed = found.into_iter().chain(0..rounds(1) * 3000).filter(|seed| {
        let mut rng = TestRng::of_seed(*seed);
        let bytes: Vec<u8> = (0..400).map(|_| rng.number().to_le_bytes()[0]).collect();
        let outcome = std::panic::catch_unwind(|| fuzz_hostile_values(&bytes));
        outcome.unwrap_or_else(|_| panic!("seed {seed}"))
    });
    let computed = computed.count();
    println!("{computed} computed");
    assert!(computed > 200, "{computed} computed, the others refused");
}

/// The same for every operation of the extension `dev.nnburst.tflite`, each of which some of the
/// models compute.
#[test]
fn operations_of_the_extension_are_computed_or_refused() {
    let mut left: std::collections::BTreeSet<_> = extension_forms().collect();
    let mut failed = std::collections::BTreeMap::new();
    for seed in 0..rounds(1) * 20_000 {
        let mut rng = TestRng::of_seed(seed);
        let bytes: Vec<u8> = (0..200).map(|_| rng.number().to_le_bytes()[0]).collect();
        match std::panic::catch_unwind(|| fuzz_extension(&bytes)) {
            Ok((form, true)) => {
                left.remove(&form);
            }
            Ok(_) => {}
            Err(cause) => {
                let cause = cause.downcast_ref::<String>().cloned().unwrap_or_default();
                failed.entry(cause).or_insert(seed);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(left.is_empty(), "never computed: {left:?}");
}

fn cases() -> Option<Vec<Case>> {
    let folder = shared_dir("conformance")?;
    let wanted = std::env::var("NNBURST_CASES").unwrap_or_default();
    let cases = load_dir(folder).unwrap().map(Result::unwrap);
    Some(cases.filter(|case| case.spec.contains(&wanted)).collect())
}

/// How often each case is corrupted; `NNBURST_ROUNDS` for a longer search.
fn rounds(default: u64) -> u64 {
    std::env::var("NNBURST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(default)
}

#[test]
fn corrupt_models_and_inputs_are_computed_or_refused() {
    let Some(cases) = cases() else {
        return;
    };
    let only: Option<u64> = std::env::var("NNBURST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut failed = std::collections::BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        for round in 0..rounds(1) {
            let seed = only.unwrap_or(index as u64 * 1_000_003 + round);
            let outcome = std::panic::catch_unwind(|| {
                let mut corrupt = case.clone();
                mutate(&mut corrupt, &mut TestRng::of_seed(seed));
                let inputs: Vec<_> = corrupt.inputs.iter().map(|v| argument(&v.bytes)).collect();
                run(&corrupt, &inputs, 1);
            });
            if outcome.is_err() {
                let first = case.model.main.operations.first().map(|operation| operation.kind);
                let what = format!("{} {} with seed {seed}", case.spec, case.name);
                failed.entry(first).or_insert(what);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

fn argument(bytes: &[u8]) -> Input<'_> {
    if bytes.is_empty() { Input::NoValue } else { Input::new(View::of(bytes)) }
}

/// Every input lies in memory that another thread scribbles into while the plan runs.
#[test]
fn memory_that_changes_while_it_is_read_is_survived() {
    let Some(cases) = cases() else {
        return;
    };
    // One case of each file and variation is enough of each operation.
    let step = usize::try_from(rounds(7)).unwrap();
    for (index, case) in cases.iter().enumerate().step_by(step) {
        if case.inputs.iter().all(|input| input.bytes.is_empty()) {
            continue;
        }
        let offsets: Vec<usize> = case
            .inputs
            .iter()
            .scan(0, |end, input| {
                let start = *end;
                *end += input.bytes.len();
                Some(start)
            })
            .collect();
        let whole: Vec<u8> = case.inputs.iter().flat_map(|input| input.bytes.clone()).collect();
        let memory = Memory::ashmem(whole.len() as u64).unwrap();
        let (reader, writer) =
            (memory.map(Access::ReadWrite).unwrap(), memory.map(Access::ReadWrite).unwrap());
        writer.view_mut(0..whole.len()).unwrap().copy_from_slice(&whole);
        let inputs: Vec<Input<'_>> = case
            .inputs
            .iter()
            .zip(&offsets)
            .map(|(input, &start)| match input.bytes.len() {
                0 => Input::NoValue,
                len => Input::new(reader.view(start..start + len).unwrap()),
            })
            .collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = TestRng::of_seed(index as u64);
                // Relaxed: the flag hands nothing over.
                while !done.load(Ordering::Relaxed) {
                    let input = rng.below(case.inputs.len());
                    let (value, start) = (&case.inputs[input], offsets[input]);
                    let mut bytes = value.bytes.clone();
                    spoil(value.kind, &mut bytes, &mut rng);
                    let target = writer.view_mut(start..start + bytes.len()).unwrap();
                    target.copy_from_slice(&bytes);
                }
            });
            let _stop = StopOnDrop(&done);
            run(case, &inputs, 12);
        });
    }
}

/// Ends the scribbler even where the run panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
