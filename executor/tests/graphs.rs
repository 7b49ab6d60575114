//! Valid random graphs, run every way there is: operation by operation and with what plans make of
//! them, with every kernel form, with shapes that only the request tells, with constants that come
//! with the request. Exact types must give the same bytes.
//!
//! What fails is left as a small conformance case, for `nnburst vts`. `NNBURST_SEED` runs one graph
//! alone, `NNBURST_ROUNDS` more of them than the few of CI.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::path::{Path, PathBuf};

use nnburst_conformance::{Case, write_file};
use nnburst_executor::testing::{Element, RandomModel, TestRng, random_model, shrink};
use nnburst_executor::{CompileOptions, Control, Input, Isa, Output, Plan};
use nnburst_hal::{OperandType, View, ViewMut};

/// Shape and bytes of each output.
type Values = Vec<(Vec<u32>, Vec<u8>)>;

fn run(
    random: &RandomModel,
    (isa, apart): (Isa, bool),
    dims: &[Vec<u32>],
    sizes: &[usize],
) -> Result<Values, String> {
    let options = CompileOptions { isa: Some(isa), apart, ..CompileOptions::default() };
    let plan = Plan::compile(&random.model, &options).map_err(|error| error.to_string())?;
    let mut session = plan.session();
    let inputs: Vec<Input<'_>> = random
        .inputs
        .iter()
        .zip(dims)
        .map(|(bytes, dimensions)| Input::Value { bytes: View::of(bytes), dimensions })
        .collect();
    let mut buffers: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0xA5; size]).collect();
    for _ in 0..2 {
        let outputs: Vec<_> =
            buffers.iter_mut().map(|buffer| Output::new(ViewMut::of(buffer))).collect();
        session.run(&inputs, &outputs, &Control::default()).map_err(|error| error.to_string())?;
    }
    let shapes = session.output_shapes().iter().map(|shape| shape.dimensions.clone());
    Ok(shapes.zip(buffers).collect())
}

