//! What the tests share.

use nnburst_hal::{Access, Memory};

/// Memory that holds `bytes`.
pub(crate) fn memory(bytes: &[u8]) -> Memory {
    let memory = Memory::ashmem(bytes.len() as u64).unwrap();
    memory.map(Access::ReadWrite).unwrap().view_mut(0..bytes.len()).unwrap().copy_from_slice(bytes);
    memory
}

/// What a memory holds.
pub(crate) fn bytes(memory: &Memory) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(memory.size()).unwrap()];
    memory.read_at(0, &mut out).unwrap();
    out
}
