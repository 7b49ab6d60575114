//! Packed weights: the one thing of a plan that is costly to make and worth keeping in a file.
//!
//! ```text
//!   compile:  kernel ─ Packed::new(bytes, fill) ─► fill packs ──► Packs, by operation
//!   restore:  kernel ─ Packed::new(bytes, fill) ─► found in the file's bytes, `fill` is not called
//! ```
//!
//! Kernels ask for their weights deep inside their constructors and need to know nothing of caches,
//! so the operation that is being lowered is told by a scope of the thread ([`Packs::during`])
//! rather than by an argument of every constructor. Outside a scope, weights are simply packed.
//!
//! What is packed may hold numbers to compute with, never lengths or positions: a file can be
//! tampered with, and may at worst give wrong values.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nnburst_hal::Budget;

use crate::tensor::memory::Slab;
use crate::tensor::{AlignedBytes, NoMemory};

/// The weights: of which operation, packed how. The order of asking tells several of one kernel
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    graph: usize,
    operation: usize,
    ordinal: usize,
    kernel: &'static str,
}

/// Weights as a kernel wants them; they start at a multiple of 64, are not written again, and
/// clones share them.
#[derive(Clone, Debug)]
pub struct Packed(Arc<AlignedBytes>);

impl Packed {
    /// `bytes` zeros that `fill` packs, or what a cache has of the operation that is being lowered.
    /// `kernel` names the layout: weights of another name are never taken for these. `None` where
    /// there is no memory for them: the plan then fails with what [`Packs::take_failure`] tells.
    pub fn new(
        kernel: &'static str,
        bytes: usize,
        fill: impl FnOnce(&mut AlignedBytes),
    ) -> Option<Self> {
        let scope = SCOPE.with_borrow_mut(|scope| scope.as_mut().map(|scope| scope.next(kernel)));
        if let Some((packs, key)) = &scope
            && let Some(found) = packs.find(*key, bytes)
        {
            return Some(found);
        }
        let mut made = match &scope {
            Some((packs, _)) => packs.room(bytes)?,
            None => AlignedBytes::try_zeroed(bytes)?,
        };
        fill(&mut made);
        let made = Self(Arc::new(made));
        Some(match scope {
            Some((packs, key)) => packs.keep(key, made),
            None => made,
        })
    }

    /// The packed bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// The bytes as elements; what is left over at the end is left out.
    pub fn typed<T: crate::tensor::Element>(&self) -> &[T] {
        self.0.typed()
    }
}

/// The packed weights of a plan.
#[derive(Debug, Default)]
pub struct Packs {
    made: Mutex<Vec<(Key, Packed)>>,
    /// The memory that they lie in, one behind the other.
    slab: Mutex<Slab>,
    /// The contents of a cache, by entry without the place. A kernel's name is its hash.
    cached: Option<HashMap<PackedEntry, Packed>>,
    /// Weights were asked for that the cache lacks: what was packed instead may be of constants
    /// that it lacks as well. Relaxed: looked at by the thread that set it, or told in another way.
    missed: AtomicBool,
    /// Why weights were not packed.
    failure: Mutex<Option<NoMemory>>,
}

