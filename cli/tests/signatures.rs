//! Graphs of a file other than the first, by the signatures that name them.

mod common;

use common::{fail, json, path, succeed};
use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::{TfliteFile, Value};

fn raw(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn signatures_of_a_file_are_computed_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = TfliteFile::new();
    for name in ["ABS", "NEG"] {
        if name == "NEG" {
            file.next_graph();
        }
        let x = file.input("arg0", TensorKind::Float32, &[1, 2]);
        let y = file.tensor("result", TensorKind::Float32, &[1, 2]);
        file.operator(name, &[x], &[y]);
        file.outputs(&[y]);
    }
    let tensors =
        |name, tensor| Value::Tables(vec![vec![(0, Value::text(name)), (1, Value::U32(tensor))]]);
    let signature = |key, graph| {
        let (inputs, outputs) = (tensors("x", 0), tensors("y", 1));
        vec![(0, inputs), (1, outputs), (2, Value::text(key)), (4, Value::U32(graph))]
    };
    let signatures = vec![signature("size", 0), signature("opposite", 1)];
    file.model_fields(vec![(7, Value::Tables(signatures))]);
    let model = dir.path().join("two.tflite");
    std::fs::write(&model, file.build()).unwrap();
    let values = dir.path().join("values");
    std::fs::write(&values, raw(&[-1.5, 2.0, 3.0, -4.0])).unwrap();
    let out = dir.path().join("out");
    let run = |more: &[&str]| {
        let args = ["run", path(&model), "--output", path(&out), "--json"];
        let report = json(&succeed(&[&args[..], more].concat()));
        (report["outputs"][0]["name"].clone(), std::fs::read(out.join("out0.bin")).unwrap())
    };
    let (by_name, by_number) = (format!("x={}", path(&values)), format!("0={}", path(&values)));
    let of_tensor = format!("arg0={}", path(&values));
    let wanted = ("y".into(), raw(&[1.5, -2.0, -3.0, 4.0]));
    for input in [&by_name, &by_number] {
        let more = ["--signature", "opposite", "--shape", "x=2x2", "--input", input];
        assert_eq!(run(&more), wanted);
    }
    let first = ["--shape", "arg0=2x2", "--input", &of_tensor];
    assert_eq!(run(&first), ("result".into(), raw(&[1.5, 2.0, 3.0, 4.0])));

    let error = fail(2, &["run", path(&model), "--signature", "train"]);
    assert!(
        error.contains("no signature is called \"train\"; there are size, opposite"),
        "{error}"
    );
    let error = fail(2, &["run", path(&model), "--signature", "size", "--input", &of_tensor]);
    assert!(error.contains("has inputs 0 (x)"), "{error}");
    succeed(&["check", path(&model), "--signature", "opposite"]);
    succeed(&["bench", path(&model), "--signature", "opposite", "--runs", "3"]);
    assert!(succeed(&["dot", path(&model), "--signature", "opposite"]).contains("NEG"));
}
