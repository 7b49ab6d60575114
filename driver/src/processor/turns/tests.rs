//! Who goes on, told by counts: nothing here is timed but what the promises name.

use std::sync::atomic::AtomicUsize;

use super::*;

static NOBODY: AtomicBool = AtomicBool::new(false);

/// Waits for what other threads do.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

fn held_up(processor: &Processor) -> u64 {
    processor.word.load(Ordering::SeqCst) >> HALF
}

#[test]
fn as_many_run_as_there_are_cores_and_no_more() {
    let processor = Processor::new(2);
    let users = [1, 2].map(|uid| processor.user(uid));
    let begin = |user: usize| processor.begin(&users[user], Priority::Medium, &NOBODY, None);
    let (first, second) = (begin(0), begin(0));
    first.pass();
    assert_eq!((processor.at_work(), held_up(&processor)), (2, 0));
    std::thread::scope(|scope| {
        let third = scope.spawn(|| begin(0).pass());
        until(|| held_up(&processor) == 1);
        // Whoever has nothing at work yet waits for nobody.
        drop(begin(1));
        assert_eq!((processor.at_work(), held_up(&processor)), (2, 1));
        drop(second);
        third.join().unwrap();
    });
    assert_eq!((processor.at_work(), held_up(&processor)), (1, 0));
    drop(first);
    assert_eq!(processor.word.load(Ordering::SeqCst), 0);
}

#[test]
fn a_higher_priority_holds_lower_ones_of_its_user_up_but_not_for_ever() {
    let processor = Processor::new(4);
    // Two clients of one user are the same user.
    let users = [7, 7, 8].map(|uid| processor.user(uid));
    let high = processor.begin(&users[0], Priority::High, &NOBODY, None);
    high.pass();
    processor.begin(&users[1], Priority::High, &NOBODY, None).pass();
    // Another user's are none of its business.
    processor.begin(&users[2], Priority::Low, &NOBODY, None).pass();
    std::thread::scope(|scope| {
        let lower = [Priority::Low, Priority::Medium].map(|priority| {
            let (processor, user) = (&processor, &users[1]);
            scope.spawn(move || {
                let began = Instant::now();
                processor.begin(user, priority, &NOBODY, None).pass();
                began.elapsed()
            })
        });
        for held in lower {
            assert!(held.join().unwrap() >= PATIENCE, "takes a turn all the same, in the end");
        }
        let low = scope.spawn(|| processor.begin(&users[1], Priority::Low, &NOBODY, None).pass());
        until(|| held_up(&processor) == 1 || low.is_finished());
        drop(high);
        low.join().unwrap();
    });
    assert_eq!(processor.word.load(Ordering::SeqCst), 0);
}

#[test]
fn what_is_behind_a_higher_priority_gives_way_whoever_has_the_lock() {
    let processor = Processor::new(2);
    let user = processor.user(1);
    let low = processor.begin(&user, Priority::Low, &NOBODY, None);
    let high = processor.begin(&user, Priority::High, &NOBODY, None);
    let queue = processor.lock();
    std::thread::scope(|scope| {
        let passes = scope.spawn(|| low.pass());
        until(|| processor.at_work() == 1 || passes.is_finished());
        assert_eq!(processor.at_work(), 1);
        drop(high);
        processor.unlock(queue);
    });
    assert_eq!((processor.at_work(), held_up(&processor)), (1, 0));
    drop(low);
    assert_eq!(processor.word.load(Ordering::SeqCst), 0);
}

