//! Graphs of a file other than the first, by the signatures that name them.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/bytes.rs"]
mod bytes;
#[path = "common/run.rs"]
mod once;
#[path = "common/plan.rs"]
mod plan;

use bytes::{bytes_of, floats};
use nnburst_tflite::testing::{Fields, TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, ModelFile, TensorKind};

const F32: TensorKind = TensorKind::Float32;

fn handle(file: &mut TfliteFile) -> i32 {
    let handle = file.tensor("handle", TensorKind::Resource, &[]);
    let fields = vec![(0, Value::text("")), (1, Value::text("total"))];
    file.operator_with("VAR_HANDLE", &[], &[handle], 111, fields);
    handle
}

fn signature(key: &str, graph: u32, inputs: &[(&str, u32)], outputs: &[(&str, u32)]) -> Fields {
    let tensors = |tensors: &[(&str, u32)]| {
        let entry = |&(name, tensor): &_| vec![(0, Value::text(name)), (1, Value::U32(tensor))];
        Value::Tables(tensors.iter().map(entry).collect())
    };
    vec![(0, tensors(inputs)), (1, tensors(outputs)), (2, Value::text(key)), (4, Value::U32(graph))]
}

/// `read`: x + total. `add`: total += a or b, whichever `first` says, and the new total. `set`:
/// total = x.
fn three() -> TfliteFile {
    let mut file = TfliteFile::new();
    let x = file.input("x:0", F32, &[2]);
    file.operator_with("CALL_ONCE", &[], &[], 103, vec![(0, Value::I32(1))]);
    let total = handle(&mut file);
    let (now, y) = (file.tensor("now", F32, &[2]), file.tensor("y:0", F32, &[2]));
    file.operator("READ_VARIABLE", &[total], &[now]);
    file.operator("ADD", &[now, x], &[y]);
    file.outputs(&[y]);

    file.next_graph();
    let total = handle(&mut file);
    let first = file.float_constant("first", &[2], &[10.0, 20.0]);
    file.operator("ASSIGN_VARIABLE", &[total, first], &[]);

    file.next_graph();
    let first = file.input("first:0", TensorKind::Bool, &[1]);
    let (a, b) = (file.input("a:0", F32, &[2]), file.input("b:0", F32, &[2]));
    file.operator_with("CALL_ONCE", &[], &[], 103, vec![(0, Value::I32(1))]);
    let total = handle(&mut file);
    let [now, more, sum] = ["now", "more", "sum:0"].map(|name| file.tensor(name, F32, &[2]));
    let graphs = vec![(0, Value::I32(3)), (1, Value::I32(4))];
    file.operator_with("IF", &[first, a, b], &[more], 92, graphs);
    file.operator("READ_VARIABLE", &[total], &[now]);
    file.operator("ADD", &[now, more], &[sum]);
    file.operator("ASSIGN_VARIABLE", &[total, sum], &[]);
    file.outputs(&[sum]);
    for taken in 0..2 {
        file.next_graph();
        let given = [file.input("a", F32, &[2]), file.input("b", F32, &[2])];
        let result = file.tensor("result", F32, &[2]);
        file.operator("ABS", &[given[taken]], &[result]);
        file.outputs(&[result]);
    }

    file.next_graph();
    let x = file.input("x:0", F32, &[2]);
    let total = handle(&mut file);
    file.operator("ASSIGN_VARIABLE", &[total, x], &[]);

    let signatures = vec![
        signature("read", 0, &[("x", 0)], &[("y", 3)]),
        signature("add", 2, &[("a", 1), ("b", 2), ("first", 0)], &[("sum", 6)]),
        signature("set", 5, &[("x", 0)], &[]),
    ];
    file.model_fields(vec![(7, Value::Tables(signatures))]);
    file
}

fn import(file: &ModelFile, signature: &str, shared: bool) -> Imported {
    let options = ImportOptions { shared_variables: shared, ..ImportOptions::default() };
    file.signature(signature).unwrap().import(options).unwrap()
}

fn names(imported: &Imported) -> (Vec<&str>, Vec<&str>) {
    let names = [&imported.inputs, &imported.outputs];
    let [inputs, outputs] = names.map(|infos| infos.iter().map(|info| &*info.name).collect());
    (inputs, outputs)
}

