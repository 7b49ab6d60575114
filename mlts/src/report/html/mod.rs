//! The page: one file, readable without scripts and without a network.
//!
//! ```text
//!   header, verdict, tiles, strip ─ overview ─ models ─ operations ─ crash matrix ─ conditions
//! ```
//!
//! Everything that comes from drivers, files or the machine goes through [`text::escape`].

mod crash;
mod model;
mod overview;
mod style;
mod svg;
mod text;

use super::compare::{Comparison, compare};
use super::schema::{CallSettings, Latency, PeerLatency, Report, TargetReport};
use text::{escape, seconds};

/// The runs on one page, and an older one to compare with.
struct Page<'a> {
    runs: &'a [Report],
    baseline: Option<&'a Report>,
    comparison: Option<Comparison>,
}

/// A driver of a run.
#[derive(Clone, Copy)]
struct Column<'a> {
    run: &'a Report,
    target: &'a TargetReport,
}

/// The page of one run, or of several drivers beside each other; differences from `baseline` are
/// those of the first run.
pub fn html(runs: &[Report], baseline: Option<&Report>) -> String {
    let comparison = baseline.zip(runs.first()).map(|(old, new)| compare(old, new, 10.0));
    let page = Page { runs, baseline, comparison };
    let title = page.columns().first().map_or_else(
        || "no run".to_owned(),
        |column| format!("{}: {}", column.target.name, column.run.verdict),
    );
    let mut body = String::new();
    for run in runs {
        body.push_str(&overview::header(&page, run));
    }
    body.push_str(&overview::strip(&page));
    body.push_str(&overview::table(&page));
    body.push_str(&model::sections(&page));
    body.push_str(&model::operations(&page));
    body.push_str(&crash::matrix(&page));
    body.push_str(&conditions(&page));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\
         <link rel=\"icon\" href=\"data:,\"><title>{}</title><style>{}</style></head>\
         <body><main>{body}</main></body></html>\n",
        escape(&title),
        style::STYLE
    )
}

impl Page<'_> {
    /// The drivers, run by run.
    fn columns(&self) -> Vec<Column<'_>> {
        let of = |run| Report::columns(run);
        self.runs.iter().flat_map(of).collect()
    }

    /// The older run's latency of a model in a mode.
    fn baseline_latency(&self, model: &str, mode: &str) -> Option<&'_ Latency> {
        let row = self.baseline?.models.iter().find(|row| row.id == model)?;
        row.per_target.values().next()?.latency.get(mode)
    }

    /// The best median of another engine for a model.
    fn best_peer(&self, model: &str) -> Option<&'_ PeerLatency> {
        let all = self.runs.iter().flat_map(|run| &run.models).filter(|row| row.id == model);
        all.flat_map(|row| &row.peers).min_by(|one, other| one.p50_us.total_cmp(&other.p50_us))
    }

    /// Returns whether the page has other engines' latencies.
    fn has_peers(&self) -> bool {
        self.models().into_iter().any(|model| self.best_peer(model).is_some())
    }

    /// The models' names, in the order of their families: sorted, each once.
    fn models(&self) -> Vec<&str> {
        let all = self.runs.iter().flat_map(|run| &run.models);
        let mut names: Vec<_> = all.map(|model| model.id.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Report {
    fn columns(run: &Self) -> impl Iterator<Item = Column<'_>> {
        run.targets.iter().map(move |target| Column { run, target })
    }
}

impl<'a> Column<'a> {
    /// The driver's results with a model.
    fn result(&self, model: &str) -> Option<&'a super::ModelResult> {
        let row = self.run.models.iter().find(|row| row.id == model)?;
        row.per_target.get(&self.target.id)
    }
}

