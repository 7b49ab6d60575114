//! Settings of the roles: `KEY=VALUE` arguments, spelt as in all doors.

use std::str::FromStr;

use nnburst_doors_common::{DoorOptions, Grammar, Key, OptionError};

/// Why a role can't be played as its arguments say.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// A key or a value is wrong.
    #[error("{0}")]
    Option(#[from] OptionError),
    /// Two sections, or a section and an option of the whole node, are at odds.
    #[error("{0}")]
    Section(String),
    /// An option has no default.
    #[error("option {0} is missing")]
    Missing(&'static str),
    /// A file that an option names can't be read.
    #[error("{path}: {error}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}

/// An option of a role's own.
pub(crate) const fn key(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, values, default, meaning }
}

/// The `KEY=VALUE` pairs of arguments.
///
/// # Errors
/// An argument has no `=`.
pub(crate) fn pairs(args: &[String]) -> Result<Vec<(&str, &str)>, OptionError> {
    let pair = |arg: &'_ String| OptionError::NoValue { text: arg.clone() };
    args.iter().map(|arg| arg.split_once('=').ok_or_else(|| pair(arg))).collect()
}

/// The values of a role's own options, with the grammar that has their defaults.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    pub(crate) grammar: Grammar,
    pub(crate) options: &'a DoorOptions,
}

impl<'a> Own<'a> {
    /// The text of an option, or its default; `None` where that is empty.
    pub(crate) fn text(&self, name: &'static str) -> Option<&'a str> {
        let given = self.options.own.get(name).map(String::as_str);
        let default =
            || self.grammar.own.iter().find(|key| key.name == name).map(|key| key.default);
        given.or_else(default).filter(|text| !text.is_empty())
    }

    /// The text of an option that has to be given.
    ///
    /// # Errors
    /// It isn't.
    pub(crate) fn required(&self, name: &'static str) -> Result<&'a str, SettingsError> {
        self.text(name).ok_or(SettingsError::Missing(name))
    }

    /// An option's value; `None` where it has none.
    ///
    /// # Errors
    /// It can't be read as one, or `fits` refuses it.
    pub(crate) fn value<T: FromStr>(
        &self,
        name: &'static str,
        fits: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, SettingsError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let value = text.parse().ok().filter(fits);
        value.map(Some).ok_or_else(|| self.wrong(name, text).into())
    }

    /// An option that is a number from `least` to `most`.
    ///
    /// # Errors
    /// It isn't, or is missing.
    pub(crate) fn number<T: FromStr + PartialOrd + Copy>(
        &self,
        name: &'static str,
        least: T,
        most: T,
    ) -> Result<T, SettingsError> {
        let value = self.value(name, |value: &T| *value >= least && *value <= most)?;
        value.ok_or(SettingsError::Missing(name))
    }

    /// The error of an option's value.
    pub(crate) fn wrong(&self, name: &'static str, value: &str) -> OptionError {
        let key = self.grammar.own.iter().find(|key| key.name == name);
        let expected = key.map_or("another value", |key| key.values);
        OptionError::Value { key: name, value: value.to_owned(), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar = Grammar {
        shared: &[],
        own: &[key("rate", "1 to 1000", "30", ""), key("name", "", "", "")],
    };

    #[test]
    fn values_are_checked_and_have_defaults() {
        let parse = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            GRAMMAR.parse(pairs(&args)?)
        };
        let own = |options: &DoorOptions| {
            Own { grammar: GRAMMAR, options }.number("rate", 1.0, 1000.0).map_err(|e| e.to_string())
        };
        assert_eq!(own(&parse(&[]).unwrap()), Ok(30.0));
        assert_eq!(own(&parse(&["rate=7.5"]).unwrap()), Ok(7.5));
        for wrong in ["0", "nan", "1001", "x"] {
            let error = own(&parse(&[&format!("rate={wrong}")]).unwrap()).unwrap_err();
            assert_eq!(error, format!("option rate is {wrong:?}, expected 1 to 1000"));
        }
        assert!(parse(&["rate"]).unwrap_err().to_string().contains("KEY=VALUE"));
        let options = parse(&[]).unwrap();
        let error = Own { grammar: GRAMMAR, options: &options }.required("name").unwrap_err();
        assert_eq!(error.to_string(), "option name is missing");
    }
}
