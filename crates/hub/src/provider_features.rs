//! Features that only some providers have: resources, prompts, completions, capabilities, interest in sessions, lists for certain
//! viewers, and the state of an upstream.
//!
//! A provider implements the trait and returns itself from the matching method of [`Provider`]. The hub asks through the
//! methods of `dyn Provider` below, which also have the default for a provider without the feature.

use std::sync::Arc;

use gladhand_core::negotiation::Offer;
use gladhand_core::operations::{
    CapabilityCall, Completion, CompletionCall, Failure, Prompt, Reply, Resource, Template, ToolCall,
};

use crate::policy::Who;
use crate::provider::{Answer, Caller, Context, Declared, List, Listed, Provider, SessionId, Settling};
use crate::status::UpstreamStatus;

/// A provider with resources.
pub trait ResourceProvider {
    /// The resources, in display order.
    fn resources(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// The resource templates, in display order.
    fn templates(&self) -> Vec<Template> {
        Vec::new()
    }

    /// Reads a resource, or one that matches one of the templates.
    fn read(&self, uri: &str, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::unknown_resource(uri)))
    }

    /// A caller subscribes to changes of this resource. Called for the first subscriber only. Without `by`, the
    /// provider takes over a resource that was watched elsewhere.
    fn watch(&self, _uri: &str, _by: Option<&Who<'_>>) {}

    /// The last subscription to this resource has ended.
    fn unwatch(&self, _uri: &str) {}
}

/// A provider with prompts.
pub trait PromptProvider {
    /// The prompts, in display order.
    fn prompts(&self) -> Vec<Prompt>;

    /// Fills in one of the prompts.
    fn prompt(&self, call: ToolCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::unknown_prompt(&call.name)))
    }
}

/// A provider that suggests values for arguments.
pub trait CompletionProvider {
    /// Suggests values for an argument of one of this provider's prompts or templates.
    fn complete(&self, call: CompletionCall<'_>, context: &Context<'_>) -> Answer;
}

/// A provider of capabilities besides tools, in their own protocol.
pub trait CapabilityProvider {
    /// The capabilities that this provider serves completely: `memory`, `proc`.
    fn capabilities(&self) -> Vec<&'static str>;

    /// The capabilities that may be granted over a network to a client without a token. They run no program and no
    /// model, and read no file of the user. Default: none.
    fn open_capabilities(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Answers a request of one of the capabilities with [`Reply::Capability`].
    ///
    /// Events go through [`Caller::push`]. An event that is pushed before this method returns, or before the work ends,
    /// is written before the response. State that belongs to a session ([`Caller::session`]) ends with the session
    /// ([`SessionObserver::left`]).
    fn serve(&self, call: CapabilityCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::no_capability(call.capability)))
    }
}

