//! The types of messages where the HAL's own types won't do: whatever holds file descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nnburst_fmq::{Descriptor, DescriptorData};
use nnburst_hal::{
    Budget, CacheHandles, Charge, ExtensionNameAndPrefix, HalError, Memory, Model, Request,
    RequestArgument, RequestPool, Result, Subgraph, check_prompt, try_collect,
};
use serde::{Deserialize, Serialize};

use crate::socket::Arrived;

/// The file descriptors that leave with a message; bodies name them by their place.
#[derive(Debug, Default)]
pub(crate) struct DescriptorsOut<'a> {
    fds: Vec<BorrowedFd<'a>>,
    /// Memories already here, so that one used twice travels once.
    memories: Vec<(u64, u16)>,
}

impl<'a> DescriptorsOut<'a> {
    pub(crate) fn as_slice(&self) -> &[BorrowedFd<'a>] {
        &self.fds
    }

    pub(crate) fn push(&mut self, fd: BorrowedFd<'a>) -> Result<u16> {
        let at = self.fds.len();
        if at >= super::MAX_DESCRIPTORS {
            return Err(HalError::invalid(format!(
                "more than {} file descriptors in one call",
                super::MAX_DESCRIPTORS
            )));
        }
        self.fds.push(fd);
        Ok(u16::try_from(at).unwrap_or(u16::MAX))
    }

    pub(crate) fn memory(&mut self, memory: &'a Memory) -> Result<MemoryBody> {
        let known = self.memories.iter().find(|(id, _)| *id == memory.id());
        let fd = match known {
            Some(&(_, fd)) => fd,
            None => {
                let fd = self.push(memory.fd())?;
                self.memories.push((memory.id(), fd));
                fd
            }
        };
        Ok(MemoryBody {
            name: memory.kind().name().to_owned(),
            ints: memory.ints().to_vec(),
            size: memory.size(),
            fd,
        })
    }
}

/// The file descriptors that came with a message; what no body claims is closed.
#[derive(Debug)]
pub(crate) struct DescriptorsIn {
    fds: Vec<Option<(OwnedFd, Charge)>>,
    memories: Vec<(MemoryBody, Memory)>,
    /// The budget that mappings of the memories are charged to.
    budget: Arc<Budget>,
    /// For those that were taken without their charge.
    charges: Vec<Charge>,
}

impl DescriptorsIn {
    pub(crate) fn new(fds: Arrived, budget: &Arc<Budget>) -> Self {
        let fds = fds.into_iter().map(Some).collect();
        Self { fds, memories: Vec::new(), budget: Arc::clone(budget), charges: Vec::new() }
    }

    /// Descriptors that nobody is charged for.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn uncharged(fds: Vec<OwnedFd>) -> Self {
        let budget = Budget::root("test", nnburst_hal::Amounts::UNLIMITED);
        Self::new(fds.into_iter().map(|fd| (fd, budget.empty())).collect(), &budget)
    }

    /// A descriptor that is no memory's, and nothing that makes whoever uses it wait for somebody
    /// else. What it is charged is the task's to hold: see [`Self::take_charges`].
    pub(crate) fn take(&mut self, at: u16) -> Result<OwnedFd> {
        let (fd, charge) = self.take_charged(at)?;
        check_prompt(fd.as_fd())
            .map_err(|error| HalError::invalid(format!("file descriptor {at}: {error}")))?;
        self.charges.push(charge);
        Ok(fd)
    }

    /// Returns the charges of the descriptors that were taken so far, memories apart: those pay for
    /// theirs.
    pub(crate) fn take_charges(&mut self) -> Vec<Charge> {
        std::mem::take(&mut self.charges)
    }

    fn take_charged(&mut self, at: u16) -> Result<(OwnedFd, Charge)> {
        self.fds.get_mut(usize::from(at)).and_then(Option::take).ok_or_else(|| {
            HalError::invalid(format!("no file descriptor {at} came with the call, or it is used"))
        })
    }

    /// The memory of a body; the same one again for the same descriptor.
    pub(crate) fn memory(&mut self, body: MemoryBody) -> Result<Memory> {
        if let Some((known, memory)) = self.memories.iter().find(|(known, _)| known.fd == body.fd) {
            if *known == body {
                return Ok(memory.clone());
            }
            return Err(HalError::invalid(format!("two memories share descriptor {}", body.fd)));
        }
        // The memory checks what it is of.
        let (fd, charge) = self.take_charged(body.fd)?;
        let memory = Memory::from_handle(&body.name, vec![fd], body.ints.clone(), body.size)
            .map_err(|error| HalError::invalid(error.to_string()))?
            .charged_to(&self.budget, charge);
        self.memories.push((body, memory.clone()));
        Ok(memory)
    }
}

/// A memory's handle: its descriptor is a place in the frame's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryBody {
    pub(crate) name: String,
    pub(crate) ints: Vec<i32>,
    pub(crate) size: u64,
    pub(crate) fd: u16,
}

/// A model on its way out; its constants are the frame's tail.
#[derive(Debug, Serialize)]
pub(crate) struct ModelRef<'a> {
    main: &'a Subgraph,
    referenced: &'a [Subgraph],
    values: u64,
    pools: Vec<MemoryBody>,
    relax_computation_float32_to_float16: bool,
    extension_name_to_prefix: &'a [ExtensionNameAndPrefix],
}

