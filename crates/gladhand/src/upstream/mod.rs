//! A session with an upstream: any server that can be started or reached, behind one handle.
//!
//! ```no_run
//! use std::sync::Arc;
//! use gladhand::operations::{Operation, Reply};
//! use gladhand::upstream::{Alone, Options, Target, Upstream};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target::parse(&["http://127.0.0.1:3000/mcp".to_owned()])?;
//! let upstream = Upstream::open(&target, Options::default(), Arc::new(Alone)).await?;
//! if let Reply::Tools(tools) = upstream.call(Operation::ListTools).await? {
//!     tracing::info!(tools = tools.len(), "listed");
//! }
//! upstream.close().await;
//! # Ok(())
//! # }
//! ```

mod authorizer;
mod host;
mod options;
mod target;

use std::sync::Arc;

use gladhand_accord::{Agreement, Refusal};
use gladhand_operations::{Failure, FailureKind, Operation, Outcome};

pub use authorizer::{Authorizer, Bearer, Challenge};
pub use host::{Alone, Host};
pub use options::{Options, Speak};
pub use target::{BadTarget, Target};

/// An open session with an upstream. A cheap handle: clones share the session.
#[derive(Debug, Clone)]
pub struct Upstream {
    agreement: Arc<Agreement>,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The command could not be started.
    #[error("could not start `{program}`: {source}")]
    NotStarted {
        /// The program.
        program: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Nobody answers at the URL, or what answers is out of order.
    #[error("could not reach the upstream: {0}")]
    Unreachable(String),
    /// The upstream wants credentials that it was not given.
    #[error("the upstream wants authorization (HTTP status {status})")]
    Unauthorized {
        /// 401 or 403.
        status: u16,
    },
    /// It answered, or was silent, and there is no session.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: Refusal,
        /// The last lines that a process wrote to its stderr.
        last_words: Vec<String>,
    },
}

impl Upstream {
    /// Opens a session. What the upstream says and asks on its own account goes to `host`.
    pub async fn open(target: &Target, options: Options, host: Arc<dyn Host>) -> Result<Self, OpenError> {
        let _ = (target, options, host);
        Err(OpenError::Unreachable("not yet".to_owned()))
    }

    /// What was agreed. Another agreement may take its place where a session had to be opened anew.
    pub fn agreement(&self) -> Arc<Agreement> {
        Arc::clone(&self.agreement)
    }

    /// Makes a call, without hearing of its progress. Dropping the future cancels the call.
    pub async fn call(&self, operation: Operation<'_>) -> Outcome {
        let _ = operation;
        Err(Failure::new(FailureKind::Internal, "not yet"))
    }

    /// Makes a call whose progress, log lines and questions go to a host of its own. Dropping the future cancels it.
    pub async fn call_for(&self, operation: Operation<'_>, host: Arc<dyn Host>) -> Outcome {
        let _ = host;
        self.call(operation).await
    }

    /// Takes back one [`Operation::Watch`] of this URI.
    pub fn unwatch(&self, uri: &str) {
        let _ = uri;
    }

    /// Ends the session: calls under way fail, a process is ended, an HTTP session deleted.
    pub async fn close(&self) {}
}
