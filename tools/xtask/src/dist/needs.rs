//! Which packages of Debian a program's libraries are in, and from which version on.

use std::collections::BTreeMap;
use std::path::Path;

use crate::install::ask;

/// A library's package, what the names of its symbols' versions begin with, and a version that is
/// needed whatever they are.
const LIBRARIES: &[(&str, &str, &str, &str)] = &[
    ("ld-linux-aarch64.so.1", "libc6", "GLIBC_", ""),
    ("ld-linux-x86-64.so.2", "libc6", "GLIBC_", ""),
    ("libc.so.6", "libc6", "GLIBC_", ""),
    ("libdl.so.2", "libc6", "GLIBC_", ""),
    ("libgcc_s.so.1", "libgcc-s1", "GCC_", ""),
    ("libgio-2.0.so.0", "libglib2.0-0", "", "2.74"),
    ("libglib-2.0.so.0", "libglib2.0-0", "", "2.74"),
    ("libgmodule-2.0.so.0", "libglib2.0-0", "", "2.74"),
    ("libgobject-2.0.so.0", "libglib2.0-0", "", "2.74"),
    ("libgstallocators-1.0.so.0", "libgstreamer-plugins-base1.0-0", "", "1.22"),
    ("libgstaudio-1.0.so.0", "libgstreamer-plugins-base1.0-0", "", "1.22"),
    ("libgstbase-1.0.so.0", "libgstreamer1.0-0", "", "1.22"),
    ("libgstreamer-1.0.so.0", "libgstreamer1.0-0", "", "1.22"),
    ("libgstvideo-1.0.so.0", "libgstreamer-plugins-base1.0-0", "", "1.22"),
    ("libm.so.6", "libc6", "GLIBC_", ""),
    ("libpthread.so.0", "libc6", "GLIBC_", ""),
];

/// Packages, each with the oldest version that will do.
#[derive(Debug, Default)]
pub(super) struct Needs(BTreeMap<&'static str, Vec<u32>>);

impl Needs {
    /// Adds what a program or library is linked against.
    ///
    /// # Errors
    /// `readelf` can't read it, or it needs a library of no package above.
    pub(super) fn add(&mut self, file: &Path) -> Result<(), String> {
        let said = ask("readelf", &["-dVW".as_ref(), file])?;
        self.read(&said).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Reads what `readelf -dVW` prints.
    fn read(&mut self, said: &str) -> Result<(), String> {
        for line in said.lines().filter(|line| line.contains("(NEEDED)")) {
            let name = line.split(['[', ']']).nth(1).unwrap_or_default();
            let (_, package, _, least) = known(name)?;
            self.at_least(package, least);
        }
        let mut current = None;
        for words in said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            let after = |key: &str| {
                let at = words.iter().position(|word| *word == key)?;
                words.get(at + 1).copied()
            };
            if let Some(file) = after("File:") {
                current = Some(known(file)?);
            }
            if let (Some((_, package, prefix, _)), Some(name)) = (current, after("Name:"))
                && let Some(version) = name.strip_prefix(prefix)
            {
                self.at_least(package, version);
            }
        }
        Ok(())
    }

    fn at_least(&mut self, package: &'static str, version: &str) {
        let version: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
        let least = self.0.entry(package).or_default();
        *least = version.max(std::mem::take(least));
    }

    /// As `Depends:` has it.
    pub(super) fn list(&self) -> Vec<String> {
        let all = self.0.iter().map(|(package, version)| {
            let version: Vec<_> = version.iter().map(u32::to_string).collect();
            match version.join(".") {
                none if none.is_empty() => (*package).to_owned(),
                least => format!("{package} (>= {least})"),
            }
        });
        all.collect()
    }
}

type Known = (&'static str, &'static str, &'static str, &'static str);

fn known(library: &str) -> Result<Known, String> {
    let found = LIBRARIES.iter().find(|known| known.0 == library).copied();
    found.ok_or_else(|| format!("no package is known for {library}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
Version needs section '.gnu.version_r' contains 2 entries:
  000000: Version: 1  File: libgcc_s.so.1  Cnt: 2
  0x0010:   Name: GCC_3.3  Flags: none  Version: 12
  0x0020:   Name: GCC_4.2.0  Flags: none  Version: 11
  0x0030: Version: 1  File: libc.so.6  Cnt: 2
  0x0040:   Name: GLIBC_2.4  Flags: none  Version: 9
  0x0050:   Name: GLIBC_2.34  Flags: none  Version: 8
";

    #[test]
    fn the_newest_symbol_decides() {
        let mut needs = Needs::default();
        needs.read(SAID).unwrap();
        assert_eq!(needs.list(), ["libc6 (>= 2.34)", "libgcc-s1 (>= 4.2.0)"]);
    }

    #[test]
    fn an_unknown_library_is_an_error() {
        let said = "x (NEEDED) Shared library: [libssl.so.3]";
        assert!(Needs::default().read(said).unwrap_err().contains("libssl.so.3"));
    }
}
