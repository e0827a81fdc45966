//! The notifier, with which providers announce changes to all sessions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use gladhand_core::operations::{Log, Notice};

use crate::hub::{Hub, Inner};
use crate::policy::Invisible;
use crate::provider::{Provider, SessionId};
use crate::watched::Hearers;

/// Announces changes to every session of a hub. Cheap to clone; does nothing once the hub is gone.
#[derive(Debug, Clone)]
pub struct ChangeNotifier {
    hub: Weak<Inner>,
    /// The provider that owns this notifier; `None` for the notifier of the process itself.
    provider: Option<Arc<AnnouncingProvider>>,
}

/// A provider that announces changes.
#[derive(Debug)]
pub(crate) struct AnnouncingProvider {
    pub(crate) provider: Weak<dyn Provider>,
    /// Whether it announced a change of a resource that is not watched at this provider.
    has_announced_unwatched: AtomicBool,
}

impl AnnouncingProvider {
    /// It announced a change of a resource that is not watched at this provider. Logged the first time.
    pub(crate) fn note_unwatched(&self, uri: &str) {
        if !self.has_announced_unwatched.swap(true, Ordering::Relaxed) {
            let upstream = self.provider.upgrade();
            let upstream = upstream.as_ref().map_or("", |provider| provider.name());
            tracing::debug!(upstream, uri, "an update is dropped: the resource has no subscription at this upstream");
        }
    }
}

impl ChangeNotifier {
    /// The notifier of the process itself.
    pub(crate) fn of(hub: &Arc<Inner>) -> Self {
        Self { hub: Arc::downgrade(hub), provider: None }
    }

    /// The same notifier for a provider.
    pub(crate) fn for_provider(&self, provider: &Arc<dyn Provider>) -> Self {
        let announcing =
            AnnouncingProvider { provider: Arc::downgrade(provider), has_announced_unwatched: AtomicBool::new(false) };
        Self { hub: self.hub.clone(), provider: Some(Arc::new(announcing)) }
    }

    /// The hub must ask for the lists of tools again.
    pub fn tools_changed(&self) {
        self.send(Notice::ToolsChanged);
    }

    /// The hub must ask for the lists of resources and templates again.
    pub fn resources_changed(&self) {
        self.send(Notice::ResourcesChanged);
    }

    /// The hub must ask for the lists of prompts again.
    pub fn prompts_changed(&self) {
        self.send(Notice::PromptsChanged);
    }

    /// The instructions of a provider have changed. No session is notified, because instructions are sent only when a
    /// session opens.
    pub fn instructions_changed(&self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.show_again();
        }
    }

    /// Pins are stored that calls and lists waited for. No session is notified, because none of them saw the lists
    /// without these definitions.
    pub fn pins_stored(&self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.show_again();
        }
    }

    /// See [`Hub::look_again`].
    pub fn look_again(&self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.look_again();
        }
    }

    /// Whether definitions are compared with pins: see [`Governor::is_pinning`](crate::policy::Governor::is_pinning).
    pub fn is_pinning(&self) -> bool {
        self.hub.upgrade().is_some_and(|hub| hub.is_pinning())
    }

    /// The lists of one session now differ from the common ones, or have changed.
    pub fn lists_changed_for(&self, session: SessionId) {
        if let Some(hub) = self.hub.upgrade() {
            hub.lists_changed_for(session);
        }
    }

    /// The lists of a viewer now differ from the common ones, or have changed. No session is notified, because the
    /// viewer is about to list.
    pub fn lists_found_for(&self, viewer: SessionId) {
        if let Some(hub) = self.hub.upgrade() {
            hub.lists_found_for(viewer);
        }
    }

    /// A viewer sees the common lists from now on.
    pub fn lists_forgotten_for(&self, viewer: SessionId) {
        if let Some(hub) = self.hub.upgrade() {
            hub.lists_forgotten_for(viewer);
        }
    }

    /// A resource has changed. A provider uses the notifier that it got in [`Provider::attach`] and its own URI for the
    /// resource. Subscribers of the resource receive the change if policy allows it.
    pub fn resource_updated(&self, uri: &str) {
        self.resource_updated_for(uri, Hearers::All);
    }

    /// The same for some subscribers only: an event in a process of one caller does not concern other callers.
    pub fn resource_updated_for(&self, uri: &str, hearers: Hearers<'_>) {
        if let Some(hub) = self.hub.upgrade() {
            hub.updated(uri, self.provider.as_deref(), hearers);
        }
    }

    /// The hub, for a provider that answers a call by making other calls; `None` once the hub is gone.
    pub fn hub(&self) -> Option<Hub> {
        self.hub.upgrade().map(Hub::behind)
    }

    /// The mode for invisible text on its way to a downstream.
    pub fn invisible(&self) -> Invisible {
        self.hub.upgrade().map(|hub| hub.invisible()).unwrap_or_default()
    }

    /// Sends a log line that belongs to no known call.
    pub fn log(&self, log: Log) {
        self.send(Notice::Log(None, log));
    }

    /// A person has completed the page that an elicitation pointed to.
    pub fn elicitation_complete(&self, id: impl Into<String>) {
        self.send(Notice::ElicitationComplete(id.into()));
    }

    pub(crate) fn inner(&self) -> Option<Arc<Inner>> {
        self.hub.upgrade()
    }

    fn send(&self, notice: Notice) {
        if let Some(hub) = self.hub.upgrade() {
            hub.changed(notice);
        }
    }
}
