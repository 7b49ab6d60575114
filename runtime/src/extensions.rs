//! Extensions: what their operand types are, which numbers stand for them, and who may use them.
//!
//! A process knows every extension that one of its devices offers. Two devices that describe one
//! name differently disable the name for good: nobody could tell what a tensor of it is.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use nnburst_hal::process::PerProcess;
use nnburst_hal::trusted::{Owners, read_trusted};
use nnburst_hal::{
    Extension, ExtensionCode, ExtensionOperandType, Model, Operand, OperandType,
    validate_extensions,
};
use once_cell::race::OnceBool;

use crate::device::{Device, devices};
use crate::error::{Result, RuntimeError};
use crate::settings::Settings;

/// The prefix that stands for an extension in the models of this process: given in the order of
/// first request, from 1 on, whether a device knows the name or not.
///
/// # Errors
/// [`RuntimeError::Argument`] where this program may not use extensions
/// ([`extensions_are_allowed`]), or all 65535 prefixes are given away.
pub fn extension_prefix(name: &str) -> Result<u16> {
    if !extensions_are_allowed() {
        return Err(RuntimeError::Argument(format!(
            "this program may not use extensions such as {name}: its path is not in the allowlist"
        )));
    }
    extension_number(name)
}

/// As [`extension_prefix`], for whoever asks for permission where the number is used, as NNAPI has
/// it: it tells numbers to everybody.
///
/// # Errors
/// [`RuntimeError::Argument`] where all 65535 prefixes are given away.
pub fn extension_number(name: &str) -> Result<u16> {
    registry().prefix(name)
}

/// Returns the description of an extension's operand type, if a device offers it under that prefix.
pub fn extension_type(code: ExtensionCode) -> Option<ExtensionOperandType> {
    learn_devices();
    registry().of_code(code)
}

/// The name that a prefix was given to.
pub fn extension_name(prefix: u16) -> Option<String> {
    registry().name(prefix).map(str::to_owned)
}

/// Returns whether this program may use extensions: whether its path is a line of the allowlist,
/// whose place is a setting (`/etc/nnburst/extensions_allowlist`). Without a list that is root's or
/// this user's, nobody may. Decided once per process.
pub fn extensions_are_allowed() -> bool {
    static ALLOWED: OnceBool = OnceBool::new();
    ALLOWED.get_or_init(|| {
        let list = read_trusted(&Settings::load().extensions_allowlist, Owners::own());
        let program = std::env::current_exe().unwrap_or_default();
        list.is_ok_and(|list| allowed_paths(&list).any(|path| path == program))
    })
}

/// The paths of a list. Android's lists also name packages of applications, which there are none of
/// here.
fn allowed_paths(list: &str) -> impl Iterator<Item = PathBuf> {
    list.lines().map(str::trim).filter_map(|line| {
        if line.starts_with('/') {
            return Some(Path::new(line).to_owned());
        }
        if !line.is_empty() && !line.starts_with('#') {
            tracing::warn!(target: "nnburst::manager", "no path in the allowlist: {line:?}");
        }
        None
    })
}

/// Bytes of an operand's value; `None` where that is not known.
pub(crate) fn data_size(operand: &Operand, model: &Model) -> Option<usize> {
    let code = match operand.kind {
        OperandType::Extension(code) => code,
        // Its driver alone knows.
        OperandType::Oem => return None,
        _ => return operand.data_size(),
    };
    let info = info_of(code, model)?;
    let element = usize::try_from(info.byte_size).ok()?;
    if !info.is_tensor {
        return Some(element);
    }
    if operand.dimensions.is_empty() {
        return None;
    }
    operand.dimensions.iter().try_fold(element, |bytes, &extent| match extent {
        0 => None,
        extent => bytes.checked_mul(usize::try_from(extent).ok()?),
    })
}

/// Bytes of an element of a type; `None` where that is not known.
pub(crate) fn element_bytes(kind: OperandType, model: &Model) -> Option<usize> {
    match kind {
        OperandType::Extension(code) => usize::try_from(info_of(code, model)?.byte_size).ok(),
        OperandType::Oem => None,
        _ => kind.element_bytes(),
    }
}

/// The extension's description of a type that a model uses.
fn info_of(code: ExtensionCode, model: &Model) -> Option<ExtensionOperandType> {
    let mut names = model.extension_name_to_prefix.iter();
    let name = &names.find(|entry| entry.prefix == code.prefix)?.name;
    registry().of_name(name, code.number)
}

