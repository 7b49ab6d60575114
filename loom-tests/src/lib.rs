//! Model checks: loom runs the queue, the bursts, the hand-over of jobs in a thread pool, the turns
//! of executions and the table of handles that ship (their atomics, fences, locks and sleeping
//! come through `sync` modules) in every interleaving of their threads, and in every order that the
//! memory model allows, up to three preemptions; two where a model has two frames.
//!
//! `cargo xtask loom` runs them; nothing here is built otherwise. `tests/ring.rs` is the ring by
//! itself, `tests/waiting.rs` sleeping and waking, where a lost wake shows as a deadlock;
//! `tests/bursts/` a burst's controller and server over both queues, the listener's thread
//! included. `tests/pool.rs`, `tests/turns.rs` and `tests/handles.rs` include the files of the
//! executor, the driver and the C library that threads race in, so that nothing else of these is
//! built under loom.
//!
//! # Every ordering, and the model that fails without it
//!
//! `cargo xtask loom-mutants` weakens each of these in a copy (an access to `Relaxed`; a fence is
//! taken out) and expects the model to fail. What is `Relaxed` in the code already is not in the
//! table, and says there why.
//!
//! In `fmq/src/ring.rs`:
//!
//! | edge, and what is weakened | model that fails |
//! |---|---|
//! | publish: store release | `a_batch_arrives_whole_or_not_at_all` |
//! | publish: load acquire | `a_batch_arrives_whole_or_not_at_all` |
//! | retire: store release | `nothing_is_lost_duplicated_or_reordered` |
//! | retire: load acquire | `nothing_is_lost_duplicated_or_reordered` |
//! | publish: load when attaching | `a_consumer_that_attaches_sees_the_items_it_counts` |
//! | retire: load when attaching | `a_producer_that_attaches_leaves_unread_items_alone` |
//!
//! In `fmq/src/event_flag.rs`:
//!
//! | edge, and what is weakened | model that fails |
//! |---|---|
//! | sleep: the waker's fence | `a_sleeping_reader_is_woken_by_one_who_looks` |
//! | sleep: the waiter's fence | `a_sleeping_reader_is_woken_by_one_who_looks` |
//! | sleep: the unconditional fetch_or | `a_sleeping_reader_is_woken_unconditionally` |
//! | bits: the waker's fetch_or | `a_bit_of_ones_own_hands_over_what_came_before_it` |
//! | bits: the waiter's fence | `a_bit_of_ones_own_hands_over_what_came_before_it` |
//!
//! In `fmq/src/interrupt.rs`:
//!
//! | edge, and what is weakened | model that fails |
//! |---|---|
//! | rouse: the raiser's wake | `cancellation_wakes_a_sleeping_reader` |
//! | rouse: the store before the wake | `cancellation_wakes_a_sleeping_writer` |
//! | rouse: each signal's word slept on | `the_watcher_wakes_a_sleeper_who_may_be_cancelled_too` |
//! | raised: store release | `who_learns_of_a_cancellation_sees_what_came_before_it` |
//! | raised: load acquire | `who_learns_of_a_cancellation_sees_what_came_before_it` |
//!
//! In `fmq/src/unsync/cursor.rs`, the unsynchronised flavour:
//!
//! | edge, and what is weakened | model that fails |
//! |---|---|
//! | its publish: release | `an_overtaken_reader_never_takes_a_new_item_for_an_old_one` |
//! | its publish: acquire | `an_overtaken_reader_never_takes_a_new_item_for_an_old_one` |
//! | doom: the writer's fence | `an_overtaken_reader_never_takes_a_new_item_for_an_old_one` |
//! | doom: the reader's fence | `an_overtaken_reader_never_takes_a_new_item_for_an_old_one` |
//! | doom: taken over, never lowered | `what_a_dead_writer_has_not_published_is_never_read` |
//!
//! In `executor/src/session/handoff.rs`, the jobs of a thread pool:
//!
//! | edge, and what is weakened | model that fails |
//! |---|---|
//! | open: store release | `the_owner_sees_what_helpers_did_in_every_job` |
//! | open: exchange acquire | `the_owner_sees_what_helpers_did_in_every_job` |
//! | leave: release | `the_owner_sees_what_helpers_did_in_every_job` |
//! | leave: acquire when closing, waiting | `the_owner_sees_what_helpers_did_in_every_job` |
//! | sleep: the owner's fence | `a_helper_that_sleeps_is_woken_by_the_next_job` |
//! | sleep: the helper's fence | `a_helper_that_sleeps_is_woken_by_the_next_job` |
//!
//! In `ndk/src/handle/table.rs`, what the handles of the C library stand for:
//!
//! | edge, and what is weakened | model that fails |
//! |---|---|
//! | object: release when unlocked | `one_thread_at_a_time_works_with_an_object` |
//! | object: release, new | `a_handle_that_was_passed_on_without_care_finds_the_whole_object` |
//! | object: acquire | `one_thread_at_a_time_works_with_an_object` |
//! | the next generation of a place | `a_place_that_is_used_again_is_never_the_object_before` |
//!
//! In `driver/src/processor/turns/mod.rs`, who of all users' executions is at work, the words are
//! `SeqCst` and what can be weakened is their use:
//!
//! - one begins only while a core is free: `one_that_waits_goes_on_when_the_core_is_free`.
//! - one that ends looks for those who are held up: the same.
//!
//! A burst hands over through the queue, locks and the `raised` edge alone and has no orderings of
//! its own. What can be weakened there is the order of its steps; each with the
//! model that fails without it:
//!
//! - word is looked for after the packet is seen (`burst/src/server/listener.rs`):
//!   `a_slot_used_anew_is_never_the_memory_before`.
//! - the interrupt is reset before word is taken (`burst/src/server/mailbox.rs`):
//!   `a_slot_used_anew_is_never_the_memory_before`.
//! - a slot is free after the driver was told (`burst/src/client/slots.rs`):
//!   `a_memory_that_goes_elsewhere_while_a_request_is_in_flight_harms_nobody`.
//! - a request given up keeps its memories (`burst/src/client/controller/mod.rs`):
//!   `a_cancelled_request_leaves_nothing_to_the_next`.
//!
//! # What the models can't show
//!
//! loom doesn't watch who reads an atomic before it has learnt where that lies: the `chunk` edge of
//! the table of handles hands over such, and has no model that fails without it.
//!
//! loom treats `SeqCst` accesses as acquire and release, which is why the code relies on fences
//! where it needs more. It doesn't reorder a load after a later store. Time does not pass: a
//! deadline counts as over when it is first asked about. The kernel's futex is a mutex and a
//! condition variable here; the epoll bridge (`readiness.rs`), which waits in the kernel only, is
//! tested on real threads.