/// The place of an operation's packed weights in a compilation cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct PackedEntry {
    /// The graph: 0 is the main graph.
    pub graph: u32,
    /// Position of the operation in the graph.
    pub operation: u32,
    /// The number of these among the operation's packed weights, in the order it asks for them.
    pub ordinal: u32,
    /// Hash of the layout's name.
    pub kernel: u32,
    /// First byte; a multiple of 64.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Packs {
    /// Those that a cache has. `None` where an entry reaches beyond the bytes, or starts at none
    /// that a vector may start at.
    pub fn cached(entries: &[PackedEntry], bytes: &Arc<AlignedBytes>) -> Option<Self> {
        let mut cached = HashMap::with_capacity(entries.len());
        let mut before: Vec<(u32, Packed)> = Vec::new();
        for &entry in entries {
            let start = usize::try_from(entry.offset).ok()?;
            let part = AlignedBytes::part_of(bytes, start, usize::try_from(entry.length).ok()?)?;
            let latest = before.iter().rev().take(LOOK_BACK);
            let others = latest.filter(|(kernel, _)| *kernel == entry.kernel);
            let packed = equal(others.map(|(_, kept)| kept), Arc::new(part));
            before.push((entry.kernel, packed.clone()));
            cached.insert(PackedEntry { offset: 0, ..entry }, packed);
        }
        Some(Self { cached: Some(cached), ..Self::default() })
    }

    /// Weights that are asked for while `lower` runs belong to this operation.
    pub fn during<R>(
        self: &Arc<Self>,
        graph: usize,
        operation: usize,
        lower: impl FnOnce() -> R,
    ) -> R {
        /// Puts back what was there, also if lowering panics.
        struct Restore(Option<Scope>);
        impl Drop for Restore {
            fn drop(&mut self) {
                SCOPE.set(self.0.take());
            }
        }
        let scope = Scope { packs: Arc::clone(self), graph, operation, ordinal: 0 };
        let _restore = Restore(SCOPE.replace(Some(scope)));
        lower()
    }

    /// Returns whether weights were asked for that the cache lacks.
    pub fn missed(&self) -> bool {
        self.missed.load(Ordering::Relaxed)
    }

    /// The same, with what is packed from now on charged to a budget.
    pub fn charged_to(mut self, budget: Option<&Arc<Budget>>) -> Self {
        self.slab = Mutex::new(Slab::charged_to(budget));
        self
    }

    /// Zeros for weights to be packed; without memory for them that is noted.
    fn room(&self, bytes: usize) -> Option<AlignedBytes> {
        let zeroed = self.slab.lock().unwrap_or_else(PoisonError::into_inner).zeroed(bytes);
        zeroed.map_err(|error| *self.failure() = Some(error)).ok()
    }

    fn failure(&self) -> MutexGuard<'_, Option<NoMemory>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why weights could not be packed since this was asked last.
    pub fn take_failure(&self) -> Option<NoMemory> {
        self.failure().take()
    }

    /// Has huge pages for the weights that were packed so far, sooner or later.
    ///
    /// # Safety
    /// None is being packed meanwhile.
    pub unsafe fn settle(&self) {
        let mut slab = self.slab.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: packed weights are not written again.
        unsafe { slab.settle() };
    }

    fn find(&self, key: Key, bytes: usize) -> Option<Packed> {
        let cached = self.cached.as_ref()?;
        let found = cached.get(&key.entry(0, bytes)?);
        if found.is_none() {
            self.missed.store(true, Ordering::Relaxed);
        }
        found.cloned()
    }

    /// Keeps weights for a cache. Where an operation had the very same before, as the steps of an
    /// unrolled sequence have, those are given back: the cells then find them in the first caches.
    fn keep(&self, key: Key, packed: Packed) -> Packed {
        if self.cached.is_some() {
            return packed;
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(other, kept): &&(Key, Packed)| {
            other.kernel == key.kernel && kept.as_slice() == packed.as_slice()
        };
        let packed = match made.iter().rev().take(LOOK_BACK).find(same) {
            Some((_, kept)) => {
                let kept = kept.clone();
                if let Some(again) = Arc::into_inner(packed.0) {
                    self.slab.lock().unwrap_or_else(PoisonError::into_inner).give_back(again);
                }
                kept
            }
            None => packed,
        };
        made.push((key, packed.clone()));
        packed
    }

    /// All that is packed so far, each once, in the order of the operations.
    pub fn in_order(&self) -> Vec<Packed> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = made.iter().map(|(_, packed)| packed.clone()).collect();
        if let Some(cached) = &self.cached {
            all.extend(cached.values().cloned());
            // Those of a cache lie in that order.
            all.sort_unstable_by_key(|packed| packed.as_slice().as_ptr());
        }
        let mut seen = HashSet::new();
        all.retain(|packed| seen.insert(packed.as_slice().as_ptr()));
        all
    }

    /// The weights packed so far, one behind the other, and the place of each.
    pub fn lay_out(&self) -> (Vec<PackedEntry>, Vec<Packed>) {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut offset = 0usize;
        let mut place = |(key, packed): &(Key, Packed)| {
            let entry = key.entry(offset, packed.as_slice().len())?;
            offset = offset.checked_add(packed.as_slice().len())?;
            offset = offset.checked_next_multiple_of(crate::tensor::memory::ALIGN)?;
            Some((entry, packed.clone()))
        };
        made.iter().map_while(&mut place).unzip()
    }
}

/// The number of the latest weights that new ones are compared with: more than a step of a sequence
/// has, and few enough that a model of many can't make it long.
const LOOK_BACK: usize = 8;

