//! Values of settings: amounts and times, as people write them.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// The word for no limit.
pub(super) const UNLIMITED: &str = "unlimited";

/// Units of bytes; `k` is left out, which means two things.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Units of time, in milliseconds; `ms` before `s`, which it ends with.
const TIMES: [(&str, u64); 4] = [("ms", 1), ("min", 60_000), ("s", 1000), ("h", 3_600_000)];

/// A number, `"4 GiB"`, or `"unlimited"`, which is [`u64::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount(pub(super) u64);

/// `"10 s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) Duration);

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let unit = units.iter().find_map(|(name, factor)| Some((text.strip_suffix(name)?, factor)));
    let (number, factor) = unit?;
    number.trim().parse::<u64>().ok()?.checked_mul(*factor)
}

/// An amount of bytes as people write it, in the largest unit without a rest.
pub(super) fn bytes(amount: u64) -> String {
    let unit = UNITS.iter().find(|(_, factor)| amount >= *factor && amount.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) if amount != u64::MAX => format!("{} {name}", amount / factor),
        _ => count(amount),
    }
}

/// A number, or the word for none.
pub(super) fn count(amount: u64) -> String {
    if amount == u64::MAX { UNLIMITED.to_owned() } else { amount.to_string() }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Amounts;
        impl Visitor<'_> for Amounts {
            type Value = Amount;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a number, a size such as \"4 GiB\", or \"unlimited\"")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Amount, E> {
                let negative = |_| E::custom(format!("{value} is negative"));
                u64::try_from(value).map(Amount).map_err(negative)
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Amount, E> {
                Ok(Amount(value))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
                let amount = || text.trim().parse().ok().or_else(|| scaled(text, &UNITS));
                let unlimited = (text == UNLIMITED).then_some(u64::MAX);
                let amount = unlimited.or_else(amount).map(Amount);
                amount.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Amounts)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let expected = || D::Error::custom(format!("{text:?} is no time, such as \"10 s\""));
        let time = scaled(&text, &TIMES).filter(|&ms| ms > 0).ok_or_else(expected)?;
        Ok(Self(Duration::from_millis(time)))
    }
}
