//! Parts of files: cut in two at any operator, a model gives what it gives whole.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

mod common;
#[path = "common/run.rs"]
mod once;

use std::collections::{BTreeMap, BTreeSet};

use nnburst_executor::{CompileOptions, Plan};
use nnburst_tflite::testing::{TfliteFile, Value};
use nnburst_tflite::{Contents, ImportOptions, Imported, ModelFile, PartRequest, TensorKind};

/// Values by tensor.
type Values = BTreeMap<usize, Vec<u8>>;

/// What a model gives for values that it finds in `values` by the tensors of its inputs and states.
fn run(imported: &Imported, values: &mut Values) {
    let plan = Plan::compile(&imported.model, &CompileOptions::default()).unwrap();
    let states = imported.states.iter();
    let states = states.map(|state| {
        values.get(&state.info.tensor).cloned().unwrap_or_else(|| state.initial.clone())
    });
    let states: Vec<Vec<u8>> = states.collect();
    let inputs = imported.inputs.iter();
    let inputs: Vec<&[u8]> = inputs.map(|input| values[&input.tensor].as_slice()).collect();
    let (outputs, next) = once::run(&mut plan.session(), imported, &inputs, &states);
    values.extend(imported.outputs.iter().map(|info| info.tensor).zip(outputs));
    values.extend(imported.states.iter().map(|state| state.info.tensor).zip(next));
}

/// The tensors that operators of a range take from outside, constants and variables included, and
/// those that they give to others or to the caller.
fn boundary(contents: &Contents, range: std::ops::Range<usize>) -> (Vec<usize>, Vec<usize>) {
    let all = contents.operators.iter().enumerate();
    let (inside, outside): (Vec<_>, Vec<_>) = all.partition(|(at, _)| range.contains(at));
    let read = |of: &[(usize, &nnburst_tflite::FileOperator)]| -> BTreeSet<usize> {
        of.iter().flat_map(|(_, operator)| operator.inputs.iter().copied().flatten()).collect()
    };
    let made: BTreeSet<usize> =
        inside.iter().flat_map(|(_, operator)| operator.outputs.iter().copied()).collect();
    let wanted: BTreeSet<usize> =
        read(&outside).into_iter().chain(contents.outputs.iter().copied()).collect();
    let inputs = read(&inside).difference(&made).copied().collect();
    (inputs, made.intersection(&wanted).copied().collect())
}

/// Integers are the same. Floats may differ by what is fused in the whole, and not across a cut.
fn are_near(kind: TensorKind, got: &[u8], want: &[u8]) -> bool {
    if kind != TensorKind::Float32 {
        return got == want;
    }
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    };
    let (got, want) = (floats(got), floats(want));
    let is_near = |(got, want): (&f32, &f32)| (got - want).abs() <= 1e-6 + 1e-4 * want.abs();
    got.len() == want.len() && got.iter().zip(&want).all(is_near)
}

#[test]
fn two_halves_give_what_the_whole_gives() {
    let Some(models) = common::models() else { return };
    for (name, entry) in models.entries() {
        let file = ModelFile::open(models.path(&entry["file"])).unwrap();
        let contents = file.contents().unwrap();
        let whole = file.import(ImportOptions::default()).unwrap();
        let mut first = Values::new();
        for (number, info) in whole.inputs.iter().enumerate() {
            let bytes = (0..info.byte_len().unwrap()).map(|at| (at * 37 + number) % 61);
            first.insert(info.tensor, bytes.map(|byte| u8::try_from(byte).unwrap()).collect());
        }
        let mut want = first.clone();
        // Twice, for the states of the second time are those that the first gave.
        run(&whole, &mut want);
        run(&whole, &mut want);
        let operators = contents.operators.len();
        // Some files leave shapes to the interpreter, which gives them with the request.
        let has_shape = |tensor: &usize| !contents.tensors[*tensor].shape.is_empty();
        let cuts = [operators / 3, operators / 2, operators - 1].into_iter();
        let cuts = cuts.filter(|&cut| boundary(&contents, 0..cut).1.iter().all(has_shape));
        for cut in cuts {
            let halves = [0..cut, cut..operators].into_iter().filter(|half| !half.is_empty());
            let halves: Vec<Imported> = halves
                .map(|half| {
                    let (inputs, outputs) = boundary(&contents, half.clone());
                    let operators: Vec<usize> = half.collect();
                    let (inputs, outputs) = (&inputs[..], &outputs[..]);
                    let request = PartRequest {
                        operators: &operators,
                        inputs,
                        outputs,
                        ..PartRequest::default()
                    };
                    file.part(&request, ImportOptions::default()).unwrap()
                })
                .collect();
            let mut got = first.clone();
            for _ in 0..2 {
                for half in &halves {
                    run(half, &mut got);
                }
            }
            for (&tensor, want) in &want {
                let is_near = are_near(contents.tensors[tensor].kind, &got[&tensor], want);
                assert!(is_near, "{name} cut at {cut}: tensor {tensor}");
            }
        }
    }
}

