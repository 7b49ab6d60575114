//! The directory of a compilation cache.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes the directory of a compilation cache, for its user alone, where it is not there: without
/// it nothing is cached, and no call fails.
///
/// # Errors
/// It can't be made, or something else has its name.
pub fn make_cache_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn directories_are_made_once_and_are_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("a/b");
        make_cache_dir(&dir).unwrap();
        make_cache_dir(&dir).unwrap();
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(make_cache_dir(&file).is_err());
    }
}
