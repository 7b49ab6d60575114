//! Drivers with one fault each, on top of the CPU driver.

use std::any::Any;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use nnburst_driver::{CpuDriver, CpuDriverOptions};
use nnburst_hal::*;
use nnburst_hal_ipc::{Peer, Service, inherited, service_dir};

/// What is wrong with a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    DiesAtTheSeventhExecution,
    DiesWhenItsClientHasGone,
    SleepsInPrepare,
    SleepsInExecute,
    WrongEveryThousandth,
    WrongWithThreeAtOnce,
    OtherBitsInBursts,
    NotDeterministic,
    LeaksDescriptors,
    LeaksMemory,
    RefusesConvolutions,
    AcceptsAnything,
    LateByFifthOfASecond,
    SlowBesideCompilations,
    ReturnsAfterThreeSeconds,
    PrintsMarkup,
    HangsWhenAsked,
    TooFewAnswers,
    ExitsInUse,
    ComputesNothing,
    AnswersNoNumbers,
    LeaksThreads,
    OutlivesItsClient,
    ForgetsTheCallback,
    WritesLate,
    MeasuresUnasked,
    AnswersTheLastRequest,
    BusyAtRest,
}

pub(crate) const ALL: [Fault; 29] = [
    Fault::None,
    Fault::DiesAtTheSeventhExecution,
    Fault::DiesWhenItsClientHasGone,
    Fault::SleepsInPrepare,
    Fault::SleepsInExecute,
    Fault::WrongEveryThousandth,
    Fault::WrongWithThreeAtOnce,
    Fault::OtherBitsInBursts,
    Fault::NotDeterministic,
    Fault::LeaksDescriptors,
    Fault::LeaksMemory,
    Fault::RefusesConvolutions,
    Fault::AcceptsAnything,
    Fault::LateByFifthOfASecond,
    Fault::SlowBesideCompilations,
    Fault::ReturnsAfterThreeSeconds,
    Fault::PrintsMarkup,
    Fault::HangsWhenAsked,
    Fault::TooFewAnswers,
    Fault::ExitsInUse,
    Fault::ComputesNothing,
    Fault::AnswersNoNumbers,
    Fault::LeaksThreads,
    Fault::OutlivesItsClient,
    Fault::ForgetsTheCallback,
    Fault::WritesLate,
    Fault::MeasuresUnasked,
    Fault::AnswersTheLastRequest,
    Fault::BusyAtRest,
];

/// The name that [`serve_in_directory`] serves under.
pub(crate) const INSTANCE: &str = "faulty";

struct Driver {
    fault: Fault,
    inner: Arc<dyn Device>,
    shared: Arc<Shared>,
}

/// What the models of a driver count together.
#[derive(Default)]
struct Shared {
    executions: AtomicUsize,
    at_once: AtomicUsize,
    preparing: AtomicUsize,
    /// The last answer of each size.
    answers: Mutex<HashMap<usize, Vec<u8>>>,
}

fn service(fault: Fault) -> Service {
    let inner = CpuDriver::new(CpuDriverOptions::default()).device();
    let device: Arc<dyn Device> = Arc::new(Driver { fault, inner, shared: Arc::default() });
    Service::new(INSTANCE, move |_: &Peer| Arc::clone(&device))
}

