//! Constants, copied out of the model's memories when it is compiled.
//!
//! What a convolution or dense layer packs is not looked at again, and most of a model is that. So
//! such weights are there while their operation is lowered: in the file, where nobody can change
//! that meanwhile, or else read into the memory that the ones before were in. Fresh pages for all
//! of them would have to be cleared first, which takes as long as reading them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nnburst_hal::{
    Budget, DataLocation, Memory, Model, Operand, OperandLifeTime, OperationType, Still,
};
use nnburst_kernels::tensor::memory::Slab;
use nnburst_kernels::tensor::{AlignedBytes, NoMemory, poll};

use crate::lowering::CompileError;

/// Bytes of a constant that are read between two polls.
const READ_BYTES: usize = 1 << 20;

/// Weights are read when their operation comes from so many bytes on.
const LARGE: usize = 32 << 10;

/// From so many bytes on files are mapped: a lease and a mapping take as long as reading less.
const FILE_FROM: u64 = 1 << 20;

/// The memory that they are read into has room for so many at least.
const ROOM: usize = 1 << 20;

/// A constant of a graph.
#[derive(Debug)]
pub(crate) struct Constant {
    pub(super) location: DataLocation,
    /// The size of an element.
    element_bytes: usize,
    /// Unset until somebody needs them for longer than an operation is being lowered.
    pub(super) bytes: OnceLock<Arc<AlignedBytes>>,
}

impl Constant {
    fn of(operand: &Operand, bytes: AlignedBytes) -> Self {
        Self { bytes: Arc::new(bytes).into(), ..Self::unread(operand) }
    }

    fn unread(operand: &Operand) -> Self {
        // Those of extensions have eight bytes at most.
        let element_bytes = operand.kind.element_bytes().unwrap_or(8);
        Self { location: operand.location, element_bytes, bytes: OnceLock::new() }
    }

    /// Its bytes. `None` where those are not read, or were packed and nobody needs them any more.
    pub(crate) fn bytes(&self) -> Option<&Arc<AlignedBytes>> {
        self.bytes.get()
    }

    /// The number of its bytes.
    pub(crate) fn len(&self) -> usize {
        self.location.length as usize
    }
}

/// Reads constants while a model is compiled.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(super) pools: Vec<Memory>,
    /// The same where they lie, where nobody can change them: their weights need no copy.
    pub(super) files: Vec<Option<Arc<Still>>>,
    /// Packed weights, which constants in memories are wholly in.
    weights: Option<Arc<AlignedBytes>>,
    pub(super) rooms: Mutex<Rooms>,
}

/// Memory for constants.
#[derive(Debug)]
pub(super) struct Rooms {
    /// For those that stay, one behind the other: a mapping or a fault for each takes longer than
    /// copying it.
    pub(super) slab: Slab,
    /// Where weights were that have been packed.
    spare: Vec<AlignedBytes>,
    /// Operations that needed their weights beside what they packed.
    pub(super) keeping: HashSet<OperationType>,
}

impl Rooms {
    /// Memory for weights, for a while.
    fn take(&mut self, len: usize) -> Result<AlignedBytes, NoMemory> {
        let fits = self.spare.iter().position(|spare| spare.room() >= len);
        let room = match fits {
            Some(at) => self.spare.swap_remove(at),
            None => {
                // Too small for these, it would be for the next ones.
                self.spare.pop();
                self.slab.apart(len.max(ROOM))?
            }
        };
        room.resized(len).ok_or(NoMemory::System { needed: len })
    }

    /// Keeps memory for the next weights, if it is any.
    pub(super) fn take_back(&mut self, bytes: AlignedBytes) {
        if !bytes.is_lent() {
            self.spare.push(bytes);
        }
    }
}

impl Reader {
    pub(crate) fn new(
        model: &Model,
        weights: Option<&Arc<AlignedBytes>>,
        budget: Option<&Arc<Budget>>,
    ) -> Self {
        let slab = Slab::charged_to(budget);
        let (spare, keeping) = (Vec::new(), HashSet::new());
        let rooms = Mutex::new(Rooms { slab, spare, keeping });
        let (pools, weights) = (model.pools.clone(), weights.cloned());
        let file = |pool: &Memory| {
            let is_needed = weights.is_none() && pool.size() >= FILE_FROM;
            is_needed.then(|| pool.still().map(Arc::new)).flatten()
        };
        let files = pools.iter().map(file).collect();
        Self { pools, files, weights, rooms }
    }

