//! Standard input and output as a byte channel, for any kind of file.
//!
//! Pipes and sockets are polled (shells give pipes, Node-based hosts give sockets); terminals, files and everything
//! else that cannot be polled go through one reading thread and plain writes. Polling needs `O_NONBLOCK`, which is a
//! property of the open file and so is shared with other processes. It is restored at the end.

use std::io;

/// Bytes asked for at once: what a Linux pipe holds.
const CHUNK: usize = 64 * 1024;

#[cfg(unix)]
pub use unix::{Input, Output};

#[cfg(unix)]
mod unix {
    use std::io::{self, Read as _};
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fs::{FileType, OFlags};
    use rustix::io::Errno;
    use tokio::io::{AsyncReadExt, Interest};
    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;
    use tokio::sync::mpsc;

    use super::CHUNK;

    /// Standard input.
    #[derive(Debug)]
    pub struct Input {
        source: Source,
        _flags: Flags,
    }

    #[derive(Debug)]
    enum Source {
        Pipe(pipe::Receiver),
        Socket(UnixStream),
        /// Something that must be read by a thread of its own.
        Thread(mpsc::Receiver<io::Result<Vec<u8>>>),
    }

    impl Input {
        /// Takes over standard input.
        pub fn stdin() -> io::Result<Self> {
            Self::from_fd(io::stdin().as_fd().try_clone_to_owned()?)
        }

        /// Reads from any other open file.
        pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
            let flags = Flags::of(&fd)?;
            let source = match kind(fd.as_fd())? {
                FileType::Fifo => Source::Pipe(pipe::Receiver::from_owned_fd(fd)?),
                FileType::Socket => Source::Socket(socket(fd)?),
                _ => Source::Thread(read_by_thread(fd)?),
            };
            Ok(Self { source, _flags: flags })
        }

        /// Appends the available bytes, and waits until there are some. Zero means the end.
        ///
        /// Nothing is lost when the future is dropped: bytes are in `buffer` or still in the channel.
        pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
            match &mut self.source {
                Source::Pipe(pipe) => {
                    buffer.reserve(CHUNK);
                    pipe.read_buf(buffer).await
                }
                Source::Socket(socket) => {
                    buffer.reserve(CHUNK);
                    socket.read_buf(buffer).await
                }
                Source::Thread(chunks) => match chunks.recv().await {
                    Some(chunk) => {
                        let chunk = chunk?;
                        buffer.extend_from_slice(&chunk);
                        Ok(chunk.len())
                    }
                    None => Ok(0),
                },
            }
        }
    }

    impl Input {
        /// Looks for more bytes for a short while without going to sleep; whether any came.
        ///
        /// The end and errors are left to [`Input::read`]. Others get the processor between two looks.
        pub fn read_soon(&mut self, buffer: &mut Vec<u8>, time: Duration) -> bool {
            let fd = match &self.source {
                Source::Pipe(pipe) => pipe.as_fd(),
                Source::Socket(socket) => socket.as_fd(),
                Source::Thread(_) => return false,
            };
            let begun = Instant::now();
            loop {
                buffer.reserve(CHUNK);
                match rustix::io::read(fd, rustix::buffer::spare_capacity(buffer)) {
                    Ok(1..) => return true,
                    Err(Errno::AGAIN) if begun.elapsed() < time => std::thread::yield_now(),
                    _ => return false,
                }
            }
        }
    }

    impl Input {
        /// Whether all writers are gone, though unread bytes may remain.
        ///
        /// Only pipes and sockets tell before everything is read.
        pub fn is_hung_up(&self) -> bool {
            let fd = match &self.source {
                Source::Pipe(pipe) => pipe.as_fd(),
                Source::Socket(socket) => socket.as_fd(),
                Source::Thread(_) => return false,
            };
            let mut looked = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut looked, Some(&now)).is_ok() && looked[0].revents().contains(PollFlags::HUP)
        }
    }

    fn read_by_thread(fd: OwnedFd) -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
        let (sender, receiver) = mpsc::channel(1);
        // It may sit in a read for ever; the process does not wait for it.
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            let mut file = std::fs::File::from(fd);
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = file.read(&mut chunk).map(|length| {
                    chunk.truncate(length);
                    chunk
                });
                let ended = !matches!(&read, Ok(chunk) if !chunk.is_empty());
                if sender.blocking_send(read).is_err() || ended {
                    return;
                }
            }
        })?;
        Ok(receiver)
    }

    /// Standard output.
    #[derive(Debug)]
    pub struct Output {
        fd: OwnedFd,
        kind: FileType,
        _flags: Flags,
    }

    impl Output {
        /// Takes over standard output.
        pub fn stdout() -> io::Result<Self> {
            Self::from_fd(io::stdout().as_fd().try_clone_to_owned()?)
        }

        /// Writes to any other open file.
        pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
            let flags = Flags::of(&fd)?;
            let kind = kind(fd.as_fd())?;
            if matches!(kind, FileType::Fifo | FileType::Socket) {
                rustix::fs::fcntl_setfl(&fd, rustix::fs::fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
            }
            Ok(Self { fd, kind, _flags: flags })
        }

        /// Writes as much as fits now, and says how much that was.
        pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = 0;
            while written < bytes.len() {
                match rustix::io::write(&self.fd, &bytes[written..]) {
                    Ok(length) => written += length,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(written)
        }

        /// Waits until more fits.
        ///
        /// Registered only while a writer waits: a standing registration would wake the loop each time the peer reads
        /// from a socket.
        pub async fn writable(&self) -> io::Result<()> {
            let fd = self.fd.try_clone()?;
            match self.kind {
                FileType::Fifo => pipe::Sender::from_owned_fd(fd)?.writable().await,
                FileType::Socket => socket(fd)?.writable().await,
                // Blocking writes always fit.
                _ => Ok(()),
            }
        }
    }

    impl Output {
        /// Waits until all readers of our output are gone.
        ///
        /// Only pipes tell; elsewhere the next write does.
        pub async fn gone(&self) -> io::Result<()> {
            if self.kind == FileType::Fifo {
                let pipe = pipe::Sender::from_owned_fd(self.fd.try_clone()?)?;
                pipe.ready(Interest::ERROR).await?;
                return Ok(());
            }
            std::future::pending().await
        }
    }

    /// Any stream socket: only readiness, reads and writes are asked of it, which all of them have.
    fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
        let socket = std::os::unix::net::UnixStream::from(fd);
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    }

    fn kind(fd: BorrowedFd<'_>) -> io::Result<FileType> {
        Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
    }

    /// An open file's flags as we found them; put back when this is dropped.
    #[derive(Debug)]
    struct Flags {
        fd: OwnedFd,
        found: OFlags,
    }

    impl Flags {
        fn of(fd: &OwnedFd) -> io::Result<Self> {
            Ok(Self { fd: fd.try_clone()?, found: rustix::fs::fcntl_getfl(fd)? })
        }
    }

    impl Drop for Flags {
        fn drop(&mut self) {
            let _ = rustix::fs::fcntl_setfl(&self.fd, self.found);
        }
    }
}

