//! The memory of this process: its mappings, and bytes read in a way that survives what other
//! threads unmap meanwhile.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// A mapping, as `/proc/self/maps` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) range: Range<usize>,
    /// The place in the file of its first byte.
    pub(crate) offset: u64,
    /// Device, as `major:minor`, and inode of the file; inode 0 without one.
    device: String,
    inode: u64,
    /// The file's path when it was opened.
    pub(crate) path: Option<PathBuf>,
}

impl Mapping {
    /// All mappings that can be read.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub(crate) fn all() -> std::io::Result<Vec<Self>> {
        let mut text = Vec::new();
        File::open("/proc/self/maps")?.read_to_end(&mut text)?;
        Ok(text.split(|&byte| byte == b'\n').filter_map(Self::parse).collect())
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let mut field = || std::str::from_utf8(fields.next()?).ok();
        let (start, end) = field()?.split_once('-')?;
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = number(start)?..number(end)?;
        if !field()?.starts_with('r') {
            return None;
        }
        let offset = u64::from_str_radix(field()?, 16).ok()?;
        let (device, inode) = (field()?.to_owned(), field()?.parse().ok()?);
        let path = fields.next().unwrap_or_default().trim_ascii_start();
        let path = path.starts_with(b"/").then(|| std::ffi::OsString::from_vec(path.to_vec()));
        Some(Self { range, offset, device, inode, path: path.map(PathBuf::from) })
    }

    /// The mapped file, opened again; `None` where its path leads to none, or to another one.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        let path = self.path.as_ref().filter(|_| self.inode != 0)?;
        let found = std::fs::metadata(path).ok()?;
        let (major, minor) = (libc::major(found.dev()), libc::minor(found.dev()));
        let device = format!("{major:02x}:{minor:02x}");
        (found.ino() == self.inode && device == self.device).then_some(path)
    }
}

/// Memory of this process, read through the kernel: what is not there is an error, no signal.
#[derive(Debug)]
pub(crate) struct OwnMemory(File);

impl OwnMemory {
    /// # Errors
    /// The process may not open `/proc/self/mem`.
    pub(crate) fn open() -> std::io::Result<Self> {
        File::open("/proc/self/mem").map(Self)
    }

    /// # Errors
    /// Not all of it is mapped.
    pub(crate) fn read(&self, range: Range<usize>) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; range.len()];
        let start = u64::try_from(range.start).unwrap_or(u64::MAX);
        self.0.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_as_the_kernel_lists_them() {
        let line = b"7f00-8f00 r--s 00001000 fe:01 42        /tmp/a b.tflite";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.range, mapping.offset, mapping.inode), (0x7f00..0x8f00, 0x1000, 42));
        assert_eq!(mapping.path.unwrap(), PathBuf::from("/tmp/a b.tflite"));
        let heap = Mapping::parse(b"1000-2000 rw-p 00000000 00:00 0          [heap]").unwrap();
        assert_eq!((heap.path, heap.inode), (None, 0));
        assert_eq!(Mapping::parse(b"1000-2000 ---p 00000000 00:00 0 "), None);
        assert_eq!(Mapping::parse(b""), None);
    }

    #[test]
    fn this_program_is_mapped_from_its_file_and_can_be_read() {
        let program = std::fs::canonicalize("/proc/self/exe").unwrap();
        let all = Mapping::all().unwrap();
        let first = all.iter().find(|mapping| mapping.path.as_deref() == Some(&program)).unwrap();
        assert_eq!(first.file(), Some(&program));
        let memory = OwnMemory::open().unwrap();
        let start = first.range.start;
        assert_eq!(memory.read(start..start + 4).unwrap(), b"\x7fELF");
        assert!(memory.read(0..4).is_err(), "nothing is at address 0");
    }
}
