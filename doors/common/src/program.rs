//! The program that serves a driver, for whoever is in another program's process.
//!
//! [`nnburst::Device::spawn`] starts the running program again where nothing else is named. In a
//! plugin that is the host, which would begin to play or to encode anew. Hence here the program is
//! looked for, and where none is found the device is not to be had.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nnburst::hal::environment;
use nnburst::hal::trusted::{Owners, TrustError, trusted_program};

/// The variable that names the driver's program.
const VARIABLE: &str = "NNBURST_DRIVER";
/// The program's name where it is looked for.
const NAME: &str = "nnburst";

/// Why there is no program for a driver.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// `NNBURST_DRIVER` names a program that is not there, or that another user could change.
    #[error("NNBURST_DRIVER: {0}")]
    Variable(#[source] TrustError),
    /// Nothing is called `nnburst` where it was looked for.
    #[error(
        "no program `nnburst` on PATH, beside {} or in the `bin` beside its `lib`; \
         set NNBURST_DRIVER to its absolute path{refused}",
        library.display()
    )]
    NotFound {
        /// This library.
        library: PathBuf,
        /// Those that were found and are not used, and why; empty without any.
        refused: String,
    },
}

/// The program that serves drivers, called as `PROGRAM serve --driver NAME --fd 0 ..`. The first of
/// these:
///
/// 1. the one that `NNBURST_DRIVER` names by its absolute path;
/// 2. `nnburst` in a directory of `PATH`;
/// 3. `nnburst` beside this library's own file;
/// 4. `nnburst` in `bin` beside the `lib` that file is in, as it is installed.
///
/// One that another user than root and this process's could change or replace is not used; on
/// `PATH` and beside the library the next is looked for instead. A program with more rights than
/// its caller (set-uid) has no variables: see [`environment`].
///
/// # Errors
/// [`ProgramError`].
pub fn driver_program() -> Result<PathBuf, ProgramError> {
    let library = own_file();
    find(environment(VARIABLE).as_deref(), environment("PATH").as_deref(), library.as_deref())
}

/// As [`driver_program`], but `nnburst` in `folder` beside this library's own file counts before
/// those on `PATH`: the door was installed with the program of its own version.
///
/// # Errors
/// [`ProgramError`].
pub fn bundled_program(folder: &str) -> Result<PathBuf, ProgramError> {
    let program = own_file().and_then(|own| Some(own.parent()?.join(folder).join(NAME)));
    match program.map(|program| trusted_program(&program, Owners::own())) {
        Some(Ok(program)) if environment(VARIABLE).is_none() && is_executable(&program) => {
            Ok(program)
        }
        _ => driver_program(),
    }
}

fn find(
    named: Option<&OsStr>,
    path: Option<&OsStr>,
    library: Option<&Path>,
) -> Result<PathBuf, ProgramError> {
    let owners = Owners::own();
    if let Some(program) = named {
        return trusted_program(Path::new(program), owners).map_err(ProgramError::Variable);
    }
    let on_path = path.iter().flat_map(std::env::split_paths).collect::<Vec<_>>();
    let beside = library.and_then(Path::parent).map(Path::to_owned);
    let installed = library.and_then(installed_beside);
    let mut refused = String::new();
    // An empty or relative entry means the working directory, which is the host's to choose.
    for dir in on_path.into_iter().chain(beside).chain(installed).filter(|dir| dir.is_absolute()) {
        match trusted_program(&dir.join(NAME), owners) {
            Ok(program) if is_executable(&program) => return Ok(program),
            Ok(program) => {
                refused.push_str(&format!("; {} is not executable", program.display()));
            }
            Err(error) if error.is_absent() => {}
            // Directories on PATH that are none are nothing unusual.
            Err(TrustError::Kind { .. }) => {}
            Err(error) => refused.push_str(&format!("; {error}")),
        }
    }
    let library = library.unwrap_or_else(|| Path::new("this library")).to_owned();
    Err(ProgramError::NotFound { library, refused })
}

/// `PREFIX/bin` of a library in `PREFIX/lib`, or in a folder of that.
fn installed_beside(library: &Path) -> Option<PathBuf> {
    let lib = library.ancestors().find(|dir| dir.ends_with("lib"))?;
    Some(lib.with_file_name("bin"))
}

fn is_executable(program: &Path) -> bool {
    std::fs::metadata(program).is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
}

/// The absolute path of the file that this code was loaded from: the door's shared library, or the
/// program where it is linked into one. `None` where the file was removed or replaced since, or
/// `/proc` isn't there.
///
/// The kernel's list of mappings says so, in place of `dladdr`: that one returns the path by which
/// the host opened the library, which may be relative to a directory that the host has left.
pub fn own_file() -> Option<PathBuf> {
    file_at(&std::fs::read("/proc/self/maps").ok()?, own_file as fn() -> _ as usize)
}

