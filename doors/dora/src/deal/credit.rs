//! The rules of dealing, without any messages or clocks: who has the next frame, and what waits.
//!
//! A worker has as many frames on their way as it has credit. A frame for which nobody has credit
//! waits, one of each source: a newer one takes its place. Whoever is silent is given nothing, and
//! what was on its way to it is lost.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The rules' times are durations since any moment, so that a simulation can count its own.
pub(crate) type Time = Duration;

/// The limits of dealing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DealLimits {
    /// Frames on their way to a worker at most.
    pub(crate) credit: usize,
    /// A worker that was silent so long is gone.
    pub(crate) silence: Duration,
    /// A frame whose end wasn't told after so long is lost, and its credit comes back.
    pub(crate) lost_after: Duration,
    /// Sources that are told apart at most.
    pub(crate) sources: usize,
}

/// A frame's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrameId {
    pub(crate) source: String,
    pub(crate) seq: i64,
}

/// A frame that goes to a worker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Deal<T> {
    pub(crate) worker: usize,
    pub(crate) id: FrameId,
    pub(crate) frame: T,
}

/// Why a frame will have no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A newer one of its source took its place.
    Dropped,
    /// It was on its way to a worker that is gone.
    Gone,
    /// Its worker told nothing of it.
    Unanswered,
}

impl Loss {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::Gone => "gone",
            Self::Unanswered => "unanswered",
        }
    }
}

/// A frame that will have no results.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) id: FrameId,
    pub(crate) why: Loss,
}

/// Deals frames.
#[derive(Debug)]
pub(crate) struct Dealer<T> {
    limits: DealLimits,
    workers: Vec<Worker>,
    waiting: VecDeque<(FrameId, T)>,
    /// The number of each source's last frame.
    last: HashMap<String, i64>,
    lost: Vec<Lost>,
}

/// Numbers that are missing in a row are lost frames; more of them, and the source began anew.
const LONGEST_GAP: i64 = 1000;

#[derive(Debug, Default)]
struct Worker {
    /// The last message, while the worker is there.
    heard: Option<Time>,
    on_their_way: Vec<OnItsWay>,
    /// The mean time from a deal to its end, of the last few.
    service: Option<Duration>,
    dealt: u64,
}

#[derive(Debug)]
struct OnItsWay {
    id: FrameId,
    since: Time,
}

impl<T> Dealer<T> {
    /// Deals to so many workers, none of which was heard yet.
    pub(crate) fn new(workers: usize, limits: DealLimits) -> Self {
        let workers = std::iter::repeat_with(Worker::default).take(workers).collect();
        let (waiting, last, lost) = (VecDeque::new(), HashMap::new(), Vec::new());
        Self { limits, workers, waiting, last, lost }
    }

    /// A message of a worker came; true if it was gone before.
    pub(crate) fn heard(&mut self, worker: usize, now: Time) -> bool {
        let Some(worker) = self.workers.get_mut(worker) else { return false };
        worker.heard.replace(now).is_none()
    }

    /// A worker told that a frame is over.
    pub(crate) fn done(&mut self, worker: usize, id: &FrameId, now: Time) {
        self.heard(worker, now);
        let Some(worker) = self.workers.get_mut(worker) else { return };
        let Some(at) = worker.on_their_way.iter().position(|frame| frame.id == *id) else { return };
        let took = now.saturating_sub(worker.on_their_way.swap_remove(at).since);
        worker.service = Some(worker.service.map_or(took, |mean| (mean * 7 + took) / 8));
    }

    /// A worker is gone: what was on its way to it is lost. True if it was there.
    pub(crate) fn gone(&mut self, worker: usize) -> bool {
        let Some(worker) = self.workers.get_mut(worker) else { return false };
        let lost = worker.on_their_way.drain(..);
        self.lost.extend(lost.map(|frame| Lost { id: frame.id, why: Loss::Gone }));
        worker.service = None;
        worker.heard.take().is_some()
    }

    /// A frame came. What it takes the place of is lost, and so are those that came not before it.
    pub(crate) fn put(&mut self, id: FrameId, frame: T) {
        self.note_gap(&id);
        let same = self.waiting.iter_mut().find(|(waiting, _)| waiting.source == id.source);
        let older = match same {
            Some(place) => Some(std::mem::replace(place, (id, frame))),
            None => {
                let is_full = self.waiting.len() >= self.limits.sources.max(1);
                let oldest = if is_full { self.waiting.pop_front() } else { None };
                self.waiting.push_back((id, frame));
                oldest
            }
        };
        self.lost.extend(older.map(|(id, _)| Lost { id, why: Loss::Dropped }));
    }

