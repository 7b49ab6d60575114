//! The limits of one client of a service.

use nnburst_hal::{Amounts, Resource};

/// Limits per client. What a client gives back makes room again, so that going beyond a limit is
/// `RESOURCE_EXHAUSTED_TRANSIENT`; what could never fit is `RESOURCE_EXHAUSTED_PERSISTENT`.
///
/// Beside these, all clients of a user and all users together share [`ProcessLimits`].
///
/// [`ProcessLimits`]: crate::ProcessLimits
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
    /// Bytes of messages, models, plans, sessions and buffers of one connection.
    pub memory_bytes: u64,
    /// Bytes of one message.
    pub message_bytes: u64,
    /// Bytes of one connection's messages that arrive, wait or are at work.
    pub call_bytes: u64,
    /// File descriptors that came over one connection and are still in use: by calls that arrive,
    /// wait or are at work, by executions, and by bursts, whose memories count until their slots
    /// are freed.
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

impl Limits {
    /// Those of a user.
    pub(crate) fn of_user(&self) -> Amounts {
        Amounts::UNLIMITED
            .with(Resource::Connections, self.connections)
            .with(Resource::Greetings, self.connections)
    }

    /// Those of a connection.
    pub(crate) fn of_connection(&self) -> Amounts {
        Amounts::UNLIMITED
            .with(Resource::PreparedModels, self.prepared_models)
            .with(Resource::Buffers, self.buffers)
            .with(Resource::Bursts, self.bursts)
            .with(Resource::FencedExecutions, self.fenced_executions)
            .with(Resource::Executions, self.executions)
            .with(Resource::Memory, self.memory_bytes)
            .with(Resource::CallBytes, self.call_bytes)
            .with(Resource::Descriptors, self.descriptors)
    }
}
