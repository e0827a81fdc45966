//! Binds sockets, accepts connections and serves them.

use std::hash::RandomState;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use gladhand_hub::Portion;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::address::Address;
use super::connections::{ConnectionPermit, Connections};
use super::endpoint::Endpoint;
use super::first_bytes::{self, Begun};
use super::request_origin::Visitor;
use super::served::ConnectionState;
use super::timeout_io::{TimeoutIo, Timeouts};
use super::tls::Encryption;
use super::worker_threads::{Slot, WorkerThreads};

/// The buffer size for reads and writes. The head of a request is limited by [`first_bytes::MOST`].
const BUFFER_BYTES: usize = 64 * 1024;

/// How long the TLS handshake may take.
const TLS_GRACE: Duration = Duration::from_secs(10);

/// How long a client may leave written data unread.
const WRITE_GRACE: Duration = Duration::from_secs(30);

/// How long to wait when the process has no free socket.
const OUT_OF_SOCKETS: Duration = Duration::from_millis(100);

/// The response if there is no room for the connection.
const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// The response if the head of a request is too long.
const LONG_HEAD: &[u8] =
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// A bound socket.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, SocketFile),
}

/// A Unix socket file, which is removed on drop.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may already be gone.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The length of the accept queue. With a shorter queue, clients in a burst wait one second for each retry of the
/// system.
const BACKLOG: u32 = 4096;

/// Listens at an address with a long queue.
async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no address");
    for address in tokio::net::lookup_host(address).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        match socket.bind(address).and_then(|()| socket.listen(BACKLOG)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Listener {
    pub(super) async fn bind(address: &Address) -> io::Result<Self> {
        let with_address = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        match address {
            Address::Tcp(address) => listen(address).await.map(Self::Tcp).map_err(with_address),
            #[cfg(unix)]
            Address::Unix(path) => {
                use std::os::unix::fs::{FileTypeExt, PermissionsExt};
                // Remove the socket file of a killed server. If a server still listens on it, keep it.
                let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
                if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
                    std::fs::remove_file(path).map_err(with_address)?;
                }
                let listener = UnixListener::bind(path).map_err(with_address)?;
                let file = SocketFile(path.clone());
                let private = std::fs::Permissions::from_mode(0o600);
                std::fs::set_permissions(path, private).map_err(with_address)?;
                Ok(Self::Unix(listener, file))
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(with_address(io::ErrorKind::Unsupported.into())),
        }
    }

    /// The address that the socket is bound to.
    pub(super) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Some),
            #[cfg(unix)]
            Self::Unix(..) => Ok(None),
        }
    }

    /// The URL of a path for clients.
    pub(super) fn url(&self, tls: bool, path: &str) -> io::Result<String> {
        let scheme = if tls { "https" } else { "http" };
        match self {
            Self::Tcp(listener) => Ok(format!("{scheme}://{}{path}", listener.local_addr()?)),
            #[cfg(unix)]
            Self::Unix(_, SocketFile(path)) => Ok(format!("unix:{}", path.display())),
        }
    }

    /// Accepts and serves connections until shutdown.
    pub(super) async fn serve(self, context: Arc<ConnectionContext>) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = context.stopping.cancelled() => return,
                accepted = self.accept() => accepted,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(OUT_OF_SOCKETS).await;
                    continue;
                }
            };
            let visitor = stream.visitor(&context.endpoint.secret);
            let Some(permit) = context.connections.admit(visitor.party, &context.stopping).await else {
                stream.refuse(context.tls.is_some());
                continue;
            };
            Connection { context: Arc::clone(&context), visitor, permit, slot: context.workers.slot() }.start(stream);
        }
    }

    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // A response must not wait for the acknowledgement of earlier data.
                stream.set_nodelay(true)?;
                Ok(Accepted::Tcp(stream.into_std()?, address.ip()))
            }
            #[cfg(unix)]
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|peer| peer.uid());
                Ok(Accepted::Unix(stream.into_std()?, user))
            }
        }
    }
}

/// A new connection that is not assigned to a thread yet.
enum Accepted {
    Tcp(std::net::TcpStream, IpAddr),
    /// With the user id of the peer, if the system provides it.
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream, Option<u32>),
}

impl Accepted {
    fn visitor(&self, secret: &RandomState) -> Visitor {
        match self {
            Self::Tcp(_, address) => Visitor::at(*address, secret),
            #[cfg(unix)]
            Self::Unix(_, user) => Visitor::on_socket(*user, secret),
        }
    }

    /// Closes the connection, and sends the reason if that does not block.
    fn refuse(self, is_encrypted: bool) {
        // If the client does not receive it, it still sees the connection close.
        let _ = match self {
            Self::Tcp(..) if is_encrypted => Ok(0),
            Self::Tcp(mut stream, _) => stream.write(NO_ROOM),
            #[cfg(unix)]
            Self::Unix(mut stream, _) => stream.write(NO_ROOM),
        };
    }
}

/// The state that all connections share.
#[derive(Debug)]
pub(super) struct ConnectionContext {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) tls: Option<Encryption>,
    pub(super) connections: Arc<Connections>,
    pub(super) workers: Arc<WorkerThreads>,
    /// The running connections.
    pub(super) tasks: TaskTracker,
    pub(super) stopping: CancellationToken,
}

