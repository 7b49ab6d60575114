//! The descriptor of a queue: what one process sends another so that both map the same queue.
//!
//! Plain data ([`DescriptorData`]) and file descriptors ([`Descriptor::fds`]), to be carried by
//! whatever transport the two have (a Unix socket with `SCM_RIGHTS`, binder, inheritance). Nothing
//! in it is trusted before [`Queue::attach`](crate::Queue::attach) has checked it.
//!
//! Android has it in two forms: [HIDL's](DescriptorData) with unsigned fields and flags per
//! grantor, and [AIDL's](AidlDescriptor) with signed fields; [`Descriptor`] converts to and from
//! both.

use std::os::fd::OwnedFd;

use bytemuck::{Pod, Zeroable};
use nix::errno::Errno;

use crate::{Part, SetupError};

/// The place of one part of a queue. Layout and size (24 bytes) are those of libfmq's
/// `GrantorDescriptor` in HIDL.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Grantor {
    /// Unused, zero.
    pub flags: u32,
    /// Index of one of the descriptor's files.
    pub fd_index: u32,
    /// Byte in that file; a multiple of 8.
    pub offset: u32,
    /// Length in bytes.
    pub extent: u64,
}

/// A [`Grantor`] as 24 bytes, its padding made explicit: for those who send it as memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RawGrantor {
    /// Unused, zero.
    pub flags: u32,
    /// Index of one of the descriptor's files.
    pub fd_index: u32,
    /// Byte in that file.
    pub offset: u32,
    /// Padding, zero.
    pub padding: u32,
    /// Length in bytes.
    pub extent: u64,
}

impl From<Grantor> for RawGrantor {
    fn from(grantor: Grantor) -> Self {
        let Grantor { flags, fd_index, offset, extent } = grantor;
        Self { flags, fd_index, offset, padding: 0, extent }
    }
}

impl From<RawGrantor> for Grantor {
    fn from(raw: RawGrantor) -> Self {
        let RawGrantor { flags, fd_index, offset, extent, .. } = raw;
        Self { flags, fd_index, offset, extent }
    }
}

/// The flavour: one reader and the writer wait for each other, or the writer overwrites what any
/// number of readers missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(clippy::exhaustive_enums, reason = "the format has these two")]
pub enum Flavor {
    /// `kSynchronizedReadWrite`: [`Producer`](crate::Producer) and [`Consumer`](crate::Consumer).
    Synchronized = 1,
    /// `kUnsynchronizedWrite`: [`unsync::Writer`](crate::unsync::Writer) and
    /// [`unsync::Reader`](crate::unsync::Reader).
    Unsynchronized = 2,
}

/// The plain data of a descriptor, in HIDL's terms (`MQDescriptor`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DescriptorData {
    /// Read counter, write counter, ring, and optionally the event-flag word, in this order.
    pub grantors: Vec<Grantor>,
    /// Bytes per item.
    pub quantum: u32,
    /// The [`Flavor`].
    pub flags: u32,
}

/// A queue's description: plain data and the files it speaks of.
#[derive(Debug, Default)]
pub struct Descriptor {
    /// Grantors, quantum and flavour.
    pub data: DescriptorData,
    /// The files, by [`Grantor::fd_index`].
    pub fds: Vec<OwnedFd>,
    /// The memory itself, which a model has instead of files.
    #[cfg(loom)]
    pub(crate) memory: Option<crate::memory::QueueMemory>,
}

impl Descriptor {
    /// Duplicates the file descriptors: one copy to keep, one to send.
    ///
    /// # Errors
    /// [`SetupError::System`] if a descriptor can't be duplicated.
    pub fn try_clone(&self) -> Result<Self, SetupError> {
        let fds: Result<Vec<_>, _> = self.fds.iter().map(OwnedFd::try_clone).collect();
        let fds = fds.map_err(|error| SetupError::System {
            call: "fcntl(F_DUPFD_CLOEXEC)",
            source: error.raw_os_error().map_or(Errno::EBADF, Errno::from_raw),
        })?;
        Ok(Self {
            data: self.data.clone(),
            fds,
            #[cfg(loom)]
            memory: self.memory.clone(),
        })
    }