    fn note_gap(&mut self, id: &FrameId) {
        if self.last.len() >= self.limits.sources.max(1) && !self.last.contains_key(&id.source) {
            self.last.clear();
        }
        let Some(last) = self.last.insert(id.source.clone(), id.seq) else { return };
        if id.seq.saturating_sub(last) > LONGEST_GAP {
            return;
        }
        let source = &id.source;
        let missing = (last.saturating_add(1)..id.seq)
            .map(|seq| FrameId { source: source.clone(), seq })
            .map(|id| Lost { id, why: Loss::Dropped });
        self.lost.extend(missing);
    }

    /// The next frame that somebody has credit for.
    pub(crate) fn deal(&mut self, now: Time) -> Option<Deal<T>> {
        let worker = self.least_loaded()?;
        let (id, frame) = self.waiting.pop_front()?;
        let place = self.workers.get_mut(worker)?;
        place.on_their_way.push(OnItsWay { id: id.clone(), since: now });
        place.dealt += 1;
        Some(Deal { worker, id, frame })
    }

    /// The worker that would be done first: by the frames on their way and the time that it takes
    /// for one. Of equals the one that had the fewest.
    fn least_loaded(&self) -> Option<usize> {
        let fits = |worker: &Worker| {
            worker.heard.is_some() && worker.on_their_way.len() < self.limits.credit
        };
        let load = |worker: &Worker| {
            let frames = u32::try_from(worker.on_their_way.len()).unwrap_or(u32::MAX);
            let ready = worker.service.unwrap_or_default().saturating_mul(frames.saturating_add(1));
            (frames, ready, worker.dealt)
        };
        let free = self.workers.iter().enumerate().filter(|(_, worker)| fits(worker));
        free.min_by_key(|(_, worker)| load(worker)).map(|(index, _)| index)
    }

    /// Looks for workers that became silent, which it returns, and for frames nobody answered.
    pub(crate) fn look(&mut self, now: Time) -> Vec<usize> {
        let DealLimits { silence, lost_after, .. } = self.limits;
        let is_silent =
            |worker: &Worker| worker.heard.is_some_and(|heard| now.saturating_sub(heard) > silence);
        let workers = self.workers.iter().enumerate();
        let silent: Vec<usize> =
            workers.filter(|(_, worker)| is_silent(worker)).map(|(index, _)| index).collect();
        for &worker in &silent {
            self.gone(worker);
        }
        for worker in &mut self.workers {
            let is_lost = |frame: &mut OnItsWay| now.saturating_sub(frame.since) > lost_after;
            let lost = worker.on_their_way.extract_if(.., is_lost);
            self.lost.extend(lost.map(|frame| Lost { id: frame.id, why: Loss::Unanswered }));
        }
        silent
    }

