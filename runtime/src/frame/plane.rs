//! Arguments in memory that somebody else allocated: pictures where a camera wrote them.
//!
//! The driver reads and writes such memory in place, as it does a frame's own. Only where the rows
//! of a picture are padded are they copied, once, around the execution: NNAPI's tensors are packed.

use std::sync::Arc;

use nnburst_hal::{Access, Direction, Mapping, Memory, RequestPool};

use super::{Body, Frame, Place, outside, range_of};
use crate::error::{Result, RuntimeError};

/// An argument's place in memory that somebody else allocated: a memfd, a dma-buf, any file that
/// can be mapped.
///
/// Bursts know a memory by its [`Memory::id`]: one handle for each of a camera's buffers, kept as
/// long as the buffer is used, is asked for by the driver once and mapped there once.
#[derive(Clone, Debug)]
pub struct Plane {
    /// The memory.
    pub memory: Memory,
    /// The argument's first byte within it.
    pub offset: u64,
    /// The rows, if they are padded.
    pub rows: Option<PaddedRows>,
}

/// Padded rows of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaddedRows {
    /// Bytes of a row without padding; so many times the number of rows is the argument.
    pub bytes: usize,
    /// Bytes from the first byte of a row to that of the next.
    pub stride: usize,
}

/// The number of memories that a padded argument keeps mapped: as many as rings of cameras have.
const RING: usize = 8;

/// An argument whose rows are copied between its plane and the frame's own memory.
#[derive(Debug)]
pub(super) struct Padded {
    direction: Direction,
    index: usize,
    rows: PaddedRows,
    offset: usize,
    /// Memories by their ids; the current one is the last.
    mapped: Vec<(u64, Arc<Mapping>)>,
}

impl Padded {
    pub(super) fn is(&self, direction: Direction, index: usize) -> bool {
        (self.direction, self.index) == (direction, index)
    }

    /// Makes a memory the current one.
    fn set(&mut self, memory: &Memory, offset: usize) -> Result<()> {
        let known = self
            .mapped
            .iter()
            .position(|(id, mapping)| *id == memory.id() && !mapping.lost_pages());
        let current = match known {
            Some(at) => self.mapped.remove(at),
            None => (memory.id(), memory.mapped()?),
        };
        if self.mapped.len() == RING {
            self.mapped.remove(0);
        }
        self.mapped.push(current);
        self.offset = offset;
        Ok(())
    }

    /// Copies all rows, each from one place of `own` and to one of the plane or the other way.
    fn copy(&self, own: &Mapping, packed: std::ops::Range<usize>) -> Result<()> {
        let outside = || outside(self.direction, self.index);
        let (_, plane) = self.mapped.last().ok_or_else(outside)?;
        let access = match self.direction {
            Direction::Input => Access::Read,
            Direction::Output => Access::ReadWrite,
        };
        let _access = plane.begin_access(access)?;
        let PaddedRows { bytes, stride } = self.rows;
        for (row, at) in packed.step_by(bytes).enumerate() {
            let there = self.offset + row * stride;
            let (here, there) = (at..at + bytes, there..there + bytes);
            match self.direction {
                Direction::Input => {
                    let (from, to) = (plane.view(there), own.view_mut(here));
                    to.ok_or_else(outside)?.copy_from(from.ok_or_else(outside)?);
                }
                Direction::Output => {
                    let (from, to) = (own.view(here), plane.view_mut(there));
                    to.ok_or_else(outside)?.copy_from(from.ok_or_else(outside)?);
                }
            }
        }
        if plane.lost_pages() {
            return Err(RuntimeError::Argument("a frame's plane was truncated by somebody".into()));
        }
        Ok(())
    }
}

impl Frame {
    /// Lays those arguments of a direction that have planes over them.
    pub(super) fn laid_over(
        mut self,
        direction: Direction,
        planes: &[Option<Plane>],
    ) -> Result<Self> {
        let arguments = match direction {
            Direction::Input => self.0.inputs.len(),
            Direction::Output => self.0.outputs.len(),
        };
        if planes.len() > arguments {
            let given = planes.len();
            return Err(RuntimeError::Argument(format!(
                "planes for {given} {direction}s given, the model has {arguments}"
            )));
        }
        for (index, plane) in planes.iter().enumerate() {
            let Some(plane) = plane else { continue };
            if let Some(rows) = plane.rows {
                let mapped = Vec::with_capacity(RING);
                self.0.padded.push(Padded { direction, index, rows, offset: 0, mapped });
            }
            self.set_memory(direction, index, &plane.memory, plane.offset)?;
        }
        Ok(self)
    }

    /// Has an input be read from another memory from now on, `offset` bytes into it: the next
    /// buffer of a camera's ring. With memories that the burst has seen, all at the same offset,
    /// that costs a look into a table at the next execution; nothing is allocated or mapped.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such input, it is left out, or it does not lie
    /// within the memory; [`RuntimeError::Memory`] if a memory with padded rows can't be mapped.
    pub fn set_input_memory(&mut self, input: usize, memory: &Memory, offset: u64) -> Result<()> {
        self.set_memory(Direction::Input, input, memory, offset)
    }