#[test]
fn parts_share_the_memory_of_their_file() {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Float32, &[1, 64]);
    let weights = file.float_constant("weights", &[64, 64], &[0.5; 64 * 64]);
    let (y, z) = ("y", "z");
    let [y, z] = [y, z].map(|name| file.tensor(name, TensorKind::Float32, &[1, 64]));
    file.operator("FULLY_CONNECTED", &[x, weights, -1], &[y]);
    file.operator("FULLY_CONNECTED", &[y, weights, -1], &[z]);
    file.outputs(&[z]);
    let file = ModelFile::from_bytes(file.build());
    let parts = [(0, x, y), (1, y, z)].map(|(operator, input, output)| {
        let [input, weights, output] =
            [input, weights, output].map(|tensor| usize::try_from(tensor).unwrap());
        let request = PartRequest {
            operators: &[operator],
            inputs: &[input, weights],
            outputs: &[output],
            ..PartRequest::default()
        };
        file.part(&request, ImportOptions::default()).unwrap()
    });
    assert_eq!(parts[0].inputs.len(), 1, "constants are no inputs");
    assert_eq!(parts[1].operators, ["FULLY_CONNECTED"]);
    let [first, second] = parts.map(|part| part.model.pools[0].clone());
    assert_eq!(first.id(), second.id());
    assert_eq!(first.size(), u64::try_from(file.bytes().unwrap().len()).unwrap());
}

/// An operator between two others, whose tensors have one shape.
fn chain() -> ModelFile {
    let mut file = TfliteFile::new();
    let mut last = file.input("x", TensorKind::Float32, &[2, 3]);
    for name in ["ABS", "NEG", "FLOOR"] {
        let next = file.tensor(name, TensorKind::Float32, &[2, 3]);
        file.operator(name, &[last], &[next]);
        last = next;
    }
    file.outputs(&[last]);
    ModelFile::from_bytes(file.build())
}

#[test]
fn shapes_of_the_request_hold() {
    let shapes = [(1, vec![5]), (2, vec![5])];
    let request = PartRequest {
        operators: &[1],
        shapes: &shapes,
        inputs: &[1],
        outputs: &[2],
        ..PartRequest::default()
    };
    let part = chain().part(&request, ImportOptions::default()).unwrap();
    assert_eq!(
        (part.inputs[0].dims.as_slice(), part.outputs[0].dims.as_slice()),
        (&[5][..], &[5][..])
    );
    let values = [1f32, -2.0, 3.0, -4.0, 5.0];
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut values = Values::from([(1, bytes)]);
    run(&part, &mut values);
    let negated: Vec<u8> =
        [-1f32, 2.0, -3.0, 4.0, -5.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(values[&2], negated);
}

#[test]
fn what_has_no_known_rank_makes_nothing_of_one_element() {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Bool, &[6]);
    let places = file.tensor("places", TensorKind::Int64, &[1, 1]);
    file.operator("WHERE", &[x], &[places]);
    let shape = file.int_constant("shape", &[1], &[-1]);
    let list = file.tensor("list", TensorKind::Int64, &[1]);
    file.operator("RESHAPE", &[places, shape], &[list]);
    let rows = file.float_constant("rows", &[6, 3], &[1.5; 18]);
    let f32 = TensorKind::Float32;
    let [some, y] = ["some", "y"].map(|name| file.tensor(name, f32, &[1, 3]));
    file.operator("GATHER", &[rows, list], &[some]);
    file.operator("RELU", &[some], &[y]);
    file.outputs(&[y]);
    let open = [(places, &[-1, 1][..]), (list, &[-1]), (some, &[-1, 3]), (y, &[-1, 3])];
    for (tensor, signature) in open {
        file.tensor_fields(tensor, vec![(7, Value::ints(signature))]);
    }
    let file = ModelFile::from_bytes(file.build());
    let options = ImportOptions { extension: true, file_types: true, ..ImportOptions::default() };
    let operators = [0, 1, 2, 3];
    let [x, y] = [x, y].map(|tensor| usize::try_from(tensor).unwrap());
    for infer_shapes in [true, false] {
        let request = PartRequest {
            operators: &operators,
            shapes: &[(x, vec![6])],
            inputs: &[x],
            outputs: &[y],
            infer_shapes,
        };
        let part = file.part(&request, options).unwrap();
        assert_eq!(part.outputs[0].byte_len(), None, "{:?}", part.outputs[0].dims);
    }
}

