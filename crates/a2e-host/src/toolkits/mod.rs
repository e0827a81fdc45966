//! The capability `toolkits`: bundles of tools that a session must configure before it sees them (a2e §10).
//!
//! The operator defines the toolkits. A tool of a toolkit is hidden from a session until the session configures the
//! toolkit, with a configuration that the toolkit's JSON Schema accepts. From then on the tool is listed with its
//! `toolkit`. The configuration belongs to the session and is dropped with it. Its `arguments` are added to calls of
//! the bundled tools, unless the client gives these arguments itself:
//!
//! ```json
//! {"arguments": {"read_file": {"root": "/data"}}}
//! ```

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use gladhand_core::operations::{Call, CapabilityCall, Failure, Operation, Outcome, Party, Reply, Tool, ToolCall};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{Members, RawValue, json};
use gladhand_hub::{
    Answer, Bundles, CapabilityProvider, Context, Features, Hub, Portion, Portions, Provider, SessionId,
    SessionObserver, ViewerLists,
};
use gladhand_schemas::Check;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::grants::{self, Programs};
use crate::reply;

/// The toolkits and their limits.
#[derive(Debug, Clone)]
pub struct ToolkitSettings {
    /// The toolkits, in the order in which they are listed.
    pub toolkits: Vec<Toolkit>,
    /// Maximum size of a configuration, in bytes.
    pub max_config_bytes: usize,
}

impl Default for ToolkitSettings {
    fn default() -> Self {
        Self { toolkits: Vec::new(), max_config_bytes: 64 * 1024 }
    }
}

/// A bundle of tools.
#[derive(Debug, Clone, PartialEq)]
pub struct Toolkit {
    /// The name.
    pub name: String,
    /// A shorter name that works as well; may be empty.
    pub alias: String,
    /// The description.
    pub description: String,
    /// The category.
    pub category: String,
    /// Tags for filtering.
    pub tags: Vec<String>,
    /// An icon.
    pub icon_svg: Option<String>,
    /// The version.
    pub version: String,
    /// The JSON Schema that a configuration must satisfy.
    pub schema: Value,
    /// The tools, by the names under which they are listed.
    pub tools: Vec<String>,
}

impl Default for Toolkit {
    fn default() -> Self {
        Self {
            name: String::new(),
            alias: String::new(),
            description: String::new(),
            category: String::new(),
            tags: Vec::new(),
            icon_svg: None,
            version: "1.0.0".to_owned(),
            schema: Value::Object(Map::new()),
            tools: Vec::new(),
        }
    }
}

/// Why the settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolkitSettingsError {
    /// Two toolkits have the same name.
    #[error("there are two toolkits `{0}`")]
    Twice(String),
    /// A schema is invalid.
    #[error("the schema of the toolkit `{toolkit}` cannot be used: {problem}")]
    Schema {
        /// The name of the toolkit.
        toolkit: String,
        /// Why the schema is invalid.
        problem: String,
    },
}

/// Provider of the capability `toolkits`.
#[derive(Debug)]
pub struct Toolkits {
    kits: Vec<(Toolkit, Check)>,
    /// For each tool, the indices of the toolkits that it belongs to.
    of_tool: HashMap<String, Vec<usize>>,
    max_config_bytes: usize,
    state: Mutex<State>,
    /// Tools in the lists of sessions with toolkits.
    listed: Arc<Portions>,
    /// Bytes of configurations.
    configured: Arc<Portions>,
}

/// The number of tools that all different lists of sessions with toolkits may have together. Sessions with the same
/// toolkits see the same list, which exists once. Parties share it.
const MAX_LISTED_TOOLS: usize = 200_000;

/// Maximum size in bytes of the configurations of all sessions. Parties share it.
const MAX_CONFIGURED_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<SessionId, Configured>,
    /// The selections of all sessions, by their toolkits.
    selections: HashMap<BTreeSet<usize>, Weak<Selection>>,
    /// The number of selections so far.
    numbered: u64,
}

/// The configuration of a session.
#[derive(Debug)]
struct Configured {
    /// For each toolkit index, the default arguments of each tool.
    kits: HashMap<usize, (HashMap<String, Defaults>, Portion)>,
    selection: Arc<Selection>,
}

/// A set of configured toolkits. It determines which tools a session sees.
#[derive(Debug)]
struct Selection {
    number: u64,
    _listed: Portion,
}

/// Arguments that are added to a call.
type Defaults = Vec<(String, Box<RawValue>)>;

