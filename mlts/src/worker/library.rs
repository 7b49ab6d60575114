//! A device behind the C functions of a libneuralnetworks.so.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use nnburst::hal::{
    Access, DataLocation, Mapping, Memory, Model, Operand, Request, RequestArgument, RequestPool,
};
use nnburst_ndk_client::{Compilation, Device, Library, RunMode, RunOptions};

use super::client::{CallError, CallTimes, Result, not_offered};
use crate::protocol::CallMode;
use crate::report::About;

/// A library, loaded, and one of its devices.
pub(crate) struct LibraryClient {
    library: Library,
    device: Device,
    name: String,
    path: PathBuf,
}

impl LibraryClient {
    /// The library and the device's name.
    pub(crate) fn place(&self) -> (&Path, &str) {
        (&self.path, &self.name)
    }

    pub(crate) fn open(path: &Path, device: Option<&str>) -> Result<Self> {
        let library = Library::open_at(path).map_err(|error| CallError {
            status: String::new(),
            reason: error.to_string(),
            is_lost: true,
        })?;
        let first = library.device_names()?.into_iter().next();
        let name = device.map(str::to_owned).or(first).ok_or_else(|| not_offered("a device"))?;
        let device = library.device(&name)?;
        Ok(Self { library, device, name, path: path.to_owned() })
    }

    pub(crate) fn about(&self) -> About {
        About { device: self.name.clone(), level: 30, ..About::default() }
    }

    pub(crate) fn supported(&self, model: &Model) -> Result<Vec<bool>> {
        Ok(self.library.model(model)?.supported(&self.device)?)
    }

    pub(crate) fn prepare(&self, model: &Model) -> Result<Rc<LibraryModel>> {
        let compilation = self.library.model(model)?.compile(&self.device)?;
        let operands = |indexes: &[u32]| {
            let at = |&index: &u32| model.main.operands.get(usize::try_from(index).ok()?).cloned();
            indexes.iter().filter_map(at).collect()
        };
        let inputs = operands(&model.main.input_indexes);
        let outputs = operands(&model.main.output_indexes);
        Ok(Rc::new(LibraryModel { compilation, inputs, outputs }))
    }
}

/// A model that the library compiled.
pub(crate) struct LibraryModel {
    compilation: Compilation,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
}

impl LibraryModel {
    pub(crate) fn session(self: &Rc<Self>, mode: CallMode) -> Result<LibrarySession> {
        let (inputs, in_arguments) = room(&self.inputs, 0)?;
        let (outputs, out_arguments) = room(&self.outputs, 1)?;
        let pools = [&inputs, &outputs].map(|memory| RequestPool::Memory(memory.clone()));
        let request = Request { inputs: in_arguments, outputs: out_arguments, pools: pools.into() };
        let inputs = inputs.map(Access::ReadWrite).map_err(nnburst::RuntimeError::from)?;
        Ok(LibrarySession { model: Rc::clone(self), mode, inputs, outputs, request })
    }
}

/// One memory for all arguments of a kind, each at a cache line of its own.
fn room(operands: &[Operand], pool_index: u32) -> Result<(Memory, Vec<RequestArgument>)> {
    let mut at = 0_usize;
    let mut arguments = Vec::new();
    for operand in operands {
        let size = operand.data_size().ok_or_else(|| not_offered("arguments of open shapes"))?;
        let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let location = DataLocation { pool_index, offset: narrow(at), length: narrow(size) };
        arguments.push(RequestArgument { has_no_value: false, location, dimensions: Vec::new() });
        at = at.saturating_add(size).next_multiple_of(64);
    }
    let memory = Memory::ashmem(u64::try_from(at.max(64)).unwrap_or(u64::MAX));
    Ok((memory.map_err(nnburst::RuntimeError::from)?, arguments))
}

/// One caller of a model behind the library.
pub(crate) struct LibrarySession {
    model: Rc<LibraryModel>,
    mode: CallMode,
    inputs: Mapping,
    outputs: Memory,
    request: Request,
}

impl LibrarySession {
    pub(crate) fn write(&mut self, input: usize, bytes: &[u8]) -> Result<()> {
        let argument = self.request.inputs.get(input).ok_or_else(|| not_offered("the input"))?;
        if usize::try_from(argument.location.length) != Ok(bytes.len()) {
            return Err(not_offered("an input of that size"));
        }
        let start = usize::try_from(argument.location.offset).unwrap_or(usize::MAX);
        let place = self.inputs.view_mut(start..start.saturating_add(bytes.len()));
        place.ok_or_else(|| not_offered("room for the input"))?.copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn read(&mut self, output: usize) -> Result<Vec<u8>> {
        let argument = self.request.outputs.get(output).ok_or_else(|| not_offered("the output"))?;
        let mut bytes = vec![0; usize::try_from(argument.location.length).unwrap_or(0)];
        let offset = argument.location.offset.into();
        self.outputs.read_at(offset, &mut bytes).map_err(nnburst::RuntimeError::from)?;
        Ok(bytes)
    }

    pub(crate) fn call(&mut self) -> Result<CallTimes> {
        let mode = match self.mode {
            CallMode::Burst => RunMode::Burst,
            CallMode::Sync => RunMode::Sync,
            CallMode::Async => RunMode::Async,
            CallMode::Fenced => RunMode::Fenced,
        };
        let run = RunOptions { mode, ..RunOptions::default() };
        let started = Instant::now();
        self.model.compilation.run(&self.request, &run)?;
        Ok(CallTimes { latency: started.elapsed(), driver: None })
    }
}
