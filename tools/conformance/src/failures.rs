//! Why a case that has to fail has to: which rule it breaks.

use nnburst_hal::OperationType;

use crate::Case;

impl Case {
    /// Words that the error of an expected failure must contain, so that it fails for the rule that
    /// it breaks and not for something else. `None` where nothing is known about the case but that
    /// it must fail.
    ///
    /// Loops that never end are told by their status instead; see [`Case::loops_forever`].
    pub fn broken_rule(&self) -> Option<&'static [&'static str]> {
        if !self.expect_failure || self.loops_forever() {
            return None;
        }
        let known = |(spec, operation, words): &Rule| {
            (self.spec.contains(spec) && self.has_operation(*operation)).then_some(*words)
        };
        RULES.iter().find_map(known)
    }
}

/// Part of a specification's name, its operation, and what has to be said.
type Rule = (&'static str, OperationType, &'static [&'static str]);

const RULES: &[Rule] = &[
    // The first extent of the filter must be 1.
    ("invalid_filter_dims", OperationType::DepthwiseConv2d, &["DEPTHWISE_CONV_2D", "a filter of"]),
    // An image has four extents.
    ("invalid_rank", OperationType::Conv2d, &["CONV_2D", "rank"]),
    // The output has the input's shape.
    ("mismatching_shapes", OperationType::Cast, &["CAST", "SameShape"]),
    // At most four extents.
    ("concat", OperationType::Concatenation, &["CONCATENATION", "rank"]),
];

#[cfg(test)]
mod tests {
    use crate::{load_dir, shared_dir};

    #[test]
    fn every_expected_failure_is_explained() {
        let Some(folder) = shared_dir("conformance") else {
            return;
        };
        let cases = load_dir(folder).unwrap().map(Result::unwrap);
        let failing: Vec<_> = cases.filter(|case| case.expect_failure).collect();
        assert!(!failing.is_empty());
        for case in failing {
            assert!(case.loops_forever() != case.broken_rule().is_some(), "{}", case.name);
        }
    }
}
