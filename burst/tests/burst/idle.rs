//! Bursts that have nothing to do, and what a burst's thread was asked to be.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use nnburst_burst::testing::AddOne;
use nnburst_burst::{BurstController, ControllerOptions, PollingWindow};
use nnburst_fmq::testing::is_there;
use nnburst_hal::{BurstOptions, ExecutionOptions, ExecutionPreference, RealTimeProfile};

use crate::remote::{Driver, Model};
use crate::support::{HANG, bytes, memory};

/// A burst of a model that counts how often it is asked to keep warm, and then does what `idle`
/// does.
fn counted(
    window: Option<Duration>,
    idle: impl Fn() -> bool + Send + Sync + 'static,
) -> (BurstController, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let model = AddOne::with(|model| {
        let asked = Arc::clone(&asked);
        model.idle = Some(Box::new(move || {
            asked.fetch_add(1, Ordering::Relaxed);
            idle()
        }));
    });
    let mut options = ControllerOptions { polling_window: window, ..ControllerOptions::default() };
    options.burst.polling_window = window;
    (BurstController::configure(&*model, &options, None).unwrap(), asked)
}

/// Has the burst add one.
fn adds(burst: &mut BurstController) {
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
    assert_eq!(bytes(&output), [2; 4]);
}

/// Waits until `counter` has come to `wanted`, which takes a burst that polls some milliseconds. A
/// burst polls for a second after a request, so where the machine keeps it from its processor for
/// so long, it gets another one.
fn comes_to(burst: &mut BurstController, counter: &AtomicUsize, wanted: usize) {
    let start = Instant::now();
    let mut polls_until = start + Duration::from_secs(1);
    while counter.load(Ordering::Relaxed) < wanted {
        assert!(start.elapsed() < HANG, "it stays at {counter:?}, short of {wanted}");
        if Instant::now() > polls_until {
            adds(burst);
            polls_until = Instant::now() + Duration::from_secs(1);
        }
        std::thread::yield_now();
    }
}

/// Waits for the burst to be asked so often more; then has it add one.
fn asked_then_adds(burst: &mut BurstController, asked: &AtomicUsize, more: usize) {
    let wanted = asked.load(Ordering::Relaxed) + more;
    comes_to(burst, asked, wanted);
    adds(burst);
}

#[test]
fn a_polling_burst_keeps_warm_until_a_request_comes() {
    // There is always something left to touch: only a request ends the round.
    let (mut burst, asked) = counted(Some(Duration::MAX), || true);
    // A driver that has heard of no client sleeps.
    asked_then_adds(&mut burst, &asked, 0);
    for _ in 0..5 {
        asked_then_adds(&mut burst, &asked, 100);
    }
    // One touch is a round: another begins each millisecond, none waits for a request.
    let (mut burst, asked) = counted(Some(Duration::MAX), || false);
    asked_then_adds(&mut burst, &asked, 0);
    for _ in 0..5 {
        asked_then_adds(&mut burst, &asked, 3);
    }
}

#[test]
fn a_burst_outlives_what_panics_while_it_is_idle() {
    let (mut burst, asked) = counted(Some(Duration::MAX), || panic!("this panic belongs here"));
    asked_then_adds(&mut burst, &asked, 0);
    asked_then_adds(&mut burst, &asked, 2);
    asked_then_adds(&mut burst, &asked, 2);
}

/// A burst that polls and counts its warm-up runs, each of which does what `warm_up` does.
fn warming_up(
    warm_up: impl Fn(&mut dyn FnMut() -> bool) + Send + Sync + 'static,
) -> (BurstController, Arc<AtomicUsize>) {
    let counted = Arc::new(AtomicUsize::new(0));
    let model = AddOne::with(|model| {
        let counted = Arc::clone(&counted);
        model.warm_up = Some(Box::new(move |request, has_come| {
            assert_eq!(request.inputs[0].location.length, 4, "the last request");
            counted.fetch_add(1, Ordering::Relaxed);
            warm_up(has_come);
        }));
    });
    let window = Some(Duration::MAX);
    let mut options = ControllerOptions { polling_window: window, ..ControllerOptions::default() };
    options.burst.polling_window = window;
    (BurstController::configure(&*model, &options, None).unwrap(), counted)
}