/// Notes what devices offer, if a model uses any extension.
pub(crate) fn learn(model: &Model, devices: &[Device]) {
    if model.extension_name_to_prefix.is_empty() {
        return;
    }
    for device in devices {
        if let Ok(extensions) = device.extensions() {
            registry().add(extensions);
        }
    }
}

/// Notes what the process's own devices offer; once.
fn learn_devices() {
    static LEARNT: PerProcess<bool> = PerProcess::new();
    let mut learnt = LEARNT.get().lock().unwrap_or_else(PoisonError::into_inner);
    if !std::mem::replace(&mut *learnt, true) {
        for extensions in devices().iter().filter_map(|device| device.extensions().ok()) {
            registry().add(extensions);
        }
    }
}

/// The extensions that the devices of this process have.
#[derive(Debug, Default)]
struct Registry {
    /// `None` where two devices disagree.
    known: HashMap<String, Option<Vec<ExtensionOperandType>>>,
    /// The name of prefix `n` at `n - 1`.
    prefixes: Vec<String>,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: PerProcess<Registry> = PerProcess::new();
    REGISTRY.get().lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn add(&mut self, extensions: Vec<Extension>) {
        if let Err(error) = validate_extensions(&extensions) {
            tracing::warn!(target: "nnburst::manager", %error, "extensions of a driver");
            return;
        }
        for Extension { name, mut operand_types } in extensions {
            operand_types.sort_by_key(|one| one.number);
            match self.known.get_mut(&name) {
                None => {
                    self.known.insert(name, Some(operand_types));
                }
                Some(known) if known.as_ref() == Some(&operand_types) => {}
                Some(known) => {
                    tracing::warn!(target: "nnburst::manager", "devices disagree on extension {name}: it is not offered");
                    *known = None;
                }
            }
        }
    }

    fn prefix(&mut self, name: &str) -> Result<u16> {
        let at = match self.prefixes.iter().position(|known| known == name) {
            Some(at) => at,
            None => {
                self.prefixes.push(name.to_owned());
                self.prefixes.len() - 1
            }
        };
        u16::try_from(at + 1)
            .map_err(|_| RuntimeError::Argument("all prefixes of extensions are given away".into()))
    }

    fn name(&self, prefix: u16) -> Option<&str> {
        let at = usize::from(prefix).checked_sub(1)?;
        self.prefixes.get(at).map(String::as_str)
    }

    fn of_code(&self, code: ExtensionCode) -> Option<ExtensionOperandType> {
        self.of_name(self.name(code.prefix)?, code.number)
    }

    fn of_name(&self, name: &str, number: u16) -> Option<ExtensionOperandType> {
        let types = self.known.get(name)?.as_ref()?;
        types.iter().find(|one| one.number == number).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(name: &str, byte_size: u32) -> Extension {
        let operand_types = vec![
            ExtensionOperandType { number: 1, is_tensor: true, byte_size },
            ExtensionOperandType { number: 0, is_tensor: false, byte_size: 8 },
        ];
        Extension { name: name.into(), operand_types }
    }

    #[test]
    fn prefixes_are_given_in_the_order_of_first_request() {
        let mut registry = Registry::default();
        assert_eq!(registry.prefix("com.example.one").unwrap(), 1);
        assert_eq!(registry.prefix("com.example.two").unwrap(), 2);
        assert_eq!(registry.prefix("com.example.one").unwrap(), 1);
        assert_eq!(registry.name(2), Some("com.example.two"));
        assert_eq!((registry.name(0), registry.name(3)), (None, None));
        registry.prefixes.resize(65_535, String::new());
        assert!(registry.prefix("one too many").is_err());
    }

    #[test]
    fn a_name_that_devices_disagree_on_is_nobodys() {
        let mut registry = Registry::default();
        registry.add(vec![extension("com.example.one", 4)]);
        registry.add(vec![extension("com.example.one", 4)]);
        let found = registry.of_name("com.example.one", 1).unwrap();
        assert_eq!((found.is_tensor, found.byte_size), (true, 4));
        registry.add(vec![extension("com.example.one", 2)]);
        assert_eq!(registry.of_name("com.example.one", 1), None);
        registry.add(vec![extension("com.example.one", 4)]);
        assert_eq!(registry.of_name("com.example.one", 1), None, "for good");
        assert_eq!(registry.of_code(ExtensionCode { prefix: 9, number: 0 }), None);
    }

    #[test]
    fn the_list_is_of_paths() {
        let list = "/usr/bin/one\n# a remark\ncom.example.app\n\nnonsense\n  /opt/two  ";
        let paths: Vec<_> = allowed_paths(list).collect();
        assert_eq!(paths, [Path::new("/usr/bin/one"), Path::new("/opt/two")]);
    }
}
