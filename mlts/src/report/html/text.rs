//! Text on the page: escaped, and figures in units that people read.

/// Makes text harmless in HTML, in elements and in attributes; controls become their pictures.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// A time in microseconds, in the unit that makes it short.
pub(super) fn micros(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.2} µs"),
        us if us < 1000.0 => format!("{us:.0} µs"),
        us if us < 100_000.0 => format!("{:.2} ms", us / 1e3),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// A time in microseconds, or a dash where there are too few samples.
pub(super) fn maybe_micros(us: Option<f64>) -> String {
    us.map_or_else(|| "<span title=\"too few samples\">–</span>".to_owned(), micros)
}

/// A time in milliseconds.
pub(super) fn millis(ms: f64) -> String {
    micros(ms * 1000.0)
}

/// A time in seconds.
pub(super) fn seconds(s: f64) -> String {
    if s < 1.0 { millis(s * 1000.0) } else { format!("{s:.1} s") }
}

/// A change in per cent with an arrow.
pub(super) fn change(new: f64, old: f64) -> String {
    if old <= 0.0 {
        return "–".to_owned();
    }
    let percent = (new / old - 1.0) * 100.0;
    let arrow = if percent > 0.5 {
        "▲"
    } else if percent < -0.5 {
        "▼"
    } else {
        "="
    };
    format!("{arrow} {percent:+.0} %")
}

/// The letter and the class of an outcome: colour is never all that tells them apart.
pub(super) fn outcome(name: &str) -> (&'static str, &'static str) {
    match name {
        "SUCCESS" => ("✓", "good"),
        "FAILURE" => ("F", "bad"),
        "HANG" => ("H", "bad"),
        "CRASH" => ("C", "bad"),
        "SKIPPED" => ("–", "none"),
        _ => ("?", "none"),
    }
}

/// A name as a fragment of a link.
pub(super) fn anchor(kind: &str, name: &str) -> String {
    let name: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    format!("{kind}-{name}")
}