#[test]
fn users_share_alike_however_many_executions_each_has() {
    let processor = Processor::new(1);
    let users = [1, 2].map(|uid| processor.user(uid));
    let (done, over) = ([const { AtomicUsize::new(0) }; 2], AtomicBool::new(false));
    let run = |user: usize| {
        let running = processor.begin(&users[user], Priority::Medium, &NOBODY, None);
        while !over.load(Ordering::Relaxed) {
            // Work is counted where one alone is at work: as long each time, however loaded the
            // machine is.
            let began = Instant::now();
            while began.elapsed() < Duration::from_micros(200) {
                std::hint::spin_loop();
            }
            done[user].fetch_add(1, Ordering::Relaxed);
            running.pass();
        }
    };
    std::thread::scope(|scope| {
        (0..16).for_each(|_| drop(scope.spawn(|| run(0))));
        until(|| held_up(&processor) == 15);
        scope.spawn(|| run(1));
        until(|| done[1].load(Ordering::Relaxed) >= 10);
        let before = done.each_ref().map(|done| done.load(Ordering::Relaxed));
        until(|| done[1].load(Ordering::Relaxed) >= before[1] + 300);
        let others = done[0].load(Ordering::Relaxed) - before[0];
        over.store(true, Ordering::Relaxed);
        // Sixteen times as many would be ten; a loaded machine makes pieces longer, for either.
        assert!(others < 3 * 300, "{others} of sixteen beside 300 of one");
        assert!(others > 300 / 3, "{others} of sixteen beside 300 of one");
    });
    assert_eq!(processor.word.load(Ordering::SeqCst), 0);
}

#[test]
fn whoever_waits_ends_with_its_client_and_its_deadline() {
    let processor = Processor::new(1);
    let user = processor.user(1);
    let gone = AtomicBool::new(false);
    let first = processor.begin(&user, Priority::Medium, &NOBODY, None);
    std::thread::scope(|scope| {
        let dead = scope.spawn(|| processor.begin(&user, Priority::Medium, &gone, None).pass());
        until(|| held_up(&processor) == 1);
        gone.store(true, Ordering::Relaxed);
        dead.join().unwrap();
        let soon = Some(TimePoint::after(Duration::from_millis(20)));
        drop(processor.begin(&user, Priority::Medium, &NOBODY, soon));
    });
    assert_eq!((processor.at_work(), held_up(&processor)), (1, 0));
    drop(first);
    assert_eq!(processor.word.load(Ordering::SeqCst), 0);
}

#[test]
fn one_that_never_polls_holds_nobody_up_for_ever() {
    let processor = Processor::new(1);
    let users = [1, 2].map(|uid| processor.user(uid));
    let stuck = processor.begin(&users[0], Priority::Medium, &NOBODY, None);
    processor.begin(&users[1], Priority::Medium, &NOBODY, None).pass();
    drop(stuck);
    assert_eq!(processor.word.load(Ordering::SeqCst), 0);
}

#[test]
fn a_core_is_left_to_a_user_who_comes_back() {
    let processor = Processor::new(2);
    let users = [1, 2].map(|uid| processor.user(uid));
    let begin = |user: usize| processor.begin(&users[user], Priority::Medium, &NOBODY, None);
    drop(begin(1));
    let first = begin(0);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let second = begin(0);
            // It passes for less than a turn.
            while !second.was_held_up() {
                second.pass();
            }
        });
        until(|| held_up(&processor) == 1);
        assert_eq!(processor.at_work(), 1);
        // Nobody polls meanwhile.
        let back = begin(1);
        assert_eq!((processor.at_work(), held_up(&processor)), (2, 1));
        assert!(first.most_threads() == 1 && back.most_threads() == 1);
        drop(back);
        // Once the other has been away for long enough, nothing is left to it any more.
        second.join().unwrap();
    });
    drop(first);
    assert_eq!(processor.word.load(Ordering::SeqCst), 0);
}

#[test]
fn helpers_take_turns_and_owners_that_wait_for_them_rest() {
    let processor = Processor::new(1);
    let user = processor.user(1);
    let owner = processor.begin(&user, Priority::Medium, &NOBODY, None);
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| owner.beside().pass());
        until(|| held_up(&processor) == 1);
        assert_eq!(owner.most_threads(), 1);
        owner.rest();
        helper.join().unwrap();
    });
    assert_eq!((processor.at_work(), owner.most_threads()), (0, usize::MAX));
    owner.pass();
    assert_eq!(processor.at_work(), 1);
    drop(owner);
    assert_eq!(processor.word.load(Ordering::SeqCst), 0);
    assert!(user.counts().is_idle() && user.counts().is_absent());
}
