//! The role `simulate`: frames dealt to any number of nodes, in time that is only counted.
//!
//! The rules of dealing are those of the role `deal` itself; cameras, links, daemons and nodes are
//! counted. Each thing serves one frame at a time: the machine that deals (its daemon and its
//! processor), its link to the nodes, and each node.

mod run;

use std::io::Write;
use std::time::Duration;

use nnburst_doors_common::{Grammar, Key};

use self::run::{Setup, SimulationResult};
use crate::Failure;
use crate::infer::names;
use crate::settings::{Own, SettingsError, key, pairs};

pub(crate) const GRAMMAR: Grammar = Grammar { shared: &[], own: &OWN };

const OWN: [Key; 11] = [
    key("nodes", "numbers such as 1+2+4", "1+2+4+8+16+32+64+100", "the nodes, a run for each"),
    key("cameras", "a number from 1 to 10000", "1", "the cameras"),
    key("rate", "frames per second from 0.1 to 1000", "30", "of each camera"),
    key("bytes", "a number", "150528", "of a frame"),
    key("service", "milliseconds such as 5 or 4.9+5.1+9", "5", "measured times of an inference"),
    key("link", "megabits per second", "1000", "of the machine that deals"),
    key("hop", "milliseconds", "0.5", "from a machine to another, beside the link's time"),
    key("deal", "milliseconds", "0.3", "of the dealing machine's processor for a frame"),
    key("credit", "a number from 1 to 64", "1", "frames on their way to a node at most"),
    key("seconds", "a number", "60", "the time that is counted"),
    key("failures", "a number", "0", "nodes that end half way"),
];

/// Counts, and writes a table.
///
/// # Errors
/// The settings can't be used, or nobody reads the table.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let (nodes, setup) = parse(args)?;
    let mut text = format!(
        "{:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6} {:>6}\n",
        "nodes",
        "sent/s",
        "done/s",
        "dropped%",
        "lost",
        "p50 ms",
        "p99 ms",
        "nodes%",
        "link%",
        "deal%"
    );
    for nodes in nodes {
        let SimulationResult {
            sent,
            done,
            dropped,
            lost,
            p50,
            p99,
            nodes_busy,
            link_busy,
            deal_busy,
        } = run::run(&Setup { nodes, ..setup.clone() });
        let seconds = setup.time.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "counts of a run")]
        let [sent, done, dropped] = [sent, done, dropped].map(|count| count as f64);
        text += &format!(
            "{nodes:>6} {:>9.1} {:>9.1} {:>9.1} {lost:>9} {:>9.1} {:>9.1} {:>6.0} {:>6.0} {:>6.0}\n",
            sent / seconds,
            done / seconds,
            100.0 * dropped / sent.max(1.0),
            p50.as_secs_f64() * 1e3,
            p99.as_secs_f64() * 1e3,
            100.0 * nodes_busy,
            100.0 * link_busy,
            100.0 * deal_busy
        );
    }
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn parse(args: &[String]) -> Result<(Vec<usize>, Setup), SettingsError> {
    let options = GRAMMAR.parse(pairs(args)?)?;
    let own = Own { grammar: GRAMMAR, options: &options };
    let text = own.required("nodes")?;
    let number = |text: &String| text.parse().ok().filter(|count| (1..=10_000).contains(count));
    let nodes: Option<Vec<usize>> = names(text).iter().map(number).collect();
    let nodes = nodes.filter(|all| !all.is_empty()).ok_or_else(|| own.wrong("nodes", text))?;
    let text = own.required("service")?;
    let time = |text: &String| {
        let ms: f64 = text.parse().ok().filter(|ms| (0.0..=1e6).contains(ms))?;
        Some(Duration::from_secs_f64(ms / 1e3))
    };
    let service: Option<Vec<_>> = names(text).iter().map(time).collect();
    let service =
        service.filter(|all| !all.is_empty()).ok_or_else(|| own.wrong("service", text))?;
    let ms = |name| own.number(name, 0.0, 1e6).map(|ms| Duration::from_secs_f64(ms / 1e3));
    let setup = Setup {
        nodes: 1,
        cameras: own.number("cameras", 1, 10_000)?,
        period: Duration::from_secs_f64(1.0 / own.number("rate", 0.1, 1000.0)?),
        on_link: on_link(own)?,
        service,
        hop: ms("hop")?,
        deal: ms("deal")?,
        credit: own.number("credit", 1, 64)?,
        time: Duration::from_secs(own.number("seconds", 1, 100_000)?),
        failures: own.number("failures", 0, 10_000)?,
    };
    Ok((nodes, setup))
}

/// The time that a frame takes of the link.
fn on_link(own: Own<'_>) -> Result<Duration, SettingsError> {
    let bytes: f64 = own.number("bytes", 0.0, 1e9)?;
    let megabits: f64 = own.number("link", 0.001, 1e6)?;
    Ok(Duration::from_secs_f64(bytes * 8.0 / (megabits * 1e6)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (nodes, setup) = parse(&args("nodes=1+8 service=5+7.5 bytes=125000 link=100")).unwrap();
        assert_eq!(nodes, [1, 8]);
        assert_eq!(setup.service[1], Duration::from_micros(7500));
        assert_eq!(setup.on_link, Duration::from_millis(10));
        assert!(parse(&args("nodes=0")).is_err() && parse(&args("service=x")).is_err());
    }
}
