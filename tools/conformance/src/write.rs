//! Cases into files: what a failing random model leaves for `nnburst vts`.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use nnburst_hal::{Model, Operand, OperandLifeTime, Subgraph};
use serde_json::{Value, json};

use crate::{Case, LoadError};

/// Writes cases into a `.json.gz` file that [`load_file`](crate::load_file) reads; missing folders
/// are made.
///
/// # Errors
/// The file can't be written.
pub fn write_file(path: &Path, spec: &str, cases: &[Case]) -> Result<(), LoadError> {
    let io = |error| LoadError::Io { path: path.to_owned(), error };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(io)?;
    }
    let mut file = GzEncoder::new(File::create(path).map_err(io)?, Compression::default());
    file.write_all(to_json(spec, cases).as_bytes()).map_err(io)?;
    file.finish().map_err(io)?;
    Ok(())
}

/// The text of a file with these cases, as [`load_str`](crate::load_str) reads it.
pub fn to_json(spec: &str, cases: &[Case]) -> String {
    let cases: Vec<_> = cases.iter().map(case_json).collect();
    json!({"spec": spec, "cases": cases}).to_string()
}

fn case_json(case: &Case) -> Value {
    let referenced = case.model.referenced.iter();
    let referenced: Vec<_> = referenced.map(|graph| graph_json(case, graph, false)).collect();
    json!({
        "name": case.name,
        "isRelaxed": case.is_relaxed,
        "expectFailure": case.expect_failure,
        "minSupportedVersion": case.min_version.map_or_else(|| "UNKNOWN".to_owned(), |version| format!("{version:?}")),
        "expectedMultinomialDistributionTolerance": case.multinomial_tolerance,
        "main": graph_json(case, &case.model.main, true),
        "referenced": referenced,
    })
}

fn graph_json(case: &Case, graph: &Subgraph, is_main: bool) -> Value {
    let position = |indexes: &[u32], operand: usize| {
        let found = indexes.iter().position(|&index| usize::try_from(index) == Ok(operand));
        found.filter(|_| is_main)
    };
    let operands = graph.operands.iter().enumerate().map(|(index, operand)| {
        let input = position(&graph.input_indexes, index).and_then(|at| case.inputs.get(at));
        let output = position(&graph.output_indexes, index).and_then(|at| case.outputs.get(at));
        let bytes = match (input, output) {
            (Some(input), _) => Some(input.bytes.clone()),
            (None, Some(output)) => Some(output.bytes.clone()),
            (None, None) => constant(&case.model, operand),
        };
        let quant = operand
            .channel_quant()
            .map(|quant| json!({"scales": quant.scales, "channelDim": quant.channel_dim}));
        json!({
            "type": operand.kind.name(),
            "dimensions": operand.dimensions,
            "numberOfConsumers": operand.number_of_consumers,
            "scale": operand.scale,
            "zeroPoint": operand.zero_point,
            "lifetime": operand.lifetime.name(),
            "channelQuant": quant,
            "isIgnored": output.is_some_and(|output| output.is_ignored),
            "data": bytes.map(|bytes| BASE64_STANDARD.encode(bytes)),
        })
    });
    let operations = graph.operations.iter().map(|operation| {
        json!({
            "type": operation.kind.name(), "inputs": operation.inputs, "outputs": operation.outputs,
        })
    });
    json!({
        "operands": operands.collect::<Vec<_>>(),
        "operations": operations.collect::<Vec<_>>(),
        "inputIndexes": graph.input_indexes,
        "outputIndexes": graph.output_indexes,
    })
}

/// The bytes of a constant, or of a reference to a subgraph; none of anything else.
fn constant(model: &Model, operand: &Operand) -> Option<Vec<u8>> {
    let location = &operand.location;
    let length = usize::try_from(location.length).ok()?;
    match operand.lifetime {
        OperandLifeTime::ConstantCopy => {
            let start = usize::try_from(location.offset).ok()?;
            Some(model.operand_values.get(start..start.checked_add(length)?)?.to_vec())
        }
        OperandLifeTime::ConstantReference => {
            let pool = model.pools.get(usize::try_from(location.pool_index).ok()?)?;
            let mut bytes = vec![0; length];
            pool.read_at(location.offset.into(), &mut bytes).ok()?;
            Some(bytes)
        }
        OperandLifeTime::Subgraph => Some(location.offset.to_le_bytes().to_vec()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_str;

    #[test]
    fn what_is_written_is_read_again() {
        let text = r#"{"spec": "V1_2/conv", "cases": [{
            "name": "conv", "isRelaxed": true, "expectFailure": false, "minSupportedVersion": "V1_2",
            "expectedMultinomialDistributionTolerance": 0.5, "referenced": [],
            "main": {"operands": [
                {"type": "TENSOR_FLOAT32", "dimensions": [2], "numberOfConsumers": 1, "scale": 0, "zeroPoint": 0,
                 "lifetime": "SUBGRAPH_INPUT", "channelQuant": null, "isIgnored": false, "data": "AACAPwAAAEA="},
                {"type": "TENSOR_QUANT8_SYMM_PER_CHANNEL", "dimensions": [2, 1], "numberOfConsumers": 1, "scale": 0, "zeroPoint": 0,
                 "lifetime": "CONSTANT_REFERENCE", "channelQuant": {"scales": [0.5, 2], "channelDim": 0},
                 "isIgnored": false, "data": "AQI="},
                {"type": "INT32", "dimensions": [], "numberOfConsumers": 1, "scale": 0, "zeroPoint": 0,
                 "lifetime": "CONSTANT_COPY", "channelQuant": null, "isIgnored": false, "data": "AwAAAA=="},
                {"type": "TENSOR_FLOAT32", "dimensions": [2], "numberOfConsumers": 0, "scale": 0, "zeroPoint": 0,
                 "lifetime": "SUBGRAPH_OUTPUT", "channelQuant": null, "isIgnored": true, "data": "AACAPwAAAEA="}],
              "operations": [{"type": "ADD", "inputs": [0, 1, 2], "outputs": [3]}],
              "inputIndexes": [0], "outputIndexes": [3]}}]}"#;
        let read = |text: &str| {
            let cases = load_str(text).unwrap();
            // Pools are other memories each time; what is in them is in the text.
            (to_json("V1_2/conv", &cases), cases)
        };
        let (written, cases) = read(text);
        let (again, cases_again) = read(&written);
        assert_eq!(again, written);
        for (a, b) in cases.iter().zip(&cases_again) {
            assert_eq!(
                (&a.inputs, &a.outputs, &a.model.main),
                (&b.inputs, &b.outputs, &b.model.main)
            );
            assert_eq!((a.is_relaxed, a.min_version), (b.is_relaxed, b.min_version));
        }
        assert!(written.contains("\"AQI=\""), "the pool's constant");
    }
}
