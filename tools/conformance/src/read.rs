//! The file format as serde sees it, and its way into the HAL's types.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nnburst_hal::{
    Access, ChannelQuant, DataLocation, ExtraParams, Memory, MemoryError, Model, Operand,
    OperandLifeTime, OperandType, Operation, OperationType, Subgraph, Version,
};
use serde::Deserialize;

use crate::{Case, Expected, LoadError, Value};

#[derive(Deserialize)]
pub(crate) struct File {
    pub(crate) spec: String,
    pub(crate) cases: Vec<RawCase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawCase {
    name: String,
    is_relaxed: bool,
    expect_failure: bool,
    min_supported_version: String,
    expected_multinomial_distribution_tolerance: f32,
    main: RawGraph,
    referenced: Vec<RawGraph>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawGraph {
    operands: Vec<RawOperand>,
    operations: Vec<RawOperation>,
    input_indexes: Vec<u32>,
    output_indexes: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawOperand {
    #[serde(rename = "type")]
    kind: String,
    dimensions: Vec<u32>,
    number_of_consumers: u32,
    scale: f32,
    zero_point: i32,
    lifetime: String,
    channel_quant: Option<RawChannelQuant>,
    is_ignored: bool,
    data: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawChannelQuant {
    scales: Vec<f32>,
    channel_dim: u32,
}

#[derive(Deserialize)]
struct RawOperation {
    #[serde(rename = "type")]
    kind: String,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
}

/// The constants that are collected while the graphs are converted.
#[derive(Default)]
struct Constants {
    values: Vec<u8>,
    pool: Vec<u8>,
}

impl RawCase {
    pub(crate) fn into_case(self, spec: &str) -> Result<Case, LoadError> {
        let case = self.name.clone();
        let wrong = |what| LoadError::Case { case: case.clone(), what };
        let min_version = version(&self.min_supported_version).map_err(wrong)?;
        let inputs = self.main.inputs().map_err(wrong)?;
        let outputs = self.main.outputs().map_err(wrong)?;
        let mut constants = Constants::default();
        let main = self.main.into_subgraph(&mut constants).map_err(wrong)?;
        let referenced = self
            .referenced
            .into_iter()
            .map(|graph| graph.into_subgraph(&mut constants).map_err(wrong))
            .collect::<Result<Vec<_>, _>>()?;
        let pools = if constants.pool.is_empty() {
            Vec::new()
        } else {
            let memory = filled_memory(&constants.pool);
            vec![memory.map_err(|error| LoadError::Memory { case: case.clone(), error })?]
        };
        let model = Model {
            main,
            referenced,
            operand_values: constants.values,
            pools,
            relax_computation_float32_to_float16: self.is_relaxed,
            extension_name_to_prefix: Vec::new(),
        };
        Ok(Case {
            spec: spec.to_owned(),
            name: self.name,
            model,
            inputs,
            outputs,
            expect_failure: self.expect_failure,
            is_relaxed: self.is_relaxed,
            min_version,
            multinomial_tolerance: self.expected_multinomial_distribution_tolerance,
        })
    }
}

impl RawGraph {
    fn inputs(&self) -> Result<Vec<Value>, String> {
        let read = |operand: &RawOperand| {
            Ok(Value {
                kind: operand.kind()?,
                dimensions: operand.dimensions.clone(),
                bytes: operand.bytes()?.unwrap_or_default(),
            })
        };
        self.listed(&self.input_indexes).map(|operand| operand.and_then(read)).collect()
    }

    fn outputs(&self) -> Result<Vec<Expected>, String> {
        let read = |operand: &RawOperand| {
            Ok(Expected {
                kind: operand.kind()?,
                dimensions: operand.dimensions.clone(),
                bytes: operand.bytes()?.unwrap_or_default(),
                is_ignored: operand.is_ignored,
            })
        };
        self.listed(&self.output_indexes).map(|operand| operand.and_then(read)).collect()
    }

    fn listed<'a>(
        &'a self,
        indexes: &'a [u32],
    ) -> impl Iterator<Item = Result<&'a RawOperand, String>> {
        indexes.iter().map(|&index| {
            let operand = usize::try_from(index).ok().and_then(|index| self.operands.get(index));
            operand.ok_or_else(|| format!("operand {index} is listed and does not exist"))
        })
    }

    fn into_subgraph(self, constants: &mut Constants) -> Result<Subgraph, String> {
        let operands = self.operands.into_iter().map(|operand| operand.into_operand(constants));
        let operations = self.operations.into_iter().map(|operation| {
            let kind = OperationType::from_name(&operation.kind)
                .ok_or_else(|| format!("no operation is called {}", operation.kind))?;
            Ok(Operation { kind, inputs: operation.inputs, outputs: operation.outputs })
        });
        Ok(Subgraph {
            operands: operands.collect::<Result<_, String>>()?,
            operations: operations.collect::<Result<_, String>>()?,
            input_indexes: self.input_indexes,
            output_indexes: self.output_indexes,
        })
    }
}

impl RawOperand {
    fn kind(&self) -> Result<OperandType, String> {
        OperandType::from_name(&self.kind)
            .ok_or_else(|| format!("no operand type is called {}", self.kind))
    }

    fn bytes(&self) -> Result<Option<Vec<u8>>, String> {
        let decode = |text| BASE64_STANDARD.decode(text).map_err(|error| error.to_string());
        self.data.as_ref().map(decode).transpose()
    }

    fn into_operand(self, constants: &mut Constants) -> Result<Operand, String> {
        let kind = self.kind()?;
        let lifetime = OperandLifeTime::ALL
            .iter()
            .copied()
            .find(|lifetime| lifetime.name() == self.lifetime)
            .ok_or_else(|| format!("no lifetime is called {}", self.lifetime))?;
        let location = match lifetime {
            OperandLifeTime::ConstantCopy => place(&mut constants.values, self.bytes()?)?,
            OperandLifeTime::ConstantReference => place(&mut constants.pool, self.bytes()?)?,
            OperandLifeTime::Subgraph => subgraph_location(self.bytes()?)?,
            _ => DataLocation::default(),
        };
        let extra_params = self.channel_quant.map_or(ExtraParams::None, |quant| {
            let RawChannelQuant { scales, channel_dim } = quant;
            ExtraParams::ChannelQuant(ChannelQuant { scales, channel_dim })
        });
        Ok(Operand {
            kind,
            dimensions: self.dimensions,
            number_of_consumers: self.number_of_consumers,
            scale: self.scale,
            zero_point: self.zero_point,
            lifetime,
            location,
            extra_params,
        })
    }
}

/// Appends a constant at the next multiple of 4 bytes.
fn place(area: &mut Vec<u8>, bytes: Option<Vec<u8>>) -> Result<DataLocation, String> {
    let bytes = bytes.ok_or("a constant without data")?;
    area.resize(area.len().next_multiple_of(4), 0);
    let offset = u32::try_from(area.len()).map_err(|_| "more than 4 GiB of constants")?;
    let length = u32::try_from(bytes.len()).map_err(|_| "more than 4 GiB of constants")?;
    area.extend_from_slice(&bytes);
    Ok(DataLocation { pool_index: 0, offset, length })
}

/// A reference to a subgraph is its index, kept in the offset.
fn subgraph_location(bytes: Option<Vec<u8>>) -> Result<DataLocation, String> {
    let bytes: [u8; 4] = bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or("a reference to a subgraph has 4 bytes")?;
    Ok(DataLocation { pool_index: 0, offset: u32::from_le_bytes(bytes), length: 0 })
}

fn version(name: &str) -> Result<Option<Version>, String> {
    Ok(Some(match name {
        "V1_0" => Version::V1_0,
        "V1_1" => Version::V1_1,
        "V1_2" => Version::V1_2,
        "V1_3" => Version::V1_3,
        "UNKNOWN" => return Ok(None),
        _ => return Err(format!("no version is called {name}")),
    }))
}

/// Shared memory with these bytes in it.
pub(crate) fn filled_memory(bytes: &[u8]) -> Result<Memory, MemoryError> {
    let size = u64::try_from(bytes.len()).map_err(|_| MemoryError::TooLarge { size: u64::MAX })?;
    let memory = Memory::ashmem(size)?;
    let mapping = memory.map(Access::ReadWrite)?;
    if let Some(view) = mapping.view_mut(0..bytes.len()) {
        view.copy_from_slice(bytes);
    }
    Ok(memory)
}
