//! The answering side: a child process, which is this program started again, and threads for what
//! can't cross processes.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::lab::rows_of;
use crate::link::Link;
use crate::transport::{Far, Way};
use crate::{Result, machine};

/// The argument that makes a process the far side of another one.
pub const FAR_SIDE: &str = "far-side";

/// The far side's process, as the measuring side sees it.
#[derive(Debug)]
pub struct FarProcess {
    link: Link,
    finished: Arc<AtomicBool>,
}

impl FarProcess {
    /// Starts this program again, on `cpu`, for the transports whose names contain `only`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn start(cpu: usize, only: &str) -> Result<Self> {
        let (link, theirs) = Link::pair()?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg(FAR_SIDE)
            .args([&cpu.to_string(), only])
            .stdin(Stdio::from(theirs.into_fd()))
            .spawn()?;
        let finished = Arc::new(AtomicBool::new(false));
        let expected = Arc::clone(&finished);
        // The measuring side polls memory and would not notice: whoever dies takes the run along.
        std::thread::spawn(move || {
            let status = child.wait();
            // Acquire: pairs with `finish`.
            if !expected.load(Ordering::Acquire) {
                fail(&format!("the far side ended: {status:?}"));
            }
        });
        Ok(Self { link, finished })
    }

    /// The control connection.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Waits until the far side has joined the row that was opened.
    ///
    /// # Errors
    /// If it is gone.
    pub fn joined(&self) -> Result<()> {
        self.link.expect().map(drop)
    }

    /// Returns whether it has real-time priority; asked once, after the last row.
    ///
    /// # Errors
    /// If it is gone.
    pub fn is_real_time(&self) -> Result<bool> {
        Ok(self.link.expect()?.0 == [1])
    }

    /// Makes it take part in `rounds` operations of row `index`; returns when it is about to.
    ///
    /// # Errors
    /// If it is gone.
    pub fn serve(&self, index: u32, rounds: u32) -> Result<()> {
        self.link.send(bytemuck::bytes_of(&[index, rounds]), &[])?;
        self.link.expect().map(drop)
    }

    /// Lets it go.
    ///
    /// # Errors
    /// None today.
    pub fn finish(self) -> Result<()> {
        // Release: pairs with the watching thread's load.
        self.finished.store(true, Ordering::Release);
        Ok(())
    }
}

/// Runs a process started with [`FAR_SIDE`]: `args` are the CPU and the filter.
///
/// # Errors
/// If a transport failed.
pub fn far_side(args: &[String]) -> Result<()> {
    let [cpu, only] = args else { return Err("far-side: a CPU and a filter".into()) };
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    let link = Link::inherited()?;
    machine::pin(cpu.parse()?)?;
    let mut rows: Vec<Option<Box<dyn Far>>> = Vec::new();
    for row in rows_of(only) {
        rows.push(match row.way {
            Way::Processes { join, .. } => {
                let far = join(&link)?;
                link.send(b"joined", &[])?;
                Some(far)
            }
            Way::Threads(_) => None,
        });
    }
    link.send(&[u8::from(machine::real_time())], &[])?;
    while let Some((command, _)) = link.receive()? {
        let [index, rounds]: [u32; 2] = bytemuck::pod_read_unaligned(&command);
        let far = rows.get_mut(usize::try_from(index)?).and_then(Option::as_mut);
        let far = far.ok_or("a row without a far side")?;
        link.send(b"ready", &[])?;
        far.serve(rounds)?;
    }
    Ok(())
}

/// A far side in a thread of the measuring process.
#[derive(Debug)]
pub struct FarThread {
    commands: Sender<u32>,
    ready: Receiver<()>,
}

impl FarThread {
    /// Starts it on `cpu`.
    #[must_use]
    pub fn start(mut far: Box<dyn Far + Send>, cpu: usize) -> Self {
        let (commands, inbox) = channel::<u32>();
        let (tell, ready) = channel();
        std::thread::spawn(move || {
            let mut serve = || -> Result<()> {
                machine::pin(cpu)?;
                // Without it the figures have longer tails, which the main thread reports for both.
                let _ = machine::real_time();
                for rounds in &inbox {
                    tell.send(())?;
                    far.serve(rounds)?;
                }
                Ok(())
            };
            if let Err(error) = serve() {
                fail(&format!("the far thread failed: {error}"));
            }
        });
        Self { commands, ready }
    }

    /// Makes it take part in `rounds` operations; returns when it is about to.
    ///
    /// # Errors
    /// If it is gone.
    pub fn serve(&self, rounds: u32) -> Result<()> {
        self.commands.send(rounds)?;
        Ok(self.ready.recv()?)
    }
}

/// Ends the run: the main thread may be polling for an answer that will not come.
#[expect(clippy::print_stderr, clippy::exit, reason = "nobody else is there to tell, see above")]
fn fail(what: &str) -> ! {
    eprintln!("latency: {what}");
    std::process::exit(1)
}
