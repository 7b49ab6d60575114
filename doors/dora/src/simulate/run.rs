//! One run: what happens next, until the time is over.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use crate::deal::{DealLimits, Dealer, FrameId, Time};

/// The parts that are simulated.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) nodes: usize,
    pub(super) cameras: usize,
    pub(super) period: Duration,
    /// The time of a frame on the dealing machine's link.
    pub(super) on_link: Duration,
    /// Times of an inference, each as likely.
    pub(super) service: Vec<Duration>,
    pub(super) hop: Duration,
    /// The dealing machine's time for a frame.
    pub(super) deal: Duration,
    pub(super) credit: usize,
    pub(super) time: Duration,
    /// Nodes that end half way.
    pub(super) failures: usize,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SimulationResult {
    pub(super) sent: u64,
    pub(super) done: u64,
    /// Frames in whose place newer ones were dealt.
    pub(super) dropped: u64,
    /// Frames that were on their way to nodes that ended.
    pub(super) lost: u64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// Shares of the time in which the nodes, the link and the dealing machine worked.
    pub(super) nodes_busy: f64,
    pub(super) link_busy: f64,
    pub(super) deal_busy: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A camera has its next frame.
    Captured { camera: usize, seq: i64 },
    /// A frame is at a node.
    Arrived { node: usize, camera: usize, seq: i64 },
    /// The dealer hears that a node is done.
    Done { node: usize, camera: usize, seq: i64 },
    /// Nodes end.
    Failed,
    /// The dealer looks for those who are silent.
    Look,
}

/// Something that serves one frame at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    free: Time,
    busy: Duration,
}

impl Server {
    /// The end of some work that may begin now.
    fn serve(&mut self, now: Time, work: Duration) -> Time {
        self.free = self.free.max(now) + work;
        self.busy += work;
        self.free
    }
}

struct Run<'a> {
    setup: &'a Setup,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    dealer: Dealer<()>,
    captured: HashMap<(usize, i64), Time>,
    nodes: Vec<Server>,
    alive: usize,
    link: Server,
    deals: Server,
    ages: Vec<Duration>,
    random: u64,
    figures: SimulationResult,
}

/// The pause between two looks for silent nodes.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn run(setup: &Setup) -> SimulationResult {
    let limits = DealLimits {
        credit: setup.credit,
        silence: Duration::from_millis(600),
        lost_after: Duration::from_secs(5),
        sources: setup.cameras,
    };
    let mut run = Run {
        setup,
        events: BinaryHeap::new(),
        dealer: Dealer::new(setup.nodes, limits),
        captured: HashMap::new(),
        nodes: vec![Server::default(); setup.nodes],
        alive: setup.nodes,
        link: Server::default(),
        deals: Server::default(),
        ages: Vec::new(),
        random: 0x9e37_79b9_7f4a_7c15,
        figures: SimulationResult {
            sent: 0,
            done: 0,
            dropped: 0,
            lost: 0,
            p50: Duration::ZERO,
            p99: Duration::ZERO,
            nodes_busy: 0.0,
            link_busy: 0.0,
            deal_busy: 0.0,
        },
    };
    run.begin();
    while let Some(Reverse((now, event))) = run.events.pop()
        && now < setup.time
    {
        run.happens(now, event);
    }
    run.end()
}

