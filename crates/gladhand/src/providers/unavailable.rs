//! An upstream that cannot be opened as it is configured: it refers to a variable or a secret that is not there.

use gladhand_core::operations::{Failure, FailureKind};
use gladhand_hub::{Features, List, Provider, ServerProvider, UpstreamStatus};

/// An upstream that is not available. It has nothing, and says why.
#[derive(Debug)]
pub(crate) struct Unavailable {
    name: String,
    why: String,
}

impl Unavailable {
    pub(crate) fn new(name: &str, why: &str) -> Self {
        Self { name: name.to_owned(), why: why.to_owned() }
    }
}

impl Provider for Unavailable {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_upstream(&self) -> bool {
        true
    }

    fn features(&self) -> Features {
        Features { silent: true, ..Features::default() }
    }

    fn as_server(&self) -> Option<&dyn ServerProvider> {
        Some(self)
    }
}

impl ServerProvider for Unavailable {
    fn trouble(&self, _list: List) -> Option<Failure> {
        let message = format!("upstream {} is not available: {}", self.name, self.why);
        Some(Failure::new(FailureKind::UpstreamLost, message))
    }

    fn status(&self) -> Option<UpstreamStatus> {
        Some(UpstreamStatus {
            name: self.name.clone(),
            state: "failed".to_owned(),
            unavailable: true,
            detail: Some(self.why.clone()),
            ..UpstreamStatus::default()
        })
    }
}