    /// The constant of an operand, if it is one; `only` is the operation that alone looks at it.
    /// Read at once unless that packs it.
    pub(crate) fn constant(
        &mut self,
        model: &Model,
        index: usize,
        operand: &Operand,
        only: Option<OperationType>,
    ) -> Result<Option<Constant>, CompileError> {
        let location = operand.location;
        let len = location.length as usize;
        let slab = &mut self.rooms.get_mut().unwrap_or_else(PoisonError::into_inner).slab;
        match operand.lifetime {
            OperandLifeTime::ConstantCopy => {
                let bytes = copied(&model.operand_values, location);
                let bytes = bytes.ok_or_else(|| CompileError::Constant {
                    operand: index,
                    error: format!(
                        "bytes {} and {} more of {} values",
                        location.offset,
                        location.length,
                        model.operand_values.len()
                    ),
                })?;
                let mut copy = slab.apart(bytes.len())?;
                copy.as_mut_slice().copy_from_slice(bytes);
                Ok(Some(Constant::of(operand, copy)))
            }
            OperandLifeTime::ConstantReference => {
                if let Some(weights) = &self.weights {
                    // Packed they may be shorter, by half where they are whole steps of a scale.
                    let stand_in = AlignedBytes::part_of(weights, 0, len);
                    let bytes = stand_in.map_or_else(|| slab.untouched(len), Ok)?;
                    return Ok(Some(Constant::of(operand, bytes)));
                }
                check_place(&self.pools, index, location)?;
                if len >= LARGE && only.is_some_and(packs_weights) {
                    return Ok(Some(Constant::unread(operand)));
                }
                let mut bytes = slab.zeroed(len)?;
                read(&self.pools, index, location, bytes.as_mut_slice())?;
                Ok(Some(Constant::of(operand, bytes)))
            }
            _ => Ok(None),
        }
    }

    /// Reads weights for as long as an operation is being lowered, or longer.
    pub(super) fn lend(
        &self,
        kind: OperationType,
        index: usize,
        constant: &Constant,
    ) -> Result<AlignedBytes, CompileError> {
        let (location, len) = (constant.location, constant.len());
        let mut bytes = if self.rooms().keeping.contains(&kind) {
            self.rooms().slab.zeroed(len)?
        } else if let Some(bytes) = self.in_file(constant) {
            return Ok(bytes);
        } else {
            self.rooms().take(len)?
        };
        read(&self.pools, index, location, bytes.as_mut_slice())?;
        Ok(bytes)
    }

    /// Bytes in a file that nobody can change.
    fn in_file(&self, constant: &Constant) -> Option<AlignedBytes> {
        let DataLocation { pool_index, offset, .. } = constant.location;
        let file = self.files.get(pool_index as usize)?.as_ref()?;
        AlignedBytes::lent(file, offset as usize, constant.len(), constant.element_bytes)
    }