#[test]
fn the_last_request_is_warmed_up_until_another_comes() {
    // One that doesn't end by itself: only a request ends it.
    let (mut burst, warm_ups) = warming_up(|has_come| while !has_come() {});
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(warm_ups.load(Ordering::Relaxed), 0, "there was no request yet");
    asked_then_adds(&mut burst, &warm_ups, 0);
    for requests in 1..=5 {
        comes_to(&mut burst, &warm_ups, requests);
        asked_then_adds(&mut burst, &warm_ups, 0);
    }
    // One that ends: another begins each millisecond.
    let (mut burst, warm_ups) = warming_up(|_| ());
    asked_then_adds(&mut burst, &warm_ups, 0);
    asked_then_adds(&mut burst, &warm_ups, 3);
}

#[test]
fn neither_requests_that_failed_nor_warm_up_runs_that_panicked_are_repeated() {
    let (mut burst, warm_ups) = warming_up(|_| panic!("this panic belongs here"));
    adds(&mut burst);
    comes_to(&mut burst, &warm_ups, 1);
    adds(&mut burst);
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let bad = AddOne::request(&input, &output, 5);
    burst.execute(&bad, &ExecutionOptions::default()).unwrap().unwrap_err();
    let before = warm_ups.load(Ordering::Relaxed);
    let good = usize::try_from(burst.stats().executions()).unwrap() - 1;
    assert!((1..=good).contains(&before), "{before} times for {good} good requests");
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(warm_ups.load(Ordering::Relaxed), before);
}

#[test]
fn a_burst_that_sleeps_touches_nothing() {
    for window in [Some(Duration::ZERO), None] {
        let (mut burst, asked) = counted(window, || true);
        for _ in 0..3 {
            asked_then_adds(&mut burst, &asked, 0);
            std::thread::sleep(Duration::from_millis(3));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 0, "{window:?}");
    }
}

