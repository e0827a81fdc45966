//! Runs two attempts of which only one has to succeed.

use std::time::Duration;

/// Returns the first of two attempts that succeeds, or the errors of both. The second begins when the first has failed
/// or stayed silent for this long. It does not begin if the first failed with a final error.
pub(super) async fn first_success<T, E>(
    first: impl Future<Output = Result<T, E>>,
    silence: Duration,
    second: impl Future<Output = Result<T, E>>,
    is_final: impl Fn(&E) -> bool,
) -> Result<T, (E, Option<E>)> {
    tokio::pin!(first, second);
    match tokio::time::timeout(silence, &mut first).await {
        Ok(Ok(opened)) => return Ok(opened),
        Ok(Err(error)) if is_final(&error) => return Err((error, None)),
        Ok(Err(error)) => return second.await.map_err(|other| (error, Some(other))),
        Err(_) => {}
    }
    // The failure of one attempt says nothing about the other.
    tokio::select! {
        ended = &mut first => match ended {
            Ok(opened) => Ok(opened),
            Err(error) => second.await.map_err(|other| (error, Some(other))),
        },
        ended = &mut second => match ended {
            Ok(opened) => Ok(opened),
            Err(other) => first.await.map_err(|error| (error, Some(other))),
        },
    }
}
