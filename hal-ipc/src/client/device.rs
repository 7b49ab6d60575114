//! A driver in another process, as a `Device`.

use std::io::ErrorKind;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nnburst_hal::process::Origin;
use nnburst_hal::trusted::TrustError;
use nnburst_hal::{
    Buffer, BufferDesc, BufferRole, CacheFiles, CacheHandles, Capabilities, Device, DeviceStatus,
    DeviceType, ErrorStatus, Extension, HalError, Model, PrepareOptions, PreparedModel,
    PreparedModelCallback, Result, TimePoint, Version, bound,
};
use serde::de::DeserializeOwned;

use super::buffer::RemoteBuffer;
use super::link::{Link, service_timeout};
use super::prepared_model::RemotePreparedModel;
use super::tracing::RemoteTracing;
use crate::directory::{self, DirectoryError};
use crate::server::ServiceStatistics;
use crate::socket::{self, Socket, SocketError};
use crate::wire::{
    CacheBody, CallRef, DescriptorsOut, MAX_MESSAGE_BYTES, ModelRef, PROTOCOL_VERSION, Verdict,
};

/// Why there is no device behind a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody serves there.
    #[error("no service answers at {}: {source}{}", path.display(), directory::cure(path, source))]
    NotServed {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Directory, socket or server is another user's; nothing was sent.
    #[error(transparent)]
    Untrusted(DirectoryError),
    /// The service speaks another version of the protocol.
    #[error("the service speaks version {theirs} of the protocol and this is {ours}")]
    OtherVersion {
        /// Its version.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// The service allows this user no more connections, or has no descriptors, threads or memory
    /// for another.
    #[error(
        "the service has no room for another connection of this user: the driver's setting \
         user.clients, or what is left of its descriptors, threads and memory (ulimit -n, -u, -v)"
    )]
    TooMany,
    /// The service disconnected, died or was silent before it had introduced itself.
    #[error("the service was lost: {why}")]
    Lost {
        /// The loss.
        why: String,
    },
    /// The service can't be started, or speaks something else.
    #[error("the service can't be used: {why}")]
    Unusable {
        /// The mistake in it.
        why: String,
    },
}

impl From<SocketError> for ConnectError {
    fn from(error: SocketError) -> Self {
        let why = error.to_string();
        match error {
            SocketError::Wire(_) => Self::Unusable { why },
            _ => Self::Lost { why },
        }
    }
}

impl From<DirectoryError> for ConnectError {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::System { path, source } => Self::NotServed { path, source },
            DirectoryError::Untrusted(TrustError::System { path, source }) => {
                Self::NotServed { path, source }
            }
            error => Self::Untrusted(error),
        }
    }
}

impl From<ConnectError> for HalError {
    fn from(error: ConnectError) -> Self {
        let status = match error {
            ConnectError::TooMany => ErrorStatus::ResourceExhaustedTransient,
            _ => ErrorStatus::DeviceUnavailable,
        };
        Self::new(status, error.to_string())
    }
}

/// A driver in another process.
///
/// When the driver dies, calls that wait and objects made before fail with `DEVICE_UNAVAILABLE`.
/// The device itself connects again at its next call, if it was found by path and somebody serves
/// there by then. In a forked child everything made before the fork fails with `GENERAL_FAILURE`.
#[derive(Debug)]
pub struct RemoteDevice {
    name: String,
    /// The newest of the interface that the driver speaks.
    version: Version,
    path: Option<PathBuf>,
    link: Mutex<Arc<Link>>,
    origin: Origin,
}

impl RemoteDevice {
    /// The service of this name in the directory of services.
    ///
    /// # Errors
    /// Nobody serves there, or nobody we can talk with.
    pub fn connect(name: &str) -> std::result::Result<Self, ConnectError> {
        let dir = directory::service_dir()?;
        let path = directory::socket_path(&dir, name)
            .map_err(|source| ConnectError::NotServed { path: dir, source })?;
        Self::connect_path(&path)
    }