#[cfg(not(unix))]
pub use threads::{Input, Output};

/// Where standard input cannot be polled at all, a thread reads it and writes block.
#[cfg(not(unix))]
mod threads {
    use std::io::{self, Read as _, Write as _};

    use tokio::sync::mpsc;

    use super::CHUNK;

    /// Standard input.
    #[derive(Debug)]
    pub struct Input(mpsc::Receiver<io::Result<Vec<u8>>>);

    impl Input {
        /// Takes over standard input.
        pub fn stdin() -> io::Result<Self> {
            let (sender, receiver) = mpsc::channel(1);
            std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
                loop {
                    let mut chunk = vec![0; CHUNK];
                    let read = io::stdin().lock().read(&mut chunk).map(|length| {
                        chunk.truncate(length);
                        chunk
                    });
                    let ended = !matches!(&read, Ok(chunk) if !chunk.is_empty());
                    if sender.blocking_send(read).is_err() || ended {
                        return;
                    }
                }
            })?;
            Ok(Self(receiver))
        }

        /// Only the thread knows.
        pub fn is_hung_up(&self) -> bool {
            false
        }

        /// There is nothing to look at without the thread.
        pub fn read_soon(&mut self, _: &mut Vec<u8>, _: std::time::Duration) -> bool {
            false
        }

        /// Appends the available bytes, and waits until there are some. Zero means the end.
        pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
            match self.0.recv().await {
                Some(chunk) => {
                    let chunk = chunk?;
                    buffer.extend_from_slice(&chunk);
                    Ok(chunk.len())
                }
                None => Ok(0),
            }
        }
    }

    /// Standard output.
    #[derive(Debug)]
    pub struct Output;

    impl Output {
        /// Takes over standard output.
        pub fn stdout() -> io::Result<Self> {
            Ok(Self)
        }

        /// Writes everything.
        pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes)?;
            stdout.flush()?;
            Ok(bytes.len())
        }

        /// Blocking writes always fit.
        pub async fn writable(&self) -> io::Result<()> {
            Ok(())
        }

        /// The next write tells.
        pub async fn gone(&self) -> io::Result<()> {
            std::future::pending().await
        }
    }
}

/// Whether an error means that the other end is gone, which is no fault of ours.
pub fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted | NotConnected)
}
