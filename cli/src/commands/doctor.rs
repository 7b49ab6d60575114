//! `nnburst doctor`: whether this machine lets bursts be quick, what to do where not, and what is
//! set.

use std::io::Write;

use nnburst::doctor::{Verdict, examine};
use nnburst::{Current, Origin, Setting, Settings, devices};

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::serving::{Source, listed};

/// Tells everything, and fails if something doesn't work.
pub(crate) fn doctor(args: &DoctorArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (checks, settings) = (examine(), Settings::list());
    let limits = ServiceReport::read();
    let name = |verdict| match verdict {
        Verdict::Good => "good",
        Verdict::Advice => "could be better",
        Verdict::Bad => "bad",
    };
    if args.json {
        let checks: Vec<_> = checks
            .iter()
            .map(|check| {
                serde_json::json!({
                    "check": check.what, "verdict": name(check.verdict), "found": check.found,
                    "advice": check.advice,
                })
            })
            .collect();
        let settings: Vec<_> = settings
            .iter()
            .map(|Current { setting, value, origin }| {
                serde_json::json!({
                    "name": setting.name, "variable": setting.variable(), "value": value,
                    "set": *origin != Origin::Default, "from": from(setting, origin),
                    "in_place_of": setting.property, "meaning": setting.meaning,
                })
            })
            .collect();
        let devices: Vec<_> = devices().iter().map(nnburst::Device::name).collect();
        let line = serde_json::json!({
            "checks": checks, "settings": settings, "devices": devices,
            "service": limits.json(),
        });
        writeln!(out, "{line}")?;
    } else {
        for check in &checks {
            writeln!(out, "{:<18} {:<16} {}", check.what, name(check.verdict), check.found)?;
            if !check.advice.is_empty() {
                writeln!(out, "{:<18} {:<16} -> {}", "", "", check.advice)?;
            }
        }
        let names: Vec<_> = devices().iter().map(nnburst::Device::name).collect();
        writeln!(out, "\ndevices: {}", names.join(", "))?;
        if names.contains(&"nnburst-embedded") {
            writeln!(
                out,
                "nnburst-embedded is the driver nnburst-cpu in the program's own process, \
                 listed where no driver is served"
            )?;
        }
        writeln!(out)?;
        for Current { setting, value, origin } in &settings {
            let value = if value.is_empty() { "-" } else { value };
            writeln!(out, "{:<22} {value} ({})", setting.name, from(setting, origin))?;
            writeln!(out, "{:<22} {}", "", setting.meaning)?;
        }
        writeln!(out, "\n{}", limits.origin)?;
        for (name, value) in &limits.settings {
            writeln!(out, "{name:<36} {value}")?;
        }
    }
    if let Some(mistake) = limits.mistake {
        return Err(Failure::check(mistake));
    }
    match checks.iter().find(|check| check.verdict == Verdict::Bad) {
        None => Ok(()),
        Some(bad) => Err(Failure::check(format!("{}: {}; {}", bad.what, bad.found, bad.advice))),
    }
}

/// The limits that a service of this user would begin with.
struct ServiceReport {
    origin: String,
    settings: Vec<(String, String)>,
    mistake: Option<String>,
}

impl ServiceReport {
    fn read() -> Self {
        let source = Source::new(None, &[]);
        let file = source.as_ref().ok().and_then(Source::file);
        let origin = match file {
            Some(file) => format!("services: limits and times by {}", file.display()),
            None => "services: limits and times by default".to_owned(),
        };
        match source.and_then(|mut source| source.load()) {
            Ok(serving) => Self { origin, settings: listed(&serving), mistake: None },
            Err(failure) => Self { origin, settings: Vec::new(), mistake: Some(failure.message) },
        }
    }

    fn json(&self) -> serde_json::Value {
        let settings: serde_json::Map<_, _> = self
            .settings
            .iter()
            .map(|(name, value)| (name.clone(), value.clone().into()))
            .collect();
        serde_json::json!({ "origin": self.origin, "limits": settings, "mistake": self.mistake })
    }
}

/// The source of the value, or the possible ones.
fn from(setting: &Setting, origin: &Origin) -> String {
    match origin {
        Origin::Environment => format!("by {}", setting.variable()),
        Origin::File(file) => format!("by {}", file.display()),
        Origin::Default => format!("by default; {} or the file sets it", setting.variable()),
    }
}