    /// The AIDL form. Its fields are signed, so what does not fit in them can't be said.
    ///
    /// # Errors
    /// [`SetupError::Grantor`], [`SetupError::ItemSize`] or [`SetupError::Flavor`] naming the field
    /// that is more than `i32::MAX`.
    pub fn into_aidl(self) -> Result<AidlDescriptor, SetupError> {
        let Self { data: DescriptorData { grantors, quantum, flags }, fds, .. } = self;
        let grantors: Result<Vec<_>, _> = (0..).zip(&grantors).map(|(i, g)| g.to_aidl(i)).collect();
        let wrong_flags = SetupError::Flavor { flags: i64::from(flags), wanted: 0 };
        let too_big = |_| SetupError::ItemSize { bytes: quantum as usize };
        Ok(AidlDescriptor {
            grantors: grantors?,
            fds,
            ints: Vec::new(),
            quantum: i32::try_from(quantum).map_err(too_big)?,
            flags: i32::try_from(flags).map_err(|_| wrong_flags)?,
        })
    }

    /// Takes the AIDL form; its integers beside the files mean nothing and are dropped.
    ///
    /// # Errors
    /// [`SetupError::Grantor`], [`SetupError::Quantum`] or [`SetupError::Flavor`] naming the field
    /// that is negative.
    pub fn from_aidl(aidl: AidlDescriptor) -> Result<Self, SetupError> {
        let AidlDescriptor { grantors, fds, quantum, flags, ints: _ } = aidl;
        let grantors: Result<Vec<_>, _> = (0..).zip(&grantors).map(|(i, g)| g.to_hidl(i)).collect();
        let quantum = u32::try_from(quantum).map_err(|_| SetupError::ItemSize { bytes: 0 })?;
        let flags = u32::try_from(flags)
            .map_err(|_| SetupError::Flavor { flags: i64::from(flags), wanted: 0 })?;
        Ok(Self {
            data: DescriptorData { grantors: grantors?, quantum, flags },
            fds,
            #[cfg(loom)]
            memory: None,
        })
    }
}

/// [`Grantor`] in AIDL (`android.hardware.common.fmq.GrantorDescriptor`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AidlGrantor {
    /// Index of one of the descriptor's files.
    pub fd_index: i32,
    /// Byte in that file.
    pub offset: i32,
    /// Length in bytes.
    pub extent: i64,
}

/// A queue's description in AIDL (`android.hardware.common.fmq.MQDescriptor`).
#[derive(Debug, Default)]
pub struct AidlDescriptor {
    /// Read counter, write counter, ring, and optionally the event-flag word, in this order.
    pub grantors: Vec<AidlGrantor>,
    /// The files of the native handle.
    pub fds: Vec<OwnedFd>,
    /// The integers of the native handle; a queue uses none.
    pub ints: Vec<i32>,
    /// Bytes per item.
    pub quantum: i32,
    /// The [`Flavor`].
    pub flags: i32,
}

impl Grantor {
    fn to_aidl(self, index: usize) -> Result<AidlGrantor, SetupError> {
        let Self { fd_index, offset, extent, flags: _ } = self;
        Ok(AidlGrantor {
            fd_index: signed(index, "fd index", fd_index)?,
            offset: signed(index, "offset", offset)?,
            extent: signed(index, "extent", extent)?,
        })
    }
}

impl AidlGrantor {
    fn to_hidl(self, index: usize) -> Result<Grantor, SetupError> {
        let Self { fd_index, offset, extent } = self;
        Ok(Grantor {
            flags: 0,
            fd_index: signed(index, "fd index", fd_index)?,
            offset: signed(index, "offset", offset)?,
            extent: signed(index, "extent", extent)?,
        })
    }
}

/// Changes the signedness of a field of grantor `index`, if its value allows it.
fn signed<A, B>(index: usize, field: &'static str, value: A) -> Result<B, SetupError>
where
    A: Copy + Into<i128>,
    B: TryFrom<A>,
{
    B::try_from(value).map_err(|_| SetupError::Grantor {
        part: part(index),
        field,
        value: value.into(),
        why: "does not fit the other form's sign",
    })
}

/// The part that grantor `index` describes; those after the fourth describe none and count as the
/// last.
fn part(index: usize) -> Part {
    match index {
        0 => Part::ReadCounter,
        1 => Part::WriteCounter,
        2 => Part::Ring,
        _ => Part::EventFlag,
    }
}

const _: () = assert!(size_of::<Grantor>() == 24 && align_of::<Grantor>() == 8);
const _: () = assert!(size_of::<RawGrantor>() == 24);
