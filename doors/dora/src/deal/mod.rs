//! The role `deal`: deals frames to the least loaded of several nodes, by credit.
//!
//! ```text
//!   frames ─► newest of each source waits ─► to-NAME of who is done first
//!   NAME-done, NAME-status ─► credit, presence        └─► lost: frames without results
//! ```

mod credit;

use std::time::{Duration, Instant};

use dora_node_api::{MetadataParameters, Parameter};
use nnburst_doors_common::{Grammar, Key, Log};

pub(crate) use credit::{DealLimits, Dealer, FrameId, Time};

use crate::Failure;
use crate::infer::{CPU, DONE, EVENT, STATUS, names};
use crate::node::{Happened, Message, Node};
use crate::settings::{Own, SettingsError, key, pairs};
use crate::stamp::{Stamp, handed_on, integer, set};

pub(crate) const GRAMMAR: Grammar = Grammar { shared: &[], own: &OWN };

const OWN: [Key; 5] = [
    key("workers", "names such as a+b", "", "the workers: NAME-done, NAME-status and to-NAME"),
    key("credit", "a number from 1 to 64", "1", "frames on their way to a worker at most"),
    key("silence", "milliseconds from 10 to 60000", "600", "so long silent, a worker is gone"),
    key("lost-after", "milliseconds from 10 to 600000", "5000", "a frame without an end is lost"),
    key("sources", "a number from 1 to 4096", "64", "the most sources that are told apart"),
];

/// The output for frames that will have no results.
pub(crate) const LOST: &str = "lost";
/// The parameter of `lost` that tells why.
const WHY: &str = "why";
/// The pause between two looks at who is silent.
const LOOK: Duration = Duration::from_millis(50);
/// The pause between two messages of `status`.
const TELL: Duration = Duration::from_secs(1);

struct Settings {
    workers: Vec<String>,
    limits: DealLimits,
}

impl Settings {
    fn parse(args: &[String]) -> Result<Self, SettingsError> {
        let options = GRAMMAR.parse(pairs(args)?)?;
        let own = Own { grammar: GRAMMAR, options: &options };
        let limits = DealLimits {
            credit: own.number("credit", 1, 64)?,
            silence: Duration::from_millis(own.number("silence", 10, 60_000)?),
            lost_after: Duration::from_millis(own.number("lost-after", 10, 600_000)?),
            sources: own.number("sources", 1, 4096)?,
        };
        let workers = names(own.required("workers")?);
        Ok(Self { workers, limits })
    }
}

/// Plays the role until the dataflow ends.
///
/// # Errors
/// The settings can't be used, or dora is gone.
pub(crate) fn run(args: &[String], log: &Log) -> Result<(), Failure> {
    let settings = Settings::parse(args)?;
    let mut node = Node::open(log)?;
    let workers = settings.workers;
    let frames = node.inputs().into_iter().filter(|input| worker_of(input, &workers).is_none());
    let mut dealing = Dealing {
        dealer: Dealer::new(workers.len(), settings.limits),
        frames: frames.collect(),
        workers,
        count: 0,
        lost: 0,
        begun: Instant::now(),
        log: log.clone(),
    };
    dealing.run(&mut node)?;
    log.summary(&dealing.summary());
    Ok(())
}

/// The worker that an input tells of.
fn worker_of(input: &str, workers: &[String]) -> Option<usize> {
    let (name, kind) = input.rsplit_once('-')?;
    let is_of_worker = [DONE, STATUS].contains(&kind);
    workers.iter().position(|worker| is_of_worker && worker == name)
}

struct Dealing {
    dealer: Dealer<Message>,
    workers: Vec<String>,
    /// The inputs for frames that are open.
    frames: Vec<String>,
    count: i64,
    lost: u64,
    begun: Instant,
    log: Log,
}

impl Dealing {
    fn run(&mut self, node: &mut Node) -> Result<(), Failure> {
        let (mut look, mut tell) = (Instant::now(), Instant::now());
        // With the last frame on its way the workers have nothing more to come.
        while !(self.frames.is_empty() && self.dealer.open() == 0) {
            let happened = match node.poll() {
                Some(happened) => happened,
                None => {
                    // Only with all messages read is who seems silent so.
                    if Instant::now() >= look {
                        look = Instant::now() + LOOK;
                        self.look(node)?;
                    }
                    self.deal(node)?;
                    node.wait_until(look)
                }
            };
            match happened {
                Happened::Message(message) => self.receive(message, node)?,
                Happened::Closed(input) => self.close(&input, node)?,
                Happened::End { is_stopped: true } => return Ok(()),
                Happened::End { is_stopped: false } => self.frames.clear(),
                Happened::Back(_) | Happened::Nothing => {}
            }
            if Instant::now() >= tell {
                tell = Instant::now() + TELL;
                self.tell(node, "counts", "counts")?;
            }
        }
        Ok(())
    }

