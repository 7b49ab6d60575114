//! Compilation caching as NNAPI does it: what a token is hashed with, and what the files are
//! called.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::{UnlinkatFlags, unlinkat};
use nnburst_hal::trusted::{Owners, TrustError, TrustedDir};
use nnburst_hal::{
    CACHE_TOKEN_BYTES, CacheFiles, CacheHandles, ExecutionPreference, FileStatus, Priority,
};
use sha2::{Digest, Sha256};

pub(crate) type Token = [u8; CACHE_TOKEN_BYTES];

/// The token that a driver gets for one of its models: SHA-256 of the user's token, the operations
/// of a step (where the model is spread: for each the graph and its place there), the device's name
/// and version, the preference and the priority by its number in NNAPI. Neither the operations'
/// kinds nor constants go in: the user's token stands for them.
pub(crate) fn token(
    user: &Token,
    operations: Option<(Option<usize>, &[usize])>,
    name: &str,
    version: &str,
    preference: ExecutionPreference,
    priority: Priority,
) -> Token {
    let mut hash = Sha256::new();
    hash.update(user);
    if let Some((graph, operations)) = operations {
        let graph = graph.map_or(0, |index| number(index).saturating_add(1));
        for &operation in operations {
            hash.update(graph.to_ne_bytes());
            hash.update(number(operation).to_ne_bytes());
        }
    }
    hash.update(name);
    hash.update(version);
    hash.update(preference.code().to_ne_bytes());
    hash.update(ndk_priority(priority).to_ne_bytes());
    hash.finalize().into()
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The number that NNAPI gives a priority; the HAL's are others.
fn ndk_priority(priority: Priority) -> i32 {
    match priority {
        Priority::Low => 90,
        Priority::Medium => 100,
        Priority::High => 110,
    }
}

/// The cache files of one model on one device.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    /// The names, up to the kind and number.
    stem: String,
    token: Token,
    wanted: CacheFiles,
}

impl Files {
    pub(crate) fn new(dir: &Path, token: Token, wanted: CacheFiles) -> Self {
        Self { dir: dir.to_owned(), stem: letters(&token), token, wanted }
    }

    /// The files, to be read; `only`, if a driver of this process does so: a file that nobody could
    /// write needs no copy.
    ///
    /// # Errors
    /// One of them isn't there, or another user could have written it.
    pub(crate) fn open(&self, only: bool) -> Result<CacheHandles, TrustError> {
        self.handles(|dir, name| {
            if only {
                return dir.file(name, OFlag::O_RDONLY);
            }
            // Drivers may want more than reading, and a cache may be where nobody writes.
            let file = dir.file(name, OFlag::O_RDWR);
            file.or_else(|error| match error {
                TrustError::System { .. } if !error.is_absent() => dir.file(name, OFlag::O_RDONLY),
                error => Err(error),
            })
        })
    }

    /// The files, to be written; made where they are not there, and none at all if one can't be
    /// had.
    pub(crate) fn create(&self) -> CacheHandles {
        let handles = self.handles(|dir, name| dir.file(name, OFlag::O_RDWR | OFlag::O_CREAT));
        handles.unwrap_or_else(|error| {
            tracing::warn!(
                target: "nnburst::compilation",
                %error,
                "this model is not kept in {}",
                self.dir.display()
            );
            CacheHandles { token: self.token, ..CacheHandles::default() }
        })
    }

