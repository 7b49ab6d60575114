//! The end of the library, which is the end of the process: `dlclose` doesn't unload it
//! (`-z nodelete`).

use std::time::{Duration, Instant};

use crate::error::quietly;

/// The time that threads are waited for: they have nothing to do but to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// Threads that end when they are asked to.
const NAMES: [&str; 7] = [
    "nnburst-execute",
    "nnburst-idle",
    "nnburst-fences",
    "nnburst-reader",
    "nnburst-events",
    "nnburst-reaper",
    "fmq-peer-watch",
];

/// Called by the loader. Threads of ours that wait for work are reported as leaks by whoever looks
/// for those at the end.
#[used]
// Functions of this section are called once, without arguments, when the process exits.
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    quietly(|| {
        nnburst::shut_down();
        let begun = Instant::now();
        while is_any_left() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Returns whether a thread of ours is there still, in the eyes of the kernel: only then is its
/// stack free.
fn is_any_left() -> bool {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    threads.flatten().any(|thread| {
        std::fs::read_to_string(thread.path().join("comm"))
            .is_ok_and(|name| NAMES.contains(&name.trim_end()))
    })
}
