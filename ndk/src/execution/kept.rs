//! State of a call from one execution to the next: memory, and requests that may come again.

use nnburst::hal::{self, Access, Mapping, RequestArgument, ReusableExecution};
use nnburst::{Argument, Frame, LastRequest};

use crate::error::{Code, Error, Result};

/// The alignment of arguments: at a cache line.
pub(super) const ALIGNMENT: usize = 64;

/// A memory that is as large as the largest arguments so far, and where in it they are.
#[derive(Debug, Default)]
pub(super) struct Staging {
    memory: Option<(hal::Memory, Mapping)>,
}

impl Staging {
    pub(super) fn reserve(&mut self, size: usize) -> Result<&(hal::Memory, Mapping)> {
        let fits = self.memory.as_ref().is_some_and(|(_, mapping)| mapping.len() >= size);
        if !fits {
            let no_room =
                |error: hal::MemoryError| Error::new(Code::OutOfMemory, error.to_string());
            let size = u64::try_from(size.max(ALIGNMENT)).unwrap_or(u64::MAX);
            let memory = hal::Memory::ashmem(size).map_err(no_room)?;
            let mapping = memory.map(Access::ReadWrite).map_err(no_room)?;
            self.memory = Some((memory, mapping));
        }
        self.memory.as_ref().ok_or_else(|| Error::new(Code::OutOfMemory, "no staging memory"))
    }

    pub(super) fn memory(&self) -> Option<&hal::Memory> {
        self.memory.as_ref().map(|(memory, _)| memory)
    }

    pub(super) fn mapping(&self) -> Option<&Mapping> {
        self.memory.as_ref().map(|(_, mapping)| mapping)
    }
}

/// A frame, and the arguments that it was made for.
#[derive(Debug)]
pub(super) struct Framed {
    pub(super) frame: Frame,
    pub(super) inputs: Vec<Argument>,
    pub(super) outputs: Vec<Argument>,
}

/// The request that came last, as the device has it; the memories come with each execution.
pub(super) struct Here {
    pub(super) inputs: Vec<RequestArgument>,
    pub(super) outputs: Vec<RequestArgument>,
    pub(super) pools: usize,
    pub(super) reusable: Box<dyn ReusableExecution>,
}

impl std::fmt::Debug for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Here").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

/// The request that a burst executed last for a call: its pools, by the memories' ids. It keeps
/// none of them.
#[derive(Debug)]
pub(super) struct Again {
    pub(super) last: LastRequest,
    pub(super) pools: Vec<u64>,
}
