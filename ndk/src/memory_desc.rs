//! `ANeuralNetworksMemoryDesc`: what a memory is going to be used for.

use std::ffi::c_int;

use nnburst::hal::Direction;
use nnburst::{Memory, MemoryDescriptor};

use crate::c::{Array, Out};
use crate::compilation::{Compilation, ready};
use crate::error::{Error, Result, call, quietly};
use crate::handle::{Handle, object};

/// A descriptor.
#[derive(Debug, Default)]
pub(crate) struct MemoryDesc(MemoryDescriptor);

object!(MemoryDesc, "memory descriptor", 9);

impl MemoryDesc {
    pub(crate) fn create_memory(&self) -> Result<Memory> {
        Ok(self.0.create_memory()?)
    }

    /// # Errors
    /// `BAD_STATE` for a descriptor that is finished.
    fn open(&mut self) -> Result<&mut MemoryDescriptor> {
        if self.0.is_finished() {
            return Err(Error::state("the memory descriptor is finished"));
        }
        Ok(&mut self.0)
    }
}

pub(crate) extern "C" fn create(desc: Out<'_, Handle<MemoryDesc>>) -> c_int {
    call(|| {
        let desc = desc.ok_or_else(|| Error::null("desc"))?;
        desc.write(Handle::NULL);
        desc.write(Handle::new(MemoryDesc::default())?);
        Ok(())
    })
}

pub(crate) extern "C" fn free(desc: Handle<MemoryDesc>) {
    quietly(|| drop(desc.free()));
}

pub(crate) extern "C" fn finish(desc: Handle<MemoryDesc>) -> c_int {
    call(|| desc.with(|desc| Ok(desc.open()?.finish()?)))
}

pub(crate) extern "C" fn set_dimensions(
    desc: Handle<MemoryDesc>,
    rank: u32,
    dimensions: Array<u32>,
) -> c_int {
    call(|| {
        let dimensions = if rank == 0 { &[] } else { dimensions.elements(rank, "dimensions")? };
        desc.with(|desc| Ok(desc.open()?.set_dimensions(dimensions)?))
    })
}

fn add_role(
    desc: Handle<MemoryDesc>,
    compilation: Handle<Compilation>,
    direction: Direction,
    index: u32,
    frequency: f32,
) -> c_int {
    call(|| {
        if compilation.is_null() {
            return Err(Error::null("compilation"));
        }
        desc.with(|desc| desc.open().map(drop))?;
        let ready = ready(compilation).map_err(|error| Error::data(error.reason))?;
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        desc.with(|desc| {
            Ok(desc.open()?.add_role(&ready.compilation, direction, index, frequency)?)
        })
    })
}

pub(crate) extern "C" fn add_input_role(
    desc: Handle<MemoryDesc>,
    compilation: Handle<Compilation>,
    index: u32,
    frequency: f32,
) -> c_int {
    add_role(desc, compilation, Direction::Input, index, frequency)
}

pub(crate) extern "C" fn add_output_role(
    desc: Handle<MemoryDesc>,
    compilation: Handle<Compilation>,
    index: u32,
    frequency: f32,
) -> c_int {
    add_role(desc, compilation, Direction::Output, index, frequency)
}

pub(crate) extern "C" fn create_memory(
    desc: Handle<MemoryDesc>,
    memory: Out<'_, Handle<Memory>>,
) -> c_int {
    call(|| {
        let memory = memory.ok_or_else(|| Error::null("memory"))?;
        memory.write(Handle::NULL);
        memory
            .write(Handle::new(desc.with(|desc| desc.create_memory()).map_err(Error::of_buffer)?)?);
        Ok(())
    })
}
