//! Runs the futures of commands.

use std::pin::Pin;

use tokio::runtime::Runtime;

/// Runs a future to its end on this thread. The future is boxed, so that the code of the runtime exists once for each type
/// of result and not for each command.
pub(in crate::commands) fn wait_for<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let boxed: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(future);
    runtime.block_on(boxed)
}
