//! Further cases that the reference suites derive from the same data.

use nnburst_hal::{OperandLifeTime, OperandType, OperationType};

use crate::read::filled_memory;
use crate::{Case, LoadError};

impl Case {
    /// The case with every extent of the main outputs unknown, so that the driver has to find and
    /// report them. Not for expected failures, nor for RANK, IF and WHILE.
    pub fn dynamic_shapes(&self) -> Option<Self> {
        let excluded = [OperationType::Rank, OperationType::If, OperationType::While];
        if self.expect_failure || excluded.into_iter().any(|kind| self.has_operation(kind)) {
            return None;
        }
        let mut case = self.clone();
        case.name.push_str("_dynamic_shapes");
        let main = &mut case.model.main;
        for &index in &main.output_indexes {
            if let Some(operand) =
                usize::try_from(index).ok().and_then(|at| main.operands.get_mut(at))
            {
                operand.dimensions.fill(0);
            }
        }
        Some(case)
    }

    /// The case with every `TENSOR_QUANT8_ASYMM` turned into `TENSOR_QUANT8_ASYMM_SIGNED`: zero points
    /// and stored bytes less 128. A driver supports both or neither, and both give the right result.
    /// For single-operation cases, and not for the operations whose signed form differs or is missing.
    ///
    /// # Errors
    /// The pool of constants can't be read or made again.
    pub fn signed_twin(&self) -> Result<Option<Self>, LoadError> {
        let [operation] = self.model.main.operations.as_slice() else { return Ok(None) };
        if !self.model.referenced.is_empty()
            || self.expect_failure
            || WITHOUT_TWIN.contains(&operation.kind)
            || !self.has_operand(OperandType::TensorQuant8Asymm)
        {
            return Ok(None);
        }
        let failed = |error| LoadError::Memory { case: self.name.clone(), error };
        let mut twin = self.clone();
        twin.name.push_str("_signed_twin");
        twin.min_version = Some(nnburst_hal::Version::V1_3).filter(|_| self.min_version.is_some());
        let mut pool = Vec::new();
        if let Some(memory) = self.model.pools.first() {
            pool.resize(usize::try_from(memory.size()).unwrap_or(0), 0);
            memory.read_at(0, &mut pool).map_err(failed)?;
        }
        for operand in &mut twin.model.main.operands {
            if operand.kind != OperandType::TensorQuant8Asymm {
                continue;
            }
            operand.kind = OperandType::TensorQuant8AsymmSigned;
            operand.zero_point = operand.zero_point.saturating_sub(128);
            let area = match operand.lifetime {
                OperandLifeTime::ConstantCopy => &mut twin.model.operand_values,
                OperandLifeTime::ConstantReference => &mut pool,
                _ => continue,
            };
            let start = usize::try_from(operand.location.offset).unwrap_or(usize::MAX);
            let length = usize::try_from(operand.location.length).unwrap_or(usize::MAX);
            let constant = area.get_mut(start..start.saturating_add(length));
            flip_signs(constant.unwrap_or_default());
        }
        if let Some(memory) = twin.model.pools.first_mut() {
            *memory = filled_memory(&pool).map_err(failed)?;
        }
        for value in &mut twin.inputs {
            flip_value(&mut value.kind, &mut value.bytes);
        }
        for expected in &mut twin.outputs {
            flip_value(&mut expected.kind, &mut expected.bytes);
        }
        Ok(Some(twin))
    }
}

fn flip_value(kind: &mut OperandType, bytes: &mut [u8]) {
    if *kind == OperandType::TensorQuant8Asymm {
        *kind = OperandType::TensorQuant8AsymmSigned;
        flip_signs(bytes);
    }
}

/// Subtracts 128 from every byte, modulo 256.
fn flip_signs(bytes: &mut [u8]) {
    for byte in bytes {
        *byte ^= 0x80;
    }
}

/// Operations that have no signed form, or one that means something else.
const WITHOUT_TWIN: [OperationType; 5] = [
    OperationType::HashtableLookup,
    OperationType::LshProjection,
    OperationType::PadV2,
    OperationType::Cast,
    OperationType::Quantized16bitLstm,
];
