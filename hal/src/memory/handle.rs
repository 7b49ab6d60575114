//! Handles of shared memory: `ashmem`, `mmap_fd` and hardware buffers, over file descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use super::backing::Backing;
use super::error::{MemoryError, MemoryKind};
use super::mapping::{Access, Mapping};
use super::still::Still;
use crate::FileStatus;
use crate::budget::{Budget, Charge};
use crate::process::{Origin, check_file_size};
use crate::sys::{offset, pread, pwrite, retry_on_intr, seals};

/// A shared memory by its handle. Clones are the same memory; so is what [`Memory::id`] tells
/// apart.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: u64,
    kind: MemoryKind,
    fd: OwnedFd,
    offset: u64,
    size: u64,
    writable: bool,
    ints: Vec<i32>,
    observers: Mutex<Vec<Weak<dyn MemoryObserver>>>,
    /// See [`Memory::mapped`].
    mapped: OnceLock<Arc<Mapping>>,
    /// The same for what can be cut short, while somebody has it.
    watched: Mutex<Weak<Mapping>>,
    /// The budget that its mappings are charged to.
    budget: Option<Arc<Budget>>,
    /// The charge of its descriptor.
    _descriptor: Option<Charge>,
    origin: Origin,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            return; // the parent has it still, and its drivers the slots
        }
        let observers = self.observers.get_mut().unwrap_or_else(PoisonError::into_inner);
        for observer in observers.iter().filter_map(Weak::upgrade) {
            observer.memory_gone(self.id);
        }
    }
}

/// Is told when a memory's last handle in this process is gone: whatever was kept for it can go
/// too.
pub trait MemoryObserver: Send + Sync {
    /// The memory with this [`Memory::id`] is gone. Runs on the thread that dropped the last
    /// handle, once.
    fn memory_gone(&self, id: u64);
}

/// Tells memories of this process apart. Relaxed: only uniqueness matters, nothing is handed over.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

const PROT_WRITE: i32 = 2;