    fn look(&mut self, node: &mut Node) -> Result<(), Failure> {
        for worker in self.dealer.look(self.begun.elapsed()) {
            self.tell_of(worker, "silent", node)?;
        }
        self.tell_lost(node)
    }

    fn receive(&mut self, message: Message, node: &mut Node) -> Result<(), Failure> {
        let now = self.begun.elapsed();
        let stamp = Stamp::of(&message.input, &message.metadata, self.count);
        let id = FrameId { source: stamp.source, seq: stamp.seq };
        let Some(worker) = worker_of(&message.input, &self.workers) else {
            self.count += 1;
            self.dealer.put(id, message);
            return Ok(());
        };
        let is_back = self.dealer.heard(worker, now);
        if message.input.ends_with(DONE) {
            self.dealer.done(worker, &id, now);
        }
        if is_back { self.tell_of(worker, "here", node) } else { Ok(()) }
    }

    fn close(&mut self, input: &str, node: &mut Node) -> Result<(), Failure> {
        let Some(worker) = worker_of(input, &self.workers) else {
            self.frames.retain(|frames| frames != input);
            return Ok(());
        };
        if self.dealer.gone(worker) { self.tell_of(worker, "gone", node) } else { Ok(()) }
    }

    fn deal(&mut self, node: &mut Node) -> Result<(), Failure> {
        while let Some(deal) = self.dealer.deal(self.begun.elapsed()) {
            let Some(name) = self.workers.get(deal.worker) else { continue };
            let mut parameters = handed_on(&deal.frame.metadata.parameters);
            let stamp = Stamp::of(&deal.frame.input, &deal.frame.metadata, deal.id.seq);
            stamp.write(&mut parameters);
            node.send(&format!("to-{name}"), parameters, deal.frame.data)?;
        }
        self.tell_lost(node)
    }

    /// Tells of frames that will have no results, so that nobody waits for them.
    fn tell_lost(&mut self, node: &mut Node) -> Result<(), Failure> {
        for lost in self.dealer.lost() {
            self.lost += 1;
            let mut parameters = MetadataParameters::new();
            set(&mut parameters, crate::stamp::SOURCE, Parameter::String(lost.id.source));
            set(&mut parameters, crate::stamp::SEQ, Parameter::Integer(lost.id.seq));
            set(&mut parameters, WHY, Parameter::String(lost.why.name().to_owned()));
            node.send(LOST, parameters, ())?;
        }
        Ok(())
    }

    fn tell_of(&mut self, worker: usize, event: &str, node: &mut Node) -> Result<(), Failure> {
        let name = self.workers.get(worker).map_or("", String::as_str);
        let text = format!("worker {name} is {event}, {} are here", self.dealer.present());
        self.log.summary(&text);
        self.tell(node, event, &text)
    }

    fn tell(&mut self, node: &mut Node, event: &str, text: &str) -> Result<(), Failure> {
        let mut parameters = MetadataParameters::new();
        set(&mut parameters, EVENT, Parameter::String(event.to_owned()));
        set(&mut parameters, "workers", integer(self.dealer.present()));
        set(&mut parameters, "lost", integer(self.lost));
        set(&mut parameters, CPU, integer(crate::node::processor_time().as_millis()));
        node.send(STATUS, parameters, text.to_owned())
    }

    fn summary(&self) -> String {
        let dealt = self.workers.iter().zip(self.dealer.dealt());
        let dealt: Vec<_> = dealt.map(|(name, count)| format!("{name} {count}")).collect();
        format!("{} frames: {}; {} lost", self.count, dealt.join(", "), self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_workers_are_told_from_frames() {
        let workers = ["a".to_owned(), "b-1".to_owned()];
        for (input, expected) in
            [("a-done", Some(0)), ("b-1-status", Some(1)), ("frame", None), ("c-done", None)]
        {
            assert_eq!(worker_of(input, &workers), expected, "{input}");
        }
    }

    #[test]
    fn settings_are_checked() {
        let parse = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            Settings::parse(&args).map_err(|error| error.to_string())
        };
        assert_eq!(parse(&["workers=a+b"]).unwrap().workers, ["a", "b"]);
        assert!(parse(&[]).is_err_and(|error| error.contains("workers is missing")));
        assert!(parse(&["workers=a", "credit=0"]).is_err());
    }
}
