//! The forms that events are written in.

/// The form that events are written in, on standard error or to the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// As [`Journal`](Self::Journal) where standard error is the journal's (`JOURNAL_STREAM`), else
    /// as [`Plain`](Self::Plain).
    #[default]
    Auto,
    /// Lines for people.
    Plain,
    /// A JSON object per line.
    Json,
    /// Entries of systemd's journal, with fields.
    Journal,
}

impl LogFormat {
    /// Every form, by the name that the setting `log-format` has for it.
    const NAMES: [(&'static str, Self); 4] = [
        ("auto", Self::Auto),
        ("plain", Self::Plain),
        ("json", Self::Json),
        ("journal", Self::Journal),
    ];

    /// By the name that the setting `log-format` has for it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, format)| format)
    }
}