/// Serves the client at the other end of standard input.
pub(crate) fn serve(fault: Fault) {
    if fault == Fault::BusyAtRest {
        std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    service(fault).serve(inherited(0).unwrap());
    match fault {
        Fault::DiesWhenItsClientHasGone => die(),
        Fault::OutlivesItsClient => sleep_for_ever(),
        _ => {}
    }
}

/// Serves in the directory of services; after a first life, three seconds later.
pub(crate) fn serve_in_directory(fault: Fault) {
    let dir = service_dir().unwrap();
    let lived = dir.join("lived");
    if fault == Fault::ReturnsAfterThreeSeconds && lived.exists() {
        std::thread::sleep(Duration::from_secs(3));
    }
    std::fs::write(lived, "").unwrap();
    let _serving = service(fault).listen(&dir).unwrap();
    loop {
        std::thread::park();
    }
}

/// Ends as a broken pointer does; the first signal only wakes the runtime's handler.
fn die() -> ! {
    loop {
        raise(Signal::SIGSEGV).unwrap();
    }
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

impl Device for Driver {
    fn capabilities(&self) -> Result<Capabilities> {
        self.inner.capabilities()
    }

    fn version_string(&self) -> Result<String> {
        self.inner.version_string()
    }

    fn device_type(&self) -> Result<DeviceType> {
        self.inner.device_type()
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        if self.fault == Fault::HangsWhenAsked {
            sleep_for_ever();
        }
        let mut taken = self.inner.supported_operations(model)?;
        if self.fault == Fault::TooFewAnswers {
            taken.pop();
        }
        if self.fault == Fault::RefusesConvolutions {
            for (taken, operation) in taken.iter_mut().zip(&model.main.operations) {
                *taken &= operation.kind != OperationType::Conv2d;
            }
        }
        Ok(taken)
    }

    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        _cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        match self.fault {
            Fault::SleepsInPrepare => sleep_for_ever(),
            Fault::LeaksMemory => {
                let leaked = vec![1_u8; 64 << 10];
                std::mem::forget(std::hint::black_box(leaked));
            }
            Fault::ForgetsTheCallback => return Ok(()),
            Fault::LeaksThreads => drop(std::thread::spawn(|| sleep_for_ever())),
            Fault::LeaksDescriptors => {
                std::mem::forget(std::fs::File::open("/dev/null").unwrap());
            }
            _ => {}
        }
        self.shared.preparing.fetch_add(1, Ordering::SeqCst);
        let made = wait_for_prepared_model(|callback| {
            self.inner.prepare_model(model, options, CacheHandles::default(), callback)
        });
        if self.fault == Fault::SlowBesideCompilations {
            let shared = Arc::clone(&self.shared);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(40));
                shared.preparing.fetch_sub(1, Ordering::SeqCst);
            });
        } else {
            self.shared.preparing.fetch_sub(1, Ordering::SeqCst);
        }
        let fault = self.fault;
        let shared = Arc::clone(&self.shared);
        callback.notify(match made {
            Ok(inner) => Ok(Arc::new(Prepared { fault, inner: Some(inner), shared })),
            Err(_) if fault == Fault::AcceptsAnything => {
                Ok(Arc::new(Prepared { fault, inner: None, shared }))
            }
            Err(error) => Err(error),
        });
        Ok(())
    }
}

struct Prepared {
    fault: Fault,
    inner: Option<Arc<dyn PreparedModel>>,
    shared: Arc<Shared>,
}

impl Prepared {
    fn inner(&self) -> Result<&Arc<dyn PreparedModel>> {
        self.inner.as_ref().ok_or_else(|| HalError::failure("nothing was prepared"))
    }

    /// Makes the first value of the first output another, or no number.
    fn spoil(&self, request: &Request) {
        let Some(output) = request.outputs.first() else { return };
        let RequestPool::Memory(memory) = &request.pools[output.location.pool_index as usize]
        else {
            return;
        };
        let mapping = memory.map(Access::ReadWrite).unwrap();
        let at = output.location.offset as usize;
        if self.fault == Fault::ComputesNothing {
            let size = output.location.length as usize;
            mapping.view_mut(at..at + size).unwrap().copy_from_slice(&vec![0; size]);
            return;
        }
        if self.fault == Fault::AnswersNoNumbers && output.location.length >= 4 {
            mapping.view_mut(at..at + 4).unwrap().copy_from_slice(&f32::NAN.to_le_bytes());
            return;
        }
        let mut byte = [0];
        memory.read_at(at as u64, &mut byte).unwrap();
        mapping.view_mut(at..at + 1).unwrap().copy_from_slice(&[byte[0] ^ 1]);
    }