/// Processor time of all threads of a process.
fn used(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let figures = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        figures.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

#[test]
fn idle_bursts_cost_under_a_hundredth_of_a_core_each() {
    const BURSTS: u32 = 64;
    let driver = Driver::spawn(&Model { keep: true, ..Model::default() });
    let open = |preference| {
        let burst = BurstOptions { extended: true, preference, ..BurstOptions::default() };
        let options = ControllerOptions { burst, ..ControllerOptions::default() };
        BurstController::configure(driver.model(), &options, Some(driver.watch())).unwrap()
    };
    let mut bursts: Vec<_> = ExecutionPreference::ALL
        .iter()
        .cycle()
        .take(BURSTS as usize)
        .map(|&preference| open(preference))
        .collect();
    // The last one has worked, so that its thread has waits to learn from.
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    let working = bursts.last_mut().unwrap();
    for _ in 0..50 {
        working.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
    }
    let pid = driver.id();
    let before = used(pid);
    let watched = Duration::from_secs(1);
    std::thread::sleep(watched);
    let each = (used(pid) - before) / BURSTS;
    assert!(each < watched / 100, "{each:?} of a second each");
    working.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
    assert_eq!(bytes(&output), [2; 4]);
}

#[test]
fn the_bursts_thread_has_the_profile_that_was_asked_for() {
    let cpu = sched_getcpu().unwrap();
    let seen = Arc::new(Mutex::new(None));
    let model = AddOne::with(|model| {
        let seen = Arc::clone(&seen);
        model.before = Some(Box::new(move || {
            let cpus = sched_getaffinity(Pid::from_raw(0)).unwrap();
            let count = (0..CpuSet::count()).filter(|&cpu| cpus.is_set(cpu).unwrap()).count();
            let slack = nix::sys::prctl::get_timerslack().unwrap();
            *seen.lock().unwrap() = Some((count, cpus.is_set(cpu).unwrap(), slack));
        }));
    });
    let real_time = RealTimeProfile {
        cpus: vec![u32::try_from(cpu).unwrap()],
        // Beyond the scale of the scheduler: refused whatever one's privileges.
        fifo_priority: Some(200),
        timer_slack: Some(Duration::from_nanos(1)),
        lock_memory: false,
    };
    let options = ControllerOptions {
        burst: BurstOptions { extended: true, real_time, ..BurstOptions::default() },
        ..ControllerOptions::default()
    };
    let mut burst = BurstController::configure(&*model, &options, None).unwrap();
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
    assert_eq!(*seen.lock().unwrap(), Some((1, true, 1)));
    let [warning] = burst.warnings() else { panic!("{:?}", burst.warnings()) };
    assert!(warning.starts_with("SCHED_FIFO priority 200 was refused"), "{warning}");
}

#[test]
fn a_drivers_thread_is_what_it_was_asked_to_be_or_the_client_is_told() {
    const PRIORITY: u8 = 3;
    let driver = Driver::spawn(&Model::default());
    let real_time = RealTimeProfile {
        fifo_priority: Some(PRIORITY),
        lock_memory: true,
        ..RealTimeProfile::default()
    };
    let burst = BurstOptions { extended: true, real_time, ..BurstOptions::default() };
    let options = ControllerOptions { burst, ..ControllerOptions::default() };
    let burst = BurstController::configure(driver.model(), &options, Some(driver.watch())).unwrap();
    let refused = |what: &str| burst.warnings().iter().any(|warning| warning.contains(what));
    let thread = burst_thread(driver.id());
    let stat = std::fs::read_to_string(format!("{thread}/stat")).unwrap();
    // Behind the name, which may hold spaces: the 38th and 39th of what is left, counting from 1.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let [priority, policy] = [37, 38].map(|at: usize| fields[at].parse::<u8>().unwrap());
    let is_fifo = (policy, priority) == (1, PRIORITY);
    assert_ne!(is_fifo, refused("SCHED_FIFO"), "{policy}, {priority}: {:?}", burst.warnings());
    let locked = figure_of(&format!("/proc/{}/status", driver.id()), "VmLck:") > 0;
    assert_ne!(locked, refused("can't be locked"), "{:?}", burst.warnings());
}

/// The folder in `/proc` of the thread of the only burst of a process.
fn burst_thread(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut threads = tasks.map(|task| task.path().display().to_string()).filter(|task| {
        std::fs::read_to_string(format!("{task}/comm")).is_ok_and(|name| name == "nnburst-burst\n")
    });
    threads.next().unwrap()
}

/// A figure of a file of the system's.
fn figure_of(file: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(file).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns how often the calling thread gave its processor away.
fn times_slept() -> u64 {
    figure_of("/proc/thread-self/status", "voluntary_ctxt_switches:")
}

#[test]
fn low_power_sleeps_at_once_on_both_sides_and_others_poll() {
    const FRAMES: u64 = 50;
    const ROUNDS: usize = 40;
    for preference in [ExecutionPreference::FastSingleAnswer, ExecutionPreference::SustainedSpeed] {
        let window = PollingWindow::for_preference(preference);
        assert_eq!(window, PollingWindow::UpTo(Duration::from_micros(50)));
    }
    let usable = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let mut usable = (0..CpuSet::count()).filter(|&cpu| usable.is_set(cpu).unwrap());
    let (ours, theirs) = (usable.next(), usable.next());
    // On one processor, who is woken may run before the other has come to sleep.
    let (true, Some(ours), Some(theirs)) = (is_there("processors", theirs.is_some()), ours, theirs)
    else {
        return;
    };
    let [ours, theirs] = [ours, theirs].map(|cpu| RealTimeProfile {
        cpus: vec![u32::try_from(cpu).unwrap()],
        ..RealTimeProfile::default()
    });
    // Well within a polling window: whoever sleeps here polls not at all.
    let driver = Driver::spawn(&Model { pause: Duration::from_micros(20), ..Model::default() });
    let preference = ExecutionPreference::LowPower;
    let burst =
        BurstOptions { extended: true, preference, real_time: theirs, ..BurstOptions::default() };
    let options = ControllerOptions { burst, ..ControllerOptions::default() };
    let client = std::thread::spawn(move || {
        assert!(nnburst_burst::realtime::apply(&ours).is_empty());
        let mut burst =
            BurstController::configure(driver.model(), &options, Some(driver.watch())).unwrap();
        let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
        let request = AddOne::request(&input, &output, 4);
        let thread = format!("{}/status", burst_thread(driver.id()));
        let slept = || [times_slept(), figure_of(&thread, "voluntary_ctxt_switches:")];
        burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
        // Other programs may hold up a side until it finds its answer there: some round goes
        // undisturbed.
        let mut rounds = (0..ROUNDS).map(|_| {
            let before = slept();
            for _ in 0..FRAMES {
                burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
            }
            let after = slept();
            [after[0] - before[0], after[1] - before[1]]
        });
        rounds.find(|sleeps| sleeps.iter().all(|&sleeps| sleeps > FRAMES / 2))
    });
    let slept = client.join().unwrap();
    assert!(slept.is_some(), "in none of {ROUNDS} rounds both slept in most of {FRAMES} frames");
}

/// A burst whose both ends are pinned to one processor.
struct OnOneProcessor {
    burst: BurstController,
    driver: Driver,
    /// Processor time that both ends took for each frame.
    taken: Vec<TimeSpec>,
}

impl OnOneProcessor {
    fn with_window(window: Duration, processor: &RealTimeProfile) -> Self {
        let driver = Driver::spawn(&Model::default());
        let polling_window = Some(window);
        let real_time = processor.clone();
        let burst =
            BurstOptions { extended: true, polling_window, real_time, ..BurstOptions::default() };
        let options = ControllerOptions { polling_window, burst, ..ControllerOptions::default() };
        let burst =
            BurstController::configure(driver.model(), &options, Some(driver.watch())).unwrap();
        Self { burst, driver, taken: Vec::new() }
    }

    /// Executes frames `pause` apart.
    fn execute(&mut self, pause: Duration) {
        let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
        let request = AddOne::request(&input, &output, 4);
        let pid = Pid::from_raw(self.driver.id().try_into().unwrap());
        let clocks = [ClockId::CLOCK_THREAD_CPUTIME_ID, clock_getcpuclockid(pid).unwrap()];
        let taken = || clocks.map(|clock| clock.now().unwrap());
        for _ in 0..25 {
            std::thread::sleep(pause);
            let before = taken();
            self.burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
            let after = taken();
            self.taken.push(after[0] - before[0] + after[1] - before[1]);
        }
    }

    /// Processor time of a frame that nothing held up: the lower quartile of those since the last
    /// time that this was asked.
    fn time_of_a_frame(&mut self) -> Duration {
        self.taken.sort();
        let quartile = self.taken[self.taken.len() / 4];
        self.taken.clear();
        quartile.into()
    }
}

#[test]
fn two_ends_on_one_processor_sleep_rather_than_poll_against_each_other() {
    // Who polls looks for the first time after 100 microseconds whether it does so in vain.
    const POLLS: Duration = Duration::from_micros(50);
    let cpu = u32::try_from(sched_getcpu().unwrap()).unwrap();
    let here = RealTimeProfile { cpus: vec![cpu], ..RealTimeProfile::default() };
    let client = std::thread::spawn(move || {
        assert!(nnburst_burst::realtime::apply(&here).is_empty());
        // What a frame costs depends on the machine and its load; one that sleeps at once tells.
        let windows = [Duration::ZERO, Duration::from_millis(2), Duration::MAX];
        let mut bursts = windows.map(|window| OnOneProcessor::with_window(window, &here));
        // Paced frames are further apart than an answer says where an unpinned driver runs.
        for pause in [Duration::ZERO, Duration::from_millis(2)] {
            for _ in 0..20 {
                bursts.iter_mut().for_each(|burst| burst.execute(pause));
            }
            let [sleeps, others @ ..] = bursts.each_mut().map(OnOneProcessor::time_of_a_frame);
            let polls = others.iter().any(|&taken| taken > sleeps + POLLS);
            assert!(!polls, "{sleeps:?}, but {others:?} for each frame, {pause:?} apart");
        }
    });
    client.join().unwrap();
}

#[test]
fn a_service_sees_how_a_burst_is_doing() {
    let model = AddOne::with(|model| model.pause = Duration::from_micros(300));
    let (spied, opened) = crate::support::spied(model);
    let options = ControllerOptions::default();
    let mut burst = BurstController::configure(&spied, &options, None).unwrap();
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let good = AddOne::request(&input, &output, 4);
    let bad = AddOne::request(&input, &output, 5);
    for _ in 0..20 {
        burst.execute(&good, &ExecutionOptions::default()).unwrap().unwrap();
    }
    burst.execute(&bad, &ExecutionOptions::default()).unwrap().unwrap_err();
    // One that is late already is not sent by a call that waits.
    let mut late = burst.frame(&good, &ExecutionOptions::default()).unwrap();
    late.set_deadline(Some(nnburst_hal::TimePoint::now()));
    burst.try_submit(late).unwrap();
    burst.wait().unwrap();
    // The last answer may be out before it is counted; the burst's end settles it.
    let context = opened.lock().unwrap().clone().unwrap();
    drop(burst);
    let mut figures = context.figures().unwrap();
    while figures.executions < 22 {
        figures = context.figures().unwrap();
    }
    assert_eq!((figures.executions, figures.failures, figures.missed_deadlines), (22, 2, 1));
    assert!(figures.p50 >= Duration::from_micros(300) && figures.p50 <= figures.p99);
    assert!(figures.p99 <= figures.p999 && figures.p999 <= figures.max);
}
