//! The verdict: pass or fail, why, and the exit code.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::error::MltsError;
use crate::report::Report;

/// Judges a finished report.
pub(super) fn judge(report: &mut Report, is_aborted: bool) {
    let name_of = |id: &str| {
        let target = report.targets.iter().find(|target| target.id == id);
        target.map_or_else(|| id.to_owned(), |target| target.name.clone())
    };
    let several = report.targets.len() > 1;
    let prefix = |id: &str| if several { format!("{}: ", name_of(id)) } else { String::new() };
    let mut reasons = Vec::new();
    let mut unreachable = false;
    for target in report.targets.iter().filter(|target| !target.unreachable.is_empty()) {
        reasons.push((0, format!("{}: not reached: {}", target.name, target.unreachable)));
        unreachable = true;
    }
    for row in report.crash.iter().filter(|row| is_bad(&row.outcome)) {
        let variant =
            if row.variant.is_empty() { String::new() } else { format!("/{}", row.variant) };
        let process = row.process.as_ref().map_or_else(String::new, |one| format!(" {one}"));
        let reason = format!(
            "{}{}{variant}: {}{process} ({})",
            prefix(&row.target),
            row.id,
            row.outcome,
            row.reason
        );
        reasons.push((if row.outcome == "CRASH" { 0 } else { 2 }, reason));
    }
    let (mut right, mut judged) = (0, 0);
    let mut tiers: BTreeMap<&str, usize> = BTreeMap::new();
    for model in &report.models {
        for (id, result) in &model.per_target {
            judged += usize::from(result.outcome != "SKIPPED");
            right += usize::from(result.outcome == "SUCCESS");
            if let Some(accuracy) = result.accuracy.as_ref().filter(|accuracy| accuracy.ok) {
                *tiers.entry(accuracy.tier.as_str()).or_default() += 1;
            }
            if is_bad(&result.outcome) {
                let process =
                    result.process.as_ref().map_or_else(String::new, |one| format!(" {one}"));
                let reason = format!(
                    "{}{}: {}{process} ({})",
                    prefix(id),
                    model.id,
                    result.outcome,
                    result.reason
                );
                reasons.push((if result.outcome == "CRASH" { 0 } else { 1 }, reason));
            }
        }
    }
    // A process that ended weighs more than a wrong figure, and a model whose answers are wrong is
    // what a test failed over.
    reasons.sort_by_key(|(weight, _)| *weight);
    let reasons: Vec<_> = reasons.into_iter().map(|(_, reason)| reason).collect();
    let crashes = report.crash.iter().filter(|row| is_bad(&row.outcome)).count();
    // All of them exact is what needs no word.
    let others = if tiers.keys().all(|tier| *tier == "exact") {
        String::new()
    } else {
        let count = |tier: &&str| Some(format!("{} {tier}", tiers.get(tier)?));
        format!(
            " ({})",
            ["exact", "close", "task"].iter().filter_map(count).collect::<Vec<_>>().join(", ")
        )
    };
    report.summary = format!(
        "nnburst-mlts 1 {}: {right}/{judged} models{others}, {crashes} of {} crash tests failed",
        report.budget,
        report.crash.iter().filter(|row| row.outcome != "SKIPPED").count()
    );
    let is_cut = report.skipped.iter().any(|skipped| skipped.reason == "budget");
    let verdict = if is_aborted {
        "ABORTED"
    } else if unreachable {
        "UNREACHABLE"
    } else if !reasons.is_empty() {
        "FAIL"
    } else if is_cut {
        "INCOMPLETE"
    } else {
        "PASS"
    };
    verdict.clone_into(&mut report.verdict);
    report.reasons = reasons;
}

fn is_bad(outcome: &str) -> bool {
    matches!(outcome, "FAILURE" | "HANG" | "CRASH")
}

impl Report {
    /// The exit code of a command with this report: 0 pass, 1 fail, 3 a driver out of reach, 4 the
    /// budget ended first, 130 stopped by the user.
    pub fn exit_code(&self) -> u8 {
        match self.verdict.as_str() {
            "PASS" => 0,
            "UNREACHABLE" => 3,
            "INCOMPLETE" => 4,
            "ABORTED" => 130,
            _ => 1,
        }
    }

    /// The report of a run that passed.
    ///
    /// # Errors
    /// It didn't; the first reasons are in the message.
    pub fn expect_pass(self) -> Result<Self, MltsError> {
        if self.verdict == "PASS" {
            return Ok(self);
        }
        let first: Vec<_> = self.reasons.iter().take(5).map(String::as_str).collect();
        Err(MltsError::Failed(format!("{}: {}", self.verdict, first.join("; "))))
    }
}

/// A time as UTC in the form of RFC 3339.
pub(super) fn rfc_3339(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (day, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, date) = civil(day);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a number of days since 1970.
fn civil(mut day: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::{CrashReport, ModelReport, ModelResult, Skipped, TargetReport};

    #[test]
    fn times_are_utc() {
        let at = |seconds| rfc_3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_795_276_799), "2026-11-21T15:59:59Z");
    }

    #[test]
    fn the_worst_decides() {
        let mut report = Report::default();
        report.targets.push(TargetReport { id: "t0".into(), ..TargetReport::default() });
        judge(&mut report, false);
        assert_eq!((report.verdict.as_str(), report.exit_code()), ("PASS", 0));
        report.skipped.push(Skipped { id: "x".into(), reason: "budget".into() });
        judge(&mut report, false);
        assert_eq!(report.exit_code(), 4);
        let mut model = ModelReport { id: "m".into(), ..ModelReport::default() };
        let result = ModelResult {
            outcome: "FAILURE".into(),
            reason: "off".into(),
            ..ModelResult::default()
        };
        model.per_target.insert("t0".into(), result);
        report.models.push(model);
        report.crash.push(CrashReport {
            id: "c01".into(),
            target: "t0".into(),
            outcome: "CRASH".into(),
            process: Some("driver".into()),
            reason: "SIGSEGV".into(),
            ..CrashReport::default()
        });
        judge(&mut report, false);
        assert_eq!(report.exit_code(), 1);
        assert_eq!(report.reasons, ["c01: CRASH driver (SIGSEGV)", "m: FAILURE (off)"]);
        report.targets[0].unreachable = "gone".into();
        judge(&mut report, false);
        assert_eq!(report.exit_code(), 3);
        judge(&mut report, true);
        assert_eq!(report.exit_code(), 130);
    }
}