    /// The service behind a socket, whose directory is examined as that of services is.
    ///
    /// # Errors
    /// As for [`RemoteDevice::connect`].
    pub fn connect_path(path: &Path) -> std::result::Result<Self, ConnectError> {
        let link = reach(path).map_err(|error| match error {
            // Where directories are missing, the socket tells more than the first of them.
            ConnectError::NotServed { source, .. } if source.kind() == ErrorKind::NotFound => {
                ConnectError::NotServed { path: path.to_owned(), source }
            }
            other => other,
        })?;
        Self::new(link, Some(path.to_owned()))
    }

    /// The service at the other end of a connected socket, such as half of a socket pair.
    ///
    /// # Errors
    /// As for [`RemoteDevice::connect`].
    pub fn from_socket(socket: OwnedFd) -> std::result::Result<Self, ConnectError> {
        Self::new(start(socket)?, None)
    }

    fn new(link: Arc<Link>, path: Option<PathBuf>) -> std::result::Result<Self, ConnectError> {
        let name = link
            .query(&CallRef::Name)
            .map_err(|error| ConnectError::Lost { why: error.to_string() })?;
        // A service that doesn't know the question was built before older drivers could be served.
        let version = link.query(&CallRef::InterfaceVersion).unwrap_or(Version::V1_3);
        Ok(Self { name, version, path, link: Mutex::new(link), origin: Origin::here() })
    }

    /// The service's own name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The clients of the service and what they do, as far as this user may see them: its own; root
    /// and the driver's user see all.
    ///
    /// # Errors
    /// The driver is gone, or of another version.
    pub fn statistics(&self) -> Result<ServiceStatistics> {
        self.query(&CallRef::Statistics)
    }

    /// Has the driver write its spans, of all its clients, to a file that is open for appending,
    /// until what this returns is dropped. For root and the driver's user.
    ///
    /// # Errors
    /// The driver is gone, of another version, another user's, or writes spans already.
    pub fn trace(&self, file: BorrowedFd<'_>) -> Result<RemoteTracing> {
        RemoteTracing::start(self.link()?, file)
    }

    /// A descriptor that becomes ready (`POLLHUP`, `POLLRDHUP`) when the driver is gone. Other
    /// events on it mean nothing to anybody but us; it must not be read.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub fn peer_watch_fd(&self) -> Result<OwnedFd> {
        self.origin.check()?;
        self.link_as_it_is().watch()
    }

    /// Why the driver is gone, if it is. A child of the process that connected isn't told.
    pub fn lost(&self) -> Option<HalError> {
        self.origin.is_here().then(|| self.link_as_it_is().lost())?
    }

    fn link_as_it_is(&self) -> Arc<Link> {
        Arc::clone(&self.link.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The connection; a new one if the driver died and is back.
    fn link(&self) -> Result<Arc<Link>> {
        self.origin.check()?;
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lost) = link.lost() else { return Ok(Arc::clone(&link)) };
        let path = self.path.as_ref().ok_or(lost)?;
        *link = reach(path)?;
        Ok(Arc::clone(&link))
    }

    /// Asks, and asks once more if the driver was lost meanwhile and is back.
    fn query<T: DeserializeOwned>(&self, call: &CallRef<'_>) -> Result<T> {
        let link = self.link()?;
        match link.query(call) {
            Err(_) if link.lost().is_some() => self.link()?.query(call),
            answer => answer,
        }
    }
}

fn reach(path: &Path) -> std::result::Result<Arc<Link>, ConnectError> {
    start(directory::connect(path, service_timeout())?)
}

fn start(socket: OwnedFd) -> std::result::Result<Arc<Link>, ConnectError> {
    let socket = Socket::new(socket, MAX_MESSAGE_BYTES)?;
    match socket::greet(&socket, service_timeout())? {
        (_, Verdict::TooMany) => Err(ConnectError::TooMany),
        (theirs, verdict) if verdict != Verdict::Welcome || theirs != PROTOCOL_VERSION => {
            Err(ConnectError::OtherVersion { theirs, ours: PROTOCOL_VERSION })
        }
        _ => Link::start(socket).map_err(|error| ConnectError::Unusable { why: error.to_string() }),
    }
}