impl Run<'_> {
    fn begin(&mut self) {
        // Cameras are not in step with each other.
        for camera in 0..self.setup.cameras {
            let share = u32::try_from(self.random() % 1000).unwrap_or(0);
            self.at(self.setup.period * share / 1000, Event::Captured { camera, seq: 0 });
        }
        self.at(Duration::ZERO, Event::Look);
        self.at(self.setup.time / 2, Event::Failed);
    }

    fn at(&mut self, time: Time, event: Event) {
        self.events.push(Reverse((time, event)));
    }

    /// Marsaglia's xorshift: each run has the same numbers.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn happens(&mut self, now: Time, event: Event) {
        match event {
            Event::Captured { camera, seq } => {
                self.figures.sent += 1;
                self.captured.insert((camera, seq), now);
                self.dealer.put(id(camera, seq), ());
                self.at(now + self.setup.period, Event::Captured { camera, seq: seq + 1 });
                self.deal(now);
            }
            Event::Arrived { node, .. } if node >= self.alive => {}
            Event::Arrived { node, camera, seq } => {
                let pick = self.random();
                let count = u64::try_from(self.setup.service.len()).unwrap_or(1).max(1);
                let pick = usize::try_from(pick % count).unwrap_or(0);
                let work = self.setup.service.get(pick).copied().unwrap_or_default();
                let Some(server) = self.nodes.get_mut(node) else { return };
                let ready = server.serve(now, work) + self.setup.hop;
                self.at(ready, Event::Done { node, camera, seq });
            }
            Event::Done { node, .. } if node >= self.alive => {}
            Event::Done { node, camera, seq } => {
                self.figures.done += 1;
                if let Some(captured) = self.captured.remove(&(camera, seq)) {
                    self.ages.push(now.saturating_sub(captured));
                }
                self.dealer.done(node, &id(camera, seq), now);
                self.deal(now);
            }
            Event::Failed => self.alive = self.setup.nodes.saturating_sub(self.setup.failures),
            Event::Look => {
                (0..self.alive).for_each(|node| {
                    self.dealer.heard(node, now);
                });
                self.dealer.look(now);
                self.deal(now);
                self.at(now + LOOK, Event::Look);
            }
        }
    }

    fn deal(&mut self, now: Time) {
        while let Some(deal) = self.dealer.deal(now) {
            let dealt = self.deals.serve(now, self.setup.deal);
            let sent = self.link.serve(dealt, self.setup.on_link) + self.setup.hop;
            let camera = deal.id.source.parse().unwrap_or(0);
            self.at(sent, Event::Arrived { node: deal.worker, camera, seq: deal.id.seq });
        }
        for lost in self.dealer.lost() {
            let camera = lost.id.source.parse().unwrap_or(0);
            self.captured.remove(&(camera, lost.id.seq));
            match lost.why.name() {
                "dropped" => self.figures.dropped += 1,
                _ => self.figures.lost += 1,
            }
        }
    }

    fn end(mut self) -> SimulationResult {
        self.ages.sort_unstable();
        let at = |share: usize| {
            let index = self.ages.len().saturating_sub(1) * share / 100;
            self.ages.get(index).copied().unwrap_or_default()
        };
        let time = self.setup.time.as_secs_f64();
        let busy: Duration = self.nodes.iter().map(|server| server.busy).sum();
        #[expect(clippy::cast_precision_loss, reason = "far fewer")]
        let nodes = self.nodes.len().max(1) as f64;
        SimulationResult {
            p50: at(50),
            p99: at(99),
            nodes_busy: busy.as_secs_f64() / time / nodes,
            link_busy: self.link.busy.as_secs_f64() / time,
            deal_busy: self.deals.busy.as_secs_f64() / time,
            ..self.figures
        }
    }
}

fn id(camera: usize, seq: i64) -> FrameId {
    FrameId { source: camera.to_string(), seq }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            nodes: 1,
            cameras: 1,
            period: Duration::from_millis(40),
            on_link: Duration::from_millis(1),
            service: vec![Duration::from_millis(10)],
            hop: Duration::from_millis(1),
            deal: Duration::from_millis(1),
            credit: 1,
            time: Duration::from_secs(10),
            failures: 0,
        }
    }

    #[test]
    fn an_idle_node_takes_as_long_as_its_parts() {
        let figures = run(&setup());
        assert_eq!(
            (figures.p50, figures.p99),
            (Duration::from_millis(14), Duration::from_millis(14))
        );
        assert_eq!((figures.dropped, figures.lost), (0, 0));
        assert!((figures.nodes_busy - 0.25).abs() < 0.01, "{figures:?}");
    }

    #[test]
    fn what_nodes_can_not_take_is_dropped_and_ages_stay_bounded() {
        let slow = Setup { service: vec![Duration::from_millis(100)], ..setup() };
        let one = run(&slow);
        assert!(one.dropped > one.sent / 2, "{one:?}");
        assert!(one.p99 < Duration::from_millis(150), "{one:?}");
        let four = run(&Setup { nodes: 4, ..slow });
        assert_eq!(four.dropped, 0, "{four:?}");
        assert!(four.done > 3 * one.done / 2, "{four:?}");
    }

    #[test]
    fn nodes_that_end_lose_what_they_had_and_no_more() {
        let failing = Setup { nodes: 4, failures: 2, cameras: 4, ..setup() };
        let figures = run(&failing);
        assert!(figures.lost <= 2, "{figures:?}");
        assert!(figures.done + figures.dropped + 8 >= figures.sent, "{figures:?}");
    }
}