impl Memory {
    /// New memory of `size` bytes, zeroed, sealed against shrinking and growing.
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    pub fn ashmem(size: u64) -> Result<Self, MemoryError> {
        check_file_size(size).map_err(MemoryError::system("ftruncate"))?;
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let fd =
            memfd_create(c"nnburst-memory", flags).map_err(MemoryError::system("memfd_create"))?;
        offset(size)
            .and_then(|size| ftruncate(&fd, size))
            .map_err(MemoryError::system("ftruncate"))?;
        let fixed = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(fixed))
            .map_err(MemoryError::system("fcntl(F_ADD_SEALS)"))?;
        Ok(Self::new(MemoryKind::Ashmem, fd, 0, size, true, Vec::new()))
    }

    /// Stands for `size` bytes that nobody has any more, where a model's rules want a memory:
    /// mapping or reading it is an error. It costs a tenth of one that has bytes.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn absent(size: u64) -> Result<Self, MemoryError> {
        // What is neither seekable nor long.
        let fd = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)
            .map_err(MemoryError::system("eventfd"))?;
        Ok(Self::new(MemoryKind::Ashmem, fd.into(), 0, size, false, Vec::new()))
    }

    /// `size` bytes of a file from `offset` on, as `mmap_fd`; any offset, aligned or not.
    ///
    /// A file on a file system of another process or machine (FUSE, NFS) that is only read is
    /// copied here and now, since no driver takes such files; later changes of it are not seen. One
    /// that is to be written is of use to devices of this process alone.
    ///
    /// # Errors
    /// [`MemoryError::OutOfFile`] if the file ends before the range does;
    /// [`MemoryError::NoSuchFile`].
    pub fn from_fd(
        fd: OwnedFd,
        offset: u64,
        size: u64,
        writable: bool,
    ) -> Result<Self, MemoryError> {
        let backing = Backing::of(fd.as_fd())?;
        check_within_file(fd.as_fd(), offset, size)?;
        if backing != Backing::Local && !writable {
            return Self::copy_of(&fd, offset, size);
        }
        let protection = if writable { 1 | PROT_WRITE } else { 1 };
        let [low, high] = halves(offset);
        let ints = vec![protection, low, high];
        Ok(Self::new(MemoryKind::MmapFd, fd, offset, size, writable, ints))
    }

    /// The memory behind a handle of the interface: a name, descriptors, numbers and a size.
    ///
    /// The handle may come from a peer: files whose pages are somebody else's to send are refused,
    /// without a call that such a file system could hold up.
    ///
    /// # Errors
    /// What about the handle is wrong. The descriptors are closed then.
    pub fn from_handle(
        name: &str,
        fds: Vec<OwnedFd>,
        ints: Vec<i32>,
        size: u64,
    ) -> Result<Self, MemoryError> {
        let kind = MemoryKind::from_name(name)
            .ok_or_else(|| MemoryError::UnknownName { name: name.chars().take(64).collect() })?;
        let bad = MemoryError::BadHandle { kind: kind.name(), fds: fds.len(), ints: ints.len() };
        let Ok([fd]) = <[OwnedFd; 1]>::try_from(fds) else { return Err(bad) };
        let (offset, writable) = match (kind, ints.as_slice()) {
            (MemoryKind::MmapFd, &[protection, low, high]) => {
                (whole([low, high]), protection & PROT_WRITE != 0)
            }
            (MemoryKind::MmapFd, _) => return Err(bad),
            _ => (0, true),
        };
        Backing::of(fd.as_fd())?.must_be_local()?;
        check_within_file(fd.as_fd(), offset, size)?;
        Ok(Self::new(kind, fd, offset, size, writable, ints))
    }

    /// New memory with the bytes of a part of a file.
    fn copy_of(file: &OwnedFd, offset: u64, size: u64) -> Result<Self, MemoryError> {
        let copy = Self::ashmem(size)?;
        let (mut from, mut onto) = (offset, 0);
        let end = offset.saturating_add(size);
        while from < end {
            let left = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
            let copied = copy_file_bytes(file, from, copy.fd(), onto, left.min(1 << 20))?;
            if copied == 0 {
                return Err(MemoryError::OutOfFile { offset, size, file: from });
            }
            from = from.saturating_add(copied);
            onto = onto.saturating_add(copied);
        }
        Ok(copy)
    }

    fn new(
        kind: MemoryKind,
        fd: OwnedFd,
        offset: u64,
        size: u64,
        writable: bool,
        ints: Vec<i32>,
    ) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Inner {
            id,
            kind,
            fd,
            offset,
            size,
            writable,
            ints,
            observers: Mutex::default(),
            mapped: OnceLock::new(),
            watched: Mutex::default(),
            budget: None,
            _descriptor: None,
            origin: Origin::here(),
        }))
    }

    /// The same memory, whose mappings in this process are charged to `budget` from now on;
    /// `descriptor` is what its file descriptor was charged, and is given back with it. For a
    /// memory that nobody else has a handle of yet; others stay as they are.
    #[must_use]
    pub fn charged_to(mut self, budget: &Arc<Budget>, descriptor: Charge) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.budget = Some(Arc::clone(budget));
            inner._descriptor = Some(descriptor);
        }
        self
    }

    /// Tells this memory from every other one of this process, dead or alive.
    #[inline]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns its kind.
    pub fn kind(&self) -> MemoryKind {
        self.0.kind
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// The file behind it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }

    /// First byte within the file.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Returns whether it may be written.
    pub fn is_writable(&self) -> bool {
        self.0.writable
    }

    /// Returns whether it came from a peer, for a call of the peer's.
    pub fn is_of_peer(&self) -> bool {
        self.0.budget.is_some()
    }

    /// Returns whether its bytes can be copied out and in at any time with the effect of a mapping:
    /// a memfd of fixed size that nobody keeps from being written, and within the sizes that files
    /// of this process may have: writing beyond ends it by SIGXFSZ, where a mapping has no limit.
    pub fn is_for_copies(&self) -> bool {
        let fixed = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        let unwritable = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_FUTURE_WRITE;
        self.is_writable()
            && self.kind() == MemoryKind::Ashmem
            && seals(self.fd())
                .is_ok_and(|seals| seals.contains(fixed) && !seals.intersects(unwritable))
            && check_file_size(self.0.offset.saturating_add(self.0.size)).is_ok()
    }

    /// The numbers of the interface's handle.
    pub fn ints(&self) -> &[i32] {
        &self.0.ints
    }

    /// A handle that does not keep the memory, for caches that key by memory.
    pub fn downgrade(&self) -> WeakMemory {
        WeakMemory(Arc::downgrade(&self.0))
    }

    /// Has `observer` told when the last handle of this memory in this process goes; never in a
    /// child that was forked off, where the memory is its parent's.
    pub fn observe(&self, observer: Weak<dyn MemoryObserver>) {
        if !self.0.origin.is_here() {
            return; // a thread of the parent's may have held the lock
        }
        let mut observers = self.0.observers.lock().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|known| known.strong_count() > 0);
        observers.push(observer);
    }

    /// Maps the memory into this process.
    ///
    /// # Errors
    /// The memory can't be mapped, not be written, or its file is too short by now, or its budget
    /// has no room for a mapping.
    pub fn map(&self, access: Access) -> Result<Mapping, MemoryError> {
        if self.kind() == MemoryKind::HardwareBuffer {
            return Err(MemoryError::NotMappable { kind: self.kind().name() });
        }
        if access == Access::ReadWrite && !self.0.writable {
            return Err(MemoryError::ReadOnly);
        }
        check_within_file(self.fd(), self.0.offset, self.0.size)?;
        Mapping::new(self.fd(), self.0.offset, self.0.size, access, self.0.budget.as_ref())
    }

    /// The memory in this process, for writing too where that can be. What is sealed against
    /// shrinking is mapped once for all handles of the memory and stays so as long as there is one:
    /// an execution that maps its memory anew costs microseconds, more than a small model. What can
    /// be cut short is watched for that, hence stays mapped only as long as somebody holds what
    /// this returns, and is mapped anew after pages were lost.
    ///
    /// # Errors
    /// As for [`Memory::map`].
    pub fn mapped(&self) -> Result<Arc<Mapping>, MemoryError> {
        if let Some(mapping) = self.0.mapped.get() {
            return Ok(Arc::clone(mapping));
        }
        if !self.0.origin.is_here() {
            // A thread of the parent's may have held the lock when this process was forked.
            return self.map_for_use().map(Arc::new);
        }
        let mut watched = self.0.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapping) = watched.upgrade().filter(|mapping| !mapping.lost_pages()) {
            return Ok(mapping);
        }
        let mapping = Arc::new(self.map_for_use()?);
        if mapping.is_guarded() {
            *watched = Arc::downgrade(&mapping);
        } else {
            // Where another thread was first, this mapping is one more for as long as it is used.
            let _ = self.0.mapped.set(Arc::clone(&mapping));
        }
        Ok(mapping)
    }

    /// A mapping for writing where that can be, else for reading.
    fn map_for_use(&self) -> Result<Mapping, MemoryError> {
        let written = match self.is_writable() {
            true => Some(self.map(Access::ReadWrite)),
            false => None,
        };
        match written {
            Some(Ok(mapping)) => Ok(mapping),
            Some(Err(error @ MemoryError::Exhausted(_))) => Err(error),
            Some(Err(_)) | None => self.map(Access::Read),
        }
    }

    /// The memory where it lies, while nobody can change it; `None` where somebody could.
    pub fn still(&self) -> Option<Still> {
        if self.kind() != MemoryKind::MmapFd || self.is_writable() {
            return None;
        }
        Still::of(self.fd(), self.0.offset, self.0.size, self.0.budget.as_ref())
    }

    /// Copies bytes out without mapping: the way for what is read once, such as a model's
    /// constants, because a truncation then gives an error and nothing else.
    ///
    /// # Errors
    /// The range is not within the memory, or the file ends early.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        if self.kind() == MemoryKind::HardwareBuffer {
            return Err(MemoryError::NotMappable { kind: self.kind().name() });
        }
        let outside = MemoryError::OutOfFile {
            offset,
            size: u64::try_from(out.len()).unwrap_or(u64::MAX),
            file: self.0.size,
        };
        let end = offset.checked_add(u64::try_from(out.len()).unwrap_or(u64::MAX));
        if end.is_none_or(|end| end > self.0.size) {
            return Err(outside);
        }
        let mut at = self.0.offset.saturating_add(offset);
        let mut rest = out;
        while !rest.is_empty() {
            let read = match pread(self.fd(), &mut *rest, at) {
                Ok(0) => return Err(outside),
                Ok(read) => read,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(MemoryError::System { what: "pread", errno }),
            };
            at = at.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            rest = rest.get_mut(read..).unwrap_or_default();
        }
        Ok(())
    }
}