    /// Writes the answer when the call is over, or the last one in its place.
    fn misplace(&self, request: &Request) {
        let Some(output) = request.outputs.first() else { return };
        let RequestPool::Memory(memory) = &request.pools[output.location.pool_index as usize]
        else {
            return;
        };
        let (at, size) = (output.location.offset as usize, output.location.length as usize);
        let mut answer = vec![0; size];
        memory.read_at(at as u64, &mut answer).unwrap();
        let mapping = memory.map(Access::ReadWrite).unwrap();
        let place = |bytes: &[u8]| {
            mapping.view_mut(at..at + size).unwrap().copy_from_slice(bytes);
        };
        if self.fault == Fault::AnswersTheLastRequest {
            let last = self.shared.answers.lock().unwrap().insert(size, answer);
            return last.into_iter().for_each(|last| place(&last));
        }
        place(&vec![0; size]);
        let memory = memory.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            let mapping = memory.map(Access::ReadWrite).unwrap();
            mapping.view_mut(at..at + size).unwrap().copy_from_slice(&answer);
        });
    }

    fn before(&self, number: usize) {
        match self.fault {
            Fault::DiesAtTheSeventhExecution if number == 7 => die(),
            Fault::PrintsMarkup if number == 7 => {
                eprintln!("<script>alert('from the driver')</script>");
                die();
            }
            Fault::ExitsInUse if number == 7 => std::process::exit(0),
            Fault::SleepsInExecute => sleep_for_ever(),
            Fault::SlowBesideCompilations if self.shared.preparing.load(Ordering::SeqCst) > 0 => {
                std::thread::sleep(Duration::from_millis(50));
            }
            _ => {}
        }
    }

    fn is_wrong(&self, number: usize, at_once: usize) -> bool {
        match self.fault {
            Fault::WrongEveryThousandth => number.is_multiple_of(1000),
            Fault::WrongWithThreeAtOnce => at_once >= 3,
            Fault::NotDeterministic => number.is_multiple_of(2),
            Fault::OtherBitsInBursts | Fault::AnswersNoNumbers | Fault::ComputesNothing => true,
            _ => false,
        }
    }
}

impl PreparedModel for Prepared {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        let number = self.shared.executions.fetch_add(1, Ordering::SeqCst) + 1;
        let at_once = self.shared.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.before(number);
        let late = options.deadline.filter(|_| self.fault == Fault::LateByFifthOfASecond);
        if let Some(deadline) = late {
            let end = Instant::now() + deadline.remaining().min(Duration::from_secs(1));
            while Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let mut options = options;
        if self.fault == Fault::MeasuresUnasked {
            options.measure = MeasureTiming::Yes;
        }
        let result = self.inner()?.execute_synchronously(request, options);
        if matches!(self.fault, Fault::WritesLate | Fault::AnswersTheLastRequest) {
            self.misplace(request);
        }
        if self.fault == Fault::WrongWithThreeAtOnce {
            // Long enough for others to come.
            std::thread::sleep(Duration::from_millis(1));
        }
        let most = self.shared.at_once.fetch_sub(1, Ordering::SeqCst).max(at_once);
        if self.is_wrong(number, most) {
            self.spoil(request);
        }
        result
    }

    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        _duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        wait_for_fences(&wait_for, None)?;
        self.execute_synchronously(&request, options).map_err(|failure| failure.error)?;
        Ok(FencedExecution::complete(FencedTiming::default()))
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        requests: nnburst_fmq::Descriptor,
        results: nnburst_fmq::Descriptor,
        options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        if self.fault != Fault::OtherBitsInBursts {
            return Err(HalError::failure("the driver has no bursts"));
        }
        self.inner()?.configure_execution_burst(callback, requests, results, options)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