/// One connection.
#[derive(Debug)]
struct Connection {
    context: Arc<ConnectionContext>,
    visitor: Visitor,
    permit: ConnectionPermit,
    slot: Slot,
}

impl Connection {
    /// Serves the connection in a task on the thread that holds its slot.
    fn start(self, stream: Accepted) {
        match stream {
            Accepted::Tcp(stream, _) if self.context.tls.is_some() => {
                self.spawn(|connection| async move { connection.encrypt(TcpStream::from_std(stream)?).await });
            }
            Accepted::Tcp(stream, _) => {
                self.spawn(|connection| async move { connection.serve(TcpStream::from_std(stream)?).await });
            }
            // Only users who may open the file can connect, so encryption adds nothing.
            #[cfg(unix)]
            Accepted::Unix(stream, _) => {
                self.spawn(|connection| async move { connection.serve(UnixStream::from_std(stream)?).await });
            }
        }
    }

    fn spawn<F>(self, serve: impl FnOnce(Self) -> F)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let (context, runtime) = (Arc::clone(&self.context), self.slot.runtime().cloned());
        let served = serve(self).map(|served| {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection could not be served");
            }
        });
        match runtime {
            Some(runtime) => context.tasks.spawn_on(served, &runtime),
            None => context.tasks.spawn(served),
        };
    }

    /// Performs the TLS handshake, and serves the encrypted connection.
    async fn encrypt(self, mut stream: TcpStream) -> io::Result<()> {
        let until = self.line().opened() + TLS_GRACE;
        let begun = begin(&mut stream, first_bytes::is_record, until, self.line(), self.room()).await?;
        let (Some(first), Some(tls)) = (begun, &self.context.tls) else { return Ok(()) };
        // The large future is created only now.
        let agreed = Box::pin(tls.accept(Begun::new(first, stream)));
        match self.line().leaving().run_until_cancelled(tokio::time::timeout_at(until, agreed)).await {
            Some(Ok(Ok(stream))) => Box::pin(self.serve(stream)).await,
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) => Err(io::Error::new(io::ErrorKind::TimedOut, "no agreement on encryption in time")),
            None => Ok(()),
        }
    }

    /// Waits for the first request, and answers requests from then on.
    async fn serve<S>(self, mut stream: S) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let until = self.line().opened() + self.timeouts().head;
        if let Some(first) = begin(&mut stream, first_bytes::is_head, until, self.line(), self.room()).await? {
            if first.len() >= first_bytes::MOST && !first_bytes::is_head(&first) {
                drop(first);
                let refused = tokio::time::timeout_at(until, first_bytes::refuse(&mut stream, LONG_HEAD));
                return self
                    .line()
                    .leaving()
                    .run_until_cancelled(refused)
                    .await
                    .map_or(Ok(()), |told| told.unwrap_or(Ok(())));
            }
            // The large future is created only now.
            Box::pin(self.answer(first, stream)).await;
        }
        Ok(())
    }

    /// Answers requests.
    async fn answer<S>(self, first: Vec<u8>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (timeouts, line) = (self.timeouts(), Arc::clone(self.line()));
        let Self { context, visitor, permit: _permit, slot: _slot } = self;
        let stream = TimeoutIo::new(first, stream, timeouts, Arc::clone(&line));
        let service = service_fn(|request| context.endpoint.answer(request, visitor, Arc::clone(&line)));
        let connection = http1::Builder::new()
            // The stream itself has a timeout for the head of a request: see `TimeoutIo`.
            .max_buf_size(BUFFER_BYTES)
            // The stream itself detects a disconnected peer: see `TimeoutIo`.
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let served = tokio::select! {
            biased;
            served = connection.as_mut() => served,
            () = line.leaving().cancelled() => {
                if !context.stopping.is_cancelled() {
                    // The connection gives way to another one.
                    return;
                }
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended");
        }
    }

    /// The memory share for incomplete messages.
    fn room(&self) -> Portion {
        self.context.endpoint.shared.unfinished.portion(self.visitor.party)
    }

    fn line(&self) -> &Arc<ConnectionState> {
        &self.permit.line
    }

    fn timeouts(&self) -> Timeouts {
        Timeouts { head: self.context.endpoint.shared.options.head, write: WRITE_GRACE }
    }
}

/// Reads the first bytes of a connection. Returns `None` if the connection ends before them.
async fn begin<S: AsyncRead + Unpin>(
    stream: &mut S,
    is_enough: fn(&[u8]) -> bool,
    until: Instant,
    line: &ConnectionState,
    room: Portion,
) -> io::Result<Option<Vec<u8>>> {
    let first = tokio::time::timeout_at(until, first_bytes::read(stream, is_enough, room));
    match line.leaving().run_until_cancelled(first).await {
        Some(Ok(first)) => first.map(|first| Some(first).filter(|first| !first.is_empty())),
        Some(Err(_)) => Err(io::Error::new(io::ErrorKind::TimedOut, "no request came")),
        None => Ok(None),
    }
}