/// Command lines, the plan, what was left out, definitions and licences.
fn conditions(page: &Page<'_>) -> String {
    let mut out = String::from("<section id=\"conditions\"><h2>Conditions and method</h2>");
    for run in page.runs {
        let host = &run.host;
        out.push_str(&format!(
            "<p>{} · {} · budget {} · seed {} · {} · accepted tier: {}{}</p><pre>{}</pre>",
            escape(&run.tool),
            escape(&run.started),
            escape(&run.budget),
            run.seed,
            seconds(run.seconds),
            escape(&run.accept),
            escape(&calls(&run.calls)),
            escape(&run.command.join(" "))
        ));
        out.push_str(&format!(
            "<p>{} ({} cores), Linux {}, governor {}, load {:.2} before and {:.2} after, {:.1} % of the time kept by the hypervisor.</p>",
            escape(&host.cpu),
            host.cores,
            escape(&host.kernel),
            if host.governor.is_empty() { "not told".to_owned() } else { escape(&host.governor) },
            host.load1[0],
            host.load1[1],
            host.steal_pct
        ));
        if !run.skipped.is_empty() {
            out.push_str("<h3>Left out</h3><ul>");
            for skipped in &run.skipped {
                out.push_str(&format!(
                    "<li>{}: {}</li>",
                    escape(&skipped.id),
                    escape(&skipped.reason)
                ));
            }
            out.push_str("</ul>");
        }
        out.push_str(
            "<details><summary>Plan</summary><table><tr><th>item<th>estimate<th>took</tr>",
        );
        for item in &run.plan {
            out.push_str(&format!(
                "<tr><td>{}<td class=n>{}<td class=n>{}</tr>",
                escape(&item.id),
                seconds(item.estimate_s),
                seconds(item.took_s)
            ));
        }
        out.push_str("</table></details>");
    }
    out.push_str(METHOD);
    out.push_str("<details><summary>Licences of models and data</summary><table><tr><th>model<th>licence<th>origin<th>SHA-256</tr>");
    let mut models: Vec<_> = page.runs.iter().flat_map(|run| &run.models).collect();
    models.sort_by(|a, b| a.id.cmp(&b.id));
    models.dedup_by(|a, b| a.id == b.id);
    for model in models {
        out.push_str(&format!(
            "<tr><td>{}<td>{}<td>{}<td class=hash>{}</tr>",
            escape(&model.id),
            escape(&model.licence),
            escape(&model.origin),
            escape(&model.sha256)
        ));
    }
    out.push_str("</table></details></section>");
    out
}

/// The settings of calls that are not the usual ones.
fn calls(settings: &CallSettings) -> String {
    let mut text = String::new();
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    if let Some(wait) = &settings.wait {
        text.push_str(&format!(" · bursts wait: {wait}"));
    }
    if !settings.cpus.is_empty() {
        let (own, driver) = (list(&settings.cpus), list(&settings.driver_cpus));
        text.push_str(&format!(" · processors: {own} calls, {driver} drives"));
    }
    if settings.realtime {
        text.push_str(" · real-time scheduling");
    }
    if let Some(us) = settings.period_us {
        text.push_str(&format!(" · paced: {} ms", crate::num::real_u64(us) / 1000.0));
    }
    text
}

/// The meaning of the figures.
const METHOD: &str = "<h3>What the figures mean</h3><dl>\
<dt>latency<dd>One call, by the monotonic clock, inputs copied before and outputs after. Driver and reference device take turns of 250 ms (125 ms in the quick budget), so that what slows the machine slows both. A percentile that has too few samples is a dash (64 calls for p90, 256 for p95, 1024 for p99, 10240 for p99.9).\
<dt>disturbed<dd>A block, which is one turn, counts as disturbed where the hypervisor took 20 ms or more, or a cache line needed three times its usual time from one processor to another and back. Such blocks are dropped; where most are, all count and the row says so.\
<dt>CPU ms<dd>Processor milliseconds of a call, of the driver's process and of the client's, copies included.\
<dt>not steady<dd>The last quarter of the blocks has a median more than 15 % above the first's.\
<dt>partly<dd>The driver takes a part of the model and the reference device the rest: such a latency is not the driver's own.\
<dt>exact, close, task<dd>Tiers of right answers: the golden's bits (or those of NNAPI's reference device), a step or so, or the task's own rule.\
<dt>CRASH, HANG, FAILURE<dd>A process ended that the test did not end; no step for ten seconds; a wrong answer, error or limit. The process at fault is named.\
<dt>recovery<dd>From the disturbing event to the next right answer.</dl>";

#[cfg(test)]
mod tests;
