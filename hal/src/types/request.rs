//! Requests and what comes back; driver-managed buffers; cache files.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use super::codes::CACHE_TOKEN_BYTES;
use super::operand::DataLocation;
use crate::memory::Memory;

/// One input or output of an execution.
#[derive(Clone, Debug, Default, Eq, Serialize, Deserialize)]
pub struct RequestArgument {
    /// The optional operand is left out; location and dimensions are then empty.
    pub has_no_value: bool,
    /// The bytes, in a pool of the request.
    pub location: DataLocation,
    /// Empty: the model's. Else these replace the model's unknown extents.
    pub dimensions: Vec<u32>,
}

impl PartialEq for RequestArgument {
    /// Compares dimensions one by one: most have none, and an empty slice may lie where nothing is
    /// mapped, where the C library's masked comparison of no bytes costs 80 ns on some processors.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.has_no_value == other.has_no_value
            && self.location == other.location
            && self.dimensions.len() == other.dimensions.len()
            && self.dimensions.iter().eq(&other.dimensions)
    }
}

/// The memory of a request's arguments.
#[derive(Clone, Debug)]
pub enum RequestPool {
    /// Shared memory.
    Memory(Memory),
    /// A driver-managed buffer; not 0.
    Token(u32),
}

/// The arguments of an execution.
///
/// Serialisation leaves out the pools: they are file descriptors and travel beside the bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// In the model's order of inputs.
    pub inputs: Vec<RequestArgument>,
    /// In the model's order of outputs.
    pub outputs: Vec<RequestArgument>,
    /// The pools that the arguments' locations index.
    #[serde(skip)]
    pub pools: Vec<RequestPool>,
}

/// Shape constraints of a driver-managed buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferDesc {
    /// Combined with those of the roles.
    pub dimensions: Vec<u32>,
}

/// One use of a driver-managed buffer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferRole {
    /// Index into the list of prepared models given with it.
    pub model_index: u32,
    /// Input or output position of that model.
    pub io_index: u32,
    /// The likelihood of the use, in (0, 1].
    pub frequency: f32,
}

/// The number of cache files of each kind that a driver wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFiles {
    /// Files with what must not be tampered with.
    pub model: u32,
    /// Files with plain data.
    pub data: u32,
}

/// Open cache files and the token that names what they cache.
#[derive(Debug, Default)]
pub struct CacheHandles {
    /// As many as [`CacheFiles::model`], or none.
    pub model: Vec<OwnedFd>,
    /// As many as [`CacheFiles::data`], or none.
    pub data: Vec<OwnedFd>,
    /// Chosen by the client; ignored without files.
    pub token: [u8; CACHE_TOKEN_BYTES],
}