impl Memory {
    /// Copies bytes in without mapping.
    ///
    /// # Errors
    /// The range is not within the memory, it can't be written, or it lies beyond the sizes that
    /// files of this process may have.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if offset.checked_add(size).is_none_or(|end| end > self.0.size) {
            return Err(MemoryError::OutOfFile { offset, size, file: self.0.size });
        }
        if !self.0.writable {
            return Err(MemoryError::ReadOnly);
        }
        let mut at = self.0.offset.saturating_add(offset);
        check_file_size(at.saturating_add(size)).map_err(MemoryError::system("pwrite"))?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = retry_on_intr(|| pwrite(self.fd(), rest, at));
            let written = written.map_err(MemoryError::system("pwrite"))?;
            at = at.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
            rest = rest.get(written..).unwrap_or_default();
        }
        Ok(())
    }
}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Memory {}

/// A handle that doesn't keep the memory.
#[derive(Clone, Debug)]
pub struct WeakMemory(Weak<Inner>);

impl WeakMemory {
    /// The memory, while somebody keeps it.
    pub fn upgrade(&self) -> Option<Memory> {
        self.0.upgrade().map(Memory)
    }
}

/// Copies at most `most` bytes from one file to another; 0 at the end of the first.
fn copy_file_bytes(
    from: &OwnedFd,
    at: u64,
    onto: BorrowedFd<'_>,
    to: u64,
    most: usize,
) -> Result<u64, MemoryError> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(most).map_err(|_| MemoryError::system("allocating")(Errno::ENOMEM))?;
    bytes.resize(most, 0);
    let read =
        retry_on_intr(|| pread(from, &mut bytes, at)).map_err(MemoryError::system("pread"))?;
    let mut written = 0;
    while let Some(rest) = bytes.get(written..read).filter(|rest| !rest.is_empty()) {
        let place = to.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        let more = retry_on_intr(|| pwrite(onto, rest, place));
        written = written.saturating_add(more.map_err(MemoryError::system("pwrite"))?);
    }
    Ok(u64::try_from(read).unwrap_or(0))
}

