//! Fenced executions: of drivers that only launch them, and of those that would wait on a thread of
//! the client's.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::{
    Charge, ExecutionOptions, FencedExecutionCallback, HalError, PreparedModel, Request, Resource,
    Result, try_collect, unsignalled_fences,
};

use super::objects::{Charges, Held, Object};
use super::session::Session;
use crate::connection::{Connection, too_busy};
use crate::fences::has_signalled;
use crate::wire::{DescriptorsIn, FencedBody, RequestBody};

/// A fenced execution as it came.
pub(super) struct FencedCall {
    pub(super) model: u64,
    pub(super) request: RequestBody,
    pub(super) wait_for: Vec<u16>,
    pub(super) options: ExecutionOptions,
    pub(super) duration: Option<Duration>,
}

/// The client's object of one that was launched.
pub(super) struct FencedObject {
    pub(super) callback: Arc<dyn FencedExecutionCallback>,
    /// Ours of the fence that the client was given.
    fence: Option<OwnedFd>,
}

impl Session {
    /// Launches, and answers: at once where the driver waits in the background, else once its
    /// fences have signalled. No thread that answers calls is held up by a fence.
    ///
    /// # Errors
    /// It was not launched, and nothing was answered.
    pub(super) fn execute_fenced(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        id: u64,
        call: FencedCall,
        fds: &mut DescriptorsIn,
        message: Charge,
    ) -> Result<()> {
        let FencedCall { model, request, wait_for, options, duration } = call;
        // Its own fence, and ours of it.
        let counts = [(Resource::FencedExecutions, 1), (Resource::Descriptors, 2)];
        let fenced = self.budget().take_all(&counts)?;
        self.peer().count_execution()?;
        let request = self.request(request, fds)?;
        let mut fences = try_collect(wait_for.iter().map(|&at| fds.take(at)))?;
        // What it runs on is in use until it ends, whatever the client lets go of before.
        let mut charges = self.objects.charges(model);
        let taken = fds.take_charges();
        charges.extend([fenced, message].into_iter().chain(taken).map(Arc::new));
        let model = self.objects.model(model)?;
        let background = model.waits_in_background();
        let (session, connection) = (Arc::clone(self), Arc::clone(connection));
        let launch = Launch { session, connection, id, model, request, options, duration, charges };
        if !background {
            fences = unsignalled_fences(fences)?;
        }
        if background || fences.is_empty() {
            launch.go(fences);
            return Ok(());
        }
        self.fences.wait(fences, options.deadline, move |ready| launch.after(ready))
    }

    /// Drops an object that the client let go of. What a fenced execution takes stays taken until
    /// it is over.
    pub(super) fn let_go(&self, held: Held) {
        let running = match held.object() {
            Object::Fenced(fenced) => fenced.fence.as_ref().and_then(|fence| {
                has_signalled(fence)
                    .is_ok_and(|signalled| !signalled)
                    .then(|| fence.try_clone().ok())?
            }),
            _ => None,
        };
        if let Some(fence) = running {
            // Without a thread to wait it is given back early.
            let _ = self.fences.wait(vec![fence], None, move |_| drop(held));
        }
    }
}

/// An execution on its way to the driver.
struct Launch {
    session: Arc<Session>,
    connection: Arc<Connection>,
    id: u64,
    model: Arc<dyn PreparedModel>,
    request: Request,
    options: ExecutionOptions,
    duration: Option<Duration>,
    charges: Charges,
}

impl Launch {
    /// Its fences have signalled, or won't.
    fn after(self, ready: Result<()>) {
        let (session, id) = (Arc::clone(&self.session), self.id);
        let connection = Arc::clone(&self.connection);
        let refused = match ready {
            Err(error) => Some(error),
            Ok(()) => {
                let submitted = connection.pool().submit(move || self.go(Vec::new()));
                (!submitted).then(too_busy)
            }
        };
        if let Some(error) = refused {
            session.note(Some(&error));
            connection.answer_error(id, error);
        }
    }

    /// Calls the driver, and answers.
    fn go(self, fences: Vec<OwnedFd>) {
        let (session, id) = (Arc::clone(&self.session), self.id);
        let connection = Arc::clone(&self.connection);
        let launched = catch_unwind(AssertUnwindSafe(|| self.launch(fences)));
        match launched.unwrap_or_else(|_| Err(panicked())) {
            Err(error) => {
                session.note(Some(&error));
                connection.answer_error(id, error);
            }
            Ok((object, fence)) => {
                let body = FencedBody { object, fence: fence.as_ref().map(|_| 0) };
                let fds: Vec<_> = fence.iter().map(AsFd::as_fd).collect();
                connection.answer(id, &Ok(body), &fds);
            }
        }
    }

    fn launch(self, fences: Vec<OwnedFd>) -> Result<(u64, Option<OwnedFd>)> {
        let Self { session, model, request, options, duration, charges, .. } = self;
        let execution = model.execute_fenced(request, fences, options, duration)?;
        let fence = execution.sync_fence.as_ref().map(OwnedFd::try_clone).transpose();
        let fence = fence.map_err(|error| HalError::failure(format!("dup: {error}")))?;
        let fenced = FencedObject { callback: execution.callback, fence };
        let object = session.objects.insert(Object::Fenced(Arc::new(fenced)), charges)?;
        Ok((object, execution.sync_fence))
    }
}

pub(super) fn panicked() -> HalError {
    HalError::failure("the driver panicked over the call")
}
