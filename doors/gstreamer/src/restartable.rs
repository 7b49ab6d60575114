//! Objects made on a device, and their restart beside the stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gst::glib;
use gst::prelude::*;
use nnburst::RuntimeError;
use nnburst_doors_common::{Supervised, spawn_thread};

/// Something on a device. To open a device and to compile takes longer than a frame, so after the
/// driver's death a thread does it, and there is nothing for as long as that takes.
#[derive(Debug)]
pub(crate) struct Restartable<T> {
    state: State<T>,
    /// The element whose bus gets warnings.
    element: glib::WeakRef<gst::Element>,
    /// True if the bus knows why there is nothing.
    is_told: bool,
}

#[derive(Debug)]
enum State<T> {
    Ready(Box<Supervised<T>>),
    Restarting(Restart<T>),
    /// There is no thread to restart it, or it panicked; the log says so.
    Lost,
}

#[derive(Debug)]
struct Restart<T> {
    thread: JoinHandle<Box<Supervised<T>>>,
    /// Has the thread end before it succeeds.
    is_cancelled: Arc<AtomicBool>,
}

/// The pause between attempts to restart a driver, which the supervisor makes longer.
const RETRY: Duration = Duration::from_millis(50);

impl<T: Send + 'static> Restartable<T> {
    /// Something that has been made for an element.
    pub(crate) fn new(supervised: Supervised<T>, element: &impl IsA<gst::Element>) -> Self {
        Self {
            state: State::Ready(Box::new(supervised)),
            element: element.upcast_ref().downgrade(),
            is_told: false,
        }
    }

    /// The thing; `None` while its driver is being restarted, or where it can't be made or used: in
    /// a forked child, for one. The element's bus gets the reason, once.
    pub(crate) fn get(&mut self) -> Option<&mut T> {
        if matches!(&self.state, State::Restarting(restart) if restart.thread.is_finished())
            && let State::Restarting(restart) = std::mem::replace(&mut self.state, State::Lost)
            && let Ok(supervised) = restart.thread.join()
        {
            self.state = State::Ready(supervised);
        }
        let State::Ready(supervised) = &mut self.state else { return None };
        let made = supervised.get();
        let was_told = std::mem::replace(&mut self.is_told, made.is_err());
        if let (Err(error), false, Some(element)) = (&made, was_told, self.element.upgrade()) {
            warn(&element, &error.to_string());
        }
        made.ok()
    }

    /// Restarts a driver whose death `error` stands for. The element's bus gets a warning, and
    /// `report` the process of the new driver.
    pub(crate) fn restart<E: IsA<gst::Element> + Send + Sync>(
        &mut self,
        element: &E,
        error: RuntimeError,
        report: impl Fn(&E, Option<u32>) + Send + 'static,
    ) {
        let State::Ready(mut supervised) = std::mem::replace(&mut self.state, State::Lost) else {
            return;
        };
        let weak = element.downgrade();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&is_cancelled);
        let restart = move || {
            if let Some(recovery) = supervised.recover(&error)
                && let Some(element) = weak.upgrade()
            {
                warn(&element, &recovery.to_string());
            }
            // Relaxed: the flag hands nothing over.
            while supervised.get().is_err() && !cancelled.load(Ordering::Relaxed) {
                std::thread::sleep(RETRY);
            }
            if let Some(element) = weak.upgrade() {
                report(&element, supervised.device().and_then(nnburst::Device::driver_process));
            }
            supervised
        };
        match spawn_thread("nnburst-restart", restart) {
            Ok(thread) => self.state = State::Restarting(Restart { thread, is_cancelled }),
            Err(error) => {
                warn(element, &format!("the driver died, and no thread can restart it: {error}"));
            }
        }
    }

    /// Ends the thread that restarts the driver, if there is one.
    pub(crate) fn close(self) {
        if let State::Restarting(Restart { thread, is_cancelled }) = self.state {
            is_cancelled.store(true, Ordering::Relaxed);
            drop(thread.join());
        }
    }
}

fn warn(element: &impl IsA<gst::Element>, text: &str) {
    let error = glib::Error::new(gst::ResourceError::Failed, text);
    let message = gst::message::Warning::builder_from_error(error)
        .src(element.upcast_ref::<gst::Element>())
        .build();
    // It fails while the bus is flushing: nobody listens then.
    let _ = element.post_message(message);
}
