//! Settings of a process: variables of the environment, else lines of a file; in place of Android's
//! properties.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use once_cell::race::{OnceBool, OnceBox};

use crate::trusted::{Owners, TrustError, read_trusted};

/// The file of settings, where [`FILE_VARIABLE`] names no other.
const FILE: &str = "/etc/nnburst/nnburst.conf";
const FILE_VARIABLE: &str = "NNBURST_CONFIG";

/// Returns the value of a setting: by its variable, or else by the file, as it was when a setting
/// was first asked for. What is empty says nothing.
pub fn setting(name: &str) -> Option<OsString> {
    environment(&setting_variable(name)).or_else(|| in_file(name).map(Into::into))
}

/// A variable of the environment that isn't empty. A program that runs with more rights than
/// whoever started it (set-uid, set-gid, with capabilities of its file: `AT_SECURE`) has none: the
/// environment is another user's word.
pub fn environment(variable: &str) -> Option<OsString> {
    static SECURE: OnceBool = OnceBool::new();
    // SAFETY: `getauxval` reads what the kernel gave this process at its start.
    let is_secure = SECURE.get_or_init(|| unsafe { libc::getauxval(libc::AT_SECURE) } != 0);
    if is_secure { None } else { std::env::var_os(variable).filter(|value| !value.is_empty()) }
}

/// The variable of a setting: `NNBURST_SERVICE_DIR` for `service-dir`.
pub fn setting_variable(name: &str) -> String {
    format!("NNBURST_{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// The file of settings: the one that `NNBURST_CONFIG` names, else `/etc/nnburst/nnburst.conf`.
pub fn settings_file() -> PathBuf {
    environment(FILE_VARIABLE).map_or_else(|| FILE.into(), PathBuf::from)
}

/// The text of the file of settings; empty where there is none.
///
/// # Errors
/// Others than root and this user could have written it: then it sets nothing.
pub fn settings_text() -> Result<String, TrustError> {
    match read_trusted(&settings_file(), Owners::own()) {
        Err(error) if error.is_absent() => Ok(String::new()),
        text => text,
    }
}

/// The lines of a file of settings that aren't remarks, which begin with `#`: name and value, or
/// the line where it is not `name = value`.
pub fn settings_in(file: &str) -> impl Iterator<Item = Result<(&str, &str), &str>> {
    let lines = file.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let (name, value) = line.split_once('=').ok_or(line)?;
        Ok((name.trim(), value.trim()))
    })
}

fn in_file(name: &str) -> Option<&'static str> {
    static SAID: OnceBox<HashMap<String, String>> = OnceBox::new();
    let said = SAID.get_or_init(|| {
        let text = settings_text().unwrap_or_else(|error| {
            tracing::warn!(target: "nnburst::manager", %error, "the file of settings");
            String::new()
        });
        let said = settings_in(&text).flatten();
        Box::new(said.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    });
    said.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_and_values_remarks_or_of_no_use() {
        let lines: Vec<_> = settings_in("# a remark\n isa = scalar\n\nnonsense\nvlog=").collect();
        assert_eq!(lines, [Ok(("isa", "scalar")), Err("nonsense"), Ok(("vlog", ""))]);
        assert_eq!(setting_variable("service-dir"), "NNBURST_SERVICE_DIR");
        assert_eq!(setting("no such setting"), None);
    }
}
