//! Requests that are checked and mapped once and executed many times, by callers in the driver's
//! own process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::{
    AllowUnspecifiedOutput, ErrorStatus, ExecutionOptions, HalError, OutputShape, Request,
    RequestPool, Result, ReusableExecution, Timing,
};

use crate::compiled::Compiled;
use crate::execution::{self, Pool};

/// A request of clients' memories alone: what a driver's buffers hold is looked at anew each time.
#[derive(Debug)]
pub(crate) struct Reusable {
    compiled: Arc<Compiled>,
    /// Its pools are left out: they come with every execution.
    request: Request,
    /// Filled only while it runs.
    pools: Vec<Pool>,
    shapes: Vec<OutputShape>,
}

impl Reusable {
    pub(crate) fn new(compiled: &Arc<Compiled>, request: &Request) -> Option<Self> {
        if request.pools.iter().any(|pool| matches!(pool, RequestPool::Token(_))) {
            return None;
        }
        execution::check(compiled, request, AllowUnspecifiedOutput::Yes).ok()?;
        let (inputs, outputs) = (request.inputs.clone(), request.outputs.clone());
        let request = Request { inputs, outputs, pools: Vec::new() };
        let compiled = Arc::clone(compiled);
        Some(Self { compiled, request, pools: Vec::new(), shapes: Vec::new() })
    }

    /// A panic costs this execution its result and its session.
    fn run(&mut self, options: &ExecutionOptions) -> Result<Timing> {
        let Self { compiled, request, pools, shapes } = self;
        compiled.check_origin()?;
        let began = compiled.clock(options);
        compiled.check_deadline(options, Duration::ZERO)?;
        let mut scratch = compiled.scratch();
        let session = &mut scratch.session;
        let ran = execution::run(compiled, session, request, pools, options, began);
        let has_shapes = match &ran {
            Ok(_) => true,
            Err(error) => error.status == ErrorStatus::OutputInsufficientSize,
        };
        if has_shapes {
            execution::copy_shapes(session.output_shapes(), shapes);
        }
        compiled.give_back(scratch);
        ran
    }

    fn map(&mut self, pools: &[RequestPool]) -> Result<()> {
        for pool in pools {
            let RequestPool::Memory(memory) = pool else {
                return Err(HalError::invalid("a driver's buffer among memories"));
            };
            self.pools.push(Pool::map(memory)?);
        }
        Ok(())
    }
}

impl ReusableExecution for Reusable {
    fn compute(&mut self, pools: &[RequestPool], options: &ExecutionOptions) -> Result<Timing> {
        let mapped = self.map(pools);
        let run = AssertUnwindSafe(|| mapped.and_then(|()| self.run(options)));
        let ran =
            catch_unwind(run).unwrap_or_else(|_| Err(HalError::failure("the driver panicked")));
        // Their owner's to keep.
        self.pools.clear();
        ran
    }

    fn output_shapes(&self) -> &[OutputShape] {
        &self.shapes
    }
}
