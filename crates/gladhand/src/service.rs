//! A hub and the terms on which it is served: what an embedder puts together.

use std::io;
use std::sync::Arc;

use gladhand_accord::{Peer, Secret};
use gladhand_dialects::{Dialect, Door, Menu, REGISTRY, ServerSetup};
use gladhand_hub::Hub;

use crate::config::Limits;
use crate::edges::clock::Clock;
use crate::edges::downstream::{self, Ended};
use crate::edges::stdio::{Input, Output};

/// A hub, ready to be served.
#[derive(Debug)]
pub struct Service {
    hub: Arc<Hub>,
    identity: Peer,
    registry: &'static [&'static Dialect],
    pinned: Option<&'static Dialect>,
    tokens: Vec<Secret>,
    max_parallel: u32,
    limits: Limits,
}

impl Service {
    /// Serves a hub in all dialects, with the default limits and no token.
    pub fn new(hub: Hub) -> Self {
        Self {
            hub: Arc::new(hub),
            identity: Peer::new("gladhand", env!("CARGO_PKG_VERSION")),
            registry: REGISTRY,
            pinned: None,
            tokens: Vec::new(),
            max_parallel: 4,
            limits: Limits::default(),
        }
    }

    /// Introduces itself under another name.
    pub fn identity(self, identity: Peer) -> Self {
        Self { identity, ..self }
    }

    /// Looks for dialects in another registry.
    pub fn registry(self, registry: &'static [&'static Dialect]) -> Self {
        Self { registry, ..self }
    }

    /// Speaks one dialect, whatever the first line says.
    pub fn pinned(self, dialect: &'static Dialect) -> Self {
        Self { pinned: Some(dialect), ..self }
    }

    /// Asks for one of these tokens where the dialect has tokens.
    pub fn tokens(self, tokens: Vec<Secret>) -> Self {
        Self { tokens, ..self }
    }

    /// Runs this many calls at once where the dialect bounds them.
    pub fn max_parallel(self, max_parallel: u32) -> Self {
        Self { max_parallel, ..self }
    }

    /// Keeps to other limits.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Serves one downstream on standard input and output until it ends.
    ///
    /// One thread is enough for it: the runtime is made here and ends with the session.
    pub fn serve_stdio(self) -> io::Result<Ended> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = runtime.block_on(async {
            let clock = Clock::start();
            let door = self.door(&clock);
            let (input, output) = (Input::stdin()?, Output::stdout()?);
            let drain = self.limits.drain();
            downstream::serve(door, self.hub, self.limits.line_bytes, drain, clock, input, output).await
        });
        // A thread may be stuck reading a terminal; nobody needs what it reads.
        runtime.shutdown_background();
        ended
    }

    fn door(&self, clock: &Clock) -> Door {
        let setup = ServerSetup {
            identity: self.identity.clone(),
            menu: Menu { tools: !self.hub.tools().is_empty(), tool_changes: false, logging: true },
            tokens: self.tokens.clone(),
            max_parallel: self.max_parallel,
            page_size: self.limits.page_size,
            max_in_flight: self.limits.in_flight,
            started: clock.now(),
        };
        match self.pinned {
            Some(dialect) => Door::pinned(dialect, setup),
            None => Door::detecting(self.registry, setup),
        }
    }
}
