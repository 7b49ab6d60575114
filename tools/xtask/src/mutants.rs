//! `cargo xtask loom-mutants`: weakens each ordering of what threads and processes share, and each
//! step of a burst's hand-over, in a copy of them, and expects a model to fail.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::{Cargo, Outcome, root};
use crate::loom::configure;

/// One weakening: `from` occurs exactly once in `file`.
struct Mutant {
    /// The ordering that is weakened, as in the table of `loom-tests`.
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// The model that must fail.
    caught_by: &'static str,
}

const RING: &str = "fmq/src/ring.rs";
const FLAG: &str = "fmq/src/event_flag.rs";
const INTERRUPT: &str = "fmq/src/interrupt.rs";
const UNSYNC: &str = "fmq/src/unsync/cursor.rs";
const MAILBOX: &str = "burst/src/server/mailbox.rs";
const LISTENER: &str = "burst/src/server/listener.rs";
const FLIGHT: &str = "burst/src/client/controller/flight.rs";
const SLOTS: &str = "burst/src/client/slots.rs";
const POOL: &str = "executor/src/session/handoff.rs";
const HANDLES: &str = "ndk/src/handle/table.rs";
const PROCESSOR: &str = "driver/src/processor/turns/mod.rs";
const RUNNING: &str = "driver/src/processor/turns/running.rs";