    /// Has an output be written to another memory from now on; see [`Frame::set_input_memory`].
    ///
    /// # Errors
    /// As for [`Frame::set_input_memory`], and if the memory can't be written.
    pub fn set_output_memory(&mut self, output: usize, memory: &Memory, offset: u64) -> Result<()> {
        self.set_memory(Direction::Output, output, memory, offset)
    }

    fn set_memory(
        &mut self,
        direction: Direction,
        index: usize,
        memory: &Memory,
        offset: u64,
    ) -> Result<()> {
        let argument = self.argument(direction, index)?;
        let packed = range_of(argument).len();
        if argument.has_no_value {
            return Err(RuntimeError::Argument(format!("{direction} {index} is left out")));
        }
        if direction == Direction::Output && !memory.is_writable() {
            return Err(RuntimeError::Argument(format!(
                "{direction} {index}: the memory is read-only"
            )));
        }
        let padded = self.0.padded.iter().position(|padded| padded.is(direction, index));
        let rows = padded.and_then(|at| self.0.padded.get(at)).map(|padded| padded.rows);
        let length = match rows {
            None => Some(packed),
            Some(rows) => rows.extent(packed),
        };
        let length = length.ok_or_else(|| {
            let why = format!("{direction} {index} of {packed} bytes has no such rows: {rows:?}");
            RuntimeError::Argument(why)
        })?;
        let end = u64::try_from(length).ok().and_then(|length| offset.checked_add(length));
        if end.is_none_or(|end| end > memory.size()) {
            return Err(RuntimeError::Argument(format!(
                "{direction} {index} takes {length} bytes from {offset} on, the memory has {}",
                memory.size()
            )));
        }
        if let Some(padded) = padded.and_then(|at| self.0.padded.get_mut(at)) {
            let offset = usize::try_from(offset).map_err(|_| outside(direction, index))?;
            return padded.set(memory, offset);
        }
        let offset = u32::try_from(offset).map_err(|_| {
            RuntimeError::Argument(format!("{direction} {index} begins beyond 4 GiB of its memory"))
        })?;
        self.lay(direction, index, memory, offset)
    }

    /// Puts an argument into a pool of its own, whose memory this is.
    fn lay(&mut self, direction: Direction, index: usize, memory: &Memory, at: u32) -> Result<()> {
        let Body { request, places, .. } = &mut *self.0;
        let arguments = match direction {
            Direction::Input => &mut request.inputs,
            Direction::Output => &mut request.outputs,
        };
        let location =
            &mut arguments.get_mut(index).ok_or_else(|| outside(direction, index))?.location;
        let has_own_pool = location.pool_index != 0;
        let is_moved = !has_own_pool || location.offset != at;
        location.offset = at;
        if has_own_pool {
            let pool =
                usize::try_from(location.pool_index).map_err(|_| outside(direction, index))?;
            let known = places.get_mut(pool).zip(request.pools.get_mut(pool));
            let (place, pool) = known.ok_or_else(|| outside(direction, index))?;
            if place.memory == *memory && !is_moved {
                return Ok(());
            }
            *place = Place::of(memory.clone());
            *pool = RequestPool::Memory(memory.clone());
        } else {
            location.pool_index =
                u32::try_from(places.len()).map_err(|_| outside(direction, index))?;
            places.push(Place::of(memory.clone()));
            request.pools.push(RequestPool::Memory(memory.clone()));
        }
        self.0.version += 1;
        if is_moved {
            self.0.packets.unset();
            self.0.current_here = None;
        }
        Ok(())
    }

    /// Returns whether arguments are copied around executions.
    pub(crate) fn has_padded_rows(&self) -> bool {
        !self.0.padded.is_empty()
    }

    /// Copies padded inputs to where the driver reads them.
    pub(crate) fn gather(&self) -> Result<()> {
        self.copy_rows(Direction::Input)
    }

    /// Copies padded outputs to where they belong.
    pub(super) fn scatter(&self) -> Result<()> {
        self.copy_rows(Direction::Output)
    }

    #[inline]
    fn copy_rows(&self, direction: Direction) -> Result<()> {
        for padded in self.0.padded.iter().filter(|padded| padded.direction == direction) {
            let packed = range_of(self.argument(direction, padded.index)?);
            padded.copy(self.mapping_of(direction, padded.index)?, packed)?;
        }
        Ok(())
    }
}

impl PaddedRows {
    /// Bytes from the first row's first to the last row's last, for an argument of this length;
    /// `None` if it has no such rows.
    fn extent(self, packed: usize) -> Option<usize> {
        let Self { bytes, stride } = self;
        let rows = packed.checked_div(bytes)?;
        if !packed.is_multiple_of(bytes) || stride < bytes {
            return None;
        }
        rows.checked_sub(1)?.checked_mul(stride)?.checked_add(bytes)
    }
}
