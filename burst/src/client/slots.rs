//! The client's slots: which number stands for which memory, and the answer to a driver that asks.
//!
//! Three parties use the table: the controller binds memories when it meets new ones, the driver
//! asks for memories while a request is underway, and memories tell when they go. None of that
//! happens on the way of a frame whose memories are known, so a lock does.
//!
//! A number is used again only after the driver confirmed that it forgot the old memory.
//!
//! The confirmation is an answer over the control connection, so whoever delivers the driver's
//! questions must not wait for it: its thread may be the one that reads answers. Yet such a thread
//! can hold the last handle of a memory, namely one that it is just lending to the driver. What
//! goes there is put off until the controller's next turn.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use nnburst_hal::{
    BurstCallback, BurstContext, HalError, Memory, MemoryObserver, Result, WeakMemory,
};

use crate::packet::BurstPool;
use crate::server::MAX_SLOTS;
use crate::sync::{self, AtomicBool, Mutex, MutexGuard, lock};

sync::thread_local! {
    /// `true` if this thread delivers questions of drivers.
    #[cfg_attr(not(loom), expect(clippy::missing_const_for_thread_local, reason = "loom's has none"))]
    static DELIVERS: Cell<bool> = Cell::new(false);
}

#[derive(Default)]
pub(super) struct Slots {
    table: Mutex<Table>,
    /// `true` if slots in [`Table::put_off`] wait for the controller. A hint: what is missed now is
    /// seen next time.
    has_put_off: AtomicBool,
    /// True while the controller waits for an answer. A hint, looked at every few seconds.
    is_waiting: AtomicBool,
    /// The driver's end, known once the burst is open. Weak: the driver's end holds this as its
    /// callback.
    context: OnceLock<Weak<dyn BurstContext>>,
}

#[derive(Debug, Default)]
struct Table {
    /// By slot number.
    bound: Vec<Option<Bound>>,
    /// Slots to use again, the most recently freed last.
    free: Vec<i32>,
    /// Slots without a memory of which the driver was not told yet.
    put_off: Vec<i32>,
    /// Ids of memories that went since the controller last asked.
    gone: Vec<u64>,
}

