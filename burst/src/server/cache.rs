//! The driver's slot cache: from a slot number in a packet to what an executor keeps for it.
//!
//! A slot is filled once and then hit on every frame, so a hit costs a bounds check and a load.
//! Slot numbers come from the client: there are at most [`MAX_SLOTS`] of them, and an unknown one
//! is an error of that request, never a reason to grow.

/// Slots that a burst may have at a time; a client with more memories runs some of them the
/// ordinary way.
pub const MAX_SLOTS: usize = 4096;

/// The values that are kept per slot: a memory, a mapping, whatever an executor needs to find at
/// once.
#[derive(Debug)]
pub struct SlotCache<T> {
    slots: Vec<Option<T>>,
}

impl<T> SlotCache<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// The value that is kept for `slot`.
    #[inline]
    pub fn get(&self, slot: i32) -> Option<&T> {
        self.slots.get(usize::try_from(slot).ok()?)?.as_ref()
    }

    /// Keeps `value` for `slot`; gives it back if there is no such slot.
    ///
    /// # Errors
    /// `value`, for a negative number and those from [`MAX_SLOTS`] on, and where there is no memory
    /// to keep it in.
    pub fn insert(&mut self, slot: i32, value: T) -> Result<(), T> {
        let Some(index) = usize::try_from(slot).ok().filter(|&index| index < MAX_SLOTS) else {
            return Err(value);
        };
        if index >= self.slots.len() {
            let wanted = index.saturating_add(1);
            if self.slots.try_reserve(wanted.saturating_sub(self.slots.len())).is_err() {
                return Err(value);
            }
            self.slots.resize_with(wanted, || None);
        }
        if let Some(entry) = self.slots.get_mut(index) {
            *entry = Some(value);
        }
        Ok(())
    }

    /// Stops keeping anything for `slot`, and returns what was kept.
    pub fn remove(&mut self, slot: i32) -> Option<T> {
        self.slots.get_mut(usize::try_from(slot).ok()?)?.take()
    }
}

impl<T> Default for SlotCache<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_slot_numbers_are_refused_and_found_nowhere() {
        let mut cache = SlotCache::new();
        for slot in [-1, i32::MIN, i32::MAX, i32::try_from(MAX_SLOTS).unwrap()] {
            assert_eq!(cache.insert(slot, ()), Err(()), "{slot}");
            assert_eq!(cache.get(slot), None);
            assert_eq!(cache.remove(slot), None);
        }
    }

    #[test]
    fn a_slot_keeps_the_last_value_until_it_is_freed() {
        let mut cache = SlotCache::new();
        cache.insert(7, 'a').unwrap();
        cache.insert(7, 'b').unwrap();
        assert_eq!((cache.get(7), cache.get(6)), (Some(&'b'), None));
        assert_eq!((cache.remove(7), cache.remove(7)), (Some('b'), None));
    }
}