/// The first of some weights that are the same as these; or these.
fn equal<'a>(mut others: impl Iterator<Item = &'a Packed>, these: Arc<AlignedBytes>) -> Packed {
    let same = |other: &&Packed| other.as_slice() == these.as_slice();
    others.find(same).cloned().unwrap_or_else(|| Packed(these))
}

impl Key {
    fn entry(self, offset: usize, length: usize) -> Option<PackedEntry> {
        Some(PackedEntry {
            graph: u32::try_from(self.graph).ok()?,
            operation: u32::try_from(self.operation).ok()?,
            ordinal: u32::try_from(self.ordinal).ok()?,
            kernel: hash(self.kernel),
            offset: u64::try_from(offset).ok()?,
            length: u64::try_from(length).ok()?,
        })
    }
}

/// FNV-1a.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

struct Scope {
    packs: Arc<Packs>,
    graph: usize,
    operation: usize,
    ordinal: usize,
}

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

impl Scope {
    fn next(&mut self, kernel: &'static str) -> (Arc<Packs>, Key) {
        let key =
            Key { graph: self.graph, operation: self.operation, ordinal: self.ordinal, kernel };
        self.ordinal += 1;
        (Arc::clone(&self.packs), key)
    }
}

#[cfg(test)]
mod tests {
    use nnburst_hal::{Amounts, Resource};

    use super::*;

    fn filled(kernel: &'static str, bytes: usize, with: u8) -> Packed {
        Packed::new(kernel, bytes, |out| out.as_mut_slice().fill(with)).unwrap()
    }

    #[test]
    fn what_was_packed_is_found_again_by_operation_order_and_kernel() {
        let packs = Arc::new(Packs::default());
        packs.during(0, 7, || (filled("a", 100, 1), filled("a", 3, 2)));
        packs.during(1, 7, || filled("b", 64, 3));
        let outside = filled("a", 5, 4);
        assert_eq!(outside.as_slice(), [4; 5]);
        let first = packs.during(0, 8, || filled("c", 64, 5));
        let second = packs.during(0, 9, || filled("c", 64, 5));
        assert_eq!(first.as_slice().as_ptr(), second.as_slice().as_ptr(), "the same are shared");

        let (entries, packed) = packs.lay_out();
        assert_eq!(entries.iter().map(|e| e.offset).collect::<Vec<_>>(), [0, 128, 192, 256, 320]);
        let mut bytes = AlignedBytes::zeroed(384);
        for (entry, packed) in entries.iter().zip(&packed) {
            let at = usize::try_from(entry.offset).unwrap();
            bytes.as_mut_slice()[at..][..packed.as_slice().len()]
                .copy_from_slice(packed.as_slice());
        }
        let again = Arc::new(Packs::cached(&entries, &Arc::new(bytes)).unwrap());
        again.during(0, 7, || {
            assert_eq!(filled("a", 100, 9).as_slice(), [1; 100]);
            assert_eq!(filled("a", 3, 9).as_slice(), [2; 3]);
        });
        assert_eq!(again.during(1, 7, || filled("b", 64, 9)).as_slice(), [3; 64]);
        assert!(!again.missed());
        assert_eq!(again.during(1, 7, || filled("c", 64, 9)).as_slice(), [9; 64], "other kernel");
        assert!(again.missed());
    }

    #[test]
    fn weights_without_memory_are_none_and_the_reason_is_kept() {
        let budget = Budget::root("test", Amounts::UNLIMITED.with(Resource::Memory, 2000));
        let packs = Arc::new(Packs::default().charged_to(Some(&budget)));
        let pack = |bytes| packs.during(0, 0, || Packed::new("a", bytes, |_| ()).is_some());
        assert!(pack(1500) && packs.take_failure().is_none());
        assert!(!pack(1500));
        assert!(matches!(packs.take_failure(), Some(NoMemory::Exhausted(_))));
        assert!(packs.take_failure().is_none());
    }

    #[test]
    fn entries_outside_the_bytes_are_refused() {
        let entry = |offset, length| PackedEntry {
            graph: 0,
            operation: 0,
            ordinal: 0,
            kernel: 0,
            offset,
            length,
        };
        let bytes = Arc::new(AlignedBytes::zeroed(128));
        for (what, entry) in [
            ("past the end", entry(64, 65)),
            ("not aligned", entry(4, 4)),
            ("overflow", entry(u64::MAX - 63, 128)),
        ] {
            assert!(Packs::cached(&[entry], &bytes).is_none(), "{what}");
        }
        assert!(Packs::cached(&[entry(64, 64)], &bytes).is_some());
    }
}