/// The file that is mapped at an address, by the text of `/proc/PID/maps`.
fn file_at(maps: &[u8], address: usize) -> Option<PathBuf> {
    let line = maps.split(|&byte| byte == b'\n').find(|line| {
        let range = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        let range = std::str::from_utf8(range).ok().and_then(|range| range.split_once('-'));
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = range.and_then(|(start, end)| Some(number(start)?..number(end)?));
        range.is_some_and(|range| range.contains(&address))
    })?;
    // Range, rights, offset, device and inode have no slash but in the path's first place.
    let path = &line[line.iter().position(|&byte| byte == b'/')?..];
    if path.ends_with(b" (deleted)") {
        return None;
    }
    Some(OsString::from_vec(unescaped(path)).into())
}

/// A path of `/proc/PID/maps`, in which `\012` stands for a line's end.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut rest = path;
    let mut bytes = Vec::with_capacity(path.len());
    while let Some((&byte, after)) = rest.split_first() {
        let is_end = rest.starts_with(br"\012");
        bytes.push(if is_end { b'\n' } else { byte });
        rest = if is_end { rest.get(4..).unwrap_or_default() } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn program(dir: &Path, mode: u32) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        let path = dir.join(NAME);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_variable_counts_before_path_and_path_before_what_lies_beside() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let named = program(&dir.join("named"), 0o755);
        let on_path = program(&dir.join("path"), 0o755);
        let beside = program(&dir.join("lib"), 0o755);
        let library = dir.join("lib/libdoor.so");
        let path = std::env::join_paths([dir.join("absent"), "relative".into(), dir.join("path")]);
        let path = path.unwrap();
        let path = Some(path.as_os_str());
        let found = |named: Option<&Path>, path: Option<&OsStr>| {
            find(named.map(Path::as_os_str), path, Some(&library))
        };
        assert_eq!(found(Some(&named), path).unwrap(), named);
        assert_eq!(found(None, path).unwrap(), on_path);
        assert_eq!(found(None, None).unwrap(), beside);
        // As it is installed, with Debian's folders and without.
        for library in ["usr/lib/libdoor.so", "usr/lib/x86_64-linux-gnu/gstreamer-1.0/libdoor.so"] {
            let installed = program(&dir.join("usr/bin"), 0o755);
            assert_eq!(find(None, None, Some(&dir.join(library))).unwrap(), installed);
        }
        // A wrong variable is an error, never a reason to look on.
        for wrong in [dir.join("absent"), "relative".into(), dir.join("path")] {
            let error = found(Some(&wrong), path).unwrap_err().to_string();
            assert!(error.starts_with("NNBURST_DRIVER: "), "{error}");
        }
    }

    #[test]
    fn programs_that_others_may_write_are_passed_over_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let bad = program(&dir.join("bad"), 0o777);
        let path = dir.join("bad");
        let path = Some(path.as_os_str());
        let library = dir.join("lib/libdoor.so");
        let error = find(None, path, Some(&library)).unwrap_err().to_string();
        assert!(error.contains(&bad.display().to_string()) && error.contains("0777"), "{error}");
        let plain = program(&dir.join("lib"), 0o644);
        let error = find(None, path, Some(&library)).unwrap_err().to_string();
        assert!(error.contains(&format!("{} is not executable", plain.display())), "{error}");
        let beside = program(&dir.join("lib"), 0o755);
        assert_eq!(find(None, path, Some(&library)).unwrap(), beside);
        let error = find(Some(bad.as_os_str()), None, None).unwrap_err();
        assert!(matches!(error, ProgramError::Variable(TrustError::Writable { .. })), "{error}");
        let error = find(None, None, None).unwrap_err().to_string();
        assert!(error.contains("set NNBURST_DRIVER"), "{error}");
    }

    #[test]
    fn this_code_is_in_this_program() {
        let program = std::env::current_exe().unwrap();
        assert_eq!(own_file().unwrap(), fs::canonicalize(program).unwrap());
    }

    #[test]
    fn mappings_are_read_as_the_kernel_writes_them() {
        let maps = b"1000-2000 r--p 00000000 fe:00 12   /usr/lib/a b.so\n\
            2000-3000 r-xp 00001000 fe:00 13 /tmp/x\\012y.so\n\
            3000-4000 r-xp 00001000 fe:00 14 /tmp/gone.so (deleted)\n\
            4000-5000 rw-p 00000000 00:00 0 \n\
            nonsense\n\n";
        let file = |address| file_at(maps, address);
        assert_eq!(file(0x1fff).unwrap(), Path::new("/usr/lib/a b.so"));
        assert_eq!(file(0x2000).unwrap(), Path::new("/tmp/x\ny.so"));
        assert_eq!((file(0x3000), file(0x4800), file(0x6000)), (None, None, None));
    }
}
