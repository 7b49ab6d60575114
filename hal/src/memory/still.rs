//! Bytes of a file that nobody changes meanwhile, read where they lie.
//!
//! A lease for reading (`F_SETLEASE`) makes that a matter of the system's: it is had by the file's
//! owner alone, where nobody has the file open to write or mapped so, and whoever opens or cuts it
//! from then on is held up until the lease is given back. It is of a description of its own, which
//! no other process has. The system waits for `fs/lease-break-time`, 45 seconds, and then goes on
//! all the same: [`Still::is_corrupt`] tells.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag};

use super::backing::Backing;
use super::handle::check_within_file;
use super::mapping::{Access, Mapping};
use crate::FileStatus;
use crate::budget::Budget;

/// A range of a file, mapped, which the system lets nobody change until [`Still::let_go`].
#[derive(Debug)]
pub struct Still {
    mapping: Mapping,
    lease: Mutex<Option<Lease>>,
    /// Relaxed: it is looked at by whoever computed with the bytes long before, or is about to.
    corrupt: AtomicBool,
}

impl Still {
    /// `len` bytes of a file from `offset` on. `None` where somebody could change them, the file
    /// being another user's, open to write or of another machine or process (FUSE), or where the
    /// system has no leases.
    pub fn of(
        file: BorrowedFd<'_>,
        offset: u64,
        len: u64,
        budget: Option<&Arc<Budget>>,
    ) -> Option<Self> {
        let lease = Lease::take(file)?;
        let file = lease.file.as_fd();
        check_within_file(file, offset, len).ok()?;
        let mapping = Mapping::new(file, offset, len, Access::Read, budget).ok()?;
        Some(Self { mapping, lease: Some(lease).into(), corrupt: AtomicBool::new(false) })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        let len = self.mapping.len();
        let Some(view) = self.mapping.view(0..len).filter(|view| !view.is_empty()) else {
            return &[];
        };
        // SAFETY: mapped for as long as `self` is there. The lease keeps others from writing, and
        // afterwards the pages are this process's own, as `let_go` has it.
        unsafe { std::slice::from_raw_parts(view.as_ptr(), len) }
    }

    /// Start and length of the pages that the bytes lie in.
    pub fn pages(&self) -> (*const u8, usize) {
        self.mapping.pages()
    }

    /// Returns whether the bytes may be others than in the beginning: a page went missing, or
    /// [`Still::let_go`] found that the system had not waited.
    #[inline]
    pub fn is_corrupt(&self) -> bool {
        self.corrupt.load(Ordering::Relaxed) || self.mapping.lost_pages()
    }

    /// Says that the bytes are of no use.
    pub fn mark_corrupt(&self) {
        self.corrupt.store(true, Ordering::Relaxed);
    }

    /// Lets others change the file again.
    ///
    /// # Safety
    /// Nobody looks at the bytes any more, or private pages have taken the place of all of them.
    pub unsafe fn let_go(&self) {
        let mut lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        if lease.take().is_some_and(|lease| !lease.is_kept()) {
            self.mark_corrupt();
        }
    }
}

/// A lease for reading, given back when it is dropped: the mapping would keep it.
#[derive(Debug)]
struct Lease {
    file: OwnedFd,
    taken: Instant,
}

impl Lease {
    fn take(file: BorrowedFd<'_>) -> Option<Self> {
        // Elsewhere a file changes without a word to this system's leases.
        Backing::of(file).ok()?.must_be_local().ok()?;
        if FileStatus::of(file).ok()?.kind != SFlag::S_IFREG {
            return None;
        }
        // Whoever else has a lease must not hold this process up.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let own = open(path.as_str(), flags, Mode::empty()).ok()?;
        // Nobody is told when somebody waits: the lease ends soon. Between the two calls it would
        // be by a signal that processes ignore.
        fcntl(&own, F_SETSIG, libc::SIGURG).ok()?;
        fcntl(&own, libc::F_SETLEASE, libc::F_RDLCK).ok()?;
        let lease = Self { file: own, taken: Instant::now() };
        fcntl(&lease.file, libc::F_SETOWN, 0).ok()?;
        Some(lease)
    }

    /// Returns whether it was not taken away.
    fn is_kept(&self) -> bool {
        // Where somebody waits for it, the system tells no more than that.
        fcntl(&self.file, libc::F_GETLEASE, 0) == Ok(libc::F_RDLCK)
            || break_time().is_none_or(|time| self.taken.elapsed() < time)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fcntl(&self.file, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

/// The time that somebody waits for a lease at the least; `None` where that has no end.
fn break_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/sys/fs/lease-break-time").unwrap_or_default();
    match text.trim().parse() {
        Ok(0) => None,
        Ok(seconds) => Some(Duration::from_secs(seconds).saturating_sub(TICKS)),
        Err(_) => Some(Duration::ZERO),
    }
}

/// The system counts in ticks of its own.
const TICKS: Duration = Duration::from_millis(100);

/// Not every libc has the name.
const F_SETSIG: i32 = 10;

fn fcntl(file: &OwnedFd, command: i32, argument: i32) -> Result<i32, Errno> {
    // SAFETY: these commands take a number.
    Errno::result(unsafe { libc::fcntl(file.as_raw_fd(), command, argument) })
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    const LEN: usize = 10_000;

    /// A file, open to read.
    fn file() -> (tempfile::TempPath, File) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; LEN]).unwrap();
        let path = file.into_temp_path();
        let read = File::open(&path).unwrap();
        (path, read)
    }

    fn still(file: &File) -> Option<Still> {
        Still::of(file.as_fd(), 100, 5000, None)
    }

    #[test]
    fn whoever_wants_to_write_waits_until_it_is_let_go() {
        let (path, file) = file();
        let still = still(&file).unwrap();
        assert_eq!(still.as_slice(), [7; 5000]);
        let at_once = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path);
        assert_eq!(at_once.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        let began = Instant::now();
        let writer = std::thread::spawn(move || {
            let mut file = OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
            file.write_all(b"other").unwrap();
            began.elapsed()
        });
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(still.as_slice(), [7; 5000]);
        // SAFETY: nobody looks at the bytes any more.
        unsafe { still.let_go() };
        assert!(!still.is_corrupt(), "whoever waits has not written");
        assert!(writer.join().unwrap() >= Duration::from_millis(50));
        assert_eq!(file.metadata().unwrap().len(), 5);
    }

    #[test]
    fn what_somebody_could_write_is_none() {
        let (path, file) = file();
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        assert!(still(&file).is_none());
        drop(writer);
        assert!(still(&file).is_some());
        assert!(still(&file).is_some(), "the one before has ended");
        assert!(Still::of(file.as_fd(), 100, 9901, None).is_none(), "longer than the file");
        let (pipe, _) = std::io::pipe().unwrap();
        assert!(Still::of(pipe.as_fd(), 0, 1, None).is_none());
    }

    #[test]
    fn two_may_look_at_once() {
        let (_path, file) = file();
        let (one, other) = (still(&file).unwrap(), still(&file).unwrap());
        // SAFETY: nobody looks at these bytes any more.
        unsafe { one.let_go() };
        drop(one);
        let lease = other.lease.lock().unwrap();
        assert!(lease.as_ref().is_some_and(Lease::is_kept));
    }
}
