//! The first bytes of a connection, kept in as little memory as they need.
//!
//! A client may connect and send nothing, or half of a head, thousands of times. To serve requests or to agree on
//! encryption takes many KiB, so a connection gets that only when its first message is complete.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gladhand_hub::Portion;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

/// How much is read at once.
const CHUNK: usize = 4 * 1024;

/// How long the head of a request may be. A first record of TLS that is longer is read on by those who serve it.
pub(super) const MOST: usize = 16 * 1024;

/// How much is dropped of what follows a head that is refused.
const DROPPED: usize = 1024 * 1024;

/// Reads until it is enough; nothing if the peer ends before that. An incomplete head counts against the share of its
/// party.
pub(super) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    is_enough: impl Fn(&[u8]) -> bool,
    mut room: Portion,
) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    while first.len() < MOST && !is_enough(&first) {
        let read = poll_fn(|cx| {
            // On the stack, and only while something is read.
            let mut bytes = [const { MaybeUninit::uninit() }; CHUNK];
            let mut bytes = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut bytes))?;
            first.reserve_exact(bytes.filled().len());
            first.extend_from_slice(bytes.filled());
            Poll::Ready(io::Result::Ok(bytes.filled().len()))
        });
        let read = read.await?;
        if read == 0 {
            return Ok(Vec::new());
        }
        if !room.grow(read) {
            return Err(io::Error::other("incomplete messages use too much memory"));
        }
    }
    Ok(first)
}

/// Says an answer and ends. The rest of the input is read and dropped, otherwise the system would discard the answer.
pub(super) async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, answer: &[u8]) -> io::Result<()> {
    stream.write_all(answer).await?;
    stream.shutdown().await?;
    for _ in 0..DROPPED / CHUNK {
        let read = poll_fn(|cx| {
            let mut bytes = [const { MaybeUninit::uninit() }; CHUNK];
            let mut bytes = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut bytes))?;
            Poll::Ready(io::Result::Ok(bytes.filled().len()))
        });
        if read.await? == 0 {
            break;
        }
    }
    Ok(())
}

/// Whether the head of a request is complete, or cannot become one.
pub(super) fn is_head(bytes: &[u8]) -> bool {
    let begin = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let head = &bytes[begin..];
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let mut lines = memchr::memchr_iter(b'\n', head);
    let is_request_line = |line: &[u8]| memchr::memmem::find(line, b" HTTP/1.").is_some();
    match lines.next() {
        None => head.first().is_some_and(|byte| !is_token(byte)),
        Some(first) if !is_request_line(&head[..first]) => true,
        Some(first) => [first].into_iter().chain(lines).any(|end| {
            let rest = &head[end + 1..];
            rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
        }),
    }
}

/// Whether the first record of TLS is complete, or cannot become one.
pub(super) fn is_record(bytes: &[u8]) -> bool {
    const HANDSHAKE: u8 = 22;
    match bytes {
        [HANDSHAKE, _, _, high, low, rest @ ..] => rest.len() >= usize::from(u16::from_be_bytes([*high, *low])),
        [kind, ..] => *kind != HANDSHAKE,
        [] => false,
    }
}

/// A stream with what was read of it before.
#[derive(Debug)]
pub(super) struct Begun<S> {
    first: Vec<u8>,
    stream: S,
}

impl<S> Begun<S> {
    pub(super) fn new(first: Vec<u8>, stream: S) -> Self {
        Self { first, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        take_from(&mut self.first, buf);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Moves what fits from bytes that were read before. Their memory goes when nothing is left.
pub(super) fn take_from(bytes: &mut Vec<u8>, buf: &mut ReadBuf<'_>) {
    let length = bytes.len().min(buf.remaining());
    buf.put_slice(&bytes[..length]);
    if length == bytes.len() {
        *bytes = Vec::new();
    } else {
        bytes.drain(..length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_dialects::Party;
    use gladhand_hub::Portions;
    use tokio::io::AsyncReadExt as _;

    fn room(most: usize) -> Portion {
        Portions::of(most, CHUNK).portion(Party(1))
    }

    #[test]
    fn a_head_is_complete_at_its_empty_line_or_when_it_is_no_http() {
        let whole: &[u8] = b"\r\nPOST /mcp HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\r\n";
        for end in 0..whole.len() {
            assert!(!is_head(&whole[..end]), "{:?}", String::from_utf8_lossy(&whole[..end]));
        }
        assert!(is_head(whole) && is_head(b"GET / HTTP/1.0\n\n") && is_head(b"GET / HTTP/1.1\r\n\r\nbody"));
        for other in [&b"\x16\x03\x01"[..], b" GET", b"hello world\r\n", b"PRI * HTTP/2.0\r\n", b"GET /\n"] {
            assert!(is_head(other), "{other:?}");
        }
    }

    #[test]
    fn a_record_is_complete_with_its_last_byte() {
        let whole = [22, 3, 1, 0, 3, 1, 2, 3];
        assert!((0..whole.len()).all(|end| !is_record(&whole[..end])));
        assert!(is_record(&whole) && is_record(b"GET /"));
    }

    #[tokio::test]
    async fn first_bytes_that_arrive_singly_are_kept_once() {
        let (mut ours, mut theirs) = tokio::io::duplex(64);
        let sending = tokio::spawn(async move {
            for byte in b"GET / HTTP/1.1\r\n\r\nrest" {
                theirs.write_u8(*byte).await.unwrap();
            }
            theirs
        });
        let first = read(&mut ours, is_head, room(1 << 20)).await.unwrap();
        assert!(first.starts_with(b"GET / HTTP/1.1\r\n\r\n") && first.capacity() < 64, "{first:?}");
        let _theirs = sending.await.unwrap();
        let mut begun = Begun::new(first, ours);
        let mut all = [0; 22];
        begun.read_exact(&mut all).await.unwrap();
        assert_eq!(&all, b"GET / HTTP/1.1\r\n\r\nrest");
    }

    #[tokio::test]
    async fn a_message_that_finds_no_room_before_it_is_complete_ends() {
        let all = Portions::of(10_000, CHUNK);
        let _taken = all.portion(Party(1)).with(9_000);
        let (mut ours, mut theirs) = tokio::io::duplex(64);
        tokio::spawn(async move { while theirs.write_all(b"GET /xxxxxxxxxxx").await.is_ok() {} });
        assert!(read(&mut ours, is_head, all.portion(Party(1))).await.is_err());
    }

    #[tokio::test]
    async fn an_endless_head_is_passed_on_in_parts() {
        let (mut ours, mut theirs) = tokio::io::duplex(64);
        tokio::spawn(async move { while theirs.write_all(b"GET /xxxxxxxxxxx").await.is_ok() {} });
        let first = read(&mut ours, is_head, room(1 << 20)).await.unwrap();
        assert!((MOST..MOST + CHUNK).contains(&first.len()), "{}", first.len());
        drop(ours);
        let (mut ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(b"GET / HT").await.unwrap();
        drop(theirs);
        assert!(read(&mut ours, is_head, room(1 << 20)).await.unwrap().is_empty());
    }
}
