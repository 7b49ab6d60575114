//! Files that the user names, read as far as is right for them: a path may be a device or a FIFO,
//! which have no end.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::failure::{Failure, not_readable};

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// It can't be read, or has more.
pub(crate) fn read_at_most(path: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    let failed = |error| not_readable(path, &error);
    let mut bytes = Vec::new();
    let file = open(path).map_err(failed)?;
    if path != Path::new(STDIN) && is_device(&file.metadata().map_err(failed)?) {
        return Err(Failure::usage(format!(
            "{}: a device has no end; save what it gives as a file first, such as a camera's picture \
             with ffmpeg -i DEVICE -frames:v 1 photo.jpg",
            path.display()
        )));
    }
    let all = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(all).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > limit {
        let path = path.display();
        return Err(Failure::usage(format!("{path}: more than {limit} bytes")));
    }
    Ok(bytes)
}

/// The name that stands for standard input.
pub(crate) const STDIN: &str = "-";

fn is_device(file: &Metadata) -> bool {
    file.file_type().is_char_device() || file.file_type().is_block_device()
}

/// Opens a file for reading. A FIFO that nobody has open for writing is at its end at once.
fn open(path: &Path) -> std::io::Result<File> {
    if path == Path::new(STDIN) {
        return Ok(std::io::stdin().as_fd().try_clone_to_owned()?.into());
    }
    let without_waiting = OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(without_waiting.bits()).open(path)?;
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags.difference(without_waiting)))?;
    Ok(file)
}

/// The bytes of one input, step by step.
#[derive(Debug)]
pub(crate) struct Feed {
    source: FeedSource,
    /// One step's.
    bytes: Vec<u8>,
}

#[derive(Debug)]
enum FeedSource {
    /// The same bytes at every step.
    Constant,
    /// The next bytes of a file.
    File { file: File, path: PathBuf },
}

impl Feed {
    /// The same bytes at every step.
    pub(crate) fn constant(bytes: Vec<u8>) -> Self {
        Self { source: FeedSource::Constant, bytes }
    }

    /// The bytes of a file, `length` a step. A file has as many as `steps` take; of a device or a
    /// FIFO that many are read.
    ///
    /// # Errors
    /// It can't be opened, or has another size.
    pub(crate) fn file(path: &Path, length: usize, steps: u32) -> Result<Self, Failure> {
        let failed = |error| not_readable(path, &error);
        let file = open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let wanted = u64::try_from(length).unwrap_or(u64::MAX).saturating_mul(steps.into());
        if metadata.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        if metadata.is_file() && metadata.len() != wanted {
            return Err(Failure::usage(format!(
                "{}: {} bytes, expected {wanted}: the input takes {length} bytes a step, {steps} steps",
                path.display(),
                metadata.len()
            )));
        }
        let source = FeedSource::File { file, path: path.to_owned() };
        Ok(Self { source, bytes: vec![0; length] })
    }

    /// The bytes of the next step.
    ///
    /// # Errors
    /// The file can't be read, or ends before.
    pub(crate) fn next(&mut self) -> Result<&[u8], Failure> {
        if let FeedSource::File { file, path } = &mut self.source {
            file.read_exact(&mut self.bytes).map_err(|error| {
                let (path, length) = (path.display(), self.bytes.len());
                Failure::usage(format!("{path}: no {length} bytes for the next step: {error}"))
            })?;
        }
        Ok(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_read_as_far_as_is_right() {
        let zeros = Path::new("/dev/zero");
        let error = read_at_most(zeros, 1000).unwrap_err();
        assert!(error.message.starts_with("/dev/zero: a device has no end; save"), "{error:?}");
        let mut feed = Feed::file(zeros, 8, 3).unwrap();
        for _ in 0..3 {
            assert_eq!(feed.next().unwrap(), [0; 8]);
        }
    }

    #[test]
    fn files_have_the_size_of_all_steps() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("two");
        std::fs::write(&path, [1, 2, 3, 4]).unwrap();
        let mut feed = Feed::file(&path, 2, 2).unwrap();
        assert_eq!(feed.next().unwrap(), [1, 2]);
        assert_eq!(feed.next().unwrap(), [3, 4]);
        for (length, steps) in [(2, 1), (2, 3), (3, 1)] {
            let error = Feed::file(&path, length, steps).unwrap_err();
            assert!(error.message.contains("4 bytes, expected"), "{}", error.message);
        }
    }

    #[test]
    fn more_than_is_right_and_what_is_no_file_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ten");
        std::fs::write(&path, [0; 10]).unwrap();
        assert_eq!(read_at_most(&path, 10).unwrap().len(), 10);
        assert!(read_at_most(&path, 9).unwrap_err().message.ends_with("ten: more than 9 bytes"));
        let said = [read_at_most(dir.path(), 9).map(drop), Feed::file(dir.path(), 4, 1).map(drop)];
        for error in said.map(Result::unwrap_err) {
            assert!(error.message.ends_with("name a file in it"), "{error:?}");
        }
        let error = Feed::file(&dir.path().join("none"), 4, 1).unwrap_err();
        assert!(error.message.ends_with("its name is right"), "{error:?}");
    }

    #[test]
    fn a_fifo_without_a_writer_is_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read_at_most(&path, 10).unwrap().is_empty());
        assert!(Feed::file(&path, 4, 1).unwrap().next().is_err());
    }
}