#[test]
fn signatures_are_imported_with_their_names() {
    let file = ModelFile::from_bytes(three().build());
    for (key, inputs, outputs) in
        [("read", vec!["x"], vec!["y"]), ("add", vec!["first", "a", "b"], vec!["sum"])]
    {
        let imported = import(&file, key, false);
        assert_eq!(names(&imported), (inputs, outputs), "{key}");
    }
    // Without a signature names are the tensors'.
    let first = file.import(ImportOptions::default()).unwrap();
    assert_eq!(names(&first), (vec!["x:0"], vec!["y:0"]));
    let contents = file.signature("add").unwrap().contents().unwrap();
    assert_eq!((contents.graph, contents.inputs, contents.graphs), (2, vec![0, 1, 2], 6));
    assert!(!contents.has_own_variables, "`read` has the same");

    let imported = import(&file, "add", false);
    let mut session = plan::compile(&imported).unwrap().session();
    let mut states = vec![imported.states[0].initial.clone()];
    let (a, b) = (bytes_of(&[1.0, -2.0]), bytes_of(&[5.0, 7.0]));
    for (first, want) in [(1, [11.0, 22.0]), (0, [16.0, 29.0])] {
        let (outputs, next) = once::run(&mut session, &imported, &[&[first], &a, &b], &states);
        assert_eq!(floats(&outputs[0]), want);
        states = next;
    }
}

#[test]
fn unknown_signatures_are_refused_with_those_there_are() {
    let why = |file: TfliteFile, key: &str| {
        ModelFile::from_bytes(file.build()).signature(key).unwrap_err().to_string()
    };
    let said = why(three(), "train");
    assert!(said.contains("no signature is called \"train\"; there are read, add, set"), "{said}");
    let mut plain = TfliteFile::new();
    let x = plain.input("x", F32, &[2]);
    plain.outputs(&[x]);
    let said = why(plain, "read");
    assert!(said.contains("no signature is called \"read\"; there are none"), "{said}");
}

#[test]
fn inputs_of_signatures_are_resized_by_their_names() {
    let mut file = TfliteFile::new();
    for (graph, name) in ["ABS", "NEG"].into_iter().enumerate() {
        if graph > 0 {
            file.next_graph();
        }
        let x = file.input("arg0", F32, &[1, 2]);
        let y = file.tensor("result", F32, &[1, 2]);
        file.operator(name, &[x], &[y]);
        file.outputs(&[y]);
    }
    let signatures = [("abs", 0), ("neg", 1)];
    let signatures = signatures.map(|(key, graph)| signature(key, graph, &[("x", 0)], &[("y", 1)]));
    file.model_fields(vec![(7, Value::Tables(signatures.into()))]);
    let file = ModelFile::from_bytes(file.build());
    let mut neg = file.signature("neg").unwrap();
    neg.resize("x", &[3, 2]).unwrap();
    let said = neg.resize("arg0", &[3, 2]).unwrap_err().to_string();
    assert!(said.contains("there are x"), "{said}");
    let imported = neg.import(ImportOptions::default()).unwrap();
    assert_eq!(imported.outputs[0].dims, [3, 2]);
    let abs = file.signature("abs").unwrap().import(ImportOptions::default()).unwrap();
    assert_eq!(abs.outputs[0].dims, [1, 2], "its shape is its own");
}

#[test]
fn variables_that_graphs_share_are_states_of_each() {
    let file = ModelFile::from_bytes(three().build());
    // Alone, what nobody changes is a constant.
    assert!(import(&file, "read", false).states.is_empty());
    let mut total = None;
    let (one, first) = (bytes_of(&[1.0, 1.0]), [1u8]);
    let mut call = |key: &str, inputs: &[&[u8]]| {
        let imported = import(&file, key, true);
        let [state] = &imported.states[..] else { panic!("{key}: {:?}", imported.states) };
        assert_eq!(state.variable.as_deref(), Some("/total"), "{key}");
        let states = vec![total.clone().unwrap_or_else(|| state.initial.clone())];
        let plan = plan::compile(&imported).unwrap();
        let (outputs, next) = once::run(&mut plan.session(), &imported, inputs, &states);
        total = next.into_iter().next();
        outputs.first().map(|bytes| floats(bytes)).unwrap_or_default()
    };
    assert_eq!(call("read", &[&one]), [11.0, 21.0]);
    assert_eq!(call("add", &[&first, &one, &one]), [11.0, 21.0]);
    assert_eq!(call("read", &[&one]), [12.0, 22.0]);
    assert!(call("set", &[&bytes_of(&[-3.0, 4.0])]).is_empty());
    assert_eq!(call("add", &[&first, &one, &one]), [-2.0, 5.0]);
    assert_eq!(call("read", &[&one]), [-1.0, 6.0]);
}

/// The Python package has no writer of files.
#[test]
fn the_file_of_the_python_tests_is_that_of_these() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../doors/python/tests/signatures.tflite");
    if std::env::var_os("NNBURST_WRITE_DOCS").is_some() {
        std::fs::write(file, three().build()).unwrap();
    }
    assert!(
        std::fs::read(file).unwrap() == three().build(),
        "NNBURST_WRITE_DOCS=1 writes it again"
    );
}
