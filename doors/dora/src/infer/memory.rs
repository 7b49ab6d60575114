//! The states of recurrent models, for each source by itself.

use std::collections::HashMap;

/// The values of a model's states.
pub(crate) type States = Vec<Vec<u8>>;

/// The states of a model's sources. They are outside of the driver, so its death loses none.
#[derive(Debug)]
pub(crate) struct SourceStates {
    initial: States,
    sources: HashMap<String, Remembered>,
    most: usize,
    /// Counts uses, for the one that lies furthest back.
    clock: u64,
}

#[derive(Debug)]
struct Remembered {
    states: States,
    used: u64,
}

impl SourceStates {
    /// Room for the states of so many sources, which begin with these.
    pub(crate) fn new(initial: States, most: usize) -> Self {
        Self { initial, sources: HashMap::new(), most: most.max(1), clock: 0 }
    }

    /// The states of a source: those that its last frame left, or the first.
    pub(crate) fn recall(&self, source: &str) -> &States {
        self.sources.get(source).map_or(&self.initial, |kept| &kept.states)
    }

    /// Keeps what a frame left. Of too many sources, the one that had no frame for the longest
    /// time is forgotten.
    pub(crate) fn keep(&mut self, source: &str, states: &[Vec<u8>]) {
        if self.initial.is_empty() {
            return;
        }
        self.clock += 1;
        if let Some(kept) = self.sources.get_mut(source) {
            kept.used = self.clock;
            for (kept, new) in kept.states.iter_mut().zip(states) {
                kept.clone_from(new);
            }
            return;
        }
        if self.sources.len() >= self.most {
            let oldest = self.sources.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.sources.remove(&name);
            }
        }
        let remembered = Remembered { states: states.to_vec(), used: self.clock };
        self.sources.insert(source.to_owned(), remembered);
    }

    /// Has a source begin anew.
    pub(crate) fn forget(&mut self, source: &str) {
        self.sources.remove(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_states_of_their_own_and_the_idlest_is_forgotten() {
        let mut memory = SourceStates::new(vec![vec![0]], 2);
        memory.keep("a", &[vec![1]]);
        memory.keep("b", &[vec![2]]);
        assert_eq!((memory.recall("a"), memory.recall("b")), (&vec![vec![1]], &vec![vec![2]]));
        memory.keep("a", &[vec![3]]);
        memory.keep("c", &[vec![4]]);
        assert_eq!(memory.recall("b"), &vec![vec![0]], "the idlest");
        assert_eq!(memory.recall("a"), &vec![vec![3]]);
        memory.forget("a");
        assert_eq!(memory.recall("a"), &vec![vec![0]]);
    }
}
