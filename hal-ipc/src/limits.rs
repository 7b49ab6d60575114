//! What one client may have of a service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nnburst_hal::{ErrorStatus, HalError, Result};

/// Limits per client. What a client gives back makes room again, so that going beyond a limit is
/// `RESOURCE_EXHAUSTED_TRANSIENT`; what could never fit is `RESOURCE_EXHAUSTED_PERSISTENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections of one user at a time.
    pub connections: u64,
    /// Prepared models of one connection, those in preparation included.
    pub prepared_models: u64,
    /// Driver-managed buffers of one connection.
    pub buffers: u64,
    /// Bursts of one connection.
    pub bursts: u64,
    /// Fenced executions whose callback the client still holds.
    pub fenced_executions: u64,
    /// Executions at a time of one connection, fenced ones and bursts apart.
    pub executions: u64,
    /// Bytes of models and buffers of one connection.
    pub memory_bytes: u64,
    /// Bytes of one message.
    pub message_bytes: u64,
    /// Bytes of one connection's messages that wait or are at work.
    pub call_bytes: u64,
    /// File descriptors that came over one connection and are still in use: by calls that wait or are at work, by
    /// executions, and by bursts, whose memories count until their slots are freed.
    pub descriptors: u64,
    /// Threads that serve one connection's calls.
    pub threads: u64,
    /// Calls of one connection that wait for a thread.
    pub waiting_calls: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            prepared_models: 256,
            buffers: 1024,
            bursts: 64,
            fenced_executions: 256,
            executions: 64,
            memory_bytes: 4 << 30,
            message_bytes: 64 << 20,
            call_bytes: 256 << 20,
            descriptors: 1024,
            threads: 4,
            waiting_calls: 256,
        }
    }
}

/// How much of one limit is in use.
#[derive(Debug)]
pub(crate) struct Allowance {
    what: &'static str,
    limit: u64,
    used: AtomicU64,
}

impl Allowance {
    pub(crate) fn new(what: &'static str, limit: u64) -> Arc<Self> {
        Arc::new(Self { what, limit, used: AtomicU64::new(0) })
    }

    /// Takes `amount` until the charge and its clones are dropped.
    pub(crate) fn take(self: &Arc<Self>, amount: u64) -> Result<Charge> {
        // Relaxed: the count guards a figure, not memory.
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(amount).filter(|&sum| sum <= self.limit)
        });
        match taken {
            Ok(_) => Ok(Charge(Arc::new(Taken { of: Arc::clone(self), amount }))),
            Err(used) => {
                let status = if amount > self.limit {
                    ErrorStatus::ResourceExhaustedPersistent
                } else {
                    ErrorStatus::ResourceExhaustedTransient
                };
                let Self { what, limit, .. } = **self;
                let reason = format!("{amount} more {what} than the {used} in use exceed {limit}");
                Err(HalError::new(status, reason))
            }
        }
    }
}

/// A part of an allowance, given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Charge(#[expect(dead_code, reason = "held for its end")] Arc<Taken>);

#[derive(Debug)]
struct Taken {
    of: Arc<Allowance>,
    amount: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Relaxed: as in `take`. Never below zero: every charge was added once.
        self.of.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let allowance = Allowance::new("models", 3);
        let two = allowance.take(2).unwrap();
        let status = |amount| allowance.take(amount).unwrap_err().status;
        assert_eq!(status(2), ErrorStatus::ResourceExhaustedTransient);
        assert_eq!(status(4), ErrorStatus::ResourceExhaustedPersistent);
        assert_eq!(status(u64::MAX), ErrorStatus::ResourceExhaustedPersistent);
        drop(two);
        allowance.take(3).unwrap();
    }
}
