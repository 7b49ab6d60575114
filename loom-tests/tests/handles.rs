//! The C library's table of handles: objects that threads put in, work with and take out.
#![cfg(loom)]

#[path = "../../ndk/src/handle/sync.rs"]
mod sync;
#[path = "../../ndk/src/handle/table.rs"]
mod table;

use loom::thread;

use table::{Busy, Find, HandlePlace, Table};

/// A table that lives as long as the program, as those of the library do.
fn table() -> &'static Table<u32> {
    Box::leak(Box::new(Table::new()))
}

/// Adds to the object of a place, waiting for it; `None` where there is none any more.
fn add(table: &'static Table<u32>, place: HandlePlace, number: u32) -> Option<u32> {
    let Find::Slot(slot) = table.find(place) else { return None };
    let mut locked = slot.lock(place.generation)?;
    Some(locked.work(|object| {
        let object = object.unwrap();
        *object += number;
        *object
    }))
}

#[test]
fn one_thread_at_a_time_works_with_an_object() {
    loom::model(|| {
        let table = table();
        let place = table.insert(0).unwrap();
        let other = thread::spawn(move || add(table, place, 1).unwrap());
        add(table, place, 10).unwrap();
        other.join().unwrap();
        assert_eq!(table.remove(place), Some(11));
    });
}

#[test]
fn an_object_that_is_freed_is_taken_once_and_worked_with_no_more() {
    loom::model(|| {
        let table = table();
        let place = table.insert(7).unwrap();
        let other = thread::spawn(move || table.remove(place));
        let added = add(table, place, 1);
        let taken = other.join().unwrap();
        assert_eq!(taken, Some(if added.is_some() { 8 } else { 7 }));
        assert_eq!(table.remove(place), None, "it was freed");
    });
}

#[test]
fn a_place_that_is_used_again_is_never_the_object_before() {
    loom::model(|| {
        let table = table();
        let stale = table.insert(1).unwrap();
        let other = thread::spawn(move || {
            let _ = table.remove(stale);
            table.insert(2).unwrap()
        });
        if let Find::Slot(slot) = table.find(stale) {
            match slot.try_lock(stale.generation) {
                Ok(mut locked) => locked.work(|object| assert_eq!(object.copied(), Some(1))),
                Err(Busy::Locked | Busy::Other) => {}
            }
        }
        let new = other.join().unwrap();
        assert_eq!(new.at, stale.at, "the list of free places hands it over");
        assert_eq!(add(table, new, 1), Some(3));
        assert_eq!(add(table, stale, 1), None);
    });
}

#[test]
fn objects_that_two_threads_put_in_have_places_of_their_own() {
    loom::model(|| {
        let table = table();
        let other = thread::spawn(move || table.insert(1).unwrap());
        let ours = table.insert(2).unwrap();
        let theirs = other.join().unwrap();
        assert_ne!(ours, theirs);
        assert_eq!((table.remove(theirs), table.remove(ours)), (Some(1), Some(2)));
    });
}

#[test]
fn a_handle_that_was_passed_on_without_care_finds_the_whole_object() {
    loom::model(|| {
        let table = table();
        let other = thread::spawn(move || {
            // As the first object's handle will be.
            match table.find(HandlePlace { at: 0, generation: 0 }) {
                Find::Slot(slot) => slot.try_lock(0).ok()?.work(|object| object.copied()),
                Find::Nothing | Find::OfParent => None,
            }
        });
        table.insert(7).unwrap();
        let found = other.join().unwrap();
        assert!(matches!(found, None | Some(7)), "{found:?}");
    });
}