pub(super) fn check_within_file(
    fd: BorrowedFd<'_>,
    offset: u64,
    size: u64,
) -> Result<(), MemoryError> {
    let file = FileStatus::of(fd).map_err(MemoryError::system("statx"))?.size;
    match offset.checked_add(size) {
        Some(end) if end <= file => Ok(()),
        _ => Err(MemoryError::OutOfFile { offset, size, file }),
    }
}

/// A 64-bit offset as the two numbers of an `mmap_fd` handle, low half first.
#[expect(clippy::cast_possible_truncation, reason = "takes the two halves apart")]
fn halves(offset: u64) -> [i32; 2] {
    [(offset as u32).cast_signed(), ((offset >> 32) as u32).cast_signed()]
}

fn whole([low, high]: [i32; 2]) -> u64 {
    u64::from(high.cast_unsigned()) << 32 | u64::from(low.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_in_and_out_within_the_memory_alone() {
        let memory = Memory::ashmem(16).unwrap();
        assert!(memory.is_for_copies() && !memory.is_of_peer());
        memory.write_at(4, &[7; 8]).unwrap();
        let mut bytes = [0; 16];
        memory.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]);
        for offset in [9, 16, u64::MAX] {
            let error = memory.write_at(offset, &[1; 8]).unwrap_err();
            assert!(matches!(error, MemoryError::OutOfFile { .. }), "{error}");
        }
        let fd = || memory.fd().try_clone_to_owned().unwrap();
        let read_only = Memory::from_fd(fd(), 0, 16, false).unwrap();
        assert_eq!(read_only.write_at(0, &[1]), Err(MemoryError::ReadOnly));
        assert!(!read_only.is_for_copies());
        fcntl(memory.fd(), FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)).unwrap();
        assert!(!memory.is_for_copies());
        assert!(memory.write_at(0, &[1]).is_err());
    }

    #[test]
    fn an_offset_survives_its_halves() {
        for offset in [0, 5, u64::from(u32::MAX), 0x8000_0000, 0x1234_5678_9ABC_DEF0] {
            assert_eq!(whole(halves(offset)), offset);
        }
    }

    #[test]
    fn handles_that_do_not_fit_are_refused() {
        let fd = || Memory::ashmem(16).unwrap().fd().try_clone_to_owned().unwrap();
        let error = |name, fds: Vec<OwnedFd>, ints: &[i32], size| {
            Memory::from_handle(name, fds, ints.to_vec(), size).unwrap_err()
        };
        assert_eq!(
            error("gralloc", vec![fd()], &[], 16),
            MemoryError::UnknownName { name: "gralloc".into() }
        );
        assert_eq!(
            error("ashmem", vec![], &[], 16),
            MemoryError::BadHandle { kind: "ashmem", fds: 0, ints: 0 }
        );
        assert_eq!(
            error("mmap_fd", vec![fd()], &[3], 16),
            MemoryError::BadHandle { kind: "mmap_fd", fds: 1, ints: 1 }
        );
        assert_eq!(
            error("ashmem", vec![fd()], &[], 17),
            MemoryError::OutOfFile { offset: 0, size: 17, file: 16 }
        );
        assert_eq!(
            error("mmap_fd", vec![fd()], &[3, -1, -1], 1),
            MemoryError::OutOfFile { offset: u64::MAX, size: 1, file: 16 }
        );
    }

    #[test]
    fn nothing_comes_of_an_absent_memory() {
        let memory = Memory::absent(64).unwrap();
        assert_eq!(memory.size(), 64);
        assert!(memory.read_at(0, &mut [0; 8]).is_err());
        assert!(memory.map(Access::Read).is_err() && memory.mapped().is_err());
    }

    #[test]
    fn an_observer_is_told_once_the_last_handle_goes() {
        #[derive(Default)]
        struct Told(Mutex<Vec<u64>>);
        impl MemoryObserver for Told {
            fn memory_gone(&self, id: u64) {
                self.0.lock().unwrap().push(id);
            }
        }
        let told = Arc::new(Told::default());
        let observer: Arc<dyn MemoryObserver> = Arc::<Told>::clone(&told);
        let memory = Memory::ashmem(1).unwrap();
        let id = memory.id();
        memory.observe(Arc::downgrade(&observer));
        let clone = memory.clone();
        drop(memory);
        assert!(told.0.lock().unwrap().is_empty());
        drop(clone);
        assert_eq!(*told.0.lock().unwrap(), [id]);
    }

    #[test]
    fn reads_stop_at_the_end_of_the_memory() {
        let memory = Memory::ashmem(16).unwrap();
        let mut out = [1; 8];
        memory.read_at(8, &mut out).unwrap();
        assert_eq!(out, [0; 8]);
        assert_eq!(
            memory.read_at(9, &mut out),
            Err(MemoryError::OutOfFile { offset: 9, size: 8, file: 16 })
        );
        assert!(memory.read_at(u64::MAX, &mut out).is_err());
    }
}
