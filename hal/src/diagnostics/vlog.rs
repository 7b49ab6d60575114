//! Log tags: which parts of the stack talk, by the value of the setting `vlog` (`NNBURST_VLOG`).
//!
//! The value is empty for silence, `1` or `all` for everything, else tags split by spaces, commas
//! or colons. Messages go through `tracing` under a target per tag, so that a subscriber can choose
//! once more. The mask is read when a model is made, in a client and in a driver; before the first
//! reading everything is on.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::settings::setting;

/// A part of the stack that can be made to talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the tags")]
pub enum VlogTag {
    Model,
    Compilation,
    Execution,
    CpuExe,
    Manager,
    Driver,
    Memory,
}

impl VlogTag {
    /// Every tag, in the order of their bits.
    pub const ALL: [Self; 7] = [
        Self::Model,
        Self::Compilation,
        Self::Execution,
        Self::CpuExe,
        Self::Manager,
        Self::Driver,
        Self::Memory,
    ];

    /// The name in `NNBURST_VLOG`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Compilation => "compilation",
            Self::Execution => "execution",
            Self::CpuExe => "cpuexe",
            Self::Manager => "manager",
            Self::Driver => "driver",
            Self::Memory => "memory",
        }
    }

    /// The `tracing` target of its messages.
    pub const fn target(self) -> &'static str {
        match self {
            Self::Model => "nnburst::model",
            Self::Compilation => "nnburst::compilation",
            Self::Execution => "nnburst::execution",
            Self::CpuExe => "nnburst::cpuexe",
            Self::Manager => "nnburst::manager",
            Self::Driver => "nnburst::driver",
            Self::Memory => "nnburst::memory",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlogMask(u8);

impl VlogMask {
    /// Every tag.
    pub const ALL: Self = Self(0x7F);

    /// The set that a value of `NNBURST_VLOG` names, and the names in it that are none.
    ///
    /// ```
    /// use nnburst_hal::{VlogMask, VlogTag};
    ///
    /// let (mask, unknown) = VlogMask::parse("driver,memory:wrong");
    /// assert!(mask.contains(VlogTag::Driver) && !mask.contains(VlogTag::Model));
    /// assert_eq!(unknown, ["wrong"]);
    /// ```
    pub fn parse(value: &str) -> (Self, Vec<&str>) {
        if value == "1" || value == "all" {
            return (Self::ALL, Vec::new());
        }
        let (mut mask, mut unknown) = (Self::default(), Vec::new());
        for name in value.split([' ', ',', ':']).filter(|name| !name.is_empty()) {
            match VlogTag::ALL.into_iter().find(|tag| tag.name() == name) {
                Some(tag) => mask.0 |= tag.bit(),
                None if name == "all" || name == "1" => mask = Self::ALL,
                None => unknown.push(name),
            }
        }
        (mask, unknown)
    }

    /// Returns whether the tag is in the set.
    pub const fn contains(self, tag: VlogTag) -> bool {
        self.0 & tag.bit() != 0
    }
}

/// Everything is on until the first reading. Relaxed: a flag that hands nothing over.
static MASK: AtomicU8 = AtomicU8::new(VlogMask::ALL.0);

/// Takes the set from the setting `vlog`; called whenever a model is made. Unknown names are
/// logged.
pub fn read_vlog_mask() {
    let value = setting("vlog").unwrap_or_default();
    let value = value.to_string_lossy();
    let (mask, unknown) = VlogMask::parse(&value);
    for name in unknown {
        let tags = VlogTag::ALL.map(VlogTag::name).join(", ");
        tracing::warn!(target: "nnburst::manager", "vlog names {name:?}: the tags are all, {tags}");
    }
    set_vlog_mask(mask);
}

/// Sets the tags that are on.
pub fn set_vlog_mask(mask: VlogMask) {
    MASK.store(mask.0, Ordering::Relaxed); // hands nothing over
}

/// Returns whether a tag is on.
pub fn vlog_is_on(tag: VlogTag) -> bool {
    VlogMask(MASK.load(Ordering::Relaxed)).contains(tag) // hands nothing over
}

/// Logs under a tag, if it is on: `vlog!(Driver, "prepared {count} models")`.
#[macro_export]
macro_rules! vlog {
    ($tag:ident, $($message:tt)+) => {
        if $crate::diagnostics::vlog_is_on($crate::diagnostics::VlogTag::$tag) {
            const TARGET: &str = $crate::diagnostics::VlogTag::$tag.target();
            $crate::diagnostics::tracing::debug!(target: TARGET, $($message)+);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_of_the_variable() {
        let mask = |tags: &[VlogTag]| VlogMask(tags.iter().fold(0, |mask, tag| mask | tag.bit()));
        let both = mask(&[VlogTag::Model, VlogTag::CpuExe]);
        let cases: [(&str, VlogMask, &[&str]); 9] = [
            ("", VlogMask::default(), &[]),
            ("1", VlogMask::ALL, &[]),
            ("all", VlogMask::ALL, &[]),
            ("model cpuexe", both, &[]),
            ("model,cpuexe", both, &[]),
            ("model:cpuexe", both, &[]),
            (" model,, :cpuexe ", both, &[]),
            ("Model", VlogMask::default(), &["Model"]),
            ("memory,x y", mask(&[VlogTag::Memory]), &["x", "y"]),
        ];
        for (value, expected, unknown) in cases {
            assert_eq!(VlogMask::parse(value), (expected, unknown.to_vec()), "{value:?}");
        }
        assert_eq!(VlogMask::parse("model").0.0, 1);
        assert_eq!(VlogMask::parse("memory").0.0, 1 << 6);
    }

    #[test]
    fn messages_are_made_only_where_the_tag_is_on() {
        set_vlog_mask(VlogMask::parse("driver").0);
        let made = std::cell::Cell::new(0);
        let count = || {
            made.set(made.get() + 1);
            ""
        };
        vlog!(Model, "{}", count());
        assert_eq!(made.get(), 0);
        assert!(vlog_is_on(VlogTag::Driver) && !vlog_is_on(VlogTag::Model));
        set_vlog_mask(VlogMask::ALL);
    }
}
