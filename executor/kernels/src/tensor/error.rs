//! Errors of operations.

/// An operation that breaks one of its rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// An operand of it is not as it must be.
    #[error("input {index}: {what}")]
    Input {
        /// Position among the operation's inputs.
        index: usize,
        /// The rule, with the figures.
        what: String,
    },
    /// A result of it is not as it must be.
    #[error("output {index}: {what}")]
    Output {
        /// Position among the operation's outputs.
        index: usize,
        /// The rule, with the figures.
        what: String,
    },
    /// The operands don't fit together.
    #[error("{0}")]
    Rule(String),
}

impl OpError {
    /// The operands don't fit together in the way told.
    #[cold]
    #[inline(never)]
    pub fn rule(what: impl Into<String>) -> Self {
        Self::Rule(what.into())
    }

    /// An input breaks the rule told.
    #[cold]
    #[inline(never)]
    pub fn input(index: usize, what: impl Into<String>) -> Self {
        Self::Input { index, what: what.into() }
    }

    /// An output breaks the rule told.
    #[cold]
    #[inline(never)]
    pub fn output(index: usize, what: impl Into<String>) -> Self {
        Self::Output { index, what: what.into() }
    }
}
