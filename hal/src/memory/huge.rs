//! Huge pages of files: having them, and mapping files so that they count.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::sys::{collapse_pages, offset as file_offset};

/// The size of the system's huge pages, where it has any.
const HUGE_PAGE: usize = 2 << 20;

/// A piece that took longer is the last: six times what it takes to be copied.
const EXPENSIVE: Duration = Duration::from_millis(5);

/// Gathers the pages of the first `len` bytes of a file in huge ones, as far as those are whole and
/// the system has some at hand, and tells how many bytes are gathered.
///
/// Files of tmpfs come in pages of 4 KiB, and looking each of them up takes most of the time of
/// reading such a file (14 MB: 2.0 ms, gathered 0.5). It takes 0.8 ms for each 2 MiB, so it is for
/// what is read more often than written. File systems that have large pages of their own accord, as
/// ext4 has, refuse at once. The content stays as it is, and whoever else has the file mapped sees
/// no difference.
pub fn gather_pages(file: BorrowedFd<'_>, len: u64) -> u64 {
    let whole = usize::try_from(len).unwrap_or(0) / HUGE_PAGE * HUGE_PAGE;
    if whole == 0 {
        return 0;
    }
    // Nobody has access to it, so it doesn't matter what others do to the file.
    let Ok(start) = map_file(whole, ProtFlags::PROT_NONE, file, 0) else { return 0 };
    let gathered = gather(start.as_ptr(), whole);
    // SAFETY: the mapping of above, of which nobody knows. It can't fail.
    let _ = unsafe { munmap(start, whole) };
    u64::try_from(gathered).unwrap_or(0)
}

/// Gathers the pages of a mapping from its start on, and tells for how many bytes that went well.
fn gather(start: *mut c_void, len: usize) -> usize {
    for at in (0..len).step_by(HUGE_PAGE) {
        let began = Instant::now();
        let page = start.wrapping_byte_add(at);
        if collapse_pages(page, HUGE_PAGE).is_err() {
            return at;
        }
        if began.elapsed() > EXPENSIVE {
            return at.saturating_add(HUGE_PAGE).min(len);
        }
    }
    len
}

/// Maps `len` bytes of a file from `offset` on, which is a multiple of a page, shared, where there
/// is room. What has huge pages gets an address, if there is one, at which they are pages of the
/// mapping too: elsewhere every 64 KiB take a fault, and copying 14 MB takes 1.3 ms instead of 0.8.
pub(super) fn map_file(
    len: usize,
    access: ProtFlags,
    file: BorrowedFd<'_>,
    offset: u64,
) -> Result<NonNull<c_void>, Errno> {
    let place = room_for(len, offset);
    let len = NonZeroUsize::new(len).ok_or(Errno::EINVAL)?;
    // SAFETY: a new mapping, at that address if nothing is there, touches no existing memory.
    unsafe { mmap(place, len, access, MapFlags::MAP_SHARED, file, file_offset(offset)?) }
}

/// Returns an address with room for `len` bytes right now, whose huge pages begin where those of a
/// file do.
fn room_for(len: usize, offset: u64) -> Option<NonZeroUsize> {
    let room = NonZeroUsize::new(len.checked_add(HUGE_PAGE).filter(|_| len >= HUGE_PAGE)?)?;
    let offset = usize::try_from(offset).ok()?;
    let (access, flags) = (ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE);
    // SAFETY: a new mapping, where the system likes it, that is unmapped again before anybody knows
    // of it.
    let base = unsafe {
        let base = mmap_anonymous(None, room, access, flags).ok()?;
        let _ = munmap(base, room.get());
        base.addr()
    };
    base.checked_add(offset.wrapping_sub(base.get()) % HUGE_PAGE)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::unistd::ftruncate;

    use super::*;
    use crate::sys::{pread, pwrite};

    #[test]
    fn content_stays_whatever_is_gathered() {
        let bytes: Vec<u8> = (0u8..251).cycle().take(2 * HUGE_PAGE + 5000).collect();
        let len = bytes.len() as u64;
        let on_disk = tempfile::tempfile().unwrap();
        let in_memory = memfd_create(c"gathered", MFdFlags::MFD_CLOEXEC).unwrap();
        for (what, file) in [("disk", on_disk.as_fd()), ("memory", in_memory.as_fd())] {
            for (piece, at) in bytes.chunks(10_000).zip((0..).step_by(10_000)) {
                assert_eq!(pwrite(file, piece, at).unwrap(), piece.len());
            }
            let gathered = gather_pages(file, len);
            assert!([0, 1, 2].contains(&(gathered / HUGE_PAGE as u64)), "{what}: {gathered}");
            let mut again = vec![0; bytes.len()];
            assert_eq!(pread(file, &mut again, 0).unwrap(), bytes.len(), "{what}");
            assert!(again == bytes, "{what}");
        }
    }

    #[test]
    fn files_that_end_early_or_are_none_are_refused() {
        let file = memfd_create(c"short", MFdFlags::MFD_CLOEXEC).unwrap();
        ftruncate(&file, 5000).unwrap();
        let (pipe, _end) = nix::unistd::pipe().unwrap();
        for (what, file) in [("a short file", file.as_fd()), ("a pipe", pipe.as_fd())] {
            for len in [0, 4096, 3 * HUGE_PAGE as u64, u64::MAX] {
                assert_eq!(gather_pages(file, len), 0, "{what}, {len} bytes");
            }
        }
    }

    #[test]
    fn large_files_lie_as_their_huge_pages_do() {
        let file = memfd_create(c"large", MFdFlags::MFD_CLOEXEC).unwrap();
        for (len, offset) in [(HUGE_PAGE, 0), (HUGE_PAGE + 1, 64 << 10), (3 * HUGE_PAGE, 6 << 20)] {
            let start = map_file(len, ProtFlags::PROT_READ, file.as_fd(), offset as u64).unwrap();
            assert_eq!(start.addr().get() % HUGE_PAGE, offset % HUGE_PAGE, "{len} from {offset}");
            // SAFETY: mapped just now, and nobody looks at it.
            unsafe { munmap(start, len) }.unwrap();
        }
    }
}
