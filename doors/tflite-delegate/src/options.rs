//! The delegate's options.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use nnburst_doors_common::{DoorOptions, EVERY_KEY, Grammar, Key, OptionError};

const GRAMMAR: Grammar = Grammar {
    shared: EVERY_KEY,
    own: &[
        Key {
            name: "min-nodes",
            values: MIN_NODES,
            default: "2",
            meaning: "partitions with fewer operators stay with the interpreter, if they are not all",
        },
        Key {
            name: "max-partitions",
            values: MAX_PARTITIONS,
            default: "2",
            meaning: "so many partitions are taken, the largest ones",
        },
        Key {
            name: "allow-ops",
            values: OPS,
            default: "",
            meaning: "operators that may be taken; empty for all",
        },
        Key {
            name: "deny-ops",
            values: OPS,
            default: "",
            meaning: "operators that stay with the interpreter",
        },
        Key {
            name: "model",
            values: "a file",
            default: "",
            meaning: "the model's file, where the interpreter got its contents and they aren't found",
        },
    ],
};

const MIN_NODES: &str = "a number from 1";
const MAX_PARTITIONS: &str = "a number from 1";
const OPS: &str = "names of operators such as SOFTMAX+PAD";

/// The options of one delegate.
#[derive(Clone, Debug)]
pub(crate) struct DelegateOptions {
    /// Those that doors share.
    pub(crate) shared: DoorOptions,
    pub(crate) min_nodes: usize,
    pub(crate) max_partitions: usize,
    /// Names of operators; empty for all.
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    /// The model's file.
    pub(crate) model: Option<PathBuf>,
}

impl DelegateOptions {
    /// Follows the options that were given.
    ///
    /// # Errors
    /// [`OptionError`] for the first that can't be followed.
    pub(crate) fn parse(given: &[(String, String)]) -> Result<Self, OptionError> {
        let shared = GRAMMAR.parse(given.iter().map(|(key, value)| (key, value)))?;
        let own = &shared.own;
        Ok(Self {
            min_nodes: count(own, "min-nodes", MIN_NODES)?,
            max_partitions: count(own, "max-partitions", MAX_PARTITIONS)?,
            allow: names(own, "allow-ops")?,
            deny: names(own, "deny-ops")?,
            model: own.get("model").filter(|path| !path.is_empty()).map(PathBuf::from),
            shared,
        })
    }

    /// The option that leaves an operator with the interpreter, in words.
    pub(crate) fn refusal(&self, name: &str) -> Option<&'static str> {
        let is = |given: &String| is_named(given, name);
        if self.deny.iter().any(is) {
            return Some("option deny-ops");
        }
        let is_left_out = !self.allow.is_empty() && !self.allow.iter().any(is);
        is_left_out.then_some("not in option allow-ops")
    }

    /// The options that name operators a graph has none of, in words.
    pub(crate) fn unknown_operators<'a>(
        &self,
        there: impl Iterator<Item = &'a str>,
    ) -> Vec<String> {
        let there: BTreeSet<_> = there.filter(|name| !name.is_empty()).collect();
        let lists = [("allow-ops", &self.allow), ("deny-ops", &self.deny)];
        let named =
            lists.into_iter().flat_map(|(key, names)| names.iter().map(move |it| (key, it)));
        let strange = named.filter(|(_, given)| !there.iter().any(|name| is_named(given, name)));
        let known = there.iter().copied().collect::<Vec<_>>().join(", ");
        strange
            .map(|(key, given)| {
                format!("option {key}: no operator is called {given}, only {known}")
            })
            .collect()
    }
}

/// Returns whether an operator's name is one that the user gave.
fn is_named(given: &str, name: &str) -> bool {
    // A custom operator's own name stands behind `CUSTOM`.
    name == given || name.rsplit(' ').next() == Some(given)
}

type Own = BTreeMap<&'static str, String>;

fn default_of(key: &str) -> &'static str {
    GRAMMAR.own.iter().find(|known| known.name == key).map_or("", |known| known.default)
}

fn count(own: &Own, key: &'static str, expected: &'static str) -> Result<usize, OptionError> {
    let value = own.get(key).map_or_else(|| default_of(key), String::as_str);
    let number = value.parse().ok().filter(|&number: &usize| number > 0);
    number.ok_or_else(|| OptionError::Value { key, value: value.to_owned(), expected })
}

fn names(own: &Own, key: &'static str) -> Result<Vec<String>, OptionError> {
    let value = own.get(key).map_or("", String::as_str);
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !value.is_empty() && !value.split('+').all(is_name) {
        return Err(OptionError::Value { key, value: value.to_owned(), expected: OPS });
    }
    Ok(value.split('+').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[(&str, &str)]) -> Result<DelegateOptions, String> {
        let given: Vec<_> =
            given.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        DelegateOptions::parse(&given).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_followed_and_wrong_ones_named_with_the_right_ones() {
        let settings = parse(&[]).unwrap();
        assert_eq!((settings.min_nodes, settings.max_partitions), (2, 2));
        let given = [("deny-ops", "SOFTMAX+PAD"), ("min-nodes", "3"), ("threads", "2")];
        let settings = parse(&given).unwrap();
        assert_eq!((settings.min_nodes, settings.shared.threads), (3, Some(2)));
        assert_eq!(settings.refusal("PAD"), Some("option deny-ops"));
        assert_eq!(settings.refusal("CONV_2D"), None);
        let settings = parse(&[("allow-ops", "CONV_2D+MyOp")]).unwrap();
        assert_eq!(settings.refusal("CUSTOM MyOp"), None);
        assert_eq!(settings.refusal("PAD"), Some("not in option allow-ops"));
        let error = parse(&[("thread", "1")]).unwrap_err();
        for key in ["device", "threads", "on-error", "max-partitions", "model"] {
            assert!(error.contains(key), "{error}");
        }
        let settings = parse(&[("deny-ops", "softmax+PAD"), ("allow-ops", "MyOp+ADD")]).unwrap();
        let unknown = settings.unknown_operators(["PAD", "", "CUSTOM MyOp", "PAD"].into_iter());
        let known = "CUSTOM MyOp, PAD";
        assert_eq!(
            unknown,
            [("allow-ops", "ADD"), ("deny-ops", "softmax")].map(|(key, name)| format!(
                "option {key}: no operator is called {name}, only {known}"
            ))
        );
        for (key, value) in [
            ("min-nodes", "0"),
            ("max-partitions", "all"),
            ("deny-ops", "PAD,ADD"),
            ("allow-ops", "+"),
        ] {
            let error = parse(&[(key, value)]).unwrap_err();
            assert!(error.starts_with(&format!("option {key} is {value:?}, expected ")), "{error}");
        }
    }
}
