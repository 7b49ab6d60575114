//! The kinds of memory, and what can be wrong with one.

use nix::errno::Errno;

use crate::budget::Exhausted;

/// The kind of memory that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Anonymous shared memory; here a memfd, sealed against shrinking and growing.
    Ashmem,
    /// A range of any file that can be mapped.
    MmapFd,
    /// A hardware buffer that is a run of bytes.
    HardwareBufferBlob,
    /// A hardware buffer of another format; for executions only.
    HardwareBuffer,
}

impl MemoryKind {
    /// The name in the interface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ashmem => "ashmem",
            Self::MmapFd => "mmap_fd",
            Self::HardwareBufferBlob => "hardware_buffer_blob",
            Self::HardwareBuffer => "hardware_buffer",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Ashmem, Self::MmapFd, Self::HardwareBufferBlob, Self::HardwareBuffer]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// The errors of a memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The interface knows no such kind of memory.
    #[error("no memory is called {name:?}")]
    UnknownName {
        /// The name that was given.
        name: String,
    },
    /// The descriptor and numbers that come with a kind of memory don't fit it.
    #[error("a {kind} handle has {fds} descriptors and {ints} numbers")]
    BadHandle {
        /// The kind.
        kind: &'static str,
        /// Descriptors given.
        fds: usize,
        /// Numbers given.
        ints: usize,
    },
    /// The range reaches past the end of the file.
    #[error("bytes {offset}..{offset}+{size} are not within a file of {file} bytes")]
    OutOfFile {
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u64,
        /// The file's length.
        file: u64,
    },
    /// The memory is too large to be mapped here.
    #[error("{size} bytes are more than can be mapped")]
    TooLarge {
        /// Bytes.
        size: u64,
    },
    /// The descriptor does not allow the access asked for.
    #[error("the memory is read-only")]
    ReadOnly,
    /// The memory can be used through its own device only.
    #[error("a {kind} can't be mapped")]
    NotMappable {
        /// The kind.
        kind: &'static str,
    },
    /// As many unsealed memories are mapped as can be watched.
    #[error("{limit} unsealed memories are mapped already")]
    TooManyGuards {
        /// The limit.
        limit: usize,
    },
    /// The budget that the memory is charged to has no room for a mapping.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// The descriptor is of something that no memory can be.
    #[error("{what} can't be a memory; a memfd or a regular file can")]
    NoSuchFile {
        /// A description of it.
        what: &'static str,
    },
    /// The file's pages come from another process or machine, for which a driver would wait without
    /// an end.
    #[error(
        "a file on {file_system} can't be shared with a driver; a memfd or a file on a local disk can"
    )]
    Elsewhere {
        /// The file system.
        file_system: String,
    },
    /// The system refused.
    #[error("{what}: {}", std::io::Error::from(*errno))]
    System {
        /// The call.
        what: &'static str,
        /// Its error.
        errno: Errno,
    },
}

impl MemoryError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::System { what, errno }
    }
}
