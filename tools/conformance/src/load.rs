//! Finding, unpacking and parsing the files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use crate::{Case, read};

/// Largest unpacked file that is read; the largest of the real ones has 30 MB.
const MAX_FILE_BYTES: u64 = 1 << 28;

/// Why a case could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or folder could not be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A file unpacks to more than is reasonable.
    #[error("{}: more than {limit} bytes unpacked", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The JSON is not of the format.
    #[error("not a file of cases: {0}")]
    Json(#[from] serde_json::Error),
    /// A case contradicts itself or the format.
    #[error("case {case}: {what}")]
    Case {
        /// Name of the case.
        case: String,
        /// The mistake.
        what: String,
    },
    /// No memory for constants, inputs or outputs.
    #[error("case {case}: {error}")]
    Memory {
        /// Name of the case.
        case: String,
        /// The memory's error.
        error: nnburst_hal::MemoryError,
    },
}

/// The cases of all files of a folder, in order of file name; files are read one by one.
#[derive(Debug)]
pub struct Cases {
    files: std::vec::IntoIter<PathBuf>,
    current: std::vec::IntoIter<Case>,
}

impl Iterator for Cases {
    type Item = Result<Case, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(case) = self.current.next() {
                return Some(Ok(case));
            }
            match load_file(&self.files.next()?) {
                Ok(cases) => self.current = cases.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Every case below a folder: its `*.json.gz` and those of its direct subfolders. A single file
/// counts as a folder of one.
///
/// # Errors
/// The folder can't be listed. What is wrong with a file comes out of the iterator, which goes on
/// with the next file.
pub fn load_dir(path: impl AsRef<Path>) -> Result<Cases, LoadError> {
    let path = path.as_ref();
    let mut files = Vec::new();
    if path.is_dir() {
        for entry in list(path)? {
            if entry.is_dir() {
                files.extend(list(&entry)?.into_iter().filter(|file| is_case_file(file)));
            } else if is_case_file(&entry) {
                files.push(entry);
            }
        }
    } else {
        files.push(path.to_owned());
    }
    Ok(Cases { files: files.into_iter(), current: Vec::new().into_iter() })
}

/// The cases of one `.json.gz` file.
///
/// # Errors
/// The file can't be read or is not of the format.
pub fn load_file(path: &Path) -> Result<Vec<Case>, LoadError> {
    let io = |error| LoadError::Io { path: path.to_owned(), error };
    let mut text = String::new();
    let file = File::open(path).map_err(io)?;
    GzDecoder::new(file).take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(io)?;
    if text.len() as u64 >= MAX_FILE_BYTES {
        return Err(LoadError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    load_str(&text)
}

/// The cases of a file's text.
///
/// # Errors
/// The text is not of the format.
pub fn load_str(text: &str) -> Result<Vec<Case>, LoadError> {
    let file: read::File = serde_json::from_str(text)?;
    let spec = file.spec;
    file.cases.into_iter().map(|case| case.into_case(&spec)).collect()
}

fn list(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let io = |error| LoadError::Io { path: path.to_owned(), error };
    let entries = std::fs::read_dir(path).map_err(io)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()).map_err(io))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

fn is_case_file(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with(".json.gz"))
}