#[rustfmt::skip] // one weakening, five lines
const MUTANTS: &[Mutant] = &[
    Mutant {
        what: "publish, release", file: RING,
        from: "memory.written().store(ours, Ordering::Release)",
        to: "memory.written().store(ours, Ordering::Relaxed)",
        caught_by: "a_batch_arrives_whole_or_not_at_all",
    },
    Mutant {
        what: "publish, acquire", file: RING,
        from: "memory.written().load(Ordering::Acquire)\n",
        to: "memory.written().load(Ordering::Relaxed)\n",
        caught_by: "a_batch_arrives_whole_or_not_at_all",
    },
    Mutant {
        what: "retire, release", file: RING,
        from: "memory.read().store(ours, Ordering::Release)",
        to: "memory.read().store(ours, Ordering::Relaxed)",
        caught_by: "nothing_is_lost_duplicated_or_reordered",
    },
    Mutant {
        what: "retire, acquire", file: RING,
        from: "memory.read().load(Ordering::Acquire)\n",
        to: "memory.read().load(Ordering::Relaxed)\n",
        caught_by: "nothing_is_lost_duplicated_or_reordered",
    },
    Mutant {
        what: "publish, acquire when attaching", file: RING,
        from: "let written = memory.written().load(Ordering::Acquire);",
        to: "let written = memory.written().load(Ordering::Relaxed);",
        caught_by: "a_consumer_that_attaches_sees_the_items_it_counts",
    },
    Mutant {
        what: "retire, acquire when attaching", file: RING,
        from: "let read = memory.read().load(Ordering::Acquire);",
        to: "let read = memory.read().load(Ordering::Relaxed);",
        caught_by: "a_producer_that_attaches_leaves_unread_items_alone",
    },
    Mutant {
        what: "sleep, the waker's fence", file: FLAG,
        from: "fence(Ordering::SeqCst);\n        // Relaxed: nothing is handed over",
        to: "// Relaxed: nothing is handed over",
        caught_by: "a_sleeping_reader_is_woken_by_one_who_looks",
    },
    Mutant {
        what: "sleep, the waiter's fence", file: FLAG,
        from: "    fence(Ordering::SeqCst);\n    before",
        to: "    before",
        caught_by: "a_sleeping_reader_is_woken_by_one_who_looks",
    },
    Mutant {
        what: "bits, the waker's fetch_or", file: FLAG,
        from: "word.fetch_or(mask.get(), Ordering::SeqCst)",
        to: "word.fetch_or(mask.get(), Ordering::Relaxed)",
        caught_by: "a_bit_of_ones_own_hands_over_what_came_before_it",
    },
    Mutant {
        what: "bits, the waiter's fence", file: FLAG,
        from: "    fence(Ordering::SeqCst);\n    before",
        to: "    before",
        caught_by: "a_bit_of_ones_own_hands_over_what_came_before_it",
    },
    Mutant {
        what: "sleep, unconditional, the fetch_or", file: FLAG,
        from: "word.fetch_or(mask.get(), Ordering::SeqCst)",
        to: "word.fetch_or(mask.get(), Ordering::Relaxed)",
        caught_by: "a_sleeping_reader_is_woken_unconditionally",
    },
    Mutant {
        what: "rouse, the raiser's wake", file: INTERRUPT,
        from: "        self.raised.wake_threads();\n",
        to: "",
        caught_by: "cancellation_wakes_a_sleeping_reader",
    },
    Mutant {
        what: "rouse, the store before the wake", file: INTERRUPT,
        from: "        self.raised.store(1, Ordering::Release);\n\
               \x20       // edge rouse: the kernel orders the store before its search for \
               sleepers.\n\
               \x20       self.raised.wake_threads();\n",
        to: "        self.raised.wake_threads();\n        self.raised.store(1, Ordering::Release);\n",
        caught_by: "cancellation_wakes_a_sleeping_writer",
    },
    Mutant {
        what: "rouse, the signals' words slept on", file: INTERRUPT,
        from: "self.signals().map(|signal| signal.word())",
        to: "std::iter::empty()",
        caught_by: "the_watcher_wakes_a_sleeper_who_may_be_cancelled_too",
    },
    Mutant {
        what: "rouse, each signal's word slept on", file: INTERRUPT,
        from: "self.signals().map(|signal| signal.word())",
        to: "self.signals().take(1).map(|signal| signal.word())",
        caught_by: "the_watcher_wakes_a_sleeper_who_may_be_cancelled_too",
    },
    Mutant {
        what: "raised, release", file: INTERRUPT,
        from: "self.raised.store(1, Ordering::Release)",
        to: "self.raised.store(1, Ordering::Relaxed)",
        caught_by: "who_learns_of_a_cancellation_sees_what_came_before_it",
    },
    Mutant {
        what: "raised, acquire", file: INTERRUPT,
        from: "self.raised.load(Ordering::Acquire)",
        to: "self.raised.load(Ordering::Relaxed)",
        caught_by: "who_learns_of_a_cancellation_sees_what_came_before_it",
    },
    Mutant {
        what: "unsynchronised publish, release", file: UNSYNC,
        from: "self.ring.memory.written().store(self.written, Ordering::Release)",
        to: "self.ring.memory.written().store(self.written, Ordering::Relaxed)",
        caught_by: "an_overtaken_reader_never_takes_a_new_item_for_an_old_one",
    },
    Mutant {
        what: "unsynchronised publish, acquire", file: UNSYNC,
        from: "        fence(Ordering::Acquire);\n        let ahead",
        to: "        let ahead",
        caught_by: "an_overtaken_reader_never_takes_a_new_item_for_an_old_one",
    },
    Mutant {
        what: "doom, the writer's fence", file: UNSYNC,
        from: "        fence(Ordering::Release);\n",
        to: "",
        caught_by: "an_overtaken_reader_never_takes_a_new_item_for_an_old_one",
    },
    Mutant {
        what: "doom, the reader's fence", file: UNSYNC,
        from: "        fence(Ordering::Acquire);\n        // Relaxed: ordered",
        to: "        // Relaxed: ordered",
        caught_by: "an_overtaken_reader_never_takes_a_new_item_for_an_old_one",
    },
    Mutant {
        what: "doom, taken over by a successor", file: UNSYNC,
        from: "let begun = if trusted { mark } else",
        to: "let begun = if trusted { written } else",
        caught_by: "what_a_dead_writer_has_not_published_is_never_read",
    },
    Mutant {
        what: "doom, never lowered", file: UNSYNC,
        from: "let ahead = (bytes as u64).max(self.begun.wrapping_sub(self.written));",
        to: "let ahead = bytes as u64;",
        caught_by: "what_a_dead_writer_has_not_published_is_never_read",
    },
    Mutant {
        what: "burst word, looked for before the packet", file: LISTENER,
        from: "        if self.mailbox.has_pending() {\n",
        to: "        if parsed.is_none() && self.mailbox.has_pending() {\n",
        caught_by: "a_slot_used_anew_is_never_the_memory_before",
    },
    Mutant {
        what: "burst word, reset before it is taken", file: MAILBOX,
        from: "        self.interrupt.reset();\n        let mut pending = lock(&self.pending);\n        Pending { freed: std::mem::take(&mut pending.freed), stop: pending.stop }\n",
        to: "        let mut pending = lock(&self.pending);\n        let taken = Pending { freed: std::mem::take(&mut pending.freed), stop: pending.stop };\n        drop(pending);\n        self.interrupt.reset();\n        taken\n",
        caught_by: "a_slot_used_anew_is_never_the_memory_before",
    },
    Mutant {
        what: "burst slot, told before it is free", file: SLOTS,
        from: "        // Outside the lock: the driver may",
        to: "        self.table().free.push(slot);\n        // Outside the lock: the driver may",
        caught_by: "a_memory_that_goes_elsewhere_while_a_request_is_in_flight_harms_nobody",
    },
    Mutant {
        what: "burst request given up, keeps its memory", file: FLIGHT,
        from: "InFlight::Submitted(frame) => InFlight::Forgotten(frame),",
        to: "InFlight::Submitted(mut frame) => { frame.inner().kept.clear(); InFlight::Forgotten(frame) }",
        caught_by: "a_cancelled_request_leaves_nothing_to_the_next",
    },
    Mutant {
        what: "pool open, release", file: POOL,
        from: "<< JOB | OPEN, Ordering::Release)",
        to: "<< JOB | OPEN, Ordering::Relaxed)",
        caught_by: "the_owner_sees_what_helpers_did_in_every_job",
    },
    Mutant {
        what: "pool open, acquire", file: POOL,
        from: "            Ordering::Acquire,\n            Ordering::Relaxed,\n",
        to: "            Ordering::Relaxed,\n            Ordering::Relaxed,\n",
        caught_by: "the_owner_sees_what_helpers_did_in_every_job",
    },
    Mutant {
        what: "pool leave, release", file: POOL,
        from: "fetch_sub(1, Ordering::Release)",
        to: "fetch_sub(1, Ordering::Relaxed)",
        caught_by: "the_owner_sees_what_helpers_did_in_every_job",
    },
    Mutant {
        what: "pool leave, acquire when closing", file: POOL,
        from: "fetch_and(!OPEN, Ordering::Acquire)",
        to: "fetch_and(!OPEN, Ordering::Relaxed)",
        caught_by: "the_owner_sees_what_helpers_did_in_every_job",
    },
    Mutant {
        what: "pool leave, acquire when waiting", file: POOL,
        from: "state = self.handoff.state.load(Ordering::Acquire)",
        to: "state = self.handoff.state.load(Ordering::Relaxed)",
        caught_by: "the_owner_sees_what_helpers_did_in_every_job",
    },
    Mutant {
        what: "pool sleep, the owner's fence", file: POOL,
        from: "        fence(Ordering::SeqCst);\n        self.wake_sleepers();\n        Opened",
        to: "        self.wake_sleepers();\n        Opened",
        caught_by: "a_helper_that_sleeps_is_woken_by_the_next_job",
    },
    Mutant {
        what: "pool sleep, the helper's fence", file: POOL,
        from: "            fence(Ordering::SeqCst);\n            let now",
        to: "            let now",
        caught_by: "a_helper_that_sleeps_is_woken_by_the_next_job",
    },
    Mutant {
        what: "handle object, release when unlocked", file: HANDLES,
        from: "self.slot.word.swap(self.leave, Ordering::Release)",
        to: "self.slot.word.swap(self.leave, Ordering::Relaxed)",
        caught_by: "one_thread_at_a_time_works_with_an_object",
    },
    Mutant {
        what: "handle object, release when put in", file: HANDLES,
        from: "slot.word.store(generation << STATE_BITS | LIVE, Ordering::Release)",
        to: "slot.word.store(generation << STATE_BITS | LIVE, Ordering::Relaxed)",
        caught_by: "a_handle_that_was_passed_on_without_care_finds_the_whole_object",
    },
    Mutant {
        what: "handle object, acquire", file: HANDLES,
        from: "compare_exchange(live, locked, Ordering::Acquire, Ordering::Relaxed)",
        to: "compare_exchange(live, locked, Ordering::Relaxed, Ordering::Relaxed)",
        caught_by: "one_thread_at_a_time_works_with_an_object",
    },
    Mutant {
        what: "handle place, of the generation before", file: HANDLES,
        from: "self.leave = next << STATE_BITS | EMPTY;",
        to: "self.leave = (next - 1) << STATE_BITS | EMPTY;",
        caught_by: "a_place_that_is_used_again_is_never_the_object_before",
    },
    Mutant {
        what: "turns, one more than there are cores", file: RUNNING,
        from: "(word + left < processor.cores).then_some(word + 1)",
        to: "(word + left <= processor.cores).then_some(word + 1)",
        caught_by: "one_that_waits_goes_on_when_the_core_is_free",
    },
    Mutant {
        what: "turns, an end past those who are held up", file: RUNNING,
        from: "(word < ONE_ABOVE).then_some(word - u64::from(is_at_work))",
        to: "Some(word - u64::from(is_at_work))",
        caught_by: "one_that_waits_goes_on_when_the_core_is_free",
    },
    Mutant {
        what: "turns, an end that the lock's holder misses", file: PROCESSOR,
        from: "if !self.has_room.load(Ordering::Relaxed) {",
        to: "if true {",
        caught_by: "one_that_waits_goes_on_when_the_core_is_free",
    },
];