    /// The frames that were lost since the last call.
    pub(crate) fn lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }

    /// The workers that are there.
    pub(crate) fn present(&self) -> usize {
        self.workers.iter().filter(|worker| worker.heard.is_some()).count()
    }

    /// The frames that wait or are on their way.
    pub(crate) fn open(&self) -> usize {
        let on_their_way = self.workers.iter().map(|worker| worker.on_their_way.len());
        self.waiting.len() + on_their_way.sum::<usize>()
    }

    /// The frames that each worker had.
    pub(crate) fn dealt(&self) -> impl Iterator<Item = u64> {
        self.workers.iter().map(|worker| worker.dealt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DealLimits = DealLimits {
        credit: 1,
        silence: Duration::from_millis(600),
        lost_after: Duration::from_secs(2),
        sources: 2,
    };

    fn ms(time: u64) -> Time {
        Duration::from_millis(time)
    }

    fn id(source: &str, seq: i64) -> FrameId {
        FrameId { source: source.into(), seq }
    }

    fn dealt(dealer: &mut Dealer<()>, now: u64) -> Option<(usize, i64)> {
        dealer.deal(ms(now)).map(|deal| (deal.worker, deal.id.seq))
    }

    fn lost(dealer: &mut Dealer<()>) -> Vec<(i64, Loss)> {
        dealer.lost().into_iter().map(|lost| (lost.id.seq, lost.why)).collect()
    }

    #[test]
    fn nobody_who_was_not_heard_has_a_frame_and_only_the_newest_waits() {
        let mut dealer = Dealer::new(2, LIMITS);
        dealer.put(id("a", 0), ());
        assert_eq!(dealt(&mut dealer, 0), None);
        dealer.put(id("a", 1), ());
        assert!(dealer.heard(1, ms(1)) && !dealer.heard(1, ms(2)));
        assert_eq!(dealt(&mut dealer, 2), Some((1, 1)));
        assert_eq!(lost(&mut dealer), [(0, Loss::Dropped)]);
        for (seq, source) in [(0, "b"), (0, "c"), (0, "d")] {
            dealer.put(id(source, seq), ());
        }
        assert_eq!(lost(&mut dealer).len(), 1, "of too many sources");
    }

    #[test]
    fn the_least_loaded_has_the_next_frame_and_the_faster_of_equals() {
        let mut dealer = Dealer::new(2, DealLimits { credit: 2, ..LIMITS });
        dealer.heard(0, ms(0));
        dealer.heard(1, ms(0));
        let put = |dealer: &mut Dealer<()>, seq, now| {
            dealer.put(id("a", seq), ());
            dealt(dealer, now)
        };
        assert_eq!(put(&mut dealer, 0, 0), Some((0, 0)));
        assert_eq!(put(&mut dealer, 1, 0), Some((1, 1)));
        dealer.done(0, &id("a", 0), ms(50));
        dealer.done(1, &id("a", 1), ms(10));
        assert_eq!(put(&mut dealer, 2, 60), Some((1, 2)), "the faster");
        assert_eq!(put(&mut dealer, 3, 60), Some((0, 3)), "the less loaded");
        assert_eq!(put(&mut dealer, 4, 60), Some((1, 4)));
        assert_eq!(put(&mut dealer, 5, 60), Some((0, 5)));
        assert_eq!(put(&mut dealer, 6, 60), None, "no credit");
        dealer.done(0, &id("a", 9), ms(61));
        assert_eq!(dealt(&mut dealer, 61), None, "an end that nobody waits for gives no credit");
        dealer.done(0, &id("a", 3), ms(62));
        assert_eq!(dealt(&mut dealer, 62), Some((0, 6)));
        assert_eq!(dealer.dealt().collect::<Vec<_>>(), [4, 3]);
    }

    #[test]
    fn who_is_silent_or_ended_loses_what_was_on_its_way_and_may_come_back() {
        let mut dealer = Dealer::new(2, LIMITS);
        dealer.heard(0, ms(0));
        dealer.heard(1, ms(0));
        dealer.put(id("a", 0), ());
        assert_eq!(dealt(&mut dealer, 0), Some((0, 0)));
        dealer.heard(1, ms(500));
        assert_eq!(dealer.look(ms(601)), [0]);
        assert_eq!(lost(&mut dealer), [(0, Loss::Gone)]);
        assert_eq!(dealer.present(), 1);
        assert!(dealer.gone(1) && !dealer.gone(1));
        dealer.put(id("a", 1), ());
        assert_eq!(dealt(&mut dealer, 602), None);
        assert!(dealer.heard(0, ms(603)));
        assert_eq!(dealt(&mut dealer, 603), Some((0, 1)));
    }

    #[test]
    fn frames_that_came_not_are_lost() {
        let mut dealer = Dealer::new(1, LIMITS);
        for seq in [5, 8, 2, 3, 5000] {
            dealer.put(id("a", seq), ());
        }
        let dropped = lost(&mut dealer).into_iter().map(|(seq, _)| seq).collect::<Vec<_>>();
        assert_eq!(dropped, [6, 7, 5, 8, 2, 3]);
    }

    #[test]
    fn credit_for_a_frame_without_an_answer_comes_back() {
        let mut dealer = Dealer::new(1, LIMITS);
        dealer.heard(0, ms(0));
        dealer.put(id("a", 0), ());
        dealer.put(id("b", 0), ());
        assert!(dealt(&mut dealer, 0).is_some());
        dealer.heard(0, ms(2001));
        assert!(dealer.look(ms(2001)).is_empty());
        assert_eq!(lost(&mut dealer), [(0, Loss::Unanswered)]);
        assert!(dealt(&mut dealer, 2001).is_some());
        assert_eq!(dealer.open(), 1);
    }
}
