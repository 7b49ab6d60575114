//! Wait strategies.

/// The strategy by which the two ends of a burst wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// As the setting `burst-wait` says; where that says nothing, [`Wait::Block`] for `LOW_POWER`,
    /// else [`Wait::Adaptive`].
    #[default]
    Auto,
    /// Poll: the shortest latency, for a core each. Sleeps only after a second without a frame.
    Spin,
    /// Poll for about as long as recent waits took, while those are shorter than the setting
    /// `burst-window`; then sleep. Where frames or results come regularly, sleep only until shortly
    /// before the next one is due, and poll for it.
    Adaptive,
    /// Sleep at once: no core is burnt, every frame costs two wake-ups.
    Block,
}

impl Wait {
    /// The strategy that the setting `burst-wait` calls so.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "spin" => Some(Self::Spin),
            "adaptive" => Some(Self::Adaptive),
            "block" => Some(Self::Block),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_wait_have_names() {
        let named = ["auto", "spin", "adaptive", "block"].map(Wait::from_name);
        let all = [Wait::Auto, Wait::Spin, Wait::Adaptive, Wait::Block];
        assert_eq!(named, all.map(Some));
        assert_eq!(Wait::from_name("poll"), None);
    }
}