#[derive(Debug)]
struct Bound {
    id: u64,
    /// Weak, because a burst does not keep its user's memory; requests underway do.
    memory: WeakMemory,
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Slots {
    /// Tells where freed slots are to be reported. Does nothing the second time.
    pub(super) fn set_context(&self, context: &Arc<dyn BurstContext>) {
        // Set once: each controller has its own slots.
        let _ = self.context.set(Arc::downgrade(context));
    }

    /// The slot of `memory`: the one it has, else the most recently freed, else the next new one.
    /// `None` where all are taken.
    pub(super) fn bind(self: &Arc<Self>, memory: &Memory) -> Option<i32> {
        let mut table = self.table();
        if let Some(slot) = table.slot_of(memory.id()) {
            return Some(slot);
        }
        let slot = match table.free.pop() {
            Some(slot) => slot,
            None if table.bound.len() < MAX_SLOTS => {
                table.bound.push(None);
                i32::try_from(table.bound.len().saturating_sub(1)).ok()?
            }
            None => return None,
        };
        let entry = table.bound.get_mut(usize::try_from(slot).ok()?)?;
        *entry = Some(Bound { id: memory.id(), memory: memory.downgrade() });
        drop(table);
        let observer: Arc<dyn MemoryObserver> = Arc::<Self>::clone(self);
        memory.observe(Arc::downgrade(&observer));
        Some(slot)
    }

    /// Notes whether an answer is waited for.
    #[inline]
    pub(super) fn set_waiting(&self, is_waiting: bool) {
        // Relaxed: a flag that hands nothing over.
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Ids that need not be remembered any more.
    pub(super) fn take_gone(&self) -> Vec<u64> {
        std::mem::take(&mut self.table().gone)
    }

    /// Takes the slot of a memory away from it and has the driver forget it; then the slot is free.
    pub(super) fn release(&self, id: u64) {
        let slot = {
            let mut table = self.table();
            let Some(slot) = table.slot_of(id) else { return };
            if let Some(entry) = usize::try_from(slot).ok().and_then(|i| table.bound.get_mut(i)) {
                *entry = None;
            }
            table.gone.push(id);
            if DELIVERS.with(Cell::get) {
                table.put_off.push(slot);
                self.has_put_off.store(true, Ordering::Relaxed);
                return;
            }
            slot
        };
        self.tell(slot);
    }

    /// Tells the driver of slots that were put off. Costs a load where there are none.
    #[inline]
    pub(super) fn tell_put_off(&self) {
        // Relaxed: the lock hands the list over.
        if self.has_put_off.load(Ordering::Relaxed) {
            self.has_put_off.store(false, Ordering::Relaxed);
            let slots = std::mem::take(&mut self.table().put_off);
            slots.into_iter().for_each(|slot| self.tell(slot));
        }
    }

    /// Has the driver forget a slot that has no memory any more, and frees it. Where the driver
    /// doesn't confirm it in time, that is put off.
    fn tell(&self, slot: i32) {
        // Outside the lock: the driver may be asking for memories right now.
        let context = self.context.get().and_then(Weak::upgrade);
        if context.is_none_or(|context| context.try_free_memory(slot)) {
            self.table().free.push(slot);
            return;
        }
        self.table().put_off.push(slot);
        // Relaxed: the lock hands the list over.
        self.has_put_off.store(true, Ordering::Relaxed);
    }

    /// The memories behind a packet's slots.
    pub(super) fn memories_of(&self, pools: &[BurstPool]) -> Vec<Memory> {
        let table = self.table();
        let memory = |pool: &BurstPool| match *pool {
            BurstPool::Slot(slot) => table.memory(slot),
            BurstPool::Token(_) => None,
        };
        // None is the last handle: the caller lends them all.
        pools.iter().filter_map(memory).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

impl Table {
    fn slot_of(&self, id: u64) -> Option<i32> {
        let is_it = |bound: &Option<Bound>| bound.as_ref().is_some_and(|bound| bound.id == id);
        i32::try_from(self.bound.iter().position(is_it)?).ok()
    }

    fn memory(&self, slot: i32) -> Option<Memory> {
        let bound = self.bound.get(usize::try_from(slot).ok()?)?.as_ref()?;
        bound.memory.upgrade()
    }
}

impl BurstCallback for Slots {
    fn memories(&self, slots: &[i32]) -> Result<Vec<Memory>> {
        DELIVERS.with(|delivers| delivers.set(true));
        if slots.len() > MAX_SLOTS {
            let asked = slots.len();
            return Err(HalError::invalid(format!("{asked} slots, of at most {MAX_SLOTS}")));
        }
        // Looked up under the lock, dropped outside of it: the last handle of a memory that goes
        // comes back to `release`.
        let found: Vec<Option<Memory>> = {
            let table = self.table();
            slots.iter().map(|&slot| table.memory(slot)).collect()
        };
        let lent = found.iter().zip(slots).map(|(memory, slot)| {
            let unknown = || HalError::invalid(format!("slot {slot} has no memory"));
            lend(memory.as_ref().ok_or_else(unknown)?)
        });
        lent.collect()
    }

    fn awaits_answer(&self) -> bool {
        // Relaxed: as in `set_waiting`.
        self.is_waiting.load(Ordering::Relaxed)
    }
}

/// A handle of its own for the driver: one in this process too must not keep its client's memory
/// from going.
fn lend(memory: &Memory) -> Result<Memory> {
    let fd = memory.fd().try_clone_to_owned();
    let fd = fd.map_err(|error| HalError::exhausted(format!("no descriptor to lend: {error}")))?;
    let ints = memory.ints().to_vec();
    Ok(Memory::from_handle(memory.kind().name(), vec![fd], ints, memory.size())?)
}

impl MemoryObserver for Slots {
    fn memory_gone(&self, id: u64) {
        self.release(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Driver(Mutex<Vec<i32>>);

    impl BurstContext for Driver {
        fn free_memory(&self, slot: i32) {
            self.0.lock().unwrap().push(slot);
        }
    }

    fn slots() -> (Arc<Slots>, Arc<Driver>) {
        let (slots, driver) = (Arc::<Slots>::default(), Arc::new(Driver(Mutex::default())));
        let context: Arc<dyn BurstContext> = Arc::<Driver>::clone(&driver);
        slots.set_context(&context);
        (slots, driver)
    }

    #[test]
    fn slots_count_up_and_the_most_recently_freed_is_used_first() {
        let (slots, driver) = slots();
        let mut memories: Vec<_> = (0..4).map(|_| Memory::ashmem(1).unwrap()).collect();
        let bound: Vec<_> = memories.iter().map(|memory| slots.bind(memory)).collect();
        assert_eq!(bound, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(slots.bind(&memories[2]), Some(2), "the same memory keeps its slot");

        let gone = [memories[1].id(), memories[3].id()];
        memories.remove(1);
        memories.remove(2);
        assert_eq!(*driver.0.lock().unwrap(), [1, 3], "dropping a memory tells the driver");
        assert_eq!(slots.take_gone(), gone);
        let again: Vec<_> = (0..3).map(|_| Memory::ashmem(1).unwrap()).collect();
        let bound: Vec<_> = again.iter().map(|memory| slots.bind(memory)).collect();
        assert_eq!(bound, [Some(3), Some(1), Some(4)]);
    }

    #[test]
    fn a_driver_is_told_known_memories_and_nothing_else() {
        let (slots, _driver) = slots();
        let (a, b) = (Memory::ashmem(1).unwrap(), Memory::ashmem(2).unwrap());
        slots.bind(&a).unwrap();
        slots.bind(&b).unwrap();
        let lent = slots.memories(&[1, 0, 1]).unwrap();
        assert_eq!(lent.iter().map(Memory::size).collect::<Vec<_>>(), [2, 1, 2]);
        assert!(!lent.contains(&a), "handles of their own");
        assert_eq!(slots.memories(&[]).unwrap(), []);
        for unknown in [[0, -1], [0, 2], [0, i32::MAX], [0, i32::MIN]] {
            let error = slots.memories(&unknown).unwrap_err();
            assert_eq!(error.status, nnburst_hal::ErrorStatus::InvalidArgument, "{unknown:?}");
        }
        slots.release(a.id());
        slots.release(a.id());
        assert!(slots.memories(&[0]).is_err(), "freed, though the memory lives");
    }

    #[test]
    fn who_delivers_questions_never_waits_for_the_driver() {
        let (slots, driver) = slots();
        let memory = Memory::ashmem(1).unwrap();
        slots.bind(&memory).unwrap();
        let delivering = Arc::clone(&slots);
        let told = std::thread::spawn(move || {
            delivering.memories(&[0]).unwrap();
            drop(memory); // the last handle
            let told = driver.0.lock().unwrap().len();
            (told, driver)
        });
        let (told, driver) = told.join().unwrap();
        assert_eq!(told, 0);
        slots.tell_put_off();
        assert_eq!(*driver.0.lock().unwrap(), [0]);
        assert_eq!(slots.bind(&Memory::ashmem(1).unwrap()), Some(0), "free again");
    }
}