    pub(super) fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an operation may be done with its weights once it has packed them.
fn packs_weights(kind: OperationType) -> bool {
    use OperationType as Op;
    matches!(
        kind,
        Op::Conv2d
            | Op::DepthwiseConv2d
            | Op::GroupedConv2d
            | Op::TransposeConv2d
            | Op::FullyConnected
    )
}

fn copied(values: &[u8], location: DataLocation) -> Option<&[u8]> {
    let start = location.offset as usize;
    values.get(start..start.checked_add(location.length as usize)?)
}

fn pool_of(
    pools: &[Memory],
    operand: usize,
    location: DataLocation,
) -> Result<&Memory, CompileError> {
    let pool = pools.get(location.pool_index as usize);
    pool.ok_or_else(|| CompileError::Constant {
        operand,
        error: format!("no pool {}", location.pool_index),
    })
}

/// Before the length sizes an allocation.
fn check_place(
    pools: &[Memory],
    operand: usize,
    location: DataLocation,
) -> Result<(), CompileError> {
    let pool = pool_of(pools, operand, location)?;
    let end = u64::from(location.offset) + u64::from(location.length);
    if end <= pool.size() {
        return Ok(());
    }
    let error = format!("ends at byte {end} of a pool of {}", pool.size());
    Err(CompileError::Constant { operand, error })
}

pub(super) fn read(
    pools: &[Memory],
    operand: usize,
    location: DataLocation,
    to: &mut [u8],
) -> Result<(), CompileError> {
    let pool = pool_of(pools, operand, location)?;
    let mut offset = u64::from(location.offset);
    for chunk in to.chunks_mut(READ_BYTES) {
        let read = pool.read_at(offset, chunk);
        read.map_err(|error| CompileError::memory(operand, &error))?;
        offset += chunk.len() as u64;
        poll::work(chunk.len() / 4).or_else(|_| poll::halted())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use nnburst_hal::{Access, Operand, OperandType, Operation, Subgraph, View, ViewMut};

    use super::*;
    use crate::{CompileOptions, Control, Input, Output, Plan};

    const UNITS: u32 = 70;
    const DEPTH: u32 = 300;

    /// Dense layers over `rows` rows, the second of the first's weights where they are `shared`.
    fn dense(memory: &Memory, rows: u32, is_shared: bool) -> Model {
        let float = |dimensions: &[u32], lifetime| {
            let tensor = Operand::tensor(OperandType::TensorFloat32, dimensions.to_vec());
            Operand { number_of_consumers: 1, ..tensor.with_lifetime(lifetime) }
        };
        let at = |operand: Operand, offset, length| Operand {
            location: DataLocation { pool_index: 0, offset, length },
            ..operand
        };
        let bytes = 4 * UNITS * DEPTH;
        let (reference, copy) = (OperandLifeTime::ConstantReference, OperandLifeTime::ConstantCopy);
        let output = OperandLifeTime::SubgraphOutput;
        let mut operands = vec![
            float(&[rows, DEPTH], OperandLifeTime::SubgraphInput),
            at(float(&[UNITS, DEPTH], reference), 0, bytes),
            at(float(&[UNITS, DEPTH], reference), bytes, bytes),
            at(float(&[UNITS], copy), 0, 4 * UNITS),
            at(Operand::scalar(OperandType::Int32).with_lifetime(copy), 4 * UNITS, 4),
            float(&[rows, UNITS], output),
            float(&[rows, UNITS], output),
        ];
        let second = if is_shared { 1 } else { 2 };
        let layer = |weights, output| Operation {
            kind: OperationType::FullyConnected,
            inputs: vec![0, weights, 3, 4],
            outputs: vec![output],
        };
        let operations = vec![layer(1, 5), layer(second, 6)];
        for (index, operand) in operands.iter_mut().enumerate() {
            let uses = operations.iter().flat_map(|operation| &operation.inputs);
            let uses = uses.filter(|&&input| input as usize == index).count();
            operand.number_of_consumers = u32::try_from(uses).unwrap();
        }
        operands[5].number_of_consumers = 0;
        let main =
            Subgraph { operands, operations, input_indexes: vec![0], output_indexes: vec![5, 6] };
        let operand_values = vec![0; 4 * (UNITS as usize + 1)];
        Model { main, operand_values, pools: vec![memory.clone()], ..Model::default() }
    }

    fn run(plan: &Plan) -> [Vec<u8>; 2] {
        let x: Vec<u8> = (0..DEPTH).flat_map(|at| (at as f32).sin().to_le_bytes()).collect();
        let dimensions = [1, DEPTH];
        let inputs = [Input::Value { bytes: View::of(&x), dimensions: &dimensions }];
        let mut results = [(); 2].map(|()| vec![0; 4 * UNITS as usize]);
        let outputs = results.each_mut().map(|it| Output::new(ViewMut::of(it)));
        plan.session().run(&inputs, &outputs, &Control::default()).unwrap();
        results
    }

    #[test]
    fn memories_may_change_once_a_model_is_compiled() {
        let numbers: Vec<u8> =
            (0..2 * UNITS * DEPTH).flat_map(|at| (at as f32).cos().to_le_bytes()).collect();
        let memory = Memory::ashmem(numbers.len() as u64).unwrap();
        let mapping = memory.map(Access::ReadWrite).unwrap();
        let all = mapping.view_mut(0..numbers.len()).unwrap();
        for (rows, is_shared) in [(1, false), (1, true), (0, false), (0, true)] {
            all.copy_from_slice(&numbers);
            let model = dense(&memory, rows, is_shared);
            let plan = Plan::compile(&model, &CompileOptions::default()).unwrap();
            assert_eq!(plan.is_static(), rows == 1);
            let constants = &plan.context.graphs[0].constants;
            let is_kept = constants[1].as_ref().and_then(Constant::bytes).is_some();
            assert_eq!(is_kept, rows == 0 || is_shared, "{rows} {is_shared}");
            all.copy_from_slice(&vec![0xFF; numbers.len()]);
            let [first, second] = run(&plan);
            assert_eq!(first == second, is_shared);
            let sum = |row: u32| -> f32 {
                (0..DEPTH).map(|at| ((row * DEPTH + at) as f32).cos() * (at as f32).sin()).sum()
            };
            let results = |bytes: &[u8]| f32::from_le_bytes(*bytes.first_chunk().unwrap());
            assert!((results(&first) - sum(0)).abs() < 1e-3);
            let row = if is_shared { 0 } else { UNITS };
            assert!((results(&second) - sum(row)).abs() < 1e-3);
        }
    }

    #[test]
    fn weights_are_lent_where_elements_may_start() {
        let len = 4 * UNITS * DEPTH;
        let size = usize::try_from(FILE_FROM).unwrap() + 8;
        let bytes: Vec<u8> = (0..=250).cycle().take(size).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        // A lease needs that nobody has the file open for writing.
        let path = file.into_temp_path();
        let file = std::fs::File::open(&path).unwrap();
        let size = bytes.len() as u64;
        let memory = Memory::from_fd(file.into(), 0, size, false).unwrap();
        let model = dense(&memory, 1, false);
        let mut reader = Reader::new(&model, None, None);
        let only = Some(OperationType::FullyConnected);
        for (offset, is_lent) in [(0, true), (4, true), (28, true), (6, false), (1, false)] {
            let mut operand = model.main.operands[1].clone();
            operand.location.offset = offset;
            let constant = reader.constant(&model, 1, &operand, only).unwrap().unwrap();
            let lent = reader.lend(OperationType::FullyConnected, 1, &constant).unwrap();
            assert_eq!(lent.is_lent(), is_lent, "{offset}");
            assert_eq!(lent.as_slice(), &bytes[offset as usize..][..len as usize], "{offset}");
            reader.rooms().take_back(lent);
        }
    }
}