impl<'a> ModelRef<'a> {
    pub(crate) fn new(model: &'a Model, out: &mut DescriptorsOut<'a>) -> Result<Self> {
        let pools = model.pools.iter().map(|pool| out.memory(pool)).collect::<Result<_>>()?;
        Ok(Self {
            main: &model.main,
            referenced: &model.referenced,
            values: u64::try_from(model.operand_values.len()).unwrap_or(u64::MAX),
            pools,
            relax_computation_float32_to_float16: model.relax_computation_float32_to_float16,
            extension_name_to_prefix: &model.extension_name_to_prefix,
        })
    }
}

/// [`ModelRef`] on its way in.
#[derive(Debug, Deserialize)]
pub(crate) struct ModelBody {
    main: Subgraph,
    referenced: Vec<Subgraph>,
    values: u64,
    pools: Vec<MemoryBody>,
    relax_computation_float32_to_float16: bool,
    extension_name_to_prefix: Vec<ExtensionNameAndPrefix>,
}

impl ModelBody {
    pub(crate) fn into_model(self, tail: Vec<u8>, fds: &mut DescriptorsIn) -> Result<Model> {
        if usize::try_from(self.values) != Ok(tail.len()) {
            return Err(HalError::invalid(format!(
                "{} bytes of constants came with a model that has {}",
                tail.len(),
                self.values
            )));
        }
        let pools = try_collect(self.pools.into_iter().map(|pool| fds.memory(pool)))?;
        Ok(Model {
            main: self.main,
            referenced: self.referenced,
            operand_values: tail,
            pools,
            relax_computation_float32_to_float16: self.relax_computation_float32_to_float16,
            extension_name_to_prefix: self.extension_name_to_prefix,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PoolBody {
    Memory(MemoryBody),
    Token(u32),
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestBody {
    inputs: Vec<RequestArgument>,
    outputs: Vec<RequestArgument>,
    pools: Vec<PoolBody>,
}

impl RequestBody {
    pub(crate) fn new<'a>(request: &'a Request, out: &mut DescriptorsOut<'a>) -> Result<Self> {
        let pool = |pool: &'a RequestPool| match pool {
            RequestPool::Memory(memory) => out.memory(memory).map(PoolBody::Memory),
            RequestPool::Token(token) => Ok(PoolBody::Token(*token)),
        };
        Ok(Self {
            inputs: request.inputs.clone(),
            outputs: request.outputs.clone(),
            pools: request.pools.iter().map(pool).collect::<Result<_>>()?,
        })
    }

    pub(crate) fn into_request(self, fds: &mut DescriptorsIn) -> Result<Request> {
        let pool = |pool| match pool {
            PoolBody::Memory(body) => fds.memory(body).map(RequestPool::Memory),
            PoolBody::Token(token) => Ok(RequestPool::Token(token)),
        };
        Ok(Request {
            inputs: self.inputs,
            outputs: self.outputs,
            pools: try_collect(self.pools.into_iter().map(pool))?,
        })
    }
}

/// Cache files: places in the frame's list, and the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CacheBody {
    model: Vec<u16>,
    data: Vec<u16>,
    token: [u8; nnburst_hal::CACHE_TOKEN_BYTES],
}

impl CacheBody {
    /// Files that a driver would refuse, on FUSE or a network file system, stay here: it then does
    /// without a cache.
    pub(crate) fn new<'a>(cache: &'a CacheHandles, out: &mut DescriptorsOut<'a>) -> Result<Self> {
        let files = cache.model.iter().chain(&cache.data);
        if let Some(error) =
            files.map(|file| check_prompt(file.as_fd())).find_map(std::result::Result::err)
        {
            tracing::warn!(%error, "no compilation cache");
            return Ok(Self { model: Vec::new(), data: Vec::new(), token: cache.token });
        }
        let mut places =
            |files: &'a [OwnedFd]| files.iter().map(|file| out.push(file.as_fd())).collect();
        let model: Result<_> = places(&cache.model);
        let data: Result<_> = places(&cache.data);
        Ok(Self { model: model?, data: data?, token: cache.token })
    }

    pub(crate) fn into_handles(self, fds: &mut DescriptorsIn) -> Result<CacheHandles> {
        let mut files = |places: Vec<u16>| try_collect(places.into_iter().map(|at| fds.take(at)));
        let (model, data) = (files(self.model)?, files(self.data)?);
        Ok(CacheHandles { model, data, token: self.token })
    }
}

/// A queue's descriptor: its files are places in the frame's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueBody {
    data: DescriptorData,
    fds: Vec<u16>,
}

impl QueueBody {
    pub(crate) fn new<'a>(queue: &'a Descriptor, out: &mut DescriptorsOut<'a>) -> Result<Self> {
        let fds: Result<_> = queue.fds.iter().map(|fd| out.push(fd.as_fd())).collect();
        Ok(Self { data: queue.data.clone(), fds: fds? })
    }

    pub(crate) fn into_descriptor(self, fds: &mut DescriptorsIn) -> Result<Descriptor> {
        let files = try_collect(self.fds.iter().map(|&at| fds.take(at)))?;
        Ok(Descriptor { data: self.data, fds: files })
    }
}
