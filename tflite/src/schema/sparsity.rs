//! Sparsity: how a constant's values are spread over its tensor.

use crate::flatbuffer::{Field, FormatError, Table};

/// A sparse tensor: levels from the outermost to the innermost, in an order of their own.
#[derive(Clone, Debug)]
pub(crate) struct Sparsity {
    /// The dimension that each level walks along; those behind the tensor's own are blocks'.
    pub(crate) order: Vec<usize>,
    /// The dimension that each block is a part of.
    pub(crate) block_map: Vec<usize>,
    pub(crate) levels: Vec<SparsityLevel>,
}

/// A level: all of its indices, or those that are listed for each node above.
#[derive(Clone, Debug)]
pub(crate) enum SparsityLevel {
    Dense(usize),
    Sparse { segments: Vec<usize>, indices: Vec<usize> },
}

impl SparsityLevel {
    /// The number of indices of a dense level.
    pub(crate) fn dense_size(&self) -> Option<usize> {
        match self {
            Self::Dense(size) => Some(*size),
            Self::Sparse { .. } => None,
        }
    }
}

impl Sparsity {
    pub(super) fn read(table: &Table<'_>) -> Result<Self, FormatError> {
        const ORDER: Field = Field::new(0, "SparsityParameters.traversal_order");
        const BLOCK_MAP: Field = Field::new(1, "SparsityParameters.block_map");
        const LEVELS: Field = Field::new(2, "SparsityParameters.dim_metadata");
        Ok(Self {
            order: places(table.scalars::<i32>(ORDER)?),
            block_map: places(table.scalars::<i32>(BLOCK_MAP)?),
            levels: table.tables(LEVELS, |table| read_level(&table))?,
        })
    }
}

fn read_level(table: &Table<'_>) -> Result<SparsityLevel, FormatError> {
    const FORMAT: Field = Field::new(0, "DimensionMetadata.format");
    const SIZE: Field = Field::new(1, "DimensionMetadata.dense_size");
    const SEGMENTS: Field = Field::new(3, "DimensionMetadata.array_segments");
    const INDICES: Field = Field::new(5, "DimensionMetadata.array_indices");
    if table.scalar(FORMAT, 0i8)? == 0 {
        let size = table.scalar(SIZE, 0i32)?;
        return Ok(SparsityLevel::Dense(usize::try_from(size).unwrap_or(0)));
    }
    let kind = |slot| table.scalar(Field::new(slot, "DimensionMetadata.array_type"), 0u8);
    Ok(SparsityLevel::Sparse {
        segments: read_list(table, SEGMENTS, kind(2)?)?,
        indices: read_list(table, INDICES, kind(4)?)?,
    })
}

/// A list of integers of 32, 16 or 8 bits: the union's number says which.
fn read_list(table: &Table<'_>, field: Field, kind: u8) -> Result<Vec<usize>, FormatError> {
    const VALUES: Field = Field::new(0, "SparseIndexVector.values");
    let Some(list) = table.table(field)? else { return Ok(Vec::new()) };
    Ok(match kind {
        2 => list.scalars::<u16>(VALUES)?.into_iter().map(usize::from).collect(),
        3 => list.scalars::<u8>(VALUES)?.into_iter().map(usize::from).collect(),
        _ => places(list.scalars::<i32>(VALUES)?),
    })
}

/// Negative ones are beyond any tensor.
fn places(values: Vec<i32>) -> Vec<usize> {
    values.into_iter().map(|value| usize::try_from(value).unwrap_or(usize::MAX)).collect()
}
