//! The shared folder of models, if there is one, and what every HAL model has to keep to.

use std::path::PathBuf;

use nnburst_hal::{Model, OperandLifeTime};
use serde_json::Value;

/// The folder of models and its manifest.
pub(crate) struct Models {
    pub(crate) root: PathBuf,
    manifest: Value,
}

/// The shared models; `None`, said plainly, where there are none.
pub(crate) fn models() -> Option<Models> {
    let shared = std::env::var_os("NNBURST_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let root = shared.join("models");
    let Ok(text) = std::fs::read_to_string(root.join("manifest.json")) else {
        println!("skipped: no models at {}; NNBURST_SHARED can say where they are", root.display());
        return None;
    };
    Some(Models { root, manifest: serde_json::from_str(&text).unwrap() })
}

impl Models {
    /// Names and entries of the models that have a file.
    pub(crate) fn entries(&self) -> Vec<(String, Value)> {
        let all = self.manifest["models"].as_object().unwrap().iter();
        let with_file = all.filter(|(_, entry)| entry["file"].is_string());
        with_file.map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    pub(crate) fn path(&self, file: &Value) -> PathBuf {
        self.root.join(file.as_str().unwrap())
    }
}

/// The rules of a graph that an importer can break: order, single assignment, consumers, locations.
pub(crate) fn check_graph(name: &str, model: &Model) {
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