/// A provider that learns about sessions.
pub trait SessionObserver {
    /// There will be exactly one session, and this is known of it already. Called before any session is open, once for
    /// each fact.
    fn opening(&self, _fact: Opening<'_>) {}

    /// A session is open. From now on the provider may send requests to it outside of any call.
    fn joined(&self, _caller: &Arc<dyn Caller>) {}

    /// The roots (folders) of a session have changed.
    fn roots_changed(&self, _session: SessionId) {}

    /// A session has ended: the provider may drop the state that it kept for the session.
    fn left(&self, _session: SessionId) {}
}

/// A fact about the only session, before it is open.
#[derive(Debug, Clone, Copy)]
pub enum Opening<'o> {
    /// The client declares this offer. A provider learns it before the hub calls any other method of it.
    Offer(&'o Offer),
    /// The session speaks this dialect. A provider learns it before the first line of the session is answered. One that
    /// has something for this dialect only announces its lists as changed.
    Dialect(&'o str),
}

/// A provider whose lists differ from viewer to viewer.
pub trait ViewerLists {
    /// The lists that one viewer sees, if they differ from the common lists. The provider announces such a session with
    /// [`ChangeNotifier::lists_changed_for`](crate::ChangeNotifier::lists_changed_for).
    fn listed_for(&self, _viewer: SessionId) -> Option<Listed> {
        None
    }

    /// A number for the lists that one viewer sees, equal for viewers that see equal lists. `None`: the common lists.
    fn list_number(&self, viewer: SessionId) -> Option<u64> {
        self.listed_for(viewer).map(|_| viewer.0)
    }

    /// If the provider does not know yet what this caller sees, and that may differ from the common lists: a future
    /// that ends when it does, or when it has given up for now. A caller that lists waits for it. The provider then
    /// shows the lists by [`Self::listed_for`] to the viewer of the caller ([`Context::viewer`]).
    fn settling_for(&self, _context: &Context<'_>) -> Option<Settling> {
        None
    }
}

/// A provider that is a server, or that stands for one.
pub trait ServerProvider {
    /// The instructions for using the server, if they are passed on to clients.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// Capabilities that concern only the server and its clients, such as extensions. The hub declares them unchanged.
    fn declares(&self) -> Declared {
        Vec::new()
    }

    /// The failure of the last attempt to learn one of the lists, if it failed.
    fn trouble(&self, _list: List) -> Option<Failure> {
        None
    }

    /// The status, for people.
    fn status(&self) -> Option<UpstreamStatus> {
        None
    }

    /// Whether a session with the server is open.
    fn is_open(&self) -> bool {
        false
    }

    /// A future that opens a session with the server, and ends when it is open or could not be opened.
    fn open(&self) -> Option<Settling> {
        None
    }
}

/// The features of any provider, with the defaults for one without the feature.
impl dyn Provider + '_ {
    /// See [`ResourceProvider::resources`].
    pub fn resources(&self) -> Vec<Resource> {
        self.as_resources().map(|one| one.resources()).unwrap_or_default()
    }

    /// See [`ResourceProvider::templates`].
    pub fn templates(&self) -> Vec<Template> {
        self.as_resources().map(|one| one.templates()).unwrap_or_default()
    }

    /// See [`ResourceProvider::read`].
    pub fn read(&self, uri: &str, context: &Context<'_>) -> Answer {
        match self.as_resources() {
            Some(one) => one.read(uri, context),
            None => Answer::Now(Err(Failure::unknown_resource(uri))),
        }
    }

    pub(crate) fn watch(&self, uri: &str, by: Option<&Who<'_>>) {
        self.as_resources().into_iter().for_each(|one| one.watch(uri, by));
    }

    pub(crate) fn unwatch(&self, uri: &str) {
        self.as_resources().into_iter().for_each(|one| one.unwatch(uri));
    }

    /// See [`PromptProvider::prompts`].
    pub fn prompts(&self) -> Vec<Prompt> {
        self.as_prompts().map(|one| one.prompts()).unwrap_or_default()
    }

    /// See [`PromptProvider::prompt`].
    pub fn prompt(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        match self.as_prompts() {
            Some(one) => one.prompt(call, context),
            None => Answer::Now(Err(Failure::unknown_prompt(&call.name))),
        }
    }

    /// See [`CompletionProvider::complete`]. Default: no suggestion.
    pub fn complete(&self, call: CompletionCall<'_>, context: &Context<'_>) -> Answer {
        match self.as_completions() {
            Some(one) => one.complete(call, context),
            None => Answer::Now(Ok(Reply::Completion(Completion::default()))),
        }
    }

    /// See [`CapabilityProvider::capabilities`].
    pub fn capabilities(&self) -> Vec<&'static str> {
        self.as_capabilities().map(|one| one.capabilities()).unwrap_or_default()
    }

    /// See [`CapabilityProvider::open_capabilities`].
    pub fn open_capabilities(&self) -> Vec<&'static str> {
        self.as_capabilities().map(|one| one.open_capabilities()).unwrap_or_default()
    }

    /// See [`CapabilityProvider::serve`].
    pub fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        match self.as_capabilities() {
            Some(one) => one.serve(call, context),
            None => Answer::Now(Err(Failure::no_capability(call.capability))),
        }
    }

    /// See [`SessionObserver::opening`].
    pub fn opening(&self, fact: Opening<'_>) {
        self.as_session_observer().into_iter().for_each(|one| one.opening(fact));
    }

    /// See [`SessionObserver::joined`].
    pub fn joined(&self, caller: &Arc<dyn Caller>) {
        self.as_session_observer().into_iter().for_each(|one| one.joined(caller));
    }

    /// See [`SessionObserver::roots_changed`].
    pub fn roots_changed(&self, session: SessionId) {
        self.as_session_observer().into_iter().for_each(|one| one.roots_changed(session));
    }

    /// See [`SessionObserver::left`].
    pub fn left(&self, session: SessionId) {
        self.as_session_observer().into_iter().for_each(|one| one.left(session));
    }

    pub(crate) fn listed_for(&self, viewer: SessionId) -> Option<Listed> {
        self.as_viewer_lists()?.listed_for(viewer)
    }

    pub(crate) fn list_number(&self, viewer: SessionId) -> Option<u64> {
        self.as_viewer_lists()?.list_number(viewer)
    }

    pub(crate) fn settling_for(&self, context: &Context<'_>) -> Option<Settling> {
        self.as_viewer_lists()?.settling_for(context)
    }

    /// See [`ServerProvider::instructions`].
    pub fn instructions(&self) -> Option<String> {
        self.as_server()?.instructions()
    }

    /// See [`ServerProvider::declares`].
    pub fn declares(&self) -> Declared {
        self.as_server().map(|one| one.declares()).unwrap_or_default()
    }

    /// See [`ServerProvider::trouble`].
    pub fn trouble(&self, list: List) -> Option<Failure> {
        self.as_server()?.trouble(list)
    }

    /// See [`ServerProvider::status`].
    pub fn status(&self) -> Option<UpstreamStatus> {
        self.as_server()?.status()
    }

    /// See [`ServerProvider::is_open`].
    pub fn is_open(&self) -> bool {
        self.as_server().is_some_and(|one| one.is_open())
    }

    /// See [`ServerProvider::open`].
    pub fn open(&self) -> Option<Settling> {
        self.as_server()?.open()
    }
}
