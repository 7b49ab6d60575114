//! Imports every model of the shared folder and holds each against the manifest.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use nnburst_hal::{Model, OperandLifeTime, OperandType};
use nnburst_tflite::Imported;
use serde_json::Value;

#[test]
fn every_model_is_imported_as_the_manifest_says() {
    let Some(models) = common::models() else { return };
    for (name, entry) in models.entries() {
        check(&name, &entry, &Imported::open(models.path(&entry["file"])).unwrap());
    }
}

fn check(name: &str, entry: &Value, imported: &Imported) {
    let model = &imported.model;
    check_graph(name, model);
    assert_eq!(imported.sources.len(), model.main.operations.len(), "{name}");
    assert_eq!(!imported.states.is_empty(), entry["stateful"].as_bool().unwrap(), "{name}");
    assert_eq!(
        model.main.input_indexes.len(),
        imported.inputs.len() + imported.states.len(),
        "{name}"
    );
    for (tensors, key) in [(&imported.inputs, "inputs"), (&imported.outputs, "outputs")] {
        let wanted = entry[key].as_array().unwrap();
        assert_eq!(tensors.len(), wanted.len(), "{name}");
        for (tensor, wanted) in tensors.iter().zip(wanted) {
            assert_eq!(tensor.name, wanted["name"].as_str().unwrap(), "{name}");
            assert_eq!(tensor.file_kind.name(), wanted["type"].as_str().unwrap(), "{name}");
            let dims: Vec<u32> = serde_json::from_value(wanted["shape"].clone()).unwrap();
            assert_eq!(tensor.dims, dims, "{name}");
            if tensor.kind != OperandType::TensorFloat32 {
                #[expect(clippy::cast_possible_truncation, reason = "the file has 32 bits")]
                let scale = wanted["quant"]["scale"][0].as_f64().unwrap() as f32;
                assert_eq!(tensor.scale, scale, "{name}");
                assert_eq!(
                    i64::from(tensor.zero_point),
                    wanted["quant"]["zero_point"][0].as_i64().unwrap(),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn a_copied_file_gives_the_same_model_as_the_file_itself() {
    let Some(models) = common::models() else { return };
    let path = models.root.join("mobilenet_v1_0.25_128_quant/model.tflite");
    let opened = Imported::open(&path).unwrap();
    let copied = Imported::from_bytes(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(opened.model.main, copied.model.main);
    let (a, b) = (&opened.model.pools[0], &copied.model.pools[0]);
    assert_eq!(a.size(), b.size());
    let mut bytes = [vec![0; 4096], vec![1; 4096]];
    a.read_at(200_000, &mut bytes[0]).unwrap();
    b.read_at(200_000, &mut bytes[1]).unwrap();
    assert_eq!(bytes[0], bytes[1]);
}

/// The rules of a graph that an importer can break: order, single assignment, consumers, locations.
fn check_graph(name: &str, model: &Model) {
    let graph = &model.main;
    let mut known: Vec<bool> = graph
        .operands
        .iter()
        .map(|operand| {
            !matches!(
                operand.lifetime,
                OperandLifeTime::TemporaryVariable | OperandLifeTime::SubgraphOutput
            )
        })
        .collect();
    let mut consumers = vec![0; graph.operands.len()];
    for operation in &graph.operations {
        for &input in &operation.inputs {
            assert!(known[input as usize], "{name}: {operation:?} reads {input} too early");
            consumers[input as usize] += 1;
        }
        for &output in &operation.outputs {
            assert!(!known[output as usize], "{name}: {operation:?} writes {output} again");
            known[output as usize] = true;
        }
    }
    assert!(known.iter().all(|&known| known), "{name}: an operand is never written");
    for (index, operand) in graph.operands.iter().enumerate() {
        assert_eq!(operand.number_of_consumers, consumers[index], "{name}: operand {index}");
        let (location, end) = (operand.location, operand.location.offset + operand.location.length);
        match operand.lifetime {
            OperandLifeTime::ConstantCopy => {
                assert!(end as usize <= model.operand_values.len(), "{name}: operand {index}");
            }
            OperandLifeTime::ConstantReference => {
                let pool = &model.pools[location.pool_index as usize];
                assert!(u64::from(end) <= pool.size(), "{name}: operand {index}");
            }
            _ => assert_eq!(location, Default::default(), "{name}: operand {index}"),
        }
        if operand.is_constant() {
            assert_eq!(operand.data_size(), Some(location.length as usize), "{name}: {index}");
        }
    }
    for (indexes, lifetime) in [
        (&graph.input_indexes, OperandLifeTime::SubgraphInput),
        (&graph.output_indexes, OperandLifeTime::SubgraphOutput),
    ] {
        let listed = graph.operands.iter().filter(|operand| operand.lifetime == lifetime).count();
        assert_eq!(listed, indexes.len(), "{name}");
        for &index in indexes {
            assert_eq!(graph.operands[index as usize].lifetime, lifetime, "{name}: {index}");
        }
    }
}
