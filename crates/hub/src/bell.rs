//! The bell: how providers say that something changed for everybody.

use std::sync::Weak;

use gladhand_operations::{Log, Notice};

use crate::hub::{Hub, Inner};
use crate::policy::Invisible;
use crate::provider::SessionId;

/// Rings in every session of a hub. Cheap to clone; does nothing once the hub is gone.
#[derive(Debug, Clone)]
pub struct Bell {
    pub(crate) hub: Weak<Inner>,
}

impl Bell {
    /// The lists of tools are to be asked for again.
    pub fn tools_changed(&self) {
        self.ring(Notice::ToolsChanged);
    }

    /// The lists of resources and templates are to be asked for again.
    pub fn resources_changed(&self) {
        self.ring(Notice::ResourcesChanged);
    }

    /// The lists of prompts are to be asked for again.
    pub fn prompts_changed(&self) {
        self.ring(Notice::PromptsChanged);
    }

    /// What a provider says about how it is to be used is another text now. No session is told: each was told at its
    /// beginning.
    pub fn instructions_changed(&self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.show_again();
        }
    }

    /// Whether definitions are compared with pins: see [`Governor::is_pinning`](crate::policy::Governor::is_pinning).
    pub fn is_pinning(&self) -> bool {
        self.hub.upgrade().is_some_and(|hub| hub.is_pinning())
    }

    /// One session sees lists of its own from now on, or others than it did.
    pub fn lists_changed_for(&self, session: SessionId) {
        if let Some(hub) = self.hub.upgrade() {
            hub.lists_changed_for(session);
        }
    }

    /// What is in a resource has changed.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.ring(Notice::ResourceUpdated(uri.into()));
    }

    /// The hub that it hangs in, for who answers a call by making others; `None` once that is gone.
    pub fn hub(&self) -> Option<Hub> {
        Some(Hub::behind(self.hub.upgrade()?, self))
    }

    /// The mode for invisible text on its way to a downstream.
    pub fn invisible(&self) -> Invisible {
        self.hub.upgrade().map(|hub| hub.invisible()).unwrap_or_default()
    }

    /// Something worth writing down, which no call is known to have caused.
    pub fn log(&self, log: Log) {
        self.ring(Notice::Log(None, log));
    }

    /// A page that a person was sent to has done its work.
    pub fn elicitation_complete(&self, id: impl Into<String>) {
        self.ring(Notice::ElicitationComplete(id.into()));
    }

    fn ring(&self, notice: Notice) {
        if let Some(hub) = self.hub.upgrade() {
            hub.changed(notice);
        }
    }
}