/// Runs all of them, or those whose description contains one of `args`.
pub(crate) fn run(args: &[String]) -> Outcome {
    let copy = copy()?;
    let unchanged = test(&copy, None)?;
    if !unchanged.0 {
        return Err(format!("the models fail on the unchanged code:\n{}", unchanged.1));
    }
    let mut escaped = Vec::new();
    for mutant in MUTANTS {
        if !args.is_empty() && !args.iter().any(|arg| mutant.what.contains(arg.as_str())) {
            continue;
        }
        let caught = try_mutant(&copy, mutant)?;
        let verdict = if caught { "caught by" } else { "ESCAPED" };
        println!("{:<40} {verdict} {}", mutant.what, mutant.caught_by);
        if !caught {
            escaped.push(mutant.what);
        }
    }
    if escaped.is_empty() { Ok(()) } else { Err(format!("not caught: {}", escaped.join("; "))) }
}

impl Mutant {
    /// # Errors
    /// What is weakened isn't in its file, or more than once.
    fn check(&self, text: &str) -> Outcome {
        let Self { what, file, from, .. } = self;
        match text.matches(from).count() {
            1 => Ok(()),
            count => Err(format!("{what}: {file} has `{}` {count} times, not once", from.trim())),
        }
    }
}

/// Returns whether the model fails on the mutant.
fn try_mutant(copy: &Path, mutant: &Mutant) -> Result<bool, String> {
    let Mutant { what, file, from, to, caught_by } = mutant;
    let path = copy.join(file);
    let original = read(&path)?;
    mutant.check(&original)?;
    write(&path, &original.replace(from, to))?;
    let result = test(copy, Some(caught_by));
    write(&path, &original)?;
    let (passed, said) = result?;
    if said.contains("could not compile") {
        return Err(format!("{what}: the mutant does not compile:\n{said}"));
    }
    if !passed && !said.contains(&format!("{caught_by} ... FAILED")) {
        return Err(format!("{what}: something else failed:\n{said}"));
    }
    if passed && !said.contains("1 passed") {
        return Err(format!("{what}: there is no model {caught_by}"));
    }
    Ok(!passed)
}

