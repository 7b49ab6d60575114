//! The files of the DTLN networks, for plugins, whose hosts may not name any.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nnburst::hal::environment;
use nnburst::hal::trusted::{Owners, TrustError, trusted_program as trusted_file};

/// The variable that names their directory.
const VARIABLE: &str = "NNBURST_DTLN_DIR";
/// The directory that packages put them in.
const SYSTEM: &str = "/usr/share/nnburst/dtln";
/// Their directory beside the plugin's own file.
const BESIDE: &str = "dtln";
/// The names of both, and those that DTLN's authors gave them.
const NAMES: [[&str; 2]; 2] =
    [["dtln_1.tflite", "dtln_2.tflite"], ["model_1.tflite", "model_2.tflite"]];

/// Why there are no models.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelsError {
    /// `NNBURST_DTLN_DIR` names a directory without both, or with files that others may change.
    #[error("NNBURST_DTLN_DIR: {0}")]
    Refused(#[source] TrustError),
    /// No directory has them.
    #[error(
        "no DTLN models (dtln_1.tflite and dtln_2.tflite, or model_1.tflite and model_2.tflite) in {}; \
         set NNBURST_DTLN_DIR to their directory{refused}",
        looked.join(", ")
    )]
    NotFound {
        /// The directories, as text.
        looked: Vec<String>,
        /// Why files that are there were not taken; empty, or begins with a semicolon.
        refused: String,
    },
}

/// Finds both networks' files, in the first of these directories that has them: the one that
/// `NNBURST_DTLN_DIR` names by its absolute path, which must have them; `/usr/share/nnburst/dtln`;
/// `dtln` beside `plugin`, the plugin's own file. Nobody but root and this user can change them.
///
/// # Errors
/// See [`ModelsError`].
pub fn find_models(plugin: Option<&Path>) -> Result<[PathBuf; 2], ModelsError> {
    let beside = plugin.and_then(|file| Some(file.parent()?.join(BESIDE)));
    find_in(environment(VARIABLE).as_deref(), SYSTEM.as_ref(), beside.as_deref())
}

fn find_in(
    named: Option<&OsStr>,
    system: &Path,
    beside: Option<&Path>,
) -> Result<[PathBuf; 2], ModelsError> {
    let dirs: Vec<&Path> = match named {
        Some(named) => vec![Path::new(named)],
        None => [Some(system), beside].into_iter().flatten().collect(),
    };
    let mut refused = String::new();
    for dir in &dirs {
        for [first, second] in NAMES {
            let file = |name| trusted_file(&dir.join(name), Owners::own());
            match file(first).and_then(|first| Ok([first, file(second)?])) {
                Ok(files) => return Ok(files),
                Err(error) if error.is_absent() => {}
                Err(error) if named.is_some() => return Err(ModelsError::Refused(error)),
                Err(error) => refused.push_str(&format!("; {error}")),
            }
        }
    }
    let looked = dirs.iter().map(|dir| dir.display().to_string()).collect();
    Err(ModelsError::NotFound { looked, refused })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn pair(dir: &Path, names: [&str; 2]) -> [PathBuf; 2] {
        fs::create_dir_all(dir).unwrap();
        names.map(|name| {
            let path = dir.join(name);
            fs::write(&path, "TFL3").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            path
        })
    }

    #[test]
    fn the_named_directory_counts_then_the_systems_then_the_one_beside() {
        let dir = tempfile::tempdir().unwrap();
        let (named, system, beside) =
            (dir.path().join("named"), dir.path().join("system"), dir.path().join("beside"));
        let find = |name: Option<&Path>| find_in(name.map(Path::as_os_str), &system, Some(&beside));
        let error = find(None).unwrap_err().to_string();
        assert!(error.contains("beside") && error.contains("NNBURST_DTLN_DIR"), "{error}");
        let last = pair(&beside, NAMES[1]);
        assert_eq!(find(None).unwrap(), last);
        let second = pair(&system, NAMES[0]);
        assert_eq!(find(None).unwrap(), second);
        // One that is named has to have them.
        assert!(find(Some(&named)).is_err());
        let first = pair(&named, NAMES[0]);
        assert_eq!(find(Some(&named)).unwrap(), first);
        assert!(find(Some(Path::new("named"))).unwrap_err().to_string().contains("relative"));
    }

    #[test]
    fn files_that_others_may_write_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [_, second] = pair(dir.path(), NAMES[0]);
        fs::set_permissions(&second, fs::Permissions::from_mode(0o666)).unwrap();
        let named = find_in(Some(dir.path().as_os_str()), Path::new("/nowhere"), None);
        assert!(matches!(named, Err(ModelsError::Refused(TrustError::Writable { .. }))));
        let error = find_in(None, dir.path(), None).unwrap_err().to_string();
        assert!(error.contains("dtln_2.tflite") && error.contains("0666"), "{error}");
    }
}