impl Device for RemoteDevice {
    fn interface_version(&self) -> Version {
        self.version
    }

    fn capabilities(&self) -> Result<Capabilities> {
        self.query(&CallRef::Capabilities)
    }

    fn version_string(&self) -> Result<String> {
        self.query(&CallRef::VersionString)
    }

    fn device_type(&self) -> Result<DeviceType> {
        self.query(&CallRef::DeviceType)
    }

    fn status(&self) -> Result<DeviceStatus> {
        self.query(&CallRef::Status)
    }

    fn supported_extensions(&self) -> Result<Vec<Extension>> {
        self.query(&CallRef::SupportedExtensions)
    }

    fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        let mut fds = DescriptorsOut::default();
        let call = CallRef::SupportedOperations { model: ModelRef::new(model, &mut fds)? };
        let answer = self.link()?.call_with(&call, &model.operand_values, &fds);
        answer.map(|answer| answer.value).map_err(|failure| failure.error)
    }

    fn number_of_cache_files_needed(&self) -> Result<CacheFiles> {
        self.query(&CallRef::NumberOfCacheFilesNeeded)
    }

    fn prepare_model(
        &self,
        model: Model,
        options: PrepareOptions,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        self.launch(callback, options.deadline, |link, callback| {
            let mut fds = DescriptorsOut::default();
            let cache = CacheBody::new(&cache, &mut fds)?;
            let body = ModelRef::new(&model, &mut fds)?;
            let call = CallRef::PrepareModel { model: body, options, cache, callback };
            let answer = link.call_with(&call, &model.operand_values, &fds);
            answer.map(|answer| answer.value).map_err(|failure| failure.error)
        })
    }

    fn prepare_model_from_cache(
        &self,
        deadline: Option<TimePoint>,
        cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> Result<()> {
        self.launch(callback, deadline, |link, callback| {
            let mut fds = DescriptorsOut::default();
            let cache = CacheBody::new(&cache, &mut fds)?;
            let call = CallRef::PrepareModelFromCache { deadline, cache, callback };
            let answer = link.call_with(&call, &[], &fds);
            answer.map(|answer| answer.value).map_err(|failure| failure.error)
        })
    }

    fn allocate(
        &self,
        desc: &BufferDesc,
        models: &[Arc<dyn PreparedModel>],
        input_roles: &[BufferRole],
        output_roles: &[BufferRole],
    ) -> Result<Arc<dyn Buffer>> {
        let link = self.link()?;
        let object = |(at, model): (usize, &Arc<dyn PreparedModel>)| {
            model
                .as_any()
                .downcast_ref::<RemotePreparedModel>()
                .and_then(|model| model.object_of(&link))
                .ok_or_else(|| HalError::invalid(format!("model {at} is not of this device")))
        };
        let call = CallRef::Allocate {
            desc: desc.clone(),
            models: models.iter().enumerate().map(object).collect::<Result<_>>()?,
            input_roles: input_roles.to_vec(),
            output_roles: output_roles.to_vec(),
        };
        let made = link.call_making::<(u64, u32)>(&call, &DescriptorsOut::default());
        let (object, token) = made.map_err(|failure| failure.error)?.value;
        Ok(Arc::new(RemoteBuffer::new(link, object, token)))
    }
}

impl RemoteDevice {
    /// Launches a preparation: the callback is told on every path, and once.
    fn launch(
        &self,
        callback: Arc<dyn PreparedModelCallback>,
        deadline: Option<TimePoint>,
        call: impl FnOnce(&Link, u64) -> Result<()>,
    ) -> Result<()> {
        let link = match self.link() {
            Ok(link) => link,
            Err(error) => {
                callback.notify(Err(error.clone()));
                return Err(error);
            }
        };
        let deadline = bound::earlier(deadline.map(bound::answered_by), bound::bound());
        let id = link.callbacks.add_prepared(callback, &link, deadline);
        call(&link, id).inspect_err(|error| {
            // The driver's own word may be on its way; whichever comes first counts.
            if let Some(waiting) = link.callbacks.take_prepared(id) {
                waiting.tell(Err(error.clone()));
            }
        })
    }
}