    /// Removes the files that the driver left empty: it could not write them, the disk being full,
    /// say.
    pub(crate) fn remove_empty(&self) {
        let Ok(dir) = TrustedDir::open(&self.dir, Owners::own()) else { return };
        let all = [('1', self.wanted.model), ('2', self.wanted.data)];
        let names = all.iter().flat_map(|&(kind, count)| {
            (0..count).map(move |index| format!("{}{kind}{index}", self.stem))
        });
        let is_empty = |name: &String| {
            FileStatus::of_name(&dir, name.as_str()).is_ok_and(|file| file.size == 0)
        };
        let empty: Vec<_> = names.filter(is_empty).collect();
        if empty.is_empty() {
            return;
        }
        tracing::warn!(
            target: "nnburst::compilation",
            "the driver wrote no cache in {}: the disk is full, or files may not be as large",
            self.dir.display()
        );
        for name in empty {
            // Whoever was faster removed it.
            let _ = unlinkat(&dir, name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }

    /// # Errors
    /// The directory isn't there, other users could have written it, or `open` fails.
    fn handles(
        &self,
        open: impl Fn(&TrustedDir, &OsStr) -> Result<File, TrustError>,
    ) -> Result<CacheHandles, TrustError> {
        let dir = TrustedDir::open(&self.dir, Owners::own())?;
        let file = |kind: char, index: u32| {
            let name = format!("{}{kind}{index}", self.stem);
            Ok(open(&dir, OsStr::new(&name))?.into())
        };
        let list = |kind, count: u32| -> Result<Vec<_>, TrustError> {
            (0..count).map(|index| file(kind, index)).collect()
        };
        let (model, data) = (list('1', self.wanted.model)?, list('2', self.wanted.data)?);
        Ok(CacheHandles { model, data, token: self.token })
    }
}

/// Two letters for each byte, its low half first, as `A` and so much.
fn letters(token: &Token) -> String {
    let letter = |half: u8| char::from(b'A' + half);
    token.iter().flat_map(|byte| [letter(byte & 15), letter(byte >> 4)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: ExecutionPreference = ExecutionPreference::FastSingleAnswer;

    fn of(user: u8, operations: Option<(Option<usize>, &[usize])>) -> Token {
        token(&[user; 32], operations, "device", "1", FAST, Priority::Medium)
    }

    #[test]
    fn tokens_differ_in_whatever_is_hashed() {
        let all = [
            of(0, None),
            of(1, None),
            of(0, Some((None, &[0, 1]))),
            of(0, Some((None, &[1, 0]))),
            of(0, Some((Some(0), &[0, 1]))),
            token(&[0; 32], None, "other", "1", FAST, Priority::Medium),
            token(&[0; 32], None, "device", "2", FAST, Priority::Medium),
            token(&[0; 32], None, "device", "1", FAST, Priority::High),
            token(&[0; 32], None, "device", "1", ExecutionPreference::LowPower, Priority::Medium),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| one != other), "{at}");
        }
        assert_eq!(of(0, None), of(0, None));
    }

    #[test]
    fn the_hash_is_sha_256_of_what_is_said() {
        let mut hash = Sha256::new();
        hash.update([7; 32]);
        hash.update(0u32.to_ne_bytes());
        hash.update(3i32.to_ne_bytes());
        hash.update(b"device1");
        hash.update(1i32.to_ne_bytes());
        hash.update(100i32.to_ne_bytes());
        let want: Token = hash.finalize().into();
        assert_eq!(of(7, Some((None, &[3]))), want);
    }

    #[test]
    fn names_are_letters_with_kind_and_number() {
        let mut token = [0; 32];
        token[0] = 0x2f;
        let name = letters(&token);
        assert_eq!((name.len(), &name[..4]), (64, "PCAA"));
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path(), token, CacheFiles { model: 1, data: 2 });
        assert!(files.open(false).unwrap_err().is_absent(), "nothing is there yet");
        let made = files.create();
        assert_eq!((made.model.len(), made.data.len()), (1, 2));
        for end in ["10", "20", "21"] {
            assert!(dir.path().join(format!("{name}{end}")).exists(), "{end}");
        }
        files.open(false).unwrap();
        std::fs::remove_file(dir.path().join(format!("{name}21"))).unwrap();
        assert!(files.open(false).unwrap_err().is_absent(), "one is missing");
        let nowhere =
            Files::new(Path::new("/no such place"), token, CacheFiles { model: 1, data: 0 });
        assert!(nowhere.create().model.is_empty());
    }

    #[test]
    fn files_that_can_only_be_read_are_opened_and_not_made_anew() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(dir.path(), 0o755);
        let files = Files::new(dir.path(), [0; 32], CacheFiles { model: 1, data: 1 });
        files.create();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            set_mode(&entry.unwrap().path(), 0o444);
        }
        // Root may write whatever its mode: this thread gives that up.
        let reader = move || {
            nix::unistd::setfsuid(65534.into());
            assert_eq!(files.open(false).unwrap().data.len(), 1);
            assert!(files.create().data.is_empty());
        };
        std::thread::scope(|scope| scope.spawn(reader).join().unwrap());
    }
}