/// Runs the models in the copy: all of them, or one.
fn test(copy: &Path, model: Option<&str>) -> Result<(bool, String), String> {
    let cargo =
        Cargo::new("loom").args(["test", "--offline", "--package", "loom-tests", "--tests"]);
    let target = root().join("target").join("loom-mutants");
    let cargo = configure(cargo).env("CARGO_TARGET_DIR", target).in_folder(copy);
    match model {
        Some(model) => cargo.args(["--no-fail-fast", "--", "--exact", model]).ask(),
        None => cargo.ask(),
    }
}

/// A workspace of what the models check and of the models only, under the target folder.
fn copy() -> Result<PathBuf, String> {
    let (from, to) = (root(), root().join("target").join("loom-mutants-source"));
    let included = ["driver/src/processor", "executor/src/session", "ndk/src/handle"];
    for folder in ["fmq", "hal", "burst", "loom-tests"].into_iter().chain(included) {
        copy_folder(&from.join(folder), &to.join(folder))?;
    }
    let manifest = read(&from.join("Cargo.toml"))?;
    let (Some(start), Some(rest)) =
        (manifest.find("members = ["), manifest.find("[workspace.package]"))
    else {
        return Err("Cargo.toml has no list of members".into());
    };
    let head = manifest.get(..start).unwrap_or_default();
    let tail = manifest.get(rest..).unwrap_or_default();
    let members = "members = [\"fmq\", \"hal\", \"burst\", \"loom-tests\"]\n\n";
    write(&to.join("Cargo.toml"), &format!("{head}{members}{tail}"))?;
    write(&to.join("Cargo.lock"), &read(&from.join("Cargo.lock"))?)?;
    Ok(to)
}

/// Copies what changed, so that cargo rebuilds no more than it must.
fn copy_folder(from: &Path, to: &Path) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(failed)?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            let bytes = fs::read(entry.path()).map_err(failed)?;
            if fs::read(&target).ok().as_ref() != Some(&bytes) {
                fs::write(&target, bytes).map_err(failed)?;
            }
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code that moves takes its mutants along.
    #[test]
    fn what_mutants_weaken_is_where_they_look() {
        for mutant in MUTANTS {
            mutant.check(&read(&root().join(mutant.file)).unwrap()).unwrap();
        }
    }
}
