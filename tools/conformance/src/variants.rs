//! Further cases that the reference suites derive from the same data.

use half::f16;
use nnburst_hal::{DataLocation, Operand, OperandLifeTime, OperandType, Operation, OperationType};

use crate::read::filled_memory;
use crate::{Case, LoadError, Value};

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

    /// The case with every `TENSOR_QUANT8_ASYMM` turned into `TENSOR_QUANT8_ASYMM_SIGNED`: zero
    /// points and stored bytes less 128. A driver supports both or neither, and both give the right
    /// result; the twin of an expected failure fails as well. For single-operation cases, and not
    /// for the operations whose signed form differs or is missing.
    ///
    /// # Errors
    /// The pool of constants can't be read or made again.
    pub fn signed_twin(&self) -> Result<Option<Self>, LoadError> {
        let [operation] = self.model.main.operations.as_slice() else { return Ok(None) };
        if !self.model.referenced.is_empty()
            || WITHOUT_TWIN.contains(&operation.kind)
            || !self.has_operand(OperandType::TensorQuant8Asymm)
        {
            return Ok(None);
        }
        let failed = |error| LoadError::Memory { case: self.name.clone(), error };
        let mut twin = self.clone();
        twin.name.push_str("_signed_twin");
        twin.min_version = Some(nnburst_hal::Version::V1_3).filter(|_| self.min_version.is_some());
        let mut pool = self.constant_pool()?;
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

impl Case {
    /// The case with every constant tensor fed as a model input: shapes, axes and weights then come
    /// with the request. `None` where there is none.
    ///
    /// # Errors
    /// The pool of constants can't be read.
    pub fn constants_as_inputs(&self) -> Result<Option<Self>, LoadError> {
        let mut case = self.clone();
        case.name.push_str("_all_tensors_as_inputs");
        let pool = self.constant_pool()?;
        for (index, operand) in case.model.main.operands.iter_mut().enumerate() {
            let area = match operand.lifetime {
                OperandLifeTime::ConstantCopy => &self.model.operand_values,
                OperandLifeTime::ConstantReference => &pool,
                _ => continue,
            };
            let bytes = constant(area, operand.location);
            if operand.kind.is_scalar() || bytes.is_empty() {
                continue;
            }
            operand.lifetime = OperandLifeTime::SubgraphInput;
            operand.location = DataLocation::default();
            let (kind, dimensions) = (operand.kind, operand.dimensions.clone());
            case.inputs.push(Value { kind, dimensions, bytes: bytes.to_vec() });
            case.model.main.input_indexes.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
        Ok((case.inputs.len() > self.inputs.len()).then_some(case))
    }

    /// The case with every input that an ADD can make made by one, of a new input and zero: the
    /// operations then see temporaries. `None` where no input is of such a type, at most four
    /// extents and at least one element.
    pub fn inputs_as_internal(&self) -> Option<Self> {
        let mut case = self.clone();
        case.name.push_str("_all_inputs_as_internal");
        let (main, values) = (&mut case.model.main, &mut case.model.operand_values);
        let mut before = Vec::new();
        for (index, value) in main.input_indexes.iter_mut().zip(&self.inputs) {
            let Some(operand) = usize::try_from(*index).ok().and_then(|at| main.operands.get(at))
            else {
                continue;
            };
            let Some(zero) = zero_of(operand) else { continue };
            if value.bytes.is_empty()
                || operand.dimensions.is_empty()
                || operand.dimensions.len() > 4
            {
                continue;
            }
            let outer = Operand { number_of_consumers: 1, ..operand.clone() };
            let zero = constant_operand(
                Operand {
                    dimensions: vec![1],
                    lifetime: OperandLifeTime::ConstantCopy,
                    ..outer.clone()
                },
                &zero,
                values,
            )?;
            let none = constant_operand(Operand::scalar(OperandType::Int32), &[0; 4], values)?;
            let first = u32::try_from(main.operands.len()).ok()?;
            main.operands.extend([outer, zero, none]);
            let inner = std::mem::replace(index, first);
            if let Some(operand) =
                usize::try_from(inner).ok().and_then(|at| main.operands.get_mut(at))
            {
                operand.lifetime = OperandLifeTime::TemporaryVariable;
            }
            before.push(Operation {
                kind: OperationType::Add,
                inputs: vec![first, first + 1, first + 2],
                outputs: vec![inner],
            });
        }
        if before.is_empty() {
            return None;
        }
        main.operations.splice(0..0, before);
        Some(case)
    }

    /// The bytes of the pool with the constants.
    fn constant_pool(&self) -> Result<Vec<u8>, LoadError> {
        let mut pool = Vec::new();
        if let Some(memory) = self.model.pools.first() {
            pool.resize(usize::try_from(memory.size()).unwrap_or(0), 0);
            let failed = |error| LoadError::Memory { case: self.name.clone(), error };
            memory.read_at(0, &mut pool).map_err(failed)?;
        }
        Ok(pool)
    }
}

/// Returns the element that leaves a tensor of the operand's type as it is when it is added; `None`
/// for types that ADD doesn't take.
fn zero_of(operand: &Operand) -> Option<Vec<u8>> {
    match operand.kind {
        OperandType::TensorFloat32 => Some(0f32.to_le_bytes().to_vec()),
        OperandType::TensorFloat16 => Some(f16::ZERO.to_le_bytes().to_vec()),
        OperandType::TensorInt32 => Some(0i32.to_le_bytes().to_vec()),
        OperandType::TensorQuant8Asymm | OperandType::TensorQuant8AsymmSigned => {
            Some(vec![operand.zero_point.to_le_bytes()[0]])
        }
        _ => None,
    }
}

/// The operand as a constant with these bytes, which go behind those there are.
fn constant_operand(mut operand: Operand, bytes: &[u8], values: &mut Vec<u8>) -> Option<Operand> {
    values.resize(values.len().next_multiple_of(4), 0);
    operand.lifetime = OperandLifeTime::ConstantCopy;
    operand.number_of_consumers = 1;
    operand.location = DataLocation {
        pool_index: 0,
        offset: u32::try_from(values.len()).ok()?,
        length: u32::try_from(bytes.len()).ok()?,
    };
    values.extend_from_slice(bytes);
    Some(operand)
}

/// Returns the bytes of a constant; empty if it isn't within.
fn constant(area: &[u8], location: DataLocation) -> &[u8] {
    let start = usize::try_from(location.offset).unwrap_or(usize::MAX);
    let length = usize::try_from(location.length).unwrap_or(usize::MAX);
    area.get(start..start.saturating_add(length)).unwrap_or_default()
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