#[test]
fn requests_name_what_the_file_has() {
    let shapes = [(9, vec![1])];
    let all =
        PartRequest { operators: &[0], inputs: &[0], outputs: &[1], ..PartRequest::default() };
    for (request, why) in [
        (PartRequest { operators: &[3], ..all }, "there is no operator 3: the graph has 3"),
        (PartRequest { operators: &[1, 1], ..all }, "operator 1 is named twice"),
        (PartRequest { inputs: &[4], ..all }, "there is no tensor 4: the graph has 4"),
        (PartRequest { outputs: &[usize::MAX], ..all }, "there is no tensor"),
        (PartRequest { shapes: &shapes, ..all }, "there is no tensor 9"),
        (PartRequest { inputs: &[], ..all }, "nothing writes tensor"),
        (PartRequest { outputs: &[3], ..all }, "nothing writes tensor"),
        (PartRequest { inputs: &[0, 0], ..all }, "is two inputs"),
    ] {
        let refused = chain().part(&request, ImportOptions::default()).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn files_are_described_with_their_notes() {
    let mut file = TfliteFile::new();
    let x = file.input("x", TensorKind::Int8, &[1, -1]);
    file.quantize(x, &[0.5], &[-3], 0);
    let y = file.tensor("y", TensorKind::Int8, &[1, 4]);
    file.operator("RESHAPE", &[x, -1], &[y]);
    file.outputs(&[y]);
    let data = file.buffer(b"what it is");
    let tensor = |name: &str, index: u32| {
        Value::Tables(vec![vec![(0, Value::text(name)), (1, Value::U32(index))]])
    };
    let signature =
        vec![(0, tensor("image", 0)), (1, tensor("class", 1)), (2, Value::text("serve"))];
    file.model_fields(vec![
        (6, Value::Tables(vec![vec![(0, Value::text("note")), (1, Value::U32(data))]])),
        (7, Value::Tables(vec![signature])),
    ]);
    let file = ModelFile::from_bytes(file.build());
    let contents = file.contents().unwrap();
    let x = &contents.tensors[0];
    assert_eq!((x.name.as_str(), x.shape.as_slice()), ("x", &[1, 0][..]));
    assert_eq!((x.scales.as_slice(), x.zero_points.as_slice()), (&[0.5][..], &[-3][..]));
    assert_eq!(contents.operators[0].inputs, [Some(0), None]);
    assert_eq!((contents.operators[0].code, contents.operators[0].version), (22, 1));
    assert_eq!(&file.bytes().unwrap()[contents.metadata[0].range.clone()], b"what it is");
    let signature = &contents.signatures[0];
    assert_eq!((signature.key.as_str(), signature.inputs[0].name.as_str()), ("serve", "image"));
    assert_eq!((signature.inputs[0].tensor, signature.outputs[0].tensor), (0, 1));
}
