//! Extensions: the list a driver gives, and the table of prefixes in a model.

use std::collections::HashSet;

use super::error::{Place, Rule, ValidationError};
use crate::types::{Extension, ExtensionNameAndPrefix};

/// The list of extensions that a driver supports: names in reverse domain form (`a-z`, `0-9`, `_`
/// and dots, at least one of them), no name and no type of an extension twice.
///
/// # Errors
/// The first extension that breaks a rule.
pub fn validate_extensions(extensions: &[Extension]) -> Result<(), ValidationError> {
    let mut names = HashSet::new();
    for (index, extension) in extensions.iter().enumerate() {
        let error = |rule| ValidationError { place: Place::Extension(index), rule };
        check_name(&extension.name).map_err(error)?;
        if !names.insert(extension.name.as_str()) {
            return Err(error(name_rule(&extension.name, "listed twice")));
        }
        let mut numbers = HashSet::new();
        for operand_type in &extension.operand_types {
            if !numbers.insert(operand_type.number) {
                return Err(error(Rule::ExtensionType { number: operand_type.number }));
            }
        }
    }
    Ok(())
}

/// The prefixes of a model's table.
///
/// # Errors
/// The table is not one-to-one, or has an empty name or prefix 0. The reference does not look; a
/// driver that trusted the table could be made to take one extension's data for another's.
pub(super) fn validate_prefixes(
    table: &[ExtensionNameAndPrefix],
) -> Result<HashSet<u16>, ValidationError> {
    let (mut names, mut prefixes) = (HashSet::new(), HashSet::new());
    for (index, entry) in table.iter().enumerate() {
        let error = |rule| ValidationError { place: Place::Extension(index), rule };
        if entry.name.is_empty() {
            return Err(error(name_rule(&entry.name, "empty")));
        }
        if !names.insert(entry.name.as_str()) {
            return Err(error(name_rule(&entry.name, "listed twice")));
        }
        if entry.prefix == 0 || !prefixes.insert(entry.prefix) {
            return Err(error(Rule::ExtensionPrefix { prefix: entry.prefix }));
        }
    }
    Ok(prefixes)
}

fn check_name(name: &str) -> Result<(), Rule> {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.');
    if name.is_empty() {
        Err(name_rule(name, "empty"))
    } else if !name.bytes().all(is_allowed) {
        Err(name_rule(name, "not made of a-z, 0-9, '_' and '.' alone"))
    } else if !name.contains('.') {
        Err(name_rule(name, "without a '.'"))
    } else {
        Ok(())
    }
}

/// The message quotes a bounded part of the name.
fn name_rule(name: &str, why: &'static str) -> Rule {
    Rule::ExtensionName { name: name.chars().take(64).collect(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ExtensionOperandType;

    #[test]
    fn names_and_types() {
        let extension = |name: &str, numbers: &[u16]| {
            let operand_types = numbers
                .iter()
                .map(|&number| ExtensionOperandType { number, is_tensor: true, byte_size: 8 })
                .collect();
            Extension { name: name.to_owned(), operand_types }
        };
        let good = extension("com.example.fibonacci", &[0, 1]);
        let cases = [
            ("good", vec![good.clone()], true),
            ("none", vec![], true),
            ("twice", vec![good.clone(), good], false),
            ("empty", vec![extension("", &[])], false),
            ("no dot", vec![extension("example", &[])], false),
            ("upper case", vec![extension("com.Example", &[])], false),
            ("type twice", vec![extension("com.example", &[3, 3])], false),
        ];
        for (what, list, passes) in cases {
            assert_eq!(validate_extensions(&list).is_ok(), passes, "{what}");
        }
    }

    #[test]
    fn tables_are_one_to_one() {
        let entry = |name: &str, prefix| ExtensionNameAndPrefix { name: name.to_owned(), prefix };
        let cases = [
            ("good", vec![entry("a.b", 1), entry("a.c", 2)], true),
            ("prefix twice", vec![entry("a.b", 1), entry("a.c", 1)], false),
            ("name twice", vec![entry("a.b", 1), entry("a.b", 2)], false),
            ("prefix 0", vec![entry("a.b", 0)], false),
            ("no name", vec![entry("", 1)], false),
        ];
        for (what, table, passes) in cases {
            assert_eq!(validate_prefixes(&table).is_ok(), passes, "{what}");
        }
    }
}