impl Toolkits {
    /// Creates the provider, or says why the settings are invalid.
    pub fn new(settings: ToolkitSettings) -> Result<Self, ToolkitSettingsError> {
        let mut kits: Vec<(Toolkit, Check)> = Vec::new();
        let mut of_tool: HashMap<String, Vec<usize>> = HashMap::new();
        for kit in settings.toolkits {
            if kits.iter().any(|(other, _)| other.name == kit.name) {
                return Err(ToolkitSettingsError::Twice(kit.name));
            }
            let check = Check::compile(&kit.schema.to_string())
                .map_err(|problem| ToolkitSettingsError::Schema { toolkit: kit.name.clone(), problem })?;
            for tool in &kit.tools {
                of_tool.entry(tool.clone()).or_default().push(kits.len());
            }
            kits.push((kit, check));
        }
        Ok(Self {
            kits,
            of_tool,
            max_config_bytes: settings.max_config_bytes,
            state: Mutex::default(),
            listed: Portions::of(MAX_LISTED_TOOLS, 0),
            configured: Portions::lasting(MAX_CONFIGURED_BYTES, 0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }

    /// Adds a toolkit to a session of a party. `tools`: the length of the lists of tools.
    fn add(
        &self,
        session: SessionId,
        (place, defaults): (usize, HashMap<String, Defaults>),
        tools: usize,
        party: Party,
    ) -> Result<(), Failure> {
        let bytes = defaults.iter().map(|(tool, defaults)| tool.len() + size(defaults)).sum();
        let mut portion = self.configured.portion(party);
        if !portion.grow(bytes) {
            return Err(Failure::refused("the configurations of this client are too large; end a session first"));
        }
        let mut state = self.state();
        let state = &mut *state;
        let mut kits: BTreeSet<_> =
            state.sessions.get(&session).into_iter().flat_map(|configured| configured.kits.keys().copied()).collect();
        kits.insert(place);
        let known = state.selections.get(&kits).and_then(Weak::upgrade);
        let selection = match known {
            Some(selection) => selection,
            None => {
                let mut listed = self.listed.portion(party);
                if !listed.grow(tools.max(1)) {
                    let message = "the sessions of this client have too many different sets of toolkits";
                    return Err(Failure::refused(message));
                }
                state.numbered += 1;
                let selection = Arc::new(Selection { number: state.numbered, _listed: listed });
                state.selections.retain(|_, selection| selection.strong_count() > 0);
                state.selections.insert(kits, Arc::downgrade(&selection));
                selection
            }
        };
        let none = || Configured { kits: HashMap::new(), selection: Arc::clone(&selection) };
        let configured = state.sessions.entry(session).or_insert_with(none);
        configured.kits.insert(place, (defaults, portion));
        configured.selection = selection;
        Ok(())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct List {
    filter_kind: String,
    filter_tags: Vec<String>,
}

impl List {
    /// Whether a toolkit is listed: it has the category and all tags of the filter.
    fn shows(&self, kit: &Toolkit) -> bool {
        let same = |one: &str, other: &str| one.to_lowercase() == other.to_lowercase();
        let is_kind = self.filter_kind.is_empty() || same(&self.filter_kind, &kit.category);
        is_kind && self.filter_tags.iter().all(|wanted| kit.tags.iter().any(|tag| same(wanted, tag)))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Configure {
    toolkit_name: String,
    config: Map<String, Value>,
}

impl Provider for Toolkits {
    fn name(&self) -> &str {
        "toolkits"
    }

    fn features(&self) -> Features {
        // A configuration concerns only its own session, and A2E has no message for a changed list.
        Features { silent: true, ..Features::default() }
    }

    fn bundles(&self) -> Option<&dyn Bundles> {
        if self.kits.is_empty() { None } else { Some(self) }
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }

    fn as_viewer_lists(&self) -> Option<&dyn ViewerLists> {
        Some(self)
    }
}

impl CapabilityProvider for Toolkits {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["toolkits"]
    }

    fn open_capabilities(&self) -> Vec<&'static str> {
        grants::open("toolkits", Programs::None)
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        let answer = match call.kind {
            "toolkit/list/req" => self.list(&call, context),
            "toolkit/configure/req" => self.configure(&call, context),
            kind => Err(Failure::refused(format!("{kind} is not a request of toolkits"))),
        };
        answer.unwrap_or_else(|failure| Answer::Now(Err(failure)))
    }
}

impl SessionObserver for Toolkits {
    fn left(&self, session: SessionId) {
        self.state().sessions.remove(&session);
    }
}

impl ViewerLists for Toolkits {
    fn list_number(&self, session: SessionId) -> Option<u64> {
        // Equal numbers mean equal lists, which sessions then share.
        self.state().sessions.get(&session).map(|configured| configured.selection.number)
    }
}

impl Bundles for Toolkits {
    fn shown(&self, mut tool: Tool, session: Option<SessionId>) -> Option<Tool> {
        let Some(kits) = self.of_tool.get(&tool.name) else { return Some(tool) };
        let state = self.state();
        let configured = state.sessions.get(&session?)?;
        let kit = kits.iter().find(|kit| configured.kits.contains_key(kit))?;
        tool.extra.retain(|(name, _)| name != "toolkit");
        tool.extra.push(("toolkit".to_owned(), json::to_raw(&self.kits[*kit].0.name)));
        Some(tool)
    }

    fn completed<'a>(&self, call: ToolCall<'a>, session: SessionId) -> ToolCall<'a> {
        let Some(kits) = self.of_tool.get(&*call.name) else { return call };
        let state = self.state();
        let configured = state.sessions.get(&session);
        let kit = configured.and_then(|configured| kits.iter().find_map(|kit| configured.kits.get(kit)));
        let Some(defaults) = kit.and_then(|(kit, _)| kit.get(&*call.name)) else { return call };
        // The tool refuses arguments that are not an object.
        let Some(given) = Members::of(&call.arguments) else { return call };
        let added = defaults.iter().filter(|(name, _)| !given.has(name));
        let added = added.map(|(name, value)| format!("{}:{}", json::to_raw(name), value.get()));
        let given = given.iter().map(|(name, value)| format!("{}:{}", json::to_raw(name), value.get()));
        let arguments = format!("{{{}}}", given.chain(added).collect::<Vec<_>>().join(","));
        ToolCall { arguments: Cow::Owned(json::raw(arguments)), ..call }
    }
}

impl Toolkits {
    fn list(&self, call: &CapabilityCall<'_>, context: &Context<'_>) -> Result<Answer, Failure> {
        let filter: List = call.read()?;
        let state = self.state();
        let configured = state.sessions.get(&context.caller.session());
        let kits = self.kits.iter().enumerate().filter(|(_, (kit, _))| filter.shows(kit)).map(|(place, (kit, _))| {
            json!({
                "name": kit.name, "alias": kit.alias, "description": kit.description, "category": kit.category,
                "tags": kit.tags, "icon_svg": kit.icon_svg, "schema": kit.schema, "tools": kit.tools,
                "configured": configured.is_some_and(|configured| configured.kits.contains_key(&place)),
                "version": kit.version,
            })
        });
        Ok(Answer::Now(reply(&json!({"toolkits": kits.collect::<Vec<_>>()}))))
    }

    fn configure(&self, call: &CapabilityCall<'_>, context: &Context<'_>) -> Result<Answer, Failure> {
        let session = context.caller.session();
        if session == SessionId::NONE {
            return Err(Failure::refused("a toolkit can only be configured within a session"));
        }
        if call.message.get().len() > self.max_config_bytes {
            return Err(Failure::refused(format!("config: larger than {} bytes", self.max_config_bytes)));
        }
        let Configure { toolkit_name, config } = call.read()?;
        let matches = |kit: &Toolkit| kit.name == toolkit_name || (!kit.alias.is_empty() && kit.alias == toolkit_name);
        let place = self.kits.iter().position(|(kit, _)| matches(kit));
        let place = place.ok_or_else(|| Failure::refused(format!("unknown toolkit: {toolkit_name}")))?;
        let (kit, check) = &self.kits[place];
        let config = Value::Object(config);
        check.check_secret("config", &config).map_err(|problem| Failure::refused(problem.to_string()))?;
        let defaults = defaults(&config, kit)?;
        let hub = context.notifier.hub();
        let listed = hub.as_ref().map_or(0, |hub| hub.tools().len());
        self.add(session, (place, defaults), listed, context.terms.party.unwrap_or(Party(0)))?;
        // Other sessions need not be told, and this one has no message for a changed list.
        context.notifier.lists_found_for(session);
        let tools = kit.tools.clone();
        let Some(hub) = hub else { return Ok(Answer::Now(configured(&toolkit_name, &[]))) };
        let listed = seen(&hub, context);
        Ok(Answer::later(async move {
            let listed = listed.outcome().await;
            let exists = |name: &String| match &listed {
                Ok(Reply::Tools(seen)) => seen.iter().any(|tool| tool.name == *name),
                _ => false,
            };
            let missing: Vec<_> = tools.into_iter().filter(|name| !exists(name)).collect();
            configured(&toolkit_name, &missing)
        }))
    }
}

/// The size of default arguments in bytes.
fn size(defaults: &Defaults) -> usize {
    defaults.iter().map(|(name, value)| name.len() + value.get().len()).sum()
}

/// The tools that the caller sees now.
fn seen(hub: &Hub, context: &Context<'_>) -> Answer {
    let call = Call { id: context.call, operation: Operation::ListTools, terms: context.terms.on_behalf() };
    hub.answer(call, context.agreement, context.caller)
}

/// The response to an accepted configuration.
fn configured(toolkit: &str, missing: &[String]) -> Outcome {
    let status = if missing.is_empty() { "ok" } else { "partial" };
    let message = (!missing.is_empty()).then(|| format!("these tools do not exist: {}", missing.join(", ")));
    reply(&json!({"toolkit_name": toolkit, "status": status, "message": message}))
}

/// The default arguments of each tool in a configuration.
fn defaults(config: &Value, kit: &Toolkit) -> Result<HashMap<String, Defaults>, Failure> {
    let Some(arguments) = config.get("arguments") else { return Ok(HashMap::new()) };
    let no_object = |path: &str| Failure::refused(format!("config.{path}: must be an object"));
    let arguments = arguments.as_object().ok_or_else(|| no_object("arguments"))?;
    let mut all = HashMap::new();
    for (tool, given) in arguments {
        let path = format!("arguments.{tool}");
        if !kit.tools.contains(tool) {
            return Err(Failure::refused(format!("config.{path}: the toolkit has no such tool")));
        }
        let given = given.as_object().ok_or_else(|| no_object(&path))?;
        all.insert(tool.clone(), given.iter().map(|(name, value)| (name.clone(), json::to_raw(value))).collect());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolkits() -> Toolkits {
        let kit = |number: usize| Toolkit { name: format!("kit{number}"), ..Toolkit::default() };
        let settings = ToolkitSettings { toolkits: (0..12).map(kit).collect(), ..ToolkitSettings::default() };
        Toolkits::new(settings).expect("the names differ")
    }

    #[test]
    fn sessions_with_the_same_toolkits_see_the_same_list() {
        let toolkits = toolkits();
        let add = |session: u64, kit: usize| {
            let added = toolkits.add(SessionId(session), (kit, HashMap::new()), MAX_LISTED_TOOLS / 2, Party(session));
            added.map(|()| toolkits.list_number(SessionId(session)))
        };
        let first = add(1, 0).expect("there is room");
        let same: Vec<_> = (2..1000).map(|session| add(session, 0).expect("it takes no further room")).collect();
        assert!(first.is_some() && same.iter().all(|number| *number == first));
        assert_ne!(add(1, 1).expect("there is room"), first);
        toolkits.left(SessionId(1));
        assert_eq!((toolkits.list_number(SessionId(1)), toolkits.list_number(SessionId(2))), (None, first));
    }

    #[test]
    fn different_lists_and_configurations_have_bounds_that_parties_share() {
        let toolkits = toolkits();
        // Every session of one party with another set of toolkits.
        let mut sets = (1_u64..4096).map(|set| {
            let kits = (0..12).filter(move |kit| set & (1 << kit) != 0);
            kits.map(|kit| toolkits.add(SessionId(set), (kit, HashMap::new()), 10_000, Party(1))).find(Result::is_err)
        });
        let held = sets.by_ref().take_while(Option::is_none).count();
        assert!(held <= 2 * MAX_LISTED_TOOLS / 10_000, "{held}");
        let other = |kit: usize| toolkits.add(SessionId(10_000), (kit, HashMap::new()), 10_000, Party(2));
        assert!(other(11).is_ok(), "another party has its share");

        let large = || HashMap::from([("t".to_owned(), vec![("a".to_owned(), json::to_raw(&"x".repeat(1 << 20)))])]);
        let configure = |session: u64, party: u64| toolkits.add(SessionId(session), (0, large()), 1, Party(party));
        let held = (20_000..21_000).take_while(|session| configure(*session, 1).is_ok()).count();
        assert!((32..=64).contains(&held), "{held}");
        assert!(configure(30_000, 2).is_ok(), "another party has its share");
    }
}
