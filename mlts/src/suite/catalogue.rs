//! The crash tests: ids, what they do, and how much of it each budget has.

use super::budget::RunBudget;

/// A crash test.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CrashTest {
    /// `c01` to `c22`.
    pub id: &'static str,
    /// A short name.
    pub name: &'static str,
    /// A description.
    pub what: &'static str,
    /// True if the quick budget has it.
    pub is_quick: bool,
    /// Milliseconds in the three budgets, for tests that go by time.
    pub(super) ms: [u64; 3],
    /// Threads, kills, graphs or cases in the three budgets.
    pub(super) count: [usize; 3],
    /// Seconds beside the milliseconds, in the three budgets.
    pub(super) extra_s: [f64; 3],
}

impl CrashTest {
    /// Seconds that the test takes.
    pub fn seconds(&self, budget: RunBudget) -> f64 {
        let at = budget.index();
        let ms = self.ms.get(at).copied().unwrap_or(0);
        crate::num::real_u64(ms) / 1000.0 + self.extra_s.get(at).copied().unwrap_or(0.0)
    }

    pub(super) fn ms(&self, budget: RunBudget) -> u64 {
        self.ms.get(budget.index()).copied().unwrap_or(0)
    }

    pub(super) fn count(&self, budget: RunBudget) -> usize {
        self.count.get(budget.index()).copied().unwrap_or(0)
    }
}

/// All crash tests, in the order of a run.
pub fn crash_tests() -> &'static [CrashTest] {
    &TESTS
}

const fn test(
    id: &'static str,
    name: &'static str,
    what: &'static str,
    is_quick: bool,
    ms: [u64; 3],
    count: [usize; 3],
    extra_s: [f64; 3],
) -> CrashTest {
    CrashTest { id, name, what, is_quick, ms, count, extra_s }
}

const TESTS: [CrashTest; 21] = [
    test(
        "c01",
        "parallel",
        "threads that load, run and unload models in turn; every answer is checked",
        true,
        [3000, 20_000, 120_000],
        [4, 8, 12],
        [1.0, 1.0, 1.0],
    ),
    test(
        "c02",
        "parallel-embedded",
        "the same with the driver in the client's process",
        false,
        [2000, 10_000, 60_000],
        [4, 8, 12],
        [1.0, 1.0, 1.0],
    ),
    test(
        "c03",
        "client-killed",
        "clients killed while they compile, execute and wait behind fences",
        true,
        [0; 3],
        [3, 20, 200],
        [4.0, 25.0, 240.0],
    ),
    test(
        "c04",
        "many-processes",
        "processes of threads, without suicides and with 80 %",
        true,
        [2000, 15_000, 150_000],
        [3, 6, 6],
        [4.0, 18.0, 155.0],
    ),
    test(
        "c05",
        "many-loads",
        "the same, compiling only",
        false,
        [1500, 10_000, 100_000],
        [3, 6, 6],
        [3.0, 12.0, 104.0],
    ),
    test(
        "c06",
        "mapped-models",
        "constants in a mapped file that is cut, overwritten and deleted meanwhile",
        false,
        [2000, 10_000, 60_000],
        [1; 3],
        [1.0, 1.0, 1.0],
    ),
    test(
        "c07",
        "random-load",
        "random graphs of the operations that the driver takes, compiled",
        false,
        [0; 3],
        [20, 200, 600],
        [2.0, 8.0, 25.0],
    ),
    test(
        "c08",
        "random-run",
        "random graphs, compared with the reference device",
        true,
        [0; 3],
        [20, 200, 600],
        [2.0, 15.0, 45.0],
    ),
    test(
        "c09",
        "degradation",
        "a model beside a thread that compiles another",
        false,
        [400, 2000, 10_000],
        [1; 3],
        [5.0, 20.0, 100.0],
    ),
    test(
        "c10",
        "mutated-models",
        "models with one thing wrong are refused",
        true,
        [0; 3],
        [200, 5000, 100_000],
        [2.0, 10.0, 60.0],
    ),
    test(
        "c11",
        "bad-requests",
        "requests with one thing wrong are refused; shapes and times of answers",
        true,
        [0; 3],
        [200, 5000, 100_000],
        [1.0, 5.0, 10.0],
    ),
    test(
        "c12",
        "memory-lies",
        "memory of requests cut, written and sealed in flight; buffers of other roles",
        false,
        [0; 3],
        [50, 500, 5000],
        [2.0, 6.0, 30.0],
    ),
    test(
        "c13",
        "burst-lies",
        "packets that no honest client sends; 64 idle bursts",
        true,
        [0; 3],
        [50, 500, 5000],
        [2.0, 6.0, 40.0],
    ),
    test(
        "c14",
        "driver-killed",
        "the driver killed or stopped under every kind of call; c15: the same client connects anew",
        true,
        [0; 3],
        [1, 3, 14],
        [8.0, 24.0, 110.0],
    ),
    test(
        "c16",
        "memory-pressure",
        "models until the driver, short of memory, refuses; then given back",
        false,
        [0; 3],
        [1, 3, 10],
        [4.0, 10.0, 30.0],
    ),
    test(
        "c17",
        "fd-pressure",
        "bursts until the driver, short of descriptors, refuses; then given back",
        false,
        [0; 3],
        [1, 3, 10],
        [2.0, 4.0, 10.0],
    ),
    test(
        "c18",
        "deadlines",
        "deadlines that have passed, are too near, or generous",
        false,
        [2000, 10_000, 60_000],
        [1; 3],
        [1.0, 1.0, 1.0],
    ),
    test(
        "c19",
        "priorities",
        "high priority beside a flood of low priority",
        false,
        [3000, 15_000, 60_000],
        [1; 3],
        [1.0, 1.0, 1.0],
    ),
    test(
        "c20",
        "cache-lies",
        "cache files that were damaged",
        false,
        [0; 3],
        [50, 500, 5000],
        [3.0, 15.0, 120.0],
    ),
    test(
        "c21",
        "load-unload-leak",
        "compile, run, drop; the driver's memory, descriptors and threads",
        true,
        [0; 3],
        [100, 250, 2500],
        [4.0, 8.0, 60.0],
    ),
    test(
        "c22",
        "endurance",
        "one model for the time of --soak; memory and speed must stay",
        false,
        [0; 3],
        [1; 3],
        [2.0, 2.0, 2.0],
    ),
];