/// Float outputs within a bound of the tensor's own size; everything else to the byte.
fn same(kind: OperandType, got: &[u8], want: &[u8]) -> bool {
    let reals = |bytes: &[u8]| -> Vec<f32> {
        match kind {
            OperandType::TensorFloat32 => {
                bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
            }
            _ => bytes
                .chunks_exact(2)
                .map(|x| half::f16::from_le_bytes(x.try_into().unwrap()).to_f32())
                .collect(),
        }
    };
    let bound = match kind {
        OperandType::TensorFloat32 => 1e-4,
        OperandType::TensorFloat16 => 0.06,
        _ => return got == want,
    };
    let (got, want) = (reals(got), reals(want));
    let most = want.iter().copied().filter(|x| x.is_finite()).fold(1.0, |a: f32, b| a.max(b.abs()));
    got.iter()
        .zip(&want)
        .all(|(a, b)| (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= bound * most)
}

fn check(random: &RandomModel, seed: u64, element: Element) {
    let graph = &random.model.main;
    if graph.operations.is_empty() {
        return; // The generator found no operation for its first values, and that is no model.
    }
    let expected = random.outputs();
    let sizes: Vec<usize> = expected.iter().map(|(_, size)| *size).collect();
    let kinds: Vec<OperandType> =
        graph.output_indexes.iter().map(|&it| graph.operands[it as usize].kind).collect();
    let dims_of = |random: &RandomModel| -> Vec<Vec<u32>> {
        let indexes = &random.model.main.input_indexes;
        indexes.iter().map(|&it| graph.operands[it as usize].dimensions.clone()).collect()
    };
    let best = Isa::best();
    let variants = [
        ("plain code, steps apart", random.clone(), Isa::Scalar, true),
        ("plain code", random.clone(), Isa::Scalar, true),
        ("best form", random.clone(), best, element.is_exact()),
        ("shapes unknown", random.with_unknown_shapes(), Isa::Scalar, true),
        ("shapes unknown, best form", random.with_unknown_shapes(), best, element.is_exact()),
        ("constants as inputs", random.with_constants_as_inputs(), Isa::Scalar, true),
        (
            "constants as inputs, best form",
            random.with_constants_as_inputs(),
            best,
            element.is_exact(),
        ),
        (
            "constants as inputs, shapes unknown",
            random.with_constants_as_inputs().with_unknown_shapes(),
            Isa::Scalar,
            true,
        ),
    ];
    let others = Isa::all().filter(|&isa| isa != best && isa != Isa::Scalar);
    let others =
        others.map(|isa| ("another instruction set", random.clone(), isa, element.is_exact()));
    let mut first: Option<Values> = None;
    for (what, variant, isa, to_the_byte) in variants.into_iter().chain(others) {
        let names = || -> Vec<_> {
            graph.operations.iter().map(|operation| operation.kind.name()).collect()
        };
        let apart = what.ends_with("apart");
        let values = run(&variant, (isa, apart), &dims_of(&variant), &sizes)
            .unwrap_or_else(|error| panic!("{element:?} {seed}, {what}: {error}: {:?}", names()));
        for (at, ((shape, bytes), (want, _))) in values.iter().zip(&expected).enumerate() {
            assert_eq!(shape, want, "{element:?} {seed}, {what}: shape of output {at}");
            if let Some(first) = &first {
                let kind = if to_the_byte { OperandType::TensorInt32 } else { kinds[at] };
                let same = same(kind, bytes, &first[at].1);
                assert!(same, "{element:?} {seed}, {what}: output {at} differs: {:?}", names());
            }
        }
        first.get_or_insert(values);
    }
}

/// The outputs by plain code, operation by operation.
fn plain(random: &RandomModel) -> Option<Vec<Vec<u8>>> {
    let graph = &random.model.main;
    let dims = graph.input_indexes.iter().map(|&it| graph.operands[it as usize].dimensions.clone());
    let sizes: Vec<usize> = random.outputs().iter().map(|(_, size)| *size).collect();
    let values = run(random, (Isa::Scalar, true), &dims.collect::<Vec<_>>(), &sizes).ok()?;
    Some(values.into_iter().map(|(_, bytes)| bytes).collect())
}

/// Writes the smallest part of a model that fails as a conformance case; what `nnburst vts` is to
/// be given.
fn leave(
    random: &RandomModel,
    seed: u64,
    element: Element,
    fails: impl Fn(&RandomModel) -> bool,
) -> PathBuf {
    let small = shrink(random, fails, plain);
    let outputs = plain(&small).unwrap_or_default();
    let name = format!("{element:?}_{seed}");
    let case = Case::of_values("random", &name, small.model, small.inputs, outputs);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed").join(&name);
    write_file(&folder.join("random.json.gz"), "random", &[case]).unwrap();
    folder
}

/// A kernel that is wrong: what fails is whatever has its operation.
#[test]
fn a_failing_graph_is_left_as_a_small_case() {
    let mut left = 0;
    for seed in 0..12 {
        let random = random_model(&mut TestRng::of_seed(seed), Element::ALL[0], 50);
        let operations = &random.model.main.operations;
        let Some(wrong) = operations.get(operations.len() / 2).map(|one| one.kind) else {
            continue;
        };
        let fails = |random: &RandomModel| {
            // A part that can't be computed is none.
            plain(random).is_some()
                && random.model.main.operations.iter().any(|it| it.kind == wrong)
        };
        let folder = leave(&random, 1_000_000 + seed, Element::ALL[0], fails);
        let mut cases = nnburst_conformance::load_dir(&folder).unwrap();
        let case = cases.next().unwrap().unwrap();
        let kinds: Vec<_> = case.model.main.operations.iter().map(|one| one.kind).collect();
        assert_eq!(kinds, [wrong], "of {}", operations.len());
        let inputs = case.inputs.iter().map(|input| input.bytes.clone()).collect();
        let again = plain(&RandomModel { model: case.model.clone(), inputs }).unwrap();
        for (index, (bytes, expected)) in again.iter().zip(&case.outputs).enumerate() {
            case.compare(index, &expected.dimensions, bytes).unwrap();
        }
        left += 1;
    }
    assert!(left > 6, "{left}");
}

#[test]
fn random_graphs_give_the_same_every_way() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("NNBURST_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("NNBURST_ROUNDS").unwrap_or(40)).collect(),
    };
    let mut operations = std::collections::BTreeMap::new();
    let mut failed = Vec::new();
    for &seed in &seeds {
        for element in Element::ALL {
            let random = random_model(&mut TestRng::of_seed(seed), element, 50);
            for operation in &random.model.main.operations {
                *operations.entry(operation.kind.name()).or_insert(0) += 1;
            }
            let fails = |random: &RandomModel| {
                std::panic::catch_unwind(|| check(random, seed, element)).is_err()
            };
            if fails(&random) {
                failed.push((seed, element, leave(&random, seed, element, fails)));
            }
        }
    }
    println!("{operations:?}");
    assert!(
        seeds.len() == 1 || operations.len() > 45,
        "only {} operations were made",
        operations.len()
    );
    assert!(failed.is_empty(), "{failed:?}");
}
